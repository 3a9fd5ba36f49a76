"""One page for every metric: data on the left, the result and a figure on the right."""

from __future__ import annotations

import ast
import csv
import html
import io
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from matplotlib.figure import Figure

from gmb_hf.base.documents import Many, Section, load_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.base.extras import needing
from gmb_hf.base.files import parse_json
from gmb_hf.report.style import house_style, new_figure

Answer = tuple[dict[str, Any], Any]
"""Flat results by name, and a matplotlib figure."""

_MOST_BYTES = 50_000_000
_WIDTH = 170  # pixels, for the longest name of a setting


class Setting(Section):
    """One keyword argument that a page asks for, as pages.yaml has it."""

    name: str
    value: Any
    choices: Many[str] = ()
    info: str
    of: Many[str] = ()


class MetricPage(Section):
    """What is said of a page in pages.yaml: its data, an example of them, its settings."""

    formats: str
    example: str = ""
    settings: Many[Setting] = ()

    @classmethod
    def named(cls, name: str) -> Self:
        """The page for data of this form."""
        pages = Path(__file__).with_name("pages.yaml")
        return cls.parse(load_yaml(pages)[name], where=f"{pages}: {name}")


def metric_page(
    script: Path,
    data: str,
    answer: Callable[[Any, str, dict[str, Any]], Answer],
    example: str | None = None,
) -> Any:
    """The page of a metric as gradio Blocks, to be launched.

    Args:
        script: the module's own, beside the Space's app.py.
        data: the form of its data, of pages.yaml.
        answer: from the metric, text and settings to results and figure; raises InputError.
        example: data that stand in the text box at first; that of pages.yaml if not given.
    """
    import evaluate

    with needing("the page of a metric"):
        import gradio as gr
        from gradio.components.plot import PlotData
        from gradio.processing_utils import encode_plot_to_base64

    about, metric = MetricPage.named(data), evaluate.load(str(script))
    settings = [one for one in about.settings if not one.of or script.stem in one.of]

    def compute(text: str, upload: str | None, *values: Any) -> tuple[str, Any]:
        # A browser knows no difference between 5 and 5.0.
        given = {
            setting.name: int(value) if isinstance(value, float) and value.is_integer() else value
            for setting, value in zip(settings, values, strict=True)
            if value not in (None, "")
        }
        try:
            results, figure = answer(metric, _upload(upload) if upload else text, given)
        except InputError as error:
            # What was computed before must not stand beside what was refused now.
            return refusal(str(error)), None
        # gradio knows a figure of matplotlib by the module of its class, and ours is a subclass.
        return table(results), PlotData(
            type="matplotlib", plot=encode_plot_to_base64(figure, "png")
        )

    with gr.Blocks(title=title_of(script)) as blocks:
        summary = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        gr.Markdown(f"# {title_of(script)}\n{summary}")
        with gr.Row():
            with gr.Column():
                shape = {"lines": 10, "max_lines": 20, "elem_classes": "gmb-data"}
                text = gr.Textbox(example or about.example, label="Data", **shape)
                upload = gr.File(label="or a file", type="filepath", height=140)
                gr.Markdown(about.formats)
                with gr.Row():
                    controls = [_control(gr, setting) for setting in settings]
                button = gr.Button("Compute", variant="primary")
            with gr.Column():
                figure = gr.Plot(
                    label="Figure", show_label=False, format="png", elem_classes="gmb-figure"
                )
                result = gr.HTML(label="Result", padding=False, elem_classes="gmb-result")
        style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
        # Here and not in `launch`, which each Space calls by itself.
        gr.HTML(f"<style>{style}</style>", padding=False)
        button.click(compute, [text, upload, *controls], [result, figure], api_name="compute")
    return blocks


@contextmanager
def page_figure() -> Iterator[Figure]:
    """A figure as wide as the page, drawn in the style of the reports."""
    with house_style():
        yield new_figure(7.2, 3.0)


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
    shown = html.escape(message.split(" Right call: ")[0])
    return f"<p class='refused'><strong>{shown}</strong></p>"


def title_of(script: Path) -> str:
    """`gmb_utility` as "GMB utility"."""
    family, *rest = script.stem.split("_")
    return " ".join([family.upper() if family == "gmb" else family.capitalize(), *rest])


def json_rows(text: str, of: str, lists: Sequence[str], other: str) -> list[dict[str, Any]]:
    """The objects of JSON lines, each with lists of numbers and another key.

    Raises:
        InputError: no lines, or one that is no such object of what `of` says.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"line {number}"
        try:
            row = parse_json(line, where=where)
        except InputError as error:
            raise error.reworded(f"{error}; a line is one {of}") from None
        if not isinstance(row, dict):
            raise InputError(f"{where}: must be an object, {{...}}")
        checked_columns(list(row), (*lists, other), where=where)
        for name in lists:
            if not isinstance(row[name], list):
                raise InputError(f"{where}: {name} must be a list of numbers")
        rows.append(row)
    if not rows:
        raise InputError(f"there are no {of}s; paste JSON lines, or upload a file")
    return rows


def csv_rows(text: str, wanted: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a CSV table, each with its place, `line 2`; a cell that lacks is None.

    Raises:
        InputError: a column that is wanted is missing.
    """
    reader = csv.DictReader(io.StringIO(text.strip()))
    reader.fieldnames = [str(name).strip() for name in reader.fieldnames or ()]
    checked_columns(reader.fieldnames, wanted, where="CSV")
    for row in reader:
        yield f"line {reader.line_num}", {name: row[name] for name in reader.fieldnames}


def number(cell: str | None, where: str) -> float:
    """A cell as a number; `where` opens the message of what is none."""
    try:
        return float(cell or "")
    except ValueError:
        raise InputError(f"{where}: {cell!r} is not a number") from None


def noise(seed: int) -> Iterator[float]:
    """Numbers in (0, 1) for examples, the same everywhere (Park and Miller's generator)."""
    state = seed
    while True:
        state = (state * 16807) % 2147483647
        yield state / 2147483647


def checked_columns(found: Sequence[str], wanted: Sequence[str], *, where: str) -> None:
    """Refuse a table without the columns that are wanted."""
    for name in wanted:
        if name not in found:
            known = ", ".join(found) or "none"
            raise InputError(f"{where}: column {name!r} is missing; found: {known}")


def _control(gr: Any, setting: Setting) -> Any:
    shared = {"label": setting.name, "info": setting.info, "min_width": _WIDTH}
    if setting.choices:
        return gr.Dropdown(list(setting.choices), value=setting.value, **shared)
    kind = gr.Textbox if isinstance(setting.value, str) else gr.Number
    return kind(setting.value, **shared)


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
