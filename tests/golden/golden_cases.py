"""Every golden file: how its text is made with the code at hand."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import math
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import yaml
from drawing import empty_figures
from golden_text import DIGITS, comparable

from gmb_hf.cli import main

HERE = Path(__file__).resolve().parent
INPUTS = HERE / "inputs"
EXPECTED = HERE / "expected"
WIDTH = 100

ENVIRONMENT = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": str(WIDTH), "TERMINAL_WIDTH": str(WIDTH)}
"""A terminal of a fixed width, without colours."""


def run(line: str) -> tuple[int, str, str]:
    """Run a command line that begins with `gmb`: exit code, standard output, standard error."""
    program, *arguments = shlex.split(line)
    assert program == "gmb", line
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def workplace(inputs: list[str]) -> Iterator[Path]:
    """An empty folder with copies of these inputs, the current one for a while."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, ENVIRONMENT):
        folder = Path(name).resolve()
        for item in inputs:
            copy = shutil.copytree if (INPUTS / item).is_dir() else shutil.copy
            copy(INPUTS / item, folder / item)
        os.chdir(folder)
        try:
            with _plain_terminal(), empty_figures():
                yield folder
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _plain_terminal() -> Iterator[None]:
    """Typer reads its width once, when it is imported."""
    import typer.rich_utils

    with mock.patch.multiple(typer.rich_utils, MAX_WIDTH=WIDTH, FORCE_TERMINAL=None):
        yield


@contextlib.contextmanager
def _parsers() -> Iterator[list[Any]]:
    """The parsers of the command lines that run meanwhile."""
    import typer.core

    found: list[Any] = []

    def parse(parser: Any, *arguments: Any, **keywords: Any) -> Any:
        found.append(parser)
        return main(parser, *arguments, **keywords)

    main = typer.core.TyperGroup.main
    with mock.patch.object(typer.core.TyperGroup, "main", parse):
        yield found


@functools.cache
def scenarios() -> dict[str, dict[str, Any]]:
    """Name of each scenario -> inputs, commands, files to compare, files to hash."""
    return yaml.safe_load((HERE / "scenarios.yaml").read_text(encoding="utf-8"))


@functools.cache
def played(name: str) -> dict[str, str]:
    """Play a scenario: name of each golden file of it -> its text."""
    scene = scenarios()[name]
    folder, texts = _played(name)
    for pattern in scene.get("mask", []):
        texts = {key: re.sub(pattern, "<masked>", text) for key, text in texts.items()}
    digits = scene.get("digits", DIGITS)
    found = {}
    for key, text in texts.items():
        same = comparable(text, folder, digits=digits)
        if _matches(key.replace("__", "/"), scene.get("digest", [])):
            key, same = f"{key}.sha256", hashlib.sha256(same.encode()).hexdigest() + "\n"
        found[f"{name}/{key}"] = same
    return found


@functools.cache
def _played(name: str) -> tuple[Path, dict[str, str]]:
    """Where a scenario was played, and its texts as they are."""
    scene = scenarios()[name]
    with workplace(scene.get("inputs", [])) as folder:
        for path, text in scene.get("write", {}).items():
            Path(path).write_text(text, encoding="utf-8")
        given = {*scene.get("inputs", []), *scene.get("write", {})}
        said = []
        for line in scene["commands"]:
            code, out, err = run(line)
            said.append(f"$ {line}\nexit code {code}\n{out}")
            said.append(f"standard error:\n{err}" if err else "")
        files = sorted(
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and path.relative_to(folder).parts[0] not in given
        )
        said.append("\nfiles:\n" + "".join(f"  {path}\n" for path in files))
        hashed = [path for path in files if _matches(path, scene.get("hash", []))]
        said += [f"sha256 {path} {_digest(Path(path))}\n" for path in hashed]
        texts = {"terminal.txt": "".join(said)}
        for path in files:
            if _matches(path, [*scene.get("compare", []), *scene.get("digest", [])]):
                texts[path.replace("/", "__")] = Path(path).read_text(encoding="utf-8")
    return folder, texts


