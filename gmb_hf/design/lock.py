"""The lock: a preregistration plus what explore runs fixed, and a checksum of both.

A lock file is the preregistration's YAML with one more section, `x_lock`: the sign and the
thresholds of each candidate, where they come from, and the SHA-256 of the canonical JSON of all
the rest. Held-out runs are judged by what the lock says, or not at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, Field, FiniteFloat

from gmb_hf._version import __version__
from gmb_hf.base.checksums import Checksums, Stored, canonical_hash
from gmb_hf.base.documents import (
    Many,
    Section,
    load_yaml,
    write_yaml,
)
from gmb_hf.base.errors import InputError, first_of, unknown
from gmb_hf.base.escape import cut, html_table
from gmb_hf.base.schemas import KEY, Schema, dated
from gmb_hf.core.thresholds import effective_budget
from gmb_hf.design.candidates import ParamValue
from gmb_hf.design.design import UNDECLARED, Design
from gmb_hf.design.fingerprint import design_fingerprint
from gmb_hf.design.locked_ensembles import LockedEnsemble, ensemble_fault, pretrained_fault

CENTRAL = "central"
"""The member of the robustness family that is the candidate as declared."""

Threshold = Annotated[float, AllowInfNan(True)]

_SECTION = "x_lock"
# What is of the day, what only a monitor reads, and what follows from the explore runs, which older
# versions did not write down.
_ABOUT = {KEY, "created", "package_version", "x_checksums", "x_system", "hash"}
_ABOUT |= {"explore_marks", "near_copies"}
_HEADING = """\
GMB lock: a preregistration, the thresholds found on explore runs, and a hash over both.
Do not edit: a changed lock is refused. `gmb lock --explain` says what each choice means.
The hash shows accidents, not forgery: whoever changes this file can hash it anew. What shows order
to others is a commit before the evaluation: gmb lock --lock FILE --publish ORG/NAME."""

# What a lock records about explore runs and candidates: the section `x_lock` as models.


def member_key(*, window: int | None = None, smooth: int = 1) -> str:
    """The name of a member of the robustness family that has thresholds of its own.

    >>> member_key(window=200, smooth=3), member_key(smooth=1)
    ('window=200,smooth=3', 'smooth=1')
    """
    return f"smooth={smooth}" if window is None else f"window={window},smooth={smooth}"


def target_key(target: float) -> str:
    """A target false positive rate as a YAML key, exact: 0.05 is "0.05"."""
    return repr(float(target))


class LockedCandidate(Section):
    """One candidate, frozen: its orientation and its thresholds."""

    sign: Literal[1, -1] = Field(description="times the declared orientation")
    family: str | None = None
    needs: Many[str] = ()
    params: dict[str, ParamValue] = Field(default_factory=dict)
    sees_test_labels: bool | None = None
    members: dict[str, dict[str, Threshold]] = Field(
        description="member -> target -> threshold; .inf: the answer is ABSTAIN"
    )
    first_alarm: dict[str, dict[str, Threshold]] = Field(
        default_factory=dict, description="member -> budget of runs -> threshold of the first alarm"
    )
    other_events: dict[str, dict[str, Threshold]] = Field(
        default_factory=dict,
        description="event of x_also_events -> budget of runs -> threshold of the first alarm",
    )
    other_event_runs: dict[str, int] = Field(
        default_factory=dict, description="event -> explore runs that those thresholds are from"
    )
    run_maxima: Many[FiniteFloat | None] = Field(
        (),
        description="greatest negative score of each of explore_runs, null where the thresholds "
        "are not from it; several alarms share a budget by the ranks of these",
    )
    ensemble: LockedEnsemble | None = None

    @classmethod
    def freeze(
        cls,
        members: Mapping[str, Mapping[float, float]],
        *,
        sign: int = 1,
        first_alarm: Mapping[str, Mapping[float, float]] | None = None,
        other_events: Mapping[str, Mapping[float, float]] | None = None,
        **facts: Any,
    ) -> LockedCandidate:
        """Build one from `{member: {target: threshold}}`; infinity stands for ABSTAIN."""

        def keyed(of: Mapping[str, Mapping[float, float]] | None) -> dict[str, dict[str, float]]:
            return {
                member: {target_key(target): float(tau) for target, tau in thresholds.items()}
                for member, thresholds in (of or {}).items()
            }

        found = {"members": members, "first_alarm": first_alarm, "other_events": other_events}
        thresholds = {field: keyed(of) for field, of in found.items()}
        return cls.parse({"sign": sign, **thresholds, **facts}, where="candidate")


class LockedSide(Section):
    """How far the scores of whole runs drift one way: up, or down."""

    scale: int = Field(ge=1, description="median over the reference runs, the unit of drift")
    maxima: Many[int] = Field(description="largest CUSUM of ranks of each calibration run")
    delay_steps: int | None = Field(
        None, description="median steps to notice a shift of 1 sd; null: not within a run"
    )


class LockedDrift(Section):
    """What the drift of one live score is measured by; see `gmb_hf.benchmark.health`."""

    knots: Many[Many[float]] = Field(
        description="for each part of the training, quantiles of the reference runs' scores"
    )
    up: LockedSide
    down: LockedSide


class LockedHealth(Section):
    """How explore runs move as a whole, by which a monitor detects drift."""

    alpha: float = Field(description="share of runs in which a monitor may abstain for nothing")
    first_step: int = Field(description="by this step every explore run had begun")
    last_step: int = Field(description="where the longest explore run ends")
    n_reference_runs: int = Field(description="explore runs that ranks are taken among")
    n_calibration_runs: int = Field(description="the other explore runs, whose maxima are bounds")
    begins: Many[int] = Field(description="the first step of each part of the training")
    candidates: dict[str, LockedDrift]


class LockedSystem(Section):
    """What a callback can see by itself of the system that the explore runs trained.

    The logs' metadata say it, under `system`; what they leave open is None and not compared. Locks
    of earlier versions have no such record. The cadence is `boundary.checkpoint_every_steps`.
    """

    architecture: str | None = Field(None, description="class of the model")
    parameter_count: int | None = Field(None, description="of the model, tied ones once")
    optimizer: str | None = Field(None, description="its class")
    learning_rate: FiniteFloat | None = Field(None, description="at every checkpoint")
    weight_decay: FiniteFloat | None = None


SEEN_AS: Mapping[str, tuple[str, ...]] = {
    "model": ("architecture", "parameter_count"),
    "optimizer": ("optimizer", "learning_rate", "weight_decay"),
    "schedule": ("learning_rate",),
}
"""Field of the boundary -> the fields of `LockedSystem` that are compared in its place."""


class LockedSource(Section):
    """A dataset of the Hub at one commit: the explore runs, or the data that they learned."""

    what: Literal["runs", "data"]
    repo: str
    revision: str
    config: str
    fingerprint: str


def _upgrade_1(content: dict[str, Any]) -> dict[str, Any]:
    """A lock of schema 1, which called its version `format` and had no checksums of its parts."""
    return {**design_1(content), _SECTION: dated(content[_SECTION], 2)}


def design_1(content: dict[str, Any]) -> dict[str, Any]:
    """A design of schema 1, whose list of required tables could be empty, and said nothing."""
    reporting = content.get("reporting")
    if not isinstance(reporting, dict) or reporting.get("required_tables") != []:
        return content
    kept = {key: value for key, value in reporting.items() if key != "required_tables"}
    return {**content, "reporting": kept}


SCHEMA = Schema("lock", (_upgrade_1,))
CHECKSUMS = Checksums(
    place="x_lock.hash",
    parts="x_lock.x_checksums",
    opened=("candidates", _SECTION, "x_lock.candidates"),
    code="lock_edited",
    since="it was locked",
    hint="restore the file, or lock again and judge on new seeds",
)


class LockRecord(Section):
    """What explore runs fixed, and the checksums."""

    x_schema: int = SCHEMA.current
    created: str
    package_version: str
    explore_fingerprint: str
    explore_runs: Many[str]
    explore_seeds: Many[int]
    explore_hashes: Many[str] = Field((), description="content of each run, whatever its name")
    explore_marks: Many[str] = Field(
        (), description="step:number of some steps of each run, by which its copies are known"
    )
    near_copies: str = Field("", description="which explore runs move like another one")
    n_calibration_runs: int = Field(description="explore runs that have negative windows")
    effective_budget: dict[str, float]
    candidates: dict[str, LockedCandidate]
    x_health: LockedHealth | None = None
    x_system: LockedSystem | None = None
    x_sources: Many[LockedSource] = Field((), description="what was pulled from the Hub")
    x_checksums: dict[str, str] = Field(default_factory=dict, description="part -> its checksum")
    hash: str


# That the frozen candidates are those of the design, all of them and no others.


def check_candidates(
    design: Design, candidates: Mapping[str, LockedCandidate], explore_runs: Sequence[str]
) -> None:
    """Raise `InputError` unless a lock of these candidates holds what the design asks for.

    Every candidate of the design, and beside them controls only, with the design's sign, a number
    for each target, and of an ensemble the formula of its members, made on explore runs alone.
    """

    def wrong(name: str, what: str) -> InputError:
        return InputError.at("lock", "lock_incomplete", f"candidate {name!r}{what}", name=name)

    declared = {candidate.name: candidate for candidate in design.candidates}
    for name, candidate in declared.items():
        if name not in candidates:
            raise wrong(name, " of the prereg has no thresholds")
        sign = candidates[name].sign
        if candidate.x_sign not in (None, sign):
            raise wrong(name, f" has sign {sign:+d}, the prereg says {candidate.x_sign:+d}")
    wanted = {target_key(target) for target in design.fpr_targets}
    budgets = {target_key(budget) for budget in design.run_budgets}
    for name, item in candidates.items():
        if declared and name not in declared and item.family != "control":
            raise unknown("candidate", name, declared, where="lock: not in the prereg")
        ensemble = declared[name].x_ensemble if name in declared else None
        fitted = declared[name].x_pretrained if name in declared else None
        if fitted is not None:
            fault = pretrained_fault(fitted, item.ensemble, explore_runs)
            if fault is not None:
                raise wrong(name, fault)
        elif ensemble is None and item.ensemble is not None:
            raise wrong(name, " is no ensemble")
        if ensemble is not None:
            fault = ensemble_fault(ensemble, item.ensemble, explore_runs)
            if fault is not None:
                raise wrong(name, fault)
        if CENTRAL not in item.members:
            raise wrong(name, f" has no member {CENTRAL!r}")
        known = ((item.members, wanted, "targets"), (item.first_alarm, budgets, "run budgets"))
        for found, asked, what in known:
            for member, thresholds in found.items():
                lacking = sorted(asked.symmetric_difference(thresholds))
                bad = sorted(key for key, tau in thresholds.items() if tau != tau)
                if lacking:
                    fault = f"{what} {', '.join(lacking)} do not match the prereg's"
                    raise wrong(name, f", member {member!r}: {fault}")
                if bad:
                    raise wrong(name, f", member {member!r}: the threshold for {bad[0]} is NaN")


def columns_read(design: Design, candidates: Mapping[str, LockedCandidate]) -> tuple[str, ...]:
    """The metric and all that the candidates are computed from."""
    needs = {name for item in candidates.values() for name in item.needs}
    return tuple(sorted(needs.union([design.metric] if design.metric else []) - {"step"}))


def _version(data: Mapping[str, Any], where: str) -> int:
    return SCHEMA.version(data[_SECTION], where=where)


def differing(
    design: Design, declared: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Each field of the boundary, what the design states and what a log says instead.

    What either side leaves open (None, `undeclared`, or no entry) is not compared.
    """
    boundary = design.section("boundary")
    for field, said in declared.items():
        stated = boundary[field]
        for found in said:
            if stated not in (None, UNDECLARED, found) and found is not None:
                yield field, stated, found


