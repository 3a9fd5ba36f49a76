"""`decide`: a lock's alarms stop held-out runs; the numbers by hand, the looks, bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from decision_runs import EXPLORE, LAST, lock_on, log_of

from gmb_hf import Decisions, InputError, Lock, RunLog, decide, evaluate_lock
from gmb_hf.benchmark.decisions import DecisionRecord, StoppingCurveRecord
from gmb_hf.core.decisions import Rule
from gmb_hf.design.looks import LooksFile
from gmb_hf.report.decisions import answers

# Nine events, of which the last two come without an alarm, late; six runs have none.
HELD_OUT = [
    *[(alarm, alarm + 200) for alarm in range(160, 300, 20)],
    (None, 700),
    (None, 560),
    *[(None, None)] * 6,
]


@pytest.fixture(scope="module")
def explored() -> RunLog:
    return log_of(EXPLORE)


@pytest.fixture(scope="module")
def held_out() -> RunLog:
    return log_of(HELD_OUT, first_seed=1000)


@pytest.fixture(scope="module")
def lock(explored: RunLog) -> Lock:
    return lock_on(explored)


@pytest.fixture(scope="module")
def found(lock: Lock, explored: RunLog, held_out: RunLog) -> Decisions:
    return decide(lock, held_out, explore=explored)


def record(found: Decisions, name: str, rule: Rule = "without_alarm") -> DecisionRecord:
    return next(one for one in found.decisions if (one.name, one.rule) == (name, rule))


def test_a_score_by_hand(found: Decisions):
    one = record(found, "score")
    # The 39th smallest of 40 alarms, the last of which is at 300: k = ceil(.95 * 41).
    assert (one.at, one.group, one.budget) == (290, "monitor", 0.05)
    explored, judged = one.explored, one.judged
    assert explored is not None
    assert judged is not None
    assert (explored.n_lost, explored.n_events, explored.n_stopped) == (1, 40, 61)
    assert explored.saved == pytest.approx(61 * 510 / (100 * LAST))
    # Two late events without an alarm, and six runs without an event, are stopped at 290.
    assert (judged.n_stopped, judged.n_runs) == (8, 15)
    assert judged.saved == pytest.approx(8 * 510 / (15 * LAST))
    assert (judged.n_lost, judged.n_events, judged.lost) == (2, 9, pytest.approx(2 / 9))
    assert one.lost_runs == ("seed_1007", "seed_1008")
    within, around = judged.lost_interval, judged.saved_interval
    assert within is not None
    assert around is not None
    assert (within.low, within.high) == pytest.approx((0.0281, 0.6001), abs=1e-4)
    assert around.low <= judged.saved <= around.high
    assert one.state == "met"


def test_some_steps_after_the_alarm_by_hand(found: Decisions):
    one = record(found, "score", "after_alarm")
    assert one.at == 300
    assert one.judged is not None
    assert one.judged.n_lost == 0
    assert one.judged.saved == pytest.approx(
        sum(LAST - alarm - 300 for alarm in range(160, 300, 20)) / (15 * LAST)
    )


def test_rivals_by_hand(found: Decisions):
    clock, onset = record(found, "clock"), record(found, "onset")
    assert (clock.at, onset.at) == (590, 590)  # the 39th of the events, 210 to 600
    assert clock.judged is not None
    assert clock.judged.saved == pytest.approx(15 * 210 / (15 * LAST))
    assert clock.judged.n_lost == 1
    assert onset.about.startswith("test_acc at 0.26")
    assert onset.about.endswith(" for 5 checkpoints, half-way to the event")
    # An onset is known at the fifth checkpoint: 40 steps after the event.
    later = record(found, "onset", "after_alarm")
    assert later.at == 0
    assert later.judged is not None
    assert later.judged.saved == pytest.approx(
        sum(LAST - e - 40 for _, e in HELD_OUT if e is not None) / (15 * LAST)
    )
    # The clock loses no more than two events, as the score does, from step 480 on.
    assert record(found, "score").rivals["clock"] == pytest.approx(320 / LAST)


def test_chance_makes_the_onset_where_the_logs_say_it():
    explored = log_of(EXPLORE, chance=0.1)
    lock = lock_on(explored)
    found = decide(lock, log_of(HELD_OUT, first_seed=1000, chance=0.1), explore=explored)
    assert record(found, "onset").about == "test_acc at 3 times chance for 5 checkpoints"


def test_a_score_of_which_nothing_is_declared(found: Decisions):
    assert record(found, "other").group == "undeclared"


def test_the_budget_is_chosen_on_explore_runs_or_fixed(explored: RunLog, held_out: RunLog):
    lock = lock_on(explored, run_budgets=[0.05, 0.2])
    asked = {"explore": explored, "scores": ["score"]}
    each = [decide(lock, held_out, **asked, budget=budget) for budget in (0.05, 0.2)]
    gains = [record(one, "score").gain for one in each]
    assert [record(one, "score").budget for one in each] == [0.05, 0.2]
    chosen = decide(lock, held_out, **asked)
    assert record(chosen, "score").gain == max(gains)
    assert {one.name for one in chosen.decisions} == {"score", "clock", "onset"}


def test_the_order_of_runs_changes_nothing(lock: Lock, explored: RunLog, held_out: RunLog):
    turned = decide(
        lock,
        held_out.select(list(reversed(held_out.runs))),
        explore=explored.select(list(reversed(explored.runs))),
    )
    straight = decide(lock, held_out, explore=explored)
    for one, other in zip(straight.decisions, turned.decisions, strict=True):
        assert (one.name, one.at, one.rivals, one.curve) == (
            other.name,
            other.at,
            other.rivals,
            other.curve,
        )
        assert sorted(one.lost_runs) == sorted(other.lost_runs)
        assert one.judged is not None
        assert other.judged is not None
        assert one.judged.saved == pytest.approx(other.judged.saved, rel=1e-12)


def test_a_combination_is_chosen_on_runs_that_it_was_not_fitted_on():
    log = log_of([*EXPLORE[:40], *EXPLORE[:40], *EXPLORE[40:]])
    members = [{"name": "score", "family": "external", "x_sees_test_labels": False}]
    lock = lock_on(
        log,
        candidates=[
            *members,
            {
                "name": "both",
                "x_ensemble": {
                    "method": "logistic",
                    "members": [*members, {"name": "test_acc", "family": "external"}],
                },
            },
        ],
    )
    ensemble = lock.candidate("both").ensemble
    assert ensemble is not None
    found = decide(lock, log_of(HELD_OUT, first_seed=1000), explore=log)
    one = record(found, "both")
    assert one.explored is not None
    assert one.explored.n_runs == len(log.runs) - len(ensemble.fit_runs)


def test_the_learned_metric_is_a_rival():
    log = log_of([*EXPLORE[:40], *EXPLORE[:40], *EXPLORE[40:]])
    members = [
        {"name": "test_acc", "family": "external", "x_sees_test_labels": True},
        {"name": "test_loss", "family": "external", "x_sees_test_labels": True},
    ]
    learned = {"name": "learned_metric", "x_ensemble": {"method": "logistic", "members": members}}
    score = {"name": "score", "family": "external", "x_sees_test_labels": False}
    held_out = log_of(HELD_OUT, first_seed=1000)
    lock = lock_on(log, candidates=[score, learned])
    found = decide(lock, held_out, explore=log, scores=["score"])
    assert record(found, "learned_metric").group == "rival"
    assert {*record(found, "score").rivals} == {"learned_metric", "clock", "onset"}
    assert found.best("without_alarm") == record(found, "score")
    assert "the learned test_acc saves" in answers(found)[0]


def test_a_file_and_back(found: Decisions, tmp_path: Path):
    path = found.write(tmp_path / "decisions.yaml")
    assert Decisions.read(tmp_path) == found
    assert found.write(tmp_path / "again.yaml").read_bytes() == path.read_bytes()
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("n_events: 9", "n_events: 8", 1), encoding="utf-8")
    with pytest.raises(InputError, match="was edited after it was written"):
        Decisions.read(path)
    path.write_text(text.replace("x_schema: 1", "x_schema: 7"), encoding="utf-8")
    with pytest.raises(InputError, match="is a decisions file of schema 7"):
        Decisions.read(path)


def test_a_notebook(found: Decisions):
    frame = found.to_pandas()
    assert len(frame) == len(found.decisions) == 7
    assert frame.loc[0, "lost_heldout"] == pytest.approx(2 / 9)
    assert "score saves 34%, loses 22%" in repr(found)
    assert "without_alarm" in found._repr_html_()


def test_curves_stay_with_what_is_drawn(found: Decisions):
    best = found.best("without_alarm")
    assert best is not None
    assert best.name == "score"
    assert [one.name for one in found.rivals("after_alarm")] == ["clock", "onset"]
    assert all(one.curve is not None for one in found.leading("without_alarm"))
    assert StoppingCurveRecord(at=(1,), saved=(0.5,), n_lost=(3,)).saved_within(2) == 0.0


# Looks: the same ledger as that of an evaluation.


def test_a_decision_is_the_look_that_an_evaluation_takes(
    explored: RunLog, held_out: RunLog, tmp_path: Path
):
    lock = Lock.read(lock_on(explored, alpha=0.04).write(tmp_path / "lock.yaml"))
    decide(lock, held_out, explore=explored)
    looks = LooksFile.beside(lock).by(lock)
    assert [one.look for one in looks] == [1]
    evaluate_lock(lock, held_out)  # the same runs: no new look
    decide(lock, held_out, explore=explored)
    assert LooksFile.beside(lock).by(lock) == looks
    with pytest.raises(InputError, match="allows 1 look at held-out runs"):
        decide(lock, log_of(HELD_OUT, first_seed=2000), explore=explored)


# Bad input.


def fault(lock: Lock, held_out: RunLog, explored: RunLog, **options: object) -> str:
    """What the error says."""
    with pytest.raises(InputError) as raised:
        decide(lock, held_out, explore=explored, **options)  # type: ignore[arg-type]
    return str(raised.value)


@pytest.mark.parametrize("lost", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_that_is_none(lock: Lock, held_out: RunLog, explored: RunLog, lost: float):
    assert "lost must be a number in (0, 1)" in fault(lock, held_out, explored, lost=lost)


def test_a_score_that_the_lock_lacks(lock: Lock, held_out: RunLog, explored: RunLog):
    said = fault(lock, held_out, explored, scores=["scor"])
    assert said.startswith("lock: candidate 'scor' is unknown; known: ")
    assert "Did you mean 'score'" in said
    said = fault(lock, held_out, explored, scores=["clock"])
    assert "--score clock: is a control; name a candidate of the lock" in said


def test_a_budget_that_the_lock_lacks(lock: Lock, held_out: RunLog, explored: RunLog):
    said = fault(lock, held_out, explored, budget=0.3)
    assert "--budget: value '0.3' is unknown; known: 0.05" in said


def test_the_same_runs_twice(lock: Lock, held_out: RunLog, explored: RunLog):
    said = fault(lock, explored, explored)
    assert "held-out runs are the explore runs that this lock was made on" in said
    match = "explore runs: 15 of 15 are not among those that the lock was made on"
    assert match in fault(lock, held_out, held_out)


def test_some_of_the_explore_runs(lock: Lock, held_out: RunLog, explored: RunLog):
    match = "explore runs: 50 of the 100 that the lock was made on are missing; give them all"
    assert match in fault(lock, held_out, explored.select(explored.runs[:50]))


def test_no_event(lock: Lock, explored: RunLog):
    match = "held-out runs: none of 4 has an event"
    assert match in fault(lock, log_of([(None, None)] * 4, first_seed=1000), explored)


def test_no_run_without_an_event(lock: Lock, held_out: RunLog, explored: RunLog):
    match = "held-out runs: all 7 have their event, so that there is no run that is better stopped"
    assert match in fault(lock, log_of(HELD_OUT[:7], first_seed=1000), explored)
    every = log_of((event - 300, event) for event in range(510, 760, 10))
    assert "explore runs: all 25 have their event" in fault(lock_on(every), held_out, every)


def test_too_few_events_for_so_small_a_share(lock: Lock, held_out: RunLog, explored: RunLog):
    match = "explore runs: 40 have an event, and to lose at most 0.01 of events takes 99 at least"
    assert match in fault(lock, held_out, explored, lost=0.01)


def test_held_out_runs_that_end_before_any_is_stopped(lock: Lock, explored: RunLog):
    short = log_of([(150, 200), (None, None)], first_seed=1000, last=250)
    match = "held-out runs: all end by step 250, and the explore runs, which end at step 800, say"
    assert match in fault(lock, short, explored)


def test_a_lock_without_first_alarms(held_out: RunLog, explored: RunLog):
    lock = lock_on(explored, protocol="v0.4")
    said = fault(lock, held_out, explored)
    assert "has no thresholds of first alarms, by which runs are stopped" in said


def test_bad_input_takes_no_look(explored: RunLog, held_out: RunLog, tmp_path: Path):
    lock = Lock.read(lock_on(explored, alpha=0.03).write(tmp_path / "lock.yaml"))
    assert "to lose at most" in fault(lock, held_out, explored, lost=0.01)
    assert LooksFile.beside(lock).looks == ()
    assert np.isfinite(held_out.panel("score").values).all()
