"""Files around the sets of items: results for the Pareto frontier, candidates for mining."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.bundles import BundleFile, read_bundles
from gmb_hf.crucible.embeddings import read_rows, read_vectors, unit_rows
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.jsonfile import check_file, parse_json, read_text, write_json
from gmb_hf.crucible.mining import Mined, MiningResult, Settings, mine
from gmb_hf.crucible.pareto import (
    GENERALIZATION,
    RETENTION,
    coordinates,
    dominance_probability,
    undominated,
)
from gmb_hf.files import write_text
from gmb_hf.validation import InputError
from gmb_hf.workflows.crucible_scoring import encode_bundles
from gmb_hf.workflows.encoding import Encoder

_SCORES = ("frozen_scores", "organic_scores")


@dataclass(frozen=True)
class Frontier:
    """Configurations, and which of them no other dominates.

    Attributes:
        names: of the configurations.
        frozen, organic: their pass rates, [N].
        on_frontier: bool [N].
        dominance: for each pair on or off the frontier whose item scores are named, how often the
            first dominates the second when items are resampled; {} without scores.
    """

    names: tuple[str, ...]
    frozen: NDArray[np.float64]
    organic: NDArray[np.float64]
    on_frontier: NDArray[np.bool_]
    dominance: dict[str, dict[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        return {
            "configurations": [
                {"name": name, RETENTION: x, GENERALIZATION: y, "on_frontier": on}
                for name, x, y, on in zip(
                    self.names,
                    self.frozen.tolist(),
                    self.organic.tolist(),
                    self.on_frontier.tolist(),
                    strict=True,
                )
            ],
            "dominance_probability": self.dominance,
        }

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically."""
        return write_json(path, self.to_dict())


def find_frontier(path: str | Path, *, draws: int = 2000, seed: int = 0) -> Frontier:
    """The Pareto frontier of a table of results.

    Args:
        path: CSV, a JSON list, or JSONL, with `frozen_tier3` and `organic_holdout`, and optionally
            `name`, and `frozen_scores` and `organic_scores`: files of item scores, seen from the
            table's folder.
        draws, seed: of the bootstrap.

    Raises:
        InputError: a missing value, or a table that is none.
    """
    rows = _rows(Path(path))
    try:
        frozen, organic = coordinates(rows)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    names = tuple(str(row.get("name", f"#{place + 1}")) for place, row in enumerate(rows))
    dominance: dict[str, dict[str, float]] = {}
    if all(row.get(key) for row in rows for key in _SCORES):
        if len(set(names)) != len(names):
            raise InputError(f"{path}: names must differ where item scores are compared")
        tables = [
            tuple(ItemScores.read(Path(path).parent / str(row[key])) for key in _SCORES)
            for row in rows
        ]
        for one, other in itertools.permutations(range(len(rows)), 2):
            pairs = [
                ((a.margin[a.places_of(b)] > 0).astype(float), (b.margin > 0).astype(float))
                for a, b in zip(tables[one], tables[other], strict=True)
            ]
            found = dominance_probability(pairs[0], pairs[1], draws=draws, seed=seed)
            dominance.setdefault(names[one], {})[names[other]] = found
    return Frontier(names, frozen, organic, undominated(frozen, organic), dominance)


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


def _lines(items: Any) -> str:
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


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV, a JSON list or a JSONL file."""
    check_file(path)
    text = read_text(path)
    if path.suffix == ".csv":
        rows: list[Any] = [
            {key: _cell(key, value) for key, value in row.items() if key is not None}
            for row in csv.DictReader(io.StringIO(text))
        ]
    elif path.suffix == ".jsonl":
        lines = enumerate(text.split("\n"), start=1)
        rows = [
            parse_json(line, where=f"{path}:{number}") for number, line in lines if line.strip()
        ]
    elif path.suffix == ".json":
        data = parse_json(text, where=str(path))
        rows = data if isinstance(data, list) else [data]
    else:
        raise InputError(f"{path}: results come as .csv, .json or .jsonl")
    if not rows:
        raise InputError(f"{path}: holds no results")
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"{path}: result {place} must be an object, got {row!r}")
    return rows


def _cell(key: str, value: Any) -> Any:
    if key not in (RETENTION, GENERALIZATION) or not value:
        return value or None
    try:
        return float(value)
    except (TypeError, ValueError):
        return value
