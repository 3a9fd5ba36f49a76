"""Datasets pushed to the loopback protocol stub, pulled from it and used."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml
from hub_client import Terminal
from hub_store import Hub
from synthetic import synthetic_runlog

from gmb_hf.benchmark.results import Results
from gmb_hf.hub.datasets import ABOUTS, build, modular_configs
from gmb_hf.runs.runlog import RunLog

TRAINER = Path(__file__).resolve().parents[2] / "trainers" / "train_grokking.py"


def tasks(folder: Path, *names: str, version: str = "v1") -> Path:
    """A dataset of modular tasks, their operations with one token."""
    configs = modular_configs(names, op_token="shared")
    return build(configs, folder, ABOUTS["modular"], version=version).parent


def runs(folder: Path, count: int) -> Path:
    """The first so many of some synthetic runs."""
    log = synthetic_runlog(44)
    return log.select(log.runs[:count]).write(folder / "logs.parquet")


@pytest.fixture(scope="module")
def two_tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tasks(tmp_path_factory.mktemp("data") / "tasks", "add_p7", "sub_p5")


def test_a_dataset_is_one_commit_and_verifies(
    hub: Hub, commands: Terminal, two_tasks: Path
) -> None:
    printed = commands.done("data", "push", two_tasks, "acme/tasks")
    repository = hub.repositories["dataset:acme/tasks"]
    assert len(repository.commits) == 2
    assert f"{hub.url}/datasets/acme/tasks ({repository.sha})" in printed
    expected = {
        path.relative_to(two_tasks).as_posix(): path.read_bytes()
        for path in two_tasks.rglob("*")
        if path.is_file()
    }
    card = expected.pop("README.md").decode()
    assert 'load_dataset("path/to/this/folder", "add_p7"' in card
    files = dict(repository.files)
    assert files.pop("README.md").decode() == card.replace("path/to/this/folder", "acme/tasks")
    assert files == expected

    following = printed.splitlines()[-1].removeprefix("next    ").split()[1:]
    verified = commands.done(*following)
    assert verified.count("as its card says") == 2
    # Again: nothing has changed, so nothing is committed.
    commands.done("data", "push", two_tasks, "acme/tasks")
    assert len(repository.commits) == 2


def test_what_is_not_its_card_is_not_pushed(
    hub: Hub, commands: Terminal, two_tasks: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(two_tasks, tmp_path / "edited")
    card = folder / "README.md"
    card.write_text(card.read_text().replace("item_count: 98", "item_count: 97"))
    said = commands.refused("data", "push", folder, "acme/tasks")
    assert said.startswith(f"{folder}: is not pushed: {card}: ")
    assert hub.requests == []


def test_what_was_not_built_here_is_not_pushed_over(
    hub: Hub, commands: Terminal, two_tasks: Path
) -> None:
    commands.done("data", "push", two_tasks, "acme/tasks")
    repository = hub.repositories["dataset:acme/tasks"]
    repository.commit("another card", {"README.md": b"---\nlicense: mit\n---\n"})
    said = commands.refused("data", "push", two_tasks, "acme/tasks")
    assert said.startswith("acme/tasks: holds another dataset, whose card has no gmb_fingerprint")
    assert len(repository.commits) == 3


def test_what_is_frozen_on_the_hub_only_grows(
    hub: Hub, commands: Terminal, two_tasks: Path, tmp_path: Path
) -> None:
    for name, count in (("few", 3), ("more", 4)):
        runs(tmp_path / name, count)
    few, grown = (
        (f"all={tmp_path / name}", "acme/runs", "--license=mit") for name in ("few", "more")
    )
    commands.done("runs", "push", *few)
    said = commands.refused("runs", "push", *grown)
    assert said.startswith("acme/runs: config 'all' is frozen as v1 with other items")
    commands.done("runs", "push", *grown, "--version", "v2")
    said = commands.refused("runs", "push", *few, "--version=v3")
    assert "1 of the 4 runs of v2 are gone or changed in v3; a frozen set may only grow" in said
    said = commands.refused("data", "push", two_tasks, "acme/runs")
    assert said.startswith("acme/runs: holds config 'all' (v2), which is left out now")
    assert len(hub.repositories["dataset:acme/runs"].commits) == 3


def test_runs_are_judged_from_the_hub_as_from_the_disk(
    hub: Hub, commands: Terminal, tmp_path: Path
) -> None:
    log = runs(tmp_path, 44)
    commands.done("runs", "push", log, "acme/runs", "--license=cc-by-4.0")
    commit = hub.repositories["dataset:acme/runs"].sha
    address = "hf://datasets/acme/runs@main"
    judging = ["--score=embedding_gini", "--horizon=100", "--safe-gap=200", "--jump=0.2"]
    judging += ["--burn-in=150", "--lead-target=30", "--lead-min=20", "--no-figures"]
    judging += ["--run-groups=2", "--smoothing-sweep=1", "--bootstrap-draws=100"]
    for source, out in ((log, "here"), (address, "there")):
        commands.done("evaluate", "--runs", source, *judging, "--out", tmp_path / out)
    here, there = (Results.read(tmp_path / out / "results.yaml") for out in ("here", "there"))
    assert [item.plain() for item in there.indicators] == [item.plain() for item in here.indicators]
    assert here.x_sources == ()
    (source,) = there.x_sources
    card = yaml.safe_load(hub.repositories["dataset:acme/runs"].files["README.md"].split(b"---")[1])
    assert source.model_dump() == {
        "what": "runs",
        "repo": "acme/runs",
        "revision": commit,
        "config": "logs",
        "fingerprint": card["gmb_fingerprint"]["logs"]["fingerprint"],
    }
    assert f"acme/runs@{commit}" in (tmp_path / "there" / "report.md").read_text()

    out = tmp_path / "all.parquet"
    commands.done("runs", "read", "--runs", f"hf://datasets/acme/runs@{commit}/logs", "--out", out)
    read = RunLog.read(out)
    assert read.fingerprint() == RunLog.read(log).fingerprint()
    assert read.metadata["hub"]["runs"][0]["revision"] == commit
    commands.done("audit", "--runs", address, "--out", tmp_path / "audit.json")
    audited = json.loads((tmp_path / "audit.json").read_text())
    assert audited["x_sources"] == [source.model_dump()]


def test_a_task_is_trained_from_the_hub(
    hub: Hub, commands: Terminal, two_tasks: Path, tmp_path: Path
) -> None:
    commands.done("data", "push", two_tasks, "acme/tasks")
    commit = hub.repositories["dataset:acme/tasks"].sha
    asked = ["--preset=smoke", "--seeds=0:2", "--set=training.steps=20"]
    asked += ["--set=training.compile=never", "--set=task.operation=sub", "--set=task.prime=5"]
    commands.done("train", *asked, "--out", tmp_path / "own")
    commands.done("train", *asked, "--data", "acme/tasks@main", "--out", tmp_path / "hub")
    own, pulled = (RunLog.read(tmp_path / name / "logs") for name in ("own", "hub"))
    assert own.fingerprint() == pulled.fingerprint()
    (source,) = pulled.metadata["hub"]["data"]
    assert (source["repo"], source["revision"], source["config"]) == (
        "acme/tasks",
        commit,
        "sub_p5",
    )
    assert yaml.safe_load((tmp_path / "hub" / "config.yaml").read_text())["hub"]["data"] == [source]

    # The script for several processes, on one.
    words = [*(word for one in asked for word in one.split("=", 1)), "--data", "acme/tasks"]
    main = runpy.run_path(str(TRAINER))["main"]
    assert main([*words, "--cpu", "--out", str(tmp_path / "script")]) == 0
    scripted = RunLog.read(tmp_path / "script" / "logs")
    assert scripted.fingerprint() == own.fingerprint()
    assert scripted.metadata["hub"] == pulled.metadata["hub"]

    said = commands.refused("train", *asked, "--out", tmp_path / "hub")
    assert "this folder holds runs of another config (hub: " in said
    other = [*asked, "--set=task.op_token=distinct", "--out", tmp_path / "other"]
    said = commands.refused("train", *other, "--data", "acme/tasks")
    assert "config 'sub_p5' is another task than sub_p5, 80% train, distinct tokens" in said
    assert len([word for word in said.split() if len(word.strip(",;")) == 64]) == 2
    said = commands.refused("train", *asked[:-1], "--data", "acme/tasks", "--out", tmp_path / "x")
    assert "config 'sub_p19' is unknown; known: add_p7, sub_p5." in said
    said = commands.refused("evaluate", "--runs", "hf://datasets/acme/tasks/sub_p5", "--lock", "x")
    assert "config 'sub_p5' holds rows, not run logs" in said
    said = commands.refused("train", *asked, "--data", "tasks", "--out", tmp_path / "x")
    assert said == "--data 'tasks': no dataset of the Hub; write ORG/NAME@REV"


def test_what_is_not_its_card_is_not_used(
    hub: Hub, commands: Terminal, two_tasks: Path, tmp_path: Path
) -> None:
    commands.done("data", "push", two_tasks, "acme/tasks")
    repository = hub.repositories["dataset:acme/tasks"]
    path = "sub_p5/full-00000-of-00001.parquet"
    table = pq.read_table(two_tasks / path)
    pq.write_table(table.take([1, *range(1, 25)]), tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    commit = repository.commit("somebody else's", {**repository.files, path: content})
    train = ["train", "--preset=smoke", "--set=task.operation=sub", "--set=task.prime=5"]
    said = commands.refused(*train, "--data", "acme/tasks", "--out", tmp_path / "out")
    assert f"acme/tasks@{commit[:12]}/sub_p5: other data than the card says, content hash " in said
    assert len([word for word in said.split() if len(word.strip(",;")) == 64]) == 2
    assert not (tmp_path / "out").exists()
    code, out, err = commands.gmb("data", "verify", "acme/tasks")
    assert code == 1
    assert "differs" in out
    assert err.endswith("acme/tasks: 1 fault, named above\n"), err
