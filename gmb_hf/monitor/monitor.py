"""The alarm of a live run: one checkpoint at a time, by a lock and the verdicts that it earned.

    monitor = AlarmMonitor("lock.yaml", "results.yaml")
    reading = monitor.update(step=500, unembedding_gini=0.31, prediction_change=0.02)
    reading.state, reading.reason

Spec: GMB v0.4, section 9: only an indicator that is SUPPORTED_FOR_ALARM may act, and one that is
broken abstains.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import FiniteFloat

from gmb_hf.benchmark.health import LockedBounds
from gmb_hf.benchmark.prepare import locked_entry
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.results import Results, disagreements
from gmb_hf.benchmark.verdict import AGAINST_ALARM
from gmb_hf.design.lock import Lock, differing
from gmb_hf.documents import Many, Section
from gmb_hf.errors import InputError, choose, nearest
from gmb_hf.escape import one_line
from gmb_hf.files import check_file, claim, read_json, write_text
from gmb_hf.fingerprints import item_hash
from gmb_hf.indicators.causal import Memory
from gmb_hf.indicators.ensemble import member_indicators
from gmb_hf.monitor import reading

_SYSTEM = ("task", "model", "optimizer", "schedule", "checkpoint_every_steps")


class RunState(Section):
    """How far a run has come: its latest step (None before the first), how many were seen.

    `went_back` says why nothing can be read any more; None while steps increase.
    """

    last: int | None = None
    seen: int
    went_back: str | None = None


class LockedBoundary:
    """Follows the steps of one run, whose system and spacing must be those of the lock.

    Args:
        lock: its boundary, and the steps that the explore runs had.
        system: field of the boundary -> what the run says of itself, or several such statements;
            None is not compared.

    Attributes:
        unstated: the fields of the lock that the run says nothing about.
        run: how far the run has come.

    Raises:
        InputError: a field that no boundary has, or a lock without a cadence.
    """

    def __init__(self, lock: Lock, system: Mapping[str, Any] | None) -> None:
        design, health = lock.design, lock.x_lock.x_health
        if design.cadence is None:
            raise InputError(
                "lock: boundary.checkpoint_every_steps is open, so no live run can be held against "
                "it; lock again with gmb lock, which fills it in from the logs"
            )
        self.cadence = design.cadence
        self._first = None if health is None else health.first_step
        self._end = None if health is None else health.last_step
        said = _statements(system or {})
        foreign = "the run's {0} is {2!r}, the lock is about {1!r}"
        self._foreign = next((foreign.format(*one) for one in differing(design, said)), None)
        locked = [name for name in _SYSTEM[:-1] if getattr(design, name) is not None]
        self.unstated = tuple(name for name in locked if not said.get(name))
        self.run = RunState(seen=0)

    def fault(self, step: int) -> str | None:
        """Why no indicator can be read at the next checkpoint, None where all can.

        `InputError` where the step does not come after the one before.
        """
        run = self.run
        if run.last is not None and step <= run.last:
            what = f"step {step} was given already"
            if step < run.last:
                what = f"step {step} comes after step {run.last}: the run went back"
                went_back = f"{what}, and no state was loaded"
                self.run = run.model_copy(update={"went_back": went_back})
            raise InputError(
                f"{what}; after a restart load the monitor's state of that checkpoint, or begin a "
                "new monitor"
            )
        fault = self._foreign or run.went_back or self._spacing_fault(step)
        if fault is None and self._end is not None and step > self._end:
            fault = f"step {step} lies beyond the explore runs, which end at step {self._end}"
        self.run = run.model_copy(update={"last": step, "seen": run.seen + 1})
        return fault

    def _spacing_fault(self, step: int) -> str | None:
        if self.run.last is None:
            if self._first is not None and step > self._first:
                return f"it is watched from step {step} on, the explore runs from {self._first}"
            return None
        spacing = step - self.run.last
        # As in any log the first interval may be shorter: 1, 500, 1000, ...
        if spacing == self.cadence or (self.run.seen == 1 and spacing < self.cadence):
            return None
        return (
            f"step {step} comes {spacing} steps after the checkpoint before it, where the lock has "
            f"one every {self.cadence}"
        )


def _statements(system: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What a run says of itself, a list of statements for each field."""
    found = {}
    for name, said in system.items():
        choose("field", name, _SYSTEM, where="system")
        several = isinstance(said, Sequence) and not isinstance(said, str)
        found[name] = [item for item in (said if several else [said]) if item is not None]
    return found


