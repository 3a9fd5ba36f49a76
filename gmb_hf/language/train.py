"""What the training of a language model tells while it runs: tokens per second, both losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from gmb_hf._version import __version__
from gmb_hf.errors import InputError
from gmb_hf.language.checkpoints import (
    HASH,
    drop_state,
    load_state,
    save_checkpoint,
    save_state,
)
from gmb_hf.language.config import ConsistencySettings, LanguageConfig
from gmb_hf.language.data import Blocks, Corpus, prepare_corpus, spaced_blocks, tokenizer_hash
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.tasks.text import Text, disagreement
from gmb_hf.training.checkpoints import Rows, check_config
from gmb_hf.training.config import config_hash
from gmb_hf.training.ensemble import MIXER_LR, seeded_model, shape_fields
from gmb_hf.training.launch import Listener, TrainingBar, on_main


class LossBar(TrainingBar, Listener):
    """Of tokens, with both losses of the last checkpoint."""

    unit = "tokens"

    def measured(self, seeds: Sequence[int], found: Mapping[str, Any]) -> None:
        """Show the losses."""
        self.show(f"train {found['train_loss']:.3f} test {found['test_loss']:.3f}")


# The model of a language config, and its optimizer.


def model_shape(config: LanguageConfig, tokenizer: Any) -> GrokkingTransformerConfig:
    """The model's config: sizes of the settings, vocabulary and special tokens of the tokenizer.

    Raises:
        InputError: a variant that a model of this size cannot have.
    """
    end, padding = tokenizer.eos_token_id, tokenizer.pad_token_id
    try:
        return GrokkingTransformerConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=config.text.block,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end if padding is None else padding,
            **{HASH: tokenizer_hash(tokenizer)},
            **shape_fields(config.model),
        )
    except ValueError as error:
        raise InputError(f"model: {error}") from None


def make_optimizer(
    model: GrokkingTransformerForCausalLM, config: LanguageConfig
) -> torch.optim.AdamW:
    """AdamW: decay on matrices and embeddings, none on biases and norms; mixers learn faster.

    Each group's `scale` is what the rate of a step is multiplied by.
    """
    training = config.training
    own = set(own_parameter_names(model))
    groups: dict[str, list[Tensor]] = {"matrices": [], "others": [], "mixers": []}
    for name, value in model.named_parameters():
        kind = "mixers" if name in own else "matrices" if value.ndim > 1 else "others"
        groups[kind].append(value)
    return torch.optim.AdamW(
        [
            {
                "params": values,
                "weight_decay": training.weight_decay if kind == "matrices" else 0.0,
                "scale": MIXER_LR if kind == "mixers" else 1.0,
            }
            for kind, values in groups.items()
            if values
        ],
        lr=training.lr,
        betas=(training.beta1, training.beta2),
        eps=training.eps,
    )


# Continuations of a language model, drawn from numbers that are given.


class DivergedError(InputError):
    """A model gives no number for the next token: what it seems to write would be nobody's."""


class _Watched:
    """Remembers whether scores were ever NaN or without end; it changes none."""

    def __init__(self, device: torch.device) -> None:
        self.good = torch.ones((), dtype=torch.bool, device=device)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.good &= (scores < torch.inf).all()  # of NaN, this is False
        return scores


class _Drawn:
    """Makes the token that a number stands for the only one there is."""

    def __init__(self, draws: Tensor, temperature: float, prompt_tokens: int) -> None:
        self._draws = draws
        self._temperature = temperature
        self._prompt_tokens = prompt_tokens

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        # From the largest one down, so that the lowest temperature cannot make them infinite.
        below = scores.double() - scores.amax(-1, keepdim=True)
        chance = torch.softmax(below / self._temperature, dim=-1).cumsum(-1)  # [B, V]
        place = input_ids.shape[1] - self._prompt_tokens
        # The whole is 1 but for rounding, and a number must never lie beyond it.
        wanted = self._draws[:, place, None] * chance[:, -1:]  # [B, 1]
        token = torch.searchsorted(chance, wanted, right=True).clamp(max=scores.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)


