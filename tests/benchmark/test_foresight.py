"""What could be seen when an alarm rang: the metric at the first alarm, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import bdtr

from gmb_hf import Design, RunLog, judge
from gmb_hf.base.stats import median_interval
from gmb_hf.benchmark.evaluate import evaluate_runs
from gmb_hf.benchmark.first_alarm import VisibleRecord
from gmb_hf.report import tables
from gmb_hf.report.answer import answer

N, LAST = 60, 40
CADENCE = 10
FEW = 0.05  # of the events, which cross-fitted thresholds miss or are early for


def frame(lead: int, *, falling: bool = False) -> pd.DataFrame:
    """Runs whose accuracy climbs by .05 a checkpoint to its event, and a score `lead` steps ahead.

    The accuracy is .04 before; the event is the first checkpoint at .5 or above.
    """
    rng = np.random.default_rng(0)
    rows = []
    for run in range(N):
        event = int(rng.integers(22, 30))
        begins = event - 10  # ten checkpoints from .04 to .54
        for place in range(LAST):
            accuracy = 0.04 + 0.05 * np.clip(place - begins, 0, 12)
            metric = 1 - accuracy if falling else accuracy
            score = rng.normal(scale=0.01) + (place >= event - lead // CADENCE)
            rows.append((f"r{run}", CADENCE * place, metric, score))
    return pd.DataFrame(rows, columns=["run", "step", "metric", "score"])


def seen(lead: int, *, chance: float | None = None, falling: bool = False) -> VisibleRecord:
    log = RunLog.read(frame(lead, falling=falling))
    if chance is not None:
        log.metadata["chance"] = chance
    design = Design.minimal(
        horizon=80,
        safe_gap=150,
        event_type="E_plateau",
        plateau_threshold=0.5,
        plateau_checkpoints=2,
        direction="falling" if falling else "rising",
        metric="metric",
        null_draws=50,
        bootstrap_draws=20,
        candidates=[{"name": "score", "family": "external", "x_sees_test_labels": False}],
    )
    first = evaluate_runs(design, log).results.indicator("score").x_first_alarm
    assert first is not None
    assert first.visible is not None
    return first.visible


@pytest.mark.parametrize(
    ("lead", "at_alarm"), [(20, 0.44), (60, 0.24), (100, 0.04)]
)  # the event is at .54
def test_the_metric_at_the_first_alarm(lead: int, at_alarm: float):
    found = seen(lead)
    assert found.at_alarm_median == pytest.approx(at_alarm)
    assert found.basis == "midpoint"
    assert found.line == pytest.approx((0.04 + 0.5) / 2)  # .04 far before, .5 asked for
    assert found.unseen == pytest.approx(float(at_alarm <= found.line), abs=FEW)


def test_chance_is_the_line_where_the_logs_say_it():
    found = seen(60, chance=0.1)
    assert (found.basis, found.line) == ("chance", 0.2)
    assert found.unseen == pytest.approx(0, abs=FEW)
    assert seen(70, chance=0.1).unseen == pytest.approx(1, abs=FEW)  # .19 is below .2


def test_of_a_metric_that_falls_what_lies_above_the_line_is_unseen():
    found = seen(100, chance=0.1, falling=True)
    assert found.basis == "midpoint"
    assert found.unseen == pytest.approx(1, abs=FEW)
    assert seen(20, falling=True).unseen == pytest.approx(0, abs=FEW)


def test_it_is_in_tables_and_in_the_answer():
    results = judge(
        frame(60), score="score", metric="metric", horizon=80, safe_gap=150, null_draws=50,
        event_type="E_plateau", plateau_threshold=0.5, plateau_checkpoints=2, bootstrap_draws=20,
    )  # fmt: skip
    said = answer(results).seen
    assert said.startswith(
        "When score alarms, metric is 0.24 in the median (5 to 95%: 0.24 to 0.24)"
    )
    assert said.endswith(" of events are detected before it is half-way to the event (0.27).")


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        (60, "It comes 40 steps [40, 40] before learned_metric, which learns from the metric"),
        (
            20,
            "It is not shown to come before learned_metric, which learns from the metric alone: 0",
        ),
    ],
)
def test_how_much_earlier_than_the_learned_metric(lead: int, said: str):
    """Whatever has that name: the fit is tested where combinations are."""
    runs = frame(lead)
    runs["learned_metric"] = frame(20)["score"]
    results = judge(
        runs, score=["score", "learned_metric"], metric="metric", horizon=80, safe_gap=150,
        null_draws=50, event_type="E_plateau", plateau_threshold=0.5, plateau_checkpoints=2,
        bootstrap_draws=20,
    )  # fmt: skip
    first = results.indicator("score").x_first_alarm
    assert first is not None
    ahead = first.ahead
    assert ahead is not None
    assert ahead.interval is not None
    assert ahead.median == ahead.interval.low == ahead.interval.high == lead - 20
    assert ahead.earlier is (lead > 20)
    detected = first.at(first.at_budget[0].budget).n_detected
    assert ahead.n_both + ahead.n_alone == detected
    assert ahead.n_both + ahead.n_rival_alone >= N * 0.9
    rival = results.indicator("learned_metric").x_first_alarm
    assert rival is not None
    assert rival.ahead is None

    best_first = results.model_copy(update={"indicators": (results.indicator("score"),)})
    assert said in answer(best_first).seen
    table = tables.first_alarm(results)
    assert "ahead_of_learned_metric" in [one.name for one in table.columns]


def test_the_interval_of_a_median_is_exact():
    """Between order statistics: of six values the least and the largest, in 1 - 2 / 64 of draws."""
    values = np.array([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    found = median_interval(values)
    assert found is not None
    assert (found.low, found.high) == (1, 6)
    assert median_interval(values[:5]) is None
    draws = np.random.default_rng(0).standard_normal((2000, 25))
    within = [(one := median_interval(x)) is not None and one.low <= 0 <= one.high for x in draws]
    exact = 1 - 2 * bdtr(7, 25, 0.5)  # the 8th and the 18th of 25
    assert np.mean(within) == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2000))
