"""What is doubtful about an ensemble that can be locked nevertheless."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gmb_hf.preregistration.findings import Finding, warning
from gmb_hf.preregistration.locked_ensemble import LockedEnsemble
from gmb_hf.preregistration.plan import runs_needed
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.record import LockedHealth


def doubts(
    name: str, record: LockedEnsemble, prereg: Prereg, with_negatives: int
) -> Iterator[Finding]:
    """Warnings of one ensemble's fit, and of the runs that are left to calibrate it.

    Args:
        name: of the ensemble.
        record: what was fitted.
        prereg: the design.
        with_negatives: how many runs with negative windows calibrate the other scores.
    """
    if record.at_edge:
        side = "smaller" if record.penalty == min(map(float, record.log_losses)) else "larger"
        yield warning(
            "penalty_at_edge",
            f"{name}: the best of its penalties is {record.penalty:g}, at the edge of the "
            f"grid; add {side} ones, or its fit may not be the best",
        )
    runs, of = record.n_calibration_runs, len(record.calibrate_runs)
    lost = [
        target
        for target in prereg.fpr_targets
        if prereg.protocol == "strict" and runs < runs_needed(target) <= with_negatives
    ]
    if lost:
        yield warning(
            "few_runs_for_ensemble",
            f"{name}: thresholds for {', '.join(f'{target:g}' for target in lost)} take "
            f"{max(map(runs_needed, lost))} calibrating runs with negative windows, there are "
            f"{runs} of {of}: the answer will be ABSTAIN; lower its fit_share, or train more",
        )


def unwatched(
    locked: Mapping[str, LockedEnsemble], health: LockedHealth | None
) -> Iterator[Finding]:
    """Warnings of ensembles whose drift a monitor could not tell, where it could that of others."""
    if health is None or health.n_calibration_runs < runs_needed(health.alpha):
        return
    for name in locked:
        if name in health.candidates:
            continue
        yield warning(
            "no_health_for_ensemble",
            f"{name}: a monitor cannot tell that it drifts, for which {health.alpha:g} takes "
            f"{runs_needed(health.alpha)} explore runs that no fit has seen; lower its fit_share, "
            "give all ensembles one split_seed, or train more",
        )
