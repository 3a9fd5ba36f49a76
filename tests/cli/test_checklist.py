"""The definition of done on the terminal and in the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import DESIGN, FEW_DRAWS, gmb

from gmb_hf import Results
from gmb_hf.cli import screen as show

JUDGE = ("--score=embedding_gini", *DESIGN)


def boxes(text: str) -> list[str]:
    return [line[:3] for line in text.splitlines() if line[:3] in ("[x]", "[ ]")]


def test_evaluate_prints_the_checklist_and_the_report_has_it(csv_logs: Path):
    done = gmb("evaluate", "--runs", csv_logs, *JUDGE)
    assert done.code == 0, done
    assert "Definition of done (specification, section 7): 1 of 5 boxes open" in done.out
    assert boxes(done.out) == ["[x]"] * 4 + ["[ ]"]
    assert "At least 30 events across seeds: 48 events in 48 runs" in done.out
    report = Path("results/report.md").read_text(encoding="utf-8")
    assert report.count("- [x] ") == 4
    assert "tables/gate_summary.csv, a row for each of 4 indicators" in report


def test_an_open_box_is_shown_and_no_failure(small_csv: Path):
    done = gmb("evaluate", "--runs", small_csv, "--score=embedding_gini", "--horizon=60",
               "--safe-gap=100", *FEW_DRAWS)  # fmt: skip
    assert done.code == 0, done
    assert "2 of 5 boxes open" in done.out
    assert boxes(done.out) == ["[ ]", "[x]", "[x]", "[x]", "[ ]"]
    report = Path("results/report.md").read_text(encoding="utf-8")
    assert "- [ ] At least 30 events across seeds" in report
    assert "not** acceptable" in report


def test_it_fits_80_columns_and_goes_on_below_its_text(
    csv_logs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("gmb_hf.report.figures.draw", lambda *_, **__: {})
    gmb("evaluate", "--runs", csv_logs, *JUDGE)
    monkeypatch.setenv("COLUMNS", "80")
    show.checklist(Results.read("results/results.yaml"), Path("results"))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert all(len(line) <= 80 for line in lines)
    folded = [line for line in lines[2:] if line and not line.startswith("[")]
    assert folded
    assert all(line.startswith("     ") for line in folded)
