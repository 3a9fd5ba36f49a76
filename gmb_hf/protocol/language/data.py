"""Models and tokenizers of transformers, loaded whole; and streams of tokens on disk.

A stream begins with the end-of-document token, and every document ends with it: EOS d1 EOS d2 EOS.
So the model sees at each document's beginning that it is one, and learns to end it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, positive_int
from gmb_hf.base.files import atomic_path, read_json, whole_folder, write_json, write_text
from gmb_hf.base.pretrained import ModelSource, find_tokenizer
from gmb_hf.protocol.language.config import BYTES, LanguageConfig
from gmb_hf.tasks.shards import stream_shard
from gmb_hf.tasks.text import SEPARATOR, Piece, Tally, Text, described
from gmb_hf.training.launch import on_main, silence_transformers
from gmb_hf.training.settings import config_hash

Ids = NDArray[np.int64]

TRAINING_TEXT = "training_text.json"
"""Beside a saved model: what it was trained on, with the counts of its bytes."""

HASH = "tokenizer_hash"
"""Of a saved model's config, so that it and another model's tokenizer cannot be mixed up."""

_LARGEST_VOCABULARY = 2**20
_MOST_UNUSED = 0.1  # share of the vocabulary: some models pad theirs to a round number


def read_pretrained(
    source: ModelSource, auto_class: str, *, what: str = "loaded", **options: Any
) -> Any:
    """What an Auto class of transformers reads in the folder of a source, in silence.

    `InputError` where it cannot; the message says that it could not be `what`.
    """
    import transformers

    import gmb_hf.modeling  # noqa: F401 (makes its models known to the Auto classes)

    try:
        with silence_transformers():
            return getattr(transformers, auto_class).from_pretrained(
                source.folder, local_files_only=True, trust_remote_code=source.code, **options
            )
    except Exception as error:  # of transformers, safetensors or the model's code: many kinds
        reason = (" ".join(str(error).split()) or type(error).__name__)[:300]
        raise InputError(f"{source.place}: could not be {what}: {reason}") from None


def load_network(source: ModelSource, auto_class: str, kind: str) -> Any:
    """A model of a `kind` with all of its weights, from safetensors, float32.

    `InputError` where it cannot be read, or weights are missing or of another shape.
    """
    network, report = read_pretrained(
        source, auto_class, dtype=torch.float32, use_safetensors=True, output_loading_info=True
    )
    # transformers would draw missing weights at random, and random scores look like scores.
    lacking = sorted({*report["missing_keys"], *map(str, report["mismatched_keys"])})
    if lacking:
        raise InputError(
            f"{source.place}: {len(lacking)} of its weights are missing or of another shape, "
            f"e.g. {lacking[0]}; it is no whole {kind}"
        )
    return network


def tokenizer_source(name: str) -> ModelSource:
    """Where a tokenizer lies, in a folder or a repository of the Hub; "byte" lies in none.

    `InputError` where there is none, the Hub cannot be reached, or it brings code of its own.
    """
    if name == BYTES:
        return ModelSource(BYTES, Path(), BYTES)
    try:
        return find_tokenizer(name)
    except InputError as error:
        raise _no_tokenizer(name, error) from None


def load_tokenizer(name: str | Path | ModelSource) -> Any:
    """A tokenizer with an end of document: "byte", a folder's, or one of the Hub.

    `InputError` as `tokenizer_source`; where it cannot be loaded, or has no end of document.
    """
    from transformers import ByT5Tokenizer

    source = name if isinstance(name, ModelSource) else tokenizer_source(str(name))
    if source.identity == BYTES:
        return ByT5Tokenizer(extra_ids=0)
    try:
        tokenizer = read_pretrained(source, "AutoTokenizer")
    except InputError as error:
        raise _no_tokenizer(source.place, error) from None
    if tokenizer.eos_token_id is None:
        raise InputError(f"tokenizer {source.place!r} has no end-of-document token (eos_token)")
    return tokenizer


def _no_tokenizer(name: str, error: InputError) -> InputError:
    reason = str(error).removeprefix(f"{name}: ")
    return InputError(
        f"tokenizer {name!r} cannot be found or loaded ({reason}); the tokenizer {BYTES!r} needs "
        "no download"
    )


def tokenizer_hash(tokenizer: Any) -> str:
    """SHA-256 (64 hex digits) of the vocabulary and the end of document."""
    known = {"vocabulary": tokenizer.get_vocab(), "eos": tokenizer.eos_token_id}
    return config_hash(known)


def check_together(place: str, config: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that is not the model's, by its hash in the config or by its size."""
    expected = getattr(config, HASH, None)
    words, rows = len(tokenizer), config.vocab_size
    if expected is not None and expected != tokenizer_hash(tokenizer):
        raise InputError(
            f"{place}: the tokenizer is another than the model was trained with "
            f"(its hash is not {expected[:16]}); save the right one beside the model"
        )
    if not (1 - _MOST_UNUSED) * rows <= words <= rows:
        raise InputError(
            f"{place}: the tokenizer has {words:,} tokens and the model {rows:,}; save the "
            "model's own tokenizer beside it"
        )


