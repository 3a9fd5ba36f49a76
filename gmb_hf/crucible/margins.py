"""Margins: how much closer the positive is than the hardest negative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.similarities import Similarities
from gmb_hf.documents import Record, plain_data
from gmb_hf.errors import positive_int

QUANTILES = (0.10, 0.50, 0.90)


@dataclass(frozen=True)
class MarginStats(Record):
    """Margins of many items; every statistic is None where there is no item.

    Attributes:
        mean_margin, mean_danger: means; danger is minus the margin.
        q10_margin, median_margin, q90_margin: quantiles, linear between order statistics.
        pass_rate: share of margins above 0.
        tie_rate: share of margins of exactly 0, which do not pass.
        n: how many items.
        n_skipped: how many were left out because they had no negatives.
    """

    mean_margin: float | None
    mean_danger: float | None
    q10_margin: float | None
    median_margin: float | None
    q90_margin: float | None
    pass_rate: float | None
    tie_rate: float | None
    n: int
    n_skipped: int = 0


def margins(similarities: Similarities) -> NDArray[np.float64]:
    """sim(anchor, positive) - max over negatives of sim(anchor, negative), float64 [N].

    Spec: Crucible metrics, "Margin".
    """
    return similarities.of_positive - similarities.hardest_negative


def dangers(similarities: Similarities) -> NDArray[np.float64]:
    """Minus the margin, float64 [N]; above 0 a negative is closer than the positive.

    Spec: Crucible metrics, "Danger Score".
    """
    return similarities.hardest_negative - similarities.of_positive


def summarize(margin: NDArray[np.float64], *, n_skipped: int = 0) -> MarginStats:
    """The statistics of given margins [N]."""
    n = len(margin)
    if not n:
        return MarginStats(None, None, None, None, None, None, None, 0, n_skipped)
    q10, median, q90 = np.quantile(margin, QUANTILES).tolist()
    mean = float(margin.mean())
    return MarginStats(
        mean_margin=mean,
        mean_danger=0.0 - mean,  # never -0.0
        q10_margin=q10,
        median_margin=median,
        q90_margin=q90,
        pass_rate=float((margin > 0).mean()),
        tie_rate=float((margin == 0).mean()),
        n=n,
        n_skipped=n_skipped,
    )


def margin_stats(similarities: Similarities) -> MarginStats:
    """Margins summed up.

    >>> found = Similarities.of_lists([[0.75, 0.5], [0.25, 0.5, 0.125]], [0, 0])
    >>> stats = margin_stats(found)
    >>> stats.pass_rate, stats.mean_margin, stats.n
    (0.5, 0.0, 2)
    """
    return summarize(margins(similarities), n_skipped=similarities.n_skipped)


# Ranks: the place of the positive among its candidates, the most similar first.


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
    return summarize_ranks(ranks(similarities), hits=hits, n_skipped=similarities.n_skipped)


def summarize_ranks(found: Ranks, *, hits: Sequence[int] = HITS, n_skipped: int = 0) -> RankStats:
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
