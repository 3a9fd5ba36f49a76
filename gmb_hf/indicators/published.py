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

from gmb_hf.indicators import catalogue, causal
from gmb_hf.indicators.catalogue import Observables
from gmb_hf.indicators.formulas import log_drop

register = partial(catalogue.register, published=True)
register_column = partial(catalogue.register_column, published=True)


def _from_step(seen: Observables, column: str, step: int) -> tuple[causal.Values, causal.Values]:
    """A column, and its value at the first checkpoint from a step on; NaN before."""
    value = seen[column]
    return value, causal.first_where(value, seen["step"] >= step)


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
    """Variance of the last fifth of the window over that of the rest; 1 where the rest is flat.

    Of a window of fewer than 10 checkpoints the last two stand for the last fifth: one has no
    variance.
    """
    late = max(width // 5, min(2, width // 2))
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

# Of the Fourier coefficients of the embedding over residues, in the order of the task's group: see
# `fourier_measures`. Density is the share of large coefficients, balance the smaller over the
# larger of sine and cosine.
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
_task("embedding_density", "Fourier frequency density (FFD) of the embedding", _FURUTA, low=True)
_task(
    "embedding_balance",
    "Fourier coefficient ratio (FCR) of the embedding, sine and cosine",
    _FURUTA,
)


# Activations and outputs.


_states = partial(register_column, family="spectral")
_outputs = partial(register_column, family="process")
_geometry = "of the training rows' last hidden states"

# Quantiles of the answers' log-probabilities on 100 training rows, over 500 steps. Published every
# 2 steps, here every checkpoint; windows trail and overlap, and before the first one it is 0.
# Guessed: 5 delays, the rank at 99% of energy, the error of one step within the reduced space.
_WANG = "Wang, Ying and Kanamori (2026), arXiv 2605.08237"
_outputs(
    "dmd_residual",
    "residual of a Hankel dynamic mode decomposition of training log-probabilities",
    _WANG,
)
_outputs("hankel_rank", "rank of the Hankel matrix of the DMD at 99% of the energy", _WANG)


@register(
    "dmd_rule",
    family="process",
    summary="1 where the DMD residual exceeds 10 times its first in two windows in a row",
    needs=("dmd_residual",),
    source=_WANG,
    rule=True,
)
def dmd_rule(seen: Observables, *, window: int = 500, factor: float = 10.0) -> causal.Values:
    """Two windows that do not overlap: now, and `window` steps ago. Guessed: which is the first."""
    residual = seen["dmd_residual"]
    baseline = causal.first_where(residual, residual > 0)
    now = causal.alarms(residual > factor * baseline, residual)
    return now * causal.lagged(now, seen.checkpoints(window))


# Of the covariance of 100 probe losses over 20 checkpoints. Guessed: the heat capacity as the
# variance of -log p under the normalised eigenvalues p; the abstract alone was read.
_HENNICK = "Hennick and Corlouer (2026), arXiv 2603.29805"
_outputs("loss_heat_capacity", "heat capacity of the probe losses' covariance in time", _HENNICK)
_outputs(
    "loss_participation",
    "participation ratio of the probe losses' covariance in time",
    _HENNICK,
    low=True,
)

_LOGITS = "Truong (2026), arXiv 2606.18465"
_outputs("train_confidence", "mean largest probability on training rows", _LOGITS)
_outputs("logit_scale", "root mean square of the training logits", _LOGITS)

# Mean of both Kullback-Leibler divergences of the answers to (a, b) and (b, a), over all pairs.
_outputs(
    "swap_divergence",
    "divergence between the answers to a, b and b, a of a commutative operation",
    "Hwang and Park (2026), arXiv 2603.01968",
    low=True,
    kind="task-aware",
)
_outputs(
    "swap_agreement",
    "share of pairs a, b that have the answer of b, a",
    "Tan and Huang (2023), arXiv 2311.06597",
    kind="task-aware",
)
# The mean over all replacements of an operand by another residue, where the paper draws one. On
# these tasks the right answer always changes too, so that the paper's sign may not hold.
_outputs(
    "input_sensitivity",
    "share of answers that change with one operand",
    "Bhattamishra et al. (2022), arXiv 2211.12316",
    low=True,
)
# 1 + log_d(sum p_i q_i) / 2, a reading of the abstract; n is taken to be the width d.
_states(
    "alignment_ratio",
    "log-alignment ratio of the unembedding with its inputs",
    "Shehper and Vaswani (2026), arXiv 2605.28975",
)
# Entropy of the covariance's normalised eigenvalues over log d.
_TRUONG = "Truong (2026), arXiv 2604.13123"
_states("hidden_entropy", f"spectral entropy {_geometry}", _TRUONG, low=True)
# The published threshold; it must have been above before, since some models begin below.
_states(
    "hidden_entropy_rule",
    "1 where the hidden entropy lies below .609 and has been above",
    _TRUONG,
    column="hidden_entropy",
    formula=lambda x: causal.alarms((x < 0.609) & (causal.running_max(x) >= 0.609), x),
    rule=True,
)
# Log of the 5 largest eigenvalues' sum over that of the rest.
_states(
    "head_tail_contrast",
    "contrast of large and small eigenvalues of held-out hidden states",
    "Bi (2026), arXiv 2603.24746",
)

# Mean squared distance of two class means over that of rows from their class mean (ILDR); its
# inverse is the collapse NC1 up to a factor. Guessed: pairs of classes count alike.
_GOLWALA = "Golwala (2026), arXiv 2604.20923"
_states(
    "train_class_distance",
    f"distance between classes over within classes {_geometry}",
    f"{_GOLWALA}; Papyan et al. (2020), arXiv 2008.08186",
)
_oracle = partial(register_column, family="oracle", sees_test_labels=True)
_oracle(
    "test_class_distance",
    "distance between classes over within classes of held-out hidden states",
    _GOLWALA,
)


@register(
    "class_distance_rule",
    family="oracle",
    summary="1 where the held-out class distance exceeds 2.5 times its value at step 3000",
    needs=("step", "test_class_distance"),
    source=_GOLWALA,
    sees_test_labels=True,
    rule=True,
)
def class_distance_rule(
    seen: Observables, *, baseline_step: int = 3000, factor: float = 2.5
) -> causal.Values:
    """The paper's constants; a run that ends before that step has no alarm."""
    value, first = _from_step(seen, "test_class_distance", baseline_step)
    return causal.alarms(value > factor * first, value)


# Guessed: beta by 5 steps of EM for 8 isotropic prototypes. In this form it is never below 0, so
# that the published crossing is no rule.
_states(
    "bifurcation_coordinate",
    "log precision of a mixture of 8 prototypes over its critical value",
    "Yang (2026), arXiv 2605.24057",
)
_states(
    "relative_flatness",
    "sum of <w_s, w_t> tr H_st over the output layer's rows",
    "Han et al. (2025), arXiv 2509.17738",
    low=True,
)
_outputs(
    "zero_loss_share",
    "share of training rows whose float32 loss is exactly 0",
    "Prieto et al. (2025), arXiv 2501.04697",
)
# Maximum likelihood form over 100 training rows; the published spike before the fall is no sign.
_states(
    "intrinsic_dimension",
    f"two-nearest-neighbour dimension {_geometry}",
    "Brown et al. (2022), arXiv 2211.13239",
    low=True,
)
# Sum of the minimum spanning tree's edges over 100 training rows. Guessed: the sign.
_states(
    "component_persistence", f"total persistence of H0 {_geometry}", "Tang (2026), arXiv 2605.06352"
)
_states(
    "hidden_rank",
    f"directions with 99% of the variance {_geometry}",
    "Fan et al. (2024), arXiv 2405.19454",
    low=True,
)
# Guessed: the effective rank as the function of the correlation matrix.
_states(
    "hidden_correlation_rank",
    f"effective rank of the correlations {_geometry}",
    "Singh et al. (2026), arXiv 2602.06702",
    low=True,
)
# Von Neumann entropies of the Gram matrices of class means and of the output layer's rows.
_SONG = "Song et al. (2024), arXiv 2406.03999"
_states(
    "head_information_ratio",
    "matrix mutual information ratio of class means and output rows",
    _SONG,
)
_states(
    "head_entropy_difference",
    "matrix entropy difference ratio of class means and output rows",
    _SONG,
    low=True,
)
# Guessed throughout: the largest eigenvalue of the centred distances over the semicircle's edge.
_states(
    "distance_outliers",
    "largest eigenvalue of held-out hidden states' distances beyond their bulk",
    "Halperin (2026), arXiv 2606.29679",
)
# For the answer, on the half of the training rows that the probe was not fitted to.
_outputs(
    "probe_accuracy",
    "accuracy of a linear probe for the answer on hidden states, in two folds",
    "Gomezjurado (2026), arXiv 2604.13082",
)

# Attention and hidden units.

# The cut is 0 for ReLU and .01 else, where the papers give none.
_GOLECHHA = "Golechha (2024), arXiv 2405.12755"
_outputs("activation_sparsity", "share of MLP activations that are off", _GOLECHHA)
_outputs(
    "dead_units",
    "share of MLP units that no training row activates",
    "Salah and Yevick (2025), arXiv 2507.11645",
)
# A tenth of the last block's matrices at 0, one fixed draw where the paper takes a mean, 64 rows.
_outputs(
    "circuit_complexity",
    "divergence of the outputs when a tenth of a block's weights is set to 0",
    _GOLECHHA,
    low=True,
)
# Of the patterns at EQ. The sign of the spread is not published: guessed as the likeness of heads.
_VERMA = "Verma (2026), arXiv 2605.20441"
_outputs("head_similarity", "mean cosine of two heads' attention patterns", _VERMA)
_outputs(
    "head_entropy_spread",
    "standard deviation over heads of the attention's entropy",
    _VERMA,
    low=True,
)
# Units as functions of the operation's direction, over training rows. Guessed: chance is 1 / K.
_SIVASANKAR = "Sivasankar (2026), arXiv 2606.12966"
_aware = partial(_outputs, kind="task-aware")
_aware("frequency_synchronisation", "share of units on the most common frequency", _SIVASANKAR)
_aware(
    "frequency_synchronisation_rule",
    "1 where the frequency synchronisation is .80 or more",
    _SIVASANKAR,
    column="frequency_synchronisation",
    formula=lambda x: causal.alarms(x >= 0.8, x),
    rule=True,
)
_aware(
    "frequency_rank",
    "median number of frequencies that hold 90% of a unit's power",
    _SIVASANKAR,
    low=True,
)
# Of 10 groups of at most 32 units by average linkage, Gaussian copula. The synergy is the smallest
# O-information of any subset, so that low is much; its early peak is not used.
_CLAUW = "Clauw et al. (2024), arXiv 2408.08944"
_outputs("synergy", "smallest O-information of groups of units", _CLAUW, low=True)
_outputs("redundancy", "largest O-information of groups of units", _CLAUW)
# Guessed: entropies of order 2, noise of a quarter of the embedding's size, both signs.
_TAN = "Tan and Huang (2023), arXiv 2311.06597"
_outputs("noise_entropy", "matrix entropy of hidden states under input noise", _TAN, low=True)
_outputs("noise_information", "matrix information of hidden states with and without noise", _TAN)
# cos(x, J' 1) at the embedding of 64 training rows, J the Jacobian of the logits.
_outputs(
    "centroid_alignment",
    "cosine of an input with its gradient of all logits",
    "Walker et al. (2025), arXiv 2506.12284",
)
_outputs(
    "centroid_rank",
    "directions with 90% of the variance of the classes' mean input gradients",
    "Xu (2026), arXiv 2604.25143; its coupling R_k is not defined well enough",
    low=True,
)
# By the embeddings of both operands, 64 rows, a fixed vector of signs probes each one's outputs.
_MALLINAR = "Mallinar et al. (2024), arXiv 2407.20199"
_outputs("agop_trace", "trace of the average gradient outer product", _MALLINAR)
_outputs("agop_top", "largest eigenvalue of the average gradient outer product", _MALLINAR)
_aware(
    "agop_circulant_deviation",
    "distance of the average gradient outer product from a circulant",
    _MALLINAR,
    low=True,
)

# Gradients.

_gradients = partial(register_column, family="dynamics")

# |theta_AB - theta_BA| / (|eta g_A| |eta g_B|) for two plain steps of 1e-3, in float64. One pair of
# fixed batches, an eighth of the rows each and at most 512, where the paper takes the median of 5.
_gradients(
    "commutator_defect",
    "log of how much the order of two mini-batch steps matters",
    _COMMUTATOR,
    formula=causal.log_floored,
)
_gradients(
    "commutator_rule",
    "1 where the commutator defect exceeds 20 and 10 times the median of its first three",
    _COMMUTATOR,
    column="commutator_defect",
    formula=lambda x: causal.alarms((x > 20) & (x > 10 * causal.baseline(x, 3)), x),
    rule=True,
)
# Of the mean gradient of the same batches; the paper's ratio with the Hessian was not read.
_gradients(
    "gradient_variance",
    "log of the variance of mini-batch gradients",
    "Acharya and Dhakal (2026), arXiv 2603.15492",
    formula=causal.log_floored,
)
# tr(Sigma) / |g|^2 from two batches, g their mean with its noise. No sign is published.
_gradients(
    "gradient_noise_scale",
    "log of the gradient noise scale, in rows",
    "McCandlish et al. (2018), arXiv 1812.06162",
    formula=causal.log_floored,
)
# A moving average with .98 a step, of the gradients at checkpoints alone.
_LEE = "Lee et al. (2024), arXiv 2405.20233, as a monitor after Golwala (2026), arXiv 2604.20923"
_gradients(
    "slow_gradient_norm",
    "log of the norm of the gradients' moving average",
    _LEE,
    formula=causal.log_floored,
    low=True,
)


@register(
    "slow_gradient_rule",
    family="dynamics",
    summary="1 where the slow gradient's norm is below half its value at step 3000",
    needs=("step", "slow_gradient_norm"),
    source=_LEE,
    rule=True,
)
def slow_gradient_rule(
    seen: Observables, *, baseline_step: int = 3000, factor: float = 0.5
) -> causal.Values:
    """The paper's constants; a run that ends before that step has no alarm."""
    norm, first = _from_step(seen, "slow_gradient_norm", baseline_step)
    return causal.alarms(norm < factor * first, norm)


_gradients(
    "loss_scaling_alignment",
    "cosine of the weights with the descent direction: naive loss minimisation",
    "Prieto et al. (2025), arXiv 2501.04697",
)

# Those that are recorded at few checkpoints, with the last value between.

# Lanczos with 12 products, Hutchinson with 6 vectors of signs.
_HESSIAN = "Notsawo et al. (2023), arXiv 2306.13253; Cullen (2026), arXiv 2603.01192"
_gradients(
    "hessian_top",
    "log of the largest eigenvalue of the training loss's Hessian",
    _HESSIAN,
    formula=causal.log_floored,
)
_gradients("hessian_trace", "trace of the training loss's Hessian", _HESSIAN)
# Of the answers' logits of 32 training rows; y y' says which rows share a label.
_KUMAR = "Kumar et al. (2023), arXiv 2310.06110"
_gradients("kernel_alignment", "alignment of the tangent kernel with the labels", _KUMAR)
_gradients("kernel_distance", "distance of the tangent kernel from the first (1 - CKA)", _KUMAR)
_gradients("kernel_speed", "relative change of the tangent kernel since its last record", _KUMAR)
# Dropout of .3, 20 draws, over 100 training rows where the paper takes held-out accuracy.
_SALAH = "Salah and Yevick (2025), arXiv 2507.11645"
_outputs("dropout_variance", "variance of training accuracy under dropout", _SALAH)
_outputs("dropout_accuracy", "mean training accuracy under dropout", _SALAH)
# 16 orthonormal directions at .05 of the embedding's norm, 25 training rows.
_outputs(
    "local_complexity",
    "units that change sign near a training row's embedding",
    "Humayun et al. (2024), arXiv 2402.15555",
    low=True,
)
# One chain of 200 steps, 100 of them burn-in; step size 3e-5 and localisation 100 are guessed.
_gradients(
    "learning_coefficient",
    "local learning coefficient by Langevin sampling",
    "Lau et al. (2024), arXiv 2402.02364; Cullen (2026), arXiv 2603.01192",
)
