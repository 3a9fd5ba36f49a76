"""Two processes that train together are watched by one monitor and stop together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launched import run
from live_runs import Replayed

from gmb_hf.monitor.callback import LOG_FILE


@pytest.mark.slow
def test_two_processes_stop_together(judged: Path, replayed: Replayed, tmp_path: Path) -> None:
    column = tmp_path / "column.json"
    column.write_text(json.dumps(replayed.values))
    script = Path(__file__).with_name("two_processes.py")
    done = run(script, judged, column, tmp_path / "out", processes=2)
    assert done.returncode == 0, done.stderr[-2000:]
    ends = [(tmp_path / "out" / f"ended-{rank}").read_text() for rank in range(2)]
    log = (tmp_path / "out" / LOG_FILE).read_text()
    assert ends == [str(replayed.alarm)] * 2
    assert [json.loads(row)["step"] for row in log.splitlines()] == list(
        range(0, replayed.alarm + 10, 10)
    )
    assert done.stderr.count("ALARM: embedding_gini_gain reached") == 1
