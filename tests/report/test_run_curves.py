"""Runs as curves: what is packed for a page, what the page draws of it, and a figure of one run."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from test_page import DARK, PHONE, browser, opened

from gmb_hf import Design, RunLog, evaluate_runs, plot_run
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.evaluate import Evaluation
from gmb_hf.report import run_curves
from gmb_hf.report.answer import answer
from gmb_hf.report.page import CURVES, read_curves, remake_page
from gmb_hf.report.report import publish
from gmb_hf.report.run_curves import LEVELS, curves_of, thresholds_of

__all__ = ["browser", "opened"]  # fixtures


@pytest.fixture(scope="module")
def found(design: Design, held_out_log: RunLog) -> Evaluation:
    return evaluate_runs(design, held_out_log)


@pytest.fixture(scope="module")
def folder(found: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    publish(found, place, figures=False)
    return place


@pytest.fixture
def file(folder: Path) -> Path:
    """The page that `opened` opens."""
    return folder / "report.html"


def unpacked(text: str, sizes: list[int]) -> list[NDArray[np.float64]]:
    """As the page's script reads it."""
    content = zlib.decompress(base64.b64decode(text))
    ends = np.frombuffer(content[: 16 * len(sizes)], dtype="<f8").reshape(-1, 2)
    low, high = np.frombuffer(content[16 * len(sizes) :], dtype=np.uint8).reshape(2, -1).astype(int)
    jumps, curves, at = low + 256 * high, [], 0
    for (least, most), size in zip(ends, sizes, strict=True):
        codes = np.cumsum(jumps[at : at + size]) % (LEVELS + 1)
        values = least + codes / (LEVELS - 1) * (most - least)
        curves.append(np.where(codes == LEVELS, np.nan, values))
        at += size
    return curves


def steps_of(packed: dict[str, Any]) -> list[NDArray[np.float64]]:
    jumps = np.frombuffer(zlib.decompress(base64.b64decode(packed["steps"])), dtype="<f8")
    parts = np.split(jumps, np.cumsum(packed["sizes"])[:-1])
    return [np.cumsum(part) for part in parts]


