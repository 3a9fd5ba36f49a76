"""Logs that cannot be judged: one line that says what, where and what to do, and exit code 2.

Each file goes through `RunLog.read`, too, which either says the same or has nothing against it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import gmb, refused

from gmb_hf import Results
from gmb_hf.errors import InputError
from gmb_hf.runs.runlog import RunLog

JUDGE = ("--score=x", "--metric=acc", "--horizon=60", "--safe-gap=100")


def text(
    rows: int = 40,
    *,
    step: Callable[[int], object] = lambda i: 10 * i,
    acc: Callable[[int], object] = lambda i: i / 40,
    x: Callable[[int], object] = lambda i: i,
) -> str:
    """A log of one run as CSV."""
    return "step,acc,x\n" + "".join(f"{step(i)},{acc(i)},{x(i)}\n" for i in range(rows))


STATE = '{"log_history": [{"step": 10, "acc": 0.5, "x": 1.0}, {"step": 20, "acc": 0.5'

UNREADABLE = {
    "zero rows": ("a.csv", "step,acc,x\n", "a.csv: no rows below the header"),
    "nothing": ("a.jsonl", "", "a.jsonl: the file is empty; is the training still starting?"),
    "negative steps": ("a.csv", text(step=lambda i: 10 * i - 10), "line 2: column 'step' is -10"),
    "fractional steps": ("a.csv", text(step=lambda i: i / 2), "line 3: column 'step' is 0.5"),
    "huge steps": ("a.csv", text(step=lambda i: i * 1e300), "line 3: column 'step' is 1e+300"),
    "infinite steps": ("a.csv", text(step=lambda i: i or "inf"), "line 2: column 'step' is inf"),
    "a step that is text": ("a.csv", text(step=lambda i: i or "q"), "column 'step' holds 'q'"),
    "a short line": ("a.csv", text() + "400,1\n", "line 42 has 2 cells where the header has 3"),
    "a column twice": ("a.csv", "step,acc,x,x\n0,1,2,3\n", "column 'x' stands twice"),
    "Latin-1": ("a.csv", "step,acc,x,é\n0,1,2,3\n".encode("latin-1"), "not UTF-8 text; save"),
    "UTF-16": ("a.csv", text().encode("utf-16"), "a.csv: not UTF-8 text; save the file as UTF-8"),
    "two step columns": ("a.csv", "_step,Step,x\n0,0,1\n", "say which, e.g. --step-column Step"),
    "W&B without steps": ("a.csv", "_runtime,_timestamp,x\n1,2,3\n", "no column 'step' and no '_s"),
    "a state cut short": ("s/trainer_state.json", STATE, "trainer_state.json: cut short, or no"),
    "no Trainer's state": ("s/trainer_state.json", "{}", "no Trainer's state: it has no list log"),
    "events cut short": ("s/events.out.tfevents.1.h", b"\x18" + bytes(20), "cut short in record 1"),
    "no Parquet": ("a.parquet", text(), "a.parquet: not a Parquet file, or a truncated one"),
    "another file": ("a.txt", text(), "a.txt: not a run log; known endings: .parquet, .csv, "),
}


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_files_that_cannot_be_read(name: str, content: str | bytes, message: str):
    if name.startswith("s/events"):
        pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    line = refused("evaluate", "--runs", path, *JUDGE)
    assert message in line
    with pytest.raises(InputError) as raised:
        RunLog.read(path)
    assert line == f"error: {raised.value}"
    assert not Path("results").exists()


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


def test_a_folder_in_place_of_a_file():
    Path("a.csv").mkdir()
    assert "a.csv: no run log (.parquet, .csv, " in refused("evaluate", "--runs=a.csv", *JUDGE)


def test_two_runs_of_one_name():
    for folder in "pq":
        Path(folder).mkdir()
        Path(folder, "a.csv").write_text(text())
    message = refused("evaluate", "--runs=*/a.csv", *JUDGE)
    assert message == (
        "error: run 'a' is in two files, p/a.csv and q/a.csv; leave one out, or give the runs "
        "different names"
    )
    for folder in "pq":
        Path(folder, "run").mkdir()
        Path(folder, "run", "trainer_state.json").write_text(f"{STATE}}}]}}")
    assert "run 'run' is in two files" in refused("evaluate", "--runs=[pq]/run", *JUDGE)


def test_one_bad_cell_in_a_million_rows_is_named_within_seconds():
    rows = [f"r{i // 1000},{i % 1000 * 10},{i % 97},{i % 89}\n" for i in range(1_000_000)]
    rows[765_432] = rows[765_432].rpartition(",")[0] + ",oops\n"
    Path("big.csv").write_text("run,step,acc,x\n" + "".join(rows))
    began = time.perf_counter()
    message = refused("evaluate", "--runs=big.csv", *JUDGE)
    assert message == (
        "error: big.csv: line 765434: column 'x' holds 'oops', not a number; correct or empty "
        "this cell"
    )
    assert time.perf_counter() - began < 20  # about 3 s where nothing else runs


@pytest.mark.usefixtures("no_figures")
def test_equal_scores_are_no_error_and_no_alarm():
    for run in range(3):
        Path(f"r{run}.csv").write_text(text(acc=lambda i: float(i > 25), x=lambda i: 1))
    done = gmb("evaluate", "--runs", ".", *JUDGE)
    assert done.code == 0, done
    (score,) = [i for i in Results.read("results/results.yaml").indicators if i.name == "x"]
    assert score.label != "SUPPORTED_FOR_ALARM"
    assert score.layer_A.auc == 0.5


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "change",
    [
        lambda log: "\ufeff" + log,
        lambda log: log.replace("\n", "\r\n"),
        lambda log: log.replace("\n", "\r\n", 17),
        lambda log: log.replace("\n", "\n\n"),
        lambda log: "".join(
            f"{'' if i == 0 else i},{line}\n" for i, line in enumerate(log.splitlines())
        ),
    ],
    ids=["BOM", "CRLF", "mixed endings", "blank lines", "an index without a name"],
)
def test_ways_of_other_programs_are_no_fault(change: Callable[[str], str]):
    Path("plain.csv").write_text(text())
    Path("other.csv").write_bytes(change(text()).encode())
    plain, other = (RunLog.read(f"{name}.csv") for name in ("plain", "other"))
    assert plain.table.drop(["run"]).equals(other.table.drop(["run"]))


def test_thousands_of_columns():
    names = [f"layer_{i}/norm" for i in range(4000)]
    rows = [",".join([str(10 * i), "0.5", *["1"] * len(names)]) for i in range(40)]
    Path("wide.csv").write_text("\n".join([",".join(["step", "acc", *names]), *rows]) + "\n")
    judge = ("--metric=acc", "--horizon=60", "--safe-gap=100", "--score=layer_1234/nrom")
    message = refused("evaluate", "--runs=wide.csv", *judge)
    assert "columns: layer_1234/norm, " in message
    assert message.endswith("Did you mean 'layer_1234/norm'?")
    assert len(message) < 1200
