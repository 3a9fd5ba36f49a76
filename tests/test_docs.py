"""Every block of code in the README and in docs/ runs here, or says why not.

A page is read from top to bottom in one folder, which holds what its text speaks of (`Inputs`).
Lines of `gmb` run in this process, blocks of Python in one namespace a page. A comment before a
block says what is special about it:

    <!-- not run: why -->        it is not run; its lines of `gmb` must parse, its Python compile
    <!-- exits with 3 -->        its last command ends with this code
    <!-- printed -->             it is what the block before it prints, to the letter
    <!-- excerpt of FILE -->     it stands in that file of the repository

Figures are left out (`--no-figures`): other tests draw them.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import runpy
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, get_args

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmark.decision_runs import EXPLORE, lock_on, log_of
from hub_store import Hub
from monitor.live_runs import Evaluated, evaluated_runs
from synthetic import SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import Design, RunLog, preset
from gmb_hf.base.documents import parse_yaml
from gmb_hf.base.files import parse_json
from gmb_hf.benchmark.records import Label
from gmb_hf.cli import command, main
from gmb_hf.design.event_types import EVENT_TYPES
from gmb_hf.hub import panels
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.report.answer import REASONS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GOLDEN = ROOT / "tests" / "golden" / "inputs"
PAGES = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path
    for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
}
SHELL, PYTHON = "sh", "python"
DATA = {"text", "json", "yaml", "toml", "diff"}

_BLOCK = re.compile(
    r"(?:^<!-- (?P<said>[^\n]+?) -->\n+)?"
    r"^(?P<fence>```+)(?P<kind>[^\n]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
_SAID = re.compile(r"(not run|exits with|printed|excerpt of)(?::? |$)(.*)")
_SHOWN = re.compile(r"^(?:\$ |next +)(gmb [a-z].*)$", re.MULTILINE)
"""Commands within what another one prints."""


class Block(NamedTuple):
    """A fenced block: its language, text and line, and what the comment before it says."""

    kind: str
    text: str
    line: int
    key: str
    value: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, from top to bottom."""
    text = PAGES[page].read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        said = _SAID.match(found["said"] or "")
        line = text.count("\n", 0, found.start("fence")) + 1
        yield Block(found["kind"], found["text"], line, *(said.groups() if said else ("", "")))


