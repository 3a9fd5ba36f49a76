"""Controls that stand in every table: a monitor must beat the clock, and a constant must fail."""

from __future__ import annotations

import numpy as np

from gmb_hf.indicators.catalogue import Observables, register, register_column
from gmb_hf.indicators.causal import Values

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
