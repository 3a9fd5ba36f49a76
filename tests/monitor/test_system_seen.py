"""A training under watch is of the lock's system: what is seen of it, and what is said."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from live_runs import GAIN, SYSTEM, Evaluated, Replayed
from test_callback import RESIDUES, tiny_model, trainer

from gmb_hf import InputError, Lock
from gmb_hf.design.lock import LockedSystem
from gmb_hf.monitor.callback import GMBCallback, watch
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.monitor.observe import seen_system

SEEN = {
    "architecture": "GPT2LMHeadModel",
    # Tokens and positions, the block (attention, MLP and two norms), the last norm.
    "parameter_count": (8 + 4) * 4 + (4 * 12 + 12 + 4 * 4 + 4 + 4 * 16 + 16 + 16 * 4 + 4 + 16) + 8,
    "optimizer": "AdamW",
    "learning_rate": 0.01,
    "weight_decay": 0.5,
}
OWN = {"learning_rate": 0.01, "weight_decay": 0.5, "lr_scheduler_type": "constant"}
TASK = {"task": "synthetic"}


def lock_of(evaluated: Evaluated, system: dict[str, Any] | None, **boundary: Any) -> Lock:
    """The lock, as if its explore logs had said this of their system."""
    locked = None if system is None else LockedSystem.parse(system, where="test")
    record = evaluated.lock.x_lock.model_copy(update={"x_system": locked})
    design = evaluated.lock.design.replace(**boundary)
    return dataclasses.replace(evaluated.lock, design=design, x_lock=record, stored=None)


def answer(evaluated: Evaluated, lock: Lock, seen: dict[str, Any], system: Any = None) -> str:
    """What it says at the first checkpoint of a training that shows this."""
    monitor = AlarmMonitor(lock, evaluated.results, act=[GAIN], show=(), system=system)
    monitor.see(seen)
    reading = monitor.update(step=0, embedding_gini=0.1)
    return reading.reason.removeprefix(f"{GAIN} is broken since step 0: ")


CLEAR = "burn-in: an alarm can be raised from step 150 on"


def test_what_a_training_shows() -> None:
    model = tiny_model()
    assert seen_system(model) == {name: SEEN[name] for name in ("architecture", "parameter_count")}
    groups = [
        {"params": [one for one in model.parameters() if one.dim() == 1], "weight_decay": 0.0},
        {"params": [one for one in model.parameters() if one.dim() > 1], "weight_decay": 0.5},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    compiled: Any = SimpleNamespace(_orig_mod=model)  # as torch.compile wraps it
    assert seen_system(compiled, Accelerator(cpu=True).prepare(optimizer)) == SEEN


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"architecture": "Llama"}, "architecture is 'Llama', the lock is about 'GPT2LMHeadModel'"),
        ({"parameter_count": 299}, "parameter count is 299, the lock is about 300"),
        ({"optimizer": "SGD"}, "optimizer is 'SGD', the lock is about 'AdamW'"),
        ({"learning_rate": 1 / 300}, "learning rate is 0.00333333, the lock is about 0.01"),
        ({"weight_decay": 0.0}, "weight decay is 0, the lock is about 0.5"),
    ],
)
def test_what_is_seen_is_compared_whatever_is_said(
    evaluated: Evaluated, changed: dict[str, Any], message: str
) -> None:
    lock = lock_of(evaluated, SEEN)
    for system in (None, TASK, "as locked"):
        assert answer(evaluated, lock, {**SEEN, **changed}, system) == f"the run's {message}"
    assert answer(evaluated, lock, SEEN, TASK) == CLEAR
    rounded = float(torch.tensor(0.01))  # of an optimizer whose rate is a tensor
    assert answer(evaluated, lock, {**SEEN, "learning_rate": rounded}, "as locked") == CLEAR


def test_what_is_neither_seen_nor_said_is_asked_for(evaluated: Evaluated) -> None:
    said = 'give system={"task": "synthetic"}, or system="as locked", if that is so'
    message = f"the run does not say its task; {said}"
    assert answer(evaluated, lock_of(evaluated, SEEN), SEEN) == message
    everything = (
        'the run does not say its task, model, optimizer, schedule; give system={"task": '
        '"synthetic", "model": "made-up", "optimizer": "none", "schedule": "1200 steps"}, or '
        'system="as locked", if that is so'
    )
    silent = lock_of(evaluated, {})  # its explore logs said nothing of what can be seen
    assert answer(evaluated, silent, SEEN) == everything
    assert answer(evaluated, silent, SEEN, SYSTEM) == CLEAR
    assert answer(evaluated, silent, SEEN, "as locked") == CLEAR
    # Without an optimizer, or where seeds drew the rate, the model alone is compared.
    few = {name: SEEN[name] for name in ("architecture", "parameter_count")}
    for lock, seen in ((lock_of(evaluated, SEEN), few), (lock_of(evaluated, few), SEEN)):
        found = answer(evaluated, lock, seen, TASK)
        assert found.startswith("the run does not say its optimizer, schedule; give system={")


def test_an_undeclared_boundary_is_watched_as_it_was(evaluated: Evaluated) -> None:
    lock = lock_of(evaluated, {}, **dict.fromkeys(SYSTEM, "undeclared"))
    assert answer(evaluated, lock, SEEN) == CLEAR
    assert answer(evaluated, lock, SEEN, "as locked") == CLEAR
    task = lock_of(evaluated, SEEN, task="undeclared")
    assert answer(evaluated, task, SEEN) == CLEAR
    note = "The run does not say its {}: not compared."
    for one, fields in ((lock, "task, model, optimizer, schedule"), (task, "task")):
        monitor = AlarmMonitor(one, evaluated.results, act=[GAIN], show=())
        monitor.see(SEEN)
        assert monitor.notes[-1] == note.format(fields)


def test_a_lock_of_an_earlier_version_is_watched_as_it_was(evaluated: Evaluated) -> None:
    old = lock_of(evaluated, None)
    assert answer(evaluated, old, SEEN) == CLEAR
    monitor = AlarmMonitor(old, evaluated.results, act=[GAIN], show=())
    monitor.see(SEEN)
    assert monitor.notes[-1] == (
        "The run does not say its task, model, optimizer, schedule: not compared."
    )


def test_who_only_hands_over_numbers_is_told_what_is_not_compared(evaluated: Evaluated) -> None:
    lock = lock_of(evaluated, SEEN)
    given: Any = {"act": [GAIN], "show": ()}
    monitor = AlarmMonitor(lock, evaluated.results, **given)
    assert monitor.notes[-1] == (
        "The run does not say its task, model, optimizer, schedule: not compared."
    )
    assert monitor.update(step=0, embedding_gini=0.1).state == "CLEAR"
    assert not AlarmMonitor(lock, evaluated.results, system="as locked", **given).notes


def test_after_a_transfer_the_judged_system_must_be_said(transferred: Path) -> None:
    files = [transferred / name for name in ("lock.yaml", "results.yaml")]
    found = {}
    for system in (None, "as locked", {**SYSTEM, "task": "another"}):
        monitor = AlarmMonitor(*files, show=[GAIN], system=system)
        monitor.see(SEEN)
        found[str(system)] = monitor.update(step=0, embedding_gini=0.1).indicator(GAIN).broken
    asked, lock_s_own, judged = found.values()
    assert asked == (
        'the run does not say its task, model, optimizer, schedule; give system={"task": '
        '"another", "model": "made-up", "optimizer": "none", "schedule": "1200 steps"} if that '
        "is so"
    )
    assert lock_s_own == "the run's task is 'synthetic', the verdicts are about 'another'"
    assert judged is None


def test_what_differed_once_stays_foreign(evaluated: Evaluated) -> None:
    lock = lock_of(evaluated, SEEN)
    given: Any = {"act": [GAIN], "show": (), "system": "as locked"}
    monitor = AlarmMonitor(lock, evaluated.results, **given)
    monitor.see({**SEEN, "learning_rate": 0.0})  # a warm-up
    monitor.update(step=0, embedding_gini=0.1)
    again = AlarmMonitor(lock, evaluated.results, **given)
    again.load_state_dict(monitor.state_dict())
    for one in (monitor, again):
        one.see(SEEN)
        reason = one.update(step=10, embedding_gini=0.1).reason
        assert reason.endswith("the run's learning rate is 0, the lock is about 0.01")


def test_a_system_that_is_no_mapping(evaluated: Evaluated) -> None:
    message = (
        r"^system 'as lock': give \{\"task\": ...\}, by field of the lock's boundary, or "
        r'"as locked"$'
    )
    with pytest.raises(InputError, match=message):
        evaluated.monitor(GAIN, system="as lock")


@pytest.mark.parametrize(
    ("system", "options", "state"),
    [
        (TASK, OWN, "CLEAR"),
        (None, OWN, "ABSTAIN"),
        ("as locked", {**OWN, "weight_decay": 0.0}, "ABSTAIN"),
        ("as locked", {**OWN, "lr_scheduler_type": "linear"}, "ABSTAIN"),
        ("as locked", {**OWN, "optim": "sgd"}, "ABSTAIN"),
    ],
)
def test_the_trainer_shows_model_and_optimizer(
    evaluated: Evaluated,
    replayed: Replayed,
    tmp_path: Path,
    caplog: Any,
    system: Any,
    options: dict[str, Any],
    state: str,
) -> None:
    given: Any = {"act": [GAIN], "parts": RESIDUES, "extra": replayed, "system": system}
    callback = GMBCallback(lock_of(evaluated, SEEN), evaluated.results, **given)
    trainer(tmp_path, 20, callback, **options).train()
    assert callback.watch.state == state
    warned = [one for one in caplog.records if one.name.startswith("gmb_hf")]
    assert len([one for one in warned if one.levelno > logging.INFO]) == (state == "ABSTAIN")


def test_a_foreign_model_abstains_in_one_line(
    evaluated: Evaluated, replayed: Replayed, tmp_path: Path, caplog: Any
) -> None:
    lock = lock_of(evaluated, {**SEEN, "architecture": "GrokkingTransformerForCausalLM"})
    given: Any = {"act": [GAIN], "parts": RESIDUES, "extra": replayed, "action": "stop"}
    callback = GMBCallback(lock, evaluated.results, **given)
    trainer(tmp_path, 20, callback).train()
    assert [one.getMessage() for one in caplog.records if one.name.startswith("gmb_hf")] == [
        f"step 0: ABSTAIN: {GAIN} is broken since step 0: the run's architecture is "
        "'GPT2LMHeadModel', the lock is about 'GrokkingTransformerForCausalLM'"
    ]


def test_a_loop_under_accelerate_shows_what_was_prepared(
    evaluated: Evaluated, replayed: Replayed, tmp_path: Path
) -> None:
    states = {}
    for prepared in (True, False):
        accelerator, model = Accelerator(cpu=True), tiny_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5)
        if prepared:
            accelerator.prepare(model, optimizer)
        watched = watch(
            accelerator,
            model,
            lock_of(evaluated, SEEN),
            evaluated.results,
            folder=tmp_path,
            act=[GAIN],
            parts=RESIDUES,
            extra=replayed,
            system=TASK,
        )
        reading = watched.step(0)
        assert reading is not None
        states[prepared] = reading.state, "does not say its optimizer, schedule" in reading.reason
    assert states == {True: ("CLEAR", False), False: ("ABSTAIN", True)}
