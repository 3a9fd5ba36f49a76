"""The alarm is raised once, and those that act share one budget of runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_runs import DESIGN, GAIN, GINI, NORM, SYSTEM, Evaluated, made_up

from gmb_hf import Lock, Results, make_lock
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.monitor.monitor import AlarmMonitor, share_budget
from gmb_hf.monitor.reading import Reading

SCORES = (GINI, GAIN, "settled_structure", NORM)


def states(monitor: AlarmMonitor, rows: Any) -> list[Reading]:
    return [monitor.update(**row) for row in rows]


def with_maxima(lock: Lock, maxima: dict[str, Sequence[float | None]], **design: Any) -> Lock:
    """The lock as if the explore runs had been others."""
    candidates = {
        name: item.model_copy(update={"run_maxima": tuple(maxima.get(name, item.run_maxima))})
        for name, item in lock.x_lock.candidates.items()
    }
    record = lock.x_lock.model_copy(update={"candidates": candidates})
    return dataclasses.replace(lock, design=lock.design.replace(**design), x_lock=record)


def judged_by(lock: Lock, results: Results) -> Results:
    """The results as if they were of this lock."""
    assert results.x_provenance is not None
    of_it = results.x_provenance.model_copy(update={"lock_hash": lock.hash})
    return results.model_copy(update={"x_provenance": of_it}).with_checksums()


@pytest.fixture(scope="module")
def never_drifting() -> Evaluated:
    """Without a bound on health, which an evaluation does not have either."""
    explore, held_out = made_up(60, 0), made_up(40, 300)
    lock, _ = make_lock(DESIGN.replace(health_alpha=0.001, event_count_min=20), explore)
    return Evaluated(lock, evaluate_lock(lock, held_out).results, explore, held_out)


@pytest.mark.parametrize("name", SCORES)
def test_it_alarms_where_the_evaluation_says_that_a_run_first_does(
    never_drifting: Evaluated, name: str
) -> None:
    watched, found, held_out = never_drifting, never_drifting.results, never_drifting.held_out
    item = found.indicator(name)
    said = item.x_first_alarm
    assert said is not None
    assert (item.label, item.x_alarm_eligible) == ("SUPPORTED_FOR_ALARM", True)
    monitor = watched.monitor(name)
    fresh = monitor.state_dict()
    for run, step in list(enumerate(said.alarm_steps))[::2]:
        monitor.load_state_dict(fresh)
        last = states(monitor, watched.rows(run))[-1]
        event = found.event.t_event_by_seed[str(held_out.seeds[run])]
        # The evaluation looks no further than the event.
        if step is None:
            assert last.alarm is None or (event is not None and last.alarm >= event)
        else:
            assert last.alarm == step


def test_an_alarm_is_raised_once_and_stands(evaluated: Evaluated) -> None:
    monitor = evaluated.monitor(GAIN)
    readings = states(monitor, evaluated.rows())
    first = next(reading for reading in readings if reading.state == "ALARM")
    later = [reading for reading in readings if reading.step > first.step]
    assert {(one.state, one.since, one.alarm) for one in later} == {
        ("ALARM", first.step, first.step)
    }
    assert {one.reason for one in later} == {f"raised at step {first.step}: {first.reason}"}
    assert monitor.alarm is not None
    # What breaks afterwards is shown, and changes nothing.
    broken = monitor.update(step=1210, embedding_gini=float("nan"))
    assert (broken.state, broken.since) == ("ALARM", first.step)
    assert broken.indicator(GAIN).broken is not None


def test_a_broken_indicator_abstains_before_the_alarm_only(evaluated: Evaluated) -> None:
    monitor = evaluated.monitor(NORM)
    rows = list(evaluated.rows())
    rows[20]["embedding_norm"] = None
    readings = states(monitor, rows)
    assert (readings[20].state, readings[20].since, readings[20].alarm) == ("ABSTAIN", 200, None)
    assert (readings[35].state, readings[-1].state) == ("CLEAR", "ALARM")


def test_a_restored_monitor_keeps_the_alarm(evaluated: Evaluated, tmp_path: Path) -> None:
    monitor = evaluated.monitor(GAIN)
    alarm = states(monitor, evaluated.rows())[-1].alarm
    assert alarm is not None
    again = evaluated.monitor(GAIN)
    states(again, islice(evaluated.rows(), alarm // 10 + 1))
    restored = evaluated.monitor(GAIN)
    restored.load(again.save(tmp_path / "monitor.json"))
    assert restored.alarm == again.alarm
    rest = states(restored, islice(evaluated.rows(), alarm // 10 + 1, None))
    assert {(one.state, one.alarm) for one in rest} == {("ALARM", alarm)}


def test_several_share_one_budget(evaluated: Evaluated) -> None:
    together, alone = evaluated.monitor(), evaluated.monitor(GAIN)
    assert set(together.acting) == set(SCORES)
    for name in SCORES:
        own = evaluated.lock.run_thresholds(name)[0.05]
        assert together.rule.thresholds[name] >= own
    assert alone.rule.thresholds[GAIN] == evaluated.lock.run_thresholds(GAIN)[0.05]
    reading = together.update(**next(evaluated.rows()))
    assert reading.promise == (
        "False alarms in at most 1 run in 20, on average over such locks: 4 indicators share this "
        "budget, at stricter thresholds than those that were judged, so that each may detect "
        "fewer events."
    )
    # What is shown keeps the threshold, and the promise, of its own.
    shown = evaluated.monitor(GAIN, show=[NORM]).update(**next(evaluated.rows())).indicator(NORM)
    assert shown.threshold == evaluated.lock.run_thresholds(NORM)[0.05]
    assert shown.promise.startswith("False alarms in at most 1 run in 20 (0.043 expected")


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize("budget", [0.05, 0.2])
def test_the_joint_rate_keeps_the_budget(
    evaluated: Evaluated, correlation: float, budget: float
) -> None:
    """Over many locks of 100 made-up explore runs each, and fresh runs of the same law."""
    rng = np.random.default_rng(5)
    n_runs, rates = len(evaluated.lock.x_lock.explore_runs), []

    def maxima(count: int) -> Any:
        common = correlation**0.5 * rng.standard_normal((1, count))
        return common + (1 - correlation) ** 0.5 * rng.standard_normal((4, count))

    for _ in range(300):
        explore = dict(zip(SCORES, maxima(n_runs).tolist(), strict=True))
        acting, thresholds = share_budget(with_maxima(evaluated.lock, explore), SCORES, budget)
        assert acting == SCORES
        taus = np.array([thresholds[name] for name in SCORES])[:, None]
        rates.append((maxima(400) >= taus).any(axis=0).mean())
    assert np.mean(rates) <= budget + 2 * np.std(rates) / len(rates) ** 0.5
    assert np.mean(rates) > budget / 3


class TestTooMany:
    """Twenty explore runs for a budget of one in twenty: one alarm, and no second."""

    @pytest.fixture
    def few(self, evaluated: Evaluated) -> tuple[Lock, Results]:
        n_runs, rng = len(evaluated.lock.x_lock.explore_runs), np.random.default_rng(0)
        maxima = {
            name: [*rng.uniform(size=25).tolist(), *[None] * (n_runs - 25)] for name in SCORES
        }
        lock = with_maxima(evaluated.lock, maxima)
        return lock, judged_by(lock, evaluated.results)

    def test_by_default_the_best_act(self, few: tuple[Lock, Results]) -> None:
        monitor = AlarmMonitor(*few, system=SYSTEM)
        assert monitor.acting == (GINI,)  # a detection rate of 98%, as GAIN, which comes after it
        assert monitor.notes == (
            "1 of 4 eligible indicators act, those with the highest detection rate: by 25 explore "
            "runs with negative windows no more can share a budget of 1 run in 20.",
        )
        assert monitor.rule.thresholds[GINI] == few[0].run_thresholds(GINI)[0.05]

    def test_named_they_are_refused(self, few: tuple[Lock, Results]) -> None:
        message = (
            "^2 indicators cannot share a budget of 1 run in 20 by 25 explore runs with negative "
            f"windows, 1 can; name those with the highest detection rate: --act {GAIN}$"
        )
        with pytest.raises(InputError, match=message) as raised:
            AlarmMonitor(*few, act=[NORM, GAIN])
        assert raised.value.code == "too_many_alarms"
        assert AlarmMonitor(*few, act=[NORM]).acting == (NORM,)
        assert len(AlarmMonitor(*few, act=SCORES, budget=0.2).acting) == 4


class TestRefused:
    @pytest.mark.parametrize("budget", [0.02, True, "x"])
    def test_a_budget_that_the_lock_has_not(self, evaluated: Evaluated, budget: Any) -> None:
        message = rf"^budget {budget!r} is not in the lock; its budgets of runs: 0\.05, 0\.1, 0\.2$"
        with pytest.raises(InputError, match=message):
            evaluated.monitor(GAIN, budget=budget)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"unit": "runs"}, r"^unit 'runs' is unknown; known: run, window. Did you mean 'run'"),
            (
                {"target": 0.05},
                "^target is a share of windows, the unit is run; give budget, or unit window$",
            ),
            (
                {"unit": "window", "budget": 0.05},
                "^budget is a share of runs, the unit is window; give target, or unit run$",
            ),
        ],
    )
    def test_a_unit_that_does_not_fit(
        self, evaluated: Evaluated, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            evaluated.monitor(GAIN, **options)

    def test_too_few_explore_runs_for_the_budget(self, evaluated: Evaluated) -> None:
        lock, _ = make_lock(DESIGN.replace(primary_run_budget=0.1), made_up(15, 0))
        message = (
            rf"^budget 0\.05: the lock says ABSTAIN for {GAIN}, 1 run in 20 takes 19 explore runs "
            r"with negative windows; budgets with a threshold: 0\.1, 0\.2$"
        )
        with pytest.raises(InputError, match=message):
            AlarmMonitor(lock, judged_by(lock, evaluated.results), act=[GAIN], budget=0.05)

    def test_a_lock_from_before_first_alarms(self, evaluated: Evaluated, tmp_path: Path) -> None:
        bare = {
            name: item.model_copy(update={"first_alarm": {}, "run_maxima": ()})
            for name, item in evaluated.lock.x_lock.candidates.items()
        }
        old = evaluated.lock.x_lock
        lock = Lock.build(
            evaluated.lock.design,
            bare,
            explore_fingerprint=old.explore_fingerprint,
            explore_runs=old.explore_runs,
            explore_seeds=old.explore_seeds,
            n_calibration_runs=old.n_calibration_runs,
        )
        path = lock.write(tmp_path / "lock.yaml")
        results = evaluate_lock(lock, evaluated.held_out.select(evaluated.held_out.runs[:40]))
        message = (
            rf"^{path}: holds no thresholds of first alarms: gmb-hf \S+ had none; lock again and "
            r"judge by that lock, or watch with unit window, where nothing may act by this one$"
        )
        with pytest.raises(InputError, match=message):
            AlarmMonitor(path, results.results)
        shown = AlarmMonitor(path, results.results, unit="window")
        assert shown.update(**next(evaluated.rows())).state == "ABSTAIN"

    def test_a_state_of_an_earlier_version(self, evaluated: Evaluated) -> None:
        old = {"format": 1, "lock_hash": evaluated.lock.hash, "target": 0.1, "rulers": {}}
        message = (
            r"^state: state format 1 is not readable here, format 2 is; begin a new monitor, "
            r"without this state$"
        )
        with pytest.raises(InputError, match=message):
            evaluated.monitor(GAIN).load_state_dict(old)

    def test_a_state_of_a_later_schema(self, evaluated: Evaluated) -> None:
        state = {**evaluated.monitor(GAIN).state_dict(), "x_schema": 3}
        message = r"^state: is a monitor state of schema 3, written by a later gmb-hf; .* up to 2: "
        with pytest.raises(InputError, match=message):
            evaluated.monitor(GAIN).load_state_dict(state)

    def test_a_state_of_another_unit_or_budget(self, evaluated: Evaluated) -> None:
        state = json.loads(json.dumps(evaluated.monitor(GAIN).state_dict()))
        for options, said in (
            ({"budget": 0.1}, r"0\.1 by runs"),
            ({"unit": "window"}, r"0\.1 by windows"),
        ):
            message = (
                rf"is of a monitor with a budget of 0\.05 by runs, not a budget of {said}; give"
            )
            with pytest.raises(InputError, match=message):
                evaluated.monitor(GAIN, **options).load_state_dict(state)
