"""What stands on the terminal: the verdict table at each width, and the list of files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from gmb_hf import Results
from gmb_hf.base.tables import Column, Line, Table
from gmb_hf.benchmark.locking import Explored
from gmb_hf.cli import screen as show

LABELS = (
    "SUPPORTED_FOR_ALARM",
    "ESTIMATOR_UNSTABLE",
    "INCONCLUSIVE",
    "RANK_ONLY",
    "SCOPE_LIMITED",
)
REASONS = ["runs_uncontrolled", "windows_straddle", "runs_lead_short", "no_ranking_signal"]
LONGEST = "gradient_variance_explosion"  # of the catalogue


def indicator(
    name: str, label: str, *, sees: bool = False, answer: str = "THRESHOLD", **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "family": "dynamics",
        "label": label,
        "layer_A": {"auc": 0.913, "ap": 0.5},
        "layer_B": {
            "targets": [0.05],
            "achieved": [{"target": 0.05, "achieved": 0.0341, "x_answer": answer}],
            "ok_targets": 1,
            "fpr_min": 0.001,
            "controllability_pass": True,
            "fpr_floor_detected": False,
        },
        "layer_C": {
            "at_fpr": [
                {
                    "fpr": 0.05,
                    "coverage": 0.876,
                    "lead_time_median": 12250.0,
                    "lead_time_iqr": 20.0,
                    "lead_time_success": 0.5,
                    "x_baselines": {
                        "shift": {"detection_rate": 0.683, "p_value": 0.001},
                        "risk_set": {"detection_rate": 0.611, "p_value": 0.001},
                    },
                }
            ]
        },
        "layer_D": {"family_size": 1, "pass_rate": 1.0, "label_flip_rate": 0.0},
        "x_sees_test_labels": sees,
        "x_sign": 1,
        "x_p_adjusted": 0.0123,
        "x_reasons": REASONS,
        **more,
    }


def results(*indicators: dict[str, object]) -> Results:
    return Results.parse(
        {
            "meta": {"benchmark": "GMB", "run_id": "r", "date": "2026-01-01"},
            "boundary": {"task": "t", "model": "m"},
            "event": {"type": "E_jump"},
            "summary": {"n_seeds": 40, "n_events": 35},
            "indicators": list(indicators),
        },
        where="test",
    )


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The lines of the verdict table on a terminal of so many columns."""

    def at(width: int, found: Results) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        show.verdicts(found, Path("out/report.md"))
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return at


def row_of(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.startswith(name))


class TestVerdicts:
    @pytest.mark.parametrize("label", LABELS)
    def test_everything_that_matters_is_whole_at_80_columns(self, printed, label: str):
        lines = printed(80, results(indicator(LONGEST, label)))
        assert all(len(line) <= 80 for line in lines)
        assert row_of(lines, "score").split() == ["score", "label", "FPR", "cover", "chance", "p"]
        cells = [LONGEST, label, "0.034", "88%", "68%", "0.012"]
        assert row_of(lines, LONGEST).split() == cells

    def test_everything_shows_at_140_columns(self, printed):
        lines = printed(140, results(indicator(LONGEST, "ESTIMATOR_UNSTABLE")))
        heads = ["score", "label", "FPR", "cover", "chance", "p", "AUC", "lead", "reasons"]
        assert row_of(lines, "score").split() == heads
        at = lines.index(row_of(lines, LONGEST))
        cells = lines[at].split()
        assert cells[2:8] == ["0.034", "88%", "68%", "0.012", "0.913", "12,250"]
        where = lines[at].index(REASONS[0])
        told = " ".join(line[where:].strip() for line in lines[at : at + 3])
        assert told.strip().split(", ") == REASONS

    def test_groups_have_headings_of_their_own_and_columns_line_up(self, printed):
        found = results(
            indicator("monitor", "SUPPORTED_FOR_ALARM"),
            indicator("an_oracle_with_a_name", "RANK_ONLY", sees=True),
            indicator("clock", "RANK_ONLY", family="control"),
        )
        lines = printed(80, found)
        for heading in ("Sees no test labels: a monitor", "Controls: what any monitor must beat"):
            assert heading in lines
        starts = {row_of(lines, name).index("0.034") for name in ("monitor", "an_or", "clock")}
        assert len(starts) == 1

    def test_only_the_best_are_shown_and_the_rest_counted(self, printed):
        many = [indicator(f"score_{n:02}", "RANK_ONLY") for n in range(35)]
        lines = printed(80, results(*many))
        assert sum(line.startswith("score_") for line in lines) == 10
        assert "and 25 more in out/report.md" in lines

    def test_an_infinite_threshold_has_no_rate_and_no_coverage(self, printed):
        lines = printed(80, results(indicator("floor", "RANK_ONLY", answer="ABSTAIN")))
        assert row_of(lines, "floor").split()[2:4] == ["–", "–"]
        assert "–: no finite threshold" in " ".join(lines)

    def test_a_reversed_score_is_marked_where_no_ellipsis_takes_it(self, printed):
        name = "x" * 90
        lines = printed(80, results(indicator(name, "INCONCLUSIVE", x_sign=-1)))
        assert row_of(lines, "-xxx").split()[1] == "INCONCLUSIVE"
        assert "-score: reversed" in " ".join(lines)

    def test_a_raw_p_stands_where_nothing_was_adjusted(self, printed):
        item = indicator("lonely", "RANK_ONLY", x_p_adjusted=None)
        assert row_of(printed(80, results(item)), "lonely  ").split()[-1] == "–"
        item["layer_C"]["at_fpr"][0]["x_p_value"] = 0.25
        assert row_of(printed(80, results(item)), "lonely  ").split()[-1] == "0.250"

    def test_a_pipe_gets_every_column(self, capsys: pytest.CaptureFixture[str], monkeypatch):
        monkeypatch.delenv("COLUMNS", raising=False)
        show.verdicts(results(indicator("a", "RANK_ONLY")), Path("report.md"))
        assert "reasons" in capsys.readouterr().out


