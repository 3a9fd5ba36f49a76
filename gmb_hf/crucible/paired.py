"""Two models on the same items: which tests say that they differ, overall and tier by tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.benchmark.record import Record
from gmb_hf.crucible.significance import (
    McNemar,
    Permutation,
    checked_pairs,
    holm,
    mcnemar,
    paired_permutation,
)
from gmb_hf.crucible.tiers import TIERS, check_names
from gmb_hf.validation import InputError

OVERALL = "overall"


@dataclass(frozen=True)
class PairedTest(Record):
    """Tests on one group of items.

    Attributes:
        group: "overall" or a tier.
        n: its items.
        mcnemar: exact test of the passes.
        mcnemar_adjusted: its p-value, Holm-adjusted over the groups.
        permutation: sign-flip test of the mean margin.
        permutation_adjusted: its p-value, Holm-adjusted over the groups.
    """

    group: str
    n: int
    mcnemar: McNemar
    mcnemar_adjusted: float
    permutation: Permutation
    permutation_adjusted: float


def paired_tests(
    first: ArrayLike,
    second: ArrayLike,
    tiers: Sequence[str] | NDArray[np.str_] | None = None,
    *,
    permutations: int = 9999,
    seed: int = 0,
) -> list[PairedTest]:
    """Compare the margins of two models, overall and in each tier that has items.

    Args:
        first, second: margins of the same items, float64 [N].
        tiers: tier of each item; None tests the whole only.
        permutations: sign flips of each permutation test.
        seed: of the sign flips.

    Raises:
        InputError: arrays that do not fit, no items, or a margin that is not finite.
    """
    a, b = checked_pairs(first, second)
    groups: dict[str, NDArray[np.bool_]] = {OVERALL: np.ones(len(a), dtype=bool)}
    if tiers is not None:
        labels = np.asarray(tiers, dtype=np.str_)
        if len(labels) != len(a):
            raise InputError(f"{len(a)} items but {len(labels)} tiers; give one for each")
        check_names(np.unique(labels).tolist())
        groups |= {name: labels == name for name in TIERS if (labels == name).any()}
    passes = {name: mcnemar(a[rows] > 0, b[rows] > 0) for name, rows in groups.items()}
    shifts = {
        name: paired_permutation(a[rows], b[rows], permutations=permutations, seed=seed)
        for name, rows in groups.items()
    }
    by_passes = holm([found.p_value for found in passes.values()])
    by_margin = holm([found.p_value for found in shifts.values()])
    return [
        PairedTest(
            group=name,
            n=int(rows.sum()),
            mcnemar=passes[name],
            mcnemar_adjusted=float(by_passes[place] or 0.0),
            permutation=shifts[name],
            permutation_adjusted=float(by_margin[place] or 0.0),
        )
        for place, (name, rows) in enumerate(groups.items())
    ]
