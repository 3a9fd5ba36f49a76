"""The indicators of this package, a family after the other.

Monitors of the families `dynamics`, `spectral`, `process`, `hierarchical_convergence` and
`crucible` see no held-out label, but for those that say so. Controls and oracles are bars to
compare with, never monitors.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from gmb_hf.base.errors import InputError
from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import Observables, register, register_column
from gmb_hf.runs.metadata import LEVELS, at_level

_DYNAMICS = "GMB v0.4, section 3 (dynamics)"
_CONSISTENCY = "GMB v0.4, section 3 (self-consistency disagreement)"
_REFERENCE = "GMB v0.4 reference implementation"
_NANDA = "Nanda et al. (2023)"
_PROGRESS = f"{_NANDA}, Progress measures for grokking via mechanistic interpretability"


# Dynamics: how losses, norms and gradients move.

_dynamics = partial(register_column, family="dynamics")
_SLOWING = "Scheffer et al. (2009), Early-warning signals for critical transitions, Nature 461"
_DETRENDED = f"{_SLOWING}; Dakos et al. (2012), Methods for detecting early warnings, PLoS ONE 7"


def _register_slowing(name: str, statistic: str, place: int) -> None:
    """Critical slowing down: near a transition, fluctuations grow and decay ever more slowly."""
    _dynamics(
        name,
        f"{statistic} of the log training loss, detrended in a trailing window",
        _DETRENDED,
        column="train_loss",
        trailing=lambda x, width: causal.detrended_moments(causal.log_floored(x), width)[place],
        minimum_checkpoints={"window": 4},
    )


_register_slowing("csd_autocorrelation", "lag-1 autocorrelation", 1)
_register_slowing("csd_variance", "variance", 0)


def _register_variance_explosion(part: str) -> None:
    """Log of the ratio of two variances, each with a floor that lets 0 over 0 be 0."""

    @register(
        f"{part}_variance_explosion",
        family="dynamics",
        summary=f"variance explosion index of the log {part} norm: short over long window variance",
        needs=(f"{part}_norm",),
        source="VEI is named in GMB v0.4, section 3; the formula is this package's",
        minimum_checkpoints={"window": 2, "short_window": 2},
        window_parameter="window",
    )
    def explosion(seen: Observables, *, window: int = 100, short_window: int = 50) -> causal.Values:
        x = causal.log_floored(seen[f"{part}_norm"])
        long = causal.trailing_variance(x, seen.checkpoints(window))
        short = causal.trailing_variance(x, seen.checkpoints(short_window, name="short_window"))
        return causal.log_floored(short) - causal.log_floored(long)


_register_variance_explosion("gradient")
_register_variance_explosion("weight")

_dynamics(
    "curvature",
    "curvature of the training loss along its gradient, over a finite step",
    "Cohen et al. (2021), Gradient descent typically occurs at the edge of stability, ICLR",
)
# The logarithm, so that a preregistered smoothing averages orders of magnitude.
_thilak = partial(_dynamics, source="Thilak et al. (2022), The slingshot mechanism")
_thilak("gradient_norm", "log of the gradient norm", formula=causal.log_floored)
_thilak("update_norm", "log of the norm of the last weight update", formula=causal.log_floored)

# Per checkpoint; above 0 where the training loss rises again while circuits compete.
_dynamics(
    "train_loss_slope",
    "least-squares slope of the log training loss in a trailing window",
    _DYNAMICS,
    column="train_loss",
    trailing=lambda x, width: causal.trailing_slope(causal.log_floored(x), width),
    minimum_checkpoints={"window": 2},
)


def _bend(x: causal.Values, lag: int) -> causal.Values:
    """x(t) - 2 x(t - h) + x(t - 2h) of the logarithm, h the window in checkpoints."""
    slope = causal.difference(causal.log_floored(x), lag)
    return slope - causal.lagged(slope, lag)


_dynamics(
    "weight_norm_acceleration",
    "downward bend of the log weight norm: second difference over a trailing window",
    _DYNAMICS,
    column="weight_norm",
    trailing=_bend,
    orientation=-1,
)

_CLEANUP = f"cleanup precedes the jump: {_PROGRESS}"
for _part, _what, _why in (
    ("weight", "all weights", "weight decay shrinks the memorising solution"),
    ("embedding", "the embedding", _CLEANUP),
    ("unembedding", "the unembedding", _CLEANUP),
    ("attention", "the attention weights", _PROGRESS),
    ("mlp", "the MLP weights", _PROGRESS),
):
    _dynamics(
        f"{_part}_norm_drop",
        f"fall of the log norm of {_what} over a trailing window",
        f"Liu et al. (2023), Omnigrok: grokking beyond algorithmic data, ICLR; {_why}",
        column=f"{_part}_norm",
        trailing=lambda x, lag: -causal.difference(causal.log_floored(x), lag),
    )

# The textbook failure: it ranks well, and cannot be an alarm.
_dynamics(
    "train_accuracy",
    "training accuracy: ties at 1 leave no threshold at a small false positive rate",
    "GMB v0.4, section 4.2 (floor of the false positive rate)",
    column="train_acc",
)


def _variance_of_log(x: causal.Values, width: int) -> causal.Values:
    """Rises with spikes and with steady movement alike; the detrended one is csd_variance."""
    return causal.log_floored(
        causal.trailing_variance(causal.trailing_mean(causal.log_floored(x), 2), width)
    )


_dynamics(
    "train_loss_variance",
    "log of the variance of the log training loss in a trailing window, trend included",
    _SLOWING,
    column="train_loss",
    trailing=_variance_of_log,
    minimum_checkpoints={"window": 2},
)


# Spectral: what the weight matrices look like, and how evenly.

_spectral = partial(register_column, family="spectral")
_fourier = partial(_spectral, source=_PROGRESS, kind="task-aware")


def _register_entropy_drop(part: str, name: str, summary: str, source: str) -> None:
    """Enter max(0, -MA(dH) / epsilon), dH the change of the entropy from checkpoint to checkpoint.

    epsilon is a unit (nats per checkpoint) and moves no verdict.
    """

    @register(
        name,
        family="spectral",
        summary=f"{summary} spectral entropy, cut at 0",
        needs=(f"{part}_entropy",),
        source=f"{_REFERENCE}{source}",
        window_parameter="window",
    )
    def drop(seen: Observables, *, window: int = 100, epsilon: float = 1e-3) -> causal.Values:
        change = causal.difference(seen[f"{part}_entropy"])
        return (-causal.trailing_mean(change, seen.checkpoints(window)) / epsilon).clip(min=0)


_MEAN_FALL = "mean fall of the"
for _part, _name, _summary, _applied in (
    ("unembedding", "spectral", f"the reference baseline: {_MEAN_FALL} unembedding's", ""),
    ("embedding", "embedding", f"{_MEAN_FALL} embedding's", ", applied to the embedding"),
    (
        "attention",
        "attention",
        f"{_MEAN_FALL} attention weights'",
        ", applied to the attention weights",
    ),
):
    _register_entropy_drop(_part, f"{_name}_entropy_drop", _summary, _applied)

# A general solution needs few frequencies, and so few directions.
_rank = partial(
    _spectral,
    source="Roy and Vetterli (2007), The effective rank, EUSIPCO",
    column="unembedding_rank",
)
_rank("effective_rank", "effective rank of the unembedding", low=True)


def log_drop(x: causal.Values) -> causal.Values:
    """How far the logarithm lies below its largest value so far in the run."""
    log = causal.log_floored(x)
    return causal.running_max(log) - log


# Relative to the run's own past, so that runs of different width share one threshold.
_rank(
    "effective_rank_drop",
    "log of the unembedding's largest effective rank so far over its present one",
    formula=log_drop,
)

# Near 0 for an even spectrum, near 1 for one frequency; of the group in which the task adds its
# operands, so a product's waves are over discrete logarithms.
for _part in ("embedding", "unembedding"):
    _what = f"Gini coefficient of the {_part}'s Fourier power over residues"
    _fourier(f"{_part}_gini", _what)
# Structure that grew in this run, whatever the split and the initialisation began with.
for _part in ("embedding", "unembedding"):
    _what = f"rise of the smoothed {_part} Gini above its smallest value so far"
    _fourier(f"{_part}_gini_gain", _what, column=f"{_part}_gini", trailing=causal.gain)

# Generalising states fill fewer dimensions than memorised ones.
_spectral(
    "participation_ratio",
    "participation ratio of the last hidden state",
    "Gao et al. (2017), A theory of multineuronal dimensionality",
    low=True,
)


# The product of structure and rest, as in `settled_structure` (process), from the weights alone.
_COMBINED = f"this package; structure after {_NANDA}, stability after GMB v0.4, section 3"


def _shrinking(gini: causal.Values, attention: causal.Values, width: int) -> causal.Values:
    """gain(G) (|A(t - h)| / |A(t)|)^2: it reads the weights and no data at all."""
    shrinkage = -2 * causal.difference(causal.log_floored(attention), width)
    # A norm that was 0 and is not gives a ratio without meaning; the bound keeps it finite.
    return causal.gain(gini, width) * np.exp(np.clip(shrinkage, -20, 20))


_spectral(
    "shrinking_structure",
    "unembedding Gini gain times the shrinkage of the squared attention norm; weights only",
    f"{_COMBINED}; shrinkage after Liu et al. (2023), Omnigrok",
    kind="task-aware",
    column=("unembedding_gini", "attention_norm"),
    trailing=_shrinking,
)


# Process: whether the model agrees with itself. These see held-out inputs, but no labels.

_process = partial(register_column, family="process")

# A general solution holds under perturbation where a memorised one breaks.
_process(
    "disagreement",
    "share of held-out answers that noise on the embedding changes",
    _CONSISTENCY,
    low=True,
)


def _smooth_drop(x: causal.Values, width: int) -> causal.Values:
    """Relative to the run's own past, so that runs share one threshold."""
    smooth = causal.trailing_mean(x, width)
    return causal.running_max(smooth) - smooth


