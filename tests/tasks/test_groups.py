"""Groups that do not commute: products by hand, the axioms, and the split of commuting pairs."""

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTokenizer
from gmb_hf.tasks.groups import GROUPS, GroupTask


def table(task: GroupTask) -> np.ndarray:
    """The products of all pairs, [order, order]."""
    return task.answers()[:, 0].reshape(task.order, task.order)


@pytest.mark.parametrize(
    ("left", "right", "product"),
    [
        ("r1", "r2", "r0"),  # a third of a turn, and two
        ("r1", "s0", "s1"),
        ("s0", "r1", "s2"),  # a mirror image turns the other way
        ("s2", "s1", "r1"),
        ("s1", "s2", "r2"),
        ("s1", "s1", "r0"),
        ("r0", "s2", "s2"),
    ],
)
def test_products_in_the_triangle_by_hand(left: str, right: str, product: str):
    task = GroupTask("dihedral", 3)
    names = task.elements()
    found = table(task)[names.index(left), names.index(right)]
    assert names[found] == product


def test_products_are_those_of_matrices():
    """Rotations and reflections of the plane, of a polygon with seven corners."""
    task = GroupTask("dihedral", 7)
    angles = 2 * np.pi * np.arange(7) / 7
    cos, sin = np.cos(angles), np.sin(angles)
    turns = np.stack([np.stack([cos, -sin], -1), np.stack([sin, cos], -1)], axis=1)
    elements = np.concatenate([turns, turns @ np.diag([1.0, -1.0])])  # [14, 2, 2]
    products = elements[:, None] @ elements[None]
    np.testing.assert_allclose(elements[table(task)], products, atol=1e-12)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("degree", [3, 4, 15])
def test_it_is_a_group_that_does_not_commute(group: str, degree: int):
    products = table(GroupTask(group, degree))
    every = np.arange(len(products))
    np.testing.assert_array_equal(products[0], every)  # the first element is the identity
    np.testing.assert_array_equal(products[:, 0], every)
    for axis in (0, 1):  # each element once in every row and column, so that all have inverses
        counted = np.sort(products, axis=axis)
        np.testing.assert_array_equal(
            counted, np.moveaxis(np.tile(every, (len(every), 1)), 1, axis)
        )
    left, right = products[products], products[:, products]  # (a b) c and a (b c)
    np.testing.assert_array_equal(left, right)
    assert (products != products.T).any()


def test_a_row_by_hand():
    rows = GroupTask("dihedral", 3).rows()
    # s0 r1 = s2; BOS 8, OP 6, EQ 7, EOS 9.
    assert rows[3 * 6 + 1].tolist() == [8, 3, 6, 1, 7, 5, 9, 9]
    assert rows.shape == (36, 8)
    assert rows.dtype == np.int64
    task = GroupTask("dihedral", 15)
    assert (task.vocab_size, task.chance, len(task.rows())) == (34, 1 / 30, 900)
    assert task.rows().max() < task.vocab_size
    assert np.bincount(task.answers()[:, 0]).tolist() == [30] * 30
    equation = task.equation
    assert (equation.residues, equation.operation, equation.equals) == (30, 30, 31)
    assert equation.group is None


def test_pairs_that_commute_stay_on_one_side():
    task = GroupTask("dihedral", 15, keep_pairs_together=True)
    products = table(task)
    commute = products == products.T
    assert commute.mean() == pytest.approx(0.3)
    sizes = set()
    for seed in range(8):
        train, test = task.split(0.5, seed)
        sizes.add(len(train))
        assert sorted([*train, *test]) == list(range(900))
        side = np.zeros(900, dtype=bool)
        side[train] = True
        side = side.reshape(30, 30)
        assert (side == side.T)[commute].all()
        assert (side != side.T)[~commute].any()
    assert sizes == {450}
    apart = np.zeros(900, dtype=bool)
    apart[GroupTask("dihedral", 15).split(0.5, 0)[0]] = True
    apart = apart.reshape(30, 30)
    assert (apart != apart.T)[commute].any()


def test_words_and_texts():
    task = GroupTask("dihedral", 15)
    tokenizer = GrokkingTokenizer.of_tasks([task])
    for asked, row in zip(task.prompts(), task.rows(), strict=True):
        assert tokenizer(asked).input_ids == row[:5].tolist()
    assert task.prompts()[16 * 30 + 3] == "s1 * r3 ="
    assert task.texts()[16 * 30 + 3] == "s1 * r3 = s13"
    with pytest.raises(InputError, match="'r15' is no word of this model; it knows r0, r1"):
        tokenizer("r15 * r1 =")


def test_a_dataset():
    splits = GroupTask("dihedral", 4).to_dataset_dict(data_seed=3)
    assert splits["train"].column_names == ["input_ids", "labels", "a", "b", "answer"]
    assert splits["train"].num_rows == splits["test"].num_rows == 32


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group": "dihedra"}, "group 'dihedra' is unknown.*Did you mean 'dihedral'"),
        ({"degree": 2}, "degree must be at least 3 of a dihedral group, got 2; smaller ones comm"),
        ({"degree": 0}, "degree must be a whole number of at least 1"),
        ({"degree": 10**4}, "dihedral_10000 has 400000000 rows, at most"),
    ],
)
def test_what_is_no_group(fields, message):
    with pytest.raises(InputError, match=message):
        GroupTask(**{"group": "dihedral", **fields})
