"""Which rows a run trains on, and which of their labels are made wrong.

Everything here is a pure function of its arguments. The random streams are numpy's legacy
`RandomState`, whose output numpy has frozen: the published shards were drawn from it, and a split
drawn today is the split that any later version draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gmb_hf.validation import InputError
from gmb_hf.validation import fraction as checked_fraction

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

    Args:
        n_rows: all rows of the task.
        fraction: the share to train on, in (0, 1), rounded down; or, as an int, their number.

    Raises:
        InputError: either side of the split would be empty.
    """
    if isinstance(fraction, (int, np.integer)) and not isinstance(fraction, bool):
        count = int(fraction)
    else:
        # The slack gives 4000 of 9409 rows for the fraction 4000/9409, not 3999.
        count = int(n_rows * checked_fraction("fraction", fraction) + 1e-9)
    if not 0 < count < n_rows:
        raise InputError(
            f"fraction {fraction!r} of {n_rows} rows leaves {count} to train on and "
            f"{n_rows - count} held out; both sides need at least one"
        )
    return count


def split_indices(
    n_rows: int, fraction: float, data_seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of the training rows and of the held-out rows.

    The rows are permuted by `RandomState(data_seed)` and cut, as in the evaluation protocol's
    generators, so a seed gives the same rows here and in the binary shards.

    Args:
        n_rows: all rows of the task.
        fraction: the share to train on, or as an int the number of rows; see `train_rows`.
        data_seed: a whole number in [0, 2**32).

    Raises:
        InputError: a bad seed, or a side of the split would be empty.
    """
    count = train_rows(n_rows, fraction)
    order = random_stream(data_seed).permutation(n_rows).astype(np.int64)
    return order[:count], order[count:]


def split_pairs(
    partner: NDArray[np.int64], fraction: float, data_seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Like `split_indices`, with every row and its partner on the same side.

    The number of training rows is the same as without pairing, for every seed, so that runs of
    many seeds can be stacked; where a pair would straddle the cut, a row that is its own partner
    makes up the difference.

    Args:
        partner: int64 [N], the index of each row's partner; a row may be its own.
        fraction: as in `split_indices`.
        data_seed: as in `split_indices`.

    Raises:
        InputError: as `split_indices`, or no such split exists.
    """
    count = train_rows(len(partner), fraction)
    first = np.flatnonzero(partner >= np.arange(len(partner)))
    first = first[random_stream(data_seed).permutation(len(first))]
    single = partner[first] == first
    chosen = np.cumsum(np.where(single, 1, 2)) <= count
    if np.where(single, 1, 2)[chosen].sum() < count:
        # One row short: the next row is the first half of a pair.
        spare = np.flatnonzero(single & ~chosen)
        if spare.size:
            chosen[spare[0]] = True
        else:
            given_back = np.flatnonzero(single & chosen)
            if not given_back.size:
                raise InputError(f"{count} rows cannot be made of whole pairs; take one more")
            chosen[given_back[-1]] = False
            chosen[np.flatnonzero(~single & ~chosen)[0]] = True
    return _with_partners(first[chosen], partner), _with_partners(first[~chosen], partner)


def corrupt(
    answers: NDArray[np.int64],
    train_index: NDArray[np.int64],
    rate: float,
    n_answers: int,
    data_seed: int,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
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


def _with_partners(first: NDArray[np.int64], partner: NDArray[np.int64]) -> NDArray[np.int64]:
    both = np.stack([first, partner[first]], axis=1)  # [pairs, 2]
    keep = np.ones(both.shape, dtype=np.bool_)
    keep[:, 1] = both[:, 1] != both[:, 0]
    kept: NDArray[np.int64] = both[keep].astype(np.int64)
    return kept
