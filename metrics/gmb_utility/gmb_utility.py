"""What the alarms of an early-warning score are worth at a false-alarm budget.

Layer C of GMB v0.4, the Grokking Monitorability Benchmark.
"""

import evaluate

from gmb_hf.benchmark.series import INPUTS, utility
from gmb_hf.jobs.metrics import GmbModule

_DESCRIPTION = """
At the threshold for each target false positive rate f: the share of events with an alarm in the
horizon before them, and how early the first one came. Lead times are in steps and cannot exceed the
horizon.
"""

_OUTPUTS = """
Returns:
    coverage@f: share of events with an alarm in a positive window; None without events.
    lead_time_median@f: median of t* - (first alarm in the horizon), over covered events; None where
        no event is covered, as in the next.
    lead_time_iqr@f: q75 - q25 of the same.
    lead_time_q05@f, lead_time_q95@f: its 5% and 95% quantiles.
    lead_time_success@f: share of all events covered with a lead time of lead_time_target or more.
    covered_per_run@f, lead_time_per_run@f: with return_per_run; a lead is NaN where there is none.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("gmb_utility")
    >>> noise = [i % 10 for i in range(50)]
    >>> scores = [noise + [0] * 6 + [9, 9, 9, 9], noise + [0] * 8 + [9, 9], noise + [0] * 10]
    >>> found = metric.compute(predictions=scores, references=[60, 60, 60], horizon=10, safe_gap=11,
    ...     fpr_targets=[0.1], lead_time_target=3, protocol="v0.4")
    >>> found["coverage@0.1"], found["lead_time_median@0.1"], found["lead_time_success@0.1"]
    (0.6666666666666666, 3.0, 0.3333333333333333)

    With return_per_run, each run's lead time:

    >>> found = metric.compute(predictions=scores, references=[60, 60, 60], horizon=10, safe_gap=11,
    ...     fpr_targets=[0.1], return_per_run=True, protocol="v0.4")
    >>> found["lead_time_per_run@0.1"]
    [4.0, 2.0, nan]
"""


class GmbUtility(GmbModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = INPUTS + _OUTPUTS
    statistic = staticmethod(utility)
