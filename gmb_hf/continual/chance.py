"""What guessing reaches on a task: the line below which something has been learned."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gmb_hf.benchmark.record import Record
from gmb_hf.tasks.task import Task


@dataclass(frozen=True)
class Chance(Record):
    """Loss (nats a token) and accuracy of a uniform guess among the answers of a task."""

    loss: float
    accuracy: float


def chance_level(task: Task) -> Chance:
    """What a uniform guess reaches, whatever the distribution of the answers.

    >>> from gmb_hf.tasks.registry import get_task
    >>> round(chance_level(get_task("add_p97")).loss, 3)  # ln 97
    4.575
    """
    answers = len(np.unique(task.answers()))
    return Chance(math.log(answers), 1 / answers)
