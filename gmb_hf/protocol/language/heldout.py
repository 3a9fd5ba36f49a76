"""Load checkpoints, score them on held-out text, compare them, and write what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from gmb_hf._version import __version__
from gmb_hf.base import escape
from gmb_hf.base.errors import InputError, positive_int, repeated
from gmb_hf.base.files import read_json, write_json
from gmb_hf.base.pretrained import find_model
from gmb_hf.base.tables import Column, Table
from gmb_hf.protocol.language import data
from gmb_hf.report import style
from gmb_hf.report.sheet import Sheet, sentences_of
from gmb_hf.tasks.text import Piece, Tally, Text, TextFile, TextScore, unigram_score
from gmb_hf.training.launch import chosen_device

BATCH = 16


class TextModel(NamedTuple):
    """A causal language model in evaluation mode, its tokenizer, and what it was trained on.

    `training_text` is what `training_text.json` says, None where there is none; `identity` is by
    what the model is known, as `ModelSource` has it.
    """

    model: nn.Module
    tokenizer: Any
    training_text: Mapping[str, Any] | None
    identity: str


def load_checkpoint(place: str) -> TextModel:
    """The model and the tokenizer of a folder, or of a repository of the Hub (NAME or NAME@REV).

    `InputError` where there is no model or no tokenizer, or it is another model's; where weights
    are no safetensors, are missing, or lie outside the folder.
    """
    source = find_model(place, trust_remote_code=None)
    if not (source.folder / "tokenizer_config.json").is_file():
        raise InputError(
            f"{place}: holds a model but no tokenizer; save it there too: "
            "tokenizer.save_pretrained(folder)"
        )
    model = data.load_network(source, "AutoModelForCausalLM", "causal language model")
    tokenizer = data.load_tokenizer(source)
    data.check_together(place, model.config, tokenizer)
    note = source.folder / data.TRAINING_TEXT
    training_text = read_json(note) if note.is_file() else None
    if training_text is not None and not _is_about_text(training_text):
        raise InputError(f"{note}: does not describe a training text; gmb train writes it")
    return TextModel(model.eval(), tokenizer, training_text, source.identity)


def _is_about_text(held: Any) -> bool:
    """Whether it has, beside what else, how often each of the 256 bytes occurs."""
    counts = held.get("byte_counts") if isinstance(held, dict) else None
    return (
        isinstance(counts, list)
        and len(counts) == 256
        and all(isinstance(count, int) and count >= 0 for count in counts)
    )


class TokenWindows(NamedTuple):
    """How a stream is cut: `block` tokens of context at most, a window every `stride` tokens."""

    block: int
    stride: int

    @classmethod
    def of(cls, longest: int, block: int | None = None, stride: int | None = None) -> TokenWindows:
        """Windows for a model, with what is not given: its longest input, and half of a block.

        `InputError` for a block longer than the model's, or a stride longer than the block.
        """
        size = longest if block is None else positive_int("--block", block)
        if size > longest:
            raise InputError(f"--block {size}: the model takes at most {longest} tokens")
        step = max(1, size // 2) if stride is None else positive_int("--stride", stride)
        if step > size:
            raise InputError(
                f"--stride {step} is longer than a block of {size}: tokens between the windows "
                "would not be scored"
            )
        return cls(size, step)


class TokenWindow(NamedTuple):
    """Context and, shifted by one, the tokens predicted from it, [n + 1]; the last are `scored`."""

    ids: NDArray[np.int64]
    scored: int


def windows(stream: Iterable[NDArray[np.int64]], cut: TokenWindows) -> Iterator[TokenWindow]:
    """The windows of a stream of tokens, in memory that does not grow with it."""
    held: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    seen = 1  # tokens from the beginning of `held` that are scored; the first is context only
    for ids in stream:
        held = np.concatenate([held, ids])
        while len(held) > cut.block:
            yield TokenWindow(held[: cut.block + 1], cut.block + 1 - seen)
            held = held[cut.stride :]
            seen = cut.block + 1 - cut.stride
    if len(held) > seen:
        yield TokenWindow(held, len(held) - seen)


def score_text(
    model: nn.Module,
    tokenizer: Any,
    stream: Iterable[Piece],
    cut: TokenWindows,
    *,
    batch: int | None = None,
    tally: Tally | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> TextScore:
    """The prediction of documents by a model; the same, up to rounding, whatever the batch.

    Args:
        model: a causal language model of transformers, in evaluation mode; its tokenizer.
        stream: the documents in pieces; `InputError` where it cannot be read.
        cut: the windows, of which `batch` (16) are computed at once.
        tally: counts what passes; one is made where none is given.
        on_bytes: hears of the bytes read so far.
    """
    tally, batch = tally or Tally(), BATCH if batch is None else batch
    nats, tokens = [], 0
    positive_int("--batch-size", batch)
    found = windows(data.encoded(tokenizer, tally.through(stream)), cut)
    while group := list(islice(found, batch)):
        nats.append(_nats(model, group, tokenizer.eos_token_id))
        tokens += sum(window.scored for window in group)
        on_bytes(tally.n_bytes)
    return TextScore(math.fsum(nats), tokens, tally.n_bytes, tally.documents)


@torch.inference_mode()
def _nats(model: nn.Module, group: Sequence[TokenWindow], filler: int) -> float:
    """The loss of the scored tokens of some windows, summed in float64."""
    device = next(model.parameters()).device
    # Filled up on the right, where a causal model does not look from the left.
    ids = [torch.from_numpy(window.ids) for window in group]
    rows = pad_sequence(ids, batch_first=True, padding_value=filler).to(device)
    ends = torch.tensor([(len(window.ids) - 1, window.scored) for window in group], device=device)
    left = ends[:, :1] - torch.arange(rows.shape[1] - 1, device=device)  # tokens still to come
    wanted = (left > 0) & (left <= ends[:, 1:])
    logits = model(input_ids=rows[:, :-1], use_cache=False).logits[wanted]  # [scored, V]
    losses = nn.functional.cross_entropy(logits.float(), rows[:, 1:][wanted], reduction="none")
    return float(losses.double().sum())


class ScoredText(NamedTuple):
    """One model on one text, by their names; a baseline is byte frequencies."""

    model: str
    text: str
    score: TextScore
    is_baseline: bool = False


def heldout_table(rows: Sequence[ScoredText]) -> Table:
    """The table; CSV holds every digit."""

    def perplexity(value: float) -> str:
        return escape.number(value, 3 if value < 100 else 0)

    columns = (
        *(Column("text"), Column("model"), Column("loss", escape.number)),
        *(Column("perplexity", perplexity), Column("bits_per_byte", escape.number)),
        *(Column(name, escape.steps) for name in ("tokens", "bytes", "documents")),
    )
    cells = [(row.text, row.model, *row.score.to_dict().values()) for row in rows]
    caption = "Held-out text: loss in nats per token, perplexity, bits per byte"
    return Table(columns, cells, "heldout", caption)


def by_domain(rows: Sequence[ScoredText], measure: str) -> Table:
    """The protocol's comparison: a row for each domain, a column for each variant.

    `measure` is "loss", "perplexity" or "bits_per_byte"; names of models head the columns.
    """
    texts, models = _names(rows)
    found = {(row.text, row.model): getattr(row.score, measure) for row in rows}
    digits = 2 if measure == "perplexity" else 3
    columns = [Column("domain")]
    columns += [Column(model, lambda value: escape.number(value, digits)) for model in models]
    cells = [[text, *(found.get((text, model)) for model in models)] for text in texts]
    caption = f"{_MEASURES[measure]}, domain by variant; less is better"
    return Table(columns, cells, f"domains_{measure}", caption)


def _names(rows: Sequence[ScoredText]) -> tuple[list[str], list[str]]:
    """The texts, and the models with baselines last; else as they come."""
    models = (row.model for row in sorted(rows, key=lambda row: row.is_baseline))
    return list(dict.fromkeys(row.text for row in rows)), list(dict.fromkeys(models))


_MEASURES = {
    "loss": "Loss in nats per token",
    "perplexity": "Perplexity",
    "bits_per_byte": "Bits per byte",
}


def heldout_tables(rows: Sequence[ScoredText]) -> list[Table]:
    """Every number of every model and text, then each measure by domain and variant."""
    return [heldout_table(rows), *(by_domain(rows, measure) for measure in _MEASURES)]


_COLOURS = (
    *(style.BLUE, style.ORANGE, style.GREEN, style.SKY),
    *(style.VERMILION, style.PURPLE, style.YELLOW, style.BLACK),
)
_MOST_NUMBERS = 24
_BASELINE = "#D9D9D9"
_HATCHES = (None, "//", "..", "xx")  # tell bars of one colour apart


def heldout_bars(rows: Sequence[ScoredText]) -> Figure:
    """Bits per byte, which compare models of different tokenizers: less is better.

    A group of bars for each text, a bar for each model in it; baselines are grey and come last.
    Texts and models keep the order in which they come.
    """
    texts, models = _names(rows)
    baselines = list(dict.fromkeys(row.model for row in rows if row.is_baseline))
    width = 0.8 / len(models)
    with style.house_style():
        figure = style.new_figure(max(4.2, 1.4 + 0.34 * len(rows)), 3.2)
        axes = figure.subplots()
        for place, model in enumerate(models):
            heights = {row.text: row.score.bits_per_byte for row in rows if row.model == model}
            left = width * (place + 0.5) - 0.4
            turn, colour = place // len(_COLOURS), _COLOURS[place % len(_COLOURS)]
            if model in baselines:
                turn, colour = baselines.index(model), _BASELINE
            bars = axes.bar(
                [at + left for at, text in enumerate(texts) if text in heights],
                list(heights.values()),
                width=0.92 * width,
                color=colour,
                hatch=_HATCHES[turn % len(_HATCHES)],
                edgecolor=style.MUTED,
                linewidth=0.5,
                label=style.shorten(model, 40),
            )
            if len(rows) <= _MOST_NUMBERS:
                axes.bar_label(bars, fmt="%.2f", fontsize=6.5, color=style.INK, padding=1.5)
        axes.set_xticks(range(len(texts)), [style.shorten(text, 20) for text in texts])
        axes.tick_params(axis="x", length=0)
        axes.set_ylabel("bits per byte (less is better)")
        axes.margins(y=0.1)
        figure.legend(loc="outside upper left", ncols=2)
    return figure


SCHEMA = "gmb-heldout-1"


@dataclass(frozen=True)
class Heldout:
    """What was found.

    Attributes:
        rows: by text, in it by model, baselines last.
        models: name -> place, commit or hash, parameters, windows, tokenizer's hash and size of
            vocabulary.
        texts: name -> source, separator, bytes, documents, content hash, fingerprint.
    """

    rows: tuple[ScoredText, ...]
    models: dict[str, dict[str, Any]]
    texts: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `heldout.json`."""
        results = []
        for row in self.rows:
            found = {"model": row.model, "text": row.text, "is_baseline": row.is_baseline}
            numbers = row.score.to_dict().items()  # JSON has no infinite perplexity
            results.append(found | {name: x if math.isfinite(x) else None for name, x in numbers})
        return {
            "schema": SCHEMA,
            "gmb_hf": __version__,
            "units": "loss in nats per token; bits_per_byte = loss * tokens / (bytes * ln 2)",
            "stream": "EOS d1 EOS d2 EOS ...; every token after the first is predicted once",
            "models": self.models,
            "texts": self.texts,
            "results": results,
        }


