"""From explore runs to a lock and back: the same thresholds, for every member."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from score_builders import design, noise_scores, raised_before_event, scores_of

from gmb_hf.benchmark.events import jump_events
from gmb_hf.benchmark.judge import judge
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.locking import (
    design_facts,
    locked_judgement,
    member_thresholds,
    runs_with_negatives,
)
from gmb_hf.benchmark.scores import Scores
from gmb_hf.preregistration import Lock, LockedCandidate
from gmb_hf.preregistration.lint import lint
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError

PREREG = design(horizon=100, safe_gap=150, burn_in=20, smoothing_sweep=[1, 3], null_draws=199)


def explored(seed: int = 0, n_runs: int = 40, prefix: str = "explore") -> Scores:
    raw = noise_scores(n_runs, 80, np.random.default_rng(seed), prefix=prefix)
    return raised_before_event(raw, 4.0, over=100)


def test_every_member_of_the_family_gets_thresholds() -> None:
    members = member_thresholds(explored(), {100: explored(1), 150: explored(2)}, PREREG)
    assert list(members) == [
        "central",
        "smooth=1",
        "window=100,smooth=1",
        "window=150,smooth=1",
        "smooth=3",
        "window=100,smooth=3",
        "window=150,smooth=3",
    ]
    assert members["central"] == members["smooth=1"]
    assert members["central"].keys() == {0.01, 0.05, 0.1}
    assert members["central"][0.01] == math.inf


def test_a_locked_score_is_judged_as_by_its_explore_runs(tmp_path: Path) -> None:
    explore, held_out = explored(), explored(7, 50, "run")
    wide_explore, wide = explored(1), explored(8, 50, "run")
    members = member_thresholds(explore, {150: wide_explore}, PREREG)
    lock = Lock.build(
        PREREG,
        {"score": LockedCandidate.freeze(members)},
        explore_fingerprint="f",
        explore_runs=explore.runs,
        explore_seeds=range(40),
        n_calibration_runs=runs_with_negatives(explore, PREREG),
    )
    read = Lock.read(lock.write(tmp_path / "lock.yaml"))
    frozen = {key: read.thresholds("score", key) for key in read.candidate("score").members}
    calibration_runs = read.x_lock.n_calibration_runs
    central = locked_judgement(held_out, PREREG, frozen, calibration_runs=calibration_runs)
    variant = locked_judgement(wide, PREREG, frozen, window=150, calibration_runs=calibration_runs)
    by_lock = judge(central, {"window=150": variant})
    by_explore = judge(
        Judgement(held_out, explore, PREREG),
        {"window=150": Judgement(wide, wide_explore, PREREG)},
    )
    assert by_lock.layer_c == by_explore.layer_c
    assert by_lock.layer_d == by_explore.layer_d
    assert by_lock.verdict == by_explore.verdict
    assert by_lock.layer_b.targets == by_explore.layer_b.targets
    assert (by_lock.layer_b.calibration, by_explore.layer_b.calibration) == ("locked", "explore")


def test_a_score_without_a_window_is_locked_by_smoothing_alone() -> None:
    explore, held_out = explored(), explored(7, 50, "run")
    judgement = locked_judgement(held_out, PREREG, member_thresholds(explore, {}, PREREG))
    assert judge(judgement).layer_d == judge(Judgement(held_out, explore, PREREG)).layer_d


def test_the_unsmoothed_score_is_locked_even_if_the_sweep_leaves_it_out() -> None:
    prereg = PREREG.replace(smoothing_sweep=[3])
    members = member_thresholds(explored(), {100: explored(1)}, prereg)
    assert {"central", "smooth=1", "window=100,smooth=1"} <= members.keys()


def test_a_member_that_is_not_locked_is_named() -> None:
    members = member_thresholds(explored(), {}, PREREG)
    with pytest.raises(InputError, match=r"member 'window=150,smooth=1' is unknown"):
        locked_judgement(explored(7, 50, "run"), PREREG, members, window=150)


def test_the_letter_locks_by_its_own_rule() -> None:
    letter = PREREG.replace(protocol="v0.4")
    found = member_thresholds(explored(), {}, letter)["central"]
    judgement = Judgement(explored(7, 50, "run"), explored(), letter)
    assert found == judgement.calibrated.deployed
    assert math.isfinite(found[0.01])


def test_design_facts_feed_the_linter() -> None:
    steps = np.arange(12) * 10
    jump = [0.0] * 6 + [0.9] * 6
    metric = Panel.from_series(
        "test_acc",
        [
            ("a", steps, jump),
            ("b", steps, [0.0] + [0.9] * 11),
            ("c", steps, [0.8, 0.2] + [0.8] * 10),
        ],
    )
    events = jump_events(metric, design())
    explore = scores_of([[0.0] * 12] * 3, list(events.step))
    facts = design_facts(events, explore, design(), cadence=10, n_eval=5)
    assert facts.n_explore == 3
    assert facts.n_explore_with_negatives == 1
    assert facts.event_steps == (50.0, 0.0, 10.0)
    assert facts.first_steps == (0, 0, 0)
    assert facts.dip_recoveries == 1
    codes = {finding.code for finding in lint(design(), facts)}
    assert {"events_on_first_step", "dip_recoveries", "few_held_out_runs"} <= codes
