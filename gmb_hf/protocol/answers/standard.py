"""Standard benchmarks: checkpoints handed to EleutherAI's lm-eval, its results kept and compared.

What a task asks and how it is scored is lm-eval's; here models are loaded as everywhere in this
package, results are stored with their versions, and models are compared sample by sample.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import logging
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from gmb_hf._version import __version__
from gmb_hf.base import escape, extras, stats
from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError, choose, first_line, nearest, positive_int, repeated
from gmb_hf.base.files import read_bytes, read_json, write_json
from gmb_hf.base.tables import Column, Table
from gmb_hf.protocol.language.heldout import load_checkpoint, named_checkpoints
from gmb_hf.report import style
from gmb_hf.report.sheet import Sheet, sentences_of
from gmb_hf.training.launch import chosen_device
from gmb_hf.training.seeds import versions
from gmb_hf.training.settings import config_hash

FORMAT = "gmb-hf benchmark 1"
LIBRARY = "lm_eval"
_REACH = 1.96  # standard errors on either side
_SEED = 1234  # of lm-eval's own generators, its default
_LOCAL = (".yaml", ".yml")


@dataclass(frozen=True)
class TaskScore(Record):
    """One model on one task by one metric.

    Attributes:
        model, task, metric: their names; `filter` is what lm-eval did with the answers first.
        value: the aggregate, as lm-eval gives it.
        stderr, low, high: its standard error, and 1.96 of them on either side, within [0, 1] where
            samples are; None where lm-eval has none.
        samples: how many were asked.
        higher_is_better: None where the task does not say.
    """

    model: str
    task: str
    metric: str
    filter: str
    value: float
    stderr: float | None
    low: float | None
    high: float | None
    samples: int
    higher_is_better: bool | None


@dataclass(frozen=True)
class TaskComparison(Record):
    """A model less the baseline on the same samples of a task, by a metric that is their mean.

    Attributes:
        difference, stderr, low, high: of the mean of paired differences; 1.96 standard errors.
        better, worse: samples on which the model's value is higher, and lower.
        p_value: sign-flip permutation test of the differences, two-sided.
        p_adjusted: Holm-adjusted over all comparisons of this evaluation.
    """

    model: str
    baseline: str
    task: str
    metric: str
    filter: str
    difference: float
    stderr: float
    low: float
    high: float
    better: int
    worse: int
    samples: int
    p_value: float
    p_adjusted: float | None


@dataclass(frozen=True)
class Standard(Record):
    """What was found; the content of `benchmark.json`.

    Attributes:
        scores: by task and metric, in it by model.
        comparisons: of every model but the baseline.
        baseline: its name.
        notes: what a reader must know of the numbers.
        models: name -> place, commit or hash, parameters.
        tasks: name -> version, shots, samples, data and hash, as lm-eval names them.
        settings: limit, shots, seeds; they decide the numbers.
        versions: of the libraries.
    """

    scores: tuple[TaskScore, ...]
    comparisons: tuple[TaskComparison, ...]
    baseline: str
    notes: tuple[str, ...]
    models: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    versions: dict[str, str]
    format: str = FORMAT


def evaluate_standard(
    checkpoints: Sequence[str],
    tasks: Sequence[str],
    out: str | Path,
    *,
    shots: int | None = None,
    limit: int | None = None,
    batch: int | None = None,
    device: str = "auto",
    baseline: str | None = None,
    quiet: bool = True,
    on_model: Callable[[str], None] = lambda _: None,
) -> Standard:
    """Evaluate every checkpoint on every task by lm-eval, and compare them.

    A model that an earlier call into the same folder has finished, with the same tasks, settings
    and versions, is not evaluated again.

    Args:
        checkpoints: `[NAME=]FOLDER` or repositories, each a model with its tokenizer.
        tasks: names of lm-eval (tasks, groups, tags), or YAML files of tasks; data files that one
            names lie beside it.
        out: folder; each model's samples are kept in `samples/`.
        shots: examples before a question; what the task says by default.
        limit: questions of each task; all by default.
        batch: rows computed at once; 16 by default.
        device: auto, cpu or cuda.
        baseline: the model that the others are compared with; the first by default.
        quiet: lm-eval shows no progress.
        on_model: hears of each model that is done.

    Raises:
        MissingExtra: lm-eval is not installed.
        InputError: an unknown task or baseline, a checkpoint without model or tokenizer, data that
            the Hub does not give, a task that this model cannot be asked.
    """
    if not tasks:
        raise InputError("--tasks: no task is given; name some, e.g. --tasks lambada_openai")
    twice = repeated(tasks)
    if twice is not None:
        raise InputError(f"--tasks: {twice} is named twice")
    for name, number in (("--limit", limit), ("--batch-size", batch)):
        if number is not None:
            positive_int(name, number)
    if shots is not None and shots < 0:
        raise InputError(f"--num-fewshot must be at least 0, got {shots}")
    named = named_checkpoints(checkpoints)
    base = next(iter(named)) if baseline is None else choose("checkpoint", baseline, tuple(named))
    with extras.needing("gmb benchmark"):
        import lm_eval  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    chosen = chosen_device(device)
    local = {word: _local_task(Path(word)) for word in tasks if Path(word).suffix in _LOCAL}
    manager = _manager([word for word in tasks if word not in local])
    specs = [local[word][0] if word in local else word for word in tasks]
    used = {**versions(), "datasets": version("datasets"), "lm_eval": version("lm_eval")}
    settings = {"tasks": [*tasks], "num_fewshot": shots, "limit": limit, "seed": _SEED}
    found, models = {}, {}
    for name, place in named.items():
        checkpoint = load_checkpoint(place)
        key = {
            "model": checkpoint.identity,
            "settings": settings,
            "local": {word: digest for word, (_, digest) in local.items()},
            "versions": used,
        }
        path = Path(out) / "samples" / f"{config_hash({'name': name})[:16]}.json"
        held = read_json(path) if path.is_file() else {}
        if not isinstance(held, dict) or held.get("made_from") != key:
            with _silent(quiet):
                answer = _asked(
                    name, checkpoint.model.to(chosen), checkpoint.tokenizer, specs, manager,
                    shots=shots, limit=limit, batch=16 if batch is None else batch,
                )  # fmt: skip
            held = {"name": name, "made_from": key, **answer}
            write_json(path, held)
        found[name] = held
        models[name] = {
            "checkpoint": place,
            "identity": checkpoint.identity,
            "parameters": sum(one.numel() for one in checkpoint.model.parameters()),
        }
        on_model(name)
    scores = [score for name, held in found.items() for score in _scores(name, held)]
    order = list(dict.fromkeys((one.task, one.metric, one.filter) for one in scores))
    scores.sort(key=lambda one: order.index((one.task, one.metric, one.filter)))
    pairs, notes = _comparisons(found, scores, base)
    if limit is not None:
        notes.insert(0, f"only the first {limit} samples of each task were asked (--limit)")
    about = next(iter(found.values()))["tasks"]
    return Standard(
        tuple(scores), tuple(pairs), base, tuple(notes), models, about, settings, used
    )  # fmt: skip


def _local_task(path: Path) -> tuple[dict[str, Any], str]:
    """What lm-eval is given of a task in a YAML file, and a hash of the file with its data."""
    from lm_eval.tasks._yaml_loader import load_yaml  # type: ignore[import-not-found,unused-ignore]

    digest = hashlib.sha256(read_bytes(path))
    try:
        spec = load_yaml(path)  # with what it includes
    except Exception as error:  # of YAML, or of a function that the file names
        raise InputError(f"{path}: cannot be read as YAML: {first_line(error)}") from None
    if not isinstance(spec, dict) or not isinstance(spec.get("task"), str):
        raise InputError(f"{path}: is no task of lm-eval; it has no line `task: NAME`")
    options = spec.get("dataset_kwargs")
    if isinstance(options, dict) and "data_files" in options:
        files = options["data_files"]
        given = files if isinstance(files, dict) else {"train": files}
        placed: dict[str, list[str]] = {}
        for split, names in given.items():
            beside = [path.parent / one for one in ([names] if isinstance(names, str) else names)]
            for one in beside:
                digest.update(hashlib.sha256(read_bytes(one)).digest())
            placed[str(split)] = [str(one.resolve()) for one in beside]
        spec["dataset_kwargs"] = {**options, "data_files": placed}
    return spec, digest.hexdigest()


@functools.cache
def _index(known: bool) -> Any:
    """lm-eval's tasks, its own included where `known`; reading these takes seconds."""
    from lm_eval.tasks import TaskManager  # type: ignore[import-not-found,unused-ignore]

    with _silent(True):
        return TaskManager(include_defaults=known)


