"""Faults of the event: settings that cannot register one, and events that nothing can warn of."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gmb_hf.preregistration.findings import DesignFacts, Finding, error, warning
from gmb_hf.preregistration.prereg import Prereg

FIRST_STEP_SHARE_MAX = 0.05
"""Share of events on the first evaluated step above which the event definition is suspect."""
QUANTILE_MIN = 0.98
"""The PT-MSS quantile at and below which no run has members as rare as they must be."""

_READ_FROM = {
    "E_jump": ("event.metric", "jump_threshold", "window_W_event"),
    "E_plateau": ("event.metric", "x_plateau_threshold", "x_plateau_checkpoints"),
    "E_regime": ("x_regime_quantile", "x_regime_radius"),
}
_OWN = {
    "E_jump": ("x_theta_floor", "x_require_new_max"),
    "E_plateau": ("x_plateau_checkpoints", "x_plateau_threshold", "x_plateau_regression"),
    "E_regime": ("x_regime_quantile", "x_regime_radius", "x_regime_tolerance"),
}
"""Settings that one type of event has and the others pass over."""


def event_findings(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    """The faults of the event; facts that are not known are not judged."""
    yield from _settings(prereg, facts)
    yield from _occurrences(prereg, facts)
    yield from _logs(facts)


def _settings(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    event, cadence = prereg.event, facts.cadence
    foreign = [
        f"{name} ({kind})"
        for kind, names in _OWN.items()
        for name in names
        if kind != event.type and getattr(event, name) not in (None, False)
    ]
    if foreign:
        yield warning(
            "event_settings_unused",
            f"event.type is {event.type}, which passes over {', '.join(foreign)}; leave them out, "
            "or choose another type",
        )
    if event.type == "E_jump" and cadence is not None and prereg.w_event % cadence:
        nearest = max(cadence, round(prereg.w_event / cadence) * cadence)
        yield error(
            "event_window_off_cadence",
            f"window_W_event {prereg.w_event} is no multiple of the cadence {cadence}, so "
            f"m(t + W) does not exist; use {nearest}",
        )
    if event.type != "E_regime":
        return
    radius, quantile = event.x_regime_radius or 0, event.x_regime_quantile or 0.0
    if cadence is not None and radius < cadence:
        below = error if prereg.protocol == "strict" else warning
        yield below(
            "radius_below_cadence",
            f"x_regime_radius {radius} is below the cadence {cadence}: signals move together only "
            "at one and the same checkpoint, and no radius below it can give another result; use "
            f"{cadence} or more",
        )
    if quantile <= QUANTILE_MIN:
        yield error(
            "regime_too_dense",
            f"x_regime_quantile {quantile:g} makes more than {1 - QUANTILE_MIN:.0%} of the "
            "checkpoints members of every signal, so PT-MSS finds every run INCONCLUSIVE; raise "
            f"it above {QUANTILE_MIN:g}",
        )


def _occurrences(prereg: Prereg, facts: DesignFacts) -> Iterator[Finding]:
    starts = facts.first_steps or (-math.inf,) * len(facts.event_steps)
    events = [
        (event, first)
        for event, first in zip(facts.event_steps, starts, strict=True)
        if not math.isnan(event)
    ]
    if facts.event_steps and not events:
        yield warning(
            "no_events",
            f"none of {len(facts.event_steps)} runs has an event; check "
            f"{', '.join(_READ_FROM[prereg.event.type])}, or train longer",
        )
    if facts.excluded:
        labels = ", ".join(f"{count} {label}" for label, count in facts.excluded.items())
        yield warning(
            "runs_excluded",
            f"{sum(facts.excluded.values())} of {facts.n_explore} excluded, as neither events nor "
            f"negatives: PT-MSS cannot say whether they have a transition ({labels})",
        )
    at_first = sum(event <= first for event, first in events)
    floor = " or x_theta_floor" if prereg.event.type == "E_jump" else ""
    if events and at_first > FIRST_STEP_SHARE_MAX * len(events):
        yield warning(
            "events_on_first_step",
            f"{at_first} of {len(events)} events fall on the first evaluated step, so nothing "
            f"can warn of them; set x_event_t_min{floor}",
        )
    early = sum(event <= prereg.burn_in for event, _ in events)
    if prereg.burn_in and early:
        yield warning(
            "events_before_burn_in",
            f"{early} of {len(events)} events come before x_burn_in {prereg.burn_in} ends, so "
            "nothing can warn of them and they count as uncovered; shorten the burn-in, or set "
            "x_event_t_min",
        )
    if facts.dip_recoveries and not prereg.event.x_require_new_max:
        yield warning(
            "dip_recoveries",
            f"{facts.dip_recoveries} of {len(events)} events only regain a level reached "
            "before; set x_require_new_max: true",
        )


def _logs(facts: DesignFacts) -> Iterator[Finding]:
    dropped = {run: count for run, count in facts.duplicates_dropped.items() if count}
    if dropped:
        worst = max(dropped, key=lambda run: dropped[run])
        yield warning(
            "duplicate_steps",
            f"{sum(dropped.values())} rows with a repeated step were dropped in {len(dropped)} "
            f"run(s), most in {worst} ({dropped[worst]}); the last row of each step was kept",
        )