def commands(text: str) -> list[list[str]]:
    """The words of each line of a shell block, without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


class Inputs:
    """What the pages have in their folders; what several of them need is made once."""

    def __init__(self, stored: Path) -> None:
        self.stored = stored

    def fill(self, page: str, folder: Path) -> dict[str, Any]:
        """Put the inputs of a page into its folder; returns the names that its Python finds."""
        self.my_csv(folder)
        own = getattr(self, page.removeprefix("docs/").replace("/", "_").lower(), None)
        return (own(folder) if own else None) or {}

    @cached_property
    def evaluated(self) -> Evaluated:
        """A lock and its results, in which some scores may act, with their runs."""
        return evaluated_runs()

    @cached_property
    def panels_place(self) -> Path:
        """A folder with a small panel of the name `quick-29`."""
        columns = ("test_acc", "train_acc", "embedding_gini", "unembedding_gini")
        parts, seeds = {}, {"explore": range(30), "heldout": range(100, 124)}
        for part, own in seeds.items():
            log = synthetic_runlog(len(own), seed=own[0], first_seed=own[0])
            values = {name: log.panel(name).values for name in columns}
            parts[part] = RunLog.from_arrays(
                log.runs, log.panel("step").steps[0], values, seeds=log.seeds
            )
        design = Design.minimal(
            **SYNTHETIC_DESIGN,
            candidates=[{"name": name, "family": "spectral"} for name in columns[2:]],
            seeds_explore=[*seeds["explore"]],
            seeds_eval=[*seeds["heldout"]],
        )
        recipe = panels.Recipe("quick-29", "Does the page work", lambda: preset("smoke"), 200)
        place = self.stored / "panels"
        panels.freeze(recipe, parts, design, place / "quick-29", command="made up")
        return place

    def training(self, seed: int, cadence: int = 40) -> pd.DataFrame:
        """A run whose accuracy jumps at a step of its own, and a score that rises before."""
        rng = np.random.default_rng(seed)
        step = np.arange(0, 4001, cadence)
        jump = rng.integers(1200, 3600)
        rise = np.clip((step - jump) / 700 + 1, 0, 1) + 0.05 * rng.normal(size=len(step))
        accuracy = 1 / (1 + np.exp((jump - step) / 60))
        frame = {"run": f"r{seed}", "step": step, "test_acc": accuracy, "my_score": rise}
        return pd.DataFrame(frame)

    def my_csv(self, folder: Path, n_runs: int = 8) -> None:
        """`my/*.csv`: runs of 20,000 steps."""
        (folder / "my").mkdir(exist_ok=True)
        for seed in range(n_runs):
            frame = self.training(seed, cadence=100)
            frame["step"] *= 5
            frame.to_csv(folder / "my" / f"r{seed}.csv", index=False)

    def golden(self, folder: Path) -> None:
        """Explore and held-out runs, and their lock."""
        for name in ("explore.parquet", "heldout.parquet", "lock.yaml"):
            shutil.copy(GOLDEN / name, folder)

    first_alarm = golden

    def decide(self, folder: Path) -> None:
        explored = log_of(EXPLORE)
        explored.write(folder / "explore.parquet")
        held_out = [*EXPLORE[::4], *[(None, None)] * 6]
        log_of(held_out, first_seed=1000).write(folder / "heldout.parquet")
        lock_on(explored).write(folder / "lock.yaml")

    def verdicts(self, folder: Path) -> None:
        self.golden(folder)
        (folder / "lock.yaml").unlink()

    def api_design(self, folder: Path) -> None:
        self.my_csv(folder, 48)

    def report(self, folder: Path) -> None:
        results = self.evaluated.results
        results.write(folder / "results" / "results.yaml")
        results.write(folder / "results.yaml")

    def notebook(self, folder: Path) -> dict[str, Any]:
        explore, held_out = map(self.training, range(30)), map(self.training, range(30, 50))
        return {"explore_frame": pd.concat(explore), "held_out_frame": pd.concat(held_out)}

    def metrics(self, folder: Path) -> dict[str, Any]:
        rng = np.random.default_rng(0)
        series = [rng.random(100).tolist() for _ in range(24)]
        return {"series": series, "events": [60 + run for run in range(24)]}

    def monitor(self, folder: Path) -> None:
        rows = list(self.evaluated.rows(4))
        rows[18]["embedding_norm"] = float("nan")
        (folder / "run.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        self.evaluated.lock.write(folder / "lock.yaml")
        self.evaluated.results.write(folder / "results.yaml")

    def crucible(self, folder: Path) -> None:
        for name in ("candidates.jsonl", "candidate_embeddings.npy", "pool.jsonl"):
            shutil.copy(GOLDEN / name, folder)
        shutil.copy(GOLDEN / "pool_embeddings.npy", folder)
        shutil.copy(GOLDEN / "bundles_texts.jsonl", folder / "bundles.jsonl")
        vectors = np.load(GOLDEN / "embeddings.npy")
        noise = np.random.default_rng(0).normal(size=vectors.shape)
        np.save(folder / "first.npy", vectors)
        np.save(folder / "second.npy", vectors + 0.1 * noise)
        (folder / "configurations.csv").write_text(
            "name,frozen_tier3,organic_holdout\nbase,0.50,0.90\nreplay,0.70,0.85\nworse,.4,.8\n"
        )

    def datasets(self, folder: Path) -> None:
        small = folder / "small.csv"
        shutil.copy(GOLDEN / "small.csv", small)
        building = (
            "data build modular --task add_p97 --out out/gmb-modular",
            f"data build runs --runs quick={small} --license cc-by-4.0 --out out/gmb-runs",
        )
        for line in building:
            code, _, err = gmb(line.split())
            assert code == 0, err
        shutil.copytree(folder / "out/gmb-runs", folder / "out/gmb-runs-v2")

    def hierarchical(self, folder: Path) -> None:
        synthetic_runlog(6, bundles=True).write(folder / "out" / "logs" / "runs.parquet")

    def sequential(self, folder: Path) -> None:
        shutil.copytree(GOLDEN / "sequential", folder / "runs" / "modular")

    def submit(self, folder: Path) -> None:
        example = folder / "examples" / "my_score" / "my_score.py"
        shutil.copytree(ROOT / "examples" / "my_score", example.parent)
        log = FrozenPanel.find("quick-29").read()
        runpy.run_path(str(example))["score_runs"](log).write(folder / "my_score.parquet")

    def judge(self, folder: Path) -> None:
        log = synthetic_runlog(10, 31, 20)
        log.write(folder / "lm" / "logs" / "runs.parquet")
        rows = log.table.select(["run", "step", "embedding_gini"]).to_pylist()
        with (folder / "scores.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["run", "step", "judge"])
            writer.writerows(row.values() for row in rows)

    def api_more(self, folder: Path) -> None:
        line = {"run": "a", "step": 0, "prompt": "The dog", "sample": 0, "answer": " sat"}
        (folder / "answers.jsonl").write_text(json.dumps(line) + "\n")

    def own_logs(self, folder: Path) -> dict[str, Any]:
        log = synthetic_runlog(6)
        runs = {
            run: log.select([run]).table.select(["step", "test_acc", "embedding_gini"])
            for run in log.runs
        }
        rows = {run: [[*row.values()] for row in table.to_pylist()] for run, table in runs.items()}
        for run, table in runs.items():
            written(folder / "csv" / f"{run}.csv", table.column_names, rows[run])
            history = [
                {"step": step, "gini": gini} | ({} if step % 20 else {"eval_accuracy": acc})
                for step, acc, gini in rows[run]
            ]
            trainer_state(folder / "outputs" / run / "trainer_state.json", history)
            losses = [
                {"step": step, "eval_loss": 4 - 4 * acc, "grad_norm": gini}
                for step, acc, gini in rows[run]
            ]
            trainer_state(folder / "runs" / run / "checkpoint-1200" / "trainer_state.json", losses)
            seen = [[step, acc if step % 20 == 0 else "", gini] for step, acc, gini in rows[run]]
            names = ["_step", "eval/accuracy", "gini"]
            written(
                folder / "history" / f"{run}.csv", [*names, "_runtime"], [[*r, 1] for r in seen]
            )
            event_file(folder / "tb" / run, seen)
        for metric, column in (("eval/accuracy", 1), ("gini", 2)):
            chart(folder / "wandb" / f"{metric.replace('/', '_')}.csv", metric, rows, column)
        project(folder / "my_project.parquet", rows)
        for part, n_runs, first in (("explore", 40, 0), ("heldout", 6, 100)):
            other = synthetic_runlog(n_runs, 61, 20, seed=first, first_seed=first)
            for run in other.runs:
                table = other.select([run]).table.select(["step", "test_acc", "embedding_gini"])
                values = [[*row.values()] for row in table.to_pylist()]
                written(folder / part / f"{run}.csv", table.column_names, values)
        return {"frame": pd.concat(map(self.training, range(4)))}


def written(path: Path, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def trainer_state(path: Path, history: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"global_step": history[-1]["step"], "log_history": history}))


def event_file(folder: Path, rows: list[list[Any]]) -> None:
    """What SummaryWriter leaves, written without torch."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder))
    for step, accuracy, gini in rows:
        values = [("train/gini", gini)] + [("eval/accuracy", accuracy)] * (accuracy != "")
        of = [Summary.Value(tag=tag, simple_value=value) for tag, value in values]
        writer.add_event(Event(step=step, summary=Summary(value=of)))
    writer.close()


