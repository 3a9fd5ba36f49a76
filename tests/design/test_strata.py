"""Predicates of strata: parsed, never evaluated, and honest about what is not known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.design.design import Design
from gmb_hf.design.strata import Condition, Stratum, event_facts, parse_predicate

SHORT = {"horizon": 200, "safe_gap": 400}


def stratum(where: str) -> Stratum:
    return Stratum.parse({"name": "part", "where": where}, where="test")


def test_comparisons_joined_by_and() -> None:
    assert parse_predicate("event_step > 1000") == (Condition("event_step", ">", 1000.0),)
    assert parse_predicate(" weight_decay>=.5  and seed != 1e2 ") == (
        Condition("weight_decay", ">=", 0.5),
        Condition("seed", "!=", 100.0),
    )


@pytest.mark.parametrize(
    "where",
    [
        "",
        "seed",
        "seed >",
        "seed > high",
        "1000 < event_step",
        "seed > 1 or seed < 0",
        "seed > 1 and",
        "seed > inf",
        "seed > nan",
        "__import__('os').getcwd() == 1",
        "seed > 1; seed < 2",
        "seed = 1",
    ],
)
def test_what_is_no_predicate_is_refused_with_an_example(where: str) -> None:
    with pytest.raises(InputError, match=r"where: .* is no predicate: .* e\.g\. event_step > 1000"):
        stratum(where)


@pytest.mark.parametrize(
    ("where", "chosen"),
    [
        ("event_step > 1000", [False, True, True]),
        ("event_step <= 1000", [True, False, False]),
        ("event_step >= 2000", [False, True, True]),
        ("seed == 7", [True, False, False]),
        ("seed != 7", [False, False, True]),
        ("seed < 9 and event_step < 1500", [True, False, False]),
    ],
)
def test_a_run_belongs_where_its_numbers_say_so(where: str, chosen: list[bool]) -> None:
    # Events at 1000, 2000 and none; the second seed is not known, so no comparison holds for it.
    facts = {**event_facts(np.array([1000, 2000, np.nan])), "seed": np.array([7.0, np.nan, 8.0])}
    assert stratum(where).holds(facts).tolist() == chosen


def test_an_unknown_number_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"stratum 'part': number of a run 'sed' .* 'seed'\?"):
        stratum("sed > 1").holds({"seed": np.zeros(2)})


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=9),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.integers(-10, 10),
)
def test_equals_python(values: list[float], sign: str, number: int) -> None:
    found = stratum(f"x {sign} {number}").holds({"x": np.array(values)})
    assert found.tolist() == [eval(f"{value} {sign} {number}") for value in values]


class TestInAPreregistration:
    def test_reads_writes_and_hashes(self, tmp_path: object) -> None:
        strata = [{"name": "late", "where": "event_step > 1000"}]
        design = Design.minimal(**SHORT, strata=strata)
        assert Design.parse(design.plain(), where="copy") == design
        assert design.plain()["x_strata"] == strata
        assert design.strata[0].names == ("event_step",)

    def test_each_name_once(self) -> None:
        twice = [{"name": "late", "where": "seed > 1"}] * 2
        with pytest.raises(InputError, match="x_strata: the name 'late' is used twice"):
            Design.minimal(**SHORT, strata=twice)

    def test_a_predicate_names_its_place(self) -> None:
        with pytest.raises(InputError, match=r"x_strata\[0\]\.where: 'late' is no predicate"):
            Design.minimal(**SHORT, strata=[{"name": "late", "where": "late"}])

    def test_the_template_begins_without_any(self) -> None:
        assert "\nx_strata: []" in Design.template()


class TestLooks:
    def test_alpha_is_split_evenly(self) -> None:
        design = Design.minimal(**SHORT, looks=4, max_eval_seeds=100, alpha=0.05)
        assert design.alpha_per_look == pytest.approx(0.0125)
        assert Design.minimal(**SHORT).alpha_per_look == 0.05

    def test_something_must_bound_what_may_be_added(self) -> None:
        with pytest.raises(InputError, match="x_looks is 2, but nothing bounds the runs"):
            Design.minimal(**SHORT, looks=2)
        assert Design.minimal(**SHORT, looks=2, seeds_eval=[1, 2]).looks == 2

    def test_declared_seeds_fit_the_bound(self) -> None:
        with pytest.raises(InputError, match=r"x_max_eval_seeds is 1, but .* lists 2 seeds"):
            Design.minimal(**SHORT, seeds_eval=[1, 2], max_eval_seeds=1)

    @pytest.mark.parametrize("field", ["looks", "max_eval_seeds"])
    def test_at_least_one(self, field: str) -> None:
        with pytest.raises(InputError, match=f"x_{field} must be greater than or equal to 1"):
            Design.minimal(**SHORT, **{field: 0})
