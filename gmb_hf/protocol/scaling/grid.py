"""A grid of trainings, sizes x tokens x variants x seeds, each by the language trainer.

In the folder OUT:

scaling.yaml                 how cells are trained, and on what; another design is refused
cells/dense-p4000-t65536-s0.json   what came out of a cell; sizes, tokens, variants and seeds
                             are no part of the design: the same command with others adds them
logs/CELL.parquet            its losses, a run log
models/CELL/                 its model and tokenizer, with `save_models="all"`
work/CELL/                   a cell under way: the folder of a language training
tokens/                      of a text

Every cell is a training of its own, with the learning rate's schedule at its own length. A cell
sees every token once. Formulas and rules:

- **Shape.** `round(log10 N) - 2` layers, at least one; the width is the multiple of 4 nearest to
  sqrt(N / (12 layers)), heads of 16, an MLP of four times the width. N is without embeddings.
- **Parameters** are counted in the model: all, and without the embeddings of tokens (which are the
  output layer too) and of positions. Weights outside of a band are none.
- **FLOPs**, 2 for a multiplication with an addition: a token's forward pass takes 2 for each weight
  of a linear layer and each time it is applied, 4 T w a layer for attention over T tokens at width
  w (PaLM, appendix B), 2 w V for the output; a training takes three times that for each token.
  What a band leaves out is not counted.
- **Rate.** `rate / sqrt(width)`: a linear warm-up over `warmup_share` of the steps, then a cosine
  to a tenth. Weights begin with 0.55 / sqrt(width), which at GPT-2's width is its 0.02.
"""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from accelerate import Accelerator
from torch import nn

from gmb_hf.base.errors import InputError, first_of, repeated
from gmb_hf.base.files import whole_folder, write_bytes, write_json
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.modeling_grokking import BandedLinear
from gmb_hf.protocol.language import data, train
from gmb_hf.protocol.language.config import LanguageConfig, LanguageTraining, TextSettings
from gmb_hf.protocol.scaling.fit import CELLS, DESIGN, Cell, read_cells
from gmb_hf.protocol.scaling.source import LETTERS, MarkovSource, SourceSettings
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.text import Text
from gmb_hf.training.config import ModelSettings
from gmb_hf.training.folder import check_config
from gmb_hf.training.launch import Listener, on_main
from gmb_hf.training.seeds import versions
from gmb_hf.training.settings import (
    ClosedFraction,
    Config,
    NotNegative,
    Positive,
    SettingsSection,
    Size,
    config_hash,
)
from gmb_hf.training.variants import Variant

_END = "<|endoftext|>"
_TEST = 2**32  # beyond every seed: the stream of held-out symbols
_AT_ONCE = 1000  # steps between two saved states, at most
_HEAD = 16


class GridTraining(SettingsSection):
    """How each cell is trained; the rest is AdamW as for every language model.

    Attributes:
        block: tokens that the model sees at once.
        batch: blocks in an update.
        rate: the learning rate at width 1; it falls with the root of the width.
        warmup_share: of the steps, until the rate is reached.
        weight_decay: on matrices and embeddings.
        measured_blocks: blocks, evenly spaced, that held-out loss is a mean over.
    """

    kind: ClassVar[str] = "training"
    block: Size = 32
    batch: Size = 16
    rate: Positive = 0.04
    warmup_share: ClosedFraction = 0.05
    weight_decay: NotNegative = 0.1
    measured_blocks: Size = 1024


class ScalingConfig(Config):
    """What all cells of a grid share."""

    preset: str = "scaling"
    training: GridTraining = GridTraining()


class Grid(NamedTuple):
    """Sizes (parameters without embeddings) and tokens, each in ascending order."""

    params: tuple[int, ...]
    tokens: tuple[int, ...]


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9}
_EXAMPLE = "params=1k,3k,10k tokens=64k,256k"
_MOST = 1e13


def parse_grid(words: Sequence[str]) -> Grid:
    """The grid of `params=1k,3k,10k tokens=64k,256k`, in one word or in several.

    `InputError` for another name, one twice or missing, or what is no number in bounds.
    """
    text = ",".join(words)
    where = f"--grid {text!r}"
    found: dict[str, list[int]] = {}
    numbers: list[int] | None = None
    for part in filter(None, re.split(r"[,\s]+", text)):
        name, equals, value = part.rpartition("=")
        if equals:
            if name not in Grid._fields:
                raise InputError(f"{where}: {name!r} is neither params nor tokens; e.g. {_EXAMPLE}")
            if name in found:
                raise InputError(f"{where}: {name} is given twice; give all its numbers at once")
            numbers = found[name] = []
        match = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d+)?)([kmb]?)", value.lower())
        size = float(match[1]) * _UNITS[match[2]] if match else 0.0
        if numbers is None or not 0.5 < size <= _MOST:
            raise InputError(
                f"{where}: {part!r} is no number from 1 to {_MOST:.0e}; e.g. {_EXAMPLE}"
            )
        numbers.append(round(size))
    for name in Grid._fields:
        if not found.get(name):
            raise InputError(f"{where}: {name} is missing; e.g. {_EXAMPLE}")
        twice = repeated(found[name])
        if twice is not None:
            raise InputError(f"{where}: {name} {twice} is given twice; give each once")
    return Grid(*(tuple(sorted(found[name])) for name in Grid._fields))


