"""Layer A: how well a score ranks positive windows above negative ones (spec 4.2).

AUC and average precision, pooled over all windows and run by run. Tied scores count as one group:
midranks for the AUC, one operating point for the average precision, as in scikit-learn.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from scipy.special import stdtrit

from gmb_hf.base.documents import Count, Number, OpenSection
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.records import WhyNull
from gmb_hf.core.ranking import ranking

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
