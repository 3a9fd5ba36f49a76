"""Texts to embeddings through sentence-transformers, an extra of this package."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.bundles import BundleFile, Vectors, read_bundles, read_vectors, similarities_of
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.margins import MarginStats, RankStats
from gmb_hf.crucible.margins import summarize as margin_summary
from gmb_hf.crucible.margins import summarize_ranks as rank_summary
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
from gmb_hf.errors import InputError
from gmb_hf.files import parse_json, read_text, write_text

INSTALL = "pip install 'gmb-hf[encoders]'"
_BATCH = 256
_PATIENCE = 5.0  # seconds for the Hub's first answer


class Encoder:
    """A sentence-transformers model, from the Hub or from a folder.

    Args:
        name: its name or path.

    Raises:
        InputError: sentence-transformers is not installed, there is no such model, or it is not at
            hand and the Hub cannot be reached.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        if find_spec("sentence_transformers") is None:
            raise InputError(
                f"--encoder needs sentence-transformers: {INSTALL}; or give --embeddings"
            )
        # Before the import, which takes seconds.
        place, without_hub = _place_of(name)
        from sentence_transformers import SentenceTransformer

        try:
            with _quiet_hub():
                self._model: Any = SentenceTransformer(place, local_files_only=without_hub)
        except Exception as error:  # unknown, gated, or no such model: each has its own
            raise InputError(
                f"encoder {name!r} cannot be found or loaded: {_first_line(error)}"
            ) from None

    def encode(
        self, texts: Sequence[str], on_done: Callable[[str], None] = lambda _: None
    ) -> NDArray[np.float64]:
        """One row per text, float64 [N, D]; each distinct text is encoded once.

        Args:
            texts: what to encode.
            on_done: called after every batch of 256 distinct texts.
        """
        place: dict[str, int] = {}
        for text in texts:
            place.setdefault(text, len(place))
        distinct = list(place)
        rows: list[NDArray[np.float64]] = []
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            found = self._model.encode(batch, convert_to_numpy=True, show_progress_bar=False)
            rows.append(np.asarray(found, dtype=np.float64))
            on_done(f"{start + len(batch):,} of {len(distinct):,} texts")
        encoded: NDArray[np.float64] = np.concatenate(rows)[[place[text] for text in texts]]
        return encoded


@contextmanager
def _quiet_hub() -> Iterator[None]:
    """Without the Hub's reports of each retry: what matters of them is in the error."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _place_of(name: str) -> tuple[str, bool]:
    """Where to load from, a folder or a name of the Hub, and whether to leave the Hub alone."""
    path = Path(os.path.expanduser(name))
    if name and path.is_dir():
        return str(path), True
    missing = f"encoder {name!r} cannot be found"
    if path.is_file():
        raise InputError(f"{missing}: this is a file; give the folder of a saved model")
    if not name.strip() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise InputError(f"{missing}: there is no such folder")
    why = _obstacle()
    if why is None or _is_cached(name):
        return name, why is not None
    raise InputError(
        f"{missing}: there is no such folder, it was never downloaded, and the Hub cannot be "
        f"reached ({why})"
    )


def _obstacle() -> str | None:
    """What keeps us from the Hub, by one attempt; its client tries for a minute."""
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # of httpx or httpx2, as the client has it; offline mode too
        return _first_line(error)
    return None


def _is_cached(name: str) -> bool:
    """Whether some revision was downloaded before; bare names are of the library's own models."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    for repository in (name, f"sentence-transformers/{name}"):
        with suppress(HFValidationError, LocalEntryNotFoundError):
            snapshot_download(repository, local_files_only=True)
            return True
    return False


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# Bundles to item scores, tiers and scoreboards: what more than one Crucible command needs.


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
