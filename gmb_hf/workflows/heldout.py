"""Score checkpoints on held-out text, compare them, and write what was found."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf._version import __version__
from gmb_hf.files import write_text
from gmb_hf.reporting.heldout import Scored, write_heldout_table
from gmb_hf.tasks.text import Tally
from gmb_hf.tasks.text_scores import unigram_score
from gmb_hf.tasks.text_sources import Text, TextFile
from gmb_hf.training.devices import chosen_device
from gmb_hf.validation import InputError, repeated

if TYPE_CHECKING:
    from gmb_hf.protocols.heldout import Windows
    from gmb_hf.training.language_checkpoints import Checkpoint

SCHEMA = "gmb-heldout-1"


@dataclass(frozen=True)
class Heldout:
    """What was found.

    Attributes:
        rows: by text, in it by model, baselines last.
        models: name -> place, parameters, windows, tokenizer's hash and size of vocabulary.
        texts: name -> source, separator, bytes, documents, content hash, fingerprint.
    """

    rows: tuple[Scored, ...]
    models: dict[str, dict[str, Any]]
    texts: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `heldout.json`."""
        return {
            "schema": SCHEMA,
            "gmb_hf": __version__,
            "units": "loss in nats per token; bits_per_byte = loss * tokens / (bytes * ln 2)",
            "stream": "EOS d1 EOS d2 EOS ...; every token after the first is predicted once",
            "models": self.models,
            "texts": self.texts,
            "results": [
                {
                    "model": row.model,
                    "text": row.text,
                    "is_baseline": row.is_baseline,
                    **_finite(row.score.to_dict()),
                }
                for row in self.rows
            ],
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
    """Score every checkpoint on every text.

    Byte frequencies of the checkpoints' training text are scored beside them.

    Args:
        checkpoints: folders or `NAME=FOLDER`; without a name a folder's own is taken.
        texts: held out.
        block: tokens of a window; each model's longest input where not given.
        stride: between windows; half of a block where not given.
        batch: windows computed at once.
        device: auto, cpu or cuda.
        on_bytes: hears which model on which text, and the bytes read so far.

    Raises:
        InputError: a checkpoint or text cannot be read, or the windows are wrong.
    """
    from gmb_hf.protocols.heldout import BATCH, Windows, score_text
    from gmb_hf.training.language_checkpoints import load_checkpoint

    chosen = chosen_device(device)
    rows: list[Scored] = []
    models: dict[str, dict[str, Any]] = {}
    tallies: dict[str, Tally] = {}
    baselines: dict[str, list[int]] = {}
    for name, place in _named(checkpoints).items():
        checkpoint = load_checkpoint(place)
        cut = Windows.of(checkpoint.block, block, stride)
        model = checkpoint.model.to(chosen)
        models[name] = _about(checkpoint, cut)
        for text in texts:
            tallies[text.name] = Tally()
            score = score_text(
                model,
                checkpoint.tokenizer,
                text.pieces(),
                cut,
                batch=BATCH if batch is None else batch,
                tally=tallies[text.name],
                on_bytes=partial(on_bytes, f"{name}, {text.name}"),
            )
            if not math.isfinite(score.nats):
                raise InputError(
                    f"{place}: its loss on {text.name} is no finite number; its training diverged"
                )
            rows.append(Scored(name, text.name, score))
        if checkpoint.training_text:
            title, counts = _baseline(checkpoint.training_text)
            baselines.setdefault(title, counts)
    for title, counts in baselines.items():
        for text in texts:
            tally = tallies[text.name]
            unigram = unigram_score(counts, tally.byte_counts, tally.documents)
            rows.append(Scored(title, text.name, unigram, is_baseline=True))
    order = [text.name for text in texts]
    return Heldout(
        rows=tuple(sorted(rows, key=lambda row: order.index(row.text))),
        models=models,
        texts={
            text.name: {
                "source": text.source,
                "separator": text.separator if isinstance(text, TextFile) else None,
                "bytes": tallies[text.name].n_bytes,
                "documents": tallies[text.name].documents,
                "content_hash": tallies[text.name].content_hash,
                "fingerprint": tallies[text.name].fingerprint,
            }
            for text in texts
        },
    )


def write_heldout(found: Heldout, out: Path) -> list[Path]:
    """Write `heldout.json`, the table as CSV, Markdown and LaTeX, and the bars."""
    from gmb_hf.reporting.figures.heldout import heldout_bars
    from gmb_hf.reporting.figures.style import save_figure

    content = json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n"
    return [
        write_text(out / "heldout.json", content),
        *write_heldout_table(found.rows, out),
        *save_figure(heldout_bars(found.rows), out / "heldout"),
    ]


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    """Without the infinite perplexity of an absurd loss, which JSON does not have."""
    return {name: value if math.isfinite(value) else None for name, value in numbers.items()}


def _named(checkpoints: Sequence[str]) -> dict[str, str]:
    if not checkpoints:
        raise InputError("--checkpoint: no checkpoint is given; name the folder of a saved model")
    pairs = []
    for word in checkpoints:
        name, equals, place = word.partition("=")
        if equals and not Path(word).exists():
            pairs.append((name.strip(), place))
        else:
            pairs.append((Path(word).name or word, word))
    twice = repeated(name for name, _ in pairs)
    if twice is not None:
        raise InputError(
            f"--checkpoint: two are named {twice!r}; name them apart, e.g. dense=FOLDER"
        )
    if not all(name and place for name, place in pairs):
        raise InputError("--checkpoint: write it as FOLDER or NAME=FOLDER")
    return dict(pairs)


def _about(checkpoint: Checkpoint, cut: Windows) -> dict[str, Any]:
    from gmb_hf.training.language_tokens import tokenizer_hash

    return {
        "checkpoint": checkpoint.place,
        "parameters": checkpoint.parameters,
        "block": cut.block,
        "stride": cut.stride,
        "tokenizer_hash": tokenizer_hash(checkpoint.tokenizer),
        "vocabulary": len(checkpoint.tokenizer),
        "training_text": {
            key: value
            for key, value in (checkpoint.training_text or {}).items()
            if key != "byte_counts"
        }
        or None,
    }


def _baseline(training_text: Any) -> tuple[str, list[int]]:
    names = " + ".join(text["name"] for text in training_text["texts"])
    return f"byte frequencies of {names}", training_text["byte_counts"]
