"""The published alarm score against chance, on the reference project's real runs.

Published thresholds, burn-in 10,000, horizon 20,000, published event times: at a false positive
rate of .05 / .10 / .20 the score covers .32 / .53 / .63 of 19 events, where a rotation of its own
alarms covers .37 / .46 / .55 and the alarms of the runs still at risk .49 / .67 / .74.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import OperatingPointRecord, layer_c
from gmb_hf.benchmark.verdict import judge
from gmb_hf.design.design import Design
from gmb_hf.runs.panel import Panel

THRESHOLDS = {0.05: 0.1776, 0.10: 0.0984443, 0.20: 0.0497}
"""The published ones; the third gives the published coverage of .63 to two digits."""


@pytest.fixture(scope="module")
def published(reference_runs: Path) -> Judgement:
    """The `score` column, already smoothed over 10 checkpoints, and the published events."""
    expected = json.loads((reference_runs / "expected.json").read_text())
    series, events = [], []
    for run in sorted(expected):
        with (reference_runs / f"{run}.csv").open() as file:
            rows = {int(row["step"]): float(row["score"]) for row in csv.DictReader(file)}
        steps = sorted(rows)  # the last row of a repeated step counts
        series.append((run, steps, [rows[step] for step in steps]))
        events.append(expected[run]["t_event"])
    scores = Scores.from_panel(
        Panel.from_series("score", series),
        [math.nan if event is None else event for event in events],
    )
    design = Design.minimal(
        horizon=20_000,
        safe_gap=20_500,
        burn_in=10_000,
        w_event=1_000,
        fpr_targets=list(THRESHOLDS),
        smoothing_sweep=[1],
    )
    return Judgement(scores, Locked({1: THRESHOLDS}, None), design)


@pytest.fixture(scope="module")
def points(published: Judgement) -> dict[float, OperatingPointRecord]:
    return {point.fpr: point for point in layer_c(published).at_fpr}


@pytest.mark.parametrize(
    ("target", "covered", "shift", "shift_p", "risk", "risk_p"),
    [
        (0.05, 6, 0.37, 0.82, 0.49, 0.98),
        (0.10, 10, 0.46, 0.36, 0.67, 0.97),
        (0.20, 12, 0.55, 0.25, 0.74, 0.95),
    ],
)
def test_coverage_and_what_chance_gives(
    points: dict[float, OperatingPointRecord],
    target: float,
    covered: int,
    shift: float,
    shift_p: float,
    risk: float,
    risk_p: float,
) -> None:
    point = points[target]
    assert (point.x_n_covered, point.x_n_events, point.x_n_too_early) == (covered, 19, 0)
    assert point.x_baselines["shift"].detection_rate == pytest.approx(shift, abs=0.01)
    assert point.x_baselines["shift"].p_value == pytest.approx(shift_p, abs=0.04)
    assert point.x_baselines["risk_set"].detection_rate == pytest.approx(risk, abs=0.015)
    assert point.x_baselines["risk_set"].p_value == pytest.approx(risk_p, abs=0.015)
    assert point.x_p_value == max(
        point.x_baselines["shift"].p_value, point.x_baselines["risk_set"].p_value
    )


def test_the_score_may_not_raise_an_alarm(published: Judgement) -> None:
    few = judge(published)
    assert (few.label, few.x_reasons[0]) == ("INCONCLUSIVE", "few_events")
    enough = published.design.replace(event_count_min=10, primary_fpr=0.20)
    verdict = judge(Judgement(published.evaluation, published.source, enough))
    assert verdict.label != "SUPPORTED_FOR_ALARM"
    assert verdict.x_p_adjusted is not None
    assert verdict.x_p_adjusted > 0.9


def test_an_oracle_on_the_same_runs_beats_both_nulls(published: Judgement) -> None:
    scores = published.evaluation
    lead = scores.event_step[:, None] - scores.steps
    panel = Panel(scores.name, scores.runs, scores.values, scores.steps, scores.present)
    raised = np.where((lead > 0) & (lead <= 15_000), 9.0, 0.0)
    oracle = Scores.from_panel(panel.with_values(raised), scores.event_step)
    tau = Locked({1: dict.fromkeys(THRESHOLDS, 1.0)}, None)
    point = layer_c(Judgement(oracle, tau, published.design)).at(0.05)
    assert point.coverage == 1.0
    assert point.x_p_value is not None
    assert point.x_p_value <= 0.001
