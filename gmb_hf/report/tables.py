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

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.escape import number, p_value, percent, steps, yes_no
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import Column, Line, Table, follow
from gmb_hf.benchmark.first_alarm import RIVALS, AheadRecord, FirstAlarmPointRecord, VisibleRecord
from gmb_hf.benchmark.operationality import AchievedRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord, StratumRecord
from gmb_hf.core.nulls import BOTH, Unit, labels_of
from gmb_hf.core.thresholds import in_words, runs_needed
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.report.answer import RankedVerdicts, reason, shown_name, shown_p


class ScoreRow(NamedTuple):
    """One score: by runs at one budget, by windows at one target, or both."""

    item: IndicatorRecord
    at: FirstAlarmPointRecord | None = None
    worth: OperatingPointRecord | None = None
    cost: AchievedRecord | None = None
    p_value: float | None = None  # by windows
    primary: bool = True
    event: str = ""

    @property
    def reasons(self) -> str:
        """Why it may not raise an alarm."""
        return "; ".join(map(reason, self.item.x_reasons))

    @property
    def p_by_runs(self) -> float | None:
        """The p-value by runs, which is of the primary budget."""
        return follow(self.item.x_first_alarm, "p_adjusted") if self.primary else None

    @property
    def visible(self) -> VisibleRecord | None:
        """What could be seen at the first alarms, which is of the primary budget."""
        return follow(self.item.x_first_alarm, "visible") if self.primary else None

    @property
    def ahead(self) -> AheadRecord | None:
        """How much earlier it comes than the learned metric, at the primary budget."""
        return follow(self.item.x_first_alarm, "ahead") if self.primary else None

    @property
    def decided_by(self) -> str:
        """Which rule of layer B decided."""
        return self.item.layer_B.x_decided_by or ""

    @property
    def scope(self) -> str:
        """Where it may raise an alarm, if only there."""
        return follow(self.item.x_scope, "where") or ""

    @property
    def abstain_rate(self) -> float | None:
        """Protocol `compat`: the share of events without an alarm."""
        return (follow(self.worth, "model_extra") or {}).get("x_abstain_rate")

    @property
    def lead_time_mean(self) -> float | None:
        """Protocol `compat`: the mean lead time in steps."""
        return (follow(self.worth, "model_extra") or {}).get("x_lead_time_mean")


def _threshold(value: float) -> str:
    return number(value) if math.isinf(value) else f"{value:.4g}"


_SHOWN: dict[str, Callable[[Any], str]] = {
    "number": number,
    "p_value": p_value,
    "percent": percent,
    "steps": steps,
    "threshold": _threshold,
    "yes_no": yes_no,
}


def estimate(value: float | None, within: IntervalRecord | None, show: Callable[[Any], str]) -> str:
    """A value and its interval in brackets, if it has one."""
    if value is None or within is None:
        return show(value)
    return f"{show(value)} [{show(within.low)}, {show(within.high)}]"


def _column(name: str, take: str, show: str = "", align: str = "", interval: str = "") -> Column:
    """A column as a file has it; `_SHOWN` or a format says how it reads."""
    how = show.format if "{" in show else _SHOWN.get(show)
    if not interval or how is None:
        return Column(name, how, align, take)

    def text(row: Any) -> str:
        return estimate(follow(row, take), follow(row, interval), how)

    return Column(name, str, align, text)


def _columns(path: Path) -> dict[str, tuple[Column, ...]]:
    """The columns of a file by the name of their table."""
    return {table: tuple(_column(*one) for one in rows) for table, rows in load_yaml(path).items()}


