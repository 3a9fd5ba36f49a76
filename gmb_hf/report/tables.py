"""The tables of an evaluation: first alarms by runs, the specification's three (section 8) by
windows, and two of `compat`.

In the specification's tables its columns come first and keep their names; ours follow to the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Any, NamedTuple

from gmb_hf.base.escape import number, p_value, percent, steps, yes_no
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import Column, Row, Table, follow
from gmb_hf.benchmark.first_alarm import BLIND, RIVALS, FirstAlarmPointRecord, FirstAlarmRecord
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.nulls import NULLS
from gmb_hf.core.thresholds import in_words, runs_needed
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.report.answer import (
    ends,
    hardest,
    primary_budget,
    reason,
    shown_name,
    shown_p,
)


def gate_summary(results: Results) -> Table:
    """Table 1: ranking, the operationality gate, and the label of every indicator."""
    targets = {row.target for item in results.indicators for row in item.layer_B.achieved}
    columns = (
        Column("indicator", take="name"),
        Column("AUC", number, take="layer_A.auc"),
        Column("AP", number, take="layer_A.ap"),
        Column("controllability_pass", yes_no, "c", take="layer_B.controllability_pass"),
        Column("fpr_floor", yes_no, "c", take="layer_B.fpr_floor_detected"),
        Column("ok_targets", "{:,}".format, take="layer_B.ok_targets"),
        Column("label", take="label"),
        Column("family", take="family"),
        Column("sees_test_labels", yes_no, "c", take="x_sees_test_labels"),
        *(
            Column(f"{head}_{target:g}", number, take=_achieved(target, path))
            for target in sorted(targets)
            for head, path in (
                ("achieved_fpr", "achieved"),
                ("fpr_low", "x_interval.low"),
                ("fpr_high", "x_interval.high"),
            )
        ),
        Column("fpr_min", number, take="layer_B.fpr_min"),
        Column("within_budget", "{:,}".format, take="layer_B.n_within"),
        Column("budget_pass", yes_no, "c", take="layer_B.x_budget_pass"),
        Column("certified_floor", yes_no, "c", take="layer_B.x_floor_certificate.floor"),
        Column("decided_by", take=lambda item: item.layer_B.x_decided_by or ""),
        Column("alarm_eligible", yes_no, "c", take="x_alarm_eligible"),
        Column("f_min_pos", number, take="layer_B.x_floor_certificate.f_min_pos"),
        Column("p_adjusted", p_value, take="x_p_adjusted"),
        Column("reasons", take=lambda item: "; ".join(map(reason, item.x_reasons))),
        Column("scope", take=lambda item: item.x_scope.where if item.x_scope else ""),
    )
    return Table.of(results.indicators, columns, "gate_summary", "Operationality gate summary")


def _achieved(target: float, path: str) -> Callable[[IndicatorRecord], Any]:
    return lambda item: follow(item.achieved(target), path)


class FirstAlarmRow(NamedTuple):
    """One indicator at one budget of runs."""

    item: IndicatorRecord
    first: FirstAlarmRecord
    at: FirstAlarmPointRecord
    primary: bool = True
    event: str = ""


WARNED = (
    Column("warned", number, take="at.warned"),
    Column("warned_low", number, take="at.warned_interval.low"),
    Column("warned_high", number, take="at.warned_interval.high"),
    Column("timely", number, take="at.timely"),
)
FALSELY_ALARMED = (
    Column("false_share", number, take="at.false_share"),
    Column("false_low", number, take="at.false_interval.low"),
    Column("false_high", number, take="at.false_interval.high"),
)
"""Columns of whatever holds an outcome of first alarms as `at`."""
_OUTCOMES = (
    *WARNED,
    Column("early", number, take="at.early"),
    Column("missed", number, take="at.missed"),
    *FALSELY_ALARMED,
    Column("lead_median", steps, take="at.lead_median"),
    *(
        column
        for name in BLIND
        for column in (
            Column(name, number, take=f"at.{name}.warned"),
            Column(f"p_{name}", p_value, take=f"at.{name}.p_value"),
        )
    ),
)
_COUNTS = tuple(
    Column(name, "{:,}".format, take=f"at.{name}")
    for name in (
        "n_events", "n_warned", "n_timely", "n_early", "n_missed", "n_false_before_event",
        "n_event_free", "n_event_free_false", "n_runs", "n_false",
    )
)  # fmt: skip


def first_alarm(results: Results) -> Table:
    """By runs: what the first alarm of every indicator is worth at every budget of runs."""
    columns = (
        Column("indicator", take="item.name"),
        Column("budget", "{:g}".format, take="at.budget"),
        Column("label_by_runs", take="first.label"),
        Column("alarm_eligible", yes_no, "c", take="item.x_alarm_eligible"),
        *_OUTCOMES,
        Column(
            "p_adjusted", p_value, take=lambda row: row.first.p_adjusted if row.primary else None
        ),
        *(
            column
            for name in RIVALS
            for column in (
                Column(name, number, take=_rival(name, "warned")),
                Column(f"p_{name}", p_value, take=_rival(name, "p_value")),
            )
        ),
        *(
            Column(f"lead_{tail}", steps, take=f"at.lead_{tail}")
            for tail in ("q05", "q25", "q75", "q95")
        ),
        Column("expected_false", number, take="at.expected"),
        Column("upper_false", number, take="at.upper"),
        Column("budget_met", yes_no, "c", take="at.met"),
        Column("threshold", _threshold, take="at.threshold"),
        *_COUNTS,
        Column("group", take="item.group"),
        Column("reasons", take=lambda row: "; ".join(map(reason, row.first.reasons))),
        Column("label_by_windows", take="item.label"),
    )
    main = primary_budget(results)
    rows = [
        FirstAlarmRow(item, item.x_first_alarm, point, point.budget == main)
        for item in results.indicators
        if item.x_first_alarm is not None
        for point in item.x_first_alarm.at_budget
    ]
    return Table.of(rows, columns, "first_alarm", "Acting on the first alarm, by runs")


def _rival(name: str, path: str) -> Callable[[FirstAlarmRow], Any]:
    return lambda row: follow(row.at.rivals.get(name), path)


def other_events(results: Results) -> Table:
    """The same scores before every event of the design, at the budget that decides."""
    columns = (
        Column("indicator", take="item.name"),
        Column("event", take="event"),
        Column("primary", yes_no, "c", take="primary"),
        *_OUTCOMES,
        Column("threshold", _threshold, take="at.threshold"),
        *_COUNTS,
    )
    return Table.of(
        _before_events(results, results.indicators),
        columns,
        "other_events",
        "The same scores before other events, each with thresholds of its own",
    )


def _before_events(results: Results, items: Sequence[IndicatorRecord]) -> Iterator[FirstAlarmRow]:
    """Each indicator before the primary event, then before the others; nothing without others."""
    main = primary_budget(results)
    own = results.design.event_name if results.design else ""
    for item in items:
        first = item.x_first_alarm
        if first is None or main is None or not first.other_events:
            continue
        yield FirstAlarmRow(item, first, first.at(main), event=own)
        for other in first.other_events:
            yield FirstAlarmRow(item, first, other.at, primary=False, event=other.event)


class OperatingPoint(NamedTuple):
    """One indicator at one target rate: what its alarms are worth, and what they cost."""

    item: IndicatorRecord
    worth: OperatingPointRecord
    cost: AchievedRecord | None = None


def utility_at_fpr(results: Results) -> Table:
    """Table 2: what an alarm is worth at each operating point."""
    columns = (
        Column("indicator", take="item.name"),
        Column("FPR", "{:g}".format, take="worth.fpr"),
        Column("coverage", number, take="worth.coverage"),
        Column("lead_time_median", steps, take="worth.lead_time_median"),
        Column("lead_time_IQR", steps, take="worth.lead_time_iqr"),
        Column("lead_time_success", number, take="worth.lead_time_success"),
        Column("lead_time_q05", steps, take="worth.x_lead_time_q05"),
        Column("lead_time_q95", steps, take="worth.x_lead_time_q95"),
        Column("coverage_low", number, take="worth.x_coverage_interval.low"),
        Column("coverage_high", number, take="worth.x_coverage_interval.high"),
        *(
            column
            for name in NULLS
            for column in (
                Column(f"{name}_null", number, take=_null(name, "mean_coverage")),
                Column(f"p_{name}", p_value, take=_null(name, "p_value")),
            )
        ),
        Column("false_alarms_per_run", number, take="worth.x_false_alarms_per_run"),
        Column("false_alarms_per_10k_steps", number, take="worth.x_false_alarms_per_10k_steps"),
        Column("time_in_warning", number, take="worth.x_time_in_warning"),
        Column("episode_precision", number, take="worth.x_episode_precision"),
        Column("n_events", "{:,}".format, take="worth.x_n_events"),
        Column("n_covered", "{:,}".format, take="worth.x_n_covered"),
        Column("n_too_early", "{:,}".format, take="worth.x_n_too_early"),
        Column("threshold", _threshold, take="worth.x_threshold"),
        Column("sees_test_labels", yes_no, "c", take="item.x_sees_test_labels"),
    )
    points = [
        OperatingPoint(item, point) for item in results.indicators for point in item.layer_C.at_fpr
    ]
    return Table.of(points, columns, "utility_at_fpr", "Utility at operating points")


def _null(name: str, path: str) -> Callable[[OperatingPoint], Any]:
    return lambda point: follow(point.worth.nulls.get(name), path)


def _threshold(value: float) -> str:
    return number(value) if math.isinf(value) else f"{value:.4g}"


def robustness(results: Results) -> Table:
    """Table 3: whether the label survives small admissible changes."""
    columns = (
        Column("indicator", take="name"),
        Column("family_size", "{:,}".format, take="layer_D.family_size"),
        Column("pass_rate", number, take="layer_D.pass_rate"),
        Column("label_flip_rate", number, take="layer_D.label_flip_rate"),
        Column("notes", take="layer_D.sensitivity_notes"),
        Column("label", take="label"),
        Column("central_label", take="layer_D.x_central_label"),
        Column("sees_test_labels", yes_no, "c", take="x_sees_test_labels"),
    )
    caption = "Robustness over the preregistered family"
    return Table.of(results.indicators, columns, "robustness", caption)


def per_run(results: Results) -> Table:
    """Protocol `compat`: windows, diagnostics and ranking of every run, as `x_per_run` has them."""
    columns = (
        Column("indicator"),
        Column("run"),
        Column("n_pos", str),
        Column("n_neg", str),
        *(
            Column(name, "{:.6g}".format)
            for name in ("n_eff", "n_eff_ratio", "k_eff", "tie_dom", "roc_auc", "average_precision")
        ),
    )
    rows = [
        (item.name, *(row[column.name] for column in columns[1:]))
        for item in results.indicators
        for row in (item.model_extra or {}).get("x_per_run", ())
    ]
    return Table(columns, rows, "per_run", "Every run in the reference's computation")


def tradeoff(results: Results) -> Table:
    """Protocol `compat`: what each threshold costs and covers, in the reference's columns."""
    columns = (
        Column("indicator", take="item.name"),
        Column("fpr_target", "{:g}".format, take="worth.fpr"),
        Column("threshold", "{:.6g}".format, take="worth.x_threshold"),
        Column("fpr_achieved", number, take="cost.achieved"),
        Column("coverage", number, take="worth.coverage"),
        Column("abstain_rate", number, take=abstain_rate),
        Column("n_covered", str, take="worth.x_n_covered"),
        Column("n_events", str, take="worth.x_n_events"),
        Column("lead_time_mean", steps, take=lead_time_mean),
    )
    points = [point for item in results.indicators for point in operating_points(item)]
    return Table.of(points, columns, "tradeoff", "False alarms against coverage, as published")


