"""PT-MSS by hand, and against its definition read checkpoint by checkpoint."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.benchmark.events import DENSITY, SIGNALS, Family, label_regimes, transitions
from gmb_hf.runs.panel import Panel

N = 100  # checkpoints at steps 0, 10, ..., so that two members are a share of .02
QUANTILE = 0.985  # round(99 * .985) = 98: the two highest of a hundred


def panel_of(*peaks: int, name: str = "signal", runs: int = 1) -> Panel:
    """Quiet but at these steps, each higher than the one before."""
    values = np.zeros((runs, N))
    for height, step in enumerate(peaks, start=1):
        values[:, step // 10] = height
    return Panel.from_series(
        name, [(f"run_{i}", np.arange(N) * 10, row) for i, row in enumerate(values)]
    )


def family(*peaks: tuple[int, ...]) -> Family:
    force, info, constraint = (panel_of(*one) for one in peaks)
    return force, info, constraint


TOGETHER = family((500, 900), (510, 0), (490, 200))


def label(primary: Family, alternate: Family, **overrides: Any) -> str:
    settings = {"quantile": QUANTILE, "radius": 20, **overrides}
    return label_regimes(primary, alternate, **settings).labels[0]


class TestTransitions:
    """One family."""

    def test_the_first_checkpoint_with_a_member_of_each_within_the_radius(self) -> None:
        found = transitions(TOGETHER, quantile=QUANTILE, radius=20)
        assert found.step.tolist() == [490.0]
        assert found.density.tolist() == [[0.02, 0.02, 0.02]]
        assert found.admissible.all()

    def test_a_smaller_radius_needs_them_nearer(self) -> None:
        assert transitions(TOGETHER, quantile=QUANTILE, radius=10).step.tolist() == [500.0]
        assert np.isnan(transitions(TOGETHER, quantile=QUANTILE, radius=9).step[0])

    def test_the_order_is_that_of_the_nearest_members(self) -> None:
        found = transitions(TOGETHER, quantile=QUANTILE, radius=20)
        assert [SIGNALS[place] for place in found.order[0]] == ["constraint", "force", "info"]

    def test_of_two_members_equally_near_the_later_counts(self) -> None:
        # t is 500, the first with a member of info within 10; force lies at 490 and at 510.
        both = family((490, 510), (510, 800), (500, 900))
        found = transitions(both, quantile=QUANTILE, radius=10)
        assert found.step.tolist() == [500.0]
        # Force and info tie at 510, in the order of their names S1 and S2.
        assert [SIGNALS[place] for place in found.order[0]] == ["constraint", "force", "info"]

    def test_ties_go_by_force_info_constraint(self) -> None:
        same = family((500, 0), (500, 300), (500, 700))
        found = transitions(same, quantile=QUANTILE, radius=20)
        assert found.step.tolist() == [480.0]
        assert found.order.tolist() == [[0, 1, 2]]

    def test_no_t_before_the_step_asked_for(self) -> None:
        late = transitions(TOGETHER, quantile=QUANTILE, radius=20, not_before=495)
        assert late.step.tolist() == [500.0]

    def test_a_quantile_between_two_places_is_rounded_half_to_even(self) -> None:
        values = np.arange(6.0)[None]
        signal = Panel.from_series("s", [("a", np.arange(6), values[0])])
        # .5 * 5 = 2.5 rounds to 2: four of six values are at or above the third.
        found = transitions((signal,) * 3, quantile=0.5, radius=1)
        assert found.density.tolist() == [[4 / 6] * 3]
        # .7 * 5 = 3.5 rounds to 4.
        found = transitions((signal,) * 3, quantile=0.7, radius=1)
        assert found.density.tolist() == [[2 / 6] * 3]

    def test_equal_values_are_members_together(self) -> None:
        flat = Panel.from_series("s", [("a", np.arange(50), np.ones(50))])
        assert transitions((flat,) * 3, quantile=0.99, radius=1).density.tolist() == [[1.0] * 3]

    def test_an_empty_cell_is_no_member_and_no_value(self) -> None:
        values = np.arange(100.0)
        values[99] = np.nan
        signal = Panel.from_series("s", [("a", np.arange(100), values)])
        found = transitions((signal,) * 3, quantile=0.99, radius=1)
        # round(98 * .99) = 97 of 99 values: two members among a hundred checkpoints.
        assert found.density.tolist() == [[0.02] * 3]

    def test_a_member_at_a_repeated_step_stands_for_both_rows(self) -> None:
        steps = np.repeat(np.arange(50), 2)
        names, present = ("a",), np.ones((1, 100), dtype=bool)

        def peaking(*columns: int) -> Panel:
            values = np.zeros((1, 100))
            values[0, list(columns)] = 1.0
            return Panel("s", names, values, steps[None], present)

        # The two rows of step 20 hold the members of force and of info.
        doubled = (peaking(40, 0), peaking(41, 99), peaking(40, 80))
        found = transitions(doubled, quantile=QUANTILE, radius=0)
        assert found.step.tolist() == [20.0]


class TestLabels:
    """Both families."""

    def test_families_that_agree_register_a_transition(self) -> None:
        assert label(TOGETHER, TOGETHER) == "REGISTERED_TRANSITION"

    def test_signals_apart_are_no_transition(self) -> None:
        apart = family((500, 900), (300, 0), (100, 200))
        assert label(apart, TOGETHER) == "NO_TRANSITION"

    def test_an_alternate_without_t_is_unstable(self) -> None:
        apart = family((500, 900), (300, 0), (100, 200))
        assert label(TOGETHER, apart) == "ESTIMATOR_UNSTABLE"

    @pytest.mark.parametrize(("shift", "tolerance"), [(10, 15), (20, 20), (-10, 10)])
    def test_an_alternate_within_the_tolerance_agrees(self, shift: int, tolerance: int) -> None:
        moved = family((500 + shift, 900), (510 + shift, 0), (490 + shift, 200))
        assert label(TOGETHER, moved, tolerance=tolerance) == "REGISTERED_TRANSITION"

    @pytest.mark.parametrize(("shift", "tolerance"), [(20, 15), (-20, 15), (10, 9)])
    def test_an_alternate_beyond_it_is_unstable(self, shift: int, tolerance: int) -> None:
        moved = family((500 + shift, 900), (510 + shift, 0), (490 + shift, 200))
        assert label(TOGETHER, moved, tolerance=tolerance) == "ESTIMATOR_UNSTABLE"

    def test_another_order_is_unstable(self) -> None:
        turned = family((510, 900), (500, 0), (490, 200))
        assert label(TOGETHER, turned) == "ESTIMATOR_UNSTABLE"

    @pytest.mark.parametrize("which", ["primary", "alternate"])
    def test_members_that_are_no_rarity_are_inconclusive(self, which: str) -> None:
        flat = dataclasses.replace(TOGETHER[1], values=np.ones((1, N)))
        dense = (TOGETHER[0], flat, TOGETHER[2])
        pair = (dense, TOGETHER) if which == "primary" else (TOGETHER, dense)
        assert label(*pair) == "INCONCLUSIVE"

    def test_three_members_of_a_hundred_are_too_many(self) -> None:
        assert label(TOGETHER, TOGETHER, quantile=0.975) == "INCONCLUSIVE"

    def test_one_member_of_more_than_a_thousand_is_too_few(self) -> None:
        signal = Panel.from_series("s", [("a", np.arange(1001), np.arange(1001.0))])
        found = label_regimes((signal,) * 3, (signal,) * 3, quantile=0.9999, radius=1)
        assert found.primary.density.tolist() == [[1 / 1001] * 3]
        assert DENSITY[0] > 1 / 1001
        assert found.labels == ("INCONCLUSIVE",)

    def test_a_run_of_one_checkpoint_is_inconclusive(self) -> None:
        one = Panel.from_series("s", [("a", [5], [1.0])])
        found = label_regimes((one,) * 3, (one,) * 3, quantile=0.99, radius=20)
        assert found.labels == ("INCONCLUSIVE",)
        assert found.order_of(0) == SIGNALS

    def test_a_signal_without_any_value_is_inconclusive_and_has_no_t(self) -> None:
        empty = dataclasses.replace(TOGETHER[0], values=np.full((1, N), np.nan))
        found = label_regimes((empty, *TOGETHER[1:]), TOGETHER, quantile=QUANTILE, radius=10**30)
        assert found.labels == ("INCONCLUSIVE",)
        assert np.isnan(found.primary.step[0])
        assert found.order_of(0) == ()

    def test_runs_do_not_depend_on_their_company(self) -> None:
        short = Panel.from_series("s", [("b", np.arange(60) * 10, np.arange(60.0))])
        both = tuple(
            Panel.from_series(
                "s",
                [
                    ("a", signal.steps[0], signal.values[0]),
                    ("b", short.steps[0], short.values[0]),
                ],
            )
            for signal in TOGETHER
        )
        force, info, constraint = both
        pair = (force, info, constraint)
        found = label_regimes(pair, pair, quantile=QUANTILE, radius=20)
        alone = label_regimes((short,) * 3, (short,) * 3, quantile=QUANTILE, radius=20)
        assert found.labels == ("REGISTERED_TRANSITION", alone.labels[0])
        assert found.primary.step[1] == alone.primary.step[0]


def slow_transition(
    steps: list[int], values: list[list[float]], quantile: float, radius: int
) -> tuple[int | None, tuple[str, ...], bool]:
    """One run, as DECISIONS and the reference state it: t, order, and whether it is dense."""
    members = []
    for row in values:
        threshold = sorted(row)[round((len(row) - 1) * quantile)]
        members.append([t for t, value in zip(steps, row, strict=True) if value >= threshold])
    dense = all(0.001 <= len(one) / len(steps) <= 0.02 for one in members)
    for t in steps:
        if all(any(abs(u - t) <= radius for u in one) for one in members):
            nearest = {
                name: min(one, key=lambda u: (abs(u - t), -u))
                for name, one in zip(("S1", "S2", "S3"), members, strict=True)
            }
            order = sorted(nearest.items(), key=lambda item: (item[1], item[0]))
            return t, tuple(name for name, _ in order), dense
    return None, (), dense


def slow_label(primary: Any, alternate: Any, tolerance: int) -> str:
    if not (primary[2] and alternate[2]):
        return "INCONCLUSIVE"
    if primary[0] is None:
        return "NO_TRANSITION"
    if alternate[0] is None or abs(alternate[0] - primary[0]) > tolerance:
        return "ESTIMATOR_UNSTABLE"
    return "REGISTERED_TRANSITION" if alternate[1] == primary[1] else "ESTIMATOR_UNSTABLE"


@given(
    seed=st.integers(0, 10**6),
    quantile=st.sampled_from([0.9, 0.98, 0.985, 0.99, 0.995]),
    radius=st.integers(0, 40),
    tolerance=st.integers(0, 30),
    repeats=st.booleans(),
)
def test_it_is_the_definition_for_any_runs(
    seed: int, quantile: float, radius: int, tolerance: int, repeats: bool
) -> None:
    rng = np.random.default_rng(seed)
    series: list[tuple[list[int], Any]] = []
    for length in rng.integers(1, 160, size=4):
        gaps = rng.integers(0 if repeats else 1, 6, size=length)
        # Most signals are quiet: members are then few and tie often.
        quiet = rng.random((6, length)) ** 20
        series.append((np.cumsum(gaps).tolist(), np.round(quiet, 2)))
    width = max(len(steps) for steps, _ in series)
    present = np.arange(width) < np.array([[len(steps)] for steps, _ in series])
    grid = np.zeros(present.shape, dtype=np.int64)
    grid[present] = np.concatenate([steps for steps, _ in series])
    panels = []
    for place in range(6):
        values = np.full(present.shape, np.nan)
        values[present] = np.concatenate([rows[place] for _, rows in series])
        panels.append(Panel(f"s{place}", ("a", "b", "c", "d"), values, grid, present))
    first, second = (panels[0], panels[1], panels[2]), (panels[3], panels[4], panels[5])
    found = label_regimes(first, second, quantile=quantile, radius=radius, tolerance=tolerance)
    numbered = dict(zip(SIGNALS, ("S1", "S2", "S3"), strict=True))
    for row, (steps, rows) in enumerate(series):
        primary = slow_transition(steps, rows[:3].tolist(), quantile, radius)
        alternate = slow_transition(steps, rows[3:].tolist(), quantile, radius)
        step = found.primary.step[row]
        assert (None if np.isnan(step) else step) == primary[0]
        assert tuple(numbered[name] for name in found.order_of(row)) == primary[1]
        assert found.labels[row] == slow_label(primary, alternate, tolerance)
