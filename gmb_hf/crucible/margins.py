"""Similarities of many items, the margins and ranks of their positives, and tiers by margin.

Items differ in their numbers of candidates, so similarities are stored one after another in one
flat array, and every function here works on that array at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, FiniteFloat, model_validator

from gmb_hf.base.documents import Many, Record, Section, plain_data
from gmb_hf.base.errors import InputError, choose, first_of, positive_int
from gmb_hf.base.files import read_json, write_json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
OnEmpty = Literal["error", "skip"]

_LARGEST = 1e150  # sums and squares of similarities below this stay finite in float64

PLACE = "the index of the positive"
"""What error messages call the position of the positive."""

QUANTILES = (0.10, 0.50, 0.90)
HITS = (1, 5)


@dataclass(frozen=True, eq=False)
class Similarities:
    """The candidates of N items, each with one positive and at least one negative.

    Attributes:
        values: similarity of every candidate to its anchor, item after item, float64 [M].
        offsets: where each item begins in `values`, and M, int64 [N + 1].
        positive: place of the positive among its item's candidates, from 0, int64 [N].
        ids: names of the items; None numbers them from 0.
        n_skipped: items that were left out because they had no negatives.

    Raises:
        InputError: arrays that do not fit each other, an id that occurs twice, an item without
            negatives, an index out of range, or a similarity that is not finite. It names items.
    """

    values: Floats
    offsets: Ints
    positive: Ints
    ids: tuple[str, ...] | None = None
    n_skipped: int = 0

    def __post_init__(self) -> None:
        _check_shapes(self.values, self.offsets, self.positive, self.ids)
        why = "no negatives; remove them, or have them left out (empty='skip', --skip-empty)"
        self._refuse(self.counts < 2, why)
        wrong = (self.positive < 0) | (self.positive >= self.counts)
        self._refuse(wrong, f"{PLACE} is out of range (it counts from 0)")
        bad = ~(np.abs(self.values) < _LARGEST)  # NaN fails every comparison
        if bad.any():
            wrong = np.logical_or.reduceat(bad, self.starts)
            self._refuse(wrong, "a similarity is missing or not finite")

    @classmethod
    def of_flat(
        cls,
        values: ArrayLike,
        offsets: ArrayLike,
        positive: ArrayLike,
        ids: Sequence[str] | None = None,
        *,
        empty: OnEmpty = "error",
    ) -> Self:
        """From flat arrays; `values`, `offsets`, `positive` and `ids` are the attributes.

        `empty` says what to do with items without negatives: "error" refuses them, "skip" leaves
        them out and counts them.
        """
        choose("empty", empty, ("error", "skip"))
        flat = np.asarray(values, dtype=np.float64)
        places, index = _whole_numbers("offsets", offsets), _whole_numbers(PLACE, positive)
        names = None if ids is None else tuple(map(str, ids))
        if empty == "error":
            return cls(flat, places, index, names)
        _check_shapes(flat, places, index, names)  # also of items that are left out
        counts = np.diff(places)
        scored = counts >= 2
        if scored.all():
            return cls(flat, places, index, names)
        names = names or tuple(map(str, range(len(index))))
        names = tuple(names[number] for number in np.flatnonzero(scored))
        begins = np.concatenate([[0], np.cumsum(counts[scored])])
        left_out = int((~scored).sum())
        return cls(flat[np.repeat(scored, counts)], begins, index[scored], names, left_out)

    @classmethod
    def of_lists(
        cls,
        candidates: Sequence[Sequence[float]],
        positive: Sequence[int] | Ints,
        ids: Sequence[str] | None = None,
        *,
        empty: OnEmpty = "error",
    ) -> Self:
        """From a list of similarities per item, `candidates`; the rest is as in `of_flat`.

        >>> found = Similarities.of_lists([[0.9, 0.2], [0.1, 0.5, 0.3]], [0, 2])
        >>> found.n, found.values.tolist()
        (2, [0.9, 0.2, 0.1, 0.5, 0.3])
        """
        try:
            counts = np.fromiter(map(len, candidates), dtype=np.int64, count=len(candidates))
            values = np.array(list(chain.from_iterable(candidates)))
        except (TypeError, ValueError):
            _refuse_text(candidates, ids)
            raise
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            # Checked one by one; None, which makes objects of them all, becomes NaN.
            _refuse_text(candidates, ids)
            try:
                values = values.astype(np.float64)
            except OverflowError:
                raise InputError("a similarity is too large for a number of 64 bits") from None
        n, places = len(candidates), len(positive)
        if n != places:
            what = f"{n} items have similarities but {places} have an index of the positive"
            raise InputError(f"{what}; give one for each")
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls.of_flat(values, offsets, positive, ids, empty=empty)

    @property
    def n(self) -> int:
        """How many items there are."""
        return len(self.positive)

    @cached_property
    def counts(self) -> Ints:
        """Candidates of each item, [N]."""
        return np.diff(self.offsets)

    @property
    def starts(self) -> Ints:
        """Where each item begins, [N]."""
        return self.offsets[:-1]

    @property
    def n_negatives(self) -> Ints:
        """K, the number of negatives of each item, [N]."""
        return self.counts - 1

    @cached_property
    def of_positive(self) -> Floats:
        """Similarity of each item's positive, float64 [N]."""
        return np.asarray(self.values[self.starts + self.positive])

    @cached_property
    def negatives(self) -> Floats:
        """`values` with minus infinity in place of every positive, float64 [M]."""
        masked = self.values.copy()
        masked[self.starts + self.positive] = -np.inf
        return masked

    @cached_property
    def hardest_negative(self) -> Floats:
        """The largest similarity of a negative, float64 [N]."""
        return np.maximum.reduceat(self.negatives, self.starts) if self.n else np.empty(0)

    def per_item(self, flags: NDArray[np.bool_]) -> Ints:
        """How many of each item's candidates are flagged: bool [M] to int64 [N]."""
        upto = np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])
        return np.asarray(upto[self.offsets[1:]] - upto[self.starts])

    def names(self) -> tuple[str, ...]:
        """The items' names; numbers from 0 where none were given."""
        return self.ids if self.ids is not None else tuple(map(str, range(self.n)))

    def _refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        where = np.flatnonzero(wrong).tolist()
        if where:
            raise InputError(f"{listed([self.ids[i] if self.ids else i for i in where])}: {why}")


