"""Ranks: the place of the positive among its candidates, the most similar first.

With ties a rank depends on who wins them. `strict` lets the positive win (the spec's rank),
`pessimistic` lets it lose, `realistic` is the mean of the two. An item passes if even its
pessimistic rank is 1, which is a margin above 0; reciprocal ranks and hits follow that reading, so
that hits@1 is the pass rate and a model that finds everything equally similar earns nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.record import Record, plain_data
from gmb_hf.crucible.similarities import Similarities
from gmb_hf.validation import positive_int

HITS = (1, 5)


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the positive of each item, from 1; each array has length N.

    Attributes:
        strict: 1 + negatives that are more similar, int64.
        realistic: the mean of the other two, float64.
        pessimistic: 1 + negatives that are as similar or more, int64.
        n_negatives: K, int64.
    """

    strict: NDArray[np.int64]
    realistic: NDArray[np.float64]
    pessimistic: NDArray[np.int64]
    n_negatives: NDArray[np.int64]


@dataclass(frozen=True)
class RankStats(Record):
    """Ranks of many items; every statistic is None where there is no item.

    Attributes:
        mean_rank: mean strict rank (spec, "Mean Rank").
        mean_rank_realistic, mean_rank_pessimistic: the other readings of ties.
        adjusted_mean_rank_index: 1 - (mean realistic rank - 1) / (its mean by chance - 1): 1 is
            perfect, 0 is chance, whatever the numbers of negatives (Berrendorf et al. 2020,
            "On the Ambiguity of Rank-Based Evaluation of Entity Alignment or Link Prediction").
        chance_pass_rate: mean of 1 / (K + 1), the pass rate of a random ranking.
        mrr: mean reciprocal pessimistic rank.
        hits: share of items with pessimistic rank at most k, by k.
        n: how many items.
        n_skipped: how many were left out because they had no negatives.
    """

    mean_rank: float | None
    mean_rank_realistic: float | None
    mean_rank_pessimistic: float | None
    adjusted_mean_rank_index: float | None
    chance_pass_rate: float | None
    mrr: float | None
    hits: dict[int, float | None]
    n: int
    n_skipped: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields as flat scalars, with `hits@k` for each k."""
        plain: dict[str, Any] = plain_data(self)
        hits = plain.pop("hits")
        n, skipped = plain.pop("n"), plain.pop("n_skipped")
        named = {f"hits@{k}": value for k, value in hits.items()}
        return {**plain, **named, "n": n, "n_skipped": skipped}


def ranks(similarities: Similarities) -> Ranks:
    """The three ranks of each item."""
    against = np.repeat(similarities.of_positive, similarities.counts)
    above = similarities.per_item(similarities.negatives > against)
    level = similarities.per_item(similarities.negatives == against)
    return Ranks(
        strict=1 + above,
        realistic=1 + above + level / 2,
        pessimistic=1 + above + level,
        n_negatives=similarities.n_negatives,
    )


def rank_stats(similarities: Similarities, *, hits: Sequence[int] = HITS) -> RankStats:
    """Ranks summed up.

    >>> found = Similarities.of_lists([[0.9, 0.4], [0.2, 0.7, 0.2]], [0, 0])
    >>> stats = rank_stats(found)
    >>> stats.mean_rank, stats.mean_rank_pessimistic, stats.hits[1]
    (1.5, 2.0, 0.5)
    """
    return summarize(ranks(similarities), hits=hits, n_skipped=similarities.n_skipped)


def summarize(found: Ranks, *, hits: Sequence[int] = HITS, n_skipped: int = 0) -> RankStats:
    """The statistics of given ranks."""
    depths = [positive_int("k of hits@k", k) for k in hits]
    n = len(found.strict)
    if not n:
        nothing = dict.fromkeys(depths)
        return RankStats(None, None, None, None, None, None, nothing, 0, n_skipped)
    # A random ranking has the mean rank 1 + K / 2.
    excess = float((found.realistic - 1).sum())
    by_chance = float(found.n_negatives.sum()) / 2
    return RankStats(
        mean_rank=float(found.strict.mean()),
        mean_rank_realistic=float(found.realistic.mean()),
        mean_rank_pessimistic=float(found.pessimistic.mean()),
        adjusted_mean_rank_index=1 - excess / by_chance,
        chance_pass_rate=float((1 / (found.n_negatives + 1)).mean()),
        mrr=float((1 / found.pessimistic).mean()),
        hits={k: float((found.pessimistic <= k).mean()) for k in depths},
        n=n,
        n_skipped=n_skipped,
    )
