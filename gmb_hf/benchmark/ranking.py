"""Layer A: how well a score ranks positive windows above negative ones (spec 4.2).

AUC and average precision, pooled over all windows and run by run. Tied scores count as one group:
midranks for the AUC, one operating point for the average precision, as in scikit-learn.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from gmb_hf.base.documents import Count, Number, OpenSection
from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.records import WhyNull

_ONE_CLASS = WhyNull("the labelled windows are of one class only")
_NO_RUN = WhyNull("no run has windows of both classes")
_ONE_RUN = WhyNull("fewer than two runs have windows of both classes")


class LayerARecord(OpenSection):
    """Ranking only; it never implies that a score may raise an alarm."""

    # Over the pooled windows.
    auc: Annotated[Number, _ONE_CLASS]
    ap: Annotated[Number, _ONE_CLASS]
    # Over the runs with both classes; the deviation with one degree of freedom less.
    x_auc_run_mean: Annotated[Number, _NO_RUN] = None
    x_auc_run_sd: Annotated[Number, _ONE_RUN] = None
    x_ap_run_mean: Annotated[Number, _NO_RUN] = None
    x_ap_run_sd: Annotated[Number, _ONE_RUN] = None
    x_n_runs: Count | None = None


def layer_a(judgement: Judgement) -> LayerARecord:
    """AUC and AP of the held-out windows."""
    windows, scores = judgement.windows, judgement.evaluation
    labelled = windows.positive | windows.negative
    (pooled_auc,), (pooled_ap,) = ranking(
        scores.values[labelled][None, :],
        windows.positive[labelled][None, :],
        np.ones((1, int(labelled.sum())), dtype=bool),
    )
    auc, ap = ranking(scores.values, windows.positive, labelled)
    both = ~np.isnan(auc)
    auc, ap = auc[both], ap[both]
    return LayerARecord(
        auc=None if np.isnan(pooled_auc) else float(pooled_auc),
        ap=None if np.isnan(pooled_ap) else float(pooled_ap),
        x_auc_run_mean=float(auc.mean()) if len(auc) else None,
        x_auc_run_sd=float(auc.std(ddof=1)) if len(auc) > 1 else None,
        x_ap_run_mean=float(ap.mean()) if len(ap) else None,
        x_ap_run_sd=float(ap.std(ddof=1)) if len(ap) > 1 else None,
        x_n_runs=int(both.sum()),
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


def has_ranking_signal(layer_a: LayerARecord) -> bool:
    """Whether the score ranks above chance: pooled AUC over .5, and the runs' mean surely too.

    Surely: the lower end of the 95% Student interval over runs, where two runs have an AUC.
    """
    if layer_a.auc is None or layer_a.auc <= 0.5:
        return False
    mean, deviation, n_runs = layer_a.x_auc_run_mean, layer_a.x_auc_run_sd, layer_a.x_n_runs
    if mean is None or deviation is None or n_runs is None:
        return True
    reach = stdtrit(n_runs - 1, 0.975) * deviation / np.sqrt(n_runs)
    return bool(mean - reach > 0.5)
