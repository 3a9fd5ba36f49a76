"""What a notebook shows: short lines, small escaped tables, data frames and a figure."""

from __future__ import annotations

import csv
import io
import math
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import gmb_hf
from gmb_hf import Design, Lock, Panel, Results, RunLog
from gmb_hf.base.documents import Section
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_runs
from gmb_hf.crucible.scoreboard import Scoreboard, make_scoreboard
from gmb_hf.report.style import house_style
from gmb_hf.report.tables import first_alarm, gate_summary

LOCK = Path(__file__).parents[1] / "golden" / "inputs" / "lock.yaml"
HOSTILE = "<script>alert('&')</script>" * 9


@pytest.fixture(scope="module")
def evaluation(design: Design, held_out_log: RunLog) -> Evaluation:
    return evaluate_runs(design, held_out_log)


@pytest.fixture(scope="module")
def results(evaluation: Evaluation) -> Results:
    return evaluation.results


def renamed(results: Results, name: str) -> Results:
    """The same results with every score, and the evaluation, called something else."""
    items = tuple(
        item.model_copy(update={"name": f"{number}{name}"})
        for number, item in enumerate(results.indicators * 9)
    )
    meta = results.meta.model_copy(update={"run_id": name})
    return results.model_copy(update={"indicators": items, "meta": meta})


def scoreboard(model: str = "org/model") -> Scoreboard:
    header: Any = {"source_hash": "a" * 64, "content_hash": None, "seed": 1, "version": "1"}
    return make_scoreboard([0.5, -0.5, 1], [1, 2, 1], checkpoint_path=model, **header)