def operating_points(item: IndicatorRecord) -> list[OperatingPoint]:
    """Protocol `compat`: an indicator at each of its thresholds, which may share a target rate."""
    pairs = zip(item.layer_C.at_fpr, item.layer_B.achieved, strict=True)
    return [OperatingPoint(item, worth, cost) for worth, cost in pairs]


def abstain_rate(point: OperatingPoint) -> float | None:
    """Protocol `compat`: the share of events without an alarm."""
    return (point.worth.model_extra or {}).get("x_abstain_rate")


def lead_time_mean(point: OperatingPoint) -> float | None:
    """Protocol `compat`: the mean lead time in steps."""
    return (point.worth.model_extra or {}).get("x_lead_time_mean")


def write_tables(results: Results, folder: str | Path) -> list[Path]:
    """Write every table of these results as .csv, .md and .tex, each atomically."""
    tables = [gate_summary(results), utility_at_fpr(results), robustness(results)]
    tables += [table for table in (first_alarm(results), other_events(results)) if table.rows]
    if results.x_protocol == "compat":
        tables += [per_run(results), tradeoff(results)]
    return [path for table in tables for path in table.write(folder)]


# The tables inside report.md and on a model card.


def runs_table(items: Sequence[IndicatorRecord], budget: float) -> Table:
    """Scores with what their first alarm is worth at one budget of runs."""
    columns = (
        Column("score", take=lambda row: shown_name(row.item)),
        Column("label by runs", take="first.label"),
        Column("events warned of", _warned, take="at"),
        Column("in time", percent, take="at.timely"),
        Column(f"runs falsely alarmed, budget {in_words(budget)}", _false_runs, take="at"),
        Column("blind alarms warn of", _blind, take="at"),
        Column("median lead, steps", steps, take="at.lead_median"),
        Column("p", p_value, take="first.p_adjusted"),
        Column("label by windows", take="item.label"),
    )
    rows = [
        FirstAlarmRow(item, item.x_first_alarm, item.x_first_alarm.at(budget))
        for item in items
        if item.x_first_alarm is not None
    ]
    return Table.of(rows, columns)


