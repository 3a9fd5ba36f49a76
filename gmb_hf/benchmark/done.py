"""The specification's definition of done (section 7), checked on a results file."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.benchmark.results import Results

_EVENTS_SUGGESTED = 30


@dataclass(frozen=True)
class Check:
    """One requirement, whether it holds, and by which numbers."""

    requirement: str
    passed: bool
    detail: str


def definition_of_done(results: Results, folder: str | Path | None = None) -> tuple[Check, ...]:
    """The four requirements; a run is acceptable only if all of them hold.

    Args:
        results: what was found.
        folder: where the results file lies; the summary table is then looked into. Without, a
            stated path must do.
    """
    points = _operating_points(results)

    def has_layer_c(item: IndicatorRecord) -> bool:
        return _has_layer_c(item, points)

    return (
        _event_count(results),
        _each(
            results,
            "Layer B is computed and reported for every indicator",
            _has_layer_b,
            "an achieved rate at every target",
        ),
        _each(
            results,
            "Coverage and lead time are reported at every operating point",
            has_layer_c,
            f"them at {', '.join(f'{point:g}' for point in points) or 'no point'}",
        ),
        _summary_table(results, None if folder is None else Path(folder)),
    )


def _event_count(results: Results) -> Check:
    least = results.summary.x_event_count_min
    least = _EVENTS_SUGGESTED if least is None else least
    events = results.summary.n_events
    known = "an unknown number of" if events is None else f"{events:,}"
    return Check(
        f"At least {least} events across seeds",
        events is not None and events >= least,
        f"{known} events in {results.summary.n_seeds:,} runs",
    )


def _each(
    results: Results, requirement: str, holds: Callable[[IndicatorRecord], bool], what: str
) -> Check:
    lacking = [item.name for item in results.indicators if not holds(item)]
    total = len(results.indicators)
    detail = f"{total - len(lacking)} of {total} indicators have {what}"
    if lacking:
        detail += f"; missing: {', '.join(lacking)}"
    return Check(requirement, bool(total) and not lacking, detail)


def _has_layer_b(item: IndicatorRecord) -> bool:
    answered = {
        row.target
        for row in item.layer_B.achieved
        if row.achieved is not None or row.x_answer == "ABSTAIN"
    }
    return bool(item.layer_B.targets) and answered.issuperset(item.layer_B.targets)


def _operating_points(results: Results) -> tuple[float, ...]:
    """Those of the preregistration; where none is stored, all that any indicator is judged at."""
    prereg = results.prereg
    if prereg is not None:
        return prereg.fpr_targets
    stated = {point.fpr for item in results.indicators for point in item.layer_C.at_fpr}
    return tuple(sorted(stated))


def _has_layer_c(item: IndicatorRecord, points: tuple[float, ...]) -> bool:
    # A lead time exists only where an event was warned of: zero coverage is a full report.
    reported = {
        point.fpr
        for point in item.layer_C.at_fpr
        if point.coverage is not None
        and (point.lead_time_median is not None or point.coverage == 0)
    }
    return bool(points) and reported.issuperset(points)


def _summary_table(results: Results, folder: Path | None) -> Check:
    requirement = "A single summary table exists"
    path = results.tables.gate_summary_path
    if path is None:
        return Check(requirement, False, "no path is given")
    if folder is None:
        return Check(requirement, True, path)
    table = folder / path
    if not table.is_file():
        return Check(requirement, False, f"{path} is not there")
    if table.suffix == ".csv":
        with table.open(encoding="utf-8", newline="") as file:
            listed = {row.get("indicator") for row in csv.DictReader(file)}
        missing = [item.name for item in results.indicators if item.name not in listed]
        if missing:
            return Check(requirement, False, f"{path} lacks {', '.join(missing)}")
    return Check(
        requirement, True, f"{path}, a row for each of {len(results.indicators)} indicators"
    )
