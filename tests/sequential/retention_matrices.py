"""Matrices for tests: made up, with an answer that a plain loop gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gmb_hf.protocol.sequential.matrix import RetentionMatrix

TASKS = ("add", "sub", "mul", "sq_sum")


def matrix(
    variant: str = "dense",
    *,
    seeds: Sequence[int] = range(5),
    tasks: Sequence[str] = TASKS,
    trained_on: Sequence[str] | None = None,
    forgotten: float = 9.0,
) -> RetentionMatrix:
    """A model that learns every task and then forgets it; `forgotten` is the loss after that."""
    trained_on = tuple(tasks if trained_on is None else trained_on)
    rng = np.random.default_rng([len(variant), len(seeds)])
    shape = (len(seeds), len(trained_on) + 1, len(tasks))
    loss = 4.6 + rng.normal(0, 0.05, shape)
    for phase, task in enumerate(trained_on, start=1):
        at = tuple(tasks).index(task)
        loss[:, phase, at] = rng.uniform(0.02, 0.1, len(seeds))
        loss[:, phase + 1 :, at] = forgotten + rng.normal(0, 0.2, loss[:, phase + 1 :, at].shape)
    return RetentionMatrix(variant, tuple(seeds), tuple(tasks), trained_on, loss, np.exp(-loss))
