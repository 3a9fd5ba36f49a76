"""Retention against generalization: which configurations no other one dominates.

Spec: Crucible metrics, "Pareto Analysis".
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError, positive_int, repeated
from gmb_hf.base.escape import number
from gmb_hf.base.files import read_json, read_jsonl, read_text, write_json
from gmb_hf.base.stats import MOST_DRAWS, generator
from gmb_hf.base.tables import Column, Table
from gmb_hf.crucible.margins import Floats
from gmb_hf.crucible.scores import ItemScores
from gmb_hf.report import style
from gmb_hf.report.sheet import Sheet

Pair = tuple[Floats, Floats]
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


def undominated(first: Floats, second: Floats) -> NDArray[np.bool_]:
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
    frozen: Pair, organic: Pair, *, draws: int = 2000, seed: int = 0
) -> float:
    """Share of bootstrap resamples of the items in which the first dominates the second.

    Args:
        frozen: outcome of each frozen item, [N], of the first and of the second configuration.
        organic: outcome of each organic item, [M], of both.
        draws, seed: of the resamples; items are drawn in pairs.
    """
    positive_int("draws", draws, most=MOST_DRAWS)
    rng = generator(seed, 0)
    retained = _resampled(*frozen, draws, rng, "frozen")
    general = _resampled(*organic, draws, rng, "organic")
    at_least = (retained >= 0) & (general >= 0)
    return float((at_least & ((retained > 0) | (general > 0))).mean())


def coordinates(results: Sequence[Mapping[str, Any]]) -> Pair:
    """`frozen_tier3` and `organic_holdout` of each result, float64 [N] each."""
    columns = []
    for key in (RETENTION, GENERALIZATION):
        for place, result in enumerate(results):
            value, name = result.get(key), result.get("name")
            good = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not good or not math.isfinite(value):  # type: ignore[arg-type]
                who = f"result {place}" + (f" ({name})" if name is not None else "")
                shown = repr(value) if key in result else "missing"
                raise InputError(f"{who}: {key} must be a finite number, it is {shown}")
        columns.append(np.array([result[key] for result in results], dtype=np.float64))
    return columns[0], columns[1]


def _check_rates(results: Sequence[Mapping[str, Any]]) -> None:
    """Refuse results that are no pass rates, such as percentages."""
    for place, result in enumerate(results):
        for key in (RETENTION, GENERALIZATION):
            if not 0 <= result[key] <= 1:
                who = f"result {place} ({result.get('name', 'without a name')})"
                must = "must be a pass rate in [0, 1]"
                raise InputError(f"{who}: {key} {must}, it is {result[key]!r}; percentages: / 100")


def _resampled(
    first: Floats, second: Floats, draws: int, rng: np.random.Generator, what: str
) -> Floats:
    """Sum of the differences in each resample, float64 [draws]."""
    n, other = len(first), len(second)
    if n != other:
        raise InputError(f"{what}: {n} items against {other}; the same items are needed")
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
_MOST_NAMES = 24
_MARGIN = 0.25


@dataclass(frozen=True)
class Configuration(Record):
    """One configuration: its name, its pass rates, and whether none dominates it."""

    name: str
    frozen_tier3: float
    organic_holdout: float
    on_frontier: bool


@dataclass(frozen=True)
class Frontier(Record):
    """Configurations, and which of them no other dominates.

    Attributes:
        configurations: in their order.
        dominance_probability: for each pair, how often the first dominates the second when items
            are resampled; {} where no item scores are named.
    """

    configurations: tuple[Configuration, ...]
    dominance_probability: dict[str, dict[str, float]] = field(default_factory=dict)

    def beaten_by(self, name: str) -> tuple[str, float] | None:
        """The configuration that dominates this one in most resamples, and their share."""
        shares = {other: of.get(name, 0.0) for other, of in self.dominance_probability.items()}
        most = max(shares, key=shares.__getitem__, default="")
        return (most, shares[most]) if shares.get(most) else None

    def write(self, stem: str | Path, *, figures: bool = True) -> list[Path]:
        """Write STEM.json, STEM.html and, with `figures`, STEM.png and .svg.

        STEM may have such an ending.
        """
        path = Path(stem)
        path = path.with_suffix("") if path.suffix in (".json", ".html", ".png", ".svg") else path
        data = write_json(path.with_name(f"{path.name}.json"), self.to_dict())
        drawn = style.save_figure(pareto_plot(self.configurations), path) if figures else []
        columns = (
            Column("configuration", take="name"),
            Column("frozen tier 3", number, take="frozen_tier3"),
            Column("organic", number, take="organic_holdout"),
            Column("on the frontier", take=lambda one: "yes" if one.on_frontier else "no"),
            Column("most surely beaten by", take=lambda one: (self.beaten_by(one.name) or [""])[0]),
        )
        best = [one.name for one in self.configurations if one.on_frontier]
        page = Sheet(
            "GMB Crucible",
            "Which configurations no other one beats in both retention and generalization",
            [f"{len(best)} of {len(self.configurations)}: {', '.join(best)}."],
            [("Retention and generalization", one) for one in drawn if one.suffix == ".png"],
            [Table.of(self.configurations, columns, caption="Every configuration")],
        )
        return [data, page.write(path.with_name(f"{path.name}.html")), *drawn]


def find_frontier(path: str | Path, *, draws: int = 2000, seed: int = 0) -> Frontier:
    """The Pareto frontier of a table of results.

    Args:
        path: CSV, a JSON list, or JSONL, with `frozen_tier3` and `organic_holdout`, and optionally
            `name`, and `frozen_scores` and `organic_scores`: files of item scores, relative to the
            table's folder.
        draws, seed: of the bootstrap.

    Raises:
        InputError: a missing value, or a table that is none.
    """
    rows = _read_results(Path(path))
    try:
        frozen, organic = coordinates(rows)
        _check_rates(rows)
    except InputError as error:
        raise error.reworded(f"{path}: {error}") from None
    names = [str(row.get("name", f"#{place + 1}")) for place, row in enumerate(rows)]
    dominance: dict[str, dict[str, float]] = {}
    missing = [
        (name, key)
        for name, row in zip(names, rows, strict=True)
        for key in _SCORES
        if not row.get(key)
    ]
    if 0 < len(missing) < len(_SCORES) * len(rows):
        name, key = missing[0]
        way_out = "name both files of every configuration, or leave out both columns"
        raise InputError(f"{path}: {name}: {key} is missing, others have such files; {way_out}")
    if not missing:
        if len(set(names)) != len(names):
            raise InputError(f"{path}: names must differ where item scores are compared")
        tables = [
            [ItemScores.read(Path(path).parent / str(row[key])) for key in _SCORES] for row in rows
        ]
        for one, other in itertools.permutations(range(len(rows)), 2):
            pairs = [
                ((a.margin[a.rows_of(b)] > 0).astype(float), (b.margin > 0).astype(float))
                for a, b in zip(tables[one], tables[other], strict=True)
            ]
            found = dominance_probability(*pairs, draws=draws, seed=seed)
            dominance.setdefault(names[one], {})[names[other]] = found
    on_frontier = undominated(frozen, organic)
    columns = zip(names, frozen.tolist(), organic.tolist(), on_frontier.tolist(), strict=True)
    return Frontier(tuple(Configuration(*cells) for cells in columns), dominance)


def _read_results(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV, a JSON list or a JSONL file."""
    if path.suffix == ".csv":
        table = csv.DictReader(io.StringIO(read_text(path)))
        try:
            rows: list[Any] = list(table)
        except csv.Error as error:
            raise InputError(f"{path}: is not CSV: {error}") from None
        twice = repeated(name for name in table.fieldnames or () if name)
        if twice is not None:
            raise InputError(f"{path}: column {twice!r} occurs more than once; remove one")
        for place, row in enumerate(rows):
            if any(row.pop(None, None) or ()):
                what = f"result {place} has more cells than there are columns"
                raise InputError(f"{path}: {what}; is a comma inside a cell?")
            for key, value in row.items():
                row[key] = value or None
                if key in (RETENTION, GENERALIZATION) and value:
                    with contextlib.suppress(TypeError, ValueError):
                        row[key] = float(value)
    elif path.suffix == ".jsonl":
        rows = [row for _, row in read_jsonl(path)]
    elif path.suffix == ".json":
        data = read_json(path)
        rows = data if isinstance(data, list) else [data]
    else:
        read_text(path)  # a file that is missing is named as such
        raise InputError(f"{path}: results come as .csv, .json or .jsonl")
    if not rows:
        raise InputError(f"{path}: holds no results")
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"{path}: result {place} must be an object, got {row!r}")
        if isinstance(row.get("name"), (dict, list)):
            raise InputError(f"{path}: result {place}: name must be text, got {row['name']!r}")
    return rows


