"""Combinations of two observables by a formula that is written down here and fitted to nothing.

The idea of all of them: structure grows long before held-out accuracy shows it (the Gini gain of
the unembedding), but how soon the jump comes depends on whether the network is at rest. Structure
alone is early and blurred; rest alone comes and goes all the time; their product is neither. None
of them sees a held-out label.
"""

from __future__ import annotations

import numpy as np

from gmb_hf.indicators.catalogue import Observables, register
from gmb_hf.indicators.causal import Values, difference, gain, log_floored, trailing_mean

_SOURCE = "this package; structure after Nanda et al. (2023), stability after GMB v0.4, section 3"


@register(
    "settled_structure",
    family="process",
    summary="unembedding Gini gain times the share of held-out answers that stay, both smoothed",
    needs=("unembedding_gini", "prediction_change"),
    source=_SOURCE,
    window_parameter="window",
)
def settled_structure(seen: Observables, *, window: int = 100) -> Values:
    """gain(G) (1 - MA(c)): G the Gini, c the share of answers that changed since a checkpoint."""
    width = seen.checkpoints(window)
    staying = 1 - trailing_mean(seen["prediction_change"], width)
    return gain(seen["unembedding_gini"], width) * staying


@register(
    "settling_structure",
    family="process",
    summary="unembedding Gini gain times exp of the fall of prediction change over the window",
    needs=("unembedding_gini", "prediction_change"),
    source=_SOURCE,
    window_parameter="window",
)
def settling_structure(seen: Observables, *, window: int = 100) -> Values:
    """gain(G) exp(c(t - h) - c(t)), h the window: largest where answers have just come to rest."""
    width = seen.checkpoints(window)
    settling = -difference(seen["prediction_change"], width)
    return gain(seen["unembedding_gini"], width) * np.exp(settling)


@register(
    "shrinking_structure",
    family="spectral",
    summary="unembedding Gini gain times the shrinkage of the squared attention norm; weights only",
    needs=("unembedding_gini", "attention_norm"),
    source=f"{_SOURCE}; shrinkage after Liu et al. (2023), Omnigrok",
    window_parameter="window",
)
def shrinking_structure(seen: Observables, *, window: int = 100) -> Values:
    """gain(G) (|A(t - h)| / |A(t)|)^2: it reads the weights and no data at all."""
    width = seen.checkpoints(window)
    shrinkage = -2 * difference(log_floored(seen["attention_norm"]), width)
    # A norm that was 0 and is not gives a ratio without meaning; the bound keeps it finite.
    return gain(seen["unembedding_gini"], width) * np.exp(np.clip(shrinkage, -20, 20))
