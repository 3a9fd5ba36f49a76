"""The Spaces' pages: reading what people paste, the figures, and the pages used in a browser."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gmb_hf.jobs.metrics
from gmb_hf.base.errors import InputError
from gmb_hf.hub.apps.items import read_items, read_pools
from gmb_hf.hub.apps.page import MetricPage, refusal, table
from gmb_hf.hub.apps.series import draw, example, read_series
from gmb_hf.report.style import save_figure

GMB = tuple(name for name in gmb_hf.jobs.metrics.names() if name.startswith("gmb_"))
# Gradio's own, of every version of pandas from 3 on.
pytestmark = pytest.mark.filterwarnings("ignore::Warning:gradio.queueing")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DESIGN = {"horizon": 100, "safe_gap": 200, "lead_time_median_min": 20}


def test_csv_and_json_say_the_same() -> None:
    text = "run,step,score,event\na,0,0.5,20\na,10,1.5,20\nb,0,0.25,\nb,10,,\n"
    found = read_series(text)
    assert found["references"] == [20.0, None]
    assert found["steps"] == [[0.0, 10.0], [0.0, 10.0]]
    assert found["predictions"][0] == [0.5, 1.5]
    assert found["predictions"][1][0] == 0.25
    assert math.isnan(found["predictions"][1][1])
    assert repr(read_series(json.dumps(found))) == repr(found)  # NaN is not equal to itself
    assert read_series(json.dumps(read_series(example()))) == read_series(example())


def test_rows_of_a_run_need_not_lie_together() -> None:
    found = read_series("run,score\na,1\nb,2\na,3\n")
    assert found == {"predictions": [[1.0, 3.0], [2.0]], "references": [None, None]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  \n", "there are no data"),
        ("step,score\n1,2\n", "CSV: column 'run' is missing; found: step, score"),
        ("run,score\na,1\na,high\n", "line 3, score: 'high' is not a number"),
        ("run,score,event\na,1,5\na,1,6\n", "line 3: run 'a' has another event"),
        ('{"predictions": [[1]]', "the data: is not JSON"),
        ('{"predictions": [[1]]}', "JSON: column 'references' is missing; found: predictions"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_series(text)


def test_a_table_shows_scalars_and_escapes() -> None:
    shown = table({"a<b": math.inf, "ok": True, "none": None, "many": [1, 2]})
    assert "<code>a&lt;b</code>" in shown
    assert [shown.count(f">{value}</td>") for value in ("∞", "yes", "–")] == [1, 1, 1]
    assert "many" not in shown
    assert refusal("bad <x>. Right call: f(x)") == (
        "<p class='refused'><strong>bad &lt;x&gt;.</strong></p>"
    )


@pytest.mark.parametrize("name", GMB)
@pytest.mark.parametrize("events", [True, False], ids=["events", "no events"])
def test_every_metric_has_its_figure(
    load: Callable[[str], Any], tmp_path: Path, name: str, events: bool
) -> None:
    call = {**read_series(example()), **DESIGN}
    if not events:
        call["references"] = [None] * 40
    figure = draw(name, call, load(name).compute(**call, return_per_run=True))
    (path,) = save_figure(figure, tmp_path / name, formats=("png",))
    assert path.stat().st_size > 10_000


LINE = '{"similarities": [0.5, 0.25], "positive": 0}'


def test_items_are_json_lines() -> None:
    data, tiers, hashes = read_items(f"{LINE}\n\n{LINE}\n")
    assert data == {"predictions": [[0.5, 0.25]] * 2, "references": [0, 0]}
    assert tiers is None
    assert len(hashes["source_hash"]) == len(hashes["content_hash"]) == 64
    data, tiers, _ = read_items(MetricPage.named("pairs").example, paired=True)
    assert len(data["predictions1"]) == len(data["predictions2"]) == len(tiers or ()) == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no items"),
        (f"{LINE}\nnone", "line 2: is not JSON.*; a line is one item"),
        ("[1]", "line 1: must be an object"),
        ('{"similarities": [1]}', "line 1: column 'positive' is missing; found: similarities"),
        ('{"similarities": 1, "positive": 0}', "line 1: similarities must be a list of numbers"),
        (LINE + '\n{"similarities": [1, 2], "positive": 0, "tier": "a"}', "1 of 2 items have a"),
    ],
)
def test_items_that_cannot_be_read_are_named(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_items(text)


def test_pools_are_csv() -> None:
    assert read_pools("pool,size,ratio\na,3,1\n") == {
        "data": ["a"],
        "sizes": [3.0],
        "ratios": [1.0],
    }
    with pytest.raises(InputError, match="line 2, size: 'few' is not a number"):
        read_pools("pool,size,ratio\na,few,1\n")
    with pytest.raises(InputError, match="CSV: column 'ratio' is missing"):
        read_pools("pool,size\na,3\n")


@pytest.mark.parametrize("name", ["gmb_utility", "crucible_rank"])
def test_a_page_answers_with_a_table_and_a_picture(
    name: str, load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    gradio = pytest.importorskip("gradio", reason="gradio, of the extra `apps`, is not installed")
    blocks = app_of(name, monkeypatch).demo
    (compute,) = blocks.fns.values()
    shown, figure = compute.fn(*[field.value for field in compute.inputs])
    assert "<table class='result'>" in shown
    sent = gradio.Plot(format="png").postprocess(figure)
    assert sent.type == "matplotlib"
    assert sent.plot.startswith("data:image/png;base64,")


# In a browser.


@pytest.fixture(scope="module")
def page() -> Iterator[Any]:
    """A page of the system's Chromium."""
    if CHROMIUM is None:
        pytest.skip("chromium is not on the PATH (Debian: apt install chromium)")
    pytest.importorskip("gradio", reason="gradio, of the extra `apps`, is not installed")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright, of the extra `test`, is not installed"
    )
    with playwright.sync_playwright() as running:
        # Containers often run as root, where Chromium's sandbox does not start.
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1280, "height": 1000})
        browser.close()