def encoded(tokenizer: Any, stream: Iterable[Piece]) -> Iterator[Ids]:
    """The stream of tokens, piece by piece: EOS, and after each document another.

    What looks like a special token in the text is text.
    """
    end = np.array([tokenizer.eos_token_id], dtype=np.int64)
    yield end
    for piece in stream:
        ids = tokenizer(
            piece.text, add_special_tokens=False, split_special_tokens=True, verbose=False
        )["input_ids"]
        if ids:
            yield np.asarray(ids, dtype=np.int64)
        if piece.ends_document:
            yield end


class TokenFile(NamedTuple):
    """A stream of tokens on disk, and what it was made from.

    The file is little-endian, without a header: uint16 where the vocabulary allows it, else uint32.
    `about` holds `tokens`, `dtype`, and of the text `bytes`, `documents`, `content_hash`,
    `byte_counts`.
    """

    path: Path
    about: dict[str, Any]

    def read(self) -> NDArray[Any]:
        """The ids, mapped from disk, [N]."""
        return np.memmap(self.path, dtype=self.about["dtype"], mode="r")


def write_tokens(path: Path, texts: Iterable[Text], tokenizer: Any) -> TokenFile:
    """Write the documents of all texts as one stream, in constant memory; done before, read.

    A file that was made from the same sources (for local files: of the same size and time) by the
    same tokenizer is taken as it is. `InputError` where a text cannot be read, or the disk is full.
    """
    texts = tuple(texts)
    key = {"texts": [_stamp(text) for text in texts], "tokenizer": tokenizer_hash(tokenizer)}
    note = path.with_suffix(".json")
    held = read_json(note) if note.exists() else {}
    if isinstance(held, dict) and held.get("made_from") == key and path.exists():
        return TokenFile(path, held)
    tally = Tally()
    dtype = "<u2" if len(tokenizer) <= 1 << 16 else "<u4"
    tokens = 0

    def passing() -> Iterator[Piece]:
        for text in texts:
            yield from tally.through(text.pieces())

    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for ids in encoded(tokenizer, passing()):
            file.write(ids.astype(dtype).tobytes())
            tokens += len(ids)
    about = {"made_from": key, "tokens": tokens, "dtype": dtype, **tally.to_dict()}
    write_text(note, json.dumps(about) + "\n")
    return TokenFile(path, about)


def _stamp(text: Text) -> dict[str, Any]:
    stamp: dict[str, Any] = {"source": text.source, "separator": getattr(text, "separator", None)}
    if Path(text.source).is_file():
        about = Path(text.source).stat()
        stamp |= {"size": about.st_size, "time": about.st_mtime_ns}
    return stamp


def export_texts(texts: Sequence[Text], tokenizer: str, out: str | Path) -> list[dict[str, Any]]:
    """Write held-out texts as shards in the llm.c format, `NAME.bin` each, with a note beside.

    The stream is `encoded`'s: EOS, and another after each document. Returns what the note holds of
    each text (name, tokens, bytes, documents, content hash, tokenizer) and the path of its shard.

    Args:
        texts: as `read_sources` gives them.
        tokenizer: "byte", a folder's, or one of the Hub, of at most 65,536 tokens.
        out: the folder.

    Raises:
        InputError: there is no such tokenizer, its ids do not fit into 16 bits, or a text cannot be
            read.
    """
    source = tokenizer_source(tokenizer)
    words = load_tokenizer(source)
    if len(words) > 1 << 16:
        raise InputError(
            f"tokenizer {tokenizer!r} has {len(words):,} tokens; a shard holds ids of 16 bits, "
            "choose one with at most 65,536"
        )
    told = []
    for text in texts:
        if Path(text.name).name != text.name:
            raise InputError(f"the name {text.name!r} is no file name; choose one without '/'")
        tally, path = Tally(), Path(out) / f"{text.name}.bin"
        tokens = stream_shard(path, encoded(words, tally.through(text.pieces())))
        about = {
            "name": text.name,
            "source": text.source,
            "tokens": tokens,
            "bytes": tally.n_bytes,
            "documents": tally.documents,
            "content_hash": tally.content_hash,
            "tokenizer": source.identity,
            "tokenizer_hash": tokenizer_hash(words),
            "vocabulary": len(words),
            "gmb_hf": __version__,
        }
        write_json(path.with_suffix(".json"), about)
        told.append({**about, "path": path})
    return told


