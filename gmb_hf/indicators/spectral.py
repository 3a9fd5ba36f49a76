"""Spectral: what the weight matrices look like, and how evenly. None of these sees a label."""

from __future__ import annotations

import numpy as np

from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import Observables, register, register_column

_FOURIER = "Nanda et al. (2023), Progress measures for grokking via mechanistic interpretability"
_RANK = "Roy and Vetterli (2007), The effective rank, EUSIPCO"
_SHRINKING = (
    "this package; structure after Nanda et al. (2023), stability after GMB v0.4, section 3; "
    "shrinkage after Liu et al. (2023), Omnigrok"
)
_RATIO = "Gao et al. (2017), A theory of multineuronal dimensionality"


def _register_entropy_drop(part: str, name: str, summary: str, source: str) -> None:
    """Enter max(0, -MA(dH) / epsilon), dH the change of the entropy from checkpoint to checkpoint.

    epsilon is a unit (nats per checkpoint) and moves no verdict.
    """
    column = f"{part}_entropy"

    @register(
        name,
        family="spectral",
        summary=summary,
        needs=(column,),
        source=f"GMB v0.4 reference implementation{source}",
        window_parameter="window",
    )
    def drop(seen: Observables, *, window: int = 100, epsilon: float = 1e-3) -> causal.Values:
        change = causal.trailing_mean(causal.difference(seen[column]), seen.checkpoints(window))
        return (-change / epsilon).clip(min=0)


_register_entropy_drop(
    "unembedding",
    "spectral_entropy_drop",
    "the reference baseline: mean fall of the unembedding's spectral entropy, cut at 0",
    "",
)
_register_entropy_drop(
    "embedding",
    "embedding_entropy_drop",
    "mean fall of the embedding's spectral entropy, cut at 0",
    ", applied to the embedding",
)
_register_entropy_drop(
    "attention",
    "attention_entropy_drop",
    "mean fall of the attention weights' spectral entropy, cut at 0",
    ", applied to the attention weights",
)

# A general solution needs few frequencies, and so few directions.
register_column(
    "effective_rank",
    family="spectral",
    summary="effective rank of the unembedding, low meaning risk",
    column="unembedding_rank",
    source=_RANK,
    orientation=-1,
)


@register(
    "effective_rank_drop",
    family="spectral",
    summary="log of the unembedding's largest effective rank so far over its present one",
    needs=("unembedding_rank",),
    source=_RANK,
)
def effective_rank_drop(seen: Observables) -> causal.Values:
    """Relative to the run's own past, so that runs of different width share one threshold."""
    rank = causal.log_floored(seen["unembedding_rank"])
    return causal.running_max(rank) - rank


# near 0 for an even spectrum, near 1 for one frequency.
register_column(
    "embedding_gini",
    family="spectral",
    summary="Gini coefficient of the embedding's Fourier power over residues",
    source=_FOURIER,
)

register_column(
    "unembedding_gini",
    family="spectral",
    summary="Gini coefficient of the unembedding's Fourier power over residues",
    source=_FOURIER,
)


def _register_gini_gain(part: str) -> None:
    """Structure that grew in this run, whatever the split and the initialisation began with."""
    column = f"{part}_gini"

    @register(
        f"{column}_gain",
        family="spectral",
        summary=f"rise of the smoothed {part} Gini above its smallest value so far",
        needs=(column,),
        source=_FOURIER,
        window_parameter="window",
    )
    def gini_gain(seen: Observables, *, window: int = 100) -> causal.Values:
        return causal.gain(seen[column], seen.checkpoints(window))


_register_gini_gain("embedding")
_register_gini_gain("unembedding")

# generalising states fill fewer dimensions than memorised ones.
register_column(
    "participation_ratio",
    family="spectral",
    summary="participation ratio of the last hidden state, low meaning risk",
    source=_RATIO,
    orientation=-1,
)


# The product of structure and rest, as in `settled_structure` (process), from the weights alone.
@register(
    "shrinking_structure",
    family="spectral",
    summary="unembedding Gini gain times the shrinkage of the squared attention norm; weights only",
    needs=("unembedding_gini", "attention_norm"),
    source=_SHRINKING,
    window_parameter="window",
)
def shrinking_structure(seen: Observables, *, window: int = 100) -> causal.Values:
    """gain(G) (|A(t - h)| / |A(t)|)^2: it reads the weights and no data at all."""
    width = seen.checkpoints(window)
    shrinkage = -2 * causal.difference(causal.log_floored(seen["attention_norm"]), width)
    # A norm that was 0 and is not gives a ratio without meaning; the bound keeps it finite.
    return causal.gain(seen["unembedding_gini"], width) * np.exp(np.clip(shrinkage, -20, 20))
