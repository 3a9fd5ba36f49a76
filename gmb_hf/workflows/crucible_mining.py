"""Files of candidates and a pool of texts to mined bundles, and to those that need a look."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gmb_hf.crucible.bundles import BundleFile, read_bundles
from gmb_hf.crucible.embeddings import read_rows, read_vectors, unit_rows
from gmb_hf.crucible.mining import Mined, MiningResult, Settings, mine
from gmb_hf.files import write_text
from gmb_hf.jsonfile import parse_json, read_text, write_json
from gmb_hf.validation import InputError
from gmb_hf.workflows.crucible_scoring import encode_bundles
from gmb_hf.workflows.encoding import Encoder


@dataclass(frozen=True)
class MinedFiles:
    """What `mine_files` found and wrote.

    Attributes:
        result: all candidates.
        paths: accepted bundles, quarantine, and the summary.
    """

    result: MiningResult
    paths: tuple[Path, ...]


def mine_files(
    candidates: str | Path,
    pool: str | Path,
    out: str | Path,
    *,
    settings: Settings,
    embeddings: str | Path | None = None,
    pool_embeddings: str | Path | None = None,
    encoder: str | None = None,
    on_done: Callable[[str], None] = lambda _: None,
) -> MinedFiles:
    """Try candidates against lineups of a pool; write accepted ones as bundles.

    Args:
        candidates: bundles; their negatives, if any, are not looked at.
        pool: JSONL of texts: strings, or objects with `text`.
        out: a folder, for accepted.jsonl (each with the negatives of its median lineup),
            quarantine.jsonl and mining.json.
        settings: how candidates are tried.
        embeddings, pool_embeddings: `.npy` or `.safetensors`, both or neither.
        encoder: name or path of a sentence-transformers model.
        on_done: called after every batch of texts.
    """
    if (embeddings is None) != (pool_embeddings is None):
        raise InputError("--embeddings and --pool-embeddings go together; give both")
    if (embeddings is None) == (encoder is None):
        raise InputError("give either --embeddings with --pool-embeddings, or --encoder")
    file, texts = read_bundles(candidates), _pool(Path(pool))
    for bundle in file.bundles:
        if not bundle.has_texts:
            raise InputError(f"{candidates}:{bundle.line}: item {bundle.id!r} has no texts")
    if embeddings is not None and pool_embeddings is not None:
        vectors = read_vectors(embeddings, file)
        rows: NDArray[Any] = read_rows(pool_embeddings, len(texts), str(pool))
    else:
        model = Encoder(encoder or "")
        vectors = encode_bundles(file, model, on_done)
        rows = model.encode(texts, on_done)
    places = [f"pool line {number}" for number in range(1, len(texts) + 1)]
    result = mine(
        unit_rows(vectors.anchor, file.ids),
        unit_rows(vectors.positive, file.ids),
        unit_rows(rows, places),
        file.ids,
        settings,
    )
    folder = Path(out)
    return MinedFiles(
        result,
        (
            write_text(folder / "accepted.jsonl", _accepted(file, result, texts)),
            write_text(folder / "quarantine.jsonl", _quarantine(file, result, texts)),
            write_json(folder / "mining.json", result.summary()),
        ),
    )


def _accepted(file: BundleFile, result: MiningResult, texts: Sequence[str]) -> str:
    return _lines(
        {
            **_texts(file, place, item, texts),
            "mining": {
                "passes": item.passes,
                "lineups": result.settings.lineups,
                "strength": item.strength,
                "danger": item.danger,
            },
        }
        for place, item in enumerate(result.candidates)
        if item.outcome == "accepted"
    )


def _quarantine(file: BundleFile, result: MiningResult, texts: Sequence[str]) -> str:
    return _lines(
        {
            **_texts(file, place, item, texts),
            "quarantine": {
                "reason": item.reason,
                "passes": item.passes,
                "strength": item.strength,
                "danger": item.danger,
                "duplicate_of": item.duplicate_of,
            },
        }
        for place, item in enumerate(result.candidates)
        if item.outcome == "quarantined"
    )


def _texts(file: BundleFile, place: int, item: Mined, texts: Sequence[str]) -> dict[str, Any]:
    bundle = file.bundles[place]
    return {
        "id": bundle.id,
        "anchor": bundle.anchor,
        "positive": bundle.positive,
        "negatives": [texts[number] for number in item.lineup],
    }


def _lines(items: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(item, ensure_ascii=False, allow_nan=False) + "\n" for item in items)


def _pool(path: Path) -> list[str]:
    texts = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        data = parse_json(line, where=f"{path}:{number}")
        text = data.get("text") if isinstance(data, Mapping) else data
        if not isinstance(text, str):
            raise InputError(f"{path}:{number}: a line of the pool is text or an object with text")
        texts.append(text)
    if not texts:
        raise InputError(f"{path}: holds no texts")
    return texts
