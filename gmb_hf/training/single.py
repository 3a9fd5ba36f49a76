"""Train one model the ordinary way: a PreTrainedModel, a dataset and Accelerate.

This is the plain loop that `accelerate launch` users know, all eight tokens of every row. It
starts from the same weights as the stacked engine, sees the same rows, and gives the same losses
to rounding; a test holds them side by side. Use it to check the stacked engine, to try a change of
the model, or to train on several devices at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from datasets import Dataset, concatenate_datasets
from torch import Tensor
from torch.utils.data import DataLoader

from gmb_hf.errors import InputError, choose
from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.tasks.task import IGNORED
from gmb_hf.training import stacked
from gmb_hf.training.checkpoints import Rows, keep_model, refuse_gone
from gmb_hf.training.config import ENGINES, RunConfig
from gmb_hf.training.ensemble import Ensemble, adamw, initial_model
from gmb_hf.training.launch import Bar, Listener, chosen_device, make_accelerator
from gmb_hf.training.observables import Observer
from gmb_hf.training.stacked import (
    Callbacks,
    check_folder,
    finished_seeds,
    group_log,
    log_paths,
    write_log,
)


def train(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    accelerator: Accelerator,
    listener: Listener | None = None,
    about: Mapping[str, Any] | None = None,
    keep: Sequence[int] = (),
) -> list[Path]:
    """As `stacked.train`, the seeds one after the other; one that was interrupted starts anew.

    Args:
        config, seeds, out, listener, keep: as there.
        accelerator: of the processes that train together.
        about: what else decides the logs, for their metadata.

    Raises:
        InputError: as there.
    """
    folder = Path(out)
    if accelerator.is_main_process:
        check_folder(folder, config, about)
    accelerator.wait_for_everyone()
    done = finished_seeds(folder)
    refuse_gone(folder, keep, done)
    for seed in [seed for seed in seeds if seed not in done]:
        hearing = listener or Listener()
        rows, model = train_seed(config, seed, accelerator=accelerator, listener=hearing)
        if accelerator.is_main_process:
            log = group_log(config, [seed], rows, about)
            if seed in keep:
                keep_model(model.cpu(), log, folder, seed)
            write_log(log, [seed], folder)
        accelerator.wait_for_everyone()
    return log_paths(folder)


def training_rows(config: RunConfig, seed: int) -> Dataset:
    """The training rows of a seed: `input_ids` and `labels`, as tensors."""
    task = config.task
    splits = task.build().to_dataset_dict(task.share, task.data_seed_of(seed))
    return splits["train"].select_columns(["input_ids", "labels"]).with_format("torch")


def full_batches(dataset: Dataset, processes: int) -> DataLoader[dict[str, Tensor]]:
    """A loader whose only batch is the whole dataset, made divisible by `processes`.

    Accelerate gives each process equally many rows; those added for that are padding without
    labels, which an `attention_mask` then tells from the others.
    """
    missing = -len(dataset) % processes
    if missing:
        blank = dataset.select([0] * missing).map(partial(_masked, present=False))
        dataset = concatenate_datasets([dataset.map(_masked), blank])
    return DataLoader(dataset, batch_size=len(dataset))


def train_seed(
    config: RunConfig, seed: int, *, accelerator: Accelerator, listener: Listener
) -> tuple[Rows, GrokkingTransformerForCausalLM]:
    """Train one seed; its log, and the model after the last step."""
    settings = config.training
    model = initial_model(config, seed)
    optimizer = adamw(dict(model.named_parameters()), own_parameter_names(model), settings)
    dataset = training_rows(config, seed)
    loader = full_batches(dataset, accelerator.num_processes)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    # An ensemble of one, whose observables are taken of the model.
    ensemble = Ensemble(config, [seed])
    observer = Observer(ensemble)
    before = {name: weight[0].detach().clone() for name, weight in ensemble.weights.items()}
    rows, batches = Rows(), _endless(loader)
    for step in range(settings.steps + 1):
        if step % settings.checkpoint_every == 0 and accelerator.is_main_process:
            ensemble.load_member(0, accelerator.unwrap_model(model))
            ensemble.step = step
            updates = {
                name: weight.detach() - before[name] for name, weight in ensemble.weights.items()
            }
            found = observer.measure(*ensemble.gradients(keep_logits=True), updates)
            rows.add(step, found)
            listener.measured([seed], found)
        if step == settings.steps:
            break
        # Each process sums over its rows; the gradients are then averaged over the processes.
        loss = model(**next(batches), num_items_in_batch=len(dataset)).loss
        optimizer.zero_grad()
        accelerator.backward(loss * accelerator.num_processes)
        if (step + 1) % settings.checkpoint_every == 0:
            parameters = accelerator.unwrap_model(model).named_parameters()
            before = {name: value.detach().cpu().clone() for name, value in parameters}
        optimizer.step()
        listener.advanced(1)
    trained: GrokkingTransformerForCausalLM = accelerator.unwrap_model(model)
    return rows, trained


def _masked(row: dict[str, Tensor], *, present: bool = True) -> dict[str, Tensor]:
    ids, labels = row["input_ids"], row["labels"]
    if present:
        return {"attention_mask": torch.ones_like(ids)}
    return {"attention_mask": torch.zeros_like(ids), "labels": torch.full_like(labels, IGNORED)}


def _endless(loader: DataLoader[dict[str, Tensor]]) -> Iterator[dict[str, Tensor]]:
    while True:
        yield from loader


def train_seeds(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    engine: str = "stacked",
    device: str = "auto",
    callbacks: Callbacks | None = None,
    about: Mapping[str, Any] | None = None,
    keep: Sequence[int] = (),
) -> list[Path]:
    """Train what is missing in `out` and return the files of all logs; see `stacked.train`.

    Args:
        config, seeds, out, callbacks: as there.
        engine: "stacked" or "single".
        device: "auto", "cpu" or "cuda".
        about: what else decides the logs, e.g. where the data came from; it stands in their
            metadata and in the folder's config.
        keep: seeds whose models are kept.

    Raises:
        ValueError: the single engine takes no callbacks.
        InputError: no such engine or device, another config in the folder, it cannot be written
            to, or a model to keep is of no seed or gone.
    """
    for seed in keep:
        if seed not in seeds:
            raise InputError(f"--save-models: seed {seed} is not trained here; see --seeds")
    choose("engine", engine, ENGINES, where="--engine")
    chosen = chosen_device(device)
    if callbacks is not None and engine == "single":
        raise ValueError("only the stacked engine measures something beside the observables")
    folder, steps = Path(out), config.training.steps
    callbacks = callbacks or Callbacks()
    callbacks = replace(callbacks, about={**callbacks.about, **(about or {})})
    check_folder(folder, config, callbacks.about)
    done = len(set(seeds) & finished_seeds(folder))
    left = done < len(seeds)
    with Bar(len(seeds) * steps, done * steps) if left else nullcontext(Listener()) as listener:
        given: Any = {"listener": listener, "keep": keep}
        if engine == "stacked":
            return stacked.train(config, seeds, folder, device=chosen, callbacks=callbacks, **given)
        accelerator = make_accelerator(cpu=chosen == "cpu")
        return train(config, seeds, folder, accelerator=accelerator, about=callbacks.about, **given)
