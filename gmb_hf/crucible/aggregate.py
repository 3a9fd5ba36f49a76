"""Scoreboards of several training seeds, summed up, and held against another configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from gmb_hf.crucible.compare import COMPARED, OVERALL, mismatches
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.score import scores_behind, seen_from
from gmb_hf.crucible.scoreboard import Scoreboard
from gmb_hf.crucible.tiers import TIERS
from gmb_hf.documents import plain_data
from gmb_hf.errors import InputError, choose
from gmb_hf.files import read_json, write_json
from gmb_hf.fingerprints import FingerprintMismatchError
from gmb_hf.stats import (
    AggregateStats,
    HierarchicalBootstrap,
    IntervalMethod,
    aggregate,
    hierarchical_bootstrap,
    meets_separation_rule,
)


@dataclass(frozen=True)
class Aggregated:
    """Scoreboards of several seeds, and those they are held against.

    Attributes:
        scoreboards: files, one per seed.
        method: of the intervals.
        groups: for "overall" and each tier, the statistics of each metric; None where a seed has
            none.
        against: the same of the other configuration; None without one.
        separated: the spec's rule of two points on the pass rate, by group; None where it does not
            apply (other than three seeds each).
        bootstrap: difference in pass rate over seeds and items, by group, where the item scores
            are at hand.
        notes: what a reader must know.
    """

    scoreboards: tuple[Path, ...]
    method: IntervalMethod
    groups: dict[str, dict[str, AggregateStats | None]]
    against: dict[str, dict[str, AggregateStats | None]] | None
    separated: dict[str, bool | None]
    bootstrap: dict[str, HierarchicalBootstrap]
    notes: tuple[str, ...]

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically; scoreboards are named as seen from its folder."""
        folder = Path(path).resolve().parent
        named = [seen_from(folder, board) for board in self.scoreboards]
        return write_json(path, {**plain_data(self), "scoreboards": named})


def aggregate_files(
    paths: Sequence[str | Path],
    *,
    against: str | Path | None = None,
    method: str = "t",
    allow_fingerprint_mismatch: bool = False,
    draws: int = 2000,
    seed: int = 0,
) -> Aggregated:
    """Sum up scoreboards over training seeds, and compare with those of another configuration.

    Args:
        paths: scoreboards, one per seed, all of one evaluation set.
        against: what this function left of the configuration to compare with.
        method: "t" or "normal".
        allow_fingerprint_mismatch: take different evaluation sets all the same.
        draws, seed: of the bootstrap over seeds and items.

    Raises:
        InputError: a scoreboard that is named twice, or `against` is no aggregate.
        FingerprintMismatchError: the scoreboards speak of different data.
    """
    if not paths:
        raise InputError("no scoreboards given; name one per seed")
    kind = cast("IntervalMethod", choose("method", method, ("t", "normal")))
    others = _scoreboards_of(against) if against is not None else []
    _refuse_repeated([*paths, *others])
    mine = [Scoreboard.read(path) for path in paths]
    theirs = [Scoreboard.read(path) for path in others]
    notes = []
    for path, board in zip([*paths, *others], [*mine, *theirs], strict=True):
        found = mismatches(mine[0].eval_header, board.eval_header)
        if found and not allow_fingerprint_mismatch:
            raise FingerprintMismatchError(
                f"{paths[0]} and {path} cannot be taken together: {'; '.join(found)} "
                "(--allow-fingerprint-mismatch takes them all the same)"
            )
        if found:
            notes.append(f"not comparable, {path}: {'; '.join(found)}")
    if len(mine) == 1:
        notes.append("one seed has no interval")
    groups = _groups(mine, kind)
    other = _groups(theirs, kind) if theirs else None
    bootstrap: dict[str, HierarchicalBootstrap] = {}
    if theirs and not any(note.startswith("not comparable") for note in notes):
        tables = [
            [scores_behind(path, board) for path, board in zip(files, boards, strict=True)]
            for files, boards in ((others, theirs), (paths, mine))
        ]
        if any(table is None for side in tables for table in side):
            notes.append("no bootstrap: the item scores behind the scoreboards are not there")
        else:
            bootstrap = _bootstrap(
                [[table for table in side if table is not None] for side in tables], draws, seed
            )
    separated = {name: _separated(mine, theirs, name) for name in groups if other and name in other}
    files = tuple(map(Path, paths))
    return Aggregated(files, kind, groups, other, separated, bootstrap, tuple(notes))


def _scoreboards_of(path: str | Path) -> list[Path]:
    """The scoreboards that an aggregate names."""
    data = read_json(path)
    named = data.get("scoreboards") if isinstance(data, dict) else None
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise InputError(
            f"{path}: is no aggregate; make one of the other configuration's scoreboards first: "
            "gmb crucible aggregate BOARDS --out OTHER.json"
        )
    return [Path(path).parent / name for name in named]


def _refuse_repeated(paths: Sequence[str | Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        place = Path(path).resolve()
        if place in seen:
            raise InputError(f"{path}: is named twice; one scoreboard is one seed")
        seen.add(place)


def _groups(
    boards: Sequence[Scoreboard], method: IntervalMethod
) -> dict[str, dict[str, AggregateStats | None]]:
    return {
        name: {metric: _aggregated(boards, name, metric, method) for metric in COMPARED}
        for name in (OVERALL, *TIERS)
        if name == OVERALL or all(name in board.by_tier for board in boards)
    }


def _aggregated(
    boards: Sequence[Scoreboard], name: str, metric: str, method: IntervalMethod
) -> AggregateStats | None:
    values = [_value(board, name, metric) for board in boards]
    known = [value for value in values if value is not None]
    return aggregate(known, method=method) if len(known) == len(values) else None


def _value(board: Scoreboard, name: str, metric: str) -> float | None:
    stats = board.overall if name == OVERALL else board.by_tier[name]
    found: float | None = getattr(stats, metric)
    return found


def _separated(mine: Sequence[Scoreboard], theirs: Sequence[Scoreboard], name: str) -> bool | None:
    sides = [[_value(board, name, "pass_rate") for board in side] for side in (mine, theirs)]
    known = [[value for value in side if value is not None] for side in sides]
    if any(len(some) < len(side) for some, side in zip(known, sides, strict=True)):
        return None
    return meets_separation_rule(*known)


def _bootstrap(
    sides: Sequence[Sequence[ItemScores]], draws: int, seed: int
) -> dict[str, HierarchicalBootstrap]:
    """Pass rates of the second side less those of the first, by group."""
    frame = sides[0][0]
    passes = []
    for side in sides:
        aligned = [table.margin[table.places_of(frame)] > 0 for table in side]
        passes.append(np.array(aligned, dtype=np.float64))
    groups = {OVERALL: np.ones(frame.n, dtype=bool)}
    if frame.tiers is not None:
        labels = np.array(frame.tiers)
        groups |= {name: labels == name for name in TIERS if (labels == name).any()}
    return {
        name: hierarchical_bootstrap(passes[0][:, rows], passes[1][:, rows], draws=draws, seed=seed)
        for name, rows in groups.items()
    }
