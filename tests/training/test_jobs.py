"""Groups of seeds in processes of their own: the same logs, and one line where one fails."""

from __future__ import annotations

import multiprocessing
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from launched import ended, processes_begin_with_torch, succeed
from training_builders import small_config

from gmb_hf.base.errors import InputError
from gmb_hf.training import launch, seeds
from gmb_hf.training.checkpoints import Rows
from gmb_hf.training.launch import Listener, parallel_jobs, train_groups

CONFIG = small_config(training={"seeds_at_once": 2, "steps": 20})


class Heard(Listener):
    def __init__(self):
        self.units, self.seeds = 0, set()

    def advanced(self, units):
        self.units += units

    def measured(self, seeds, found):
        assert found["train_acc"].shape == (len(seeds),)
        self.seeds.update(seeds)


def refused(*, tell):
    raise InputError("logs/a: the disk is full", code="full", where="logs/a")


def logs(folder):
    return {path.name: path.read_bytes() for path in (folder / "logs").iterdir()}


def test_two_at_a_time_leave_what_one_after_the_other_leaves(tmp_path, monkeypatch):
    """The first group resumes from the state of an interrupted start."""
    torch.set_num_threads(1)
    seeds.train_stacked(CONFIG, range(4), tmp_path / "one")
    with monkeypatch.context() as patched:
        patched.setattr(seeds, "SAVE_EVERY_SECONDS", -1.0)
        patched.setattr(Rows, "log", interrupted_log)
        with pytest.raises(KeyboardInterrupt):
            seeds.train_stacked(CONFIG, range(4), tmp_path / "two")
    assert list((tmp_path / "two" / "state").glob("seeds-0-1-n2.safetensors"))
    succeed(train_two_at_a_time, tmp_path / "two")
    assert logs(tmp_path / "two") == logs(tmp_path / "one")
    assert not list((tmp_path / "two" / "state").iterdir())


@processes_begin_with_torch()
def train_two_at_a_time(folder):
    heard = Heard()
    seeds.train_stacked(CONFIG, range(4), folder, listener=heard, jobs=2)
    assert heard.units == 4 * CONFIG.training.steps
    assert heard.seeds >= {2, 3}


def interrupted_log(*_):
    raise KeyboardInterrupt


def test_the_error_of_a_process_is_the_error_of_the_training():
    code, said = ended(hear_of_an_error)
    assert code == 0, said


@processes_begin_with_torch()
def hear_of_an_error():
    with pytest.raises(InputError, match="logs/a: the disk is full") as caught:
        train_groups([refused, refused], None, jobs=2)
    assert (caught.value.code, caught.value.location) == ("full", {"where": "logs/a"})
    assert not multiprocessing.active_children()


def test_an_interrupted_training_leaves_no_process():
    code, said = ended(interrupt_a_training)
    assert code == 0, said


@processes_begin_with_torch()
def interrupt_a_training():
    class Interrupts(Listener):
        def advanced(self, units):
            raise KeyboardInterrupt

    groups = [partial(endless, number=number) for number in range(2)]
    with pytest.raises(KeyboardInterrupt):
        train_groups(groups, Interrupts(), jobs=2)
    assert not multiprocessing.active_children()


def endless(*, tell, number):
    while True:
        tell("advanced", number)


def test_a_process_that_dies_is_said():
    killed = SimpleNamespace(join=lambda: None, exitcode=-9)
    with pytest.raises(InputError, match=r"ended with code -9.*--jobs 1 goes on"):
        launch._check_exit(killed, jobs=2)


def test_one_job_for_each_thread_on_a_cpu_and_one_on_a_gpu(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert [parallel_jobs(None, groups, "cpu") for groups in (0, 1, 3, 9)] == [1, 1, 3, 4]
    assert parallel_jobs(None, 9, "cuda") == 1
    assert parallel_jobs(2, 9, "cpu") == 2


def test_bad_numbers_of_jobs_leave_no_folder(tmp_path):
    with pytest.raises(InputError, match="--jobs must be a whole number of at least 1, got 0"):
        seeds.train_seeds(CONFIG, [0], tmp_path / "out", jobs=0)
    with pytest.raises(InputError, match="--jobs: the single engine trains one model at a time"):
        seeds.train_seeds(CONFIG, [0], tmp_path / "out", engine="single", jobs=2)
    assert not (tmp_path / "out").exists()