_process(
    "disagreement_drop",
    "fall of the smoothed disagreement from its largest value so far",
    _CONSISTENCY,
    column="disagreement",
    trailing=_smooth_drop,
)
# Answers settle where a general rule takes over.
_process(
    "prediction_change",
    "mean share of held-out answers that changed per checkpoint",
    "GMB v0.4, section 3 (step instability)",
    trailing=causal.trailing_mean,
    low=True,
)
# Samples of a language model agree where it has found a rule.
_process(
    "self_consistency_disagreement",
    "1 - share of the most frequent of K sampled continuations",
    "Wang et al. (2022), Self-Consistency; GMB v0.4, section 3",
    low=True,
)

# Combinations of two observables by a formula that is written down here and fitted to nothing.
# Structure grows long before held-out accuracy shows it (the Gini gain of the unembedding), but how
# soon the jump comes depends on whether the network is at rest. Structure alone is early and
# blurred; rest alone comes and goes all the time; their product is neither. `shrinking_structure`
# (spectral) is the third of them.


_structure = partial(
    _process, source=_COMBINED, kind="task-aware", column=("unembedding_gini", "prediction_change")
)
# gain(G) (1 - MA(c)): G the Gini, c the share of answers that changed since a checkpoint.
_structure(
    "settled_structure",
    "unembedding Gini gain times the share of held-out answers that stay, both smoothed",
    trailing=lambda g, c, width: causal.gain(g, width) * (1 - causal.trailing_mean(c, width)),
)
# gain(G) exp(c(t - h) - c(t)), h the window: largest where answers have just come to rest. A share
# changes by less than 1; the bound keeps other columns finite.
_structure(
    "settling_structure",
    "unembedding Gini gain times exp of the fall of prediction change over the window",
    trailing=lambda g, c, width: (
        causal.gain(g, width) * np.exp(np.clip(-causal.difference(c, width), -20, 20))
    ),
)


