"""Oracles: scores that see held-out labels. Bars to compare with, never monitors."""

from __future__ import annotations

from gmb_hf.indicators.causal import Values, log_floored, running_max
from gmb_hf.indicators.registry import Observables, register

_LABELS = "oracle: needs the labels that a monitor does not have"


@register(
    "test_loss",
    family="oracle",
    summary="held-out loss, low meaning risk",
    needs=("test_loss",),
    source=_LABELS,
    orientation=-1,
    sees_test_labels=True,
)
def test_loss(seen: Observables) -> Values:
    """As logged."""
    return seen["test_loss"]


@register(
    "test_loss_drop",
    family="oracle",
    summary="log of the held-out loss's largest value so far over its present one",
    needs=("test_loss",),
    source=f"{_LABELS}; Nanda et al. (2023)",
    sees_test_labels=True,
)
def test_loss_drop(seen: Observables) -> Values:
    """Held-out loss against its own past: it begins to fall before accuracy rises."""
    loss = log_floored(seen["test_loss"])
    return running_max(loss) - loss


@register(
    "test_accuracy",
    family="oracle",
    summary="held-out accuracy",
    needs=("test_acc",),
    source=_LABELS,
    sees_test_labels=True,
)
def test_accuracy(seen: Observables) -> Values:
    """The event's own metric, before the jump."""
    return seen["test_acc"]


@register(
    "test_margin_q10",
    family="oracle",
    summary="10% quantile of the answer margin on held-out rows",
    needs=("test_margin_q10",),
    source=_LABELS,
    sees_test_labels=True,
)
def test_margin_q10(seen: Observables) -> Values:
    """The hardest tenth of the held-out rows."""
    return seen["test_margin_q10"]


@register(
    "test_margin_q90",
    family="oracle",
    summary="90% quantile of the answer margin on held-out rows",
    needs=("test_margin_q90",),
    source=_LABELS,
    sees_test_labels=True,
)
def test_margin_q90(seen: Observables) -> Values:
    """The easiest tenth of the held-out rows: the first to be answered by the rule."""
    return seen["test_margin_q90"]
