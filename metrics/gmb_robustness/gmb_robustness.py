"""Whether the answer about an early-warning score survives small admissible changes.

Layer D of GMB v0.4, the Grokking Monitorability Benchmark.
"""

import evaluate

from gmb_hf.benchmark.series import INPUTS, robustness
from gmb_hf.jobs.metrics import GmbModule

_DESCRIPTION = """
The score is judged again with 0.8, 1 and 1.25 times the horizon, its trailing mean over 1, 3 and 5
checkpoints, and one group of runs left out, in all combinations. Members are labelled by their
point verdict: SUPPORTED_FOR_ALARM where layers B and C pass, else RANK_ONLY.
"""

_OUTPUTS = """
Returns:
    pass_rate: share of the family that passes layer B, see gmb_operationality.
    label_flip_rate: share that passes layers B and C where the score as given does not, or the
        other way round.
    family_size: how many members the family has.
    runs_label_flip_rate: the same by runs; None under v0.4.
    members, member_passes, member_layer_b_pass: with return_per_run, one value for each member.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("gmb_robustness")
    >>> scores = [[(7 * i + 3 * run) % 20 for i in range(60)] for run in range(5)]
    >>> found = metric.compute(predictions=scores, references=[59] * 5, horizon=10, safe_gap=20,
    ...     fpr_targets=[0.05, 0.1], smoothing_sweep=[1], protocol="v0.4")
    >>> found["pass_rate"], found["label_flip_rate"], found["family_size"]
    (1.0, 0.4666666666666667, 15)

    Averaged over checkpoints, these scores tie, and what ties cannot be set to a rate:

    >>> found = metric.compute(predictions=scores, references=[59] * 5, horizon=10, safe_gap=20,
    ...     fpr_targets=[0.05, 0.1], smoothing_sweep=[1, 20], protocol="v0.4")
    >>> found["pass_rate"] < 1, found["family_size"]
    (True, 30)
"""


class GmbRobustness(GmbModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = INPUTS + _OUTPUTS
    statistic = staticmethod(robustness)
