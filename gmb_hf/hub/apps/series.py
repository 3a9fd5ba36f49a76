"""The page of the GMB metrics: runs as a CSV table or as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import parse_json
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.series import judgement_of
from gmb_hf.hub.apps import page
from gmb_hf.hub.apps.page import Answer, number
from gmb_hf.report import style
from gmb_hf.report.curves import align
from gmb_hf.report.style import BLUE, VERMILION, rate_axis, rate_text, step_axis

_NAMES = ("predictions", "references", "steps")
_HORIZON, _NEGATIVE = "#F1EFE6", "#EAF2F8"


def draw(metric: str, call: dict[str, Any], results: dict[str, Any]) -> Figure:
    """Two panels: every run on the clock of its event, then the result.

    `results` are what the metric returned for the call, with `return_per_run`.
    """
    settings = {name: value for name, value in call.items() if name not in _NAMES[:2]}
    judgement = judgement_of(metric, call["predictions"], call["references"], settings)
    with page.page_figure() as figure:
        left, right = figure.subplots(1, 2)
        _scores(left, judgement, by_runs=metric == "gmb_first_alarm")
        _PANELS[metric](right, judgement, results)
    return figure


def _scores(axes: Axes, judgement: Judgement, *, by_runs: bool) -> None:
    scores, design = judgement.evaluation, judgement.design
    axes.set_title("Scores before the event")
    if not judgement.n_events:
        axes.text(0.5, 0.5, "no run has an event", ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    reach = 2 * design.safe_gap
    panel = (scores.values, scores.steps, scores.present, scores.event_step)
    offsets, values = align(*panel, reach=reach)
    before = offsets <= 0
    for row in values[:, before]:
        known = np.isfinite(row)
        axes.plot(offsets[before][known], row[known], color=style.SKY, lw=0.6, alpha=0.55)
    axes.axvspan(-reach, -design.safe_gap, color=_NEGATIVE, zorder=0, lw=0)
    axes.axvspan(-design.horizon, 0, color=_HORIZON, zorder=0, lw=0)
    axes.set_xlim(-reach, 0)
    target = design.primary_run_budget if by_runs else design.primary_fpr
    tau = (judgement.run_calibrated if by_runs else judgement.calibrated).deployed[target]
    if np.isfinite(tau):
        axes.axhline(tau, color=VERMILION, lw=1.2)
    for at, label in (
        ((-reach - design.safe_gap) / 2, "negative"),
        (-design.horizon / 2, "horizon"),
    ):
        axes.text(
            at, 1.0, label, ha="center", va="bottom", fontsize=7, color=style.MUTED,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
    axes.set_title("Scores before the event", pad=14)
    step_axis(axes, "steps from the event", ticks=5)
    axes.set_ylabel(f"score, and its threshold at {rate_text(target)}")


def _discrimination(axes: Axes, judgement: Judgement, results: dict[str, Any]) -> None:
    windows, values = judgement.windows, judgement.evaluation.values
    axes.plot([0, 1], [0, 1], color=style.RULE, lw=1)
    if results["auc"] is not None:
        above, below = np.sort(values[windows.positive]), np.sort(values[windows.negative])
        taus = np.unique(np.concatenate([above, below]))
        true = 1 - np.searchsorted(above, taus, side="left") / len(above)
        false = 1 - np.searchsorted(below, taus, side="left") / len(below)
        axes.plot([*false, 0.0], [*true, 0.0], color=BLUE)
        text = f"AUC {results['auc']:.3f}\nAP {results['ap']:.3f}"
        axes.text(0.95, 0.08, text, ha="right", transform=axes.transAxes)
    axes.set(xlabel="false positive rate of windows", ylabel="true positive rate of windows")
    axes.set_title("Receiver operating characteristic")


def _operationality(axes: Axes, judgement: Judgement, results: dict[str, Any]) -> None:
    design = judgement.design
    targets = np.array(design.fpr_targets)
    achieved = [results[f"fpr@{target!r}"] for target in design.fpr_targets]
    place = np.arange(len(targets))
    axes.set(title="Target and achieved false positive rate", xlabel="target")
    axes.bar(place, achieved, width=0.55, color=BLUE, label="achieved")
    axes.errorbar(
        place, targets, yerr=design.fpr_eps, label="target and tolerance",
        fmt="_", ms=26, color=style.INK, ecolor=style.MUTED, capsize=4,
    )  # fmt: skip
    axes.set_xticks(place, [rate_text(target) for target in design.fpr_targets])
    rate_axis(axes.yaxis)
    axes.legend(loc="upper left")
    axes.margins(y=0.25)


def _utility(axes: Axes, judgement: Judgement, results: dict[str, Any]) -> None:
    target = judgement.design.primary_fpr
    leads = np.array(results[f"lead_time_per_run@{target!r}"])
    leads = leads[np.isfinite(leads)]
    coverage = results[f"coverage@{target!r}"]
    axes.set_title(f"Lead times at a budget of {rate_text(target)}")
    if len(leads):
        axes.hist(leads, bins=12, range=(0, judgement.design.horizon), color=BLUE, rwidth=0.9)
        axes.axvline(float(np.median(leads)), color=VERMILION)
    shown = "no events" if coverage is None else f"{coverage:.0%} of events covered"
    axes.text(0.03, 0.93, shown, transform=axes.transAxes)
    axes.margins(y=0.2)
    step_axis(axes, "lead time, steps", ticks=5)
    axes.set_ylabel("runs")


def _first_alarm(axes: Axes, judgement: Judgement, results: dict[str, Any]) -> None:
    budget = judgement.design.primary_run_budget
    counts = Counter(results[f"outcome_per_run@{budget!r}"])
    colours = {
        "timely": BLUE, "early": style.SKY, "miss": style.MUTED, "false_alarm": VERMILION,
        "correct_rejection": style.RULE,
    }  # fmt: skip
    places = range(len(colours))
    axes.barh(places, [counts[name] for name in colours], height=0.6, color=list(colours.values()))
    axes.set_yticks(places, [name.replace("_", " ") for name in colours])
    axes.invert_yaxis()
    axes.set(title=f"First alarms at a budget of {rate_text(budget)} of runs", xlabel="runs")


def _robustness(axes: Axes, judgement: Judgement, results: dict[str, Any]) -> None:
    members = zip(results["member_passes"], results["member_layer_b_pass"], strict=True)
    counts: Counter[tuple[bool, bool]] = Counter(members)
    kinds = sorted(counts, reverse=True)
    names = [
        "passes" if useful else f"fails\nlayer B {'passes' if operable else 'fails'}"
        for useful, operable in kinds
    ]
    colours = [BLUE if useful else style.RULE for useful, _ in kinds]
    sizes = [counts[kind] for kind in kinds]
    axes.barh(names, sizes, height=0.5, color=colours, edgecolor=style.MUTED, linewidth=0.6)
    axes.set_ylim(-0.5, max(2.5, len(kinds) - 0.5))
    axes.set(title=f"The {results['family_size']} members of the family", xlabel="members")


def _verdict(axes: Axes, judgement: Judgement, results: dict[str, Any]) -> None:
    false = np.array(results["false_alarms_per_run"])
    counts = judgement.negatives.counts
    rates = false[counts > 0] / counts[counts > 0]
    axes.hist(rates, bins=20, range=(0, max(0.2, float(rates.max(initial=0)))), color=BLUE)
    axes.axvline(judgement.design.primary_fpr, color=VERMILION)
    xlabel = "false positive rate of a run, and the budget"
    axes.set(title=f"{results['label']}, exploratory", xlabel=xlabel, ylabel="runs")
    rate_axis(axes.xaxis)


_PANELS: dict[str, Callable[[Axes, Judgement, dict[str, Any]], None]] = {
    "gmb_discrimination": _discrimination,
    "gmb_operationality": _operationality,
    "gmb_utility": _utility,
    "gmb_first_alarm": _first_alarm,
    "gmb_robustness": _robustness,
    "gmb_verdict": _verdict,
}


def series_app(script: Path) -> Any:
    """The page of one GMB metric, whose module lies beside the Space's app.py."""

    def answer(metric: Any, text: str, settings: dict[str, Any]) -> Answer:
        call = {**read_series(text), **settings}
        for name in ("fpr_targets", "run_budgets"):
            if name in settings:
                call[name] = _numbers(name, settings[name])
        if settings.get("calibration") == "by protocol":
            del call["calibration"]
        results: dict[str, Any] = metric.compute(**call)
        return results, draw(metric.name, call, metric.compute(**call, return_per_run=True))

    return page.metric_page(script, "series", answer, example())


