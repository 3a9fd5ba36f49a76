"""The formulas of this package's own indicators; formulas.yaml says which is what, a family after
the other.

Monitors of the families `dynamics`, `spectral`, `process`, `hierarchical_convergence` and
`crucible` see no held-out label, but for those that say so. Controls and oracles are bars to
compare with, never monitors.

Values are float64 [R, T]; `width`, `lag` and the like are windows in checkpoints.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from gmb_hf.base.errors import InputError
from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import Observables, register, register_declared
from gmb_hf.indicators.causal import Values
from gmb_hf.runs.metadata import LEVELS, at_level

# Of one column and its own past.


def log_drop(x: Values) -> Values:
    """How far the logarithm lies below its largest value so far in the run."""
    log = causal.log_floored(x)
    return causal.running_max(log) - log


def log_rise(x: Values) -> Values:
    """How far the logarithm lies above its smallest value so far in the run."""
    log = causal.log_floored(x)
    return log - causal.running_min(log)


def log_slope(x: Values, width: int) -> Values:
    """Least-squares slope of the logarithm."""
    return causal.trailing_slope(causal.log_floored(x), width)


def log_growth(x: Values, lag: int) -> Values:
    """Rise of the logarithm over the window."""
    return causal.difference(causal.log_floored(x), lag)


def log_fall(x: Values, lag: int) -> Values:
    """Fall of the logarithm over the window."""
    return -log_growth(x, lag)


def log_bend(x: Values, lag: int) -> Values:
    """x(t) - 2 x(t - h) + x(t - 2h) of the logarithm, h the window in checkpoints."""
    slope = log_growth(x, lag)
    return slope - causal.lagged(slope, lag)


def log_variance(x: Values, width: int) -> Values:
    """Rises with spikes and with steady movement alike; the detrended one is csd_variance."""
    return causal.log_floored(
        causal.trailing_variance(causal.trailing_mean(causal.log_floored(x), 2), width)
    )


def detrended_variance(x: Values, width: int) -> Values:
    """Critical slowing down: near a transition fluctuations grow, and decay ever more slowly."""
    return causal.detrended_moments(causal.log_floored(x), width)[0]


def detrended_autocorrelation(x: Values, width: int) -> Values:
    """Its other sign; see `detrended_variance`."""
    return causal.detrended_moments(causal.log_floored(x), width)[1]


def variance_explosion(x: Values, width: int, short_width: int) -> Values:
    """Log of the ratio of two variances, each with a floor that lets 0 over 0 be 0."""
    log = causal.log_floored(x)
    long = causal.trailing_variance(log, width)
    short = causal.trailing_variance(log, short_width)
    return causal.log_floored(short) - causal.log_floored(long)


def entropy_drop(x: Values, width: int, *, epsilon: float) -> Values:
    """max(0, -MA(dH) / epsilon), dH the change of the entropy from checkpoint to checkpoint.

    epsilon is a unit (nats per checkpoint) and moves no verdict.
    """
    return (-causal.trailing_mean(causal.difference(x), width) / epsilon).clip(min=0)


def smooth_drop(x: Values, width: int) -> Values:
    """Relative to the run's own past, so that runs share one threshold."""
    smooth = causal.trailing_mean(x, width)
    return causal.running_max(smooth) - smooth


# Combinations of two observables by a formula that is written down here and fitted to nothing.
# Structure grows long before held-out accuracy shows it (the Gini gain of the unembedding), but how
# soon the jump comes depends on whether the network is at rest. Structure alone is early and
# blurred; rest alone comes and goes all the time; their product is neither.


def settled(gini: Values, change: Values, width: int) -> Values:
    """gain(G) (1 - MA(c)): G the Gini, c the share of answers that changed since a checkpoint."""
    return causal.gain(gini, width) * (1 - causal.trailing_mean(change, width))


def settling(gini: Values, change: Values, width: int) -> Values:
    """gain(G) exp(c(t - h) - c(t)), h the window: largest where answers have just come to rest.

    A share changes by less than 1; the bound keeps other columns finite.
    """
    return causal.gain(gini, width) * np.exp(np.clip(-causal.difference(change, width), -20, 20))