def events_table(results: Results, items: Sequence[IndicatorRecord]) -> Table:
    """The same scores under every event: a column for each, with warned, false and lead."""
    rows: dict[str, dict[str, str]] = {}
    for row in _before_events(results, items):
        said = (
            f"{percent(row.at.warned)} / {percent(row.at.false_share)} / "
            f"{steps(row.at.lead_median)}"
        )
        rows.setdefault(shown_name(row.item), {})[row.event] = said
    events = list(dict.fromkeys(event for one in rows.values() for event in one))
    columns = (Column("score"), *(Column(event, align="r") for event in events))
    return Table(columns, [(name, *map(one.get, events)) for name, one in rows.items()])


def _warned(point: FirstAlarmPointRecord) -> str:
    return _share(point.warned, point.warned_interval)


def _false_runs(point: FirstAlarmPointRecord) -> str:
    if point.answer == "ABSTAIN":
        return "abstains"
    return _share(point.false_share, point.false_interval)


def _blind(point: FirstAlarmPointRecord) -> str:
    return percent(hardest(point))


def verdict_table(items: Sequence[IndicatorRecord], target: float) -> Table:
    """Scores with their labels at one operating point."""
    row, point = methodcaller("achieved", target), methodcaller("point", target)
    columns = (
        Column("score", take=shown_name),
        Column("label", take="label"),
        Column(f"false alarm rate at {target:g}", _false_alarms, take=row),
        Column("events warned of", _covered, take=point),
        Column("by chance", _chance, take=point),
        Column(
            "median lead, steps", steps, take=lambda item: follow(point(item), "lead_time_median")
        ),
        Column("p", p_value, take=lambda item: shown_p(item, target)),
    )
    return Table.of(items, columns)


