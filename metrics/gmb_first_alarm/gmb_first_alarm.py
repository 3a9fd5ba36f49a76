"""What an operator who acts on the first alarm of a score gets, counted by runs.

At a budget of runs with a false alarm, such as 1 run in 20; of GMB, the Grokking Monitorability
Benchmark.
"""

import evaluate

from gmb_hf.benchmark.series import INPUTS, first_alarm
from gmb_hf.jobs.metrics import GmbModule

_DESCRIPTION = """
From burn_in on, the first checkpoint before t* with a score at or above the threshold is a run's
first alarm: false at or before t* - safe_gap, early inside the gap, timely within the horizon; an
event without one is a miss. At each budget of runs a: the share of events that the first alarm
detects (early or timely), the share of runs with a false alarm, and the lead time, beside chance
baselines of the same cost. The gap bounds a lead time here, not the horizon.
"""

_OUTPUTS = """
Returns:
    detection_rate@a: share of events whose first alarm is early or timely; None without events,
        as in the next three. timely_rate@a, early_rate@a, miss_rate@a: their shares of all events.
    false_alarm_rate@a: share of runs with a false alarm, of those that have negative windows;
        false_alarm_low@a, false_alarm_high@a: its exact 95% interval.
    lead_median@a: median of t* - first alarm over detected events, in steps; lead_q05@a,
        lead_q25@a, lead_q75@a, lead_q95@a. None where no event is detected.
    run_threshold@a: the threshold; infinite where there are too few runs for the budget.
    expected@a, upper@a: what such thresholds cost on average, and at most for nine in ten of them;
        known with run_thresholds and calibration_runs only.
    chance_constant_hazard@a, chance_risk_set@a, chance_clock@a: detection rates of chance
        baselines of the same cost: a constant hazard, the first alarm of another run at risk, and
        the step itself as a score (None with run_thresholds, which are the score's alone).
    p@a: the larger of the exact p-values against the first two.
    first_alarm_per_run@a, outcome_per_run@a: with return_per_run: the step (NaN: none), and
        "false_alarm", "early", "timely", "miss" or "correct_rejection".

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("gmb_first_alarm")
    >>> noise = [[i * i * (run + 2) % 101 for i in range(60 + run)] for run in range(40)]
    >>> scores = [series + [150] * 10 for series in noise]
    >>> events = [70 + run for run in range(40)]
    >>> found = metric.compute(predictions=scores, references=events, horizon=5, safe_gap=20,
    ...     run_budgets=[0.1])
    >>> found["detection_rate@0.1"], found["early_rate@0.1"], found["false_alarm_rate@0.1"]
    (1.0, 1.0, 0.0)

    The threshold of earlier runs, and what a budget of 1 run in 10 promises with 40 of them:

    >>> found = metric.compute(predictions=scores, references=events, horizon=5, safe_gap=20,
    ...     run_budgets=[0.1], run_thresholds={0.1: 120.0}, calibration_runs=40,
    ...     return_per_run=True)
    >>> found["lead_median@0.1"], round(found["expected@0.1"], 3), round(found["upper@0.1"], 2)
    (10.0, 0.098, 0.16)
    >>> found["first_alarm_per_run@0.1"][:2], found["outcome_per_run@0.1"][:2]
    ([60.0, 61.0], ['early', 'early'])
"""


class GmbFirstAlarm(GmbModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = INPUTS + _OUTPUTS
    statistic = staticmethod(first_alarm)
