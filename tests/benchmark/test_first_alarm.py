"""First alarms: outcomes by hand, then the loops of `plain_first_alarm.py`, then laws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import plain_first_alarm as plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest
from score_builders import design, scores_of

from benchmarks import first_alarm as truths
from benchmarks.laws import LAWS, noise
from gmb_hf.base.stats import exact_binomial
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord, measure, run_budget_state
from gmb_hf.benchmark.gates import budget_state
from gmb_hf.benchmark.judgement import Judgement, Locked, Source
from gmb_hf.benchmark.records import RANK_ONLY, SUPPORTED
from gmb_hf.benchmark.scores import Scores
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.core.nulls import constant_hazard, count_tails, detects_more, risk_set
from gmb_hf.core.thresholds import (
    in_words,
    promise,
    run_maxima,
    run_threshold,
    runs_to_promise,
    shown_line,
)
from gmb_hf.design.design import Design
from gmb_hf.runs.panel import Panel

BUDGET = 0.3  # finite from three calibration runs on


def first_alarm_design(**overrides: Any) -> Design:
    """Horizon 20, safe gap 40, W_event 10, one budget."""
    budgets = {"run_budgets": [BUDGET], "primary_run_budget": BUDGET}
    return design(**{**budgets, **overrides})


def alarms_of(
    values: Any, events: Sequence[float | None], threshold: float = 1.0, **overrides: Any
) -> FirstAlarms:
    """First alarms of hand-made scores, one every 10 steps, at one locked threshold."""
    return locked(scores_of(values, events), {BUDGET: threshold}, **overrides).first_alarms(BUDGET)


def locked(scores: Scores, thresholds: dict[float, float], **overrides: Any) -> Judgement:
    """A judgement of first alarms at given thresholds."""
    return Judgement(scores, Locked(None, {1: thresholds}), first_alarm_design(**overrides))


def n_gap(alarms: FirstAlarms) -> list[int]:
    """Monitored checkpoints of each run between its negatives and its event."""
    return alarms.grid.n_gap[alarms.rows].tolist()


def rising_at(*columns: int, n: int = 12) -> list[float]:
    """A score of 0 that is 1 at some checkpoints."""
    return [1.0 if column in columns else 0.0 for column in range(n)]


class TestOutcomesByHand:
    """t* = 80, safe gap 40, horizon 20: false up to 40, early 50, timely 60 and 70."""

    @pytest.mark.parametrize(
        ("columns", "outcome", "step"),
        [
            ((4,), "false_alarm", 40),  # exactly at t* - safe_gap
            ((5,), "early", 50),  # one checkpoint later, just before the horizon
            ((6,), "timely", 60),  # exactly at t* - H
            ((7,), "timely", 70),
            ((8,), "miss", None),  # at t*
            ((9, 11), "miss", None),  # after it
            ((), "miss", None),
            ((0,), "false_alarm", 0),
            ((4, 6), "false_alarm", 40),  # the first one counts
            ((5, 6), "early", 50),
            ((6, 7, 8), "timely", 60),
        ],
    )
    def test_before_an_event(self, columns, outcome, step):
        alarms = alarms_of([rising_at(*columns)], [80])
        assert alarms.outcomes == [outcome]
        assert alarms.step.tolist() == [step] if step is not None else np.isnan(alarms.step).all()
        assert (alarms.n_negative.tolist(), n_gap(alarms)) == ([5], [3])

    @pytest.mark.parametrize(
        ("columns", "outcome"),
        [
            ((6,), "false_alarm"),  # 110 - 10 - 40 = 60, the last negative
            ((7,), "correct_rejection"),  # the last stretch counts neither way
            ((11,), "correct_rejection"),
            ((), "correct_rejection"),
        ],
    )
    def test_without_an_event(self, columns, outcome):
        alarms = alarms_of([rising_at(*columns)], [None])
        assert alarms.outcomes == [outcome]
        assert alarms.n_negative.tolist() == [7]
        # Another run's event may still meet it.
        assert alarms.grid.first.tolist() == [columns[0] * 10.0] if columns else True

    def test_before_burn_in_nothing_alarms(self):
        values = [rising_at(2), rising_at(2, 6), rising_at(3)]
        alarms = alarms_of(values, [80, 80, 80], burn_in=25)
        assert alarms.outcomes == ["miss", "timely", "false_alarm"]
        assert alarms.n_negative.tolist() == [2] * 3

    def test_an_event_in_the_burn_in_is_missed(self):
        alarms = alarms_of([rising_at(*range(12))], [30], burn_in=30)
        assert alarms.outcomes == ["miss"]
        assert (alarms.n_runs, alarms.n_events) == (0, 1)

    def test_an_infinite_threshold_never_alarms(self):
        alarms = alarms_of([[1e308] * 12] * 2, [80, None], math.inf)
        assert alarms.outcomes == ["miss", "correct_rejection"]

    def test_a_run_without_negative_windows_has_no_false_alarm(self):
        alarms = alarms_of([[1.0] * 12, [0.0] * 12], [30, 80])
        assert alarms.outcomes == ["early", "miss"]
        assert (alarms.n_runs, alarms.n_false, alarms.n_events) == (1, 0, 2)

    def test_an_event_at_the_first_step_is_missed(self):
        alarms = alarms_of([[1.0] * 12], [0])
        assert alarms.outcomes == ["miss"]
        assert (alarms.n_negative[0], n_gap(alarms)) == (0, [0])

    def test_a_score_that_is_not_finite_does_not_alarm(self):
        values = [rising_at(6)]
        values[0][1] = values[0][6] = math.nan
        values[0][3] = math.inf
        values[0][7] = 1.0
        alarms = alarms_of(values, [80], nan="ignore")
        assert (alarms.outcomes, alarms.step.tolist()) == (["timely"], [70])
        assert (alarms.n_negative.tolist(), n_gap(alarms)) == ([3], [2])

    def test_the_threshold_itself_alarms(self):
        assert alarms_of([[0.5] * 12], [80], 0.5).outcomes == ["false_alarm"]
        assert alarms_of([[0.5] * 12], [80], math.nextafter(0.5, 1)).outcomes == ["miss"]

    def test_runs_of_unequal_length(self):
        alarms = alarms_of([[0.0] * 12, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], [None, None])
        # The short one ends at 50: negatives up to 0.
        assert alarms.n_negative.tolist() == [7, 1]
        assert alarms.outcomes == ["correct_rejection", "correct_rejection"]

    def test_a_run_cut_before_its_event(self):
        # The log ends at 50, the event is known to come at 80.
        alarms = alarms_of([rising_at(5, n=6), rising_at(4, n=6), [0.0] * 6], [80, 80, 80])
        assert alarms.outcomes == ["early", "false_alarm", "miss"]
        assert (alarms.n_negative.tolist(), n_gap(alarms)) == ([5] * 3, [1] * 3)

    def test_an_event_ends_the_watch_of_a_plateau_too(self):
        plateau = {"event_type": "E_plateau", "plateau_threshold": 0.5, "plateau_checkpoints": 3}
        alarms = alarms_of([rising_at(5), rising_at(6)], [None, None], **plateau)
        # Two checkpoints are needed to see one: 90 - 40 = 50.
        assert alarms.outcomes == ["false_alarm", "correct_rejection"]


def test_the_record_of_a_panel_by_hand():
    values = [rising_at(4), rising_at(5), rising_at(6), rising_at(7), [0.0] * 12, rising_at(2)]
    events = [80, 80, 80, 80, 80, None]
    judgement = locked(scores_of(values, events), {BUDGET: 1.0})
    rival = np.array([True, False, True, False, False, False])
    found = measure(judgement, BUDGET, {"clock": rival})
    assert (found.n_runs, found.n_false, found.n_false_before_event) == (6, 2, 1)
    assert (found.n_events, found.n_timely, found.n_early, found.n_missed) == (5, 2, 1, 1)
    assert (found.n_event_free, found.n_event_free_false) == (1, 1)
    assert (found.n_detected, found.detection_rate, found.timely_rate) == (3, 0.6, 0.4)
    assert (found.early_rate, found.miss_rate) == (0.2, 0.2)
    assert found.false_alarm_rate == 2 / 6
    assert found.lead_median == 20  # of 30, 20 and 10
    assert (found.lead_q25, found.lead_q75) == (15, 25)
    assert found.steps_to_false_median == 30  # of 40 and 20
    # Two of the three that are detected are the score's alone, one of two the clock's.
    assert found.controls["clock"].detection_rate == 0.4
    assert found.controls["clock"].p_value == 0.5
    # At risk at 80 are all six; three have their first alarm in (40, 80).
    assert found.baselines["risk_set"].detection_rate == 0.5
    assert found.baselines["risk_set"].p_value == 0.5
    # 5 runs with 5 negatives and one with 7: 1/3 of them is expected to alarm falsely.
    h = plain.hazard([5] * 5 + [7], 1 / 3)
    hazard = found.baselines["constant_hazard"]
    assert hazard.detection_rate == pytest.approx((1 - h) ** 5 * (1 - (1 - h) ** 3), abs=1e-14)
    assert list(found.beside) == ["constant_hazard", "risk_set", "clock"]
    assert found.p_value == max(one.p_value for one in found.baselines.values())
    assert found.chance == max(one.detection_rate for one in found.baselines.values())


class TestTheBudget:
    @pytest.mark.parametrize(
        ("budget", "calibration", "least"),
        [
            (0.05, "marginal", 19),
            (0.10, "marginal", 9),
            (0.20, "marginal", 4),
            (0.05, "conditional", 45),
            (0.10, "conditional", 22),
        ],
    )
    def test_calibration_runs_that_it_takes(self, budget, calibration, least):
        assert runs_to_promise(budget, calibration) == least
        maxima = np.arange(float(least))
        assert run_threshold(maxima, budget, calibration) == math.nextafter(least - 1, math.inf)
        assert run_threshold(maxima[:-1], budget, calibration) == math.inf

    @pytest.mark.parametrize("calibration", ["marginal", "conditional"])
    @pytest.mark.parametrize("budget", [0.01, 0.05, 0.07, 0.1, 0.2, 0.3, 1 / 3, 0.5, 0.95])
    def test_ranks_and_promises_in_fractions(self, budget, calibration):
        for m in (*range(0, 24, 3), 22, 44, 45, 110):
            found = promise(budget, m, calibration)
            assert found.rank == plain.rank(budget, m, calibration), m
            expected, upper = plain.promised(budget, m, calibration)
            assert found.expected == expected
            assert found.upper == pytest.approx(upper, abs=1e-12)
            assert (found.expected if calibration == "marginal" else found.upper) <= budget + 1e-9

    def test_the_promise_as_it_is_printed(self):
        found = promise(0.1, 110)
        assert (round(found.expected, 2), round(found.upper, 2)) == (0.10, 0.14)

    def test_runs_without_negatives_do_not_count(self):
        maxima = np.array([1.0, np.nan, 3.0, 2.0, np.nan])
        assert run_threshold(maxima, BUDGET, "marginal") == math.nextafter(3.0, math.inf)
        assert run_threshold(maxima[:3], BUDGET, "marginal") == math.inf
        assert run_threshold(maxima[:0], BUDGET, "marginal") == math.inf

    def test_ties_lie_below_the_threshold(self):
        assert run_threshold(np.full(19, 2.0), 0.05, "marginal") == math.nextafter(2.0, math.inf)


class TestTheGate:
    """Gate B by runs: promise or proof."""

    def state(self, n_false: int, *, shown: bool, budget: float = 0.1, tau: float = 1.0) -> str:
        values = np.zeros((100, 12))
        values[:n_false, 0] = 1.0
        chosen = first_alarm_design(run_budgets=[budget], primary_run_budget=budget)
        source = Locked(None, {1: {budget: tau}})
        judgement = Judgement(
            scores_of(values, [80] * 100), source, chosen, basis="shown" if shown else "promised"
        )
        return measure(judgement, budget, {}).state

    @pytest.mark.parametrize("n_false", range(0, 40, 3))
    @pytest.mark.parametrize("shown", [False, True])
    def test_by_the_exact_interval(self, n_false, shown):
        met = plain.is_met(0.1, n_false, 100, shown=shown)
        assert (self.state(n_false, shown=shown) == "met") == met

    def test_a_promise_is_only_refuted(self):
        # 16 of 100: [.094, .247]; 17 of 100: [.102, .258].
        assert self.state(16, shown=False) == "met"
        assert self.state(17, shown=False) == "missed"

    def test_what_must_be_shown_needs_its_upper_end(self):
        assert shown_line(0.1) == pytest.approx(0.15)
        assert shown_line(0.05) == pytest.approx(0.075)
        assert shown_line(0.2) == 0.25
        # 8 of 100 reach .152, 7 reach .139; 23 of 100 begin at .152.
        assert self.state(7, shown=True) == "met"
        assert self.state(8, shown=True) == "straddles"
        assert self.state(22, shown=True) == "straddles"
        assert self.state(23, shown=True) == "missed"

    @pytest.mark.parametrize("shown", [False, True])
    def test_an_infinite_threshold_shows_nothing(self, shown):
        assert self.state(0, shown=shown, tau=math.inf) == "straddles"

    @pytest.mark.parametrize("basis", ["promised", "shown", "rule"])
    def test_without_negative_windows_nothing_is_decided(self, basis):
        judgement = Judgement(
            scores_of([[0.0] * 12] * 3, [30] * 3),
            Locked(None, {1: {BUDGET: 1.0}}),
            first_alarm_design(),
            basis=basis,
        )
        found = measure(judgement, BUDGET, {})
        assert (found.n_runs, found.false_alarm_interval) == (0, None)
        assert found.state == run_budget_state(judgement, BUDGET, None) == "straddles"


@pytest.mark.parametrize(
    ("budget", "words"), [(0.05, "1 run in 20"), (0.2, "1 run in 5"), (0.03, "3% of runs")]
)
def test_a_budget_in_words(budget, words):
    assert in_words(budget) == words


# Random panels, against the plain loops.

LEVELS = st.integers(0, 4).map(float)  # few values: many ties


@st.composite
def panels(draw: st.DrawFn, *, finite: bool = False) -> tuple[Scores, list[plain.Run], dict]:
    """Runs of unequal length at irregular steps, with early, late and no events, and settings."""
    level = LEVELS if finite else st.one_of(*[LEVELS] * 9, st.just(math.nan), st.just(math.inf))
    runs = []
    for _ in range(draw(st.integers(1, 12))):
        gaps = draw(st.lists(st.sampled_from([10, 10, 10, 20]), min_size=1, max_size=14))
        steps = list(itertools.accumulate(gaps))
        values = draw(st.lists(level, min_size=len(steps), max_size=len(steps)))
        # One in a log that was cut may lie beyond its end.
        event = draw(st.one_of(st.none(), st.integers(0, 16).map(lambda i: 10.0 * i)))
        runs.append(plain.Run(steps, values, event))
    horizon = draw(st.sampled_from([5, 10, 20, 35]))
    chosen = {
        "horizon": horizon,
        "safe_gap": horizon + draw(st.sampled_from([5, 10, 30])),
        "w_event": draw(st.sampled_from([10, 20])),
        "burn_in": draw(st.sampled_from([0, 15, 40])),
    }
    return scores_from(runs), runs, chosen


def scores_from(runs: Sequence[plain.Run]) -> Scores:
    series = [(f"run_{i}", np.array(r.steps), np.array(r.scores)) for i, r in enumerate(runs)]
    events = [np.nan if run.event is None else run.event for run in runs]
    return Scores.from_panel(Panel.from_series("score", series), events)


def rules_of(chosen: dict[str, int]) -> plain.Rules:
    return plain.Rules(
        horizon=chosen["horizon"],
        gap=chosen["safe_gap"],
        w_event=chosen["w_event"],
        burn_in=chosen["burn_in"],
    )


def flat(record: FirstAlarmPointRecord) -> dict[str, Any]:
    """The numbers of a record by the names of the plain one."""
    found: dict[str, Any] = {}
    for name, value in record:
        if name == "baselines":
            for null in ("constant_hazard", "risk_set"):
                one = value.get(null)
                found[f"{null}.detection_rate"] = one.detection_rate if one else None
                found[f"{null}.p_value"] = one.p_value if one else None
        elif name.endswith("_interval"):
            found[name] = (value.low, value.high) if value else None
        else:
            found[name] = value
    return found


def same(found: Any, expected: Any) -> bool:
    if expected is None or found is None:
        return found is None and expected is None
    return bool(np.allclose(found, expected, rtol=1e-9, atol=1e-11))


THREE = [0.1, BUDGET, 0.5]


def judgement_of(scores: Scores, chosen: dict[str, int], source: Source = None) -> Judgement:
    made = first_alarm_design(**chosen, nan="ignore", run_budgets=THREE)
    return Judgement(scores, source, made)


@settings(max_examples=30)
@given(panels(), st.sampled_from([0.0, 1.0, 2.5, 4.0, math.inf]))
def test_every_number_equals_the_plain_loops(panel, threshold):
    scores, runs, chosen = panel
    source = Locked(None, {1: dict.fromkeys(THREE, threshold)})
    judgement = judgement_of(scores, chosen, source)
    alarms = judgement.first_alarms(BUDGET)
    rules = rules_of(chosen)
    rival = scores.has_event & (np.arange(len(runs)) % 2 == 0)
    record = measure(judgement, BUDGET, {"clock": rival})
    expected = plain.measured(rules, runs, [threshold] * len(runs))
    found = flat(record)
    for name, value in expected.items():
        assert same(found[name], value), (name, found[name], value)
    each = [plain.outcome(rules, run, threshold) for run in runs]
    assert alarms.outcomes == [one.name for one in each]
    steps = [math.nan if one.step is None else one.step for one in each]
    assert np.array_equal(alarms.step, steps, equal_nan=True)
    if record.n_events:
        mine = [one.name in ("early", "timely") for one, run in zip(each, runs, strict=True)]
        of_events = [i for i, run in enumerate(runs) if run.event is not None]
        score, theirs = ([bool(x[i]) for i in of_events] for x in (mine, rival))
        assert record.controls["clock"].detection_rate == sum(theirs) / len(theirs)
        assert same(record.controls["clock"].p_value, plain.mcnemar(score, theirs))
    if record.n_runs and math.isfinite(threshold):
        interval = exact_binomial(record.n_false, record.n_runs)
        for shown in (False, True):
            met = plain.is_met(BUDGET, record.n_false, record.n_runs, shown=shown)
            line = shown_line(BUDGET)
            state = budget_state(interval, budget=BUDGET, line=line, shown=shown)
            assert (state == "met") == met
        assert record.state == budget_state(interval, budget=BUDGET, line=line, shown=False)


@settings(max_examples=15)
@given(panels(), st.sampled_from(["marginal", "conditional"]))
def test_thresholds_equal_the_plain_loops(panel, calibration):
    scores, runs, chosen = panel
    rules = rules_of(chosen)
    maxima = [plain.run_maximum(rules, run) for run in runs]
    judgement = judgement_of(scores, {**chosen, "calibration": calibration})
    found = run_maxima(scores.values, judgement.windows.negative)
    assert np.array_equal(found, [math.nan if m is None else m for m in maxima], equal_nan=True)
    explored = Judgement(scores, scores, judgement.design)
    for budget in THREE:
        deployed = plain.threshold(maxima, budget, calibration)
        assert explored.run_calibrated.thresholds[budget].tolist() == [deployed] * len(runs)
        assert judgement.run_calibrated.deployed[budget] == deployed
        # Without calibration runs each run is judged by the threshold of all others.
        apart = [
            plain.threshold(maxima[:i] + maxima[i + 1 :], budget, calibration)
            for i in range(len(runs))
        ]
        assert judgement.run_calibrated.thresholds[budget].tolist() == apart


@settings(max_examples=15)
@given(panels())
def test_cross_fitted_panels_equal_the_plain_loops(panel):
    scores, runs, chosen = panel
    rules = rules_of(chosen)
    maxima = [plain.run_maximum(rules, run) for run in runs]
    judgement = judgement_of(scores, chosen)
    thresholds = [plain.threshold(maxima[:i] + maxima[i + 1 :], 0.5) for i in range(len(runs))]
    found = flat(measure(judgement, 0.5, {}))
    for name, value in plain.measured(rules, runs, thresholds).items():
        assert same(found[name], value), (name, found[name], value)


# Chance baselines.


class TestConstantHazard:
    def test_against_simulation(self):
        rng = np.random.default_rng(3)
        lengths = rng.integers(25, 60, size=40)
        values = [rng.normal(size=n) for n in lengths]
        events = [10.0 * (n - 3) if i % 4 else None for i, n in enumerate(lengths)]
        alarms = alarms_of(values, events, 2.3)
        chances = constant_hazard(alarms)
        n, g = alarms.n_negative, alarms.grid.n_gap
        share = alarms.n_false / alarms.n_runs
        assert 0.2 < share < 0.8
        h = plain.hazard(n.tolist(), share)
        # The first ring of a coin of that hazard, thrown at every monitored checkpoint.
        draws = 20_000
        ring = rng.geometric(h, size=(draws, len(n)))
        false = (ring <= n).mean()
        assert false == pytest.approx(share, abs=5 * math.sqrt(0.25 / ring.size))
        detected = ((ring > n) & (ring <= n + g)).mean(axis=0)
        with_event = alarms.has_event
        error = 5 * np.sqrt(chances * (1 - chances) / draws)
        assert (np.abs(detected - chances)[with_event] <= error[with_event]).all()
        assert np.isnan(chances[~with_event]).all()

    @pytest.mark.parametrize("n_false", range(1, 12))
    def test_its_equation(self, n_false):
        # Runs of one length: 1 - (1 - h)^5 is the share itself, whatever is rounded.
        values = [rising_at(0) if run < n_false else [0.0] * 12 for run in range(12)]
        alarms = alarms_of(values, [80] * 12)
        share = n_false / 12
        expected = (1 - share) * (1 - (1 - share) ** (3 / 5))
        assert constant_hazard(alarms) == pytest.approx([expected] * 12, rel=1e-11)

    def test_at_every_share_of_many_counts(self):
        for n_runs, length in itertools.product((7, 13, 29), (6, 9, 23)):
            for n_false in range(n_runs + 1):
                values = np.zeros((n_runs, length))
                values[:n_false, 0] = 1.0
                alarms = alarms_of(values, [10.0 * (length - 1)] * n_runs)
                n, g = int(alarms.n_negative[0]), n_gap(alarms)[0]
                share = n_false / n_runs
                expected = (1 - share) * (1 - (1 - share) ** (g / n))
                assert constant_hazard(alarms) == pytest.approx([expected] * n_runs, rel=1e-9)

    def test_without_false_alarms_it_never_rings(self):
        alarms = alarms_of([rising_at(6), rising_at(7)], [80, 80])
        assert constant_hazard(alarms).tolist() == [0.0, 0.0]
        assert alarms.p_values["constant_hazard"] == 0.0

    def test_where_every_run_is_falsely_alarmed_it_rings_at_once(self):
        alarms = alarms_of([[1.0] * 12] * 3, [80, 80, 30])
        # Only the early event has nothing negative before it.
        assert constant_hazard(alarms).tolist() == [0.0, 0.0, 1.0]

    def test_without_negative_windows_there_is_no_cost_to_equal(self):
        alarms = alarms_of([[1.0] * 12] * 2, [30, 30])
        assert constant_hazard(alarms).tolist() == [0.0, 0.0]


def test_the_risk_set_by_hand():
    values = [
        rising_at(6),  # t* = 80: in the window of both events
        [0.0] * 12,  # t* = 100
        rising_at(7),  # event-free to the end
        rising_at(6, n=8),  # event-free, its log ends at 70, before either event
        rising_at(1, 7),  # event-free, but it rang long before
    ]
    alarms = alarms_of(values, [80, 100, None, None, None])
    chances = risk_set(alarms)
    # At 80: runs 0, 1, 2, 4; at 100: 1, 2, 4, where the alarm of run 2 lies in (60, 100).
    assert chances[:2].tolist() == [2 / 4, 1 / 3]
    assert np.isnan(chances[2:]).all()


@given(
    st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5])), max_size=8),
    st.integers(-1, 9),
)
def test_the_tail_of_a_count_by_enumeration(chances, at_least):
    expected = sum(
        math.prod(p if hit else 1 - p for p, hit in zip(chances, hits, strict=True))
        for hits in itertools.product([False, True], repeat=len(chances))
        if sum(hits) >= at_least
    )
    found = count_tails([np.array(chances), np.full(9, 0.5)], [at_least, 1])
    assert found == pytest.approx([expected, 1 - 0.5**9], abs=1e-12)


def test_the_tail_of_a_count_keeps_small_probabilities():
    assert count_tails([np.full(40, 0.01)], [40]) == pytest.approx(1e-80, rel=1e-9)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_mcnemar_is_a_binomial_test_of_the_discordant(pairs):
    score, rival = (np.array([pair[i] for pair in pairs], dtype=bool) for i in (0, 1))
    mine, n = int((score & ~rival).sum()), int((score ^ rival).sum())
    expected = binomtest(mine, n, alternative="greater").pvalue if n else 1.0
    assert detects_more(score, rival) == pytest.approx(expected, rel=1e-12)


# Laws.


def decided(judgement: Judgement) -> list[dict[str, Any]]:
    """What is measured at each budget, but for thresholds."""
    budgets = judgement.design.run_budgets
    found = [flat(measure(judgement, budget, {})) for budget in budgets]
    return [{name: value for name, value in one.items() if name != "threshold"} for one in found]


@settings(max_examples=15)
@given(panels(finite=True), st.sampled_from([np.exp, np.arctan, lambda x: x**3 - 7, np.cbrt]))
def test_a_strictly_increasing_map_changes_nothing(panel, rising):
    _, runs, chosen = panel
    mapped = [plain.Run(r.steps, rising(np.array(r.scores)), r.event) for r in runs]
    before, after = (decided(judgement_of(scores_from(one), chosen)) for one in (runs, mapped))
    assert before == after


@settings(max_examples=15)
@given(panels(), st.sampled_from([10, 1000]))
def test_later_steps_change_nothing_but_steps(panel, by):
    _, runs, chosen = panel
    moved = [
        plain.Run(
            [step + by for step in r.steps], r.scores, None if r.event is None else r.event + by
        )
        for r in runs
    ]
    later = {**chosen, "burn_in": chosen["burn_in"] + by}
    before, after = judgement_of(scores_from(runs), chosen), judgement_of(scores_from(moved), later)
    assert decided(before) == decided(after)
    for budget in before.design.run_budgets:
        first, second = (one.first_alarms(budget).step for one in (before, after))
        assert np.array_equal(first + by, second, equal_nan=True)


@settings(max_examples=15)
@given(panels(), st.randoms(use_true_random=False))
def test_the_order_of_runs_changes_nothing(panel, random):
    _, runs, chosen = panel
    order = list(range(len(runs)))
    random.shuffle(order)
    before = judgement_of(scores_from(runs), chosen)
    after = judgement_of(scores_from([runs[i] for i in order]), chosen)
    for one, other in zip(decided(before), decided(after), strict=True):
        assert all(same(one[name], other[name]) for name in one if name not in NOT_NUMBERS)
    for budget in before.design.run_budgets:
        first, second = (one.first_alarms(budget).step for one in (before, after))
        assert np.array_equal(first[order], second, equal_nan=True)


NOT_NUMBERS = ("answer", "state", "controls")


@settings(max_examples=15)
@given(panels(), st.sampled_from(["marginal", "conditional"]))
def test_a_higher_budget_never_has_fewer_false_alarms(panel, calibration):
    scores, _, chosen = panel
    judgement = judgement_of(scores, {**chosen, "calibration": calibration})
    for lower, higher in itertools.pairwise(judgement.design.run_budgets):
        taus = judgement.run_calibrated.thresholds
        assert (taus[higher] <= taus[lower]).all()
        fewer, more = (judgement.first_alarms(budget).false for budget in (lower, higher))
        assert not (fewer & ~more).any()


# Exchangeable noise: small forms of `benchmarks/first_alarm.py`, with fixed seeds.


@pytest.mark.parametrize("law", ["autocorrelated", "heavy tails", "ties", "event times"])
def test_locks_keep_their_budget(law):
    found = truths.budgets(LAWS[law], 150, 10_000, 0)
    assert {(one.runs, one.budget) for one in found} == {
        *itertools.product(truths.EXPLORE_RUNS, truths.BUDGETS)
    }
    assert not [one for one in found if not one.kept(ties=law == "ties")]


def test_the_bound_is_the_quantile_of_a_beta_law():
    # 19 runs at 1 in 20: the greatest of them, so that nine locks in ten lie below 1 - .1^(1/19).
    assert promise(0.05, 19).upper == pytest.approx(1 - 0.1 ** (1 / 19), abs=1e-12)
    assert promise(0.1, 27).upper == pytest.approx(beta.ppf(0.9, 2, 26), abs=1e-12)


def test_noise_is_seldom_better_than_chance():
    """Over the laws in turn; the verdict itself, which asks for more, supports none of a few."""
    laws = list(LAWS.values())
    p_values = []
    for seed in range(200):
        rng = np.random.default_rng([35, seed])
        law = laws[seed % len(laws)]
        held_out, explore = (noise(law, n, 40, rng) for n in (32, 30))
        judgement = Judgement(held_out, explore, truths.DESIGN)
        p_values.append(judgement.first_alarms(0.2).p_value)
    assert sum(p is not None and p <= truths.ALPHA for p in p_values) <= 10
    panels = [truths.noise_panel(law, 0, 40) for law in laws]
    assert not [found.x_sentence for found in panels if truths.passes_by_runs(found)]
    assert SUPPORTED not in [found.label for found in panels]


def test_an_alarm_at_a_fixed_step_is_not_supported():
    found = truths.fixed_step_panel(0, 1.0)
    assert found.label == RANK_ONLY
    assert {"runs_no_better_than_chance", "runs_no_better_than_clock"} <= set(found.x_reasons)
    assert found.x_first_alarm is not None
    assert found.x_first_alarm.at(0.2).detection_rate > 0.7


def test_a_score_that_rises_before_events_is_supported():
    found = truths.oracle_panel(LAWS["autocorrelated"], 0)
    runs = found.x_first_alarm
    assert runs is not None
    assert (found.label, runs.basis) == (SUPPORTED, "promised")
    assert runs.at(0.2).n_early < runs.at(0.2).n_timely
