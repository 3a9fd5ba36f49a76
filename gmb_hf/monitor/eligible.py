"""Which verdicts a monitor goes by, which indicators they let act, and by which thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from gmb_hf.benchmark.results import Results
from gmb_hf.preregistration.lock import Lock
from gmb_hf.validation import InputError, unknown


def results_of(lock: Lock, results: Results | str | Path | None) -> Results:
    """The held-out verdicts by this lock.

    Raises:
        InputError: there are none, or they are of another lock.
    """
    if results is None:
        raise InputError(
            "a lock without results: it says where the thresholds lie, not what may act on them; "
            "judge held-out runs by it (gmb evaluate --lock) and give the results.yaml"
        )
    found = results if isinstance(results, Results) else Results.read(results)
    where = "results" if isinstance(results, Results) else str(results)
    source = found.x_provenance
    made_with = source.lock_hash if source else None
    if made_with != lock.hash:
        raise InputError(
            f"{where}: these results are of {_short(made_with)}, not of {_short(lock.hash)}; give "
            "those that gmb evaluate --lock wrote with this lock"
        )
    return found


def acting_of(results: Results, act: Sequence[str] | None) -> tuple[str, ...]:
    """The indicators that raise the alarm: those asked for, else all that may.

    Raises:
        InputError: one of them is unknown, or not alarm eligible.
    """
    labels = {item.name: item.label for item in results.indicators}
    eligible = [item.name for item in results.indicators if item.x_alarm_eligible]
    for name in act or ():
        if name not in labels:
            raise unknown("indicator", name, labels, where="results")
        if name not in eligible:
            raise InputError(
                f"indicator {name!r} is {labels[name]}, not SUPPORTED_FOR_ALARM: it may be shown, "
                f"but never act; those that may: {', '.join(eligible) or 'none'}"
            )
    return tuple(dict.fromkeys(eligible if act is None else act))


def target_of(lock: Lock, acting: Sequence[str], target: float | None) -> float:
    """The false positive rate whose thresholds count: one of the lock's, its primary one if None.

    Raises:
        InputError: the lock has no such target, or for an indicator that acts no threshold by it.
    """
    if target is None:
        return lock.prereg.primary_fpr
    targets = lock.prereg.fpr_targets
    if isinstance(target, bool) or target not in targets:
        raise InputError(f"target {target!r} is not in the lock; its targets: {_listed(targets)}")
    without = {
        name: [rate for rate in targets if math.isinf(lock.thresholds(name)[rate])]
        for name in acting
    }
    silent = [name for name in acting if target in without[name]]
    if silent:
        usable = [rate for rate in targets if not any(rate in w for w in without.values())]
        raise InputError(
            f"target {target:g}: the lock says ABSTAIN for {', '.join(silent)}, it has too few "
            f"explore runs for so small a rate; targets with a threshold: {_listed(usable)}"
        )
    return float(target)


def _listed(targets: Sequence[float]) -> str:
    return ", ".join(f"{target:g}" for target in targets) or "none"


def _short(lock_hash: str | None) -> str:
    return "no lock" if lock_hash is None else f"lock {lock_hash[:16]}"
