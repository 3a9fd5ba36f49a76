"""May an early-warning score raise an alarm? Exactly one label, and the reasons for it.

The verdict of GMB v0.4, the Grokking Monitorability Benchmark, over its four layers.
"""

import evaluate

from gmb_hf.benchmark.series import INPUTS, verdict
from gmb_hf.jobs.metrics import GmbModule

_DESCRIPTION = """
SUPPORTED_FOR_ALARM, RANK_ONLY, ESTIMATOR_UNSTABLE or INCONCLUSIVE: one label, by the gates of both
units of counting, runs and windows: budget, detection, detection beyond chance, lead time and
stability. Fewer than event_count_min events are INCONCLUSIVE, and so is a false-alarm budget that
these runs do not show. A call has no lock, so its verdict is exploratory: it never makes a score
eligible for an alarm.
"""

_OUTPUTS = """
Returns:
    label: the verdict.
    alarm_eligible: whether an alarm may be raised: always False here, since that takes a lock
        (`gmb lock`, then `gmb evaluate --lock`).
    reasons: codes of what stands against an alarm, joined by ", ", each with its unit, such as
        runs_straddle; not_locked is always among them.
    sentence: the answer in words.
    first_alarm_per_run, false_alarms_per_run: with return_per_run, at primary_fpr: the step of the
        first alarm from burn_in to t* (NaN: none), and how many negative windows alarm.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("gmb_verdict")
    >>> noise = [[i * i * (run + 2) % 101 for i in range(60 + run)] for run in range(60)]
    >>> scores = [series + [150] * 10 for series in noise]
    >>> events = [70 + run for run in range(60)]
    >>> found = metric.compute(predictions=scores, references=events, horizon=10, safe_gap=20,
    ...     lead_time_median_min=5)
    >>> found["label"], found["alarm_eligible"], found["reasons"]
    ('SUPPORTED_FOR_ALARM', False, 'not_locked')

    Four runs are too few to say anything:

    >>> found = metric.compute(predictions=scores[:4], references=events[:4], horizon=10,
    ...     safe_gap=20)
    >>> found["label"], found["reasons"]
    ('INCONCLUSIVE', 'few_events, not_locked')
"""


class GmbVerdict(GmbModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = INPUTS + _OUTPUTS
    statistic = staticmethod(verdict)