def _manager(names: Sequence[str]) -> Any:
    """lm-eval's tasks; `InputError` for a name that is none of them."""
    manager = _index(bool(names))
    for name in names:
        if name not in manager.all_tasks:
            guess = nearest(name, sorted(manager.all_tasks))
            raise InputError(
                f"--tasks: task {name!r} is unknown; lm-eval knows {len(manager.all_tasks):,} "
                "tasks; a task of your own is given by its file, e.g. mine.yaml."
                + (f" Did you mean {guess!r}?" if guess else "")
            )
    return manager


def _asked(
    name: str,
    model: Any,
    tokenizer: Any,
    specs: Sequence[Any],
    manager: Any,
    *,
    shots: int | None,
    limit: int | None,
    batch: int,
) -> dict[str, Any]:
    """What lm-eval finds of a model, reduced to what is kept: tasks, results and samples."""
    from lm_eval import evaluator  # type: ignore[import-not-found,unused-ignore]
    from lm_eval.models.huggingface import HFLM  # type: ignore[import-not-found,unused-ignore]

    evaluator.get_git_commit_hash = lambda: None  # outside of a repository git calls it fatal
    loaded = _loaded(manager, specs)
    # A tokenizer that ends a text with its end of document would put one before every answer.
    ends = tokenizer("1")["input_ids"][-1:] == [tokenizer.eos_token_id]
    asked = HFLM(
        pretrained=model,
        tokenizer=tokenizer,
        batch_size=batch,
        device=str(next(model.parameters()).device),
        add_bos_token=False if ends else None,
    )
    try:
        found = evaluator.simple_evaluate(
            asked,
            tasks=loaded,
            num_fewshot=shots,
            limit=limit,
            task_manager=manager,
            bootstrap_iters=1000,
            log_samples=True,
        )
    except InputError as error:  # e.g. a word that the tokenizer does not know
        raise InputError(f"{name}: cannot be asked these tasks: {error}") from None
    except (ValueError, AssertionError, IndexError, KeyError, NotImplementedError) as error:
        raise InputError(f"{name}: lm-eval could not ask it: {first_line(error)}") from None
    assert found is not None  # None is of other processes than the first
    return _kept(found)