def _matches(path: str, patterns: list[str]) -> bool:
    return any(Path(path).match(pattern) for pattern in patterns)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def help_texts() -> str:
    """What `--help` prints, of every command there is, hidden ones included.

    `--help-all` follows where it prints more.
    """
    with workplace([]):
        with _parsers() as parsers:
            run("gmb --help")
        (root,) = parsers

        def paths(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            yield path
            for name, below in sorted(getattr(command, "commands", {}).items()):
                yield from paths(below, (*path, name))

        said = {}
        for path in paths(root, ()):
            line = shlex.join(["gmb", *path, "--help"])
            said[line] = run(line)[1]
            if "--help-all" in said[line]:
                said[f"{line}-all"] = run(f"{line}-all")[1]
        return comparable("\n".join(f"$ {line}\n{text}" for line, text in said.items()))


@functools.cache
def bad_inputs() -> dict[str, dict[str, Any]]:
    """Name of each command that must fail -> command line, inputs, and what spoils them."""
    return yaml.safe_load((HERE / "bad_inputs.yaml").read_text(encoding="utf-8"))


def refusal(name: str) -> dict[str, Any]:
    """The exit code and the error of a command that must fail, and the files that it left."""
    case = bad_inputs()[name]
    with workplace(case.get("inputs", [])) as folder:
        for path, text in case.get("write", {}).items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text, encoding="utf-8")
        for path, (old, new) in case.get("replace", {}).items():
            text = Path(path).read_text(encoding="utf-8")
            assert old in text, f"{name}: {path} has no {old!r}"
            Path(path).write_text(text.replace(old, new, 1), encoding="utf-8")
        given = {path for path in folder.rglob("*") if path.is_file()}
        code, out, err = run(case["command"])
        left = sorted(
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and path not in given
        )
    found = {
        "command": case["command"],
        "exit_code": code,
        "stderr": comparable(err, folder).splitlines(),
        "stdout": comparable(out, folder).splitlines(),
        "files left": left,
    }
    return {key: value for key, value in found.items() if value != []}


def refusals() -> str:
    """Every refusal, as YAML."""
    return yaml.safe_dump(
        {name: refusal(name) for name in bad_inputs()}, sort_keys=False, width=1000
    )


