"""Whether a false-alarm budget can be set for an early-warning score, and whether it holds.

Layer B of GMB v0.4, the Grokking Monitorability Benchmark.
"""

import evaluate

from gmb_hf.benchmark.series import INPUTS, operationality
from gmb_hf.jobs.metrics import GmbModule

_DESCRIPTION = """
For each target false positive rate f a threshold is calibrated on negative windows, those well
before the event, and the rate that it gives there is measured. The gate passes if enough targets
are met and the score has no floor below which its rate cannot be set. A score that fails is invalid
for alarm, however well it ranks.
"""

_OUTPUTS = """
Returns:
    fpr@f: false positive rate at the threshold for target f.
    threshold@f: that threshold; an alarm is a score at or above it. Infinite: nothing alarms.
    ok_targets: number of targets that are met, |fpr@f - f| <= fpr_eps.
    controllability_pass: whether those are min_targets_ok at least.
    fpr_min: least rate over the targets whose threshold is finite and alarms; if none, of the
        finite thresholds nearest to them.
    fpr_floor_detected: whether that exceeds fpr_floor_max.
    x_budget_pass, x_floor: the rule of strict; targets are caps, and a floor is one by ties.
    layer_b_pass: controllable, and no floor, by the rule of the protocol.
    fpr_per_run@f, threshold_per_run@f: with return_per_run.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("gmb_operationality")
    >>> scores = [[(7 * i + 3 * run) % 20 for i in range(60)] for run in range(4)]
    >>> found = metric.compute(predictions=scores, references=[59, 59, 59, 59], horizon=10,
    ...     safe_gap=20, fpr_targets=[0.05, 0.1], protocol="v0.4")
    >>> found["fpr@0.05"], found["threshold@0.05"], found["layer_b_pass"]
    (0.05, 19.0, True)

    A score of 0 and 1 has a floor: it alarms in half of the negative windows, or never.

    >>> found = metric.compute(predictions=[[0, 1] * 30] * 4, references=[59, 59, 59, 59],
    ...     horizon=10, safe_gap=20, protocol="v0.4")
    >>> found["fpr_min"], found["fpr_floor_detected"], found["layer_b_pass"]
    (0.5, True, False)
"""


class GmbOperationality(GmbModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = INPUTS + _OUTPUTS
    statistic = staticmethod(operationality)
