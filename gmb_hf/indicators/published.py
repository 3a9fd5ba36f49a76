"""Indicators that papers have published, as published: formula, orientation and parameters.

Each names its paper; the comment above it has the formula, what was made causal and what had to be
guessed. A value that a paper takes from the finished run, such as a global peak, is taken from the
run so far. Alarm rules of the papers' own are indicators of 0 and 1 (`rule=True`). The columns that
these read are recorded where `training.observables` is `published` or `all`; docs/signals.md has a
table of all signals, with what each costs.

The upper half reads the log's usual columns, weights and updates; the lower half activations,
outputs and gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import Observables, register, register_column
from gmb_hf.indicators.formulas import log_drop

# The usual columns: norms and the training loss.

_log = partial(register_column, family="dynamics")

_OMNIGROK = "Liu et al. (2022), Omnigrok, arXiv 2210.01117"
# |w|: it rises while rows are memorised and falls before the event. A baseline for all others.
_log("weight_norm", "norm of all weights", _OMNIGROK, low=True)


@register(
    "steps_since_norm_peak",
    family="dynamics",
    summary="steps since the weight norm was largest",
    needs=("step", "weight_norm"),
    source=f"{_OMNIGROK}; Truong (2026), arXiv 2606.13753",
)
def steps_since_norm_peak(seen: Observables) -> causal.Values:
    """t - argmax |w|; made causal: the peak is that of the run so far."""
    step, norm = seen["step"], seen["weight_norm"]
    at_peak = causal.running_max(np.where(norm >= causal.running_max(norm), step, -np.inf))
    return np.where(np.isfinite(at_peak), step - at_peak, 0.0)


# A baseline for all others: the loss that rows are learned by.
_log("train_loss", "training loss", "baseline", low=True)

_THILAK = "Thilak et al. (2022), The slingshot mechanism, arXiv 2206.04817"
# log |w_out(t)| - log |w_out(t - h)|: a slingshot begins with a jump of the last layer's norm.
_log(
    "unembedding_norm_growth",
    "rise of the log norm of the output layer over a trailing window",
    _THILAK,
    column="unembedding_norm",
    trailing=lambda x, lag: causal.difference(causal.log_floored(x), lag),
)


def _doubled(x: causal.Values, width: int) -> causal.Values:
    rise = causal.difference(causal.log_floored(x))
    return causal.trailing_mean(causal.alarms(rise > np.log(2), rise), width)


# Share of the window's checkpoints at which the loss is more than twice that of the checkpoint
# before. Guessed: the paper shows spikes and gives no size of one.
_log(
    "train_loss_spikes",
    "share of checkpoints in a trailing window at which the training loss has doubled",
    _THILAK,
    column="train_loss",
    trailing=_doubled,
)

_NOTSAWO = "Notsawo et al. (2023), Predicting grokking long before it happens, arXiv 2306.13253"


def _root(x: causal.Values, y: causal.Values) -> causal.Values:
    """Root of the ratio of two variances, 0 where there is none."""
    return np.sqrt(np.divide(x, y, out=0 * y, where=y > 0))


def _moments(x: causal.Values, width: int) -> tuple[causal.Values, causal.Values, causal.Values]:
    """Variances of the loss, its trend removed, of its differences and of their differences."""
    change = causal.difference(x)
    bend = causal.difference(change)
    return (
        causal.detrended_moments(x, width)[0],
        causal.trailing_variance(change, width - 1),
        causal.trailing_variance(bend, width - 2),
    )


def _hjorth(name: str, what: str, place: int) -> None:
    """With variances v, v' and v'' of the loss, its differences and their differences.

    activity v, mobility sqrt(v' / v), complexity sqrt(v'' / v') / mobility. Made causal: the paper
    reads the first 400 steps once, to say whether a run will grok; here the window of 400 steps
    trails. Guessed: the trend that is removed is a straight line.
    """

    def measure(x: causal.Values, width: int) -> causal.Values:
        activity, first, second = _moments(x, width)
        if place == 0:
            return activity
        mobility = _root(first, activity)
        if place == 1:
            return mobility
        inner = _root(second, first)
        return np.divide(inner, mobility, out=0 * mobility, where=mobility > 0)

    @register(
        name,
        family="dynamics",
        summary=f"Hjorth {what} of the training loss in a trailing window",
        needs=("train_loss",),
        source=_NOTSAWO,
        minimum_checkpoints={"window": 4},
        window_parameter="window",
    )
    def hjorth(seen: Observables, *, window: int = 400) -> causal.Values:
        return measure(seen["train_loss"], seen.checkpoints(window))


for _place, _what in enumerate(("activity", "mobility", "complexity")):
    _hjorth(f"loss_{_what}", _what, _place)

_BENFIELD = "Benfield (2026), github.com/EssexRich/neural_si_validation"
_SLOWING = f"{_BENFIELD}; after Scheffer et al. (2009); see csd_autocorrelation, csd_variance"


def _variance_ratio(x: causal.Values, width: int) -> causal.Values:
    """Variance of the last fifth of the window over that of the rest; 1 where the rest is flat."""
    late = max(1, width // 5)
    rest = causal.lagged(causal.trailing_variance(x, width - late), late)
    recent = causal.trailing_variance(x, late)
    return np.divide(recent, rest, out=1 + 0 * rest, where=rest > 1e-12)


def _register_slowing(
    name: str, summary: str, statistic: Callable[[causal.Values, int], causal.Values], over: float
) -> None:
    """The statistic of the log training loss over 200 records, and the author's rule.

    The rule fires where it exceeds its mean over the first 100 records by `over`. Made causal: it
    is silent until those are there. Guessed: the author's series is the Fiedler value at every
    step; here it is the loss, records are steps, and those between checkpoints are left out. The
    author removes no trend, which alone brings the autocorrelation of a smooth series near 1.
    """

    def of_loss(seen: Observables, window: int) -> causal.Values:
        return statistic(causal.log_floored(seen["train_loss"]), seen.checkpoints(window))

    slowing = partial(
        register,
        family="dynamics",
        needs=("train_loss",),
        source=_SLOWING,
        window_parameter="window",
    )

    @slowing(name, summary=summary, minimum_checkpoints={"window": 5})
    def level(seen: Observables, *, window: int = 200) -> causal.Values:
        return of_loss(seen, window)

    @slowing(
        f"{name}_rule",
        summary=f"the author's rule: {over:g} above the mean of the first 100 steps of {name}",
        minimum_checkpoints={"window": 5},
        rule=True,
    )
    def rule(seen: Observables, *, window: int = 200, baseline_window: int = 100) -> causal.Values:
        now = of_loss(seen, window)
        count = seen.checkpoints(baseline_window, name="baseline_window")
        return causal.alarms(now > causal.baseline(now, count, median=False) + over, now)


# Correlation of the records with those before them.
_register_slowing(
    "loss_autocorrelation",
    "lag-1 autocorrelation of the log training loss, trend included",
    causal.trailing_correlation,
    0.1,
)
# Variance of the last fifth of the records over that of the others.
_register_slowing(
    "loss_variance_ratio",
    "variance of the log training loss: last fifth of a trailing window over the rest",
    _variance_ratio,
    0.2,
)


# Weights and updates: columns of `gmb_hf.training.spectra`, which has the formulas.

_weights = partial(register_column, family="spectral")

# |w(t) - w(0)|, in two norms, and the cosine of both. No claim of a direction for the cosine: it
# falls as the distance grows.
_BARAK = "Barak et al. (2022), Hidden progress in deep learning, arXiv 2207.08799"
_weights("initial_distance", "Euclidean distance of all weights from the initial ones", _BARAK)
_weights("initial_distance_max", "largest distance of a weight from its initial value", _BARAK)
_weights("initial_cosine", "cosine of all weights with the initial ones", _BARAK, low=True)

# Variance share of the first principal component of the snapshots of Q, K, V and O, each by itself,
# last block; the mean of the four. Made causal: the newest 30 snapshots, for all of the run.
_XU = "Xu (2026), arXiv {}"
_COMMUTATOR = _XU.format("2602.16746")
_weights(
    "trajectory_pc1",
    "first component's share of the variance of attention snapshots",
    _COMMUTATOR,
    low=True,
)
# |W_Q W_K - W_K W_Q| of the first block, all heads together; it peaks and then falls.
_weights(
    "attention_commutator", "Frobenius norm of the commutator of W_Q and W_K", _COMMUTATOR, low=True
)
# s1 - s2 of W_Q; by the author's own table it grows mostly after the event.
_weights("query_gap", "gap of the two largest singular values of W_Q", _COMMUTATOR)

# Of the newest 10 increments of all attention weights: s2^2 - s3^2, in logarithms, and the ratio at
# the edge. Increments end at checkpoints. Guessed: that the ratio falls where the gap does.
_EDGE = _XU.format("2603.28964")
_weights(
    "spectral_edge_gap",
    "log gap s2^2 - s3^2 of the singular values of attention increments",
    _EDGE,
    formula=causal.log_floored,
    low=True,
)
_weights(
    "spectral_edge_ratio",
    "singular value over the next at the edge of attention increments",
    _EDGE,
    low=True,
)
# s2 / s3 of the newest 20 increments. Guessed: increments of attention weights, as in the author's
# other papers. The paper's alarm needs four constants that were fitted to its own runs: left out.
_weights(
    "increment_lock_in",
    "ratio of the second and third singular value of attention increments",
    _XU.format("2605.08119"),
)

# Second smallest eigenvalue of the Laplacian of a graph of units with edges |w|. Guessed: the graph
# of a transformer, whose blocks share one residual stream (the author's network is an MLP).
_weights("fiedler_value", "algebraic connectivity of the graph of weights", _BENFIELD)
# Of the last step's update: entropy of 64 even bins of |dw|, all weights (here in nats); and
# s1^2 / sum s^2, the mean over matrices.
_weights("update_entropy", "entropy of the sizes of the last update", _BENFIELD, low=True)
_weights(
    "update_top_share",
    "share of the largest singular value in the squared norm of the last update",
    _BENFIELD,
)

# exp of the entropy of the normalised singular values over their number; sum s^2 / s1^2. Mean over
# matrices.
_YUNIS = (
    "Yunis et al. (2024), Approaching deep learning through spectral dynamics, arXiv 2408.11804"
)
_weights(
    "weight_effective_rank", "mean effective rank of the matrices over their rank", _YUNIS, low=True
)
_weights("stable_rank", "mean stable rank of the matrices", f"{_YUNIS}; stable rank", low=True)

# Exponent of a power law fitted to the largest eigenvalues of W^T W, mean over matrices. Guessed: a
# tail has 8 eigenvalues at least. With some 30 of them the fit is noisy.
_PRAKASH = "Prakash and Martin (2025), Grokking and generalization collapse, arXiv 2506.04434"
_weights("tail_exponent", "mean power-law exponent of the eigenvalues of W^T W", _PRAKASH, low=True)
# Eigenvalues of W with its entries shuffled beyond the Marchenko-Pastur bulk, all matrices; the
# threshold is WeightWatcher's. Guessed: one shuffle, the same at every checkpoint, and the bulk of
# entries of the matrix's own variance. The paper sees traps in late collapse.
_weights(
    "correlation_traps",
    "eigenvalues of the shuffled matrices outside the random bulk",
    f"{_PRAKASH}; arXiv 2602.02859",
)

# -sum |w| log |w|, as reported without normalisation.
_weights(
    "weight_entropy",
    "absolute weight entropy of all weights",
    "Golechha (2024), Progress measures for grokking on real-world tasks, arXiv 2405.12755",
    low=True,
)
# Shannon entropy of a histogram of the output layer's weights. Guessed: 64 even bins over their
# range.
_weights(
    "unembedding_weight_entropy",
    "entropy of the histogram of the output layer's weights",
    "Salah and Yevick (2024), arXiv 2411.05353",
    low=True,
)

# Complexity rises while rows are memorised and falls from its peak before the event: the log of the
# largest so far over the present one. Guessed, for cheapness: the paper searches the coarsest
# rounding and the lowest ranks that keep the loss, then counts bytes of a compressor; here all
# weights are rounded to half their initial deviation, and an ideal code of single values counts.
_weights(
    "compressed_length_drop",
    "log of the largest compressed length of the weights so far over the present one",
    "DeMoss et al. (2024), The complexity dynamics of grokking, arXiv 2412.09810",
    column="compressed_length",
    formula=log_drop,
)

# Jaccard distance of the masks of the largest 40% of all weights. Made causal: from the checkpoint
# before, not from the end of training.
_weights(
    "mask_distance",
    "Jaccard distance of the mask of large weights from that of the checkpoint before",
    "Minegishi et al. (2023), Bridging lottery ticket and grokking, arXiv 2310.19470",
)

# Of the Fourier coefficients of the embedding over residues: see `fourier_measures`. Density is the
# share of large coefficients, balance the smaller over the larger of sine and cosine.
_task = partial(_weights, kind="task-aware")
_task(
    "embedding_participation",
    "inverse participation ratio of the embedding's Fourier power",
    "Doshi et al. (2023), To grok or not to grok, arXiv 2310.13061",
)
_task(
    "embedding_top8",
    "share of the 8 strongest frequencies in the embedding's Fourier power",
    "Nanda et al. (2023), arXiv 2301.05217; top-8 share as in gunnerhowe/Research, P5",
)
# Guessed: the cut of half the largest coefficient, and both directions.
_FURUTA = "Furuta et al. (2024), Towards empirical interpretation of grokking, arXiv 2402.16726"
_task(
    "embedding_density",
    "Fourier frequency density (FFD) of the embedding",
    _FURUTA,
    low=True,
)
_task(
    "embedding_balance",
    "Fourier coefficient ratio (FCR) of the embedding, sine and cosine",
    _FURUTA,
)
