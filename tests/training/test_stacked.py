"""A folder of runs: what it holds, how it resumes after any end, and what it refuses."""

import errno
import json
import os
import resource

import numpy as np
import pytest
import torch
import yaml
from child_processes import Counting, Interrupted, interrupting, killed_training
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from training_builders import small_config

from gmb_hf.base.errors import InputError
from gmb_hf.indicators.catalogue import available, get
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import launch, stacked
from gmb_hf.training import seeds as training
from gmb_hf.training.checkpoints import write_checked
from gmb_hf.training.observables import Observer
from gmb_hf.training.seeds import pending_groups
from gmb_hf.training.seeds import train_stacked as train
from gmb_hf.training.stacked import SeedStack, initial_model

CONFIG = small_config(task={"corruption_rate": 0.2}, training={"seeds_at_once": 3})
SEEDS = (4, 0, 9)
LOG = "logs/seeds-0-9-n3-08926557.parquet"


@pytest.fixture
def save_always(monkeypatch):
    """Save the state at every checkpoint."""
    monkeypatch.setattr(training, "SAVE_EVERY_SECONDS", -1.0)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The log of the seeds, trained in one go, as bytes."""
    torch.set_num_threads(1)
    (path,) = train(CONFIG, SEEDS, tmp_path_factory.mktemp("whole"))
    return path.read_bytes()


def files_in(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_folder_holds_the_config_and_one_log_per_group(tmp_path):
    paths = train(CONFIG, [0, 1, 2, 3, 4], tmp_path)
    names = ["seeds-0-2-n3.parquet", "seeds-3-4-n2.parquet"]
    assert [path.name for path in paths] == names
    assert files_in(tmp_path) == ["config.yaml", *(f"logs/{name}" for name in names)]
    held = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert held == CONFIG.training_identity()
    log = RunLog.read(tmp_path / "logs")
    assert log.runs == tuple(f"seed_{seed}" for seed in range(5))
    assert log.seeds == (0, 1, 2, 3, 4)
    assert log.panel("test_loss").steps[0].tolist() == [0, 5, 10, 15, 20]


def test_a_log_says_what_made_it(tmp_path):
    train(CONFIG, [0], tmp_path)
    metadata = RunLog.read(tmp_path / "logs").metadata
    assert metadata["preset"] == "test"
    assert metadata["task"] == CONFIG.task.title
    assert metadata["model"] == "transformer-1x2x8"
    assert metadata["optimizer"].startswith("AdamW(lr=0.01, weight_decay=0.5, betas=(0.9, 0.98)")
    assert metadata["schedule"] == "constant, full batch, 20 steps"
    assert metadata["checkpoint_every_steps"] == 5
    assert metadata["system"] == {
        "architecture": "GrokkingTransformerForCausalLM",
        "parameter_count": initial_model(CONFIG, 0).num_parameters(),
        "optimizer": "AdamW",
        "learning_rate": 0.01,
        "weight_decay": 0.5,
    }
    assert metadata["config"] == CONFIG.training_identity()
    assert metadata["config_hash"] == CONFIG.training_hash()
    assert metadata["task_fingerprint"] == CONFIG.task.build().fingerprint()
    assert set(metadata["versions"]) == {"gmb_hf", "torch", "transformers", "numpy"}


def test_the_columns_are_the_observables_of_each_seed_at_each_checkpoint(tmp_path):
    train(CONFIG, SEEDS, tmp_path)
    log = RunLog.read(tmp_path / "logs")
    stack = SeedStack(CONFIG, SEEDS)
    observer = Observer(stack)
    for row in range(5):
        found = observer.measure(*stack.gradients(keep_logits=True))
        assert set(log.observables) == set(found)
        for name, values in found.items():
            column = log.panel(name).values[:, row]
            np.testing.assert_array_equal(column, values[[1, 0, 2]], err_msg=name)
        for _ in range(5):
            stack.gradients()
            stack.update()


def test_the_listener_hears_every_step_and_checkpoint(tmp_path):
    listener = Counting("advanced", -1, lambda: None)
    train(CONFIG, SEEDS, tmp_path, listener=listener)
    assert listener.heard == {"advanced": 20, "measured": 5}


def test_a_finished_folder_is_left_as_it_is(tmp_path):
    (path,) = train(CONFIG, SEEDS, tmp_path)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    listener = Counting("advanced", -1, lambda: None)
    assert train(CONFIG, SEEDS, tmp_path, listener=listener) == [path]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert listener.heard == {"advanced": 0, "measured": 0}


def test_more_seeds_later_train_only_the_missing_ones(tmp_path):
    (first,) = train(CONFIG, [0, 1], tmp_path)
    before = first.read_bytes()
    listener = Counting("advanced", -1, lambda: None)
    paths = train(CONFIG, [0, 1, 2, 7], tmp_path, listener=listener)
    assert listener.heard["advanced"] == 20  # one group of two
    assert len(paths) == 2
    assert first.read_bytes() == before
    assert RunLog.read(tmp_path / "logs").seeds == (0, 1, 2, 7)


def test_how_many_seeds_are_stacked_changes_no_identity(tmp_path):
    train(CONFIG, [0, 1], tmp_path)
    wider = CONFIG.changed(["training.seeds_at_once=1", "training.compile=never"])
    train(wider, [0, 1, 2], tmp_path)
    assert RunLog.read(tmp_path / "logs").seeds == (0, 1, 2)


@pytest.mark.parametrize(
    ("seeds", "at_once", "sizes"),
    [(range(6), 3, [3, 3]), (range(7), 3, [3, 2, 2]), (range(2), 36, [2]), ([], 3, [])],
)
def test_groups_are_even(tmp_path, seeds, at_once, sizes):
    config = CONFIG.changed([f"training.seeds_at_once={at_once}"])
    groups = pending_groups(config, list(seeds), tmp_path, ())
    assert [len(group) for group in groups] == sizes
    assert [seed for group in groups for seed in group] == list(seeds)


# Interrupted, and gone on.


@pytest.mark.parametrize(
    ("call", "number"),
    [("measured", 1), ("advanced", 1), ("advanced", 7), ("measured", 3), ("advanced", 20)],
)
def test_an_interrupted_training_goes_on_to_the_same_log(
    tmp_path, save_always, uninterrupted, call, number
):
    with pytest.raises(Interrupted):
        train(CONFIG, SEEDS, tmp_path, listener=interrupting(call, number))
    assert not (tmp_path / "logs").exists()
    (path,) = train(CONFIG, SEEDS, tmp_path)
    assert path.read_bytes() == uninterrupted
    assert files_in(tmp_path) == ["config.yaml", LOG]


def test_interrupted_at_every_checkpoint_it_still_ends_in_the_same_log(
    tmp_path, save_always, uninterrupted
):
    interruptions = 0
    while True:
        try:
            (path,) = train(CONFIG, SEEDS, tmp_path, listener=interrupting("measured", 2))
        except Interrupted:
            interruptions += 1
            continue
        break
    assert interruptions == 4
    assert path.read_bytes() == uninterrupted


def test_a_log_that_another_version_began_goes_on_with_its_columns(tmp_path, save_always):
    new = {"restricted_loss", "excluded_loss"}
    held = interrupted_folder(tmp_path)
    with safe_open(held, framework="pt") as file:
        about = dict(file.metadata())
    columns = [name for name in json.loads(about["columns"]) if name not in new]
    tensors = {k: v for k, v in load_file(held).items() if k.removeprefix("row.") not in new}
    tensors["row.forgotten"] = tensors["row.test_loss"].clone()
    about["columns"] = json.dumps([*columns, "forgotten"])
    write_checked(held, tensors, about)
    (path,) = train(CONFIG, SEEDS, tmp_path)
    assert list(RunLog.read(path).observables) == columns
    # The folder then holds runs with and without them; indicators need them in all.
    train(CONFIG, [*SEEDS, 77], tmp_path)
    log = RunLog.read(tmp_path / "logs")
    assert new < set(log.observables)
    assert list(log.shared_observables) == columns
    assert not {name for name in available(log) if new & set(get(name).needs)}
    assert "test_loss" in available(log)


def test_what_was_done_is_not_done_again(tmp_path, save_always):
    with pytest.raises(Interrupted):  # the second of five checkpoints was saved, at step 5
        train(CONFIG, SEEDS, tmp_path, listener=interrupting("advanced", 7))
    steps = []

    class Hearing(launch.Listener):
        def advanced(self, units):
            steps.append(units)

    train(CONFIG, SEEDS, tmp_path, listener=Hearing())
    assert steps == [3 * 5] + [3] * 15  # what was found, then the steps that were left


def test_a_listener_hears_that_the_first_step_is_compiled(tmp_path, monkeypatch):
    class Losses:  # no compiler is asked for
        works, proved = True, False

        def __init__(self, forward):
            self.forward = forward

        def __call__(self, weights):
            self.proved = True
            return self.forward.losses(weights, keep_logits=True)

    class Hearing(launch.Listener):
        def show(self, text):
            said.append((text, sum(steps)))

        def advanced(self, units):
            steps.append(units)

    said, steps = [], []
    monkeypatch.setattr(stacked, "CompiledLosses", Losses)
    train(CONFIG.changed(["training.compile=always"]), SEEDS, tmp_path, listener=Hearing())
    assert said == [("compiling", 0), ("", 0)]


def test_an_interrupted_group_is_resumed_first_and_the_rest_is_trained(tmp_path, save_always):
    with pytest.raises(Interrupted):
        train(CONFIG, [5, 6], tmp_path, listener=interrupting("advanced", 12))
    groups = pending_groups(CONFIG, [0, 1, 5, 6, 7, 8], tmp_path, ())
    assert groups == [(5, 6), (0, 1), (7, 8)]


def test_groups_with_the_same_ends_and_size_do_not_share_a_state(tmp_path, save_always):
    with pytest.raises(Interrupted):
        train(CONFIG, [0, 1, 3], tmp_path, listener=interrupting("advanced", 12))
    train(CONFIG, [0, 2, 3], tmp_path)
    fresh = train(CONFIG, [0, 2, 3], tmp_path / "fresh")[0]
    assert (tmp_path / "logs" / fresh.name).read_bytes() == fresh.read_bytes()


def test_interrupted_groups_that_overlap_train_each_seed_once(tmp_path, save_always):
    for seeds in ([0, 1, 3], [0, 2, 3]):
        with pytest.raises(Interrupted):
            train(CONFIG, seeds, tmp_path, listener=interrupting("advanced", 12))
    assert len(files_in(tmp_path / "state")) == 2
    train(CONFIG, [0, 1, 2, 3], tmp_path)
    assert RunLog.read(tmp_path / "logs").seeds == (0, 1, 2, 3)
    assert files_in(tmp_path / "state") == []


@pytest.mark.parametrize(
    "moment",
    ["step 7", "checkpoint 3", "state 1 written", "state 3 written", "log written", "log in place"],
)
def test_a_killed_training_goes_on_to_the_same_log(tmp_path, uninterrupted, moment):
    assert killed_training(CONFIG, SEEDS, tmp_path, moment) == -9
    (path,) = train(CONFIG, SEEDS, tmp_path)
    assert path.name == os.path.basename(LOG)
    assert path.read_bytes() == uninterrupted
    assert not list((tmp_path / "state").glob("seeds-*"))
    assert RunLog.read(tmp_path / "logs").seeds == (0, 4, 9)


# What a folder refuses.


def test_another_config_in_the_same_folder(tmp_path):
    train(CONFIG, [0], tmp_path)
    other = CONFIG.changed(["training.lr=0.02"])
    message = r"config.yaml: this folder holds runs of another config \(training.lr: 0.01 -> 0.02\)"
    with pytest.raises(InputError, match=message):
        train(other, [1], tmp_path)
    assert RunLog.read(tmp_path / "logs").seeds == (0,)


def test_a_config_file_that_cannot_be_read(tmp_path):
    (tmp_path / "config.yaml").write_text("task: [")
    with pytest.raises(InputError, match=r"config.yaml: line 2: .*; choose another folder$"):
        train(CONFIG, [0], tmp_path)


def test_a_config_file_of_something_else(tmp_path):
    (tmp_path / "config.yaml").write_text("hello")
    with pytest.raises(InputError, match="this folder holds runs of another config"):
        train(CONFIG, [0], tmp_path)


def test_logs_of_others_are_refused_where_they_would_pass_for_our_own(tmp_path):
    (path,) = train(CONFIG, SEEDS, tmp_path)
    log = RunLog.read(path)
    match = "was not trained here, by this config; move it out of this folder, or choose another --"
    for foreign in ("seed_9.csv", "seeds-7-7-n1.parquet", "copy.parquet"):
        place = path.with_name(foreign)
        if place.suffix == ".csv":
            place.write_text("step,test_acc\n0,0.5\n5,0.5\n")
        else:
            log.metadata |= {"config_hash": "another"} if foreign[:4] == "seed" else {}
            log.write(place)
        with pytest.raises(InputError, match=f"{foreign}: {match}"):
            train(CONFIG, SEEDS, tmp_path)
        place.unlink()
        log = RunLog.read(path)
    path.with_name("notes.md").write_text("what these runs are")
    assert train(CONFIG, SEEDS, tmp_path) == [path]


def interrupted_folder(folder):
    """A folder with the state of an interrupted training; the state's path."""
    with pytest.raises(Interrupted):
        train(CONFIG, SEEDS, folder, listener=interrupting("advanced", 12))
    return next((folder / "state").glob("seeds-*"))


