"""How much closer the positive is than the hardest negative, over all items.

Margins of Crucible: does a model still rank its hardest known cases right?
"""

import evaluate

from gmb_hf.crucible.calls import margin
from gmb_hf.jobs.metrics import CrucibleModule

_DESCRIPTION = """
The margin of an item is the similarity of its positive to the anchor minus that of the closest
negative. An item passes if its margin is above 0; its danger is minus the margin.
"""

_INPUTS = """
Args:
    predictions: similarity of each candidate to the item's anchor, a list of float64 per item;
        items may have different numbers of candidates, one positive and at least one negative.
    references: place of the positive among the item's candidates, from 0.
    ids: names of the items, for messages; numbered by default.
    empty: items without negatives: "error" (default) refuses them, "skip" leaves them out and
        reports n_skipped.
    return_per_item: add lists with a number for each item; False.

Returns:
    mean_margin, mean_danger: means over items; danger is minus the margin.
    q10_margin, median_margin, q90_margin: quantiles, linear between order statistics.
    pass_rate: share of items with a margin above 0.
    tie_rate: share of items with a margin of exactly 0, which do not pass.
    n: how many items.
    margins: with return_per_item.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("crucible_margin")
    >>> similarities = [[0.75, 0.5, 0.25], [0.25, 0.5], [0.5, 0.5, 0.125]]
    >>> found = metric.compute(predictions=similarities, references=[0, 0, 0])
    >>> found["mean_margin"], found["n"]
    (0.0, 3)

    One of the three passes, and one is a tie, which does not:

    >>> round(found["pass_rate"], 3), round(found["tie_rate"], 3)
    (0.333, 0.333)
"""


class CrucibleMargin(CrucibleModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = _INPUTS
    statistic = staticmethod(margin)
