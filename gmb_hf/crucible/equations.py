"""Bundles out of a grokking task: which equations does a model hold to have the same answer?

An anchor is an equation, its positive another one with the same answer, its negatives equations
with other answers. They are drawn once from a task's rows and an explicit generator, and know
nothing of any model, so that every checkpoint is asked the same.

Shapes: m rows to draw from, N bundles, K negatives each, S seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.crucible.margins import QUANTILES
from gmb_hf.errors import InputError, positive_int
from gmb_hf.tasks.modular import ModularTask

_FORMS = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "sq_sum": "{a}^2 + {b}^2",
    "div": "{a} / {b}",
    "x2_xy_y2": "{a}^2 + {a} * {b} + {b}^2",
}


@dataclass(frozen=True, eq=False)
class EquationBundles:
    """Bundles as places among the rows that they were drawn from.

    Attributes:
        anchors: int64 [N].
        candidates: int64 [N, 1 + K], the positive first.
    """

    anchors: NDArray[np.int64]
    candidates: NDArray[np.int64]

    @property
    def n(self) -> int:
        """How many bundles there are."""
        return len(self.anchors)


def draw_bundles(
    answers: ArrayLike, n: int, negatives: int, rng: np.random.Generator
) -> EquationBundles:
    """Draw bundles from rows with these answers.

    Every row that shares its answer with another one is an anchor equally often, up to one;
    positives and negatives are drawn uniformly, the negatives of a bundle without repetition.

    Args:
        answers: the answer of each row, [m].
        n: how many bundles.
        negatives: K, how many negatives each of them has.
        rng: equal generators draw equal bundles.

    Raises:
        InputError: no two rows have the same answer, or too few have another one.

    >>> found = draw_bundles([3, 3, 5, 7], 2, 2, np.random.default_rng(0))
    >>> sorted(found.anchors.tolist()), sorted(found.candidates[0, 1:].tolist())
    ([0, 1], [2, 3])
    """
    given = np.asarray(answers)
    positive_int("bundles", n)
    positive_int("negatives", negatives)
    order = np.argsort(given, kind="stable")  # rows with one answer lie together
    _, start, group, size = np.unique(
        given[order], return_index=True, return_inverse=True, return_counts=True
    )
    eligible = np.flatnonzero(size[group] > 1)  # as places in `order`
    if not len(eligible):
        raise InputError(
            f"no two of the {len(given)} equations to draw from have the same answer, so none has "
            "a positive; hold out more equations, or take a larger modulus"
        )
    fewest = len(given) - int(size[size > 1].max())
    if negatives > fewest:
        raise InputError(
            f"{negatives} negatives are asked for, but only {fewest} of the {len(given)} "
            f"equations to draw from have another answer than some anchor; ask for at most {fewest}"
        )
    rounds = -(-n // len(eligible))
    anchors = np.concatenate([rng.permutation(eligible) for _ in range(rounds)])[:n]
    first, width = start[group[anchors]], size[group[anchors]]
    # One to width - 1 places further on, around its group.
    positives = first + (anchors - first + rng.integers(1, width)) % width
    others = np.stack(
        [rng.choice(len(given) - count, negatives, replace=False) for count in width.tolist()]
    )
    others += (others >= first[:, None]) * width[:, None]  # past the anchor's group
    candidates = order[np.column_stack([positives, others])]
    return EquationBundles(order[anchors], candidates)


def equation_texts(task: ModularTask) -> list[str]:
    """Every row of a task as people write it, in the order of its rows.

    >>> equation_texts(ModularTask("sub", 29))[3 * 29 + 5]
    '3 - 5 = 27 (mod 29)'
    """
    form = _FORMS[task.operation] + " = {c} (mod {p})"
    a, b = (column.tolist() for column in task.operands().values())
    answers = task.answers()[:, 0].tolist()
    return [form.format(a=x, b=y, c=c, p=task.prime) for x, y, c in zip(a, b, answers, strict=True)]


def bundle_lines(
    bundles: EquationBundles,
    texts: list[str],
    similarities: NDArray[np.floating],
    *,
    prefix: str,
) -> Iterator[dict[str, Any]]:
    """The bundles as `bundle.parse_bundle` reads them.

    Args:
        bundles: places among `texts`.
        texts: of the rows that they were drawn from, m.
        similarities: of the candidates, [N, 1 + K].
        prefix: of the ids, e.g. `seed_3`.
    """
    rows = zip(
        bundles.anchors.tolist(), bundles.candidates.tolist(), similarities.tolist(), strict=True
    )
    for number, (anchor, (positive, *negatives), (near, *far)) in enumerate(rows):
        yield {
            "id": f"{prefix}/{number}",
            "anchor": texts[anchor],
            "positive": texts[positive],
            "negatives": [texts[place] for place in negatives],
            "similarities": {"positive": near, "negatives": far},
        }


def margins_of(similarities: NDArray[np.floating]) -> NDArray[np.float64]:
    """Margins of many seeds' bundles, the positive first: [S, N, 1 + K] to [S, N]."""
    values = np.asarray(similarities, dtype=np.float64)
    margin: NDArray[np.float64] = values[..., 0] - values[..., 1:].max(axis=-1)
    return margin


def ranks_of(similarities: NDArray[np.floating]) -> NDArray[np.int64]:
    """Strict ranks of the positives (`Ranks.strict`): [S, N, 1 + K] to [S, N]."""
    values = np.asarray(similarities)
    rank: NDArray[np.int64] = 1 + (values[..., 1:] > values[..., :1]).sum(axis=-1)
    return rank


def track(similarities: NDArray[np.floating]) -> dict[str, NDArray[np.float64]]:
    """What a checkpoint adds to a run log, each [S]: as `margin_stats` and `rank_stats` of a seed.

    Args:
        similarities: of each seed's bundles, the positive first, [S, N, 1 + K].
    """
    margin = margins_of(similarities)
    q10, median, q90 = np.quantile(margin, QUANTILES, axis=1)
    return {
        "crucible_margin_q10": q10,
        "crucible_margin_median": median,
        "crucible_margin_q90": q90,
        "crucible_pass_rate": (margin > 0).mean(axis=1),
        "crucible_mean_rank": ranks_of(similarities).mean(axis=1),
    }
