"""Bundles to item scores, tiers and scoreboards: what more than one Crucible command needs."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from gmb_hf.crucible.bundles import BundleFile, read_bundles
from gmb_hf.crucible.embeddings import Vectors, read_vectors, similarities_of
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.margins import MarginStats
from gmb_hf.crucible.margins import summarize as margin_summary
from gmb_hf.crucible.ranks import RankStats
from gmb_hf.crucible.ranks import summarize as rank_summary
from gmb_hf.crucible.scoreboard import Scoreboard, make_scoreboard
from gmb_hf.crucible.similarities import OnEmpty
from gmb_hf.crucible.tiers import (
    THRESHOLDS,
    TIERS,
    EmptyTierWarning,
    Method,
    Tiers,
    assign_tiers,
    fit_tiers,
)
from gmb_hf.files import write_text
from gmb_hf.jsonfile import parse_json, read_text
from gmb_hf.validation import InputError
from gmb_hf.workflows.encoding import Encoder

UNNAMED = "unnamed"


def score_bundles(
    path: str | Path,
    *,
    embeddings: str | Path | None = None,
    encoder: str | None = None,
    name: str | None = None,
    empty: OnEmpty = "error",
    on_done: Callable[[str], None] = lambda _: None,
) -> ItemScores:
    """Score a file of bundles by the similarities in it, by embeddings, or by an encoder.

    Args:
        path: JSONL.
        embeddings: `.npy` or `.safetensors` with a row per text.
        encoder: name or path of a sentence-transformers model.
        name: what made the similarities; the encoder by default.
        empty: what to do with items without negatives.
        on_done: called after every batch of texts.

    Raises:
        InputError: nothing to score with, both ways at once, or bad input of either.
    """
    if embeddings is not None and encoder is not None:
        raise InputError("--embeddings and --encoder exclude each other; give one of them")
    file = read_bundles(path)
    if embeddings is None and encoder is None:
        similarities = file.similarities(empty=empty)
    else:
        _refuse_without_texts(file)
        vectors = (
            read_vectors(embeddings, file)
            if embeddings is not None
            else encode_bundles(file, Encoder(encoder or ""), on_done)
        )
        similarities = similarities_of(file, vectors, empty=empty)
    return ItemScores.of(file, similarities, name or encoder or UNNAMED)


def encode_bundles(
    file: BundleFile, encoder: Encoder, on_done: Callable[[str], None] = lambda _: None
) -> Vectors:
    """Embeddings of the texts of a file's bundles."""
    n = len(file.bundles)
    anchors = [bundle.anchor or "" for bundle in file.bundles]
    positives = [bundle.positive or "" for bundle in file.bundles]
    negatives = [text for bundle in file.bundles for text in bundle.negatives]
    rows = encoder.encode([*anchors, *positives, *negatives], on_done)
    return Vectors(rows[:n], rows[n : 2 * n], rows[2 * n :])


def summaries(scores: ItemScores) -> tuple[MarginStats, RankStats]:
    """Margins and ranks of scored items, summed up."""
    skipped = scores.origin.n_skipped
    margin = margin_summary(scores.margin, n_skipped=skipped)
    return margin, rank_summary(scores.ranks, n_skipped=skipped)


@dataclass(frozen=True)
class Fitted:
    """What `fit_to_scores` froze.

    Attributes:
        tiers: the cutoffs.
        bundles: the file whose items they were fitted on.
        notes: what a reader must know.
    """

    tiers: Tiers
    bundles: str
    notes: tuple[str, ...]


def fit_to_scores(
    path: str | Path,
    *,
    thresholds: tuple[float, float] = THRESHOLDS,
    method: str = "inverted_cdf",
) -> Fitted:
    """Tiers of scored items.

    Args:
        path: what `gmb crucible score` wrote.
        thresholds, method: see `fit_tiers`.
    """
    scores = ItemScores.read(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EmptyTierWarning)
        tiers = fit_tiers(
            scores.danger,
            encoder=scores.origin.encoder,
            corpus_hash=scores.origin.content_hash,
            thresholds=thresholds,
            method=cast("Method", method),  # which refuses another word
        )
    return Fitted(tiers, scores.origin.bundles, tuple(str(one.message) for one in caught))