def others_seeds(design: Design, seeds: Sequence[int | None]) -> bool:
    """Whether runs are of seeds of which the design declares none: of another panel, wholly."""
    known = {seed for seed in seeds if seed is not None}
    return bool(design.seeds_eval) and bool(known) and not known & set(design.seeds_eval)


def refuse_shared_runs(
    explore_runs: Sequence[str],
    explore_seeds: Sequence[int | None],
    runs: Sequence[str],
    seeds: Sequence[int | None],
    where: str,
) -> None:
    """Raise `InputError` if a run was used to explore and is judged too.

    A run is told by its seed; without one by its name, since names may repeat across folders.
    """
    known = {seed for seed in explore_seeds if seed is not None}
    _refuse_overlap(known.intersection(seeds), where)
    nameless = {run for run, seed in zip(runs, seeds, strict=True) if seed is None}
    _refuse_overlap(nameless.intersection(explore_runs), where)


def _refuse_overlap(both: Collection[Any], where: str) -> None:
    if both:
        reason = (
            f"{len(both)} also used to explore ({first_of(sorted(both))}); a threshold must not "
            "be judged on runs that it was found on, give other seeds"
        )
        raise InputError.at(where, "runs_overlap", reason)


@dataclass(frozen=True)
class Lock:
    """A preregistration and its `x_lock` record; build or read one, never edit it."""

    design: Design
    x_lock: LockRecord
    path: Path | None = dataclasses.field(default=None, compare=False)  # where it was read from
    stored: Stored | None = dataclasses.field(default=None, compare=False)  # what stands there

    def __repr__(self) -> str:
        """One line: what it is about, what it froze, and its hash."""
        record, task = self.x_lock, cut(self.design.task or "", 40)
        return (
            f"Lock({task!r}, {len(record.candidates)} scores, thresholds from "
            f"{len(record.explore_runs)} explore runs, {record.hash[:16]})"
        )

    def _repr_html_(self) -> str:
        """What was frozen, for a notebook."""
        design, record = self.design, self.x_lock
        budgets = (f"{budget:g}" for budget in design.run_budgets)
        rows = (
            ("task", design.task),
            ("model", design.model),
            ("event", design.event_name),
            ("protocol", design.protocol),
            ("scores", len(record.candidates)),
            ("explore runs", len(record.explore_runs)),
            ("budgets, share of runs", ", ".join(budgets)),
            ("held-out runs", design.n_eval or "not named"),
            ("created", f"{record.created}, gmb-hf {record.package_version}"),
            ("hash", record.hash[:16]),
        )
        return html_table(repr(self), (), rows, len(rows), "fields")

    @classmethod
    def build(
        cls,
        design: Design,
        candidates: Mapping[str, LockedCandidate],
        *,
        explore_fingerprint: str,
        explore_runs: Sequence[str],
        explore_seeds: Iterable[int | None],
        explore_hashes: Sequence[str] = (),
        explore_marks: Sequence[Mapping[int, float]] = (),
        near_copies: str = "",
        n_calibration_runs: int,
        health: LockedHealth | None = None,
        system: LockedSystem | None = None,
        sources: Iterable[Mapping[str, str]] = (),
        created: str | None = None,
    ) -> Lock:
        """Freeze a preregistration.

        Args:
            design: the design; the linter must have passed it.
            candidates: every candidate of the design, and the controls, by name.
            explore_fingerprint: content hash of the explore log.
            explore_runs, explore_seeds, explore_hashes: what the thresholds were found on.
            explore_marks: of those runs, as `copies.marks_of` gives them.
            near_copies: which of those runs move like another one, in a sentence.
            n_calibration_runs: how many of those runs have negative windows.
            health: how those runs move as a whole, for a monitor.
            system: what a callback can see of what they trained.
            sources: what of those runs was pulled from the Hub, as `LockedSource` has it.
            created: UTC time, ISO 8601; now unless given.

        Raises:
            InputError: as `check_candidates`, or an explore seed is also held out.
        """
        seeds = tuple(sorted({seed for seed in explore_seeds if seed is not None}))
        check_candidates(design, candidates, explore_runs)
        _refuse_overlap(set(seeds) & set(design.seeds_eval), "prereg: boundary.seeds_eval")
        record = {
            "created": created or datetime.now(UTC).isoformat(timespec="seconds"),
            "package_version": __version__,
            "explore_fingerprint": explore_fingerprint,
            "explore_runs": list(explore_runs),
            "explore_seeds": seeds,
            "explore_hashes": list(explore_hashes),
            "explore_marks": [
                " ".join(f"{step}:{value!r}" for step, value in one.items())
                for one in explore_marks
            ],
            "near_copies": near_copies,
            "n_calibration_runs": n_calibration_runs,
            "effective_budget": {
                target_key(target): effective_budget(target, n_calibration_runs)
                for target in design.fpr_targets
            },
            "candidates": dict(candidates),
            "x_health": health,
            "x_system": system,
            "x_sources": [dict(source) for source in sources],
            "hash": "",
        }
        unstamped = cls(design, LockRecord.parse(record, where="lock")).plain()
        stamped = CHECKSUMS.added_to(unstamped)[_SECTION]
        return cls(design, LockRecord.parse(stamped, where="lock"))

    @classmethod
    def read(cls, path: str | Path) -> Lock:
        """Read a lock, of this version or an earlier one, and check its checksum.

        Raises:
            InputError: the file is no lock, is of a later schema, or was edited; what was edited is
                named where the file can tell.
        """
        data = load_yaml(path)
        if not isinstance(data, dict) or not isinstance(data.get(_SECTION), dict):
            reason = "is no lock (there is no x_lock section); make one with gmb lock"
            raise InputError.at(path, "not_a_lock", reason)
        content = SCHEMA.upgraded(data, _version(data, str(path)))
        design = {key: value for key, value in content.items() if key != _SECTION}
        try:
            lock = cls(
                Design.parse(design, where=str(path)),
                LockRecord.parse(content[_SECTION], where=f"{path}: {_SECTION}"),
                Path(path),
            )
        except InputError:
            CHECKSUMS.check(data, str(path))  # an edit is the likelier reason
            raise
        CHECKSUMS.check(data, str(path), typed=lock.plain)
        return dataclasses.replace(lock, stored=Stored(data, (lock.design, lock.x_lock)))

    def for_seeds(self, seeds: Sequence[int]) -> Lock:
        """The same thresholds for other held-out seeds of the same system, with a hash of its own.

        Raises:
            InputError: one of the seeds was used to explore.
        """
        _refuse_overlap(set(self.x_lock.explore_seeds) & set(seeds), "held-out seeds")
        bare = self.x_lock.model_copy(update={"hash": ""})
        other = Lock(self.design.replace(seeds_eval=tuple(seeds)), bare)
        stamped = CHECKSUMS.added_to(other.plain())[_SECTION]
        return Lock(other.design, LockRecord.parse(stamped, where="lock"))

    def write(self, path: str | Path) -> Path:
        """Write the lock as YAML, atomically; one that was read says what it said there."""
        return write_yaml(path, self.content, heading=_HEADING)

    def plain(self) -> dict[str, Any]:
        """The whole lock as plain data, in today's schema."""
        return {**self.design.plain(), _SECTION: self.x_lock.plain()}

    @property
    def content(self) -> Mapping[str, Any]:
        """What its file says: of a lock that was read, as it stands there."""
        stored = self.stored.of(self.design, self.x_lock) if self.stored else None
        return self.plain() if stored is None else stored

    @property
    def file_schema(self) -> int:
        """The schema that it was written in."""
        return _version(self.content, "lock")

    def verify(self, *, where: str = "lock") -> None:
        """Raise `InputError` unless the hash is that of the content."""
        CHECKSUMS.check(self.content, where)

    @property
    def explore_marks(self) -> list[dict[int, float]]:
        """Numbers for some steps of each explore run; none in a lock of an older version.

        Raises:
            InputError: they are no such numbers.
        """
        found = []
        for line in self.x_lock.explore_marks:
            pairs = [pair.partition(":") for pair in line.split()]
            try:
                found.append({int(step): float(value) for step, _, value in pairs})
            except ValueError:
                raise InputError(f"lock: x_lock.explore_marks: {cut(line, 40)!r} is none") from None
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """What it reads of a log, by which runs are told from one another."""
        return columns_read(self.design, self.x_lock.candidates)

    @property
    def hash(self) -> str:
        """SHA-256 (hex) over everything else in the lock."""
        return self.x_lock.hash

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of what decides; the same when the lock is made again on another day."""
        record = self.x_lock.model_dump(exclude_defaults=True, exclude=_ABOUT)
        return canonical_hash([design_fingerprint(self.design), record])

    def thresholds(self, name: str, member: str = CENTRAL) -> dict[float, float]:
        """`{target: threshold}` of one candidate; infinity where the answer is ABSTAIN.

        Raises:
            InputError: the lock holds no such candidate or member (the nearest is named).
        """
        members = self.candidate(name).members
        if member not in members:
            raise unknown("member", member, members, where=f"lock: candidate {name}")
        return {float(key): tau for key, tau in members[member].items()}

    def run_thresholds(self, name: str, member: str = CENTRAL) -> dict[float, float]:
        """`{budget: threshold}` of one candidate's first alarm; empty in a lock of an old version.

        `member` may also be an event of `x_also_events`.
        """
        candidate = self.candidate(name)
        found = candidate.first_alarm.get(member) or candidate.other_events.get(member) or {}
        return {float(key): tau for key, tau in found.items()}

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
        hashes: Sequence[str] = (),
        fingerprint: str | None = None,
        declared: Mapping[str, Sequence[Any]] | None = None,
        candidates: Iterable[str] = (),
        transfer: bool = False,
    ) -> tuple[str, ...]:
        """Refuse held-out logs that this lock does not speak about.

        Args:
            runs, seeds: names and seeds of the held-out runs (a seed may be unknown: None).
            hashes: of their content, by `RunLog.run_hashes` of the lock's columns.
            fingerprint: content hash of the held-out log.
            declared: what the log's parts say about themselves, by field of the boundary (task,
                model, optimizer, schedule, checkpoint_every_steps); None is not compared.
            candidates: the names to be judged.
            transfer: whether the boundary may differ, but for the cadence, which a threshold does
                not survive.

        Returns:
            Notes for the report, e.g. that a declared held-out seed is missing.

        Raises:
            InputError: explore and held-out runs overlap, the boundary differs, a seed was not
                declared, there are more runs than may be judged, or a candidate is not in the lock.
        """
        for name in candidates:
            self.candidate(name)
        design, record = self.design, self.x_lock
        most = design.max_eval_seeds
        if most is not None and len(runs) > most:
            reason = (
                f"{len(runs)} held-out runs are more than the lock's x_max_eval_seeds {most}; "
                "leave some out, or lock again and judge new seeds alone"
            )
            raise InputError(reason, code="too_many_runs", field="x_max_eval_seeds")
        if fingerprint == record.explore_fingerprint:
            reason = "held-out runs are the explore runs that this lock was made on; give new runs"
            raise InputError(reason, code="runs_overlap")
        refuse_shared_runs(record.explore_runs, record.explore_seeds, runs, seeds, "held-out runs")
        known_hashes = set(record.explore_hashes)
        renamed = zip(runs, hashes, strict=True) if hashes else ()
        _refuse_overlap([run for run, one in renamed if one in known_hashes], "held-out runs")
        for field, locked, found in differing(design, declared or {}):
            carries = field != "checkpoint_every_steps"
            if transfer and carries:
                continue
            place, where = f"boundary.{field}", "held-out runs differ from the lock's"
            reason = "a verdict does not carry over, lock that system anew" + (
                ", or judge what the lock is worth there with --transfer" * carries
            )
            message = f"{where} {place}: locked {locked!r}, found {found!r}; {reason}"
            raise InputError(message, code="other_boundary", field=place)
        known, planned = {seed for seed in seeds if seed is not None}, set(design.seeds_eval)
        if transfer and others_seeds(design, seeds):
            return ("None of the held-out seeds is one that the lock declares: these are others.",)
        if planned and known - planned:
            reason = (
                f"held-out seeds {first_of(sorted(known - planned))} are not among the lock's "
                "boundary.seeds_eval; runs may not be added after the lock, give the declared "
                "seeds only"
            )
            raise InputError(reason, code="undeclared_seed", field="boundary.seeds_eval")
        named = set(design.runs_eval)
        if named and not transfer and set(runs) - named:
            reason = (
                f"held-out runs {first_of(sorted(set(runs) - named))} are not among the lock's "
                "boundary.x_runs_eval; runs may not be added after the lock, give the declared "
                "runs only"
            )
            raise InputError(reason, code="undeclared_run", field="boundary.x_runs_eval")
        missing = sorted(planned - known)
        what = "held-out seeds that the lock declares are missing"
        return (f"{len(missing)} of {len(planned)} {what}: {first_of(missing)}",) * bool(missing)
