"""Looks at held-out runs: which runs are judged is fixed at the first look, by their content.

The looks of a lock lie beside it, `lock.looks.yaml` beside `lock.yaml`. They are counted by what
was locked: a lock that is made again, reached through a link, or kept in memory is no other lock.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import Field

from gmb_hf.base.documents import Many, Section, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.base.files import claimed
from gmb_hf.design.lock import Lock, others_seeds
from gmb_hf.runs.runlog import RunLog

_TAKEN = "another evaluation by this lock writes its look down; run it again"
_LOOKS_HEADING = """\
Looks at held-out runs by the lock beside this file; gmb evaluate writes it. Part of the record:
without it nobody knows how often was looked."""


class LookRecord(Section):
    """One look that was taken."""

    lock_hash: str
    content: str = Field("", description="`Lock.fingerprint`; empty in files of older versions")
    look: int
    date: str
    evaluation_fingerprint: str
    runs: dict[str, str] = Field(description="name -> hash of what the lock reads of it")
    commit: str | None = Field(None, description="of this look on the Hub")


class Publication(Section):
    """A lock on the Hub."""

    lock_hash: str
    repo: str
    commit: str
    after_looks: int = Field(ge=0, description="0: published before any look")


class LooksFile(Section):
    """Every look by the locks that lay in one place, oldest first."""

    looks: Many[LookRecord] = ()
    published: Many[Publication] = ()

    @classmethod
    def beside(cls, lock: Lock, *, remembered: bool = True) -> LooksFile:
        """Those kept beside a lock's file, and those that it took while it was in memory alone.

        `remembered` says whether the latter count; they do not where a look has another name.
        """
        none = cls(looks=(), published=())
        in_memory = _IN_THIS_PROCESS.get(lock.fingerprint, none) if remembered else none
        path = None if lock.path is None else looks_path(lock.path)
        if path is None or not path.exists():
            return in_memory
        kept = cls.parse(load_yaml(path), where=str(path))
        known = {tuple(sorted(item.runs.values())) for item in kept.by(lock)}
        others = [
            item for item in in_memory.looks if tuple(sorted(item.runs.values())) not in known
        ]
        return kept.model_copy(update={"looks": (*kept.looks, *others)}) if others else kept

    def by(self, lock: Lock) -> tuple[LookRecord, ...]:
        """Those by one lock, also where it was made again on another day."""
        marks = {lock.hash, lock.fingerprint}
        return tuple(item for item in self.looks if marks & {item.lock_hash, item.content})

    def publication(self, lock: Lock) -> Publication | None:
        """That of one lock; None where it is not published."""
        return next((item for item in self.published if item.lock_hash == lock.hash), None)

    def write(self, lock: Lock, *, remembered: bool = True) -> None:
        """Keep them beside the lock's file, and in this process, which may write it elsewhere."""
        if remembered:
            _IN_THIS_PROCESS[lock.fingerprint] = self.model_copy(update={"looks": self.by(lock)})
        if lock.path is not None:
            write_yaml(looks_path(lock.path), self.as_read(), heading=_LOOKS_HEADING)


_IN_THIS_PROCESS: dict[str, LooksFile] = {}


@dataclass(frozen=True)
class Look:
    """The look that is about to be taken.

    Attributes:
        number: 1 for the first.
        notes: what a reader must know about it.
        lock, log: by what, and at which runs.
        looks: all to keep; None where these runs have been looked at before.
        remembered: whether this process keeps it, too, whatever file the lock lies in.
    """

    number: int
    notes: tuple[str, ...]
    lock: Lock
    log: RunLog
    looks: LooksFile | None
    remembered: bool = True

    def keep(self) -> None:
        """Write the look down; call it before anybody sees a result.

        Raises:
            InputError: another evaluation took this look meanwhile, or the folder of the lock
                cannot be written to.
        """
        if self.looks is None:
            return
        path = self.lock.path
        with nullcontext() if path is None else claimed(looks_path(path), _TAKEN):
            now = next_look(self.lock, self.log, remembered=self.remembered)
            if now.number != self.number:
                reason = f"another evaluation took look {self.number} meanwhile; run it again"
                raise InputError.at(path or "lock", "no_look_left", reason)
            if now.looks is not None:
                now.looks.write(self.lock, remembered=self.remembered)


def looks_path(lock_path: str | Path) -> Path:
    """Where the looks of a lock are kept: beside its file, which links lead to."""
    place = Path(lock_path)
    place = place.resolve() if place.is_symlink() else place
    return place.with_name(f"{place.stem}.looks.yaml")


