"""The three tables: the specification's columns first, other people's names as they are."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest
from evaluation_builders import TARGETS, results
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base import escape
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.results import Results
from gmb_hf.report.tables import (
    first_alarm,
    gate_summary,
    other_events,
    robustness,
    utility_at_fpr,
    write_tables,
)

SPEC = {
    gate_summary: "indicator,AUC,AP,controllability_pass,fpr_floor,ok_targets,label",
    utility_at_fpr: "indicator,FPR,coverage,lead_time_median,lead_time_IQR,lead_time_success",
    robustness: "indicator,family_size,pass_rate,label_flip_rate,notes",
}
NASTY = 'a|b, "c" & 50%_$x$ <i>*\\'


@pytest.fixture(scope="module")
def found() -> Results:
    return results(["train_accuracy", "csd_lag1", "held_out_loss", "clock"])


@pytest.fixture(scope="module")
def nasty() -> Results:
    return results([NASTY])


@pytest.mark.parametrize("table", SPEC)
def test_the_specification_s_columns_come_first(table, found: Results) -> None:  # type: ignore[no-untyped-def]
    head = table(found).csv().splitlines()[0]
    assert head.startswith(SPEC[table] + ",")


def test_csv_holds_every_number_in_full(found: Results) -> None:
    rows = list(csv.DictReader(io.StringIO(utility_at_fpr(found).csv())))
    assert len(rows) == 4 * len(TARGETS)
    for row in rows:
        point = found.indicator(row["indicator"]).point(float(row["FPR"]))
        assert point is not None
        assert float(row["coverage"]) == point.coverage
        lead = row["lead_time_median"]
        assert (float(lead) if lead else None) == point.lead_time_median
    assert math.isinf(float(rows[0]["threshold"]))
    assert rows[0]["p_shift"] == ""


def test_the_gate_shows_intervals_chance_and_reasons(found: Results) -> None:
    rows = {row["indicator"]: row for row in csv.DictReader(io.StringIO(gate_summary(found).csv()))}
    row, item = rows["csd_lag1"], found.indicator("csd_lag1")
    achieved = item.achieved(0.05)
    assert achieved is not None
    assert achieved.x_interval is not None
    assert float(row["achieved_fpr_0.05"]) == achieved.achieved
    assert float(row["fpr_low_0.05"]) == achieved.x_interval.low
    assert row["sees_test_labels"] == "false"
    assert rows["held_out_loss"]["sees_test_labels"] == "true"
    assert rows["train_accuracy"]["reasons"] == "false-alarm floor by windows"
    assert rows["train_accuracy"]["fpr_floor"] == "true"


def test_markdown_rounds_and_has_a_dash_for_what_does_not_exist(found: Results) -> None:
    lines = utility_at_fpr(found).md().splitlines()
    assert lines[1].startswith("| :--- | ---: |")
    assert "| train_accuracy | 0.01 | 0.000 | – | – |" in lines[2]
    assert " ∞ " in lines[2]
    assert all(line.count("|") == lines[0].count("|") for line in lines)


def test_latex_is_a_whole_table(found: Results) -> None:
    text = gate_summary(found).tex()
    assert text.count("\\begin") == text.count("\\end") == 2
    assert "train\\_accuracy & " in text
    body = [line for line in text.splitlines() if line.endswith("\\\\")]
    assert len(body) == 5
    assert len({line.count("&") for line in body}) == 1
    assert "$\\infty$" in utility_at_fpr(found).tex()


def test_a_name_full_of_markup_stays_a_name(nasty: Results) -> None:
    table = robustness(nasty)
    (row,) = csv.DictReader(io.StringIO(table.csv()))
    assert row["indicator"] == NASTY
    assert '| a\\|b, "c" \\& 50%\\_\\$x\\$ \\<i\\>\\*\\\\ |' in table.md()
    assert (
        "a\\textbar{}b, \\textquotedbl{}c\\textquotedbl{} \\& 50\\%\\_\\$x\\$ "
        "\\textless{}i\\textgreater{}*\\textbackslash{} &"
    ) in table.tex()


def test_every_table_is_written(found: Results, tmp_path: Path) -> None:
    written = write_tables(found, tmp_path / "tables")
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{suffix}"
        for name in ("gate_summary", "utility_at_fpr", "robustness", "first_alarm", "other_events")
        for suffix in ("csv", "md", "tex")
    )
    assert all(path.stat().st_size > 100 for path in written)
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write_tables(found, tmp_path / "tables")] == before


def test_first_alarms_at_every_budget_and_before_every_event(found: Results) -> None:
    rows = list(csv.DictReader(io.StringIO(first_alarm(found).csv())))
    assert len(rows) == 3 * len(found.indicators)
    assert [row["budget"] for row in rows[:3]] == ["0.05", "0.1", "0.2"]
    for row in rows:
        parts = sum(int(row[name]) for name in ("n_timely", "n_early", "n_missed"))
        assert parts + int(row["n_false_before_event"]) == int(row["n_events"])
        assert (row["p_adjusted"] != "") is (row["budget"] == "0.05")
        assert row["group"] in {"monitor", "oracle", "control"}
    assert {"constant_hazard", "risk_set", "clock", "p_clock", "label"} <= set(rows[0])
    events = list(csv.DictReader(io.StringIO(other_events(found).csv())))
    assert [row["event"] for row in events[:2]] == ["E_jump 0.2 in 100", "E_plateau 0.9 x 5"]
    assert [row["primary"] for row in events[:2]] == ["true", "false"]


def test_results_by_windows_alone_have_no_tables_by_runs(found: Results, tmp_path: Path) -> None:
    bare = [
        item.model_copy(update={"x_first_alarm": None, "x_alarm_eligible": False})
        for item in found.indicators
    ]
    windows = found.model_copy(update={"indicators": tuple(bare)})
    assert len(write_tables(windows, tmp_path)) == 9


@given(st.text())
def test_a_cell_is_one_line_and_never_splits_a_row(name: str) -> None:
    for text in (escape.markdown(name), escape.latex(name)):
        assert "\n" not in text
        assert text.isprintable()
    bare = escape.markdown(name).replace("\\\\", "").replace("\\|", "")
    assert "|" not in bare
    assert "&" not in escape.latex(name).replace("\\&", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("=cmd|'/C calc'!A0", "'=cmd|'/C calc'!A0"),
        ("+1+1", "'+1+1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-drop", "'-drop"),
        ("\t=1", "'\t=1"),
        ("-0.5", "-0.5"),
        ("-", "-"),
        ("embedding_gini", "embedding_gini"),
    ],
)
def test_csv_holds_no_formula(text: str, shown: str) -> None:
    assert escape.spreadsheet(text) == shown
    table = Table([Column("name"), Column("value", escape.number)], [(text, -0.5)])
    assert next(csv.reader([table.csv().splitlines()[1]])) == [shown, "-0.5"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://evil.example", r"https\://evil.example"),
        ("www.evil.example", r"www\.evil.example"),
        ("WWW.evil.example", r"WWW\.evil.example"),
        ("a@evil.example", "a<!-- -->@evil.example"),
        ("step 3: a @ b", "step 3: a @ b"),
        ("acme/runs@main", "acme/runs@main"),
    ],
)
def test_addresses_do_not_link_themselves(text: str, shown: str) -> None:
    assert escape.markdown(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "–"), (0.12345, "0.123"), (math.inf, "∞"), (-math.inf, "−∞")],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert escape.number(value) == shown


def test_steps_p_values_and_flags() -> None:
    assert [escape.steps(12500.0), escape.steps(None)] == ["12,500", "–"]
    assert [escape.p_value(0.0005), escape.p_value(0.049)] == ["<0.001", "0.049"]
    assert [escape.yes_no(value) for value in (True, False, None)] == ["yes", "no", "–"]
    assert escape.markdown("embedding_norm_drop") == "embedding_norm_drop"
