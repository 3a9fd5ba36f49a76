"""Models on the same items: paired tests, scoreboards side by side, and seeds taken together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base import stats
from gmb_hf.base.documents import Record, plain_data
from gmb_hf.base.errors import InputError, choose, repeated
from gmb_hf.base.files import check_file, read_json, write_json
from gmb_hf.base.fingerprints import SHOWN, FingerprintMismatchError, missing_items
from gmb_hf.crucible import exposure
from gmb_hf.crucible.margins import HARDEST, TIERS, check_names
from gmb_hf.crucible.scoreboard import EvalHeader, Scoreboard, TierStats, relative_path

OVERALL = "overall"
COMPARED = ("pass_rate", "mean_margin", "median_margin", "q10_margin", "q90_margin", "mean_rank")


@dataclass(frozen=True)
class PairedTest(Record):
    """Tests on the n items of one group, "overall" or a tier.

    They are McNemar's exact test of the passes and the sign-flip test of the mean margin, each with
    its p-value Holm-adjusted over the groups.
    """

    group: str
    n: int
    mcnemar: stats.McNemar
    mcnemar_adjusted: float
    permutation: stats.Permutation
    permutation_adjusted: float


def paired_tests(
    first: ArrayLike,
    second: ArrayLike,
    tiers: Sequence[str] | NDArray[np.str_] | None = None,
    *,
    permutations: int = 9999,
    seed: int = 0,
) -> list[PairedTest]:
    """Compare the margins of two models, overall and in each tier that has items.

    Args:
        first, second: margins of the same items, float64 [N].
        tiers: tier of each item; None tests the whole only.
        permutations, seed: of the sign flips of each permutation test.

    Raises:
        InputError: arrays that do not fit, no items, or a margin that is not finite.
    """
    a, b = stats.checked_pairs(first, second)
    if tiers is not None and len(tiers) != len(a):
        raise InputError(f"{len(a)} items but {len(tiers)} tiers; give one for each")
    groups = _rows_of_groups(len(a), tiers)
    pairs = [(a[rows], b[rows]) for rows in groups.values()]
    passes = [stats.mcnemar(x > 0, y > 0) for x, y in pairs]
    flips = partial(stats.paired_permutation, permutations=permutations, seed=seed)
    shifts = [flips(x, y) for x, y in pairs]
    by_passes, by_margin = (
        [float(p or 0.0) for p in stats.holm([one.p_value for one in tests])]
        for tests in (passes, shifts)
    )
    sizes = [len(x) for x, _ in pairs]
    return list(map(PairedTest, groups, sizes, passes, by_passes, shifts, by_margin))


def _rows_of_groups(
    n: int, tiers: Sequence[str] | NDArray[np.str_] | None
) -> dict[str, NDArray[np.bool_]]:
    """The items of the whole and of each tier that has some, bool [n] each."""
    groups = {OVERALL: np.ones(n, dtype=bool)}
    if tiers is not None:
        labels = np.asarray(tiers, dtype=np.str_)
        check_names(np.unique(labels).tolist())
        groups |= {name: labels == name for name in TIERS if (labels == name).any()}
    return groups


# Two scoreboards of the same data, with guardrails, and paired tests where item scores are stored.


@dataclass(frozen=True)
class ScoreboardComparison(Record):
    """What changed from one scoreboard to the next.

    Attributes:
        comparable: whether both are of the same data; False never passes a gate.
        mismatches: why not, a sentence each.
        overall: next - previous of each statistic; None where either is null.
        by_tier: the same for each tier that both have.
        paired_tests: on the items; () where their scores are not there, or not the same.
    """

    comparable: bool
    mismatches: tuple[str, ...]
    overall: dict[str, float | None]
    by_tier: dict[str, dict[str, float | None]]
    paired_tests: tuple[PairedTest, ...] = ()
    guardrails: tuple[exposure.GuardrailFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether a gate lets it through: the same data, and no guardrail from CRITICAL on."""
        return self.comparable and exposure.worst(self.guardrails) < exposure.Level.CRITICAL

    @property
    def obstacles(self) -> list[str]:
        """The findings from CRITICAL on, which a gate names."""
        return [one.message for one in self.guardrails if one.level >= exposure.Level.CRITICAL]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data, ready for JSON."""
        plain = plain_data(self)
        head = {key: plain.pop(key) for key in ("comparable", "mismatches", "overall", "by_tier")}
        guardrails = [finding.to_dict() for finding in self.guardrails]
        return {**head, "passes": self.passes, **plain, "guardrails": guardrails}

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically."""
        return write_json(path, self.to_dict())


