"""What every task is: all its inputs once, in a fixed order, with the positions of the answer."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, choose
from gmb_hf.base.errors import fraction as checked_fraction

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import DatasetDict

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Vocabulary:
    """The size of a vocabulary and the ids that a model or a generation loop must know."""

    size: int
    bos: int
    eos: int
    eq: int


@dataclass(frozen=True)
class EquationTokens:
    """What a forward may know of a task whose rows are all `BOS a OP b EQ c ...` over residues.

    There are p residues with the ids 0 .. p - 1; `operation` and `equals` are the ids of OP and EQ,
    that of BOS is the vocabulary's. `group` is the cyclic group in which the operation adds its
    operands, if any: "additive" (all residues) or "multiplicative" (those without 0).
    """

    residues: int
    operation: int
    equals: int
    group: str | None = None


BOS_WORD, EOS_WORD = "[BOS]", "[EOS]"
"""The words of the special tokens."""

_CORRUPTION_STREAM = 1


def random_stream(data_seed: int, *stream: int) -> np.random.RandomState:
    """The random stream of `data_seed`; further numbers name streams independent of it.

    Raises:
        InputError: the seed is not a whole number in [0, 2**32).
    """
    whole = isinstance(data_seed, (int, np.integer)) and not isinstance(data_seed, bool)
    if not whole or not 0 <= data_seed < 2**32:
        raise InputError(f"data_seed must be a whole number in [0, 2**32), got {data_seed!r}")
    return np.random.RandomState([int(data_seed), *stream] if stream else int(data_seed))


def train_rows(n_rows: int, fraction: float) -> int:
    """How many of `n_rows` rows are trained on.

    `fraction` is the share to train on, in (0, 1), rounded down; or, as an int, their number.

    Raises:
        InputError: either side of the split would be empty.
    """
    if isinstance(fraction, (int, np.integer)) and not isinstance(fraction, bool):
        count = int(fraction)
    else:
        # The slack gives 4000 of 9409 rows for the fraction 4000/9409, not 3999.
        count = int(n_rows * checked_fraction("fraction", fraction) + 1e-9)
    if not 0 < count < n_rows:
        left = f"{count} to train on and {n_rows - count} held out; both sides need at least one"
        raise InputError(f"fraction {fraction!r} of {n_rows} rows leaves {left}")
    return count


def split_indices(n_rows: int, fraction: float, data_seed: int) -> tuple[Ints, Ints]:
    """Indices of the training rows and of the held-out rows.

    The rows are permuted by `RandomState(data_seed)`, with a seed in [0, 2**32), and cut (see
    `train_rows`) as in the evaluation protocol's generators, so a seed gives the same rows here
    and in the binary shards.

    Raises:
        InputError: a bad seed, or a side of the split would be empty.
    """
    count = train_rows(n_rows, fraction)
    order = random_stream(data_seed).permutation(n_rows).astype(np.int64)
    return order[:count], order[count:]


def split_pairs(partner: Ints, fraction: float, data_seed: int) -> tuple[Ints, Ints]:
    """Like `split_indices`, with every row and its partner on the same side.

    There are as many training rows as without pairing, for every seed, so that runs can be stacked;
    where a pair would straddle the cut, a row that is its own partner makes up the difference.

    `partner` holds the index of each row's partner, int64 [N]; a row may be its own.

    Raises:
        InputError: as `split_indices`, or no such split exists.
    """
    count = train_rows(len(partner), fraction)
    first = np.flatnonzero(partner >= np.arange(len(partner)))
    first = first[random_stream(data_seed).permutation(len(first))]
    single = partner[first] == first
    sizes = np.where(single, 1, 2)
    chosen = np.cumsum(sizes) <= count
    if sizes[chosen].sum() < count:
        # One row short: the next row is the first half of a pair.
        spare, taken = np.flatnonzero(single & ~chosen), np.flatnonzero(single & chosen)
        if spare.size:
            chosen[spare[0]] = True
        elif taken.size:
            chosen[taken[-1]] = False
            chosen[np.flatnonzero(~single & ~chosen)[0]] = True
        else:
            raise InputError(f"{count} rows cannot be made of whole pairs; take one more")
    return _with_partners(first[chosen], partner), _with_partners(first[~chosen], partner)


def corrupt(
    answers: Ints, train_index: Ints, rate: float, n_answers: int, data_seed: int
) -> tuple[Ints, Flags]:
    """Answers with a share of the training rows' made wrong, and which rows those are.

    A corrupted answer is drawn uniformly from the wrong ones, so it is wrong for certain and in
    range. Held-out rows are never touched.

    Args:
        answers: int64 [N], the true answers, each in [0, n_answers).
        train_index: int64 [n], the training rows.
        rate: share of the training rows to corrupt, in [0, 1]; rounded to whole rows.
        n_answers: how many answers there are, at least 2.
        data_seed: a whole number in [0, 2**32); the draw is independent of the split's.

    Returns:
        The new answers int64 [N], and the mask bool [N] of the corrupted rows.
    """
    rate = checked_fraction("corruption_rate", rate, closed=True)
    stream = random_stream(data_seed, _CORRUPTION_STREAM)
    chosen = stream.permutation(train_index)[: round(rate * len(train_index))]
    shift = stream.randint(1, n_answers, size=len(chosen))
    corrupted = np.zeros(len(answers), dtype=np.bool_)
    corrupted[chosen] = True
    noisy = answers.copy()
    noisy[chosen] = (answers[chosen] + shift) % n_answers
    return noisy, corrupted


def _with_partners(first: Ints, partner: Ints) -> Ints:
    both = np.stack([first, partner[first]], axis=1).astype(np.int64)  # [pairs, 2]
    once = np.stack([np.ones(len(first), dtype=bool), both[:, 1] != both[:, 0]], axis=1)
    return np.asarray(both[once])


IGNORED = -100
"""The label of a token that is not part of the answer, as in transformers."""

MAX_ROWS = 2**24
"""The most rows that a task may have; more would not fit into a usual memory."""


@dataclass(frozen=True)
class TaskData:
    """The rows of a task as one data seed sees them: split, and with labels corrupted if asked.

    Attributes:
        input_ids: int64 [N, T], every row of the task in its fixed order; the training rows that
            are corrupted hold the wrong answer.
        labels: int64 [N, T], `input_ids` at the answer tokens and -100 elsewhere. Labels are
            aligned with the tokens, as transformers expects: the model shifts them.
        answers: int64 [N, A], the A answer tokens of each row, corrupted where they are.
        true_answers: int64 [N, A], the answer tokens without corruption.
        corrupted: bool [N], the rows whose answer is wrong.
        train_index: int64 [n], the training rows in the order of the split.
        test_index: int64 [N - n], the held-out rows.
        vocab_size: the ids that the rows may hold are 0 .. vocab_size - 1.
        answer_positions: the positions, from 0, whose next token is an answer.
    """

    input_ids: Ints
    labels: Ints
    answers: Ints
    true_answers: Ints
    corrupted: Flags
    train_index: Ints
    test_index: Ints
    vocab_size: int
    answer_positions: tuple[int, ...]

    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) of the training and held-out rows with their true answers."""
        sides, kinds = (self.train_index, self.test_index), (self.input_ids, self.true_answers)
        parts = [rows[index] for index in sides for rows in kinds]
        return _content_hash("gmb-task-data-1", self.vocab_size, self.answer_positions, *parts)


