"""The three tables of the specification (section 8), as CSV, Markdown and LaTeX.

The specification's columns come first and keep their names; ours follow to the right. CSV holds
every number in full, the other two are rounded for readers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gmb_hf import escape
from gmb_hf.benchmark.results import IndicatorRecord, IntervalRecord, Results
from gmb_hf.files import write_text

LABELS = (
    "SUPPORTED_FOR_ALARM",
    "SCOPE_LIMITED",
    "INCONCLUSIVE",
    "ESTIMATOR_UNSTABLE",
    "RANK_ONLY",
)
"""The five labels, in the order in which they are listed."""

GROUPS = {
    "monitor": "Sees no test labels: a monitor",
    "undeclared": "Not declared whether it sees test labels",
    "oracle": "Sees test labels: an oracle, shown for comparison",
    "control": "Controls: what any monitor must beat",
}
"""The groups that indicators are shown in, in this order."""

REASONS = {
    "compat_protocol": "repeats the published computation",
    "coverage_low": "warns of too few events",
    "few_events": "too few events",
    "few_runs": "too few calibration runs",
    "fpr_floor": "false-alarm floor",
    "fpr_uncontrolled": "false rate uncontrolled",
    "interval_straddles": "interval straddles a line",
    "label_flips": "label flips too easily",
    "lead_short": "warns too late",
    "no_better_than_chance": "no better than chance",
    "no_negative_windows": "no negative windows",
    "no_ranking_signal": "does not rank",
}


def reason(code: str) -> str:
    """A reason code in words; an unknown code speaks for itself."""
    return REASONS.get(code, code.replace("_", " "))


def group_of(item: IndicatorRecord) -> str:
    """The key in `GROUPS` that an indicator belongs to."""
    if item.family == "control":
        return "control"
    if item.x_sees_test_labels is None:
        return "undeclared"
    return "oracle" if item.x_sees_test_labels else "monitor"


Cell = str | float | int | bool | None
Show = Callable[[Any], str]


def _text(value: str | None) -> str:
    return "–" if value is None else value


@dataclass(frozen=True)
class Column:
    """One column: its name, how a value is shown to readers, and how it is aligned (l, r, c)."""

    name: str
    show: Show = _text
    align: str = "r"


@dataclass(frozen=True)
class Table:
    """A table of plain values, rows in the order of the results.

    Attributes:
        notes: without which the numbers are not to be read; they go with the table in every form.
    """

    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """CSV (RFC 4180) with every digit; an empty cell is a number that does not exist.

        Notes stand in a last column, `note`, of every row.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        note = ["; ".join(self.notes)] if self.notes else []
        writer.writerow([*(column.name for column in self.columns), *(["note"] if note else [])])
        writer.writerows([[*(_plain(cell) for cell in row), *note] for row in self.rows])
        return out.getvalue()

    def to_markdown(self) -> str:
        """A pipe table, its notes below."""
        rules = {"l": ":---", "r": "---:", "c": ":---:"}
        lines = [
            [escape.markdown(column.name) for column in self.columns],
            [rules[column.align] for column in self.columns],
            *(
                [
                    escape.markdown(text) if column.show is _text else text
                    for column, text in zip(self.columns, row, strict=True)
                ]
                for row in self._shown()
            ),
        ]
        below = "".join(f"\n{escape.markdown(note)}\n" for note in self.notes)
        return "".join(f"| {' | '.join(line)} |\n" for line in lines) + below

    def to_latex(self) -> str:
        """A `table` environment; it needs the packages booktabs and graphicx."""
        head = " & ".join(escape.latex(column.name) for column in self.columns)
        body = "".join(
            "  " + " & ".join(_latex_cell(text) for text in row) + r" \\" + "\n"
            for row in self._shown()
        )
        return (
            "% needs \\usepackage{booktabs,graphicx}\n"
            "\\begin{table}\n  \\centering\n"
            f"  \\caption{{{escape.latex('. '.join([self.caption, *self.notes]))}}}\n"
            "  \\resizebox{\\textwidth}{!}{%\n"
            f"  \\begin{{tabular}}{{{''.join(column.align for column in self.columns)}}}\n"
            f"  \\toprule\n  {head} \\\\\n  \\midrule\n{body}  \\bottomrule\n"
            "  \\end{tabular}}\n\\end{table}\n"
        )

    def _shown(self) -> Iterator[list[str]]:
        for row in self.rows:
            yield [column.show(cell) for column, cell in zip(self.columns, row, strict=True)]


