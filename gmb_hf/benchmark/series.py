"""Series and event steps, as a notebook has them, to a judgement: what the GMB metrics take.

One run is a list of scores and, beside it, the step t* of its event. All five metrics understand
the same settings, so that one call can serve several of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.scores import Scores
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError, choose, unknown

CALIBRATIONS = ("in_sample", "cross_run", "locked")
PROTOCOLS = ("v0.4", "strict")

DESIGN = (
    "horizon",
    "safe_gap",
    "burn_in",
    "fpr_targets",
    "fpr_eps",
    "fpr_floor_max",
    "min_targets_ok",
    "primary_fpr",
    "lead_time_target",
    "lead_time_median_min",
    "coverage_min",
    "max_label_flip_rate",
    "event_count_min",
    "w_event",
    "smoothing_sweep",
    "run_groups",
    "refractory",
    "null_draws",
    "bootstrap_draws",
    "alpha",
    "seed",
    "nan",
)
"""Settings that are fields of a preregistration, by its flat names; its defaults are theirs."""

SETTINGS = ("steps", *DESIGN, "calibration", "thresholds", "protocol")
"""Every setting of the GMB metrics."""

INPUTS = """
Args:
    predictions: list of the score series of each run (float64, runs may differ in length).
    references: the step t* of each run's event; NaN or None where it had none.
    horizon, safe_gap: required, in steps, safe_gap > horizon. A window that ends at step t is
        positive if 0 < t* - t <= horizon, negative if t <= t* - safe_gap, else ignored.
    steps: list of the steps of each run; default 0, 1, 2, ...
    burn_in: windows before this step are ignored; default 0.
    fpr_targets: target false positive rates; default 0.01, 0.05, 0.10.
    fpr_eps: tolerance around a target; default 0.01.
    fpr_floor_max: what the least reachable rate may be; default 0.20.
    min_targets_ok: how many targets must be met; default 2.
    lead_time_target: a warning so many steps ahead is a success; default 200.
    calibration: where thresholds come from: "in_sample", the negative windows that are then
        measured (default); "cross_run", those of other runs (default under strict); "locked", from
        `thresholds`.
    thresholds: target -> threshold, e.g. those found on earlier runs.
    protocol: "v0.4" (default), the specification to the letter; or "strict", whose thresholds
        are conformal over runs and whose verdict must beat chance.
    return_per_run: add lists with a value for each run; default False.
    More, for the verdict (defaults in brackets): primary_fpr [0.05, else the first target],
        coverage_min [0.30], lead_time_median_min [50], max_label_flip_rate [0.20],
        event_count_min [30]; w_event [50], steps at the end of a run without an event in which one
        could not have shown; nan ["error", or "ignore"]; refractory [horizon]; for layer D
        smoothing_sweep [1, 3, 5; locked: 1], run_groups [5]; null_draws, bootstrap_draws [2000],
        alpha [0.05], seed [0].
"""
"""What every GMB metric takes, in the form of `evaluate`."""

_SCORE = "predictions"


def right_call(metric: str) -> str:
    """How a GMB metric is called."""
    return (
        f"{metric}.compute(predictions=[[0.1, 0.3, ...], ...], references=[400.0, None, ...], "
        "horizon=100, safe_gap=200)"
    )


def check_settings(metric: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that no data could make right.

    Raises:
        InputError: see `judgement_of`.
    """
    try:
        _design(settings)
    except InputError as error:
        raise InputError(f"{metric}: {error}. Right call: {right_call(metric)}") from None


