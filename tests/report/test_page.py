"""report.html: what it says, what it escapes, and how it behaves in a browser."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from evaluation_builders import NAMES, first_alarm, results
from results_layout import EMPTY, EXAMPLE

from gmb_hf import Results
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.first_alarm import FirstAlarmRecord
from gmb_hf.report.answer import answer, shown_name
from gmb_hf.report.page import remake_page, render_page, write_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "quote\"'`name",
    "line\nbreak",
    "\u202ereversed\u202c",
    "שלום_עולם",
    "{{ 7 * 7 }}",
    "&lt;b&gt;",
    "a" * 180,
)


def with_alarms(made: Results) -> Results:
    """The same with a first alarm for each run, which adds up to the counts of the verdict."""
    events = list(made.event.t_event_by_seed.values())
    n_events = sum(event is not None for event in events)
    items = []
    for place, item in enumerate(made.indicators):
        share = 0.9 - 0.8 * place / len(made.indicators)
        free = {"n_free": len(events) - n_events}
        plain = first_alarm(share, n_events, **free)
        at = plain["at_budget"][0]
        leads = [450] * at["n_false_before_event"] + [100] * at["n_timely"] + [300] * at["n_early"]
        left = iter(leads)
        plain["alarm_steps"] = [
            None if event is None or (lead := next(left, None)) is None else event - lead
            for event in events
        ]
        first = FirstAlarmRecord.parse(plain, where=item.name)
        update = {"x_first_alarm": first, "x_alarm_eligible": False}
        items.append(item.model_copy(update=update))
    return made.model_copy(update={"indicators": tuple(items)}).with_checksums()


class Page(HTMLParser):
    """What a browser would find: tags, the cells of the table, the data, the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[tuple[str, str | None]]] = []
        self.text, self._raw, self._inside, self._cell = "", "", "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag in ("script", "style"):
            self._inside = found.get("id") or tag
        if tag == "tr":
            self._cell = found.get("class") == "score"
            if self._cell:
                self.rows.append([])
        if self._cell and tag in ("td", "th"):
            self.rows[-1].append(("", found.get("data-key")))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = ""
        if tag == "tr":
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self._raw += data if self._inside == "data" else ""
            return
        self.text += data
        if self._cell and self.rows[-1]:
            text, key = self.rows[-1][-1]
            self.rows[-1][-1] = (text + data, key)

    @property
    def data(self) -> Any:
        return json.loads(self._raw)


@pytest.fixture(scope="module")
def found() -> Results:
    return with_alarms(results())


@pytest.fixture(scope="module")
def page(found: Results) -> Page:
    return Page(render_page(found, note="A *note*.", next_command="gmb next --out 'x y'"))


