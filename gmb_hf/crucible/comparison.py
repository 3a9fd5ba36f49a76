"""Two scoreboards side by side, if they speak of the same data.

Spec: Crucible metrics, "Comparison Rules".
"""

from __future__ import annotations

from dataclasses import dataclass

from gmb_hf.benchmark.record import Record
from gmb_hf.crucible.scoreboard import EvalHeader, Scoreboard, TierStats
from gmb_hf.crucible.tiers import TIERS
from gmb_hf.fingerprints import SHOWN, FingerprintMismatchError

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
