"""Scores whose truth is known by construction, under laws that real scores follow.

Noise is drawn without a look at the event, and runs are exchangeable; windows within a run are not
independent. An oracle is noise that is raised before each event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.scores import Scores
from gmb_hf.runs.panel import Panel

CADENCE = 10


@dataclass(frozen=True, kw_only=True)
class Law:
    """How noise is drawn.

    Attributes:
        correlation: of one checkpoint's noise with the next.
        degrees: of freedom of Student's t; None for normal noise.
        offset: spread of the runs' own levels.
        grid: scores are rounded to its multiples, which makes ties; 0: they are not.
        ragged: runs end at 60% of the checkpoints or later, and an event after the end is none.
        early: share of the checkpoints before which no event comes; others are uniform.
        skewed: events crowd early, with a long tail, instead.
    """

    correlation: float = 0.5
    degrees: float | None = None
    offset: float = 0.3
    grid: float = 0.0
    ragged: bool = False
    early: float = 1 / 3
    skewed: bool = False


LAWS: Mapping[str, Law] = {
    "autocorrelated": Law(correlation=0.9),
    "heavy tails": Law(degrees=2.0),
    "offsets": Law(offset=2.0),
    "ties": Law(grid=0.25),
    "ragged": Law(ragged=True),
    "event times": Law(early=0.1, skewed=True),
}
"""One law for each way in which exchangeable runs may differ from independent normal noise."""


def noise(
    law: Law, n_runs: int, n_checkpoints: int, rng: np.random.Generator, prefix: str = "run"
) -> Scores:
    """A score that knows nothing of the event: R runs of up to T checkpoints, ten steps apart."""
    return with_events(law, draws(law, n_runs, n_checkpoints, rng), rng, prefix)


def draws(
    law: Law, n_runs: int, n_checkpoints: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The noise alone, float64 [R, T]."""
    shape = (n_runs, n_checkpoints)
    values = rng.normal(size=shape) if law.degrees is None else rng.standard_t(law.degrees, shape)
    for column in range(1, n_checkpoints):
        values[:, column] += law.correlation * values[:, column - 1]
    values += law.offset * rng.normal(size=(n_runs, 1))
    return np.round(values / law.grid) * law.grid if law.grid else values


def with_events(
    law: Law, values: NDArray[np.float64], rng: np.random.Generator, prefix: str = "run"
) -> Scores:
    """These values [R, T] as scores of runs that have their length and event by the law."""
    n_runs, n_checkpoints = values.shape
    first = round(law.early * n_checkpoints)
    if law.skewed:
        tail = rng.lognormal(0.0, 1.0, size=n_runs) * n_checkpoints / 5
        event = np.minimum(first + tail.astype(int), n_checkpoints - 1)
    else:
        event = rng.integers(first, n_checkpoints, size=n_runs)
    lengths = np.full(n_runs, n_checkpoints)
    if law.ragged:
        lengths = rng.integers(round(0.6 * n_checkpoints), n_checkpoints + 1, size=n_runs)
    steps = np.arange(n_checkpoints) * CADENCE
    series = [
        (f"{prefix}_{run}", steps[:length], values[run, :length])
        for run, length in enumerate(lengths)
    ]
    happened = np.where(event < lengths, event * float(CADENCE), np.nan)
    return Scores.from_panel(Panel.from_series("score", series), happened)


def raised(scores: Scores, by: float, *, over: int, stays: bool = False) -> Scores:
    """The scores plus `by` in the last `over` steps before each event (and ever after)."""
    lead = scores.event_step[:, None] - scores.steps
    within = (lead <= over) & (stays | (lead > 0))
    panel = Panel(scores.name, scores.runs, scores.values, scores.steps, scores.present)
    return Scores.from_panel(panel.with_values(scores.values + by * within), scores.event_step)