def compare_scoreboards(
    previous: Scoreboard, following: Scoreboard, *, allow_fingerprint_mismatch: bool = False
) -> ScoreboardComparison:
    """Differences, following - previous.

    With `allow_fingerprint_mismatch` different data are compared all the same, for exploration; the
    result says `comparable: false`.

    Raises:
        FingerprintMismatchError: the scoreboards are of different data.
    """
    found = mismatches(previous.eval_header, following.eval_header)
    if found and not allow_fingerprint_mismatch:
        raise _not_comparable(found)
    changes: dict[str, dict[str, float | None]] = {}
    for name, (before, after) in _groups([previous, following]).items():
        pairs = {key: (getattr(before, key), getattr(after, key)) for key in COMPARED}
        changes[name] = {
            key: None if None in two else two[1] - two[0] for key, two in pairs.items()
        }
    return ScoreboardComparison(not found, tuple(found), changes.pop(OVERALL), changes)


def mismatches(first: EvalHeader, second: EvalHeader) -> list[str]:
    """In what two headers differ that makes their scoreboards incomparable; [] if in nothing.

    Content hashes decide where both headers have one, so that a reformatted file is the same data;
    else the hashes of the files' bytes do, as far as both are stored. Another version is another
    evaluation set, whatever it holds.
    """
    found = []
    name, one, other = "content", first.content_hash, second.content_hash
    if one is None or other is None:
        name, one, other = "file", first.source_hash, second.source_hash
    shared = min(len(one), len(other))
    if one[:shared] != other[:shared]:
        found.append(f"the {name} hash is {one[:SHOWN]} here and {other[:SHOWN]} there")
    for field in ("version", "seed", "item_count"):
        here, there = getattr(first, field), getattr(second, field)
        if here != there:
            found.append(f"{field} is {here} here and {there} there")
    # One without tiers can still be compared as a whole.
    here, there = (
        "/".join(str(header.tier_distribution.get(name, 0)) for name in TIERS)
        for header in (first, second)
    )
    if first.tier_distribution and second.tier_distribution and here != there:
        found.append(f"the tiers hold {here} items here and {there} there")
    return found