def chart(path: Path, metric: str, rows: dict[str, list[list[Any]]], column: int) -> None:
    """What a chart of Weights & Biases exports: three columns a run."""
    every = 20 if column == 1 else 10
    steps = [row[0] for row in next(iter(rows.values())) if row[0] % every == 0]
    header = ["Step", *(f"{r} - {metric}{end}" for r in rows for end in ("", "__MIN", "__MAX"))]
    at = {run: {row[0]: row[column] for row in own} for run, own in rows.items()}
    written(path, header, [[s, *(at[run][s] for run in rows for _ in range(3))] for s in steps])


def project(path: Path, rows: dict[str, list[list[Any]]]) -> None:
    """The Parquet of a project of trackio."""
    table = [
        {"run_id": f"id-{run}", "run_name": run, "step": step, "space_id": None, "gini": gini}
        | {"timestamp": "2026-11-21T02:47:01+00:00", "id": place, "log_id": f"{run}-{place}"}
        | {"eval_accuracy": accuracy if step % 20 == 0 else None}
        for run, own in rows.items()
        for place, (step, accuracy, gini) in enumerate(own)
    ]
    pq.write_table(pa.Table.from_pylist(table), path)


def filled_in(page: str) -> None:
    """What a reader does to the preregistration that `gmb prereg init` wrote."""
    if page == "docs/verdicts":
        shutil.copy(GOLDEN / "prereg.yaml", "prereg.yaml")
        return
    fields = {name: value for name, value in SYNTHETIC_DESIGN.items() if name != "undeclared"}
    fields["w_event"] = 60
    candidates = [{"name": "embedding_gini", "family": "spectral"}]
    Design.minimal(**fields, candidates=candidates).write("prereg.yaml")


