"""Oracles: scores that see held-out labels. Bars to compare with, never monitors.

Restricted and excluded loss know more than that: the algorithm that the network will learn. The
direction along which they sort the logits of all pairs is the answer itself, of held-out pairs
too, so that also the excluded loss, whose rows are training rows, is no monitor.
"""

from __future__ import annotations

from gmb_hf.indicators.catalogue import Observables, register
from gmb_hf.indicators.causal import Values, log_floored, running_max, running_min

_LABELS = "oracle: needs the labels that a monitor does not have"
_MECHANISM = (
    "oracle: knows the algorithm and every answer; Nanda et al. (2023), with the key frequencies "
    "of each checkpoint"
)


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


@register(
    "restricted_loss",
    family="oracle",
    summary="loss over all pairs of the logits' key Fourier waves alone, low meaning risk",
    needs=("restricted_loss",),
    source=_MECHANISM,
    orientation=-1,
    sees_test_labels=True,
)
def restricted_loss(seen: Observables) -> Values:
    """As logged: it falls once the Fourier algorithm alone gives answers."""
    return seen["restricted_loss"]


@register(
    "restricted_loss_drop",
    family="oracle",
    summary="log of the restricted loss's largest value so far over its present one",
    needs=("restricted_loss",),
    source=_MECHANISM,
    sees_test_labels=True,
)
def restricted_loss_drop(seen: Observables) -> Values:
    """Restricted loss against its own past."""
    loss = log_floored(seen["restricted_loss"])
    return running_max(loss) - loss


@register(
    "excluded_loss",
    family="oracle",
    summary="training loss without the logits' key Fourier waves",
    needs=("excluded_loss",),
    source=_MECHANISM,
    sees_test_labels=True,
)
def excluded_loss(seen: Observables) -> Values:
    """As logged: it rises once the training rows, too, are answered by the Fourier algorithm."""
    return seen["excluded_loss"]


@register(
    "excluded_loss_rise",
    family="oracle",
    summary="log of the excluded loss over its smallest value so far",
    needs=("excluded_loss",),
    source=_MECHANISM,
    sees_test_labels=True,
)
def excluded_loss_rise(seen: Observables) -> Values:
    """Excluded loss against its own past: it falls while rows are memorised, then turns."""
    loss = log_floored(seen["excluded_loss"])
    return loss - running_min(loss)
