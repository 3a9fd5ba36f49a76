"""The alarm inside a training: the Trainer, a loop under Accelerate, two processes, and faults."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from live_runs import GAIN, Replayed
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

from gmb_hf import RunLog
from gmb_hf.base.errors import InputError
from gmb_hf.monitor.callback import LOG_FILE, PREVIOUS_LOG, STATE_FILE, GMBCallback, RunWatch, watch
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.monitor.observe import Parts

RESIDUES = Parts(residues=5)
ROWS = [{"input_ids": [i % 8, (i + 1) % 8], "labels": [-100, (i + 1) % 8]} for i in range(8)]


def tiny_model() -> GPT2LMHeadModel:
    set_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))


@pytest.fixture
def make(evaluated: Any, replayed: Replayed) -> Callable[..., GMBCallback]:
    """A callback that reads the replayed column."""

    def callback(**options: Any) -> GMBCallback:
        said = {"system": "as locked"}
        given = {"act": [GAIN], "parts": RESIDUES, "extra": replayed, **said, **options}
        return GMBCallback(evaluated.lock, evaluated.results, **given)

    return callback


def trainer(folder: Path, steps: int, *callbacks: Any, **options: Any) -> Trainer:
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=2,
        logging_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **{"save_strategy": "no", **options},
    )
    collate = lambda rows: {  # noqa: E731
        key: torch.tensor([row[key] for row in rows]) for key in ("input_ids", "labels")
    }
    return Trainer(tiny_model(), arguments, collate, ROWS, callbacks=list(callbacks))


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / LOG_FILE).read_text().splitlines()]


def test_the_trainer_saves_a_checkpoint_at_the_alarm_and_goes_on(
    make: Any, replayed: Replayed, tmp_path: Path
) -> None:
    rung: list[Any] = []
    callback, alarm = make(action="checkpoint", on_alarm=rung.append), replayed.alarm
    trainer(tmp_path, alarm + 15, callback, gradient_accumulation_steps=2).train()
    assert callback.watch.acted == alarm
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == [f"checkpoint-{alarm}"]
    assert (tmp_path / f"checkpoint-{alarm}" / STATE_FILE).is_file()
    rows = logged(tmp_path)
    assert [row["step"] for row in rows] == list(range(0, alarm + 20, 10))  # updates, not batches
    by_step = {row["step"]: row["state"] for row in rows}
    assert {by_step[step] for step in range(0, alarm, 10)} == {"CLEAR"}
    assert {by_step[step] for step in range(alarm, alarm + 20, 10)} == {"ALARM"}
    assert [reading.step for reading in rung] == [alarm]
    # The log of readings is a run log like any other.
    assert "embedding_gini" in RunLog.read(tmp_path / LOG_FILE).observables


def test_a_paused_training_is_resumed_and_watched_on(
    make: Any, replayed: Replayed, tmp_path: Path, caplog: Any
) -> None:
    whole, alarm = make(), replayed.alarm
    trainer(tmp_path / "whole", alarm + 20, whole).train()
    paused = trainer(tmp_path / "parts", alarm + 20, make(action="pause"))
    paused.train()
    assert paused.state.global_step == alarm
    assert "the training ends: resume from it to go on" in caplog.text
    again = make(action="pause")
    trainer(tmp_path / "parts", alarm + 20, again).train(resume_from_checkpoint=True)
    assert again.watch.acted == alarm  # not a second time
    assert again.watch.last == whole.watch.last
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")


def test_stop_ends_the_training_without_a_checkpoint(
    make: Any, replayed: Replayed, tmp_path: Path
) -> None:
    stopped = trainer(tmp_path, replayed.alarm + 20, make(action="stop"))
    stopped.train()
    assert stopped.state.global_step == replayed.alarm
    assert not list(tmp_path.glob("checkpoint-*"))


def test_verdicts_of_a_transfer_are_told_at_the_start_and_in_every_row(
    transferred: Path, make: Any, replayed: Replayed, tmp_path: Path, caplog: Any
) -> None:
    files = [transferred / name for name in ("lock.yaml", "results.yaml")]
    given = {"parts": RESIDUES, "extra": replayed}
    watched = GMBCallback(*files, show=[GAIN], **given)  # so few runs show no budget: none may act
    for name, callback in (("elsewhere", watched), ("here", make())):
        trainer(tmp_path / name, 10, callback).train()
    said = "The verdicts are about another system than the lock's (gmb evaluate --transfer): what"
    assert caplog.text.count(said) == 1
    assert [row["basis"] for row in logged(tmp_path / "elsewhere")] == ["shown"] * 2
    assert not any("basis" in row for row in logged(tmp_path / "here"))
    assert len(RunLog.read(tmp_path / "elsewhere" / LOG_FILE).runs) == 1


def test_another_training_in_the_folder_begins_another_log(make: Any, tmp_path: Path) -> None:
    for steps in (20, 10):
        trainer(tmp_path, steps, make()).train()
    assert [row["step"] for row in logged(tmp_path)] == [0, 10]
    previous = (tmp_path / PREVIOUS_LOG).read_text().splitlines()
    assert [json.loads(row)["step"] for row in previous] == [0, 10, 20]


def test_a_resumed_training_without_the_state_abstains(
    make: Any, tmp_path: Path, caplog: Any
) -> None:
    trainer(tmp_path, 20, make(), save_strategy="steps", save_steps=20).train()
    (tmp_path / "checkpoint-20" / STATE_FILE).unlink()
    callback = make()
    trainer(tmp_path, 40, callback).train(resume_from_checkpoint=True)
    assert callback.watch.state == "ABSTAIN"
    assert caplog.text.count("the monitor failed and abstains from now on") == 1
    assert f"{STATE_FILE}: there is no such file" in caplog.text


def test_its_state_goes_to_a_tracker(make: Any, replayed: Replayed, tmp_path: Path) -> None:
    callback = make(track=["tensorboard"])
    trainer(tmp_path / "out", replayed.alarm + 10, callback).train()
    events = EventAccumulator(str(tmp_path / "out" / "trackers" / "out" / "monitor"))
    events.Reload()
    alarms = {event.step: event.value for event in events.Scalars("monitor/alarm")}
    rows = {row["step"]: row for row in logged(tmp_path / "out")}
    assert alarms == {step: float(row["state"] == "ALARM") for step, row in rows.items()}
    assert 1.0 in alarms.values()
    scores = {e.step: e.value for e in events.Scalars(f"monitor/{GAIN}.score")}
    expected = {step: row[f"{GAIN}.score"] for step, row in rows.items()}
    assert scores == pytest.approx({s: x for s, x in expected.items() if x is not None}, rel=1e-5)
    assert events.Scalars(f"monitor/{GAIN}.threshold")


def test_a_tracker_that_fails_leaves_the_monitor_at_work(
    make: Any, replayed: Replayed, tmp_path: Path, caplog: Any
) -> None:
    def broken(numbers: Mapping[str, float], step: int) -> None:
        raise OSError("no route")

    callback = make()
    callback.watch.track = broken
    trainer(tmp_path, 25, callback).train()
    assert callback.watch.failed is None
    assert caplog.text.count("the tracker failed, and is told no more: no route") == 1
    assert [row["step"] for row in logged(tmp_path)] == [0, 10, 20]


def test_the_training_is_the_same_with_and_without_it(evaluated: Any, tmp_path: Path) -> None:
    everything = list(evaluated.lock.x_lock.candidates)
    callback = GMBCallback(
        evaluated.lock,
        evaluated.results,
        heldout=ROWS,
        train=ROWS,
        parts=RESIDUES,
        show=everything,
    )
    plain = trainer(tmp_path / "a", 25)
    plain.train()
    watched = trainer(tmp_path / "b", 25, callback)  # its seed set anew, for dropout
    watched.train()
    pairs = zip(plain.model.parameters(), watched.model.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    rows = logged(tmp_path / "b")
    assert [row["step"] for row in rows] == [0, 10, 20]
    assert rows[-1].keys() >= {"train_loss", "prediction_change", "unembedding_gini"}


def test_a_fault_is_one_warning_and_the_training_goes_on(
    make: Any, tmp_path: Path, caplog: Any
) -> None:
    def broken(model: Any, step: int) -> Mapping[str, float]:
        if step >= 20:
            raise RuntimeError("no\nmemory")
        return {}

    callback = make(extra=broken, action="stop")
    run = trainer(tmp_path, 45, callback)
    run.train()
    assert run.state.global_step == 45
    assert callback.watch.state == "ABSTAIN"
    warnings = [record.getMessage() for record in caplog.records if "failed" in record.message]
    assert warnings == [
        "step 20: the monitor failed and abstains from now on, the training goes on: "
        "RuntimeError: no memory"
    ]
    last = logged(tmp_path)[-1]
    assert last == {"step": 20, "state": "ABSTAIN", "reason": "RuntimeError: no memory"}


@pytest.mark.parametrize("place", ["measure", "state"])
def test_neither_an_exit_in_a_measurement_nor_a_state_that_fails_ends_the_training(
    make: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def leaves(model: Any, step: int) -> dict[str, float]:
        raise SystemExit(4)

    def fails(self: Any) -> None:
        raise ValueError("no state")

    callback = make(extra=leaves) if place == "measure" else make()
    if place == "state":
        monkeypatch.setattr(AlarmMonitor, "state_dict", fails)
    run = trainer(tmp_path, 20, callback)
    run.train()
    assert run.state.global_step == 20
    run.control.should_save = True
    callback.on_save(run.args, run.state, run.control)
    assert callback.watch.state == "ABSTAIN"
    assert callback.watch.failed == (
        "SystemExit: 4" if place == "measure" else "ValueError: no state"
    )
    assert callback.watch.state_dict()["failed"] == callback.watch.failed
    again = make()
    again.watch.resume(callback.watch.state_dict(), 20)
    assert (again.watch.state, again.watch.failed) == ("ABSTAIN", callback.watch.failed)


def test_a_full_disk_does_not_end_the_training(
    make: Any, tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunWatch, "_append", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    callback = make()
    run = trainer(tmp_path, 20, callback)
    run.train()
    assert run.state.global_step == 20
    assert callback.watch.state == "ABSTAIN"
    assert "nor can it be written" in caplog.text


def test_a_model_in_pieces_is_left_alone(make: Any, caplog: Any, tmp_path: Path) -> None:
    callback = make()
    model = tiny_model()
    model.transformer.h[0].mlp.c_fc.bias = torch.nn.Parameter(torch.empty(0))
    assert not callback.watch.check(model, 0)
    assert "models that are sharded (FSDP, DeepSpeed ZeRO-3) cannot be watched" in caplog.text


def test_a_loop_under_accelerate(
    evaluated: Any, replayed: Replayed, tmp_path: Path, caplog: Any
) -> None:
    caplog.set_level(logging.INFO)

    def begun() -> tuple[Accelerator, Any, Any, Any]:
        accelerator = Accelerator(
            cpu=True,
            gradient_accumulation_steps=2,
            log_with="tensorboard",
            project_dir=tmp_path / "events",
        )
        accelerator.init_trackers("watched")
        model = tiny_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = accelerator.prepare(model, optimizer)
        watched = watch(
            accelerator,
            model,
            evaluated.lock,
            evaluated.results,
            folder=tmp_path,
            action="pause",
            act=[GAIN],
            parts=RESIDUES,
            extra=replayed,
            system="as locked",
        )
        return accelerator, model, optimizer, watched

    def loop(
        accelerator: Accelerator, model: Any, optimizer: Any, watched: Any, step: int, last: int
    ) -> int:
        batch = {key: torch.tensor([row[key] for row in ROWS]) for key in ROWS[0]}
        while step < last and not watched.should_stop:
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch).loss)
                optimizer.step()
                optimizer.zero_grad()
            step += accelerator.sync_gradients
            watched.step(step)
        return step

    first = begun()
    assert first[3].step(0).state == "CLEAR"
    assert loop(*first, 0, 10**6) == replayed.alarm
    first[0].end_training()
    events = EventAccumulator(str(tmp_path / "events" / "watched"))
    events.Reload()
    assert events.Scalars("monitor/alarm")[-1].step == replayed.alarm
    saved = tmp_path / f"alarm-{replayed.alarm}"
    assert saved.is_dir()
    again = begun()
    again[0].load_state(str(saved))
    assert again[3].watch.acted == replayed.alarm
    assert loop(*again, replayed.alarm, replayed.alarm + 10) == replayed.alarm + 10
    assert [row["step"] for row in logged(tmp_path)] == list(range(0, replayed.alarm + 20, 10))
    assert "failed" not in caplog.text
    again[3].step(0)
    assert caplog.text.count("step 0 comes after step") == 1  # a warning, no error


def test_unit_and_budget_are_the_monitors(evaluated: Any) -> None:
    for rule in ({"budget": 0.1}, {"unit": "window", "target": 0.05}):
        callback = GMBCallback(
            evaluated.lock, evaluated.results, act=[GAIN], parts=RESIDUES, **rule
        )
        found = callback.watch.monitor.rule
        assert found.unit == rule.get("unit", "run")
        assert found.budget in rule.values()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"action": "halt"}, r"action 'halt' is unknown; known: checkpoint, log, pause, stop"),
        ({"results": None}, r"a lock without results"),
        ({"budget": 0.02}, r"budget 0\.02 is not in the lock; its budgets of runs: 0\.05, 0"),
        ({"target": 0.1}, r"target is a share of windows, the unit is run; give budget"),
        ({"act": ["clock"]}, r"it may be shown, but never act"),
        ({"act": ["settled_structure"]}, r"read prediction_change, measured on held-out rows: gi"),
        ({"parts": None}, r"read embedding_gini, .*parts=Parts\(residues=P\)"),
        ({"system": {"tusk": "x"}}, r"tusk"),
    ],
)
def test_what_is_wrong_is_said_before_the_training(
    evaluated: Any, options: dict[str, Any], message: str
) -> None:
    given = {"results": evaluated.results, "act": [GAIN], "parts": RESIDUES, **options}
    with pytest.raises(InputError, match=message):
        GMBCallback(evaluated.lock, **given)
