"""Series and event steps, as a notebook has them, to a judgement: what the GMB metrics take.

One run is a list of scores and, beside it, the step t* of its event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.series_settings import CALL, in_keywords, read_settings
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError, right_call

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
            prereg=asked.prereg,
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
    prereg = judgement.prereg
    raise InputError(
        f"references leave no negative window, so that no threshold can be set: none of the runs "
        f"has a step from burn_in {prereg.burn_in} on that lies safe_gap {prereg.safe_gap} or more "
        f"before t* (without an event: safe_gap + w_event {prereg.w_event} before its end); give "
        "longer runs, or a smaller safe_gap or burn_in"
    )
