"""Events t*: which step of a run counts as its transition (spec 1.2).

Kinds of events are an open set: `@register_event(...)` above a function that finds them. The design
of an evaluation names one in `event.type`; its settings are fields of the design.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, choose, fraction, nearest, positive_int
from gmb_hf.base.files import write_text
from gmb_hf.core.events import jump_steps, plateau_steps
from gmb_hf.design.design import Design
from gmb_hf.design.event_types import EVENT_TYPES, EventDefinition
from gmb_hf.indicators.causal import difference, trailing_mean
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog


@dataclass(frozen=True, eq=False)
class Events:
    """The events of R runs.

    Attributes:
        runs: R run names.
        step: float64 [R], t* in steps, NaN where there is no event.
        first_step: int64 [R], the first step at which the run could have had an event.
        n_dip_recoveries: E_jump: events after which, a window W later, the metric is no higher
            (falling: no lower) than it had been up to the event.
        excluded: run -> label, E_regime: runs of which nobody can say whether they had an event.
            They are no negatives either: judge scores on the `decided` runs only.
    """

    runs: tuple[str, ...]
    step: NDArray[np.float64]
    first_step: NDArray[np.int64]
    n_dip_recoveries: int = 0
    excluded: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_events(self) -> int:
        """How many runs have an event."""
        return int(np.isfinite(self.step).sum())

    def decided(self) -> Events:
        """The events of the runs that are not excluded; `excluded` still names the others."""
        rows = [row for row, run in enumerate(self.runs) if run not in self.excluded]
        runs = tuple(self.runs[row] for row in rows)
        return replace(self, runs=runs, step=self.step[rows], first_step=self.first_step[rows])


Find = Callable[[RunLog, Design], Events]


@dataclass(frozen=True)
class EventKind:
    """A registered kind of event.

    Attributes:
        find: finds the events of a log.
        absent: says that no run has one; {metric} stands for the name of the observable.
        ahead: how far an event looks ahead, so that none can be registered closer to the end of a
            run: in steps, or in checkpoints.
        in_checkpoints: which of the two.
        reads_metric: whether the events are found in the design's metric.
    """

    find: Find
    absent: str
    ahead: Callable[[Design], int]
    in_checkpoints: bool = False
    reads_metric: bool = True


EVENTS: dict[str, EventKind] = {}
"""Every registered kind by its name in a design."""


def register_event(
    name: str,
    definition: EventDefinition | None = None,
    *,
    absent: str,
    ahead: Callable[[Design], int],
    **flags: bool,
) -> Callable[[Find], Find]:
    """Register a kind of event: decorates the function that finds it; see `EventKind`.

    Args:
        name: its name in a design, E_ and a word.
        definition: what a design must know of it; those of this package are declared there.
        absent, ahead, flags: as `EventKind` has them.

    Raises:
        InputError: the name is taken or is none, or a field is none of a design's.
    """

    def register(find: Find) -> Find:
        if name in EVENTS:
            raise InputError(f"event {name!r} is registered already; choose another name")
        if definition is not None:
            if not re.fullmatch(r"E_\w+", name):
                raise InputError(f"event {name!r}: the name must be E_ and a word, e.g. E_drop")
            for one in (*definition.fields, *definition.required, *definition.published):
                choose("field", one, tuple(Design.model_fields), where=f"event {name!r}")
            EVENT_TYPES[name] = definition
        EVENTS[name] = EventKind(find, absent, ahead, **flags)
        return find

    return register


def find_events(log: RunLog, design: Design) -> Events:
    """Find each run's event as the design defines it.

    Raises:
        InputError: an observable is missing or NaN, or a setting does not fit the checkpoints.
    """
    return EVENTS[design.event_type].find(log, design)


def events_the_other_way(log: RunLog, design: Design) -> int:
    """How many runs would have an event after their first step if the metric were to fall.

    0 where the design looks for drops already, or its type of event has no direction.
    """
    if design.falling or "direction" not in EVENT_TYPES[design.event_type].fields:
        return 0
    falling = {"direction": "falling", "theta_floor": None, "require_new_max": False}
    found = find_events(log, design.model_copy(update=falling))
    return int((found.step > found.first_step).sum())


_SLOWER = 5


def slow_rises(log: RunLog, design: Design, events: Events) -> int:
    """How many runs without an E_jump have one within five times its window; 0 of other types."""
    if design.event_type != "E_jump" or not events.n_events:
        return 0
    slower = find_events(log, design.model_copy(update={"w_event": _SLOWER * design.w_event}))
    return int((np.isfinite(slower.step) & ~np.isfinite(events.step)).sum())


# What the detectors share: which numbers an event may be read from, and from when on.


def require_numbers(metric: Panel, *, ignore: bool) -> Panel:
    """Refuse a metric that is no number throughout a run, and unless `ignore` anywhere.

    Returns the metric, with NaN for an infinity.

    Raises:
        InputError: run, step and metric are named.
    """
    unknown = metric.present & ~np.isfinite(metric.values)
    lost = np.flatnonzero(unknown.sum(axis=1) == metric.lengths)
    if len(lost):
        value = "NaN" if np.isnan(metric.values[lost[0]]).all() else "NaN or infinite"
        raise InputError(
            f"run {metric.runs[lost[0]]!r}: metric {metric.name!r} is {value} at every step; "
            "choose another metric, or leave the run out"
        )
    if unknown.any() and not ignore:
        run, column = (int(i) for i in np.argwhere(unknown)[0])
        value = "NaN" if np.isnan(metric.values[run, column]) else "infinite"
        raise InputError(
            f"run {metric.runs[run]!r}, step {metric.steps[run, column]}: metric "
            f"{metric.name!r} is {value}, so an event may be missed; mend the log, or ignore NaN "
            "(x_nan: ignore) to let such steps register no event"
        )
    return metric.with_values(np.where(unknown, np.nan, metric.values)) if unknown.any() else metric


def _upward(values: NDArray[np.float64], design: Design) -> NDArray[np.float64]:
    """The values such that an event is a rise: those of a metric that is to fall are negated."""
    return -values if design.falling else values


def _level(level: float | None, design: Design) -> float | None:
    """A level of the metric as one of `_upward` values."""
    return -level if level is not None and design.falling else level


def _from_least_step(metric: Panel, design: Design) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The checkpoints at which a design allows an event, bool [R, T], and the first of each run."""
    allowed = metric.present & (metric.steps >= (design.event_t_min or 0))
    return allowed, metric.steps[np.arange(metric.n_runs), allowed.argmax(axis=1)]