def results_of(lock: Lock, results: Results | str | Path | None) -> Results:
    """The held-out verdicts by this lock; `InputError` where there are none, or of another lock."""
    if results is None:
        raise InputError(
            "a lock without results: it says where the thresholds lie, not what may act on them; "
            "judge held-out runs by it (gmb evaluate --lock) and give the results.yaml"
        )
    found = results if isinstance(results, Results) else Results.read(results)
    where = "results" if isinstance(results, Results) else str(results)
    source = found.x_provenance
    made_with = source.lock_hash if source else None
    hint = "give those that gmb evaluate --lock wrote with this lock"
    if made_with != lock.hash:
        what = f"these results are of {_short(made_with)}, not of {_short(lock.hash)}"
        raise InputError(f"{where}: {what}; {hint}")
    found.check_seal(where)
    if fault := next(disagreements(found), None):
        raise InputError.at(where, "contradiction", f"contradicts itself: {fault}; {hint}")
    return found


def acting_of(lock: Lock, results: Results, act: Sequence[str] | None) -> tuple[str, ...]:
    """The indicators that raise the alarm: those asked for, else all that may.

    `InputError` where one of them is unknown, or not alarm eligible, or what the lock declares as
    a control or an oracle is said to be.
    """
    labels = {item.name: item.label for item in results.indicators}
    eligible = [item.name for item in results.indicators if item.x_alarm_eligible]
    for name in eligible:
        declared = lock.candidate(name)
        if declared.family == "control" or declared.sees_test_labels:
            what = "a control" if declared.family == "control" else "an oracle"
            raise InputError(f"results: {name!r} is {what} by the lock: it never acts")
    for name in act or ():
        choose("indicator", name, tuple(labels), where="results")
        if name not in eligible:
            codes = results.indicator(name).x_reasons
            why = [AGAINST_ALARM[code] for code in codes if code in AGAINST_ALARM]
            if labels[name] != SUPPORTED:
                why = [f"not {SUPPORTED}"]
            raise InputError(
                f"indicator {name!r} is {labels[name]}, {'; '.join(why)}: it may be shown, "
                f"but never act; those that may: {', '.join(eligible) or 'none'}"
            )
    return tuple(dict.fromkeys(eligible if act is None else act))


def target_of(lock: Lock, acting: Sequence[str], target: float | None) -> float:
    """The false positive rate whose thresholds count: one of the lock's, its primary one if None.

    `InputError` where the lock has no such target, or no threshold by it for one that acts.
    """
    if target is None:
        return lock.design.primary_fpr
    targets = lock.design.fpr_targets
    if isinstance(target, bool) or target not in targets:
        raise InputError(f"target {target!r} is not in the lock; its targets: {_listed(targets)}")
    without = {
        name: [rate for rate in targets if math.isinf(lock.thresholds(name)[rate])]
        for name in acting
    }
    silent = ", ".join(name for name in acting if target in without[name])
    if silent:
        usable = [rate for rate in targets if not any(rate in w for w in without.values())]
        raise InputError(
            f"target {target:g}: the lock says ABSTAIN for {silent}, it has too few explore runs "
            f"for so small a rate; targets with a threshold: {_listed(usable)}"
        )
    return float(target)


