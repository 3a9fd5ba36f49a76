"""Series and event steps, as a notebook has them, to a judgement: what the GMB metrics take.

One run is a list of scores and, beside it, the step t* of its event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.operationality import false_alarms, layer_b
from gmb_hf.benchmark.ranking import layer_a, ranking
from gmb_hf.benchmark.robustness import layer_d
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import layer_c, warnings_at
from gmb_hf.benchmark.verdict import judge
from gmb_hf.design.design import Design
from gmb_hf.errors import InputError, choose, right_call, unknown
from gmb_hf.runs.panel import Panel

CALIBRATIONS = ("in_sample", "cross_run", "locked")
PROTOCOLS = ("v0.4", "strict")

# What a series alone has no use for: it is one score, whose runs and events are known.
_SECTIONS_LEFT_OUT = ("meta", "boundary", "event", "candidates", "reporting")
_LEFT_OUT = ("protocol", "window_sweep", "health_alpha", "strata", "looks", "max_eval_seeds")

DESIGN = tuple(
    name
    for name, place in Design.places().items()
    if name == "w_event"
    or (place.partition(".")[0] not in _SECTIONS_LEFT_OUT and name not in _LEFT_OUT)
)
"""Settings that are fields of a design, by its names; its defaults are theirs."""

SETTINGS = ("steps", *DESIGN, "calibration", "thresholds", "protocol", "return_per_run")
"""Every keyword of the GMB metrics beside the data."""

CALL = (
    "predictions=[[0.1, 0.3, ...], ...], references=[400.0, None, ...], horizon=100, safe_gap=200"
)
"""The arguments with which a GMB metric may be called."""

_INPUTS = """
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

INPUTS = _INPUTS + "".join(
    f"    {name}: {Design.model_fields[name].description}; default "
    f"{Design.model_fields[name].default}.\n"
    for name in DESIGN
    if not re.search(rf"\b{name}\b", _INPUTS)
)
"""What every GMB metric takes, in the form of `evaluate`."""


@dataclass(frozen=True)
class Settings:
    """What a call asks for.

    Attributes:
        design: the design.
        calibration: one of `CALIBRATIONS`.
        thresholds: target -> threshold where they are locked.
    """

    design: Design
    calibration: str
    thresholds: Mapping[float, float] | None


