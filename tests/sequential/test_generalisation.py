"""Validation loss at equal training loss: by hand, against a plain loop, and what is unreliable."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.protocol.sequential.generalisation import (
    LossCurve,
    matched,
    shared_range,
    summarize_curves,
)


def course(
    train: list[float], validation: list[float], *, seed: int | None = 0, run: str = "a"
) -> LossCurve:
    steps = np.arange(len(train)) * 10
    return LossCurve(run, seed, steps, np.array(train), np.array(validation))


def test_a_course_by_hand() -> None:
    one = course([4.0, 2.0, 3.0, 1.0], [8.0, 6.0, 0.0, 5.0])
    assert one.records.tolist() == [True, True, False, True]
    found = one.validation_at(np.array([4.0, 3.0, 2.0, 1.5, 1.0]))
    assert found.tolist() == [8.0, 7.0, 6.0, 5.5, 5.0]  # step 20 is no new minimum


losses = st.lists(st.floats(0.01, 10), min_size=1, max_size=12)


@given(train=losses, at=st.floats(0, 1), data=st.data())
def test_the_loss_at_a_training_loss_is_that_of_a_plain_loop(
    train: list[float], at: float, data: st.DataObject
) -> None:
    validation = data.draw(st.lists(st.floats(0, 10), min_size=len(train), max_size=len(train)))
    one = course(train, validation)
    wanted = min(max(min(train) + at * (train[0] - min(train)), min(train)), train[0])
    kept = [(train[0], validation[0])]
    for t, v in zip(train, validation, strict=True):
        if t < kept[-1][0]:
            kept.append((t, v))
    expected = kept[0][1]
    for (high, before), (low, after) in pairwise(kept):
        if low <= wanted <= high:
            share = (wanted - low) / (high - low)
            expected = after + share * (before - after)
            break
    assert one.validation_at(np.array([wanted]))[0] == pytest.approx(expected, abs=1e-6)


def line(offset: float, low: float, seed: int, high: float = 4.0) -> LossCurve:
    """A run whose validation loss is its training loss plus an offset."""
    train = np.linspace(high, low, 50)
    return LossCurve(f"{offset}-{seed}", seed, np.arange(50), train, train + offset)


def test_a_known_difference_is_found_whoever_trained_further() -> None:
    dense = [line(0.2, 0.5, seed) for seed in (1337, 42, 7)]
    other = [line(0.2 + 0.1 + 0.01 * place, 0.25, seed) for place, seed in enumerate((1337, 42, 7))]
    (found,) = matched({"dense": dense, "other": other}, "dense")
    assert found.train_range == (0.5, 4.0)
    assert found.overlap == pytest.approx(np.log(4 / 0.5) / np.log(4 / 0.25))
    assert found.reliable
    assert found.difference is not None
    assert found.difference.seeds == (7, 42, 1337)
    gap = found.difference.difference
    assert gap is not None
    assert gap.mean == pytest.approx(0.11)
    assert gap.t_low is not None
    np.testing.assert_allclose(
        np.subtract(found.variant_validation, found.baseline_validation), 0.11, atol=1e-9
    )
    # By the end alone the other seems better: it was trained further.
    ends = [summarize_curves(runs).final_validation_loss.mean for runs in (dense, other)]
    assert ends[1] < ends[0]


def test_ranges_that_do_not_or_hardly_overlap_are_unreliable() -> None:
    high = [line(0.2, 2.0, seed) for seed in range(3)]
    below = [line(0.2, 0.5, seed, high=1.9) for seed in range(3)]
    hardly = [line(0.2, 0.5, seed, high=2.1) for seed in range(3)]
    apart, narrow = matched({"dense": high, "below": below, "hardly": hardly}, "dense")
    assert (apart.reliable, apart.train_range, apart.overlap) == (False, None, 0.0)
    assert apart.difference is apart.variant_mean is None
    assert not narrow.reliable
    assert narrow.train_range == (2.0, 2.1)
    assert narrow.overlap == pytest.approx(np.log(2.1 / 2) / np.log(4 / 0.5))
    assert narrow.difference is not None


def test_a_training_loss_of_0_ends_the_range_above_it() -> None:
    runs = [course([4.0, 1.0, 0.25, 0.0], [4.0, 3.0, 2.0, 1.0], seed=seed) for seed in range(3)]
    assert shared_range(runs) == (0.25, 4.0)
    (found,) = matched({"dense": runs, "other": runs}, "dense")
    assert found.overlap == pytest.approx(1.0)


def test_several_variants_are_adjusted_together() -> None:
    family = {
        name: [line(offset + 0.001 * seed, 0.5, seed) for seed in range(6)]
        for name, offset in (("dense", 0.2), ("a", 0.3), ("b", 0.1))
    }
    for one in matched(family, "dense"):
        assert one.difference is not None
        assert one.difference.p_value is not None
        assert one.difference.p_adjusted == pytest.approx(2 * one.difference.p_value, rel=0.2)


def test_best_final_and_gap() -> None:
    runs = [
        course([3.0, 2.0, 1.0], [3.0, 1.0 + seed, 4.0], seed=seed, run=f"r{seed}")
        for seed in range(3)
    ]
    found = summarize_curves(runs)
    assert found.best_validation_loss.values == (1.0, 2.0, 3.0)
    assert found.best_step.values == (10.0, 10.0, 0.0)
    assert found.final_gap.mean == 3.0
    assert found.gap_mean == (0.0, 0.0, 3.0)
    assert found.gap_std == (0.0, 1.0, 0.0)
    alone = summarize_curves(runs[:1])
    assert alone.gap_std is None
    assert alone.final_gap.t_low is None


def test_runs_of_other_lengths_share_the_steps_that_all_have() -> None:
    runs = [course([2.0, 1.0], [2.0, 2.0]), course([2.0, 1.0, 0.5], [2.0, 1.0, 1.0], seed=1)]
    assert summarize_curves(runs).steps == (0, 10)


def test_seeds_that_are_not_known_or_not_shared_are_not_paired() -> None:
    known = [line(0.2, 0.5, seed) for seed in range(3)]
    unknown = [course([4.0, 0.5], [4.2, 0.7], seed=None) for _ in range(3)]
    (found,) = matched({"dense": known, "other": unknown}, "dense")
    assert found.difference is None
    assert found.variant_mean is not None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: course([], []), "run 'a' has no checkpoint"),
        (lambda: course([1.0, np.inf], [1.0, 1.0]), "step 10: the training loss is inf"),
        (lambda: course([1.0, 1.0], [-1.0, 1.0]), "step 0: the validation loss is -1.0"),
        (lambda: LossCurve("a", 0, np.array([1, 1]), np.ones(2), np.ones(2)), "do not ascend"),
        (lambda: summarize_curves([]), "no runs"),
        (
            lambda: matched({"a": [line(0, 1, 3), line(0.5, 1, 3)], "b": [line(0, 1, 3)]}, "b"),
            "have the same seed, 3",
        ),
        (lambda: matched({"dense": [line(0, 1, 3)]}, "dens"), "'dens' is unknown.*'dense'"),
        (lambda: matched({"dense": [line(0, 1, 3)]}, "dense", points=0), "points must be"),
    ],
)
def test_each_bad_input_is_one_line(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
