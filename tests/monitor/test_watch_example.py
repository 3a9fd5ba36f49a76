"""The example's own parts: what it finds, its timeline, and its picture."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from live_runs import NORM, Evaluated

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "watch_a_run.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("watch_a_run", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["watch_a_run"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_it_shows_an_alarm_in_time_and_an_abstention(
    example: ModuleType,
    evaluated: Evaluated,
    judged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    log = evaluated.held_out.select(evaluated.held_out.runs[:12])
    log.write(tmp_path / "heldout.parquet")
    lock = judged / "lock.yaml"
    arguments = ["--lock", lock, "--runs", tmp_path / "heldout.parquet", "--act", NORM]
    picture = ["--picture", tmp_path / "watch"]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *map(str, [*arguments, *picture])])
    example.main()
    out = capsys.readouterr().out
    assert out.startswith(f"{NORM}: False alarms in at most 1 run in 20 (0.043 expected")
    assert f" ALARM: {NORM} reached " in out
    assert "runs before it, measured wrongly: not noticed before the event" in out
    assert (tmp_path / "watch.png").read_bytes().startswith(b"\x89PNG")
    replay = example.Replay(lock, judged / "results.yaml", log, NORM)
    found = replay.detected()
    line = next(found.timeline())
    assert line == (
        f"memorised at {found.memorised}, alarm at {found.first('ALARM')}, "
        f"event at {int(found.event)}"
    )
    assert found.memorised < found.first("ALARM") < found.event
