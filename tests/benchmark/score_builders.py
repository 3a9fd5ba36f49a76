"""Small scores and preregistrations for the benchmark's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.scores import Scores
from gmb_hf.design.design import Design
from gmb_hf.runs.panel import Panel


def scores_of(
    values: Sequence[Sequence[float]] | np.ndarray,
    events: Sequence[float | None],
    *,
    cadence: int = 10,
    name: str = "score",
    prefix: str = "run",
) -> Scores:
    """Scores of runs that start at step 0; rows may be of unequal length; None: no event."""
    steps = [np.nan if event is None else float(event) for event in events]
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        runs = tuple(f"{prefix}_{i}" for i in range(len(values)))
        same = np.tile(np.arange(values.shape[1]) * cadence, (len(values), 1))
        panel = Panel(name, runs, values, same, np.ones(values.shape, dtype=bool))
        return Scores.from_panel(panel, steps)
    series = [(f"{prefix}_{i}", np.arange(len(row)) * cadence, row) for i, row in enumerate(values)]
    return Scores.from_panel(Panel.from_series(name, series), steps)


def design(**overrides: Any) -> Design:
    """Horizon 20, safe gap 40, W_event 10 steps, unless overridden."""
    return Design.minimal(**{"horizon": 20, "safe_gap": 40, "w_event": 10, **overrides})


def noise_scores(
    n_runs: int,
    n_checkpoints: int,
    rng: np.random.Generator,
    *,
    correlation: float = 0.5,
    spread: float = 0.3,
    prefix: str = "run",
) -> Scores:
    """A score that knows nothing of the event: runs are exchangeable, windows within a run are not.

    Each run has a level of its own, its windows an autoregressive noise; events are uniform.
    """
    values = rng.normal(size=(n_runs, n_checkpoints))
    for column in range(1, n_checkpoints):
        values[:, column] += correlation * values[:, column - 1]
    values += spread * rng.normal(size=(n_runs, 1))
    events = 10.0 * rng.integers(n_checkpoints // 3, n_checkpoints, size=n_runs)
    return scores_of(values, list(events), prefix=prefix)


def raised_before_event(scores: Scores, by: float, *, over: int, stays: bool = False) -> Scores:
    """The scores plus `by` in the last `over` steps before each event (and ever after)."""
    lead = scores.event_step[:, None] - scores.steps
    within = (lead <= over) & (stays | (lead > 0))
    panel = Panel(scores.name, scores.runs, scores.values, scores.steps, scores.present)
    return Scores.from_panel(panel.with_values(scores.values + by * within), scores.event_step)


def judged(values: Any, events: Sequence[float | None], **overrides: Any) -> Judgement:
    """A judgement of hand-made scores by `design(**overrides)`, without explore runs."""
    return Judgement(scores_of(values, events), None, design(**overrides))


def null_paths(value: Any, path: str = "") -> set[str]:
    """Where plain data is null, as `layer_A.auc` or `x_strata[0].p_value`."""
    if value is None:
        return {path}
    inner: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        inner = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        # In a list of numbers a null is what its field says it is.
        some = ((place, item) for place, item in enumerate(value) if item is not None)
        inner = [(f"{path}[{place}]", item) for place, item in some]
    return {found for at, item in inner for found in null_paths(item, at)}
