"""Indicators that papers have published, as published: formula, orientation and parameters.

Those that are a recorded column as it stands are in published.yaml; here are those that compute.
Each names its paper; the comment above it has the formula, what was made causal and what had to be
guessed. A value that a paper takes from the finished run, such as a global peak, is taken from the
run so far. Alarm rules of the papers' own are indicators of 0 and 1 (`rule=True`). The columns that
these read are recorded where `training.observables` is `published` or `all`; docs/signals.md has a
table of all signals, with what each costs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from gmb_hf.base.documents import Many, Section, load_yaml
from gmb_hf.indicators import catalogue, causal
from gmb_hf.indicators.catalogue import Family, Kind, Observables
from gmb_hf.indicators.formulas import log_drop

register = partial(catalogue.register, published=True)
register_column = partial(catalogue.register_column, published=True)


class RecordedColumn(Section):
    """An indicator that is a column of the run log.

    Attributes:
        name, summary, source, family, kind, sees_test_labels: as `register` takes them.
        column: by default that of the indicator's name.
        formula: its logarithm (`log`), or how far that lies below its largest value so far in the
            run (`log_drop`); None: the column as it stands.
        low: low values mean risk.
    """

    name: str
    summary: str
    source: str
    family: Family
    column: str | None = None
    formula: Literal["log", "log_drop"] | None = None
    low: bool = False
    kind: Kind = "label-free"
    sees_test_labels: bool = False


class _Columns(Section):
    columns: Many[RecordedColumn]


def register_recorded(path: Path) -> None:
    """Enter the columns of a file in the catalogue.

    Raises:
        InputError: it is no YAML file of columns (the path of a wrong field is named), or a name is
            taken.
    """
    formulas = {"log": causal.log_floored, "log_drop": log_drop}
    for one in _Columns.parse({"columns": load_yaml(path)}, where=str(path)).columns:
        register_column(
            one.name,
            one.summary,
            one.source,
            family=one.family,
            column=one.column or one.name,
            **({"formula": formulas[one.formula]} if one.formula else {}),
            low=one.low,
            kind=one.kind,
            sees_test_labels=one.sees_test_labels,
        )


register_recorded(Path(__file__).with_name("published.yaml"))


def _from_step(seen: Observables, column: str, step: int) -> tuple[causal.Values, causal.Values]:
    """A column, and its value at the first checkpoint from a step on; NaN before."""
    value = seen[column]
    return value, causal.first_where(value, seen["step"] >= step)


# The usual columns: norms and the training loss.

_log = partial(register_column, family="dynamics")


@register(
    "steps_since_norm_peak",
    family="dynamics",
    summary="steps since the weight norm was largest",
    needs=("step", "weight_norm"),
    source="Liu et al. (2022), Omnigrok, arXiv 2210.01117; Truong (2026), arXiv 2606.13753",
)
def steps_since_norm_peak(seen: Observables) -> causal.Values:
    """t - argmax |w|; made causal: the peak is that of the run so far."""
    step, norm = seen["step"], seen["weight_norm"]
    at_peak = causal.running_max(np.where(norm >= causal.running_max(norm), step, -np.inf))
    return np.where(np.isfinite(at_peak), step - at_peak, 0.0)


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


# Activations and outputs: the papers' rules.


@register(
    "dmd_rule",
    family="process",
    summary="1 where the DMD residual exceeds 10 times its first in two windows in a row",
    needs=("dmd_residual",),
    source="Wang, Ying and Kanamori (2026), arXiv 2605.08237",
    rule=True,
)
def dmd_rule(seen: Observables, *, window: int = 500, factor: float = 10.0) -> causal.Values:
    """Two windows that do not overlap: now, and `window` steps ago. Guessed: which is the first."""
    residual = seen["dmd_residual"]
    baseline = causal.first_where(residual, residual > 0)
    now = causal.alarms(residual > factor * baseline, residual)
    return now * causal.lagged(now, seen.checkpoints(window))


# The published threshold; it must have been above before, since some models begin below.
register_column(
    "hidden_entropy_rule",
    "1 where the hidden entropy lies below .609 and has been above",
    "Truong (2026), arXiv 2604.13123",
    column="hidden_entropy",
    family="spectral",
    formula=lambda x: causal.alarms((x < 0.609) & (causal.running_max(x) >= 0.609), x),
    rule=True,
)


@register(
    "class_distance_rule",
    family="oracle",
    summary="1 where the held-out class distance exceeds 2.5 times its value at step 3000",
    needs=("step", "test_class_distance"),
    source="Golwala (2026), arXiv 2604.20923",
    sees_test_labels=True,
    rule=True,
)
def class_distance_rule(
    seen: Observables, *, baseline_step: int = 3000, factor: float = 2.5
) -> causal.Values:
    """The paper's constants; a run that ends before that step has no alarm."""
    value, first = _from_step(seen, "test_class_distance", baseline_step)
    return causal.alarms(value > factor * first, value)


register_column(
    "frequency_synchronisation_rule",
    "1 where the frequency synchronisation is .80 or more",
    "Sivasankar (2026), arXiv 2606.12966",
    column="frequency_synchronisation",
    family="process",
    kind="task-aware",
    formula=lambda x: causal.alarms(x >= 0.8, x),
    rule=True,
)

register_column(
    "commutator_rule",
    "1 where the commutator defect exceeds 20 and 10 times the median of its first three",
    "Xu (2026), arXiv 2602.16746",
    column="commutator_defect",
    family="dynamics",
    formula=lambda x: causal.alarms((x > 20) & (x > 10 * causal.baseline(x, 3)), x),
    rule=True,
)


@register(
    "slow_gradient_rule",
    family="dynamics",
    summary="1 where the slow gradient's norm is below half its value at step 3000",
    needs=("step", "slow_gradient_norm"),
    source="Lee et al. (2024), arXiv 2405.20233, as a monitor after Golwala (2026), "
    "arXiv 2604.20923",
    rule=True,
)
def slow_gradient_rule(
    seen: Observables, *, baseline_step: int = 3000, factor: float = 0.5
) -> causal.Values:
    """The paper's constants; a run that ends before that step has no alarm."""
    norm, first = _from_step(seen, "slow_gradient_norm", baseline_step)
    return causal.alarms(norm < factor * first, norm)
