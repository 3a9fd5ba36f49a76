"""Bundles of equations: drawn by hand, by rule, and against one item at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest
from crucible_oracles import margin_stats_of, rank_stats_of
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.grokking import bundle_lines, draw_bundles, margin_observables
from gmb_hf.crucible.margins import Similarities
from gmb_hf.tasks.modular import ModularTask


def drawn(answers, n, negatives, seed=0):
    return draw_bundles(answers, n, negatives, np.random.default_rng(seed))


def test_where_there_is_no_choice_the_bundles_are_known():
    # Rows 1 and 3 share an answer, and every other row is a negative of both.
    found = drawn([4, 7, 5, 7], 2, 2)
    assert dict(zip(found.anchors.tolist(), found.candidates[:, 0].tolist(), strict=True)) == {
        1: 3,
        3: 1,
    }
    assert [sorted(row) for row in found.candidates[:, 1:].tolist()] == [[0, 2], [0, 2]]


@st.composite
def questions(draw):
    answers = draw(st.lists(st.integers(0, 5), min_size=3, max_size=40))
    sizes = np.unique(answers, return_counts=True)[1]
    most = len(answers) - int(sizes.max())
    if sizes.max() < 2 or most < 1:
        answers += [0, 0, 1]
        sizes = np.unique(answers, return_counts=True)[1]
        most = len(answers) - int(sizes.max())
    return answers, draw(st.integers(1, 60)), draw(st.integers(1, most)), draw(st.integers(0, 99))


@given(questions())
def test_positives_have_the_answer_and_negatives_have_others(question):
    answers, n, negatives, seed = question
    found = drawn(answers, n, negatives, seed)
    given_answers = np.array(answers)
    same = given_answers[found.candidates] == given_answers[found.anchors][:, None]
    assert found.candidates.shape == (n, 1 + negatives)
    assert same[:, 0].all()
    assert not same[:, 1:].any()
    assert not (found.candidates == found.anchors[:, None]).any()
    assert all(len(set(row)) == 1 + negatives for row in found.candidates.tolist())
    again = drawn(answers, n, negatives, seed)
    assert np.array_equal(found.anchors, again.anchors)
    assert np.array_equal(found.candidates, again.candidates)
    # Every row that can be an anchor is one equally often, up to one.
    values, counts = np.unique(given_answers, return_counts=True)
    eligible = np.isin(given_answers, values[counts > 1])
    times = np.bincount(found.anchors, minlength=len(answers))
    assert not times[~eligible].any()
    assert np.ptp(times[eligible]) <= 1


def test_every_positive_and_negative_is_drawn_equally_often():
    found = drawn([0, 0, 0, 1, 1, 2], 50_000, 2)
    of_first = found.candidates[found.anchors == 1]
    share = np.bincount(of_first.ravel(), minlength=6) / len(of_first)
    np.testing.assert_allclose(share, [0.5, 0, 0.5, 2 / 3, 2 / 3, 2 / 3], atol=0.02)


@pytest.mark.parametrize(
    ("answers", "n", "negatives", "message"),
    [
        ([1, 2, 3], 4, 1, "no two of the 3 equations to draw from have the same answer"),
        ([], 4, 1, "no two of the 0 equations"),
        ([1, 1, 2], 4, 2, "2 negatives are asked for, but only 1 of the 3 .* ask for at most 1"),
        ([1, 1], 4, 1, "only 0 of the 2"),
        ([1, 1, 2], 0, 1, "bundles must be a whole number of at least 1, got 0"),
        ([1, 1, 2], 1, 0, "negatives must be a whole number of at least 1, got 0"),
    ],
)
def test_bundles_that_cannot_be_drawn(answers, n, negatives, message):
    with pytest.raises(InputError, match=message):
        drawn(answers, n, negatives)


@pytest.mark.parametrize(
    ("operation", "row", "text"),
    [
        ("sub", 3 * 29 + 5, "3 - 5 = 27 (mod 29)"),
        ("add", 28 * 29 + 2, "28 + 2 = 1 (mod 29)"),
        ("mul", 3 * 29 + 10, "3 * 10 = 1 (mod 29)"),
        ("sq_sum", 2 * 29 + 5, "2^2 + 5^2 = 0 (mod 29)"),
        ("div", 0 * 28 + 0, "0 / 1 = 0 (mod 29)"),
        ("x2_xy_y2", 1 * 29 + 2, "1^2 + 1 * 2 + 2^2 = 7 (mod 29)"),
    ],
)
def test_equations_as_people_write_them(operation, row, text):
    assert ModularTask(operation, 29).texts()[row] == text


similarities = st.integers(1, 4).flatmap(
    lambda seeds: st.lists(
        st.lists(st.lists(st.integers(-4, 4), min_size=4, max_size=4), min_size=5, max_size=5),
        min_size=seeds,
        max_size=seeds,
    )
)


@given(similarities)
def test_all_seeds_at_once_are_each_seed_by_itself(values):
    array = np.array(values) / 4  # coarse, so that some tie
    found = margin_observables(array)
    for place, rows in enumerate(array.tolist()):
        item = Similarities.of_lists(rows, [0] * len(rows))
        margins, ranks = margin_stats_of(item), rank_stats_of(item)
        assert {name: column[place] for name, column in found.items()} == {
            "crucible_margin_q10": margins.q10_margin,
            "crucible_margin_median": margins.median_margin,
            "crucible_margin_q90": margins.q90_margin,
            "crucible_pass_rate": margins.pass_rate,
            "crucible_mean_rank": ranks.mean_rank,
        }


def test_lines_are_read_back_as_they_were_drawn(tmp_path):
    task = ModularTask("sub", 7)
    texts = task.texts()
    found = drawn(task.answers()[:, 0], 3, 2)
    values = np.arange(9.0).reshape(3, 3)
    lines = list(bundle_lines(found, texts, values, prefix="seed_3"))
    path = tmp_path / "bundles.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = read_bundles(path)
    assert file.ids == ("seed_3/0", "seed_3/1", "seed_3/2")
    for place, bundle in enumerate(file.bundles):
        assert bundle.anchor == texts[found.anchors[place]]
        positive, *negatives = (texts[row] for row in found.candidates[place])
        assert (bundle.positive, list(bundle.negatives)) == (positive, negatives)
        assert bundle.positive_index == 0
    assert file.similarities().values.tolist() == list(range(9))
