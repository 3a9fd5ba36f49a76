"""Each formula of the spec once more, item by item, and the items that tests draw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from gmb_hf.crucible.margins import Similarities, margin_stats, margins, rank_stats, ranks


@dataclass(frozen=True)
class Item:
    """The similarities of an item's candidates, and which of them is the positive."""

    candidates: list[float]
    positive: int

    @property
    def negatives(self) -> list[float]:
        return self.candidates[: self.positive] + self.candidates[self.positive + 1 :]

    @property
    def margin(self) -> float:
        return self.candidates[self.positive] - max(self.negatives)

    @property
    def danger(self) -> float:
        return max(self.negatives) - self.candidates[self.positive]

    @property
    def strict(self) -> int:
        return 1 + sum(value > self.candidates[self.positive] for value in self.negatives)

    @property
    def pessimistic(self) -> int:
        return 1 + sum(value >= self.candidates[self.positive] for value in self.negatives)


# A coarse grid makes ties common; beside it, any float64.
similarity = st.one_of(
    st.integers(-4, 4).map(lambda value: value / 4),
    st.floats(-1, 1),
    st.floats(-1e9, 1e9),
)


@st.composite
def item(draw: st.DrawFn) -> Item:
    candidates = draw(st.lists(similarity, min_size=2, max_size=7))
    return Item(candidates, draw(st.integers(0, len(candidates) - 1)))


items = st.lists(item(), min_size=1, max_size=12)


def flat(given: Sequence[Item]) -> Similarities:
    """The items as the library takes them."""
    return Similarities.of_lists([one.candidates for one in given], [one.positive for one in given])


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def linear_quantile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    place = (len(ranked) - 1) * share
    low = ranked[math.floor(place)]
    high = ranked[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def margin_stats_of(items: Similarities):
    """The margins of items, summed up."""
    return margin_stats(margins(items), n_skipped=items.n_skipped)


def rank_stats_of(items: Similarities, hits=(1, 5)):
    """The ranks of items, summed up."""
    return rank_stats(ranks(items), hits=hits, n_skipped=items.n_skipped)
