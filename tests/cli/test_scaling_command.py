"""Grids: what a cell is, what it counts, training, resuming, and the commands as they are typed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import gmb, refused
from launched import ROOT, run

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.language.data import load_tokenizer
from gmb_hf.protocol.language.train import model_shape
from gmb_hf.protocol.scaling.grid import (
    Counts,
    GridTraining,
    PlannedCell,
    SourceData,
    parse_grid,
    shape_of,
    size_of,
)
from gmb_hf.protocol.scaling.source import MarkovSource, SourceSettings
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.variants import parse_variant

TINY = ("--set=training.block=8", "--set=training.batch=2", "--set=training.measured_blocks=4")
RUN = ("scaling", "run", "--seeds=0", "--device=cpu", "--source=markov:order=2,seed=1", *TINY)
GRID = ("--grid", "params=200,700,3k", "tokens=32,64,128")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of three sizes and three amounts of tokens, a step or a few each."""
    out = tmp_path_factory.mktemp("scaling") / "grid"
    done = gmb(*RUN, *GRID, "--out", out)
    assert done.code == 0, done
    assert done.next_command == f"gmb scaling fit {out}"
    return out


def records(folder: Path) -> Mapping[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in (folder / "cells").glob("*.json")}


def test_a_grid_reads_in_one_word_or_in_several():
    assert parse_grid(["params=1k,2.5k", "tokens=64k,1M,2e3"]) == (
        (1000, 2500),
        (2000, 64_000, 1_000_000),
    )
    assert parse_grid(["params=10,", "20,tokens=30"]) == ((10, 20), (30,))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parrams=1k"], "'parrams' is neither params nor tokens"),
        (["params=1k,x", "tokens=3"], "'x' is no number from 1 to 1e"),
        (["params=1e400", "tokens=3"], "'params=1e400' is no number from 1"),
        (["params=1k", "tokens=1e20"], "'tokens=1e20' is no number from 1"),
        (["1k", "tokens=3"], "'1k' is no number"),
        (["params=0", "tokens=3"], "'params=0' is no number"),
        (["params=1k"], "tokens is missing; e.g. params=1k"),
        (["params=1k,1000", "tokens=3"], "params 1000 is given twice"),
        (["params=1", "tokens=3", "params=2"], "params is given twice"),
    ],
)
def test_bad_grids(words: list[str], message: str):
    with pytest.raises(InputError, match=message):
        parse_grid(words)


@pytest.mark.parametrize("text", ["dense", "sort-4", "blend-4", "banded-8", "banded-12-none"])
def test_sizes_and_flops_by_hand(text: str):
    settings = shape_of(3000, parse_variant(text))
    assert (settings.layers, settings.width, settings.heads) == (1, 16, 1)
    plan = PlannedCell(parse_variant(text), 3000, 512, 0)
    shape = model_shape(plan.language(GridTraining(), "byte"), load_tokenizer("byte"))
    w, hidden, block, vocabulary = 16, 64, 32, 259
    bands = [getattr(settings, name) for name in ("band_fc1", "band_fc2")]
    inside = [
        w * hidden
        if band is None
        else sum(abs(j - 4 * i) <= band / 2 for i in range(w) for j in range(hidden))
        for band in bands
    ]
    mlp = sum(inside)
    extra = {"sort-4": 2, "blend-4": 5}.get(text, 0)
    biases_and_norms = (3 * w + w) + (hidden + w) + 4 * w + 2 * w
    non_embedding = 4 * w * w + mlp + biases_and_norms + extra
    attention = 4 * block * w * (2 if text == "sort-4" else 1)
    mixed = 2 * block * w if text == "blend-4" else 0
    forward = 2 * (4 * w * w + mlp) + attention + mixed + 2 * w * vocabulary
    embeddings = (vocabulary + block) * w
    assert size_of(shape) == Counts(non_embedding + embeddings, non_embedding, 3.0 * forward)


def test_a_cell_holds_steps_enough_for_its_tokens():
    for tokens in (10, 700_000, 1_249_999):
        plan = PlannedCell(parse_variant("dense"), 1000, tokens, 0)
        training = plan.language(GridTraining(), "x").training
        seen = training.steps * training.batch * 32
        assert seen >= 0.99 * tokens
        assert training.steps % training.checkpoint_every == 0
        assert training.checkpoint_every <= 1000
        assert training.checkpoint_every > 400 or training.steps < 400


def test_every_cell_and_what_it_says(trained: Path):
    cells = records(trained)
    assert len(cells) == 9
    one = cells["dense-p700-t64-s0"]
    assert (one["tokens"], one["steps"], one["width"]) == (64, 4, 8)
    assert one["lr"] == pytest.approx(0.04 / math.sqrt(8))
    source = MarkovSource(SourceSettings(order=2, seed=1))
    assert one["floor"] == pytest.approx(source.block_entropy(8))
    log = RunLog.read(trained / "logs" / "dense-p700-t64-s0.parquet")
    assert log.panel("test_loss").values[0, -1] == one["test_loss"]
    assert not list((trained / "work").iterdir())


