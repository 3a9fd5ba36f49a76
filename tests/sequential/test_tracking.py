"""Phases of sequences in TensorBoard: one group a sequence, one run a phase."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from sequential_builders import tiny, trained
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gmb_hf.protocol.sequential.matrix import read_matrix


def scalars(place: Path) -> dict[str, Any]:
    """Tag -> its events, of one run."""
    events = EventAccumulator(str(place))
    events.Reload()
    return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}


def test_tensorboard_has_a_run_for_each_phase_of_each_sequence(tmp_path: Path) -> None:
    config = tiny("modular", "training.steps=5")
    folder = trained(config, tmp_path, [0, 3], trackers=["tensorboard"])
    groups = sorted(path.name for path in (tmp_path / "trackers").iterdir())
    assert groups == ["dense-seed_0", "dense-seed_3"]
    phases = [f"dense-phase-{at + 1}-{task}-seed_3" for at, task in enumerate(config.suite.tasks)]
    assert sorted(path.name for path in (tmp_path / "trackers/dense-seed_3").iterdir()) == phases
    third = scalars(tmp_path / "trackers/dense-seed_3" / phases[2])
    assert {"train_loss", "test_acc", "matrix_loss/mul", "matrix_accuracy/add"} <= third.keys()
    assert [event.step for event in third["test_loss"]] == [10, 15]  # over the whole sequence
    matrix = read_matrix(folder.path / "matrix.csv")["dense"]
    (ended,) = third["matrix_loss/mul"]
    expected = matrix.loss[1, 3, matrix.tasks.index("mul")]
    assert math.isfinite(ended.value)
    assert ended.value == pytest.approx(expected, rel=1e-5)
