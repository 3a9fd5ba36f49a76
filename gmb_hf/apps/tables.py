"""The page of the held-out text metric: log-probabilities of documents as JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmb_hf.apps.page import (
    Answer,
    Page,
    Setting,
    build,
    checked_columns,
    described,
    json_rows,
    title_of,
)
from gmb_hf.errors import InputError, unknown
from gmb_hf.report.style import (
    BLUE,
    INK,
    VARIANT_COLOURS,
    VARIANT_DASHES,
    VERMILION,
    house_style,
    new_figure,
    shorten,
)
from gmb_hf.sequential.matrix import MEASURES

_FORMATS = """JSON lines, one document each: `{"logprobs": [-0.7, -1.2], "bytes": 9}`, the natural
logarithm of the probability of each token, and the size of the document in bytes (UTF-8)."""


def documents_app(script: Path) -> Any:
    """The page of `heldout_perplexity`.

    Args:
        script: the module's own, beside the Space's app.py.
    """
    import evaluate

    metric = evaluate.load(str(script))

    def answer(text: str, settings: dict[str, Any]) -> Answer:
        data = read_documents(text)
        results: dict[str, Any] = metric.compute(**data, return_per_document=True, **settings)
        return results, draw_documents(data, results)

    return build(Page(title_of(script), described(script), _FORMATS, example(), (), answer))


def read_documents(text: str) -> dict[str, list[Any]]:
    """Documents from JSON lines, as data of the metric; an `InputError` names the line."""
    data: dict[str, list[Any]] = {"predictions": [], "references": []}
    for number, row in json_rows(text, of="document"):
        checked_columns(list(row), ("logprobs", "bytes"), where=f"line {number}")
        if not isinstance(row["logprobs"], list):
            raise InputError(f"line {number}: logprobs must be a list of numbers")
        data["predictions"].append(row["logprobs"])
        data["references"].append(row["bytes"])
    if not data["predictions"]:
        raise InputError("there are no documents; paste JSON lines, or upload a file")
    return data


def draw_documents(data: dict[str, list[Any]], results: dict[str, Any]) -> Figure:
    """The loss of every token on the left, the bits per byte of every document on the right."""
    losses = -np.concatenate([np.asarray(row, dtype=np.float64) for row in data["predictions"]])
    panels = (
        (losses, results["loss"], "Tokens", "loss, nats"),
        (
            np.asarray(results["bits_per_byte_per_document"]),
            results["bits_per_byte"],
            "Documents",
            "bits per byte",
        ),
    )
    with house_style():
        figure = new_figure(7.2, 3.0)
        for axes, (values, mean, title, label) in zip(figure.subplots(1, 2), panels, strict=True):
            axes.hist(values, bins=30, color=BLUE)
            axes.axvline(mean, color=VERMILION, label=f"all together: {mean:.3f}")
            axes.set_title(title)
            axes.set_xlabel(label)
            axes.set_ylabel(title.lower(), color=INK)
            axes.legend()
    return figure


def example() -> str:
    """Twenty made-up documents, the last of which is harder."""
    lines = []
    for document in range(20):
        surprise = 2.0 if document == 19 else 1.0
        logs = [
            -round(surprise * (1.2 + math.sin(1.7 * document + 0.9 * place)), 3)
            for place in range(30)
        ]
        lines.append(json.dumps({"logprobs": logs, "bytes": 90 + document}))
    return "\n".join(lines)


# The page of the retention metric: the table of a sequence of tasks as CSV.


_PHASES_FORMATS = """CSV with the column `trained_on`, then a column for each task; a row per phase.
Leave `trained_on` empty in the row of the untrained model, which comes first and may be left
out."""
_TRAINED_ON = "trained_on"
_SETTINGS = (Setting("measure", MEASURES[0], MEASURES, info="what the numbers are"),)


def phases_app(script: Path) -> Any:
    """The page of `retention`.

    Args:
        script: the module's own, beside the Space's app.py.
    """
    import evaluate

    metric = evaluate.load(str(script))

    def answer(text: str, settings: dict[str, Any]) -> Answer:
        data, tasks = read_phases(text)
        results: dict[str, Any] = metric.compute(**data, **settings)
        measure = str(settings.get("measure", MEASURES[0]))
        return results, draw_phases(data, tasks, measure)

    page = Page(
        title_of(script), described(script), _PHASES_FORMATS, phases_example(), _SETTINGS, answer
    )
    return build(page)


def read_phases(text: str) -> tuple[dict[str, list[Any]], list[str]]:
    """Rows from CSV as data of the metric, and the names of the tasks.

    Raises:
        InputError: no rows, no tasks, or a cell that is wrong; it names the line.
    """
    reader = csv.DictReader(io.StringIO(text.strip()))
    names = [str(name).strip() for name in reader.fieldnames or ()]
    reader.fieldnames = names
    checked_columns(names, (_TRAINED_ON,), where="CSV")
    tasks = [name for name in names if name != _TRAINED_ON]
    data: dict[str, list[Any]] = {"predictions": [], "references": []}
    for row in reader:
        where = f"line {reader.line_num}"
        trained_on = (row[_TRAINED_ON] or "").strip()
        if trained_on and trained_on not in tasks:
            raise unknown("task", trained_on, tasks, where=where)
        data["references"].append(tasks.index(trained_on) if trained_on else None)
        data["predictions"].append([_number(row[task], f"{where}, {task}") for task in tasks])
    if not data["predictions"]:
        raise InputError("there are no phases; paste CSV, or upload a file")
    return data, tasks


def draw_phases(data: dict[str, list[Any]], tasks: list[str], measure: str) -> Figure:
    """Every task over the phases; a large dot where it was trained."""
    with house_style():
        figure = new_figure(7.2, 3.0)
        axes = figure.subplots()
        phases = range(len(data["predictions"]))
        for place, task in enumerate(tasks):
            values = [row[place] for row in data["predictions"]]
            colour = VARIANT_COLOURS[place % len(VARIANT_COLOURS)]
            dashes = VARIANT_DASHES[place % len(VARIANT_DASHES)]
            axes.plot(phases, values, "o", ls=dashes, ms=3, color=colour, label=shorten(task, 20))
            trained = [phase for phase in phases if data["references"][phase] == place]
            axes.plot(trained, [values[phase] for phase in trained], "o", ms=8, color=colour)
        names = ["untrained" if at is None else tasks[at] for at in data["references"]]
        axes.set_xticks(phases, [shorten(name, 14) for name in names])
        axes.set_xlabel("after the phase of")
        axes.set_ylabel(measure)
        axes.set_title("What is left of each task")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    return figure


def phases_example() -> str:
    """Four made-up tasks, each of which is mostly forgotten in the next phase."""
    return (
        "trained_on,add,sub,mul,sq_sum\n"
        ",0.01,0.01,0.01,0.01\n"
        "add,0.99,0.02,0.01,0.01\n"
        "sub,0.31,0.98,0.02,0.01\n"
        "mul,0.12,0.24,0.99,0.03\n"
        "sq_sum,0.08,0.15,0.22,0.97"
    )


def _number(text: str | None, where: str) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InputError(f"{where}: {text!r} is not a number") from None
