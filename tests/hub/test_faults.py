"""What goes wrong on the way to the Hub: one clear line, nothing half published, a retry ends it.

All against the loopback protocol stub, whose faults are chosen by the tests.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_client import Terminal, without_a_network
from hub_store import TOKEN, Fault, Hub
from synthetic import synthetic_runlog

from gmb_hf.hub.datasets import ABOUTS, build, modular_configs

OFTEN = 20  # more than the client tries
TRAIN = ("train", "--preset=smoke", "--set=task.operation=sub", "--set=task.prime=5")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that can be pushed."""
    place = tmp_path_factory.mktemp("data") / "tasks"
    return build(modular_configs(["sub_p5"], op_token="shared"), place, ABOUTS["modular"]).parent


def nothing_there(hub: Hub) -> bool:
    """Whether no repository holds a file."""
    return not any(repository.files for repository in hub.repositories.values())


@pytest.mark.parametrize(
    ("repo", "token", "message"),
    [
        ("acme/tasks", "hf_wrong", "it does not know this token; run `hf auth login` anew, or"),
        ("acme/tasks", None, "nobody is logged in; run `hf auth login`, or set HF_TOKEN"),
        ("others/tasks", TOKEN, "this token may not write to others; choose another organisation"),
    ],
)
def test_who_may_not_push(
    hub: Hub, commands: Terminal, folder: Path, repo: str, token: str | None, message: str
) -> None:
    said = commands.refused("data", "push", folder, repo, token=token)
    assert said.startswith(f"{repo}: the Hub refused: {message}")
    assert hub.repositories == {}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault("PUT /large", None, OFTEN), "the Hub cannot be reached: "),
        (Fault("POST .*/commit/", None, OFTEN), "the Hub cannot be reached: "),
        (
            Fault("PUT /large", 429, OFTEN, {"Retry-After": "30"}),
            "the Hub refused: too many requests; wait 30 s and run the same command again",
        ),
        (
            Fault("POST .*/commit/", 429, 1, {"ratelimit": '"api";r=0;t=120'}),
            "the Hub refused: too many requests; wait 120 s and run the same command again",
        ),
        (
            Fault("POST .*/create", 429, OFTEN),
            "the Hub refused: too many requests; wait some minutes and run the same command again",
        ),
        (Fault("POST .*/commit/", 412), "the Hub refused: somebody else has committed meanwhile"),
        (Fault("POST .*/preupload/", 500, OFTEN), "the Hub refused (status 500): "),
    ],
)
def test_what_breaks_off_a_push_publishes_nothing_and_a_retry_finishes(
    hub: Hub, commands: Terminal, folder: Path, fault: Fault, message: str
) -> None:
    hub.faults.append(Fault(fault.where, fault.status, fault.times, fault.headers))
    said = commands.refused("data", "push", folder, "acme/tasks")
    assert said.startswith(f"acme/tasks: {message}")
    assert nothing_there(hub)
    hub.faults.clear()
    commands.done("data", "push", folder, "acme/tasks")
    assert len(hub.repositories["dataset:acme/tasks"].files) == 4


def test_a_cut_that_heals_is_not_noticed(hub: Hub, commands: Terminal, folder: Path) -> None:
    hub.faults.append(Fault("PUT /large", None, 2))
    commands.done("data", "push", folder, "acme/tasks")
    assert len(hub.repositories["dataset:acme/tasks"].commits) == 2


def test_what_reads_back_differently_is_said(hub: Hub, commands: Terminal, folder: Path) -> None:
    hub.spoils = "sub_p5/full"
    said = commands.refused("data", "push", folder, "acme/tasks")
    commit = hub.repositories["dataset:acme/tasks"].sha
    spoiled = "sub_p5/full-00000-of-00001.parquet"
    assert said == (
        f"acme/tasks: reads back differently at {commit} than it was sent ({spoiled}); push it "
        "again"
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("acme/nothing", "acme/nothing@main: the Hub refused: there is no such repository, or it"),
        ("acme/tasks@v9", "acme/tasks@v9: the Hub refused: it has no such revision; name a branch"),
        ("acme/tasks/add_p7", "config 'add_p7' is unknown; known: sub_p5."),
    ],
)
def test_what_cannot_be_pulled(
    hub: Hub, commands: Terminal, folder: Path, tmp_path: Path, address: str, message: str
) -> None:
    commands.done("data", "push", folder, "acme/tasks")
    said = commands.refused(*TRAIN, "--data", address, "--out", tmp_path / "out")
    assert message in said
    assert not (tmp_path / "out").exists()
    said = commands.refused("evaluate", "--lock=x", "--runs", f"hf://datasets/{address}")
    assert message in said


def test_a_pull_that_breaks_off_is_finished_by_a_retry(
    hub: Hub, commands: Terminal, folder: Path, tmp_path: Path
) -> None:
    commands.done("data", "push", folder, "acme/again")
    hub.faults.append(Fault("GET .*/resolve/.*parquet", None, OFTEN))
    asked = ("data", "verify", "acme/again")
    said = commands.refused(*asked)
    assert "acme/again: is no folder here, and as a dataset: " in said
    assert "the Hub cannot be reached: " in said
    hub.faults.clear()
    commands.done(*asked)


def test_without_a_network_what_was_pulled_is_still_there(
    hub: Hub, commands: Terminal, tmp_path: Path, folder: Path
) -> None:
    synthetic_runlog(3).write(tmp_path / "log.parquet")
    reading = ("runs", "verify", "--columns=test_acc", "--runs")
    commands.done("runs", "push", tmp_path / "log.parquet", "acme/runs", "--license=mit")
    commands.done(*reading, "hf://datasets/acme/runs@main")
    commit = hub.repositories["dataset:acme/runs"].sha
    with without_a_network():
        for revision in ("main", commit):
            commands.done(*reading, f"hf://datasets/acme/runs@{revision}")
        said = commands.refused(*reading, "hf://datasets/acme/others")
        assert said.startswith("acme/others@main: the Hub cannot be reached: ")
        said = commands.refused("data", "push", folder, "acme/tasks")
        assert said.startswith("acme/tasks: the Hub cannot be reached: ")
