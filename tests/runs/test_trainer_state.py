"""A Trainer's state: real ones, written by transformers, and every way in which one is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers.trainer_callback import TrainerState

from gmb_hf.base.errors import InputError
from gmb_hf.runs.runlog import RunLog


def history(last_step: int, *, summary: bool = False) -> list[dict[str, Any]]:
    """The loss every 5 steps, an evaluation every 10, as a Trainer logs them."""
    entries: list[dict[str, Any]] = []
    for step in range(5, last_step + 1, 5):
        epoch = step / 8
        entries.append({"epoch": epoch, "loss": 1 / step, "grad_norm": 0.5, "step": step})
        if step % 10 == 0:
            entries.append({"epoch": epoch, "eval_accuracy": step / 100, "step": step})
    if summary:
        end = {"epoch": last_step / 8, "step": last_step, "train_loss": 0.2, "train_runtime": 9.0}
        entries.append({**end, "total_flos": 1e9})
    return entries


def save(folder: Path, last_step: int, **options: bool) -> Path:
    """A state as transformers writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "trainer_state.json"
    log = history(last_step, **options)
    TrainerState(global_step=last_step, log_history=log).save_to_json(str(path))
    return path


def test_train_rows_and_eval_rows_of_a_step_are_one_row(tmp_path: Path) -> None:
    log = RunLog.read(save(tmp_path / "seed_3", 40))
    assert log.runs == ("seed_3",)
    assert log.seeds == (3,)
    np.testing.assert_array_equal(log.panel("step").values, [np.arange(5, 41, 5)])
    np.testing.assert_array_equal(log.panel("loss").values, [1 / np.arange(5, 41, 5)])
    accuracy = log.panel("eval_accuracy").values[0]
    np.testing.assert_array_equal(accuracy[1::2], np.arange(10, 41, 10) / 100)
    assert np.isnan(accuracy[::2]).all()
    assert log.dropped_duplicates == {}


def test_the_run_is_the_output_folder_and_the_last_checkpoint_counts(tmp_path: Path) -> None:
    for seed in (1, 2):
        for step in (20, 100):  # as text, 20 would come after 100
            save(tmp_path / f"seed_{seed}" / f"checkpoint-{step}", step)
    every = tmp_path / "*" / "checkpoint-*" / "trainer_state.json"
    given = [tmp_path, str(tmp_path / "*"), str(every), [tmp_path / "seed_1", tmp_path / "seed_2"]]
    logs = [RunLog.read(source) for source in given]
    assert [log.runs for log in logs] == [("seed_1", "seed_2")] * len(given)
    assert len({log.fingerprint() for log in logs}) == 1
    assert logs[0].panel("step").last_step.tolist() == [100, 100]
    one = RunLog.read(tmp_path / "seed_1" / "checkpoint-20")
    assert (one.runs, one.panel("step").last_step.tolist()) == (("seed_1",), [20])


def test_the_state_beside_the_checkpoints_counts_unless_it_is_older(tmp_path: Path) -> None:
    save(tmp_path / "seed_1" / "checkpoint-20", 20)
    save(tmp_path / "seed_1", 25)
    assert RunLog.read(tmp_path / "seed_1").panel("step").last_step.tolist() == [25]
    save(tmp_path / "seed_1" / "checkpoint-40", 40)  # the training was resumed, and not ended
    assert RunLog.read(tmp_path / "seed_1").panel("step").last_step.tolist() == [40]


def test_means_over_the_whole_training_are_no_measurement(tmp_path: Path) -> None:
    log = RunLog.read(save(tmp_path / "a", 42, summary=True))
    assert sorted(log.observables) == ["epoch", "eval_accuracy", "grad_norm", "loss"]
    assert log.panel("step").last_step.tolist() == [40]
    match = "column 'train_loss' is logged once, when a training ends"
    with pytest.raises(InputError, match=match):
        log.panel("train_loss")
    with pytest.raises(InputError, match=match):
        RunLog.read(tmp_path / "a", columns=["train_loss"])


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"log_history": [{"step": 5, "loss"', "cut short, or no JSON: .*copy the file again"),
        ("", "the file is empty"),
        ("[1]", "no Trainer's state: it has no list log_history"),
        ('{"log_history": 3}', "no Trainer's state"),
        ('{"log_history": []}', "log_history is empty: no rows"),
        ('{"log_history": [5]}', "entry 1 of log_history is no object"),
        ('{"log_history": [{"loss": 1.0}]}', "column 'step' missing; found: loss"),
        ('{"log_history": [{"step": 5}, {"loss": 1}]}', "entry 2 .*: column 'step' is empty"),
        ('{"log_history": [{"step": -5, "loss": 1}]}', "entry 1 .*: column 'step' is -5"),
        ('{"log_history": [{"step": 0.5, "loss": 1}]}', r"entry 1 .*: column 'step' is 0\.5"),
        (
            json.dumps({"log_history": [*history(20), {"step": 25, "loss": "high"}]}),
            "entry 7 of log_history: column 'loss' holds 'high', not a number",
        ),
        (b'{"log_history": "\xff"}', "is not UTF-8 text"),
    ],
)
def test_bad_states(tmp_path: Path, text: str | bytes, match: str) -> None:
    path = tmp_path / "seed_1" / "trainer_state.json"
    path.parent.mkdir()
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=rf"trainer_state\.json: {match}"):
        RunLog.read(path)


def test_every_place_where_a_file_can_be_cut(tmp_path: Path) -> None:
    text = save(tmp_path / "whole", 40).read_text().rstrip()
    path = tmp_path / "cut" / "trainer_state.json"
    path.parent.mkdir()
    for end in range(1, len(text), 97):
        path.write_text(text[:end])
        with pytest.raises(InputError, match=r"trainer_state\.json: cut short"):
            RunLog.read(path)