# Hierarchical convergence: whether a fast loop comes to rest within the cycles of a slow one.
#
# For models with loops (`cycles`, `inner_steps`, `halting`), from states at EQ on held-out rows.
# What the observables are stands in `training/observables.py`; a length is a share of a
# state's own length. Levels (eps, theta) are those at which the trainer counts. A window's
# statistic is the mean of those of its checkpoints, each over all rows and cycles there.
#
# Orientations are declared from what the hierarchical reasoning model shows once it is trained: the
# fast loop settles within a cycle and is set off again by the next, and the slow states spread over
# more dimensions than the fast ones (Wang et al. 2025, figures 3 and 8).

_ADDENDUM = "gmb_v0.4_addendum_hrm_indicator_family.md, {} (named in GMB v0.4, section 3)"
_SPEC = f"{_ADDENDUM}; Wang et al. (2025), Hierarchical Reasoning Model"
_converging = partial(
    register_column, family="hierarchical_convergence", trailing=causal.trailing_mean
)


def _counted(seen: Observables, column: str, window: int, **level: float) -> causal.Values:
    """The smoothed column of the level `name=share`.

    Raises:
        InputError: logs are not counted at this share.
    """
    ((name, share),) = level.items()
    columns = {percent / 100: at_level(column, percent) for percent in LEVELS}
    if share not in columns:
        known = ", ".join(f"{one:g}" for one in columns)
        raise InputError(f"{name} must be one of {known}, at which logs are counted; got {share:g}")
    return causal.trailing_mean(seen[columns[share]], seen.checkpoints(window))


