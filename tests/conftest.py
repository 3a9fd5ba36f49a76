"""Fixtures that several folders share; `synthetic.py` beside this file makes the run logs.

The package is imported where it is needed: the process that hands out tests needs none of it.
"""

from __future__ import annotations

import gc
import itertools
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hub_client import Terminal, empty_caches, the_only_hub
from hub_store import TOKEN, Hub
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from gmb_hf import Design, RunLog

_NUMBERS = itertools.count()
gc.disable()  # while modules are loaded and tests collected, of which nothing is given up
_HUB = the_only_hub()  # before its clients are imported

# The same examples on every machine, however slow: a failure here is a failure there.
settings.register_profile(
    "suite",
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")


_ONLY_UNIX = ("from launched import", "SIGKILL")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out, on Windows, the files whose processes are forked or killed by a signal."""
    if sys.platform != "win32" or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return any(word in text for word in _ONLY_UNIX) or None


def pytest_collection_finish() -> None:
    """Leave what was loaded so far to itself: the collector of garbage need not look at it."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # seldom: arrays and tensors are in no circles
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # outside of what pytest does to logging and warnings
def pytest_runtestloop() -> Generator[None, object, object]:
    """Begin the server of processes, where tests that start some were collected."""
    if "launched" in sys.modules:
        sys.modules["launched"].begin_server()
    return (yield)


@pytest.fixture(autouse=True, scope="session")
def full_dpi() -> Iterator[int]:
    """The resolution of figures; the tests render them coarsely, since it takes their time."""
    from gmb_hf.report import style

    full, style.DPI = style.DPI, 100
    yield full
    style.DPI = full


DATA = Path(__file__).parent / "data"
PANELS = Path(__file__).resolve().parents[1] / "panels"


@pytest.fixture(scope="session")
def reference_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the 20 published runs as CSV files and `expected.json` (panel `reference`)."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import csv

    folder = tmp_path_factory.mktemp("reference_runs")
    table = pq.read_table(PANELS / "reference" / "explore.parquet")
    for run in table["run"].unique():
        rows = table.filter(pc.equal(table["run"], run)).drop_columns(["run"])
        csv.write_csv(rows, folder / f"{run}.csv", csv.WriteOptions(quoting_style="none"))
    (folder / "expected.json").write_bytes((DATA / "reference_expected.json").read_bytes())
    return folder


@pytest.fixture(scope="session")
def synthetic_log() -> RunLog:
    """Twelve grokking runs with every observable, some of them cut short, two without an event."""
    from synthetic import synthetic_runlog

    return synthetic_runlog(12, ragged=True, share_with_event=0.85)


@pytest.fixture(scope="session")
def explore_log() -> RunLog:
    """30 runs, seeds 0 to 29."""
    from synthetic import synthetic_runlog

    return synthetic_runlog(30)


@pytest.fixture(scope="session")
def held_out_log() -> RunLog:
    """40 runs, seeds 100 to 139."""
    from synthetic import synthetic_runlog

    return synthetic_runlog(40, seed=1, first_seed=100)


@pytest.fixture(scope="session")
def design() -> Design:
    """One windowed candidate, one without a window, one column, one reversed."""
    from synthetic import FEW_MEMBERS, SYNTHETIC_DESIGN

    from gmb_hf import Design

    return Design.minimal(
        **SYNTHETIC_DESIGN,
        **FEW_MEMBERS,
        window_sweep=[50, 100, 150],
        null_draws=200,
        bootstrap_draws=200,
        candidates=[
            {"name": "embedding_norm_drop", "family": "dynamics", "params": {"window": 100}},
            {"name": "embedding_gini", "family": "spectral"},
            {"name": "embedding_rank", "x_sign": -1, "x_sees_test_labels": False},
        ],
    )


@pytest.fixture(autouse=True, scope="session")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where ledgers of panels and fetched panels lie: never in the user's own folders."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GMB_STATE", str(folder))
        patch.setenv("GMB_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder


@pytest.fixture(autouse=True)
def _no_looks_yet(_states: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has looked yet: each test has a state folder of its own, and a process without looks.

    What fixtures of a module or session do is counted in that of the session.
    """
    from gmb_hf.design import looks

    looks._IN_THIS_PROCESS.clear()
    monkeypatch.setenv("GMB_STATE", str(_states / str(next(_NUMBERS))))


def _emptied_hub() -> Hub:
    unknown = [*_HUB.unknown]
    for held in (_HUB.repositories, _HUB.large, _HUB.requests, _HUB.faults, _HUB.unknown):
        held.clear()
    _HUB.spoils = None
    empty_caches()
    assert unknown == []
    return _HUB


@pytest.fixture(scope="session")
def empty_hub() -> Callable[[], Hub]:
    """Empties the Hub and returns it; what it did not understand before is a failure."""
    return _emptied_hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A Hub that holds nothing, and somebody who is logged in."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    return _emptied_hub()


@pytest.fixture
def commands(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Where `gmb` is typed; the clients of the Hub do not wait between their attempts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return Terminal()


@pytest.fixture(scope="session")
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is loaded in this process lies in a folder of its own, and nothing asks the Hub."""
    from evaluate import config

    cache = tmp_path_factory.mktemp("hf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "HF_MODULES_CACHE", cache / "modules")
        patch.setattr(config, "HF_METRICS_CACHE", cache / "metrics")
        patch.setattr(config, "HF_EVALUATE_OFFLINE", True)
        yield
