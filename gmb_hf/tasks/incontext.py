"""In-context tasks: `BOS x1 y1 x2 y2 ... x y`, y = f(x), with a function f of its own in every row.

What a model can know of f is in the examples before the question, none of it in its weights.

| rule           | f                                       | what examples tell                |
|----------------|-----------------------------------------|-----------------------------------|
| `linear`       | a x + b modulo a prime p, 0 <= a, b < p | f, once two different x were seen |
| `affine_table` | any map of p residues to p residues     | f(x) of those x that were seen    |
| `copy_rule`    | the same; a list of x that comes again  | from then on: copy what followed  |
| `linear_real`  | w x of real vectors, w and x normal     | a dimension of w each             |

With k examples a question is the (k + 1)-th x; each rule has the exact Bayes predictor of its
prior at every k. The prior is uniform over all functions: of `linear` over all p^2 of them, a = 0
included, also those that training leaves out (`bayes_over` has any other set). x are uniform and
may repeat, except in `copy_rule`; a repeated x is answered by every rule.

References: Garg et al. 2022, "What Can Transformers Learn In-Context?" (`linear_real`); Olsson et
al. 2022, "In-context Learning and Induction Heads" (`copy_rule`); He et al. 2024, "Learning to
grok" (linear functions modulo p, some held out).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, choose, not_negative, positive_int
from gmb_hf.tasks import task
from gmb_hf.tasks.modular import is_prime, nearest_prime
from gmb_hf.tasks.task import Flags, Ints, Task, Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]

EXAMPLES, PRIME, DIMENSION = 8, 11, 5
SEQUENCES_OF_A_FUNCTION, SEQUENCES = 16, 2048
LEAST_MAPS = 10**6
"""Fewer maps cannot be told from those that a training of usual length has seen."""
_MOST_EXAMPLES = 4096
_ROWS = tuple(b"icl")  # the stream of the rows that a dataset holds


def first_places(x: Ints) -> Ints:
    """Where the x of each question stood first in its row, its own place where it is new: [n, P].

    >>> first_places(np.array([[3, 5, 3, 5, 7]])).tolist()
    [[0, 1, 0, 1, 4]]
    """
    same = x[:, :, None] == x[:, None, :]  # [n, question, earlier]; the question's own is true
    return np.asarray(same.argmax(axis=2), dtype=np.int64)


def repeats(x: Ints) -> Flags:
    """Whether the x of each question stands among the examples before it, bool [n, P]."""
    return np.asarray(first_places(x) < np.arange(x.shape[1]))


def lookup(x: Ints, y: Ints, size: int) -> Floats:
    """The Bayes predictor of a uniform prior over all maps: f(x) where x was seen, else chance.

    Args:
        x, y: the pairs of each row, int64 [n, P]; those before a question are its examples.
        size: how many values y may have.

    Returns:
        The probability of every y, float64 [n, P, size].
    """
    chance = np.full((*x.shape, size), 1 / size)
    known = np.take_along_axis(y, first_places(x), axis=1)
    return _certain(chance, repeats(x), known)


def line(x: Ints, y: Ints, size: int) -> Floats:
    """The Bayes predictor of a uniform prior over all a x + b modulo the prime `size`.

    As `lookup` until two different x were seen: any value of a new x lies on exactly one line
    through the only known point. From then on the line is known.
    """
    places = np.arange(x.shape[1])
    # The first place at which x differs from the first x; two different ones are known after it.
    differs = x != x[:, :1]
    second = np.where(differs.any(axis=1), differs.argmax(axis=1), x.shape[1])
    rows, at = np.arange(len(x)), np.minimum(second, x.shape[1] - 1)
    inverse = np.array([0, *(pow(i, -1, size) for i in range(1, size))], dtype=np.int64)
    rise, run = (values[rows, at] - values[:, 0] for values in (y, x))
    slope = rise * inverse[run % size] % size
    known = (y[:, :1] + slope[:, None] * (x - x[:, :1])) % size
    return _certain(lookup(x, y, size), places > second[:, None], known)


def bayes_over(functions: Ints, x: Ints, y: Ints, size: int) -> Floats:
    """The Bayes predictor of a uniform prior over a finite set of functions, by enumeration.

    Args:
        functions: the values of each, int64 [F, size].
        x, y, size: as of `lookup`.

    Returns:
        As `lookup`; where the examples fit none of the functions, chance.
    """
    fits = functions.T[x] == y[:, :, None]  # [n, P, F]
    before = np.cumprod(np.insert(fits[:, :-1], 0, True, axis=1), axis=1).astype(np.float64)
    values = functions.T[x]
    found = np.stack([(before * (values == one)).sum(axis=2) for one in range(size)], axis=2)
    total = before.sum(axis=2, keepdims=True)
    return np.where(total > 0, found / np.maximum(total, 1), 1 / size)


def _certain(chance: Floats, where: Flags, answer: Ints) -> Floats:
    """The probabilities [n, P, size] with a certain answer [n, P] put where it is known."""
    sure = np.eye(chance.shape[2])[answer]
    return np.where(where[:, :, None], sure, chance)


@dataclass(frozen=True)
class Rule:
    """What the functions of a task are.

    `summary` says it in words, `predict` is the Bayes predictor as `lookup`; `lines` are the
    p^2 functions of which some are held out, else maps that never come twice; `in_order` is set
    where a list of x comes again and again.
    """

    summary: str
    predict: Callable[[Ints, Ints, int], Floats]
    lines: bool = False
    in_order: bool = False


RULES: dict[str, Rule] = {
    "linear": Rule("y = a x + b modulo p", line, lines=True),
    "affine_table": Rule("y by a random table", lookup),
    "copy_rule": Rule("a list of random pairs, over and over", lookup, in_order=True),
}
"""Every rule over residues by name."""

REAL = "linear_real"


@dataclass(frozen=True)
class InContextTask(Task):
    """Rows `BOS x1 y1 ... x y` of one rule, K examples and a question each.

    As a task of `gmb run` and as a dataset it is a fixed table: of `linear` 16 rows of each of the
    p^2 functions, which are on one side of a split together, so that the functions of the held-out
    rows were never trained on; of the others 2,048 rows, each with a map of its own. There the last
    question is one that the examples answer. `draw` gives rows without end.

    Attributes:
        rule: a name in `RULES`.
        prime: p; a prime for `linear`, any number for the others.
        examples: K, before the last question.
        sequences: rows of the table; None for the number above.

    Raises:
        InputError: an unknown rule, a p that is too small or not prime where it must be, more
            different x than there are, or sequences that are no multiple of the functions.
    """

    rule: str
    prime: int = PRIME
    examples: int = EXAMPLES
    sequences: int | None = None

    def __post_init__(self) -> None:
        if self.rule == REAL:
            raise InputError(
                f"task {REAL} has real vectors and no rows of tokens; train it with gmb icl run"
            )
        known = RULES[choose("rule", self.rule, (*RULES, REAL))]
        positive_int("prime", self.prime)
        positive_int("examples", self.examples, most=_MOST_EXAMPLES)
        task.check_row_count(f"{self.rule} modulo {self.prime}", self.prime**2)
        if known.lines and not is_prime(self.prime):
            guess = nearest_prime(self.prime)
            raise InputError(
                f"{self.rule}: prime must be a prime number, got {self.prime}; {guess} is one"
            )
        if not known.lines and self.prime ** min(self.prime, 99) < LEAST_MAPS:
            raise InputError(
                f"{self.rule}: only {self.prime**self.prime:,} maps of {self.prime} residues, too "
                f"few to hold any out; take prime={PRIME}"
            )
        if known.in_order and self.fresh > self.prime:
            raise InputError(
                f"{self.rule}: {self.examples} examples and a question need {self.fresh} different "
                f"x and there are {self.prime}; take at most {2 * self.prime - 1} examples"
            )
        if self.sequences is not None:
            positive_int("sequences", self.sequences)
            if known.lines and self.sequences % self.prime**2:
                enough = SEQUENCES_OF_A_FUNCTION * self.prime**2
                raise InputError(
                    f"{self.rule}: sequences={self.sequences} is no multiple of its "
                    f"{self.prime**2} functions; take e.g. {enough}"
                )
        task.check_row_count(self.name, self.count)

    @property
    def name(self) -> str:
        count = "" if self.sequences is None else f"_n{self.sequences}"
        return f"{self.rule}_p{self.prime}_k{self.examples}{count}"

    @property
    def vocabulary(self) -> Vocabulary:
        # There is no equals sign; what ends a generation is no part of the rows.
        return Vocabulary(self.prime + 2, bos=self.prime, eos=self.prime + 1, eq=self.prime + 1)

    @property
    def pairs(self) -> int:
        """P: the examples and the question."""
        return self.examples + 1

    @property
    def fresh(self) -> int:
        """How many pairs there are at most before the list comes again in `copy_rule`."""
        return -(-self.pairs // 2)

    @property
    def count(self) -> int:
        """How many rows the table has."""
        of_lines = SEQUENCES_OF_A_FUNCTION * self.prime**2
        usual = of_lines if RULES[self.rule].lines else SEQUENCES
        return usual if self.sequences is None else self.sequences

    @property
    def sequence_length(self) -> int:
        return 1 + 2 * self.pairs

    @property
    def answer_positions(self) -> tuple[int, ...]:
        """That of every x, whose next token is its y."""
        return tuple(range(1, 1 + 2 * self.pairs, 2))

    @property
    def scored_answers(self) -> tuple[int, ...]:
        """The few-shot answers: of `copy_rule` all in the second half, else the last one."""
        first = self.fresh if RULES[self.rule].in_order else self.examples
        return tuple(range(first, self.pairs))

    @property
    def question_length(self) -> int:
        """All but the last y: the examples are a part of the question."""
        return self.sequence_length - 1

    def pairs_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """x and y of rows, int64 [n, P] each."""
        return rows[:, 1::2], rows[:, 2::2]

    def lines(self) -> Ints:
        """The values of all p^2 functions of `linear`, int64 [p^2, p], a outer and b inner."""
        a, b = (axis.reshape(-1, 1) for axis in np.indices((self.prime, self.prime)))
        return np.asarray((a * np.arange(self.prime) + b) % self.prime, dtype=np.int64)

    def held_out(self, share: float, data_seed: int) -> tuple[Ints | None, Ints | None]:
        """The functions to train on and those held out, [F, p] each; None: any map.

        Of maps there are so many that one is not drawn twice; both sides then draw any.

        Raises:
            InputError: one side would be empty.
        """
        if not RULES[self.rule].lines:
            return None, None
        trained, held = task.split_indices(self.prime**2, 1 - share, data_seed)
        return self.lines()[trained], self.lines()[held]

    def draw(
        self,
        rng: np.random.Generator,
        count: int,
        functions: Ints | None = None,
        *,
        values: int | None = None,
        different: float = 0.0,
    ) -> Ints:
        """Rows of functions drawn anew, int64 [count, T].

        Args:
            rng: what is drawn from.
            count: how many rows.
            functions: the values of those to draw from, [F, p]; None for all of the rule.
            values: draw x below this number only.
            different: in this share of the rows x do not repeat until all values have come.
        """
        p = self.prime
        if functions is None and RULES[self.rule].lines:
            functions = self.lines()
        if functions is None:
            tables = rng.integers(p, size=(count, p))
        else:
            tables = functions[rng.integers(len(functions), size=count)]
        values = p if values is None else min(values, p)
        x = self._x(rng, count, values)
        if different and not RULES[self.rule].in_order:
            most = min(values, self.pairs)
            whole = np.tile(np.arange(values), (int(different * count), 1))
            x[: len(whole), :most] = rng.permuted(whole, axis=1)[:, :most]
        return self._rows(tables, x)

    def _x(self, rng: np.random.Generator, count: int, values: int) -> Ints:
        """The x of rows, int64 [count, P]; of `copy_rule` a list of different ones, over and over.

        The list is of 2 to `fresh` x, another number in every row: no fixed distance tells where
        the answer stands.
        """
        if not RULES[self.rule].in_order:
            return rng.integers(values, size=(count, self.pairs))
        fresh = rng.permuted(np.tile(np.arange(self.prime), (count, 1)), axis=1)
        length = rng.integers(2, max(self.fresh, 2) + 1, size=(count, 1))
        return np.take_along_axis(fresh, np.arange(self.pairs) % length, axis=1)

    def _rows(self, tables: Ints, x: Ints) -> Ints:
        """Rows [n, T] of functions given by their values [n, p], at x [n, P]."""
        rows = np.empty((len(x), self.sequence_length), dtype=np.int64)
        rows[:, 0] = self.vocabulary.bos
        rows[:, 1::2] = x
        rows[:, 2::2] = np.take_along_axis(tables, x, axis=1)
        return rows

    def bayes(self, rows: Ints, functions: Ints | None = None) -> Floats:
        """The exact Bayes predictor: the probability of every y at every k, float64 [n, P, p].

        The prior is uniform over all functions of the rule, or over `functions` [F, p].
        """
        x, y = self.pairs_of(rows)
        if functions is not None:
            return bayes_over(functions, x, y, self.prime)
        return RULES[self.rule].predict(x, y, self.prime)

    def _table(self) -> tuple[Ints, Ints]:
        """The functions [N, p] and the rows [N, T] of the fixed table."""
        rng = np.random.default_rng([*_ROWS, self.prime, self.examples, self.count])
        if RULES[self.rule].lines:
            values = self.lines().repeat(self.count // self.prime**2, axis=0)
        else:
            values = np.empty((0, self.prime), dtype=np.int64)
            while len(values) < self.count:  # no map twice: those held out were never trained on
                more = rng.integers(self.prime, size=(self.count, self.prime))
                every = np.concatenate([values, more])
                _, first = np.unique(every, axis=0, return_index=True)
                values = every[np.sort(first)][: self.count]
        x = self._x(rng, self.count, self.prime)
        # The last question is to be one that the examples answer.
        if RULES[self.rule].lines:
            alone = (x[:, :-1] == x[:, :1]).all(axis=1)
            x[alone, -1] = x[alone, 0]
        elif not RULES[self.rule].in_order:
            seen = rng.integers(self.examples, size=(self.count, 1))
            x[:, -1:] = np.take_along_axis(x, seen, axis=1)
        return values, self._rows(values, x)

    def rows(self) -> Ints:
        """The fixed table, int64 [N, T]; of `linear` function by function."""
        return self._table()[1]

    def operands(self) -> dict[str, Ints]:
        """`x` [N, P], and what f is: `a` and `b` of `linear`, else its values `f` [N, p]."""
        values, rows = self._table()
        x = self.pairs_of(rows)[0]
        if RULES[self.rule].lines:
            return {"x": x, "a": (values[:, 1] - values[:, 0]) % self.prime, "b": values[:, 0]}
        return {"x": x, "f": values}

    def split(self, fraction: float = 0.5, data_seed: int = 42) -> tuple[Ints, Ints]:
        """Indices of the training rows and of the held-out rows, all rows of a function together.

        Of `linear` the share is of functions, so that every seed has as many rows.
        """
        if not RULES[self.rule].lines:
            return super().split(fraction, data_seed)
        each, functions = self.count // self.prime**2, self.prime**2
        if isinstance(fraction, int) and not isinstance(fraction, bool):
            if fraction % each:
                raise InputError(
                    f"{self.name}: {fraction} rows to train on are no multiple of the {each} rows "
                    "of a function, which stay together"
                )
            fraction //= each
        sides = task.split_indices(functions, fraction, data_seed)
        train, test = ((side[:, None] * each + np.arange(each)).reshape(-1) for side in sides)
        return train, test


@dataclass(frozen=True)
class LinearReal:
    """`linear_real`: y = w x + noise of real vectors, w and x ~ N(0, I), as Garg et al. 2022.

    Attributes:
        dimension: d, of w and x.
        examples: K, before the last question.
        noise: standard deviation of what is added to y.

    Raises:
        InputError: a size that is no whole number of at least 1, or a negative noise.
    """

    dimension: int = DIMENSION
    examples: int = 2 * DIMENSION
    noise: float = 0.0

    def __post_init__(self) -> None:
        positive_int("dimension", self.dimension)
        positive_int("examples", self.examples, most=_MOST_EXAMPLES)
        not_negative("noise", self.noise)

    @property
    def name(self) -> str:
        """`linear_real_d5_k10`, with the noise where there is any."""
        noise = f"_s{self.noise:g}" if self.noise else ""
        return f"{REAL}_d{self.dimension}_k{self.examples}{noise}"

    @property
    def pairs(self) -> int:
        """P: the examples and the question."""
        return self.examples + 1

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
        """x [count, P, d] and y [count, P] of functions drawn anew."""
        w = rng.standard_normal((count, self.dimension))
        x = rng.standard_normal((count, self.pairs, self.dimension))
        noise = self.noise * rng.standard_normal((count, self.pairs))
        return x, np.einsum("npd,nd->np", x, w) + noise

    def bayes(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the exact Bayes predictor of y at every k, [n, P] each.

        The posterior of w stays normal: an example updates it as a Kalman filter does. Without
        noise the mean is that of least squares with the smallest norm.
        """
        count, pairs, d = x.shape
        mean, covariance = np.zeros((count, d)), np.tile(np.eye(d), (count, 1, 1))
        found, spread = np.empty((count, pairs)), np.empty((count, pairs))
        for k in range(pairs):
            of_w = np.einsum("nij,nj->ni", covariance, x[:, k])
            unknown = np.einsum("ni,ni->n", of_w, x[:, k]).clip(min=0)
            found[:, k] = np.einsum("nd,nd->n", mean, x[:, k])
            spread[:, k] = unknown + self.noise**2
            # Without noise, what is left of a direction that was seen is rounding.
            new = spread[:, k] > 1e-9 * np.einsum("nd,nd->n", x[:, k], x[:, k])
            gain = of_w / np.where(new, spread[:, k], np.inf)[:, None]
            mean += gain * (y[:, k] - found[:, k])[:, None]
            covariance -= gain[:, :, None] * of_w[:, None, :]
        return found, spread

    def table(self, seed: int, count: int) -> pa.Table:
        """Rows of a dataset: `x`, P vectors end to end, and the P numbers `y`."""
        rng = np.random.default_rng([*_ROWS, self.dimension, self.examples, seed])
        x, y = self.draw(rng, count)
        return task.column_table({"x": x.reshape(count, -1), "y": y})
