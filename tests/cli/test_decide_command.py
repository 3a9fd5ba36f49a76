"""`gmb decide`: the answer first, the files, the next command; bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmark.decision_runs import EXPLORE, lock_on, log_of
from command_line import gmb, refused

from gmb_hf import Decisions

DECIDE = ("decide", "--lock=lock.yaml", "--runs=heldout.parquet", "--explore-runs=explore.parquet")
HELD_OUT = [*EXPLORE[::4], *[(None, None)] * 6]


@pytest.fixture(autouse=True)
def _runs(_empty_folder: None) -> None:
    explored = log_of(EXPLORE)
    explored.write("explore.parquet")
    log_of(HELD_OUT, first_seed=1000).write("heldout.parquet")
    lock_on(explored).write("lock.yaml")


def test_the_answer_the_table_the_files_and_what_comes_next():
    done = gmb(*DECIDE, "--no-figures")
    assert done.code == 0, done
    first = next(line for line in done.out.splitlines() if line)
    assert first.startswith("Stopping runs without an alarm of score by step 290 saves 43% [3")
    assert "Stop runs without an alarm by a step:" in done.out
    assert "Rivals: what a score must beat" in done.out
    assert done.next_command == "gmb evaluate --runs heldout.parquet --lock lock.yaml"
    assert Path("lock.looks.yaml").exists()
    found = Decisions.read("decisions")
    best = found.best("without_alarm")
    assert best is not None
    assert best.name == "score"
    assert not Path("decisions/figures").exists()
    before = Path("decisions/decisions.yaml").read_bytes()
    assert gmb(*DECIDE).code == 0
    assert Path("decisions/decisions.yaml").read_bytes() == before
    assert Path("decisions/figures/decisions.png").exists()
    assert gmb(*done.next_command.split()[1:], "--no-figures").code == 0  # no other look


def test_runs_of_both_parts_in_one_place():
    done = gmb("decide", "--lock=lock.yaml", "--runs=*.parquet", "--score=score", "--json")
    assert done.code == 0, done
    said = json.loads(done.out)
    assert {one["name"] for one in said["decisions"]} == {"score", "clock", "onset"}
    assert said["tolerated"] == 0.05
    assert said["sentences"][0].startswith("Stopping runs without an alarm of score")


def test_bad_input_is_one_line():
    message = refused(*DECIDE, "--lost=1.5")
    assert message == "error: --lost must be a number in (0, 1), got 1.5"
    message = refused("decide", "--lock=lock.yaml", "--runs=heldout.parquet")
    assert message.startswith(
        "error: --explore-runs: none of the 100 runs that the lock was made on is among these 31"
    )
    message = refused(*DECIDE, "--score=scor")
    assert "candidate 'scor' is unknown" in message
    assert not Path("lock.looks.yaml").exists()


def test_decisions_of_another_lock_are_kept():
    assert gmb(*DECIDE, "--no-figures").code == 0
    log_of(HELD_OUT, first_seed=2000).write("heldout.parquet")
    lock_on(log_of(EXPLORE), alpha=0.04).write("lock.yaml")
    Path("lock.looks.yaml").unlink()
    message = refused(*DECIDE, "--no-figures")
    assert message.startswith("error: decisions/decisions.yaml: holds decisions by another lock")
    assert gmb(*DECIDE, "--no-figures", "--force").code == 0