def check_settings(metric: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that no data could make right.

    Raises:
        InputError: see `read_settings`.
    """
    with right_call(metric, CALL):
        read_settings(settings)


def read_settings(settings: Mapping[str, Any]) -> Settings:
    """What keyword arguments amount to; `steps` (data) and `return_per_run` are left alone.

    Raises:
        InputError: a keyword is unknown, out of range or missing, or two do not go together.
    """
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
    given["protocol"] = choose("protocol", str(settings.get("protocol") or "v0.4"), PROTOCOLS)
    method = _calibration(settings)
    targets = given.get("fpr_targets")
    if isinstance(targets, list) and targets:
        given.setdefault("min_targets_ok", min(2, len(targets)))
        if 0.05 not in targets:
            # Only the verdict reads it; the other layers look at every target alike.
            given.setdefault("primary_fpr", targets[0])
    # A threshold for the series itself is none for its trailing means.
    if method == "locked" and given.setdefault("smoothing_sweep", [1]) != [1]:
        raise InputError(
            f"smoothing_sweep {given['smoothing_sweep']} has no locked thresholds: they are for "
            "the series as given; leave smoothing_sweep out, or calibrate otherwise"
        )
    try:
        prereg = Design.minimal(**given)
    except InputError as error:
        raise InputError(in_keywords(str(error))) from None
    if prereg.safe_gap <= prereg.horizon:
        raise InputError(
            f"safe_gap {prereg.safe_gap} must be larger than horizon {prereg.horizon}, or a window "
            "could be positive and negative at once"
        )
    locked = _locked(settings, prereg) if method == "locked" else None
    return Settings(prereg, method, locked)


def _calibration(settings: Mapping[str, Any]) -> str:
    strict = settings.get("protocol") == "strict"
    locked = settings.get("thresholds") is not None
    usual = "locked" if locked else "cross_run" if strict else "in_sample"
    method = choose("calibration", str(settings.get("calibration") or usual), CALIBRATIONS)
    if locked and method != "locked":
        raise InputError(f"thresholds are given, but calibration is {method!r}; make it 'locked'")
    if strict and method == "in_sample":
        raise InputError(
            "calibration 'in_sample' is not strict: there, no run sets the threshold that it is "
            "judged by; use 'cross_run', or 'locked' with thresholds"
        )
    return method


def _locked(settings: Mapping[str, Any], prereg: Design) -> dict[float, float]:
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


def _plain(value: Any) -> Any:
    """Numpy's scalars and arrays, and tuples, as Python numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def in_keywords(message: str) -> str:
    """A message about fields of a design, by their places, in the keywords that were typed."""

    def keyword(name: str, value: str | None) -> str | None:
        if name not in DESIGN:
            return None
        return name if value is None else f"{name}={value!r}"

    return Design.reworded(message, keyword).removesuffix(".")


_SCORE = "predictions"


def judgement_of(
    metric: str, predictions: Any, references: Any, settings: Mapping[str, Any]
) -> Judgement:
    """The judgement of one score, given as series.

    Args:
        metric: who asks, for messages.
        predictions: one series of scores a run, float64, ragged; None is NaN.
        references: the step t* of each run's event; NaN or None where it had none.
        settings: any of `SETTINGS` in `series_settings`; `horizon` and `safe_gap` are required.
            `steps` holds the steps of each run (default 0, 1, 2, ...). `calibration` says which
            negatives set a threshold: `in_sample` (default of v0.4) those that are measured,
            `cross_run` (default of strict) those of other runs, `locked` none, since `thresholds`
            gives one for each target.

    Raises:
        InputError: one line that names the argument and shows the right call.
    """
    with right_call(metric, CALL, reworded=_in_arguments):
        asked = read_settings(settings)
        scores = _scores(predictions, references, settings.get("steps"))
        judgement = Judgement(
            evaluation=scores,
            calibration=None,
            design=asked.design,
            thresholds=asked.thresholds,
            cross_fit=asked.calibration == "cross_run",
        )
        _require_negatives(judgement)
    return judgement


def _in_arguments(message: str) -> str:
    """A message about a panel or a preregistration, in the arguments that were given."""
    return in_keywords(message).replace(f"panel {_SCORE!r}, run ", "")


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


def _require_negatives(judgement: Judgement) -> None:
    if judgement.negatives.n_windows:
        return
    prereg = judgement.design
    raise InputError(
        f"references leave no negative window, so that no threshold can be set: none of the runs "
        f"has a step from burn_in {prereg.burn_in} on that lies safe_gap {prereg.safe_gap} or more "
        f"before t* (without an event: safe_gap + w_event {prereg.w_event} before its end); give "
        "longer runs, or a smaller safe_gap or burn_in"
    )


# The layers as flat scalars with stable names: what the GMB metrics return.


Flat = dict[str, Any]


def discrimination(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer A over pooled windows: `auc`, `ap`; per run `auc_per_run`, `ap_per_run`.

    Args:
        predictions, references, settings: see `gmb_hf.benchmark.series.judgement_of`, and so in
            the functions below.
        return_per_run: add the lists.
    """
    judgement = judgement_of("gmb_discrimination", predictions, references, settings)
    measured = layer_a(judgement)
    flat: Flat = {"auc": measured.auc, "ap": measured.ap}
    if return_per_run:
        windows = judgement.windows
        labelled = windows.positive | windows.negative
        auc, ap = ranking(judgement.evaluation.values, windows.positive, labelled)
        flat |= {"auc_per_run": auc.tolist(), "ap_per_run": ap.tolist()}
    return flat


def operationality(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer B: `fpr@f` and `threshold@f` of each target, and the gate.

    `ok_targets`, `controllability_pass`, `fpr_min`, `fpr_floor_detected`, `layer_b_pass`. Per run:
    `fpr_per_run@f`, `threshold_per_run@f`.
    """
    judgement = judgement_of("gmb_operationality", predictions, references, settings)
    measured = layer_b(judgement, intervals=False)
    flat: Flat = {}
    for result in measured.achieved:
        flat[_at("fpr", result.target)] = result.achieved
        flat[_at("threshold", result.target)] = result.x_threshold
    flat |= {
        "ok_targets": measured.ok_targets,
        "controllability_pass": measured.controllability_pass,
        "fpr_min": measured.fpr_min,
        "fpr_floor_detected": measured.fpr_floor_detected,
        "layer_b_pass": measured.x_passed,
    }
    if return_per_run:
        for target in judgement.design.fpr_targets:
            flat[_at("fpr_per_run", target)] = _rates(judgement, target)
            thresholds = judgement.calibrated.thresholds[target]
            flat[_at("threshold_per_run", target)] = thresholds.tolist()
    return flat


def utility(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer C: `coverage@f`, `lead_time_median@f`, `lead_time_iqr@f`, `lead_time_success@f`.

    The interquartile range is q75 - q25. Per run: `covered_per_run@f` (False also where there is no
    event), `lead_time_per_run@f`.
    """
    judgement = judgement_of("gmb_utility", predictions, references, settings)
    flat: Flat = {}
    for point in layer_c(judgement).at_fpr:
        flat[_at("coverage", point.fpr)] = point.coverage
        flat[_at("lead_time_median", point.fpr)] = point.lead_time_median
        flat[_at("lead_time_iqr", point.fpr)] = point.lead_time_iqr
        flat[_at("lead_time_success", point.fpr)] = point.lead_time_success
    if return_per_run:
        for target in judgement.design.fpr_targets:
            warned = warnings_at(judgement, target)
            flat[_at("covered_per_run", target)] = warned.covered.tolist()
            flat[_at("lead_time_per_run", target)] = warned.lead.tolist()
    return flat


def robustness(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """Layer D: `pass_rate`, `label_flip_rate`, `family_size`.

    `return_per_run` adds, for each member of the family, `members`, `member_labels` and
    `member_layer_b_pass`: what varies here are settings and runs left out.
    """
    judgement = judgement_of("gmb_robustness", predictions, references, settings)
    measured = layer_d(judgement)
    flat: Flat = {
        "pass_rate": measured.pass_rate,
        "label_flip_rate": measured.label_flip_rate,
        "family_size": measured.family_size,
    }
    if return_per_run:
        flat["members"] = [member.name for member in measured.x_members]
        flat["member_labels"] = [member.label for member in measured.x_members]
        flat["member_layer_b_pass"] = [member.layer_b_pass for member in measured.x_members]
    return flat


def verdict(
    predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
) -> Flat:
    """The verdict: `label`, `alarm_eligible`, `reasons` (codes, joined by ", "), `sentence`.

    Per run, at the primary target: `first_alarm_per_run`, the step of the first alarm from burn-in
    to t*, and `false_alarms_per_run`.
    """
    judgement = judgement_of("gmb_verdict", predictions, references, settings)
    concluded = judge(judgement)
    flat: Flat = {
        "label": concluded.label,
        "alarm_eligible": concluded.x_alarm_eligible,
        "reasons": ", ".join(concluded.x_reasons),
        "sentence": concluded.x_sentence,
    }
    if return_per_run:
        target = judgement.design.primary_fpr
        flat["first_alarm_per_run"] = _first_alarms(judgement, target).tolist()
        flat["false_alarms_per_run"] = false_alarms(judgement, target).tolist()
    return flat


def _at(name: str, target: float) -> str:
    return f"{name}@{float(target)!r}"


def _rates(judgement: Judgement, target: float) -> list[float]:
    """Each run's false positive rate, NaN for a run without negatives."""
    counts = judgement.negatives.counts
    undefined = np.full(len(counts), np.nan)
    rates = np.divide(false_alarms(judgement, target), counts, out=undefined, where=counts > 0)
    return list(rates.tolist())


def _first_alarms(judgement: Judgement, target: float) -> NDArray[np.float64]:
    alarms = judgement.alarms(target) & judgement.windows.monitored
    first = judgement.evaluation.steps[np.arange(len(alarms)), alarms.argmax(axis=1)]
    return np.where(alarms.any(axis=1), first, np.nan)
