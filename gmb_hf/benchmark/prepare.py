"""The events of a run log, and the runs that can be judged by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.events import Events, find_events
from gmb_hf.benchmark.scores import Scores
from gmb_hf.design.design import EVENT_STEP, Candidate, Design, Ensemble, Score
from gmb_hf.design.lock import CENTRAL, member_key
from gmb_hf.errors import InputError, nearest, unknown
from gmb_hf.indicators import catalogue as registry
from gmb_hf.indicators.catalogue import Indicator, compute, get, names
from gmb_hf.indicators.ensemble import external, unfitted_ensemble
from gmb_hf.runs.columns import listing
from gmb_hf.runs.metadata import COLUMN_FAMILIES, EXTERNAL, column_family
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog, at_shared_steps


def decided_runs(prereg: Design, log: RunLog) -> tuple[RunLog, Events]:
    """The runs of which it can be said whether they had an event, and their events.

    The others, if any, are `Events.excluded`: neither events nor negatives.

    Raises:
        InputError: every run is excluded; or what `find_events` raises.
    """
    events = find_events(log.panel, prereg, names=log.observables)
    if not events.excluded:
        return log, events
    kept = [run for run in log.runs if run not in events.excluded]
    if not kept:
        raise InputError(
            f"{log.origin}: PT-MSS cannot say of any run whether it has an event "
            f"({count_labels(events)}), so there is nothing to judge; gmb audit --runs ... says "
            "why, x_regime_quantile and x_regime_radius are what can be changed"
        )
    return log.select(kept), events.decided()


def count_labels(events: Events) -> str:
    """How many runs are excluded under which label, in words."""
    counts = Counter(events.excluded.values())
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))


# The scores of a design: which indicator each candidate is, and its series on a run log.


CONTROLS = ("clock", "constant")
_COLUMNS_SHOWN = 24


@dataclass(frozen=True)
class Entry:
    """One score to be judged.

    Attributes:
        indicator: the catalogue's entry, or a column of the log.
        sign: +1 for the declared orientation, -1 for its opposite.
        parameters: over the indicator's defaults.
        members: of an ensemble, in the order of its design; its indicator has no score until it is
            fitted.
        ensemble: how they are to be combined; None for every other score.
    """

    indicator: Indicator
    sign: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[Entry, ...] = ()
    ensemble: Ensemble | None = None

    @property
    def name(self) -> str:
        """The score's name in tables."""
        return self.indicator.name

    @property
    def window(self) -> int | None:
        """The indicator's own window in steps, None where it has none."""
        parameter = self.indicator.window_parameter
        if parameter is None:
            return None
        return int(self.indicator.with_defaults(self.parameters)[parameter])

    def panel(self, log: RunLog, *, window: int | None = None) -> Panel:
        """The score of every run; `window` replaces the declared one."""
        parameters = dict(self.parameters)
        if window is not None and self.indicator.window_parameter is not None:
            parameters[self.indicator.window_parameter] = window
        return compute(log, self.indicator, sign=self.sign, **parameters)

    def scores(self, log: RunLog, events: Events, *, window: int | None = None) -> Scores:
        """The same with the events of the runs."""
        return Scores.from_panel(self.panel(log, window=window), events.step)

    def windows(self, prereg: Design) -> tuple[int, ...]:
        """The windows of the robustness family; empty where the indicator has none."""
        return () if self.window is None else prereg.window_sweep


def available(log: RunLog) -> list[Indicator]:
    """Every registered indicator but the controls whose observables the log has."""
    entries = [get(name) for name in registry.available(log)]
    return [entry for entry in entries if entry.name not in CONTROLS]


def declared(indicator: Indicator, cadence: int) -> dict[str, Any]:
    """An indicator as a candidate of a preregistration, its defaults written out."""
    return {
        "name": indicator.name,
        "family": indicator.family,
        "params": indicator.defaults_for(cadence),
        "x_sees_test_labels": indicator.sees_test_labels,
    }


