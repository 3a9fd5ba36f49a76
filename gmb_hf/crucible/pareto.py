"""Retention against generalization: which configurations no other one beats.

Spec: Crucible metrics, "Pareto Analysis".
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.items import ItemScores
from gmb_hf.errors import InputError, positive_int
from gmb_hf.files import parse_json, read_text, write_json
from gmb_hf.stats import generator

RETENTION, GENERALIZATION = "frozen_tier3", "organic_holdout"
_CHUNK = 2_000_000


def pareto_frontier(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results that none dominates, in their order; equal ones are all kept.

    Args:
        results: each with the numbers `frozen_tier3` and `organic_holdout`; larger is better.

    Raises:
        InputError: a number is missing or not finite.

    >>> rows = [{"frozen_tier3": x, "organic_holdout": y} for x, y in [(1, 2), (2, 1), (1, 1)]]
    >>> pareto_frontier(rows) == rows[:2]
    True
    """
    first, second = coordinates(results)
    on = undominated(first, second)
    return [result for result, kept in zip(results, on.tolist(), strict=True) if kept]


def undominated(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of N points no other dominates, bool [N].

    A point dominates another if it is at least as good in both and better in one.
    """
    n = len(first)
    if not n:
        return np.zeros(0, dtype=bool)
    order = np.lexsort((-second, -first))
    x, y = first[order], second[order]
    # Within one x, only the best y can stay; it must also beat the best y of every larger x.
    begins = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    best = y[begins]
    before = np.append(-np.inf, np.maximum.accumulate(best)[:-1])
    group = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, n)))
    kept = np.zeros(n, dtype=bool)
    kept[order] = (y == best[group]) & (best > before)[group]
    return kept


def dominance_probability(
    frozen: tuple[NDArray[np.float64], NDArray[np.float64]],
    organic: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    draws: int = 2000,
    seed: int = 0,
) -> float:
    """Share of bootstrap resamples of the items in which the first dominates the second.

    Args:
        frozen: outcome of each frozen item, [N], of the first and of the second configuration.
        organic: outcome of each organic item, [M], of both.
        draws: how many resamples; items are drawn in pairs.
        seed: of the resamples.
    """
    positive_int("draws", draws)
    rng = generator(seed, 0)
    retained = _resampled(*frozen, draws, rng, "frozen")
    general = _resampled(*organic, draws, rng, "organic")
    at_least = (retained >= 0) & (general >= 0)
    return float((at_least & ((retained > 0) | (general > 0))).mean())


def coordinates(
    results: Sequence[Mapping[str, Any]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """`frozen_tier3` and `organic_holdout` of each result, float64 [N] each."""
    columns = []
    for key in (RETENTION, GENERALIZATION):
        for number, result in enumerate(results):
            value = result.get(key)
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not good or not math.isfinite(value):  # type: ignore[arg-type]
                name = result.get("name")
                who = f"result {number}" + (f" ({name})" if name is not None else "")
                shown = repr(value) if key in result else "missing"
                raise InputError(f"{who}: {key} must be a finite number, it is {shown}")
        columns.append(np.array([result[key] for result in results], dtype=np.float64))
    return columns[0], columns[1]


def _resampled(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    draws: int,
    rng: np.random.Generator,
    what: str,
) -> NDArray[np.float64]:
    """Sum of the differences in each resample, float64 [draws]."""
    if len(first) != len(second):
        raise InputError(
            f"{what}: {len(first)} items against {len(second)}; the same items are needed"
        )
    n = len(first)
    if not n:
        raise InputError(f"{what}: no items")
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    step = max(1, _CHUNK // n)
    sums = [
        difference[rng.integers(n, size=(min(step, draws - start), n))].sum(axis=1)
        for start in range(0, draws, step)
    ]
    return np.concatenate(sums)


# Tables of results to their Pareto frontier, with the items behind them where these are named.


_SCORES = ("frozen_scores", "organic_scores")


@dataclass(frozen=True)
class Configuration:
    """One configuration.

    Attributes:
        name: its name.
        frozen, organic: its pass rates.
        on_frontier: whether none dominates it.
        beaten_by: the configuration that dominates it in most resamples, and their share; None
            where no item scores are named, or none ever does.
    """

    name: str
    frozen: float
    organic: float
    on_frontier: bool
    beaten_by: tuple[str, float] | None


@dataclass(frozen=True)
class Frontier:
    """Configurations, and which of them no other dominates.

    Attributes:
        names: of the configurations.
        frozen, organic: their pass rates, [N].
        on_frontier: bool [N].
        dominance: for each pair, how often the first dominates the second when items are
            resampled; {} where no item scores are named.
    """

    names: tuple[str, ...]
    frozen: NDArray[np.float64]
    organic: NDArray[np.float64]
    on_frontier: NDArray[np.bool_]
    dominance: dict[str, dict[str, float]]

    def rows(self) -> list[Configuration]:
        """The configurations one by one, in their order."""
        found = []
        for place, name in enumerate(self.names):
            beaten = [
                (other, shares[name]) for other, shares in self.dominance.items() if name in shares
            ]
            most = max(beaten, key=lambda pair: pair[1], default=None)
            x, y = float(self.frozen[place]), float(self.organic[place])
            on = bool(self.on_frontier[place])
            found.append(Configuration(name, x, y, on, most if most and most[1] else None))
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        return {
            "configurations": [
                {
                    "name": row.name,
                    RETENTION: row.frozen,
                    GENERALIZATION: row.organic,
                    "on_frontier": row.on_frontier,
                }
                for row in self.rows()
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


def _rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV, a JSON list or a JSONL file."""
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
