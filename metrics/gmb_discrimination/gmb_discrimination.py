"""How well an early-warning score ranks the windows before an event above negative ones.

Layer A of GMB v0.4, the Grokking Monitorability Benchmark.
"""

import evaluate

from gmb_hf.benchmark.series import INPUTS, discrimination
from gmb_hf.jobs.metrics import GmbModule

_DESCRIPTION = """
Area under the ROC curve and average precision of positive windows, those shortly before the event,
against negative ones, those well before it, pooled over runs. Tied scores count as one group.
Ranking never implies that a score may raise an alarm: see gmb_operationality and gmb_verdict.
"""

_OUTPUTS = """
Returns:
    auc: area under the ROC curve; None where no run has an event.
    ap: average precision; None where no run has an event.
    auc_per_run, ap_per_run: with return_per_run; NaN for a run without positives or negatives.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("gmb_discrimination")
    >>> scores = [[0.1, 0.4, 0.2, 0.3, 0.9, 0.8], [0.3, 0.2, 0.1, 0.2, 0.3, 0.7]]
    >>> found = metric.compute(predictions=scores, references=[6, 6], horizon=2, safe_gap=3)
    >>> found["auc"], found["ap"]
    (0.9375, 0.8928571428571428)

    The score rises in every run, but at levels of their own: each run ranks, the pool does not.

    >>> scores = [[0.1, 0.2, 0.3, 0.4], [10.1, 10.2, 10.3, 10.4]]
    >>> found = metric.compute(predictions=scores, references=[4, 4], horizon=1, safe_gap=2,
    ...     return_per_run=True)
    >>> found["auc"], found["auc_per_run"]
    (0.75, [1.0, 1.0])
"""


class GmbDiscrimination(GmbModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = INPUTS + _OUTPUTS
    statistic = staticmethod(discrimination)
