"""Layer A by hand and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from score_builders import judged
from sklearn.metrics import average_precision_score, roc_auc_score

from gmb_hf.benchmark.ranking import layer_a
from gmb_hf.benchmark.records import null_reasons
from gmb_hf.core.ranking import ranking


def test_one_run_by_hand() -> None:
    # Negatives at 0..40: 1 2 3 4 5; ignored at 50; positives at 60, 70: 4 6.
    values = [[1, 2, 3, 4, 5, 99, 4, 6, 99, 99]]
    layer = layer_a(judged(values, [80]))
    # 6 beats all five; 4 beats three and ties with one.
    assert layer.auc == pytest.approx((5 + 3.5) / 10)
    # At 6: 1 of 1; at 5: no positive; at 4: 2 of 4.
    assert layer.ap == pytest.approx((1 + 2 / 4) / 2)
    assert (layer.x_auc_run_mean, layer.x_auc_run_sd, layer.x_n_runs) == (layer.auc, None, 1)


def test_pooled_and_per_run_differ_where_runs_have_levels_of_their_own() -> None:
    quiet = [0, 0, 0, 0, 0, 0, 1, 1, 0, 0]
    loud = [value + 10 for value in quiet]
    layer = layer_a(judged([quiet, loud], [80, 80]))
    assert (layer.x_auc_run_mean, layer.x_auc_run_sd) == (1.0, 0.0)
    assert layer.auc == pytest.approx(15 / 20)
    assert layer.x_n_runs == 2


def test_runs_without_both_classes_count_only_in_the_pool() -> None:
    layer = layer_a(judged([[0] * 10, [1] * 10, [0] * 6 + [1] * 4], [80, None, 20]))
    assert layer.x_n_runs == 1
    assert layer.x_auc_run_mean == 0.5


def test_a_missing_class_gives_no_number() -> None:
    layer = layer_a(judged([[0] * 10], [None]))
    assert (layer.auc, layer.ap, layer.x_n_runs) == (None, None, 0)
    assert (layer.x_auc_run_mean, layer.x_auc_run_sd) == (None, None)
    assert (layer.x_ap_run_mean, layer.x_ap_run_sd) == (None, None)
    reasons = null_reasons(layer)
    assert reasons["auc"] == "the labelled windows are of one class only"
    assert reasons["x_auc_run_sd"] == "fewer than two runs have windows of both classes"


@given(st.data())
def test_each_row_equals_scikit_learn(data: st.DataObject) -> None:
    rows, width = data.draw(st.integers(1, 5)), data.draw(st.integers(2, 15))
    seed = data.draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 6, size=(rows, width)) / 3
    labelled = rng.random((rows, width)) < 0.8
    positive = labelled & (rng.random((rows, width)) < 0.4)
    auc, ap = ranking(np.where(labelled, values, np.nan), positive, labelled)
    for row in range(rows):
        truth, score = positive[row][labelled[row]], values[row][labelled[row]]
        if truth.all() or not truth.any():
            assert np.isnan(auc[row])
            assert np.isnan(ap[row])
            continue
        assert auc[row] == pytest.approx(roc_auc_score(truth, score))
        assert ap[row] == pytest.approx(average_precision_score(truth, score))