@dataclass(frozen=True)
class Assigned:
    """What `assign_to_file` did.

    Attributes:
        path: the file it wrote.
        counts: items in each tier.
        left_out: items without a score, which are not in the new file.
    """

    path: Path
    counts: dict[str, int]
    left_out: int


def assign_to_file(
    tiers: Tiers, scores: ItemScores, bundles: str | Path, out: str | Path
) -> Assigned:
    """Write bundles with their tiers: the evaluation set that later models are scored on.

    Args:
        tiers: frozen cutoffs.
        scores: of these bundles, by the encoder that the cutoffs were fitted with.
        bundles: JSONL.
        out: the new JSONL.

    Raises:
        InputError: scores of other bundles or by another encoder, or the output is the input.
    """
    if Path(out).resolve() == Path(bundles).resolve():
        raise InputError(f"{out}: is the file that is read; write the tiers to another one")
    file = read_bundles(bundles)
    if file.content_hash != scores.origin.content_hash:
        raise InputError(
            f"{bundles}: is not what was scored ({scores.origin.bundles}); score it again"
        )
    labels = assign_tiers(tiers, scores.danger, encoder=scores.origin.encoder).tolist()
    of_item = dict(zip(scores.ids, labels, strict=True))
    lines = read_text(bundles).split("\n")
    written = []
    for bundle in file.bundles:
        if bundle.id in of_item:
            data = parse_json(lines[bundle.line - 1], where=f"{bundles}:{bundle.line}")
            data["tier"] = of_item[bundle.id]
            written.append(json.dumps(data, ensure_ascii=False, allow_nan=False))
    path = write_text(out, "\n".join(written) + "\n")
    counts = {name: labels.count(name) for name in TIERS}
    return Assigned(path, counts, len(file.bundles) - len(written))


def scoreboard_of(
    scores_path: str | Path,
    out: str | Path,
    *,
    version: str,
    seed: int,
    checkpoint: str | None = None,
) -> Scoreboard:
    """The scoreboard of scored items, written to `out`.

    Args:
        scores_path: what `gmb crucible score` wrote.
        out: JSON.
        version: of the evaluation set.
        seed: of the evaluation.
        checkpoint: the model; what made the similarities by default.
    """
    scores = ItemScores.read(scores_path)
    target = Path(out)
    made = make_scoreboard(
        scores.margin,
        scores.ranks.strict,
        scores.tiers,
        source_hash=scores.origin.source_hash,
        content_hash=scores.origin.content_hash,
        seed=seed,
        version=version,
        checkpoint_path=checkpoint or scores.origin.encoder,
        n_skipped=scores.origin.n_skipped,
        scores=seen_from(target.resolve().parent, Path(scores_path)),
    )
    made.write(target)
    return made


def scores_behind(path: str | Path, board: Scoreboard) -> ItemScores | None:
    """The item scores that a scoreboard was made of; None where they are gone.

    Raises:
        InputError: there is a file of that name, but the scoreboard was not made of it.
    """
    if board.x_scores is None:
        return None
    place = Path(path).parent / board.x_scores
    if not place.exists():
        return None
    scores = ItemScores.read(place)
    passes = int((scores.margin > 0).sum())
    mean = float(scores.margin.mean()) if scores.n else None
    same = (scores.n, passes) == (board.overall.n, board.overall.correct)
    if same and scores.origin.source_hash == board.eval_header.source_hash:
        near = board.overall.mean_margin
        if mean == near or (near is not None and np.isclose(mean or 0.0, near, rtol=1e-9)):
            return scores
    raise InputError(f"{place}: has changed since {path} was made of it; make the scoreboard again")


def seen_from(folder: Path, path: Path) -> str:
    """The path as a file in `folder` names it, so that both can be moved together."""
    return Path(os.path.relpath(path.resolve(), folder)).as_posix()


def _refuse_without_texts(file: BundleFile) -> None:
    for bundle in file.bundles:
        if not bundle.has_texts:
            raise InputError(
                f"{file.path}:{bundle.line}: item {bundle.id!r} has no texts to embed; it needs "
                "anchor, positive and negatives"
            )
