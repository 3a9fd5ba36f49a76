"""Panels whose held-out part is trained after a lock on their explore part."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hub_client import Terminal

from gmb_hf import Design, RunLog, preset
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.results import Results
from gmb_hf.design import ledger
from gmb_hf.design.lock import CHECKSUMS, Lock
from gmb_hf.hub import panels
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import RECIPES, Recipe
from gmb_hf.training.config import parse_seeds
from gmb_hf.training.folder import finished_seeds, log_paths

NAME = "late"
COLUMNS = ("test_acc", "train_acc", "embedding_gini", "embedding_norm", "embedding_rank")
UNDECLARED = ("task", "model", "optimizer", "schedule")
GINI = {"name": "embedding_gini", "family": "spectral"}
EXPLORED = ("panel", "build", NAME, "--part=explore")
HELD_OUT = ("panel", "build", NAME, "--part=heldout", "--lock=lock.yaml")


class Trained:
    """What stands in for training: the runs of two logs, by their seeds; it may stop early."""

    def __init__(self, *logs: RunLog) -> None:
        self.log, self.stops = RunLog.concat(list(logs)), False
        self.log = self.log.with_rows(self.log.table.select(["run", "step", "seed", *COLUMNS]))
        self.calls: list[tuple[int, ...]] = []

    def __call__(self, config: Any, seeds: Sequence[int], out: Path, **_: Any) -> list[Path]:
        self.calls.append(tuple(seeds))
        wanted = [seed for seed in seeds if seed not in finished_seeds(out)]
        for group in (wanted[:10], wanted[10:]):
            if group:
                some = self.log.select([f"seed_{seed}" for seed in group])
                some.write(out / "logs" / f"seeds-{group[0]}-{group[-1]}-n{len(group)}.parquet")
            if self.stops:
                raise KeyboardInterrupt
        return log_paths(out)


@pytest.fixture
def trained(
    commands: Terminal,
    design: Design,
    explore_log: RunLog,
    held_out_log: RunLog,
    monkeypatch: pytest.MonkeyPatch,
) -> Trained:
    """A recipe of 30 explore and 40 held-out runs."""
    found = Trained(explore_log, held_out_log)
    seeds = {"seeds_explore": list(range(30)), "seeds_eval": list(range(100, 140))}
    config = preset("smoke").changed(["seeds.explore=0:30", "seeds.evaluate=100:140"])
    monkeypatch.delenv(panels.PLACE, raising=False)
    monkeypatch.setattr(ledger, "SHIPPED", Path("shipped"))
    monkeypatch.setitem(RECIPES, NAME, Recipe(NAME, "Is it foreseen", lambda: config))
    monkeypatch.setattr("gmb_hf.training.seeds.train_seeds", found)
    monkeypatch.setattr(
        "gmb_hf.training.presets.design_of",
        lambda *_: design.replace(**seeds, undeclared=UNDECLARED),
    )
    return found


@pytest.fixture
def explored(trained: Trained, commands: Terminal) -> FrozenPanel:
    """The panel with its explore part, and lock.yaml on it."""
    commands.done(*EXPLORED)
    commands.done("lock", f"--runs=panel:{NAME}", "--out=lock.yaml")
    return FrozenPanel.find(NAME)


def test_a_part_is_trained_after_the_lock(trained: Trained, commands: Terminal) -> None:
    said = commands.done(*EXPLORED)
    assert trained.calls == [tuple(range(30))]
    panel = FrozenPanel.find(NAME)
    assert (panel.judged, panel.awaits_lock, panel.record.x_locked) == (False, True, None)
    assert f"gmb lock --runs panel:{NAME} --out lock.yaml" in said
    text = panel.card.path.read_text(encoding="utf-8")
    assert "**The held-out part is not trained yet.**" in text
    assert f"gmb lock --runs panel:{NAME}" in text
    assert "gmb evaluate --runs panel:late --lock" not in text
    assert "its held-out part is trained after a lock" in commands.done("panel", "show", NAME)
    before = (panel.folder / "explore.parquet").read_bytes()

    commands.done("lock", f"--runs=panel:{NAME}", "--out=lock.yaml")
    lock = Lock.read("lock.yaml")
    commands.done(*HELD_OUT)
    assert trained.calls[1:] == [tuple(range(100, 140))]
    whole = FrozenPanel.find(NAME)
    assert whole.faults() == []
    assert (whole.folder / "explore.parquet").read_bytes() == before
    assert (whole.folder / "lock.yaml").read_bytes() == Path("lock.yaml").read_bytes()
    assert whole.read("heldout").seeds == tuple(range(100, 140))
    assert whole.design() == panel.design()
    locked = whole.record.x_locked
    assert locked is not None
    assert (locked.lock_hash, locked.locked) == (lock.hash, lock.x_lock.created)
    assert locked.locked <= locked.trained <= datetime.now(UTC).isoformat(timespec="seconds")
    assert whole.fingerprints == (whole.entry.fingerprint, panel.entry.fingerprint)
    text = whole.card.path.read_text(encoding="utf-8")
    assert "**Locked before the held-out runs were trained.**" in text
    assert all(part in text for part in (lock.hash, locked.locked, locked.trained))
    assert "locked before its held-out runs were trained" in commands.done("panel", "show", NAME)

    # That lock judges them.
    commands.done("evaluate", f"--runs=panel:{NAME}", "--lock=lock.yaml", "--no-figures")
    results = Results.read("results/results.yaml")
    assert results.x_provenance is not None
    assert results.x_provenance.lock_hash == lock.hash
    assert len(whole.ledger().locks) == 1


def test_it_resumes_with_the_same_lock_alone(
    explored: FrozenPanel, trained: Trained, commands: Terminal, explore_log: RunLog
) -> None:
    trained.stops = True
    assert commands.gmb(*HELD_OUT)[0] == 130
    assert not FrozenPanel.find(NAME).judged
    note = Path("runs/panels/late/heldout/locked.yaml")
    begun = yaml.safe_load(note.read_text(encoding="utf-8"))
    assert begun["lock_hash"] == Lock.read("lock.yaml").hash
    fewer = explored.design().replace(candidates=[GINI])
    other, _ = make_lock(fewer, explored.read())
    other.write("other.yaml")
    message = commands.refused(*HELD_OUT[:-1], "--lock=other.yaml")
    assert message == (
        f"{note}: held-out runs are trained here after the lock {begun['lock_hash'][:16]}, this "
        f"one is {other.hash[:16]}; give that lock, or choose another --work"
    )
    trained.stops = False
    commands.done(*HELD_OUT)
    locked = FrozenPanel.find(NAME).record.x_locked
    assert locked is not None
    assert locked.plain() == begun  # when the first start began


def test_a_lock_of_fewer_scores_will_do(
    explored: FrozenPanel, trained: Trained, commands: Terminal
) -> None:
    fewer = explored.design().replace(candidates=[GINI])
    make_lock(fewer, explored.read())[0].write("lock.yaml")
    commands.done(*HELD_OUT)
    assert FrozenPanel.find(NAME).judged


def test_what_comes_in_another_order_is_refused(
    explored: FrozenPanel, trained: Trained, commands: Terminal
) -> None:
    again = commands.refused(*EXPLORED)
    assert again == "panels/late: holds a panel, which is frozen; choose another --out"
    assert commands.refused("panel", "build", NAME) == again
    message = commands.refused(*HELD_OUT[:-1])
    assert message == (
        "panel 'late': its held-out part is trained after a lock on the explore part; make one, "
        "gmb lock --runs panel:late --out lock.yaml, and give it by --lock"
    )
    message = commands.refused(*EXPLORED, "--lock=lock.yaml")
    assert message == "panel 'late': --lock is for --part heldout; leave it out"
    message = commands.refused("panel", "build", NAME, "--part=held-out")
    assert message == (
        "--part: part 'held-out' is unknown; known: explore, heldout. Did you mean 'heldout'?"
    )
    message = commands.refused("panel", "build", "reference", "--part=explore")
    assert message == ("panel 'reference': is made of the logs of others; leave out --part")
    message = commands.refused(*HELD_OUT, "--out=elsewhere")
    assert message == (
        "elsewhere: holds no explore part, on which a lock is made; gmb panel build late --part "
        "explore trains it"
    )
    commands.done(*HELD_OUT)
    message = commands.refused(*HELD_OUT)
    assert message == (
        "panels/late: has its held-out part already, and a panel is frozen; choose another --out"
    )


def test_held_out_runs_that_were_trained_before_are_refused(
    explored: FrozenPanel, trained: Trained, commands: Terminal
) -> None:
    message = (
        "runs/panels/late: has held-out runs that were trained before any lock; runs that come "
        "after one need another --work, and seeds that nobody has trained"
    )
    work = Path("runs/panels/late")
    trained(None, [105], work)  # as by a build of both parts that was stopped
    assert commands.refused(*HELD_OUT) == message
    shutil.rmtree(work)
    trained(None, [105], work / "heldout")
    assert commands.refused(*HELD_OUT) == message
    assert not FrozenPanel.find(NAME).judged


def test_an_explore_part_of_another_configuration_is_refused(
    explored: FrozenPanel, commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RECIPES[NAME].config().changed(["seeds.evaluate=100:150"])
    monkeypatch.setitem(RECIPES, NAME, Recipe(NAME, "Is it foreseen", lambda: config))
    message = commands.refused(*HELD_OUT)
    start = "panels/late: its explore part is of another configuration than the held-out runs would"
    assert message.startswith(f"{start} be (seeds: [100, 101, ")
    assert message.endswith("); build it anew, with another --out")


def test_a_lock_of_something_else_is_refused(
    explored: FrozenPanel, commands: Terminal, explore_log: RunLog
) -> None:
    hint = "gmb lock --runs panel:late --out lock.yaml"
    design, log = explored.design(), explored.read()
    make_lock(design, log.select(log.runs[:25]))[0].write("lock.yaml")
    message = commands.refused(*HELD_OUT)
    assert message == (
        f"lock.yaml: was not made on the explore part of panel 'late'; make it: {hint}"
    )
    later = {"horizon": 90}, {"seeds_eval": list(range(100, 150))}, {"primary_run_budget": 0.1}
    said = ("horizon_steps: 100 -> 90", "seeds_eval: [100, ", "x_primary_run_budget: 0.05 -> 0.1")
    for fields, what in zip(later, said, strict=True):
        make_lock(design.replace(**fields), log)[0].write("lock.yaml")
        message = commands.refused(*HELD_OUT)
        assert message.startswith("lock.yaml: has another design than panel 'late' ("), message
        assert what in message
        assert message.endswith(f"; lock the panel's own: {hint}")


def test_a_lock_of_tomorrow_is_refused(explored: FrozenPanel, commands: Terminal) -> None:
    plain = Lock.read("lock.yaml").plain()
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat(timespec="seconds")
    plain["x_lock"] |= {"created": tomorrow}
    changed = yaml.safe_dump(CHECKSUMS.added_to(plain), sort_keys=False)
    Path("lock.yaml").write_text(changed, encoding="utf-8")
    message = commands.refused(*HELD_OUT)
    assert message.startswith(f"lock.yaml: was made at {tomorrow}, and it is ")
    assert message.endswith("; check the clock")


LATE = sorted(name for name in RECIPES if name.startswith("late-"))


@pytest.mark.parametrize("name", LATE)
def test_recipes_of_late_onsets(name: str) -> None:
    config = RECIPES[name].config()
    design = config.benchmark.design()
    assert (design.event_type, design.chance_multiple) == ("E_onset", 3)
    assert [event for event, _ in design.other_events()] == ["E_plateau 0.5 x 5"]
    held_out = parse_seeds(config.seeds.evaluate)
    assert len(held_out) == len(parse_seeds(config.seeds.explore)) >= 128
    blocked = config.draws.columns(held_out)["drawn_no_decay"] == 1
    assert 0.1 <= blocked.mean() <= 0.2
    (stratum,) = design.strata
    assert stratum.name == "blocked"
    np.testing.assert_array_equal(stratum.holds({"drawn_no_decay": blocked * 1.0}), blocked)


def test_no_seed_is_of_two_panels() -> None:
    seen: set[int] = set()
    for recipe in RECIPES.values():
        if recipe.credit:
            continue
        seeds = recipe.config().seeds
        own = {*parse_seeds(seeds.explore), *parse_seeds(seeds.evaluate)}
        assert not own & seen, recipe.name
        assert not own & {*range(900_000, 1_000_000)}, recipe.name  # those of searches
        seen |= own