COLUMNS = _columns(Path(__file__).with_name("columns.yaml"))
DETECTION, FALSE_ALARMS = COLUMNS["detection"], COLUMNS["false_alarms"]
"""Columns of whatever holds an outcome of first alarms as `at`."""


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
        about: what it means, in words.
        interval: where its 95% interval is, if it has one.
        answer: where it is said that no finite threshold keeps the budget ("ABSTAIN").
        from_width: the narrowest terminal that shows it.
        best: "high" or "low": which end of it is the better one.
        optional: whether it is shown only where some score has it.
    """

    unit: Unit
    name: str
    head: str
    short: str
    take: str
    show: Callable[[Any], str]
    about: str
    interval: str = ""
    answer: str = ""
    from_width: int = 0
    best: str = "high"
    optional: bool = False

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


def units(found: RankedVerdicts) -> dict[Unit, str]:
    """The units that were judged, each with its primary operating point: runs first."""
    by_windows = f"By windows, target {found.target:g}"
    if found.budget is None:
        return {"windows": by_windows}
    return {"runs": f"By runs, budget {in_words(found.budget)}", "windows": by_windows}


_SCORE_COLUMNS = tuple(
    ScoreColumn(**{**fields, "show": _SHOWN[fields["show"]]})
    for fields in load_yaml(Path(__file__).with_name("scores.yaml"))
)


def score_columns(found: RankedVerdicts) -> list[ScoreColumn]:
    """By runs, where first alarms were judged; then by windows."""
    named = {unit: ", ".join(labels_of(unit).values()) for unit in BOTH}
    rows = score_rows(found, found.ranked)
    columns = [
        replace(one, about=one.about.format(**named))
        for one in _SCORE_COLUMNS
        if not one.optional or any(one.value(row) is not None for row in rows)
    ]
    if found.budget is not None:
        return columns[:-1]
    # Alone, they have the terminal to themselves.
    widths = (0, 0, 0, 0, 100, 100)
    by_windows = [one for one in columns if one.unit == "windows"]
    return [
        replace(one, short=one.short.replace(" (windows)", ""), from_width=width)
        for one, width in zip(by_windows, widths, strict=True)
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
        Column("label", take="item.shown_label"),
        *(Column(one.full, str, take=one.text) for one in score_columns(found)),
    )
    return Table.of(score_rows(found, items), columns)


_GATE_COLUMNS = (
    Column("unit", take="unit"),
    Column("gate", take="gate"),
    Column("state", take="state"),
    Column("what stands against it", take="detail", null="", shrinks_to=24, wraps=True),
    Column(
        "least runs to settle it", "{:,}".format, take="runs_to_settle", null="", from_width=100
    ),
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
        *COLUMNS["early_and_missed"],
        *FALSE_ALARMS,
        *COLUMNS["lead_and_chance"],
        *_baselines([*labels_of("runs")], lambda row: row.at.baselines if row.at else {}),
    ]


def first_alarm(results: Results) -> Table:
    """By runs: what the first alarm of every indicator is worth at every budget of runs."""
    main = results.primary_run_budget
    columns = (
        *COLUMNS["first_alarm"],
        *_outcomes(),
        *COLUMNS["first_alarm_p"],
        *_baselines([*RIVALS], lambda row: row.at.controls if row.at else {}),
        *COLUMNS["first_alarm_promise"],
        *COLUMNS["counts"],
        *COLUMNS["first_alarm_verdict"],
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
        *COLUMNS["other_events"],
        *_outcomes(),
        *COLUMNS["other_events_threshold"],
        *COLUMNS["counts"],
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
        *COLUMNS["gate_summary"],
        *(
            Column(f"{head}_{target:g}", number, take=_achieved(target, path))
            for target in sorted(targets)
            for head, path in (
                ("achieved_fpr", "achieved"),
                ("fpr_low", "x_interval.low"),
                ("fpr_high", "x_interval.high"),
            )
        ),
        *COLUMNS["gate_summary_verdict"],
    )
    rows = map(ScoreRow, results.indicators)
    return Table.of(rows, columns, "gate_summary", "Operationality gate summary")


def _achieved(target: float, path: str) -> Callable[[ScoreRow], Any]:
    return lambda row: follow(row.item.achieved(target), path)


def utility_at_fpr(results: Results) -> Table:
    """Table 2: what an alarm is worth at each operating point."""
    columns = (
        *COLUMNS["utility_at_fpr"],
        *_baselines(
            [*labels_of("windows")], lambda row: row.worth.x_baselines if row.worth else {}
        ),
        *COLUMNS["utility_of_alarms"],
    )
    points = [
        ScoreRow(item, worth=point) for item in results.indicators for point in item.layer_C.at_fpr
    ]
    return Table.of(points, columns, "utility_at_fpr", "Utility at operating points")


def robustness(results: Results) -> Table:
    """Table 3: whether the result survives small admissible changes, by windows and by runs."""
    caption = "Robustness over the preregistered family"
    return Table.of(map(ScoreRow, results.indicators), COLUMNS["robustness"], "robustness", caption)


def per_run(results: Results) -> Table:
    """Protocol `compat`: windows, diagnostics and ranking of every run, as `x_per_run` has them."""
    columns = COLUMNS["per_run"]
    rows = [
        (item.name, *(row[column.name] for column in columns[1:]))
        for item in results.indicators
        for row in (item.model_extra or {}).get("x_per_run", ())
    ]
    return Table(columns, rows, "per_run", "Every run in the reference's computation")


def tradeoff(results: Results) -> Table:
    """Protocol `compat`: what each threshold costs and covers, in the reference's columns."""
    points = [point for item in results.indicators for point in operating_points(item)]
    caption = "False alarms against coverage, as published"
    return Table.of(points, COLUMNS["tradeoff"], "tradeoff", caption)


def operating_points(item: IndicatorRecord) -> list[ScoreRow]:
    """Protocol `compat`: an indicator at each of its thresholds, which may share a target rate."""
    pairs = zip(item.layer_C.at_fpr, item.layer_B.achieved, strict=True)
    return [ScoreRow(item, worth=worth, cost=cost) for worth, cost in pairs]


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
    return Table.of(map(ScoreRow, results.indicators), [columns[name] for name in names])


class _StratumRow(NamedTuple):
    """One score in one stratum."""

    item: IndicatorRecord
    part: StratumRecord

    @property
    def outcome(self) -> str:
        """Whether it passes there, or why not."""
        return "passes" if self.part.passed else "; ".join(map(reason, self.part.reasons))


def strata_table(items: Sequence[IndicatorRecord]) -> Table:
    """Every score in every stratum that was named beforehand, by runs and by windows."""
    rows = (_StratumRow(item, part) for item in items for part in item.x_strata)
    return Table.of(rows, COLUMNS["strata"])


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