def rules_table(items: Sequence[IndicatorRecord]) -> Table:
    """Both rules of layer B side by side: the specification's, and that of `strict`."""
    columns = (
        Column("score", take=shown_name),
        Column("targets met", "{:,}".format, take="layer_B.ok_targets"),
        Column("controllability_pass", yes_no, "c", take="layer_B.controllability_pass"),
        Column("fpr_min", number, take="layer_B.fpr_min"),
        Column("fpr_floor_detected", yes_no, "c", take="layer_B.fpr_floor_detected"),
        Column("within budget", "{:,}".format, take="layer_B.n_within"),
        Column("x_budget_pass", yes_no, "c", take="layer_B.x_budget_pass"),
        Column("certified floor", yes_no, "c", take="layer_B.x_floor_certificate.floor"),
    )
    return Table.of(items, columns)


def strata_table(items: Sequence[IndicatorRecord], target: float) -> Table:
    """Every score in every stratum that was named beforehand."""
    columns = (
        Column("score"),
        Column("stratum"),
        Column("where"),
        Column("runs", str),
        Column("events", str),
        Column(f"false alarm rate at {target:g}", str),
        Column("events warned of", str),
        Column("by chance", percent),
        Column("p", p_value),
        Column("outcome"),
    )
    rows = [
        (
            item.name,
            part.name,
            part.where,
            part.n_runs,
            part.n_events,
            _rate(part.achieved, part.interval),
            _share(part.coverage, part.coverage_interval),
            part.chance,
            part.p_adjusted,
            "passes" if part.passed else "; ".join(map(reason, part.reasons)),
        )
        for item in items
        for part in item.x_strata
    ]
    return Table(columns, rows)