def shrinking(gini: Values, attention: Values, width: int) -> Values:
    """gain(G) (|A(t - h)| / |A(t)|)^2: it reads the weights and no data at all."""
    shrinkage = -2 * log_growth(attention, width)
    # A norm that was 0 and is not gives a ratio without meaning; the bound keeps it finite.
    return causal.gain(gini, width) * np.exp(np.clip(shrinkage, -20, 20))


def mean_log_ratio(over: Values, under: Values, width: int) -> Values:
    """The smoothed logarithm of a ratio."""
    return causal.trailing_mean(causal.log_floored(over) - causal.log_floored(under), width)


def spread(low: Values, high: Values) -> Values:
    """The distance of two quantiles."""
    return high - low


FORMULAS = (
    *(causal.gain, causal.log_floored, causal.trailing_mean, np.zeros_like),
    *(log_drop, log_rise, log_slope, log_fall, log_bend, log_variance),
    *(detrended_variance, detrended_autocorrelation, variance_explosion),
    *(entropy_drop, smooth_drop, settled, settling, shrinking, mean_log_ratio, spread),
)
"""What formulas.yaml names."""

# Hierarchical convergence (see formulas.yaml): of the columns that are counted at each of `LEVELS`
# one is read, that of the level eps or theta.

_SOURCE = (
    "gmb_v0.4_addendum_hrm_indicator_family.md, {} (named in GMB v0.4, section 3); "
    "Wang et al. (2025), Hierarchical Reasoning Model"
)
_converging = partial(register, family="hierarchical_convergence", window_parameter="window")


def _levels(column: str) -> tuple[str, ...]:
    return tuple(at_level(column, level) for level in LEVELS)


def _counted(seen: Observables, column: str, window: int, **level: float) -> Values:
    """The smoothed column of the level `name=share`.

    Raises:
        InputError: logs are not counted at this share.
    """
    ((name, share),) = level.items()
    columns = {percent / 100: at_level(column, percent) for percent in LEVELS}
    if share not in columns:
        known = ", ".join(f"{one:g}" for one in columns)
        raise InputError(f"{name} must be one of {known}, at which logs are counted; got {share:g}")
    return causal.trailing_mean(seen[columns[share]], seen.checkpoints(window))


def _register_settling(name: str, what: str, column: str) -> None:
    """First j with r_L(k,j) <= eps, T + 1 if there is none, over rows and cycles."""

    @_converging(
        name,
        summary=f"HC-1: {what}, low meaning risk",
        needs=_levels(column),
        source=_SOURCE.format("HC-1"),
        orientation=-1,
    )
    def settling(seen: Observables, *, window: int = 100, eps: float = 0.1) -> Values:
        return _counted(seen, column, window, eps=eps)


_register_settling(
    "fast_settling", "median inner step at which the fast state rests", "settling_q50"
)
_register_settling(
    "fast_settling_q90", "90% quantile of the inner step of coming to rest", "settling_q90"
)


@_converging(
    "reset_share",
    summary="HC-2: share of cycles that set the fast state off again by theta or more",
    needs=_levels("reset_share"),
    source=_SOURCE.format("HC-2"),
)
def reset_share(seen: Observables, *, window: int = 100, theta: float = 0.1) -> Values:
    """Share of d(k) = r_L(k,1) - r_L(k,T) >= theta, over rows and cycles from the second on."""
    return _counted(seen, "reset_share", window, theta=theta)


register_declared(Path(__file__).with_name("formulas.yaml"), FORMULAS)

_MEMORISED, _HELD_FOR = 0.99, 5  # training accuracy, checkpoints


@register(
    "steps_since_memorisation",
    family="control",
    summary="steps since the training accuracy reached .99 and held it for 5 checkpoints",
    needs=("step", "train_acc"),
    source="control: a monitor must beat a clock that starts when the training rows are learned",
)
def steps_since_memorisation(seen: Observables) -> Values:
    """t less the first of 5 checkpoints in a row at .99 or above, from the fifth on; before, 0."""
    step, back = seen["step"], (_HELD_FOR - 1) * seen.cadence
    lowest = causal.trailing_min(seen["train_acc"], _HELD_FOR)
    whole = step - causal.running_min(step) >= back
    known_from = causal.running_min(np.where(whole & (lowest >= _MEMORISED), step, np.inf))
    return np.where(np.isfinite(known_from), step - known_from + back, 0.0)
