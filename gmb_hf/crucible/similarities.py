"""What a model makes of many items: the similarity of each candidate to its anchor.

Items have different numbers of candidates, so they lie one after another in one flat array. All
later steps run over that array at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.errors import InputError, choose, first_of

OnEmpty = Literal["error", "skip"]

# Sums and squares of similarities below this stay finite in float64.
_LARGEST = 1e150
_MOST_NAMED = 5

PLACE = "the index of the positive"
"""How messages call it."""


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

    values: NDArray[np.float64]
    offsets: NDArray[np.int64]
    positive: NDArray[np.int64]
    ids: tuple[str, ...] | None = None
    n_skipped: int = 0

    def __post_init__(self) -> None:
        _check_shapes(self)
        self._refuse(
            self.counts < 2,
            "no negatives; remove them, or have them left out (empty='skip', --skip-empty)",
        )
        wrong = (self.positive < 0) | (self.positive >= self.counts)
        self._refuse(wrong, f"{PLACE} is out of range (it counts from 0)")
        # NaN fails every comparison.
        bad = ~(np.abs(self.values) < _LARGEST)
        if bad.any():
            self._refuse(
                np.logical_or.reduceat(bad, self.starts), "a similarity is missing or not finite"
            )

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
        """From flat arrays (see the attributes of the class).

        Args:
            values: [M].
            offsets: [N + 1].
            positive: [N].
            ids: N names.
            empty: what to do with items without negatives: "error" refuses them, "skip" leaves
                them out and counts them.
        """
        choose("empty", empty, ("error", "skip"))
        flat = np.asarray(values, dtype=np.float64)
        places = _whole("offsets", offsets)
        index = _whole(PLACE, positive)
        names = None if ids is None else tuple(str(item) for item in ids)
        kept = np.diff(places) >= 2 if places.ndim == 1 else np.array([])
        skipped = int((~kept).sum()) if len(kept) == len(index) else 0
        if empty == "error" or not skipped:
            return cls(flat, places, index, names)
        # The ids of all items are checked, also of those that are left out.
        _refuse_repeated(names)
        counts = np.diff(places)
        fits = places[0] == 0 and places[-1] == len(flat) and bool((counts >= 0).all())
        if not fits:
            return cls(flat, places, index, names)  # which says what is wrong
        numbers = np.flatnonzero(kept)
        if names is None:
            names = tuple(map(str, range(len(index))))
        return cls(
            flat[np.repeat(kept, counts)],
            np.concatenate([[0], np.cumsum(counts[kept])]),
            index[kept],
            tuple(names[number] for number in numbers),
            skipped,
        )

    @classmethod
    def of_lists(
        cls,
        candidates: Sequence[Sequence[float]],
        positive: Sequence[int] | NDArray[np.int64],
        ids: Sequence[str] | None = None,
        *,
        empty: OnEmpty = "error",
    ) -> Self:
        """From a list of similarities per item.

        >>> found = Similarities.of_lists([[0.9, 0.2], [0.1, 0.5, 0.3]], [0, 2])
        >>> found.n, found.values.tolist()
        (2, [0.9, 0.2, 0.1, 0.5, 0.3])
        """
        try:
            counts = np.fromiter(map(len, candidates), dtype=np.int64, count=len(candidates))
            values = np.array(list(chain.from_iterable(candidates)))
        except (TypeError, ValueError):
            _refuse_what_is_no_number(candidates, ids)
            raise
        if values.ndim != 1 or values.dtype.kind not in "fiu":
            # Checked one by one; None, which makes objects of them all, becomes NaN.
            _refuse_what_is_no_number(candidates, ids)
            try:
                values = values.astype(np.float64)
            except OverflowError:
                raise InputError("a similarity is too large for a number of 64 bits") from None
        if len(candidates) != len(positive):
            raise InputError(
                f"{len(candidates)} items have similarities but {len(positive)} have an index of "
                "the positive; give one for each"
            )
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return cls.of_flat(values, offsets, positive, ids, empty=empty)

    @property
    def n(self) -> int:
        """How many items there are."""
        return len(self.positive)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Candidates of each item, [N]."""
        return np.diff(self.offsets)

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each item begins, [N]."""
        return self.offsets[:-1]

    @property
    def n_negatives(self) -> NDArray[np.int64]:
        """K, the number of negatives of each item, [N]."""
        return self.counts - 1

    @cached_property
    def of_positive(self) -> NDArray[np.float64]:
        """Similarity of each item's positive, float64 [N]."""
        found: NDArray[np.float64] = self.values[self.starts + self.positive]
        return found

    @cached_property
    def negatives(self) -> NDArray[np.float64]:
        """`values` with minus infinity in place of every positive, float64 [M]."""
        masked = self.values.copy()
        masked[self.starts + self.positive] = -np.inf
        return masked

    @cached_property
    def hardest_negative(self) -> NDArray[np.float64]:
        """The largest similarity of a negative, float64 [N]."""
        if not self.n:
            return np.empty(0)
        hardest: NDArray[np.float64] = np.maximum.reduceat(self.negatives, self.starts)
        return hardest

    def per_item(self, flags: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many of each item's candidates are flagged: bool [M] to int64 [N]."""
        upto = np.concatenate([[0], np.cumsum(flags, dtype=np.int64)])
        found: NDArray[np.int64] = upto[self.offsets[1:]] - upto[self.starts]
        return found

    def names(self) -> tuple[str, ...]:
        """The items' names; numbers from 0 where none were given."""
        return self.ids if self.ids is not None else tuple(map(str, range(self.n)))

    def _refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        where = np.flatnonzero(wrong)
        if len(where):
            ids = self.ids
            raise InputError(f"{listed([ids[i] if ids else int(i) for i in where])}: {why}")


def listed(names: Sequence[str | int]) -> str:
    """Items by name, the first few of them: `items 'a', 'b'`."""
    shown = first_of([repr(name) for name in names], _MOST_NAMED)
    return f"{'item' if len(names) == 1 else 'items'} {shown}"


def _check_shapes(given: Similarities) -> None:
    values, offsets, positive = given.values, given.offsets, given.positive
    if values.ndim != 1 or offsets.ndim != 1 or positive.ndim != 1:
        raise InputError("values, offsets and positive must each have one dimension")
    if len(offsets) != len(positive) + 1:
        raise InputError(
            f"{len(positive)} items need {len(positive) + 1} offsets, got {len(offsets)}"
        )
    if offsets[0] != 0 or offsets[-1] != len(values) or (np.diff(offsets) < 0).any():
        raise InputError(
            f"offsets must rise from 0 to the number of similarities, {len(values)}; they go from "
            f"{offsets[0]} to {offsets[-1]}"
        )
    if given.ids is not None and len(given.ids) != len(positive):
        raise InputError(f"{len(positive)} items but {len(given.ids)} ids; give one for each")
    _refuse_repeated(given.ids)


def _refuse_repeated(ids: Sequence[str] | None) -> None:
    if ids is None or len(set(ids)) == len(ids):
        return
    seen: set[str] = set()
    repeated = dict.fromkeys(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    raise InputError(f"{listed(list(repeated))}: the id occurs more than once; ids must differ")


def _whole(what: str, given: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(given)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f" and bool((array == np.round(array)).all()):
        return array.astype(np.int64)
    wrong = next(item for item in array.ravel().tolist() if not _is_whole(item))
    raise InputError(f"{what} must be a whole number, got {wrong!r}")


def _is_whole(item: Any) -> bool:
    return isinstance(item, (int, float)) and not isinstance(item, bool) and item == item // 1


def _refuse_what_is_no_number(candidates: Sequence[Any], ids: Sequence[str] | None) -> None:
    """Name the first of the similarities that is none, such as the text of a number."""
    for number, row in enumerate(candidates):
        name = repr(ids[number]) if ids is not None and number < len(ids) else str(number)
        try:
            items = list(row)
        except TypeError:
            raise InputError(f"item {name}: needs a list of similarities, got {row!r}") from None
        for item in items:
            if item is not None and (isinstance(item, bool) or not isinstance(item, Real)):
                raise InputError(f"item {name}: a similarity must be a number, got {item!r}")