def readings() -> str:
    """What the documented `AlarmMonitor` answers at each checkpoint, by the committed lock."""
    from gmb_hf.monitor import AlarmMonitor

    found = {}
    with workplace([]):
        _, texts = _played("evaluate_strict")
        Path("results.yaml").write_text(texts["results__results.yaml"], encoding="utf-8")
        for name in ("watched_0", "watched_1", "watched_2", "watched_broken"):
            monitor = AlarmMonitor(INPUTS / "lock.yaml", "results.yaml")
            lines = (INPUTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
            answers = (monitor.update(**json.loads(line)) for line in lines)
            found[name] = [f"{one.step} {one.state}: {one.reason}" for one in answers]
    return comparable(as_json(found))


def results_schema() -> str:
    """JSON schema of results, as `gmb_hf.Results` has it."""
    import gmb_hf

    return as_json(gmb_hf.Results.model_json_schema())


def fingerprints() -> str:
    """Fingerprints of the input logs and the shape of what is read, by `gmb_hf.RunLog`."""
    import gmb_hf

    found = {}
    for name in ("explore.parquet", "heldout.parquet", "observables.parquet", "small.csv"):
        log = gmb_hf.RunLog.read(INPUTS / name)
        panel = log.panel("test_acc")
        found[name] = {
            "fingerprint": log.fingerprint(),
            "runs": len(log.runs),
            "first run": log.runs[0],
            "columns": list(log.table.column_names),
            "observables": list(log.observables),
            "test_acc": [list(panel.values.shape), float(np.nansum(panel.values))],
        }
    lock = gmb_hf.Lock.read(INPUTS / "lock.yaml")
    found["lock.yaml"] = {
        "hash": lock.hash,
        "candidates": sorted(lock.x_lock.candidates),
        "explore_fingerprint": lock.x_lock.explore_fingerprint,
    }
    return comparable(as_json(found))


@contextlib.contextmanager
def _own_caches() -> Iterator[None]:
    from evaluate import config

    with tempfile.TemporaryDirectory() as name:
        cache = Path(name)
        with mock.patch.multiple(
            config,
            HF_MODULES_CACHE=cache / "modules",
            HF_METRICS_CACHE=cache / "metrics",
            HF_EVALUATE_OFFLINE=True,
        ):
            # Modules of another cache would be taken for those of this one, and the other way.
            before, path = _forgotten(), list(sys.path)
            sys.path[:] = [one for one in path if not (Path(one) / "evaluate_modules").is_dir()]
            yield
            _forgotten()
            sys.modules.update(before)
            sys.path[:] = path


def _forgotten() -> dict[str, ModuleType]:
    """The modules that `evaluate` has copied and imported, which are imported no longer."""
    names = [name for name in sys.modules if name.split(".")[0] == "evaluate_modules"]
    return {name: sys.modules.pop(name) for name in names}


def metric_values() -> str:
    """What each `evaluate` module computes."""
    import gmb_hf.jobs.metrics

    found: dict[str, Any] = {}
    with workplace([]), _own_caches():
        modules = {name: gmb_hf.metrics.load(name) for name in gmb_hf.metrics.names()}
        for title, (name, arguments) in metric_calls().items():
            found[title] = modules[name].compute(**arguments)
    missing = set(modules) - {name for name, _ in metric_calls().values()}
    assert not missing, f"no call of {missing}"
    return comparable(as_json(found))


def metric_calls() -> dict[str, tuple[str, dict[str, Any]]]:
    """Title of each call -> the module and its arguments."""
    quiet = [[i * i * (run + 2) % 101 for i in range(60)] for run in range(40)]
    good = [series + [90 + 10 * (run % 3)] * 10 for run, series in enumerate(quiet)]
    events: list[int | None] = [None if run % 10 == 9 else 70 for run in range(40)]
    gmb = {"predictions": good, "references": events, "horizon": 10, "safe_gap": 20}
    calls: dict[str, tuple[str, dict[str, Any]]] = {}
    layers = ("discrimination", "operationality", "utility", "robustness", "verdict", "first_alarm")
    for layer in layers:
        calls[f"gmb_{layer}"] = (f"gmb_{layer}", gmb)
        for protocol in ("strict", "v0.4"):
            calls[f"gmb_{layer}, {protocol}"] = (f"gmb_{layer}", {**gmb, "protocol": protocol})
        if layer != "robustness":
            few = {**gmb, "predictions": good[:4], "references": events[:4]}
            calls[f"gmb_{layer}, per run"] = (f"gmb_{layer}", {**few, "return_per_run": True})
    items = [[(7 * i + 13 * j * j + 5) % 97 / 97 for j in range(2 + i % 5)] for i in range(30)]
    other = [[(5 * i + 11 * j * j + 3) % 89 / 89 for j in range(2 + i % 5)] for i in range(30)]
    names = ("tier1_easy", "tier2_robust", "tier3_adversarial")
    tiers = [names[i % 3] for i in range(30)]
    pairs = {"predictions": items, "references": [i % 2 for i in range(30)]}
    calls["crucible_margin"] = ("crucible_margin", pairs)
    calls["crucible_margin, per item"] = ("crucible_margin", {**pairs, "return_per_item": True})
    calls["crucible_rank"] = ("crucible_rank", {**pairs, "hits": [1, 2, 3]})
    calls["crucible_rank, per item"] = ("crucible_rank", {**pairs, "return_per_item": True})
    board = {"version": "v1", "source_hash": "a1b2c3d4e5f6a7b8", "timestamp": "2026-01-27T12:00:00"}
    calls["crucible_scoreboard"] = ("crucible_scoreboard", {**pairs, **board})
    calls["crucible_scoreboard, tiers"] = (
        "crucible_scoreboard",
        {**pairs, **board, "tiers": tiers},
    )
    both = {"predictions1": items, "predictions2": other, "references": pairs["references"]}
    calls["crucible_compare"] = ("crucible_compare", both)
    calls["crucible_compare, tiers"] = ("crucible_compare", {**both, "tiers": tiers, "seed": 3})
    calls["crucible_exposure"] = (
        "crucible_exposure",
        {
            "data": ["legacy", "organic", "empty"],
            "sizes": [454, 1200, 0],
            "ratios": [0.6, 0.25, 0.15],
            "steps": 10_000,
            "batch_size": 32,
            "probability": 0.1,
        },
    )
    rows = [[0.1, 0.2, 0.1], [0.9, 0.3, 0.15], [0.5, 0.95, 0.3], [0.4, 0.7, 0.99]]
    kept = {"predictions": rows, "references": [None, 0, 1, 2]}
    calls["retention"] = ("retention", kept)
    calls["retention, per task"] = ("retention", {**kept, "return_per_task": True})
    calls["retention, loss"] = ("retention", {**kept, "measure": "loss"})
    documents = {
        "predictions": [[-(i * j % 7) / 3 - 0.1 for j in range(5 + i)] for i in range(6)],
        "references": [20 + 4 * i for i in range(6)],
    }
    calls["heldout_perplexity"] = ("heldout_perplexity", documents)
    calls["heldout_perplexity, per document"] = (
        "heldout_perplexity",
        {**documents, "return_per_document": True},
    )
    return calls


def as_json(value: Any) -> str:
    """JSON with sorted keys, numpy's numbers and arrays as Python's, NaN and infinity as text."""

    def plain(item: Any) -> Any:
        if isinstance(item, dict):
            return {str(key): plain(one) for key, one in item.items()}
        if isinstance(item, list | tuple):
            return [plain(one) for one in item]
        if isinstance(item, np.ndarray):
            return plain(item.tolist())
        if isinstance(item, np.generic):
            return plain(item.item())
        if isinstance(item, float) and not math.isfinite(item):
            return str(item)
        return item

    return json.dumps(plain(value), indent=1, sort_keys=True) + "\n"


ALONE: dict[str, Callable[[], str]] = {
    "help.txt": help_texts,
    "bad_inputs.yaml": refusals,
    "results_schema.json": results_schema,
    "fingerprints.json": fingerprints,
    "metrics.json": metric_values,
    "readings.json": readings,
}
"""Golden files that belong to no scenario."""
