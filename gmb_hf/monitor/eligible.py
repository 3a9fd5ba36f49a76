"""Which verdicts a monitor goes by, and which indicators they let act."""

from __future__ import annotations

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


def _short(lock_hash: str | None) -> str:
    return "no lock" if lock_hash is None else f"lock {lock_hash[:16]}"