def listed(names: Sequence[str | int]) -> str:
    """Items by name, the first five of them: `items 'a', 'b'`."""
    return f"{'item' if len(names) == 1 else 'items'} {first_of(list(map(repr, names)), 5)}"


def _check_shapes(values: Floats, offsets: Ints, positive: Ints, ids: Sequence[str] | None) -> None:
    n = len(positive)
    if not values.ndim == offsets.ndim == positive.ndim == 1:
        raise InputError("values, offsets and positive must each have one dimension")
    if len(offsets) != n + 1:
        raise InputError(f"{n} items need {n + 1} offsets, got {len(offsets)}")
    if offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
        must = f"offsets must rise from 0 to the number of similarities, {len(values)}"
        raise InputError(f"{must}; they go from {offsets[0]} to {offsets[-1]}")
    if ids is not None and len(ids) != n:
        raise InputError(f"{n} items but {len(ids)} ids; give one for each")
    repeated = [name for name, count in Counter(ids or ()).items() if count > 1]
    if repeated:
        raise InputError(f"{listed(repeated)}: the id occurs more than once; ids must differ")


def _whole_numbers(what: str, given: ArrayLike) -> Ints:
    array = np.asarray(given)
    kind = array.dtype.kind
    if kind not in "iu" and not (kind == "f" and (array % 1 == 0).all()):
        for item in array.ravel().tolist():
            if isinstance(item, bool) or not isinstance(item, (int, float)) or item % 1 != 0:
                raise InputError(f"{what} must be a whole number, got {item!r}")
    return array.astype(np.int64, copy=False)


def _refuse_text(candidates: Sequence[Any], ids: Sequence[str] | None) -> None:
    """Name the first similarity that is not a number, such as the text of one."""
    for number, row in enumerate(candidates):
        name = repr(ids[number]) if ids is not None and number < len(ids) else str(number)
        try:
            items = list(row)
        except TypeError:
            raise InputError(f"item {name}: needs a list of similarities, got {row!r}") from None
        for item in items:
            if item is not None and (isinstance(item, bool) or not isinstance(item, Real)):
                raise InputError(f"item {name}: a similarity must be a number, got {item!r}")