def _loaded(manager: Any, specs: Sequence[Any]) -> list[Any]:
    """The tasks with their data."""
    tasks: list[Any] = []
    for spec in specs:
        name = spec if isinstance(spec, str) else spec["task"]
        try:
            loaded = manager.load([spec])
        except Exception as error:  # of the network, the Hub's client, datasets or the file: many
            raise InputError(
                f"task {name}: its data could not be read ({first_line(error)}); without a network "
                "use a task file with its data beside it: --tasks FILE.yaml"
            ) from None
        inside = {child for children in loaded["group_map"].values() for child in children}
        tasks += [group for key, group in loaded["groups"].items() if key not in inside]
        tasks += [task for key, task in loaded["tasks"].items() if key not in inside]
    return tasks


def _kept(found: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data: each task's description, aggregates and per-sample values."""
    tasks, results, samples = {}, {}, {}
    for task, numbers in found["results"].items():
        config = found.get("configs", {}).get(task, {})
        rows = found.get("samples", {}).get(task, [])
        better = found.get("higher_is_better", {}).get(task, {})
        counts = found.get("n-samples", {}).get(task, {})
        tasks[task] = {
            "version": str(found.get("versions", {}).get(task, "none")),
            "num_fewshot": found.get("n-shot", {}).get(task),
            "samples": counts.get("effective", len(rows)),
            "of": counts.get("original", len(rows)),
            "output_type": config.get("output_type"),
            "dataset": config.get("dataset_path"),
            "dataset_name": config.get("dataset_name"),
            "split": config.get("test_split") or config.get("validation_split"),
            "hash": found.get("task_hashes", {}).get(task),
        }
        results[task] = [
            {
                "metric": metric,
                "filter": kind,
                "value": float(value),
                "stderr": _finite(numbers.get(f"{metric}_stderr,{kind}")),
                "higher_is_better": better.get(metric),
            }
            for key, value in numbers.items()
            for metric, _, kind in [key.partition(",")]
            if kind and not metric.endswith("_stderr") and _finite(value) is not None
        ]
        values: dict[str, list[float]] = {}
        for row in sorted(rows, key=lambda row: row["doc_id"]):
            for metric in row.get("metrics", ()):
                number = _finite(row.get(metric))
                if number is not None:
                    values.setdefault(f"{metric},{row.get('filter', 'none')}", []).append(number)
        samples[task] = values
    return {"tasks": tasks, "results": results, "samples": samples}


def _finite(value: Any) -> float | None:
    """A number, or None for anything else; lm-eval writes "N/A" where there is no error."""
    known = isinstance(value, (int, float, np.number)) and math.isfinite(value)
    return float(value) if known else None


def _scores(name: str, held: Mapping[str, Any]) -> Iterator[TaskScore]:
    for task, results in held["results"].items():
        for one in results:
            values = held["samples"][task].get(f"{one['metric']},{one['filter']}", [])
            low = high = None
            if one["stderr"] is not None:
                reach = _REACH * one["stderr"]
                low, high = one["value"] - reach, one["value"] + reach
                if values and min(values) >= 0 and max(values) <= 1:
                    low, high = max(0.0, low), min(1.0, high)
            count = held["tasks"][task]["samples"]
            yield TaskScore(name, task, low=low, high=high, samples=count, **one)


def _comparisons(
    found: Mapping[str, Mapping[str, Any]], scores: Sequence[TaskScore], base: str
) -> tuple[list[TaskComparison], list[str]]:
    """Every model against the baseline where a metric is a mean over samples, and what is not."""
    pairs, without = [], []
    for score in scores:
        if score.model == base:
            continue
        key = f"{score.metric},{score.filter}"
        mine, other = (
            np.array(found[name]["samples"][score.task].get(key, []), dtype=np.float64)
            for name in (score.model, base)
        )
        is_mean = mine.size and math.isclose(mine.mean(), score.value, rel_tol=1e-6, abs_tol=1e-9)
        if mine.size != other.size or not is_mean:
            without.append(f"{score.task} {score.metric}")
            continue
        pairs.append(_comparison(score, base, mine, other))
    after = stats.holm([pair.p_value for pair in pairs])
    adjusted = [replace(pair, p_adjusted=p) for pair, p in zip(pairs, after, strict=True)]
    if not without:
        return adjusted, []
    names = ", ".join(dict.fromkeys(without))
    return adjusted, [f"no paired test where a metric is no mean over samples: {names}"]


def _comparison(
    score: TaskScore, base: str, mine: NDArray[np.float64], other: NDArray[np.float64]
) -> TaskComparison:
    gaps = mine - other
    n, mean = len(gaps), float(gaps.mean())
    error = float(gaps.std(ddof=1) / math.sqrt(n)) if n > 1 else 0.0
    reach = _REACH * error
    return TaskComparison(
        **{name: getattr(score, name) for name in ("model", "task", "metric", "filter")},
        baseline=base,
        difference=mean,
        stderr=error,
        low=mean - reach,
        high=mean + reach,
        better=int((gaps > 0).sum()),
        worse=int((gaps < 0).sum()),
        samples=n,
        p_value=stats.paired_permutation(other, mine).p_value,
        p_adjusted=None,
    )


@contextlib.contextmanager
def _silent(quiet: bool) -> Iterator[None]:
    """No log of lm-eval below errors; where `quiet`, no progress bars of its own either."""
    logger = logging.getLogger(LIBRARY)
    before = logger.level
    logger.setLevel(logging.ERROR)
    out, err = (io.StringIO(), io.StringIO()) if quiet else (sys.stdout, sys.stderr)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
    finally:
        logger.setLevel(before)


def standard_tables(found: Standard) -> list[Table]:
    """Every score, the comparisons, and each task's version and data."""
    scores = [Column(name, take=name) for name in ("task", "metric", "filter", "model")]
    numbers = ("value", "stderr", "low", "high")
    scores += [Column(name, escape.number, take=name) for name in numbers]
    scores.append(Column("samples", escape.steps, take="samples"))
    said = "Benchmarks by lm-eval; low and high are 1.96 standard errors from the value"
    tables = [Table.of(found.scores, scores, "benchmark", said)]
    if found.comparisons:
        pairs = [Column(name, take=name) for name in ("task", "metric", "model", "baseline")]
        numbers = ("difference", "stderr", "low", "high")
        pairs += [Column(name, escape.number, take=name) for name in numbers]
        pairs += [Column(name, escape.steps, take=name) for name in ("better", "worse", "samples")]
        tests = ("p_value", "p_adjusted")
        pairs += [Column(name, escape.p_value, take=name) for name in tests]
        said = f"Difference from {found.baseline} on equal samples"
        note = "p: sign-flip permutation test of paired samples, Holm-adjusted over all rows"
        made = Table.of(found.comparisons, pairs, "comparison", said)
        tables.append(replace(made, notes=(note,)))
    about = ("version", "num_fewshot", "samples", "of", "output_type", "dataset", "split")
    columns = [Column(name) for name in ("task", *about)]
    rows = [
        (task, *(None if one[name] is None else str(one[name]) for name in about))
        for task, one in found.tasks.items()
    ]
    tables.append(Table(columns, rows, "tasks", "The tasks, as lm-eval names them"))
    return [replace(table, notes=(*found.notes, *table.notes)) for table in tables]


def standard_bars(found: Standard) -> Figure:
    """A row for each task and metric, a point for each model with 1.96 standard errors."""
    rows = list(dict.fromkeys((one.task, one.metric) for one in found.scores))
    models = list(found.models)
    with style.house_style():
        figure = style.new_figure(5.6, 1.1 + 0.34 * len(rows) * max(1.0, 0.45 * len(models)))
        panel = figure.subplots()
        for at, model in enumerate(models):
            mine = [one for one in found.scores if one.model == model]
            shift = (at - (len(models) - 1) / 2) * 0.7 / len(models)
            places = [rows.index((one.task, one.metric)) + shift for one in mine]
            reach = [
                [one.value - (one.value if one.low is None else one.low) for one in mine],
                [(one.value if one.high is None else one.high) - one.value for one in mine],
            ]
            panel.errorbar(
                [one.value for one in mine],
                places,
                xerr=reach,
                fmt=style.variant_marker(at),
                ms=4.5,
                capsize=2.5,
                lw=1.2,
                color=style.variant_colour(at),
                label=style.shorten(model, 30),
            )
        names = [style.shorten(f"{task} {metric}", 34) for task, metric in rows]
        panel.set_yticks(range(len(rows)), names)
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.tick_params(axis="y", length=0)
        panel.set_xlabel("score, with 1.96 standard errors")
        bounds = [end for one in found.scores for end in (one.low, one.high) if end is not None]
        if all(0 <= end <= 1 for end in bounds):
            panel.set_xlim(0, 1)
        panel.grid(axis="x", color=style.RULE, lw=0.5)
        figure.legend(loc="outside upper left", ncols=min(3, len(models)))
    return figure


def write_standard(found: Standard, out: str | Path, *, figures: bool = True) -> list[Path]:
    """Write `benchmark.json`, report.html, tables as CSV, Markdown and LaTeX, and the figure."""
    data = write_json(Path(out) / "benchmark.json", found.to_dict())
    sheet = Sheet(
        "GMB standard benchmarks",
        f"{len(found.models)} models on {len(found.tasks)} tasks of lm-eval",
        [*sentences(found), *found.notes],
        tables=standard_tables(found),
        facts=[
            *((f"model {name}", one["identity"]) for name, one in found.models.items()),
            *((f"{name} version", text) for name, text in found.versions.items()),
            ("gmb-hf version", __version__),
        ],
    )
    drawn = {"benchmark": ("Scores by task", standard_bars(found))} if figures else {}
    page, *others = sheet.write_folder(out, drawn)
    return [page, data, *others]


def sentences(found: Standard) -> list[str]:
    """Of each comparison whose adjusted p is below .05 a sentence, else one that none is."""
    about = {"found": found, "p_value": escape.p_value}
    return sentences_of("standard.j2", "gmb_hf.protocol.answers", **about)
