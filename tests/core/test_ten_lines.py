"""The table of one score in ten lines, from arrays alone, and every number of it by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gmb_hf.core import first_alarms, label_windows, run_maxima, run_threshold, window_alarms

STEPS = np.arange(0, 1000, 10)
LENGTHS = {"horizon": 100.0, "safe_gap": 200.0}


def runs(n_runs: int, alarms: dict[int, list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Scores [R, T] of a level of its own for each run, 2 at some steps; events [R] at 800."""
    scores = np.tile(np.arange(n_runs)[:, None] / 1000, len(STEPS))
    for run, steps in alarms.items():
        scores[run, np.isin(STEPS, steps)] = 2.0
    return scores, np.full(n_runs, 800.0)


def test_ten_lines_give_the_table_of_one_score() -> None:
    explore_scores, explore_events = runs(40, {3: [100], 17: [400]})
    # Timely, early, timely, a false alarm, and an alarm at the event itself: a miss.
    scores, events = runs(10, {0: [700], 1: [650], 2: [790, 795], 3: [600, 750], 4: [800, 900]})
    events[8:] = np.nan

    windows = label_windows(STEPS, explore_events, **LENGTHS)
    tau = run_threshold(run_maxima(explore_scores, windows.negative), 0.1)
    windows = label_windows(STEPS, events, **LENGTHS)
    found = first_alarms(scores, STEPS, events, tau, windows, **LENGTHS)
    row = {
        "detection rate": found.detection_rate,
        "timely": found.timely_rate,
        "false-alarm rate": found.false_alarm_rate,
        "median lead time": found.lead_quantiles((0.5,))[0],
        "chance": found.chance,
    }

    assert row == {
        "detection rate": 3 / 8,
        "timely": 2 / 8,
        "false-alarm rate": 1 / 10,
        "median lead time": 100.0,
        "chance": 0.3,
    }
    # k = ceil(.9 x 41) = 37: of the 38 runs below those two, the second highest.
    assert tau == np.nextafter(0.038, np.inf)
    outcomes = ["timely", "early", "timely", "false_alarm", *["miss"] * 4]
    assert found.outcomes == [*outcomes, *["correct_rejection"] * 2]
    assert (found.n_events, found.n_runs, found.n_detected) == (8, 10, 3)
    assert found.leads.tolist() == [100.0, 150.0, 10.0]
    assert found.lead_quantiles() == [19.0, 55.0, 100.0, 125.0, 145.0]
    # At risk at 800 are all ten runs; the first alarm of runs 0, 1 and 2 lies in (600, 800).
    assert found.chances["risk_set"][:8].tolist() == [0.3] * 8
    # Eight runs have 61 negative windows (to 600), two have 80 (to 990 - 200): with q = 1 - h,
    # .8 (1 - q^61) + .2 (1 - q^80) = .1.
    low, high = 0.9, 1.0
    for _ in range(100):
        q = (low + high) / 2
        low, high = (q, high) if 0.8 * (1 - q**61) + 0.2 * (1 - q**80) > 0.1 else (low, q)
    expected = q**61 * (1 - q**19)
    assert found.chances["constant_hazard"][:8] == pytest.approx([expected] * 8, abs=1e-9)
    # P(Binomial(8, .3) >= 3) = 1 - .7^8 - 8 x .3 x .7^7 - 28 x .09 x .7^6.
    tail = 1 - 0.7**8 - 8 * 0.3 * 0.7**7 - 28 * 0.09 * 0.7**6
    assert found.p_value == pytest.approx(tail, abs=1e-12)


def test_a_stricter_budget_takes_the_higher_threshold() -> None:
    explore_scores, explore_events = runs(40, {3: [100], 17: [400]})
    negative = label_windows(STEPS, explore_events, **LENGTHS).negative
    maxima = run_maxima(explore_scores, negative)
    # ceil(.95 x 41) = 39, the lower of the two runs that reach 2; ceil(.99 x 41) = 41 of 40.
    assert run_threshold(maxima, 0.05) == np.nextafter(2.0, np.inf)
    assert run_threshold(maxima, 0.01) == np.inf


def test_the_same_by_windows() -> None:
    scores, events = runs(10, {0: [700], 1: [650], 2: [790], 3: [600, 750]})
    windows = label_windows(STEPS, events, **LENGTHS)
    found = window_alarms(scores, STEPS, events, 1.5, windows, **LENGTHS)
    # 700 to 790 is the horizon: runs 0, 2 and 3 are covered, whatever came before.
    assert found.detected.tolist() == [True, False, True, True, *[False] * 6]
    assert found.lead[[0, 2, 3]].tolist() == [100.0, 10.0, 50.0]
    assert found.censored.tolist() == [True, *[False] * 9]
    # One alarm in 10 x 61 negative windows.
    assert (found.pooled_rate, found.run_mean_rate) == (1 / 610, pytest.approx(1 / 610))
    # 80 monitored checkpoints, 10 in the horizon: one alarm covers it in 10 of 80 rotations; run
    # 3's two, 15 apart, in 20.
    assert found.chances["shift"].tolist() == [0.125, 0.125, 0.125, 0.25, *[0.0] * 6]
    assert found.chances["risk_set"].tolist() == [0.3] * 10
    assert found.shifted_rate(per_run=False) == pytest.approx(5 / 800)