@dataclass(frozen=True)
class MarginStats(Record):
    """Margins of n items; every statistic is None where there is no item.

    Attributes:
        mean_margin, mean_danger: means; danger is minus the margin.
        q10_margin, median_margin, q90_margin: quantiles, linear between order statistics.
        pass_rate, tie_rate: share of margins above 0; and of exactly 0, which do not pass.
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


def margins(similarities: Similarities) -> Floats:
    """sim(anchor, positive) - max over negatives of sim(anchor, negative), float64 [N].

    Spec: Crucible metrics, "Margin".
    """
    return similarities.of_positive - similarities.hardest_negative


def margin_stats(margin: Floats, *, n_skipped: int = 0) -> MarginStats:
    """Margins summed up: `margin` float64 [N]; `n_skipped` items had no negatives.

    >>> found = Similarities.of_lists([[0.75, 0.5], [0.25, 0.5, 0.125]], [0, 0])
    >>> stats = margin_stats(margins(found))
    >>> stats.pass_rate, stats.mean_margin, stats.n
    (0.5, 0.0, 2)
    """
    n = len(margin)
    if not n:
        return MarginStats(None, None, None, None, None, None, None, 0, n_skipped)
    q10, median, q90 = np.quantile(margin, QUANTILES).tolist()
    mean, pass_rate, tie_rate = (float(x.mean()) for x in (margin, margin > 0, margin == 0))
    # The danger is never -0.0.
    return MarginStats(mean, 0.0 - mean, q10, median, q90, pass_rate, tie_rate, n, n_skipped)


@dataclass(frozen=True, eq=False)
class Ranks:
    """Rank of the positive of each item, from 1; each array has length N.

    Attributes:
        strict: 1 + negatives that are more similar, int64.
        realistic: the mean of the other two, float64.
        pessimistic: 1 + negatives that are as similar or more, int64.
        n_negatives: K, int64.
    """

    strict: Ints
    realistic: Floats
    pessimistic: Ints
    n_negatives: Ints


def possible(margin: Floats, ranks: Ranks) -> NDArray[np.bool_]:
    """Whether each item can have its margin and its ranks, bool [N]: NaN and ranks of 0 cannot."""
    strict, pessimistic = ranks.strict, ranks.pessimistic
    ordered = (strict >= 1) & (strict <= pessimistic) & (pessimistic <= ranks.n_negatives + 1)
    signs = ((margin > 0) == (pessimistic == 1)) & ((margin >= 0) == (strict == 1))
    some = (ranks.n_negatives >= 1) & (np.abs(margin) <= 2 * _LARGEST)
    return np.asarray(ordered & signs & some & (2 * ranks.realistic == strict + pessimistic))


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
        n_skipped: how many items were left out because they had no negatives.
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
        counts = {name: plain.pop(name) for name in ("n", "n_skipped")}
        return plain | {f"hits@{k}": value for k, value in plain.pop("hits").items()} | counts


def ranks(similarities: Similarities) -> Ranks:
    """The three ranks of each item."""
    against = np.repeat(similarities.of_positive, similarities.counts)
    strict = 1 + similarities.per_item(similarities.negatives > against)
    level = similarities.per_item(similarities.negatives == against)
    return Ranks(strict, strict + level / 2, strict + level, similarities.n_negatives)


def rank_stats(found: Ranks, *, hits: Sequence[int] = HITS, n_skipped: int = 0) -> RankStats:
    """Ranks summed up.

    >>> found = Similarities.of_lists([[0.9, 0.4], [0.2, 0.7, 0.2]], [0, 0])
    >>> stats = rank_stats(ranks(found))
    >>> stats.mean_rank, stats.mean_rank_pessimistic, stats.hits[1]
    (1.5, 2.0, 0.5)
    """
    depths = [positive_int("k of hits@k", k) for k in hits]
    n = len(found.strict)
    if not n:
        nothing = dict.fromkeys(depths)
        return RankStats(None, None, None, None, None, None, nothing, 0, n_skipped)
    ranked = (found.strict, found.realistic, found.pessimistic)
    strict, realistic, pessimistic = (float(rank.mean()) for rank in ranked)
    # A random ranking has the mean rank 1 + K / 2.
    excess, by_chance = float((found.realistic - 1).sum()), float(found.n_negatives.sum()) / 2
    return RankStats(
        mean_rank=strict,
        mean_rank_realistic=realistic,
        mean_rank_pessimistic=pessimistic,
        adjusted_mean_rank_index=1 - excess / by_chance,
        chance_pass_rate=float((1 / (found.n_negatives + 1)).mean()),
        mrr=float((1 / found.pessimistic).mean()),
        hits={k: float((found.pessimistic <= k).mean()) for k in depths},
        n=n,
        n_skipped=n_skipped,
    )


# Tiers: items grouped by how hard they were for one frozen encoder. Cutoffs are fitted once and
# frozen, with the encoder and the corpus that they come from. Fitted again for each model, a tier
# would hold other items each time and every model would look alike. Spec: Crucible metrics, "Tier
# Assignment".

TIERS = ("tier1_easy", "tier2_robust", "tier3_adversarial")
HARDEST = TIERS[-1]
THRESHOLDS = (0.70, 0.90)

Method = Literal["inverted_cdf", "spec"]


class Tiers(Section):
    """Frozen cutoffs."""

    format: Literal["crucible tiers"] = Field("crucible tiers", description="what this file is")
    encoder: str = Field(description="what made the similarities")
    corpus_hash: str = Field(description="content hash of the items that were fitted on")
    method: Method = Field(description="how the quantiles were taken")
    thresholds: Many[float] = Field(description="quantiles of the danger at the two cutoffs")
    t1_cutoff: FiniteFloat = Field(description="largest danger of tier1_easy")
    t2_cutoff: FiniteFloat = Field(description="largest danger of tier2_robust")
    n: Annotated[int, Field(ge=1)] = Field(description="items that were fitted on")
    counts: dict[str, int] = Field(description="how many of them are in each tier")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_thresholds(self.thresholds)
        if self.t1_cutoff > self.t2_cutoff:
            raise ValueError(f"t1_cutoff {self.t1_cutoff} is above t2_cutoff {self.t2_cutoff}")
        check_names(self.counts)
        if sum(self.counts.values()) != self.n:
            raise ValueError(f"counts add up to {sum(self.counts.values())}, not to n, {self.n}")
        return self

    @property
    def notes(self) -> list[str]:
        """A sentence for each tier that holds no item."""
        why = f"holds none of the {self.n} items (few items, or dangers tie)"
        return [f"{name} {why}" for name, count in self.counts.items() if not count]

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a JSON file that `write` left."""
        return cls.parse(read_json(path), where=str(path))

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically."""
        return write_json(path, self.plain())


def fit_tiers(
    dangers: ArrayLike,
    *,
    encoder: str,
    corpus_hash: str,
    thresholds: Sequence[float] = THRESHOLDS,
    method: Method = "inverted_cdf",
) -> Tiers:
    """Freeze the cutoffs of a corpus; `Tiers.notes` names tiers without items.

    Args:
        dangers: danger of each item, [N], N >= 1, whose content hash is `corpus_hash`.
        encoder: what made the similarities; `assign_tiers` refuses those of another one.
        thresholds: 0 < t1 < t2 <= 1.
        method: "inverted_cdf" puts ceil(N t1) items into tier 1, more where dangers tie; "spec"
            takes the element at int(N t) of the sorted dangers, one further up, as the
            reference's algorithm does (its index clipped to the last).
    """
    values = _checked(dangers)
    if not len(values):
        raise InputError("no items to fit tiers on; at least one is needed")
    low, high = check_thresholds(thresholds)
    choose("method", method, ("inverted_cdf", "spec"))
    if method == "inverted_cdf":
        t1, t2 = np.quantile(values, (low, high), method="inverted_cdf").tolist()
    else:
        n, ranked = len(values), np.sort(values).tolist()
        t1, t2 = (ranked[min(int(n * share), n - 1)] for share in (low, high))
    counts = np.bincount(_codes(values, t1, t2), minlength=3).tolist()
    return Tiers(
        encoder=encoder,
        corpus_hash=corpus_hash,
        method=method,
        thresholds=(low, high),
        t1_cutoff=t1,
        t2_cutoff=t2,
        n=len(values),
        counts=dict(zip(TIERS, counts, strict=True)),
    )


def assign_tiers(
    tiers: Tiers, dangers: ArrayLike, *, encoder: str | None = None
) -> NDArray[np.str_]:
    """The tier of each item, [N]; one at a cutoff goes to the easier tier.

    Args:
        tiers: the frozen cutoffs.
        dangers: danger of each item, [N].
        encoder: what they were computed by; it must be that of the tiers. None asks nothing.

    Raises:
        InputError: the encoder is another one, or a danger is not finite.
    """
    if encoder not in (None, tiers.encoder):
        raise InputError(
            f"the tiers were fitted with encoder {tiers.encoder!r}, these dangers come from "
            f"{encoder!r}; their cutoffs do not fit each other, fit tiers for this encoder"
        )
    return np.array(TIERS)[_codes(_checked(dangers), tiers.t1_cutoff, tiers.t2_cutoff)]


def check_names(names: Sequence[str] | dict[str, int], *, where: str = "") -> None:
    """Refuse a name that is not in `TIERS`."""
    for name in names:
        choose("tier", name, TIERS, where=where)


def check_thresholds(thresholds: Sequence[float]) -> tuple[float, float]:
    """Two quantiles in order, else an `InputError`."""
    if len(thresholds) == 2:
        low, high = thresholds
        if 0 < low < high <= 1:
            return float(low), float(high)
    shown = ", ".join(f"{value:g}" for value in thresholds)
    raise InputError(f"thresholds must be two numbers with 0 < t1 < t2 <= 1, got {shown}")


def _codes(values: Floats, t1: float, t2: float) -> Ints:
    """Place in `TIERS` of each danger."""
    return (values > t1).astype(np.int64) + (values > t2)


def _checked(dangers: ArrayLike) -> Floats:
    values = np.asarray(dangers, dtype=np.float64)
    if values.ndim != 1:
        raise InputError("dangers must have one dimension, a number per item")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise InputError(f"the danger of item {wrong[0]} is {values[wrong[0]]}; it must be finite")
    return values