def own_score(
    name: str, log: RunLog, *, sign: int = 1, sees_test_labels: bool | None = None
) -> dict[str, Any]:
    """A score of somebody's own log as a candidate: its column, else the indicator of that name.

    Args:
        name: of the column or the indicator.
        log: the runs to judge.
        sign: +1 or -1.
        sees_test_labels: of a column; what an indicator sees is known.
    """
    candidate: dict[str, Any] = {"name": name, "x_sign": sign}
    if name in log.observables and name not in CONTROLS:
        family = column_family(log.metadata, name)
        return {**candidate, "family": family, "x_sees_test_labels": sees_test_labels}
    if name in names():
        return {**candidate, "family": get(name).family}
    return candidate  # `resolve` says what there is instead


def namesakes(entries: Sequence[Entry], log: RunLog) -> list[str]:
    """Notes that say which was taken where a column and an indicator have the same name."""
    both = [entry for entry in entries if entry.name in log.observables and entry.name in names()]
    columns = [entry.name for entry in both if entry.indicator.family in COLUMN_FAMILIES]
    others = [entry.name for entry in both if entry.indicator.family not in COLUMN_FAMILIES]
    notes = []
    if columns:
        notes.append(f"Columns of the log, not the indicators of that name: {', '.join(columns)}.")
    if others:
        notes.append(f"Indicators, not the columns of the log of that name: {', '.join(others)}.")
    return notes


def resolve(candidate: Candidate, log: RunLog) -> Entry:
    """The score that a candidate names: a registered indicator, a column of the log, an ensemble.

    A candidate of the family "external" or "judge" is a column; one that has the name of an
    indicator and another family is the indicator.

    Raises:
        InputError: it is neither (the nearest name is given), it may be either, or it is said to
            see other labels than its registration says. The same of a member of an ensemble; or the
            ensemble has the name of an indicator or a column.
    """
    where, ensemble = f"candidate {candidate.name!r}", candidate.x_ensemble
    if ensemble is None:
        return _resolve_score(candidate, log, where)
    if candidate.name in names() or candidate.name in log.observables:
        raise InputError(f"{where}: is the name of an indicator or a column; rename the ensemble")
    members = tuple(
        _resolve_score(one, log, f"{where}, member {one.name!r}") for one in ensemble.members
    )
    indicator = unfitted_ensemble(candidate.name, [member.indicator for member in members])
    said, found = candidate.x_sees_test_labels, indicator.sees_test_labels
    if said not in (None, found):
        but = "a member does not say" if found is None else f"by its members it is {found}"
        raise InputError(
            f"{where}: x_sees_test_labels is {said}, but {but}; say it of the members alone"
        )
    return Entry(indicator, candidate.x_sign or 1, {}, members, ensemble)


def _resolve_score(score: Score, log: RunLog, where: str) -> Entry:
    registered, column = score.name in names(), score.name in log.observables
    family = score.family if score.family in COLUMN_FAMILIES else None
    if score.name in CONTROLS and family:
        raise InputError(f"{where}: is the name of a control; rename the column")
    if registered and column and score.family is None and score.name not in CONTROLS:
        raise InputError(
            f"{where}: is a column of the log and an indicator; set family: {EXTERNAL} for the "
            f"column, or family: {get(score.name).family} for the indicator"
        )
    if registered and not family:
        indicator = get(score.name)
        _refuse_other_labels(score, indicator, where)
    elif column:
        family = family or column_family(log.metadata, score.name)
        indicator = external(score.name, score.x_sees_test_labels, family=family)
    else:
        raise _unknown_candidate(score.name, log)
    return Entry(indicator, score.x_sign or 1, score.params)


def _refuse_other_labels(score: Score, indicator: Indicator, where: str) -> None:
    if score.x_sees_test_labels not in (None, indicator.sees_test_labels):
        raise InputError(
            f"{where}: x_sees_test_labels is {score.x_sees_test_labels}, but this indicator is "
            f"registered with {indicator.sees_test_labels}; leave the key out"
        )