def compare_files(
    previous: str | Path,
    following: str | Path,
    *,
    organic: tuple[str | Path, str | Path] | None = None,
    allow_fingerprint_mismatch: bool = False,
    permutations: int = 9999,
    seed: int = 0,
) -> ScoreboardComparison:
    """Compare two scoreboards of the frozen set, with guardrails and paired tests.

    Args:
        previous, following: the files, the older one first.
        organic: scoreboards of the organic holdout, before and after.
        allow_fingerprint_mismatch: show the numbers of different data all the same.
        permutations, seed: of the permutation tests.

    Raises:
        FingerprintMismatchError: different data, and no leave to compare them.
    """
    before, after = Scoreboard.read(previous), Scoreboard.read(following)
    first, second = before.item_scores(previous), after.item_scores(following)
    compared = compare_scoreboards(before, after, allow_fingerprint_mismatch=True)
    found = compared.mismatches
    notes = []
    if found and first and second:  # whether the newer set only grew, by the hashes of its items
        hashes = (sorted(map(bytes.fromhex, scores.item_hashes)) for scores in (first, second))
        notes.append(f"the newer set was only appended to: all {first.n} older items are in it")
        if missing := missing_items(*hashes):
            notes = [f"{missing} of {first.n} older items are gone or were changed"]
    if found and not allow_fingerprint_mismatch:
        raise _not_comparable([*found, *notes])
    tests: list[PairedTest] = []
    moved = 0
    if first is None or second is None:
        notes.append("no paired tests: the item scores behind the scoreboards are not there")
    elif found:
        notes.append("no paired tests: the items are not the same")
    else:
        rows = first.rows_of(second)
        if first.tiers is not None and second.tiers is not None:
            moved = int((np.array(first.tiers)[rows] != np.array(second.tiers)).sum())
        if moved:
            notes.append(
                f"{moved:,} of {second.n:,} items are in another tier than before: each model has "
                "tiers of its own, so that the changes by tier are between different items and no "
                "guardrail looks at them; gmb crucible tiers assign gives both the same tiers"
            )
        tests = paired_tests(
            first.margin[rows], second.margin, second.tiers, permutations=permutations, seed=seed
        )
    if not found and before.eval_header.fingerprint != after.eval_header.fingerprint:
        notes.append("the same items in other bytes: the fingerprints differ, the contents do not")
    boards, tiered = (before, after), bool(before.by_tier and after.by_tier)
    hardest = [getattr(board.by_tier.get(HARDEST), "pass_rate", None) for board in boards]
    guardrails = [
        exposure.check_fingerprints(found),
        exposure.check_q10_margin(before.overall.q10_margin, after.overall.q10_margin),
    ]
    if tiered and not moved:
        guardrails.append(exposure.check_frozen_tier3(*hardest))
    if organic is not None:
        one, other = (Scoreboard.read(path) for path in organic)
        differ = [f"organic: {reason}" for reason in mismatches(one.eval_header, other.eval_header)]
        if differ:
            guardrails.append(exposure.check_fingerprints(differ))
        frozen = hardest if tiered else [board.overall.pass_rate for board in boards]
        rates = (one.overall.pass_rate, other.overall.pass_rate)
        guardrails.append(exposure.check_organic((frozen[0], frozen[1]), rates))
    return replace(
        compared, paired_tests=tuple(tests), guardrails=tuple(guardrails), notes=tuple(notes)
    )


def _not_comparable(reasons: Sequence[str]) -> FingerprintMismatchError:
    return FingerprintMismatchError(
        f"the scoreboards cannot be compared: {'; '.join(reasons)} "
        "(--allow-fingerprint-mismatch shows the numbers all the same)"
    )


# Scoreboards of several training seeds, and of another configuration.