def evaluate_heldout(
    checkpoints: Sequence[str],
    texts: Sequence[Text],
    *,
    block: int | None = None,
    stride: int | None = None,
    batch: int | None = None,
    device: str = "auto",
    on_bytes: Callable[[str, int], None] = lambda *_: None,
) -> Heldout:
    """Score every checkpoint on every text, and byte frequencies of its training text beside it.

    Args:
        checkpoints: folders or `NAME=FOLDER`; without a name a folder's own is taken.
        texts: held out.
        block: tokens of a window; each model's longest input where not given.
        stride: between windows; half of a block where not given.
        batch: windows computed at once.
        device: auto, cpu or cuda.
        on_bytes: hears which model on which text, and the bytes read so far.

    `InputError` where a checkpoint or text cannot be read, or the windows are wrong.
    """
    chosen = chosen_device(device)
    rows: list[ScoredText] = []
    models: dict[str, dict[str, Any]] = {}
    tallies: dict[str, Tally] = {}
    baselines: dict[str, list[int]] = {}
    for name, place in named_checkpoints(checkpoints).items():
        model, tokenizer, training_text, identity = load_checkpoint(place)
        longest = getattr(model.config, "max_position_embeddings", None)
        if longest is None:
            raise InputError(f"{place}: its config has no max_position_embeddings")
        cut = TokenWindows.of(int(longest), block, stride)
        model, held = model.to(chosen), training_text or {}
        models[name] = {
            "checkpoint": place,
            "identity": identity,
            # Shared ones count once.
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "block": cut.block,
            "stride": cut.stride,
            "tokenizer_hash": data.tokenizer_hash(tokenizer),
            "vocabulary": len(tokenizer),
            "training_text": {key: held[key] for key in held if key != "byte_counts"} or None,
        }
        for text in texts:
            tally = tallies[text.name] = Tally()
            hears: Any = {"tally": tally, "on_bytes": partial(on_bytes, f"{name}, {text.name}")}
            score = score_text(model, tokenizer, text.pieces(), cut, batch=batch, **hears)
            if not math.isfinite(score.nats):
                raise InputError(
                    f"{place}: its loss on {text.name} is no finite number; its training diverged"
                )
            rows.append(ScoredText(name, text.name, score))
        if held:
            names = " + ".join(text["name"] for text in held["texts"])
            baselines.setdefault(f"byte frequencies of {names}", held["byte_counts"])
    for title, counts in baselines.items():
        for text in texts:
            tally = tallies[text.name]
            unigram = unigram_score(counts, tally.byte_counts, tally.documents)
            rows.append(ScoredText(title, text.name, unigram, is_baseline=True))
    about = {}
    for text in texts:
        tally = tallies[text.name]
        about[text.name] = {
            "source": text.source,
            "separator": text.separator if isinstance(text, TextFile) else None,
            **{key: value for key, value in tally.to_dict().items() if key != "byte_counts"},
            "fingerprint": tally.fingerprint,
        }
    return Heldout(tuple(sorted(rows, key=lambda row: [*about].index(row.text))), models, about)


