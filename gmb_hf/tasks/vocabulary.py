"""The token ids of the tasks.

Modular arithmetic over the residues 0..p-1 (evaluation protocol, phase 2a):

| id        | token                                                               |
|-----------|---------------------------------------------------------------------|
| 0 .. p-1  | the residues                                                        |
| p         | the operation: `add`, or every operation with `op_token="shared"`   |
| p+1       | EQ, the equals sign                                                 |
| p+2       | BOS                                                                 |
| p+3       | EOS, also the padding                                               |
| p+4 .. p+6| `sub`, `mul`, `sq_sum` with `op_token="distinct"`                   |
| p+7, p+8  | `div`, `x2_xy_y2` with `op_token="distinct"`                        |

With distinct tokens the four operations of the protocol share one vocabulary of p+7 ids. An id
never changes its meaning, so `add` has the same rows in every vocabulary; `div` and `x2_xy_y2`
only lengthen the vocabulary by as much as their own id needs.

Formal languages (phase 2b) live in one vocabulary of 101 ids, the same size as the shared
modular one at p = 97: the bits are 0 and 1, SEP is 97, EQ 98, BOS 99 and EOS 100.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from gmb_hf.validation import InputError, choose

OPERATIONS = ("add", "sub", "mul", "sq_sum", "div", "x2_xy_y2")
"""Every operation; the first four are the protocol's, in its training order."""

OP_TOKENS = ("distinct", "shared")


@dataclass(frozen=True)
class Vocabulary:
    """The size of a vocabulary and the ids that a model or a generation loop must know."""

    size: int
    bos: int
    eos: int
    eq: int


FORMAL_SEP = 97
FORMAL_VOCABULARY = Vocabulary(size=101, bos=99, eos=100, eq=98)


def operation_id(operation: str, prime: int, op_token: str = "distinct") -> int:
    """The id of the operation's token.

    Raises:
        InputError: the operation or `op_token` is unknown.
    """
    choose("operation", operation, OPERATIONS)
    choose("op_token", op_token, OP_TOKENS)
    if op_token == "shared" or operation == "add":
        return prime
    return prime + 3 + OPERATIONS.index(operation)


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
    if number < 2:
        return False
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            return False
        divisor += 1
    return True
