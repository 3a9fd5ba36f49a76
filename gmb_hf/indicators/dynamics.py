"""Dynamics: how losses, norms and gradients move. None of these sees a held-out label."""

from __future__ import annotations

from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import Observables, register, register_column

_SLOWING = "Scheffer et al. (2009), Early-warning signals for critical transitions, Nature 461"
_DETRENDED = "Dakos et al. (2012), Methods for detecting early warnings, PLoS ONE 7"
_NORMS = "Liu et al. (2023), Omnigrok: grokking beyond algorithmic data, ICLR"
_CLEANUP = "Nanda et al. (2023), Progress measures for grokking via mechanistic interpretability"


def _register_slowing(name: str, statistic: str, place: int) -> None:
    """Critical slowing down: near a transition, fluctuations grow and decay ever more slowly."""

    @register(
        name,
        family="dynamics",
        summary=f"{statistic} of the log training loss, detrended in a trailing window",
        needs=("train_loss",),
        source=f"{_SLOWING}; {_DETRENDED}",
        minimum_checkpoints={"window": 4},
        window_parameter="window",
    )
    def slowing(seen: Observables, *, window: int = 100) -> causal.Values:
        moments = causal.detrended_moments(
            causal.log_floored(seen["train_loss"]), seen.checkpoints(window)
        )
        return moments[place]


_register_slowing("csd_autocorrelation", "lag-1 autocorrelation", 1)
_register_slowing("csd_variance", "variance", 0)


def _register_variance_explosion(part: str) -> None:
    """Log of the ratio of two variances, each with a floor that lets 0 over 0 be 0."""
    column = f"{part}_norm"

    @register(
        f"{part}_variance_explosion",
        family="dynamics",
        summary=f"variance explosion index of the log {part} norm: short over long window variance",
        needs=(column,),
        source="VEI is named in GMB v0.4, section 3; the formula is this package's",
        minimum_checkpoints={"window": 2, "short_window": 2},
        window_parameter="window",
    )
    def explosion(seen: Observables, *, window: int = 100, short_window: int = 50) -> causal.Values:
        x = causal.log_floored(seen[column])
        long = causal.trailing_variance(x, seen.checkpoints(window))
        short = causal.trailing_variance(x, seen.checkpoints(short_window, name="short_window"))
        return causal.log_floored(short) - causal.log_floored(long)


_register_variance_explosion("gradient")
_register_variance_explosion("weight")

register_column(
    "curvature",
    family="dynamics",
    summary="curvature of the training loss along its gradient",
    source="Cohen et al. (2021), Gradient descent typically occurs at the edge of stability, ICLR",
)


def _register_log(column: str, what: str) -> None:
    """The logarithm, so that a preregistered smoothing averages orders of magnitude."""

    @register(
        column,
        family="dynamics",
        summary=f"log of the {what}",
        needs=(column,),
        source="Thilak et al. (2022), The slingshot mechanism",
    )
    def log_norm(seen: Observables) -> causal.Values:
        return causal.log_floored(seen[column])


_register_log("gradient_norm", "gradient norm")
_register_log("update_norm", "norm of the last weight update")


@register(
    "train_loss_slope",
    family="dynamics",
    summary="least-squares slope of the log training loss in a trailing window",
    needs=("train_loss",),
    source="GMB v0.4, section 3 (dynamics)",
    minimum_checkpoints={"window": 2},
    window_parameter="window",
)
def train_loss_slope(seen: Observables, *, window: int = 100) -> causal.Values:
    """Per checkpoint; above 0 where the training loss rises again while circuits compete."""
    return causal.trailing_slope(causal.log_floored(seen["train_loss"]), seen.checkpoints(window))


@register(
    "weight_norm_acceleration",
    family="dynamics",
    summary="downward bend of the log weight norm: second difference over a trailing window",
    needs=("weight_norm",),
    source="GMB v0.4, section 3 (dynamics)",
    orientation=-1,
    window_parameter="window",
)
def weight_norm_acceleration(seen: Observables, *, window: int = 100) -> causal.Values:
    """x(t) - 2 x(t - h) + x(t - 2h) of the log norm, h the window in checkpoints."""
    lag = seen.checkpoints(window)
    slope = causal.difference(causal.log_floored(seen["weight_norm"]), lag)
    return slope - causal.lagged(slope, lag)


def _register_norm_drop(part: str, what: str, why: str) -> None:
    """Enter `<part>_norm_drop`: the same function of each group of weights."""
    column = f"{part}_norm"

    @register(
        f"{part}_norm_drop",
        family="dynamics",
        summary=f"fall of the log norm of {what} over a trailing window",
        needs=(column,),
        source=f"{_NORMS}; {why}",
        window_parameter="window",
    )
    def norm_drop(seen: Observables, *, window: int = 100) -> causal.Values:
        return -causal.difference(causal.log_floored(seen[column]), seen.checkpoints(window))


_register_norm_drop("weight", "all weights", "weight decay shrinks the memorising solution")
_register_norm_drop("embedding", "the embedding", f"cleanup precedes the jump: {_CLEANUP}")
_register_norm_drop("unembedding", "the unembedding", f"cleanup precedes the jump: {_CLEANUP}")
_register_norm_drop("attention", "the attention weights", _CLEANUP)
_register_norm_drop("mlp", "the MLP weights", _CLEANUP)

# The textbook failure: it ranks well, and cannot be an alarm.
register_column(
    "train_accuracy",
    family="dynamics",
    summary="training accuracy: ties at 1 leave no threshold at a small false positive rate",
    column="train_acc",
    source="GMB v0.4, section 4.2 (floor of the false positive rate)",
)


@register(
    "train_loss_variance",
    family="dynamics",
    summary="log of the variance of the log training loss in a trailing window, trend included",
    needs=("train_loss",),
    source=_SLOWING,
    minimum_checkpoints={"window": 2},
    window_parameter="window",
)
def train_loss_variance(seen: Observables, *, window: int = 100) -> causal.Values:
    """Rises with spikes and with steady movement alike; the detrended one is csd_variance."""
    x = causal.trailing_mean(causal.log_floored(seen["train_loss"]), 2)
    return causal.log_floored(causal.trailing_variance(x, seen.checkpoints(window)))
