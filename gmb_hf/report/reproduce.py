"""Runs through the reference's computation (protocol `compat`), and the files that it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.compat import (
    CompatSettings,
    Measured,
    compat_results,
    event_steps,
    measure,
    refuse_gaps,
)
from gmb_hf.benchmark.prepare import Entry, namesakes, resolve
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.scores import Scores
from gmb_hf.design.design import Candidate
from gmb_hf.errors import InputError, repeated
from gmb_hf.indicators.catalogue import compute
from gmb_hf.report.answer import answer
from gmb_hf.report.curves import AlignedScore
from gmb_hf.report.report import aligned_score, featured, grokking_curves_of, write_evaluation
from gmb_hf.report.tables import TABLES
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.runlog import RunLog


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What the reference's computation gives, with all that its report needs.

    Attributes:
        results: what results.yaml will say.
        measured: each score, by name.
        events: the step of each run's event, float64 [R], NaN where there is none.
        log: the runs.
        settings: the reference's settings.
    """

    results: Results
    measured: Mapping[str, Measured]
    events: NDArray[np.float64]
    log: RunLog
    settings: CompatSettings


def reproduce(
    log: RunLog,
    candidates: Sequence[Mapping[str, Any]],
    settings: CompatSettings,
    *,
    notes: Sequence[str] = (),
) -> Reproduction:
    """Put scores through the reference's computation.

    Args:
        log: the runs, read with `on_duplicate="sort"`.
        candidates: the scores, as `candidates.own_score` gives them.
        settings: the reference's settings.
        notes: what a reader must know beside what is found here.

    Raises:
        InputError: a score is unknown or given twice, a value is not finite, a run is too short,
            or no window is negative.
    """
    entries = [resolve(Candidate.parse(item, where="score"), log) for item in candidates]
    twice = repeated(entry.name for entry in entries)
    if twice is not None:
        raise InputError(f"score {twice!r} is given twice; name it once")
    events = event_steps(log.panel(settings.metric), settings)
    measured = {entry.name: _measured(entry, log, events, settings) for entry in entries}
    steps = log.panel("step")
    results = compat_results(
        [one.record for one in measured.values()],
        settings=settings,
        runs=log.runs,
        seeds=log.seeds,
        event_steps=events.tolist(),
        last_steps=steps.last_step.tolist(),
        fingerprint=log.fingerprint(),
        notes=[*notes, *namesakes(entries, log), *_repeats(log)],
        tables=TABLES,
    ).pulled_from(hub_sources(log.metadata))
    return Reproduction(results, measured, events, log, settings)


def publish_reproduction(
    found: Reproduction,
    out: str | Path,
    *,
    next_command: str | None = None,
    figures: bool = True,
) -> list[Path]:
    """Write results.yaml, tables, figures and report.md; returns the files, the report first."""
    has_events = np.isfinite(found.events).any()
    names = featured(answer(found.results)) if figures and has_events else ()
    return write_evaluation(
        found.results,
        out,
        curves=grokking_curves_of(found.log, found.settings.metric, found.events),
        aligned=[_aligned(found.measured[name], found.settings) for name in names],
        cadence=_cadence(found.log),
        next_command=next_command,
        figures=figures,
    )


def _measured(
    entry: Entry, log: RunLog, events: NDArray[np.float64], settings: CompatSettings
) -> Measured:
    panel = compute(log, entry.indicator, sign=entry.sign)
    refuse_gaps(panel, "score")
    scores = Scores.from_panel(panel, events)
    return measure(
        scores.smooth(settings.smoothing),
        settings,
        family=entry.indicator.family,
        sign=entry.sign,
        sees_test_labels=entry.indicator.sees_test_labels,
    )


def _repeats(log: RunLog) -> list[str]:
    """A note on steps that were logged twice: the reference keeps every row."""
    grid = log.panel("step")
    again = ((np.diff(grid.steps, axis=1) == 0) & grid.present[:, 1:]).sum(axis=1)
    runs = [f"{run} ({count})" for run, count in zip(log.runs, again, strict=True) if count]
    if not runs:
        return []
    return [
        f"{again.sum()} rows repeat a step and are kept, as the reference does: {', '.join(runs)}."
    ]


def _aligned(measured: Measured, settings: CompatSettings) -> AlignedScore:
    point = measured.primary
    return aligned_score(
        measured.scores,
        horizon=settings.horizon,
        threshold=point.x_threshold,
        target=point.fpr,
    )


def _cadence(log: RunLog) -> int | None:
    """Steps between checkpoints; None where a restarted log repeats some."""
    try:
        return log.panel("step").cadence()
    except InputError:
        return None
