"""The tables of an evaluation: first alarms by runs, the specification's three (section 8) by
windows, two of `compat`, and those of the report.

In the specification's tables its columns come first and keep their names; ours follow to the right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from gmb_hf.base.escape import number, p_value, percent, steps, yes_no
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import Column, Line, Table, follow
from gmb_hf.benchmark.first_alarm import RIVALS, FirstAlarmPointRecord
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord, StratumRecord
from gmb_hf.core.nulls import BOTH, Unit, labels_of
from gmb_hf.core.thresholds import in_words, runs_needed
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.report.answer import RankedVerdicts, reason, shown_name, shown_p

_count = "{:,}".format


class ScoreRow(NamedTuple):
    """One score: by runs at one budget, by windows at one target, or both."""

    item: IndicatorRecord
    at: FirstAlarmPointRecord | None = None
    worth: OperatingPointRecord | None = None
    cost: AchievedRecord | None = None
    p_value: float | None = None  # by windows
    primary: bool = True
    event: str = ""


# What a report, a page, a terminal and a comparison show of a score: declared once.


@dataclass(frozen=True)
class ScoreColumn:
    """One number of a score, at the primary operating point of a unit of counting.

    Attributes:
        unit: runs or windows.
        name: of the number in JSON and comparisons, as in `Results.to_pandas` where it has it.
        head: the heading on a page, under that of the unit.
        short: the heading on a terminal.
        take: where it is in a `ScoreRow`: attributes with dots between them.
        show: how it reads.
        interval: where its 95% interval is, if it has one.
        answer: where it is said that no finite threshold keeps the budget ("ABSTAIN").
        from_width: the narrowest terminal that shows it.
        about: what it means, in words.
    """

    unit: Unit
    name: str
    head: str
    short: str
    take: str
    show: Callable[[Any], str]
    interval: str
    answer: str
    from_width: int
    about: str

    @property
    def full(self) -> str:
        """The heading where none of the unit stands above it."""
        return self.head if self.unit == "runs" or self.name == "AUC" else f"{self.head} by windows"

    def value(self, row: ScoreRow) -> Any:
        """The number; None where there is none."""
        return follow(row, self.take)

    def abstains(self, row: ScoreRow) -> bool:
        """Whether the score has no finite threshold here."""
        return bool(self.answer) and follow(row, self.answer) == "ABSTAIN"

    def text(self, row: ScoreRow) -> str:
        """The number as readers see it, with its interval in brackets."""
        if self.abstains(row):
            return "abstains"
        within = follow(row, self.interval) if self.interval else None
        return estimate(self.value(row), within, self.show)

    def on_terminal(self, row: ScoreRow) -> Any:
        """The number, None as well where the score abstains."""
        return None if self.abstains(row) else self.value(row)


def estimate(value: float | None, within: IntervalRecord | None, show: Callable[[Any], str]) -> str:
    """A value and its interval in brackets, if it has one."""
    if value is None or within is None:
        return show(value)
    return f"{show(value)} [{show(within.low)}, {show(within.high)}]"


def units(found: RankedVerdicts) -> dict[Unit, str]:
    """The units that were judged, each with its primary operating point: runs first."""
    by_windows = f"By windows, target {found.target:g}"
    if found.budget is None:
        return {"windows": by_windows}
    return {"runs": f"By runs, budget {in_words(found.budget)}", "windows": by_windows}


_BY_RUNS: tuple[tuple[Any, ...], ...] = (
    ("runs", "detection_rate", "detection rate", "detected",
     "at.detection_rate", percent, "at.detection_interval", "at.answer", 0,
     "share of events whose first alarm comes before t* and is not false"),
    ("runs", "timely_rate", "timely detection rate", "timely",
     "at.timely_rate", percent, "", "at.answer", 0,
     "share of events detected within the horizon before t*"),
    ("runs", "false_alarm_rate", "false-alarm rate per run", "false",
     "at.false_alarm_rate", percent, "at.false_alarm_interval", "at.answer", 0,
     "share of runs with a false alarm"),
    ("runs", "chance", "chance", "chance", "at.chance", percent, "", "", 0,
     "detection rate of the hardest chance baseline at the same cost: {runs}"),
    ("runs", "lead_median", "median lead time", "lead", "at.lead_median", steps, "", "", 0,
     "steps from the first alarm to t*, median over detected events"),
    ("runs", "p_adjusted", "p", "p", "item.x_first_alarm.p_adjusted", p_value, "", "", 0,
     "that the hardest baseline detects as many events, adjusted over all scores"),
)  # fmt: skip
_BY_WINDOWS: tuple[tuple[Any, ...], ...] = (
    ("windows", "FPR", "false positive rate", "FPR",
     "cost.achieved", number, "cost.x_interval", "cost.x_answer", 92,
     "share of windows far before an event in which the score alarms"),
    ("windows", "coverage", "coverage", "cover",
     "worth.coverage", percent, "worth.x_coverage_interval", "cost.x_answer", 100,
     "share of events with an alarm in the horizon before t*"),
    ("windows", "chance_by_windows", "chance", "chance (windows)",
     "worth.chance", percent, "", "", 200,
     "coverage of the hardest chance baseline: {windows}"),
    ("windows", "p_by_windows", "p", "p (windows)", "p_value", p_value, "", "", 200,
     "that the hardest baseline covers as many events, adjusted over all scores"),
    ("windows", "AUC", "AUC", "AUC", "item.layer_A.auc", number, "", "", 108,
     "how well it ranks the windows before an event above all others"),
    ("windows", "lead_by_windows", "median lead time", "lead (windows)",
     "worth.lead_time_median", steps, "", "", 0,
     "steps from the first alarm in the horizon to t*, median over covered events"),
)  # fmt: skip


def score_columns(found: RankedVerdicts) -> list[ScoreColumn]:
    """By runs, where first alarms were judged; then by windows."""
    named = {unit: ", ".join(labels_of(unit).values()) for unit in BOTH}
    columns = [ScoreColumn(*fields) for fields in (*_BY_RUNS, *_BY_WINDOWS)]
    columns = [replace(one, about=one.about.format(**named)) for one in columns]
    if found.budget is not None:
        return columns[:-1]
    # Alone, they have the terminal to themselves.
    widths = (0, 0, 0, 0, 100, 100)
    return [
        replace(one, short=one.short.replace(" (windows)", ""), from_width=width)
        for one, width in zip(columns[len(_BY_RUNS) :], widths, strict=True)
    ]


def score_rows(found: RankedVerdicts, items: Sequence[IndicatorRecord]) -> list[ScoreRow]:
    """Scores at the primary operating points of both units."""
    return [
        ScoreRow(
            item,
            found.point(item),
            item.point(found.target),
            item.achieved(found.target),
            shown_p(item, found.target),
        )
        for item in items
    ]


def score_table(found: RankedVerdicts, items: Sequence[IndicatorRecord]) -> Table:
    """Scores with their labels and numbers, by runs and by windows."""
    columns = (
        Column("score", take=lambda row: shown_name(row.item)),
        Column("label", take="item.label"),
        *(Column(one.full, str, take=one.text) for one in score_columns(found)),
    )
    return Table.of(score_rows(found, items), columns)


_GATE_COLUMNS = (
    Column("unit", take="unit"),
    Column("gate", take="gate"),
    Column("state", take="state"),
    Column("what stands against it", take="detail", null="", shrinks_to=24, wraps=True),
    Column("runs to settle it", _count, take="runs_to_settle", null="", from_width=100),
)


def gates_table(item: IndicatorRecord) -> Table:
    """Every gate of a score, in both units."""
    return Table.of(item.x_gates, _GATE_COLUMNS)


def unmet_gates_table(items: Sequence[IndicatorRecord]) -> Table:
    """The gates of scores, in both units, that are not met."""
    rows = [
        (shown_name(item), *row)
        for item in items
        for gate, row in zip(item.x_gates, gates_table(item).rows, strict=True)
        if gate.state != "met" and not isinstance(row, Line)
    ]
    return Table((Column("score"), *_GATE_COLUMNS), rows)


# The tables that every evaluation leaves.

_COUNTS = tuple(
    Column(name, _count, take=f"at.{name}")
    for name in (
        "n_events", "n_detected", "n_timely", "n_early", "n_missed", "n_false_before_event",
        "n_event_free", "n_event_free_false", "n_runs", "n_false",
    )
)  # fmt: skip
DETECTION = (
    Column("detection_rate", number, take="at.detection_rate"),
    Column("detection_low", number, take="at.detection_interval.low"),
    Column("detection_high", number, take="at.detection_interval.high"),
    Column("timely_rate", number, take="at.timely_rate"),
)
FALSE_ALARMS = (
    Column("false_alarm_rate", number, take="at.false_alarm_rate"),
    Column("false_alarm_low", number, take="at.false_alarm_interval.low"),
    Column("false_alarm_high", number, take="at.false_alarm_interval.high"),
)
"""Columns of whatever holds an outcome of first alarms as `at`."""


def _baselines(names: Sequence[str], take: Callable[[ScoreRow], dict[str, Any]]) -> list[Column]:
    """The detection rate of each baseline, and its p-value."""

    def beside(name: str, path: str) -> Callable[[ScoreRow], Any]:
        return lambda row: follow(take(row).get(name), path)

    return [
        column
        for name in names
        for column in (
            Column(name, number, take=beside(name, "detection_rate")),
            Column(f"p_{name}", p_value, take=beside(name, "p_value")),
        )
    ]


def _outcomes() -> list[Column]:
    return [
        *DETECTION,
        Column("early_rate", number, take="at.early_rate"),
        Column("miss_rate", number, take="at.miss_rate"),
        *FALSE_ALARMS,
        Column("lead_median", steps, take="at.lead_median"),
        Column("chance", number, take="at.chance"),
        *_baselines([*labels_of("runs")], lambda row: row.at.baselines if row.at else {}),
    ]


def first_alarm(results: Results) -> Table:
    """By runs: what the first alarm of every indicator is worth at every budget of runs."""
    main = results.primary_run_budget
    columns = (
        Column("indicator", take="item.name"),
        Column("budget", "{:g}".format, take="at.budget"),
        Column("label", take="item.label"),
        Column("alarm_eligible", yes_no, "c", take="item.x_alarm_eligible"),
        *_outcomes(),
        Column(
            "p_adjusted",
            p_value,
            take=lambda row: row.item.x_first_alarm.p_adjusted if row.primary else None,
        ),
        *_baselines([*RIVALS], lambda row: row.at.controls if row.at else {}),
        *(
            Column(f"lead_{tail}", steps, take=f"at.lead_{tail}")
            for tail in ("q05", "q25", "q75", "q95")
        ),
        Column("expected_false_alarm_rate", number, take="at.expected"),
        Column("upper_false_alarm_rate", number, take="at.upper"),
        Column("budget_state", take="at.state"),
        Column("threshold", _threshold, take="at.threshold"),
        *_COUNTS,
        Column("group", take="item.group"),
        Column("reasons", take=lambda row: "; ".join(map(reason, row.item.x_reasons))),
    )
    rows = [
        ScoreRow(item, point, primary=point.budget == main)
        for item in results.indicators
        if item.x_first_alarm is not None
        for point in item.x_first_alarm.at_budget
    ]
    return Table.of(rows, columns, "first_alarm", "Acting on the first alarm, by runs")


def other_events(results: Results) -> Table:
    """The same scores before every event of the design, at the budget that decides."""
    columns = (
        Column("indicator", take="item.name"),
        Column("event", take="event"),
        Column("primary", yes_no, "c", take="primary"),
        *_outcomes(),
        Column("threshold", _threshold, take="at.threshold"),
        *_COUNTS,
    )
    return Table.of(
        _before_events(results, results.indicators),
        columns,
        "other_events",
        "The same scores before other events, each with thresholds of its own",
    )


def _before_events(results: Results, items: Sequence[IndicatorRecord]) -> Iterator[ScoreRow]:
    """Each indicator before the primary event, then before the others; nothing without others."""
    main = results.primary_run_budget
    own = results.design.event_name if results.design else ""
    for item in items:
        first = item.x_first_alarm
        if first is None or main is None or not first.other_events:
            continue
        yield ScoreRow(item, first.at(main), event=own)
        for other in first.other_events:
            yield ScoreRow(item, other.at, primary=False, event=other.event)


def gate_summary(results: Results) -> Table:
    """Table 1: ranking, the operationality gate, and the label of every indicator."""
    targets = {row.target for item in results.indicators for row in item.layer_B.achieved}
    columns = (
        Column("indicator", take="name"),
        Column("AUC", number, take="layer_A.auc"),
        Column("AP", number, take="layer_A.ap"),
        Column("controllability_pass", yes_no, "c", take="layer_B.controllability_pass"),
        Column("fpr_floor", yes_no, "c", take="layer_B.fpr_floor_detected"),
        Column("ok_targets", _count, take="layer_B.ok_targets"),
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
        Column("targets_met", _count, take="layer_B.n_met"),
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
        *_baselines(
            [*labels_of("windows")], lambda row: row.worth.x_baselines if row.worth else {}
        ),
        Column("false_alarms_per_run", number, take="worth.x_false_alarms_per_run"),
        Column("false_alarms_per_10k_steps", number, take="worth.x_false_alarms_per_10k_steps"),
        Column("time_in_warning", number, take="worth.x_time_in_warning"),
        Column("episode_precision", number, take="worth.x_episode_precision"),
        Column("n_events", _count, take="worth.x_n_events"),
        Column("n_covered", _count, take="worth.x_n_covered"),
        Column("n_too_early", _count, take="worth.x_n_too_early"),
        Column("threshold", _threshold, take="worth.x_threshold"),
        Column("sees_test_labels", yes_no, "c", take="item.x_sees_test_labels"),
    )
    points = [
        ScoreRow(item, worth=point) for item in results.indicators for point in item.layer_C.at_fpr
    ]
    return Table.of(points, columns, "utility_at_fpr", "Utility at operating points")


def _threshold(value: float) -> str:
    return number(value) if math.isinf(value) else f"{value:.4g}"


def robustness(results: Results) -> Table:
    """Table 3: whether the result survives small admissible changes, by windows and by runs."""
    columns = (
        Column("indicator", take="name"),
        Column("family_size", _count, take="layer_D.family_size"),
        Column("pass_rate", number, take="layer_D.pass_rate"),
        Column("label_flip_rate", number, take="layer_D.label_flip_rate"),
        Column("notes", take="layer_D.sensitivity_notes"),
        Column("label", take="label"),
        *(
            Column(f"runs_{name}", show, take=f"x_first_alarm.robustness.{name}")
            for name, show in (
                ("family_size", _count),
                ("pass_rate", number),
                ("label_flip_rate", number),
            )
        ),
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


def operating_points(item: IndicatorRecord) -> list[ScoreRow]:
    """Protocol `compat`: an indicator at each of its thresholds, which may share a target rate."""
    pairs = zip(item.layer_C.at_fpr, item.layer_B.achieved, strict=True)
    return [ScoreRow(item, worth=worth, cost=cost) for worth, cost in pairs]


def abstain_rate(row: ScoreRow) -> float | None:
    """Protocol `compat`: the share of events without an alarm."""
    return (follow(row, "worth.model_extra") or {}).get("x_abstain_rate")


def lead_time_mean(row: ScoreRow) -> float | None:
    """Protocol `compat`: the mean lead time in steps."""
    return (follow(row, "worth.model_extra") or {}).get("x_lead_time_mean")


def write_tables(results: Results, folder: str | Path) -> list[Path]:
    """Write every table of these results as .csv, .md and .tex, each atomically."""
    tables = [gate_summary(results), utility_at_fpr(results), robustness(results)]
    tables += [table for table in (first_alarm(results), other_events(results)) if table.rows]
    if results.x_protocol == "compat":
        tables += [per_run(results), tradeoff(results)]
    return [path for table in tables for path in table.write(folder)]


# Further tables of the report.


def events_table(results: Results, items: Sequence[IndicatorRecord]) -> Table:
    """The same scores under every event: detection rate, false-alarm rate and lead time."""
    rows: dict[str, dict[str, str]] = {}
    for row in _before_events(results, items):
        rates = (percent(follow(row.at, name)) for name in ("detection_rate", "false_alarm_rate"))
        said = " / ".join([*rates, steps(follow(row.at, "lead_median"))])
        rows.setdefault(shown_name(row.item), {})[row.event] = said
    events = list(dict.fromkeys(event for one in rows.values() for event in one))
    columns = (Column("score"), *(Column(event, align="r") for event in events))
    return Table(columns, [(name, *map(one.get, events)) for name, one in rows.items()])


def rules_table(results: Results) -> Table:
    """Both rules of layer B by windows side by side: the specification's, and that of `strict`."""
    names = ("indicator", "ok_targets", "controllability_pass", "fpr_min", "fpr_floor",
             "targets_met", "budget_pass", "certified_floor")  # fmt: skip
    columns = {column.name: column for column in gate_summary(results).columns}
    return Table.of(results.indicators, [columns[name] for name in names])


