"""Process: whether the model agrees with itself. These see held-out inputs, but no labels."""

from __future__ import annotations

import numpy as np

from gmb_hf.indicators.catalogue import Observables, register, register_column, register_mean
from gmb_hf.indicators.causal import Values, difference, gain, running_max, trailing_mean

# A general solution holds under perturbation where a memorised one breaks.
register_column(
    "disagreement",
    family="process",
    summary="share of held-out answers that noise on the embedding changes, low meaning risk",
    source="GMB v0.4, section 3 (self-consistency disagreement)",
    orientation=-1,
)


@register(
    "disagreement_drop",
    family="process",
    summary="fall of the smoothed disagreement from its largest value so far",
    needs=("disagreement",),
    source="GMB v0.4, section 3 (self-consistency disagreement)",
    window_parameter="window",
)
def disagreement_drop(seen: Observables, *, window: int = 100) -> Values:
    """Relative to the run's own past, so that runs share one threshold."""
    smooth = trailing_mean(seen["disagreement"], seen.checkpoints(window))
    return running_max(smooth) - smooth


# Answers settle where a general rule takes over.
register_mean(
    "prediction_change",
    family="process",
    summary="mean share of held-out answers that changed per checkpoint, low meaning risk",
    source="GMB v0.4, section 3 (step instability)",
    orientation=-1,
)

# Samples of a language model agree where it has found a rule.
register_column(
    "self_consistency_disagreement",
    family="process",
    summary="1 - share of the most frequent of K sampled continuations, low meaning risk",
    source="Wang et al. (2022), Self-Consistency; GMB v0.4, section 3",
    orientation=-1,
)


# Combinations of two observables by a formula that is written down here and fitted to nothing.
# Structure grows long before held-out accuracy shows it (the Gini gain of the unembedding), but how
# soon the jump comes depends on whether the network is at rest. Structure alone is early and
# blurred; rest alone comes and goes all the time; their product is neither. None of them sees a
# held-out label. `shrinking_structure` (spectral) is the third of them.


_COMBINED = "this package; structure after Nanda et al. (2023), stability after GMB v0.4, section 3"


@register(
    "settled_structure",
    family="process",
    summary="unembedding Gini gain times the share of held-out answers that stay, both smoothed",
    needs=("unembedding_gini", "prediction_change"),
    source=_COMBINED,
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
    source=_COMBINED,
    window_parameter="window",
)
def settling_structure(seen: Observables, *, window: int = 100) -> Values:
    """gain(G) exp(c(t - h) - c(t)), h the window: largest where answers have just come to rest."""
    width = seen.checkpoints(window)
    settling = -difference(seen["prediction_change"], width)
    return gain(seen["unembedding_gini"], width) * np.exp(settling)