def train_tokenizer(
    texts: Sequence[Text], vocabulary: int, out: str | Path, *, show_progress: bool = False
) -> Any:
    """Train GPT-2's kind of tokenizer (byte-level BPE) on texts, and save it in a folder.

    The same texts give the same tokenizer; every text can be encoded, since all bytes are tokens.

    Args:
        texts: read once, in constant memory.
        vocabulary: tokens, the 256 bytes and the end of document `<|endoftext|>` included.
        out: a new folder.
        show_progress: the library's own bars, on standard error.

    Raises:
        InputError: fewer than 257 tokens or more than 2**20, a folder that is there, or a text that
            cannot be read.
    """
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    if positive_int("--vocabulary", vocabulary, most=_LARGEST_VOCABULARY) < 257:
        raise InputError(
            f"--vocabulary {vocabulary}: 256 bytes and an end make at least 257 tokens"
        )
    if Path(out).exists():
        raise InputError(f"{out}: is there already; name a new folder for the tokenizer")
    core = ByteLevelBPETokenizer()
    every = (piece.text for text in texts for piece in text.pieces())
    core.train_from_iterator(
        every, vocabulary, min_frequency=2, show_progress=show_progress, special_tokens=[SEPARATOR]
    )
    made = PreTrainedTokenizerFast(tokenizer_object=core._tokenizer, eos_token=SEPARATOR)
    with whole_folder(Path(out)) as folder:
        made.save_pretrained(folder)
        write_json(folder / "trained_on.json", {"texts": described(texts), "gmb_hf": __version__})
    return made


def blocks_in(tokens: int, block: int) -> int:
    """How many blocks a stream is cut into, whatever the offset of the first."""
    return tokens // block - 1


def check_long_enough(name: str, tokens: int, block: int) -> None:
    """Refuse a stream that is shorter than two blocks."""
    if blocks_in(tokens, block) < 1:
        raise InputError(
            f"{name}: only {tokens:,} tokens; at least {2 * block:,} are needed for blocks of "
            f"{block}; give more text or choose a smaller text.block"
        )


class TokenBlocks:
    """A stream cut into blocks anew in every epoch, from another offset and in another order.

    Blocks are numbered without end: number i belongs to epoch i // n, and is the same whoever asks
    and whenever.

    Args:
        ids: the stream, [N].
        block: tokens in a block.
        seed: of offsets and orders.
    """

    def __init__(self, ids: NDArray[Any], block: int, seed: int) -> None:
        self._ids, self._block, self._seed = ids, block, seed
        self._n = blocks_in(len(ids), block)
        self._epoch, self._starts = -1, np.empty(0, dtype=np.int64)

    def rows(self, numbers: Iterable[int]) -> Ids:
        """The blocks of these numbers, each with the token that follows it, [n, T + 1]."""
        return _cut_out(self._ids, [self._start(number) for number in numbers], self._block)

    def _start(self, number: int) -> int:
        epoch, place = divmod(number, self._n)
        if epoch != self._epoch:
            random = np.random.default_rng([self._seed, epoch])
            offset = random.integers(self._block)
            self._starts = offset + self._block * random.permutation(self._n)
            self._epoch = epoch
        return int(self._starts[place])


def spaced_blocks(ids: NDArray[Any], block: int, count: int) -> Ids:
    """Up to `count` blocks, each with the token that follows it, evenly spaced, [n, T + 1]."""
    n = blocks_in(len(ids), block)
    places = np.unique(np.linspace(0, n - 1, min(count, n)).astype(np.int64))
    return _cut_out(ids, (block * places).tolist(), block)


def _cut_out(ids: NDArray[Any], starts: Sequence[int], block: int) -> Ids:
    return np.stack([ids[start : start + block + 1] for start in starts]).astype(np.int64)


class Corpus(NamedTuple):
    """The streams [N] that a model learns from and those held out, and their tokenizer.

    `about` is of the training text, as `Tally.to_dict`, with its sources; `identity` is plain data
    by which the text is known.
    """

    train: NDArray[Any]
    test: NDArray[Any]
    tokenizer: Any
    about: dict[str, Any]
    identity: dict[str, Any]


def prepare_corpus(
    config: LanguageConfig,
    folder: Path,
    texts: Sequence[Text],
    test_texts: Sequence[Text],
    accelerator: Accelerator,
) -> Corpus:
    """The texts as tokens: written by the main process, mapped from disk by all.

    `InputError` where a text cannot be read or is too short, or there is no such tokenizer.
    """
    source = tokenizer_source(config.text.tokenizer)
    tokenizer = load_tokenizer(source)

    def write(name: str, chosen: Sequence[Text]) -> Any:
        path = folder / "tokens" / f"{name}.bin"
        on_main(accelerator, lambda: write_tokens(path, chosen, tokenizer))
        return write_tokens(path, chosen, tokenizer)

    learned = write("train", texts)
    train_ids = learned.read()
    if test_texts:
        held_out = write("test", test_texts)
        test_ids, test_hash = held_out.read(), held_out.about["content_hash"]
    else:
        cut = round(len(train_ids) * (1 - config.text.test_share))
        train_ids, test_ids, test_hash = train_ids[:cut], train_ids[cut:], None
    for name, ids in (("training text", train_ids), ("held-out text", test_ids)):
        check_long_enough(name, len(ids), config.text.block)
    counts = ("bytes", "documents", "content_hash", "byte_counts")
    identity = {
        "tokenizer_hash": tokenizer_hash(tokenizer),
        "train_content_hash": learned.about["content_hash"],
        "test_content_hash": test_hash,
    }
    about = {"texts": described(texts), **{name: learned.about[name] for name in counts}}
    about["tokenizer"] = source.identity
    return Corpus(train_ids, test_ids, tokenizer, about, identity)