class _StratumRow(NamedTuple):
    """One score in one stratum."""

    item: IndicatorRecord
    part: StratumRecord


def strata_table(items: Sequence[IndicatorRecord]) -> Table:
    """Every score in every stratum that was named beforehand, by runs and by windows."""

    def rate(value: str, within: str, show: Callable[[Any], str]) -> Callable[[_StratumRow], str]:
        return lambda row: estimate(follow(row.part, value), follow(row.part, within), show)

    detected, falsely = (
        rate(f"first_alarm.{name}_rate", f"first_alarm.{name}_interval", percent)
        for name in ("detection", "false_alarm")
    )
    columns = (
        Column("score", take="item.name"),
        Column("stratum", take="part.name"),
        Column("where", take="part.where"),
        Column("runs", str, take="part.n_runs"),
        Column("events", str, take="part.n_events"),
        Column("detection rate", str, take=detected),
        Column("false-alarm rate per run", str, take=falsely),
        Column("p", p_value, take="part.first_alarm_p_adjusted"),
        Column("false positive rate by windows", str, take=rate("achieved", "interval", number)),
        Column("coverage by windows", str, take=rate("coverage", "coverage_interval", percent)),
        Column("chance by windows", percent, take="part.chance"),
        Column("p by windows", p_value, take="part.p_adjusted"),
        Column("outcome", take=_outcome),
    )
    return Table.of((_StratumRow(item, part) for item in items for part in item.x_strata), columns)


