"""Hierarchical convergence: whether a fast loop comes to rest within the cycles of a slow one.

For models with loops (`cycles`, `inner_steps`, `halting`), from states at EQ on held-out rows; none
of these sees a label. What the observables are stands in `gmb_hf.training.loop_measures`; a length
is a share of a state's own length. Levels (eps, theta) are those at which the trainer counts. A
window's statistic is the mean of those of its checkpoints, each over all rows and cycles there.

Orientations are declared from what the hierarchical reasoning model shows once it is trained: the
fast loop settles within a cycle and is set off again by the next, and the slow states spread over
more dimensions than the fast ones (Wang et al. 2025, figures 3 and 8).
"""

from __future__ import annotations

from gmb_hf.errors import InputError
from gmb_hf.indicators.catalogue import Observables, register, register_mean
from gmb_hf.indicators.causal import Values, log_floored, trailing_mean
from gmb_hf.runs.metadata import LEVELS, at_level

_ADDENDUM = "gmb_v0.4_addendum_hrm_indicator_family.md, {} (named in GMB v0.4, section 3)"
_SPEC = f"{_ADDENDUM}; Wang et al. (2025), Hierarchical Reasoning Model"
_HALTING = f"{_ADDENDUM.format('HC-5')}; Banino et al. (2021), PonderNet; Graves (2016)"


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
    return trailing_mean(seen[columns[share]], seen.checkpoints(window))


def _needs(column: str) -> tuple[str, ...]:
    return tuple(at_level(column, level) for level in LEVELS)


@register(
    "fast_settling",
    family="hierarchical_convergence",
    summary="HC-1: median inner step at which the fast state rests, low meaning risk",
    needs=_needs("settling_q50"),
    source=_SPEC.format("HC-1"),
    orientation=-1,
    window_parameter="window",
)
def fast_settling(seen: Observables, *, window: int = 100, eps: float = 0.1) -> Values:
    """First j with r_L(k,j) <= eps, T + 1 if there is none; the median over rows and cycles."""
    return _counted(seen, "settling_q50", window, eps=eps)


@register(
    "fast_settling_q90",
    family="hierarchical_convergence",
    summary="HC-1: 90% quantile of the inner step of coming to rest, low meaning risk",
    needs=_needs("settling_q90"),
    source=_SPEC.format("HC-1"),
    orientation=-1,
    window_parameter="window",
)
def fast_settling_q90(seen: Observables, *, window: int = 100, eps: float = 0.1) -> Values:
    """The slowest tenth of rows and cycles."""
    return _counted(seen, "settling_q90", window, eps=eps)


@register(
    "reset_share",
    family="hierarchical_convergence",
    summary="HC-2: share of cycles that set the fast state off again by theta or more",
    needs=_needs("reset_share"),
    source=_SPEC.format("HC-2"),
    window_parameter="window",
)
def reset_share(seen: Observables, *, window: int = 100, theta: float = 0.1) -> Values:
    """Share of d(k) = r_L(k,1) - r_L(k,T) >= theta, over rows and cycles from the second on."""
    return _counted(seen, "reset_share", window, theta=theta)


# Median of d(k) over rows and cycles from the second on.
register_mean(
    "reset_spike",
    family="hierarchical_convergence",
    summary="HC-2: median spike of the fast update where a cycle begins",
    source=_SPEC.format("HC-2"),
)

# Median of |z_H(k) - z_L(k,T)|: both projections are the identity.
register_mean(
    "state_distance",
    column="state_distance_q50",
    family="hierarchical_convergence",
    summary="HC-3: median distance of slow and fast state, low meaning risk",
    source=_SPEC.format("HC-3"),
    orientation=-1,
)

# The farthest tenth of rows and cycles.
register_mean(
    "state_distance_q90",
    family="hierarchical_convergence",
    summary="HC-3: 90% quantile of the distance of slow and fast state, low meaning risk",
    source=_SPEC.format("HC-3"),
    orientation=-1,
)


@register(
    "dimension_ratio",
    family="hierarchical_convergence",
    summary="HC-4: log of the slow states' participation ratio over the fast states'",
    needs=("slow_participation", "fast_participation"),
    source=f"{_SPEC.format('HC-4')}; Gao et al. (2017)",
    window_parameter="window",
)
def dimension_ratio(seen: Observables, *, window: int = 100) -> Values:
    """log(PR_H / PR_L) of the states at cycle ends, over rows and cycles."""
    slow, fast = (log_floored(seen[f"{block}_participation"]) for block in ("slow", "fast"))
    return trailing_mean(slow - fast, seen.checkpoints(window))


# What is answered by a rule needs less thought than what is not known.
register_mean(
    "halting_steps",
    family="hierarchical_convergence",
    summary="HC-5: mean cycle at which a held-out row halts, low meaning risk",
    source=_HALTING,
    orientation=-1,
)

# Over rows and all cycles but the last.
register_mean(
    "halting_margin",
    family="hierarchical_convergence",
    summary="HC-5: mean logit of halting against going on",
    source=_HALTING,
)

# Over rows and over the chance of halting: small where all rows halt at one cycle.
register_mean(
    "halting_variance",
    family="hierarchical_convergence",
    summary="HC-5: variance of the cycle at which a held-out row halts, low meaning risk",
    source=_HALTING,
    orientation=-1,
)
