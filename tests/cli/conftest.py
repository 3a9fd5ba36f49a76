"""An empty folder for each command, and what several of them work on, made once."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pytest
from command_line import COLUMNS, gmb, locking
from synthetic import FEW_MEMBERS, SYNTHETIC_DESIGN, synthetic_runlog
from threads import one_thread

from gmb_hf.design.design import Design


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default outputs land here, and the terminal that runs the tests does not matter."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


_one_thread = pytest.fixture(autouse=True, scope="session")(one_thread)


@pytest.fixture(scope="session")
def csv_logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 synthetic runs of 121 checkpoints in one CSV."""
    path = tmp_path_factory.mktemp("logs") / "all.csv"
    pyarrow.csv.write_csv(synthetic_runlog(48).table.select(COLUMNS), path)
    return path


@pytest.fixture
def small_csv(tmp_path: Path) -> Path:
    """Six short synthetic runs in one CSV, to be spoiled."""
    path = tmp_path / "small.csv"
    pyarrow.csv.write_csv(synthetic_runlog(6, 41).table.select(COLUMNS), path)
    return path


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with explore.csv (30 runs), heldout.csv (32 runs), prereg.yaml and lock.yaml."""
    folder = tmp_path_factory.mktemp("chain")
    for name, runs, first in (("explore", 30, 0), ("heldout", 60, 100)):
        log = synthetic_runlog(runs, seed=first, first_seed=first)
        pyarrow.csv.write_csv(log.table.select(COLUMNS), folder / f"{name}.csv")
    design = Design.minimal(
        **SYNTHETIC_DESIGN,
        **FEW_MEMBERS,
        null_draws=400,
        bootstrap_draws=100,
        seeds_explore=list(range(30)),
        seeds_eval=list(range(100, 160)),
        window_sweep=[80, 100, 120],
        candidates=[{"name": "embedding_gini", "family": "spectral"}, {"name": "test_loss_drop"}],
    )
    design.write(folder / "prereg.yaml")
    done = gmb("lock", *locking(folder), "--out", folder / "lock.yaml")
    assert done.code == 0, done
    return folder
