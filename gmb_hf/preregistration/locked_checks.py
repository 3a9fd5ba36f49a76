"""That the frozen candidates are those of the design, all of them and no others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gmb_hf.preregistration.candidate import Ensemble
from gmb_hf.preregistration.locked_ensemble import LockedEnsemble
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.record import CENTRAL, LockedCandidate, target_key
from gmb_hf.validation import InputError, unknown


def check_candidates(
    prereg: Prereg, candidates: Mapping[str, LockedCandidate], explore_runs: Sequence[str]
) -> None:
    """Raise `InputError` unless a lock of these candidates holds what the design asks for.

    Every candidate of the design, and beside them controls only, with the design's sign, a number
    for each target, and of an ensemble the formula of its members, made on explore runs alone.
    """
    declared = {candidate.name: candidate for candidate in prereg.candidates}
    for name, candidate in declared.items():
        if name not in candidates:
            raise InputError(f"lock: candidate {name!r} of the prereg has no thresholds")
        if candidate.x_sign not in (None, candidates[name].sign):
            raise InputError(
                f"lock: candidate {name!r} has sign {candidates[name].sign:+d}, the prereg says "
                f"{candidate.x_sign:+d}"
            )
    wanted = {target_key(target) for target in prereg.fpr_targets}
    for name, item in candidates.items():
        if declared and name not in declared and item.family != "control":
            raise unknown("candidate", name, declared, where="lock: not in the prereg")
        design = declared[name].x_ensemble if name in declared else None
        if (design is None) != (item.ensemble is None):
            raise InputError(
                f"lock: candidate {name!r} "
                + ("is no ensemble" if design is None else "is an ensemble without a formula")
            )
        if design is not None and item.ensemble is not None:
            _check_ensemble(f"lock: candidate {name!r}", design, item.ensemble, explore_runs)
        if CENTRAL not in item.members:
            raise InputError(f"lock: candidate {name!r} has no member {CENTRAL!r}")
        for member, thresholds in item.members.items():
            lacking = sorted(wanted.symmetric_difference(thresholds))
            bad = sorted(key for key, tau in thresholds.items() if tau != tau)
            if lacking or bad:
                what = f"targets {', '.join(lacking)} do not match the prereg's"
                raise InputError(
                    f"lock: candidate {name!r}, member {member!r}: "
                    + (what if lacking else f"the threshold for {bad[0]} is NaN")
                )


def _check_ensemble(
    where: str, design: Ensemble, locked: LockedEnsemble, explore_runs: Sequence[str]
) -> None:
    asked, found = ([member.name for member in each.members] for each in (design, locked))
    if asked != found:
        raise InputError(
            f"{where}: its formula is of {', '.join(found)}, the prereg's of {', '.join(asked)}"
        )
    used = sorted([*locked.fit_runs, *locked.calibrate_runs])
    if used != sorted(explore_runs):
        odd = sorted(set(used).symmetric_difference(explore_runs))
        raise InputError(
            f"{where}: fit_runs and calibrate_runs are not the explore runs, each once"
            + (f"; {odd[0]!r} is not among both" if odd else "")
        )