def _register_settling(name: str, what: str, column: str) -> None:
    """First j with r_L(k,j) <= eps, T + 1 if there is none, over rows and cycles."""

    @register(
        name,
        family="hierarchical_convergence",
        summary=f"HC-1: {what}, low meaning risk",
        needs=tuple(at_level(column, level) for level in LEVELS),
        source=_SPEC.format("HC-1"),
        orientation=-1,
        window_parameter="window",
    )
    def settling(seen: Observables, *, window: int = 100, eps: float = 0.1) -> causal.Values:
        return _counted(seen, column, window, eps=eps)


_register_settling(
    "fast_settling", "median inner step at which the fast state rests", "settling_q50"
)
_register_settling(
    "fast_settling_q90", "90% quantile of the inner step of coming to rest", "settling_q90"
)


@register(
    "reset_share",
    family="hierarchical_convergence",
    summary="HC-2: share of cycles that set the fast state off again by theta or more",
    needs=tuple(at_level("reset_share", level) for level in LEVELS),
    source=_SPEC.format("HC-2"),
    window_parameter="window",
)
def reset_share(seen: Observables, *, window: int = 100, theta: float = 0.1) -> causal.Values:
    """Share of d(k) = r_L(k,1) - r_L(k,T) >= theta, over rows and cycles from the second on."""
    return _counted(seen, "reset_share", window, theta=theta)


# Median of d(k) over rows and cycles from the second on.
_converging(
    "reset_spike",
    "HC-2: median spike of the fast update where a cycle begins",
    _SPEC.format("HC-2"),
)
# Of |z_H(k) - z_L(k,T)|, over rows and cycles: both projections are the identity.
_distance = partial(_converging, source=_SPEC.format("HC-3"), low=True)
_distance(
    "state_distance", "HC-3: median distance of slow and fast state", column="state_distance_q50"
)
_distance("state_distance_q90", "HC-3: 90% quantile of the distance of slow and fast state")


# log(PR_H / PR_L) of the states at cycle ends, over rows and cycles.
_converging(
    "dimension_ratio",
    "HC-4: log of the slow states' participation ratio over the fast states'",
    f"{_SPEC.format('HC-4')}; Gao et al. (2017)",
    column=("slow_participation", "fast_participation"),
    trailing=lambda slow, fast, width: causal.trailing_mean(
        causal.log_floored(slow) - causal.log_floored(fast), width
    ),
)
_halting = partial(
    _converging,
    source=f"{_ADDENDUM.format('HC-5')}; Banino et al. (2021), PonderNet; Graves (2016)",
)
# What is answered by a rule needs less thought than what is not known.
_halting("halting_steps", "HC-5: mean cycle at which a held-out row halts", low=True)
# Over rows and all cycles but the last.
_halting("halting_margin", "HC-5: mean logit of halting against going on")
# Over rows and over the chance of halting: small where all rows halt at one cycle.
_halting("halting_variance", "HC-5: variance of the cycle at which a held-out row halts", low=True)


# Crucible: how surely the model answers its rows, and how well it tells answers apart.

_crucible = partial(register_column, family="crucible")
_margins = partial(
    _crucible,
    source="CRUCIBLE metrics; Bartlett et al. (2017), Spectrally-normalized margin bounds",
)
# The hardest tenth of the training rows, and the typical one.
_margins("train_margin_q10", "10% quantile of the answer margin on training rows")
_margins("train_margin_q50", "median answer margin on training rows")


# One rule serves every row alike; memorised rows differ.
_crucible(
    "train_margin_spread",
    "distance of the 10% and 90% quantiles of the training margins",
    "CRUCIBLE metrics (difficulty tiers)",
    column=("train_margin_q10", "train_margin_q90"),
    formula=lambda low, high: high - low,
    low=True,
)
# A model that overrules its wrong labels has found the rule; it needs corrupted rows.
_crucible(
    "correction_rate",
    "accuracy against the truth on training rows that carry a wrong label",
    f"{_REFERENCE} (constraint signal of PT-MSS)",
    sees_test_labels=True,  # the truth behind a wrong label is what a monitor does not have
)
_bundles = partial(
    _crucible, source="CRUCIBLE metrics (margin), over the equations of `gmb crucible from-runs`"
)
# Do even the hardest training equations lie nearer to those with the same answer?
_bundles("crucible_train_margin_q10", "10% quantile of the bundles' margins, training equations")
# The same of equations that the model has never seen.
_bundles(
    "crucible_margin_q10",
    "10% quantile of the bundles' margins, held-out equations",
    sees_test_labels=True,  # a positive is found by the true answers of held-out equations
)


