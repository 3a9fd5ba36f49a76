"""How an ensemble is to be made, in a plain sentence; `explain_record` has what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from gmb_hf.preregistration.candidate import Candidate, Ensemble
from gmb_hf.preregistration.explain_record import ORIENTATION, traits


def explain_design_of(candidates: Iterable[Candidate]) -> list[str]:
    """A sentence for each ensemble among some candidates."""
    return [_design(item.name, item.x_ensemble) for item in candidates if item.x_ensemble]


def _design(name: str, ensemble: Ensemble) -> str:
    members = ", ".join(
        f"{item.name}{traits(item.family, item.params, item.x_sees_test_labels)} "
        f"{ORIENTATION[item.x_sign or 1]}"
        for item in ensemble.members
    )
    penalties = ", ".join(f"{penalty:g}" for penalty in ensemble.penalties)
    return (
        f"{name} is the log-odds of a logistic regression on {members}: it is fitted on "
        f"{100 * ensemble.fit_share:.6g}% of the explore runs, dealt by their names and the split "
        f"seed {ensemble.split_seed}, with the L2 penalty out of {penalties} that does best in "
        f"{ensemble.folds} folds of these runs, and calibrated on the other explore runs."
    )
