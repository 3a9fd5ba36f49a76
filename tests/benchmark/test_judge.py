"""Judging anything at all ends in exactly one label."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_builders import design, noise_scores, null_paths, raised_before_event, scores_of

from gmb_hf.base.documents import plain_data
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.records import LABELS
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import judge
from gmb_hf.core.thresholds import pass_line


def any_scores(rng: np.random.Generator, prefix: str) -> Scores:
    """A few runs of any length, with or without events, of a score with or without ties."""
    n_runs = int(rng.integers(1, 9))
    lengths = rng.integers(1, 40, n_runs)
    rough = rng.choice([0.01, 1.0, 100.0])
    values = [np.round(rng.normal(size=n) / rough) * rough for n in lengths]
    events = [None if rng.random() < 0.3 else 10.0 * int(rng.integers(0, n)) for n in lengths]
    return scores_of(values, events, prefix=prefix)


@given(
    seed=st.integers(0, 10**6),
    protocol=st.sampled_from(["strict", "v0.4"]),
    calibration=st.sampled_from(["explore", "none", "locked"]),
    count_min=st.sampled_from([1, 30]),
)
def test_any_input_gets_exactly_one_label(
    seed: int, protocol: str, calibration: str, count_min: int
) -> None:
    rng = np.random.default_rng(seed)
    chosen = design(
        protocol=protocol,
        event_count_min=count_min,
        null_draws=50,
        bootstrap_draws=50,
        smoothing_sweep=[1, 3],
        burn_in=int(rng.integers(0, 80)),
    )
    locked = {0.01: math.inf, 0.05: float(rng.normal()), 0.1: 0.0}
    judgement = Judgement(
        any_scores(rng, "run"),
        any_scores(rng, "explore")
        if calibration == "explore"
        else Locked({1: locked, 3: locked}, None)
        if calibration == "locked"
        else None,
        chosen,
    )
    verdict = judge(judgement)
    assert verdict.label in LABELS
    assert verdict.x_alarm_eligible is False
    assert "not_locked" in verdict.x_reasons
    assert verdict.x_sentence.endswith(".")
    for point in verdict.layer_C.at_fpr:
        assert point.coverage is None or 0 <= point.coverage <= 1
        assert point.x_p_value is None or 0 < point.x_p_value <= 1
    for result in verdict.layer_B.achieved:
        assert result.achieved is None or 0 <= result.achieved <= 1
        met = result.x_state == "met" and protocol == "strict"
        if met and not result.x_within_budget:  # a promise that these runs do not refute
            assert judgement.basis == "promised"
            assert result.x_interval is not None
            assert result.x_interval.low <= pass_line(result.target, chosen.fpr_eps) + 1e-9
    plain = plain_data(verdict.model_dump())
    json.dumps(plain)
    nulls = null_paths({key: value for key, value in plain.items() if key != "x_null_reasons"})
    assert set(plain["x_null_reasons"]) == nulls
    assert "not measured" not in plain["x_null_reasons"].values()


def test_the_order_of_the_runs_does_not_change_what_is_measured() -> None:
    rng = np.random.default_rng(1)
    chosen = design(horizon=100, safe_gap=150, smoothing_sweep=[1])
    explore = raised_before_event(noise_scores(30, 60, rng, prefix="explore"), 3.0, over=80)
    held_out = raised_before_event(noise_scores(40, 60, rng), 3.0, over=80)
    first = judge(Judgement(held_out, explore, chosen))
    turned = judge(
        Judgement(held_out.select(np.arange(40)[::-1]), explore.select(np.arange(30)[::-1]), chosen)
    )
    assert first.layer_A.auc == pytest.approx(turned.layer_A.auc)
    for one, other in zip(first.layer_B.achieved, turned.layer_B.achieved, strict=True):
        assert one.x_threshold == other.x_threshold
        assert one.achieved == pytest.approx(other.achieved)
    assert first.layer_B.fpr_min == pytest.approx(turned.layer_B.fpr_min)
    for one, other in zip(first.layer_C.at_fpr, turned.layer_C.at_fpr, strict=True):
        assert one.coverage == other.coverage
        assert sorted(one.x_lead_times) == sorted(other.x_lead_times)
        assert one.x_baselines["shift"].detection_rate == pytest.approx(
            other.x_baselines["shift"].detection_rate
        )
        assert one.x_baselines["risk_set"].detection_rate == pytest.approx(
            other.x_baselines["risk_set"].detection_rate
        )


@given(scale=st.sampled_from([0.25, 2.0, 1024.0]), protocol=st.sampled_from(["strict", "v0.4"]))
@settings(max_examples=6, deadline=None)
def test_the_unit_of_the_score_does_not_matter(scale: float, protocol: str) -> None:
    rng = np.random.default_rng(2)
    raw = raised_before_event(noise_scores(40, 60, rng), 3.0, over=80)
    chosen = design(horizon=100, safe_gap=150, protocol=protocol, smoothing_sweep=[1])
    scaled = scores_of(raw.values * scale, list(raw.event_step))
    first, second = judge(Judgement(raw, None, chosen)), judge(Judgement(scaled, None, chosen))
    assert (first.label, first.x_sentence) == (second.label, second.x_sentence)
    assert first.layer_D == second.layer_D
    for one, other in zip(first.layer_B.achieved, second.layer_B.achieved, strict=True):
        assert one.achieved == other.achieved
        assert other.x_threshold == pytest.approx(one.x_threshold * scale)
