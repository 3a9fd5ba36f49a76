"""SCOPE_LIMITED: a stratum named in the lock that passes everything, and nothing less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from score_builders import design, noise_scores, scores_of

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import judge, judge_all, measure_strata

SETTINGS: dict[str, Any] = {
    "horizon": 100,
    "safe_gap": 150,
    "burn_in": 20,
    "lead_time_median_min": 20.0,
    "smoothing_sweep": [1],
    "coverage_min": 0.8,
    "detection_min": 0.8,
}
LATE = {"name": "late_events", "where": "event_step > 600"}
EARLY = {"name": "early_events", "where": "event_step <= 600"}


def works_late(
    n_runs: int, seed: int, prefix: str, *, after: float = 600.0, share: float = 0.5
) -> Scores:
    """Noise that is raised before each event that comes after a step, in every other run or so."""
    rng = np.random.default_rng(seed)
    raw = noise_scores(n_runs, 101, rng, spread=0.0, prefix=prefix)
    early = 10.0 * rng.integers(30, 60, size=n_runs)
    late = 10.0 * rng.integers(61, 100, size=n_runs)
    events = np.where(np.arange(n_runs) < share * n_runs, late, early)
    lead = events[:, None] - raw.steps
    within = (lead > 0) & (lead <= 100) & (events > after)[:, None]
    return scores_of(raw.values + 9 * within, list(events), prefix=prefix)


def case(**overrides: Any) -> Judgement:
    chosen = design(**{**SETTINGS, "strata": [EARLY, LATE], **overrides})
    return Judgement(works_late(200, 0, "run"), works_late(136, 1, "explore"), chosen)


@pytest.fixture(scope="module")
def judged() -> Any:
    return judge(case())


def test_a_score_that_works_late_only_is_bound_to_that_scope(judged: Any) -> None:
    verdict = judged
    assert verdict.label == "SCOPE_LIMITED"
    assert (verdict.x_scope.name, verdict.x_scope.where) == ("late_events", "event_step > 600")
    assert not verdict.x_alarm_eligible
    assert verdict.x_reasons == ("runs_detection_low", "windows_coverage_low", "not_locked")
    assert verdict.x_sentence.startswith(
        "Holds only where event_step > 600 (late_events: 100 of 200 runs): there, it detects "
        "97% [91, 99] of 100 events"
    )
    assert "Over all runs it may not raise an alarm: its first alarm detects" in verdict.x_sentence


def test_every_stratum_is_reported_with_what_stands_against_it(judged: Any) -> None:
    early, late = judged.x_strata
    assert (early.n_runs, early.n_events, early.passed) == (100, 100, False)
    assert "windows_coverage_low" in early.reasons
    assert early.label_flip_rate is None
    assert (late.n_runs, late.coverage, late.reasons, late.passed) == (100, 1.0, (), True)
    assert late.label_flip_rate == 0.0
    assert late.p_value == 1 / 2001
    # Three p-values of one candidate: over all runs, early, late; the two smallest are equal.
    assert late.p_adjusted == pytest.approx(3 / 2001)


def test_without_a_stratum_in_the_lock_it_is_no_more_than_a_ranking() -> None:
    verdict = judge(case(strata=[]))
    assert (verdict.label, verdict.x_scope) == ("RANK_ONLY", None)
    assert judge(case(strata=[EARLY])).label == "RANK_ONLY"


def test_a_score_that_holds_everywhere_is_supported_whatever_the_strata() -> None:
    held_out = works_late(200, 0, "run", after=0.0)
    judgement = Judgement(held_out, works_late(136, 1, "explore", after=0.0), case().design)
    verdict = judge(judgement)
    assert (verdict.label, verdict.x_scope) == ("SUPPORTED_FOR_ALARM", None)


def test_a_stratum_needs_events_enough() -> None:
    few = Judgement(
        works_late(200, 0, "run", share=0.1),
        works_late(136, 1, "explore"),
        design(**SETTINGS, strata=[LATE]),
    )
    parts = judge(few)
    assert parts.label == "RANK_ONLY"
    (late,) = parts.x_strata
    assert (late.n_events, late.reasons, late.passed) == (20, ("few_events",), False)
    assert "20 events are fewer than 30" in late.sentence


def test_a_stratum_without_runs_is_no_error() -> None:
    parts = judge(case(strata=[{"name": "never", "where": "event_step < 0"}]))
    assert parts.label == "RANK_ONLY"
    (never,) = parts.x_strata
    assert (never.n_runs, never.n_events, never.achieved, never.p_value) == (0, 0, None, None)
    assert never.sentence == "no run belongs to it"


def test_open_strata_decide_nothing() -> None:
    # 80 late runs of which some two in three are detected: coverage straddles its minimum of .75.
    judgement = Judgement(
        works_late(200, 0, "run", share=0.4, after=680.0),
        works_late(136, 1, "explore"),
        design(**{**SETTINGS, "coverage_min": 0.75, "detection_min": 0.75}, strata=[LATE]),
    )
    parts = judge(judgement)
    assert parts.label == "RANK_ONLY"
    assert {"runs_straddle", "windows_straddle"} & {*parts.x_strata[0].reasons}


def test_strata_join_the_family_of_the_lock() -> None:
    good, noise = (
        case(),
        Judgement(
            noise_scores(200, 101, np.random.default_rng(5)),
            noise_scores(136, 101, np.random.default_rng(6), prefix="explore"),
            case().design,
        ),
    )
    alone = judge_all({"good": good})["good"]
    found = judge_all({"good": good, "noise": noise, "clock": noise}, controls=["clock"])
    # Six p-values: the two smallest, equal ones of `good` are both multiplied by six.
    assert alone.x_strata[1].p_adjusted == pytest.approx(3 / 2001)
    assert found["good"].x_strata[1].p_adjusted == pytest.approx(6 / 2001)
    assert found["good"].x_p_adjusted == pytest.approx(6 / 2001)
    # As in `judge_all` without strata, a control is adjusted as if added alone.
    assert found["clock"].x_strata[0].p_adjusted >= found["noise"].x_strata[0].p_adjusted


def test_layer_d_within_the_stratum_has_its_say() -> None:
    judgement = case()
    noise = Judgement(works_late(200, 0, "run", after=2000.0), judgement.source, judgement.design)
    parts = judge(judgement, {"window=10": judgement, "window=20": noise})
    late = parts.x_strata[1]
    assert late.label_flip_rate == 0.5
    assert (late.reasons, late.passed) == (("runs_unstable", "windows_unstable"), False)
    assert "50% of 10 admissible variants get another result" in late.sentence
    assert parts.label == "RANK_ONLY"


def test_facts_beside_the_event_come_from_the_caller() -> None:
    strata = [{"name": "odd", "where": "parity == 1"}]
    judgement = case(strata=strata)
    parity = np.arange(200.0) % 2
    (odd,) = judge(judgement, facts={"parity": parity}).x_strata
    assert odd.n_runs == 100
    with pytest.raises(InputError, match="stratum 'odd': number of a run 'parity' is unknown"):
        judge(judgement)


def test_a_run_keeps_its_threshold_in_a_stratum() -> None:
    crossed = Judgement(works_late(200, 0, "run"), None, case().design)
    late = measure_strata(crossed, {})[1]
    for target, thresholds in crossed.calibrated.thresholds.items():
        np.testing.assert_array_equal(
            late.judgement.calibrated.thresholds[target], thresholds[late.rows]
        )


def test_by_hand_in_the_letter() -> None:
    """Horizon 20, gap 40: runs 0 and 1 have late events and alarm in time, run 2 does neither."""
    values = [[0.0] * 8 + [1.0] * 3, [0.0] * 8 + [1.0] * 3, [0.0] * 11]
    chosen = design(
        protocol="v0.4",
        event_count_min=2,
        coverage_min=0.9,
        lead_time_median_min=10.0,
        smoothing_sweep=[1],
        fpr_targets=[0.05],
        fpr_eps=0.1,
        min_targets_ok=1,
        run_groups=2,
        strata=[{"name": "late", "where": "event_step > 60"}],
    )
    judgement = Judgement(scores_of(values, [100, 100, 60]), Locked({1: {0.05: 1.0}}), chosen)
    parts = judge(judgement)
    # Coverage 2 of 3 is under .9; in the stratum it is 2 of 2, 20 steps ahead.
    assert parts.layer_C.at(0.05).coverage == pytest.approx(2 / 3)
    (late,) = parts.x_strata
    assert (late.n_runs, late.coverage, late.lead_time_median) == (2, 1.0, 20.0)
