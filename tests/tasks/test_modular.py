"""Modular arithmetic: rows by hand, all answers by Python integers, splits, labels, datasets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.modular import OPERATIONS, ModularTask
from gmb_hf.tasks.task import split_indices

RULES = {
    "add": lambda a, b, p: (a + b) % p,
    "sub": lambda a, b, p: (a - b) % p,
    "mul": lambda a, b, p: (a * b) % p,
    "sq_sum": lambda a, b, p: (a * a + b * b) % p,
    "x2_xy_y2": lambda a, b, p: (a * a + a * b + b * b) % p,
}


def test_a_row_by_hand():
    rows = ModularTask("sub", 5).rows()
    # 1 - 3 = 3 modulo 5; BOS 7, sub 9, EQ 6, EOS 8.
    assert rows[1 * 5 + 3].tolist() == [7, 1, 9, 3, 6, 3, 8, 8]
    assert rows.shape == (25, ModularTask("sub", 5).sequence_length) == (25, 8)
    assert ModularTask("sub", 5).equation.operation == 9
    assert rows.dtype == np.int64


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("prime", [2, 3, 5, 13])
def test_every_answer(operation, prime):
    rows = ModularTask(operation, prime).rows()
    if operation == "div":
        assert len(rows) == prime * (prime - 1)
        assert (rows[:, 3] != 0).all()
        assert (rows[:, 5] * rows[:, 3] % prime == rows[:, 1]).all()
        return
    assert len(rows) == prime * prime
    expected = [RULES[operation](a, b, prime) for a in range(prime) for b in range(prime)]
    assert rows[:, 5].tolist() == expected


@pytest.mark.parametrize("operation", OPERATIONS)
def test_commutes_as_declared(operation):
    p = 7
    rows = ModularTask(operation, p).rows()
    table = {(a, b): c for a, b, c in rows[:, [1, 3, 5]]}
    swaps = all(table.get((b, a), c) == c for (a, b), c in table.items())
    assert swaps == (OPERATIONS[operation].commutes)


@given(st.sampled_from(list(OPERATIONS)), st.sampled_from(["distinct", "shared"]))
def test_every_id_is_in_the_vocabulary(operation, op_token):
    task = ModularTask(operation, 11, op_token=op_token)
    rows = task.rows()
    assert rows.min() >= 0
    assert rows.max() < task.vocab_size


def test_addition_is_the_same_with_either_token_rule():
    shared, distinct = (ModularTask("add", 11, op_token=rule) for rule in ("shared", "distinct"))
    assert np.array_equal(shared.rows(), distinct.rows())
    assert (shared.vocab_size, distinct.vocab_size) == (15, 18)
    assert shared.fingerprint() != distinct.fingerprint()


def test_data_without_corruption():
    task = ModularTask("mul", 7)
    data = task.data(fraction=0.6, data_seed=3)
    assert np.array_equal(data.input_ids, task.rows())
    assert not data.corrupted.any()
    assert np.array_equal(data.answers, data.true_answers)
    expected = np.full((49, 8), -100)
    expected[:, 5] = task.rows()[:, 5]
    assert np.array_equal(data.labels, expected)
    train, test = split_indices(49, 0.6, 3)
    assert np.array_equal(data.train_index, train)
    assert np.array_equal(data.test_index, test)


def test_data_with_corruption():
    task = ModularTask("mul", 13, corruption_rate=0.1)
    data = task.data(fraction=0.5, data_seed=3)
    assert data.corrupted.sum() == 8  # round(.1 x 84)
    assert not data.corrupted[data.test_index].any()
    assert np.array_equal((data.answers != data.true_answers)[:, 0], data.corrupted)
    assert np.array_equal(data.input_ids[:, 5], data.answers[:, 0])
    assert np.array_equal(data.labels[:, 5], data.answers[:, 0])
    assert np.array_equal(data.true_answers, task.answers())
    assert not np.array_equal(data.corrupted, task.data(0.5, data_seed=4).corrupted)
    # Corruption is drawn apart from the split: the same rows are trained on without it.
    assert np.array_equal(data.train_index, ModularTask("mul", 13).data(0.5, 3).train_index)


def test_pairs_kept_together():
    task = ModularTask("add", 13, keep_pairs_together=True)
    rows = task.rows()
    train, test = task.split(0.5, 9)
    assert len(train) == 84
    sides = [{(a, b) for a, b in rows[side][:, [1, 3]]} for side in (train, test)]
    assert all((b, a) in side for side in sides for a, b in side)
    plain = ModularTask("add", 13).split(0.5, 9)[0]
    assert len(plain) == len(train)


def test_fingerprints_follow_the_content():
    task = ModularTask("add", 7)
    assert task.fingerprint() == ModularTask("add", 7).fingerprint()
    assert task.fingerprint() != ModularTask("sub", 7).fingerprint()
    first = task.data(0.5, 1).fingerprint()
    assert first == task.data(0.5, 1).fingerprint()
    noisy = ModularTask("add", 7, corruption_rate=0.2)
    others = [task.data(0.5, 2), task.data(0.4, 1), noisy.data(0.5, 1)]
    assert len({first, *(other.fingerprint() for other in others)}) == 4
    assert len(first) == 64


def test_dataset_dict():
    task = ModularTask("sub", 11, corruption_rate=0.1)
    splits = task.to_dataset_dict(fraction=0.6, data_seed=5)
    data = task.data(fraction=0.6, data_seed=5)
    assert set(splits) == {"train", "test"}
    assert splits["train"].column_names == [
        *("input_ids", "labels", "a", "b", "answer", "true_answer", "corrupted")
    ]
    train = splits["train"].with_format("numpy")
    assert np.array_equal(train["input_ids"][:], data.input_ids[data.train_index])
    assert np.array_equal(train["labels"][:], data.labels[data.train_index])
    assert np.array_equal(train["corrupted"][:], data.corrupted[data.train_index])
    for row in splits["test"]:
        assert row["answer"] == row["true_answer"] == (row["a"] - row["b"]) % 11
    assert splits["test"].num_rows == len(data.test_index)


def test_dataset_dict_is_the_same_each_time_and_touches_no_cache():
    first, second = (ModularTask("add", 7).to_dataset_dict(data_seed=1) for _ in range(2))
    for split in ("train", "test"):
        assert first[split]._fingerprint == second[split]._fingerprint
        assert first[split].cache_files == []
    other = ModularTask("add", 7).to_dataset_dict(data_seed=2)
    assert first["train"]._fingerprint != other["train"]._fingerprint
    assert "corrupted" not in first["train"].column_names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"operation": "ad"}, "operation 'ad' is unknown.*Did you mean 'add'"),
        ({"operation": "add", "prime": 96}, "must be a prime number, got 96; 97 is one"),
        ({"operation": "add", "prime": 1}, "must be a prime number, got 1; 2 is one"),
        ({"operation": "add", "prime": 0}, "prime must be a whole number of at least 1"),
        ({"operation": "add", "prime": 97.0}, "prime must be a whole number"),
        ({"operation": "add", "prime": 999999999999999989}, "rows, at most 16777216"),
        ({"operation": "add", "prime": 10007}, "has 100140049 rows, at most 16777216"),
        ({"operation": "add", "op_token": "own"}, "op_token 'own' is unknown"),
        ({"operation": "add", "corruption_rate": 2}, r"corruption_rate must be .* \[0, 1\]"),
        ({"operation": "sub", "keep_pairs_together": True}, "sub does not commute"),
        ({"operation": "div", "keep_pairs_together": True}, "div does not commute"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        ModularTask(**arguments)
