"""Gradient-boosted trees of an ensemble: scikit-learn's numbers by our lines, and a sound lock."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ensemble_runs import MEMBERS, design_with, ensemble, runs, with_formula
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from gmb_hf import InputError, Lock, RunLog, make_lock
from gmb_hf.benchmark.ensembles import (
    FEATURES,
    LabelledWindows,
    binned,
    choose,
    fit_trees,
    locked_tree,
)
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.locking import explore
from gmb_hf.design.explain import explain, explain_design
from gmb_hf.design.locked_ensembles import LockedEnsemble, LockedTree
from gmb_hf.indicators.catalogue import compute
from gmb_hf.indicators.ensemble import boosted, features_of, fitted_ensemble

TREE: dict[str, Any] = {
    "feature": [0, 1],
    "threshold": [0.5, -1.0],
    "left": [-1, -2],
    "right": [1, -3],
    "value": [1.0, 20.0, 300.0],
}
"""Left of .5 in the first feature: 1; else 20 up to -1 in the second and 300 beyond."""
SMALL = {"method": "boosted", "leaves": [2, 3], "trees": [5, 20], "features": list(FEATURES)}
DESIGN = design_with(ensemble(**SMALL))


def tree(**changes: Any) -> LockedTree:
    return LockedTree.parse({**TREE, **changes}, where="tree")


def test_a_tree_by_hand() -> None:
    rows = np.array([[0.5, 9.0], [math.nextafter(0.5, 1), -1.0], [1.0, 0.0], [math.nan, 0.0]])
    found = boosted(0.25, [tree(), tree(feature=[], threshold=[], left=[], right=[], value=[4.0])])
    np.testing.assert_array_equal(found(rows), [5.25, 24.25, 304.25, math.nan])
    np.testing.assert_array_equal(found(rows[None, :, None, :]), found(rows)[None, :, None])


def test_features_by_hand() -> None:
    score = np.array([[1.0, 3.0, 2.0, 6.0, 5.0]])
    found = features_of(score, ["score", "change_1", "change_3", "below_maximum"])
    expected = [[1, 3, 2, 6, 5], [0, 2, -1, 4, -1], [0, 2, 1, 5, 2], [0, 0, -1, 0, -1]]
    np.testing.assert_array_equal(np.concatenate(found), expected)
    own = ["place", "deviations", "relative_change_1"]
    place, deviations, change = features_of(np.array([[2.0, 4.0, 3.0, 3.0], [7.0] * 4]), own)
    np.testing.assert_allclose(place, [[0.5, 1, 0.5, 0.5], [0.5] * 4])
    # Means 2, 3, 3, 3; variances 0, 1, 2/3, 1/2.
    np.testing.assert_allclose(deviations, [[0, 1, 0, 0], [0] * 4], atol=1e-12)
    np.testing.assert_allclose(change, [[0, 1, -0.5, 0], [0] * 4])
    infinite = features_of(np.array([[0.0, math.inf, math.inf]]), ["change_1", "below_maximum"])
    np.testing.assert_array_equal(np.concatenate(infinite)[:, 2], [math.nan] * 2)


def made_up(n_runs: int, seed: int = 0, digits: int = 12, length: int = 30) -> LabelledWindows:
    """The last third of each run is positive, and told by the first feature; the others are noise,
    the last one constant. Few digits make ties."""
    rng = np.random.default_rng(seed)
    run = np.repeat(np.arange(n_runs), length)
    positive = np.tile(np.arange(length) >= 2 * length // 3, n_runs)
    features = rng.standard_normal((len(run), 4)).round(digits)
    features[:, 0] += positive
    features[:, 3] = 0.1
    return LabelledWindows(features, positive, run)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 99),
    digits=st.sampled_from([0, 1, 12]),
    leaves=st.integers(2, 8),
    number=st.integers(1, 15),
)
def test_it_says_what_scikit_learn_says(seed: int, digits: int, leaves: int, number: int) -> None:
    """On bins of the fitted values, and at the edges of the bins themselves."""
    rows = made_up(8, seed, digits)
    edges, codes = binned(rows)
    options: Any = {"max_leaf_nodes": leaves, "max_iter": number, "early_stopping": False}
    model = HistGradientBoostingClassifier(learning_rate=0.2, random_state=0, **options)
    model.fit(codes, rows.positive, sample_weight=rows.weights * len(codes))
    trees = [locked_tree(one.nodes, edges) for (one,) in model._predictors]
    ours = boosted(float(model._baseline_prediction[0, 0]), trees)
    rng = np.random.default_rng(seed)
    at_edges = np.stack([rng.choice(each, 50) for each in edges], axis=1)
    for features in (rows.features, at_edges, np.nextafter(at_edges, 9), 5 * at_edges):
        pairs = zip(edges, features.T, strict=True)
        bins = np.stack([np.searchsorted(*pair) for pair in pairs], axis=1).astype(float)
        np.testing.assert_allclose(ours(features), model.decision_function(bins), atol=1e-12)


def test_fewer_trees_are_the_first_of_more() -> None:
    found = fit_trees(made_up(12), [(2, 5), (3, 4), (2, 9)], 0.1)
    assert {setting: len(one.trees) for setting, one in found.items()} == {
        (2, 5): 5,
        (2, 9): 9,
        (3, 4): 4,
    }
    assert found[2, 9].trees[:5] == found[2, 5].trees
    assert max(len(one.value) for one in found[2, 9].trees) == 2


def test_a_score_that_tells_is_split_on_and_whole_runs_are_left_out() -> None:
    chosen = choose(made_up(30), partial(fit_trees, learning_rate=0.1), [(2, 5), (2, 50)], 5)
    assert chosen.setting == (2, 50)
    assert chosen.losses[2, 50] < 0.6 < np.log(2)
    splits = [feature for one in chosen.log_odds.trees for feature in one.feature]
    assert splits.count(0) > len(splits) / 2
    assert 3 not in splits


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": [-1, 0]}, "left and right do not reach each later split and each leaf once"),
        ({"left": [1, -2], "right": [-1, 1]}, "left and right do not reach"),
        ({"right": [2, -3]}, "left and right do not reach"),
        ({"right": [1, -4]}, "left and right do not reach"),
        ({"right": [1, -2]}, "left and right do not reach"),
        ({"value": [1.0, 20.0]}, "left and right do not reach"),
        ({"left": [-1]}, "feature, threshold, left and right are not of one length"),
        ({"threshold": [0.5, math.inf]}, r"threshold\[1\] must be a finite number, got inf"),
        ({"feature": [0, -1]}, r"feature\[1\] must be greater than or equal to 0, got -1"),
        ({"value": [1.0, 20.0, math.nan]}, r"value\[2\] must be a finite number, got nan"),
    ],
)
def test_what_is_no_tree_is_refused(change: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        tree(**change)
    assert "\n" not in str(raised.value)


@pytest.fixture(scope="module")
def explored() -> RunLog:
    return runs(40)


@pytest.fixture(scope="module")
def lock(explored: RunLog) -> Lock:
    return make_lock(DESIGN, explored)[0]


def formula(lock: Lock) -> LockedEnsemble:
    found = lock.candidate("both").ensemble
    assert found is not None
    return found


class TestTheLock:
    def test_it_holds_the_trees_and_is_read_as_it_was_written(self, lock: Lock, tmp_path):
        found, path = formula(lock), lock.write(tmp_path / "lock.yaml")
        assert Lock.read(path) == lock
        assert found.method == "boosted"
        assert found.setting in {f"{n} trees of {k} leaves" for k in (2, 3) for n in (5, 20)}
        assert len(found.trees) in (5, 20)
        assert all(member.coefficient == () for member in found.members)
        assert path.stat().st_size < 100_000

    def test_its_score_is_that_of_its_trees(self, lock: Lock, explored: RunLog):
        found = formula(lock)
        score = compute(explored, fitted_ensemble("both", found))
        member = found.members[0]
        first = compute(explored, member.name, sign=member.sign, **member.params).values
        used = {feature for one in found.trees for feature in one.feature}
        assert used
        assert len(found.members) * len(found.features) == 16
        assert len(np.unique(score.values)) > 5
        assert np.isfinite(score.values[score.present]).all()
        assert len(features_of(first, found.features)) == 4

    def test_the_order_of_runs_changes_nothing(self, lock: Lock, explored: RunLog):
        backwards = explored.select(explored.runs[::-1])
        assert set(formula(make_lock(DESIGN, backwards)[0]).trees) == set(formula(lock).trees)

    def test_it_is_explained(self, lock: Lock):
        said = next(line for line in explain(lock) if line.startswith("both is the log-odds"))
        plan = next(line for line in explain_design(DESIGN) if "trees on" in line)
        found = formula(lock)
        assert f"+ {len(found.trees)} trees, most of their" in said
        assert f"with the best of 4 settings, {found.setting}, at" in said
        assert "as many trees out of 5, 20, of at most as many leaves out of 2, 3" in plan

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda item: item.update(method="logistic"), "has not 4 of each of center, scale and"),
            (lambda item: item.update(setting="1"), "setting 1 is not among log_losses"),
            (
                lambda item: item["trees"][0].update(feature=[16] * len(item["trees"][0]["left"])),
                "a tree splits on a feature beyond the 16 that there are",
            ),
        ],
    )
    def test_a_record_that_contradicts_itself_is_refused(self, lock: Lock, change: Any, message):
        record = copy.deepcopy(formula(lock).plain())
        change(record)
        with pytest.raises(InputError, match=message):
            LockedEnsemble.parse(record, where="lock")

    def test_a_record_of_another_method_is_never_sealed(self, lock: Lock):
        other = formula(lock).model_copy(update={"features": ("score",)})
        message = "formula is boosted, score, the prereg's boosted, score, change_5"
        with pytest.raises(InputError, match=message):
            with_formula(lock, "both", other)


def test_it_is_judged_and_a_note_says_what_it_leans_on(lock: Lock) -> None:
    results = evaluate_lock(lock, runs(40, 200)).results
    assert results.indicator("both").point(0.1).coverage > 0.5
    assert any("Most of its splits are on, of 16: " in note for note in results.summary.x_notes)


def test_it_is_explored_cross_fitted(explored: RunLog) -> None:
    rows = {row.sign: row for row in explore(DESIGN, explored) if row.indicator == "both"}
    assert rows[1].coverage > 0.5


def test_nan_in_a_member_is_nan_for_as_long_as_a_change_sees_it(lock: Lock) -> None:
    log = runs(1, 200)
    ranks = log.table["attention_rank"].to_numpy().copy()
    ranks[30] = math.nan
    place = log.table.column_names.index("attention_rank")
    broken = RunLog.from_table(log.table.set_column(place, "attention_rank", pa.array(ranks)))
    score = compute(broken, fitted_ensemble("both", formula(lock))).values[0]
    assert np.flatnonzero(np.isnan(score)).tolist() == [30, 35, 50]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"features": ["change"]}, "features: 'change' is none of score, change_N over N check"),
        ({"features": ["change_0"]}, "features: 'change_0' is none of"),
        ({"features": ["score", "score"]}, "features: 'score' is listed twice"),
        ({"features": []}, "features must name at least one"),
        ({"leaves": [17]}, "leaves must be from 2 to 16, got 17"),
        ({"leaves": []}, "leaves must name at least one"),
        ({"trees": [201]}, "trees must be from 1 to 200, got 201"),
        ({"learning_rate": 1.0}, "learning_rate must be less than 1, got 1"),
        ({"method": "forest"}, "method must be 'logistic' or 'boosted', got 'forest'"),
    ],
)
def test_what_a_design_may_not_ask(option: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        design_with(ensemble(members=MEMBERS, **option))
    assert "\n" not in str(raised.value)
