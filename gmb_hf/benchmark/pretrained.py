"""Fitting a score on runs of several systems, to be calibrated on runs of another one.

Features in units of a run's own past survive a change of scale; which of all features carry over is
found by the penalty that predicts best where whole parts are left out in turn (DECISIONS 14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.ensembles import (
    FEATURES,
    LabelledWindows,
    MemberScores,
    choose,
    fit_log_odds,
    frozen_formula,
    members_of,
    plain_member,
)
from gmb_hf.benchmark.prepare import Entry, Prepared, prepare
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.pretrained import FittedOn, PretrainedScore
from gmb_hf.indicators.catalogue import Kind
from gmb_hf.runs.columns import STEP

TRAVELLING = (*FEATURES, "place", "deviations", "relative_change_5", "relative_change_20")
"""Of each member: its values, and the same in units of the run's own past."""
PENALTIES = (1.0, 0.1, 0.01, 1e-3)
EVERY = 4
"""Of so many checkpoints one is fitted on: those beside it tell next to nothing more."""


def fit_score(
    name: str,
    parts: Mapping[str, Prepared],
    kind: Kind,
    *,
    only: Sequence[str] = (),
    features: Sequence[str] = TRAVELLING,
    penalties: Sequence[float] = PENALTIES,
    every: int = EVERY,
    about: str = "",
    on_done: Callable[[str], None] | None = None,
) -> PretrainedScore:
    """Fit a regression on the explore runs of several parts, before the event of their designs.

    Args:
        name: of the score.
        parts: explore runs and a design each, by what they are called, at one cadence.
        kind: the class; its members are those scores of it that every part has.
        only: members to choose from, by name; all where none is named.
        features: of each member.
        penalties: to choose from by the log loss on parts that are left out; with one part, on
            groups of its runs.
        every: of so many checkpoints one is fitted on.
        about: a sentence for those who choose a score.
        on_done: called with each part's name when its scores are computed.

    Raises:
        InputError: the parts differ in cadence, event or windows; have no member in common; or too
            few runs have windows of both classes.
    """
    first = next(iter(parts.values()))
    cadence = _one_cadence(parts)
    members = _shared_members(parts, kind, only)
    asked = {"members": members, "features": list(features)}
    candidate = {"name": name, "family": ENSEMBLE, "x_ensemble": asked}
    rows: list[LabelledWindows] = []
    groups: list[NDArray[np.int64]] = []
    used: list[FittedOn] = []
    entry: Entry | None = None
    for number, (part, prepared) in enumerate(parts.items()):
        narrowed = prepare(prepared.log, prepared.design.replace(candidates=[candidate]))
        entry = narrowed.entries[0]
        found = MemberScores.of(entry, narrowed).rows(narrowed.log.runs, every=every)
        both = len(found.runs_of_both_classes)
        if not both:
            raise InputError(
                f"{part}: no run has windows before the event and far from it, so that nothing can "
                "be fitted on these runs; leave them out, or choose a shorter safe gap"
            )
        known = int(found.run.max()) + 1
        before = sum(map(len, groups))
        rows.append(LabelledWindows(found.features, found.positive, found.run + before))
        groups.append(np.full(known, number))
        fingerprint = prepared.log.fingerprint()
        runs = len(prepared.log.runs)
        used.append(FittedOn(source=part, fingerprint=fingerprint, runs=runs, with_both=both))
        if on_done is not None:
            on_done(part)
    assert entry is not None
    pooled = LabelledWindows(*(np.concatenate(one) for one in _columns(rows)))
    folds = np.concatenate(groups) if len(parts) > 1 else 5
    if isinstance(folds, int) and len(pooled.runs_of_both_classes) < folds:
        raise InputError(
            f"{next(iter(parts))}: fewer than {folds} runs have windows before the event and far "
            "from it; give more runs"
        )
    chosen = choose(pooled, fit_log_odds, sorted(set(penalties), reverse=True), folds)
    design = first.design
    formula = frozen_formula(entry, chosen, fit_runs=(), calibrate_runs=(), n_calibration_runs=0)
    return PretrainedScore.build(
        name=name,
        kind=kind,
        about=about,
        event=design.event_name,
        horizon_steps=design.horizon,
        safe_gap_steps=design.safe_gap,
        cadence=cadence,
        every=every,
        needs=sorted({*entry.indicator.needs} - {STEP}),
        fitted_on=[one.plain() for one in used],
        formula=formula.plain(),
    )


def _columns(rows: Sequence[LabelledWindows]) -> Any:
    return zip(*((one.features, one.positive, one.run) for one in rows), strict=True)


def _one_cadence(parts: Mapping[str, Prepared]) -> int:
    """The cadence of all parts, whose event and windows are those of one design."""
    asked: dict[str, dict[Any, str]] = {}
    for part, prepared in parts.items():
        design = prepared.design
        for what, value in (
            ("checkpoint spacings", prepared.log.panel("step").cadence()),
            ("events", design.event_name),
            ("horizons", design.horizon),
            ("safe gaps", design.safe_gap),
        ):
            asked.setdefault(what, {}).setdefault(value, part)
    for what, found in asked.items():
        if len(found) > 1:
            named = ", ".join(f"{value} in {part}" for value, part in found.items())
            raise InputError(
                f"the runs differ in {what}: {named}; fit one score for each, or say one for all"
            )
    return int(next(iter(asked["checkpoint spacings"])))


def _shared_members(
    parts: Mapping[str, Prepared], kind: Kind, only: Sequence[str]
) -> list[dict[str, Any]]:
    """The scores of a class that every part has, in the order of the first."""
    found = [
        {one.name: plain_member(one) for one in members_of(prepared.design)[kind]}
        for prepared in parts.values()
    ]
    shared = {
        name: member
        for name, member in found[0].items()
        if all(other.get(name) == member for other in found)
    }
    lacking = [name for name in only if name not in shared]
    if lacking:
        raise InputError(
            f"{lacking[0]!r} is no {kind} score that all of these runs have; they have "
            f"{', '.join(shared) or 'none'}"
        )
    if not shared:
        raise InputError(f"the runs have no {kind} score in common, so that none can be fitted")
    return [member for name, member in shared.items() if not only or name in only]
