"""The page of the GMB metrics: runs as a CSV table or as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

from gmb_hf.apps.page import (
    Answer,
    Page,
    Setting,
    build,
    checked_columns,
    described,
    numbers_in,
    title_of,
)
from gmb_hf.validation import InputError

_FORMATS = """CSV with the columns `run`, `step`, `score` and `event` (the step t* of the run's
event, the same in each of its rows; empty where it had none), or JSON as in a call:
`{"predictions": [[...], ...], "references": [...], "steps": [[...], ...]}`."""

_BY_PROTOCOL, _WHERE = "by protocol", "where thresholds come from"
_SETTINGS = (
    Setting("horizon", 100, info="steps before the event"),
    Setting("safe_gap", 200, info="larger than the horizon"),
    Setting("burn_in", 0, info="steps to ignore"),
    Setting("fpr_targets", "0.01, 0.05, 0.1", info="shares of quiet windows"),
    Setting("lead_time_target", 50, info="steps of warning"),
    Setting("lead_time_median_min", 20, info="for the verdict"),
    Setting("calibration", _BY_PROTOCOL, (_BY_PROTOCOL, "in_sample", "cross_run"), info=_WHERE),
    Setting("protocol", "v0.4", ("v0.4", "strict"), info="of the benchmark"),
)


def series_app(script: Path) -> Any:
    """The page of one GMB metric.

    Args:
        script: the module's own, beside the Space's app.py.
    """
    import evaluate

    metric = evaluate.load(str(script))
    summary = described(script)

    def answer(text: str, settings: dict[str, Any]) -> Answer:
        from gmb_hf.apps.series_figure import draw

        data = read_series(text)
        if "fpr_targets" in settings:
            targets = numbers_in(settings["fpr_targets"], name="fpr_targets")
            settings = {**settings, "fpr_targets": targets}
        if settings.get("calibration") == _BY_PROTOCOL:
            del settings["calibration"]
        call = {**data, **settings}
        results: dict[str, Any] = metric.compute(**call)
        more = metric.compute(**call, return_per_run=True)
        return results, draw(metric.name, call, more)

    return build(Page(title_of(script), summary, _FORMATS, example(), _SETTINGS, answer))


def read_series(text: str) -> dict[str, Any]:
    """Runs from CSV or JSON text, as keyword arguments of a metric.

    Raises:
        InputError: neither of the two, a column or key is missing, or a cell is no number; it names
            the line.
    """
    if not text.strip():
        raise InputError("there are no data; paste a table, or upload a file")
    return _from_json(text) if text.lstrip().startswith("{") else _from_csv(text)


def example() -> str:
    """Forty made-up runs of 120 checkpoints; the score rises shortly before most of the events."""
    lines = ["run,step,score,event"]
    for run in range(40):
        event = 600 + 10 * (run * 17 % 55)
        state = run + 1
        for step in range(0, 1200, 10):
            state = (state * 16807) % 2147483647
            warned = run % 5 and 0 < event - step <= 90
            score = state / 2147483647 + (0.9 if warned else 0.0)
            lines.append(f"run {run},{step},{score:.3f},{event}")
    return "\n".join(lines)


def _from_json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno}: is not JSON: {error.msg}") from None
    except RecursionError:
        raise InputError("the data are nested too deeply") from None
    known = ("predictions", "references", "steps")
    checked_columns(list(data), known[:2], where="JSON")
    return {name: data[name] for name in known if name in data}


def _from_csv(text: str) -> dict[str, Any]:
    reader = csv.DictReader(io.StringIO(text.strip()))
    checked_columns([str(name) for name in reader.fieldnames or ()], ("run", "score"), where="CSV")
    scores: dict[str, list[float]] = {}
    steps: dict[str, list[float]] = {}
    events: dict[str, float | None] = {}
    for row in reader:
        where = f"line {reader.line_num}"
        run = str(row["run"])
        scores.setdefault(run, []).append(_number(row["score"], f"{where}, score"))
        if "step" in row:
            steps.setdefault(run, []).append(_number(row["step"], f"{where}, step"))
        cell = (row.get("event") or "").strip()
        event = None if cell.lower() in ("", "nan", "none") else _number(cell, f"{where}, event")
        if events.setdefault(run, event) != event:
            raise InputError(f"{where}: run {run!r} has another event than in its rows before")
    data: dict[str, Any] = {
        "predictions": list(scores.values()),
        "references": [events[run] for run in scores],
    }
    return {**data, "steps": list(steps.values())} if steps else data


def _number(cell: str | None, where: str) -> float:
    text = (cell or "").strip()
    if text.lower() in ("", "none"):
        return math.nan
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {text!r} is not a number") from None