class TestPacked:
    def test_every_value_of_every_run_to_a_part_of_its_range(self, found: Evaluation):
        packed = curves_of(found)
        assert packed is not None
        metric = found.log.panel("test_acc")
        assert packed["every"] == 1
        assert packed["sizes"] == metric.present.sum(axis=1).tolist()
        scores = [found.judgements[one.name].evaluation for one in answer(found.results).ranked]
        for panel, text in zip(
            [metric, *scores],
            [packed["metric"], *(one["values"] for one in packed["scores"])],
            strict=True,
        ):
            for run, curve in enumerate(unpacked(text, packed["sizes"])):
                values = panel.values[run][panel.present[run]]
                assert np.array_equal(np.isfinite(values), np.isfinite(curve))
                known = values[np.isfinite(values)]
                within = np.ptp(known) / (LEVELS - 1) if len(known) else 0.0
                assert np.nanmax(np.abs(values - curve), initial=0) <= 0.51 * within + 1e-12
        for run, steps in enumerate(steps_of(packed)):
            assert np.array_equal(steps, metric.steps[run][metric.present[run]])

    def test_thresholds_are_those_that_each_run_was_judged_by(self, found: Evaluation):
        packed = curves_of(found)
        assert packed is not None
        for item, one in zip(answer(found.results).ranked, packed["scores"], strict=True):
            taken = thresholds_of(found.judgements[item.name])
            expected = [float(tau) if np.isfinite(tau) else None for tau in taken]
            assert one["threshold"] in (expected, expected[0])

    def test_of_many_values_no_peak_is_lost(
        self, found: Evaluation, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(run_curves, "MOST_VALUES", 2_000)
        monkeypatch.setattr(run_curves, "LEAST_RUNS", 5)
        packed = curves_of(found)
        assert packed is not None
        every, sizes = packed["every"], packed["sizes"]
        assert every > 1
        assert len(sizes) == 5 < packed["of"] == len(found.log.runs)
        columns = 1 + len(packed["scores"])
        assert sum(sizes) * columns <= 2_000 + columns * len(sizes)
        first = found.judgements[answer(found.results).ranked[0].name].evaluation
        curve = unpacked(packed["scores"][0]["values"], sizes)[0]
        values = first.values[0][first.present[0]]
        for place, top in enumerate(curve):
            block = values[place * every : (place + 1) * every]
            assert top == pytest.approx(np.nanmax(block), abs=np.ptp(values) / LEVELS)
        steps = first.steps[0][first.present[0]]
        assert steps_of(packed)[0][0] == steps[every - 1]
        assert steps_of(packed)[0][-1] == steps[-1]

    def test_no_metric_no_curves(self, found: Evaluation):
        other = found.design.replace(metric="gone")
        assert curves_of(dataclasses.replace(found, design=other)) is None
        with pytest.raises(InputError, match="plot_run: the metric 'gone' is no column"):
            plot_run(dataclasses.replace(found, design=other))

    def test_numbers_that_are_none_or_as_large_as_they_go(self):
        curves = [np.array([np.nan, np.inf, 1.0]), np.array([1.7e308, -1.7e308]), np.array([2.0])]
        back = unpacked(run_curves._packed(curves), [3, 2, 1])
        assert np.isnan(back[0][:2]).all()
        assert back[0][2] == 1
        assert np.isfinite(back[1]).all()
        assert back[2] == [2]


class TestKept:
    def test_the_page_is_made_again_with_its_curves(self, folder: Path):
        before = (folder / "report.html").read_bytes()
        assert b'id="curves"' in before
        assert remake_page(folder).read_bytes() == before

    def test_those_of_other_results_are_left_out(self, found: Evaluation, tmp_path: Path):
        assert read_curves(found.results, tmp_path) is None
        for held in ("no JSON", "[]", json.dumps({"results": "another checksum"})):
            (tmp_path / CURVES).write_text(held)
            assert read_curves(found.results, tmp_path) is None


class TestFigure:
    def test_first_a_run_that_was_detected_in_time(self, found: Evaluation):
        figure = plot_run(found)
        above, below = figure.axes
        title = figure.texts[0].get_text()
        assert answer(found.results).ranked[0].name in title
        assert above.get_ylabel() == "accuracy"
        assert below.get_xlabel() == "training step"
        labels = [text.get_text() for text in figure.legends[0].get_texts()]
        assert {"threshold", "event t*", "horizon: timely"} <= {*labels}

    def test_any_run_of_any_score(self, found: Evaluation):
        run = found.log.runs[3]
        name = answer(found.results).ranked[-1].name
        for named in (run, [*found.results.event.t_event_by_seed][3]):
            title = plot_run(found, named, name).texts[0].get_text()
            assert f"run {run}" in title.replace("\n", " ")

    def test_names_that_there_are_not(self, found: Evaluation):
        near = found.log.runs[0] + "x"
        with pytest.raises(InputError, match=f"plot_run: run '{near}' is unknown; known: .*mean"):
            plot_run(found, near)
        with pytest.raises(InputError, match="plot_run: score 'nope' is unknown; known: "):
            plot_run(found, score="nope")


class TestInABrowser:
    @pytest.mark.parametrize("opened", [{}, DARK, PHONE], indirect=True)
    def test_chosen_runs_and_any_other(self, opened: Any, found: Evaluation):
        opened.locator("#runs").scroll_into_view_if_needed()
        cards = opened.locator("#run-cards figure")
        cards.first.wait_for(timeout=10_000)
        assert 1 <= cards.count() <= 6
        assert cards.locator("svg path.score").count() == cards.count()
        assert cards.locator("svg path.metric").count() == cards.count()
        outcomes = [text.split(": ")[1] for text in cards.locator("h3").all_inner_texts()]
        assert outcomes.count("timely") <= 2
        run = [*found.results.event.t_event_by_seed][7]
        opened.locator("#run-name").select_option(label=run)
        wide = opened.locator("#run-cards figure.wide")
        wide.wait_for(timeout=10_000)
        assert wide.locator("h3").inner_text().startswith(f"{run}: ")
        name = answer(found.results).ranked[-1].name
        opened.locator("#run-score").select_option(label=name)
        opened.locator("#run-cards svg text", has_text=name).first.wait_for(timeout=10_000)
        assert "NaN" not in opened.locator("#runs").inner_html()
        width = opened.viewport_size["width"]
        assert opened.evaluate("document.documentElement.scrollWidth") == width

    def test_zoomed_by_dragging_by_buttons_and_back(self, opened: Any):
        opened.locator("#runs").scroll_into_view_if_needed()
        card = opened.locator("#run-cards figure").first
        card.wait_for(timeout=10_000)
        card.scroll_into_view_if_needed()

        def steps() -> list[int]:
            texts = card.locator("svg text").all_text_contents()
            place = texts.index("training step")
            whole = [text.replace(",", "") for text in texts[:place]]
            return [int(text) for text in whole if re.fullmatch(r"\d+", text)][-5:]

        svg, before = card.locator("svg"), steps()
        box = svg.bounding_box()
        opened.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 100)
        opened.mouse.down()
        opened.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 100, steps=4)
        assert "step " in card.locator(".readout").inner_text()
        opened.mouse.up()
        zoomed = steps()
        assert zoomed != before
        card.get_by_role("button", name="the whole run").click()
        assert steps() == before
        card.get_by_role("button", name="closer").press("Enter")
        assert steps() != before
        svg.dblclick()
        assert steps() == before

    def test_an_opened_score_leads_to_its_runs(self, opened: Any):
        opened.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        name = opened.locator("tr.score th").last.inner_text().strip()
        opened.locator("tr.score th button").last.click()
        opened.get_by_role("button", name="Its runs as curves").click()
        opened.locator("#run-cards svg text", has_text=name).first.wait_for(timeout=10_000)
        assert opened.locator("#run-score option:checked").inner_text() == name
