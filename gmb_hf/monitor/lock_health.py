"""What a lock keeps of its explore runs, so that a monitor can tell a live run from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gmb_hf.monitor.health import (
    PARTS,
    Reference,
    conformal_bound,
    counted,
    cusum,
    largest_drifts,
)
from gmb_hf.preregistration.plan import runs_needed
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.record import LockedDrift, LockedHealth, LockedSide
from gmb_hf.runs.panel import Panel


def lock_health(
    prereg: Prereg,
    scores: Mapping[str, Panel],
    *,
    fitted_on: Mapping[str, Sequence[str]] | None = None,
) -> LockedHealth | None:
    """The reference and the maxima of whole explore runs.

    Half of the runs are the reference, fewer where the other half could not promise alpha. Runs
    that a score was fitted on belong to the reference: their scores are better than those of later
    runs, and no bound may come from them. A score whose fit would leave too few others to promise
    alpha is left out instead.

    Args:
        prereg: its burn-in, and the share of runs in which a monitor may abstain for nothing.
        scores: candidate -> its score on the explore runs, the same runs for all.
        fitted_on: candidate -> the runs that its score was fitted on, where it was fitted.

    Returns:
        None where there are not two runs, or no checkpoint after burn-in.
    """
    some = next(iter(scores.values()))
    n_runs, alpha = some.n_runs, prereg.health_alpha
    seen: set[str] = set()
    for fitted, runs in (fitted_on or {}).items():
        if n_runs - len(seen.union(runs)) < runs_needed(alpha):
            scores = {name: panel for name, panel in scores.items() if name != fitted}
        else:
            seen.update(runs)
    last = int(some.last_step.max())
    first = max(prereg.burn_in, int(some.first_step.min()))
    if n_runs < 2 or last < first:
        return None
    spare = n_runs - runs_needed(alpha)
    n_reference = max(len(seen), min(n_runs // 2, spare) if spare > 0 else n_runs // 2)
    order = sorted(range(n_runs), key=lambda row: some.runs[row] not in seen)
    scores = {name: panel.select(order) for name, panel in scores.items()}
    n_steps = len(np.unique(some.steps[some.present & (some.steps >= first)]))
    begins = np.linspace(first, last + 1, min(PARTS, n_steps), endpoint=False).astype(np.int64)
    drifts = {
        name: _lock_drift(panel, n_reference, begins, alpha) for name, panel in scores.items()
    }
    return LockedHealth(
        alpha=alpha,
        first_step=int(some.first_step.max()),
        last_step=last,
        n_reference_runs=n_reference,
        n_calibration_runs=n_runs - n_reference,
        begins=tuple(begins.tolist()),
        candidates={name: drift for name, drift in drifts.items() if drift is not None},
    )


def _lock_drift(
    panel: Panel, n_reference: int, begins: NDArray[np.int64], alpha: float
) -> LockedDrift | None:
    """The drift of one score; None where no reference run has one to rank among."""
    reference = panel.select(np.arange(n_reference))
    calibration = panel.select(np.arange(n_reference, panel.n_runs))
    usable = counted(reference, begins)
    if not usable.any():
        return None
    ruler = Reference.of(reference, begins)
    scales = np.median(_sums(ruler, reference).max(axis=1), axis=0)
    maxima = _sums(ruler, calibration).max(axis=1)
    up, down = (
        LockedSide(scale=max(int(scale), 1), maxima=tuple(most))
        for scale, most in zip(scales, maxima.T.tolist(), strict=True)
    )
    knots = tuple(tuple(row) for row in ruler.knots.tolist())
    drift = LockedDrift(knots=knots, up=up, down=down)
    bound = conformal_bound(largest_drifts([drift]), alpha)
    part = np.searchsorted(begins, reference.steps, side="right")
    within = [reference.values[usable & (part == number)] for number in np.unique(part[usable])]
    # About the mean of each part of the training.
    sd = math.sqrt(sum(x.size * x.var() for x in within) / usable.sum())
    delays = [_delay(ruler, calibration, shift, bound, drift) for shift in (sd, -sd)]
    up, down = (
        side.model_copy(update={"delay_steps": delay})
        for side, delay in zip((up, down), delays, strict=True)
    )
    return drift.model_copy(update={"up": up, "down": down})


def _sums(ruler: Reference, panel: Panel) -> NDArray[np.int64]:
    """Both CUSUMs, int64 [R, T, 2]; what is absent moves neither."""
    return cusum(np.where(panel.present, ruler.ranks(panel.values, panel.steps), 0))


def _delay(
    ruler: Reference, panel: Panel, shift: float, bound: float, drift: LockedDrift
) -> int | None:
    """Median steps until a shift from mid-run on passes the bound; None where half never do."""
    middle = (int(ruler.begins[0]) + panel.last_step[:, None]) / 2
    late = panel.steps >= middle
    sums = _sums(ruler, panel.with_values(panel.values + shift * late))
    scaled = (sums / [drift.up.scale, drift.down.scale]).max(axis=2)
    found = (scaled > bound) & panel.present & late
    at = panel.steps[np.arange(panel.n_runs), found.argmax(axis=1)]
    delays = np.where(found.any(axis=1), at - middle[:, 0], math.inf)
    median = float(np.quantile(delays, 0.5, method="higher"))
    return math.ceil(median) if math.isfinite(median) else None
