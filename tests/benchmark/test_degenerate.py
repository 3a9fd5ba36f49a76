"""Input at the edge: a sound verdict, or one line that says what is wrong; never a warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from score_builders import design, scores_of
from synthetic import FEW_MEMBERS

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.verdict import IndicatorRecord, judge, judge_all
from gmb_hf.runs.panel import Panel

PROTOCOLS = pytest.mark.parametrize("protocol", ["strict", "v0.4"])
NOTHING_NEGATIVE = (
    "events_too_early",
    "runs_no_negative_windows",
    "windows_no_negative_windows",
    "not_locked",
)
NOISE = np.random.default_rng(0).normal(size=(40, 30))


@pytest.fixture(autouse=True)
def _no_warnings() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def verdict_parts(values: Any, events: Any, **overrides: Any) -> IndicatorRecord:
    """Judged alone and in a lock of two, which must agree but for the adjustment."""
    chosen = design(**{**FEW_MEMBERS, "null_draws": 200, "bootstrap_draws": 100, **overrides})
    judgement = Judgement(scores_of(values, events), None, chosen)
    alone, both = judge(judgement), judge_all({"one": judgement, "two": judgement})
    assert both["one"].label == both["two"].label
    assert both["one"].layer_B == alone.layer_B
    return alone


@PROTOCOLS
@pytest.mark.parametrize("event", [None, 0.0])
def test_runs_of_one_checkpoint(protocol: str, event: float | None) -> None:
    parts = verdict_parts([[1.0]] * 40, [event] * 40, protocol=protocol)
    assert not parts.x_alarm_eligible
    assert (parts.layer_B.x_n_windows, parts.layer_C.at(0.05).x_n_covered) == (0, 0)
    if event is None:
        assert parts.x_reasons[:2] == ("few_events", "not_locked")
        assert parts.x_runs_to_settle is None
    elif protocol == "strict":
        assert parts.x_reasons == NOTHING_NEGATIVE


def test_some_runs_of_one_checkpoint_count_for_nothing() -> None:
    mixed = [[1.0]] * 5 + [list(row) for row in NOISE]
    parts = verdict_parts(mixed, [None] * 5 + [250.0] * 40, protocol="v0.4", run_groups=2)
    without = verdict_parts(NOISE, [250.0] * 40, protocol="v0.4", run_groups=2)
    for found, expected in zip(parts.layer_B.achieved, without.layer_B.achieved, strict=True):
        assert (found.x_threshold, found.achieved) == (expected.x_threshold, expected.achieved)
    assert parts.layer_C.at(0.05).coverage == without.layer_C.at(0.05).coverage


@PROTOCOLS
def test_all_equal_scores_have_a_floor_at_one(protocol: str) -> None:
    parts = verdict_parts(np.full((40, 30), 3.5), [250.0] * 40, protocol=protocol)
    assert parts.label == "RANK_ONLY"
    assert parts.x_reasons[0] == "windows_floor"
    certificate = parts.layer_B.x_floor_certificate
    assert certificate is not None
    assert (certificate.f_min_pos, certificate.tied_value) == (1.0, 3.5)
    assert parts.layer_A.auc == 0.5
    assert parts.diagnostics.effective_support_size == 1.0
    assert parts.diagnostics.x_n_eff is None


@PROTOCOLS
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_scores_that_are_not_finite(protocol: str, bad: float) -> None:
    values = NOISE.copy()
    values[3, 4] = bad
    with pytest.raises(
        InputError, match=r"run 'run_3', step 40: score 'score' is .* \(x_nan: ignore\)"
    ):
        verdict_parts(values, [250.0] * 40, protocol=protocol)
    parts = verdict_parts(values, [250.0] * 40, protocol=protocol, nan="ignore")
    assert parts.layer_B.x_dropped_windows == 1
    assert parts.label == "RANK_ONLY"


@PROTOCOLS
def test_nothing_but_infinite_scores(protocol: str) -> None:
    values = np.full((40, 30), np.inf)
    parts = verdict_parts(values, [250.0] * 40, protocol=protocol, nan="ignore")
    assert not parts.x_alarm_eligible
    assert (parts.layer_B.x_n_windows, parts.layer_C.at(0.05).coverage) == (0, 0.0)


@PROTOCOLS
def test_scores_near_the_largest_number(protocol: str) -> None:
    huge = verdict_parts(NOISE * 1e307, [250.0] * 40, protocol=protocol)
    plain = verdict_parts(NOISE, [250.0] * 40, protocol=protocol)
    assert huge.label == plain.label
    assert huge.layer_A == plain.layer_A


@PROTOCOLS
def test_no_events(protocol: str) -> None:
    parts = verdict_parts(NOISE, [None] * 40, protocol=protocol)
    assert (parts.label, parts.x_reasons[0]) == ("INCONCLUSIVE", "few_events")
    assert parts.layer_C.at(0.05).coverage is None
    assert parts.layer_C.at(0.05).x_p_value is None
    assert parts.layer_B.x_n_windows > 0


def test_every_event_before_burn_in() -> None:
    verdict = verdict_parts(NOISE, [50.0] * 40, burn_in=100)
    assert (verdict.label, verdict.x_reasons) == ("INCONCLUSIVE", NOTHING_NEGATIVE)
    assert verdict.x_sentence == (
        "The design is at fault: no alarm can come before 40 of 40 events, which fall on a first "
        "checkpoint or in the burn-in; set x_event_t_min or x_theta_floor, or a shorter x_burn_in. "
        "Not decided: no judged run has a negative window: none goes on past burn-in 100 to 40 "
        "steps before its event."
    )
    assert verdict.x_runs_to_settle is None


def test_an_event_before_burn_in_counts_as_uncovered() -> None:
    parts = verdict_parts(NOISE, [50.0] * 10 + [250.0] * 30, burn_in=100)
    primary = parts.layer_C.at(0.05)
    assert (primary.x_n_events, primary.x_n_too_early) == (40, 10)
    assert parts.layer_B.x_n_runs == 30


@PROTOCOLS
def test_no_number_of_runs_is_promised_where_events_come_too_early(protocol: str) -> None:
    parts = verdict_parts(NOISE[:20], [0.0] * 20, protocol=protocol)
    assert parts.label == "INCONCLUSIVE"
    assert parts.x_reasons[0] == "events_too_early"
    assert parts.x_sentence.startswith("The design is at fault: no alarm can come before 20 of 20 ")
    assert "settling" not in parts.x_sentence
    assert parts.x_runs_to_settle is None


@PROTOCOLS
def test_one_run(protocol: str) -> None:
    parts = verdict_parts(NOISE[:1], [250.0], protocol=protocol)
    assert parts.x_sentence.startswith("Not decided: 1 event is fewer than 30")
    # By the letter nothing else is ever open; else a threshold waits for runs, and then for more.
    assert (parts.x_runs_to_settle is None) == (protocol == "strict")
    enough = verdict_parts(NOISE[:1], [250.0], protocol=protocol, event_count_min=1)
    assert not enough.x_alarm_eligible
    if protocol == "strict":
        assert enough.x_reasons == ("runs_few_runs", "windows_few_runs", "not_locked")
        # Each open question once, whichever gates of the two units it leaves open.
        question = "a threshold for 1 run in 20 takes 19 calibration runs with negative windows"
        assert enough.x_sentence.count(question) == 1
        assert enough.x_sentence.count("; a threshold for 0.05 takes 19 calibration runs") == 1


def test_no_number_of_runs_where_no_threshold_is_known() -> None:
    """15 of 30 runs have negatives, and .05 takes 19: what a threshold gives then, nobody knows."""
    parts = verdict_parts(
        NOISE[:30],
        [30.0, 250.0] * 15,
        fpr_targets=[0.05],
        min_targets_ok=1,
        coverage_min=0.0,
    )
    assert parts.x_reasons == ("runs_few_runs", "windows_few_runs", "not_locked")
    by_unit = {(gate.unit, gate.gate): gate.runs_to_settle for gate in parts.x_gates}
    assert by_unit["runs", "budget"] is by_unit["windows", "budget"] is None
    assert parts.x_runs_to_settle is None


def test_no_run_at_all() -> None:
    nobody = scores_of(NOISE[:2], [250.0, None]).select([])
    with pytest.raises(InputError, match="score 'score': there is no run to judge"):
        judge(Judgement(nobody, None, design()))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([-10, 0, 10], "step -10 is not a whole number from 0 on"),
        ([0, 5.5, 10], r"step 5\.5 is not a whole number from 0 on"),
        ([0, 10, 10], "step 10 follows step 10; steps must increase"),
    ],
)
def test_steps_that_are_no_steps(steps: list[float], message: str) -> None:
    with pytest.raises(InputError, match=f"run 'r': {message}"):
        Panel.from_series("s", [("r", steps, [1.0, 2.0, 3.0])])
