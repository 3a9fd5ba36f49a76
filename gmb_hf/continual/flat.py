"""Retention as flat scalars with stable names: what the metric `retention` returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.continual import retention as standard
from gmb_hf.validation import InputError, choose, right_call, unknown

_CALL = "predictions=[[0.01, 0.01], [0.99, 0.02], [0.4, 0.98]], references=[None, 0, 1]"
_KEYWORDS = ("measure", "return_per_task")


def check(settings: Mapping[str, Any]) -> None:
    """Refuse settings that the metric does not have, or that are wrong; raises InputError."""
    with right_call("retention", _CALL):
        for name in settings:
            if name not in _KEYWORDS:
                raise unknown("keyword", name, _KEYWORDS)
        choose("measure", str(settings.get("measure", "accuracy")), standard.MEASURES)


def retention(predictions: Any, references: Any, **settings: Any) -> dict[str, Any]:
    """`average_accuracy`, `learning_`, `backward_transfer_`, `forward_transfer_`, `forgetting_`.

    With `measure="loss"` the names end in `_loss`. What does not exist is None: differences of a
    single phase, and forward transfer without the row of the untrained model.

    Args:
        predictions: a row per phase, in their order: the accuracy on every task.
        references: place of the task trained in the phase, from 0; None for the untrained model,
            whose row comes first and may be left out.
        settings: `measure`, "accuracy" or "loss"; `return_per_task` adds a list of each number,
            a task each, in the order of training.
    """
    check(settings)
    measure = str(settings.get("measure", "accuracy"))
    with right_call("retention", _CALL):
        values, untrained = _matrix(predictions, references, measure)
    found = standard.retention(values[None], higher_is_better=standard.higher_is_better(measure))
    by_task = {
        "final": found.final,
        "learning": found.learning,
        "backward_transfer": found.backward_transfer,
        "forward_transfer": found.forward_transfer if untrained else None,
        "forgetting": found.forgetting,
    }
    means = {**found.means(), **({} if untrained else {"forward_transfer": None})}
    flat: dict[str, Any] = {
        f"{name}_{measure}": None if mean is None else float(mean[0])
        for name, mean in means.items()
    }
    flat["n_phases"] = len(values) - 1
    if settings.get("return_per_task"):
        flat |= {
            f"{name}_{measure}_per_task": None if rows is None else rows[0].tolist()
            for name, rows in by_task.items()
        }
    return flat


def _matrix(predictions: Any, references: Any, measure: str) -> tuple[NDArray[np.float64], bool]:
    """R with its columns in the order of training, [P + 1, P]; whether row 0 was given."""
    rows, trained = _rows(predictions), _trained(references)
    if len(rows) != len(trained):
        raise InputError(
            f"{len(rows)} rows of predictions but {len(trained)} references; give one for each"
        )
    untrained = trained[0] is None
    order = [place for place in trained if place is not None]
    if not order:
        raise InputError("references names no trained task; give its place for each phase")
    if None in trained[1:]:
        raise InputError(
            f"references[{trained.index(None, 1)}] is None; only the first row may be of the "
            "untrained model"
        )
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InputError(
                f"predictions[{number}] has {len(row)} tasks where predictions[0] has "
                f"{len(rows[0])}; every task is needed after every phase"
            )
        for task, value in enumerate(row):
            _check_value(value, measure, f"predictions[{number}], task {task}")
    for number, place in enumerate(trained):
        if place is not None and not 0 <= place < len(rows[0]):
            raise InputError(
                f"references[{number}] is {place}, which is no place among {len(rows[0])} tasks"
            )
        if place is not None and trained.index(place) != number:
            raise InputError(
                f"references[{number}] is {place} as references[{trained.index(place)}]; a task "
                "has one phase"
            )
    values = np.array(rows if untrained else [rows[0], *rows], dtype=np.float64)
    return values[:, order], untrained


def _rows(predictions: Any) -> list[list[Any]]:
    if predictions is None or not len(predictions):
        raise InputError("predictions is missing; give a row per phase")
    rows = []
    for number, row in enumerate(predictions):
        if isinstance(row, str) or not hasattr(row, "__len__"):
            raise InputError(f"predictions[{number}] must be a list with a number for each task")
        rows.append(list(row))
    return rows


def _trained(references: Any) -> list[int | None]:
    if references is None:
        raise InputError("references is missing; give the place of the task of each phase")
    found: list[int | None] = []
    for number, place in enumerate(references):
        # Arrow keeps None among numbers as NaN.
        if place is None or (isinstance(place, float) and math.isnan(place)):
            found.append(None)
        elif isinstance(place, (bool, str)) or place != int(place):
            raise InputError(f"references[{number}] must be a whole number or None, got {place!r}")
        else:
            found.append(int(place))
    return found


def _check_value(value: Any, measure: str, where: str) -> None:
    good = isinstance(value, (int, float, np.number)) and math.isfinite(value)
    if not good or (measure == "accuracy" and not 0 <= value <= 1):
        what = "an accuracy must be in [0, 1]" if measure == "accuracy" else "a loss must be finite"
        raise InputError(f"{where} is {value!r}; {what}")