class TestContent:
    def test_the_answer_comes_first(self, found: Results, page: Page):
        said = " ".join(page.text.split())
        assert answer(found).sentence in said
        assert said.index(answer(found).sentence) < said.index("What becomes of 100 runs")
        assert "A *note*." in said
        assert "gmb next --out 'x y'" in said

    def test_a_row_holds_the_numbers_of_the_results(self, found: Results, page: Page):
        ranked = answer(found).ranked
        assert len(page.rows) == len(ranked) == len(NAMES)
        rows = {row[0][0].strip(): row for row in page.rows}
        for item in ranked:
            first = item.x_first_alarm
            assert first is not None
            at = first.at(0.05)
            row = rows[shown_name(item)]
            rate, point = item.achieved(0.05), item.point(0.05)
            assert rate is not None
            assert point is not None
            numbers = [at.detection_rate, at.timely_rate, at.false_alarm_rate, at.chance]
            seen = first.visible
            shown = (None, None) if seen is None else (seen.at_alarm_median, seen.unseen)
            numbers += [at.lead_median, *shown, first.p_adjusted]
            numbers += [rate.achieved, point.coverage, point.chance, item.x_p_adjusted]
            numbers += [item.layer_A.auc]
            keys = [key for _, key in row[2:]]
            assert keys == ["" if value is None else repr(value) for value in numbers]
            assert row[1][0].strip() == item.label
            assert row[2][0].split()[0] == f"{at.detection_rate:.0%}"

    def test_what_a_score_opens_to_is_that_of_the_results(self, found: Results, page: Page):
        ranked = answer(found).ranked
        scores = page.data["scores"]
        events = list(found.event.t_event_by_seed.values())
        assert [run["event"] for run in page.data["runs"]] == events
        for item, score in zip(ranked, scores, strict=True):
            first = item.x_first_alarm
            assert first is not None
            assert [step for step, _ in score["alarms"]] == list(first.alarm_steps)
            outcomes = [outcome for _, outcome in score["alarms"]]
            at = first.at(0.05)
            assert outcomes.count("timely") == at.n_timely
            assert outcomes.count("miss") == at.n_missed
            assert [one["rate"] for one in score["budgets"]] == [
                p.false_alarm_rate for p in first.at_budget
            ]
            gate = item.layer_B.achieved
            assert [one["rate"] for one in score["targets"]] == [one.achieved for one in gate]
            assert score["sentence"] == item.x_sentence
            assert [one[:3] for one in score["gates"]] == [
                [gate.unit, gate.gate, gate.state] for gate in item.x_gates
            ]
            assert {one["name"] for one in score["baselines"]} >= {"the clock"}
            assert score["events"][0]["event"] == "E_plateau 0.9 x 5"

    def test_classes_are_kept_apart(self, page: Page):
        kinds = [tag["data-kind"] for name, tag in page.tags if name == "tbody" and tag]
        assert kinds[0] == "label-free"
        assert {"task-aware", "label-using", "baseline"} <= {*kinds}

    def test_design_lock_and_environment(self, found: Results, page: Page):
        source = found.x_provenance
        assert source is not None
        for value in (source.lock_hash, source.python, found.x_checksum, "Definition of done"):
            assert value is not None
            assert value in page.text
        assert "The event t* is" in page.text

    def test_alarms_that_do_not_add_up_are_left_out(self, found: Results):
        item = found.indicators[0]
        first = item.x_first_alarm
        assert first is not None
        turned = first.model_copy(update={"alarm_steps": (None,) * len(first.alarm_steps)})
        other = item.model_copy(update={"x_first_alarm": turned})
        changed = found.model_copy(update={"indicators": (other,)})
        page = Page(render_page(changed))
        assert page.data["scores"][0]["alarms"] is None
        assert f"add up to the counts of the verdict: {item.name}." in page.text

    def test_headings_in_order_language_and_title(self, page: Page):
        levels = [int(name[1]) for name, _ in page.tags if re.fullmatch("h[1-6]", name)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        assert ("html", {"lang": "en"}) in page.tags
        assert any(name == "title" for name, _ in page.tags)
        heads = [tag for name, tag in page.tags if name == "th"]
        assert all(tag.get("scope") in ("col", "colgroup", "row", "rowgroup") for tag in heads)

    def test_nothing_is_fetched(self, page: Page):
        loads = [tag.get("src") or tag.get("href") for _, tag in page.tags]
        assert all(place.startswith("#") for place in loads if place)
        (policy,) = [tag["content"] for _, tag in page.tags if tag.get("http-equiv")]
        assert policy is not None
        assert policy.startswith("default-src 'none'")
        assert not re.search(r"https?://(?!www\.w3\.org)", render_page(results(["vei"])))


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_text(name: str):
    made = results([name, "clock"])
    text = render_page(made, note=name, next_command=name)
    page = Page(text)
    assert [tag for tag, _ in page.tags if tag == "script"] == ["script", "script"]
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not any(key.startswith("on") for _, tag in page.tags for key in tag)
    visible = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    assert visible in [row[0][0].strip() for row in page.rows]
    assert visible in [score["name"] for score in page.data["scores"]]


def test_forty_scores_are_small_and_quick():
    made = with_alarms(results([*NAMES, *(f"score_{n}" for n in range(12))]))
    began = time.perf_counter()
    text = render_page(made)
    assert time.perf_counter() - began < 2 * 3  # 2 s on a quiet machine
    assert len(text.encode()) < 1_000_000


class TestOtherFiles:
    """Files of older versions and of other people: what they lack is left out, and said."""

    def test_the_published_layout_alone(self, tmp_path: Path):
        (tmp_path / "theirs.yaml").write_text(EXAMPLE)
        page = Page(remake_page(tmp_path / "theirs.yaml").read_text(encoding="utf-8"))
        for what in ("x_first_alarm", "x_prereg", "x_provenance", "x_sentence", "x_gates"):
            assert f"({what})" in page.text
        assert [row[0][0].strip() for row in page.rows] == ["second", "first"]
        assert [part.strip() for part in page.rows[0][3] if part] == ["50%", "0.5"]
        assert "Events covered, by windows" in page.text

    def test_numbers_that_do_not_exist_and_no_score_at_all(self):
        made = Results.parse(yaml.safe_load(EMPTY), where="results")
        page = Page(render_page(made))
        assert [part.strip() for part in page.rows[0][3] if part] == ["–"]
        none = Page(render_page(made.model_copy(update={"indicators": ()})))
        assert none.rows == []
        assert none.data["scores"] == []

    def test_without_the_alarm_of_each_run(self):
        page = Page(render_page(results(["vei", "clock"])))
        assert "The first alarm of each run (alarm_steps)" in page.text
        assert all(score["alarms"] is None for score in page.data["scores"])

    def test_by_windows_leads_are_those_of_the_windows(self, found: Results):
        items = [one.model_copy(update={"x_first_alarm": None}) for one in found.indicators]
        older = found.model_copy(update={"indicators": tuple(items)})
        page = Page(render_page(older))
        at = answer(older).ranked[0].point(0.05)
        assert at is not None
        assert page.data["scores"][0]["leads"] == list(at.x_lead_times)
        assert page.data["by"] == "windows"

    def test_a_column_of_ones_own_is_of_no_class_whatever_its_name(self, found: Results):
        changes: dict[str, dict[str, Any]] = {
            "embedding_gini": {"family": "external", "x_sees_test_labels": None},
            "vei": {"family": "external", "x_sees_test_labels": True},
        }
        items = [one.model_copy(update=changes.get(one.name, {})) for one in found.indicators]
        page = Page(render_page(found.model_copy(update={"indicators": tuple(items)})))
        kinds = {score["name"]: score["kind"] for score in page.data["scores"]}
        assert kinds["embedding_gini"] == "undeclared"
        assert kinds["vei"] == "label-using"

    def test_a_newer_version_is_named(self, found: Results):
        assert found.x_provenance is not None
        newer = found.x_provenance.model_copy(update={"package_version": "99.1.0"})
        page = Page(render_page(found.model_copy(update={"x_provenance": newer})))
        assert "The file was written by gmb-hf 99.1.0" in page.text


class TestRemake:
    def test_from_a_file_or_its_folder_without_logs(self, found: Results, tmp_path: Path):
        found.write(tmp_path / "results.yaml")
        direct = write_page(found, tmp_path / "direct.html", folder=tmp_path)
        made = remake_page(tmp_path)
        assert made == tmp_path / "report.html"
        assert made.read_bytes() == direct.read_bytes()
        other = remake_page(tmp_path / "results.yaml", tmp_path / "deep" / "page.html")
        assert other.read_bytes() == made.read_bytes()

    def test_bad_input_is_one_line(self, found: Results, tmp_path: Path):
        file = found.write(tmp_path / "results.yaml")
        (tmp_path / "no.yaml").write_text("a: 1\n")
        (tmp_path / "newer.yaml").write_text("schema_version: v0.5\n")
        (tmp_path / "folder").mkdir()
        (tmp_path / "sequence").mkdir()
        (tmp_path / "sequence" / "retention.json").write_text("{}")
        other = "retention.json: is no evaluation; its report is made by: gmb sequential"
        (tmp_path / "file").write_text("")
        for source, out, message in (
            (tmp_path / "gone.yaml", None, "gone.yaml: there is no such file"),
            (tmp_path / "folder", None, "folder: holds no results.yaml; name a results file"),
            (tmp_path / "sequence", None, other),
            (tmp_path / "sequence" / "retention.json", None, other),
            (tmp_path / "no.yaml", None, "no.yaml: is no results file: it has no schema_version"),
            (tmp_path / "newer.yaml", None, "schema_version is 'v0.5', this version reads 'v0.4'"),
            (file, tmp_path / "x.pdf", "the report is a page; end its name in .html"),
            (
                file,
                tmp_path / "file" / "x.html",
                "could not be written: a file with this name is in the way",
            ),
            (file, tmp_path / "folder.html", "this is a folder, not a file"),
        ):
            (tmp_path / "folder.html").mkdir(exist_ok=True)
            with pytest.raises(InputError, match=re.escape(message)) as caught:
                remake_page(source, out)
            assert "\n" not in str(caught.value)


# In a browser.


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not on the PATH (Debian: apt install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright, of the extra `test`, is not installed"
    )
    with playwright.sync_playwright() as running:
        # Containers often run as root, where Chromium's sandbox does not start.
        launched = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of scores of every kind, some with names that are markup."""
    made = with_alarms(results([*list(NAMES)[-12:], "vei", *HOSTILE]))
    items = {item.name: item for item in made.indicators}
    for name, thresholds in EXTREME.items():
        gate = items[name].layer_B
        rows = zip(gate.achieved, thresholds, strict=True)
        achieved = [row.model_copy(update={"x_threshold": value}) for row, value in rows]
        gate = gate.model_copy(update={"achieved": tuple(achieved)})
        items[name] = items[name].model_copy(update={"layer_B": gate})
    made = made.model_copy(update={"indicators": tuple(items.values())})
    return write_page(made, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture
def opened(browser: Any, file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page as it opens; a word on the console, a dialog or a request is a fault."""
    how = {"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})}
    context = browser.new_context(**how)
    page, faults = context.new_page(), []
    page.on("console", lambda said: faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda one: None if one.url.startswith("file:") else faults.append(one.url))
    page.goto(file.as_uri())
    yield page
    assert faults == []
    context.close()


EXTREME = {
    "clock": (-1.7e308, 1.7e308, float("inf")),
    "test_loss_drift": (1e17, 1e17 + 16, 1e17 + 32),
    "held_out_loss": (0.0, 0.0, 5e-324),
}
"""Thresholds that a chart has to bear, by the score."""
PHONE = {"viewport": {"width": 375, "height": 800}, "has_touch": True}
DARK: dict[str, Any] = {"color_scheme": "dark"}


def shown(page: Any) -> list[str]:
    return [name.strip() for name in page.locator("tr.score:visible th").all_inner_texts()]


def open_all(page: Any) -> None:
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


def test_sorted_by_a_column_within_each_class_best_first(opened: Any):
    open_all(opened)
    heads = {
        name: opened.locator("#table > thead th", has_text=re.compile(f"^{name}$"))
        for name in ("detection rate", "median lead time", "false-alarm rate per run")
    }
    keys = """(rows, cell) => rows.map((row) => [
      row.closest("table").id + row.parentNode.dataset.tier + row.parentNode.dataset.kind,
      row.cells[cell].dataset.key])"""

    def check(cell: int, sign: int) -> int:
        """Rows are in order within each class of a tier; returns how many of those there are."""
        classes: dict[str, list[float]] = {}
        for kind, key in opened.locator("tr.score").evaluate_all(keys, cell):
            classes.setdefault(kind, []).append(float(key) if key else sign * float("inf"))
        assert all(own == sorted(own, reverse=sign < 0) for own in classes.values())
        return len(classes)

    before = shown(opened)
    head, lead = heads["detection rate"], heads["median lead time"]
    assert head.get_attribute("aria-sort") is None
    for direction, sign in (("descending", -1), ("ascending", 1)):
        head.click(position={"x": 3, "y": 3})  # beside its words
        assert head.get_attribute("aria-sort") == direction
        assert check(2, sign) > 2
    # Few false alarms are the better ones.
    heads["false-alarm rate per run"].click()
    assert heads["false-alarm rate per run"].get_attribute("aria-sort") == "ascending"
    n_classes = check(4, 1)
    lead.get_by_role("button").press("Enter")  # by the keyboard
    assert lead.get_attribute("aria-sort") == "descending"
    assert head.get_attribute("aria-sort") is None
    lead.get_by_role("button").press("Enter")
    lead.get_by_role("button").press("Enter")
    assert shown(opened) == before
    # All classes of a table together.
    opened.get_by_label("keep classes apart").uncheck()
    head.get_by_role("button").click()
    for table in ("#table", "#table-rest"):
        rows = opened.locator(f"{table} tr.score")
        every = [float(key) for _, key in rows.evaluate_all(keys, 2) if key]
        assert len(every) > 2
        assert every == sorted(every, reverse=True)
    opened.get_by_label("keep classes apart").check()
    assert opened.locator("tr.heading:visible").count() == n_classes


LABELS_SHOWN = "rows => rows.map((row) => row.dataset.label)"


def test_what_passes_stands_first_then_what_is_undecided_and_the_rest_is_folded(opened: Any):
    tiers = opened.locator("table.scores tbody").evaluate_all("all => all.map(b => b.dataset.tier)")
    assert [*dict.fromkeys(tiers)] == ["passes", "undecided", "rest"]
    labels = opened.locator("tr.score:visible").evaluate_all(
        "rows => rows.map(r => r.dataset.label)"
    )
    assert "RANK_ONLY" not in labels
    assert {"SUPPORTED_FOR_ALARM", "INCONCLUSIVE"} == {*labels}
    first = opened.locator(".bars .name").evaluate_all("all => all.map(a => a.textContent.trim())")
    assert (
        first[: labels.count("SUPPORTED_FOR_ALARM")]
        == shown(opened)[: labels.count("SUPPORTED_FOR_ALARM")]
    )
    opened.get_by_label("Search").fill("rank_only")  # what is asked for is shown
    assert {"RANK_ONLY"} == {*opened.locator("tr.score:visible").evaluate_all(LABELS_SHOWN)}
    opened.get_by_label("Search").fill("")
    assert not opened.locator("#rest").get_attribute("open")


def test_columns_by_windows_are_folded(opened: Any):
    heads = opened.locator("#table > thead th:visible")
    few = heads.count()
    assert "coverage" not in heads.all_inner_texts()
    opened.get_by_label("columns by windows").check()
    assert heads.count() > few + 4


@pytest.mark.parametrize("opened", [PHONE], indirect=True)
def test_at_most_three_screens_stand_before_the_table(opened: Any):
    top = "document.getElementById('table').getBoundingClientRect().top / innerHeight"
    assert opened.evaluate(top) <= 3


def test_a_long_bar_of_false_alarms_is_cut_and_says_its_number():
    made = results(["vei", "clock"])
    item = made.indicators[0]
    first = item.x_first_alarm
    assert first is not None
    at = first.at(0.05)
    always = {"n_timely": 0, "n_early": 0, "n_missed": 0, "n_false_before_event": at.n_events}
    points = [one.model_copy(update=always) if one is at else one for one in first.at_budget]
    worst = first.model_copy(update={"at_budget": tuple(points)})
    changed = item.model_copy(update={"x_first_alarm": worst})
    text = render_page(made.model_copy(update={"indicators": (changed, made.indicators[1])}))
    share = 100 * (at.n_events + at.n_event_free_false) / at.n_runs
    assert f'<text class="cut" x="2" y="15">‹ {share:.0f}</text>' in text
    assert re.findall('class="cut"', text) == ['class="cut"']


def test_filtered_by_class_label_and_search(opened: Any):
    open_all(opened)
    every = len(shown(opened))
    opened.get_by_role("button", name="label-using").click()
    assert {*shown(opened)} < {*NAMES}
    assert opened.locator("#count").inner_text() == f"{len(shown(opened))} of {every} scores shown"
    opened.locator("button[value=baseline]").click()
    assert {"clock", "constant"} < {*shown(opened)}
    opened.get_by_label("Search").fill("CLOCK")
    assert shown(opened) == ["clock"]
    opened.get_by_label("Search").fill("nothing like it")
    assert shown(opened) == []
    opened.locator("#none").get_by_role("button").click()
    assert len(shown(opened)) == every
    chosen = opened.locator("button[data-filter=label]").first
    chosen.click()
    labels = opened.locator("tr.score:visible").evaluate_all(
        "rows => rows.map(r => r.dataset.label)"
    )
    assert 0 < len(labels) < every
    assert {*labels} == {chosen.get_attribute("value")}


def test_a_score_opens_to_its_curves(opened: Any):
    open_all(opened)
    for name in ("vei", HOSTILE[0]):
        button = opened.locator("tr.score").get_by_role("button", name=name)
        button.press("Enter")
        assert button.get_attribute("aria-expanded") == "true"
        detail = opened.locator(f"#{button.get_attribute('aria-controls')}")
        assert detail.locator("figure svg").count() == 4
        assert "a sentence about this verdict." in detail.inner_text()
        marks = detail.locator("figure").first.locator("svg > :is(path, circle):has(title)")
        assert marks.count() == 256
        detail.get_by_text("Every run as a table").click()
        detail.locator("figure").first.locator("tbody tr").first.wait_for(timeout=5_000)
        assert detail.locator("figure").first.locator("tbody tr").count() == 256
        button.click()
        assert not detail.is_visible()


@pytest.mark.parametrize("name", EXTREME)
def test_thresholds_as_far_apart_or_as_near_as_numbers_go(opened: Any, name: str):
    open_all(opened)
    opened.locator("tr.score").get_by_role("button", name=name, exact=True).click()
    figures = opened.locator("tr.detail:visible figure")
    assert figures.count() >= 3
    assert "NaN" not in opened.locator("tr.detail:visible").inner_html()


def test_a_link_opens_a_score(opened: Any, file: Path):
    opened.locator(".outcomes a").nth(1).click()
    opened.locator("tr.detail:visible").wait_for(timeout=5_000)
    place = opened.evaluate("location.hash")
    opened.goto(f"{file.as_uri()}{place}")
    opened.reload()
    assert opened.locator("tr.detail:visible").count() == 1


@pytest.mark.parametrize("opened", [PHONE, {**PHONE, **DARK}], indirect=True)
def test_on_a_telephone_nothing_runs_out_of_the_page(opened: Any):
    open_all(opened)
    opened.get_by_label("columns by windows").check()
    for place in (0, 1, -1):
        opened.locator("tr.score:visible button").nth(place).click()
    assert opened.evaluate("document.documentElement.scrollWidth") == 375


# Text against what is painted behind it (WCAG 2, relative luminance), of every visible text.
CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colour = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const found = colour(getComputedStyle(one).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255];
  };
  const faults = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!own || !one.getClientRects().length || one.closest("script, title")) continue;
    const style = getComputedStyle(one);
    const front = colour(one instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(front), light(behind(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) faults.push(`${one.outerHTML.slice(0, 80)}: ${ratio.toFixed(2)}`);
  }
  return faults;
}"""


@pytest.mark.parametrize("opened", [{}, DARK], indirect=True)
def test_both_themes_can_be_read_and_chosen(opened: Any):
    ground = "getComputedStyle(document.body).backgroundColor"
    first = opened.evaluate(ground)
    opened.locator("tr.score button").first.click()
    opened.locator("button[data-filter=label]").first.click()
    opened.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert opened.evaluate(CONTRAST) == []
    opened.evaluate("document.documentElement.style.setProperty('--dim', '#777')")
    assert opened.evaluate(CONTRAST) != []  # it does find what is too pale
    opened.evaluate("document.documentElement.style.removeProperty('--dim')")
    opened.get_by_role("button", name="theme").click()
    assert opened.evaluate(ground) != first
    assert {first, opened.evaluate(ground)} == {"rgb(255, 255, 255)", "rgb(20, 24, 29)"}
    assert opened.evaluate(CONTRAST) == []
    opened.emulate_media(media="print")
    assert opened.evaluate(ground) == "rgb(255, 255, 255)"  # whatever was chosen


def test_every_control_has_a_name_and_the_keyboard_reaches_it(opened: Any):
    nameless = opened.evaluate(
        """() => [...document.querySelectorAll("button, input, a, summary")].filter((one) =>
          !(one.textContent.trim() || (one.labels && one.labels.length))).length"""
    )
    assert nameless == 0
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.textContent") == "To the table of scores"
    reached = set()
    for _ in range(80):
        opened.keyboard.press("Tab")
        reached.add(opened.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"theme", "search", "apart", "clear", "BUTTON", "A"} <= reached
