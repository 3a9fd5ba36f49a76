"""Two models on the same items: which tests say that they differ, overall and tier by tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.crucible.exposure import (
    Finding,
    Level,
    check_fingerprints,
    check_frozen_tier3,
    check_organic,
    check_q10_margin,
    worst,
)
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.score import scores_behind
from gmb_hf.crucible.scoreboard import EvalHeader, Scoreboard, TierStats
from gmb_hf.crucible.tiers import HARDEST, TIERS, check_names
from gmb_hf.documents import Record
from gmb_hf.errors import InputError
from gmb_hf.files import write_json
from gmb_hf.fingerprints import SHOWN, FingerprintMismatchError, missing_items
from gmb_hf.stats import McNemar, Permutation, checked_pairs, holm, mcnemar, paired_permutation

OVERALL = "overall"


@dataclass(frozen=True)
class PairedTest(Record):
    """Tests on one group of items.

    Attributes:
        group: "overall" or a tier.
        n: its items.
        mcnemar: exact test of the passes.
        mcnemar_adjusted: its p-value, Holm-adjusted over the groups.
        permutation: sign-flip test of the mean margin.
        permutation_adjusted: its p-value, Holm-adjusted over the groups.
    """

    group: str
    n: int
    mcnemar: McNemar
    mcnemar_adjusted: float
    permutation: Permutation
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
        permutations: sign flips of each permutation test.
        seed: of the sign flips.

    Raises:
        InputError: arrays that do not fit, no items, or a margin that is not finite.
    """
    a, b = checked_pairs(first, second)
    groups: dict[str, NDArray[np.bool_]] = {OVERALL: np.ones(len(a), dtype=bool)}
    if tiers is not None:
        labels = np.asarray(tiers, dtype=np.str_)
        if len(labels) != len(a):
            raise InputError(f"{len(a)} items but {len(labels)} tiers; give one for each")
        check_names(np.unique(labels).tolist())
        groups |= {name: labels == name for name in TIERS if (labels == name).any()}
    passes = {name: mcnemar(a[rows] > 0, b[rows] > 0) for name, rows in groups.items()}
    shifts = {
        name: paired_permutation(a[rows], b[rows], permutations=permutations, seed=seed)
        for name, rows in groups.items()
    }
    by_passes = holm([found.p_value for found in passes.values()])
    by_margin = holm([found.p_value for found in shifts.values()])
    return [
        PairedTest(
            group=name,
            n=int(rows.sum()),
            mcnemar=passes[name],
            mcnemar_adjusted=float(by_passes[place] or 0.0),
            permutation=shifts[name],
            permutation_adjusted=float(by_margin[place] or 0.0),
        )
        for place, (name, rows) in enumerate(groups.items())
    ]


# Two scoreboards side by side, if they speak of the same data.


COMPARED = ("pass_rate", "mean_margin", "median_margin", "q10_margin", "q90_margin", "mean_rank")


@dataclass(frozen=True)
class Comparison(Record):
    """What changed from one scoreboard to the next.

    Attributes:
        comparable: whether both speak of the same data; False never passes a gate.
        mismatches: why not, a sentence each.
        overall: next - previous of each statistic; None where either is null.
        by_tier: the same for each tier that both have.
    """

    comparable: bool
    mismatches: tuple[str, ...]
    overall: dict[str, float | None]
    by_tier: dict[str, dict[str, float | None]]


def compare_scoreboards(
    previous: Scoreboard, following: Scoreboard, *, allow_fingerprint_mismatch: bool = False
) -> Comparison:
    """Differences, following - previous.

    Args:
        previous, following: the scoreboards, the older one first.
        allow_fingerprint_mismatch: compare different data all the same, for exploration; the
            result says `comparable: false`.

    Raises:
        FingerprintMismatchError: the scoreboards speak of different data.
    """
    found = mismatches(previous.eval_header, following.eval_header)
    if found and not allow_fingerprint_mismatch:
        raise FingerprintMismatchError(
            f"the scoreboards cannot be compared: {'; '.join(found)} "
            "(--allow-fingerprint-mismatch shows the numbers all the same)"
        )
    return Comparison(
        comparable=not found,
        mismatches=tuple(found),
        overall=_differences(previous.overall, following.overall),
        by_tier={
            name: _differences(previous.by_tier[name], following.by_tier[name])
            for name in TIERS
            if name in previous.by_tier and name in following.by_tier
        },
    )


def mismatches(first: EvalHeader, second: EvalHeader) -> list[str]:
    """In what two headers differ that makes their scoreboards incomparable; [] if in nothing.

    Content hashes decide where both headers have one, so that a reformatted file is the same data;
    else the hashes of the files' bytes do, as far as both are stored.
    """
    found = []
    if first.content_hash is not None and second.content_hash is not None:
        name, one, other = "content", first.content_hash, second.content_hash
    else:
        name, one, other = "file", first.source_hash, second.source_hash
    shared = min(len(one), len(other))
    if one[:shared] != other[:shared]:
        found.append(f"the {name} hash is {one[:SHOWN]} here and {other[:SHOWN]} there")
    for field in ("seed", "item_count"):
        here, there = getattr(first, field), getattr(second, field)
        if here != there:
            found.append(f"{field} is {here} here and {there} there")
    here, there = first.tier_distribution, second.tier_distribution
    # One without tiers can still be compared as a whole.
    if here and there and here != there:
        found.append(f"the tiers hold {_counts(here)} items here and {_counts(there)} there")
    return found


def _counts(distribution: dict[str, int]) -> str:
    return "/".join(str(distribution.get(name, 0)) for name in TIERS)


