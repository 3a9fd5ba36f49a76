"""Runs of seeds in trackers: one group a folder, one run a seed; a tracker never stops a run."""

from __future__ import annotations

import logging
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmb_hf.base import extras
from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.presets import preset
from gmb_hf.training.seeds import train_seeds
from gmb_hf.training.tracking import SeedTracking, Tracking, installed

CONFIG = preset("smoke").changed(["training.steps=20", "training.compile=never"])


class Recorder(ModuleType):
    """A stand-in for wandb or trackio, whose calls are kept."""

    def __init__(self, name: str, fails_at: int | None = None) -> None:
        super().__init__(name)
        self.begun: list[dict[str, Any]] = []
        self.rows: list[tuple[str, int, dict[str, float]]] = []
        self.finished: list[str] = []
        self._fails_at = fails_at

    def init(self, **given: Any) -> Any:
        self.begun.append(given)
        name = given["name"]

        def log(numbers: dict[str, float], step: int) -> None:
            if step == self._fails_at:
                raise OSError("no\nroute")
            self.rows.append((name, step, numbers))

        return SimpleNamespace(log=log, finish=lambda: self.finished.append(name))


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> dict[str, Recorder]:
    """Stand-ins for the two trackers that are not installed."""
    made = {name: Recorder(name) for name in ("wandb", "trackio")}
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(extras, "find_spec", lambda name: name)
    return made


def test_tensorboard_has_every_seeds_observables(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    (path,) = train_seeds(CONFIG, [2, 5], out, device="cpu", track=["tensorboard"])
    log = RunLog.read(path)
    assert {place.name for place in (out / "trackers" / "mine").iterdir()} == {"seed_2", "seed_5"}
    events = EventAccumulator(str(out / "trackers" / "mine" / "seed_5"))
    events.Reload()
    logged = {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}
    panel = log.panel("test_loss")
    place = log.runs.index("seed_5")
    assert [event.step for event in logged["test_loss"]] == panel.steps[place].tolist()
    values = [event.value for event in logged["test_loss"]]
    np.testing.assert_allclose(values, panel.values[place], rtol=1e-6)
    finite = {name for name in log.observables if np.isfinite(log.panel(name).values[place]).any()}
    assert logged.keys() == finite


def test_runs_have_names_groups_and_the_same_identity_when_resumed(
    recorders: dict[str, Recorder], tmp_path: Path
) -> None:
    def tell(step: int) -> None:
        about: Any = {"project": "gmb-train", "config": {"model": {"width": 32}}}
        with Tracking(["wandb", "trackio"], tmp_path / "out", **about) as tracked:
            heard: Any = SimpleNamespace(measured=lambda *_: None, advanced=lambda _: None)
            SeedTracking(tracked, heard).measured(
                [7, 9],
                {"loss": np.array([0.5, math.nan]), "step": np.array([step, step]), "tokens": 3},
            )

    tell(10)
    tell(20)
    for module in recorders.values():
        names = [given["name"] for given in module.begun]
        assert [name[:6] for name in names] == ["seed_7", "seed_9"] * 2
        assert names[:2] == names[2:]
        assert {given["group"] for given in module.begun} == {"out"}
        assert {given["project"] for given in module.begun} == {"gmb-train"}
        assert {given["resume"] for given in module.begun} == {"allow"}
        assert module.begun[0]["config"] == {"model.width": 32}
        assert module.finished == names
        assert module.rows[:2] == [
            (names[0], 10, {"loss": 0.5, "tokens": 3.0}),
            (names[1], 10, {"tokens": 3.0}),
        ]
    assert len({given["name"] for given in recorders["trackio"].begun} - {"seed_7"}) == 2
    first, second, *resumed = [given["id"] for given in recorders["wandb"].begun]
    assert first != second
    assert resumed == [first, second]
    assert {given["reinit"] for given in recorders["wandb"].begun} == {"create_new"}


def test_a_tracker_that_fails_is_given_up_and_the_others_go_on(
    recorders: dict[str, Recorder], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorders["wandb"]._fails_at = 2
    with (
        caplog.at_level(logging.WARNING),
        Tracking(["wandb", "trackio"], tmp_path, project="gmb-train", config={}) as tracked,
    ):
        for step in (1, 2, 3):
            tracked.log("g", "r", step, {"loss": 1.0})
    assert caplog.messages == ["--track wandb: no route; training goes on without it"]
    assert [step for _, step, _ in recorders["wandb"].rows] == [1]
    assert [step for _, step, _ in recorders["trackio"].rows] == [1, 2, 3]


def test_a_missing_tracker_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: name == "tensorboard" or None)
    assert installed(["wandb", "tensorboard", "wandb"]) == (
        ["tensorboard"],
        [
            "--track wandb: wandb is not installed; training goes on without it "
            "(pip install 'gmb-hf[wandb]')"
        ],
    )


def test_an_unknown_tracker_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tracker 'wand' is unknown.*Did you mean 'wandb'"):
        installed(["wand"])
    with pytest.raises(InputError, match="tracker 'tensorbord' is unknown"):
        train_seeds(CONFIG, [1], tmp_path / "out", track=["tensorbord"])
    assert not (tmp_path / "out").exists()
