"""The place of the positive among its candidates, and what chance would give.

Ranks of Crucible: does a model still rank its hardest known cases right?
"""

import evaluate

from gmb_hf.crucible.calls import rank
from gmb_hf.jobs.metrics import CrucibleModule

_DESCRIPTION = """
The rank of an item's positive is 1 plus the negatives that are more similar to the anchor. Ties
make three readings of it: the positive wins them (strict, as specified), loses them (pessimistic),
or comes out in the middle (realistic). Reciprocal ranks and hits take the pessimistic one, so that
hits@1 is the pass rate.
"""

_INPUTS = """
Args:
    predictions: similarity of each candidate to the item's anchor, a list of float64 per item;
        items may have different numbers of candidates, one positive and at least one negative.
    references: place of the positive among the item's candidates, from 0.
    hits: depths k of hits@k; [1, 5].
    ids: names of the items, for messages; numbered by default.
    empty: items without negatives: "error" (default) refuses them, "skip" leaves them out and
        reports n_skipped.
    return_per_item: add lists with a number for each item; False.

Returns:
    mean_rank: mean strict rank.
    mean_rank_realistic, mean_rank_pessimistic: the other readings of ties.
    adjusted_mean_rank_index: 1 is perfect, 0 is chance, whatever the numbers of negatives
        (Berrendorf et al. 2020).
    chance_pass_rate: pass rate of a random ranking, the mean of 1 / (negatives + 1).
    mrr: mean reciprocal rank.
    hits@k: share of items with a rank of at most k.
    ranks, ranks_realistic, ranks_pessimistic: with return_per_item.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("crucible_rank")
    >>> similarities = [[0.9, 0.4, 0.1], [0.2, 0.7, 0.2], [0.3, 0.1, 0.0]]
    >>> found = metric.compute(predictions=similarities, references=[0, 0, 0])
    >>> found["hits@1"], found["hits@5"]
    (0.6666666666666666, 1.0)

    The second item's positive ties with a negative:

    >>> [round(found[f"mean_rank{reading}"], 3) for reading in ("", "_realistic", "_pessimistic")]
    [1.333, 1.5, 1.667]
"""


class CrucibleRank(CrucibleModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = _INPUTS
    statistic = staticmethod(rank)