# E_jump: the metric rises (or falls) by delta within a window W (the default event).


@register_event(
    "E_jump", absent="{metric} never jumps as E_jump asks", ahead=lambda design: design.w_event
)
def _find_jumps(log: RunLog, design: Design) -> Events:
    return jump_events(log.panel(design.metric), design)


def jump_events(metric: Panel, design: Design) -> Events:
    """E_jump: the first t with m(t + W) - m(t) >= delta (spec 1.2); falling: <= -delta.

    W counts checkpoints of the panel's cadence, so a log that begins 1, 500, 1000 with W = 1000
    compares its first row with its third. Options: `x_event_t_min` (no event before that step),
    `x_theta_floor` (least m(t + W)), `x_require_new_max` (m(t + W) above every value up to t:
    levels within the window belong to the jump itself, and refuse nothing). For a metric that is
    to fall (`x_direction`) the floor is a ceiling and the maximum a minimum.

    Raises:
        InputError: W is no positive multiple of the cadence, or the metric is NaN.
    """
    metric = require_numbers(metric, ignore=design.nan == "ignore")
    cadence = metric.cadence()
    if design.w_event % cadence:
        multiple = max(1, round(design.w_event / cadence)) * cadence
        raise InputError(
            f"event.window_W_event is {design.w_event} steps, but {metric.name!r} is logged every "
            f"{cadence} steps; W must be a positive multiple of that, e.g. {multiple}"
        )
    allowed, first = _from_least_step(metric, design)
    found = jump_steps(
        _upward(metric.values, design),
        metric.steps,
        ahead=design.w_event // cadence,
        threshold=design.jump_threshold,
        allowed=allowed,
        level=_level(design.theta_floor, design),
        new_max=design.require_new_max,
    )
    return Events(metric.runs, found.step, first, found.n_dip_recoveries)


# E_plateau: the metric reaches a level and holds it (SC-1 persistence).


