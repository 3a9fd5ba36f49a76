"""Published indicators by hand; that they are causal is tested of all in the registry's tests."""

from __future__ import annotations

import numpy as np
import pytest

from gmb_hf.indicators import causal
from gmb_hf.indicators.catalogue import compute, get, names
from gmb_hf.runs.runlog import RunLog


def score(name: str, columns: dict[str, list[float]], **parameters: int) -> np.ndarray:
    """The score of one run whose checkpoints are ten steps apart."""
    length = len(next(iter(columns.values())))
    rows = {column: [values] for column, values in columns.items()}
    log = RunLog.from_arrays(["a"], np.arange(length) * 10, rows)
    return compute(log, name, **parameters).values[0]


def test_published_indicators_have_a_kind_and_rules_are_marked() -> None:
    for name in names():
        entry = get(name)
        assert entry.rule == name.endswith("_rule"), name
        if entry.rule:
            assert entry.orientation == 1, name
    for name in ("embedding_gini", "settled_structure", "embedding_density"):
        assert get(name).kind == "task-aware"
    assert get("test_loss").kind == "label-using"
    assert get("weight_norm").kind == "label-free"


def test_time_since_the_peak_of_the_norm() -> None:
    norms = [3.0, 5.0, 4.0, 4.5, 6.0, 2.0]
    found = score("steps_since_norm_peak", {"weight_norm": norms})
    np.testing.assert_array_equal(found, [0, 0, 10, 20, 0, 10])


def test_growth_and_spikes() -> None:
    growth = score("unembedding_norm_growth", {"unembedding_norm": [1, np.e, 1]}, window=10)
    np.testing.assert_allclose(growth, [0, 1, -1])
    losses = [1.0, 2.1, 2.2, 1.0, 1.9, 8.0]
    found = score("train_loss_spikes", {"train_loss": losses}, window=20)
    np.testing.assert_allclose(found, [0, 0.5, 0.5, 0, 0, 0.5])


def test_hjorth_parameters() -> None:
    rng = np.random.default_rng(2)
    losses = rng.uniform(1, 2, 12)
    window = 6
    found = {
        what: score(f"loss_{what}", {"train_loss": list(losses)}, window=10 * window)
        for what in ("activity", "mobility", "complexity")
    }
    for t in range(window - 1, 12):
        x = losses[t - window + 1 : t + 1]
        line = np.polyval(np.polyfit(np.arange(window), x, 1), np.arange(window))
        activity, change = np.var(x - line), np.diff(x)
        # Differences of the newest differences reach one checkpoint less far back.
        mobility = np.sqrt(np.var(change) / activity)
        complexity = np.sqrt(np.var(np.diff(change)) / np.var(change)) / mobility
        assert found["activity"][t] == pytest.approx(activity)
        assert found["mobility"][t] == pytest.approx(mobility)
        assert found["complexity"][t] == pytest.approx(complexity)


def test_a_constant_loss_oscillates_nowhere() -> None:
    for what in ("activity", "mobility", "complexity"):
        assert not score(f"loss_{what}", {"train_loss": [0.3] * 8}, window=50).any()


def test_autocorrelation_and_variance_ratio() -> None:
    rng = np.random.default_rng(4)
    losses = list(np.exp(rng.standard_normal(14)))
    logs = np.log(losses)
    correlation = score("loss_autocorrelation", {"train_loss": losses}, window=60)
    ratio = score("loss_variance_ratio", {"train_loss": losses}, window=100)
    for t in range(14):
        x = logs[max(0, t - 5) : t + 1]
        expected = np.corrcoef(x[:-1], x[1:])[0, 1] if len(x) >= 4 else 0
        assert correlation[t] == pytest.approx(expected, abs=1e-12)
    for t in range(9, 14):
        x = logs[t - 9 : t + 1]
        assert ratio[t] == pytest.approx(np.var(x[8:]) / np.var(x[:8]))
    assert score("loss_autocorrelation", {"train_loss": [0.5] * 6}, window=50).tolist() == [0] * 6
    assert score("loss_variance_ratio", {"train_loss": [0.5] * 6}, window=50).tolist() == [1] * 6
    # One checkpoint has no variance: of fewer than 10 the last two are the last fifth.
    short = score("loss_variance_ratio", {"train_loss": losses}, window=80)
    for t in range(7, 14):
        x = logs[t - 7 : t + 1]
        assert short[t] == pytest.approx(np.var(x[6:]) / np.var(x[:6]))


