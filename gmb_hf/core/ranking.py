"""Ranking: how well a score orders positive windows above negative ones (layer A, spec 4.1).

Tied scores count as one group: midranks for the AUC, one operating point for the average
precision, as in scikit-learn's `roc_auc_score` and `average_precision_score`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ranking(
    values: NDArray[np.float64], positive: NDArray[np.bool_], labelled: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AUC and average precision of each row.

    Args:
        values: float64 [R, T], finite where labelled.
        positive: bool [R, T], within `labelled`.
        labelled: bool [R, T]; the rest does not count.

    Returns:
        Two float64 [R], NaN where a row lacks positives or negatives.

    >>> every = np.ones((1, 4), dtype=bool)
    >>> scores, events = np.array([[0.1, 0.4, 0.35, 0.8]]), np.array([[False, False, True, True]])
    >>> auc, ap = ranking(scores, events, every)
    >>> float(auc[0]), round(float(ap[0]), 4)
    (0.75, 0.8333)
    """
    # Highest score first; what is not labelled comes last and weighs nothing.
    order = np.argsort(np.where(labelled, -values, np.inf), axis=1, kind="stable")
    ranked = np.take_along_axis(np.where(labelled, values, -np.inf), order, axis=1)
    hits = _counted(positive & labelled, order)
    seen = _counted(labelled, order)

    # A threshold lies below the last window of each group of ties.
    ends = np.ones(values.shape, dtype=bool)
    ends[:, :-1] = ranked[:, :-1] != ranked[:, 1:]
    row, column = np.nonzero(ends)
    true_positives, alarms = hits[row, column], seen[row, column]
    false_positives = alarms - true_positives
    fresh = np.diff(row, prepend=-1) > 0
    new_true = np.diff(true_positives, prepend=0)
    new_false = np.diff(false_positives, prepend=0)
    new_true[fresh], new_false[fresh] = true_positives[fresh], false_positives[fresh]

    n_rows = len(values)
    n_true = np.bincount(row, new_true, n_rows)
    n_false = np.bincount(row, new_false, n_rows)
    # Each negative is beaten by the positives above it and by half of those tied with it.
    wins = np.bincount(row, new_false * (true_positives - new_true / 2), n_rows)
    gain = np.bincount(row, new_true * true_positives / np.maximum(alarms, 1), n_rows)
    both = (n_true > 0) & (n_false > 0)
    undefined = np.full(n_rows, np.nan)
    auc = np.divide(wins, n_true * n_false, out=undefined.copy(), where=both)
    ap = np.divide(gain, n_true, out=undefined, where=both)
    return auc, ap


def _counted(chosen: NDArray[np.bool_], order: NDArray[np.intp]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.cumsum(
        np.take_along_axis(chosen, order, axis=1), axis=1, dtype=np.int64
    )
    return counts