def _differences(previous: TierStats, following: TierStats) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name in COMPARED:
        before, after = getattr(previous, name), getattr(following, name)
        found[name] = None if before is None or after is None else after - before
    return found


# Two scoreboards, with guardrails, and paired tests where their item scores are at hand.


@dataclass(frozen=True)
class Compared:
    """Two scoreboards.

    Attributes:
        comparison: what changed.
        tests: paired tests on the items; () where their scores are not at hand, or not the same.
        findings: the guardrails.
        notes: what a reader must know.
    """

    comparison: Comparison
    tests: tuple[PairedTest, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]

    @property
    def passes(self) -> bool:
        """Whether a gate lets it through: the same data, and no guardrail from CRITICAL on."""
        return self.comparison.comparable and worst(self.findings) < Level.CRITICAL

    @property
    def obstacles(self) -> list[str]:
        """What a gate would name: the findings from CRITICAL on."""
        return [one.message for one in self.findings if one.level >= Level.CRITICAL]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        return {
            **self.comparison.to_dict(),
            "passes": self.passes,
            "paired_tests": [test.to_dict() for test in self.tests],
            "guardrails": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }

    def write(self, path: str | Path) -> Path:
        """Write as JSON, atomically."""
        return write_json(path, self.to_dict())


def compare_files(
    previous: str | Path,
    following: str | Path,
    *,
    organic: tuple[str | Path, str | Path] | None = None,
    allow_fingerprint_mismatch: bool = False,
    permutations: int = 9999,
    seed: int = 0,
) -> Compared:
    """Compare two scoreboards, the older first, with guardrails and paired tests.

    Args:
        previous, following: scoreboards of the frozen set.
        organic: scoreboards of the organic holdout, before and after.
        allow_fingerprint_mismatch: show the numbers of different data all the same.
        permutations, seed: of the permutation tests.

    Raises:
        FingerprintMismatchError: different data, and no leave to compare them.
    """
    before, after = Scoreboard.read(previous), Scoreboard.read(following)
    first, second = scores_behind(previous, before), scores_behind(following, after)
    found = mismatches(before.eval_header, after.eval_header)
    notes = [_growth(first, second)] if found and first and second else []
    if found and not allow_fingerprint_mismatch and notes:
        raise FingerprintMismatchError(
            f"the scoreboards cannot be compared: {'; '.join(found)}; {notes[0]} "
            "(--allow-fingerprint-mismatch shows the numbers all the same)"
        )
    comparison = compare_scoreboards(
        before, after, allow_fingerprint_mismatch=allow_fingerprint_mismatch
    )
    tests: list[PairedTest] = []
    moved = 0
    if first is None or second is None:
        notes.append("no paired tests: the item scores behind the scoreboards are not there")
    elif not comparison.comparable:
        notes.append("no paired tests: the items are not the same")
    else:
        places = first.places_of(second)
        moved = _moved(first, second, places)
        if moved:
            notes.append(
                f"{moved:,} of {second.n:,} items are in another tier than before: each model has "
                "tiers of its own, so that the changes by tier are between different items and no "
                "guardrail looks at them; gmb crucible tiers assign gives both the same tiers"
            )
        tests = paired_tests(
            first.margin[places],
            second.margin,
            second.tiers,
            permutations=permutations,
            seed=seed,
        )
    if before.eval_header.version != after.eval_header.version:
        versions = f"{before.eval_header.version} and {after.eval_header.version}"
        notes.append(f"the evaluation sets are called {versions}")
    findings = [
        check_fingerprints(found),
        check_q10_margin(before.overall.q10_margin, after.overall.q10_margin),
    ]
    if before.by_tier and after.by_tier and not moved:
        findings.append(check_frozen_tier3(_hardest(before), _hardest(after)))
    if organic is not None:
        findings += _organic(before, after, organic)
    return Compared(comparison, tuple(tests), tuple(findings), tuple(notes))


def _moved(first: ItemScores, second: ItemScores, places: NDArray[np.int64]) -> int:
    """How many items have tiers by both models, and not the same."""
    if first.tiers is None or second.tiers is None:
        return 0
    return int((np.array(first.tiers)[places] != np.array(second.tiers)).sum())


def _hardest(board: Scoreboard) -> float | None:
    stats = board.by_tier.get(HARDEST)
    return stats.pass_rate if stats else None


def _organic(
    before: Scoreboard, after: Scoreboard, organic: tuple[str | Path, str | Path]
) -> list[Finding]:
    one, other = (Scoreboard.read(path) for path in organic)
    found = mismatches(one.eval_header, other.eval_header)
    findings = []
    if found:
        wrong = check_fingerprints([f"organic: {reason}" for reason in found])
        findings.append(wrong)
    frozen = (
        (_hardest(before), _hardest(after))
        if before.by_tier and after.by_tier
        else (before.overall.pass_rate, after.overall.pass_rate)
    )
    rates = (one.overall.pass_rate, other.overall.pass_rate)
    return [*findings, check_organic(frozen, rates)]


def _growth(first: ItemScores | None, second: ItemScores | None) -> str:
    """Whether the newer set only grew, by the hashes of its items."""
    if first is None or second is None:
        return ""
    missing = missing_items(
        sorted(map(bytes.fromhex, first.item_hashes)),
        sorted(map(bytes.fromhex, second.item_hashes)),
    )
    if missing:
        return f"{missing} of {first.n} older items are gone or were changed"
    return f"the newer set was only appended to: all {first.n} older items are in it"
