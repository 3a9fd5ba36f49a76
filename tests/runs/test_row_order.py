"""The order of rows: natural order of runs, restarts, and what is out of order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.runs.columns import OnDuplicate, natural_key, order_rows


class Ordered(NamedTuple):
    """Runs and row numbers in their order, rows of each run, and what was dropped."""

    runs: list[str]
    rows: list[int]
    lengths: list[int]
    dropped: dict[str, int]


def order(runs: list[str], steps: list[int], on_duplicate: OnDuplicate = "last") -> Ordered:
    table = pa.table({"run": runs, "step": steps, "row": range(len(runs))})
    found, dropped = order_rows(table, on_duplicate=on_duplicate)
    names = found["run"].to_pylist()
    distinct = list(dict.fromkeys(names))
    rows = found["row"].to_pylist()
    return Ordered(distinct, rows, [names.count(run) for run in distinct], dropped)


def test_digits_in_names_compare_as_numbers() -> None:
    names = ["seed_10", "seed_2", "seed_1b", "a", "m²", "10", "7", "seed_02"]
    ordered = ["7", "10", "a", "m²", "seed_1b", "seed_02", "seed_2", "seed_10"]
    assert sorted(names, key=natural_key) == ordered


def test_rows_in_order_are_left_alone() -> None:
    found = order(["a", "a", "b", "b"], [0, 10, 0, 10])
    assert found.rows == [0, 1, 2, 3]
    assert found.dropped == {}
    np.testing.assert_array_equal(found.lengths, [2, 2])


def test_interleaved_runs_are_gathered() -> None:
    found = order(["seed_10", "seed_2", "seed_10", "seed_2"], [0, 0, 5, 5])
    assert found.runs == ["seed_2", "seed_10"]
    np.testing.assert_array_equal(found.rows, [1, 3, 0, 2])


def test_restart_keeps_the_last_row_of_each_step() -> None:
    found = order(["a"] * 6, [0, 10, 20, 10, 20, 30])
    np.testing.assert_array_equal(found.rows, [0, 3, 4, 5])
    assert found.dropped == {"a": 2}


def test_repeats_next_to_each_other_count_as_a_restart() -> None:
    found = order(["a"] * 4 + ["b"] * 2, [1, 1, 500, 500, 1, 500])
    np.testing.assert_array_equal(found.rows, [1, 3, 4, 5])
    assert found.dropped == {"a": 2}
    np.testing.assert_array_equal(found.lengths, [2, 2])


def test_repeats_can_be_kept_in_stable_order() -> None:
    found = order(["a"] * 5, [0, 10, 20, 10, 20], "keep")
    np.testing.assert_array_equal(found.rows, [0, 1, 3, 2, 4])
    assert found.dropped == {}


@pytest.mark.parametrize("on_duplicate", ["last", "keep"])
@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([0, 10, 30, 20, 40], "run 'a': step 20 comes after step 30 and was not logged before"),
        ([0, 10, 5], "step 5 comes after step 10"),
        ([10, 0], "step 0 comes after step 10"),
        ([0, 10, 20, 10, 15, 20], "step 15 comes after step 20"),
    ],
)
def test_a_new_step_below_the_highest_is_out_of_order(
    steps: list[int], message: str, on_duplicate: str
) -> None:
    with pytest.raises(InputError, match=message):
        order(["a"] * len(steps), steps, on_duplicate)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6)), min_size=1, max_size=25))
def test_rule_against_a_loop_over_rows(rows: list[tuple[str, int]]) -> None:
    runs, steps = [run for run, _ in rows], [step for _, step in rows]
    last: dict[str, dict[int, int]] = {}
    legal = True
    for row, (run, step) in enumerate(rows):
        seen = last.setdefault(run, {})
        legal &= step in seen or all(step > earlier for earlier in seen)
        seen[step] = row
    if not legal:
        with pytest.raises(InputError, match="comes after step"):
            order(runs, steps)
        return
    found = order(runs, steps)
    expected = [row for run in sorted(last) for _, row in sorted(last[run].items())]
    assert found.rows == expected
    assert sum(found.dropped.values()) == len(rows) - len(expected)
