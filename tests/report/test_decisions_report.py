"""Decisions in words, as a table and as a figure."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from benchmark.decision_runs import EXPLORE, lock_on, log_of

from gmb_hf import Decisions, decide
from gmb_hf.report.decision_curves import plot_decisions
from gmb_hf.report.decisions import answers, decisions_table, sentence, write_decisions

HELD_OUT = [*EXPLORE[::4], *[(None, None)] * 6]


@pytest.fixture(scope="module")
def found() -> Decisions:
    explored = log_of(EXPLORE)
    return decide(lock_on(explored), log_of(HELD_OUT, first_seed=1000), explore=explored)


def test_the_answer_is_a_sentence(found: Decisions):
    first, second = answers(found)
    assert first.startswith("Stopping runs without an alarm of score by step 290 saves 43% ")
    assert "] of steps and loses 0 of 10 events, 0% [0, 31] (5% tolerated)" in first
    assert first.endswith("the onset of test_acc saves 20%.")
    assert "losing no more, the clock alone saves 29%" in first
    assert second.startswith("Stopping runs ")
    clock = next(one for one in found.decisions if one.name == "clock")
    assert sentence(found, clock).startswith("Stopping every run at step 590 saves ")
    onset = [one for one in found.decisions if one.name == "onset"][1]
    assert "steps after an onset of test_acc" in sentence(found, onset)


def test_what_was_refuted_says_so(found: Decisions):
    one = found.best("without_alarm")
    assert one is not None
    missed = one.model_copy(update={"state": "missed"})
    assert "(more than the 5% tolerated)" in sentence(found, missed)
    lacking = one.model_copy(update={"judged": None})
    assert sentence(found, lacking) == "score: no choice keeps the share of lost events at 5%."


def test_the_table_has_every_number(found: Decisions):
    table = decisions_table(found)
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [row["score"] for row in rows[:2]] == ["score", "other"]
    assert len(rows) == len(found.decisions)
    one = found.best("without_alarm")
    assert one is not None
    assert one.judged is not None
    assert float(rows[0]["saved_heldout"]) == one.judged.saved
    assert float(rows[0]["clock_saves"]) == one.rivals["clock"]


def test_the_figure_has_the_curves_and_the_points(found: Decisions, tmp_path: Path):
    figure = plot_decisions(found)
    left, right = figure.axes
    best = found.best("without_alarm")
    assert best is not None
    assert best.judged is not None
    points = [line.get_xydata() for line in left.lines if line.get_marker() == "o"]
    assert any(np.allclose(at, [[best.judged.lost, best.judged.saved]]) for at in points)
    legend = right.get_legend()
    assert legend is not None
    assert "the clock alone (step 590)" in [text.get_text() for text in legend.get_texts()]
    written = write_decisions(found, tmp_path, figure)
    assert {path.name for path in written} >= {"decisions.yaml", "decisions.png", "decisions.csv"}
    assert found.plot().axes[0].get_ylabel() == "share of steps saved"
