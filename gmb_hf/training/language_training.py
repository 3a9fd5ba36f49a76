"""Train a language model under Accelerate: data-parallel, mixed precision, accumulated gradients.

    OUT/config.yaml              what is trained, on which text; another config is refused
    OUT/tokens/train.bin         the text as tokens, test.bin where it has a file of its own
    OUT/logs/seed_1337.parquet   train_loss and test_loss by step, up to where the training is
    OUT/state/seed_1337/         a training that is under way
    OUT/checkpoints/seed_1337/   a finished model with its tokenizer
    OUT/kept/seed_1337/checkpoint-200/   the model on its way, with `training.keep_every`

The same command goes on from what is there. Block i of the training is the same however many
processes share it and wherever it was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from gmb_hf._version import __version__
from gmb_hf.runs import RunLog
from gmb_hf.tasks.text_sources import Text
from gmb_hf.training.claims import claim_folder
from gmb_hf.training.language_checkpoints import save_checkpoint
from gmb_hf.training.language_consistency import self_consistency
from gmb_hf.training.language_corpus import Corpus, prepare_corpus
from gmb_hf.training.language_model import make_optimizer, model_shape
from gmb_hf.training.language_progress import LossListener, Silent
from gmb_hf.training.language_settings import LanguageConfig, config_hash
from gmb_hf.training.language_state import LossLog, drop_state, load_state, save_state
from gmb_hf.training.language_tokens import (
    Blocks,
    spaced_blocks,
)
from gmb_hf.training.processes import on_main
from gmb_hf.training.stacked_model import seeded_model
from gmb_hf.validation import InputError


def train(
    config: LanguageConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    texts: Sequence[Text],
    test_texts: Sequence[Text] = (),
    accelerator: Accelerator,
    listener: LossListener | None = None,
) -> list[Path]:
    """Train every seed that has no checkpoint in `out` yet; the folders of all checkpoints.

    Args:
        config: what to train.
        seeds: of initial weights and the order of blocks, one after the other.
        out: the folder, as described above.
        texts: to learn from.
        test_texts: held out; without them the last `text.test_share` of the tokens is.
        accelerator: made with `training.precision` and `training.accumulate`.
        listener: hears of the progress.

    Raises:
        InputError: a text cannot be read or is too short, the batch cannot be shared out, the
            folder belongs to another config, or it cannot be written to.
    """
    folder = Path(out)
    share_of_batch(config, accelerator.num_processes)
    corpus = prepare_corpus(config, folder, texts, test_texts, accelerator)
    identity = {**config.identity(), "texts": corpus.identity}
    on_main(accelerator, lambda: claim_folder(folder, identity))
    for seed in seeds:
        if not checkpoint_path(folder, seed).exists():
            _train_seed(config, seed, folder, corpus, accelerator, listener or Silent())
    return [checkpoint_path(folder, seed) for seed in seeds]


def checkpoint_path(folder: Path, seed: int) -> Path:
    """Where the finished model of a seed is."""
    return folder / "checkpoints" / f"seed_{seed}"


def kept_path(folder: Path, seed: int, step: int) -> Path:
    """Where the model of a seed at a step is, with `training.keep_every`."""
    return folder / "kept" / f"seed_{seed}" / f"checkpoint-{step}"


def share_of_batch(config: LanguageConfig, processes: int) -> int:
    """How many blocks each process computes at once.

    Raises:
        InputError: processes and parts do not divide the batch.
    """
    batch, parts = config.training.batch, config.training.accumulate
    if batch % (parts * processes):
        raise InputError(
            f"training.batch={batch} cannot be shared out to {processes} processes in {parts} "
            f"parts each; choose a multiple of {parts * processes}"
        )
    return batch // (parts * processes)


def _train_seed(
    config: LanguageConfig,
    seed: int,
    folder: Path,
    corpus: Corpus,
    accelerator: Accelerator,
    listener: LossListener,
) -> None:
    training, text = config.training, config.text
    accelerator.free_memory()  # of the seed before
    plain = seeded_model(model_shape(config, corpus.tokenizer), seed)
    model, optimizer = accelerator.prepare(plain, make_optimizer(plain, config))
    blocks = Blocks(corpus.train, text.block, seed)
    measured = [
        spaced_blocks(ids, text.block, training.measured_blocks)
        for ids in (corpus.train, corpus.test)
    ]
    identity = config_hash({**config.identity(), "texts": corpus.identity, "seed": seed})
    states = folder / "state" / f"seed_{seed}"
    log = load_state(accelerator, states, identity)
    first = max(0, log.step)
    listener.advanced(first * training.batch * text.block)
    for step in range(first, training.steps + 1):
        if step % training.checkpoint_every == 0 and step > log.step:
            losses = [_mean_loss(model, rows, config, accelerator) for rows in measured]
            tokens = step * training.batch * text.block
            row = {"train_loss": losses[0], "test_loss": losses[1], "tokens": tokens}
            if config.consistency.prompts:
                row |= self_consistency(model, corpus.test, config.consistency, accelerator)
            log.add(step=step, **row)
            listener.measured(seed, step, *losses)
            if accelerator.is_main_process:
                write_log(config, seed, log, corpus, folder)
            if training.keep_every and step % training.keep_every == 0:
                kept = kept_path(folder, seed, step)
                if accelerator.is_main_process and not kept.exists():
                    now = accelerator.unwrap_model(model)
                    save_checkpoint(kept, now, corpus.tokenizer, corpus.about)
            if 0 < step < training.steps:
                save_state(accelerator, states, log, identity)
        if step < training.steps:
            _update(config, step, model, optimizer, blocks, accelerator)
            listener.advanced(training.batch * text.block)
    if accelerator.is_main_process:
        finished = accelerator.unwrap_model(model)
        save_checkpoint(checkpoint_path(folder, seed), finished, corpus.tokenizer, corpus.about)
        drop_state(states)
    accelerator.wait_for_everyone()


def _update(
    config: LanguageConfig,
    step: int,
    model: nn.Module,
    optimizer: Any,
    blocks: Blocks,
    accelerator: Accelerator,
) -> None:
    training = config.training
    share = share_of_batch(config, accelerator.num_processes)
    for group in optimizer.param_groups:
        group["lr"] = group["scale"] * training.rate(step)
    model.train()
    for part in range(training.accumulate):
        place = part * accelerator.num_processes + accelerator.process_index
        begin = step * training.batch + place * share
        rows = blocks.rows(range(begin, begin + share))
        with accelerator.accumulate(model):
            accelerator.backward(_losses(model, rows, accelerator.device).mean())
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), training.clip)
            optimizer.step()
            optimizer.zero_grad()


def _losses(model: nn.Module, rows: NDArray[np.int64], device: torch.device) -> Tensor:
    """Nats of every token of blocks [n, T + 1] after its first, [n T]."""
    ids = torch.from_numpy(rows).to(device)
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(
        logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    )


@torch.no_grad()
def _mean_loss(
    model: nn.Module, rows: NDArray[np.int64], config: LanguageConfig, accelerator: Accelerator
) -> float:
    """Nats per token over blocks, which the processes share out."""
    model.eval()
    own = rows[accelerator.process_index :: accelerator.num_processes]
    share = share_of_batch(config, accelerator.num_processes)
    nats = torch.zeros((), dtype=torch.float64, device=accelerator.device)
    for start in range(0, len(own), share):
        nats += _losses(model, own[start : start + share], accelerator.device).double().sum()
    total = accelerator.reduce(nats, reduction="sum")
    return float(total) / (len(rows) * config.text.block)


def write_log(
    config: LanguageConfig, seed: int, log: LossLog, corpus: Corpus, folder: Path
) -> Path:
    """Write the rows of a seed as a run log that says what made it."""
    observables = {name: [values] for name, values in log.columns.items() if name != "step"}
    table = RunLog.from_arrays(
        [f"seed_{seed}"],
        np.asarray(log.columns["step"], dtype=np.int64),
        observables,
        seeds=[seed],
        metadata={
            "preset": config.preset,
            "task": "next token of " + " + ".join(text["name"] for text in corpus.about["texts"]),
            "model": config.model.name,
            "config": {**config.identity(), "texts": corpus.identity},
            "checkpoint_every_steps": config.training.checkpoint_every,
            "versions": {"gmb_hf": __version__, "torch": torch.__version__},
        },
    )
    return table.write(folder / "logs" / f"seed_{seed}.parquet")