class Task(ABC):
    """A task that a small decoder can learn; subclasses say what the rows are.

    Every forward reads it: the model's own takes `rows` and `answer_positions`, the stacked one
    shares the prefixes that rows have in common and, where there is an `equation`, more than that.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which `get_task` finds it, e.g. `add_p97` or `parity_8`."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """The size of the vocabulary and its special tokens."""

    @property
    @abstractmethod
    def sequence_length(self) -> int:
        """How many tokens a row has; the block size that a model needs at least."""

    @property
    @abstractmethod
    def answer_positions(self) -> tuple[int, ...]:
        """The positions, from 0, whose next token is an answer."""

    @abstractmethod
    def rows(self) -> Ints:
        """Every row with its true answer, int64 [N, T]."""

    @abstractmethod
    def operands(self) -> dict[str, Ints]:
        """What each row is asked: columns of int64 [N] or [N, length], in the order of `rows`."""

    @property
    def vocab_size(self) -> int:
        """How many token ids a model of this task needs."""
        return self.vocabulary.size

    @property
    def block_size(self) -> int:
        """How many positions a new model of this task has."""
        return self.sequence_length

    @property
    def equation(self) -> EquationTokens | None:
        """The tokens of a task of equations over residues; None of any other task."""
        return None

    @property
    def scored_answers(self) -> tuple[int, ...]:
        """Which answers of a row, by their place, its accuracy is about; here all of them.

        A row counts as right where all of these are; the loss is about every answer.
        """
        return tuple(range(len(self.answer_positions)))

    @property
    def question_length(self) -> int:
        """How many tokens of a row are asked in `prompts`: here all before the first answer."""
        return self.answer_positions[0] + 1

    @property
    def answer_length(self) -> int:
        """How many tokens answer a question of `prompts`."""
        return sum(position + 1 >= self.question_length for position in self.answer_positions)

    @property
    def chance(self) -> float | None:
        """The accuracy of a guess among all answers; None where nobody can say it."""
        return None

    @property
    def corrupts_labels(self) -> bool:
        """Whether some training rows carry a wrong answer."""
        return False

    def texts(self) -> list[str]:
        """Every row as people write it, in the order of `rows`; here its tokens."""
        return [" ".join(map(str, row)) for row in self.rows().tolist()]

    @property
    def begins_with_bos(self) -> bool:
        """Whether BOS is the first token of the rows, which a tokenizer then puts there."""
        return bool(self.rows()[0, 0] == self.vocabulary.bos)

    def words(self) -> dict[str, int]:
        """Word -> token id, of every token that a row may hold; here numbers for all but a few."""
        special = self.vocabulary
        named = {special.eq: "=", special.bos: BOS_WORD, special.eos: EOS_WORD}
        return {named.get(number, str(number)): number for number in range(self.vocab_size)}

    def prompts(self) -> list[str]:
        """What is asked in every row, in its words and the order of `rows`: its first tokens.

        BOS at the beginning is left out.
        """
        word_of = {number: word for word, number in self.words().items()}
        asked = self.rows()[:, int(self.begins_with_bos) : self.question_length]
        return [" ".join(word_of[number] for number in row) for row in asked.tolist()]

    def answers(self) -> Ints:
        """The true answer tokens of every row, int64 [N, A]."""
        return self.rows()[:, self._answer_columns]

    def split(self, fraction: float = 0.5, data_seed: int = 42) -> tuple[Ints, Ints]:
        """Indices of the training rows and of the held-out rows; see `split_indices`."""
        return split_indices(len(self.rows()), fraction, data_seed)

    def data(self, fraction: float = 0.5, data_seed: int = 42) -> TaskData:
        """The rows as `data_seed`, which is apart from any seed of a model, sees them.

        Raises:
            InputError: as `split_indices`.
        """
        rows = self.rows()
        train, test = self.split(fraction, data_seed)
        true_answers = rows[:, self._answer_columns]
        answers, corrupted = self._corrupted_answers(true_answers, train, data_seed)
        rows[:, self._answer_columns] = answers
        made = (rows, self._labels(rows), answers, true_answers, corrupted, train, test)
        return TaskData(*made, self.vocab_size, self.answer_positions)

    def fingerprint(self) -> str:
        """SHA-256 (64 hex digits) of the rows' content, independent of any split."""
        return self.fingerprint_of(self.rows())

    def fingerprint_of(self, rows: Ints) -> str:
        """What `fingerprint` would be if the task had these rows [N, T], in this order."""
        return _content_hash("gmb-task-1", self.vocab_size, self.answer_positions, rows)

    def to_dataset_dict(self, fraction: float = 0.5, data_seed: int = 42) -> DatasetDict:
        """The task as a `datasets.DatasetDict` with the splits `train` and `test`.

        Columns: `input_ids` and `labels` (-100 off the answer), the operands, `answer` (a number
        where the answer is one token, else a list); where labels are corrupted also
        `true_answer` and `corrupted`. The tables live in memory, and the same arguments give the
        same content and the same fingerprint, so no cache can serve anything stale.
        """
        from datasets import Dataset, DatasetDict, NamedSplit

        fingerprint = self.data(fraction, data_seed).fingerprint()
        splits = {}
        for split, table in self.split_tables(fraction, data_seed).items():
            content = hashlib.sha256(f"{fingerprint} {self.name} {split}".encode()).hexdigest()
            splits[split] = Dataset(table, split=NamedSplit(split), fingerprint=content[:16])
        return DatasetDict(splits)

    def split_tables(self, fraction: float = 0.5, data_seed: int = 42) -> dict[str, pa.Table]:
        """The splits `train` and `test` as tables, with the columns of `to_dataset_dict`."""
        data = self.data(fraction, data_seed)
        columns = self._columns(data.input_ids)
        if self.corrupts_labels:
            columns["true_answer"] = _scalar(data.true_answers)
            columns["corrupted"] = data.corrupted
        return {
            split: column_table({name: values[index] for name, values in columns.items()})
            for split, index in (("train", data.train_index), ("test", data.test_index))
        }

    def full_table(self) -> pa.Table:
        """Every row with its true answer, unsplit: `input_ids`, `labels`, operands, `answer`."""
        return column_table(self._columns(self.rows()))

    @property
    def _answer_columns(self) -> list[int]:
        return [position + 1 for position in self.answer_positions]

    def _labels(self, rows: Ints) -> Ints:
        """The rows with -100 everywhere but at the answer tokens [N, T]."""
        labels = np.full_like(rows, IGNORED)
        labels[:, self._answer_columns] = rows[:, self._answer_columns]
        return labels

    def _columns(self, rows: Ints) -> dict[str, NDArray[Any]]:
        first = {"input_ids": rows, "labels": self._labels(rows)}
        return {**first, **self.operands(), "answer": _scalar(rows[:, self._answer_columns])}

    def _corrupted_answers(self, answers: Ints, train: Ints, data_seed: int) -> tuple[Ints, Flags]:
        """The answers trained on [N, A] and the mask of wrong ones [N]; here: all are true."""
        return answers.copy(), np.zeros(len(answers), dtype=np.bool_)


