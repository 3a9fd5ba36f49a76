"""Train a language model under Accelerate: data-parallel, mixed precision, accumulated gradients.

OUT/config.yaml                        the config and the texts; another one is refused
OUT/tokens/                            the texts as tokens
OUT/logs/seed_3.parquet                the losses of a seed, a run log
OUT/kept/seed_3/checkpoint-400/        its model at a step, with `training.keep_every`
OUT/checkpoints/seed_3/                its model and tokenizer at the end
OUT/state/seed_3/step-400/             where an interrupted training goes on: Accelerate's
                                       state, and in progress.json the log so far
"""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import Tensor, nn

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, first_line
from gmb_hf.base.files import clear_os_errors, read_json, whole_folder, write_text
from gmb_hf.base.fingerprints import source_hash
from gmb_hf.base.pretrained import write_hashes
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.protocol.language import data
from gmb_hf.protocol.language.config import ConsistencySettings, LanguageConfig
from gmb_hf.tasks.text import Text, disagreement
from gmb_hf.training.checkpoints import Rows
from gmb_hf.training.folder import check_config
from gmb_hf.training.launch import Listener, TrainingBar, on_main, silence_transformers
from gmb_hf.training.settings import config_hash
from gmb_hf.training.stacked import MIXER_LR, seeded_model, shape_fields

_PROGRESS = "progress.json"
_ROWS = 256  # continuations written at once


class LossBar(TrainingBar, Listener):
    """Of tokens, with both losses of the last checkpoint."""

    unit = "tokens"

    def measured(self, seeds: Sequence[int], found: Mapping[str, Any]) -> None:
        """Show the losses."""
        self.show(f"train {found['train_loss']:.3f} test {found['test_loss']:.3f}")


def model_shape(config: LanguageConfig, tokenizer: Any) -> GrokkingTransformerConfig:
    """The model's config, by the settings and the tokenizer; `InputError` where none fits."""
    end, padding = tokenizer.eos_token_id, tokenizer.pad_token_id
    try:
        return GrokkingTransformerConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=config.text.block,
            bos_token_id=end,
            eos_token_id=end,
            pad_token_id=end if padding is None else padding,
            **{data.HASH: data.tokenizer_hash(tokenizer)},
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
    matrices: dict[str, Any] = {"params": [], "weight_decay": training.weight_decay, "scale": 1.0}
    others: dict[str, Any] = {"params": [], "weight_decay": 0.0, "scale": 1.0}
    mixers: dict[str, Any] = {"params": [], "weight_decay": 0.0, "scale": MIXER_LR}
    for name, value in model.named_parameters():
        group = mixers if name in own else matrices if value.ndim > 1 else others
        group["params"].append(value)
    groups = [group for group in (matrices, others, mixers) if group["params"]]
    betas = training.beta1, training.beta2
    return torch.optim.AdamW(groups, lr=training.lr, betas=betas, eps=training.eps)


class DivergedError(InputError):
    """A model gives no number for the next token: what it seems to write would be nobody's."""


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

    prompt = rows.shape[1]
    sound = torch.ones((), dtype=torch.bool, device=rows.device)

    def watch(input_ids: Tensor, scores: Tensor) -> Tensor:
        """Note whether scores are NaN or infinite; change none."""
        sound.logical_and_((scores < torch.inf).all())  # of NaN, this is False
        return scores

    steps: list[Any] = [watch]
    if draws is not None:
        numbers = torch.from_numpy(draws).to(rows.device)

        def draw(input_ids: Tensor, scores: Tensor) -> Tensor:
            """Make the token that a number stands for the only one there is."""
            # From the largest one down, so that the lowest temperature cannot make them infinite.
            below = scores.double() - scores.amax(-1, keepdim=True)
            chance = torch.softmax(below / temperature, dim=-1).cumsum(-1)  # [B, V]
            # The whole is 1 but for rounding, and a number must never lie beyond it.
            wanted = numbers[:, input_ids.shape[1] - prompt, None] * chance[:, -1:]  # [B, 1]
            token = torch.searchsorted(chance, wanted, right=True).clamp(max=scores.shape[1] - 1)
            return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)

        steps.append(draw)
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
    if not sound:
        raise DivergedError("the model gives NaN or infinities for the next token")
    found: Tensor = whole[:, prompt:]
    short = new_tokens - found.shape[1]
    return torch.nn.functional.pad(found, (0, short), value=padding) if short else found


