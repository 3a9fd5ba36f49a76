"""`gmb evaluate` on logs at the edge: one clear line, or an honest verdict; never a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from command_line import FEW_DRAWS, Outcome, gmb, refused

from gmb_hf.benchmark.results import Results

LENGTHS = ("--horizon=50", "--safe-gap=100", "--window=20", "--lead-target=20")
OPTIONS = ("--score=score", *LENGTHS, *FEW_DRAWS)


def write(
    *,
    runs: int = 36,
    checkpoints: int | Sequence[int] = 60,
    event: int | None = 300,
    score: object = None,
    start: int = 0,
) -> None:
    """logs.csv: runs of a score of noise, or of one value, that jump after step `event`."""
    rng = np.random.default_rng(0)
    lengths = [checkpoints] * runs if isinstance(checkpoints, int) else checkpoints
    lines = ["run,step,score,test_acc"]
    for run, length in enumerate(lengths):
        for step in range(0, 10 * length, 10):
            value = f"{rng.normal():.6f}" if score is None else score
            accuracy = 0.9 if event is not None and step > event else 0.1
            lines.append(f"run_{run}x,{start + step},{value},{accuracy}")
    Path("logs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def judged(*options: str) -> tuple[Outcome, Results]:
    done = gmb("evaluate", "--runs=logs.csv", *OPTIONS, *options)
    assert done.code == 0, done
    assert "Traceback" not in done.err
    return done, Results.read("results/results.yaml")


def test_runs_of_one_checkpoint():
    write(checkpoints=1)
    message = refused("evaluate", "--runs=logs.csv", *OPTIONS)
    assert "no run has two checkpoints" in message


def test_one_such_run_among_others_counts_for_nothing():
    write(checkpoints=[60] * 36 + [1])
    _, results = judged()
    assert results.summary.n_events == 36
    assert results.indicator("score").layer_B.x_n_runs == 36


def test_all_equal_scores_have_a_floor():
    write(score="2.5")
    done, results = judged()
    item = results.indicator("score")
    assert (item.label, item.x_reasons[0]) == ("RANK_ONLY", "windows_floor")
    assert "windows tie at 2.5" in " ".join(done.out.split())


def test_infinite_scores():
    write(score="inf")
    message = refused("evaluate", "--runs=logs.csv", *OPTIONS)
    assert "run 'run_0x', step 0: score 'score' is inf in a labelled window" in message
    assert "--nan ignore" in message
    _, results = judged("--nan=ignore")
    item = results.indicator("score")
    assert item.x_alarm_eligible is False
    assert (item.layer_B.x_n_windows, item.x_reasons[0]) == (0, "runs_no_negative_windows")


def test_no_events():
    write(event=None)
    done, results = judged()
    assert results.indicator("score").x_reasons == ("few_events", "not_locked")
    assert "0 events are fewer than 30" in done.out
    assert results.indicator("score").x_null_reasons["layer_C.at_fpr[0].coverage"]


def test_every_event_before_burn_in():
    write(event=20)
    done, results = judged("--burn-in=100")
    item = results.indicator("score")
    assert item.x_reasons[:2] == ("events_too_early", "runs_no_negative_windows")
    said = " ".join(done.out.split())
    assert "none goes on past burn-in 100 to 100 steps before its event" in said


def test_negative_steps():
    write(start=-20)
    message = refused("evaluate", "--runs=logs.csv", *OPTIONS)
    assert "line 2: column 'step' is -20; it must be a whole number from 0 on" in message


def test_one_run():
    write(runs=1)
    done, results = judged()
    assert results.indicator("score").x_runs_to_settle is None
    assert "Not decided: 1 event is fewer than 30. " in " ".join(done.out.split())
