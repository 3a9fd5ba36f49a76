"""`gmb evaluate --lock` counts the looks at held-out runs, and stops where the lock does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import gmb, locking, refused

from gmb_hf import Design, RunLog
from gmb_hf.benchmark.results import Results


@pytest.fixture(autouse=True)
def _copied(chain: Path, _empty_folder: None) -> None:
    for name in ("explore.csv", "heldout.csv", "prereg.yaml", "lock.yaml"):
        shutil.copy(chain / name, name)
    log = RunLog.read("heldout.csv")
    log.select(log.runs[:40]).write("some.parquet")


def test_named_seeds_must_all_be_there():
    message = refused("evaluate", "--lock=lock.yaml", "--runs=some.parquet")
    assert message.startswith("error: lock.yaml: look 1 must judge all of boundary.seeds_eval")
    assert "20 of 60 are missing (140, 141" in message
    assert not Path("lock.looks.yaml").exists()


def test_runs_added_after_the_only_look_are_refused():
    Design.read("prereg.yaml").replace(seeds_eval=()).write("prereg.yaml")
    assert gmb("lock", *locking(Path()), "--force", "--out=lock.yaml").code == 0
    done = gmb("evaluate", "--lock=lock.yaml", "--runs=some.parquet")
    assert done.code == 0, done
    assert "lock.looks.yaml" in done.out or "more in ." in done.out
    assert Path("lock.looks.yaml").exists()
    before = Path("lock.looks.yaml").read_bytes()
    message = refused("evaluate", "--lock=lock.yaml", "--runs=heldout.csv", "--out=more")
    assert message.startswith("error: lock.yaml: allows 1 look at held-out runs (x_looks)")
    assert "20 new (seed_140, seed_141" in message
    assert not Path("more").exists()
    # What was judged may be judged again, into the same bytes.
    first = Path("results/results.yaml").read_bytes()
    assert gmb("evaluate", "--lock=lock.yaml", "--runs=some.parquet").code == 0
    assert Path("results/results.yaml").read_bytes() == first
    assert Path("lock.looks.yaml").read_bytes() == before


def test_a_second_look_that_was_locked():
    Design.read("prereg.yaml").replace(looks=2).write("prereg.yaml")
    done = gmb("lock", *locking(Path()), "--out=two.yaml", "--explain")
    assert "looked at again, 2 looks in all; each look tests at 0.05 / 2 = 0.025" in " ".join(
        done.out.split()
    )
    assert gmb("evaluate", "--lock=two.yaml", "--runs=some.parquet").code == 0
    assert gmb("evaluate", "--lock=two.yaml", "--runs=heldout.csv").code == 0
    summary = Results.read("results/results.yaml").summary
    assert (summary.x_look, summary.x_looks, summary.n_seeds) == (2, 2, 60)
    assert "Look 2 of 2" in Path("results/report.md").read_text(encoding="utf-8")


def test_logs_that_are_refused_anyway_are_no_look():
    message = refused("evaluate", "--lock=lock.yaml", "--runs=explore.csv")
    assert "none of the 30 runs is a declared held-out run" in message
    assert not Path("lock.looks.yaml").exists()