# Controls stand in every table: a monitor must beat the clock, and a constant must fail.

# s(t) = t: what knowing the usual time of the event is worth.
register_column(
    "clock",
    "the training step itself",
    "control: a monitor must beat the clock",
    family="control",
    column="step",
)
# s(t) = 0: what an alarm without information does at every layer.
register_column(
    "constant",
    "the same score everywhere",
    "control: no information, one tied value",
    family="control",
    column="step",
    formula=np.zeros_like,
)
_MEMORISED, _HELD_FOR = 0.99, 5  # training accuracy, checkpoints


@register(
    "steps_since_memorisation",
    family="control",
    summary="steps since the training accuracy reached .99 and held it for 5 checkpoints",
    needs=("step", "train_acc"),
    source="control: a monitor must beat a clock that starts when the training rows are learned",
)
def steps_since_memorisation(seen: Observables) -> causal.Values:
    """t less the first of 5 checkpoints in a row at .99 or above, from the fifth on; before, 0."""
    step, back = seen["step"], (_HELD_FOR - 1) * seen.cadence
    lowest = causal.trailing_min(seen["train_acc"], _HELD_FOR)
    whole = step - causal.running_min(step) >= back
    known_from = causal.running_min(np.where(whole & (lowest >= _MEMORISED), step, np.inf))
    return np.where(np.isfinite(known_from), step - known_from + back, 0.0)


# What heads do that copy from a prompt; recorded of in-context tasks alone, whose rows are known to
# be pairs.

_copying = partial(
    register_column,
    source="Olsson et al. (2022), In-context learning and induction heads",
    family="dynamics",
    kind="task-aware",
)
_copying("prefix_matching", "most attention of a head from an x to the y that followed it before")
_copying("previous_token", "most attention of a head from a y to the x before it")


# Oracles see held-out labels.
#
# Restricted and excluded loss know more than that: the algorithm that the network will learn. The
# direction along which they sort the logits of all pairs is the answer itself, of held-out pairs
# too, so that also the excluded loss, whose rows are training rows, is no monitor.

_oracle = partial(register_column, family="oracle", sees_test_labels=True)
_LABELS = "oracle: needs the labels that a monitor does not have"
_labels = partial(_oracle, source=_LABELS)
_mechanism = partial(
    _oracle,
    source=f"oracle: knows the algorithm and every answer; {_NANDA}, with the key frequencies "
    "of each checkpoint",
)

_labels("test_loss", "held-out loss", low=True)
# A loss against its own past: it begins to fall before accuracy rises.
_oracle(
    "test_loss_drop",
    "log of the held-out loss's largest value so far over its present one",
    f"{_LABELS}; {_NANDA}",
    column="test_loss",
    formula=log_drop,
)
# The event's own metric, before the jump.
_labels("test_accuracy", "held-out accuracy", column="test_acc")
# The hardest tenth of the held-out rows; and the easiest, the first to be answered by the rule.
_labels("test_margin_q10", "10% quantile of the answer margin on held-out rows")
_labels("test_margin_q90", "90% quantile of the answer margin on held-out rows")
# It falls once the Fourier algorithm alone gives answers.
_mechanism(
    "restricted_loss", "loss over all pairs of the logits' key Fourier waves alone", low=True
)
_mechanism(
    "restricted_loss_drop",
    "log of the restricted loss's largest value so far over its present one",
    column="restricted_loss",
    formula=log_drop,
)
# It rises once the training rows, too, are answered by the Fourier algorithm.
_mechanism("excluded_loss", "training loss without the logits' key Fourier waves")


def _log_rise(x: causal.Values) -> causal.Values:
    """How far the logarithm lies above its smallest value so far in the run."""
    log = causal.log_floored(x)
    return log - causal.running_min(log)


# The excluded loss against its own past: it falls while rows are memorised, then turns.
_mechanism(
    "excluded_loss_rise",
    "log of the excluded loss over its smallest value so far",
    column="excluded_loss",
    formula=_log_rise,
)