def judgement_of(
    metric: str, predictions: Any, references: Any, settings: Mapping[str, Any]
) -> Judgement:
    """The judgement of one score, given as series.

    Args:
        metric: who asks, for messages.
        predictions: one series of scores a run, float64, ragged; None is NaN.
        references: the step t* of each run's event; NaN or None where it had none.
        settings: any of `SETTINGS`; `horizon` and `safe_gap` are required. `steps` holds the steps
            of each run (default 0, 1, 2, ...). `calibration` says which negatives set a threshold:
            `in_sample` (default of v0.4) those that are measured, `cross_run` (default of strict)
            those of other runs, `locked` none, since `thresholds` gives one for each target.

    Raises:
        InputError: one line that names the argument and shows the right call.
    """
    try:
        prereg, locked = _design(settings)
        scores = _scores(predictions, references, settings.get("steps"))
        judgement = Judgement(
            evaluation=scores,
            calibration=None,
            prereg=prereg,
            thresholds=locked,
            cross_fit=_calibration(settings) == "cross_run",
        )
        _require_negatives(judgement)
    except InputError as error:
        message = _in_keywords(str(error))
        raise InputError(f"{metric}: {message}. Right call: {right_call(metric)}") from None
    return judgement


def _design(settings: Mapping[str, Any]) -> tuple[Prereg, dict[float, float] | None]:
    """The preregistration that the settings amount to, and the locked thresholds if any."""
    for name in settings:
        if name not in SETTINGS:
            raise unknown("keyword", name, SETTINGS)
    missing = [name for name in ("horizon", "safe_gap") if settings.get(name) is None]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing: say how many steps before t* an alarm is a warning "
            "(horizon), and up to how many it is a false alarm (safe_gap > horizon)"
        )
    given = {name: _plain(settings[name]) for name in DESIGN if settings.get(name) is not None}
    given["protocol"] = choose("protocol", settings.get("protocol") or "v0.4", PROTOCOLS)
    method = _calibration(settings)
    targets = given.get("fpr_targets")
    if isinstance(targets, list) and targets:
        given.setdefault("min_targets_ok", min(2, len(targets)))
        if 0.05 not in targets:
            # Only the verdict reads it; the other layers look at every target alike.
            given.setdefault("primary_fpr", targets[0])
    if method == "locked":
        # A threshold for the series itself is none for its trailing means.
        given.setdefault("smoothing_sweep", [1])
    try:
        prereg = Prereg.minimal(**given)
    except InputError as error:
        raise InputError(_in_keywords(str(error))) from None
    if prereg.safe_gap <= prereg.horizon:
        raise InputError(
            f"safe_gap {prereg.safe_gap} must be larger than horizon {prereg.horizon}, or a window "
            "could be positive and negative at once"
        )
    return prereg, _locked(settings, prereg) if method == "locked" else None


def _calibration(settings: Mapping[str, Any]) -> str:
    strict = settings.get("protocol") == "strict"
    locked = settings.get("thresholds") is not None
    usual = "locked" if locked else "cross_run" if strict else "in_sample"
    method = choose("calibration", settings.get("calibration") or usual, CALIBRATIONS)
    if locked and method != "locked":
        raise InputError(f"thresholds are given, but calibration is {method!r}; make it 'locked'")
    if strict and method == "in_sample":
        raise InputError(
            "calibration 'in_sample' is not strict: there, no run sets the threshold that it is "
            "judged by; use 'cross_run', or 'locked' with thresholds"
        )
    return method


def _locked(settings: Mapping[str, Any], prereg: Prereg) -> dict[float, float]:
    """The threshold for each target, from a mapping whose keys may also be text."""
    thresholds = settings.get("thresholds")
    shown = ", ".join(f"{target:g}: ..." for target in prereg.fpr_targets)
    if not isinstance(thresholds, Mapping):
        raise InputError(
            f"calibration 'locked' needs thresholds={{{shown}}}, a threshold for each target, got "
            f"{thresholds!r}"
        )
    try:
        found = {float(target): float(tau) for target, tau in thresholds.items()}
    except (TypeError, ValueError):
        raise InputError(
            f"thresholds must map targets to numbers, {{{shown}}}, got {thresholds!r}"
        ) from None
    for target in prereg.fpr_targets:
        if target not in found:
            raise InputError(f"thresholds lack the target {target:g}; give {{{shown}}}")
        if np.isnan(found[target]):
            raise InputError(f"thresholds: that of the target {target:g} is NaN")
    return found


