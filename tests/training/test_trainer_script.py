"""trainers/train_grokking.py, run as its users run it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from launched import exit_code as ended
from launched import run, speaking_to, started

from gmb_hf.base.errors import InputError
from gmb_hf.jobs.trainers import grokking
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.launch import exit_code

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "trainers" / "train_grokking.py"
SMALL = ["--preset", "smoke", "--set", "task.prime=7", "--set", "training.steps=20"]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """A finished folder, and what the command said."""
    out = tmp_path_factory.mktemp("one")
    return out, run(SCRIPT, "--cpu", *SMALL, "--seeds", "0:5", "--out", out)


def test_a_user_trains_a_preset(one_process):
    out, done = one_process
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{out}/logs/seeds-0-4-n5.parquet",
        f"next: gmb explore --runs {out}/logs",
    ]
    assert "100%" in done.stderr  # the bar keeps to standard error
    log = RunLog.read(out / "logs")
    assert log.seeds == (0, 1, 2, 3, 4)
    assert log.panel("train_loss").steps[0].tolist() == [0, 10, 20]


def test_two_processes_share_the_seeds_and_log_the_same(one_process, tmp_path):
    done = run(SCRIPT, "--cpu", *SMALL, "--seeds", "0:5", "--out", tmp_path, processes=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("next: gmb explore") == 1  # one process speaks
    names = sorted(path.name.rpartition("-")[0] for path in (tmp_path / "logs").iterdir())
    assert names == ["seeds-0-4-n3", "seeds-1-3-n2"]
    two, one = RunLog.read(tmp_path / "logs"), RunLog.read(one_process[0] / "logs")
    assert two.runs == one.runs
    assert two.metadata == one.metadata
    for name in one.observables:
        found, expected = two.panel(name).values, one.panel(name).values
        # Another number of stacked seeds may sum in another order.
        scale = max(float(np.abs(expected).max()), 1e-6)
        tolerance = 2e-2 if name == "curvature" else 1e-3
        assert float(np.abs(found - expected).max()) <= tolerance * scale, name


def test_when_one_process_dies_the_other_stops_and_the_same_command_goes_on(tmp_path):
    sizes = ["--preset", "smoke", "--set", "task.prime=7", "--set", "training.steps=250"]
    sizes += ["--set", "training.checkpoint_every=125"]
    # Each process trains two groups of one seed; the first of each is finished before the end.
    command = [SCRIPT, "--cpu", *sizes, "--set", "training.seeds_at_once=1", "--seeds", "0:4"]
    command += ["--out", tmp_path]
    logs = tmp_path / "logs"
    launcher = started(torchrun, [str(part) for part in command], tmp_path / "said")
    until(lambda: len(list(logs.glob("seeds-*"))) >= 2)  # whole ones: half a file has a dot
    os.kill(children(launcher.pid)[0], signal.SIGKILL)
    assert ended(launcher) != 0
    said = (tmp_path / "said").read_text()
    # The other one hears of it from the launcher, or where it would meet the dead one: whichever
    # comes first.
    by_launcher = "the launcher asked, as it does when another process has died"
    by_itself = "another process of this training is gone"
    assert re.search(rf"stopped: ({by_launcher}|{by_itself}); the same command goes on from", said)
    finished = {path.name: path.stat().st_mtime_ns for path in logs.glob("seeds-*")}
    assert 2 <= len(finished) < 4

    done = run(*command, processes=2)
    assert done.returncode == 0, done.stderr
    assert RunLog.read(logs).seeds == (0, 1, 2, 3)
    for name, written in finished.items():  # nothing is trained twice
        assert (logs / name).stat().st_mtime_ns == written


def torchrun(words, said):
    """Launch two processes as torchrun does, all forked from one; what they say goes to a file."""
    from torch.distributed.run import main

    speaking_to(said, said)
    main(["--standalone", "--nproc-per-node=2", "--run-path", "--start-method=fork", *words])


def until(true, seconds=100):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def children(pid):
    """The processes that a process has started, in the order of their numbers."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted(int(child) for task in tasks for child in task.read_text().split())


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on"),
        (RuntimeError("Connection closed by peer [::1]"), 143, "stopped: another process of this"),
        (InputError("bad: choose another"), 2, "error: bad: choose another\n"),
    ],
)
def test_a_script_says_why_it_ends(capsys, error, code, said):
    def work():
        raise error

    assert exit_code(work) == code
    assert capsys.readouterr().err.startswith(said)


def test_a_fault_of_its_own_is_no_end_of_another_process():
    def work():
        raise RuntimeError("a fault of its own")

    with pytest.raises(RuntimeError, match="a fault of its own"):
        exit_code(work)


def test_processes_that_do_not_know_of_each_other_are_refused(tmp_path):
    """As under torchrun without --cpu on a machine without a GPU."""
    done = run(SCRIPT, *SMALL, "--out", tmp_path, WORLD_SIZE="2", ACCELERATE_USE_CPU="0")
    assert done.returncode == 2
    assert done.stderr == (
        "error: 2 processes were launched but each sees 1; on a CPU pass --cpu and launch with "
        "torchrun --nproc_per_node N\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "smok"], "preset 'smok' is unknown; .* Did you mean 'smoke'?"),
        (["--preset", "smoke", "--set", "training.lrr=1"], "Did you mean 'lr'?"),
        (["--preset", "smoke", "--seeds", "3:1"], "seeds '3:1': '3:1' is empty"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, tmp_path, arguments, message):
    out = tmp_path / "out"
    assert grokking.main([*arguments, "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert re.search(message.replace("?", r"\?"), said.err)
    assert not out.exists()


def test_a_mistake_is_answered_before_anything_heavy_is_imported():
    code = (
        f"import sys, runpy; sys.argv = ['train', '--preset', 'smok', '--out', 'x']\n"
        f"try: runpy.run_path({str(SCRIPT)!r}, run_name='__main__')\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "2 False\n"


def test_an_unknown_option_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        grokking.main(["--pre", "smoke", "--lr", "3"])
    assert "usage:" in capsys.readouterr().err


def test_ctrl_c_says_how_to_go_on(monkeypatch, capsys, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gmb_hf.training.seeds.train_seeds", interrupted)
    assert grokking.main([*SMALL, "--out", str(tmp_path)]) == 130
    assert capsys.readouterr().err.startswith("interrupted; the same command goes on from")
