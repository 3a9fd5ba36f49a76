"""Spectral: what the weight matrices look like, and how evenly. None of these sees a label."""

from __future__ import annotations

import numpy as np

from gmb_hf.indicators.catalogue import Observables, register, register_column
from gmb_hf.indicators.causal import (
    Values,
    difference,
    gain,
    log_floored,
    running_max,
    trailing_mean,
)

_FOURIER = "Nanda et al. (2023), Progress measures for grokking via mechanistic interpretability"
_RANK = "Roy and Vetterli (2007), The effective rank, EUSIPCO"
_SHRINKING = (
    "this package; structure after Nanda et al. (2023), stability after GMB v0.4, section 3; "
    "shrinkage after Liu et al. (2023), Omnigrok"
)
_RATIO = "Gao et al. (2017), A theory of multineuronal dimensionality"


def _entropy_drop(seen: Observables, column: str, window: int, epsilon: float) -> Values:
    """max(0, -MA(dH) / epsilon), dH the change of the entropy from checkpoint to checkpoint."""
    width = seen.checkpoints(window)
    return (-trailing_mean(difference(seen[column]), width) / epsilon).clip(min=0)


@register(
    "spectral_entropy_drop",
    family="spectral",
    summary="the reference baseline: mean fall of the unembedding's spectral entropy, cut at 0",
    needs=("unembedding_entropy",),
    source="GMB v0.4 reference implementation",
    window_parameter="window",
)
def spectral_entropy_drop(seen: Observables, *, window: int = 100, epsilon: float = 1e-3) -> Values:
    """max(0, -MA_w(dH) / epsilon); epsilon is a unit (nats per checkpoint) and moves no verdict."""
    return _entropy_drop(seen, "unembedding_entropy", window, epsilon)


@register(
    "embedding_entropy_drop",
    family="spectral",
    summary="mean fall of the embedding's spectral entropy, cut at 0",
    needs=("embedding_entropy",),
    source="GMB v0.4 reference implementation, applied to the embedding",
    window_parameter="window",
)
def embedding_entropy_drop(
    seen: Observables, *, window: int = 100, epsilon: float = 1e-3
) -> Values:
    """The baseline's formula on the embedding."""
    return _entropy_drop(seen, "embedding_entropy", window, epsilon)


@register(
    "attention_entropy_drop",
    family="spectral",
    summary="mean fall of the attention weights' spectral entropy, cut at 0",
    needs=("attention_entropy",),
    source="GMB v0.4 reference implementation, applied to the attention weights",
    window_parameter="window",
)
def attention_entropy_drop(
    seen: Observables, *, window: int = 100, epsilon: float = 1e-3
) -> Values:
    """The baseline's formula on the attention weights."""
    return _entropy_drop(seen, "attention_entropy", window, epsilon)


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
def effective_rank_drop(seen: Observables) -> Values:
    """Relative to the run's own past, so that runs of different width share one threshold."""
    rank = log_floored(seen["unembedding_rank"])
    return running_max(rank) - rank


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


@register(
    "embedding_gini_gain",
    family="spectral",
    summary="rise of the smoothed embedding Gini above its smallest value so far",
    needs=("embedding_gini",),
    source=_FOURIER,
    window_parameter="window",
)
def embedding_gini_gain(seen: Observables, *, window: int = 100) -> Values:
    """Structure that grew in this run, whatever the split and the initialisation began with."""
    return gain(seen["embedding_gini"], seen.checkpoints(window))


@register(
    "unembedding_gini_gain",
    family="spectral",
    summary="rise of the smoothed unembedding Gini above its smallest value so far",
    needs=("unembedding_gini",),
    source=_FOURIER,
    window_parameter="window",
)
def unembedding_gini_gain(seen: Observables, *, window: int = 100) -> Values:
    """The same of the unembedding."""
    return gain(seen["unembedding_gini"], seen.checkpoints(window))


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
def shrinking_structure(seen: Observables, *, window: int = 100) -> Values:
    """gain(G) (|A(t - h)| / |A(t)|)^2: it reads the weights and no data at all."""
    width = seen.checkpoints(window)
    shrinkage = -2 * difference(log_floored(seen["attention_norm"]), width)
    # A norm that was 0 and is not gives a ratio without meaning; the bound keeps it finite.
    return gain(seen["unembedding_gini"], width) * np.exp(np.clip(shrinkage, -20, 20))
