"""Decisions: runs are stopped by the first alarms of a lock; what that saves, and what it loses.

`gmb_hf.core.decisions` has the rules. The step, or the delay, of each score is chosen on the lock's
explore runs, and so is the budget whose locked threshold raises the alarm; held-out runs judge it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from gmb_hf._lazy import from_above
from gmb_hf._version import __version__
from gmb_hf.base.checksums import Checksums
from gmb_hf.base.documents import Count, Many, Number, OpenSection, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, choose, first_of, fraction
from gmb_hf.base.escape import cut, html_table, percent
from gmb_hf.base.schemas import Schema
from gmb_hf.base.stats import IntervalRecord, exact_binomial, ratio_interval, resamples
from gmb_hf.benchmark.evaluate import HeldOutRuns, may_judge
from gmb_hf.benchmark.events import EVENTS
from gmb_hf.benchmark.foresight import Seen
from gmb_hf.benchmark.gates import State, budget_state
from gmb_hf.benchmark.prepare import CONTROLS, Entry, Prepared, Runs, chance_of, prepare
from gmb_hf.benchmark.records import WhyNull
from gmb_hf.core.decisions import Rule, least_at, lost_events, needed, saved_steps, stops
from gmb_hf.core.events import plateau_steps
from gmb_hf.core.thresholds import runs_to_promise, shown_line
from gmb_hf.design.candidates import LEARNED_METRIC
from gmb_hf.design.lock import Lock
from gmb_hf.design.looks import look_notes

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

RULES: tuple[Rule, ...] = get_args(Rule)
CLOCK, ONSET, LEARNED = "clock", "onset", LEARNED_METRIC
"""What a score is held against: no score at all, and the metric of the event itself."""

Group = Literal["monitor", "task", "undeclared", "oracle", "rival"]
GROUPS: tuple[Group, ...] = get_args(Group)
"""What a score is told, in the order of tables; they are not ranked together."""

ONSET_CHECKPOINTS = 5
"""In a row: so long the metric must stay above its level to count as an alarm."""
_TIMES_CHANCE = 3.0
_MOST_CANDIDATES = 400  # of a curve

SCHEMA = Schema("decisions file", ())
CHECKSUM = Checksums("x_checksum", hint="restore the file, or run gmb decide again")
_HEADING = "What stopping runs by the alarms of a lock saves and loses; gmb decide writes it."
_NO_CHOICE = WhyNull(
    "no finite threshold, or too few explore events: a combination has those alone that it was "
    "not fitted on"
)


class StoppedRecord(OpenSection):
    """What became of some runs under a rule."""

    n_runs: Count
    n_stopped: Count
    saved: FiniteFloat  # share of all steps of these runs
    saved_interval: IntervalRecord | None = None
    n_events: Count
    n_lost: Count  # events of runs that were stopped before it
    lost: FiniteFloat  # share of the events
    lost_interval: IntervalRecord | None = None


class StoppingCurveRecord(OpenSection):
    """The held-out runs under every candidate of s, or k, in ascending order."""

    at: Many[FiniteFloat]
    saved: Many[FiniteFloat]
    n_lost: Many[Count]

    def saved_within(self, n_lost: int) -> float:
        """The most that is saved where no more events are lost; 0 where every candidate does."""
        pairs = zip(self.saved, self.n_lost, strict=True)
        return max((saved for saved, lost in pairs if lost <= n_lost), default=0.0)


class DecisionRecord(OpenSection):
    """One score, or rival, under one rule."""

    name: str
    rule: Rule
    group: Group
    about: str = ""  # of a rival: what its alarm is
    # Which of the lock's budgets of runs raises the alarm, and its threshold; a rival has neither.
    budget: Annotated[Number, _NO_CHOICE] = None
    threshold: Annotated[Number, _NO_CHOICE] = None
    at: Annotated[Number, _NO_CHOICE] = None  # s, or k, in steps
    explored: Annotated[StoppedRecord | None, _NO_CHOICE] = None
    judged: Annotated[StoppedRecord | None, _NO_CHOICE] = None
    state: State = "straddles"  # of the tolerated share of lost events, by `budget_state`
    lost_runs: Many[str] = ()
    # The most that each rival saves of the held-out runs where it loses no more of their events;
    # its step is chosen in hindsight, in its favour.
    rivals: dict[str, FiniteFloat] = Field(default_factory=dict)
    curve: StoppingCurveRecord | None = None  # of a rival, and of the scores that lead their group

    @property
    def gain(self) -> float:
        """The share of steps saved on the explore runs, by which scores are ranked."""
        return -1.0 if self.explored is None else self.explored.saved


class Decisions(OpenSection):
    """What decisions are worth on held-out runs: every score of a lock that was asked, by rule."""

    x_schema: int = SCHEMA.current
    package_version: str = __version__
    date: str
    lock_hash: str
    explore_fingerprint: str
    evaluation_fingerprint: str
    look: Count
    event: str
    metric: str
    tolerated: FiniteFloat = Field(description="share of events that may be lost")
    calibration: Literal["marginal", "conditional"]
    bootstrap_draws: Count
    seed: Count
    n_runs: Count
    n_events: Count
    decisions: Many[DecisionRecord]
    notes: Many[str] = ()
    x_checksum: str | None = None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a decisions file, or the one in a folder.

        Raises:
            InputError: it is none, is of a later schema, or was edited.
        """
        place = Path(path)
        place = place / "decisions.yaml" if place.is_dir() else place
        data = load_yaml(place)
        found = cls.parse(SCHEMA.opened(data, where=str(place)), where=str(place))
        CHECKSUM.check(data, str(place), typed=found.plain)
        return found

    def write(self, path: str | Path) -> Path:
        """Write the YAML atomically; equal decisions give equal bytes."""
        return write_yaml(path, CHECKSUM.added_to(self.plain()), heading=_HEADING)

    def of(self, rule: Rule) -> tuple[DecisionRecord, ...]:
        """The scores under a rule, what saves most on the explore runs first; no rivals."""
        own = (one for one in self.decisions if one.rule == rule and one.group != "rival")
        return tuple(sorted(own, key=lambda one: (-one.gain, one.name)))

    def leading(self, rule: Rule) -> tuple[DecisionRecord, ...]:
        """The first score of each group under a rule, in the order of `GROUPS`."""
        first: dict[str, DecisionRecord] = {}
        for one in self.of(rule):
            if one.judged is not None:
                first.setdefault(one.group, one)
        return tuple(first[name] for name in GROUPS if name in first)

    def best(self, rule: Rule) -> DecisionRecord | None:
        """The score that saves most on the explore runs; an oracle only where all are."""
        found = self.leading(rule)
        own = [one for one in found if one.group != "oracle"] or list(found)
        return max(own, key=lambda one: one.gain, default=None)

    def rivals(self, rule: Rule) -> tuple[DecisionRecord, ...]:
        """The clock, and the other rivals under a rule."""
        return tuple(
            one
            for one in self.decisions
            if one.group == "rival" and (one.rule == rule or one.name == CLOCK)
        )

    def __repr__(self) -> str:
        """One line: how many runs, and what the best score saves and loses."""
        one = self.best("without_alarm")
        said = "nothing is saved"
        if one is not None and one.judged is not None:
            at = one.judged
            said = f"{cut(one.name, 40)} saves {percent(at.saved)}, loses {percent(at.lost)}"
        return f"{type(self).__name__}({self.n_runs} held-out runs, {self.n_events} events: {said})"

    def _repr_html_(self) -> str:
        """The scores that save most on the explore runs, for a notebook."""
        names = ("score", "rule", "step or delay", "saved", "lost")
        rows = [
            (one.name, one.rule, f"{one.at:,.0f}", percent(at.saved), percent(at.lost))
            for rule in RULES
            for one in (*self.leading(rule), *self.rivals(rule))
            if one.at is not None and (at := one.judged) is not None
        ]
        return html_table(repr(self), names, rows, len(rows), "rows: decisions.to_pandas()")

    def to_pandas(self) -> DataFrame:
        """A DataFrame with a row for each score and rule, and the rivals; shares are of 1."""
        from pandas import DataFrame

        skipped: Any = {"curve", "rivals", "lost_runs", "explored", "judged"}
        rows = []
        for one in self.decisions:
            row = one.model_dump(exclude=skipped)
            for part, at in (("explore", one.explored), ("heldout", one.judged)):
                for name in ("saved", "lost", "n_lost", "n_events", "n_stopped", "n_runs"):
                    row[f"{name}_{part}"] = getattr(at, name, None)
                for name in ("saved", "lost"):
                    interval = getattr(at, f"{name}_interval", None)
                    row[f"{name}_low_{part}"] = getattr(interval, "low", None)
                    row[f"{name}_high_{part}"] = getattr(interval, "high", None)
            rows.append({**row, **{f"{name}_saves": x for name, x in one.rivals.items()}})
        return DataFrame(rows)

    def plot(self) -> Figure:
        """The shares of steps saved and of events lost; a notebook shows the figure."""
        figure: Figure = from_above("plot_decisions")(self)
        return figure


