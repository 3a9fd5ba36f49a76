"""Series and event steps, as a notebook has them, to a judgement: what the GMB metrics take.

One run is a list of scores and, beside it, the step t* of its event.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import load_yaml
from gmb_hf.base.errors import InputError, choose, positive_int, right_call
from gmb_hf.benchmark.first_alarm import clock_of, measure
from gmb_hf.benchmark.judgement import Judgement, Locked, Source
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.prepare import with_leads
from gmb_hf.benchmark.ranking import layer_a
from gmb_hf.benchmark.robustness import layer_d
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.units import runs_robustness
from gmb_hf.benchmark.utility import layer_c
from gmb_hf.benchmark.verdict import judge, rivals_of
from gmb_hf.core.nulls import labels_of
from gmb_hf.core.ranking import ranking
from gmb_hf.design.design import Design
from gmb_hf.runs.copies import NearCopies, refuse_copies
from gmb_hf.runs.panel import Panel

CALIBRATIONS = ("in_sample", "cross_run", "locked")
PROTOCOLS = ("strict", "v0.4")

# What a series alone has no use for: it is one score, whose runs and events are known.
_SECTIONS_LEFT_OUT = ("meta", "boundary", "event", "candidates", "reporting")
_LEFT_OUT = {"protocol", "window_sweep", "health_alpha", "strata", "looks", "max_eval_seeds"}
_LEFT_OUT |= {"also_events"}
_RENAMED = {"calibration": "run_calibration"}  # `calibration` says where thresholds come from

DESIGN = {
    _RENAMED.get(name, name): name
    for name, place in Design.places().items()
    if name == "w_event"
    or (place.partition(".")[0] not in _SECTIONS_LEFT_OUT and name not in _LEFT_OUT)
}
"""Settings that are fields of a design, each with the field's name; its defaults are theirs."""

LOCKED = ("thresholds", "run_thresholds", "calibration_runs")
"""What earlier runs have fixed."""

SETTINGS = ("steps", *DESIGN, "calibration", *LOCKED, "protocol", "return_per_run")
"""Every keyword of the GMB metrics beside the data."""

CALL = (
    "predictions=[[0.1, 0.3, ...], ...], references=[400.0, None, ...], horizon=100, safe_gap=200"
)
"""The arguments with which a GMB metric may be called."""

_INPUTS = "\n" + load_yaml(Path(__file__).with_name("series.yaml"))["inputs"]

INPUTS = _INPUTS + "".join(
    f"    {name}: {Design.model_fields[field].description}; default "
    f"{Design.model_fields[field].default}.\n"
    for name, field in DESIGN.items()
    if not re.search(rf"\b{name}\b", _INPUTS)
)
"""What every GMB metric takes, in the form of `evaluate`."""


class SeriesSettings(NamedTuple):
    """What a call asks for: the design, and where thresholds come from."""

    design: Design
    source: Source