@style.house_style()
def pareto_plot(configurations: Sequence[Configuration]) -> Figure:
    """A point per configuration; those on the frontier are filled, with a line beyond them."""
    frozen = np.array([one.frozen_tier3 for one in configurations])
    organic = np.array([one.organic_holdout for one in configurations])
    on = np.array([one.on_frontier for one in configurations], dtype=bool)
    figure = style.new_figure(5.2, 4.0)
    axes = figure.subplots()
    axes.set_xlabel("retention: pass rate on frozen tier3")
    axes.set_ylabel("generalization: pass rate on the organic holdout")
    axes.margins(0.12)
    style.rate_axis(axes.xaxis)
    style.rate_axis(axes.yaxis)
    hollow: Any = {"facecolors": "none", "edgecolors": style.MUTED, "label": "dominated"}
    axes.scatter(frozen[~on], organic[~on], s=22, zorder=2, **hollow)
    order = [place for place in np.lexsort((-organic, frozen)) if on[place]]
    x, y = frozen[order], organic[order]
    axes.scatter(x, y, s=30, color=style.BLUE, label="on the frontier", zorder=3)
    (left, right), (low, top) = axes.get_xlim(), axes.get_ylim()
    # What is dominated lies below and to the left of this staircase.
    stairs = np.concatenate([[left], x, x[-1:]]), np.concatenate([y[:1], y, [low]])
    axes.step(*stairs, where="pre", color=style.BLUE, linewidth=1.1, alpha=0.5, zorder=1)
    # Above and to the right of its point a name crosses no line; the last ones need space.
    axes.set(xlim=(left, right + _MARGIN * (right - left)), ylim=(low, top))
    # Of many configurations only those on the frontier are named, one for each point.
    named = configurations
    if len(configurations) > _MOST_NAMES:
        named = [one for one in configurations if one.on_frontier][:_MOST_NAMES]
    points: dict[tuple[float, float], list[Configuration]] = {}
    for one in named:
        points.setdefault((one.frozen_tier3, one.organic_holdout), []).append(one)
    for point, same in points.items():
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        size, colour = (7, style.INK) if same[0].on_frontier else (6.5, style.MUTED)
        name = style.shorten(same[0].name, 22) + more
        look: Any = {"fontsize": size, "color": colour, "path_effects": style.HALO}
        style.note(axes, name, point, (6, 4), zorder=4, **look)
    figure.legend(loc="outside upper left", ncols=2)
    return figure