def shape_of(params: int, variant: Variant) -> ModelSettings:
    """The model of about so many parameters without embeddings, as the head of this file says."""
    layers = max(1, round(math.log10(params)) - 2)
    width = max(4, 4 * round(math.sqrt(params / (12 * layers)) / 4))
    most = max(1, width // _HEAD)
    heads = next(count for count in range(most, 0, -1) if width % count == 0)
    return ModelSettings(
        layers=layers,
        heads=heads,
        width=width,
        mlp_width=4 * width,
        activation="gelu_new",
        tied=True,
        initializer_range=0.55 / math.sqrt(width),
        **variant.fields,  # type: ignore[arg-type]
    )


class Counts(NamedTuple):
    """What a model counts: parameters, those without embeddings, FLOPs of a token in training."""

    parameters: int
    non_embedding: int
    flops: float


def size_of(shape: GrokkingTransformerConfig) -> Counts:
    """The size of a model, by the formulas at the head of this file."""
    model = GrokkingTransformerForCausalLM(shape)
    unused = sum(
        module.mask.numel() - int(module.mask.sum())
        for module in model.modules()
        if isinstance(module, BandedLinear)
    )
    total = sum(weights.numel() for weights in model.parameters()) - unused
    embeddings = (shape.vocab_size + shape.max_position_embeddings) * shape.hidden_size
    return Counts(total, total - embeddings, 3 * _forward_flops(model, shape))


def _forward_flops(
    model: GrokkingTransformerForCausalLM, shape: GrokkingTransformerConfig
) -> float:
    """Of one token."""
    block, width, windows = shape.max_position_embeddings, shape.hidden_size, shape.mixer_windows
    last = len(model.model.layers) - 1
    flops = 2.0 * width * shape.vocab_size
    for place, layer in enumerate(model.model.layers):
        times = 1
        if shape.cycles is not None:
            times = shape.cycles * (1 if place == last else shape.inner_steps or 1)
        weights = sum(
            int(module.mask.sum()) if isinstance(module, BandedLinear) else module.weight.numel()
            for module in layer.modules()
            if isinstance(module, nn.Linear)
        )
        attended = 4 * block * width * (2 if "sort" in windows else 1)
        flops += times * (2 * weights + attended)
    if "blend" in windows:
        flops += 2 * block * width
    return flops


@dataclass(frozen=True, eq=False)
class PlannedCell:
    """A cell that is to be trained; `params` and `tokens` are as they were asked for."""

    variant: Variant
    params: int
    tokens: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.variant.name}-p{self.params}-t{self.tokens}-s{self.seed}"

    def language(self, training: GridTraining, tokenizer: str) -> LanguageConfig:
        """The training of the cell."""
        model = shape_of(self.params, self.variant)
        each = training.batch * training.block
        wanted = max(1, round(self.tokens / each))
        parts = math.ceil(wanted / _AT_ONCE)
        every = math.ceil(wanted / parts)  # a few steps more, so that the parts are equal
        steps = parts * every
        return LanguageConfig(
            preset="scaling",
            text=TextSettings(block=training.block, tokenizer=tokenizer),
            model=model,
            training=LanguageTraining(
                steps=steps,
                checkpoint_every=every,
                batch=training.batch,
                lr=training.rate / math.sqrt(model.width),
                warmup=round(training.warmup_share * steps),
                weight_decay=training.weight_decay,
                measured_blocks=training.measured_blocks,
            ),
        )