def _listed(targets: Sequence[float]) -> str:
    return ", ".join(f"{target:g}" for target in targets) or "none"


def _short(lock_hash: str | None) -> str:
    return "no lock" if lock_hash is None else f"lock {lock_hash[:16]}"


class StateFile:
    """A claim on a file; `InputError` as `gmb_hf.files.claim`: another monitor may have it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        hint = "give each run a file of its own, or end that monitor first"
        self._claim = claim(self.path, f"another monitor saves its state here; {hint}")

    def write(self, state: Mapping[str, Any]) -> Path:
        """Replace what the file holds."""
        return write_state(self.path, state)

    def close(self) -> None:
        """Let another monitor have it."""
        self._claim.close()


# What a monitor remembers of a run, as a document that is checked when it is read.
FORMAT = 1
_HASH = "hash"
_COUNTED = ("broken", "since", "drifted", "alarms", "watched")


class DriftState(Section):
    """The CUSUM of a score's ranks now, and the largest drift so far."""

    up: int
    down: int
    largest: FiniteFloat


class IndicatorState(Section):
    """All that an indicator remembers; see `IndicatorMonitor`. JSON has no NaN: it is text."""

    kept: Many[Many[FiniteFloat | Literal["nan", "inf", "-inf"]]]
    whole_run: bool
    broken: str | None = None
    since: int | None = None
    drifted: bool
    alarms: int
    watched: int
    drift: DriftState | None = None

    @classmethod
    def of(cls, monitor: reading.IndicatorMonitor) -> IndicatorState:
        """The state that it is in."""
        memory, drift = monitor.stream.memory, monitor.drift
        rows = [kept[0].tolist() for kept in memory.kept]
        data = {name: getattr(monitor, name) for name in _COUNTED}
        data["kept"] = [[x if math.isfinite(x) else str(x) for x in row] for row in rows]
        data["whole_run"] = memory.whole_run
        if drift is not None:
            up, down = drift.sums[0].tolist()
            data["drift"] = {"up": up, "down": down, "largest": drift.largest}
        return cls.parse(data, where=monitor.terms.name)

    def restore(self, monitor: reading.IndicatorMonitor) -> None:
        """Let it go on from here."""
        kept = [np.array([[float(x) for x in row]], dtype=np.float64) for row in self.kept]
        monitor.stream.memory = Memory(kept, self.whole_run)
        if monitor.drift is not None and self.drift is not None:
            monitor.drift.sums = np.array([[self.drift.up, self.drift.down]], dtype=np.int64)
            monitor.drift.largest = self.drift.largest
        for name in _COUNTED:
            setattr(monitor, name, getattr(self, name))


class MonitorState(Section):
    """The state of a monitor; one that names no target is of its lock's primary one."""

    format: int = FORMAT
    lock_hash: str
    target: float | None = None
    acting: Many[str]
    state: reading.State | None = None
    since: int
    run: RunState
    rulers: dict[str, IndicatorState]  # the key of state files: the indicators, by name

    def fault(self, monitor: AlarmMonitor) -> str | None:
        """Why it is of no monitor with this lock, target and indicators; None if it is."""
        lock = monitor.lock
        if self.format != FORMAT:
            what = f"state format {self.format} is not readable here, format {FORMAT} is"
            return f"{what}; begin a new monitor"
        if self.lock_hash != lock.hash:
            what = f"is of {_short(self.lock_hash)}, not of {lock.hash[:16]}"
            return f"{what}; load it with the lock that it was made with"
        if self.acting != monitor.acting or self.rulers.keys() != monitor.indicators.keys():
            return "is of a monitor with other indicators; give the same act and show"
        held = lock.design.primary_fpr if self.target is None else self.target
        if held != monitor.target:
            what = f"is of a monitor with target {held:g}, not {monitor.target:g}"
            return f"{what}; give the same target, or begin a new monitor"
        return None


