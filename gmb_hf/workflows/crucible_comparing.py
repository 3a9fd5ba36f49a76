"""Two scoreboards, with guardrails, and paired tests where their item scores are at hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.comparison import Comparison, compare_scoreboards, mismatches
from gmb_hf.crucible.guardrails import (
    Finding,
    Level,
    check_fingerprints,
    check_frozen_tier3,
    check_organic,
    check_q10_margin,
    worst,
)
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.paired import PairedTest, paired_tests
from gmb_hf.crucible.scoreboard import Scoreboard
from gmb_hf.crucible.tiers import HARDEST
from gmb_hf.fingerprints import FingerprintMismatchError, missing_items
from gmb_hf.jsonfile import write_json
from gmb_hf.workflows.crucible_scoring import scores_behind


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