@register_event(
    "E_plateau",
    absent="{metric} never settles as E_plateau asks",
    ahead=lambda design: (design.plateau_checkpoints or 1) - 1,
    in_checkpoints=True,
)
def _find_plateaus(log: RunLog, design: Design) -> Events:
    return plateau_events(log.panel(design.metric), design)


@register_event(
    "E_onset",
    absent="{metric} never leaves chance as E_onset asks",
    ahead=lambda design: (design.plateau_checkpoints or 1) - 1,
    in_checkpoints=True,
)
def _find_onsets(log: RunLog, design: Design) -> Events:
    """E_onset: the first of K consecutive checkpoints at or above a multiple of chance."""
    if design.chance is None:
        raise InputError(
            "event.x_chance is missing: E_onset asks when the metric leaves chance, and the logs "
            "do not say what chance is; give it, e.g. 0.034 of 29 answers",
            code="no_chance",
            field="event.x_chance",
        )
    held = {"plateau_threshold": design.onset_level, "plateau_regression": None}
    level = design.model_copy(update={**held, "direction": "rising"})
    return plateau_events(log.panel(design.metric), level)


def plateau_events(metric: Panel, design: Design) -> Events:
    """E_plateau: the first of K consecutive checkpoints with m >= theta; falling: m <= theta.

    K is `x_plateau_checkpoints`, theta is `x_plateau_threshold`. Options: `x_plateau_regression`
    (up to so many checkpoints in a row may lie below theta; the first of the K never does) and
    `x_event_t_min` (no event before that step).

    Raises:
        InputError: no run has K checkpoints, or the metric is NaN.
    """
    metric = require_numbers(metric, ignore=design.nan == "ignore")
    # The design has refused the type without these two.
    length, level = design.plateau_checkpoints or 1, design.plateau_threshold or 0.0
    dips = design.plateau_regression or 0
    width = metric.values.shape[1]
    if length > width:
        raise InputError(
            f"event.x_plateau_checkpoints is {length}, but the longest run has {width} "
            f"checkpoint(s) of {metric.name!r}; ask for fewer, or train longer"
        )
    allowed, first = _from_least_step(metric, design)
    step = plateau_steps(
        _upward(metric.values, design),
        metric.steps,
        level=-level if design.falling else level,
        length=length,
        dips=dips,
        allowed=allowed,
        present=metric.present,
    )
    return Events(metric.runs, step, first)


# E_regime: the transition that PT-MSS registers, from force, info and constraint of a run log and
# the alternate estimates of the same three.

SIGNALS = ("force", "info", "constraint")
"""S1, S2, S3 of the reference: where members tie, this is their order."""
DENSITY = (0.001, 0.02)
"""Least and largest share of checkpoints that may be members of a signal."""

RegimeLabel = Literal[
    "INCONCLUSIVE", "NO_TRANSITION", "ESTIMATOR_UNSTABLE", "REGISTERED_TRANSITION"
]
Family = tuple[Panel, Panel, Panel]
"""Force, info and constraint of the same runs and steps."""

_NOWHERE = 2**62  # further from every step than any radius


@dataclass(frozen=True, eq=False)
class Transitions:
    """What one family sees in R runs.

    Attributes:
        step: float64 [R], t in steps, NaN where there is none.
        order: int64 [R, 3], indices into `SIGNALS`, the earliest first; without meaning where
            there is no t.
        density: float64 [R, 3], the share of checkpoints that are members of each signal.
    """

    step: NDArray[np.float64]
    order: NDArray[np.int64]
    density: NDArray[np.float64]

    @property
    def admissible(self) -> NDArray[np.bool_]:
        """Which densities lie within `DENSITY`, bool [R, 3]."""
        return np.asarray((self.density >= DENSITY[0]) & (self.density <= DENSITY[1]))


@dataclass(frozen=True, eq=False)
class Regimes:
    """PT-MSS of R runs.

    Attributes:
        runs: R run names.
        labels: R labels.
        primary, alternate: what each family sees.
    """

    runs: tuple[str, ...]
    labels: tuple[RegimeLabel, ...]
    primary: Transitions
    alternate: Transitions

    def order_of(self, row: int) -> tuple[str, ...]:
        """The signals of a run in the order in which the primary family sees them; () without t."""
        if np.isnan(self.primary.step[row]):
            return ()
        return tuple(SIGNALS[signal] for signal in self.primary.order[row])