def write_state(path: Path, state: Mapping[str, Any]) -> Path:
    """Write a state as JSON, with its hash."""
    held = {**state, _HASH: item_hash(state).hex()}
    return write_text(path, json.dumps(held, allow_nan=False) + "\n")


def read_state(path: str | Path) -> dict[str, Any]:
    """What `write_state` wrote; `InputError` where there is none, or something else."""
    check_file(path)
    try:
        held = read_json(path, foreign=True)
        if not isinstance(held, dict):
            raise ValueError("it is no JSON object")
        if held.pop(_HASH, None) != item_hash(held).hex():
            raise ValueError("its hash differs: it was damaged or changed")
        return held
    except ValueError as error:
        reason = one_line(str(error).removeprefix(f"{path}: "))
        raise InputError(
            f"{path}: is not the state of a monitor ({reason}); give the file that it saved, or "
            "delete it"
        ) from None


class AlarmMonitor:
    """Watches one run.

    Several indicators that act are an alarm as soon as one of them is over, so that their budgets
    add up; name one to keep to its budget.

    Args:
        lock: the lock, or its file.
        results: the held-out verdicts by this lock, or their file.
        act: the indicators that may raise the alarm; by default all that are alarm eligible.
        show: which others to read along; by default all of the lock.
        target: the false positive rate whose locked thresholds count; by default the primary one,
            which the verdicts, and so what may act, are about.
        system: what the run says of itself, by field of the lock's boundary (task, model,
            optimizer, schedule); where it differs, the monitor abstains.

    Attributes:
        target: as above.
        indicators: what is read at each checkpoint, by name; those that act first.
        acting: the names of those that may raise the alarm.
        cadence: steps between the checkpoints that it must be given.
        needs: the columns that every update must bring, or the monitor abstains.
        shown_needs: further columns, without which a diagnostic is not shown.
        notes: what is not promised, or not compared, a sentence each.

    Raises:
        InputError: there are no results, they are of another lock, an indicator that is not
            alarm eligible is to act, or the lock has no threshold for the target.
    """

    def __init__(
        self,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        act: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        target: float | None = None,
        system: Mapping[str, Any] | None = None,
    ) -> None:
        self.lock = lock if isinstance(lock, Lock) else Lock.read(lock)
        self.results = results_of(self.lock, results)
        self._boundary = LockedBoundary(self.lock, system)
        self.cadence = self._boundary.cadence
        self.acting = acting = acting_of(self.lock, self.results, act)
        self.target = target_of(self.lock, acting, target)
        wanted = self.lock.x_lock.candidates if show is None else show
        shown = [name for name in dict.fromkeys(wanted) if name not in acting]
        bounds = LockedBounds(self.lock.x_lock.x_health, acting)
        self.indicators = {
            name: self._indicator(name, bounds, acts=name in acting) for name in (*acting, *shown)
        }
        self.needs = self._needs(acting, but=("step",))
        self.shown_needs = self._needs(shown, but=("step", *self.needs))
        self._health = bounds.sentence
        self._state: reading.State | None = None
        self._since = 0
        self._file: StateFile | None = None
        unstated = ", ".join(self._boundary.unstated)
        self.notes = (
            *([] if bounds.promised else [bounds.sentence]),
            *([f"The run does not say its {unstated}: not compared."] if unstated else []),
        )

    def update(self, *, step: int, **observables: Any) -> reading.Reading:
        """The answer at the next checkpoint.

        Args:
            step: of the checkpoint, a whole number that grows.
            **observables: a number for each column in `needs`; others are passed over. One that is
                missing or not finite breaks the indicators that need it.

        Raises:
            InputError: the step is no whole number, or does not come after the one before.
        """
        if isinstance(step, bool) or not isinstance(step, Integral) or step < 0:
            raise InputError(f"step must be a whole number from 0 on, got {step!r}")
        now = int(step)
        fault = self._boundary.fault(now)
        columns, faults = self._usable({**observables, "step": now})
        read = tuple(item.update(now, columns, faults, fault) for item in self.indicators.values())
        state, reason, since = reading.decide(read, step=now, burn_in=self.lock.design.burn_in)
        if state != self._state:
            self._state, self._since = state, now
        since = self._since if since is None else since
        return reading.Reading(state, now, reason, since, self._health, read)

    def _usable(self, given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        """The columns that are finite numbers, and why the others of those needed are not."""
        columns, faults = {}, {}
        for name in ("step", *self.needs, *self.shown_needs):
            try:
                columns[name] = float(given[name])
                if not math.isfinite(columns[name]):
                    faults[name] = f"column {name!r} is {columns[name]}"
            except KeyError:
                guess = nearest(name, given)
                hint = f" (did you mean {guess!r}?)" if guess else ""
                faults[name] = f"column {name!r} is missing{hint}"
            except (TypeError, ValueError, OverflowError):
                faults[name] = f"column {name!r} is {reprlib.repr(given[name])}, no number"
        return columns, faults

    def state_dict(self) -> dict[str, Any]:
        """All that the monitor remembers of the run, as plain data that JSON can hold."""
        return MonitorState(
            lock_hash=self.lock.hash,
            target=self.target,
            acting=self.acting,
            state=self._state,
            since=self._since,
            run=self._boundary.run,
            rulers={name: IndicatorState.of(item) for name, item in self.indicators.items()},
        ).plain()

    def load_state_dict(self, state: Mapping[str, Any], *, where: str = "state") -> None:
        """Go on from a state that a monitor with the same lock, target and indicators was in.

        `InputError` where it is of another lock or target, or of other indicators, or no state.
        """
        held = MonitorState.parse(state, where=where)
        fault = held.fault(self)
        if fault is not None:
            raise InputError(f"{where}: {fault}")
        self._boundary.run = held.run
        for name, item in self.indicators.items():
            held.rulers[name].restore(item)
        self._state, self._since = held.state, held.since

    def save(self, path: str | Path) -> Path:
        """Write the state to a file, which is this monitor's until it is closed.

        `InputError` where another monitor saves there, or the place cannot be written to.
        """
        if self._file is None or self._file.path != Path(path):
            claimed = StateFile(path)
            self.close()
            self._file = claimed
        return self._file.write(self.state_dict())

    def load(self, path: str | Path) -> None:
        """Go on from a saved state; `InputError` as `load_state_dict`, or if there is none."""
        self.load_state_dict(read_state(path), where=str(path))

    def close(self) -> None:
        """Leave the state file to others; `contextlib.closing` does so at the end of a block."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _needs(self, names: Sequence[str], but: Sequence[str]) -> tuple[str, ...]:
        needs = dict.fromkeys(need for name in names for need in self.indicators[name].needs)
        return tuple(need for need in needs if need not in but)

    def _indicator(
        self, name: str, bounds: LockedBounds, *, acts: bool
    ) -> reading.IndicatorMonitor:
        entry, ensemble = locked_entry(self.lock, name), self.lock.candidate(name).ensemble
        known: dict[str, Any] = {"cadence": self.cadence, "parameters": entry.parameters}
        if ensemble is None:
            reading.refuse_unstreamed(entry.indicator, **known)
        else:
            for member, locked in zip(member_indicators(ensemble), ensemble.members, strict=True):
                reading.refuse_unstreamed(member, cadence=self.cadence, parameters=locked.params)
        terms = reading.Terms(
            name=name,
            label=self.results.indicator(name).label,
            acts=acts,
            threshold=self.lock.thresholds(name)[self.target],
            target=self.target,
            drift_bound=bounds.of(name),
        )
        stream = reading.IndicatorStream(entry.indicator, sign=entry.sign, **known)
        return reading.IndicatorMonitor(stream, terms, self.lock.design.burn_in, bounds.drift(name))