def self_consistency(
    model: nn.Module,
    held_out: NDArray[Any],
    settings: ConsistencySettings,
    accelerator: Accelerator,
) -> dict[str, float]:
    """The observable `self_consistency_disagreement`; every process must call it.

    NaN where the model has diverged: nobody writes what its samples agree on. The processes share
    the prompts of `held_out`, a stream of tokens [N]; the model, as Accelerate prepared it, is left
    in evaluation mode.
    """
    prompts = data.spaced_blocks(held_out, settings.prompt_tokens, settings.prompts)[:, :-1]
    own = range(accelerator.process_index, len(prompts), accelerator.num_processes)
    total = torch.zeros((), dtype=torch.float64, device=accelerator.device)
    plain = accelerator.unwrap_model(model).eval()
    k, length = settings.samples, settings.new_tokens
    at_once = max(1, _ROWS // k)
    for start in range(0, len(own), at_once):
        numbers = own[start : start + at_once]
        draws = [np.random.default_rng(number).random((k, length)) for number in numbers]
        rows = torch.from_numpy(np.repeat(prompts[numbers], k, axis=0)).to(total.device)
        drawn: Any = {"draws": np.concatenate(draws), "temperature": settings.temperature}
        try:
            written = continuations(plain, rows, new_tokens=length, **drawn)
        except DivergedError:
            total += math.nan
            break
        samples = written.view(len(numbers), k, length).tolist()
        total += len(numbers) * disagreement([list(map(tuple, row)) for row in samples])
    found = accelerator.reduce(total, reduction="sum")
    return {"self_consistency_disagreement": float(found) / len(prompts)}


def train(
    config: LanguageConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    texts: Sequence[Text] = (),
    test_texts: Sequence[Text] = (),
    accelerator: Accelerator,
    listener: Listener | None = None,
    corpus: data.Corpus | None = None,
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
        corpus: the streams themselves, in place of texts.

    `InputError` where a text cannot be read or is too short, the batch cannot be shared out, the
    folder belongs to another config, or it cannot be written to.
    """
    folder = Path(out)
    share_of_batch(config, accelerator.num_processes)
    if corpus is None:
        corpus = data.prepare_corpus(config, folder, texts, test_texts, accelerator)
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
    """How many blocks each process computes at once; `InputError` where that is no whole number."""
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
    corpus: data.Corpus,
    accelerator: Accelerator,
    listener: Listener,
) -> None:
    training, block = config.training, config.text.block
    processes, process = accelerator.num_processes, accelerator.process_index
    share = share_of_batch(config, processes)
    accelerator.free_memory()  # of the seed before
    plain = seeded_model(model_shape(config, corpus.tokenizer), seed)
    model, optimizer = accelerator.prepare(plain, make_optimizer(plain, config))
    blocks = data.TokenBlocks(corpus.train, block, seed)
    streams = {"train_loss": corpus.train, "test_loss": corpus.test}
    measured = {
        name: data.spaced_blocks(ids, block, training.measured_blocks)
        for name, ids in streams.items()
    }
    identity = config_hash({**config.identity(), "texts": corpus.identity, "seed": seed})
    states = folder / "state" / f"seed_{seed}"

    def save(place: Path) -> None:
        if accelerator.is_main_process and not place.exists():
            now = accelerator.unwrap_model(model)
            ends = {name: log.values[name][-1] for name in measured}
            losses = {name: nats if math.isfinite(nats) else None for name, nats in ends.items()}
            about = {**corpus.about, "seed": seed, "step": log.last, **losses}
            save_checkpoint(place, now, corpus.tokenizer, about)

    def update(step: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = group["scale"] * training.rate(step)
        model.train()
        for part in range(training.accumulate):
            begin = step * training.batch + (part * processes + process) * share
            rows = blocks.rows(range(begin, begin + share))
            with accelerator.accumulate(model):
                accelerator.backward(_losses(model, rows, accelerator.device).mean())
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), training.clip)
                optimizer.step()
                optimizer.zero_grad()
        listener.advanced(training.batch * block)

    log = _load_state(accelerator, states, identity)
    first = max(0, log.last)
    listener.advanced(first * training.batch * block)
    for step in range(first, training.steps + 1):
        if step % training.checkpoint_every == 0 and step > log.last:
            row = {name: _mean_loss(model, measured[name], share, accelerator) for name in measured}
            row["tokens"] = step * training.batch * block
            if config.consistency.prompts:
                row |= self_consistency(model, corpus.test, config.consistency, accelerator)
            log.add(step, row)
            listener.measured([seed], {**row, "step": step})
            if accelerator.is_main_process:
                _write_log(config, seed, log, corpus, folder)
            if training.keep_every and step % training.keep_every == 0:
                save(kept_path(folder, seed, step))
            if 0 < step < training.steps:
                _save_state(accelerator, states, log, identity)
        if step < training.steps:
            update(step)
    save(checkpoint_path(folder, seed))
    if accelerator.is_main_process:
        shutil.rmtree(states, ignore_errors=True)
    accelerator.wait_for_everyone()


def _losses(model: nn.Module, rows: NDArray[np.int64], device: torch.device) -> Tensor:
    """Nats of every token of blocks [n, T + 1] after its first, [n T]."""
    ids = torch.from_numpy(rows).to(device)
    logits = model(input_ids=ids[:, :-1], use_cache=False).logits
    return nn.functional.cross_entropy(
        logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    )


@torch.no_grad()
def _mean_loss(
    model: nn.Module, rows: NDArray[np.int64], share: int, accelerator: Accelerator
) -> float:
    """Nats per token over blocks [n, T + 1], which the processes share out, `share` at once."""
    model.eval()
    own = rows[accelerator.process_index :: accelerator.num_processes]
    nats = torch.zeros((), dtype=torch.float64, device=accelerator.device)
    for start in range(0, len(own), share):
        nats += _losses(model, own[start : start + share], accelerator.device).double().sum()
    return float(accelerator.reduce(nats, reduction="sum")) / rows[:, 1:].size


def _write_log(
    config: LanguageConfig, seed: int, log: Rows, corpus: data.Corpus, folder: Path
) -> None:
    """Write the rows of a seed as a run log that says what made it."""
    made_by = {
        "preset": config.preset,
        "task": "next token of " + " + ".join(text["name"] for text in corpus.about["texts"]),
        "model": config.model.name,
        "config": {**config.identity(), "texts": corpus.identity},
        "checkpoint_every_steps": config.training.checkpoint_every,
        "tokenizer": corpus.about["tokenizer"],
        "versions": {"gmb_hf": __version__, "torch": torch.__version__},
    }
    log.log([seed], made_by).write(folder / "logs" / f"seed_{seed}.parquet")


def save_checkpoint(place: Path, model: Any, tokenizer: Any, about: dict[str, Any]) -> Path:
    """Save a PreTrainedModel and its tokenizer in one folder, whole or not at all.

    `about`, of the training text, is written to `training_text.json`; `InputError` as
    `whole_folder`.
    """
    with whole_folder(place) as folder, silence_transformers():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        write_hashes(folder)
        write_text(folder / data.TRAINING_TEXT, json.dumps(about) + "\n")
    return place


def _save_state(accelerator: Accelerator, folder: Path, log: Rows, identity: str) -> None:
    """Save what is needed to go on from here; every process must call it."""
    unfinished = folder / "unfinished"
    if accelerator.is_main_process:
        shutil.rmtree(unfinished, ignore_errors=True)
        with clear_os_errors(unfinished):
            unfinished.mkdir(parents=True)
    accelerator.wait_for_everyone()
    with clear_os_errors(unfinished), silence_transformers():
        accelerator.save_state(str(unfinished))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        columns, files = {"step": log.steps, **log.values}, _hashes(unfinished)
        progress: dict[str, Any] = {"identity": identity, "columns": columns, "files": files}
        progress["hash"] = config_hash(progress)
        write_text(unfinished / _PROGRESS, json.dumps(progress) + "\n")
        new = folder / f"step-{log.last}"
        shutil.rmtree(new, ignore_errors=True)
        unfinished.replace(new)
        for old in _states(folder):
            if old != new:
                shutil.rmtree(old)
    accelerator.wait_for_everyone()


def _load_state(accelerator: Accelerator, folder: Path, identity: str) -> Rows:
    """Go on from the last saved state: the log so far, empty where there is none."""
    states = _states(folder)
    if not states:
        return Rows()
    place = states[-1]
    try:
        held: dict[str, Any] = read_json(place / _PROGRESS, foreign=True)
        columns, same = held["columns"], held["identity"] == identity
        if same:
            held_files, files = held["files"].items(), _hashes(place).items()
            wrong = [name for name, _ in sorted(held_files ^ files)]
            if held.pop("hash") != config_hash(held):
                wrong = [_PROGRESS]
            if wrong:
                raise ValueError(f"the hash of {wrong[0]} differs: it was damaged or changed")
            accelerator.load_state(str(place))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        reason = first_line(error)
        raise InputError(
            f"{place}: not a state of an interrupted training ({reason}); delete it to train "
            "this seed again"
        ) from error
    if not same:
        raise InputError(f"{place}: the interrupted training of another config; delete it")
    return Rows(columns.pop("step"), columns)


def _hashes(state: Path) -> dict[str, str]:
    """The SHA-256 of each file of a saved state but the one that holds them."""
    files = (path for path in sorted(state.rglob("*")) if path.is_file())
    others = (path for path in files if path.name != _PROGRESS)
    return {path.relative_to(state).as_posix(): source_hash(path) for path in others}


def _states(folder: Path) -> list[Path]:
    """The saved states, the last one at the end."""
    found = [path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))