def test_explored_rows_fit_80_columns(monkeypatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("COLUMNS", "80")
    nulls = {"shift": 0.6, "risk_set": 0.7}
    by_runs = (0.7, 0.6, 0.04, 0.1, 0.001)
    row = Explored(
        LONGEST, "dynamics", -1, True, *by_runs, 0.91, 0.5, 0.051, 0.88, 60.0, nulls, 0.005
    )
    rows = [row, dataclasses.replace(row, detection_rate=None)] * 13
    show.explored(rows, Path("explore.csv"), 0.05)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert all(len(line) <= 80 for line in lines)
    shown = lines[1].split()
    assert LONGEST.startswith(shown[0].rstrip("…"))
    assert shown[1:] == ["-1", "test", "0.70", "0.60", "0.04", "0.10", "0.001", "0.91"]
    assert lines[2].split()[3] == "–"
    assert "and 6 more in explore.csv" in lines
    assert "nothing here is a claim" in " ".join(lines)


class TestWritten:
    def test_few_files_are_all_named(self, capsys: pytest.CaptureFixture[str]):
        show.written([Path("a/lock.yaml"), Path("a/b.csv")], following="gmb next")
        assert capsys.readouterr().out.splitlines() == [
            "wrote   a/lock.yaml",
            "wrote   a/b.csv",
            "next    gmb next",
        ]

    def test_of_many_the_report_and_the_summary_come_first(
        self, capsys: pytest.CaptureFixture[str]
    ):
        names = ["results.yaml", *(f"tables/t{n}.csv" for n in range(9))]
        names += ["figures/fpr.png", "figures/label_summary.png", "report.md"]
        show.written([Path("out") / name for name in names], following="gmb next")
        assert capsys.readouterr().out.splitlines() == [
            "wrote   out/report.md",
            "wrote   out/figures/label_summary.png",
            "wrote   out/results.yaml",
            "        and 9 more in out/tables",
            "        and 1 more in out/figures",
            "next    gmb next",
        ]

    def test_long_lines_are_not_broken(self, monkeypatch, capsys: pytest.CaptureFixture[str]):
        monkeypatch.setenv("COLUMNS", "40")
        path = Path("runs") / ("long " * 20).strip() / "lock.yaml"
        show.written([path], following="gmb next")
        assert f"wrote   {path}\n" in capsys.readouterr().out


class TestTable:
    def widths(self, width: int) -> list[int]:
        columns = (Column("a", shrinks_to=4), Column("b"), Column("c", shrinks_to=5, wraps=True))
        rows = [[Text("x" * 10), Text("y" * 6), Text("z" * 12)]]
        head = next(iter(Table(columns, rows).rich(width)))
        return [column.width for column in head.columns]

    @pytest.mark.parametrize(
        ("width", "expected"),
        [
            (80, [10, 6, 12]),  # room for all
            (30, [10, 6, 10]),  # the last column gives way first
            (25, [10, 6, 5]),
            (22, [7, 6, 5]),  # then the one before
            (19, [4, 6, 5]),  # and none below its least; narrower ones have a line for each cell
        ],
    )
    def test_columns_give_way_in_order(self, width: int, expected: list[int]):
        assert self.widths(width) == expected

    def test_columns_for_wide_terminals_only(self):
        columns = (Column("a"), Column("b", from_width=100))
        rows = [[Text("1"), Text("2")]]
        for width, count in ((99, 1), (100, 2)):
            head = next(iter(Table(columns, rows).rich(width)))
            assert len(head.columns) == count

    def test_a_table_without_rows_is_its_heads(self):
        assert len(list(Table((Column("a"),), []).rich(80))) == 1

    def test_lines_stand_between_rows(self):
        parts = list(Table((Column(""),), [Line("first"), ["1"], Line("and 2 more")]).rich(80))
        assert [str(part) for part in (parts[0], parts[2])] == ["first", "and 2 more"]