@torch.no_grad()
def continuations(
    model: Any,
    rows: Tensor,
    *,
    new_tokens: int,
    draws: NDArray[np.float64] | None = None,
    temperature: float = 1.0,
    end: int | None = None,
) -> Tensor:
    """What a model writes after prompts, int64 [B, new_tokens].

    Args:
        model: a causal language model of transformers, in evaluation mode.
        rows: the prompts' tokens, equally many in each, int64 [B, T].
        new_tokens: to write.
        draws: numbers in [0, 1), [B, new_tokens]; None takes the likeliest token each time.
        temperature: that logits are divided by before a token is drawn.
        end: of a text; after it there is no more than this token again.

    Raises:
        DivergedError: the model gives NaN or infinities for the next token.
    """
    from transformers import GenerationConfig, LogitsProcessorList

    watched = _Watched(rows.device)
    steps: list[Any] = [watched]
    if draws is not None:
        numbers = torch.from_numpy(draws).to(rows.device)
        steps.append(_Drawn(numbers, temperature, rows.shape[1]))
    padding = 0 if end is None else end
    # Not what lies beside the model: penalties, beams and temperatures of its own.
    settings = GenerationConfig(
        max_new_tokens=new_tokens,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=padding,
        use_cache=getattr(model.config, "use_cache", True),
    )
    held, model.generation_config = model.generation_config, settings
    try:
        whole = model.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            generation_config=settings,
            logits_processor=LogitsProcessorList(steps),
        )
    finally:
        model.generation_config = held
    if not watched.good:
        raise DivergedError("the model gives NaN or infinities for the next token")
    found: Tensor = whole[:, rows.shape[1] :]
    short = new_tokens - found.shape[1]
    return torch.nn.functional.pad(found, (0, short), value=padding) if short else found


# Self-consistency of a language model in training: do samples from it agree with each other?


_ROWS = 256  # continuations written at once


def self_consistency(
    model: nn.Module,
    held_out: NDArray[Any],
    settings: ConsistencySettings,
    accelerator: Accelerator,
) -> dict[str, float]:
    """The observable `self_consistency_disagreement`; every process must call it.

    NaN where the model has diverged: nobody writes what its samples agree on.

    Args:
        model: as Accelerate prepared it; it is left in evaluation mode.
        held_out: a stream of tokens, [N].
        settings: how many prompts and samples, and how long.
        accelerator: whose processes share the prompts.
    """
    prompts = spaced_blocks(held_out, settings.prompt_tokens, settings.prompts)[:, :-1]
    own = range(accelerator.process_index, len(prompts), accelerator.num_processes)
    total = torch.zeros((), dtype=torch.float64, device=accelerator.device)
    plain = accelerator.unwrap_model(model).eval()
    at_once = max(1, _ROWS // settings.samples)
    for start in range(0, len(own), at_once):
        total += _disagreeing(plain, prompts, own[start : start + at_once], settings, total.device)
    found = accelerator.reduce(total, reduction="sum")
    return {"self_consistency_disagreement": float(found) / len(prompts)}


def _disagreeing(
    model: Any,
    prompts: NDArray[np.int64],
    numbers: Sequence[int],
    settings: ConsistencySettings,
    device: torch.device,
) -> float:
    """The sum of the disagreement over prompts of these numbers; NaN of a diverged model."""
    k, length = settings.samples, settings.new_tokens
    draws = np.concatenate([_draws(number, k, length) for number in numbers])
    rows = torch.from_numpy(np.repeat(prompts[numbers], k, axis=0)).to(device)
    try:
        written = continuations(
            model, rows, new_tokens=length, draws=draws, temperature=settings.temperature
        )
    except DivergedError:
        return math.nan
    samples = written.view(len(numbers), k, length).tolist()
    return len(numbers) * disagreement([list(map(tuple, row)) for row in samples])


def _draws(prompt: int, samples: int, length: int) -> NDArray[np.float64]:
    return np.random.default_rng(prompt).random((samples, length))


# Train a language model under Accelerate: data-parallel, mixed precision, accumulated gradients.


def train(
    config: LanguageConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    texts: Sequence[Text],
    test_texts: Sequence[Text] = (),
    accelerator: Accelerator,
    listener: Listener | None = None,
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
    on_main(accelerator, lambda: check_config(folder, identity))
    for seed in seeds:
        if not checkpoint_path(folder, seed).exists():
            _train_seed(config, seed, folder, corpus, accelerator, listener or Listener())
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
    listener: Listener,
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
    first = max(0, log.last)
    listener.advanced(first * training.batch * text.block)
    for step in range(first, training.steps + 1):
        if step % training.checkpoint_every == 0 and step > log.last:
            losses = [_mean_loss(model, rows, config, accelerator) for rows in measured]
            tokens = step * training.batch * text.block
            row = {"train_loss": losses[0], "test_loss": losses[1], "tokens": tokens}
            if config.consistency.prompts:
                row |= self_consistency(model, corpus.test, config.consistency, accelerator)
            log.add(step, row)
            listener.measured([seed], row)
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


def write_log(config: LanguageConfig, seed: int, log: Rows, corpus: Corpus, folder: Path) -> Path:
    """Write the rows of a seed as a run log that says what made it."""
    table = log.log(
        [seed],
        {
            "preset": config.preset,
            "task": "next token of " + " + ".join(text["name"] for text in corpus.about["texts"]),
            "model": config.model.name,
            "config": {**config.identity(), "texts": corpus.identity},
            "checkpoint_every_steps": config.training.checkpoint_every,
            "versions": {"gmb_hf": __version__, "torch": torch.__version__},
        },
    )
    return table.write(folder / "logs" / f"seed_{seed}.parquet")