def app_of(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Space's app.py as a module."""
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    path = gmb_hf.jobs.metrics.module(name).folder / "app.py"
    spec = importlib.util.spec_from_file_location(f"app_of_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The `demo` of a Space's app.py, launched on a free port of this machine."""
    module = app_of(name, monkeypatch)
    module.demo.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1")
    return module.demo


def click(page: Any, expected: str) -> Any:
    """Press the button, and wait for the element that shall show."""
    page.get_by_role("button", name="Compute").click()
    found = page.locator(expected)
    found.wait_for(timeout=30_000)
    return found


# What stands in the table at first, what is pasted then, and what is said of it.
CRUCIBLE = {
    "crucible_margin": ("median_margin", '{"similarities": [1, 2], "positive": 2}', "item 0: the"),
    "crucible_rank": ("hits@5", '{"similarities": [1], "positive": 0}', "item 0: no negatives"),
    "crucible_scoreboard": ("eval_header.fingerprint", "none", "line 1: is not JSON"),
    "crucible_compare": ("p_mcnemar@tier3_adversarial", LINE, "column 'similarities2' is missing"),
    "crucible_exposure": ("status@organic", "pool,size,ratio\na,1,0.5", "add up to 0.5, not to 1"),
}


@pytest.mark.usefixtures("load")  # where modules are kept, before any is loaded
@pytest.mark.parametrize("name", CRUCIBLE)
def test_a_page_of_crucible_in_a_browser(
    page: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, spoiled, message = CRUCIBLE[name]
    demo = start(name, monkeypatch)
    try:
        page.goto(demo.local_url)
        assert key in click(page, "table.result").inner_text()
        image = page.locator("[data-testid='matplotlib'] img")
        image.wait_for(timeout=10_000)
        assert image.evaluate("one => one.naturalWidth") > 400
        page.get_by_label("Data").fill(spoiled)
        refused = click(page, "p.refused").inner_text()
        assert message in refused
        assert "Right call" not in refused
    finally:
        demo.close()


@pytest.mark.parametrize("name", GMB)
def test_the_page_in_a_browser(
    page: Any,
    load: Callable[[str], Any],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    demo = start(name, monkeypatch)
    try:
        page.goto(demo.local_url)
        # As it stands when it opens.
        shown = click(page, "table.result").inner_text()
        for key in load(name).compute(**read_series(example()), **DESIGN):
            assert key in shown
        image = page.locator("[data-testid='matplotlib'] img")
        image.wait_for(timeout=10_000)
        assert image.evaluate("one => one.naturalWidth") > 400

        # A setting that cannot be: the error takes the result's place.
        page.get_by_label("safe_gap").fill("10")
        refused = click(page, "p.refused").inner_text()
        assert refused.startswith(f"{name}: safe_gap 10 must be larger than horizon 100")
        assert page.locator("table.result").count() == 0
        page.get_by_label("safe_gap").fill("200")

        # Other data, pasted, then as a file.
        page.get_by_label("Data").fill("run,score\na,high")
        assert "line 2, score: 'high'" in click(page, "p.refused:has-text('line 2')").inner_text()
        upload = tmp_path / "mine.csv"
        upload.write_text(constant_runs(), encoding="utf-8")
        with page.expect_response(lambda response: "/upload" in response.url):
            page.locator("input[type=file]").set_input_files(upload)
        page.locator(".file-preview").wait_for(timeout=10_000)
        click(page, "table.result")
    finally:
        demo.close()


def constant_runs() -> str:
    """Three runs of a score that never moves, as a file."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["run", "step", "score", "event"])
    writer.writerows([f"r{run}", step, 1.0, 900] for run in range(3) for step in range(0, 1000, 10))
    return out.getvalue()
