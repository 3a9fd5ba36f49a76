"""The specification's definition of done (section 7), checked on a results file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.benchmark.results import Results

_EVENTS_SUGGESTED = 30


@dataclass(frozen=True)
class Check:
    """One requirement, whether it holds, and by which numbers."""

    requirement: str
    passed: bool
    detail: str


def definition_of_done(results: Results) -> tuple[Check, ...]:
    """The four requirements; a run is acceptable only if all of them hold."""
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
            _has_layer_c,
            "coverage and lead time at every target",
        ),
        _summary_table(results),
    )


def _event_count(results: Results) -> Check:
    least = results.summary.x_event_count_min
    least = _EVENTS_SUGGESTED if least is None else least
    events = results.summary.n_events
    return Check(
        f"At least {least} events across seeds",
        events >= least,
        f"{events} events in {results.summary.n_seeds} runs",
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


def _has_layer_c(item: IndicatorRecord) -> bool:
    # A lead time exists only where an event was warned of: zero coverage is a full report.
    points = item.layer_C.at_fpr
    return bool(points) and all(
        point.coverage is not None and (point.lead_time_median is not None or point.coverage == 0)
        for point in points
    )


def _summary_table(results: Results) -> Check:
    path = results.tables.gate_summary_path
    return Check("A single summary table exists", path is not None, path or "no path is given")
