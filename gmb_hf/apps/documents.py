"""The page of the held-out text metric: log-probabilities of documents as JSON lines."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmb_hf.apps.page import Answer, Page, build, checked_columns, described, json_rows, title_of
from gmb_hf.reporting.figures.style import BLUE, INK, VERMILION, house_style, new_figure
from gmb_hf.validation import InputError

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