BY_HAND = {"gmb prereg init --out prereg.yaml": filled_in}
"""What a page says that its reader does after a command."""
ALTERNATIVES = {"docs/own_logs", "docs/panels"}
"""Pages of which each block is for another reader, who has no results/ yet."""


def gmb(words: Sequence[str]) -> tuple[int, str, str]:
    """Run a command in this process: its exit code, and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return code, out.getvalue(), err.getvalue()


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """The parameters of a command line, without running it."""
    assert words[0] in command([]).commands, f"{shlex.join(words)}: there is no such command"
    parser, rest = command(words), list(words)
    while rest and rest[0] in getattr(parser, "commands", ()):
        parser = parser.commands[rest.pop(0)]
    # A command keeps the first names of its option for help; the tests of help come later.
    found = parser.make_context("gmb", rest, help_option_names=["-h", "--help"]).params
    if words[0] == "lock":  # which needs one of the two, and says so when it runs
        assert found["out"] or found["made"], words
    return found


class Reader:
    """Reads one page, block by block."""

    def __init__(self, page: str, names: dict[str, Any]) -> None:
        self.page, self.names = page, {"__name__": "page", **names}
        self.further: list[str] = []  # what `...` stands for: options of the first example
        self.printed = ""

    def read(self, block: Block) -> None:
        """Run a block, or hold it against what it says of itself."""
        if block.key == "excerpt of":
            assert block.text in (ROOT / block.value).read_text(encoding="utf-8")
        elif block.key == "printed":
            assert block.text == self.printed
        elif block.kind == SHELL:
            self.shell(block)
        elif block.kind == PYTHON:
            code = compile(block.text, f"{self.page}.md:{block.line}", "exec")
            if block.key != "not run":
                with contextlib.redirect_stdout(io.StringIO()) as out:
                    exec(code, self.names)
                self.printed = out.getvalue()
                plt.close("all")
        else:
            self.data(block)

    def data(self, block: Block) -> None:
        """Data must be read; commands that an output shows must be such."""
        assert block.kind in DATA, f"```{block.kind}: use {SHELL}, {PYTHON} or one of {DATA}"
        if block.kind == "json":
            for line in block.text.splitlines():
                parse_json(line, where=self.page)
        if block.kind == "toml":
            tomllib.loads(block.text)
        if block.kind == "yaml":
            found = parse_yaml(block.text, where=self.page)
            fields = {"horizon": 100, "safe_gap": 200, "candidates": found["candidates"]}
            Design.minimal(**fields)
        for line in _SHOWN.findall(block.text):
            words = ["1" if word in ("H", "G") else word for word in shlex.split(line)[1:]]
            if "..." not in words:
                parsed(words)

    def shell(self, block: Block) -> None:
        """Run lines of `gmb`; other programs need a reason why they are not run."""
        if self.page in ALTERNATIVES:
            shutil.rmtree("results", ignore_errors=True)
        if block.key == "not run":
            for line in re.findall(r"^gmb .+", block.text.replace("\\\n", " "), re.MULTILINE):
                words = ["1" if word == "$!" else word for word in shlex.split(line, comments=True)]
                if "..." not in words:
                    parsed(words[1:])
            return
        lines, codes = commands(block.text), int(block.value) if block.key == "exits with" else 0
        for place, words in enumerate(lines):
            assert words[0] == "gmb", f"{words[0]}: say why it is not run, <!-- not run: why -->"
            if "..." in words:
                words = [*words[: words.index("...")], *self.further]
            elif "--safe-gap" in words and not self.further:
                self.further = words[words.index("--safe-gap") + 2 :]
            plain = ["--no-figures"] if "figures" in parsed(words[1:]) else []
            code, self.printed, err = gmb([*words[1:], *plain])
            expected = codes if place == len(lines) - 1 else 0
            assert code == expected, f"{shlex.join(words)}\nexit code {code}\n{self.printed}{err}"
            if shlex.join(words) in BY_HAND:
                BY_HAND[shlex.join(words)](self.page)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))])
def test_every_block_of_a_page_runs_or_says_why_not(
    page: str,
    inputs: Inputs,
    hub: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if any("evaluate.load" in block.text for block in blocks(page)):
        request.getfixturevalue("own_caches")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(panels.PLACE, str(inputs.panels_place))
    reader = Reader(page, inputs.fill(page, tmp_path))
    for block in blocks(page):
        if block.key == "not run":
            assert len(block.value) > 10, f"line {block.line}: why is it not run?"
            for place in re.findall(r"tests/[\w/.]*\w", block.value):
                assert (ROOT / place).exists(), f"line {block.line}: {place} is not there"
        try:
            reader.read(block)
        except BaseException as error:
            error.add_note(f"{page}.md, line {block.line}")
            raise


def test_blocks_are_found() -> None:
    every = [block for page in PAGES for block in blocks(page)]
    run = [block for block in every if block.kind in (SHELL, PYTHON) and block.key != "not run"]
    assert len(run) > 60
    fences = sum(path.read_text(encoding="utf-8").count("\n```") for path in PAGES.values())
    assert 2 * len(every) == fences, "a fence that is not closed, or is indented"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```sh\npip install x\n```\n", "say why it is not run"),
        ("```\ngmb runs\n```\n", "use sh, python"),
        ("<!-- not run: too long for a test -->\n```sh\ngmb runz\n```\n", "runz"),
        ("<!-- not run: too long for a test -->\n```python\nf(a=1, ...)\n```\n", "positional"),
        ("<!-- exits with 3 -->\n```sh\ngmb indicators clock\n```\n", "exit code 0"),
    ],
)
def test_a_block_that_neither_runs_nor_says_why_is_found(
    text: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.md").write_text(text)
    monkeypatch.setitem(PAGES, "page", tmp_path / "page.md")
    (block,) = blocks("page")
    with pytest.raises(BaseException, match=fault):
        Reader("page", {}).read(block)


# Links and words.

GENERATED = {"changelog.md", "commands.md", "design_fields.md"}
"""Pages that docs/hooks.py makes when the site is built."""
_LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, and of the terms of the glossary."""
    text = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    terms = (
        re.findall(r"^- \*\*`?(.+?)`?\*\*", text, re.MULTILINE) if path.stem == "glossary" else []
    )
    words = (re.sub(r"[^\w\s-]", "", text.lower()).strip() for text in [*headings, *terms])
    return {re.sub(r"[\s-]+", "-", one) for one in words}


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_somewhere(page: str) -> None:
    path = PAGES[page]
    text = _BLOCK.sub("", path.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        place, _, anchor = link.partition("#")
        if place.startswith(("http:", "https:")) or Path(place).name in GENERATED:
            continue
        target = path.parent / place if place else path
        assert target.exists(), f"{page}.md: {link}"
        if anchor:
            assert anchor in anchors(target), f"{page}.md: {link}"


def test_every_page_is_in_the_menu() -> None:
    menu = re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    tables = {page for page in pages if page.startswith("trial/")}  # which trial.md links
    assert sorted(menu) == sorted(pages - tables | GENERATED)


API = [path.relative_to(ROOT).as_posix() for path in sorted((DOCS / "api").glob("*.md"))]


@pytest.mark.parametrize("page", API)
def test_every_name_of_an_api_page_exists(page: str) -> None:
    for name in re.findall(r"^::: (\S+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE):
        assert resolve_name(name) is not None


def test_the_glossary_has_every_label_event_and_the_reasons_are_explained() -> None:
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    for word in (*get_args(Label), *EVENT_TYPES, "CLEAR", "ALARM", "ABSTAIN"):
        assert f"- **`{word}`**" in glossary, word
    told = (DOCS / "verdicts.md").read_text(encoding="utf-8")
    for code in REASONS:  # that of a gate begins with its unit
        assert any(f"`{one}`" in told for one in (code, f"runs_{code}", f"windows_{code}")), code


def test_the_glossary_explains_a_term_once() -> None:
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = [
        term
        for entry in re.findall(r"^- (\*\*.+?):", glossary, re.MULTILINE)
        for term in re.findall(r"\*\*(.+?)\*\*", entry)
    ]
    assert len(terms) > 100
    assert len({*map(str.lower, terms)}) == len(terms)


def test_readme_is_one_page() -> None:
    assert len(PAGES["README"].read_text(encoding="utf-8").splitlines()) <= 130
