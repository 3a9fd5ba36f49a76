"""The alarm of a live run: one checkpoint at a time, by a lock and the verdicts that it earned.

    monitor = AlarmMonitor("lock.yaml", "results.yaml")
    reading = monitor.update(step=500, unembedding_gini=0.31, prediction_change=0.02)
    reading.state, reading.reason

The alarm is raised once, at the first checkpoint at which an indicator that acts reaches its
threshold, so that the budget is a share of runs. By windows, as the specification counts, it rings
wherever one is over.

Spec: GMB v0.4, section 9: only an indicator that is SUPPORTED_FOR_ALARM may act, and one that is
broken abstains.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from pydantic import FiniteFloat

from gmb_hf.base.documents import Many, Section
from gmb_hf.base.errors import InputError, choose, nearest
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import check_file, claim, read_json, write_text
from gmb_hf.base.fingerprints import item_hash
from gmb_hf.base.schemas import Schema, dated
from gmb_hf.benchmark.gates import AGAINST_ALARM
from gmb_hf.benchmark.health import LockedBounds
from gmb_hf.benchmark.prepare import locked_entry
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.validation import disagreements
from gmb_hf.core.thresholds import in_words, promise, runs_to_promise, shared_thresholds
from gmb_hf.design.design import UNDECLARED
from gmb_hf.design.lock import SEEN_AS, Lock, differing
from gmb_hf.indicators.causal import Memory
from gmb_hf.indicators.ensemble import member_indicators
from gmb_hf.monitor import reading

AS_LOCKED: Literal["as locked"] = "as locked"
"""What is typed for a system that is the lock's in all that nobody can see."""
_SYSTEM = ("task", "model", "optimizer", "schedule", "checkpoint_every_steps")
_TRANSFERRED = (
    "The verdicts are about another system than the lock's (gmb evaluate --transfer): what may act "
    "was shown there alone, and what the lock promises does not hold there."
)


class RunState(Section):
    """How far a run has come: its latest step (None before the first), how many were seen.

    `went_back` says why nothing can be read any more; None while steps increase. `foreign` says how
    what was seen of it differed from the lock's system; None where it never did.
    """

    last: int | None = None
    seen: int
    went_back: str | None = None
    foreign: str | None = None