def _unknown_candidate(name: str, log: RunLog) -> InputError:
    if name in log.set_aside:
        return InputError(log.set_aside[name])
    guess = nearest(name, [*log.observables, *names()])
    columns = listing(name, log.observables, most=_COLUMNS_SHOWN)
    hint = f" Did you mean {guess!r}?" if guess else ""
    return InputError(
        f"{log.origin}: {name!r} is neither a column nor an indicator; columns: {columns}; "
        f"gmb indicators lists the others.{hint}"
    )


def entries_of(prereg: Design, log: RunLog) -> list[Entry]:
    """Every candidate of the design and, after them, the controls.

    Raises:
        InputError: the design has no candidates, or one is unknown.
    """
    if not prereg.candidates:
        raise InputError(
            "the preregistration has no candidates; list at least one indicator or column"
        )
    entries = [resolve(candidate, log) for candidate in prereg.candidates]
    have = {entry.name for entry in entries}
    return entries + [Entry(get(name)) for name in CONTROLS if name not in have]


def members(entry: Entry, prereg: Design) -> Iterator[tuple[str, int | None, int]]:
    """The members of the family with thresholds of their own: key, window, smoothing."""
    yield CENTRAL, None, 1
    for smooth in prereg.smoothing_sweep:
        if smooth != 1:
            yield member_key(smooth=smooth), None, smooth
    for window in entry.windows(prereg):
        if window != entry.window:
            for smooth in sorted({1, *prereg.smoothing_sweep}):
                yield member_key(window=window, smooth=smooth), window, smooth


# What of a log an evaluation needs, at the steps at which all of it is known.


def judged_rows(log: RunLog, prereg: Design, entries: Sequence[Entry]) -> RunLog:
    """The rows at which the metric and what the scores are made of are known, if evenly spaced.

    Raises:
        InputError: a run has no such row.
    """
    needed = [prereg.metric, *(name for entry in entries for name in entry.indicator.needs)]
    known = [name for name in dict.fromkeys(needed) if name in log.observables]
    return at_shared_steps(log, known)


# Numbers of each run that the strata of a design ask for: its seed, or a column of settings.


SEED = "seed"


def run_facts(prereg: Design, log: RunLog) -> dict[str, NDArray[np.float64]]:
    """The facts of the runs of a log, float64 [R] by name, NaN where one is not known.

    Raises:
        InputError: a stratum asks for a number that the log lacks, or for a column that changes
            within a run: which of its values a stratum means, nobody could tell.
    """
    facts = {}
    for stratum in prereg.strata:
        for name in stratum.names:
            where = f"stratum {stratum.name!r} ({stratum.where})"
            if name in facts or name == EVENT_STEP:
                continue
            if name == SEED:
                facts[name] = np.array(
                    [np.nan if seed is None else float(seed) for seed in log.seeds]
                )
            elif name in log.observables:
                facts[name] = _one_value(log.panel(name), where)
            else:
                raise unknown("column", name, [EVENT_STEP, SEED, *log.observables], where=where)
    return facts


def _one_value(panel: Panel, where: str) -> NDArray[np.float64]:
    low, high = (np.where(panel.present, panel.values, fill) for fill in (np.inf, -np.inf))
    # fmin and fmax pass over NaN: an empty cell is no other value.
    least: NDArray[np.float64] = np.fmin.reduce(low, axis=1)
    most = np.fmax.reduce(high, axis=1)
    changing = np.flatnonzero(least != most)
    if len(changing):
        run = int(changing[0])
        raise InputError(
            f"{where}: column {panel.name!r} goes from {least[run]:g} to {most[run]:g} within run "
            f"{panel.runs[run]!r}; a stratum needs a number that is one for each run"
        )
    return least
