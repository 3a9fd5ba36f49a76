"""`gmb lock --publish`, and what `gmb evaluate` says and commits where a lock is published.

Against the loopback stub: the commits are looked at, who may write is not shown by this.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hub_client import Terminal
from hub_store import Hub
from synthetic import synthetic_runlog

from gmb_hf import Design, RunLog
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.results import Results
from gmb_hf.design import looks
from gmb_hf.design.lock import Lock


@pytest.fixture
def lock(commands: Terminal, design: Design, explore_log: RunLog) -> Lock:
    """lock.yaml in the current folder, and heldout.parquet beside it."""
    synthetic_runlog(30, seed=1, first_seed=100).write("heldout.parquet")
    one = design.replace(candidates=design.candidates[:1], null_draws=100, bootstrap_draws=50)
    named = one.replace(seeds_eval=list(range(100, 130)))
    return Lock.read(make_lock(named, explore_log)[0].write("lock.yaml"))


JUDGING = ("evaluate", "--lock=lock.yaml", "--runs=heldout.parquet", "--no-figures")


def test_a_lock_that_is_published_before_evaluation(
    hub: Hub, commands: Terminal, lock: Lock
) -> None:
    said = commands.done("lock", "--lock=lock.yaml", "--publish=acme/locks")
    assert "published" in said
    there = hub.repositories["dataset:acme/locks"]
    place, first = f"locks/{lock.hash}", there.sha
    assert there.files[f"{place}/lock.yaml"] == Path("lock.yaml").read_bytes()
    said = " ".join(commands.done(*JUDGING).split())
    looked = there.sha
    commits = f"lock {first[:12]}, look {looked[:12]}"
    assert f"Published before evaluation: acme/locks, {commits}." in said
    kept = yaml.safe_load(there.files[f"{place}/looks.yaml"])["looks"]
    assert [(item["look"], len(item["runs"])) for item in kept] == [(1, 30)]
    record = Results.read("results/results.yaml").x_published
    assert record is not None
    assert (record.repo, record.lock_commit, record.look_commit) == ("acme/locks", first, looked)
    # The same look again is no other commit, and leaves the same bytes.
    before = Path("results/results.yaml").read_bytes()
    commands.done(*JUDGING)
    assert (there.sha, Path("results/results.yaml").read_bytes()) == (looked, before)
    message = commands.refused("lock", "--lock=lock.yaml", "--publish=acme/locks")
    assert message == f"lock.yaml: is published already, to acme/locks at {first}; evaluate by it"


def test_a_lock_that_is_not(commands: Terminal, lock: Lock) -> None:
    said = " ".join(commands.done(*JUDGING).split())
    assert "Not published: nothing outside this folder shows that the lock came first" in said
    assert Results.read("results/results.yaml").x_published is None
    commands.done("lock", "--lock=lock.yaml", "--publish=acme/locks")
    said = " ".join(commands.done(*JUDGING).split())
    assert "Published after a look was taken: acme/locks" in said


def test_looks_that_only_the_hub_knows(commands: Terminal, lock: Lock) -> None:
    commands.done("lock", "--lock=lock.yaml", "--publish=acme/locks")
    record = yaml.safe_load(Path("lock.looks.yaml").read_text())
    commands.done(*JUDGING)
    # As if nobody had looked, in another process.
    looks._IN_THIS_PROCESS.clear()
    record["published"][0]["after_looks"] = 0
    Path("lock.looks.yaml").write_text(yaml.safe_dump(record))
    synthetic_runlog(30, seed=9, first_seed=100).write("heldout.parquet")
    message = commands.refused(*JUDGING, "--out=second")
    assert message.startswith("acme/locks: knows look 1 of ")
    assert message.endswith("which is not kept here; restore the .looks.yaml beside the lock")
    assert not Path("second").exists()


def test_a_commit_that_holds_another_lock(hub: Hub, commands: Terminal, lock: Lock) -> None:
    commands.done("lock", "--lock=lock.yaml", "--publish=acme/locks")
    there = hub.repositories["dataset:acme/locks"]
    record = yaml.safe_load(Path("lock.looks.yaml").read_text())
    record["published"][0]["commit"] = there.commits[0].sha
    Path("lock.looks.yaml").write_text(yaml.safe_dump(record))
    assert "does not hold lock" in commands.refused(*JUDGING)


def test_publishing_goes_with_a_lock_alone(commands: Terminal, lock: Lock) -> None:
    message = commands.refused("lock", "--lock=lock.yaml", "--runs=x", "--publish=acme/locks")
    assert message.startswith("--lock names a lock to explain: ")
    assert "'acme': no repository of the Hub; write ORG/NAME" in commands.refused(
        "lock", "--lock=lock.yaml", "--publish=acme"
    )
