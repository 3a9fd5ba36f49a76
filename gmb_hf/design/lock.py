"""The lock: a preregistration plus what explore runs fixed, sealed with a hash.

A lock file is the preregistration's YAML with one more section, `x_lock`: the sign and the
thresholds of each candidate, where they come from, and the SHA-256 of the canonical JSON of all
the rest. Held-out runs are judged by what the lock says, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gmb_hf._version import __version__
from gmb_hf.design.design import Design
from gmb_hf.design.explain import explain
from gmb_hf.design.power import effective_budget
from gmb_hf.design.record import (
    CENTRAL,
    FORMAT,
    LockedCandidate,
    LockedHealth,
    LockRecord,
    check_candidates,
    check_held_out,
    member_key,
    refuse_overlap,
    target_key,
)
from gmb_hf.documents import Many, Section, canonical_hash, load_yaml, write_yaml
from gmb_hf.errors import InputError, first_of, unknown
from gmb_hf.runs.runlog import RunLog

__all__ = ["CENTRAL", "Lock", "LockedCandidate", "member_key", "target_key"]

_HEADING = """\
GMB lock: a preregistration, the thresholds found on explore runs, and a hash over both.
Do not edit: a changed lock is refused. `gmb lock --explain` says what each choice means."""


@dataclass(frozen=True)
class Lock:
    """A preregistration and its `x_lock` record; build or read one, never edit it."""

    design: Design
    x_lock: LockRecord

    @classmethod
    def build(
        cls,
        design: Design,
        candidates: Mapping[str, LockedCandidate],
        *,
        explore_fingerprint: str,
        explore_runs: Sequence[str],
        explore_seeds: Iterable[int | None],
        n_calibration_runs: int,
        health: LockedHealth | None = None,
        sources: Iterable[Mapping[str, str]] = (),
        created: str | None = None,
    ) -> Lock:
        """Freeze a preregistration.

        Args:
            design: the design; the linter must have passed it.
            candidates: every candidate of the design, and the controls, by name.
            explore_fingerprint: content hash of the explore log.
            explore_runs, explore_seeds: what the thresholds were found on.
            n_calibration_runs: how many of those runs have negative windows.
            health: how those runs move as a whole, for a monitor.
            sources: what of those runs was pulled from the Hub, as `LockedSource` has it.
            created: UTC time, ISO 8601; now unless given.

        Raises:
            InputError: as `check_candidates`, or an explore seed is also held out.
        """
        seeds = tuple(sorted({seed for seed in explore_seeds if seed is not None}))
        check_candidates(design, candidates, explore_runs)
        refuse_overlap(seeds, design.seeds_eval, "prereg: boundary.seeds_eval")
        record = {
            "format": FORMAT,
            "created": created or datetime.now(UTC).isoformat(timespec="seconds"),
            "package_version": __version__,
            "explore_fingerprint": explore_fingerprint,
            "explore_runs": list(explore_runs),
            "explore_seeds": list(seeds),
            "n_calibration_runs": n_calibration_runs,
            "effective_budget": {
                target_key(target): effective_budget(target, n_calibration_runs)
                for target in design.fpr_targets
            },
            "candidates": {name: item.plain() for name, item in candidates.items()},
            "x_health": None if health is None else health.plain(),
            "x_sources": [dict(source) for source in sources],
        }
        unsealed = cls(design, LockRecord.parse({**record, "hash": ""}, where="lock"))
        sealed = unsealed.x_lock.model_copy(update={"hash": _seal(unsealed.plain())})
        return cls(design, sealed)

    @classmethod
    def read(cls, path: str | Path) -> Lock:
        """Read a lock and check its seal.

        Raises:
            InputError: the file is no lock, was written in another format, or was edited.
        """
        data = load_yaml(path)
        if not isinstance(data, dict) or not isinstance(data.get("x_lock"), dict):
            raise InputError(
                f"{path}: is no lock (there is no x_lock section); make one with gmb lock"
            )
        record = data["x_lock"]
        found = record.get("format")
        if found != FORMAT:
            raise InputError(
                f"{path}: lock format {found!r} written by gmb-hf "
                f"{record.get('package_version', '?')} is not readable by gmb-hf {__version__}, "
                f"which reads format {FORMAT}; use that version, or lock again"
            )
        # The content of the file is checked, not that of the parsed lock: a field that a later
        # version adds, with its default, must not make an honest lock look edited.
        design = {key: value for key, value in data.items() if key != "x_lock"}
        try:
            lock = cls(
                Design.parse(design, where=str(path)),
                LockRecord.parse(record, where=f"{path}: x_lock"),
            )
        except InputError:
            _check_seal(data, where=str(path))  # an edit is the likelier reason
            raise
        _check_seal(_as_typed(data, lock.plain()), where=str(path))
        return lock

    def write(self, path: str | Path) -> Path:
        """Write the lock as YAML, atomically."""
        return write_yaml(path, self.plain(), heading=_HEADING)

    def plain(self) -> dict[str, Any]:
        """The whole file as plain data."""
        return {**self.design.plain(), "x_lock": self.x_lock.plain()}

    def verify(self, *, where: str = "lock") -> None:
        """Raise `InputError` unless the hash is that of the content."""
        _check_seal(self.plain(), where=where)

    @property
    def hash(self) -> str:
        """SHA-256 (hex) over everything else in the lock."""
        return self.x_lock.hash

    def thresholds(self, name: str, member: str = CENTRAL) -> dict[float, float]:
        """`{target: threshold}` of one candidate; infinity where the answer is ABSTAIN.

        Raises:
            InputError: the lock holds no such candidate or member (the nearest is named).
        """
        members = self.candidate(name).members
        if member not in members:
            raise unknown("member", member, members, where=f"lock: candidate {name}")
        return {float(key): tau for key, tau in members[member].items()}

    def calibration_runs(self, name: str) -> int:
        """How many explore runs with negative windows one candidate's thresholds come from."""
        ensemble = self.candidate(name).ensemble
        return self.x_lock.n_calibration_runs if ensemble is None else ensemble.n_calibration_runs

    def candidate(self, name: str) -> LockedCandidate:
        """One frozen candidate; `InputError` if it is not in the lock."""
        if name not in self.x_lock.candidates:
            raise unknown("candidate", name, self.x_lock.candidates, where="lock")
        return self.x_lock.candidates[name]

    def check_evaluation(
        self,
        runs: Sequence[str],
        seeds: Sequence[int | None],
        *,
        fingerprint: str | None = None,
        declared: Mapping[str, Sequence[Any]] | None = None,
        candidates: Iterable[str] = (),
    ) -> tuple[str, ...]:
        """Refuse held-out logs that this lock does not speak about.

        Args:
            runs, seeds: names and seeds of the held-out runs (a seed may be unknown: None).
            fingerprint: content hash of the held-out log.
            declared: what the log's parts say about themselves, by field of the boundary (task,
                model, optimizer, schedule, checkpoint_every_steps); None is not compared.
            candidates: the names to be judged.

        Returns:
            Notes for the report, e.g. that a declared held-out seed is missing.

        Raises:
            InputError: explore and held-out runs overlap, the boundary differs, a seed was not
                declared, there are more runs than may be judged, or a candidate is not in the lock.
        """
        for name in candidates:
            self.candidate(name)
        most = self.design.max_eval_seeds
        if most is not None and len(runs) > most:
            raise InputError(
                f"{len(runs)} held-out runs are more than the lock's x_max_eval_seeds {most}; "
                "leave some out, or lock again and judge new seeds alone"
            )
        return check_held_out(
            self.design,
            self.x_lock,
            runs,
            seeds,
            fingerprint=fingerprint,
            declared=declared or {},
        )

    def explain(self) -> tuple[str, ...]:
        """One sentence for each frozen choice."""
        return explain(self.design, self.x_lock)


