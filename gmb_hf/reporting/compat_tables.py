"""The reference's own two tables, for results of the protocol `compat`."""

from __future__ import annotations

from typing import Any, NamedTuple

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.reporting import escape
from gmb_hf.reporting.tables import Column, Table

TABLES = {"x_per_run_path": "tables/per_run.csv", "x_tradeoff_path": "tables/tradeoff.csv"}
"""Where they lie, relative to the results file."""


def compat_tables(results: Results) -> tuple[Table, ...]:
    """Both tables; none for results of another protocol."""
    return (per_run(results), tradeoff(results)) if results.x_protocol == "compat" else ()


def per_run(results: Results) -> Table:
    """Windows, diagnostics and ranking of every run, as `x_per_run` has them."""

    def digits(value: float | None) -> str:
        return "–" if value is None else f"{value:.6g}"

    columns = (
        Column("indicator", align="l"),
        Column("run", align="l"),
        Column("n_pos", str),
        Column("n_neg", str),
        *(
            Column(name, digits)
            for name in ("n_eff", "n_eff_ratio", "k_eff", "tie_dom", "roc_auc", "average_precision")
        ),
    )
    rows = tuple(
        (item.name, *(row[column.name] for column in columns[1:]))
        for item in results.indicators
        for row in _extension(item, "x_per_run")
    )
    return Table("per_run", "Every run in the reference's computation", columns, rows)


def tradeoff(results: Results) -> Table:
    """What each threshold costs and covers."""
    columns = (
        Column("indicator", align="l"),
        Column("fpr_target", lambda value: f"{value:g}"),
        Column("threshold", lambda value: f"{value:.6g}"),
        Column("fpr_achieved", escape.number),
        Column("coverage", escape.number),
        Column("abstain_rate", escape.number),
        Column("n_covered", str),
        Column("n_events", str),
        Column("lead_time_mean", escape.steps),
    )
    rows = tuple(
        (item.name, *point) for item in results.indicators for point in operating_points(item)
    )
    return Table("tradeoff", "False alarms against coverage, as published", columns, rows)


class OperatingPoint(NamedTuple):
    """One threshold of one score, in the order of the reference's columns."""

    target: float
    threshold: float | None
    achieved: float | None
    coverage: float | None
    abstain_rate: float | None
    n_covered: int | None
    n_events: int | None
    lead_time_mean: float | None


def operating_points(item: IndicatorRecord) -> tuple[OperatingPoint, ...]:
    """What each threshold of a score costs and covers."""
    return tuple(
        OperatingPoint(
            point.fpr,
            point.x_threshold,
            achieved.achieved,
            point.coverage,
            extra.get("x_abstain_rate"),
            point.x_n_covered,
            point.x_n_events,
            extra.get("x_lead_time_mean"),
        )
        for point, achieved in zip(item.layer_C.at_fpr, item.layer_B.achieved, strict=True)
        for extra in [point.model_extra or {}]
    )


def _extension(item: IndicatorRecord, key: str) -> Any:
    return (item.model_extra or {}).get(key, ())