def test_a_flipped_bit_in_a_state_is_found(tmp_path, save_always):
    held = interrupted_folder(tmp_path)
    whole = held.read_bytes()
    for at in [*range(0, len(whole), len(whole) // 40), len(whole) - 1]:
        held.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(
            InputError, match=f"{held.name}: not a state of an interrupted training"
        ):
            train(CONFIG, SEEDS, tmp_path)
    at = len(whole) - 9
    held.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(
        InputError, match=r"\(its hash differs: it was damaged or changed\); delete"
    ):
        train(CONFIG, SEEDS, tmp_path)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "foreign", "no columns"])
def test_a_damaged_state_is_named_and_left(tmp_path, save_always, damage):
    held = interrupted_folder(tmp_path)
    content = held.read_bytes()
    if damage == "foreign":
        save_file({"weight": torch.zeros(2)}, held)
    elif damage == "no columns":
        about = {"seeds": json.dumps(SEEDS), "identity": CONFIG.training_hash()}
        save_file(load_file(held), held, metadata=about)
    else:
        damaged = {"cut": content[: len(content) // 2], "empty": b"", "text": b"hello" * 100}
        held.write_bytes(damaged[damage])
    before = held.read_bytes()
    message = rf"{held.name}: not a state of an interrupted training .*; delete it to train"
    with pytest.raises(InputError, match=message):
        train(CONFIG, SEEDS, tmp_path)
    assert held.read_bytes() == before
    held.unlink()
    assert len(train(CONFIG, SEEDS, tmp_path)) == 1


def test_a_state_of_an_earlier_version(tmp_path, save_always, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr("gmb_hf.training.checkpoints._LAYOUT", 1)
        held = interrupted_folder(tmp_path)
    with pytest.raises(InputError, match=rf"{held.name}: was saved by an earlier version of gmb-"):
        train(CONFIG, SEEDS, tmp_path)


def test_a_state_of_another_config(tmp_path, save_always):
    held = interrupted_folder(tmp_path)
    (tmp_path / "config.yaml").unlink()
    with pytest.raises(InputError, match=rf"{held.name}: the interrupted training of another"):
        train(CONFIG.changed(["training.lr=0.02"]), SEEDS, tmp_path)


def test_a_path_that_is_a_file(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="could not be written: a "):
        train(CONFIG, [0], tmp_path / "out")


def disk_is_full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_while_saving_the_state(tmp_path, save_always, uninterrupted):
    held = interrupted_folder(tmp_path)
    before = held.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", disk_is_full)
        with pytest.raises(InputError, match=rf"{held.name}: could not be written: the disk is"):
            train(CONFIG, SEEDS, tmp_path)
    assert held.read_bytes() == before
    assert files_in(tmp_path) == ["config.yaml", f"state/{held.name}"]  # nothing half-written
    (path,) = train(CONFIG, SEEDS, tmp_path)
    assert path.read_bytes() == uninterrupted


def test_a_full_disk_while_writing_the_log(tmp_path, save_always, uninterrupted):
    def full_for_logs(descriptor):
        if ".parquet" in os.readlink(f"/proc/self/fd/{descriptor}"):
            disk_is_full()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full_for_logs)
        with pytest.raises(InputError, match=r"parquet: could not be written: the disk is full"):
            train(CONFIG, SEEDS, tmp_path)
    assert files_in(tmp_path / "logs") == []
    listener = Counting("measured", -1, lambda: None)
    (path,) = train(CONFIG, SEEDS, tmp_path, listener=listener)
    assert listener.heard["measured"] == 0  # all of it was saved
    assert path.read_bytes() == uninterrupted


def test_a_state_that_the_system_refuses_to_write(tmp_path, save_always):
    """A real refusal, since safetensors' own writer hides the reason behind an error of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        with pytest.raises(InputError, match="could not be written: files may not be so large"):
            train(CONFIG, SEEDS, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_in(tmp_path) == ["config.yaml"]


def test_a_loss_that_is_not_finite_names_seed_and_step(tmp_path):
    wild = CONFIG.changed(["training.lr=1e30"])
    with pytest.raises(InputError, match="seed 4: train_loss is not finite at step 5; lower"):
        train(wild, SEEDS, tmp_path)
    assert files_in(tmp_path) == ["config.yaml"]


def test_no_seeds_is_no_work(tmp_path):
    assert train(CONFIG, [], tmp_path) == []
