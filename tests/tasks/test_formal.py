"""Formal languages: rows by hand, every answer, and the lengths that fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.formal import FormalTask

B, E, Q, S = 99, 100, 98, 97  # BOS EOS EQ SEP


@pytest.mark.parametrize(
    ("language", "row"),
    [
        ("parity", [B, 1, 1, 0, Q, 0, E, E, E, E]),
        ("copy", [B, 1, 1, 0, S, 1, 1, 0, E, E]),
        ("reverse", [B, 1, 1, 0, S, 0, 1, 1, E, E]),
        ("majority", [B, 1, 1, 0, Q, 1, E, E, E, E]),
    ],
)
def test_a_row_by_hand(language, row):
    rows = FormalTask(language, 3, sequence_length=10).rows()
    assert rows.shape == (8, 10)
    assert rows[0b110].tolist() == row


def test_answer_positions_of_the_protocol():
    assert FormalTask("parity", 8).answer_positions == (9,)
    assert FormalTask("copy", 8).answer_positions == tuple(range(9, 17))
    assert FormalTask("reverse", 8).answer_positions == tuple(range(9, 17))
    assert FormalTask("majority", 9).answer_positions == (10,)


LANGUAGE = st.sampled_from(["parity", "copy", "reverse", "majority"])


@given(LANGUAGE, st.integers(1, 8))
def test_every_answer(language, n):
    task = FormalTask(language, n)
    bits = task.operands()["bits"]
    assert len({tuple(row) for row in bits}) == 2**n
    rows = task.rows()
    assert rows.shape == (2**n, 20)
    for row, answer, asked in zip(rows, task.answers(), bits, strict=True):
        expected = {
            "parity": [int(asked.sum()) % 2],
            "copy": asked.tolist(),
            "reverse": asked.tolist()[::-1],
            "majority": [int(asked.mean() > 0.5)],
        }[language]
        assert answer.tolist() == expected
        end = n + 2 + len(expected)
        assert row[0] == B
        assert row[1 : n + 1].tolist() == asked.tolist()
        assert row[n + 1] in (Q, S)
        assert (row[end:] == E).all()
        assert len(row[end:]) >= 1


@given(LANGUAGE, st.integers(1, 6))
def test_labels_are_the_answer_tokens_alone(language, n):
    task = FormalTask(language, n)
    data = task.data(0.5, 0)
    places = [position + 1 for position in task.answer_positions]
    assert np.array_equal(data.labels[:, places], task.answers())
    elsewhere = np.delete(data.labels, places, axis=1)
    assert (elsewhere == -100).all()
    assert data.vocab_size == 101


def test_dataset_dict():
    splits = FormalTask("reverse", 4).to_dataset_dict(data_seed=3)
    assert splits["train"].column_names == ["input_ids", "labels", "bits", "answer"]
    assert splits["train"].num_rows == splits["test"].num_rows == 8
    for row in splits["train"]:
        assert row["answer"] == row["bits"][::-1]
    parity = FormalTask("parity", 4).to_dataset_dict(data_seed=3)["train"]
    assert all(row["answer"] == sum(row["bits"]) % 2 for row in parity)


def test_longest_that_fits():
    assert FormalTask("parity", 16).rows().shape == (65536, 20)
    assert FormalTask("copy", 8).rows()[0, -1] == E
    assert FormalTask("copy", 10, sequence_length=24).rows().shape == (1024, 24)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("parity", 17), "parity_17 takes 21 tokens.*is 20.*at most 16, or .* at least 21"),
        (("copy", 9), "copy_9 takes 21 tokens.*at most 8, or .* at least 21"),
        (("copy", 2, 4), "copy_2 takes 7 tokens.*is 4; choose a sequence_length of at least 7"),
        (("parity", 25, 40), "parity_25 has 33554432 rows"),
        (("majorty", 9), "language 'majorty' is unknown.*Did you mean 'majority'"),
        (("parity", 0), "input_length must be a whole number of at least 1"),
        (("parity", 8, 0), "sequence_length must be a whole number of at least 1"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        FormalTask(*arguments)


def test_the_longest_length_that_is_named_does_fit():
    for language in ("parity", "copy"):
        with pytest.raises(InputError) as caught:
            FormalTask(language, 30)
        longest = int(str(caught.value).split("input_length of at most ")[1].split(",")[0])
        assert FormalTask(language, longest).input_length == longest