class LockedBoundary:
    """Follows the steps of one run, whose system and spacing must be those of the lock.

    Args:
        lock: its boundary, and the steps that the explore runs had.
        system: field of the boundary -> what the run says of itself, or several such statements;
            None is not compared. "as locked": what the lock says.
        judged: the system that the verdicts are about, where it is another than the lock's.

    Attributes:
        run: how far the run has come.

    Raises:
        InputError: a field that no boundary has, or a lock without a cadence.
    """

    def __init__(
        self,
        lock: Lock,
        system: Mapping[str, Any] | Literal["as locked"] | None,
        judged: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        design, health = lock.design, lock.x_lock.x_health
        if design.cadence is None:
            raise InputError(
                "lock: boundary.checkpoint_every_steps is open, so no live run can be held against "
                "it; lock again with gmb lock, which fills it in from the logs"
            )
        self.cadence = design.cadence
        self._first = None if health is None else health.first_step
        self._end = None if health is None else health.last_step
        if system == AS_LOCKED:
            system = {name: getattr(design, name) for name in _SYSTEM[:-1]}
        said = _statements(system or {})
        foreign = "the run's {0} is {2!r}, the lock is about {1!r}"
        shown = lock.x_lock.x_system
        self._locked = shown.plain() if shown is not None and judged is None else {}
        if judged is not None:
            stated = {name: judged.get(name, ()) for name in _SYSTEM[:-1]}
            design = design.replace(
                **{name: one[0] if len(one) == 1 else None for name, one in stated.items()}
            )
            foreign = foreign.replace("lock is", "verdicts are")
        self._foreign = next((foreign.format(*one) for one in differing(design, said)), None)
        locked = {name: getattr(design, name) for name in _SYSTEM[:-1]}
        self._unstated = {
            name: text for name, text in locked.items() if text is not None and not said.get(name)
        }
        self._asks = shown is not None  # a lock of an earlier version is watched as it was then
        self._sees = False
        self._as_locked = judged is None
        self._unknown: str | None = None
        self.run = RunState(seen=0)

    @property
    def uncompared(self) -> tuple[str, ...]:
        """The fields of that system that the run need not say, and says nothing about."""
        return tuple(name for name in self._unstated if name not in self._asked)

    @property
    def _asked(self) -> dict[str, str]:
        """What the lock declares, and a run that is seen must show or say."""
        asks = self._asks and self._sees
        return {name: text for name, text in self._unstated.items() if asks and text != UNDECLARED}

    def see(self, seen: Mapping[str, Any]) -> None:
        """Compare what a training shows of its system, by field of `LockedSystem`.

        What differs is a fault for good. So is from now on what the lock declares and the run
        neither shows nor says.
        """
        self._sees = True
        for name, own in self._locked.items():
            if self.run.foreign is None and not _same(seen.get(name, own), own):
                words = name.replace("_", " ")
                what = f"the run's {words} is {_shown(seen[name])}, the lock is about {_shown(own)}"
                self.run = self.run.model_copy(update={"foreign": what})
        compared = self._locked.keys() & seen.keys()
        missing = {
            part: text
            for part, text in self._asked.items()
            if not compared.issuperset(SEEN_AS.get(part, [part]))
        }
        self._unknown = self._what_to_say(missing) if missing else None

    def _what_to_say(self, missing: Mapping[str, str]) -> str:
        """One line for a run that does not say what nobody can see."""
        typed = f"system={json.dumps(missing, ensure_ascii=False)}"
        whole = f', or system="{AS_LOCKED}",' if self._as_locked else ""
        return f"the run does not say its {', '.join(missing)}; give {typed}{whole} if that is so"

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
        fault = self._foreign or run.foreign or self._unknown or run.went_back
        fault = fault or self._spacing_fault(step)
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


def _same(seen: Any, locked: Any) -> bool:
    """Whether two values are equal; numbers but for the rounding of float32."""
    if isinstance(locked, float):
        return math.isclose(seen, locked, rel_tol=1e-6)
    return bool(seen == locked)


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _statements(system: Mapping[str, Any]) -> dict[str, list[Any]]:
    """What a run says of itself, a list of statements for each field."""
    if not isinstance(system, Mapping):
        example = '{"task": ...}, by field of the lock\'s boundary'
        raise InputError(f'system {system!r}: give {example}, or "{AS_LOCKED}"')
    found = {}
    for name, said in system.items():
        choose("field", name, _SYSTEM, where="system")
        several = isinstance(said, Sequence) and not isinstance(said, str)
        found[name] = [item for item in (said if several else [said]) if item is not None]
    return found


def _results_beside(lock: Lock) -> Path:
    """The results by a lock in its folder, or in a folder there, as `gmb evaluate` writes them."""
    looked = ""
    if lock.path is not None:
        folder = lock.path.parent
        for path in (folder / "results.yaml", *sorted(folder.glob("*/results.yaml"))):
            # Of another lock, or broken: not those that are looked for.
            with suppress(InputError):
                source = Results.read(path).x_provenance if path.exists() else None
                if source is not None and source.lock_hash == lock.hash:
                    return path
        looked = f" (none by this lock in {folder} and its folders)"
    raise InputError(
        "a lock without results: it says where the thresholds lie, not what may act on them; judge "
        f"held-out runs by it (gmb evaluate --lock) and give the results.yaml{looked}"
    )


def results_of(lock: Lock, results: Results | str | Path | None) -> Results:
    """The held-out verdicts by this lock; `InputError` where there are none, or of another lock."""
    if results is None:
        results = _results_beside(lock)
    found = results if isinstance(results, Results) else Results.read(results)
    where = "results" if isinstance(results, Results) else str(results)
    source = found.x_provenance
    made_with = source.lock_hash if source else None
    hint = "give those that gmb evaluate --lock wrote with this lock"
    if made_with != lock.hash:
        what = f"these results are of {_short(made_with)}, not of {_short(lock.hash)}"
        raise InputError(f"{where}: {what}; {hint}")
    found.verify(where)
    if fault := next(disagreements(found), None):
        raise InputError.at(where, "contradiction", f"contradicts itself: {fault}; {hint}")
    return found


def acting_of(lock: Lock, results: Results, act: Sequence[str] | None) -> tuple[str, ...]:
    """The indicators that raise the alarm: those asked for, else all that may.

    `InputError` where one of them is unknown, or not alarm eligible, or what the lock declares as
    a control or an oracle is said to be.
    """
    eligible = [item.name for item in results.indicators if item.x_alarm_eligible]
    for name in eligible:
        declared = lock.candidate(name)
        if declared.family == "control" or declared.sees_test_labels:
            what = "a control" if declared.family == "control" else "an oracle"
            raise InputError(f"results: {name!r} is {what} by the lock: it never acts")
    for name in act or ():
        choose("indicator", name, [item.name for item in results.indicators], where="results")
        if name not in eligible:
            item = results.indicator(name)
            why = [AGAINST_ALARM[code] for code in item.x_reasons if code in AGAINST_ALARM]
            raise InputError(
                f"indicator {name!r} is {'; '.join([item.label, *why])}: it may be shown, but "
                f"never act; those that may: {', '.join(eligible) or 'none'}"
            )
    return tuple(dict.fromkeys(eligible if act is None else act))


Accept = Literal["evaluated", "recalibrated"]
ACCEPTS: tuple[str, ...] = get_args(Accept)
"""evaluated: what held-out verdicts let act; recalibrated: pretrained scores that a lock calibrated
on runs of this system, without a verdict."""


def recalibrated_of(lock: Lock, act: Sequence[str] | None) -> tuple[str, ...]:
    """The pretrained scores of a lock that raise the alarm: those asked for, else all.

    `InputError` where one of them is not pretrained, or is an oracle, or the lock has none.
    """
    able = [
        name
        for name, item in lock.x_lock.candidates.items()
        if item.ensemble is not None and item.ensemble.pretrained and not item.sees_test_labels
    ]
    if not able:
        raise InputError.at(
            lock.path or "lock",
            "not_recalibrated",
            "holds no pretrained score that sees no labels, so that nothing may act without a "
            "verdict; lock one with gmb lock --pretrained NAME, or judge held-out runs by this "
            "lock and give the results",
        )
    for name in act or ():
        if name not in able:
            raise InputError(
                f"indicator {name!r} is no pretrained score of this lock: without a verdict only "
                f"{', '.join(able)} may act"
            )
    return tuple(dict.fromkeys(able if act is None else act))


UNITS: tuple[str, ...] = get_args(reading.Unit)
"""run: one alarm a run, a budget of runs; window: an alarm wherever a score is over."""


@dataclass(frozen=True)
class AlarmRule:
    """Who acts, and at which thresholds.

    Attributes:
        unit, budget: the share of runs, or of windows, that may have a false alarm.
        acting: the indicators that raise the alarm.
        thresholds: of every candidate of the lock.
        promises: what each threshold promises of false alarms, one line.
        promise: the same of those that act together.
        notes: a sentence each.
    """

    unit: reading.Unit
    budget: float
    acting: tuple[str, ...]
    thresholds: dict[str, float]
    promises: dict[str, str]
    promise: str
    notes: tuple[str, ...] = ()

    @classmethod
    def by_runs(
        cls, lock: Lock, results: Results | None, act: Sequence[str] | None, budget: float | None
    ) -> AlarmRule:
        """First alarms: those that act share one budget of runs.

        Where nothing is named and the eligible indicators are too many for one budget, those with
        the highest detection rate act. Without results pretrained scores act, by what their
        calibration promises.

        Raises:
            InputError: the lock holds no first alarms, or not this budget; one that is to act has
                no threshold for it, or they are too many to share it.
        """
        design, candidates = lock.design, lock.x_lock.candidates
        if not all(item.first_alarm and item.run_maxima for item in candidates.values()):
            what = "holds no thresholds of first alarms"
            if design.protocol == "strict":
                what += f": gmb-hf {lock.x_lock.package_version} had none; lock again and judge by"
            else:
                what += f", which protocol {design.protocol} has not; lock by strict and judge by"
            what += " that lock, or watch with unit window, where nothing may act by this one"
            raise InputError.at(lock.path or "lock", "no_first_alarm", what)
        wanted = design.primary_run_budget if budget is None else budget
        if isinstance(wanted, bool) or wanted not in design.run_budgets:
            known = f"its budgets of runs: {_listed(design.run_budgets)}"
            raise InputError(f"budget {wanted!r} is not in the lock; {known}")
        chosen = recalibrated_of(lock, act) if results is None else acting_of(lock, results, act)
        own = {name: lock.run_thresholds(name)[wanted] for name in candidates}
        promises = {name: _promise(lock, name, wanted) for name in candidates}
        silent = [name for name in chosen if math.isinf(own[name])]
        able = _best_first(results, wanted, [name for name in chosen if name not in silent])
        if silent and (act or not able):
            usable = _with_threshold(lock.run_thresholds, chosen, design.run_budgets)
            raise InputError(
                f"budget {wanted:g}: the lock says ABSTAIN for {', '.join(silent)}, "
                f"{in_words(wanted)} takes {runs_to_promise(wanted, design.calibration)} explore "
                f"runs with negative windows; budgets with a threshold: {usable}",
                code="few_runs",
            )
        acting, shared = share_budget(lock, able, wanted)
        notes, words = [], in_words(wanted)
        if len(acting) < len(chosen):
            rows = zip(*(candidates[name].run_maxima for name in able), strict=True)
            runs = f"{sum(None not in row for row in rows)} explore runs with negative windows"
            if act:
                raise InputError(
                    f"{len(chosen)} indicators cannot share a budget of {words} by {runs}, "
                    f"{len(acting)} can; name those with the highest detection rate: "
                    f"--act {','.join(acting)}",
                    code="too_many_alarms",
                )
            what = "those with the highest detection rate"
            notes.append(
                f"{len(acting)} of {len(chosen)} eligible indicators act, {what}: by {runs} no "
                f"more can share a budget of {words}."
            )
        together = promises[acting[0]] if len(acting) == 1 else "No indicator may act."
        if len(acting) > 1:
            together = (
                f"False alarms in at most {words}, on average over such locks: {len(acting)} "
                "indicators share this budget, at stricter thresholds than those that were judged, "
                "so that each may detect fewer events."
            )
        if results is None:
            together += _shown_elsewhere(lock, acting)
        promises |= dict.fromkeys(acting, together)
        return cls(
            "run", float(wanted), acting, {**own, **shared}, promises, together, tuple(notes)
        )

    @classmethod
    def by_windows(
        cls, lock: Lock, results: Results, act: Sequence[str] | None, target: float | None
    ) -> AlarmRule:
        """The specification's thresholds, each for itself.

        `InputError` where the lock has no such target, or no threshold by it for one that acts.
        """
        acting, targets = acting_of(lock, results, act), lock.design.fpr_targets
        wanted = lock.design.primary_fpr if target is None else target
        if isinstance(wanted, bool) or wanted not in targets:
            known = f"its targets: {_listed(targets)}"
            raise InputError(f"target {wanted!r} is not in the lock; {known}")
        thresholds = {name: lock.thresholds(name)[wanted] for name in lock.x_lock.candidates}
        silent = [name for name in acting if math.isinf(thresholds[name])]
        if silent and target is not None:
            usable = _with_threshold(lock.thresholds, acting, targets)
            raise InputError(
                f"target {wanted:g}: the lock says ABSTAIN for {', '.join(silent)}, it has too "
                f"few explore runs for so small a rate; targets with a threshold: {usable}"
            )
        promised = (
            f"False alarms at {100 * wanted:.3g}% of the windows before an event, not in that "
            "share of runs: it may ring at many checkpoints of a run"
        )
        own = dict.fromkeys(thresholds, f"{promised}.")
        each = "; each indicator spends such a budget of its own." if len(acting) > 1 else "."
        return cls("window", float(wanted), acting, thresholds, own, promised + each)


def share_budget(
    lock: Lock, names: Sequence[str], budget: float
) -> tuple[tuple[str, ...], dict[str, float]]:
    """As many of the names, from the first on, as can share one budget, and their thresholds."""
    for count in range(len(names), 1, -1):
        some = names[:count]
        maxima = {name: lock.candidate(name).run_maxima for name in some}
        shared = shared_thresholds(maxima, budget, lock.design.calibration)
        if all(map(math.isfinite, shared.values())):
            return tuple(some), shared
    return tuple(names[:1]), {name: lock.run_thresholds(name)[budget] for name in names[:1]}


def _best_first(results: Results | None, budget: float, names: Sequence[str]) -> list[str]:
    """By their detection rates; those that are equal, or unknown, stay in their order."""
    if results is None:
        return list(names)

    def detected(name: str) -> float:
        first = results.indicator(name).x_first_alarm
        return (first and first.at(budget).detection_rate) or 0.0

    return sorted(names, key=detected, reverse=True)


def _shown_elsewhere(lock: Lock, acting: Sequence[str]) -> str:
    """That a budget alone is promised, and where the scores were fitted; a sentence."""
    places = {
        one.fitted_elsewhere
        for name in acting
        if (one := lock.candidate(name).ensemble) is not None
    }
    where = f" It was fitted on {', '.join(sorted(places))}." if all(places) else ""
    return f" That it detects anything in this system is not shown.{where}"


def _with_threshold(
    thresholds: Callable[[str], Mapping[float, float]], names: Sequence[str], at: Sequence[float]
) -> str:
    """Those budgets or targets by which all of these have a threshold."""
    every = [thresholds(name) for name in names]
    return _listed([one for one in at if all(math.isfinite(own[one]) for own in every)])


def _promise(lock: Lock, name: str, budget: float) -> str:
    """What a first-alarm threshold of the lock promises by itself."""
    n_runs = lock.calibration_runs(name)
    found = promise(budget, n_runs, lock.design.calibration)
    if found.rank is None:
        return f"Nothing is promised: {n_runs} explore runs are too few for {in_words(budget)}."
    return (
        f"False alarms in at most {in_words(budget)} ({found.expected:.2g} expected, 90% sure of "
        f"at most {found.upper:.2g}, by {n_runs} explore runs)."
    )


def _listed(targets: Sequence[float]) -> str:
    return ", ".join(f"{target:g}" for target in targets) or "none"


def _short(lock_hash: str | None) -> str:
    return "no lock" if lock_hash is None else f"lock {lock_hash[:16]}"


def claim_state(path: str | Path) -> ExitStack:
    """A claim on a file; `InputError` as `gmb_hf.base.files.claim`: another monitor may have it."""
    hint = "give each run a file of its own, or end that monitor first"
    return claim(path, f"another monitor saves its state here; {hint}")


# What a monitor remembers of a run, as a document that is checked when it is read.
SCHEMA = Schema("monitor state", (partial(dated, version=2),))
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


class RaisedAlarm(Section):
    """When the alarm was raised, and why."""

    step: int
    reason: str


class MonitorState(Section):
    """The state of a monitor."""

    x_schema: int = SCHEMA.current
    lock_hash: str
    unit: reading.Unit
    budget: float
    acting: Many[str]
    state: reading.State | None = None
    since: int
    alarm: RaisedAlarm | None = None
    run: RunState
    indicators: dict[str, IndicatorState]

    def fault(self, monitor: AlarmMonitor) -> str | None:
        """Why it is of no monitor with this lock, budget and indicators; None if it is."""
        lock, rule = monitor.lock, monitor.rule
        if self.lock_hash != lock.hash:
            what = f"is of {_short(self.lock_hash)}, not of {lock.hash[:16]}"
            return f"{what}; load it with the lock that it was made with"
        if self.acting != monitor.acting or self.indicators.keys() != monitor.indicators.keys():
            return "is of a monitor with other indicators; give the same act and show"
        if (self.unit, self.budget) != (rule.unit, rule.budget):
            held, now = (f"a budget of {one.budget:g} by {one.unit}s" for one in (self, rule))
            return f"is of a monitor with {held}, not {now}; give the same, or begin a new monitor"
        return None


def write_state(path: str | Path, state: Mapping[str, Any]) -> Path:
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
            raise ValueError("its checksum differs: it was damaged or changed, where is not known")
        return held
    except ValueError as error:
        reason = one_line(str(error).removeprefix(f"{path}: "))
        raise InputError(
            f"{path}: is not the state of a monitor ({reason}); give the file that it saved, or "
            "delete it"
        ) from None


class AlarmMonitor:
    """Watches one run.

    By runs, the alarm is raised at the first checkpoint at which an indicator that acts is over,
    and stands from then on; several that act share one budget. By windows it rings wherever one is
    over, and budgets add up.

    Args:
        lock: the lock, or its file.
        results: the held-out verdicts by this lock, or their file.
        act: the indicators that may raise the alarm; by default all that are alarm eligible, or
            as many, best first, as can share the budget.
        show: which others to read along; by default all of the lock.
        unit: what a budget counts, "run" or "window".
        budget: by runs, the share of them that may have a false alarm, one of the lock's; by
            default its primary one, which the verdicts, and so what may act, are about.
        target: by windows, the false positive rate; one of the lock's, by default its primary one.
        accept: "recalibrated" lets a pretrained score act that the lock calibrated on runs of this
            system, before held-out runs were judged: the budget is promised, that it detects
            anything is not; there are no results then.
        system: what the run says of itself, by field of the lock's boundary (task, model,
            optimizer, schedule); where it differs from the system that the verdicts are about, the
            lock's own or the one judged by `--transfer`, the monitor abstains. "as locked" says
            that it is the lock's own.

    Attributes:
        rule: unit, budget, thresholds, and what they promise.
        indicators: what is read at each checkpoint, by name; those that act first.
        acting: the names of those that may raise the alarm.
        alarm: by runs, when it was raised and why; None before.
        cadence: steps between the checkpoints that it must be given.
        needs: the columns that every update must bring, or the monitor abstains.
        shown_needs: further columns, without which a diagnostic is not shown.
        transferred: whether the results judged runs of another system than the lock's.

    Raises:
        InputError: there are no results, they are of another lock, an indicator that is not
            alarm eligible is to act, or the lock has no thresholds for the budget.
    """

    def __init__(
        self,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        act: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        unit: reading.Unit = "run",
        budget: float | None = None,
        target: float | None = None,
        accept: Accept = "evaluated",
        system: Mapping[str, Any] | Literal["as locked"] | None = None,
    ) -> None:
        choose("unit", unit, UNITS)
        choose("value", accept, ACCEPTS, where="accept")
        if accept == "recalibrated" and (results is not None or unit != "run"):
            what = "results are given, which say what may act" if results is not None else ""
            raise InputError(
                f"accept recalibrated: {what or 'only a budget of runs is promised then'}; leave "
                f"{'one of them' if what else 'the unit'} out"
            )
        odd = ("budget", "run", "target") if unit == "window" else ("target", "window", "budget")
        if (budget if unit == "window" else target) is not None:
            what = f"{odd[0]} is a share of {odd[1]}s, the unit is {unit}"
            raise InputError(f"{what}; give {odd[2]}, or unit {odd[1]}", code="other_unit")
        self.lock = lock if isinstance(lock, Lock) else Lock.read(lock)
        self.results = None if accept == "recalibrated" else results_of(self.lock, results)
        by_runs = [item.x_first_alarm for item in self.results.indicators] if self.results else []
        self.transferred = any(first and first.basis == "shown" for first in by_runs)
        judged = None
        if self.transferred and self.results is not None:
            judged = self.results.boundary.x_judged or {}
        self._boundary = LockedBoundary(self.lock, system, judged)
        self.cadence = self._boundary.cadence
        if unit == "run" or self.results is None:
            self.rule = AlarmRule.by_runs(self.lock, self.results, act, budget)
        else:
            self.rule = AlarmRule.by_windows(self.lock, self.results, act, target)
        self.acting = acting = self.rule.acting
        self.alarm: RaisedAlarm | None = None
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
        self._file: Path | None = None
        self._claim = ExitStack()  # of that file
        self._notes = (
            *([_TRANSFERRED] if self.transferred else []),
            *self.rule.notes,
            *([] if bounds.promised else [bounds.sentence]),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not promised, or not compared, a sentence each."""
        unstated = ", ".join(self._boundary.uncompared)
        said = [f"The run does not say its {unstated}: not compared."] if unstated else []
        return (*self._notes, *said)

    def see(self, seen: Mapping[str, Any]) -> None:
        """Compare the system as a training shows it, before `update` reads the same checkpoint.

        It abstains from a run that differs, and from one that neither shows nor says what the lock
        declares.

        Args:
            seen: architecture, parameter_count, optimizer, learning_rate, weight_decay; what is not
                there could not be seen.
        """
        self._boundary.see(seen)

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
        if self.alarm is not None:
            raised = f"raised at step {self.alarm.step}: {self.alarm.reason}"
            state, reason, since = "ALARM", raised, self.alarm.step
        elif state == "ALARM" and self.rule.unit == "run":
            self.alarm = RaisedAlarm(step=now, reason=reason)
        if state != self._state:
            self._state, self._since = state, now
        since = self._since if since is None else since
        raised_at = None if self.alarm is None else self.alarm.step
        promised = self.rule.promise
        return reading.Reading(state, now, reason, since, raised_at, promised, self._health, read)

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

    @property
    def state(self) -> reading.State | None:
        """CLEAR, ALARM or ABSTAIN as of the latest checkpoint; None before the first."""
        return self._state

    def state_dict(self) -> dict[str, Any]:
        """All that the monitor remembers of the run, as plain data that JSON can hold."""
        return MonitorState(
            lock_hash=self.lock.hash,
            unit=self.rule.unit,
            budget=self.rule.budget,
            acting=self.acting,
            state=self._state,
            since=self._since,
            alarm=self.alarm,
            run=self._boundary.run,
            indicators={name: IndicatorState.of(item) for name, item in self.indicators.items()},
        ).plain()

    def load_state_dict(self, state: Mapping[str, Any], *, where: str = "state") -> None:
        """Go on from a state that a monitor with the same lock, budget and indicators was in.

        `InputError` where it is of another lock or budget, of other indicators, of a later schema,
        or no state.
        """
        if (given := state.get("format", 2)) != 2:  # before there were schemas
            what = f"state format {given!r} is not readable here, format 2 is"
            raise InputError(f"{where}: {what}; begin a new monitor, without this state")
        held = MonitorState.parse(SCHEMA.opened(dict(state), where=where), where=where)
        if (fault := held.fault(self)) is not None:
            raise InputError(f"{where}: {fault}")
        self._boundary.run = held.run
        for name, item in self.indicators.items():
            held.indicators[name].restore(item)
        self._state, self._since, self.alarm = held.state, held.since, held.alarm

    def save(self, path: str | Path) -> Path:
        """Write the state to a file, which is this monitor's until it is closed.

        `InputError` where another monitor saves there, or the place cannot be written to.
        """
        if self._file != Path(path):
            claimed = claim_state(path)
            self.close()
            self._file, self._claim = Path(path), claimed
        return write_state(self._file, self.state_dict())

    def load(self, path: str | Path) -> None:
        """Go on from a saved state; `InputError` as `load_state_dict`, or if there is none."""
        self.load_state_dict(read_state(path), where=str(path))

    def close(self) -> None:
        """Leave the state file to others; `contextlib.closing` does so at the end of a block."""
        self._claim.close()
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
            label="RECALIBRATED" if self.results is None else self.results.indicator(name).label,
            acts=acts,
            threshold=self.rule.thresholds[name],
            unit=self.rule.unit,
            budget=self.rule.budget,
            promise=self.rule.promises[name],
            drift_bound=bounds.of(name),
        )
        stream = reading.IndicatorStream(entry.indicator, sign=entry.sign, **known)
        return reading.IndicatorMonitor(stream, terms, self.lock.design.burn_in, bounds.drift(name))
