"""Curves and matrices in TensorBoard, through Accelerate."""

import math

import pytest
from sequential_builders import tiny, trained
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmb_hf.errors import InputError
from gmb_hf.sequential.matrix import read_matrix
from gmb_hf.sequential.run import TrackerCallback, installed


def test_tensorboard_has_every_seeds_curves_and_the_matrix(tmp_path):
    config = tiny("modular", "training.steps=5")
    tracking = TrackerCallback(["tensorboard"], tmp_path, cpu=True)
    folder = trained(config, tmp_path, [0, 3], callbacks=[tracking])
    (place,) = (tmp_path / "trackers").iterdir()
    assert place.name.startswith("dense-seeds-0-3-n2")
    events = EventAccumulator(str(place))
    events.Reload()
    tags = events.Tags()["scalars"]
    assert {"train_loss/seed_0", "test_acc/seed_3", "matrix_loss/mul/mean"} <= set(tags)
    steps = [event.step for event in events.Scalars("test_loss/seed_3")]
    assert steps == [0, 5, 5, 10, 10, 15, 15, 20]  # a phase begins at the step where one ends
    matrix = read_matrix(folder.path / "matrix.csv")["dense"]
    logged = [event.value for event in events.Scalars("matrix_loss/mul/seed_3")]
    expected = matrix.loss[1, 1:, matrix.tasks.index("mul")].tolist()
    assert logged == pytest.approx(expected, rel=1e-5)
    assert all(math.isfinite(value) for value in logged)


def test_an_unknown_tracker_names_the_nearest():
    with pytest.raises(InputError, match=r"tracker 'wand' is unknown.*Did you mean 'wandb'"):
        installed(["wand"])
