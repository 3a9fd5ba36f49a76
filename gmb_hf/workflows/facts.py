"""Numbers of each run that the strata of a design ask for: its seed, or a column of settings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.strata import EVENT_STEP
from gmb_hf.runs import Panel, RunLog
from gmb_hf.validation import InputError, unknown

SEED = "seed"


def run_facts(prereg: Prereg, log: RunLog) -> dict[str, NDArray[np.float64]]:
    """The facts of the runs of a log, float64 [R] by name, NaN where one is not known.

    Raises:
        InputError: a stratum asks for a number that the log lacks, or for a column that changes
            within a run: which of its values a stratum means, nobody could tell.
    """
    facts = {}
    for stratum in prereg.x_strata:
        for name in stratum.names:
            where = f"stratum {stratum.name!r} ({stratum.where})"
            if name in facts or name == EVENT_STEP:
                continue
            if name == SEED:
                facts[name] = np.array(
                    [np.nan if seed is None else float(seed) for seed in log.seeds]
                )
            elif name in log.observables:
                facts[name] = _one_value(log.panel(name), where)
            else:
                raise unknown("column", name, [EVENT_STEP, SEED, *log.observables], where=where)
    return facts


def _one_value(panel: Panel, where: str) -> NDArray[np.float64]:
    low, high = (np.where(panel.present, panel.values, fill) for fill in (np.inf, -np.inf))
    # fmin and fmax pass over NaN: an empty cell is no other value.
    least: NDArray[np.float64] = np.fmin.reduce(low, axis=1)
    most = np.fmax.reduce(high, axis=1)
    changing = np.flatnonzero(least != most)
    if len(changing):
        run = int(changing[0])
        raise InputError(
            f"{where}: column {panel.name!r} goes from {least[run]:g} to {most[run]:g} within run "
            f"{panel.runs[run]!r}; a stratum needs a number that is one for each run"
        )
    return least