def check_row_count(task: str, n_rows: int) -> None:
    """Raise `InputError` when a task would have more rows than fit into memory."""
    if n_rows > MAX_ROWS:
        raise InputError(f"{task} has {n_rows} rows, at most {MAX_ROWS} are possible; choose less")


def _scalar(answers: Ints) -> Ints:
    return answers[:, 0] if answers.shape[1] == 1 else answers


def column_table(columns: Mapping[str, NDArray[Any]]) -> pa.Table:
    """Columns of numbers [N], or of lists of equal length [N, length], as a table."""
    import pyarrow as pa

    def arrow(values: NDArray[Any]) -> pa.Array:
        flat = pa.array(np.ascontiguousarray(values).reshape(-1))
        wide = values.ndim > 1
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if wide else flat

    return pa.table({name: arrow(values) for name, values in columns.items()})


def _content_hash(
    kind: str, vocab_size: int, answer_positions: tuple[int, ...], *arrays: Ints
) -> str:
    about = {"format": kind, "vocab_size": vocab_size, "answer_positions": answer_positions}
    header = {**about, "shapes": [array.shape for array in arrays]}  # lists in JSON, as tuples are
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode() + b"\n")
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()


LOSS_POSITIONS = ("answer", "all")


def loss_positions(mode: str, data: TaskData) -> tuple[int, ...]:
    """The positions, from 0, whose next token counts: the "answer"'s, or "all" that have one."""
    choose("loss_positions", mode, LOSS_POSITIONS)
    return data.answer_positions if mode == "answer" else tuple(range(data.input_ids.shape[1] - 1))
