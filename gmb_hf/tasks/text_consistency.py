"""Self-consistency: do several samples of one model agree with each other?

Wang et al. 2022, "Self-Consistency Improves Chain of Thought Reasoning in Language Models",
https://arxiv.org/abs/2203.11171: the share of samples that give the most frequent answer goes with
how often that answer is right. No label is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from gmb_hf.validation import InputError


def disagreement(samples: Sequence[Sequence[Hashable]]) -> float:
    """1 - (share of the most frequent sample), the mean over prompts; in [0, 1 - 1/K].

    Args:
        samples: of each prompt its K samples, K at least 2 and the same for all: with fewer
            samples the most frequent one has a larger share by itself.

    Raises:
        InputError: no prompts, fewer than 2 samples, or another number of them.

    >>> disagreement([["a", "a", "b", "a"], ["a", "b", "c", "d"]])
    0.5
    """
    counts = {len(row) for row in samples}
    if not counts or min(counts) < 2:
        raise InputError("self-consistency needs prompts with at least 2 samples each")
    if len(counts) > 1:
        raise InputError(
            f"self-consistency needs equally many samples of every prompt, got {min(counts)} to "
            f"{max(counts)}"
        )
    (k,) = counts
    agreeing = sum(Counter(row).most_common(1)[0][1] for row in samples)
    return 1 - agreeing / (k * len(samples))