def decide(
    lock: Lock | str | Path,
    runs: Runs | Prepared,
    *,
    explore: Runs | Prepared,
    scores: Sequence[str] | None = None,
    lost: float = 0.05,
    budget: float | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Decisions:
    """Judge on held-out runs what it is worth to stop runs by the alarms of a lock.

    The step s, or the delay k, is the least that keeps the tolerated share of lost events on the
    explore runs, as a conformal threshold is found (`gmb_hf.core.decisions`); of a combination on
    those explore runs that it was not fitted on. Of the lock's budgets of runs, that one raises the
    alarm with which most steps of the explore runs are saved. The look at the held-out runs is
    counted as by `evaluate_lock`; another look by the same lock at the same runs is no new one.

    Args:
        lock: what was frozen, or its file.
        runs: held-out runs: a run log, files, folders or globs.
        explore: the runs that the lock was made on, all of them.
        scores: names of candidates of the lock; all of them if not given.
        lost: the share of events that may be lost.
        budget: one of the lock's budgets of runs; by default chosen on the explore runs.
        on_done: called with each score's name when it has been measured.

    Raises:
        InputError: as `evaluate_lock`; the explore runs are not those of the lock, a score or the
            budget is not in it, either part has no event or no run without one, there are too few
            explore events for so small a share, or all held-out runs end before the chosen step.
    """
    tolerated = fraction("lost", lost)
    held_out = may_judge(lock, runs)
    lock = held_out.lock
    budgets = _budgets(lock, budget)
    entries = _entries(lock, held_out.prepared, scores)
    explored = prepare(explore, lock)
    _refuse_others(lock, explored)
    for part, one in (("explore", explored), ("held-out", held_out.prepared)):
        _refuse_one_kind(one, part)
    least = runs_to_promise(tolerated, lock.design.calibration)
    if explored.events.n_events < least:
        raise InputError(
            f"explore runs: {explored.events.n_events} have an event, and to lose at most "
            f"{tolerated:g} of events takes {least} at least; tolerate more (--lost), or lock on "
            "more runs"
        )
    stopping = _Stopping(explored, held_out.prepared, tolerated)
    rivals = _rivals(stopping)
    found: list[DecisionRecord] = []
    for entry in entries:
        alarms = _alarms_of(entry, lock, stopping, budgets)
        found += [stopping.record(alarms, rule) for rule in RULES]
        if on_done is not None:
            on_done(entry.name)
    if all(one.judged is None for one in found):
        raise InputError(
            f"lock: none of {first_of([entry.name for entry in entries])} has a finite threshold "
            "and enough explore events that it was not fitted on; name other scores (--score), or "
            "tolerate more (--lost)"
        )
    stopping.refuse_short(found)
    made = _decisions(held_out, explored, tolerated, [*found, *rivals])
    held_out.keep()  # before anybody sees a result
    return made


def _decisions(
    held_out: HeldOutRuns, explored: Prepared, tolerated: float, records: Sequence[DecisionRecord]
) -> Decisions:
    """Everything together: curves stay with the rivals and with what leads its group."""
    lock, prepared = held_out.lock, held_out.prepared
    design = lock.design
    looked = look_notes(lock, held_out.look)
    notes = (*held_out.notes, *looked, *held_out.at_panels.notes, *prepared.notes)
    made = Decisions(
        date=lock.x_lock.created.partition("T")[0],
        lock_hash=lock.hash,
        explore_fingerprint=explored.log.fingerprint(),
        evaluation_fingerprint=prepared.log.fingerprint(),
        look=held_out.look.number,
        event=design.event_name,
        metric=design.metric,
        tolerated=tolerated,
        calibration=design.calibration,
        bootstrap_draws=design.bootstrap_draws,
        seed=design.seed,
        n_runs=len(prepared.judged.runs),
        n_events=prepared.events.n_events,
        decisions=tuple(records),
        notes=notes,
    )
    lead = [one for rule in RULES for one in made.leading(rule)]
    kept = [
        one if one.group == "rival" or one in lead else one.model_copy(update={"curve": None})
        for one in records
    ]
    made = made.model_copy(update={"decisions": tuple(kept)})
    return made.model_copy(update={"x_checksum": CHECKSUM.of(made.plain())})


# What may be decided with.


def _budgets(lock: Lock, budget: float | None) -> tuple[float, ...]:
    known = lock.design.run_budgets
    if lock.design.protocol != "strict" or not any(
        map(lock.run_thresholds, lock.x_lock.candidates)
    ):
        raise InputError.at(
            lock.path or "lock",
            "no_first_alarms",
            "has no thresholds of first alarms, by which runs are stopped; lock again with the "
            "protocol strict",
        )
    if budget is None:
        return tuple(known)
    names = {f"{one:g}": one for one in known}
    return (names[choose("value", f"{budget:g}", tuple(names), where="--budget")],)


def _entries(lock: Lock, prepared: Prepared, scores: Sequence[str] | None) -> list[Entry]:
    """The scores that are asked for; the controls are among the rivals, or say nothing here."""
    for name in scores or ():
        lock.candidate(name)
    controls = {name for name, item in lock.x_lock.candidates.items() if item.family == "control"}
    own = [one for one in prepared.entries if one.name not in {*CONTROLS, *controls}]
    chosen = [one for one in own if scores is None or one.name in {*scores, LEARNED}]
    chosen.sort(key=lambda one: one.name != LEARNED)  # a rival comes before those it is a rival of
    if scores is not None and (wrong := sorted({*scores} - {one.name for one in chosen})):
        raise InputError(f"--score {wrong[0]}: is a control; name a candidate of the lock")
    return chosen


def _refuse_others(lock: Lock, explored: Prepared) -> None:
    """The choice is made on all explore runs of the lock, and on no others."""
    record, log = lock.x_lock, explored.log
    own, given = {*record.explore_hashes}, log.run_hashes(lock.columns)
    if not own:  # locks of earlier versions know them by name alone
        own, given = {*record.explore_runs}, log.runs
    strange = [run for run, mark in zip(log.runs, given, strict=True) if mark not in own]
    if strange:
        raise InputError(
            f"explore runs: {len(strange)} of {len(log.runs)} are not among those that the lock "
            f"was made on ({first_of(strange)}); what is chosen is chosen on those alone, give "
            "exactly them",
            code="runs_differ",
        )
    if missing := len(own) - len({*given}):
        raise InputError(
            f"explore runs: {missing} of the {len(own)} that the lock was made on are missing; "
            "give them all, since nobody chooses among them",
            code="missing_runs",
        )


def _refuse_one_kind(prepared: Prepared, part: str) -> None:
    """Without an event nothing can be lost, without a run that has none nothing is to be saved."""
    events, runs = prepared.events.n_events, len(prepared.judged.runs)
    if not events:
        raise InputError(
            f"{part} runs: none of {runs} has an event, so that it cannot be said which ones a "
            "decision loses; give runs that include some with their event",
            code="no_event",
        )
    if events == runs:
        raise InputError(
            f"{part} runs: all {runs} have their event, so that there is no run that is better "
            "stopped; a decision is judged on runs of which some never have it, such as "
            "panel:varied-29",
            code="no_event_free_run",
        )


# One score, or rival: its alarms, the choice on explore runs, and what it is worth.


class _Choice(NamedTuple):
    """First alarms by one threshold, float64 [R] of either part, NaN without an alarm."""

    explore: NDArray[np.float64]
    judged: NDArray[np.float64]
    budget: float | None = None
    threshold: float | None = None


class _Alarms(NamedTuple):
    """What stops runs: a score, or rival, at each threshold that may be chosen; maybe at none."""

    name: str
    group: Group
    choices: Sequence[_Choice]
    rows: NDArray[np.bool_]  # of the explore runs, those that the choice is made on
    about: str = ""


class _Stopping:
    """Both parts, and how a rule is chosen on the one and judged on the other."""

    def __init__(self, explored: Prepared, judged: Prepared, tolerated: float) -> None:
        self.tolerated, self.design = tolerated, judged.design
        self.parts = {"explore": explored, "judged": judged}
        self.curves: dict[tuple[str, Rule], StoppingCurveRecord] = {}  # of the rivals
        clocks = {part: one.judged.panel("step") for part, one in self.parts.items()}
        self.last = {part: clock.last_step.astype(np.float64) for part, clock in clocks.items()}
        steps = np.unique(clocks["judged"].steps[clocks["judged"].present]).astype(np.float64)
        late = steps[steps >= self.design.burn_in]
        some = np.linspace(0, len(late) - 1, min(len(late), _MOST_CANDIDATES)).astype(int)
        late = late[some]
        self.candidates: dict[Rule, NDArray[np.float64]] = {
            "without_alarm": late,
            "after_alarm": late - late.min(initial=math.inf),
        }

    def record(self, alarms: _Alarms, rule: Rule) -> DecisionRecord:
        """The choice on explore runs, and what it is worth on the held-out ones."""
        rows, known = alarms.rows, []
        for choice in alarms.choices:
            at = self._least(choice, rows, rule)
            if math.isfinite(at):
                known.append((self._outcome(choice.explore, rule, at, "explore", rows), at, choice))
        about: Any = {"name": alarms.name, "rule": rule, "group": alarms.group}
        about["about"] = alarms.about
        if not known:
            return DecisionRecord(**about)
        # Of equals the strictest budget, which comes first.
        explored, at, choice = max(known, key=lambda one: one[0].saved)
        judged = self._outcome(choice.judged, rule, at, "judged")
        within, stop = judged.lost_interval, stops(rule, choice.judged, self.last["judged"], at)
        lost, runs = lost_events(stop, self.parts["judged"].events.step), self._runs("judged")
        line, curve = shown_line(self.tolerated), self._curve(choice.judged, rule)
        others = {
            name: other.saved_within(judged.n_lost)
            for (name, of), other in self.curves.items()
            if (of == rule or name == CLOCK) and name != alarms.name
        }
        if alarms.group == "rival":
            self.curves[alarms.name, rule] = curve
        return DecisionRecord(
            **about,
            budget=choice.budget,
            threshold=choice.threshold,
            at=at,
            explored=explored,
            judged=judged,
            state=budget_state(within, budget=self.tolerated, line=line, shown=False),
            lost_runs=tuple(runs[row] for row in np.flatnonzero(lost)),
            rivals=others,
            curve=curve,
        )

    def refuse_short(self, found: Sequence[DecisionRecord]) -> None:
        """Refuse held-out runs that have all ended when the first of the explore runs is stopped.

        Raises:
            InputError: they have, for every score.
        """
        own = [
            one.at
            for one in found
            if one.rule == "without_alarm" and one.at is not None and one.explored
            if one.explored.n_stopped
        ]
        last = float(self.last["judged"].max())
        if own and min(own) >= last:
            raise InputError(
                f"held-out runs: all end by step {last:,.0f}, and the explore runs, which end at "
                f"step {self.last['explore'].max():,.0f}, say to stop runs at step {min(own):,.0f}"
                "; give held-out runs that were trained for as long"
            )

    def _runs(self, part: str) -> tuple[str, ...]:
        return self.parts[part].judged.runs

    def _least(self, choice: _Choice, rows: NDArray[np.bool_], rule: Rule) -> float:
        need = needed(rule, choice.explore, self.parts["explore"].events.step)[rows]
        at = least_at(need, self.tolerated, self.design.calibration)
        return max(at, float(self.design.burn_in)) if rule == "without_alarm" else at

    def _outcome(
        self,
        alarm: NDArray[np.float64],
        rule: Rule,
        at: float,
        part: str,
        rows: NDArray[np.bool_] | None = None,
    ) -> StoppedRecord:
        """What became of the runs of a part, or of some of them."""
        chosen = np.ones(len(alarm), dtype=bool) if rows is None else rows
        last, event = self.last[part][chosen], self.parts[part].events.step[chosen]
        stop = stops(rule, alarm[chosen], last, at)
        saved, gone = saved_steps(stop, last), int(lost_events(stop, event).sum())
        events, weights = int(np.isfinite(event).sum()), self._weights(len(last))
        return StoppedRecord(
            n_runs=len(last),
            n_stopped=int(np.isfinite(stop).sum()),
            saved=float(saved.sum() / last.sum()),
            saved_interval=ratio_interval(saved, last, weights),
            n_events=events,
            n_lost=gone,
            lost=gone / events,
            lost_interval=exact_binomial(gone, events),
        )

    def _weights(self, n_runs: int) -> NDArray[np.float64]:
        return resamples(n_runs, self.design.bootstrap_draws, self.design.seed)

    def _curve(self, alarm: NDArray[np.float64], rule: Rule) -> StoppingCurveRecord:
        at, last = self.candidates[rule], self.last["judged"]
        stop = stops(rule, alarm, last, at)
        shares = saved_steps(stop, last).sum(axis=0) / last.sum()
        lost = lost_events(stop, self.parts["judged"].events.step).sum(axis=0)
        return StoppingCurveRecord(
            at=tuple(at.tolist()), saved=tuple(shares.tolist()), n_lost=tuple(lost.tolist())
        )


def _alarms_of(entry: Entry, lock: Lock, stopping: _Stopping, budgets: Sequence[float]) -> _Alarms:
    """The first alarms of a locked score at each budget with a finite threshold."""
    ensemble = lock.candidate(entry.name).ensemble
    fitted_on = {*ensemble.fit_runs} if ensemble else set()
    parts = stopping.parts
    rows = np.array([run not in fitted_on for run in parts["explore"].judged.runs])
    explored, judged = (one.judgement(entry) for one in parts.values())
    known = judged.run_calibrated
    choices = [
        _Choice(
            explored.first_alarms(budget).grid.first,
            judged.first_alarms(budget).grid.first,
            budget,
            known.deployed[budget],
        )
        for budget in budgets
        if known.finite(budget)
    ]
    return _Alarms(entry.name, _group(entry), choices, rows)


def _group(entry: Entry) -> Group:
    """What a score is told; the learned metric is a rival of all others."""
    if entry.name == LEARNED:
        return "rival"
    sees, knows = entry.declared.sees_test_labels, entry.declared.knows_task
    if sees is None:
        return "undeclared"
    return "oracle" if sees else "task" if knows else "monitor"


def _rivals(stopping: _Stopping) -> list[DecisionRecord]:
    """The clock, and the onset of the metric under both rules where the event is a level of it."""
    parts, last = stopping.parts, stopping.last
    never = _Choice(last["explore"] * np.nan, last["judged"] * np.nan)
    every = np.ones(len(never.explore), dtype=bool)
    clock = _Alarms(CLOCK, "rival", [never], every, "every run, whatever its scores")
    found = [stopping.record(clock, "without_alarm")]
    level = _onset_level(parts["explore"])
    if level is not None:
        line, falling, about = level
        explored, judged = (onset_alarms(one, line, falling) for one in parts.values())
        alarms = _Choice(explored, judged)
        onset = _Alarms(ONSET, "rival", [alarms], every, about)
        found += [stopping.record(onset, rule) for rule in RULES]
    return found


def _onset_level(explored: Prepared) -> tuple[float, bool, str] | None:
    """The level of the metric that counts as its onset, whether it falls to it, and in words."""
    design, log = explored.design, explored.judged
    if not EVENTS[design.event_type].reads_metric or design.metric not in log.observables:
        return None
    held = f"for {ONSET_CHECKPOINTS} checkpoints"
    chance = None if design.falling else chance_of(design, log)
    if chance is not None:
        times = design.chance_multiple or _TIMES_CHANCE
        return times * chance, False, f"{design.metric} at {times:g} times chance {held}"
    seen = Seen.of(explored)
    if seen is None:
        return None
    return (
        seen.line,
        seen.falling,
        f"{design.metric} at {seen.line:.3g} {held}, half-way to the event",
    )


def onset_alarms(prepared: Prepared, level: float, falling: bool) -> NDArray[np.float64]:
    """When an operator knows that the metric has reached a level, float64 [R]; NaN: never.

    It is known at the last of `ONSET_CHECKPOINTS` in a row, and acted on from burn-in on.
    """
    panel = prepared.judged.panel(prepared.design.metric)
    values = np.where(panel.present, panel.values, np.nan)
    length = ONSET_CHECKPOINTS
    if values.shape[1] < length:
        return np.full(len(values), np.nan)
    sign = -1 if falling else 1
    first = plateau_steps(
        sign * values, panel.steps, level=sign * level, length=length, present=panel.present
    )
    place = (panel.steps == first[:, None]).argmax(axis=1) + length - 1
    known = panel.steps[np.arange(len(values)), np.minimum(place, values.shape[1] - 1)]
    return np.where(np.isnan(first), np.nan, np.maximum(known, prepared.design.burn_in))
