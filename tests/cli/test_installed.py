"""The installed `gmb` as a process of its own: exit codes, streams, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import DESIGN
from launched import exit_code, speaking_to, started

import gmb_hf
from gmb_hf.cli import main

MISSPELLED = "error: No such option: --versoin"
GMB = Path(sys.executable).with_name("gmb")

pytestmark = pytest.mark.skipif(not GMB.exists(), reason="gmb is not installed beside this Python")


def installed(*arguments: object) -> subprocess.CompletedProcess[str]:
    # Stated, not inherited: readline, which pytest loads, puts COLUMNS where os.environ is blind.
    return subprocess.run(
        [GMB, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(os.environ),
    )


def test_version():
    done = installed("--version")
    assert (done.returncode, done.stdout) == (0, f"gmb-hf {gmb_hf.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (["--version"], 0, f"gmb-hf {gmb_hf.__version__}\n", ""),
        (["--versoin"], 2, "", MISSPELLED),
    ],
)
def test_the_module_is_the_command(arguments: list[str], code: int, out: str, err: str):
    run = [sys.executable, "-m", "gmb_hf", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (code, out)
    assert done.stderr.startswith(err)
    assert done.stderr.count("\n") == (code > 0)


def test_bad_input_is_one_line_on_standard_error_and_exit_code_2():
    done = installed("evaluate", "--runs=gone.csv", *DESIGN, "--score=x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: gone.csv: no such file or folder\n"


def test_a_verdict_through_a_pipe_keeps_its_columns(csv_logs: Path):
    judging = ("evaluate", "--score=embedding_gini", "--no-figures", *DESIGN)
    done = installed(*judging, "--runs", csv_logs)
    assert (done.returncode, done.stderr) == (0, "")
    assert "reasons" in done.stdout
    assert "\x1b" not in done.stdout
    assert "next    gmb plan --pilot " in done.stdout  # 48 runs are too few to be split


TRAINING = ("train", "--preset=smoke", "--seeds=0:4", "--out=t", "--set=training.compile=never")
LONG = (*TRAINING, "--set=training.steps=1000000")


def when_it_trains(process: int, number: signal.Signals) -> None:
    """Send a signal to a process once its training is under way."""
    deadline = time.monotonic() + 100
    while not Path("t/config.yaml").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    os.kill(process, number)


def check_ending(told: str, message: str) -> None:
    assert told.splitlines()[-1].startswith(message)
    assert "Traceback" not in told


def _train(out: Path, err: Path) -> None:
    # A shell's background jobs, and so their children, do not hear Ctrl-C unless they ask to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    speaking_to(out, err)
    sys.exit(main(LONG))


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [(signal.SIGINT, 130, "interrupted; "), (signal.SIGTERM, 143, "stopped; ")],
)
def test_a_signal_while_training(tmp_path: Path, number: signal.Signals, code: int, message: str):
    process = started(_train, tmp_path / "said", tmp_path / "told")
    try:
        assert process.pid is not None
        when_it_trains(process.pid, number)
        assert exit_code(process) == code
    finally:
        process.kill()
    check_ending((tmp_path / "told").read_text(encoding="utf-8"), message)
