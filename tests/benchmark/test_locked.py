"""Thresholds of explore runs through a lock and back: nothing changes on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from score_builders import design, noise_scores, raised_before_event

from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import judge
from gmb_hf.design.lock import CENTRAL, Lock, LockedCandidate, member_key

CHOSEN = design(horizon=100, safe_gap=150, burn_in=20, smoothing_sweep=[1, 3], null_draws=199)


def explored(seed: int, n_runs: int, prefix: str) -> Scores:
    raw = noise_scores(n_runs, 80, np.random.default_rng(seed), prefix=prefix)
    return raised_before_event(raw, 4.0, over=100)


def test_a_locked_score_is_judged_as_by_its_explore_runs(tmp_path: Path) -> None:
    windows = {100: (explored(0, 40, "explore"), explored(7, 50, "run"))}
    windows[150] = (explored(1, 40, "explore"), explored(8, 50, "run"))
    explore, held_out = windows[100]
    itself = Judgement(explore, explore, CHOSEN)
    members = {CENTRAL: itself} | {
        member_key(window=window, smooth=smooth): Judgement(one, one, CHOSEN).smoothed(smooth)
        for window, (one, _) in windows.items()
        for smooth in (1, 3)
    }
    frozen = LockedCandidate.freeze(
        {key: one.calibrated.deployed for key, one in members.items()},
        first_alarm={key: one.run_calibrated.deployed for key, one in members.items()},
    )
    lock = Lock.build(
        CHOSEN,
        {"score": frozen},
        explore_fingerprint="f",
        explore_runs=explore.runs,
        explore_seeds=range(40),
        n_calibration_runs=itself.negatives.n_runs,
    )
    read = Lock.read(lock.write(tmp_path / "lock.yaml"))

    def locked(window: int, scores: Scores) -> Judgement:
        keys = {smooth: member_key(window=window, smooth=smooth) for smooth in (1, 3)}
        source = Locked(
            {smooth: read.thresholds("score", key) for smooth, key in keys.items()},
            {smooth: read.run_thresholds("score", key) for smooth, key in keys.items()},
            read.x_lock.n_calibration_runs,
        )
        return Judgement(scores, source, CHOSEN)

    by_lock = judge(
        locked(100, held_out),
        {f"window={window}": locked(window, scores) for window, (_, scores) in windows.items()},
    )
    by_explore = judge(
        Judgement(held_out, explore, CHOSEN),
        {f"window={window}": Judgement(new, old, CHOSEN) for window, (old, new) in windows.items()},
    )
    assert by_lock.layer_B.achieved == by_explore.layer_B.achieved
    assert by_lock.layer_C == by_explore.layer_C
    assert by_lock.layer_D == by_explore.layer_D
    runs = by_lock.x_first_alarm, by_explore.x_first_alarm
    for ours, theirs in zip(*(found.at_budget for found in runs), strict=True):
        # Of the clock, explore runs give a threshold; this lock has none.
        assert (set(ours.controls), set(theirs.controls)) == (set(), {"clock"})
        assert ours == theirs.model_copy(update={"controls": {}})
    assert len({tuple(found.alarm_steps) for found in runs}) == 1
    assert by_lock.x_gates == by_explore.x_gates
    assert (by_lock.label, by_lock.x_sentence) == (by_explore.label, by_explore.x_sentence)
    assert (by_lock.layer_B.x_calibration, by_explore.layer_B.x_calibration) == (
        "locked",
        "explore",
    )
