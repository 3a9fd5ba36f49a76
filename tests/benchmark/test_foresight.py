"""What could be seen when an alarm rang: the metric at the first alarm, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gmb_hf import Design, RunLog, judge
from gmb_hf.benchmark.evaluate import evaluate_runs
from gmb_hf.benchmark.first_alarm import VisibleRecord

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
    from gmb_hf.report.answer import answer

    said = answer(results).seen
    assert said.startswith(
        "When score alarms, metric is 0.24 in the median (5 to 95%: 0.24 to 0.24)"
    )
    assert said.endswith(" of events are detected before it is half-way to the event (0.27).")
