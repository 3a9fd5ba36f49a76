"""Groups of seeds in processes of their own: the same matrices, and one line where one fails."""

from __future__ import annotations

from functools import partial

import pytest
from launched import processes_begin_with_torch, succeed
from sequential_builders import tiny, trained

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.sequential.folder import SequentialFolder
from gmb_hf.protocol.sequential.run import run_sequential, train_group
from gmb_hf.training.launch import train_groups
from gmb_hf.training.variants import parse_variant


def group(config, folder, variant="dense") -> partial[None]:
    """Two seeds that one process trains."""
    place = SequentialFolder(folder)
    return partial(train_group, config, parse_variant(variant), (0, 1), place, save_models="none")


class Heard:
    """A bar that writes down what it is told."""

    def __init__(self):
        self.steps, self.places = 0, []

    def advanced(self, seed_steps):
        self.steps += seed_steps

    def show(self, place):
        self.places.append(place)


def test_two_at_a_time_leave_what_one_after_the_other_leaves(tmp_path):
    config = tiny("modular")
    one = trained(config, tmp_path / "one", [0, 1], save_models="none")
    two = SequentialFolder(tmp_path / "two")
    two.claim(config)
    succeed(train_side_by_side, config, two.path)
    same = "matrix/dense-seeds-0-1-n2.csv"
    assert (two.path / same).read_bytes() == (one.path / same).read_bytes()
    assert two.finished_seeds("banded-4") == {0, 1}


@processes_begin_with_torch()
def train_side_by_side(config, folder):
    heard = Heard()
    groups = [group(config, folder, variant) for variant in ("dense", "banded-4")]
    train_groups(groups, heard, jobs=2)
    assert heard.steps == 2 * 2 * sum(config.steps)
    assert {place.split()[0] for place in heard.places} == {"dense", "banded-4"}


def test_no_job_at_all_is_refused(tmp_path):
    with pytest.raises(InputError, match="--jobs must be a whole number of at least 1, got 0"):
        run_sequential(tiny("modular"), [parse_variant("dense")], [0], tmp_path / "out", jobs=0)
    assert not (tmp_path / "out").exists()
