"""Whether two models differ on the same items, overall and tier by tier.

Paired tests of Crucible, exact and by permutation.
"""

import evaluate

from gmb_hf.crucible.calls import compare
from gmb_hf.jobs.metrics import CrucibleModule

_DESCRIPTION = """
Both models score the same items. McNemar's exact test asks whether one passes items that the other
fails, a sign-flip permutation test whether the mean margin moved. Differences are second - first.
"""

_INPUTS = """
Args:
    predictions1, predictions2: similarities by the first and the second model, a list of
        float64 per item.
    references: place of the positive among the item's candidates, from 0.
    tiers: tier of each item: the tests are then made in each tier as well, and adjusted.
    ids: names of the items, for messages.
    permutations: sign flips; 9999.
    seed: of the sign flips; 0.

Returns:
    n: how many items.
    pass_rate_difference, mean_margin_difference: second - first.
    only_first, only_second: items that just one of the two passes.
    p_mcnemar: exact and two-sided.
    p_permutation: (b + 1) / (m + 1), two-sided.
    p_mcnemar_adjusted, p_permutation_adjusted: with tiers: adjusted over the whole and the
        tiers (Holm).
    name@tier: each of these in one tier, as p_mcnemar@tier3_adversarial.

Examples:
    >>> import evaluate
    >>> comparison = evaluate.load("crucible_compare")
    >>> before, after = [[0.9, 0.1]] * 6 + [[0.2, 0.3]], [[0.1, 0.9]] * 6 + [[0.2, 0.3]]
    >>> found = comparison.compute(predictions1=before, predictions2=after, references=[0] * 7)
    >>> found["only_first"], found["only_second"], found["p_mcnemar"]
    (6, 0, 0.03125)

    By tier:

    >>> tiers = ["tier3_adversarial"] * 6 + ["tier1_easy"]
    >>> found = comparison.compute(predictions1=before, predictions2=after, references=[0] * 7,
    ...     tiers=tiers)
    >>> found["pass_rate_difference@tier3_adversarial"]
    -1.0
    >>> found["p_mcnemar_adjusted@tier3_adversarial"]
    0.09375
"""


class CrucibleCompare(CrucibleModule, evaluate.Comparison):
    about = _DESCRIPTION
    inputs = _INPUTS
    columns = (("predictions1", "series"), ("predictions2", "series"), ("references", "number"))
    statistic = staticmethod(compare)