class SourceData:
    """Streams of a source, as a corpus of the language trainer.

    Attributes:
        identity: of scaling.yaml, as `about`, which has the exact numbers.
    """

    def __init__(self, settings: SourceSettings, training: GridTraining) -> None:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        self.source, self._block = MarkovSource(settings), training.block
        letters = {letter: place for place, letter in enumerate(LETTERS[: settings.symbols])}
        words = Tokenizer(models.BPE(vocab=letters, merges=[]))
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token=_END)
        self._streams: dict[int, Any] = {}
        blocks = training.measured_blocks
        self._test = self._stream(_TEST, (blocks + 1) * training.block)
        measured = data.spaced_blocks(self._test, training.block, blocks)
        self.floor = self.source.block_entropy(training.block)
        self.test_floor = self.source.surprisal(measured)
        self.identity: dict[str, Any] = {"source": dict(settings)}
        self.about = {
            "entropy_rate": self.source.entropy_rate,
            "block_entropy": self.floor,
            "entropies": self.source.entropies.tolist(),
        }

    def _stream(self, seed: int, count: int) -> Any:
        """The first symbols of a stream; a shorter one is the beginning of a longer one."""
        if len(self._streams.get(seed, ())) < count:
            random = np.random.default_rng([self.source.settings.seed, seed])
            self._streams = {seed: self.source.sample(count, random)}
        return self._streams[seed][:count]

    def corpus(self, plan: PlannedCell, tokens: int) -> data.Corpus:
        """New symbols for each seed; a cell of more tokens begins with those of one with fewer."""
        text = self.source.settings.text
        identity = {**self.identity, "stream": plan.seed, "tokens": tokens}
        about = {"texts": [{"name": "source", "source": text}], "tokenizer": "symbols"}
        stream = self._stream(plan.seed, tokens + 2 * self._block)
        return data.Corpus(stream, self._test, self.tokenizer, about, identity)


class TextData:
    """Streams of texts; all seeds draw their blocks from the same one."""

    def __init__(
        self, texts: Sequence[Text], training: GridTraining, out: Path, accelerator: Accelerator
    ) -> None:
        config = LanguageConfig(preset="scaling", text=TextSettings(block=training.block))
        self._corpus = data.prepare_corpus(config, out, texts, (), accelerator)
        self._names = [text.name for text in texts]
        self.tokenizer, self.identity = self._corpus.tokenizer, {"texts": self._corpus.identity}
        self.about: dict[str, Any] = {"sources": self._corpus.about["texts"]}
        self.floor = self.test_floor = None
        self._block = training.block

    def corpus(self, plan: PlannedCell, tokens: int) -> data.Corpus:
        """The whole stream, of which a training sees so many tokens; `InputError` for too many."""
        held = data.blocks_in(len(self._corpus.train), self._block) * self._block
        if tokens > held:
            raise InputError(
                f"--text {' + '.join(self._names)}: {held:,} tokens to train on are fewer than the "
                f"{tokens:,} of the grid; tokens seen twice follow another law; give more text, or "
                "fewer tokens"
            )
        return self._corpus


def run_grid(
    config: ScalingConfig,
    grid: Grid,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    *,
    source: SourceSettings | None = None,
    texts: Sequence[Text] = (),
    accelerator: Accelerator,
    save_models: bool = False,
) -> list[Cell]:
    """Train the cells that `out` lacks; the cells of the grid, diverged ones included.

    Args:
        config: how.
        grid, variants, seeds: the cells, all combinations.
        out: the folder, see the head of this file.
        source: to learn; or
        texts: to learn from.
        accelerator: of one process or of several, which share every batch.
        save_models: keep the trained models.

    `InputError` where two sizes are one model, a variant does not fit one, a text is too short, or
    the folder holds another grid or cannot be written to.
    """
    training, folder = config.training, Path(out)
    plans = [
        PlannedCell(variant, params, tokens, seed)
        for seed in seeds
        for params in grid.params
        for variant in variants
        for tokens in grid.tokens
    ]
    streams = (
        TextData(texts, training, folder, accelerator)
        if source is None
        else SourceData(source, training)
    )
    word = streams.tokenizer.name_or_path or "byte"
    trainings = {plan: plan.language(training, word) for plan in plans}
    sizes = _sizes(trainings, streams.tokenizer)
    train.share_of_batch(trainings[plans[0]], accelerator.num_processes)
    for plan in plans if source is None else ():
        streams.corpus(plan, _seen(trainings[plan]))
    design = {"training": dict(training), **streams.identity}
    noted = {"known": streams.about, "hash": config_hash(design), "versions": versions()}
    on_main(accelerator, lambda: check_config(folder, design, name=DESIGN, noted=noted))
    _not_there(trainings, folder)
    total = sum(_seen(one) for one in trainings.values())
    left = [plan for plan in plans if not _record(folder, plan).exists()]
    done = total - sum(_seen(trainings[plan]) for plan in left)
    main = accelerator.is_main_process
    shown = train.LossBar(total, done) if main and left else nullcontext(Listener())
    with shown as listener:
        for plan in left:
            began = time.monotonic()
            work, one = folder / "work" / plan.name, trainings[plan]
            corpus = streams.corpus(plan, _seen(one))
            shared: Any = {"accelerator": accelerator, "listener": listener}
            train.train(one, [plan.seed], work, corpus=corpus, **shared)
            if main:
                seconds = round(time.monotonic() - began, 2)
                found = _outcome(plan, one, sizes[plan], work, streams, seconds)
                _keep(folder, plan, work, found, save_models=save_models)
            accelerator.wait_for_everyone()
    names = {plan.name for plan in plans}
    return [cell for cell in read_cells(folder) if cell.name in names]


