"""Formal languages over bits: parity, copy, reverse, majority (evaluation protocol, phase 2b).

| language | row                                     | answer tokens |
|----------|-----------------------------------------|---------------|
| parity   | `BOS b1..bn EQ (sum mod 2) EOS ...`     | 1             |
| majority | `BOS b1..bn EQ (more 1s than 0s) EOS ...` | 1           |
| copy     | `BOS b1..bn SEP b1..bn EOS ...`         | n             |
| reverse  | `BOS b1..bn SEP bn..b1 EOS ...`         | n             |

Rows are padded with EOS to 20 tokens, the protocol's length. A new language is one entry of
`LANGUAGES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gmb_hf.base.errors import InputError, choose, positive_int
from gmb_hf.tasks.task import BOS_WORD, EOS_WORD, Ints, Task, Vocabulary, check_row_count

FORMAL_SEP = 97
FORMAL_VOCABULARY = Vocabulary(size=101, bos=99, eos=100, eq=98)
BLOCK_SIZE = 24
"""Of the protocol's models; rows are shorter."""


@dataclass(frozen=True)
class Language:
    """A function of all inputs of a length: bits [N, n] -> answer tokens [N, A].

    A is n if `per_bit`, else 1; `protocol_length` is n in the evaluation protocol.
    """

    answer: Callable[[Ints], Ints]
    per_bit: bool = False
    protocol_length: int = 8


LANGUAGES: dict[str, Language] = {
    "parity": Language(lambda bits: bits.sum(axis=1, keepdims=True) % 2),
    "copy": Language(lambda bits: bits, per_bit=True),
    "reverse": Language(lambda bits: bits[:, ::-1], per_bit=True),
    "majority": Language(  # a tie is 0
        lambda bits: (2 * bits.sum(axis=1, keepdims=True) > bits.shape[1]).astype(np.int64),
        protocol_length=9,
    ),
}
"""Every language by name, in the protocol's training order."""


@dataclass(frozen=True)
class FormalTask(Task):
    """One language over all inputs of a length.

    Attributes:
        language: a name in `LANGUAGES`.
        input_length: the number n of bits.
        sequence_length: tokens in a row; a model needs at least this block size.

    Raises:
        InputError: an unknown language, or the row does not fit into `sequence_length`.
    """

    language: str
    input_length: int
    sequence_length: int = 20

    def __post_init__(self) -> None:
        choose("language", self.language, tuple(LANGUAGES))
        positive_int("input_length", self.input_length)
        positive_int("sequence_length", self.sequence_length)
        # BOS and the separator before the answer, at least one EOS after it.
        needed = self.input_length + self.n_answers + 3
        if needed > self.sequence_length:
            room = self.sequence_length - 3
            longest = room // 2 if self.n_answers > 1 else room - 1
            hint = f"an input_length of at most {longest}, or " if longest > 0 else ""
            what = f"{self.name} takes {needed} tokens a row and sequence_length is"
            hint = f"choose {hint}a sequence_length of at least {needed}"
            raise InputError(f"{what} {self.sequence_length}; {hint}")
        check_row_count(self.name, 2**self.input_length)

    @property
    def name(self) -> str:
        return f"{self.language}_{self.input_length}"

    @property
    def vocabulary(self) -> Vocabulary:
        return FORMAL_VOCABULARY

    @property
    def n_answers(self) -> int:
        """How many tokens the answer has."""
        return self.input_length if LANGUAGES[self.language].per_bit else 1

    @property
    def block_size(self) -> int:
        return max(BLOCK_SIZE, self.sequence_length)

    @property
    def answer_positions(self) -> tuple[int, ...]:
        """From the separator on, as many positions as the answer has tokens."""
        return tuple(range(self.input_length + 1, self.input_length + 1 + self.n_answers))

    def words(self) -> dict[str, int]:
        """The bits, the separator before the answer (`->`, or `=` of one bit), special tokens.

        >>> list(FormalTask("copy", 8).words().items())
        [('0', 0), ('1', 1), ('->', 97), ('[BOS]', 99), ('[EOS]', 100)]
        """
        per_bit, special = LANGUAGES[self.language].per_bit, self.vocabulary
        separator = {"->": FORMAL_SEP} if per_bit else {"=": special.eq}
        return {"0": 0, "1": 1, **separator, BOS_WORD: special.bos, EOS_WORD: special.eos}

    def operands(self) -> dict[str, Ints]:
        """The column `bits`, int64 [2^n, n]: all inputs, the last bit running fastest."""
        number = np.arange(2**self.input_length, dtype=np.int64)
        place = np.arange(self.input_length - 1, -1, -1, dtype=np.int64)
        bits: Ints = (number[:, None] >> place) & 1
        return {"bits": bits}

    def rows(self) -> Ints:
        """Every input with its answer, int64 [2^n, sequence_length]."""
        bits, words, n = self.operands()["bits"], self.vocabulary, self.input_length
        rows = np.full((len(bits), self.sequence_length), words.eos, dtype=np.int64)
        rows[:, 0] = words.bos
        rows[:, 1 : n + 1] = bits
        rows[:, n + 1] = FORMAL_SEP if LANGUAGES[self.language].per_bit else words.eq
        rows[:, n + 2 : n + 2 + self.n_answers] = LANGUAGES[self.language].answer(bits)
        return rows