def check_settings(metric: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that no data could make right; raises what `read_settings` does."""
    with right_call(metric, CALL):
        read_settings(settings)


def read_settings(settings: Mapping[str, Any]) -> SeriesSettings:
    """What keyword arguments amount to; `steps` (data) and `return_per_run` are left alone.

    Raises:
        InputError: a keyword is unknown, out of range or missing, or two do not go together.
    """
    for name in settings:
        choose("keyword", name, SETTINGS)
    missing = [name for name in ("horizon", "safe_gap") if settings.get(name) is None]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing: say how many steps before t* an alarm is timely "
            "(horizon), and from how many on it is a false alarm (safe_gap > horizon)"
        )
    given = {
        field: _plain(settings[name])
        for name, field in DESIGN.items()
        if settings.get(name) is not None
    }
    given["protocol"] = choose("protocol", str(settings.get("protocol") or PROTOCOLS[0]), PROTOCOLS)
    method = _calibration(settings)
    targets = given.get("fpr_targets")
    if isinstance(targets, list) and targets:
        given.setdefault("min_targets_ok", min(2, len(targets)))
        if 0.05 not in targets:
            # Only the verdict reads it; the other layers look at every target alike.
            given.setdefault("primary_fpr", targets[0])
    budgets = given.get("run_budgets")
    if isinstance(budgets, list) and budgets and 0.05 not in budgets:
        given.setdefault("primary_run_budget", budgets[0])
    by_runs = settings.get("run_thresholds") is not None
    # A threshold for the series itself is none for its trailing means.
    if (method == "locked" or by_runs) and given.setdefault("smoothing_sweep", [1]) != [1]:
        raise InputError(
            f"smoothing_sweep {given['smoothing_sweep']} has no locked thresholds: they are for "
            "the series as given; leave smoothing_sweep out, or calibrate otherwise"
        )
    try:
        design = Design.minimal(**given)
    except InputError as error:
        raise InputError(in_keywords(str(error))) from None
    if design.safe_gap <= design.horizon:
        raise InputError(
            f"safe_gap {design.safe_gap} must be larger than horizon {design.horizon}, or a window "
            "could be positive and negative at once"
        )
    if design.lead_least > design.horizon:
        raise InputError(
            f"no score can pass: lead_time_median_min {design.lead_least:g} exceeds horizon "
            f"{design.horizon}, and no lead time is longer; lower the one, or raise the other"
        )
    windows = runs = None
    if method == "locked":
        windows = {1: _locked(settings, "thresholds", design.fpr_targets)}
    if by_runs:
        runs = {1: _locked(settings, "run_thresholds", design.run_budgets)}
    n_runs = None
    if (known := settings.get("calibration_runs")) is not None:
        if windows is None and runs is None:
            raise InputError(
                "calibration_runs says how many runs given thresholds come from; give thresholds "
                "or run_thresholds, or leave it out"
            )
        n_runs = positive_int("calibration_runs", known)
    source: Source = "cross_run" if method == "cross_run" else "in_sample"
    if windows is not None or runs is not None:
        source = Locked(windows, runs, n_runs)
    return SeriesSettings(design, source)


def _calibration(settings: Mapping[str, Any]) -> str:
    strict = str(settings.get("protocol") or PROTOCOLS[0]) == "strict"
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


_KEYS = {"thresholds": "target", "run_thresholds": "run budget"}


def _locked(settings: Mapping[str, Any], name: str, asked: Sequence[float]) -> dict[float, float]:
    """The threshold for each target or budget, from a mapping whose keys may also be text."""
    thresholds, what = settings.get(name), _KEYS[name]
    shown = f"{{{', '.join(f'{target:g}: ...' for target in asked)}}}"
    if name == "thresholds" and not isinstance(thresholds, Mapping):
        needs = f"needs thresholds={shown}, a threshold for each target, got {thresholds!r}"
        raise InputError(f"calibration 'locked' {needs}")
    try:
        found = {float(target): float(tau) for target, tau in dict(thresholds or {}).items()}
    except (TypeError, ValueError):
        message = f"{name} must map {what}s to numbers, {shown}, got {thresholds!r}"
        raise InputError(message) from None
    for target in asked:
        if target not in found:
            raise InputError(f"{name} lack the {what} {target:g}; give {shown}")
        if np.isnan(found[target]):
            raise InputError(f"{name}: that of the {what} {target:g} is NaN")
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
        shown = _RENAMED.get(name, name)
        if shown not in DESIGN:
            return None
        return shown if value is None else f"{shown}={value!r}"

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
        settings: any of `SETTINGS`; `horizon` and `safe_gap` are required. `steps` holds the steps
            of each run (default 0, 1, 2, ...). `calibration` says which negatives set a threshold:
            `in_sample` (default of v0.4) those that are measured, `cross_run` (default of strict)
            those of other runs, `locked` none, since `thresholds` gives one for each target.

    Raises:
        InputError: one line that names the argument and shows the right call; two runs are copies,
            for one.
    """

    def in_arguments(message: str) -> str:
        message = in_keywords(message).replace(f"panel {_SCORE!r}, run ", "")
        return message.replace(f"{_SCORE}: runs ", "")

    with right_call(metric, CALL, reworded=in_arguments):
        asked = read_settings(settings)
        scores = _scores(predictions, references, settings.get("steps"))
        near_copies(scores)
        design = with_leads(asked.design, scores)
        judgement = Judgement(scores, asked.source, design)
        if not judgement.negatives.n_windows:
            raise InputError(
                "references leave no negative window, so that no threshold can be set: none of the "
                f"runs has a step from burn_in {design.burn_in} on that lies safe_gap "
                f"{design.safe_gap} or more before t* (without an event: safe_gap + w_event "
                f"{design.w_event} before its end); give longer runs, or a smaller safe_gap or "
                "burn_in"
            )
    return judgement


def near_copies(scores: Scores) -> NearCopies:
    """The series that move alike and have equal t*.

    Raises:
        InputError: two are equal, and so are their t*.
    """
    events = np.broadcast_to(scores.event_step[:, None], scores.values.shape)
    near = refuse_copies([], [scores, scores.with_values(events, name="t*")], where=_SCORE)
    event = dict(zip(scores.runs, scores.event_step.tolist(), strict=True))
    equal = (pair for pair in near.pairs if len({repr(event[run]) for run in pair}) == 1)
    return NearCopies(tuple(equal), near.runs)


def _scores(predictions: Any, references: Any, steps: Any) -> Scores:
    """The series as scores with t*, at the steps 0, 1, 2, ... where none are given."""
    rows = _many(_SCORE, predictions, "a list of series, one a run")
    events = _many("references", references, "a list with the step t* of each run")
    if len(rows) != len(events):
        what = f"predictions holds {len(rows)} runs, but references {len(events)}"
        raise InputError(f"{what}; give one t* a run, None where it has no event")
    if not rows:
        raise InputError("predictions is empty; give one series a run")
    runs = [f"{_SCORE}[{i}]" for i in range(len(rows))]
    values = [_series(run, row) for run, row in zip(runs, rows, strict=True)]
    if steps is None:
        own = [np.arange(len(row), dtype=np.float64) for row in values]
    else:
        given = _many("steps", steps, "a list of steps for each run")
        if len(given) != len(values):
            raise InputError(f"steps holds {len(given)} runs, but predictions {len(values)}")
        own = [_series(f"steps[{i}]", row) for i, row in enumerate(given)]
    for i, (at, row) in enumerate(zip(own, values, strict=True)):
        if len(at) != len(row):
            what = f"{len(at)} steps, but predictions[{i}] {len(row)} scores"
            raise InputError(f"steps[{i}] has {what}")
        if not np.isfinite(at).all():
            raise InputError(f"steps[{i}] holds a step that is NaN, None or infinite")
    panel = Panel.from_series(_SCORE, list(zip(runs, own, values, strict=True)))
    return Scores.from_panel(panel, _event_steps(events))


def _many(name: str, value: Any, wanted: str) -> list[Any]:
    if value is None:
        raise InputError(f"{name} is missing; give {wanted}")
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise InputError(f"{name} must be {wanted}, got {type(value).__name__}")
    return list(value)


def _series(name: str, value: Any) -> NDArray[np.float64]:
    row = _numbers(name, value)
    if row.ndim == 0:
        hint = "give a list of series, one a run, and [[...]] for a single run"
        raise InputError(f"{name} is a number; {hint}")
    if row.ndim > 1:
        raise InputError(f"{name} must be one series of numbers, got shape {row.shape}")
    if not len(row):
        raise InputError(f"{name} is empty; leave the run out, or give its numbers")
    return row


def _event_steps(events: list[Any]) -> NDArray[np.float64]:
    for i, event in enumerate(events):
        step = _numbers(f"references[{i}]", event)
        if step.ndim or np.isinf(step):
            what = f"must be the step t* of the event, or None without one, got {event!r}"
            raise InputError(f"references[{i}] {what}")
    return np.array([np.nan if event is None else float(event) for event in events])


def _numbers(name: str, value: Any) -> NDArray[np.float64]:
    """`value` as float64, None as NaN; text is refused even where it spells a number."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO":
            raise TypeError
        return np.asarray(array.astype(np.float64))
    except (TypeError, ValueError):
        text = repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise InputError(f"{name} must hold numbers only, got {shown}") from None


# The layers as flat scalars with stable names: what the GMB metrics return.

Flat = dict[str, Any]


def _of_series(statistic: Callable[[Judgement, bool], Flat]) -> Callable[..., Flat]:
    """A statistic of a judgement, and whether lists with a value a run are wanted, of series."""

    @functools.wraps(statistic)
    def called(
        predictions: Any, references: Any, *, return_per_run: bool = False, **settings: Any
    ) -> Flat:
        metric = f"gmb_{statistic.__name__}"
        return statistic(judgement_of(metric, predictions, references, settings), return_per_run)

    return called


@_of_series
def discrimination(judgement: Judgement, per_run: bool) -> Flat:
    """Layer A over pooled windows: `auc`, `ap`; per run `auc_per_run`, `ap_per_run`.

    Called as `discrimination(predictions, references, return_per_run=False, **settings)`, see
    `judgement_of`; and so are the functions below.
    """
    measured = layer_a(judgement)
    flat: Flat = {"auc": measured.auc, "ap": measured.ap}
    if per_run:
        windows = judgement.windows
        labelled = windows.positive | windows.negative
        auc, ap = ranking(judgement.evaluation.values, windows.positive, labelled)
        flat |= {"auc_per_run": auc.tolist(), "ap_per_run": ap.tolist()}
    return flat


@_of_series
def operationality(judgement: Judgement, per_run: bool) -> Flat:
    """Layer B: `fpr@f` and `threshold@f` of each target, and the gate.

    `ok_targets`, `controllability_pass`, `fpr_min`, `fpr_floor_detected` by the specification's
    rule; `x_budget_pass`, `x_floor` by that of `strict`; `layer_b_pass` by the protocol's. Per run:
    `fpr_per_run@f` (NaN for a run without negatives), `threshold_per_run@f`.
    """
    measured = layer_b(judgement)
    flat: Flat = {}
    for result in measured.achieved:
        flat[_at("fpr", result.target)] = result.achieved
        flat[_at("threshold", result.target)] = result.x_threshold
    names = ("ok_targets", "controllability_pass", "fpr_min", "fpr_floor_detected", "x_budget_pass")
    flat |= {name: getattr(measured, name) for name in names}
    certificate = measured.x_floor_certificate
    flat["x_floor"] = None if certificate is None else certificate.floor
    flat["layer_b_pass"] = measured.x_passed
    if per_run:
        for target, thresholds in judgement.calibrated.thresholds.items():
            known = judgement.negatives.counts > 0
            rates = np.where(known, judgement.alarms(target).false_alarm_rates, np.nan)
            flat[_at("fpr_per_run", target)] = rates.tolist()
            flat[_at("threshold_per_run", target)] = thresholds.tolist()
    return flat


@_of_series
def utility(judgement: Judgement, per_run: bool) -> Flat:
    """Layer C: `coverage@f`, `lead_time_median@f`, `lead_time_iqr@f`, `lead_time_success@f`.

    Also `lead_time_q05@f` and `lead_time_q95@f`; the interquartile range is q75 - q25. Per run:
    `covered_per_run@f` (False also where there is no event), `lead_time_per_run@f`.
    """
    flat: Flat = {}
    names = ("coverage", "lead_time_median", "lead_time_iqr", "lead_time_success")
    for point in layer_c(judgement).at_fpr:
        for name in (*names, "x_lead_time_q05", "x_lead_time_q95"):
            flat[_at(name.removeprefix("x_"), point.fpr)] = getattr(point, name)
    if per_run:
        for target in judgement.design.fpr_targets:
            alarms = judgement.alarms(target)
            flat[_at("covered_per_run", target)] = alarms.detected.tolist()
            flat[_at("lead_time_per_run", target)] = alarms.lead.tolist()
    return flat


@_of_series
def robustness(judgement: Judgement, per_run: bool) -> Flat:
    """Layer D: `pass_rate`, `label_flip_rate`, `family_size`; `runs_label_flip_rate`.

    The last is by runs, which `strict` alone counts. `return_per_run` adds, for each member of the
    family, `members`, `member_passes` and `member_layer_b_pass`: what varies here are settings and
    runs left out.
    """
    measured = layer_d(judgement)
    names = ("pass_rate", "label_flip_rate", "family_size")
    flat: Flat = {name: getattr(measured, name) for name in names}
    flat["runs_label_flip_rate"] = None
    if judgement.strict:
        beside = rivals_of({judgement.evaluation.name: judgement})
        rivals = beside.get(judgement.design.primary_run_budget, {})
        by_runs = runs_robustness(judgement, {}, rivals)
        flat["runs_label_flip_rate"] = by_runs.label_flip_rate
    if per_run:
        members = measured.x_members
        flat["members"] = [member.name for member in members]
        flat["member_passes"] = [member.passes for member in members]
        flat["member_layer_b_pass"] = [member.layer_b_pass for member in members]
    return flat


@_of_series
def first_alarm(judgement: Judgement, per_run: bool) -> Flat:
    """By runs: what an operator who acts on the first alarm gets, at each budget of runs.

    `detection_rate@a`, `timely_rate@a`, `early_rate@a`, `miss_rate@a` of events;
    `false_alarm_rate@a` with `false_alarm_low@a` and `false_alarm_high@a`; `lead_median@a` and its
    tails; `run_threshold@a`, what it promises as `expected@a` and `upper@a`; what chance baselines
    of that cost detect (`chance_constant_hazard@a`, ...), and the clock; and `p@a`. Per run
    `first_alarm_per_run@a` (NaN: none) and `outcome_per_run@a`.
    """
    clock = clock_of(judgement)
    flat: Flat = {}
    for budget in judgement.design.run_budgets:
        alarms = judgement.first_alarms(budget)
        point = measure(
            judgement, budget, {"clock": clock.first_alarms(budget).detected} if clock else {}
        )
        interval = point.false_alarm_interval
        values = {
            **{name: getattr(point, name) for name in _RATES},
            "false_alarm_low": interval.low if interval else None,
            "false_alarm_high": interval.high if interval else None,
            **{name: getattr(point, name) for name in _LEADS},
            "run_threshold": point.threshold,
            "expected": point.expected,
            "upper": point.upper,
            **{
                f"chance_{name}": point.beside[name].detection_rate
                if name in point.beside
                else None
                for name in (*labels_of("runs"), "clock")
            },
            "p": point.p_value,
        }
        flat |= {_at(name, budget): value for name, value in values.items()}
        if per_run:
            flat[_at("first_alarm_per_run", budget)] = alarms.step.tolist()
            flat[_at("outcome_per_run", budget)] = alarms.outcomes
    return flat


_RATES = ("detection_rate", "timely_rate", "early_rate", "miss_rate", "false_alarm_rate")
_LEADS = ("lead_median", "lead_q05", "lead_q25", "lead_q75", "lead_q95")


@_of_series
def verdict(judgement: Judgement, per_run: bool) -> Flat:
    """The verdict: `label`, `alarm_eligible`, `reasons` (codes, joined by ", "), `sentence`.

    A call has no lock, so that its verdict is exploratory and `alarm_eligible` is always False. The
    sentence counts series that move alike.

    Per run, at the primary target: `first_alarm_per_run`, the step of the first alarm from burn-in
    to t*, and `false_alarms_per_run`.
    """
    concluded, near = judge(judgement), near_copies(judgement.evaluation)
    flat: Flat = {
        "label": concluded.label,
        "alarm_eligible": concluded.x_alarm_eligible,
        "reasons": ", ".join(concluded.x_reasons),
        "sentence": " ".join(
            ["Exploratory, without a lock.", concluded.x_sentence, *filter(None, [near.note()])]
        ),
    }
    if per_run:
        alarms = judgement.alarms(judgement.design.primary_fpr)
        flat["first_alarm_per_run"] = alarms.grid.first_monitored.tolist()
        flat["false_alarms_per_run"] = alarms.n_false.tolist()
    return flat


def _at(name: str, target: float) -> str:
    return f"{name}@{float(target)!r}"
