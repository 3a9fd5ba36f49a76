"""The page on monitors does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from live_runs import Evaluated

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitor.md"


def test_the_example_prints_what_the_page_shows(
    evaluated: Evaluated,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL))
    rows = list(evaluated.rows(4))
    rows[18]["embedding_norm"] = float("nan")
    (tmp_path / "run.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    evaluated.lock.write(tmp_path / "lock.yaml")
    evaluated.results.write(tmp_path / "results.yaml")
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks["python"], str(PAGE), "exec"), {})
    assert capsys.readouterr().out == blocks["text"]
