"""One ordinary model through Accelerate, beside the stacked engine."""

import numpy as np
import pytest
import torch
from child_processes import data_parallel_training
from training_builders import small_config

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import launch as processes
from gmb_hf.training.launch import Listener
from gmb_hf.training.seeds import full_batches, train_single, train_stacked, training_rows
from gmb_hf.training.stacked import task_data

SEEDS = (3, 0)
CASES = {
    "one layer": {"task": {"prime": 7, "corruption_rate": 0.1}},
    "tied, two layers": {
        "task": {"prime": 7, "operation": "div", "data_seed": 42},
        "model": {"layers": 2, "tied": True, "activation": "gelu_new"},
        "training": {"lr": 3e-3},
    },
    "without norms": {
        "task": {"prime": 7},
        "model": {"layer_norm": False, "initializer_range": 0.2},
        "training": {"lr": 2e-3},
    },
    "blended and sorted": {
        "task": {"prime": 7},
        "model": {"layers": 2, "blend_window": 8, "sort_window": 4},
        "training": {"lr": 2e-3},
    },
    "banded, with the pull of neighbours": {
        "task": {"prime": 7},
        "model": {"band_fc1": 4, "band_fc2": 6, "hebbian_window": 4, "hebbian_rate": 0.02},
        "training": {"lr": 3e-3},
    },
}


@pytest.fixture(scope="module")
def accelerator():
    return processes.make_accelerator(cpu=True)


@pytest.mark.parametrize("sections", CASES.values(), ids=CASES.keys())
def test_both_engines_log_the_same(tmp_path, accelerator, sections):
    """All observables of 10 steps, to rounding: float32, and its sums in another order.

    Rounding grows as it trains, as it does between two orders of one engine; the rate and the
    number of steps are small enough for it to stay small.
    """
    training = {"steps": 10, "checkpoint_every": 10, **sections.get("training", {})}
    config = small_config(**{**sections, "training": training})
    paths = train_single(config, SEEDS, tmp_path / "single", accelerator=accelerator)
    assert [path.name for path in paths] == ["seeds-0-0-n1.parquet", "seeds-3-3-n1.parquet"]
    train_stacked(config, SEEDS, tmp_path / "stacked")
    own, other = (RunLog.read(tmp_path / name / "logs") for name in ("single", "stacked"))
    assert own.runs == other.runs == ("seed_0", "seed_3")
    assert own.observables == other.observables
    assert own.metadata == other.metadata
    tolerances = {"train_loss": 1e-4, "test_loss": 1e-4, "curvature": 2e-2}
    for name in own.observables:
        found, expected = own.panel(name).values, other.panel(name).values
        scale = max(float(np.abs(expected).max()), 1e-6)
        worst = float(np.abs(found - expected).max()) / scale
        assert worst <= tolerances.get(name, 2e-3), name
    losses = own.panel("train_loss").values
    assert (losses[:, -1] < losses[:, 0]).all()


def test_a_seed_whose_log_exists_is_left_as_it_is(tmp_path, accelerator):
    config = small_config()
    (path,) = train_single(config, [1], tmp_path, accelerator=accelerator)
    before = path.read_bytes()
    heard = []

    class Hearing(Listener):
        def advanced(self, units):
            heard.append(units)

    paths = train_single(config, [1, 2], tmp_path, accelerator=accelerator, listener=Hearing())
    assert len(paths) == 2
    assert path.read_bytes() == before
    assert heard == [1] * 20


def test_the_engines_share_a_folder(tmp_path, accelerator):
    config = small_config()
    train_stacked(config, [0, 1], tmp_path)
    train_single(config, [0, 1, 2], tmp_path, accelerator=accelerator)
    assert RunLog.read(tmp_path / "logs").seeds == (0, 1, 2)


def test_another_config_in_the_same_folder(tmp_path, accelerator):
    train_single(small_config(), [0], tmp_path, accelerator=accelerator)
    other = small_config(model={"width": 16})
    with pytest.raises(InputError, match=r"another config \(model.width: 8 -> 16\)"):
        train_single(other, [1], tmp_path, accelerator=accelerator)


def test_a_loss_that_is_not_finite_names_seed_and_step(tmp_path, accelerator):
    wild = small_config(training={"lr": 1e30})
    with pytest.raises(InputError, match="seed 6: train_loss is not finite at step 5; lower"):
        train_single(wild, [6], tmp_path, accelerator=accelerator)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("processes", [1, 2, 4, 7])
def test_a_batch_is_every_training_row_and_rows_that_count_for_nothing(processes):
    config = small_config(task={"corruption_rate": 0.2})  # 15 training rows
    dataset = training_rows(config, 3)
    data = task_data(config.task, 3)
    (batch,) = list(full_batches(dataset, processes))
    assert len(batch["input_ids"]) % processes == 0
    assert len(batch["input_ids"]) - 15 < processes
    np.testing.assert_array_equal(batch["input_ids"][:15], data.input_ids[data.train_index])
    np.testing.assert_array_equal(batch["labels"][:15], data.labels[data.train_index])
    assert (batch["labels"][15:] == -100).all()


@pytest.mark.parametrize("window", [None, 4], ids=["dense", "hebbian"])
def test_two_processes_train_one_model_also_on_rows_that_two_does_not_divide(
    tmp_path, accelerator, window
):
    config = small_config(model={"hebbian_window": window, "hebbian_rate": 0.1})
    assert len(training_rows(config, 2)) == 15
    assert data_parallel_training(config, [2], tmp_path / "two", 2) == [0, 0]
    train_single(config, [2], tmp_path / "one", accelerator=accelerator)
    found, expected = (RunLog.read(tmp_path / name / "logs") for name in ("two", "one"))
    assert found.metadata == expected.metadata
    for name in ("train_loss", "test_loss", "weight_norm", "gradient_norm", "update_norm"):
        np.testing.assert_allclose(
            found.panel(name).values, expected.panel(name).values, rtol=1e-4, err_msg=name
        )


def test_training_rows_may_be_fixed_for_all_seeds():
    config = small_config(task={"data_seed": 42, "train_rows": 11})
    first, second = (training_rows(config, seed)["input_ids"][:] for seed in (0, 1))
    assert len(first) == 11
    assert torch.equal(first, second)