@dataclass(frozen=True)
class Aggregate:
    """Scoreboards of several seeds, and those that they are compared with.

    Attributes:
        scoreboards: files, one per seed.
        method: of the intervals.
        groups: for "overall" and each tier, the statistics of each metric; None where a seed has
            none.
        against: the same of the other configuration; None without one.
        separated: the spec's rule of two points on the pass rate, by group; None where it does not
            apply (other than three seeds each).
        bootstrap: difference in pass rate over seeds and items, by group, where the item scores
            are stored.
    """

    scoreboards: tuple[Path, ...]
    method: stats.IntervalMethod
    groups: dict[str, dict[str, stats.AggregateStats | None]]
    against: dict[str, dict[str, stats.AggregateStats | None]] | None
    separated: dict[str, bool | None]
    bootstrap: dict[str, stats.HierarchicalBootstrap]
    notes: tuple[str, ...]

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically; scoreboards are named as seen from its folder."""
        named = [relative_path(board, Path(path).parent) for board in self.scoreboards]
        return write_json(path, {**plain_data(self), "scoreboards": named})


def aggregate_files(
    paths: Sequence[str | Path],
    *,
    against: str | Path | None = None,
    method: str = "t",
    allow_fingerprint_mismatch: bool = False,
    draws: int = 2000,
    seed: int = 0,
) -> Aggregate:
    """Statistics of scoreboards over training seeds, compared with another configuration's.

    Args:
        paths: scoreboards, one per seed, all of one evaluation set unless
            `allow_fingerprint_mismatch`.
        against: what this function left of the configuration to compare with.
        method: "t" or "normal".
        draws, seed: of the bootstrap over seeds and items.

    Raises:
        InputError: a scoreboard that is named twice, or `against` is no aggregate.
        FingerprintMismatchError: the scoreboards are of different data.
    """
    if not paths:
        raise InputError("no scoreboards given; name one per seed")
    kind = cast("stats.IntervalMethod", choose("method", method, ("t", "normal")))
    files = [Path(path) for path in paths]
    other_files = _scoreboards_in(against) if against is not None else []
    every = [*files, *other_files]
    for path in every:
        check_file(path)
    twice = repeated(path.resolve() for path in every)
    if twice is not None:
        named = [path for path in every if path.resolve() == twice]
        raise InputError(f"{named[1]}: is named twice; one scoreboard is one seed")
    boards = {path: Scoreboard.read(path) for path in every}
    notes = []
    for path, board in boards.items():
        found = mismatches(boards[files[0]].eval_header, board.eval_header)
        if found and not allow_fingerprint_mismatch:
            raise FingerprintMismatchError(
                f"{files[0]} and {path} cannot be taken together: {'; '.join(found)} "
                "(--allow-fingerprint-mismatch takes them all the same)"
            )
        if found:
            notes.append(f"not comparable, {path}: {'; '.join(found)}")
    comparable = not notes
    if len(files) == 1:
        notes.append("one seed has no interval")
    mine, theirs = (_groups([boards[path] for path in side]) for side in (files, other_files))
    bootstrap: dict[str, stats.HierarchicalBootstrap] = {}
    if other_files and comparable:
        sides = [
            [table for path in side if (table := boards[path].item_scores(path)) is not None]
            for side in (other_files, files)
        ]
        if sum(map(len, sides)) < len(boards):
            notes.append("no bootstrap: the item scores behind the scoreboards are not there")
        else:  # pass rates of `files` less those of the others
            frame = sides[0][0]
            first, second = (
                np.array([table.margin[table.rows_of(frame)] > 0 for table in side], dtype=float)
                for side in sides
            )
            resample = partial(stats.hierarchical_bootstrap, draws=draws, seed=seed)
            groups = _rows_of_groups(frame.n, frame.tiers).items()
            bootstrap = {name: resample(first[:, at], second[:, at]) for name, at in groups}
    return Aggregate(
        scoreboards=tuple(files),
        method=kind,
        groups=_aggregated(mine, kind),
        against=_aggregated(theirs, kind) if other_files else None,
        separated={
            name: None if one is None or other is None else stats.meets_separation_rule(one, other)
            for name in mine
            if name in theirs
            for one, other in [[_known(side[name], "pass_rate") for side in (mine, theirs)]]
        },
        bootstrap=bootstrap,
        notes=tuple(notes),
    )


def _scoreboards_in(path: str | Path) -> list[Path]:
    """The scoreboards that an aggregate names."""
    data = read_json(path)
    named = data.get("scoreboards") if isinstance(data, dict) else None
    if not isinstance(named, list) or not named or not all(isinstance(one, str) for one in named):
        raise InputError(
            f"{path}: is no aggregate; make one of the other configuration's scoreboards first: "
            "gmb crucible aggregate BOARDS --out OTHER.json"
        )
    return [Path(path).parent / name for name in named]


def _groups(boards: Sequence[Scoreboard]) -> dict[str, list[TierStats]]:
    """The whole and each tier that all have, of every scoreboard; {} of none."""
    shared = [name for name in TIERS if all(name in board.by_tier for board in boards)]
    groups = {OVERALL: [board.overall for board in boards]}
    groups |= {name: [board.by_tier[name] for board in boards] for name in shared}
    return groups if boards else {}


def _known(seeds: Sequence[TierStats], metric: str) -> list[float] | None:
    """A metric of every seed; None where a seed has none."""
    values = [getattr(one, metric) for one in seeds]
    return None if None in values else values


def _aggregated(
    groups: dict[str, list[TierStats]], method: stats.IntervalMethod
) -> dict[str, dict[str, stats.AggregateStats | None]]:
    def one(values: list[float] | None) -> stats.AggregateStats | None:
        return None if values is None else stats.aggregate(values, method=method)

    return {
        name: {metric: one(_known(seeds, metric)) for metric in COMPARED}
        for name, seeds in groups.items()
    }
