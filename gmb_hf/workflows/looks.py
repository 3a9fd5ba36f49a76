"""Looks at held-out runs: adding some after the first look is allowed only as locked.

Whoever may add runs until a score passes will see noise pass. A lock therefore fixes how many looks
there are (`x_looks`, over which alpha is split) and how many runs in all (`x_max_eval_seeds`). Each
look keeps every run of those before it. What was looked at is kept beside the lock, in
`NAME.looks.yaml`; to judge the same runs again, or some of them, is no new look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gmb_hf.preregistration.documents import Many, Section, load_yaml, write_yaml
from gmb_hf.preregistration.lock import Lock
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError, first_of

_HEADING = """\
Looks at held-out runs by the lock beside this file; gmb evaluate writes it. Part of the record:
without it nobody knows how often was looked."""


class LookRecord(Section):
    """One look that was taken."""

    lock_hash: str
    look: int
    date: str
    evaluation_fingerprint: str
    runs: Many[str]


class LooksFile(Section):
    """Every look by the locks that lay in one place, oldest first."""

    looks: Many[LookRecord] = ()


@dataclass(frozen=True)
class Look:
    """The look that is about to be taken.

    Attributes:
        number: 1 for the first.
        notes: what a reader must know about it.
        path: where looks are kept.
        record: what to add there; None where these runs have been looked at before.
        earlier: what is there already.
    """

    number: int
    notes: tuple[str, ...]
    path: Path
    record: LookRecord | None
    earlier: tuple[LookRecord, ...]

    def keep(self) -> None:
        """Write the look down; call it before anybody sees a result.

        Raises:
            InputError: the folder of the lock cannot be written to.
        """
        if self.record is None:
            return
        kept = LooksFile(looks=(*self.earlier, self.record))
        write_yaml(self.path, kept.plain(), heading=_HEADING)


def next_look(lock: Lock, lock_path: str | Path, log: RunLog) -> Look:
    """Which look at held-out runs this is.

    Args:
        lock: what was frozen.
        lock_path: where it lies; looks are kept beside it.
        log: the held-out runs.

    Raises:
        InputError: runs were added beyond the looks that the lock allows, or runs of an earlier
            look are missing.
    """
    place, path = Path(lock_path), looks_path(lock_path)
    earlier = LooksFile.parse(load_yaml(path), where=str(path)).looks if path.exists() else ()
    runs = [
        name if seed is None else str(seed) for name, seed in zip(log.runs, log.seeds, strict=True)
    ]
    fingerprint, notes = log.fingerprint(), []
    taken = [item for item in earlier if item.lock_hash == lock.hash]
    elsewhere = {run for item in earlier if item.lock_hash != lock.hash for run in item.runs}
    seen_before = elsewhere.intersection(runs)
    if seen_before:
        notes.append(
            f"{len(seen_before)} of these runs were judged by an earlier lock in the same place: "
            "what they showed then may have shaped this one."
        )
    for item in taken:
        if set(runs) <= set(item.runs):
            if set(runs) == set(item.runs) and fingerprint != item.evaluation_fingerprint:
                notes.append(f"Runs of these names had another content at look {item.look}.")
            return Look(item.look, tuple(notes), path, None, earlier)
    number = len(taken) + 1
    _refuse_beyond(lock, place, taken, runs)
    today = datetime.now(UTC).date().isoformat()
    record = LookRecord(
        lock_hash=lock.hash,
        look=number,
        date=today,
        evaluation_fingerprint=fingerprint,
        runs=tuple(runs),
    )
    return Look(number, tuple(notes), path, record, earlier)


def looks_path(lock_path: str | Path) -> Path:
    """Where the looks of a lock are kept: beside it."""
    place = Path(lock_path)
    return place.with_name(f"{place.stem}.looks.yaml")


def look_notes(lock: Lock, look: Look | None) -> list[str]:
    """What a report must say about the look; nothing where the only one goes as planned."""
    notes = list(look.notes) if look else []
    if lock.prereg.x_looks > 1:
        notes.append(
            f"Look {look.number if look else 1} of {lock.prereg.x_looks} at held-out runs: each "
            f"tests at p <= {lock.prereg.alpha_per_look:g}."
        )
    return notes


def _refuse_beyond(
    lock: Lock, place: Path, taken: Sequence[LookRecord], runs: Sequence[str]
) -> None:
    if not taken:
        return
    seen = list(dict.fromkeys(run for item in taken for run in item.runs))
    allowed = lock.prereg.x_looks
    if len(taken) >= allowed:
        new = [run for run in runs if run not in set(seen)]
        raise InputError(
            f"{place}: allows {allowed} look{'s' * (allowed > 1)} at held-out runs (x_looks), "
            f"taken on {', '.join(item.date for item in taken)}; {len(new)} runs are new "
            f"({first_of(new)}). Lock again and judge new seeds alone"
        )
    missing = [run for run in seen if run not in set(runs)]
    if missing:
        raise InputError(
            f"{place}: look {len(taken) + 1} must keep every run of those before it, "
            f"{len(missing)} are missing ({first_of(missing)}); give them along"
        )