def budget_table(results: Results) -> Table:
    """Each target and the rate to expect of thresholds from so many calibration runs."""
    heads = ("target", "expected rate with this many calibration runs")
    columns = [Column(head, align="r") for head in heads]
    rows: list[Row] = []
    calibration = results.x_calibration
    for target, budget in calibration.effective_budget.items() if calibration else ():
        runs, known = runs_needed(float(target)), follow(calibration, "n_runs")
        few = known is not None and known < runs
        shown = f"no finite threshold: {runs} runs are needed" if few else number(budget)
        rows.append((f"{float(target):g}", shown))
    return Table(columns, rows)


def run_budget_table(results: Results) -> Table:
    """Each budget of runs, and what thresholds of so many calibration runs promise."""
    points: dict[float, FirstAlarmPointRecord] = {}
    for item in results.indicators:
        if item.x_first_alarm is not None and item.family != ENSEMBLE:
            for point in item.x_first_alarm.at_budget:
                points.setdefault(point.budget, point)
    columns = (
        Column("budget of runs", in_words, "l", take="budget"),
        Column("expected share falsely alarmed", number, take="expected"),
        Column("nine in ten locks keep below", number, take="upper"),
    )
    promised = [point for point in points.values() if point.expected is not None]
    return Table.of(promised, columns)


def _false_alarms(row: AchievedRecord) -> str:
    return "abstains" if row.x_answer == "ABSTAIN" else _rate(row.achieved, row.x_interval)


def _covered(point: OperatingPointRecord) -> str:
    return _share(point.coverage, point.x_coverage_interval)


def _rate(value: float | None, interval: IntervalRecord | None) -> str:
    return number(value) + _bracket(interval, ".3f")


def _share(value: float | None, interval: IntervalRecord | None) -> str:
    return "–" if value is None else f"{value:.0%}{_bracket(interval, '.0%')}"


def _bracket(interval: IntervalRecord | None, form: str) -> str:
    low, high = ends(interval)
    return "" if math.isnan(low) else f" [{low:{form}}, {high:{form}}]"


def _chance(point: OperatingPointRecord) -> str:
    return ", ".join(f"{null.mean_coverage:.0%}" for null in point.nulls.values()) or "–"
