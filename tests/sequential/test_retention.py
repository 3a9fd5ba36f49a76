"""Retention by hand, against a plain loop, and its intervals and paired tests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retention_matrices import TASKS, matrix
from scipy import stats

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_json
from gmb_hf.base.stats import difference, differences, over_seeds
from gmb_hf.protocol.sequential.matrix import (
    QUANTITIES,
    RetentionMatrix,
    phase_increases,
    quantities,
)
from gmb_hf.protocol.sequential.matrix import retention_numbers as retention
from gmb_hf.protocol.sequential.summary import chance_level, retention_tables, summarize
from gmb_hf.tasks.registry import get_task, task_names


def test_a_matrix_by_hand() -> None:
    after = np.array([[[0.1, 0.2, 0.3], [0.9, 0.25, 0.3], [0.5, 1.0, 0.5], [0.6, 0.4, 0.8]]])
    found = retention(after, higher_is_better=True)
    assert found.learning.tolist() == [[0.9, 1.0, 0.8]]
    assert found.final.tolist() == [[0.6, 0.4, 0.8]]
    np.testing.assert_allclose(found.backward_transfer, [[-0.3, -0.6]])
    np.testing.assert_allclose(found.forward_transfer, [[0.05, 0.2]])
    np.testing.assert_allclose(found.forgetting, [[0.3, 0.6]])
    means = found.means()
    assert means["average"] == pytest.approx(0.6)
    assert means["forgetting"] == pytest.approx(0.45)  # of two tasks: the last is no zero


def test_the_best_before_may_stand_in_another_phase_than_its_own() -> None:
    after = np.array([[[0.0, 0.0, 0.0], [0.5, 0.0, 0.0], [0.75, 1.0, 0.0], [0.25, 1.0, 1.0]]])
    assert retention(after, higher_is_better=True).forgetting.tolist() == [[0.5, 0.0]]
    # The last phase is the best: forgetting below 0, as its definition says.
    after[0, 3, 0] = 1.0
    assert retention(after, higher_is_better=True).forgetting[0, 0] == -0.25
    # A loss: the end less the lowest before; the untrained model is no phase.
    loss = np.array([[[0.01, 4.0], [0.5, 5.0], [9.5, 0.25]]])
    assert retention(loss, higher_is_better=False).forgetting.tolist() == [[9.0]]


@given(data=st.data(), better=st.booleans())
def test_every_number_is_that_of_a_plain_loop(data: st.DataObject, better: bool) -> None:
    seeds, phases = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    count = seeds * (phases + 1) * phases
    drawn = data.draw(st.lists(st.floats(0, 10), min_size=count, max_size=count))
    values = np.array(drawn).reshape(seeds, phases + 1, phases)
    found = retention(values, higher_is_better=better)
    for s in range(seeds):
        table = values[s].tolist()
        for k in range(phases):
            assert found.learning[s, k] == table[k + 1][k]
            assert found.final[s, k] == table[phases][k]
            if k:
                assert found.forward_transfer[s, k - 1] == table[k][k] - table[0][k]
        for k in range(phases - 1):
            before = [table[phase][k] for phase in range(1, phases)]
            lost = max(before) - table[-1][k] if better else table[-1][k] - min(before)
            assert found.forgetting[s, k] == lost
            assert found.backward_transfer[s, k] == table[-1][k] - table[k + 1][k]
        means = found.means()
        assert (means["forgetting"] is None) == (phases == 1)


def test_tasks_that_are_never_trained_are_left_out() -> None:
    full = matrix(trained_on=("sub", "add"))
    found = quantities(full)
    columns = [1, 0]
    average = full.accuracy[:, -1, columns].mean(axis=1)
    assert list(found) == list(QUANTITIES)
    np.testing.assert_allclose(found["average_accuracy"], average)
    assert summarize({"dense": full}).variants["dense"].tasks[0].task == "sub"


def test_intervals_are_those_of_scipy_and_of_resampled_seeds() -> None:
    values = np.array([0.2, 0.5, 0.4, 0.9, 0.3])
    found = over_seeds(values)
    low, high = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    assert (found.t_low, found.t_high) == (pytest.approx(low), pytest.approx(high))
    means = np.random.default_rng(0).choice(values, (20_000, 5)).mean(axis=1)
    assert found.bootstrap_low == pytest.approx(np.quantile(means, 0.025), abs=0.02)
    assert found.bootstrap_high == pytest.approx(np.quantile(means, 0.975), abs=0.02)
    assert found.values == tuple(values)


def test_two_seeds_have_no_interval_and_no_test() -> None:
    found = over_seeds([0.25, 0.75])
    assert (found.mean, found.n_seeds) == (0.5, 2)
    assert found.t_low is found.t_high is found.bootstrap_low is found.bootstrap_high is None
    summary = summarize({name: matrix(name, seeds=[0, 1]) for name in ("dense", "sort-4")})
    assert retention_tables(summary)[-1].caption == "Difference from dense, paired by seed"
    assert "dense has 2 of at least 3 seeds: no interval, no test" in summary.notes
    assert all(pair.p_value is pair.p_adjusted is None for pair in summary.differences)
    assert all(pair.difference is not None for pair in summary.differences)


def test_variants_are_paired_by_seed_and_adjusted_together() -> None:
    base = {seed: float(seed) for seed in range(8)}
    same = {seed: value + (-1) ** seed * 0.1 for seed, value in base.items()}
    lower = {seed: value - 1 - 0.01 * seed for seed, value in base.items() if seed != 3}
    found = differences("x", {"dense": base, "same": same, "lower": lower}, "dense")
    assert [pair.variant for pair in found] == ["same", "lower"]
    even, gone = found
    assert gone.seeds == (0, 1, 2, 4, 5, 6, 7)
    assert gone.difference is not None
    assert gone.difference.mean == pytest.approx(-1 - 0.01 * 25 / 7)
    assert gone.p_value == pytest.approx(2 / 2**7, abs=0.005)
    assert gone.p_adjusted == pytest.approx(2 * gone.p_value)
    assert even.p_value == even.p_adjusted == 1.0
    alone = difference("x", ("lower", {11: 1.0}), ("dense", base))
    assert (alone.seeds, alone.difference, alone.p_value) == ((), None, None)
    # Who has no test does not weigh on who has one.
    pair = differences("x", {"dense": base, "lower": lower, "far": {11: 1.0}}, "dense")
    assert pair[0].p_adjusted == pair[0].p_value


def test_the_file_holds_what_it_promises(tmp_path: Path) -> None:
    chance = {task: chance_level(get_task(f"{task}_p97")) for task in TASKS}
    made = summarize(
        {name: matrix(name) for name in ("sort-4", "dense")}, chance=chance, notes=("a note",)
    )
    data = json.loads(write_json(tmp_path / "retention.json", made.to_dict()).read_text())
    assert list(data) == [
        "tasks", "trained_on", "chance", "baseline", "notes", "test", "variants",
            "differences", "format",
    ]  # fmt: skip
    assert (data["format"], data["baseline"]) == ("gmb-hf retention 1", "dense")
    assert data["chance"]["add"]["loss"] == pytest.approx(np.log(97))
    assert data["notes"][0] == "a note"
    dense = data["variants"]["dense"]
    assert list(dense) == ["seeds", "quantities", "tasks", "matrix", "increases"]
    assert list(dense["quantities"]) == list(QUANTITIES)
    assert list(dense["quantities"]["average_loss"]) == [
        "mean", "std", "min", "max", "n_seeds", "t_low", "t_high", "bootstrap_low",
        "bootstrap_high", "values",
    ]  # fmt: skip
    assert len(dense["matrix"]) == 5 * 4
    last = next(row for row in dense["tasks"] if row["task"] == "sq_sum")
    assert last["forgetting"] is last["backward_transfer"] is None
    assert {row["variant"] for row in data["differences"]} == {"sort-4"}
    assert [row["quantity"] for row in data["differences"]] == list(QUANTITIES)


def test_one_phase_has_no_forgetting() -> None:
    made = summarize(
        {"dense": matrix(trained_on=("add",)), "sort-4": matrix("sort-4", trained_on=("add",))}
    )
    assert made.variants["dense"].quantities["forgetting_loss"] is None
    assert {pair.quantity for pair in made.differences} == {
        f"{number}_{measure}"
        for number in ("average", "learning")
        for measure in ("accuracy", "loss")
    }


def test_designs_that_differ_are_refused() -> None:
    with pytest.raises(
        InputError, match=r"variant 'dense' is trained in the order add.*only equal ones"
    ):
        summarize({"dense": matrix(), "sort-4": matrix("sort-4", trained_on=("add", "mul"))})
    with pytest.raises(InputError, match=r"variant 'dens' is unknown.*'dense'"):
        summarize({"dense": matrix()}, baseline="dens")


@pytest.mark.parametrize("name", task_names())
def test_chance_is_a_uniform_guess_among_the_answers(name: str) -> None:
    prime = re.search(r"_p(\d+)", name)
    answers = int(prime[1]) if prime else 30 if name == "dihedral_15" else 2
    found = chance_level(get_task(name))
    assert (found.loss, found.accuracy) == (pytest.approx(np.log(answers)), 1 / answers)


def test_forgetting_from_each_phase_to_the_next_by_hand():
    after = np.array(
        [[[4.0, 4.0, 4.0], [0.5, 5.0, 4.0], [1.5, 0.25, 4.0], [1.0, 2.25, 0.0]]] * 2
    )  # two equal seeds
    steps = phase_increases(after)
    assert steps[:, 1:, 0].tolist() == [[1.0, -0.5]] * 2
    assert steps[:, 2, 1].tolist() == [2.0, 2.0]
    assert np.isnan(steps[:, 0]).all()
    assert np.isnan(steps[:, :, 2]).all(), "nothing comes after the last task"
    backward = retention(after, higher_is_better=False).backward_transfer
    assert np.nansum(steps, axis=1)[:, :-1].tolist() == backward.tolist()
    matrix = RetentionMatrix("v", (0, 1), ("a", "b", "c"), ("a", "b", "c"), after, after / 5)
    summary = summarize({"v": matrix})
    found = {(one.task, one.phase): one for one in summary.variants["v"].increases}
    assert list(found) == [("a", 2), ("a", 3), ("b", 3)]
    assert found["a", 2].loss.mean == 1.0
    assert (found["b", 3].trained_on, found["b", 3].loss.values) == ("c", (2.0, 2.0))
    (table,) = (one for one in retention_tables(summary) if one.name == "forgetting_by_phase")
    assert [row[6] for row in table.rows] == ["", 0.5, 2.0], "best less last, at the end only"
