"""Tiers: items grouped by how hard they were for one frozen encoder.

Cutoffs are fitted once and frozen, with the encoder and the corpus that they come from. Fitted
again for each model, a tier would hold other items each time and every model would look alike.
Spec: Crucible metrics, "Tier Assignment".
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, FiniteFloat, model_validator

from gmb_hf.documents import Many, Section
from gmb_hf.errors import InputError, choose, unknown
from gmb_hf.files import read_json, write_json

TIERS = ("tier1_easy", "tier2_robust", "tier3_adversarial")
HARDEST = TIERS[-1]
THRESHOLDS = (0.70, 0.90)

Method = Literal["inverted_cdf", "spec"]


class EmptyTierWarning(UserWarning):
    """A tier has no items, and so no statistics."""


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
        return [
            f"{name} holds none of the {self.n} items (few items, or dangers tie)"
            for name, count in self.counts.items()
            if not count
        ]

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
    """Freeze the cutoffs of a corpus.

    Args:
        dangers: danger of each item, [N], N >= 1.
        encoder: what made the similarities; `assign_tiers` refuses those of another one.
        corpus_hash: content hash of the items.
        thresholds: 0 < t1 < t2 <= 1.
        method: "inverted_cdf" puts ceil(N t1) items into tier 1, more where dangers tie; "spec"
            takes the element at int(N t) of the sorted dangers, one further up, as the
            reference's algorithm does (its index clipped to the last).

    Warns:
        EmptyTierWarning: a tier holds no item of the corpus.
    """
    values = _checked(dangers)
    if not len(values):
        raise InputError("no items to fit tiers on; at least one is needed")
    low, high = check_thresholds(thresholds)
    choose("method", method, ("inverted_cdf", "spec"))
    if method == "inverted_cdf":
        t1, t2 = np.quantile(values, (low, high), method="inverted_cdf").tolist()
    else:
        last = len(values) - 1
        ranked = np.sort(values).tolist()
        t1, t2 = (ranked[min(int(len(values) * share), last)] for share in (low, high))
    counts = np.bincount(_codes(values, t1, t2), minlength=3).tolist()
    fitted = Tiers(
        encoder=encoder,
        corpus_hash=corpus_hash,
        method=method,
        thresholds=(low, high),
        t1_cutoff=t1,
        t2_cutoff=t2,
        n=len(values),
        counts=dict(zip(TIERS, counts, strict=True)),
    )
    for note in fitted.notes:
        warnings.warn(note, EmptyTierWarning, stacklevel=2)
    return fitted


def assign_tiers(
    tiers: Tiers, dangers: ArrayLike, *, encoder: str | None = None
) -> NDArray[np.str_]:
    """The tier of each item by frozen cutoffs, [N]; a danger at a cutoff goes to the easier tier.

    Args:
        tiers: what `fit_tiers` froze.
        dangers: danger of each item, [N].
        encoder: what made these similarities, if it is known.

    Raises:
        InputError: the encoder is another one, or a danger is not finite.
    """
    if encoder is not None and encoder != tiers.encoder:
        raise InputError(
            f"the tiers were fitted with encoder {tiers.encoder!r}, these dangers come from "
            f"{encoder!r}; their cutoffs do not fit each other, fit tiers for this encoder"
        )
    return np.array(TIERS)[_codes(_checked(dangers), tiers.t1_cutoff, tiers.t2_cutoff)]


def check_names(names: Sequence[str] | dict[str, int], *, where: str = "") -> None:
    """Refuse a name that is not in `TIERS`."""
    for name in names:
        if name not in TIERS:
            raise unknown("tier", str(name), TIERS, where=where)


def check_thresholds(thresholds: Sequence[float]) -> tuple[float, float]:
    """Two quantiles in order, else an `InputError`."""
    if len(thresholds) == 2:
        low, high = thresholds
        if 0 < low < high <= 1:
            return float(low), float(high)
    shown = ", ".join(f"{value:g}" for value in thresholds)
    raise InputError(f"thresholds must be two numbers with 0 < t1 < t2 <= 1, got {shown}")


def _codes(values: NDArray[np.float64], t1: float, t2: float) -> NDArray[np.int64]:
    """Place in `TIERS` of each danger; one at a cutoff belongs to the easier tier."""
    return (values > t1).astype(np.int64) + (values > t2)


def _checked(dangers: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(dangers, dtype=np.float64)
    if values.ndim != 1:
        raise InputError("dangers must have one dimension, a number per item")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise InputError(f"the danger of item {wrong[0]} is {values[wrong[0]]}; it must be finite")
    return values
