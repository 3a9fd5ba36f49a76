"""Layer A: how well a score ranks positive windows above negative ones (spec 4.2).

AUC and average precision, pooled over all windows and run by run. Tied scores count as one group:
midranks for the AUC, one operating point for the average precision, as in scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.documents import Record


@dataclass(frozen=True)
class LayerA(Record):
    """Ranking only; it never implies that an alarm is possible.

    Attributes:
        auc, ap: over the pooled windows; None where a class is empty.
        auc_run_mean, auc_run_sd, ap_run_mean, ap_run_sd: over the runs with both classes (sd with
            one degree of freedom less; None for fewer than two runs).
        n_runs: how many those are.
    """

    auc: float | None
    ap: float | None
    auc_run_mean: float | None
    auc_run_sd: float | None
    ap_run_mean: float | None
    ap_run_sd: float | None
    n_runs: int


def layer_a(judgement: Judgement) -> LayerA:
    """AUC and AP of the held-out windows."""
    windows, scores = judgement.windows, judgement.evaluation
    labelled = windows.positive | windows.negative
    pooled_auc, pooled_ap = ranking(
        scores.values[labelled][None, :],
        windows.positive[labelled][None, :],
        np.ones((1, int(labelled.sum())), dtype=bool),
    )
    auc, ap = ranking(scores.values, windows.positive, labelled)
    both = ~np.isnan(auc)
    auc, ap = auc[both], ap[both]
    return LayerA(
        auc=_defined(pooled_auc[0]),
        ap=_defined(pooled_ap[0]),
        auc_run_mean=_mean(auc),
        auc_run_sd=_deviation(auc),
        ap_run_mean=_mean(ap),
        ap_run_sd=_deviation(ap),
        n_runs=int(both.sum()),
    )


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


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(values.mean()) if len(values) else None


def _deviation(values: NDArray[np.float64]) -> float | None:
    return float(values.std(ddof=1)) if len(values) > 1 else None
