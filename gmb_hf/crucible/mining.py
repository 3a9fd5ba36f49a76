"""Mining hard items: a candidate is accepted if it is dangerous in many lineups, not in one.

A lineup is a random choice of negatives from a pool. Each candidate meets several; the number of
lineups in which its danger reaches the threshold measures how reliable its danger is. A single
lineup would select by chance. Spec: Crucible metrics, "Multi-Lineup Validation Metrics".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError, positive_int
from gmb_hf.base.files import read_jsonl, write_json, write_jsonl
from gmb_hf.base.stats import generator
from gmb_hf.crucible.bundles import CANDIDATE, read_bundles, read_rows, read_vectors, unit_rows
from gmb_hf.crucible.margins import Floats
from gmb_hf.crucible.scores import Encoder, ItemScores, encode_bundles

Strength = Literal["ultra", "mid", "low", "none"]
Outcome = Literal["accepted", "quarantined", "rejected"]

# Least share of lineups passed, in tenths (spec: 8-10, 5-7 and 2-4 passes of 10).
_TENTHS: tuple[tuple[int, Strength], ...] = ((8, "ultra"), (5, "mid"), (2, "low"))
QUANTILE = 0.9
"""From this quantile of organic dangers on, an item is of the hardest tier."""
_CHUNK = 256
_MOST = 10_000  # lineups of a candidate, negatives of a lineup
_FEW = 10  # items above the threshold
# Two equal unit rows may have a cosine a little below 1.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MiningSettings(Record):
    """How candidates are tested.

    Attributes:
        lineups: how many each candidate meets.
        lineup_size: negatives in each.
        threshold: least danger that passes.
        min_passes: least passes that are accepted.
        near_duplicate: cosine from which two texts count as the same.
        seed: of the lineups.
    """

    lineups: int = 10
    lineup_size: int = 10
    threshold: float = 0.0
    min_passes: int = 3
    near_duplicate: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("lineups", "lineup_size", "min_passes"):
            positive_int(name, getattr(self, name), most=_MOST)
        if self.min_passes > self.lineups:
            what = f"min_passes {self.min_passes} is above the number of lineups"
            raise InputError(f"{what}, {self.lineups}")
        if not math.isfinite(self.threshold):
            raise InputError(f"threshold must be a finite number, got {self.threshold!r}")
        if not 0 < self.near_duplicate <= 1:
            raise InputError(f"near_duplicate must be in (0, 1], got {self.near_duplicate!r}")
        generator(self.seed, 0)  # which refuses what is no seed


@dataclass(frozen=True)
class Mined(Record):
    """The result of one candidate.

    Attributes:
        outcome: accepted, quarantined (somebody should look) or rejected.
        reason: why it was not accepted, "" where it was.
        passes: lineups in which its danger reached the threshold.
        strength: by the share of passes.
        danger: of its median lineup; None where it was not tested.
        lineup: places in the pool of that lineup's negatives.
        duplicate_of: the earlier candidate that it nearly repeats, or None.
    """

    id: str
    outcome: Outcome
    reason: str
    passes: int
    strength: Strength
    danger: float | None
    lineup: tuple[int, ...]
    duplicate_of: str | None = None


@dataclass(frozen=True)
class ThresholdCalibration(Record):
    """Where a threshold comes from: the file of the scores of n organic items, and what made them.

    `quantile` is the share of their dangers below the threshold; `notes` a reader must know.
    """

    scores: str
    encoder: str
    content_hash: str
    quantile: float
    n: int
    notes: tuple[str, ...] = ()


def calibrated(
    settings: MiningSettings, scores: ItemScores, path: str | Path, quantile: float = QUANTILE
) -> tuple[MiningSettings, ThresholdCalibration]:
    """Settings whose threshold is a quantile of organic dangers (spec: "threshold calibration").

    The quantile is of the inverted distribution function, as the cutoffs of the tiers are: with
    0.9, a candidate passes a lineup where it is as hard as the hardest tenth of the organic items.

    Raises:
        InputError: the quantile is not between 0 and 1.
    """
    if not 0 < quantile < 1:
        raise InputError(f"--quantile must lie between 0 and 1, got {quantile!r}")
    threshold = float(np.quantile(scores.danger, quantile, method="inverted_cdf"))
    notes, above = [], int((scores.danger > threshold).sum())
    if above < _FEW:
        notes.append(
            f"only {above} of {scores.n:,} organic items lie above the threshold, so that another "
            "sample would give another one; score more of them, or lower --quantile"
        )
    sizes = scores.ranks.n_negatives
    if (sizes != settings.lineup_size).any():
        notes.append(
            f"organic items have {sizes.min()} to {sizes.max()} negatives, a lineup "
            f"{settings.lineup_size}; more negatives make an item more dangerous"
        )
    known = (scores.origin.known_as, scores.origin.content_hash)
    about = ThresholdCalibration(str(path), *known, quantile, scores.n, tuple(notes))
    return replace(settings, threshold=threshold), about


@dataclass(frozen=True)
class MiningResult(Record):
    """All candidates, and the mining pass rate (spec) with its 95% interval (Wilson 1927).

    The spec says that 10 lineups and 3 passes accept about 1.4% of candidates, and names neither
    data nor encoder nor threshold; that rate is unverified, and nothing here depends on it.

    Attributes:
        accepted, tested: numbers of candidates; near duplicates are not tested.
        pass_rate: accepted / tested; None where nothing was tested.
        calibration: where the threshold comes from; None where it was given.
    """

    settings: MiningSettings
    candidates: tuple[Mined, ...]
    accepted: int
    tested: int
    pass_rate: float | None
    ci_low: float | None
    ci_high: float | None
    calibration: ThresholdCalibration | None = None

    def summary(self) -> dict[str, Any]:
        """Everything but the single candidates, as plain data."""
        plain = self.to_dict()
        del plain["candidates"]
        strengths = [item.strength for item in self.candidates if item.outcome == "accepted"]
        plain["strengths"] = {name: strengths.count(name) for name in ("ultra", "mid", "low")}
        outcomes = [item.outcome for item in self.candidates]
        return {**plain, "quarantined": outcomes.count("quarantined")}


def mine(
    anchors: Floats,
    positives: Floats,
    pool: Floats,
    ids: Sequence[str],
    settings: MiningSettings | None = None,
) -> MiningResult:
    """Test every candidate in seeded lineups.

    A text of the pool that nearly repeats a candidate's anchor or positive is no negative of it and
    stays out of its lineups. The lineups of a candidate depend on the seed and on its place only.

    Args:
        anchors, positives: unit rows of the candidates, whose names are `ids`, float64 [C, D].
        pool: unit rows from which negatives are drawn, float64 [P, D].

    Returns:
        Candidates with `min_passes` are accepted; those with fewer that are still of strength low
        or more, and near duplicates of an earlier candidate, are quarantined; others are rejected.

    Raises:
        InputError: arrays that do not fit, or a pool that leaves too few negatives.
    """
    given = settings or MiningSettings()
    _check(anchors, positives, pool, ids)
    earlier = near_duplicates(anchors, given.near_duplicate)
    same, size = given.near_duplicate - _ROUNDING, given.lineup_size
    found: list[Mined] = []
    against = _against_pool(anchors, positives, pool)
    for place, (name, (similar, repeats, level)) in enumerate(zip(ids, against, strict=True)):
        if earlier[place] >= 0:
            original = ids[earlier[place]]
            reason = f"nearly repeats {original!r}"
            found.append(Mined(name, "quarantined", reason, 0, "none", None, (), original))
            continue
        allowed = np.flatnonzero((similar < same) & (repeats < same))
        if len(allowed) < size:
            raise InputError(
                f"candidate {name!r}: the pool has {len(allowed)} negatives for it, a lineup needs "
                f"{size}; give a larger pool or a smaller lineup"
            )
        rng = generator(given.seed, place)
        lineups = np.stack([rng.choice(allowed, size, replace=False) for _ in range(given.lineups)])
        danger = similar[lineups].max(axis=1) - level
        passes = int((danger >= given.threshold).sum())
        strength = pass_strength(passes, given.lineups)
        # The lower one of two middle lineups: a real lineup, and not the worse.
        middle = int(np.argsort(danger, kind="stable")[(len(danger) - 1) // 2])
        outcome: Outcome = "accepted"
        reason = ""
        if passes < given.min_passes:
            outcome = "rejected" if strength == "none" else "quarantined"
            reason = f"{passes} of {given.lineups} lineups, {given.min_passes} are needed"
        lineup, typical = tuple(lineups[middle].tolist()), float(danger[middle])
        found.append(Mined(name, outcome, reason, passes, strength, typical, lineup))
    tested = int((earlier < 0).sum())
    accepted = sum(item.outcome == "accepted" for item in found)
    rate = low = high = None
    if tested:
        interval = binomtest(accepted, tested).proportion_ci(method="wilson")
        rate, low, high = accepted / tested, float(interval.low), float(interval.high)
    return MiningResult(given, tuple(found), accepted, tested, rate, low, high)


def pass_strength(passes: int, lineups: int) -> Strength:
    """ultra from 8 of 10 passes, mid from 5, low from 2, else none; by share for other numbers.

    >>> [pass_strength(passes, 10) for passes in (10, 8, 7, 5, 4, 2, 1)]
    ['ultra', 'ultra', 'mid', 'mid', 'low', 'low', 'none']
    >>> pass_strength(4, 5)
    'ultra'
    """
    positive_int("lineups", lineups)
    if not 0 <= passes <= lineups:
        raise InputError(f"passes must be from 0 to {lineups}, got {passes}")
    # Whole numbers: a share of .8 in float64 might be just below .8.
    return next((name for tenths, name in _TENTHS if 10 * passes >= tenths * lineups), "none")


def near_duplicates(rows: Floats, threshold: float) -> NDArray[np.int64]:
    """For each unit row the first kept row that it nearly repeats, or -1, int64 [N].

    A row is kept if no kept row before it has a cosine of at least `threshold` with it.
    """
    n = len(rows)
    earlier = np.full(n, -1, dtype=np.int64)
    for start in range(0, n, _CHUNK):
        stop = min(start + _CHUNK, n)
        close = rows[start:stop] @ rows[:stop].T >= threshold - _ROUNDING
        for place in range(start, stop):
            same = np.flatnonzero(close[place - start, :place] & (earlier[:place] < 0))
            if len(same):
                earlier[place] = same[0]
    return earlier


def _against_pool(
    anchors: Floats, positives: Floats, pool: Floats
) -> Iterator[tuple[Floats, Floats, float]]:
    """Per candidate: cosines of anchor and pool, of positive and pool [P]; of both."""
    level = np.einsum("ij,ij->i", anchors, positives)
    for start in range(0, len(anchors), _CHUNK):
        part = slice(start, start + _CHUNK)
        cosines = (anchors[part] @ pool.T, positives[part] @ pool.T, level[part].tolist())
        yield from zip(*cosines, strict=True)


def _check(anchors: Floats, positives: Floats, pool: Floats, ids: Sequence[str]) -> None:
    if anchors.ndim != 2 or anchors.shape != positives.shape or len(anchors) != len(ids):
        found = f"got {anchors.shape} and {positives.shape}"
        raise InputError(f"{len(ids)} candidates need as many anchors and positives, {found}")
    width = anchors.shape[1]
    if pool.ndim != 2 or pool.shape[1] != width:
        what = f"the pool's embeddings have shape {pool.shape}"
        raise InputError(f"{what}, the candidates' width is {width}")
    if len(set(ids)) != len(ids):
        raise InputError("ids of candidates must differ")
    if not all(np.isfinite(rows).all() for rows in (anchors, positives, pool)):
        raise InputError("an embedding is not finite")


# Files of candidates and a pool of texts to mined bundles, and to those that need a look.


def mine_files(
    candidates: str | Path,
    pool: str | Path,
    out: str | Path,
    *,
    settings: MiningSettings,
    embeddings: str | Path | None = None,
    pool_embeddings: str | Path | None = None,
    encoder: str | None = None,
    organic: str | Path | None = None,
    quantile: float = QUANTILE,
    on_done: Callable[[str], None] = lambda _: None,
) -> tuple[MiningResult, list[Path]]:
    """Test candidates against lineups of a pool; the result, and the three files written.

    Args:
        candidates: bundles; their negatives, if any, are not used.
        pool: JSONL of texts: strings, or objects with `text`.
        out: a folder, for accepted.jsonl (each with the negatives of its median lineup),
            quarantine.jsonl and mining.json.
        settings: how candidates are tested.
        embeddings, pool_embeddings: `.npy` or `.safetensors`, both or neither.
        encoder: name or path of a sentence-transformers model.
        organic: scores of organic items, by the same encoder, from whose dangers the threshold is
            calibrated, in place of that of the settings.
        quantile: of those dangers.
        on_done: called after every batch of texts.
    """
    if (embeddings is None) != (pool_embeddings is None):
        raise InputError("--embeddings and --pool-embeddings go together; give both")
    if (embeddings is None) == (encoder is None):
        raise InputError("give either --embeddings with --pool-embeddings, or --encoder")
    calibration = None
    if organic is not None:
        scores = ItemScores.read(organic)
        settings, calibration = calibrated(settings, scores, organic, quantile)
    file, texts = read_bundles(candidates, needs=CANDIDATE), _pool_texts(pool)
    file.check_texts(CANDIDATE)
    if embeddings is not None and pool_embeddings is not None:
        vectors = read_vectors(embeddings, file)
        rows: NDArray[Any] = read_rows(pool_embeddings, len(texts), str(pool))
    else:
        model = Encoder(encoder or "")
        if calibration is not None and calibration.encoder != model.identity:
            made = f"were made by {calibration.encoder}, candidates are encoded by {model.identity}"
            raise InputError(f"--organic {organic}: its scores {made}; score them by it, too")
        vectors = encode_bundles(file, model, on_done)
        rows = model.encode(texts, on_done)
    result = mine(
        unit_rows(vectors.anchors, file.ids),
        unit_rows(vectors.positives, file.ids),
        unit_rows(rows, [f"pool line {number}" for number in range(1, len(texts) + 1)]),
        file.ids,
        settings,
    )
    result = replace(result, calibration=calibration)
    accepted, quarantined = [], []
    for bundle, item in zip(file.bundles, result.candidates, strict=True):
        texts_of = {"id": bundle.id, "anchor": bundle.anchor, "positive": bundle.positive}
        mined = {**texts_of, "negatives": [texts[number] for number in item.lineup]}
        found = {name: getattr(item, name) for name in ("passes", "strength", "danger")}
        if item.outcome == "accepted":
            counts = {"passes": item.passes, "lineups": settings.lineups}
            accepted.append({**mined, "mining": {**counts, **found}})
        elif item.outcome == "quarantined":
            why = {"reason": item.reason, **found, "duplicate_of": item.duplicate_of}
            quarantined.append({**mined, "quarantine": why})
    folder = Path(out)
    return result, [
        write_jsonl(folder / "accepted.jsonl", accepted),
        write_jsonl(folder / "quarantine.jsonl", quarantined),
        write_json(folder / "mining.json", result.summary()),
    ]


def _pool_texts(path: str | Path) -> list[str]:
    texts = []
    for where, data in read_jsonl(path):
        text = data.get("text") if isinstance(data, Mapping) else data
        if not isinstance(text, str):
            raise InputError(f"{where}: a line of the pool is text or an object with text")
        texts.append(text)
    if not texts:
        raise InputError(f"{path}: holds no texts")
    return texts
