"""Runs that stand twice in a log, exactly or nearly: by hand, by every door, and on real panels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import InputError
from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs, judge
from gmb_hf.benchmark.locking import explore, make_lock
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.benchmark.series import verdict
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.hub.panels import freeze
from gmb_hf.hub.recipes import RECIPES
from gmb_hf.runs.copies import copied_from, marks_of, refuse_copies
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

DESIGN = {"metric": "test_acc", "horizon": 100, "safe_gap": 200, "null_draws": 50}
DESIGN |= {"bootstrap_draws": 50, "candidates": [{"name": "weight_norm", "family": "dynamics"}]}

LOCKED = {
    "metric": "test_acc",
    "null_draws": 400,
    "bootstrap_draws": 20,
    "smoothing_sweep": [1, 3],
    "run_groups": 2,
    "undeclared": ["task", "model", "optimizer", "schedule", "seeds_eval", "seeds_explore"],
    "candidates": DESIGN["candidates"],
}


def panel(name: str, rows: list[list[float]], steps: list[list[int]] | None = None) -> Panel:
    at = steps or [list(range(len(row))) for row in rows]
    runs = (f"run {i}" for i in range(len(rows)))
    return Panel.from_series(name, list(zip(runs, at, rows, strict=True)))


def noise(runs: int, checkpoints: int = 40, seed: int = 0) -> list[list[float]]:
    return np.random.default_rng(seed).normal(size=(runs, checkpoints)).tolist()


def near(metric, scores):
    return refuse_copies([panel("acc", metric)], [panel("score", scores)], where="log").pairs


class TestByHand:
    def test_different_runs(self):
        assert near(noise(6), noise(6, seed=1)) == ()

    def test_one_that_stands_twice(self):
        metric, scores = noise(6), noise(6, seed=1)
        metric[4], scores[4] = metric[1], scores[1]
        with pytest.raises(InputError) as error:
            near(metric, scores)
        assert str(error.value) == (
            "log: runs 'run 1' and 'run 4' are equal in acc, score at every shared step; a copy is "
            "no further run: leave one of each out, or train it from another seed"
        )

    def test_several_are_counted(self):
        metric, scores = noise(3) * 3, noise(3, seed=1) * 3
        with pytest.raises(InputError, match=r"'run 0' and 'run 3' .*\(and 5 more such copies\)"):
            near(metric, scores)

    def test_one_that_was_cut_short(self):
        metric, scores = noise(6), noise(6, seed=1)
        metric[0], scores[0] = metric[5][:25], scores[5][:25]
        with pytest.raises(InputError, match="'run 0' and 'run 5' are equal"):
            near(metric, scores)

    def test_one_with_every_other_checkpoint(self):
        metric, scores = noise(5), noise(5, seed=1)
        metric[0], scores[0] = metric[3][::2], scores[3][::2]
        steps = [list(range(0, 40, 2)), *([list(range(40))] * 4)]
        known = [panel("acc", metric, steps)], [panel("score", scores, steps)]
        with pytest.raises(InputError, match="'run 0' and 'run 3' are equal"):
            refuse_copies(*known, where="log")

    def test_written_anew_to_rounding(self):
        metric, scores = noise(6), noise(6, seed=1)
        jitter = np.random.default_rng(2).normal(scale=1e-9, size=40)
        metric[4], scores[4] = metric[1], (np.array(scores[1]) + jitter).tolist()
        with pytest.raises(InputError, match="'run 1' and 'run 4' are equal"):
            near(metric, scores)

    def test_a_near_copy_is_told(self):
        metric, scores = noise(6), noise(6, seed=1)
        jitter = np.random.default_rng(2).normal(scale=1e-3, size=(2, 40))
        metric[4] = (np.array(metric[1]) + jitter[0]).tolist()
        scores[4] = (np.array(scores[1]) + jitter[1]).tolist()
        assert near(metric, scores) == (("run 1", "run 4"),)

    def test_an_equal_metric_alone_is_no_copy(self):
        metric = noise(6)
        metric[4] = metric[1]
        assert near(metric, noise(6, seed=1)) == ()

    def test_runs_that_never_move(self):
        """Never-grokking runs: accuracy at chance, and a schedule that all runs share."""
        schedule = np.linspace(1.0, 0.1, 40).tolist()
        assert near([[0.1] * 40] * 5, [schedule] * 5) == ()

    def test_jumps_at_one_checkpoint(self):
        """0 before and 1 after says nothing of which run it is."""
        jump = [0.0] * 20 + [1.0] * 20
        assert near([jump] * 5, [jump] * 5) == ()

    def test_few_values_are_told_apart_by_other_columns(self):
        stairs = np.repeat([0.0, 0.2, 0.4, 0.6, 0.8], 8).tolist()
        known = [panel("acc", [stairs] * 2 + noise(1))], [panel("score", [stairs] * 2 + noise(1))]
        loss = panel("loss", noise(3))
        assert refuse_copies(*known, lambda: [loss], where="log").pairs == ()
        same = panel("loss", [noise(1)[0]] * 2 + noise(1, seed=3))
        with pytest.raises(InputError, match="'run 0' and 'run 1'"):
            refuse_copies(*known, lambda: [same], where="log")


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 30),
    st.integers(20, 60),
    st.integers(0, 2**32 - 1),
    st.floats(0.3, 1.0),
    st.randoms(use_true_random=False),
)
def test_a_copy_is_found_wherever_it_stands(runs, checkpoints, seed, share, random):
    """Copied whole or cut short, under any order of the runs."""
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(2, checkpoints)) for _ in range(runs)]
    rows.append(rows[random.randrange(runs)][:, : max(20, int(share * checkpoints))])
    random.shuffle(rows)
    metric, scores = ([row[i].tolist() for row in rows] for i in range(2))
    with pytest.raises(InputError, match="are equal in acc, score"):
        near(metric, scores)


def copied(log: RunLog, *, times: int = 1) -> RunLog:
    """The log with its first run once more under other names."""
    frame = log.to_pandas()
    frames = [frame]
    for copy in range(times):
        first = frame[frame["run"] == log.runs[0]].copy()
        frames.append(first.assign(run=f"copy-{copy}", seed=1000 + copy))
    import pandas

    return RunLog.read(pandas.concat(frames))


class TestExploreRunsAmongHeldOut:
    """What a lock keeps of explore runs, and what both logs show."""

    CASES: ClassVar = {
        "renamed": lambda one: one,
        "cut": lambda one: one.head(80),
        "begun later": lambda one: one.tail(80),
        "in 32 bits": lambda one: one.assign(weight_norm=one["weight_norm"].astype("float32")),
        "jittered and cut": lambda one: one.head(90).assign(
            weight_norm=lambda of: of["weight_norm"] + 1e-9 * np.arange(90) % 7
        ),
    }

    @pytest.fixture(scope="class")
    def lock(self) -> Lock:
        return make_lock(Design.minimal(**(SYNTHETIC_DESIGN | LOCKED)), synthetic_runlog(30))[0]

    @pytest.mark.parametrize("name", CASES)
    def test_is_refused(self, lock: Lock, name: str):
        explored = synthetic_runlog(30).to_pandas()
        twin = self.CASES[name](explored[explored["run"] == "seed_3"])
        frames = [synthetic_runlog(16, first_seed=100, seed=7).to_pandas()]
        log = RunLog.read(pd.concat([*frames, twin.assign(run="other", seed=999)]))
        with pytest.raises(InputError, match=r"held-out runs: 1 also used to explore .*other"):
            evaluate_lock(lock, log)
        design = Design.minimal(**(SYNTHETIC_DESIGN | LOCKED))
        told = "explore runs and runs to judge: runs 'explore seed_3' and 'other' are equal in"
        with pytest.raises(InputError, match=told):
            evaluate_runs(design, log, explore=synthetic_runlog(30))

    def test_by_hand(self):
        """Three runs; marks are numbers at steps at which no other run has the same."""
        rows = noise(3)
        rows[2][:5] = rows[1][:5]
        marks = marks_of([panel("score", rows)])
        assert [min(one) for one in marks] == [0, 5, 5]
        later = panel("score", [noise(1, seed=4)[0], rows[1][:30]])
        assert copied_from([later], marks) == [("run 1", 1)]

    def test_runs_that_cannot_be_told_apart_have_no_marks(self):
        assert marks_of([panel("score", [[0.1] * 40] * 3)]) == [{}, {}, {}]

    def test_near_copies_are_a_warning_of_the_lock_and_a_note_of_its_results(self):
        frame = synthetic_runlog(30).to_pandas()
        twin = frame[frame["run"] == "seed_3"].assign(run="twin", seed=999)
        rng = np.random.default_rng(0)
        for column in ("weight_norm", "test_acc"):
            twin[column] *= 1 + 1e-5 * rng.normal(size=len(twin))
        log = RunLog.read(pd.concat([frame, twin]))
        design = Design.minimal(**(SYNTHETIC_DESIGN | LOCKED))
        lock, findings = make_lock(design, log)
        assert [item.message for item in findings if item.code == "near_copies"] == [
            "Near copies: 2 of 31 runs move like another one ('seed_3' and 'twin': the metric and "
            "a score correlate above 0.999 from checkpoint to checkpoint, or more than half of "
            "the rows are equal). If they are one training, every number here counts it more than "
            "once."
        ]
        with pytest.raises(InputError, match=r"design refused.*\[near_copies\]"):
            make_lock(design, log, strict_lint=True)
        results = evaluate_lock(lock, synthetic_runlog(16, first_seed=100, seed=7)).results
        assert any(
            note.startswith("Of the lock's explore runs: Near copies: 2 of 31")
            for note in results.summary.x_notes
        )


class TestSeries:
    CALL: ClassVar = {"horizon": 5, "safe_gap": 8, "null_draws": 50, "bootstrap_draws": 10}

    def test_equal_ones_are_refused(self):
        rows, events = noise(8), [30.0, None] * 4
        rows[7], events[7] = rows[3], events[3]
        told = r"^gmb_verdict: 'predictions\[3\]' and 'predictions\[7\]' are equal in predictions, "
        with pytest.raises(
            InputError, match=told + r"t\* at every shared step; a copy is no further"
        ):
            verdict(rows, events, **self.CALL)

    def test_another_event_is_another_run(self):
        rows, events = noise(8), [30.0, None] * 4
        rows[7] = rows[2]
        assert "copies" not in verdict(rows, events, **self.CALL)["sentence"]

    def test_near_ones_are_noted(self):
        rows, events = noise(8), [30.0, None] * 4
        jitter = np.random.default_rng(2).normal(scale=1e-3, size=40)
        rows[7] = (np.array(rows[3]) + jitter).tolist()
        assert "Near copies: 2 of 8 runs" in verdict(rows, events, **self.CALL)["sentence"]


def test_a_panel_is_not_frozen_with_copies(tmp_path):
    log = synthetic_runlog(8)
    parts = {"explore": log.select(log.runs[:4]), "heldout": log.select(log.runs[4:])}
    again = log.select(log.runs[:1]).to_pandas().assign(run="again", seed=50)
    parts["heldout"] = RunLog.concat([parts["heldout"], RunLog.read(again)])
    with pytest.raises(InputError, match="panel 'quick-29': runs 'again' and 'seed_0' are equal"):
        freeze(RECIPES["quick-29"], parts, Design.minimal(**DESIGN), tmp_path / "p", command="")


def test_jitter_is_found_where_the_metric_hardly_moves():
    """An accuracy that is 0 and then 1 says nothing; the score does."""
    acc = [[0.0] * 20 + [1.0] * 20] * 3
    scores = noise(3)
    scores[2] = (np.array(scores[0]) + 1e-9 * np.arange(40) % 3).tolist()
    with pytest.raises(InputError, match="'run 0' and 'run 2' are equal"):
        near(acc, scores)


class TestEveryDoor:
    @pytest.fixture(scope="class")
    def log(self) -> RunLog:
        return synthetic_runlog(8)

    @pytest.mark.parametrize(
        "door",
        [
            lambda log: prepare(log, Design.minimal(**DESIGN)),
            lambda log: make_lock(Design.minimal(**DESIGN), log),
            lambda log: explore(Design.minimal(**DESIGN), log),
            lambda log: evaluate_runs(Design.minimal(**DESIGN), log),
            lambda log: judge(
                log.to_pandas(), score="weight_norm", metric="test_acc", horizon=100, safe_gap=200
            ),
        ],
    )
    def test_refuses(self, log: RunLog, door):
        with pytest.raises(InputError, match=r"'copy-0' and 'copy-1' .*\(and 1 more such copies\)"):
            door(copied(log, times=2))

    def test_refuses_a_log_of_nothing_but_one_run(self, log: RunLog):
        only = copied(log, times=3).select(["seed_0", "copy-0", "copy-1", "copy-2"])
        with pytest.raises(InputError, match=r"and 2 more such copies\)"):
            prepare(only, Design.minimal(**DESIGN))

    def test_a_copy_with_other_values_here_and_there_is_a_near_copy(self, log: RunLog):
        frame = copied(log).to_pandas()
        places = frame.index[frame["run"] == "copy-0"][::4]  # a quarter of its rows
        frame.loc[places, "test_acc"] = 0.123
        frame.loc[places, "weight_norm"] *= 3
        prepared = prepare(RunLog.read(frame), Design.minimal(**DESIGN))
        assert prepared.near.pairs == (("copy-0", "seed_0"),)

    def test_the_results_carry_near_copies(self, log: RunLog):
        frame = copied(log).to_pandas()
        twin = frame["run"] == "copy-0"
        rng = np.random.default_rng(0)
        for name in ("weight_norm", "test_acc"):
            frame.loc[twin, name] *= 1 + 1e-5 * rng.normal(size=int(twin.sum()))
        results = evaluate_runs(Design.minimal(**DESIGN), RunLog.read(frame)).results
        notes = " ".join(results.summary.x_notes)
        assert "Near copies: 2 of 9 runs move like another one ('copy-0' and 'seed_0'" in notes
