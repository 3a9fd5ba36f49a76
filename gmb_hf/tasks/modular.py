"""Modular arithmetic: `BOS a OP b EQ c EOS EOS`, every pair of residues once.

A new operation is one entry of `OPERATIONS`. The first four are those of the evaluation protocol,
phase 2a; `div` and `x2_xy_y2` are from Power et al. 2022, "Grokking: Generalization Beyond
Overfitting on Small Algorithmic Datasets", the paper that found grokking on them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from gmb_hf.base.errors import InputError, choose, positive_int
from gmb_hf.base.errors import fraction as checked_fraction
from gmb_hf.tasks import task
from gmb_hf.tasks.task import EquationTokens, Flags, Ints, Task, Vocabulary


@dataclass(frozen=True)
class Operation:
    """A binary operation on residues.

    `result` is of the residues a and b and the modulus, and reduced afterwards; `text` as people
    write it, with {a} and {b}; `sign` is the word of its token, its name where None. One that
    `divides` leaves out b = 0. `group` as in `EquationTokens`.
    """

    result: Callable[[Ints, Ints, int], Ints]
    text: str
    commutes: bool = False
    divides: bool = False
    group: str | None = None
    sign: str | None = None


def _quotient(a: Ints, b: Ints, prime: int) -> Ints:
    inverse = [0] + [pow(i, -1, prime) for i in range(1, prime)]
    quotient: Ints = a * np.array(inverse, dtype=np.int64)[b]
    return quotient


OPERATIONS: dict[str, Operation] = {
    "add": Operation(lambda a, b, _: a + b, "{a} + {b}", commutes=True, group="additive", sign="+"),
    "sub": Operation(lambda a, b, _: a - b, "{a} - {b}", group="additive", sign="-"),
    "mul": Operation(
        lambda a, b, _: a * b, "{a} * {b}", commutes=True, group="multiplicative", sign="*"
    ),
    "sq_sum": Operation(lambda a, b, _: a * a + b * b, "{a}^2 + {b}^2", commutes=True),
    "div": Operation(_quotient, "{a} / {b}", divides=True, group="multiplicative", sign="/"),
    "x2_xy_y2": Operation(
        lambda a, b, _: a * a + a * b + b * b, "{a}^2 + {a} * {b} + {b}^2", commutes=True
    ),
}
"""Every operation by name; the place decides the id of its token, so new ones come last."""

OP_TOKENS = ("distinct", "shared")


def operation_id(operation: str, prime: int, op_token: str = "distinct") -> int:
    """The id of the operation's token.

    Raises:
        InputError: the operation or `op_token` is unknown.
    """
    choose("operation", operation, tuple(OPERATIONS))
    choose("op_token", op_token, OP_TOKENS)
    if op_token == "shared" or operation == "add":
        return prime
    return prime + 3 + list(OPERATIONS).index(operation)


def modular_vocabulary(
    prime: int, operations: Iterable[str], op_token: str = "distinct"
) -> Vocabulary:
    """The smallest vocabulary that holds all of `operations` over the residues of `prime`.

    Its size is p+4 with a shared token; with distinct tokens it is p+7, or as much as `div`
    (p+8) or `x2_xy_y2` (p+9) need.

    Raises:
        InputError: no operation is given, or one is unknown.
    """
    ids = [operation_id(operation, prime, op_token) for operation in operations]
    if not ids:
        raise InputError(f"operations: none given; choose from {', '.join(OPERATIONS)}")
    size = prime + 4 if op_token == "shared" else max(prime + 7, *(i + 1 for i in ids))
    return Vocabulary(size=size, bos=prime + 2, eos=prime + 3, eq=prime + 1)


def nearest_prime(number: int) -> int:
    """The prime nearest to `number`, the smaller of two."""
    near = (number + sign * distance for distance in itertools.count() for sign in (-1, 1))
    return next(candidate for candidate in near if is_prime(candidate))


def is_prime(number: int) -> bool:
    """Whether `number` is prime, by trial division."""
    return number > 1 and all(number % divisor for divisor in range(2, math.isqrt(number) + 1))


@dataclass(frozen=True)
class ModularTask(Task):
    """c = a OP b modulo a prime.

    Attributes:
        operation: a name in `OPERATIONS`.
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
        task.check_row_count(f"{self.operation} modulo {self.prime}", self.prime**2)
        if not is_prime(self.prime):
            guess = nearest_prime(self.prime)
            raise InputError(f"prime must be a prime number, got {self.prime}; {guess} is one")
        checked_fraction("corruption_rate", self.corruption_rate, closed=True)
        if self.keep_pairs_together and not OPERATIONS[self.operation].commutes:
            commutative = ", ".join(name for name, known in OPERATIONS.items() if known.commutes)
            what = "does not commute, so (a, b) and (b, a) are different questions; it is for"
            raise InputError(f"keep_pairs_together: {self.operation} {what} {commutative}")

    @property
    def name(self) -> str:
        return f"{self.operation}_p{self.prime}"

    @property
    def vocabulary(self) -> Vocabulary:
        return modular_vocabulary(self.prime, [self.operation], self.op_token)

    @property
    def sequence_length(self) -> int:
        return 8

    @property
    def answer_positions(self) -> tuple[int, ...]:
        """Position 4, the equals sign, whose next token is c."""
        return (4,)

    @property
    def equation(self) -> EquationTokens:
        return EquationTokens(
            residues=self.prime,
            operation=operation_id(self.operation, self.prime, self.op_token),
            equals=self.vocabulary.eq,
            group=OPERATIONS[self.operation].group,
        )

    @property
    def chance(self) -> float:
        """One of p answers, all of which are as frequent but for zero in products."""
        return 1 / self.prime

    @property
    def corrupts_labels(self) -> bool:
        return self.corruption_rate > 0

    def texts(self) -> list[str]:
        """Every equation as people write it, in the order of `rows`.

        >>> ModularTask("sub", 29).texts()[3 * 29 + 5]
        '3 - 5 = 27 (mod 29)'
        """
        form = OPERATIONS[self.operation].text + " = {c} (mod {p})"
        a, b = (column.tolist() for column in self.operands().values())
        equations = zip(a, b, self.answers()[:, 0].tolist(), strict=True)
        return [form.format(a=x, b=y, c=c, p=self.prime) for x, y, c in equations]

    def words(self) -> dict[str, int]:
        """The residues, the operation's sign, `=`, and the special tokens.

        >>> list(ModularTask("sub", 3).words().items())
        [('0', 0), ('1', 1), ('2', 2), ('-', 7), ('=', 4), ('[BOS]', 5), ('[EOS]', 6)]
        """
        sign = OPERATIONS[self.operation].sign or self.operation
        special = self.vocabulary
        return {
            **{str(residue): residue for residue in range(self.prime)},
            sign: self.equation.operation,
            "=": special.eq,
            task.BOS_WORD: special.bos,
            task.EOS_WORD: special.eos,
        }

    def prompts(self) -> list[str]:
        """The left side of every equation as people write it, with `=`, in the order of `rows`.

        >>> ModularTask("sq_sum", 29).prompts()[3 * 29 + 5]
        '3^2 + 5^2 ='
        """
        return [text[: text.index("=") + 1] for text in self.texts()]

    def operands(self) -> dict[str, Ints]:
        """The columns `a` and `b`, a outer and b inner; a division leaves out b = 0."""
        a, b = (axis.ravel() for axis in np.indices((self.prime, self.prime), dtype=np.int64))
        if OPERATIONS[self.operation].divides:
            a, b = a[b != 0], b[b != 0]
        return {"a": a, "b": b}

    def rows(self) -> Ints:
        """`BOS a OP b EQ c EOS EOS` as int64 [p*p, 8]; for `div`, which has no b = 0, [p*(p-1), 8].

        c is the true answer; the two EOS end the row and pad it.
        """
        a, b = self.operands().values()
        words, operation = self.vocabulary, self.equation.operation
        c = OPERATIONS[self.operation].result(a, b, self.prime) % self.prime
        columns = (words.bos, a, operation, b, words.eq, c, words.eos, words.eos)
        return np.stack(np.broadcast_arrays(*columns), axis=1)

    def split(self, fraction: float = 0.5, data_seed: int = 42) -> tuple[Ints, Ints]:
        """Indices of the training rows and of the held-out rows; see `split_indices`."""
        if not self.keep_pairs_together:
            return super().split(fraction, data_seed)
        a, b = self.operands().values()
        return task.split_pairs(b * self.prime + a, fraction, data_seed)

    def _corrupted_answers(self, answers: Ints, train: Ints, data_seed: int) -> tuple[Ints, Flags]:
        rate = self.corruption_rate
        noisy, mask = task.corrupt(answers[:, 0], train, rate, self.prime, data_seed)
        return noisy[:, None], mask