def next_look(lock: Lock, log: RunLog, *, remembered: bool = True) -> Look:
    """Which look at held-out runs this is.

    Unless `remembered`, those alone count that are kept beside the lock's file: a lock that judges
    other panels, too, as a trial's does, takes a look of its own at each.

    The same runs again are the same look, whatever they are called. Some of them, others, or other
    logs under old names are another one.

    Raises:
        InputError: there are no more looks, runs of an earlier look are missing or have other
            logs, or declared seeds are missing that this look must judge.
    """
    where = lock.path or "lock"
    hashes = dict(zip(log.runs, log.run_hashes(lock.columns), strict=True))
    kept, notes = LooksFile.beside(lock, remembered=remembered), []
    taken = kept.by(lock)
    others = [item for item in kept.looks if item not in taken]
    before = {mark for item in others for one in item.runs.items() for mark in one}
    if judged := [run for run, one in hashes.items() if before.intersection((run, one))]:
        notes.append(
            f"{len(judged)} of these runs were judged by an earlier lock in the same place: "
            "what they showed then may have shaped this one."
        )
    for item in taken:
        if sorted(item.runs.values()) == sorted(hashes.values()):
            return Look(item.look, tuple(notes), lock, log, None, remembered)
    number, allowed = len(taken) + 1, lock.design.looks
    seen = {one: run for item in taken for run, one in item.runs.items()}
    lost = [run for one, run in seen.items() if one not in hashes.values()]
    changed = [run for run in lost if run in hashes]
    added = [run for run, one in hashes.items() if one not in seen and run not in changed]
    facts = {
        "new": added,
        "left out": [run for run in lost if run not in hashes],
        "changed, other logs under old names": changed,
    }
    said = [f"{len(which)} {what} ({first_of(which)})" for what, which in facts.items() if which]
    if taken and number > allowed:
        reason = (
            f"allows {allowed} look{'s' * (allowed > 1)} at held-out runs (x_looks), taken on "
            f"{', '.join(item.date for item in taken)}, and these are not the runs of it: "
            f"{'; '.join(said)}. Give exactly those, or lock again and judge new seeds alone"
        )
        raise InputError.at(where, "no_look_left", reason)
    if lost:
        reason = (
            f"look {number} must keep every run of those before it: {'; '.join(said)}; give them "
            "along, as they were"
        )
        raise InputError.at(where, "missing_runs", reason)
    _refuse_chosen_runs(lock, log, number)
    record = LookRecord(
        lock_hash=lock.hash,
        content=lock.fingerprint,
        look=number,
        date=datetime.now(UTC).date().isoformat(),
        evaluation_fingerprint=log.fingerprint(),
        runs=hashes,
    )
    looks = kept.model_copy(update={"looks": (*kept.looks, record)})
    return Look(number, tuple(notes), lock, log, looks, remembered)


def _refuse_chosen_runs(lock: Lock, log: RunLog, number: int) -> None:
    """Where a lock names the held-out runs, by seeds or names, nobody chooses among them.

    The last look is at all of them, an earlier one at the first ones, in the order of the lock.
    """
    design = lock.design
    by_name = bool(design.runs_eval)
    planned: list[str | int] = [*(design.runs_eval if by_name else design.seeds_eval)]
    given: set[str | int | None] = {*(log.runs if by_name else log.seeds)}
    if not given & {*planned} if by_name else others_seeds(design, log.seeds):
        return  # which `check` allows for a transfer alone
    missing = [mark for mark in planned if mark not in given]
    last = number >= design.looks
    if not missing or not (last or missing != planned[len(planned) - len(missing) :]):
        return
    place = "boundary.x_runs_eval" if by_name else "boundary.seeds_eval"
    rule = "must judge all" if last else "judges the first ones"
    reason = (
        f"look {number} {rule} of {place}, and {len(missing)} of {len(planned)} are "
        f"missing ({first_of(missing)}); give their logs along: nobody chooses among held-out runs"
    )
    raise InputError.at(lock.path or "lock", "missing_runs", reason, field=place)


def look_notes(lock: Lock, look: Look) -> list[str]:
    """What a report must say about the look; nothing where the only one goes as planned."""
    notes, design = list(look.notes), lock.design
    if design.n_eval is None:
        notes.append(
            f"The lock names no held-out runs: this look fixed the {len(look.log.runs)} runs, by "
            "their content. List boundary.seeds_eval, or let gmb lock --explore-share hold runs "
            "out, to show that nobody chose them."
        )
    if design.looks > 1:
        notes.append(
            f"Look {look.number} of {design.looks} at held-out runs: each tests at p <= "
            f"{design.alpha_per_look:g}."
        )
    return notes
