"""How often each item of a pool is expected to be seen in training, and whether that is enough.

Spec: Crucible metrics, "Exposure Probability & Dilution Detection".
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scipy.stats import poisson

from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError, fraction, positive_int, repeated

Status = Literal["healthy", "warning", "critical", "severe"]

# Least expected exposures of each status (spec, "Dilution Warning Thresholds").
_LEAST: dict[Status, float] = {"healthy": 50.0, "warning": 30.0, "critical": 10.0}
_RANGE = (0.05, 0.95)
_LARGEST = 2**53  # of which every whole number is a double
_MOST = 1e9  # exposures an item, whose quantiles scipy still finds


@dataclass(frozen=True)
class Pool:
    """Items among which draws are spread evenly, with their share of the draws (`ratio`).

    A size of 0 is allowed: the draws go to the other pools.
    """

    name: str
    size: int
    ratio: float


@dataclass(frozen=True)
class PoolExposure(Record):
    """What one pool will see.

    Attributes:
        ratio: its share of the draws after empty pools gave theirs away.
        draws: expected draws from the pool.
        expected: expected exposures of each item; None where the pool is empty.
        low, high: 5% and 95% quantile of an item's exposures, which are Poisson.
        status: by the spec's thresholds on `expected`; None where the pool is empty.
    """

    name: str
    size: int
    ratio: float
    draws: float
    expected: float | None
    low: int | None
    high: int | None
    status: Status | None


def expected_exposures(
    *, steps: int, batch_size: int, probability: float, pools: Sequence[Pool]
) -> list[PoolExposure]:
    """Exposures per item, pool by pool: steps x batch size x probability x ratio / size.

    Args:
        steps, batch_size: of the training, and the slots in a batch.
        probability: that a slot is filled from these pools (the spec's p_tier3).
        pools: their ratios must add up to 1.

    Raises:
        InputError: a number out of range, ratios that do not add up to 1, a name that occurs
            twice, or no pool with items.

    >>> pools = [Pool("legacy", 454, 0.75), Pool("organic", 1200, 0.25)]
    >>> legacy, _ = expected_exposures(steps=10_000, batch_size=32, probability=0.1, pools=pools)
    >>> legacy.draws, round(legacy.expected, 1), legacy.status
    (24000.0, 52.9, 'healthy')
    """
    positive_int("steps", steps, most=_LARGEST)
    positive_int("batch_size", batch_size, most=_LARGEST)
    fraction("probability", probability, closed=True)
    _check(pools)
    filled = math.fsum(pool.ratio for pool in pools if pool.size)
    if not filled:
        raise InputError("every pool that is drawn from is empty; nothing would be seen")
    # Ratios stay as they are where no pool is empty: 0.75 / (0.75 + 0.25) may differ from 0.75.
    given_away = any(pool.ratio and not pool.size for pool in pools)
    found = []
    for pool in pools:
        ratio = 0.0 if not pool.size else pool.ratio / filled if given_away else pool.ratio
        draws = steps * batch_size * probability * ratio
        expected = low = high = status = None
        if pool.size:
            expected = draws / pool.size
            if expected > _MOST:
                what = f"pool {pool.name!r}: {expected:.1e} expected exposures an item"
                raise InputError(f"{what}; {_MOST:.0e} are the most: check steps, batch and size")
            # Of the mean 0, which is certain, scipy's quantile is -1 below the first step.
            low, high = (int(poisson.ppf(share, expected)) if expected else 0 for share in _RANGE)
            status = dilution_status(expected)
        found.append(PoolExposure(pool.name, pool.size, ratio, draws, expected, low, high, status))
    return found


def dilution_status(expected: float) -> Status:
    """healthy from 50 expected exposures, warning from 30, critical from 10, else severe.

    >>> [dilution_status(value) for value in (50, 49.9, 10, 0)]
    ['healthy', 'warning', 'critical', 'severe']
    """
    if not expected >= 0 or math.isinf(expected):
        raise InputError(f"expected exposures must be a number of at least 0, got {expected!r}")
    return next((status for status, least in _LEAST.items() if expected >= least), "severe")


def _check(pools: Sequence[Pool]) -> None:
    if not pools:
        raise InputError("no pools given; name at least one, such as legacy")
    twice = repeated(pool.name for pool in pools)
    if twice is not None:
        raise InputError(f"pool {twice!r} is given twice")
    for pool in pools:
        if not pool.name:
            raise InputError("a pool has no name; give it one, such as legacy")
        whole = isinstance(pool.size, int) and not isinstance(pool.size, bool)
        if not whole or not 0 <= pool.size <= _LARGEST:
            must = f"must be a whole number of at least 0 and at most {_LARGEST:,}"
            raise InputError(f"pool {pool.name!r}: size {must}, got {pool.size!r}")
        fraction("ratio", pool.ratio, where=f"pool {pool.name!r}", closed=True)
    total = math.fsum(pool.ratio for pool in pools)
    if not math.isclose(total, 1.0, rel_tol=1e-9):
        raise InputError(f"the ratios of the pools add up to {total:g}, not to 1")


# Guardrails: pure checks that say when a training is losing its hard cases.

TIER3_DROP = 0.02
"""Loss of frozen tier3 pass rate beyond which a guardrail fires: two points."""
Q10_DROP = 0.05
"""Loss of q10 margin beyond which a guardrail fires."""


class Level(enum.IntEnum):
    """Severity of a finding; a gate fails from CRITICAL on."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    SEVERE = 3


@dataclass(frozen=True)
class GuardrailFinding:
    """What one check found: its severity, and a sentence with the numbers.

    `value` is the number that was checked, `threshold` the one beyond which the check fires; either
    is None where there is none.
    """

    check: str
    level: Level
    message: str
    value: float | None
    threshold: float | None

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data, its level by name."""
        return {**dataclasses.asdict(self), "level": self.level.name}


_DILUTION = {
    "healthy": (Level.OK, "no action needed"),
    "warning": (Level.WARNING, "watch frozen tier3 closely"),
    "critical": (Level.CRITICAL, "consider a larger ratio for this pool"),
    "severe": (Level.SEVERE, "regression is highly likely"),
}


def check_pools(pools: Sequence[PoolExposure]) -> list[GuardrailFinding]:
    """Expected exposures of every pool that has items, against the spec's 50, 30 and 10."""
    found = []
    for pool in pools:
        if pool.status is not None:
            level, action = _DILUTION[pool.status]
            message = f"{pool.name}: {pool.expected:.1f} expected exposures an item; {action}"
            found.append(
                GuardrailFinding("dilution", level, message, pool.expected, _LEAST["healthy"])
            )
    return found


def check_frozen_tier3(before: float | None, after: float | None) -> GuardrailFinding:
    """CRITICAL if the pass rate on frozen tier3 fell by more than two points.

    None (an empty tier) cannot be checked and is a WARNING.
    """
    _check_rates(before, after)
    what = "pass rate of frozen tier3"
    return _fall("frozen tier3", what, before, after, TIER3_DROP, Level.CRITICAL)


def check_q10_margin(before: float | None, after: float | None) -> GuardrailFinding:
    """WARNING if the 10% quantile of the margins fell by more than .05."""
    return _fall("q10 margin", "q10 margin", before, after, Q10_DROP, Level.WARNING)


def check_organic(
    frozen: tuple[float | None, float | None], organic: tuple[float | None, float | None]
) -> GuardrailFinding:
    """WARNING if organic performance fell while frozen rose: the frozen set is being learned.

    Both are pass rates before and after, on the frozen set and on the organic holdout.
    """
    name = "organic against frozen"
    _check_rates(*frozen, *organic)
    rates = [rate for rate in (*frozen, *organic) if rate is not None]
    if len(rates) < 4:
        return _unchecked(name, None)
    f_before, f_after, o_before, o_after = rates
    change = o_after - o_before
    fires = change < 0 and f_after > f_before
    message = (
        f"organic went from {o_before:.3f} to {o_after:.3f} while frozen went from {f_before:.3f} "
        f"to {f_after:.3f}{'; the frozen set may be learned by heart' * fires}"
    )
    return GuardrailFinding(name, Level.WARNING if fires else Level.OK, message, change, 0.0)


def check_fingerprints(mismatches: Sequence[str]) -> GuardrailFinding:
    """SEVERE if the data differ (`compare.mismatches`): no other number means anything then."""
    level = Level.SEVERE if mismatches else Level.OK
    message = "; ".join(mismatches) or "both scoreboards speak of the same data"
    return GuardrailFinding("fingerprint", level, message, float(len(mismatches)), 0.0)


def worst(findings: Iterable[GuardrailFinding]) -> Level:
    """The highest level among the findings; OK where there are none."""
    return max((finding.level for finding in findings), default=Level.OK)


def _fall(
    check: str, what: str, before: float | None, after: float | None, threshold: float, level: Level
) -> GuardrailFinding:
    if before is None or after is None:
        return _unchecked(check, threshold)
    if not (math.isfinite(before) and math.isfinite(after)):
        raise InputError(f"{what}: needs finite numbers, got {before!r} and {after!r}")
    fall = before - after
    # .92 - .90 is above .02 in float64: a fall of exactly the threshold does not fire.
    fires = fall > threshold and not math.isclose(fall, threshold, rel_tol=1e-9)
    more = f", a fall of more than {threshold:g}" if fires else ""
    message = f"{what} went from {before:.3f} to {after:.3f}{more}"
    return GuardrailFinding(check, level if fires else Level.OK, message, fall, threshold)


def _unchecked(check: str, threshold: float | None) -> GuardrailFinding:
    message = f"{check} could not be checked: there are no items before or after"
    return GuardrailFinding(check, Level.WARNING, message, None, threshold)


def _check_rates(*rates: float | None) -> None:
    for value in rates:
        if value is not None and not 0 <= value <= 1:
            raise InputError(f"a pass rate must be in [0, 1], got {value!r}")
