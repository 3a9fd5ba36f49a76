"""Which tasks a suite has, in which order, and at which positions they are asked."""

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.sequential.config import SuiteSettings
from gmb_hf.protocol.sequential.train import task_rows
from gmb_hf.tasks.registry import get_task


def test_the_modular_suite_is_the_protocols():
    suite = SuiteSettings()
    assert suite.tasks == ("add", "sub", "mul", "sq_sum")
    assert (suite.prime, suite.op_token, suite.data_seed) == (97, "distinct", 42)
    assert suite.vocab_size == 104
    assert SuiteSettings(op_token="shared").vocab_size == 101
    for task in suite.tasks:
        assert suite.data(task).fingerprint() == get_task(f"{task}_p97").data(0.5, 42).fingerprint()


def test_the_formal_suite_is_the_protocols():
    suite = SuiteSettings(name="formal")
    assert suite.tasks == ("parity_8", "copy_8", "reverse_8", "majority_9")
    assert suite.vocab_size == 101
    assert suite.prime is None
    assert suite.op_token is None


@pytest.mark.parametrize(
    ("task", "positions"),
    [("add", (4,)), ("parity_8", (9,)), ("copy_8", tuple(range(9, 17))), ("majority_9", (10,))],
)
def test_answers_stand_where_the_protocol_says(task, positions):
    suite = SuiteSettings(name="modular" if task == "add" else "formal")
    rows = task_rows(suite, suite.data(task))
    assert rows.positions == positions
    assert rows.train.shape[1] == (8 if task == "add" else 20)


def test_all_positions_are_those_with_a_next_token_in_the_row():
    suite = SuiteSettings(prime=5, loss_positions="all")
    data = suite.data("add")
    rows = task_rows(suite, data)
    assert rows.positions == (0, 1, 2, 3, 4, 5, 6)
    np.testing.assert_array_equal(rows.train, data.input_ids[data.train_index])


def test_compat_batch_drops_the_last_training_row_alone():
    data = SuiteSettings().data("add")
    rows = task_rows(SuiteSettings(compat_batch=True), data)
    assert (len(rows.train), len(rows.test)) == (4703, 4705)
    np.testing.assert_array_equal(rows.train, data.input_ids[data.train_index][:-1])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "modula"}, "suite 'modula' is unknown.*Did you mean 'modular'"),
        ({"order": ("add", "sbu")}, "task 'sbu' is unknown.*Did you mean 'sub'"),
        ({"order": ("add", "add")}, "add is given twice; each task has one phase"),
        ({"order": ()}, "no task is named; known: add"),
        ({"op_token": "share"}, "op_token 'share' is unknown.*Did you mean 'shared'"),
        ({"loss_positions": "al"}, "loss_positions 'al' is unknown.*Did you mean 'all'"),
        ({"prime": 9}, "suite: prime must be a prime number, got 9"),
        ({"name": "formal", "prime": 97}, "suite: prime is for the suite modular"),
        ({"name": "formal", "op_token": "shared"}, "suite: op_token is for the suite modular"),
        ({"train_fraction": 1.0}, "suite: train_fraction must be less than 1, got 1.0"),
    ],
)
def test_a_suite_that_cannot_be_is_refused(fields, message):
    with pytest.raises(InputError, match=message):
        SuiteSettings.of(**fields)