def test_streams_of_a_seed_begin_alike_and_are_new_for_each():
    streams = SourceData(SourceSettings(order=2), GridTraining(block=8))
    dense = parse_variant("dense")
    short, long, other = (
        streams.corpus(PlannedCell(dense, 1000, tokens, seed), tokens).train
        for tokens, seed in ((64, 0), (128, 0), (128, 1))
    )
    assert np.array_equal(short, long[: len(short)])
    assert not np.array_equal(long, other)


def test_what_is_finished_is_not_trained_again(trained: Path):
    gone = trained / "cells" / "dense-p200-t32-s0.json"
    before, held = gone.read_text(), (trained / "cells" / "dense-p700-t32-s0.json").stat()
    gone.unlink()
    assert gmb(*RUN, *GRID, "--out", trained).code == 0
    old, new = json.loads(before), json.loads(gone.read_text())
    assert {**new, "seconds": 0} == {**old, "seconds": 0}
    assert (trained / "cells" / "dense-p700-t32-s0.json").stat().st_mtime_ns == held.st_mtime_ns


def test_two_processes_share_each_batch(trained: Path, tmp_path: Path):
    words = [*RUN, "--grid", "params=700", "tokens=64", "--out", tmp_path]
    done = run(ROOT / "gmb_hf" / "__main__.py", *words, processes=2)
    assert done.returncode == 0, done
    assert done.stdout.count("next    gmb scaling fit") == 1
    (two,), one = records(tmp_path).values(), records(trained)["dense-p700-t64-s0"]
    assert two["test_loss"] == pytest.approx(one["test_loss"], rel=1e-5)


def test_another_design_is_refused(trained: Path):
    said = refused(*RUN, *GRID, "--set=training.rate=0.1", "--out", trained)
    assert "this folder holds runs of another config (training.rate: 0.04 -> 0.1)" in said


def test_a_cell_that_the_folder_has_under_other_numbers_is_refused(trained: Path):
    said = refused(*RUN, "--grid", "params=700", "tokens=65", "--out", trained)
    assert "--grid: dense-p700-t65-s0 is the same cell as dense-p700-t64-s0 in " in said
    assert "choose numbers farther apart, or those of dense-p700-t64-s0" in said


def test_fit_writes_all_of_it(trained: Path, tmp_path: Path):
    out = tmp_path / "fit"
    done = gmb("scaling", "fit", trained, "--draws=40", "--out", out, "--json")
    assert done.code == 0, done
    found = json.loads(done.out)["fit"]
    assert found["variants"]["dense"]["cells"] == 9
    assert any("one seed" in note for note in found["variants"]["dense"]["notes"])
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    names = ("law", "isoflop", "cells")
    tables = {f"tables/{name}.{kind}" for name in names for kind in ("csv", "md", "tex")}
    drawn = {f"figures/{name}" for name in ("compute.png", "isoflop.svg", "residuals.png")}
    assert written >= {"fit.json", "README.md", "report.html", *tables, *drawn}
    held = json.loads((out / "fit.json").read_text())
    assert held["design"]["source"]["seed"] == 1
    assert held["known"]["block_entropy"] == pytest.approx(found["variants"]["dense"]["known"])


def test_a_cell_that_diverges_is_kept_and_named(tmp_path: Path):
    rate = "--set=training.rate=1e9"
    grid = ("--grid", "params=200,700", "tokens=64")
    done = gmb(*RUN, *grid, rate, "--out", tmp_path)
    assert done.code == 0
    assert "diverged, kept and left out of every fit: dense-p200-t64-s0 (its loss" in done.out
    assert records(tmp_path)["dense-p200-t64-s0"]["diverged"]
    said = refused("scaling", "fit", tmp_path)
    assert "dense: too few cells to fit" in said
    assert "(without 2 that diverged)" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--grid", "params=1000,1010", "tokens=64"), "params 1000 and 1010 are the same cell"),
        (("--grid", "params=1k", "tokens=64,65"), "tokens 64 and 65 are the same cell"),
        (("--grid", "params=1k", "tokens=64", "--variants=bandd-4"), "Did you mean 'banded'"),
        (("--grid", "params=1k", "tokens=64", "--variants=sort-99"), "longer than the longest"),
        (("--grid", "params=1k", "tokens=64", "--set=training.bach=3"), "Did you mean 'batch'"),
        (("--grid", "params=1k", "tokens=64", "--text=a=b"), "--text and --source are both given"),
    ],
)
def test_bad_runs(words: tuple[str, ...], message: str, tmp_path: Path):
    assert message in refused(*RUN, *words, "--out", tmp_path / "out")


def test_text_is_learned_and_too_little_of_it_refused(tmp_path: Path):
    text = tmp_path / "story.txt"
    text.write_text("the cat sat on the mat. " * 40)
    words = ("scaling", "run", "--seeds=0", "--device=cpu", f"--text=story={text}", *TINY)
    done = gmb(*words, "--grid", "params=200", "tokens=64", "--out", tmp_path / "out")
    assert done.code == 0, done
    (one,) = records(tmp_path / "out").values()
    assert one["floor"] is None
    assert one["test_loss"] > 0
    said = refused(*words, "--grid", "params=200", "tokens=5k", "--out", tmp_path / "more")
    assert "tokens to train on are fewer than the 4,992 of the grid" in said


def test_no_grid_to_fit(tmp_path: Path):
    assert "no cells; name the folder of gmb scaling run" in refused("scaling", "fit", tmp_path)
