"""The keyword arguments of the GMB metrics, and the preregistration that they amount to.

All five metrics understand the same ones, so that one call can serve several of them; defaults are
those of a preregistration, except for the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError, choose, right_call, unknown

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

SETTINGS = ("steps", *DESIGN, "calibration", "thresholds", "protocol", "return_per_run")
"""Every keyword of the GMB metrics beside the data."""

CALL = (
    "predictions=[[0.1, 0.3, ...], ...], references=[400.0, None, ...], horizon=100, safe_gap=200"
)
"""The arguments with which a GMB metric may be called."""

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


@dataclass(frozen=True)
class Settings:
    """What a call asks for.

    Attributes:
        prereg: the design.
        calibration: one of `CALIBRATIONS`.
        thresholds: target -> threshold where they are locked.
    """

    prereg: Prereg
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
        prereg = Prereg.minimal(**given)
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


def _plain(value: Any) -> Any:
    """Numpy's scalars and arrays, and tuples, as Python numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def in_keywords(message: str) -> str:
    """A message of the preregistration in the keywords that were typed."""
    message = message.removeprefix("prereg: ").removeprefix("operating_points: ")
    message = message.replace("x_nan: ignore", "nan='ignore'")
    for path, name in sorted(Prereg.flat_names().items(), key=lambda item: -len(item[0])):
        if name in DESIGN:
            message = message.replace(path, name)
    return message.removesuffix(".")