def _outcome(row: _StratumRow) -> str:
    return "passes" if row.part.passed else "; ".join(map(reason, row.part.reasons))


def budget_tables(results: Results) -> list[Table]:
    """What thresholds from so many calibration runs promise: by runs, then by windows."""
    points: dict[float, FirstAlarmPointRecord] = {}
    for item in results.indicators:
        if item.x_first_alarm is not None and item.family != ENSEMBLE:
            for point in item.x_first_alarm.at_budget:
                points.setdefault(point.budget, point)
    by_runs = (
        Column("budget of runs", in_words, "l", take="budget"),
        Column("expected false-alarm rate per run", number, take="expected"),
        Column("nine in ten locks keep below", number, take="upper"),
    )
    promised = [point for point in points.values() if point.expected is not None]
    calibration, rows = results.x_calibration, []
    for target, budget in calibration.effective_budget.items() if calibration else ():
        runs, known = runs_needed(float(target)), follow(calibration, "n_runs")
        few = known is not None and known < runs
        shown = f"no finite threshold: {runs} runs are needed" if few else number(budget)
        rows.append((f"{float(target):g}", shown))
    heads = ("target by windows", "expected false positive rate")
    by_windows = Table([Column(head, align="r") for head in heads], rows)
    return [one for one in (Table.of(promised, by_runs), by_windows) if one.rows]