def _seen(training: LanguageConfig) -> int:
    """Tokens that a training sees."""
    return training.training.steps * training.training.batch * training.text.block


def _record(folder: Path, plan: PlannedCell) -> Path:
    return folder / CELLS / f"{plan.name}.json"


def _sizes(
    trainings: dict[PlannedCell, LanguageConfig], tokenizer: Any
) -> dict[PlannedCell, Counts]:
    """What each cell's model counts; `InputError` where two cells are one."""
    _apart(trainings, "params", lambda one: (one.model.layers, one.model.width), "layers and width")
    _apart(trainings, "tokens", lambda one: one.training.steps, "steps")
    firsts = {(plan.variant.name, plan.params): one for plan, one in trainings.items()}
    known = {key: size_of(train.model_shape(one, tokenizer)) for key, one in firsts.items()}
    return {plan: known[plan.variant.name, plan.params] for plan in trainings}


def _apart(trainings: dict[PlannedCell, LanguageConfig], name: str, key: Any, what: str) -> None:
    """Refuse two numbers of the grid that come out as the same cell."""
    seen: dict[Any, int] = {}
    for plan, one in trainings.items():
        asked = getattr(plan, name)
        other = seen.setdefault(key(one), asked)
        if other != asked:
            raise InputError(
                f"--grid: {name} {other} and {asked} are the same cell ({what} {key(one)}); "
                "choose numbers farther apart"
            )


def _not_there(trainings: dict[PlannedCell, LanguageConfig], folder: Path) -> None:
    """Refuse a cell that the folder has under other numbers: it would count twice in the fit."""
    if not any((folder / CELLS).glob("*.json")):
        return
    there = {(c.variant, c.seed, c.layers, c.width, c.steps): c.name for c in read_cells(folder)}
    for plan, one in trainings.items():
        what = (one.model.layers, one.model.width, one.training.steps)
        other = there.get((plan.variant.name, plan.seed, *what), plan.name)
        if other != plan.name:
            raise InputError(
                f"--grid: {plan.name} is the same cell as {other} in {folder} (layers, width and "
                f"steps {what}); choose numbers farther apart, or those of {other}"
            )


def _outcome(
    plan: PlannedCell,
    one: LanguageConfig,
    size: Counts,
    work: Path,
    streams: SourceData | TextData,
    seconds: float,
) -> Cell:
    """What the log of a finished cell says."""
    log = RunLog.read(work / "logs" / f"seed_{plan.seed}.parquet")
    test, learned = (log.panel(name).values[0] for name in ("test_loss", "train_loss"))
    first, last = float(test[0]), float(test[-1])
    diverged = ""
    if not math.isfinite(last):
        diverged = "its loss is no number"
    elif last > first:
        diverged = f"its loss ends at {last:.3f}, above {first:.3f} before the first update"
    tokens = _seen(one)
    return Cell(
        name=plan.name,
        variant=plan.variant.name,
        params=plan.params,
        tokens=tokens,
        seed=plan.seed,
        parameters=size.parameters,
        non_embedding=size.non_embedding,
        flops=size.flops * tokens,
        test_loss=last if math.isfinite(last) else None,
        train_loss=float(learned[-1]) if math.isfinite(learned[-1]) else None,
        floor=streams.floor,
        test_floor=streams.test_floor,
        diverged=diverged,
        layers=one.model.layers,
        width=one.model.width,
        steps=one.training.steps,
        lr=one.training.lr,
        hash=config_hash(one.identity()),
        seconds=seconds,
    )


def _keep(folder: Path, plan: PlannedCell, work: Path, found: Cell, *, save_models: bool) -> None:
    """Copy what stays of a finished cell to its place, write its record, and clear the rest."""
    log = work / "logs" / f"seed_{plan.seed}.parquet"
    write_bytes(folder / "logs" / f"{plan.name}.parquet", log.read_bytes())
    if save_models:
        with whole_folder(folder / "models" / plan.name) as place:
            shutil.copytree(train.checkpoint_path(work, plan.seed), place, dirs_exist_ok=True)
    write_json(_record(folder, plan), found.to_dict())
    shutil.rmtree(work, ignore_errors=True)


def grid_notes(cells: Sequence[Cell]) -> Iterator[str]:
    """What a reader of the cells should know."""
    lost = [cell for cell in cells if cell.diverged]
    if lost:
        named = first_of([f"{cell.name} ({cell.diverged})" for cell in lost], 4)
        yield f"diverged, kept and left out of every fit: {named}"
