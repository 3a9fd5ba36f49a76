"""One page for every metric: data on the left, the result and a figure on the right."""

from __future__ import annotations

import ast
import html
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmb_hf.errors import InputError

Answer = tuple[dict[str, Any], Any]
"""Flat results by name, and a matplotlib figure."""

_MOST_BYTES = 50_000_000
_WIDTH = 170  # pixels, for the longest name of a setting

# Colours of gradio's theme, light or dark. Two selectors outdo gradio's own rules for tables.
_STYLE = """
<style>
.gmb-data textarea { font-family: var(--font-mono); font-size: 13px; white-space: pre;
    overflow-x: auto; }
.gmb-figure img { padding: 8px; background: white; }
.gmb-result table.result { width: 100%; margin: 0; border-collapse: collapse; }
.gmb-result table.result tr { border: 0; }
.gmb-result table.result :is(th, td) { padding: 6px 8px; border: 0; text-align: left;
    border-bottom: 1px solid var(--border-color-primary); overflow-wrap: anywhere; }
.gmb-result table.result :is(th, td):last-child { text-align: right;
    font-variant-numeric: tabular-nums; }
.gmb-result .refused { padding: 10px 12px; border-left: 4px solid #d55e00;
    background: var(--background-fill-secondary); overflow-wrap: anywhere; }
</style>
"""


@dataclass(frozen=True)
class Setting:
    """One keyword argument that the page asks for.

    Attributes:
        name: of the argument.
        value: what stands there at first; None: empty, the metric's own default.
        choices: what it may be; None for a number.
        info: a few words below it.
    """

    name: str
    value: Any = None
    choices: tuple[str, ...] | None = None
    info: str = ""


@dataclass(frozen=True)
class Page:
    """What a page shows and does.

    Attributes:
        title: the heading.
        summary: a sentence or two below it.
        formats: which data it takes, in Markdown.
        example: data that stand in the text box at first.
        settings: what else it asks for.
        answer: from text and settings to results and figure; raises InputError.
    """

    title: str
    summary: str
    formats: str
    example: str
    settings: tuple[Setting, ...]
    answer: Callable[[str, dict[str, Any]], Answer]


def build(page: Page) -> Any:
    """The page as gradio Blocks, to be launched."""
    import gradio as gr

    def compute(text: str, upload: str | None, *values: Any) -> tuple[str, Any]:
        given = {
            setting.name: _typed(value)
            for setting, value in zip(page.settings, values, strict=True)
            if value not in (None, "")
        }
        try:
            results, figure = page.answer(_upload(upload) if upload else text, given)
        except InputError as error:
            # What was computed before must not stand beside what was refused now.
            return refusal(str(error)), None
        return table(results), figure

    with gr.Blocks(title=page.title) as blocks:
        gr.Markdown(f"# {page.title}\n{page.summary}")
        with gr.Row():
            with gr.Column():
                text = gr.Textbox(
                    page.example, lines=10, max_lines=20, label="Data", elem_classes="gmb-data"
                )
                upload = gr.File(label="or a file", type="filepath", height=140)
                gr.Markdown(page.formats)
                with gr.Row():
                    controls = [_control(gr, setting) for setting in page.settings]
                button = gr.Button("Compute", variant="primary")
            with gr.Column():
                figure = gr.Plot(
                    label="Figure", show_label=False, format="png", elem_classes="gmb-figure"
                )
                result = gr.HTML(label="Result", padding=False, elem_classes="gmb-result")
        # Here and not in `launch`, which each Space calls by itself.
        gr.HTML(_STYLE, padding=False)
        button.click(compute, [text, upload, *controls], [result, figure], api_name="compute")
    return blocks


def table(results: dict[str, Any]) -> str:
    """Results as an HTML table; lists are left to code."""
    rows = "".join(
        f"<tr><td><code>{html.escape(name)}</code></td><td>{html.escape(_shown(value))}</td></tr>"
        for name, value in results.items()
        if not isinstance(value, list)
    )
    head = "<thead><tr><th>name</th><th>value</th></tr></thead>"
    return f"<table class='result'>{head}<tbody>{rows}</tbody></table>"


def refusal(message: str) -> str:
    """An error as it stands in place of a result; how to call the metric in code is left out."""
    return (
        f"<p class='refused'><strong>{html.escape(message.split(' Right call: ')[0])}</strong></p>"
    )


def described(script: Path) -> str:
    """The docstring of a module's script, without running it."""
    return ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""


def title_of(script: Path) -> str:
    """`gmb_utility` as "GMB utility"."""
    family, *rest = script.stem.split("_")
    return " ".join([family.upper() if family == "gmb" else family.capitalize(), *rest])


def json_rows(text: str, *, of: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines with the numbers of their lines, from 1.

    Args:
        text: as pasted.
        of: what a line is, for messages.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            raise InputError(f"line {number}: is not JSON; a line is one {of}") from None
        if not isinstance(row, dict):
            raise InputError(f"line {number}: must be an object, {{...}}")
        yield number, row


def numbers_in(text: str, *, name: str) -> list[float]:
    """The numbers of a comma-separated field."""
    try:
        return [float(part) for part in str(text).split(",") if part.strip()]
    except ValueError:
        raise InputError(f"{name} must be numbers separated by commas, got {text!r}") from None


def checked_columns(found: Sequence[str], wanted: Sequence[str], *, where: str) -> None:
    """Refuse a table without the columns that are wanted."""
    for name in wanted:
        if name not in found:
            raise InputError(
                f"{where}: column {name!r} is missing; found: {', '.join(found) or 'none'}"
            )


def _control(gr: Any, setting: Setting) -> Any:
    if setting.choices is not None:
        return gr.Dropdown(
            list(setting.choices),
            value=setting.value,
            label=setting.name,
            info=setting.info,
            min_width=_WIDTH,
        )
    if isinstance(setting.value, str):
        return gr.Textbox(setting.value, label=setting.name, info=setting.info, min_width=_WIDTH)
    return gr.Number(setting.value, label=setting.name, info=setting.info, min_width=_WIDTH)


def _typed(value: Any) -> Any:
    """A browser knows no difference between 5 and 5.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _upload(path: str) -> str:
    source = Path(path)
    if source.stat().st_size > _MOST_BYTES:
        raise InputError(f"{source.name}: larger than 50 MB; use the metric in Python instead")
    try:
        return source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source.name}: is not UTF-8 text (byte {error.start})") from None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "∞" if math.isinf(value) else f"{value:.6g}"
    return "–" if value is None else str(value)
