"""`gmb score`: fitted on panels, pushed, and locked on other runs by its name, file or address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hub_client import Terminal
from hub_store import Hub
from synthetic import synthetic_runlog

from gmb_hf import Design, RunLog, preset
from gmb_hf.design.lock import Lock
from gmb_hf.design.pretrained import PretrainedScore
from gmb_hf.hub import panels
from gmb_hf.hub.recipes import Recipe


@pytest.fixture(autouse=True)
def _panels(
    commands: Terminal, design: Design, explore_log: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two panels, and mine.parquet: forty runs of another system."""
    monkeypatch.setenv(panels.PLACE, "panels")
    held_out = synthetic_runlog(20, seed=1, first_seed=100)
    seeds = {"seeds_explore": list(range(30)), "seeds_eval": list(range(100, 120))}
    for name in ("first", "second"):
        scale = 1 + (name == "second")
        parts = {"explore": scaled(explore_log, scale), "heldout": scaled(held_out, scale)}
        recipe = Recipe(name, "A question", lambda: preset("smoke"))
        asked = design.replace(**seeds)
        panels.freeze(recipe, parts, asked, Path("panels", name), command="by hand")
    synthetic_runlog(40, seed=7, first_seed=700).write("mine.parquet")


def scaled(log: RunLog, scale: int) -> RunLog:
    """The log with its weights' columns in other units, so that no two panels share runs."""
    values = {name: log.panel(name).values for name in log.observables}
    for name in values:
        values[name] = values[name] * (1 if name.endswith("acc") else scale)
    return RunLog.from_arrays(log.runs, log.panel("step").steps[0], values, seeds=log.seeds)


FIT = ("score", "fit", "mine", "--panels=first", "--panels=second", "--out=mine.yaml")
LOCK = (
    "lock", "--runs=mine.parquet", "--explore-share=.6", "--metric=test_acc", "--horizon=200",
    "--safe-gap=300", "--jump=0.2", "--burn-in=100", "--out=lock.yaml", "--undeclared",
)  # fmt: skip


def test_fitted_shown_locked_and_watched(commands: Terminal) -> None:
    said = commands.done(*FIT, "--about=For tests.")
    assert said.splitlines()[0].startswith("2 members, fitted on ")
    assert "gmb lock --pretrained mine.yaml --runs RUNS" in said
    found = PretrainedScore.read("mine.yaml")
    assert [one.source for one in found.fitted_on] == ["first", "second"]
    said = commands.done("score", "show", "mine.yaml")
    assert said.startswith("mine, label-free. For tests.")
    assert found.hash in said
    assert "embedding_norm_drop" in said
    said = commands.done(*LOCK, "--pretrained=mine.yaml", "--explain")
    text = " ".join(said.split())
    assert f"fitted on other runs (pretrained score {found.hash[:16]})" in text
    lock = Lock.read("lock.yaml")
    ensemble = lock.candidate("mine").ensemble
    assert ensemble is not None
    assert len(ensemble.calibrate_runs) == 24
    said = commands.done("evaluate", "--runs=mine.parquet", "--lock=lock.yaml", "--no-figures")
    text = " ".join(said.split())
    assert f"mine is pretrained ({found.hash[:16]}): it was fitted on other runs, and" in text
    # What is explored is kept in the command that follows.
    said = commands.done(
        "explore", "--runs=mine.parquet", "--pretrained=mine.yaml", "--metric=test_acc",
        "--horizon=200", "--safe-gap=300", "--burn-in=100",
    )  # fmt: skip
    assert "--pretrained mine.yaml" in said.splitlines()[-1]


def test_the_shipped_ones_are_listed(commands: Terminal) -> None:
    said = commands.done("score", "list", "--json")
    for one in json.loads(said)["scores"]:
        assert PretrainedScore.find(one["name"]).hash == one["hash"]
        shown = commands.done("score", "show", one["name"])
        assert one["hash"] in shown


def test_from_the_hub(hub: Hub, commands: Terminal) -> None:
    commands.done(*FIT)
    said = commands.done("score", "push", "mine.yaml", "acme/early")
    assert "gmb lock --pretrained hf://acme/early" in said
    assert set(hub.repositories["model:acme/early"].files) >= {"score.yaml"}
    Path("mine.yaml").unlink()
    commands.done(*LOCK, "--pretrained=hf://acme/early")
    assert "mine" in Lock.read("lock.yaml").x_lock.candidates
    hub.repositories["model:acme/early"].files.pop("score.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("score", "show", "label_fre"), "pretrained score 'label_fre' is unknown"),
        ((*FIT[:-1], "--out=mine.yaml", "--kind=free"), "--kind: class 'free' is unknown"),
        ((*FIT, "--only=test_loss"), "'test_loss' is no label-free score that all of these runs"),
        ((*FIT, "--kind=label-using", "--only=clock"), "'clock' is no label-using score that"),
        (("score", "fit", "Mine", *FIT[3:]), "score 'Mine': its name has small letters"),
        (("score", "fit", "mine", "--panels=third", "--out=a.yaml"), "panel 'third' is unknown"),
        ((*LOCK, "--pretrained=mine.parquet"), "mine.parquet"),
    ],
)
def test_what_is_refused(commands: Terminal, words: tuple[str, ...], message: str) -> None:
    assert message in commands.refused(*words)
    assert not Path("mine.yaml").exists()