def _numbers(name: str, text: Any) -> list[float]:
    try:
        return [float(part) for part in str(text).split(",") if part.strip()]
    except ValueError:
        raise InputError(f"{name} must be numbers separated by commas, got {text!r}") from None


def read_series(text: str) -> dict[str, Any]:
    """Runs from CSV or JSON text, as keyword arguments of a metric.

    Raises:
        InputError: neither of the two, a column or key is missing, or a cell is no number; it names
            the line.
    """
    if not text.strip():
        raise InputError("there are no data; paste a table, or upload a file")
    if not text.lstrip().startswith("{"):
        return _from_csv(text)
    data = parse_json(text, where="the data", foreign=True)  # a score may be NaN
    page.checked_columns(list(data), _NAMES[:2], where="JSON")
    return {name: data[name] for name in _NAMES if name in data}


def example() -> str:
    """Forty made-up runs of 120 checkpoints; the score rises shortly before most of the events."""
    lines = ["run,step,score,event"]
    for run in range(40):
        event = 600 + 10 * (run * 17 % 55)
        random = page.noise(run + 1)
        for step in range(0, 1200, 10):
            rises = run % 5 and 0 < event - step <= 90
            score = next(random) + (0.9 if rises else 0.0)
            lines.append(f"run {run},{step},{score:.3f},{event}")
    return "\n".join(lines)


def _from_csv(text: str) -> dict[str, Any]:
    scores: dict[str, list[float]] = {}
    steps: dict[str, list[float]] = {}
    events: dict[str, float | None] = {}
    for where, row in page.csv_rows(text, ("run", "score")):
        run = str(row["run"])
        scores.setdefault(run, []).append(_measured(row["score"], f"{where}, score"))
        if "step" in row:
            steps.setdefault(run, []).append(_measured(row["step"], f"{where}, step"))
        cell = (row.get("event") or "").strip()
        event = None if cell.lower() in ("", "nan", "none") else number(cell, f"{where}, event")
        if events.setdefault(run, event) != event:
            raise InputError(f"{where}: run {run!r} has another event than in its rows before")
    data: dict[str, Any] = {
        "predictions": list(scores.values()),
        "references": [events[run] for run in scores],
    }
    return {**data, "steps": list(steps.values())} if steps else data


def _measured(cell: str | None, where: str) -> float:
    text = (cell or "").strip()
    return math.nan if text.lower() in ("", "none") else number(text, where)
