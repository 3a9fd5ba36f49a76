"""The sequential protocol (phases 2a and 2b): one checkpoint through all tasks of a suite.

Each variant's seeds are trained on one task after the other. Every task is evaluated on its
held-out rows before the first phase and after each, those not yet trained too. What is left of a
task after the phases that follow it is its retention.

A run is a folder (`sequential_folder`); the same command goes on where it stopped, and an
interrupted phase goes on exactly.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from gmb_hf.protocols.phases import Phases
from gmb_hf.protocols.sequential_folder import SequentialFolder
from gmb_hf.protocols.sequential_listeners import Listener, Silent
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.training import state
from gmb_hf.training.kept import whole_folder
from gmb_hf.training.memory import keep_freed_memory
from gmb_hf.training.quiet import quiet_models
from gmb_hf.training.variants import Variant

SAVE_EVERY_SECONDS = 15.0
SAVE_MODELS = ("last", "all", "none")


def pending_groups(
    config: SequentialConfig, variant: Variant, seeds: Sequence[int], folder: SequentialFolder
) -> list[tuple[int, ...]]:
    """The seeds of a variant that the folder does not hold yet, as they are trained together.

    Raises:
        InputError: a state in the folder is of another design.
    """
    states, identity = folder.states(variant.name), _identity(config, variant)
    done = folder.finished_seeds(variant.name)
    # A process that dies between writing a matrix and dropping its state leaves both.
    for group in state.waiting_groups(states, identity):
        if done.issuperset(group):
            state.state_path(states, group).unlink(missing_ok=True)
    missing = [seed for seed in seeds if seed not in done]
    return state.pending_groups(states, identity, missing, at_once=config.training.seeds_at_once)


def train_group(
    config: SequentialConfig,
    variant: Variant,
    seeds: Sequence[int],
    folder: SequentialFolder,
    *,
    listener: Listener | None = None,
    device: str = "cpu",
    save_models: str = "last",
) -> None:
    """Train one of the `pending_groups` through all phases, or from where it stopped.

    Args:
        config: the design, which the folder must have been claimed for.
        variant: the architecture.
        seeds: of the group.
        folder: of the run.
        listener: hears of the progress.
        device: where to train, "cpu" or "cuda".
        save_models: keep a model after the "last" phase, after "all" of them, or "none".

    Raises:
        InputError: the variant does not fit the model, or the folder cannot be written to.
    """
    keep_freed_memory()
    phases = Phases(config, variant, seeds, device=device)
    listener = listener or Silent()
    count, last = len(seeds), len(config.suite.tasks)
    held = state.state_path(folder.states(variant.name), seeds)

    def save() -> None:
        state.save(
            held,
            seeds=seeds,
            identity=_identity(config, variant),
            tensors=phases.state(),
            predictions=None,
            rows=phases.rows,
        )

    if held.exists():
        saved = state.load(held, _identity(config, variant))
        phases.load_state(saved.tensors, saved.rows)
    else:
        phases.matrix.append(phases.evaluate())
    done = sum(config.steps[: phases.phase]) + (phases.step if phases.phase < last else 0)
    listener.began(phases, done * count)
    saved_at = time.monotonic()
    while phases.phase < last:
        if phases.step % config.training.checkpoint_every == 0 and not phases.measured:
            listener.measured(phases, phases.measure())
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                save()
                saved_at = time.monotonic()
        if not phases.finished:
            phases.advance()
            listener.advanced(count)
            continue
        left = config.steps[phases.phase] - phases.step
        phase = phases.phase + 1
        folder.write_log(config, variant.name, seeds, phase, phases.rows, phases.stopped)
        phases.end_phase()
        listener.evaluated(phases)
        listener.advanced(left * count)
        if save_models == "all" or (save_models == "last" and phase == last):
            _save_models(phases, folder)
        save()
        saved_at = time.monotonic()
    folder.write_results(phases)
    held.unlink(missing_ok=True)
    listener.ended(phases)


def _save_models(phases: Phases, folder: SequentialFolder) -> None:
    """Write each seed's model as it is now; a folder there is whole or not there at all."""
    for place, seed in enumerate(phases.seeds):
        target = folder.model(phases.variant.name, seed, phases.phase)
        with whole_folder(target) as workshop, quiet_models():
            phases.model.member(place).save_pretrained(workshop)


def _identity(config: SequentialConfig, variant: Variant) -> str:
    return f"{config.hash()} {variant.name}"
