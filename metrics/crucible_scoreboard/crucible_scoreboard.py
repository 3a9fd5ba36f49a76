"""What a model does on an evaluation set, overall and tier by tier, with its fingerprint.

The scoreboard of Crucible, in the schema of its specification.
"""

import evaluate

from gmb_hf.crucible.calls import scoreboard
from gmb_hf.jobs.metrics import CrucibleModule

_DESCRIPTION = """
Margins and ranks of all items and of each tier, under a header that says what was evaluated on: two
scoreboards with different fingerprints must not be compared.
"""

_INPUTS = """
Args:
    predictions: similarity of each candidate to the item's anchor, a list of float64 per item;
        items may have different numbers of candidates, one positive and at least one negative.
    references: place of the positive among the item's candidates, from 0.
    version: of the evaluation set; required.
    eval_file: the evaluation set, a JSONL file of bundles in the order of predictions: its
        bytes give source_hash, its items content_hash and, where they have them, the tiers.
    source_hash, content_hash: in place of eval_file; the first is required then.
    tiers: tier of each item, tier1_easy, tier2_robust or tier3_adversarial; those of eval_file
        by default.
    seed: of the evaluation; 42.
    checkpoint_path, timestamp: what was evaluated, and when; the present by default.

Returns:
    eval_header: fingerprint, source_hash, content_hash, seed, item_count, tier_distribution,
        version.
    overall: n, correct, accuracy, pass_rate, mean_margin, median_margin, q10_margin,
        q90_margin, mean_rank.
    by_tier: the same for each tier; an empty one has n = 0 and nulls.
    timestamp, checkpoint_path: as given.

Examples:
    >>> import evaluate
    >>> metric = evaluate.load("crucible_scoreboard")
    >>> similarities = [[0.75, 0.5], [0.25, 0.5], [0.5, 0.125]]
    >>> found = metric.compute(predictions=similarities, references=[0, 0, 0], version="v1",
    ...     seed=42, source_hash="a1b2c3d4e5f6a7b8")
    >>> found["eval_header"]["fingerprint"], found["overall"]["correct"]
    ('a1b2c3d4e5f6a7b8|42|3', 2)

    With tiers:

    >>> found = metric.compute(predictions=similarities, references=[0, 0, 0], version="v1",
    ...     source_hash="a1b2c3d4e5f6a7b8", tiers=["tier1_easy", "tier3_adversarial", "tier1_easy"])
    >>> found["by_tier"]["tier1_easy"]["pass_rate"], found["by_tier"]["tier2_robust"]["pass_rate"]
    (1.0, None)
"""


class CrucibleScoreboard(CrucibleModule, evaluate.Metric):
    about = _DESCRIPTION
    inputs = _INPUTS
    statistic = staticmethod(scoreboard)
