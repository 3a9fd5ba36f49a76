"""What weights and updates show, against plain numpy over one member's own weights."""

import numpy as np
import pytest
import torch
from child_processes import Interrupted, interrupting
from training_builders import small_config, train_together

from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import published as chosen
from gmb_hf.training import seeds as training
from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.observables import Observer
from gmb_hf.training.published import recorders
from gmb_hf.training.recorders import Recorder

CONFIG = small_config(training={"observables": "published"})
SEEDS = (3, 8, 5)


class Trained:
    """An ensemble at several checkpoints: what was measured, and each member's weights then."""

    def __init__(self, config=CONFIG, seeds=SEEDS, checkpoints=4, every=2):
        self.ensemble = Ensemble(config, seeds, dtype=torch.float64)
        self.observer = Observer(self.ensemble, recorders(self.ensemble))
        self.found, self.weights, self.updates = [], [], []
        for checkpoint in range(checkpoints):
            if checkpoint:
                train_together(self.ensemble, every)
            self.updates.append(self.of_members(self.ensemble.last_updates()))
            self.found.append(self.observer.measure(*self.ensemble.gradients(keep_logits=True)))
            self.weights.append(self.of_members(self.ensemble.weights))

    def of_members(self, tensors):
        """For each member name -> numpy, copied."""
        return [
            {name: tensor[i].detach().numpy().copy() for name, tensor in tensors.items()}
            for i in range(len(self.ensemble))
        ]

    def column(self, name):
        """[checkpoints, S]."""
        return np.stack([found[name] for found in self.found])


@pytest.fixture(scope="module")
def trained():
    return Trained()


def flat(weights):
    return np.concatenate([weight.ravel() for weight in weights.values()])


def test_what_is_recorded_is_chosen_by_the_config():
    usual = Trained(small_config(), checkpoints=1).found[0]
    published = Trained(checkpoints=1).found[0]
    assert usual.keys() < published.keys()
    assert Trained(small_config(training={"observables": "all"}), checkpoints=1).found[
        0
    ].keys() >= (published.keys())


def test_distance_from_the_start(trained):
    assert trained.column("initial_distance")[0].tolist() == [0, 0, 0]
    for t in range(4):
        for s in range(3):
            moved = flat(trained.weights[t][s]) - flat(trained.weights[0][s])
            found = {name: values[s] for name, values in trained.found[t].items()}
            assert found["initial_distance"] == pytest.approx(np.linalg.norm(moved))
            assert found["initial_distance_max"] == pytest.approx(np.abs(moved).max())


def test_a_seed_alone_shows_what_it_shows_among_others(trained):
    alone = Trained(seeds=SEEDS[1:2])
    for name in trained.found[-1]:
        np.testing.assert_allclose(
            alone.column(name)[:, 0], trained.column(name)[:, 1], 1e-6, 1e-9, err_msg=name
        )


class Counted(Recorder):
    """How often it was asked: a costly observable whose value is known."""

    def __init__(self, ensemble):
        self.times = 0

    def measure(self, now):
        self.times += 1
        return {"times": torch.full((len(now.ensemble),), float(self.times))}

    def state(self):
        return {"times": torch.tensor(self.times)}

    def load_state(self, tensors):
        self.times = int(tensors["times"])


def test_an_interrupted_training_ends_with_the_same_log(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "SAVE_EVERY_SECONDS", -1.0)
    monkeypatch.setattr(chosen, "DEAR", (Counted,))
    config = CONFIG.changed(["training.observables=all", "training.dear_every=2"])
    (whole,) = training.train_stacked(config, SEEDS, tmp_path / "whole")
    times = RunLog.read(whole).panel("times").values
    np.testing.assert_array_equal(times, [[1, 1, 2, 2, 3]] * 3)  # repeated between
    with pytest.raises(Interrupted):
        training.train_stacked(
            config, SEEDS, tmp_path / "cut", listener=interrupting("advanced", 13)
        )
    (cut,) = training.train_stacked(config, SEEDS, tmp_path / "cut")
    assert cut.read_bytes() == whole.read_bytes()


def test_the_single_engine_records_them_too(tmp_path):
    accelerator = training.launch.make_accelerator(cpu=True)
    (path,) = training.train_single(CONFIG, [3], tmp_path / "one", accelerator=accelerator)
    (stacked,) = training.train_stacked(CONFIG, [3], tmp_path / "many")
    one, many = RunLog.read(path), RunLog.read(stacked)
    assert set(one.observables) == set(many.observables)
    for name in ("initial_distance",):
        np.testing.assert_allclose(
            one.panel(name).values, many.panel(name).values, 1e-3, err_msg=name
        )