def _seal(content: Mapping[str, Any]) -> str:
    record = {key: value for key, value in content["x_lock"].items() if key != "hash"}
    return canonical_hash({**content, "x_lock": record})


def _check_seal(content: Mapping[str, Any], *, where: str) -> None:
    recorded, actual = str(content["x_lock"].get("hash")), _seal(content)
    if recorded != actual:
        raise InputError(
            f"{where}: was edited after it was locked (its hash is {recorded[:16]}, its content "
            f"hashes to {actual[:16]}); restore the file, or lock again and judge on new seeds"
        )


def _as_typed(content: Any, parsed: Any) -> Any:
    """The file's content with its numbers as the fields' types have them: 50 and 50.0 are one."""
    if isinstance(content, Mapping) and isinstance(parsed, Mapping):
        return {key: _as_typed(item, parsed.get(key)) for key, item in content.items()}
    if isinstance(content, list) and isinstance(parsed, list) and len(content) == len(parsed):
        return [_as_typed(item, other) for item, other in zip(content, parsed, strict=True)]
    same = isinstance(parsed, float) and type(content) is int and content == parsed
    return parsed if same else content


# Looks at held-out runs: adding some after the first look is allowed only as locked.


_INTERIM_HEADING = """\
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
        write_yaml(self.path, kept.plain(), heading=_INTERIM_HEADING)


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
    if lock.design.looks > 1:
        notes.append(
            f"Look {look.number if look else 1} of {lock.design.looks} at held-out runs: each "
            f"tests at p <= {lock.design.alpha_per_look:g}."
        )
    return notes


def _refuse_beyond(
    lock: Lock, place: Path, taken: Sequence[LookRecord], runs: Sequence[str]
) -> None:
    if not taken:
        return
    seen = list(dict.fromkeys(run for item in taken for run in item.runs))
    allowed = lock.design.looks
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
