"""The in-context tasks: their rows, and the Bayes predictors against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.incontext import InContextTask, LinearReal, bayes_over, first_places, line, lookup
from gmb_hf.tasks.registry import get_task

RULES = ("linear", "affine_table", "copy_rule")


def one_row(*pairs):
    """x and y of one row."""
    x, y = np.array(pairs, dtype=np.int64).T
    return x[None], y[None]


def test_two_points_make_a_line():
    # y = 2 x + 1 mod 5: two different x are known before the last question, one before the third.
    x, y = one_row((1, 3), (1, 3), (3, 2), (4, 4))
    found = line(x, y, 5)[0]
    assert found[0].tolist() == [0.2] * 5
    assert found[1].tolist() == [0, 0, 0, 1, 0]  # the same x again
    assert found[2].tolist() == [0.2] * 5  # a new x, one point known: any value is on a line
    assert found[3].tolist() == [0, 0, 0, 0, 1]


def test_a_table_is_looked_up():
    x, y = one_row((0, 3), (2, 3), (0, 3))
    assert lookup(x, y, 4)[0].tolist() == [[0.25] * 4, [0.25] * 4, [0, 0, 0, 1]]
    assert first_places(x).tolist() == [[0, 1, 0]]


def enumerated(functions, x, y, size):
    """The posterior predictive of one row, function by function."""
    found = []
    for k in range(len(x)):
        fitting = [f for f in functions if all(f[x[i]] == y[i] for i in range(k))]
        votes = [sum(f[x[k]] == value for f in fitting) for value in range(size)]
        found.append(np.array(votes) / len(fitting))
    return np.array(found)


@given(seed=st.integers(0, 2**16), prime=st.sampled_from([2, 3, 5, 7]))
def test_lines_are_predicted_as_by_enumeration(seed, prime):
    task = InContextTask("linear", prime, 4)
    rows = task.draw(np.random.default_rng(seed), 3)
    x, y = task.pairs_of(rows)
    expected = [enumerated(task.lines(), *row, prime) for row in zip(x, y, strict=True)]
    assert np.allclose(task.bayes(rows), expected, atol=1e-12)
    assert np.allclose(task.bayes(rows, task.lines()), expected, atol=1e-12)


@given(seed=st.integers(0, 2**16))
def test_tables_are_predicted_as_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    maps = np.stack(np.meshgrid(*[range(4)] * 4, indexing="ij"), -1).reshape(-1, 4)
    x, f = rng.integers(4, size=(2, 5)), maps[rng.integers(len(maps), size=2)]
    y = np.take_along_axis(f, x, axis=1)
    expected = [enumerated(maps, *row, 4) for row in zip(x, y, strict=True)]
    assert np.allclose(lookup(x, y, 4), expected, atol=1e-12)


def test_a_prior_over_some_functions_leaves_out_the_others():
    task = InContextTask("linear", 5, 2)
    trained = task.lines()[task.lines()[:, 1] != task.lines()[:, 0]]  # a is not 0
    x, y = one_row((0, 2), (1, 3), (2, 4))
    found = bayes_over(trained, x, y, 5)[0]
    assert found[1].tolist() == [0.25, 0.25, 0, 0.25, 0.25]  # y is not constant
    assert found[2].tolist() == [0, 0, 0, 0, 1]


def test_vectors_are_predicted_as_by_least_squares():
    task = LinearReal(3, 5)
    x, y = task.draw(np.random.default_rng(0), 200)
    mean, spread = task.bayes(x, y)
    for k in range(task.pairs):
        w = [np.linalg.lstsq(a[:k], b[:k], rcond=None)[0] for a, b in zip(x, y, strict=True)]
        assert np.allclose(mean[:, k], np.einsum("nd,nd->n", np.array(w), x[:, k]), atol=1e-5)
    assert spread[:, 0] == pytest.approx((x[:, 0] ** 2).sum(1))
    assert spread[:, 3:].max() < 1e-6  # three examples tell all of w


def test_noise_is_as_in_ridge_regression():
    task = LinearReal(2, 4, noise=0.5)
    x, y = task.draw(np.random.default_rng(1), 20)
    mean, spread = task.bayes(x, y)
    for row in range(20):
        a, b, asked = x[row, :4], y[row, :4], x[row, 4]
        precision = a.T @ a / 0.25 + np.eye(2)
        assert mean[row, 4] == pytest.approx(asked @ np.linalg.solve(precision, a.T @ b / 0.25))
        expected = asked @ np.linalg.solve(precision, asked) + 0.25
        assert spread[row, 4] == pytest.approx(expected)


@pytest.mark.parametrize("rule", RULES)
def test_rows_are_of_functions_and_their_scored_answers_are_known(rule):
    task = get_task(f"{rule}_p11_k6")
    rows = task.rows()
    assert rows.shape == (task.count, 15)
    assert np.array_equal(rows, task.rows())
    x, y = task.pairs_of(rows)
    repeated = np.take_along_axis(y, first_places(x), axis=1)
    assert np.array_equal(repeated, y)  # y is a function of x
    right = np.take_along_axis(task.bayes(rows), y[:, :, None], axis=2)[:, :, 0]
    assert (right[:, list(task.scored_answers)] == 1).all()
    assert task.prompts()[0] == " ".join(map(str, rows[0, 1:-1]))


def test_functions_held_out_are_in_no_training_row():
    task = get_task("linear_p5_k3")
    train, test = task.split(0.8, data_seed=3)
    names = ("a", "b")
    sides = [{tuple(task.operands()[n][i] for n in names) for i in side} for side in (train, test)]
    assert [len(side) for side in sides] == [20, 5]
    assert not sides[0] & sides[1]
    maps = get_task("copy_rule_p11_k4")
    assert len(np.unique(maps.operands()["f"], axis=0)) == maps.count
    trained, held = task.held_out(0.2, 0)
    assert (len(trained), len(held)) == (20, 5)
    assert maps.held_out(0.2, 0) == (None, None)


def test_the_list_of_a_copy_comes_again_in_its_order():
    task = InContextTask("copy_rule", 11, 7)
    x, _ = task.pairs_of(task.draw(np.random.default_rng(0), 50))
    lengths = {len(set(row)) for row in x.tolist()}
    assert lengths == {2, 3, 4}
    for row in x.tolist():
        assert row == [row[i % len(set(row))] for i in range(8)]


def test_a_draw_keeps_to_few_values_and_different_ones():
    task = InContextTask("linear", 11, 4)
    rows = task.draw(np.random.default_rng(0), 40, values=5, different=0.5)
    x, _ = task.pairs_of(rows)
    assert x.max() == 4
    assert all(len(set(row)) == 5 for row in x[:20].tolist())
    assert any(len(set(row)) < 5 for row in x[20:].tolist())
    x, _ = task.pairs_of(task.draw(np.random.default_rng(0), 40, values=13, different=1.0))
    assert x.max() == 10
    assert all(len(set(row)) == 5 for row in x.tolist())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("linear_p12", "linear: prime must be a prime number, got 12; 11 is one"),
        ("affine_table_p5", "only 3,125 maps of 5 residues, too few to hold any out"),
        ("copy_rule_p11_k40", "need 21 different x and there are 11; take at most 21 examples"),
        ("linear_p11_n100", "sequences=100 is no multiple of its 121 functions; take e.g. 1936"),
        ("linear_real", "has real vectors and no rows of tokens; train it with gmb icl run"),
        ("linaer_p11", "is unknown; .* Did you mean 'linear_p11_k8'"),
    ],
)
def test_bad_names_say_what_to_do(name, message):
    with pytest.raises(InputError, match=message):
        get_task(name)


def test_training_rows_are_whole_functions():
    with pytest.raises(InputError, match="17 rows to train on are no multiple of the 16 rows"):
        get_task("linear_p5_k3").split(17)


def test_the_examples_are_a_part_of_the_question():
    task = get_task("linear_p11_k3")
    assert (task.sequence_length, task.question_length, task.answer_length) == (9, 8, 1)
    assert task.scored_answers == (3,)
    copied = get_task("copy_8")
    assert (copied.question_length, copied.answer_length) == (10, 8)
    assert copied.scored_answers == tuple(range(8))
