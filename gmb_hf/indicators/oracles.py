"""Controls and oracles: bars to compare with, never monitors.

Controls stand in every table: a monitor must beat the clock, and a constant must fail. Oracles see
held-out labels.

Restricted and excluded loss know more than that: the algorithm that the network will learn. The
direction along which they sort the logits of all pairs is the answer itself, of held-out pairs
too, so that also the excluded loss, whose rows are training rows, is no monitor.
"""

from __future__ import annotations

import numpy as np

from gmb_hf.indicators.catalogue import Observables, register, register_column
from gmb_hf.indicators.causal import Values, log_floored, running_max, running_min

# s(t) = t: what knowing the usual time of the event is worth.
register_column(
    "clock",
    family="control",
    summary="the training step itself",
    column="step",
    source="control: a monitor must beat the clock",
)


@register(
    "constant",
    family="control",
    summary="the same score everywhere",
    needs=("step",),
    source="control: no information, one tied value",
)
def constant(seen: Observables) -> Values:
    """s(t) = 0: what an alarm without information does at every layer."""
    return np.zeros_like(seen["step"])


# Oracles.

_LABELS = "oracle: needs the labels that a monitor does not have"
_MECHANISM = (
    "oracle: knows the algorithm and every answer; Nanda et al. (2023), with the key frequencies "
    "of each checkpoint"
)

register_column(
    "test_loss",
    family="oracle",
    summary="held-out loss, low meaning risk",
    source=_LABELS,
    orientation=-1,
    sees_test_labels=True,
)


def _register_drop(which: str, what: str, source: str) -> None:
    """A loss against its own past: it begins to fall before accuracy rises."""
    column = f"{which}_loss"

    @register(
        f"{column}_drop",
        family="oracle",
        summary=f"log of the {what} loss's largest value so far over its present one",
        needs=(column,),
        source=source,
        sees_test_labels=True,
    )
    def drop(seen: Observables) -> Values:
        loss = log_floored(seen[column])
        return running_max(loss) - loss


_register_drop("test", "held-out", f"{_LABELS}; Nanda et al. (2023)")

# The event's own metric, before the jump.
register_column(
    "test_accuracy",
    family="oracle",
    summary="held-out accuracy",
    column="test_acc",
    source=_LABELS,
    sees_test_labels=True,
)

# The hardest tenth of the held-out rows.
register_column(
    "test_margin_q10",
    family="oracle",
    summary="10% quantile of the answer margin on held-out rows",
    source=_LABELS,
    sees_test_labels=True,
)

# The easiest tenth of the held-out rows: the first to be answered by the rule.
register_column(
    "test_margin_q90",
    family="oracle",
    summary="90% quantile of the answer margin on held-out rows",
    source=_LABELS,
    sees_test_labels=True,
)

# it falls once the Fourier algorithm alone gives answers.
register_column(
    "restricted_loss",
    family="oracle",
    summary="loss over all pairs of the logits' key Fourier waves alone, low meaning risk",
    source=_MECHANISM,
    orientation=-1,
    sees_test_labels=True,
)

_register_drop("restricted", "restricted", _MECHANISM)

# it rises once the training rows, too, are answered by the Fourier algorithm.
register_column(
    "excluded_loss",
    family="oracle",
    summary="training loss without the logits' key Fourier waves",
    source=_MECHANISM,
    sees_test_labels=True,
)


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
