"""Modular arithmetic: `BOS a OP b EQ c EOS EOS`, every pair of residues once.

The operations `add`, `sub`, `mul` and `sq_sum` are those of the evaluation protocol, phase 2a;
`div` and `x2_xy_y2` are from Power et al. 2022, "Grokking: Generalization Beyond Overfitting on
Small Algorithmic Datasets", the paper that found grokking on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.errors import InputError, positive_int
from gmb_hf.errors import fraction as checked_fraction
from gmb_hf.tasks.task import (
    Task,
    Vocabulary,
    check_row_count,
    corrupt,
    is_prime,
    modular_vocabulary,
    nearest_prime,
    operation_id,
    split_indices,
    split_pairs,
)

COMMUTATIVE = ("add", "mul", "sq_sum", "x2_xy_y2")


@dataclass(frozen=True)
class ModularTask(Task):
    """c = a OP b modulo a prime.

    Attributes:
        operation: `add`, `sub`, `mul`, `sq_sum` (a^2 + b^2), `div` (a times the inverse of b) or
            `x2_xy_y2` (a^2 + ab + b^2).
        prime: the modulus p, any prime.
        op_token: `distinct`: each operation has its own token. `shared`: all have the same one,
            as in the published runs of the protocol, where equal inputs of two operations carry
            contradicting answers.
        corruption_rate: share of the training rows, in [0, 1], whose answer is made wrong.
        keep_pairs_together: of a commutative operation, put (a, b) and (b, a) on the same side
            of the split, so that no held-out row is a training row with its operands swapped.

    Raises:
        InputError: an unknown operation or token rule, a modulus that is not prime, a rate
            outside [0, 1], or pairs of an operation that does not commute.
    """

    operation: str
    prime: int = 97
    op_token: str = "distinct"
    corruption_rate: float = 0.0
    keep_pairs_together: bool = False

    def __post_init__(self) -> None:
        operation_id(self.operation, 0, self.op_token)
        positive_int("prime", self.prime)
        # The size first: trial division takes hours on what is too large anyway.
        check_row_count(f"{self.operation} modulo {self.prime}", self.prime**2)
        if not is_prime(self.prime):
            guess = nearest_prime(self.prime)
            raise InputError(f"prime must be a prime number, got {self.prime}; {guess} is one")
        checked_fraction("corruption_rate", self.corruption_rate, closed=True)
        if self.keep_pairs_together and self.operation not in COMMUTATIVE:
            raise InputError(
                f"keep_pairs_together: {self.operation} does not commute, so (a, b) and (b, a) "
                f"are different questions; it is for {', '.join(COMMUTATIVE)}"
            )

    @property
    def name(self) -> str:
        return f"{self.operation}_p{self.prime}"

    @property
    def vocabulary(self) -> Vocabulary:
        return modular_vocabulary(self.prime, [self.operation], self.op_token)

    @property
    def operation_token(self) -> int:
        """The id between the operands."""
        return operation_id(self.operation, self.prime, self.op_token)

    @property
    def sequence_length(self) -> int:
        return 8

    @property
    def answer_positions(self) -> tuple[int, ...]:
        """Position 4, the equals sign, whose next token is c."""
        return (4,)

    @property
    def corrupts_labels(self) -> bool:
        return self.corruption_rate > 0

    def operands(self) -> dict[str, NDArray[np.int64]]:
        """The columns `a` and `b`, a outer and b inner; `div` leaves out the rows with b = 0."""
        a, b = (axis.ravel() for axis in np.indices((self.prime, self.prime), dtype=np.int64))
        if self.operation == "div":
            a, b = a[b != 0], b[b != 0]
        return {"a": a, "b": b}

    def rows(self) -> NDArray[np.int64]:
        """`BOS a OP b EQ c EOS EOS` as int64 [p*p, 8]; for `div`, which has no b = 0, [p*(p-1), 8].

        c is the true answer; the two EOS end the row and pad it.
        """
        a, b = self.operands().values()
        words = self.vocabulary
        rows = np.empty((len(a), self.sequence_length), dtype=np.int64)
        rows[:, 0] = words.bos
        rows[:, 1] = a
        rows[:, 2] = self.operation_token
        rows[:, 3] = b
        rows[:, 4] = words.eq
        rows[:, 5] = self._result(a, b)
        rows[:, 6:] = words.eos
        return rows

    def split(
        self, fraction: float = 0.5, data_seed: int = 42
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of the training rows and of the held-out rows.

        Args:
            fraction: the share of rows to train on, in (0, 1), or as an int their number.
            data_seed: a whole number in [0, 2**32).
        """
        if not self.keep_pairs_together:
            n_rows = self.prime * (self.prime - (self.operation == "div"))
            return split_indices(n_rows, fraction, data_seed)
        a, b = self.operands().values()
        return split_pairs(b * self.prime + a, fraction, data_seed)

    def _corrupted_answers(
        self, answers: NDArray[np.int64], train: NDArray[np.int64], data_seed: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        noisy, mask = corrupt(answers[:, 0], train, self.corruption_rate, self.prime, data_seed)
        return noisy[:, None], mask

    def _result(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        match self.operation:
            case "add":
                value = a + b
            case "sub":
                value = a - b
            case "mul":
                value = a * b
            case "sq_sum":
                value = a * a + b * b
            case "div":
                inverse = [0] + [pow(i, -1, self.prime) for i in range(1, self.prime)]
                value = a * np.array(inverse, dtype=np.int64)[b]
            case _:
                value = a * a + a * b + b * b
        result: NDArray[np.int64] = value % self.prime
        return result
