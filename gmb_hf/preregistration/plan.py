"""How many runs a false-alarm budget takes, known before any training.

A threshold that is conformal over runs treats the m calibration runs as exchangeable with the
next one: it weighs each of them 1/(m+1) and leaves 1/(m+1) at infinity. That has a price, which
these functions state. `gmb_hf.preregistration.power` has the price of a conclusive verdict.
"""

from __future__ import annotations

import math

# 1/f and 5(1-f)/f of round targets are whole numbers that floats may miss from above.
_SLACK = 1e-9


def runs_needed(target: float) -> int:
    """Calibration runs with negative windows below which the threshold is infinite.

    ceil(1/f) - 1: 99, 19 and 9 runs for f = .01, .05 and .10.
    """
    return math.ceil(1 / target - _SLACK) - 1


def runs_advised(target: float) -> int:
    """Calibration runs that leave 80% of the budget: 5 (1-f) / f, e.g. 45 for .10, 95 for .05."""
    return math.ceil(5 * (1 - target) / target - _SLACK)


def effective_budget(target: float, n_runs: int) -> float:
    """The expected false positive rate that a target buys with `n_runs` calibration runs.

    About f - (1-f)/m; zero where the threshold is infinite.
    """
    if n_runs < runs_needed(target):
        return 0.0
    return max(0.0, target - (1 - target) / n_runs)


def draws_needed(candidates: int, alpha: float) -> int:
    """Draws of a null below which no p-value survives Holm's adjustment over the candidates.

    The least p-value is 1/(1 + draws), and the first of K candidates is multiplied by K: it takes
    K/alpha - 1 draws, e.g. 19 for one candidate at .05 and 599 for thirty.
    """
    return math.ceil(candidates / alpha - _SLACK) - 1
