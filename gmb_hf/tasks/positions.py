"""At which positions of a task's rows the loss counts."""

from __future__ import annotations

from gmb_hf.tasks.task import TaskData
from gmb_hf.validation import choose

LOSS_POSITIONS = ("answer", "all")


def loss_positions(mode: str, data: TaskData) -> tuple[int, ...]:
    """The positions, from 0, whose next token counts.

    Args:
        mode: "answer": the task's own; "all": every one that has a next token in the row.
        data: of the task.
    """
    choose("loss_positions", mode, LOSS_POSITIONS)
    return data.answer_positions if mode == "answer" else tuple(range(data.input_ids.shape[1] - 1))