def _scores(predictions: Any, references: Any, steps: Any) -> Scores:
    rows = _many("predictions", predictions, "a list of series, one a run")
    events = _many("references", references, "a list with the step t* of each run")
    if len(rows) != len(events):
        raise InputError(
            f"predictions holds {len(rows)} runs, but references {len(events)}; give one t* a run, "
            "None where it has no event"
        )
    if not rows:
        raise InputError("predictions is empty; give one series a run")
    values = [_series(f"predictions[{i}]", row) for i, row in enumerate(rows)]
    series = [
        (f"predictions[{i}]", own, row)
        for i, (own, row) in enumerate(zip(_steps(steps, values), values, strict=True))
    ]
    return Scores.from_panel(Panel.from_series(_SCORE, series), _event_steps(events))


def _steps(steps: Any, values: list[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """The steps of each run, as long as its scores; 0, 1, 2, ... where none are given."""
    if steps is None:
        return [np.arange(len(row), dtype=np.float64) for row in values]
    given = _many("steps", steps, "a list of steps for each run")
    if len(given) != len(values):
        raise InputError(f"steps holds {len(given)} runs, but predictions {len(values)}")
    found = [_series(f"steps[{i}]", row) for i, row in enumerate(given)]
    for i, (own, row) in enumerate(zip(found, values, strict=True)):
        if len(own) != len(row):
            raise InputError(
                f"steps[{i}] has {len(own)} steps, but predictions[{i}] {len(row)} scores"
            )
        if not np.isfinite(own).all():
            raise InputError(f"steps[{i}] holds a step that is NaN, None or infinite")
    return found


def _many(name: str, value: Any, wanted: str) -> list[Any]:
    if value is None:
        raise InputError(f"{name} is missing; give {wanted}")
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise InputError(f"{name} must be {wanted}, got {type(value).__name__}")
    return list(value)


def _series(name: str, value: Any) -> NDArray[np.float64]:
    row = _numbers(name, value)
    if row.ndim == 0:
        raise InputError(
            f"{name} is a number; give a list of series, one a run, and [[...]] for a single run"
        )
    if row.ndim > 1:
        raise InputError(f"{name} must be one series of numbers, got shape {row.shape}")
    if not len(row):
        raise InputError(f"{name} is empty; leave the run out, or give its numbers")
    return row


def _event_steps(events: list[Any]) -> NDArray[np.float64]:
    for i, event in enumerate(events):
        step = _numbers(f"references[{i}]", event)
        if step.ndim or np.isinf(step):
            raise InputError(
                f"references[{i}] must be the step t* of the event, or None without one, got "
                f"{event!r}"
            )
    return np.array([np.nan if event is None else float(event) for event in events])


def _numbers(name: str, value: Any) -> NDArray[np.float64]:
    """`value` as float64, None as NaN; text is refused even where it spells a number."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError
        numbers: NDArray[np.float64] = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must hold numbers only, got {_short(value)}") from None
    return numbers


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _plain(value: Any) -> Any:
    """Numpy's scalars and arrays, and tuples, as Python numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _require_negatives(judgement: Judgement) -> None:
    if judgement.negatives.n_windows:
        return
    prereg = judgement.prereg
    raise InputError(
        f"references leave no negative window, so that no threshold can be set: none of the runs "
        f"has a step from burn_in {prereg.burn_in} on that lies safe_gap {prereg.safe_gap} or more "
        f"before t* (without an event: safe_gap + w_event {prereg.w_event} before its end); give "
        "longer runs, or a smaller safe_gap or burn_in"
    )


def _in_keywords(message: str) -> str:
    """A message of the preregistration in the keywords that were typed."""
    message = message.removeprefix("prereg: ").replace("x_nan: ignore", "nan='ignore'")
    for path, name in sorted(Prereg.flat_names().items(), key=lambda item: -len(item[0])):
        if name in DESIGN:
            message = message.replace(path, name)
    return message.replace(f"panel {_SCORE!r}, run ", "").rstrip(".")