def write_heldout(found: Heldout, out: Path, *, figures: bool = True) -> list[Path]:
    """Write `heldout.json`, tables as CSV, Markdown and LaTeX, and, with `figures`, the bars."""
    written = [write_json(out / "heldout.json", found.to_dict())]
    tables = heldout_tables(found.rows)
    for table in tables:
        written += table.write(out)
    if figures:
        written += style.save_figure(heldout_bars(found.rows), out / "heldout")
    page = Sheet(
        "GMB held-out text",
        "How well each model predicts text that it has not seen",
        sentences_of("lowest.j2", "gmb_hf.protocol.language", found=found),
        [("Bits per byte, by text and model", one) for one in written if one.suffix == ".png"],
        tables,
        [
            *((f"text {name}", str(about["fingerprint"])) for name, about in found.texts.items()),
            *((f"model {name}", str(about)) for name, about in found.models.items()),
        ],
    )
    return [page.write(out / "report.html"), *written]


def named_checkpoints(checkpoints: Sequence[str]) -> dict[str, str]:
    """Name -> place, from `[NAME=]FOLDER`; `InputError` for none, or a name twice."""
    if not checkpoints:
        raise InputError("--checkpoint: no checkpoint is given; name the folder of a saved model")
    pairs = []
    for word in checkpoints:
        name, equals, place = word.partition("=")
        named = equals and not Path(word).exists()
        pairs.append((name.strip(), place) if named else (Path(word).name or word, word))
    twice = repeated(name for name, _ in pairs)
    if twice is not None:
        raise InputError(
            f"--checkpoint: two are named {twice!r}; name them apart, e.g. dense=FOLDER"
        )
    if not all(name and place for name, place in pairs):
        raise InputError("--checkpoint: write it as FOLDER or NAME=FOLDER")
    return dict(pairs)
