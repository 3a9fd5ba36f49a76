"""Crucible: how surely the model answers its rows, and how well it tells answers apart."""

from __future__ import annotations

from gmb_hf.indicators.catalogue import Observables, register, register_column
from gmb_hf.indicators.causal import Values

# The hardest tenth of the training rows.
register_column(
    "train_margin_q10",
    family="crucible",
    summary="10% quantile of the answer margin on training rows",
    source="CRUCIBLE metrics; Bartlett et al. (2017), Spectrally-normalized margin bounds",
)

# The typical training row.
register_column(
    "train_margin_q50",
    family="crucible",
    summary="median answer margin on training rows",
    source="CRUCIBLE metrics; Bartlett et al. (2017), Spectrally-normalized margin bounds",
)


@register(
    "train_margin_spread",
    family="crucible",
    summary="distance of the 10% and 90% quantiles of the training margins, low meaning risk",
    needs=("train_margin_q10", "train_margin_q90"),
    source="CRUCIBLE metrics (difficulty tiers)",
    orientation=-1,
)
def train_margin_spread(seen: Observables) -> Values:
    """One rule serves every row alike; memorised rows differ."""
    return seen["train_margin_q90"] - seen["train_margin_q10"]


# A model that overrules its wrong labels has found the rule; it needs corrupted rows.
register_column(
    "correction_rate",
    family="crucible",
    summary="accuracy against the truth on training rows that carry a wrong label",
    source="GMB v0.4 reference implementation (constraint signal of PT-MSS)",
    sees_test_labels=True,  # the truth behind a wrong label is what a monitor does not have
)

_BUNDLES = "CRUCIBLE metrics (margin), over the equations of `gmb crucible from-runs`"

# Do even the hardest training equations lie nearer to those with the same answer?
register_column(
    "crucible_train_margin_q10",
    family="crucible",
    summary="10% quantile of the bundles' margins, training equations",
    source=_BUNDLES,
)

# The same of equations that the model has never seen.
register_column(
    "crucible_margin_q10",
    family="crucible",
    summary="10% quantile of the bundles' margins, held-out equations",
    source=_BUNDLES,
    sees_test_labels=True,  # a positive is found by the true answers of held-out equations
)
