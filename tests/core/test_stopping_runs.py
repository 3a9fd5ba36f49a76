"""What stopping runs saves and loses: by hand, and properties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gmb_hf.core.decisions import Rule, least_at, lost_events, needed, saved_steps, stops

NONE = math.nan
ALARM = np.array([20, 60, NONE, NONE, 30, NONE])
EVENT = np.array([50, 70, 40, 90, NONE, NONE])
LAST = np.array([100.0, 100, 100, 100, 100, 30])


def test_runs_without_an_alarm_by_hand():
    stop = stops("without_alarm", ALARM, LAST, [30, 60, 100])
    # By step 30 two runs have alarmed, and the last had ended; at its end no run is stopped.
    assert stop[:, 0].tolist() == [math.inf, 30, 30, 30, math.inf, math.inf]
    assert stop[:, 1].tolist() == [math.inf, math.inf, 60, 60, math.inf, math.inf]
    assert np.isinf(stop[:, 2]).all()
    assert saved_steps(stop, LAST).sum(axis=0).tolist() == [210, 80, 0]
    # The third had its event by step 60, the fourth had not.
    assert lost_events(stop, EVENT).sum(axis=0).tolist() == [3, 1, 0]


def test_runs_some_steps_after_their_alarm_by_hand():
    stop = stops("after_alarm", ALARM, LAST, [0, 20, 80])
    assert stop[:, 1].tolist() == [40, 80, math.inf, math.inf, 50, math.inf]
    assert saved_steps(stop, LAST).sum(axis=0).tolist() == [80 + 40 + 70, 60 + 20 + 50, 0]
    assert lost_events(stop, EVENT).sum(axis=0).tolist() == [2, 1, 0]


def test_what_an_event_needs_and_the_choice():
    assert needed("without_alarm", ALARM, EVENT).tolist()[:4] == [20, 60, 40, 90]
    assert needed("after_alarm", ALARM, EVENT).tolist()[:4] == [30, 10, 0, 0]
    assert np.isnan(needed("after_alarm", ALARM, EVENT)[4:]).all()
    need = np.array([*range(10, 200, 10), NONE])  # 19 events: at 1 in 20 none may be lost
    assert least_at(need, 0.05) == 190
    assert least_at(need, 0.1) == 180
    assert least_at(need[1:], 0.05) == math.inf
    assert least_at(need, 0.1, "conditional") == math.inf  # which takes 22


STEPS = st.integers(0, 40).map(lambda place: 10.0 * place)
MAYBE = st.one_of(STEPS, st.just(NONE))


@st.composite
def runs(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Alarms, events and ends: an event lies within its log."""
    n = draw(st.integers(1, 12))
    alarm, event = (draw(arrays(np.float64, n, elements=MAYBE)) for _ in range(2))
    last = draw(arrays(np.float64, n, elements=STEPS))
    return alarm, event, np.fmax(last, event)


AT = np.arange(0, 500, 10.0)
RULES: tuple[Rule, ...] = ("without_alarm", "after_alarm")
each_rule = pytest.mark.parametrize("rule", RULES)


@each_rule
@given(case=runs())
def test_the_later_the_less_is_saved_and_lost(rule: Rule, case: Any):
    alarm, event, last = case
    stop = stops(rule, alarm, last, AT)
    assert (np.diff(saved_steps(stop, last), axis=1) <= 0).all()
    assert (np.diff(lost_events(stop, event).astype(int), axis=1) <= 0).all()
    assert not lost_events(stops(rule, alarm, last, 1e9), event).any()


@each_rule
@given(case=runs())
def test_an_event_is_lost_below_what_it_needs(rule: Rule, case: Any):
    alarm, event, last = case
    lost = lost_events(stops(rule, alarm, last, AT), event)
    need = needed(rule, alarm, event)
    assert (lost == (need[:, None] > AT)).all()


@each_rule
@given(case=runs(), order=st.randoms(use_true_random=False))
def test_the_order_of_runs_changes_nothing(rule: Rule, case: Any, order: Any):
    alarm, event, last = case
    rows = list(range(len(alarm)))
    order.shuffle(rows)
    stop, moved = stops(rule, alarm, last, AT), stops(rule, alarm[rows], last[rows], AT)
    assert np.array_equal(stop[rows], moved)
    need = needed(rule, alarm, event)
    assert least_at(need, 0.2) == least_at(need[rows], 0.2)


@given(case=runs())
def test_nothing_is_saved_where_all_alarms_come_at_once(case: Any):
    _, _, last = case
    assert not saved_steps(stops("without_alarm", np.zeros(len(last)), last, AT), last).any()


@given(case=runs())
def test_no_score_saves_more_than_the_clock_at_its_step(case: Any):
    alarm, event, last = case
    own, clock = (stops("without_alarm", one, last, AT) for one in (alarm, alarm * NONE))
    assert (saved_steps(own, last) <= saved_steps(clock, last)).all()
    assert (lost_events(own, event) <= lost_events(clock, event)).all()


@each_rule
def test_the_choice_keeps_its_promise_over_fresh_runs(rule: Rule):
    """Of exchangeable runs a fresh event is lost with at most the tolerated probability."""
    rng = np.random.default_rng(0)
    lost = []
    for _ in range(400):
        event = rng.uniform(0, 100, size=60)
        alarm = np.where(rng.random(60) < 0.8, event - rng.exponential(10, size=60), NONE)
        at = least_at(needed(rule, alarm[:30], event[:30]), 0.1)
        stop = stops(rule, alarm[30:], np.full(30, 100.0), at)
        lost.append(lost_events(stop, event[30:]).mean())
    assert np.mean(lost) <= 0.1 + 3 * np.std(lost) / len(lost) ** 0.5
