"""The suites of the sequential protocol: which tasks, in which order, asked at which positions.

| suite   | tasks, in the protocol's order              | protocol |
|---------|---------------------------------------------|----------|
| modular | add, sub, mul, sq_sum modulo a prime        | phase 2a |
| formal  | parity_8, copy_8, reverse_8, majority_9     | phase 2b |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gmb_hf.errors import InputError, choose, fraction, repeated
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import LOSS_POSITIONS, OP_TOKENS, Task, TaskData

MODULAR, FORMAL = "modular", "formal"
SUITES: dict[str, tuple[str, ...]] = {
    MODULAR: ("add", "sub", "mul", "sq_sum"),
    FORMAL: ("parity_8", "copy_8", "reverse_8", "majority_9"),
}
"""Suite -> its tasks in the protocol's training order."""

PROTOCOL_PRIME = 97


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """What is learned, one task after the other.

    Attributes:
        name: "modular" or "formal".
        order: the tasks in the order of training; None takes the protocol's.
        prime: the modulus; of the modular suite only, None takes 97.
        op_token: of the modular suite only: "distinct" gives every operation its own token, as
            the protocol's table says; "shared" gives all the same one, as the published runs do,
            where equal inputs carry contradicting answers and forgetting is forced. None takes
            "distinct".
        loss_positions: "answer" trains and measures at the task's own answer positions; "all" at
            every position that has a next token in the row, 7 of the 8 of an equation.
        train_fraction: share of each task's rows to train on; the others are held out.
        data_seed: draws the split, the same for all seeds of models.
        compat_batch: leave out the last training row, as the reference's loader does.
    """

    name: str = MODULAR
    order: tuple[str, ...] | None = None
    prime: int | None = None
    op_token: str | None = None
    loss_positions: str = "answer"
    train_fraction: float = 0.5
    data_seed: int = 42
    compat_batch: bool = False

    def __post_init__(self) -> None:
        known = SUITES[choose("suite", self.name, tuple(SUITES))]
        choose("loss_positions", self.loss_positions, LOSS_POSITIONS, where="suite.loss_positions")
        fraction("suite.train_fraction", self.train_fraction)
        if self.name == FORMAL:
            for option in ("prime", "op_token"):
                if getattr(self, option) is not None:
                    raise InputError(f"suite.{option} is for the suite modular; leave it out")
        else:
            _fill(self, prime=PROTOCOL_PRIME, op_token="distinct")
            choose("op_token", str(self.op_token), OP_TOKENS, where="suite.op_token")
        _fill(self, order=known)
        object.__setattr__(self, "order", tuple(self.tasks))  # YAML reads a list
        if not self.tasks:
            raise InputError(f"suite.order: no task is named; known: {', '.join(known)}")
        for task in self.tasks:
            choose("task", task, known, where="suite.order")
        twice = repeated(self.tasks)
        if twice is not None:
            raise InputError(f"suite.order: {twice} is given twice; each task has one phase")
        for task in self.tasks:
            try:
                self.build(task).split(self.train_fraction, self.data_seed)
            except InputError as error:
                raise InputError(f"suite: {error}") from None

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks in the order of training; the columns of the matrix stand in it, too."""
        assert self.order is not None  # __post_init__ fills it in
        return self.order

    def build(self, task: str) -> Task:
        """The task of that name."""
        if self.name == FORMAL:
            return get_task(task)
        assert self.prime is not None
        assert self.op_token is not None
        return ModularTask(task, self.prime, op_token=self.op_token)

    def data(self, task: str) -> TaskData:
        """The rows of a task, split; every seed of a model sees the same."""
        return self.build(task).data(self.train_fraction, self.data_seed)

    def fingerprints(self) -> dict[str, str]:
        """Task -> SHA-256 of its training and held-out rows."""
        return {task: self.data(task).fingerprint() for task in self.tasks}

    @property
    def vocab_size(self) -> int:
        """How many tokens a model of this suite knows: of the modular one p + 7, shared p + 4."""
        return self.build(self.tasks[0]).vocab_size


def _fill(settings: SuiteSettings, **defaults: Any) -> None:
    for name, value in defaults.items():
        if getattr(settings, name) is None:
            object.__setattr__(settings, name, value)
