"""Guardrails: pure checks that say when a training is losing its hard cases.

Each check takes numbers and returns one finding; `worst` is the level that a gate looks at.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gmb_hf.crucible.exposure import PoolExposure, dilution_status
from gmb_hf.validation import InputError

TIER3_DROP = 0.02
"""Loss of frozen tier3 pass rate beyond which a guardrail fires: two points."""
Q10_DROP = 0.05
"""Loss of q10 margin beyond which a guardrail fires."""


class Level(enum.IntEnum):
    """How bad it is; a gate fails from CRITICAL on."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    SEVERE = 3


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: its name.
        level: how bad it is.
        message: a sentence with the numbers.
        value: what was looked at; None where it could not be.
        threshold: beyond which the check fires; None where there is none.
    """

    check: str
    level: Level
    message: str
    value: float | None
    threshold: float | None

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data, its level by name."""
        return {
            "check": self.check,
            "level": self.level.name,
            "message": self.message,
            "value": self.value,
            "threshold": self.threshold,
        }


_DILUTION = {
    "healthy": (Level.OK, "no action needed"),
    "warning": (Level.WARNING, "watch frozen tier3 closely"),
    "critical": (Level.CRITICAL, "consider a larger ratio for this pool"),
    "severe": (Level.SEVERE, "regression is highly likely"),
}


def check_dilution(expected: float, *, pool: str = "legacy") -> Finding:
    """Expected exposures per item against the spec's thresholds of 50, 30 and 10."""
    level, action = _DILUTION[dilution_status(expected)]
    message = f"{pool}: {expected:.1f} expected exposures an item; {action}"
    return Finding("dilution", level, message, expected, 50.0)


def check_pools(pools: Sequence[PoolExposure]) -> list[Finding]:
    """`check_dilution` of every pool that has items."""
    return [
        check_dilution(pool.expected, pool=pool.name) for pool in pools if pool.expected is not None
    ]


def check_frozen_tier3(before: float | None, after: float | None) -> Finding:
    """CRITICAL if the pass rate on frozen tier3 fell by more than two points.

    Args:
        before, after: pass rates; None (an empty tier) cannot be checked and is a WARNING.
    """
    return _fall(
        "frozen tier3",
        "pass rate of frozen tier3",
        (_rate(before), _rate(after)),
        TIER3_DROP,
        Level.CRITICAL,
    )


def check_q10_margin(before: float | None, after: float | None) -> Finding:
    """WARNING if the 10% quantile of the margins fell by more than .05."""
    return _fall("q10 margin", "q10 margin", (before, after), Q10_DROP, Level.WARNING)


def check_organic(
    frozen: tuple[float | None, float | None], organic: tuple[float | None, float | None]
) -> Finding:
    """WARNING if organic performance fell while frozen rose: the frozen set is being learned.

    Args:
        frozen: pass rate on the frozen set, before and after.
        organic: pass rate on the organic holdout, before and after.
    """
    rates = [_rate(value) for value in (*frozen, *organic)]
    name = "organic against frozen"
    if any(rate is None for rate in rates):
        return _unchecked(name, None)
    f_before, f_after, o_before, o_after = (float(rate or 0.0) for rate in rates)
    change = o_after - o_before
    fires = change < 0 and f_after > f_before
    message = (
        f"organic went from {o_before:.3f} to {o_after:.3f} while frozen went from {f_before:.3f} "
        f"to {f_after:.3f}" + ("; the frozen set may be learned by heart" if fires else "")
    )
    return Finding(name, Level.WARNING if fires else Level.OK, message, change, 0.0)


def check_fingerprints(mismatches: Sequence[str]) -> Finding:
    """SEVERE if the data differ (`comparison.mismatches`): no other number means anything then."""
    level = Level.SEVERE if mismatches else Level.OK
    message = "; ".join(mismatches) or "both scoreboards speak of the same data"
    return Finding("fingerprint", level, message, float(len(mismatches)), 0.0)


def worst(findings: Iterable[Finding]) -> Level:
    """The highest level among the findings; OK where there are none."""
    return max((finding.level for finding in findings), default=Level.OK)


def _fall(
    check: str,
    what: str,
    values: tuple[float | None, float | None],
    threshold: float,
    level: Level,
) -> Finding:
    before, after = values
    if before is None or after is None:
        return _unchecked(check, threshold)
    if not (math.isfinite(before) and math.isfinite(after)):
        raise InputError(f"{what}: needs finite numbers, got {before!r} and {after!r}")
    fall = before - after
    # .92 - .90 is above .02 in float64: a fall of exactly the threshold does not fire.
    fires = fall > threshold and not math.isclose(fall, threshold, rel_tol=1e-9)
    message = f"{what} went from {before:.3f} to {after:.3f}"
    if fires:
        message += f", a fall of more than {threshold:g}"
    return Finding(check, level if fires else Level.OK, message, fall, threshold)


def _unchecked(check: str, threshold: float | None) -> Finding:
    message = f"{check} could not be checked: there are no items before or after"
    return Finding(check, Level.WARNING, message, None, threshold)


def _rate(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= 1:
        raise InputError(f"a pass rate must be in [0, 1], got {value!r}")
    return value
