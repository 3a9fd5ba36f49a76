"""The tree of prefixes: hand-made cases, what is shared and left out, and bad input."""

import numpy as np
import pytest
import torch

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import loss_positions
from gmb_hf.training.rows import row_tree

# Of eight rows two begin 0 1, the others 0 2; every row ends differently.
ROWS = np.array([[0, 1 + (i > 1), 3, 4 + i, 5] for i in range(8)])


def test_equal_prefixes_are_one_node_and_the_last_tokens_are_left_out():
    tree = row_tree(ROWS, (3,), vocab_size=12)
    # 0, 01, 02, 013, 023 are shared; position 3 is each row's own, position 4 is not computed.
    assert (tree.shared, tree.rows, tree.own_columns, tree.path.shape[2]) == (5, 8, 1, 3)
    assert tree.pair.shape == (1, 5 + 8)
    assert tree.path[0].tolist() == [[0, 1, 3]] * 2 + [[0, 2, 4]] * 6
    see = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4]]
    assert [row.nonzero().flatten().tolist() for row in tree.visible[0]] == see
    assert not tree.asks_shared
    assert torch.equal(tree.targets[0], torch.eye(12)[[5] * 8] / 8)


def test_a_node_that_rows_share_has_the_targets_of_all_of_them():
    tree = row_tree(ROWS, (0, 1), vocab_size=12)
    # The first node is asked for 1 twice and for 2 six times, of sixteen tokens in all.
    assert tree.asks_shared
    assert tree.targets[0, 0].tolist() == [0, 2 / 16, 6 / 16, *[0] * 9]
    assert float(tree.targets.sum()) == 1


def test_nodes_hold_their_tokens_at_their_positions():
    tree = row_tree(ROWS, (3,), vocab_size=12)
    pair = tree.pair[0]
    assert tree.tokens[0, pair].tolist() == [0, 1, 2, 3, 3, *range(4, 12)]
    assert tree.positions[0, pair].tolist() == [0, 1, 1, 2, 2, *[3] * 8]


def test_equations_share_all_before_their_second_operand():
    data = get_task("add_p97").data()
    rows = data.input_ids[data.train_index]
    tree = row_tree(rows, data.answer_positions, vocab_size=104)
    assert tree.shared == 1 + 97 + 97
    assert tree.pair.shape[1] == tree.shared + 2 * len(rows)
    assert tree.targets.shape[1] == len(rows)


def test_bits_share_their_first_positions_and_no_state_follows_the_answer():
    data = get_task("parity_8").data()
    tree = row_tree(data.input_ids[data.train_index], (9,), vocab_size=101)
    assert tree.path.shape[2] + tree.own_columns == 10
    assert tree.pair.shape[1] < 5 * 128  # of 20 * 128 tokens


def test_models_with_fewer_prefixes_are_filled_up():
    other = np.tile(ROWS[0], (8, 1))
    tree = row_tree(np.stack([ROWS, other]), (3,), vocab_size=12)
    assert tree.pair.shape[0] == tree.targets.shape[0] == 2
    assert tree.visible.diagonal(dim1=1, dim2=2).all()
    assert torch.equal(tree.targets.sum((1, 2)), torch.ones(2))
    assert torch.equal(tree.of_model(1).targets, tree.targets[1:])


def test_loss_positions_are_the_tasks_own_or_all():
    data = get_task("copy_4").data()
    assert loss_positions("answer", data) == (5, 6, 7, 8)
    assert loss_positions("all", data) == tuple(range(19))
    with pytest.raises(InputError, match=r"loss_positions.*'answers'.*answer"):
        loss_positions("answers", data)


@pytest.mark.parametrize(
    ("rows", "positions", "message"),
    [
        (ROWS[:0], (3,), r"\[n, T\] or \[S, n, T\], got the shape \(0, 5\)"),
        (ROWS[0], (3,), r"got the shape \(5,\)"),
        (ROWS, (), "0 .. 3 in rows of 5 tokens; got none"),
        (ROWS, (4,), "0 .. 3 in rows of 5 tokens; got 4"),
        (ROWS + 1, (3,), r"tokens 1 .. 12, the model knows 0 .. 11; take a model of the task"),
        (-ROWS, (3,), r"tokens -11 .. 0, the model knows"),
    ],
)
def test_bad_rows_and_positions_are_refused(rows, positions, message):
    with pytest.raises(InputError, match=message):
        row_tree(rows, positions, vocab_size=12)