def test_the_rule_of_slowing_is_silent_until_its_baseline_is_there() -> None:
    losses = [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    given = {"window": 50, "baseline_window": 60}
    level = score("loss_autocorrelation", {"train_loss": losses}, window=50)
    fired = score("loss_autocorrelation_rule", {"train_loss": losses}, **given)
    expected = level > level[:6].mean() + 0.1
    expected[:5] = False
    np.testing.assert_array_equal(fired, expected)
    assert fired[-1] == 1
    holed = score("loss_autocorrelation_rule", {"train_loss": [*losses[:9], np.nan]}, **given)
    assert np.isnan(holed[9])


def test_a_drop_of_the_compressed_length() -> None:
    found = score("compressed_length_drop", {"compressed_length": [100, 400, 200, 800]})
    np.testing.assert_allclose(found, [0, 0, np.log(2), 0])


def test_baselines() -> None:
    x = np.array([[3.0, 1.0, 2.0, 9.0], [0.0, 6.0, 0.0, 1.0]])
    expected = [[np.nan, np.nan, 2, 2], [np.nan, np.nan, 0, 0]]
    np.testing.assert_array_equal(causal.baseline(x, 3), expected)
    mean = causal.baseline(x, 3, median=False)
    np.testing.assert_array_equal(mean, [[np.nan, np.nan, 2, 2]] * 2)
    assert np.isnan(causal.baseline(x[:, :2], 3)).all()


def test_alarms_of_what_is_unknown_are_unknown() -> None:
    x = np.array([[1.0, np.nan, 3.0]])
    np.testing.assert_array_equal(causal.alarms(x > 2, x), [[0, np.nan, 1]])


# Activations, outputs and gradients.


def alarm_steps(name: str, columns: dict[str, list[float]], **parameters: int) -> list[int]:
    """The steps at which a rule fires, checkpoints ten steps apart."""
    values = score(name, columns, **parameters)
    assert set(values) <= {0, 1}
    return (10 * np.flatnonzero(values)).tolist()


def test_commutator_rule_needs_ten_times_the_first_three_and_twenty() -> None:
    defects = [1.0, 3.0, 2.0, 20.0, 20.5, 19.0, 30.0]  # median of the first three: 2
    assert alarm_steps("commutator_rule", {"commutator_defect": defects}) == [40, 60]
    large = [4.0, 4.0, 4.0, 39.0, 41.0]
    assert alarm_steps("commutator_rule", {"commutator_defect": large}) == [40]
    # The first record may exceed any bound: nothing is known yet.
    assert alarm_steps("commutator_rule", {"commutator_defect": [900.0, 1.0, 1.0, 1.0]}) == []


def test_entropy_rule_fires_below_the_threshold_once_it_was_above() -> None:
    entropies = [0.5, 0.55, 0.7, 0.62, 0.6, 0.61, 0.4]
    assert alarm_steps("hidden_entropy_rule", {"hidden_entropy": entropies}) == [40, 60]


def test_rules_with_a_value_at_a_step() -> None:
    ratios = [9.0, 1.0, 2.0, 2.4, 2.6, 5.1]
    column = {"test_class_distance": ratios}
    assert alarm_steps("class_distance_rule", column, baseline_step=10) == [40, 50]
    assert alarm_steps("class_distance_rule", column, baseline_step=15) == [50]
    assert alarm_steps("class_distance_rule", column) == []  # step 3000 never comes
    assert get("class_distance_rule").kind == "label-using"
    norms = {"slow_gradient_norm": [8.0, 4.0, 2.1, 1.9, 3.0]}
    assert alarm_steps("slow_gradient_rule", norms, baseline_step=10) == [30]


def test_residual_rule_wants_two_windows_that_do_not_overlap() -> None:
    residuals = [0.0, 0.0, 0.1, 0.5, 1.2, 1.3, 0.9, 2.0, 1.1, 1.5]
    found = alarm_steps("dmd_rule", {"dmd_residual": residuals}, window=30)
    assert found == [70, 80]  # those of 40 and 50 steps were above 1.0 as well, that of 60 was not
    assert get("dmd_rule").windows == ("window",)


def test_synchronisation_rule_is_at_its_threshold() -> None:
    shares = {"frequency_synchronisation": [0.79, 0.8, 0.81]}
    assert alarm_steps("frequency_synchronisation_rule", shares) == [10, 20]
    assert get("frequency_synchronisation_rule").kind == "task-aware"


def test_first_value_where_something_holds_survives_a_gap() -> None:
    x = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    there = np.array([[False, True, False, True], [False, False, False, False]])
    found = causal.first_where(x, there)
    np.testing.assert_array_equal(found, [[np.nan, 2, 2, 2], [np.nan] * 4])


def test_orientations_are_those_of_the_papers() -> None:
    falling = ("hidden_entropy", "swap_divergence", "synergy", "slow_gradient_norm", "hidden_rank")
    rising = ("commutator_defect", "head_similarity", "train_class_distance", "hessian_top")
    assert {get(name).orientation for name in falling} == {-1}
    assert {get(name).orientation for name in rising} == {1}
