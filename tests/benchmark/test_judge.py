"""Judging anything at all ends in exactly one label."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from score_builders import design, noise_scores, raised_before_event, scores_of

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.judge import judge
from gmb_hf.benchmark.results import indicator_record
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import LABELS


def any_scores(rng: np.random.Generator, prefix: str) -> Scores:
    """A few runs of any length, with or without events, of a score with or without ties."""
    n_runs = int(rng.integers(1, 9))
    lengths = rng.integers(1, 40, n_runs)
    rough = rng.choice([0.01, 1.0, 100.0])
    values = [np.round(rng.normal(size=n) / rough) * rough for n in lengths]
    events = [None if rng.random() < 0.3 else 10.0 * int(rng.integers(0, n)) for n in lengths]
    return scores_of(values, events, prefix=prefix)


@settings(max_examples=150, deadline=None)
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
    prereg = design(
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
        any_scores(rng, "explore") if calibration == "explore" else None,
        prereg,
        locked if calibration == "locked" else None,
        {3: locked} if calibration == "locked" else {},
    )
    parts = judge(judgement)
    verdict = parts.verdict
    assert verdict.label in LABELS
    assert verdict.alarm_eligible is (verdict.label == "SUPPORTED_FOR_ALARM")
    assert bool(verdict.reasons) is not verdict.alarm_eligible
    assert verdict.sentence.endswith(".")
    for point in parts.layer_c.points:
        assert point.coverage is None or 0 <= point.coverage <= 1
        assert point.p_value is None or 0 < point.p_value <= 1
    for result in parts.layer_b.targets:
        assert result.achieved is None or 0 <= result.achieved <= 1
        assert result.met or result.state != "met"
    json.dumps(parts.to_dict())
    assert indicator_record("score", parts).label == verdict.label


def test_the_order_of_the_runs_does_not_change_what_is_measured() -> None:
    rng = np.random.default_rng(1)
    prereg = design(horizon=100, safe_gap=150, smoothing_sweep=[1])
    explore = raised_before_event(noise_scores(30, 60, rng, prefix="explore"), 3.0, over=80)
    held_out = raised_before_event(noise_scores(40, 60, rng), 3.0, over=80)
    first = judge(Judgement(held_out, explore, prereg))
    turned = judge(
        Judgement(held_out.select(np.arange(40)[::-1]), explore.select(np.arange(30)[::-1]), prereg)
    )
    assert first.layer_a.auc == pytest.approx(turned.layer_a.auc)
    for one, other in zip(first.layer_b.targets, turned.layer_b.targets, strict=True):
        assert one.threshold == other.threshold
        assert one.achieved == pytest.approx(other.achieved)
    assert first.layer_b.fpr_min == pytest.approx(turned.layer_b.fpr_min)
    for one, other in zip(first.layer_c.points, turned.layer_c.points, strict=True):
        assert one.coverage == other.coverage
        assert sorted(one.lead_times) == sorted(other.lead_times)
        assert one.shift_null is not None
        assert other.shift_null is not None
        assert one.shift_null.mean_coverage == pytest.approx(other.shift_null.mean_coverage)
        assert one.risk_set_null is not None
        assert other.risk_set_null is not None
        assert one.risk_set_null.mean_coverage == pytest.approx(other.risk_set_null.mean_coverage)


@given(scale=st.sampled_from([0.25, 2.0, 1024.0]), protocol=st.sampled_from(["strict", "v0.4"]))
@settings(max_examples=6, deadline=None)
def test_the_unit_of_the_score_does_not_matter(scale: float, protocol: str) -> None:
    rng = np.random.default_rng(2)
    raw = raised_before_event(noise_scores(40, 60, rng), 3.0, over=80)
    prereg = design(horizon=100, safe_gap=150, protocol=protocol, smoothing_sweep=[1])
    scaled = scores_of(raw.values * scale, list(raw.event_step))
    first, second = judge(Judgement(raw, None, prereg)), judge(Judgement(scaled, None, prereg))
    assert first.verdict == second.verdict
    assert first.layer_d == second.layer_d
    for one, other in zip(first.layer_b.targets, second.layer_b.targets, strict=True):
        assert one.achieved == other.achieved
        assert other.threshold == pytest.approx(one.threshold * scale)
