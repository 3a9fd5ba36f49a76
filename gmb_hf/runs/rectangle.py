"""Equally long runs, given as arrays, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from gmb_hf.validation import InputError


def rectangle(
    runs: Sequence[str],
    steps: ArrayLike,
    observables: Mapping[str, ArrayLike],
    seeds: Sequence[int] | None = None,
) -> pa.Table:
    """One row per run and step, run by run.

    Args:
        runs: R run names.
        steps: whole numbers, [T] (the same for all) or [R, T].
        observables: name -> values [R, T].
        seeds: R whole numbers, or None.

    Raises:
        InputError: a shape that differs.
    """
    grid = np.atleast_1d(np.asarray(steps))
    shape = (len(runs), grid.shape[-1])
    data: dict[str, Any] = {
        "run": np.repeat(np.asarray(runs, dtype=object), shape[1]),
        "step": np.broadcast_to(grid, shape).ravel(),
    }
    if seeds is not None:
        data["seed"] = np.repeat(np.asarray(seeds), shape[1])
    for name, values in observables.items():
        array = np.asarray(values, dtype=np.float64)
        if array.shape != shape:
            raise InputError(f"observable {name!r} has shape {array.shape}, expected {shape}")
        data[name] = array.ravel()
    return pa.table(data)
