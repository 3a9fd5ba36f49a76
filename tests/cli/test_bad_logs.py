"""Logs that can be read and not be judged: one line, and exit code 2.

What cannot be read is tested with the readers (`tests/runs/test_log_faults.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import FEW_DRAWS, gmb, refused

from gmb_hf import Results
from gmb_hf.runs.runlog import RunLog

JUDGE = ("--score=x", "--metric=acc", "--horizon=60", "--safe-gap=100", *FEW_DRAWS)


def text(
    rows: int = 40,
    *,
    step: Callable[[int], object] = lambda i: 10 * i,
    acc: Callable[[int], object] = lambda i: i / 40,
    x: Callable[[int], object] = lambda i: i,
) -> str:
    """A log of one run as CSV."""
    return "step,acc,x\n" + "".join(f"{step(i)},{acc(i)},{x(i)}\n" for i in range(rows))


UNJUDGEABLE = {
    "one checkpoint": (text(1), "no run has two checkpoints"),
    "a metric of NaN": (text(acc=lambda i: "nan"), "run 'a': metric 'acc' is NaN at every step"),
    "an empty metric": (text(acc=lambda i: ""), "column 'acc' has no value in run 'a'; leave the"),
    "infinite scores": (text(x=lambda i: "inf" if i == 3 else i), "step 30: score 'x' is inf in a"),
    "uneven steps": (text(step=lambda i: i * i), "checkpoints are 3 steps apart, but step 9"),
    "text as score": (text(x=lambda i: "up"), "line 2: column 'x' holds 'up', not a number"),
    "never both": (
        text(acc=lambda i: "" if i % 2 else 1, x=lambda i: i if i % 2 else ""),
        "run 'a' has no step at which 'acc' and 'x' all have a value; log them at the same steps",
    ),
}


@pytest.mark.parametrize(("content", "message"), UNJUDGEABLE.values(), ids=UNJUDGEABLE)
def test_logs_that_can_be_read_and_not_be_judged(content: str, message: str):
    Path("a.csv").write_text(content)
    assert RunLog.read("a.csv").runs == ("a",)
    assert message in refused("evaluate", "--runs=a.csv", *JUDGE)
    assert not Path("results").exists()


def test_equal_scores_are_no_error_and_no_alarm():
    for run in range(3):
        Path(f"r{run}.csv").write_text(text(acc=lambda i: float(i > 25), x=lambda i: 1))
    done = gmb("evaluate", "--runs", ".", *JUDGE)
    assert done.code == 0, done
    (score,) = [i for i in Results.read("results/results.yaml").indicators if i.name == "x"]
    assert score.label != "SUPPORTED_FOR_ALARM"
    assert score.layer_A.auc == 0.5


def test_thousands_of_columns():
    names = [f"layer_{i}/norm" for i in range(4000)]
    rows = [",".join([str(10 * i), "0.5", *["1"] * len(names)]) for i in range(40)]
    Path("wide.csv").write_text("\n".join([",".join(["step", "acc", *names]), *rows]) + "\n")
    judge = ("--metric=acc", "--horizon=60", "--safe-gap=100", "--score=layer_1234/nrom")
    message = refused("evaluate", "--runs=wide.csv", *judge)
    assert "columns: layer_1234/norm, " in message
    assert message.endswith("Did you mean 'layer_1234/norm'?")
    assert len(message) < 1200
