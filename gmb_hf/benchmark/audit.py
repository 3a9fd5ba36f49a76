"""PT-MSS of every run of a log: label, time and order, as the reference project publishes them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmb_hf.benchmark.events import (
    PUBLISHED,
    SIGNALS,
    RegimeLabel,
    Regimes,
    label_regimes,
    regime_signals,
    signal_columns,
)
from gmb_hf.errors import InputError, fraction, positive_int
from gmb_hf.files import write_text
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.runlog import RunLog


@dataclass(frozen=True)
class AuditedRun:
    """One run.

    Attributes:
        run: its name.
        label: what PT-MSS says of it.
        step: t in steps, whatever the label, None where there is none.
        order: force, info and constraint in the order of their members nearest to t; () without t.
        reason: why the label is INCONCLUSIVE or ESTIMATOR_UNSTABLE, else "".
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
        quantile, radius, tolerance: see `label_regimes`.
        notes: what a reader must know.
        sources: what was pulled from the Hub, as in results.
    """

    runs: tuple[AuditedRun, ...]
    columns: tuple[str, ...]
    quantile: float
    radius: int
    tolerance: int
    notes: tuple[str, ...]
    sources: tuple[dict[str, str], ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many runs have each label that occurs, by name."""
        return dict(sorted(Counter(run.label for run in self.runs).items()))

    def to_dict(self) -> dict[str, Any]:
        """The audit as plain data, ready for JSON."""
        return {
            "runs": {
                item.run: {
                    "label": item.label,
                    "t": item.step,
                    "order": list(item.order) or None,
                }
                for item in self.runs
            },
            "counts": self.counts,
            "x_settings": {
                "quantile": self.quantile,
                "radius": self.radius,
                "tolerance": self.tolerance,
                "columns": list(self.columns),
            },
            "x_notes": list(self.notes),
            "x_sources": list(self.sources),
        }

    def write(self, path: str | Path) -> Path:
        """Write the audit as JSON, atomically."""
        return write_text(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")


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
    signals = regime_signals(log.panel, log.observables, ignore_nan=True, where=log.origin)
    regimes = label_regimes(
        signals.primary, signals.alternate, quantile=quantile, radius=radius, tolerance=tolerance
    )
    return Audit(
        runs=tuple(_audited(regimes, row) for row in range(len(regimes.runs))),
        columns=signals.columns,
        quantile=quantile,
        radius=radius,
        tolerance=tolerance,
        notes=tuple(_notes(log, signals.columns, radius)),
        sources=tuple(hub_sources(log.metadata)),
    )


def _audited(regimes: Regimes, row: int) -> AuditedRun:
    step = regimes.primary.step[row]
    return AuditedRun(
        run=regimes.runs[row],
        label=regimes.labels[row],
        step=None if np.isnan(step) else int(step),
        order=regimes.order_of(row),
        reason=_reason(regimes, row),
    )


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
    notes = []
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
    if log.dropped_duplicates:
        total = sum(log.dropped_duplicates.values())
        notes.append(f"{total} rows of restarted logs were dropped: the last of each step counts.")
    lacking = []
    for name in columns:
        panel = log.panel(name)
        count = int(np.isnan(panel.values[panel.present]).sum())
        if count:
            lacking.append(f"{name} ({count})")
    if lacking:
        cells = ", ".join(lacking)
        notes.append(f"Cells without a value, which move with nothing: {cells}.")
    return notes
