"""Spoil every kind of file that `gmb` reads, and look at how the commands answer. After them come
the attacks of `benchmarks.dishonest`: copied runs, cheating scores, repeated looks.

    python -m benchmarks attacks                  # the table of docs/reliability.md
    python -m benchmarks.attacks lock 50 7        # one kind: attempts, seed

A command must say what is wrong: exit code 0 (it is still a whole file), 1 (a check failed, "no:
..."), 2 ("error: ..." in one line) or, of `gmb monitor`, 3 (an alarm). Anything else is a fault: a
traceback, another exit code or message, more than 20 seconds, more than 8 GB, or the end of the
process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import dishonest
from benchmarks.harness import Line, side

INPUTS = Path(__file__).parents[1] / "tests" / "golden" / "inputs"
_SECONDS, _BYTES = 20, 8 * 2**30

_WATCH = "monitor --lock lock.yaml --results results/results.yaml --follow watched.jsonl --idle 0"
_TABLE = "crucible score bundles.jsonl --name first --out first.parquet"
_BOARD = "crucible scoreboard --scores first.parquet --eval-version v1 --out"
# What is made of the inputs before anything is spoiled.
_BEFORE = (
    "evaluate --runs heldout.parquet --lock lock.yaml --out results --no-figures",
    _WATCH,
    _TABLE,
    f"{_BOARD} first.json",
    "crucible tiers fit --scores first.parquet --out tiers.json",
    "data build formal --out parity --task parity_8",
)


class TooSlow(BaseException):
    """No command may catch it."""


class Target(NamedTuple):
    """A file, what reads it (a command, or a function), and what that writes and reads again."""

    file: str
    command: str
    after: tuple[str, ...] = ()


TARGETS: dict[str, Target] = {
    "design": Target("prereg.yaml", "plan --prereg prereg.yaml"),
    "lock": Target("lock.yaml", _WATCH),
    "results": Target("results/results.yaml", "results validate results/results.yaml"),
    "results, watched by": Target("results/results.yaml", _WATCH),
    "followed log": Target("watched.jsonl", _WATCH, ("watched.jsonl.monitor.json",)),
    "monitor's state": Target("watched.jsonl.monitor.json", _WATCH),
    "run log, CSV": Target("small.csv", "runs verify --runs small.csv"),
    "run log, JSONL": Target("log.jsonl", "runs verify --runs log.jsonl"),
    "run log, Parquet": Target("explore.parquet", "runs verify --runs explore.parquet"),
    "run log, Trainer": Target("t/trainer_state.json", "runs verify --runs t/trainer_state.json"),
    "run log, TensorBoard": Target("tb/events.out.tfevents.1", "runs verify --runs tb"),
    "bundles": Target("bundles.jsonl", _TABLE.replace("first.p", "other.p")),
    "item scores": Target("first.parquet", f"{_BOARD} other.json"),
    "tiers": Target(
        "tiers.json",
        "crucible tiers assign --tiers tiers.json --scores first.parquet --bundles bundles.jsonl "
        "--out tiered.jsonl",
    ),
    "scoreboard": Target("first.json", "crucible compare first.json second.json --permutations 99"),
    "configurations": Target("c.csv", "crucible pareto c.csv --no-figures --out pareto"),
    "answers": Target("answers.jsonl", "judge consistency answers.jsonl --out c.parquet"),
    "suite": Target(
        "sequential/sequential.yaml",
        "gmb_hf.protocol.sequential.report.read_run sequential",
    ),
    "matrix": Target(
        "sequential/matrix.csv",
        "gmb_hf.protocol.sequential.matrix.read_matrix sequential/matrix.csv",
    ),
    "card": Target("parity/README.md", "data verify parity"),
    "dataset": Target("parity/parity_8/train-00000-of-00001.parquet", "data verify parity"),
}

VALUES = (
    "[" * 100_000,
    "[" * 99 + "]" * 99,
    '{"a":' * 10_000 + "1" + "}" * 10_000,
    "9" * 5_000,
    "-" + "9" * 400,
    "9223372036854775808",
    "1e-320",
    "1e999",
    "1e308",
    "NaN",
    ".nan",
    ".inf",
    "-1",
    "0",
    "null",
    "true",
    "[]",
    "{}",
    "[null]",
    '""',
    '"\\ud800"',
    '"\\u0000"',
    '"../../../etc/passwd"',
    '"=cmd|x"',
    '"{:>99999999999}"',
    "!!int x",
    "!!binary \u00e9",
    "!!timestamp x",
    "!!python/object/apply:os.system [x]",
    "&a [*a]",
    "*nowhere",
    '"' + "x" * 200_000 + '"',
)
"""Values that have broken readers, in JSON, YAML or both."""


def _bomb(form: str) -> str:
    grown = (f"a{i}: &a{i} " + form % ",".join([f"*a{i - 1}"] * 9) for i in range(1, 12))
    return "\n".join(["a0: &a0 {x: 1}", *grown])


DOCUMENTS = ("", "\0", "[]", "null", _bomb("[%s]"), _bomb("{<<: [%s]}"), *VALUES[:5])
_TOKEN = re.compile(r"\"[^\"\n]*\"|(?<=[ ,\[:])-?[\w.][\w.+-]*(?=[,\]}\s])")


def spoiled(content: bytes, chance: random.Random) -> bytes:
    """A file with one fault, or a few: of its bytes, of its lines, or of a value in it."""
    way = chance.randrange(8)
    if way == 0:
        return chance.choice(DOCUMENTS).encode()
    if way == 1:
        return content[: chance.randrange(len(content) + 1)]
    data = bytearray(content)
    if way == 2:
        for _ in range(chance.choice((1, 1, 8))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        return bytes(data)
    if way == 3:
        begin = chance.randrange(len(data))
        piece = data[begin : begin + chance.randrange(1, 200)]
        place = chance.randrange(len(data))
        data[place:place] = piece
        return bytes(data)
    lines = content.split(b"\n")
    if way == 4:
        lines.insert(chance.randrange(len(lines)), chance.choice(VALUES).encode())
        return b"\n".join(lines)
    if way == 5:
        lines.insert(chance.randrange(len(lines)), lines.pop(chance.randrange(len(lines))))
        return b"\n".join(lines)
    text = content.decode("latin-1")
    tokens = [found.span() for found in _TOKEN.finditer(text)]
    if not tokens:
        return bytes(data[chance.randrange(len(data)) :])
    begin, end = chance.choice(tokens)
    value = chance.choice(VALUES).encode().decode("latin-1")
    return (text[:begin] + value + text[end:]).encode("latin-1")


def prepare(folder: Path) -> None:
    """Whole files of every kind in a folder, which becomes the current one."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    os.chdir(folder)
    shutil.copytree(INPUTS, folder, dirs_exist_ok=True)
    for name, copy in (
        ("watched_0", "watched"),
        ("watched_0", "log"),
        ("bundles_first", "bundles"),
    ):
        shutil.copy(folder / f"{name}.jsonl", folder / f"{copy}.jsonl")
    for name in ("t", "tb"):
        (folder / name).mkdir()
    history = [{"step": step, "loss": 1 / (1 + step), "epoch": step / 10} for step in range(40)]
    state = {"log_history": history, "global_step": 39, "best_metric": None}
    Path("t/trainer_state.json").write_text(json.dumps(state, indent=2))
    with open("tb/events.out.tfevents.1", "wb") as file:
        writer = RecordWriter(file)
        for step in range(40):
            event = Event(step=step)
            event.summary.value.add(tag="loss", simple_value=1 / (1 + step))
            writer.write(event.SerializeToString())
    Path("c.csv").write_text("name,frozen_tier3,organic_holdout\na,0.5,0.9\nb,0.7,0.8\nc,0.4,0.7\n")
    answers = [
        {"run": "a", "step": step, "prompt": "p", "sample": sample, "answer": f"x {sample % 2}"}
        for step in (0, 10)
        for sample in range(3)
    ]
    Path("answers.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in answers))
    for command in _BEFORE:
        code, said = answered(command)
        if code not in (0, 3):
            raise RuntimeError(f"gmb {command}: {code}: {said}")
    shutil.copy("first.json", "second.json")
    for kind, target in TARGETS.items():
        if not Path(target.file).is_file():
            raise RuntimeError(f"{kind}: there is no {target.file}")


def answered(command: str) -> tuple[int, str]:
    """Exit code of a `gmb` command run in this process, and what it said on standard error.

    A function of the package is called with the paths that follow its name, as a command would.
    """
    from gmb_hf.base.errors import InputError
    from gmb_hf.cli import main

    name, *words = command.split()
    if name.startswith("gmb_hf."):
        module, _, function = name.rpartition(".")
        try:
            getattr(import_module(module), function)(*words)
        except InputError as error:
            return 2, f"error: {error}"[:1_000]  # the command line cuts it, too
        return 0, ""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([name, *words])
    return code, err.getvalue()


def fault(target: Target, content: bytes) -> tuple[int, str | None]:
    """Exit code of the command on this content, and the fault of its answer, None where none is.

    What the command changes of the file, and writes beside it, is undone.
    """
    place = Path(target.file)
    whole = place.read_bytes()
    kept = {name: Path(name).read_bytes() for name in target.after if Path(name).exists()}
    state = Path("watched.jsonl.monitor.json").read_bytes()
    try:
        place.write_bytes(content)
        with _limited():
            code, said = answered(target.command)
        last = (said.strip().splitlines() or [""])[-1]
        begins = {0: "", 1: "no: ", 2: "error: ", 3: "", 4: ""}.get(code)
        right = begins is not None and last.startswith(begins) and len(last) < 2_000
        watching = code not in (3, 4) or target.command == _WATCH
        return code, None if right and watching else f"exit code {code}: {last[:200]}"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return -1, "".join(traceback.format_exception(error)[-3:])[-600:]
    finally:
        Path("watched.jsonl.monitor.json").write_bytes(state)
        for name, held in kept.items():
            Path(name).write_bytes(held)
        place.write_bytes(whole)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise TooSlow(f"took more than {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(kind: str, attempts: int, seed: int) -> dict[str, Any]:
    """Exit code -> attempts with it, and the faults, of spoiled files of one kind."""
    target, chance = TARGETS[kind], random.Random(f"{kind} {seed}")
    codes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        whole = Path(target.file).read_bytes()
        code, wrong = fault(target, whole)
        if wrong or code not in (0, 3):
            raise RuntimeError(f"{kind}, unspoiled: {code}, {wrong}")
        resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
        for _ in range(attempts):
            code, wrong = fault(target, spoiled(whole, chance))
            codes[str(code)] += 1
            if wrong:
                faults[wrong] += 1
        os.chdir("/")
    return {"codes": codes, "faults": faults}


def table(attempts: int = 120, seed: int = 14) -> Line:
    """Attack every kind, each in a process of its own; one line of the table for each."""
    rows, total, wrong, details = [], 0, 0, []
    for kind in TARGETS:
        try:
            found = side("attacks", kind, str(attempts), str(seed))
        except Exception as error:  # the end of the process is a fault, too
            found = {"codes": {}, "faults": {f"the process ended: {error}": 1}}
        codes, faults = found["codes"], sum(found["faults"].values())
        read = sum(codes.get(code, 0) for code in "0134")
        rows.append(f"| {kind} | {attempts} | {read} | {codes.get('2', 0)} | {faults} |")
        total, wrong = total + attempts, wrong + faults
        details += [f"{kind}: {text}" for text in found["faults"]]
    others, more = dishonest.rows(attempts / 120)
    wrong += more
    head = ["| file | attempts | still read | refused | faults |", "|---|---|---|---|---|"]
    return Line(
        "A1", f"{wrong} faults", f"0 of {total:,}", not wrong, [*head, *rows, "", *others, *details]
    )


if __name__ == "__main__":
    _kind, *_numbers = sys.argv[1:]
    print(json.dumps(attack(_kind, *map(int, _numbers))))