def label_regimes(
    primary: Family,
    alternate: Family,
    *,
    quantile: float,
    radius: int,
    tolerance: int = 15,
    not_before: int = 0,
) -> Regimes:
    """Label every run.

    Args:
        primary, alternate: the two families; NaN is no value, and no member.
        quantile: q in (0, 1), above which a signal is a member.
        radius: R in steps, how far from t a member may be.
        tolerance: steps that the families may differ in t.
        not_before: the first step at which there may be a t.
    """
    first, second = (
        transitions(family, quantile=quantile, radius=radius, not_before=not_before)
        for family in (primary, alternate)
    )
    rare = (first.admissible & second.admissible).all(axis=1)
    # A comparison with NaN is False: where the alternate has no t they do not agree.
    agree = np.abs(first.step - second.step) <= tolerance
    agree &= (first.order == second.order).all(axis=1)
    labels = np.select(
        [~rare, np.isnan(first.step), agree],
        ["INCONCLUSIVE", "NO_TRANSITION", "REGISTERED_TRANSITION"],
        "ESTIMATOR_UNSTABLE",
    )
    return Regimes(primary[0].runs, tuple(labels.tolist()), first, second)


def transitions(
    family: Family, *, quantile: float, radius: int, not_before: int = 0
) -> Transitions:
    """The first t of each run with a member of every signal within the radius; see `Regimes`."""
    steps, present = family[0].steps, family[0].present
    members = [_members(signal, quantile) for signal in family]
    nearest = np.stack([_nearest(member, steps) for member in members])  # [3, R, T]
    reach = min(radius, _NOWHERE // 2)
    together = (np.abs(nearest - steps) <= reach).all(axis=0) & present & (steps >= not_before)
    rows, at = np.arange(len(steps)), together.argmax(axis=1)
    step = np.where(together.any(axis=1), steps[rows, at], np.nan)
    order = np.argsort(nearest[:, rows, at], axis=0, kind="stable").T
    counts = np.stack([member.sum(axis=1) for member in members], axis=1)
    return Transitions(step, order, counts / family[0].lengths[:, None])


def _members(signal: Panel, quantile: float) -> NDArray[np.bool_]:
    """Which checkpoints are at or above the quantile of their run, bool [R, T]."""
    values = np.where(signal.present, signal.values, np.nan)
    count = (~np.isnan(values)).sum(axis=1)
    # Half to even, as the reference rounds; NaN is sorted behind all values.
    place = np.rint((count - 1) * quantile).astype(np.int64)
    rows = np.arange(len(values))
    threshold = np.sort(values, axis=1)[rows, np.maximum(place, 0)]
    return np.asarray(values >= threshold[:, None])


def _nearest(member: NDArray[np.bool_], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step of the member nearest to each checkpoint, of two equidistant ones the later."""
    after = np.where(member, steps, _NOWHERE)
    after = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1]
    before = np.maximum.accumulate(np.where(member, steps, -_NOWHERE), axis=1)
    return np.where(after - steps <= steps - before, after, before)


PUBLISHED = ("d_force", "d_info", "d_constraint")
PUBLISHED_ALTERNATES = ("d_force_alt", "d_info_alt", "d_constraint_alt")
DERIVED_FROM = ("gradient_norm", "unembedding_entropy", "unembedding_rank")
CONSTRAINTS = ("correction_rate", "test_margin_q50")
"""The first that the log has."""
SMOOTHING = 5  # checkpoints in the alternates' trailing means


@dataclass(frozen=True)
class Signals:
    """Both families of a log, and the columns that they come from."""

    primary: Family
    alternate: Family
    columns: tuple[str, ...]


def regime_signals(log: RunLog, *, ignore_nan: bool = False) -> Signals:
    """The signals of every run; `ignore_nan` lets a checkpoint without a value have no change.

    Raises:
        InputError: columns are missing (all that is needed is named), or hold NaN.
    """
    wanted = signal_columns(log.observables, where=log.origin)
    panels = [require_numbers(log.panel(name), ignore=ignore_nan) for name in wanted]
    if wanted[0] in PUBLISHED:
        force, info, constraint, *others = panels
        return Signals((force, info, constraint), (others[0], others[1], others[2]), wanted)
    gradient, entropy, rank, correction = panels
    return Signals(
        primary=(_change(gradient), _change(entropy), _change(correction)),
        alternate=(_change(_smooth(gradient)), _change(rank), _change(_smooth(correction))),
        columns=wanted,
    )


def signal_columns(names: Collection[str], *, where: str = "") -> tuple[str, ...]:
    """The columns that the signals of a log with these columns come from.

    Raises:
        InputError: some are missing.
    """
    published = (*PUBLISHED, *PUBLISHED_ALTERNATES)
    constraint = next((name for name in CONSTRAINTS if name in names), CONSTRAINTS[0])
    derived = (*DERIVED_FROM, constraint)
    wanted = published if any(name in names for name in published) else derived
    missing = [name for name in wanted if name not in names]
    if not missing:
        return wanted
    guess = nearest(missing[0], names)
    hint = f"; nearest to {missing[0]}: {guess!r}" if guess else ""
    raise InputError(
        f"{where}{': ' * bool(where)}PT-MSS needs the columns {', '.join(DERIVED_FROM)} and "
        f"{' or '.join(CONSTRAINTS)}, or else {', '.join(published)}; "
        f"missing: {', '.join(missing)}{hint}"
    )


def _change(observable: Panel) -> Panel:
    """The absolute change since the checkpoint before; 0 at the first."""
    return observable.with_values(np.abs(difference(observable.values)))


def _smooth(observable: Panel) -> Panel:
    return observable.with_values(trailing_mean(observable.values, SMOOTHING))


UNDECIDED = ("INCONCLUSIVE", "ESTIMATOR_UNSTABLE")
"""Labels under which nobody can say whether there was a transition."""


@register_event(
    "E_regime",
    absent="PT-MSS registers no transition",
    ahead=lambda design: design.regime_radius or 0,
    reads_metric=False,  # and takes a signal without a value as it comes
)
def _find_regimes(log: RunLog, design: Design) -> Events:
    return regime_events(regime_signals(log, ignore_nan=design.nan == "ignore"), design)


def regime_events(signals: Signals, design: Design) -> Events:
    """E_regime: the t of the runs with a REGISTERED_TRANSITION; those `UNDECIDED` are excluded.

    The quantile, radius and tolerance are `x_regime_quantile`, `x_regime_radius` and
    `x_regime_tolerance`; `x_event_t_min` passes over transitions before that step.

    Raises:
        InputError: every run is so short that a single member of a signal is too many.
    """
    force = signals.primary[0]
    longest, least = int(force.lengths.max()), math.ceil(1 / DENSITY[1])
    if longest < least:
        raise InputError(
            f"E_regime: the longest run has {longest} checkpoint(s), and PT-MSS is INCONCLUSIVE "
            f"where a signal moves in more than {DENSITY[1]:.0%} of them; log at least {least} a "
            "run"
        )
    # The design has filled in or refused what the type needs.
    regimes = label_regimes(
        signals.primary,
        signals.alternate,
        quantile=design.regime_quantile or 0.0,
        radius=design.regime_radius or 0,
        tolerance=design.regime_tolerance or 0,
        not_before=design.event_t_min or 0,
    )
    registered = np.array([label == "REGISTERED_TRANSITION" for label in regimes.labels])
    _, first = _from_least_step(force, design)
    labels = zip(regimes.runs, regimes.labels, strict=True)
    return Events(
        regimes.runs,
        np.where(registered, regimes.primary.step, np.nan),
        first,
        excluded={run: label for run, label in labels if label in UNDECIDED},
    )


# `gmb audit`: PT-MSS of every run of a log, as the reference project publishes them.


@dataclass(frozen=True)
class AuditedRun:
    """One run.

    Attributes:
        run, label: its name, and what PT-MSS says of it.
        step: t in steps, whatever the label, None where there is none.
        order: force, info and constraint in the order of their members nearest to t; () without t.
        reason: why the label is one of `UNDECIDED`, else "".
    """

    run: str
    label: RegimeLabel
    step: int | None
    order: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Audit:
    """All runs, and how they were looked at.

    Attributes:
        runs: in natural order.
        columns: what the signals come from.
        settings: quantile, radius and tolerance, see `label_regimes`.
        notes: what a reader must know.
        sources: what was pulled from the Hub, as in results.
    """

    runs: tuple[AuditedRun, ...]
    columns: tuple[str, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...]
    sources: tuple[dict[str, str], ...] = ()

    def write(self, path: str | Path) -> Path:
        """Write the audit as JSON, atomically."""
        content = {
            "runs": {
                run.run: {"label": run.label, "t": run.step, "order": list(run.order) or None}
                for run in self.runs
            },
            "counts": dict(sorted(Counter(run.label for run in self.runs).items())),
            "x_settings": {**self.settings, "columns": list(self.columns)},
            "x_notes": list(self.notes),
            "x_sources": list(self.sources),
        }
        return write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def audit_runs(
    sources: str | Path | Sequence[str | Path],
    *,
    quantile: float = 0.99,
    radius: int = 20,
    tolerance: int = 15,
    step_column: str = "step",
    run_column: str = "run",
    read: Callable[..., RunLog] = RunLog.read,
) -> Audit:
    """Audit the runs of run logs.

    Published signals (d_force, ...) keep the repeated steps of a restarted log, as they were
    published; signals that are derived here take the last row of each step, since a change between
    two trainings is none.

    Args:
        sources: files, folders or globs.
        quantile: q in (0, 1).
        radius: R in steps.
        tolerance: steps by which the two families may differ in t.
        step_column, run_column: their names in the files.
        read: reads run logs; the command line gives one that takes datasets of the Hub, too.

    Raises:
        InputError: a setting is out of range, or a column is missing or has no values.
    """
    fraction("--quantile", quantile)
    positive_int("--radius", radius)
    if tolerance < 0:
        raise InputError(f"--tolerance must be a whole number of at least 0, got {tolerance}")
    columns = {"step_column": step_column, "run_column": run_column}
    log = read(sources, on_duplicate="sort", **columns)
    if signal_columns(log.observables, where=log.origin)[0] not in PUBLISHED:
        log = read(sources, on_duplicate="last", **columns)
    signals = regime_signals(log, ignore_nan=True)
    settings: dict[str, Any] = {"quantile": quantile, "radius": radius, "tolerance": tolerance}
    regimes = label_regimes(signals.primary, signals.alternate, **settings)
    found = zip(regimes.runs, regimes.labels, regimes.primary.step, strict=True)
    audited = []
    for row, (run, label, step) in enumerate(found):
        at = None if np.isnan(step) else int(step)
        audited.append(AuditedRun(run, label, at, regimes.order_of(row), _reason(regimes, row)))
    notes, pulled = _notes(log, signals.columns, radius), hub_sources(log.metadata)
    return Audit(tuple(audited), signals.columns, settings, tuple(notes), tuple(pulled))


def _reason(regimes: Regimes, row: int) -> str:
    label = regimes.labels[row]
    if label == "INCONCLUSIVE":
        families = (("", regimes.primary), (" (alternate)", regimes.alternate))
        return ", ".join(
            f"{name}{which} in {family.density[row, place]:.2%} of checkpoints"
            for which, family in families
            for place, name in enumerate(SIGNALS)
            if not family.admissible[row, place]
        )
    if label == "ESTIMATOR_UNSTABLE":
        other = regimes.alternate.step[row]
        if np.isnan(other):
            return "the alternates never move together"
        if regimes.primary.step[row] != other:
            return f"the alternates move together at {other:,.0f}"
        return "the alternates move in another order"
    return ""


def _notes(log: RunLog, columns: Sequence[str], radius: int) -> list[str]:
    notes: list[str] = []
    clock = log.panel("step")
    distances = np.diff(clock.steps, axis=1)[clock.present[:, 1:]]
    spacing = distances[distances > 0]
    if len(spacing) and radius < spacing.min():
        usual = np.bincount(spacing).argmax()
        notes.append(
            f"The radius {radius} is below the {usual:,} steps between checkpoints, so signals "
            "move together only at one and the same checkpoint; no other radius below that can "
            "give another result."
        )
    notes += filter(None, [log.restarts])
    lacking = {name: int(np.isnan(log.panel(name).values[clock.present]).sum()) for name in columns}
    cells = ", ".join(f"{name} ({count})" for name, count in lacking.items() if count)
    if cells:
        notes.append(f"Cells without a value, which move with nothing: {cells}.")
    return notes
