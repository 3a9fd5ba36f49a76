"""The design linter: faults that would make a verdict worthless, named before it is made.

Each fault is one finding with a code of its own. An error makes the lock refuse the design; a
warning is printed and kept, and becomes a refusal on request.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.core.thresholds import (
    effective_budget,
    in_words,
    promise,
    runs_advised,
    runs_needed,
    runs_to_bound,
    runs_to_promise,
)
from gmb_hf.design.design import PARTS, SEEDS, UNDECLARED, Design, Part
from gmb_hf.design.event_types import EVENT_TYPES
from gmb_hf.design.power import draws_needed
from gmb_hf.design.strata import EVENT_STEP

_PATIENCE = 10.0  # seconds; a repository on a slow disk is no reason to hang
_TO_FILL_IN = re.compile(r"<.*>|YYYY-MM-DD|", re.DOTALL)


def is_placeholder(text: str | None) -> bool:
    """Whether a field was left as a template has it: unset, empty, `<git commit>`, `YYYY-MM-DD`."""
    return text is None or _TO_FILL_IN.fullmatch(text.strip()) is not None


def git_commit(folder: str | Path = ".") -> str | None:
    """The commit that is checked out around a folder, 40 hex digits.

    `-dirty` is added where tracked files differ from it. None where there is no repository, no
    commit or no git.
    """
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # to look is not to write
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip() or None


def filled_in(design: Design, *, date: str, commit: str | None) -> Design:
    """What nobody wrote down about a design, filled in; where git knows no commit it is None."""
    changes = {}
    if is_placeholder(design.commit_hash):
        changes["commit_hash"] = commit
    if is_placeholder(design.date_locked):
        changes["date_locked"] = date
    return design.model_copy(update=changes)


def open_parts(design: Design) -> list[Part]:
    """The parts of the boundary of which a design says nothing, not even that they stay open."""
    return [part for part in _unsaid(design) if part not in design.undeclared]


def _unsaid(design: Design) -> list[Part]:
    names = {"seeds_explore": design.runs_explore, "seeds_eval": design.runs_eval}
    texts = [part for part in PARTS if part not in SEEDS]
    still = [part for part in texts if is_placeholder(getattr(design, part))]
    return still + [part for part in SEEDS if not getattr(design, part) and not names[part]]


def declared(design: Design) -> Design:
    """The design with its boundary whole: what is open and may stay so says `undeclared`.

    Raises:
        InputError: another part of the boundary is open; all of them are named.
    """
    still, places = _unsaid(design), [design.places()[part] for part in open_parts(design)]
    if places:
        raise InputError(
            f"prereg: {', '.join(places)} {'are' if len(places) > 1 else 'is'} not declared, nor "
            "do the logs say it: a verdict speaks about a declared system only. Type what it is, "
            "or boundary.x_undeclared for all that shall stay open, which the results repeat",
            code="undeclared_boundary",
            field=places[0],
        )
    filled: dict[str, Any] = {part: UNDECLARED for part in still if part not in SEEDS}
    kept = tuple(part for part in still if part in SEEDS)
    return design.model_copy(update={**filled, "undeclared": kept})


def nearest_multiple(length: int, cadence: int) -> int:
    """The multiple of a cadence that is nearest to a length, in steps; the cadence at least."""
    return max(1, round(length / cadence)) * cadence


# What the design linter finds, and what it is told of the runs.


@dataclass(frozen=True)
class Finding:
    """One fault of a design."""

    code: str
    level: Literal["warning", "error"]
    message: str

    def __str__(self) -> str:
        return f"{self.level} [{self.code}] {self.message}"


@dataclass(frozen=True)
class DesignFacts:
    """What explore runs say about a design; None or empty where it is not known.

    Attributes:
        cadence: steps between checkpoints.
        n_explore: explore runs.
        n_explore_with_negatives: those with at least one negative window.
        n_eval: held-out runs that are planned.
        event_steps: t* of each explore run, NaN where there is none.
        metric_range: the least and the largest value of the metric in explore runs.
        first_steps: the first evaluated step of each explore run, in the same order.
        duplicates_dropped: rows dropped for a repeated step, by run.
        near_copies: which runs move like another one, in a sentence.
        other_way: runs with an event if the metric were to fall, where none has one.
        dip_recoveries: events that only regain a level that the metric had reached before.
        excluded: explore runs that the event excludes, by label.
        non_causal: candidates whose past changes when their future is cut off.
        windowed: candidates with a window parameter; None when it is not known.
        n_candidates: candidates of the lock, controls not counted.
        stratum_events: explore events in each stratum, by its name.
    """

    cadence: int | None = None
    n_explore: int | None = None
    n_explore_with_negatives: int | None = None
    n_eval: int | None = None
    event_steps: tuple[float, ...] = ()
    metric_range: tuple[float, float] | None = None
    first_steps: tuple[int, ...] = ()
    duplicates_dropped: Mapping[str, int] = field(default_factory=dict)
    near_copies: str = ""
    other_way: int = 0
    dip_recoveries: int = 0
    excluded: Mapping[str, int] = field(default_factory=dict)
    non_causal: tuple[str, ...] = ()
    windowed: tuple[str, ...] | None = None
    n_candidates: int | None = None
    stratum_events: Mapping[str, int] = field(default_factory=dict)


@cache
def _messages() -> dict[str, str]:
    messages: dict[str, str] = load_yaml(Path(__file__).with_name("lint.yaml"))
    return messages


def error(code: str, **values: Any) -> Finding:
    """A fault that refuses the design; the values are those that its message names."""
    return Finding(code, "error", _messages()[code].format(**values))


def warning(code: str, **values: Any) -> Finding:
    """A fault that is printed and kept; see `error`."""
    return Finding(code, "warning", _messages()[code].format(**values))


# Faults of the event: settings that cannot register one, and events that nothing can detect.


FIRST_STEP_SHARE_MAX = 0.05
"""Share of events on the first evaluated step above which the event definition is suspect."""
QUANTILE_MIN = 0.98
"""The PT-MSS quantile at and below which no run has members as rare as they must be."""


def _settings(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    cadence = facts.cadence
    # Settings that one type of event has and the others pass over.
    foreign = [
        f"{place.rpartition('.')[2]} ({other})"
        for name, place in design.places().items()
        if (other := design.other_event(name, design.event_type))
        and type(design).model_fields[name].get_default() in (None, False, "rising")
        and getattr(design, name) not in (None, False, "rising")
    ]
    if foreign:
        yield warning("event_settings_unused", design=design, foreign=", ".join(foreign))
    if design.event_type == "E_jump" and cadence is not None and design.w_event % cadence:
        nearest = nearest_multiple(design.w_event, cadence)
        yield error("event_window_off_cadence", design=design, cadence=cadence, nearest=nearest)
    if design.event_type != "E_regime":
        return
    radius, quantile = design.regime_radius or 0, design.regime_quantile or 0.0
    if cadence is not None and radius < cadence:
        below = error if design.protocol == "strict" else warning
        yield below("radius_below_cadence", radius=radius, cadence=cadence)
    if quantile <= QUANTILE_MIN:
        share, least = 1 - QUANTILE_MIN, QUANTILE_MIN
        yield error("regime_too_dense", quantile=quantile, share=share, least=least)


def _occurrences(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    starts = facts.first_steps or (-math.inf,) * len(facts.event_steps)
    events = [
        (event, first)
        for event, first in zip(facts.event_steps, starts, strict=True)
        if not math.isnan(event)
    ]
    beyond = list(_beyond_accuracy(design, facts))
    yield from beyond
    if facts.event_steps and not events and not beyond:
        places = [design.places()[name] for name in EVENT_TYPES[design.event_type].fields]
        # A bare word such as "metric" is not taken for a field.
        keys = [place.removeprefix("event.") if "_" in place else place for place in places]
        falls = facts.other_way and f"; {facts.other_way} have one under x_direction: falling"
        runs = len(facts.event_steps)
        yield warning("no_events", runs=runs, falls=falls or "", keys=", ".join(keys))
    if facts.excluded:
        labels = ", ".join(f"{count} {label}" for label, count in facts.excluded.items())
        count = sum(facts.excluded.values())
        yield warning("runs_excluded", count=count, runs=facts.n_explore, labels=labels)
    at_first = sum(event <= first for event, first in events)
    floor = " or x_theta_floor" if design.event_type == "E_jump" else ""
    if design.event_type == "E_plateau" and not design.falling:
        floor = ", or, for a loss, x_direction: falling"
    if events and at_first > FIRST_STEP_SHARE_MAX * len(events):
        yield warning("events_on_first_step", count=at_first, events=len(events), floor=floor)
    early = sum(event <= design.burn_in for event, _ in events)
    if design.burn_in and early:
        yield warning("events_before_burn_in", design=design, count=early, events=len(events))
    if facts.dip_recoveries and not design.require_new_max:
        yield warning("dip_recoveries", count=facts.dip_recoveries, events=len(events))


_SHARE_MAX = 1.5
"""Largest value of a metric that may still be a share, with a bonus or an error of rounding."""


def in_percent(design: Design, metric_range: tuple[float, float] | None) -> list[Finding]:
    """A warning where the metric looks like an accuracy in percent and its event like a share."""
    names = {"E_jump": "jump_threshold", "E_plateau": "plateau_threshold"}
    setting = names.get(design.event_type)
    if setting is None or metric_range is None or design.falling or "loss" in design.metric:
        return []
    threshold, (low, high) = getattr(design, setting), metric_range
    if threshold >= 1 or low < 0 or not _SHARE_MAX < high <= 100:
        return []
    about = {"high": high, "setting": setting, "threshold": threshold, "percent": 100 * threshold}
    return [warning("metric_in_percent", design=design, **about)]


_ACCURACY = re.compile("acc|auc|precision|recall|f1", re.IGNORECASE)


def _beyond_accuracy(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    """Levels and jumps above 1 of a metric that cannot exceed it, by its name and its values."""
    low, high = facts.metric_range or (-math.inf, math.inf)
    if low < 0 or high > 1 or not _ACCURACY.search(design.metric):
        return
    for name in ("jump_threshold", "theta_floor", "plateau_threshold"):
        value = getattr(design, name)
        if value is None or value <= 1 or design.other_event(name, design.event_type):
            continue
        key = design.places()[name].removeprefix("event.")
        yield error("beyond_accuracy", design=design, key=key, value=value, low=low, high=high)


def lint(design: Design, facts: DesignFacts | None = None) -> list[Finding]:
    """Every fault of the design, errors first; facts that are not known are not judged."""
    facts = facts or DesignFacts(cadence=design.cadence)
    found = [
        *_left_to_fill_in(design),
        *_windows(design, facts),
        *_runs(design, facts),
        *_settings(design, facts),
        *_other_events(design, facts),
        *_occurrences(design, facts),
        *in_percent(design, facts.metric_range),
        *_grids(design, facts),
        *_strata(design, facts),
        *_power(design, facts),
    ]
    return sorted(found, key=lambda finding: finding.level != "error")


def refuse_unsound(findings: Iterable[Finding], *, warnings_too: bool = False) -> None:
    """Raise `InputError` naming each error, and each warning too on request."""
    faults = [item for item in findings if warnings_too or item.level == "error"]
    if faults:
        named = "; ".join(f"[{item.code}] {item.message}" for item in faults)
        codes = ", ".join(dict.fromkeys(item.code for item in faults))
        raise InputError(
            f"design refused, {len(faults)} fault(s): {named}", code=faults[0].code, name=codes
        )


def _other_events(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    """What makes one of `x_also_events` undefined; what it does not read is no fault there."""
    for name, other in design.other_events():
        for finding in _settings(other, facts):
            if finding.level == "error":
                yield replace(finding, message=f"x_also_events, {name}: {finding.message}")


def _left_to_fill_in(design: Design) -> Iterator[Finding]:
    # The day and the commit are filled in by the lock.
    open_ones = [
        f"{section}.{name}"
        for section in ("meta", "boundary")
        for name, value in design.section(section).items()
        if isinstance(value, str) and is_placeholder(value)
        if name not in ("date_locked", "commit_hash")
    ]
    if open_ones:
        yield warning("left_to_fill_in", places=", ".join(open_ones))


def _windows(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    horizon, gap = design.horizon, design.safe_gap
    cadence, declared = facts.cadence, design.cadence
    if gap <= horizon:
        yield error("horizon_reaches_gap", design=design)
    longest = horizon // (cadence or 1) * (cadence or 1)
    if design.lead_least > longest and horizon >= (cadence or 1):
        rows = f", whose last checkpoint is {longest} steps before t*" if longest < horizon else ""
        yield error("lead_minimum_beyond_horizon", design=design, rows=rows, longest=longest)
    if design.lead_target > horizon:
        yield warning("lead_target_beyond_horizon", design=design)
    if cadence is None:
        return
    if declared is not None and declared != cadence:
        yield error("cadence_differs", design=design, cadence=cadence)
    if horizon < cadence:
        yield error("horizon_below_cadence", design=design, cadence=cadence)


def _runs(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    both = sorted(set(design.seeds_explore) & set(design.seeds_eval))
    if both:
        yield error("seeds_overlap", seeds=_listed(both))
    dropped = {run: count for run, count in facts.duplicates_dropped.items() if count}
    if dropped:
        worst = max(dropped, key=lambda run: dropped[run])
        yield warning(
            "duplicate_steps",
            rows=sum(dropped.values()),
            runs=len(dropped),
            worst=worst,
            most=dropped[worst],
        )
    if facts.near_copies:
        yield warning("near_copies", note=facts.near_copies)
    reversed_ones = [item.name for item in design.candidates if item.x_sign == -1]
    if reversed_ones and facts.n_explore is not None:
        yield warning("reversed_sign", names=", ".join(reversed_ones))
    yield from (error("non_causal_indicator", name=name) for name in facts.non_causal)


def _grids(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    sweep, smoothing, cadence = design.window_sweep, design.smoothing_sweep, facts.cadence
    if facts.windowed != () and cadence is not None:
        off = [window for window in sweep if window % cadence]
        if off:
            yield error("window_off_cadence", windows=_listed(off), cadence=cadence)
        counts = [max(1, round(window / cadence)) for window in sweep]
        if len(set(counts)) < len(counts):
            yield warning(
                "sweep_without_effect", windows=list(sweep), cadence=cadence, counts=counts
            )
    if len(set(sweep)) == 1 and facts.windowed != ():
        yield replace(warning("sweep_of_one"), code="sweep_without_effect")
    if set(smoothing) == {1} or len(set(smoothing)) < len(smoothing):
        yield warning("smoothing_without_effect", lengths=list(smoothing))


def _strata(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    on_event = [item.name for item in design.strata if EVENT_STEP in item.names]
    if on_event:
        yield warning("stratum_on_event", names=", ".join(on_event))
    if facts.n_eval is None or not facts.n_explore:
        return
    for name, events in facts.stratum_events.items():
        expected = events * facts.n_eval / facts.n_explore
        if expected < design.event_count_min:
            about = {"name": name, "events": events, "expected": expected}
            yield warning("few_events_in_stratum", design=design, **about)


def _power(design: Design, facts: DesignFacts) -> Iterator[Finding]:
    planned = design.max_eval_seeds if facts.n_eval is None else facts.n_eval
    held_out = math.inf if planned is None else planned
    if held_out < design.event_count_min:
        asked = design.event_count_min > Design.model_fields["event_count_min"].default
        level = error if asked else warning
        yield level("few_held_out_runs", design=design, runs=held_out)
    if held_out < design.run_groups:
        yield error("run_groups_exceed_runs", design=design, runs=held_out)
    if design.protocol != "strict":
        return
    candidates = facts.n_candidates or len(design.candidates) or 1
    family = candidates * (1 + len(design.strata))
    draws = draws_needed(family, design.alpha_per_look)
    if design.null_draws < draws:
        strata = f", {len(design.strata)} strata each" if design.strata else ""
        about = {"candidates": candidates, "strata": strata, "draws": draws}
        yield error("few_null_draws", design=design, **about)
    if facts.n_explore_with_negatives is not None:
        yield from _budgets(design, facts.n_explore_with_negatives, facts.n_explore)
        yield from run_budgets(design, facts.n_explore_with_negatives)


def _budgets(design: Design, runs: int, explored: int | None) -> Iterator[Finding]:
    there = f"{runs} of {explored}" if explored is not None else f"{runs}"
    finite = [target for target in design.fpr_targets if runs >= runs_needed(target)]
    for target in design.fpr_targets:
        needed, advised = runs_needed(target), runs_advised(target)
        if target not in finite and target == design.primary_fpr:
            yield error("few_runs_for_primary", target=target, needed=needed, runs=there)
        elif target not in finite:
            yield warning("few_runs_for_target", target=target, needed=needed, runs=there)
        elif runs < advised:
            rate = effective_budget(target, runs)
            yield warning("thin_budget", runs=runs, target=target, rate=rate, advised=advised)
    if not finite:
        yield error("too_few_reachable_targets", targets=len(design.fpr_targets), runs=runs)


def run_budgets(design: Design, runs: int) -> Iterator[Finding]:
    """Budgets of runs without a finite threshold, and what the rank of one threshold depends on.

    The latter is a bound of more than twice the primary budget, or a single run that sets it. Each
    of the `runs` of explore has negative windows.
    """
    rule = design.calibration
    lost = [budget for budget in design.run_budgets if promise(budget, runs, rule).rank is None]
    if lost:
        least = {budget: runs_to_promise(budget, rule) for budget in lost}
        takes = ", ".join(f"{in_words(budget)} takes {n}" for budget, n in least.items())
        decides, level = "", warning
        if design.primary_run_budget in lost:
            decides = " no score can pass, since x_primary_run_budget is among them;"
        if decides or not set(lost) <= set(Design.model_fields["run_budgets"].default):
            level = error  # somebody asked for it
        yield level("few_runs_for_run_budget", takes=takes, runs=runs, decides=decides)
    primary = design.primary_run_budget
    found = promise(primary, runs, rule)
    if found.rank is not None and found.upper > 2 * primary:
        yield warning(
            "thin_run_budget",
            design=design,
            runs=runs,
            upper=found.upper,
            bound=runs_to_bound(primary, rule),
            conditional=runs_to_promise(primary, "conditional"),
        )
    elif found.rank == runs:
        more = next(n for n in itertools.count(runs) if promise(primary, n, rule).rank != n)
        yield warning("one_run_threshold", design=design, runs=runs, more=more)


def _listed(items: Sequence[int]) -> str:
    return f"{first_of(items)} {'is' if len(items) == 1 else 'are'}"