def gate_summary(results: Results) -> Table:
    """Table 1: ranking, the operationality gate, and the label of every indicator."""
    targets = _targets(results)
    columns = (
        Column("indicator", align="l"),
        Column("AUC", escape.number),
        Column("AP", escape.number),
        Column("controllability_pass", escape.yes_no, "c"),
        Column("fpr_floor", escape.yes_no, "c"),
        Column("ok_targets", _count),
        Column("label", align="l"),
        Column("family", align="l"),
        Column("sees_test_labels", escape.yes_no, "c"),
        *(
            Column(f"{what}_{target:g}", escape.number)
            for target in targets
            for what in ("achieved_fpr", "fpr_low", "fpr_high")
        ),
        Column("f_min_pos", escape.number),
        Column("p_adjusted", escape.p_value),
        Column("reasons", align="l"),
        Column("scope", align="l"),
    )
    rows = []
    for item in results.indicators:
        certificate = item.layer_B.x_floor_certificate
        rows.append(
            (
                item.name,
                item.layer_A.auc,
                item.layer_A.ap,
                item.layer_B.controllability_pass,
                item.layer_B.fpr_floor_detected,
                item.layer_B.ok_targets,
                item.label,
                item.family,
                item.x_sees_test_labels,
                *(cell for target in targets for cell in _achieved(item, target)),
                certificate.f_min_pos if certificate else None,
                item.x_p_adjusted,
                "; ".join(reason(code) for code in item.x_reasons),
                item.x_scope.where if item.x_scope else "",
            )
        )
    return Table("gate_summary", "Operationality gate summary", columns, tuple(rows))


def utility_at_fpr(results: Results) -> Table:
    """Table 2: what an alarm is worth at each operating point."""
    columns = (
        Column("indicator", align="l"),
        Column("FPR", lambda value: f"{value:g}"),
        Column("coverage", escape.number),
        Column("lead_time_median", escape.steps),
        Column("lead_time_IQR", escape.steps),
        Column("lead_time_success", escape.number),
        Column("coverage_low", escape.number),
        Column("coverage_high", escape.number),
        Column("shift_null", escape.number),
        Column("p_shift", escape.p_value),
        Column("risk_set_null", escape.number),
        Column("p_risk_set", escape.p_value),
        Column("false_alarms_per_run", escape.number),
        Column("false_alarms_per_10k_steps", escape.number),
        Column("time_in_warning", escape.number),
        Column("episode_precision", escape.number),
        Column("n_events", _count),
        Column("n_covered", _count),
        Column("n_too_early", _count),
        Column("threshold", _threshold),
        Column("sees_test_labels", escape.yes_no, "c"),
    )
    rows = []
    for item in results.indicators:
        for point in item.layer_C.at_fpr:
            shift, risk = point.x_shift_null, point.x_risk_set_null
            rows.append(
                (
                    item.name,
                    point.fpr,
                    point.coverage,
                    point.lead_time_median,
                    point.lead_time_iqr,
                    point.lead_time_success,
                    *_ends(point.x_coverage_interval),
                    shift.mean_coverage if shift else None,
                    shift.p_value if shift else None,
                    risk.mean_coverage if risk else None,
                    risk.p_value if risk else None,
                    point.x_false_alarms_per_run,
                    point.x_false_alarms_per_10k_steps,
                    point.x_time_in_warning,
                    point.x_episode_precision,
                    point.x_n_events,
                    point.x_n_covered,
                    point.x_n_too_early,
                    point.x_threshold,
                    item.x_sees_test_labels,
                )
            )
    return Table("utility_at_fpr", "Utility at operating points", columns, tuple(rows))


def robustness(results: Results) -> Table:
    """Table 3: whether the label survives small admissible changes."""
    columns = (
        Column("indicator", align="l"),
        Column("family_size", _count),
        Column("pass_rate", escape.number),
        Column("label_flip_rate", escape.number),
        Column("notes", align="l"),
        Column("label", align="l"),
        Column("central_label", align="l"),
        Column("sees_test_labels", escape.yes_no, "c"),
    )
    rows = tuple(
        (
            item.name,
            item.layer_D.family_size,
            item.layer_D.pass_rate,
            item.layer_D.label_flip_rate,
            item.layer_D.sensitivity_notes,
            item.label,
            item.layer_D.x_central_label,
            item.x_sees_test_labels,
        )
        for item in results.indicators
    )
    return Table("robustness", "Robustness over the preregistered family", columns, rows)


def write_tables(results: Results, folder: str | Path) -> list[Path]:
    """Write the three tables as .csv, .md and .tex, each atomically; returns the nine paths."""
    return write_each((gate_summary(results), utility_at_fpr(results), robustness(results)), folder)


def write_each(tables: Iterable[Table], folder: str | Path) -> list[Path]:
    """Write each table as .csv, .md and .tex."""
    written = []
    for table in tables:
        stem = Path(folder) / table.name
        written.append(write_text(stem.with_suffix(".csv"), table.to_csv()))
        written.append(write_text(stem.with_suffix(".md"), table.to_markdown()))
        written.append(write_text(stem.with_suffix(".tex"), table.to_latex()))
    return written


def _targets(results: Results) -> Sequence[float]:
    """Every target of any indicator, ascending."""
    return sorted({row.target for item in results.indicators for row in item.layer_B.achieved})


def _achieved(item: IndicatorRecord, target: float) -> tuple[Cell, Cell, Cell]:
    row = item.achieved(target)
    return (None, None, None) if row is None else (row.achieved, *_ends(row.x_interval))


def _ends(interval: IntervalRecord | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _plain(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, float) else str(cell)


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _threshold(value: float | None) -> str:
    return escape.number(value) if value is None or abs(value) == float("inf") else f"{value:.4g}"


def _latex_cell(text: str) -> str:
    special = {"–": "--", "∞": r"$\infty$", "−∞": r"$-\infty$"}
    return special.get(text) or escape.latex(text)


# The reference's own two tables, for results of the protocol `compat`.


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