class Cells(HTMLParser):
    """The cells of a table, as a browser has them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.texts += [""] if tag in ("td", "th", "p") else []

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def shown(results: Results) -> dict[str, Any]:
    """Everything that a notebook may show, by what it is."""
    log = RunLog.from_arrays([f"r{n}" for n in range(30)], [0, 5], {"x": np.ones((30, 2))})
    return {
        "results": results,
        "log": log,
        "panel": log.panel("x"),
        "lock": Lock.read(LOCK),
        "design": Lock.read(LOCK).design,
        "scoreboard": scoreboard(),
    }


@pytest.mark.parametrize("kind", ["results", "log", "panel", "lock", "design", "scoreboard"])
def test_it_is_a_line_and_a_small_table(results: Results, kind: str):
    value = shown(results)[kind]
    assert len(repr(value)) < 300
    assert "\n" not in repr(value)
    assert str(value) == repr(value)
    page = value._repr_html_()
    assert len(page) < 2_000
    cells = Cells(page)
    assert cells.tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert len(cells.texts) > 5


def test_each_line(results: Results):
    lines = {kind: repr(value) for kind, value in shown(results).items()}
    first = results.indicators[0]
    assert lines["results"].startswith(f"Results({results.meta.run_id!r}, ")
    assert lines["results"].endswith("; 0 may raise an alarm)")
    assert f"{results.summary.n_seeds} runs, without a lock" in lines["results"]
    assert lines["panel"] == "Panel('x', 30 runs of up to 2 checkpoints, steps 0 to 5)"
    assert lines["lock"].startswith("Lock('")
    assert lines["lock"].endswith(f"{Lock.read(LOCK).hash[:16]})")
    assert lines["scoreboard"] == "Scoreboard('org/model', 3 items, accuracy 0.667)"
    assert repr(first).startswith(f"IndicatorRecord({first.name!r}, ")
    assert "and 20 more runs" in shown(results)["log"]._repr_html_()
    assert "and 20 more runs" in shown(results)["panel"]._repr_html_()


def test_an_evaluation_is_shown_as_its_results(evaluation: Evaluation):
    assert repr(evaluation) == f"Evaluation({evaluation.results!r})"
    assert evaluation._repr_html_() == evaluation.results._repr_html_()


def records(value: Any) -> list[Section]:
    """A record and all that are in it."""
    if isinstance(value, Section):
        return [value, *(found for _, field in value for found in records(field))]
    items = value.values() if isinstance(value, dict) else value
    many = isinstance(value, (dict, list, tuple))
    return [found for item in items for found in records(item)] if many else []


def test_every_record_inside_is_a_short_line(results: Results):
    found = [*records(results), *records(Lock.read(LOCK).x_lock), *records(scoreboard())]
    lines = [repr(record) for record in found]
    assert len(lines) > 100
    assert max(map(len, lines)) < 400
    assert not any("\n" in line for line in lines)
    assert repr(results.event).startswith("EventRecord(type='E_")
    assert "entries}" in repr(results.event)


def test_names_are_escaped_and_cut(results: Results):
    hostile = RunLog.from_arrays([HOSTILE, "b"], [0, 1], {HOSTILE: np.zeros((2, 2))})
    pages = [
        hostile._repr_html_(),
        hostile.panel(HOSTILE)._repr_html_(),
        scoreboard(HOSTILE)._repr_html_(),
        renamed(results, HOSTILE)._repr_html_(),
        Design.minimal(horizon=5, safe_gap=9, task=HOSTILE)._repr_html_(),
    ]
    for page in pages:
        assert "<script" not in page
        assert "&lt;script" in page
        assert len(page) < 2_000
        assert Cells(page).tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}


def test_frame_of_results_has_the_numbers_of_the_tables(results: Results):
    frame = results.to_pandas()
    assert frame["indicator"].tolist() == [item.name for item in results.indicators]
    primary = results.primary_run_budget
    rows = list(csv.DictReader(io.StringIO(first_alarm(results).csv())))
    runs = pd.DataFrame([row for row in rows if float(row["budget"]) == primary])
    gate = pd.DataFrame(list(csv.DictReader(io.StringIO(gate_summary(results).csv()))))
    named = {"alarm_eligible", "sentence"}
    shared = [name for name in frame.columns if name in {*runs.columns, *gate.columns} - named]
    assert {
        "detection_rate",
        "timely_rate",
        "early_rate",
        "miss_rate",
        "false_alarm_rate",
        "chance",
    } <= {*shared}
    for name in shared:
        table = runs if name in runs.columns else gate
        told = [value if value != "" else None for value in table[name]]
        for value, text in zip(frame[name], told, strict=True):
            if text is None:
                assert value is None or math.isnan(value), name
            else:
                assert value == (text if isinstance(value, str) else float(text)), name
    assert {"label", "detection_low", "false_alarm_high", "lead_median", "AUC"} <= {*shared}


def test_frame_of_results_by_windows_has_no_runs(results: Results):
    items = tuple(item.model_copy(update={"x_first_alarm": None}) for item in results.indicators)
    frame = results.model_copy(update={"indicators": items}).to_pandas()
    assert frame["detection_rate"].isna().all()
    assert frame["label"].tolist() == [item.label for item in items]
    assert results.model_copy(update={"indicators": ()}).to_pandas().empty


def test_a_log_goes_to_a_frame_and_comes_back():
    log = RunLog.from_arrays(
        ["a", "b"], [0, 5], {"x": [[1, 2], [math.nan, 4]]}, seeds=[3, 4], metadata={}
    )
    frame = log.to_pandas()
    assert list(frame.columns[:2]) == ["run", "step"]
    assert frame["x"].tolist()[3] == 4
    assert math.isnan(frame["x"][2])
    again = RunLog.from_pandas(frame)
    assert again.fingerprint() == log.fingerprint()
    assert again.seeds == (3, 4)
    assert RunLog.from_pandas(frame.rename(columns={"step": "t"}), step_column="t").runs == log.runs
    assert RunLog.from_pandas(frame, columns=["x"], last_rows=1).table.num_rows == 2


def test_only_a_frame_is_one():
    message = "from_pandas: a dict is no DataFrame; RunLog.read takes files, folders and globs"
    with pytest.raises(InputError, match=message):
        RunLog.from_pandas({"step": [0]})  # type: ignore[arg-type]


def test_results_are_drawn(results: Results):
    figure = results.plot()
    assert isinstance(figure, Figure)
    texts = {label.get_text() for axes in figure.axes for label in axes.get_yticklabels()}
    assert results.indicators[0].name in texts
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert type(gmb_hf.plot(results)) is type(figure)


@pytest.mark.parametrize("by_windows", [False, True])
@pytest.mark.parametrize("task", ["m", "W" * 300, "a task of many words " * 20, HOSTILE])
def test_no_text_of_a_figure_runs_out_of_it(results: Results, task: str, by_windows: bool):
    supported = {"label": "SUPPORTED_FOR_ALARM"}
    update = supported | ({"x_first_alarm": None} if by_windows else {})
    items = tuple(item.model_copy(update=update) for item in renamed(results, task).indicators[:9])
    boundary = results.boundary.model_copy(update={"task": task, "model": task})
    made = results.model_copy(update={"indicators": items, "boundary": boundary})
    figure = made.plot()
    heads = [*figure.texts, *(axes.title for axes in figure.axes)]
    heads += [text for axes in figure.axes for text in (axes._left_title, axes._right_title)]
    shown = [text for text in heads if text.get_text()]
    assert any("may raise an alarm" in text.get_text().replace("\n", " ") for text in shown)
    with house_style(), warnings.catch_warnings():  # fonts, of which none has every letter
        warnings.simplefilter("ignore")
        FigureCanvasAgg(figure).draw()
        page = figure.bbox
        extents = {text.get_text(): text.get_window_extent() for text in shown}
    for words, extent in extents.items():
        assert page.x0 <= extent.x0 < extent.x1 <= page.x1, words
        assert page.y0 <= extent.y0 < extent.y1 <= page.y1, words


def test_without_first_alarms_the_figure_is_by_windows(results: Results):
    items = tuple(item.model_copy(update={"x_first_alarm": None}) for item in results.indicators)
    figure = results.model_copy(update={"indicators": items}).plot()
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]


def test_what_cannot_be_drawn_says_why(results: Results):
    with pytest.raises(InputError, match="results: there is no score to draw"):
        results.model_copy(update={"indicators": ()}).plot()
    items = tuple(item.model_copy(update={"x_first_alarm": None}) for item in results.indicators)
    bare = results.model_copy(update={"indicators": items, "x_prereg": None})
    with pytest.raises(InputError, match="no first alarms to draw, and no design"):
        bare.plot()


def test_an_empty_panel_has_a_line():
    empty = Panel("x", (), np.zeros((0, 0)), np.zeros((0, 0), int), np.zeros((0, 0), bool))
    assert repr(empty) == "Panel('x', 0 runs of up to 0 checkpoints, steps 0 to 0)"
    assert "<table>" in empty._repr_html_()
