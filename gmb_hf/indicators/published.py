"""Formulas of indicators that papers have published, as published.

published.yaml declares them, each with its paper; the comment above it has the formula, what was
made causal and what had to be guessed. A value that a paper takes from the finished run, such as a
global peak, is taken from the run so far. Alarm rules of the papers' own are indicators of 0 and 1
(`rule: true`). The columns that these read are recorded where `training.observables` is `published`
or `all`; docs/signals.md has a table of all signals, with what each costs.

Values are float64 [R, T]; `width`, `lag` and `count` are windows in checkpoints.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import register_declared
from gmb_hf.indicators.causal import Values
from gmb_hf.indicators.formulas import log_drop, log_growth

# Of the usual columns: norms and the training loss.


def steps_since_peak(step: Values, norm: Values) -> Values:
    """t - argmax |w|; made causal: the peak is that of the run so far."""
    at_peak = causal.running_max(np.where(norm >= causal.running_max(norm), step, -np.inf))
    return np.where(np.isfinite(at_peak), step - at_peak, 0.0)


def spikes(x: Values, width: int) -> Values:
    """Share of checkpoints at which a value has doubled."""
    rise = causal.difference(causal.log_floored(x))
    return causal.trailing_mean(causal.alarms(rise > np.log(2), rise), width)


def hjorth_activity(x: Values, width: int) -> Values:
    """v, the variance of the loss, its trend removed."""
    return _moments(x, width)[0]


def hjorth_mobility(x: Values, width: int) -> Values:
    """sqrt(v' / v), with the variance v' of the differences."""
    activity, first, _ = _moments(x, width)
    return _root(first, activity)


def hjorth_complexity(x: Values, width: int) -> Values:
    """sqrt(v'' / v') / mobility, with the variance v'' of the differences' differences."""
    activity, first, second = _moments(x, width)
    mobility, inner = _root(first, activity), _root(second, first)
    return np.divide(inner, mobility, out=0 * mobility, where=mobility > 0)


def _moments(x: Values, width: int) -> tuple[Values, Values, Values]:
    change = causal.difference(x)
    bend = causal.difference(change)
    return (
        causal.detrended_moments(x, width)[0],
        causal.trailing_variance(change, width - 1),
        causal.trailing_variance(bend, width - 2),
    )


def _root(x: Values, y: Values) -> Values:
    """Root of the ratio of two variances, 0 where there is none."""
    return np.sqrt(np.divide(x, y, out=0 * y, where=y > 0))


def loss_autocorrelation(x: Values, width: int) -> Values:
    """Lag-1 autocorrelation of the logarithm, trend included."""
    return causal.trailing_correlation(causal.log_floored(x), width)


def loss_autocorrelation_rule(x: Values, width: int, count: int) -> Values:
    """Whether it exceeds its mean over the first checkpoints by .1."""
    return _above_baseline(loss_autocorrelation(x, width), count, 0.1)


def loss_variance_ratio(x: Values, width: int) -> Values:
    """Variance of the last fifth of the window over that of the rest; 1 where the rest is flat.

    Of a window of fewer than 10 checkpoints the last two stand for the last fifth: one has no
    variance.
    """
    log, late = causal.log_floored(x), max(width // 5, min(2, width // 2))
    rest = causal.lagged(causal.trailing_variance(log, width - late), late)
    recent = causal.trailing_variance(log, late)
    return np.divide(recent, rest, out=1 + 0 * rest, where=rest > 1e-12)


def loss_variance_ratio_rule(x: Values, width: int, count: int) -> Values:
    """Whether it exceeds its mean over the first checkpoints by .2."""
    return _above_baseline(loss_variance_ratio(x, width), count, 0.2)


def _above_baseline(now: Values, count: int, over: float) -> Values:
    return causal.alarms(now > causal.baseline(now, count, median=False) + over, now)


# Of activations and outputs.


def dmd_rule(residual: Values, lag: int, *, factor: float) -> Values:
    """Whether it exceeds a multiple of its first, now and a window ago."""
    baseline = causal.first_where(residual, residual > 0)
    now = causal.alarms(residual > factor * baseline, residual)
    return now * causal.lagged(now, lag)


def hidden_entropy_rule(x: Values) -> Values:
    """Whether it lies below .609 and has been above."""
    return causal.alarms((x < 0.609) & (causal.running_max(x) >= 0.609), x)


def synchronisation_rule(x: Values) -> Values:
    """Whether it is .80 or more."""
    return causal.alarms(x >= 0.8, x)


def commutator_rule(x: Values) -> Values:
    """Whether it exceeds 20, and 10 times the median of its first three."""
    return causal.alarms((x > 20) & (x > 10 * causal.baseline(x, 3)), x)


def rise_since_step(step: Values, x: Values, *, baseline_step: int, factor: float) -> Values:
    """Whether it is above a multiple of its value at the first checkpoint from a step on."""
    return causal.alarms(x > factor * causal.first_where(x, step >= baseline_step), x)


def fall_since_step(step: Values, x: Values, *, baseline_step: int, factor: float) -> Values:
    """Whether it is below a multiple of that value."""
    return causal.alarms(x < factor * causal.first_where(x, step >= baseline_step), x)


FORMULAS = (
    *(causal.log_floored, log_drop, log_growth, steps_since_peak, spikes),
    *(hjorth_activity, hjorth_mobility, hjorth_complexity),
    *(loss_autocorrelation, loss_autocorrelation_rule),
    *(loss_variance_ratio, loss_variance_ratio_rule),
    *(dmd_rule, hidden_entropy_rule, synchronisation_rule, commutator_rule),
    *(rise_since_step, fall_since_step),
)
"""What published.yaml names."""

register_declared(Path(__file__).with_name("published.yaml"), FORMULAS, published=True)
