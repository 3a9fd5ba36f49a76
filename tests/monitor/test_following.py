"""`gmb monitor`: a growing log, its ends, its breaks, and what is refused."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gmb_hf.base.errors import InputError
from gmb_hf.cli import main
from gmb_hf.cli import monitor as monitor_panel
from gmb_hf.monitor.follow import Ending, LogWatch, ending_of
from gmb_hf.monitor.monitor import AlarmMonitor, write_state
from gmb_hf.monitor.reading import Reading

GAIN = "embedding_gini_gain"


@pytest.fixture(scope="module")
def rows(evaluated: Any) -> list[str]:
    """The lines of a run that alarms, one a checkpoint."""
    held_out = evaluated.held_out
    table = held_out.select([held_out.runs[0]]).table.drop_columns(["run", "seed"])
    return [json.dumps(row) + "\n" for row in table.to_pylist()]


@pytest.fixture(scope="module")
def first_alarm(evaluated: Any, rows: list[str]) -> int:
    monitor = AlarmMonitor(evaluated.lock, evaluated.results, act=[GAIN], show=())
    readings = (monitor.update(**json.loads(row)) for row in rows)
    return next(reading.step for reading in readings if reading.state == "ALARM")


class Seen:
    """A viewer that keeps everything."""

    def __init__(self) -> None:
        self.readings: list[Reading] = []
        self.notes: list[str] = []

    def reading(self, reading: Reading) -> None:
        self.readings.append(reading)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def waiting(self, seconds: float) -> None:
        pass

    @property
    def steps(self) -> list[int]:
        return [reading.step for reading in self.readings]


class Writer:
    """Does one thing at each pause of the watch, in place of a training in another process."""

    def __init__(self, *deeds: Callable[[], object]) -> None:
        self.deeds: Iterator[Callable[[], object]] = iter(deeds)
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        next(self.deeds, lambda: None)()

    def clock(self) -> float:
        return self.now


def append(path: Path, lines: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(lines)


def watched(
    evaluated: Any, log: Path, *deeds: Callable[[], object], until: int | None = None, **named: Any
) -> tuple[str, Seen]:
    """How a watch ended that nothing more was written for, and what it saw."""
    monitor = AlarmMonitor(evaluated.lock, evaluated.results, act=[GAIN], show=())
    seen, writer = Seen(), Writer(*deeds)
    state = named.pop("state", log.with_suffix(".state"))
    with LogWatch(monitor, log, state, **named) as watch:
        ending = Ending(until=until, idle=2)
        ended = watch.follow(ending, seen, sleep=writer.sleep, clock=writer.clock)
    return ended, seen


def command(folder: Path, *options: object) -> list[str]:
    lock = ["--lock", folder / "lock.yaml", "--act", GAIN]
    return ["monitor", *map(str, [*lock, *options])]


def test_a_run_that_alarms_exits_3(
    judged: Path, rows: list[str], first_alarm: int, tmp_path: Path, capsys: Any
) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows)
    assert main(command(judged, "--follow", log)) == 3
    out = capsys.readouterr().out
    assert f"ended   at step {first_alarm}: ALARM; an alarm was raised\n" in out
    assert f"acting  {GAIN}\npromise False alarms in at most 1 run in 20 (0.043 exp" in out
    assert f"{GAIN} reached " in out
    # Started again it has nothing to wait for: the alarm of this run was raised.
    assert main(command(judged, "--follow", log)) == 3
    again = capsys.readouterr().out
    assert f"ended   an earlier watch raised the alarm of this run at step {first_alarm}; " in again
    assert f"to watch it anew delete {log}.monitor.json\nreason  {GAIN} reached " in again


def test_verdicts_of_a_transfer_are_told_at_the_start(
    transferred: Path, judged: Path, rows: list[str], tmp_path: Path, capsys: Any
) -> None:
    log, told = tmp_path / "run.jsonl", []
    append(log, rows[:3])
    for folder in (transferred, judged):
        state, lock = tmp_path / f"{folder.name}.json", folder / "lock.yaml"
        watching = ["--lock", lock, "--follow", log, "--idle", 0, "--state", state]
        assert main(["monitor", *map(str, watching)]) == (4 if folder == transferred else 0)
        told.append("note: The verdicts are about another system" in capsys.readouterr().out)
    assert told == [True, False]


def test_by_windows_it_rings_again(
    judged: Path, rows: list[str], tmp_path: Path, capsys: Any
) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows)
    by_windows = command(judged, "--follow", log, "--unit", "window", "--target", 0.05)
    steps = []
    for _ in range(2):
        assert main(by_windows) == 3
        out = capsys.readouterr().out
        assert "promise False alarms at 5% of the windows before an event, not in that sha" in out
        steps.append(int(out.split("ended   at step ")[1].split(":")[0]))
    assert steps[0] < steps[1]
    assert main(command(judged, "--follow", log)) == 2
    kept = f"{log}.monitor.json: is of a monitor with a budget of 0.05 by windows, not a budget of"
    assert kept in " ".join(capsys.readouterr().err.split())


def test_a_run_that_ends_before_exits_0(
    judged: Path, rows: list[str], first_alarm: int, tmp_path: Path, capsys: Any
) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows[: first_alarm // 10])
    assert main(command(judged, "--follow", log, "--until", 100)) == 0
    assert "at step 100: CLEAR; its last step was reached" in capsys.readouterr().out
    assert main(command(judged, "--follow", log, "--idle", 0)) == 0
    assert f"at step {first_alarm - 10}: CLEAR; nothing more" in capsys.readouterr().out


def test_a_run_that_was_not_watched_exits_4(
    judged: Path, rows: list[str], tmp_path: Path, capsys: Any
) -> None:
    log = tmp_path / "run.jsonl"
    bare = [json.dumps({"step": json.loads(row)["step"], "loss": 1.0}) + "\n" for row in rows[3:5]]
    append(log, [*rows[:3], *bare])
    asked = command(judged, "--follow", log, "--idle", 0)
    assert main(asked) == 4
    out = capsys.readouterr().out
    assert "ABSTAIN; nothing more was written\nreason  embedding_gini_gain is broken since" in out
    assert main(asked) == 4  # started again on what it has seen
    silent = tmp_path / "silent.jsonl"
    silent.touch()
    assert main(command(judged, "--follow", silent, "--idle", 0)) == 4
    assert "before its first checkpoint; nothing more was written" in capsys.readouterr().out
    # Broken, then repaired: what is broken stays so.
    append(log, rows[5:8])
    assert main(asked) == 4


def test_a_run_ends_with_its_process(judged: Path, rows: list[str], tmp_path: Path) -> None:
    log, state = tmp_path / "run.jsonl", tmp_path / "run.jsonl.monitor.json"
    script = "import sys; open(sys.argv[1], 'w').write(sys.argv[2]); sys.stdin.read()"
    told = [sys.executable, "-c", script, str(log), "".join(rows[:5])]
    training = subprocess.Popen(told, stdin=subprocess.PIPE)

    def end_once_it_is_watched() -> None:
        deadline = time.monotonic() + 60
        while not state.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        training.communicate()  # the child is no zombie once somebody waits for it

    threading.Thread(target=end_once_it_is_watched).start()
    assert main(command(judged, "--follow", log, "--pid", training.pid)) == 0


def test_without_an_ending_a_run_ends_where_the_explore_runs_did(evaluated: Any) -> None:
    monitor = AlarmMonitor(evaluated.lock, evaluated.results)
    assert ending_of(monitor, Ending()).until == evaluated.lock.x_lock.x_health.last_step
    assert ending_of(monitor, Ending(idle=3)) == Ending(idle=3)


def test_a_log_that_grows_line_by_line(
    evaluated: Any, rows: list[str], first_alarm: int, tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    half = len(rows[3]) // 2
    ended, seen = watched(
        evaluated,
        log,
        lambda: None,  # not there yet
        lambda: append(log, rows[:3]),
        lambda: append(log, [rows[3][:half]]),
        lambda: append(log, [rows[3][half:]]),
        lambda: append(log, rows[4:]),
    )
    assert ended == "alarm"
    assert seen.steps == list(range(0, first_alarm + 10, 10))
    assert seen.notes == []


def test_a_log_that_ends_in_the_middle_of_a_line(
    evaluated: Any, rows: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    append(log, [*rows[:3], rows[3][:25]])
    ended, seen = watched(evaluated, log)
    assert ended == "idle"
    assert seen.steps == [0, 10, 20]
    assert len(seen.notes) == 1
    assert "line 4 is not JSON: " in seen.notes[0]
    whole = tmp_path / "whole.jsonl"
    append(whole, [*rows[:3], rows[3].rstrip()])
    assert watched(evaluated, whole)[1].steps == [0, 10, 20, 30]


def test_lines_that_cannot_be_read_are_noted_and_it_goes_on(
    evaluated: Any, rows: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    number = "9" * 400
    odd = {
        f'{{"step": {number}}}': "has 400 digits",
        '{"step": 25, "x": ' + "9" * 5000 + "}": "has 5000 digits",
        '{"step": true}': "column 'step' holds 'true', not a number; correct or empty this cell",
        '{"step": 9223372036854775808}': "is 9.22337e+18; it must be a whole number from 0 on and",
        "[" * 100_000 + "]" * 100_000: "is nested too deeply; 100 levels are the most",
        '{"step": 25, "x": ' + '{"a":' * 50_000 + "1" + "}" * 50_000 + "}": "is nested too deeply",
        '{"step": 25, "step": 30}': "key 'step' is given twice",
        '{"global_step": 1, "_step": 1}': "line 11: column 'step' is empty; it must be a whole",
    }
    append(log, [*rows[:3], *(f"{line}\n" for line in odd), *rows[3:5]])
    ended, seen = watched(evaluated, log)
    assert (ended, seen.steps) == ("idle", [0, 10, 20, 30, 40])
    assert len(seen.notes) == len(odd)
    for note, (line, why) in zip(seen.notes, odd.items(), strict=True):
        assert why in note, line[:40]
        assert note.endswith("; passed over")
        assert len(note) < 400


def test_a_number_that_float64_cannot_hold_breaks_what_needs_it(
    evaluated: Any, rows: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    gini = json.loads(rows[2])["embedding_gini"]
    append(log, [*rows[:2], rows[2].replace(str(gini), "1e400")])
    _, seen = watched(evaluated, log)
    assert [reading.state for reading in seen.readings] == ["CLEAR", "CLEAR", "ABSTAIN"]
    assert "column 'embedding_gini' is inf" in seen.readings[-1].reason


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_ends_of_lines(
    evaluated: Any, rows: list[str], tmp_path: Path, end: str, suffix: str
) -> None:
    log = tmp_path / f"run.{suffix}"
    lines = [row.rstrip() for row in rows[:4]]
    if suffix == "csv":
        table = [json.loads(row) for row in lines]
        lines = [",".join(table[0]), *(",".join(map(str, row.values())) for row in table)]
    text = "".join(line + end for line in lines).encode()

    def add(piece: bytes) -> None:
        with log.open("ab") as file:
            file.write(piece)

    cuts = sorted({0, text.index(b"\n" if "\n" in end else b"\r"), 700, 1500, len(text)})
    pieces = [text[a:b] for a, b in pairwise(cuts)]
    _, seen = watched(evaluated, log, *(lambda piece=piece: add(piece) for piece in pieces))
    assert (seen.steps, seen.notes) == ([0, 10, 20, 30], [])


def test_a_cell_without_an_end(evaluated: Any, rows: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.csv"
    table = [json.loads(row) for row in rows[:4]]
    lines = [",".join(table[0]), *(",".join(map(str, row.values())) for row in table)]
    lines[3:3] = ["5," + "x" * 200_000, '5,"' + "y" * 200_000]
    append(log, [line + "\n" for line in lines])
    _, seen = watched(evaluated, log)
    assert seen.steps == [0, 10, 20, 30]
    assert ["is no line of a CSV file: field larger than" in note for note in seen.notes] == [
        True
    ] * 2
    log.write_text("step,x,x\n0,1,2\n")
    with pytest.raises(InputError, match="column 'x' stands twice in the header"):
        watched(evaluated, log, state=tmp_path / "other")


def test_a_state_that_cannot_be_written_is_noted(
    evaluated: Any, rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    log = tmp_path / "run.jsonl"
    monkeypatch.setattr(os, "fsync", full)
    ended, seen = watched(
        evaluated, log, lambda: append(log, rows[:3]), lambda: append(log, rows[3:5])
    )
    assert (ended, seen.steps) == ("idle", [0, 10, 20, 30, 40])
    assert [note for note in seen.notes if "the disk is full" in note] == seen.notes[:1]


def test_odd_states_are_refused_in_one_line(
    evaluated: Any, rows: list[str], tmp_path: Path
) -> None:
    log, state = tmp_path / "run.jsonl", tmp_path / "run.state"
    append(log, rows[:5])
    watched(evaluated, log)
    whole = state.read_bytes()
    held = {key: value for key, value in json.loads(whole).items() if key != "hash"}
    odd = [
        *(whole[:at] + bytes([whole[at] ^ 2]) + whole[at + 1 :] for at in range(0, len(whole), 97)),
        b"[" * 100_000,
        b'{"a": ' * 100_000,
        b"7",
        b"\xff\xfe",
        whole[:-30],
    ]
    for content in odd:
        state.write_bytes(content)
        with pytest.raises(InputError, match="is not the state of a monitor") as raised:
            watched(evaluated, log)
        assert "\n" not in str(raised.value)
    for key, value in (("first_checkpoint", 5), ("step", "ten"), ("monitor", []), ("monitor", {})):
        write_state(state, {**held, key: value})
        with pytest.raises(InputError, match=r"run.state: (is not the state|.* is required)"):
            watched(evaluated, log)
    state.write_bytes(whole)
    append(log, rows[5:6])
    assert watched(evaluated, log)[1].steps == [50]


def test_truncation_and_rotation_lose_nothing(
    evaluated: Any, rows: list[str], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows[:4])
    ended, seen = watched(
        evaluated,
        log,
        lambda: log.write_text("".join(rows[4:6])),  # cut, and written on
        lambda: log.rename(tmp_path / "run.1"),
        lambda: append(log, rows[6:9]),  # rotated
        lambda: log.write_text("".join(rows[:11])),  # rewritten as a whole
    )
    assert ended == "idle"
    assert seen.steps == list(range(0, 110, 10))
    assert {reading.state for reading in seen.readings} == {"CLEAR"}


def test_a_restarted_monitor_goes_on_though_the_log_was_rotated(
    evaluated: Any, rows: list[str], first_alarm: int, tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows[:9])
    watched(evaluated, log)
    log.unlink()
    append(log, rows[9:])
    ended, seen = watched(evaluated, log)
    assert (ended, seen.steps[0], seen.steps[-1]) == ("alarm", 90, first_alarm)


def test_steps_that_go_backwards(evaluated: Any, rows: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    append(log, [*rows[:5], rows[2]])
    with pytest.raises(InputError, match=r"run.jsonl: line 6: step 20 comes after step 40: the ru"):
        watched(evaluated, log)


def test_a_log_of_another_run(evaluated: Any, rows: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows[:5])
    watched(evaluated, log)
    held_out = evaluated.held_out
    other = held_out.select([held_out.runs[1]]).table.drop_columns(["run", "seed"]).to_pylist()
    log.write_text("".join(json.dumps(row) + "\n" for row in other))
    with pytest.raises(InputError, match=r"line 1: another run begins here than the one that was"):
        watched(evaluated, log)


def test_two_monitors_on_one_state(evaluated: Any, rows: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    append(log, rows[:2])
    monitor = AlarmMonitor(evaluated.lock, evaluated.results, act=[GAIN], show=())
    with (
        LogWatch(monitor, log, log.with_suffix(".state")),
        pytest.raises(InputError, match=r"another monitor saves its state here"),
    ):
        watched(evaluated, log)


def test_a_missing_column_abstains(evaluated: Any, rows: list[str], tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    bare = [json.dumps({"step": json.loads(row)["step"], "loss": 1.0}) + "\n" for row in rows[3:5]]
    append(log, [*rows[:3], *bare])
    _, seen = watched(evaluated, log)
    assert [reading.state for reading in seen.readings] == ["CLEAR"] * 3 + ["ABSTAIN"] * 2
    assert "column 'embedding_gini' is missing" in seen.readings[-1].reason


def test_the_panel_fits_and_shows_what_matters(
    evaluated: Any, rows: list[str], first_alarm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    screen = Console(file=written, width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr(monitor_panel.show, "console", lambda: screen)
    monitor = AlarmMonitor(evaluated.lock, evaluated.results, act=[GAIN])
    with monitor_panel.viewer("run[bold].jsonl") as shown:
        assert isinstance(shown, monitor_panel.LivePanel)
        for row in rows[: first_alarm // 10 + 1]:
            shown.reading(monitor.update(**json.loads(row)))
        shown.note("a line was [red]passed[/red] over")
        shown.waiting(60)
        drawn = io.StringIO()
        Console(file=drawn, width=100).print(shown.draw())
    text = drawn.getvalue()
    assert max(map(len, text.splitlines())) == 100
    for part in ("ALARM", GAIN, "threshold", "may raise the alarm", "run[bold].jsonl", "60 s"):
        assert part in text
    assert "note: a line was [red]passed[/red] over" in written.getvalue()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--follow", "."], "this is a folder; name the log of one run in it"),
        (["--follow", "a.jsonl", "--budget", ".02"], "budget 0.02 is not in the lock; its bud"),
        (["--follow", "a.jsonl", "--target", ".1"], "target is a share of windows, the unit is r"),
        (["--follow", "a.jsonl", "--unit", "runs"], "unit 'runs' is unknown; known: run, window"),
        (["--follow", "a.jsonl", "--act", "clock"], "it may be shown, but never act"),
        (["--follow", "a.jsonl", "--act", "embeding_gini"], "Did you mean 'embedding_gini"),
        (["--follow", "a.jsonl", "--results", "no.yaml"], "no.yaml: "),
        (["--follow", "a.jsonl", "--idle", "-1"], "--idle -1: give seconds, 0 or more"),
        (["--follow", "a.jsonl", "--until", "-5"], "--until -5: give a step, 0 or more"),
        (["--follow", "a.jsonl", "--pid", "4194305"], "--pid 4194305: there is no such process"),
        (["--follow", "a.jsonl", "--state", "bad.json"], "bad.json: is not the state of a "),
        (["--follow", "text.jsonl", "--idle", "0"], "text.jsonl: line 1 is not JSON"),
        (["--follow", "runs.jsonl", "--idle", "0", "--run", "b"], "run 'b' is unknown; known: a"),
    ],
)
def test_bad_input_is_one_line(
    judged: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "text.jsonl").write_text("hello\n")
    (tmp_path / "runs.jsonl").write_text('{"run": "a", "step": 0}\n')
    assert main(command(judged, *options)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert message in lines[0]


def test_a_lock_without_results(judged: Path, tmp_path: Path, capsys: Any) -> None:
    lock = tmp_path / "lock.yaml"
    lock.write_bytes((judged / "lock.yaml").read_bytes())
    assert main(["monitor", "--lock", str(lock), "--follow", "a.jsonl"]) == 2
    assert "a lock without results" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["lock.yaml"]
