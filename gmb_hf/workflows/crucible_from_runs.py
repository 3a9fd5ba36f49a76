"""Bundles out of grokking models: train seeds, and ask each of them the same at every checkpoint.

    OUT/logs/crucible.parquet   the run log of `gmb train`, with Crucible's columns
    OUT/bundles.jsonl           the held-out bundles, with their similarities at the last checkpoint
    OUT/scores.parquet          margin, rank and tier of each of them
    OUT/scoreboard.json         their sum, by tier
    OUT/tiers/seed_3.json       the frozen cutoffs of a seed (`crucible_tracking` says when)
    OUT/margins.png, .svg       margins, pass rates and events over training

All is written at the end, each file at once; an interrupted command leaves none and begins anew.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.scoreboard import Scoreboard
from gmb_hf.files import clear_os_errors, write_text
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError, choose
from gmb_hf.workflows.crucible_scoring import scoreboard_of

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig
    from gmb_hf.training.progress import Listener
    from gmb_hf.training.state import Rows
    from gmb_hf.workflows.crucible_tracking import Drawing, Tracker

LOG = "logs/crucible.parquet"


@dataclass(frozen=True)
class FromRuns:
    """What a command left.

    Attributes:
        log: the run log; None where a saved model was asked, which has no history.
        events: t* of each run of the log, NaN where there is none, float64 [R].
        scores: of the held-out bundles at the last checkpoint.
        board: their sum.
        paths: the files written.
        notes: what a reader must know.
    """

    log: RunLog | None
    events: NDArray[np.float64]
    scores: ItemScores
    board: Scoreboard
    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def from_runs(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    drawing: Drawing,
    device: str = "auto",
) -> FromRuns:
    """Train seeds and track the margins of their bundles.

    Args:
        config: what to train; its checkpoints are those that are measured.
        seeds: of the runs.
        out: a folder.
        drawing: how many bundles, of how many negatives, drawn by which seed.
        device: "auto", "cpu" or "cuda".

    Raises:
        InputError: no seeds, bundles that the task has not enough equations for, or a folder that
            cannot be written to.
    """
    from gmb_hf.reporting.figures import margin_curves, save_figure
    from gmb_hf.training.memory import keep_freed_memory
    from gmb_hf.training.progress import Bar
    from gmb_hf.training.stacked import log_metadata

    folder, where = Path(out), _device(device)
    if not seeds:
        raise InputError("no seeds to train; give at least one, e.g. --seeds 0:4")
    _refuse_undrawable(config, seeds, drawing)
    with clear_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    keep_freed_memory()
    parts = math.ceil(len(seeds) / config.training.seeds_at_once)
    logs, trackers = [], []
    with Bar(len(seeds) * config.training.steps) as bar:
        for part in np.array_split(np.asarray(seeds), parts):
            tracker, rows = _train(config, part.tolist(), drawing, where, len(seeds), bar)
            logs.append(_log(tracker.ensemble.seeds, rows))
            trackers.append(tracker)
    log = RunLog.concat(logs)
    log.metadata = {**log_metadata(config), "crucible": dataclasses.asdict(drawing)}
    lines = [
        line
        for tracker in trackers
        for place in range(len(tracker.ensemble))
        for line in tracker.lines(place)
    ]
    labels = np.concatenate([tracker.labels.ravel() for tracker in trackers])
    encoder = f"{config.preset}, step {config.training.steps}"
    scores, board, paths = _write(folder, lines, drawing.seed, encoder, labels=labels)
    paths += _write_tiers(folder / "tiers", trackers)
    events, notes = _events(config, log)
    drawn = save_figure(margin_curves(_curves(log, events)), folder / "margins")
    # The log last, and named first.
    paths = [log.write(folder / LOG), *drawn, *paths]
    return FromRuns(log, events, scores, board, tuple(paths), (*_notes(trackers), *notes))


def from_model(
    model: str | Path, config: RunConfig, seed: int, out: str | Path, *, drawing: Drawing
) -> FromRuns:
    """Bundles of a saved model, without a history.

    Args:
        model: folder of a `GrokkingTransformerForCausalLM`.
        config: its `task` says what the model was trained on.
        seed: of the run, which says what was held out.
        out: a folder.
        drawing: as of `from_runs`.

    Raises:
        InputError: no such model, or one of another vocabulary.
    """
    import torch

    from gmb_hf.crucible.equations import bundle_lines
    from gmb_hf.training.ensemble import task_data
    from gmb_hf.training.hidden_states import cosines, model_hidden
    from gmb_hf.workflows.crucible_tracking import held_out_texts
    from gmb_hf.workflows.saved_models import load_model

    task, data = config.task, task_data(config.task, seed)
    loaded = load_model(model)
    held, needed = loaded.config.vocab_size, data.vocab_size
    if held != needed:
        raise InputError(
            f"{model}: has {held} tokens, but {task.name} needs {needed}; say what it was trained "
            "on, e.g. --set task.prime=97 --set task.operation=add"
        )
    bundles = drawing.held_out(data, task.data_seed_of(seed))
    rows = torch.from_numpy(data.input_ids[data.test_index])
    hidden = model_hidden(loaded, rows, data.answer_positions[0])
    anchors, candidates = (torch.from_numpy(one) for one in (bundles.anchors, bundles.candidates))
    found = cosines(hidden[None], anchors[None], candidates[None])[0].double().numpy()
    lines = list(bundle_lines(bundles, held_out_texts(task, data), found, prefix=f"seed_{seed}"))
    scores, board, paths = _write(Path(out), lines, drawing.seed, str(model))
    return FromRuns(None, np.empty(0), scores, board, tuple(paths), ())


def _train(
    config: RunConfig, seeds: list[int], drawing: Drawing, device: str, n_seeds: int, bar: Listener
) -> tuple[Tracker, Rows]:
    """The loop of `stacked.train_group`, with a tracker beside the observer."""
    from gmb_hf.training.compiled import wanted
    from gmb_hf.training.ensemble import Ensemble
    from gmb_hf.training.observables import Observer
    from gmb_hf.training.state import Rows
    from gmb_hf.workflows.crucible_tracking import Tracker

    training = config.training
    ensemble = Ensemble(config, seeds, device=device, compiled=wanted(config, n_seeds))
    observer, tracker, rows = Observer(ensemble), Tracker(ensemble, drawing), Rows()
    while True:
        at_checkpoint = ensemble.step % training.checkpoint_every == 0
        losses, logits = ensemble.gradients(keep_logits=at_checkpoint)
        if at_checkpoint:
            found = observer.measure(losses, logits)
            rows.add(ensemble.step, {**found, **tracker.measure(found["train_acc"])})
            bar.measured(ensemble.seeds, found["train_acc"], found["test_acc"])
        if ensemble.step == training.steps:
            break
        ensemble.update()
        bar.advanced(len(seeds))
    tracker.finish()
    return tracker, rows


def _refuse_undrawable(config: RunConfig, seeds: Sequence[int], drawing: Drawing) -> None:
    """Say before the first group is trained that some later seed has too few equations."""
    from gmb_hf.training.ensemble import task_data

    for seed in seeds:
        data, number = task_data(config.task, seed), config.task.data_seed_of(seed)
        drawing.held_out(data, number)
        drawing.training(data, number)


def _log(seeds: Sequence[int], rows: Rows) -> RunLog:
    return RunLog.from_arrays(
        [f"seed_{seed}" for seed in seeds],
        np.asarray(rows.steps),
        {name: np.stack(values, axis=1) for name, values in rows.values.items()},
        seeds=list(seeds),
    )


def _write(
    folder: Path,
    lines: Sequence[dict[str, Any]],
    seed: int,
    encoder: str,
    *,
    labels: NDArray[np.str_] | None = None,
) -> tuple[ItemScores, Scoreboard, list[Path]]:
    """Bundles, scores and scoreboard; the tiers stay out of the bundles, whose hash is the data's.

    Two models asked about the same equations have one content hash, and can be compared.
    """
    text = "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)
    path = write_text(folder / "bundles.jsonl", text)
    file = read_bundles(path)
    scores = ItemScores.of(file, file.similarities(), encoder)
    if labels is not None:
        scores = dataclasses.replace(scores, tiers=tuple(labels.tolist()))
    table, target = scores.write(folder / "scores.parquet"), folder / "scoreboard.json"
    board = scoreboard_of(table, target, version="1", seed=seed)
    return scores, board, [path, table, target]


def _write_tiers(folder: Path, trackers: Sequence[Tracker]) -> list[Path]:
    """The cutoffs of each seed; those that an earlier command left for other seeds go."""
    for earlier in folder.glob("seed_*.json"):
        earlier.unlink(missing_ok=True)
    return [
        tiers.write(folder / f"seed_{seed}.json")
        for tracker in trackers
        for seed, tiers in zip(tracker.ensemble.seeds, tracker.tiers, strict=True)
        if tiers is not None
    ]


def _notes(trackers: Sequence[Tracker]) -> list[str]:
    from gmb_hf.training.seeds import format_seeds

    late = [seed for tracker in trackers for seed in tracker.unmemorised]
    empty = [seed for tracker in trackers for seed in tracker.empty]
    notes = []
    if late:
        notes.append(
            f"seeds {format_seeds(late)} never memorised their rows; their tiers are those of "
            "their last checkpoint and show no progress"
        )
    if empty:
        notes.append(
            f"seeds {format_seeds(empty)} have a tier without items (few bundles, or dangers tie)"
        )
    return notes


def _events(config: RunConfig, log: RunLog) -> tuple[NDArray[np.float64], list[str]]:
    """t* as the preset's design defines it; where the design does not fit the log, none."""
    from gmb_hf.benchmark.events import find_events
    from gmb_hf.workflows.design import prereg_from_config

    try:
        found = find_events(log.panel, prereg_from_config(config, log), names=log.observables)
    except InputError as error:
        return np.full(len(log.runs), np.nan), [f"no events: {error}"]
    return found.step, []


def _curves(log: RunLog, events: NDArray[np.float64]) -> Any:
    from gmb_hf.reporting.figures import MarginCurves
    from gmb_hf.workflows.crucible_tracking import TIER3_RATE

    def values(name: str) -> NDArray[np.float64]:
        return log.panel(name).values

    steps = log.panel("train_acc").steps
    # Not as a panel, which refuses a run that has no value: it never memorised.
    tier3 = log.table[TIER3_RATE].to_numpy().reshape(steps.shape)
    return MarginCurves(
        steps=steps,
        q10=values("crucible_margin_q10"),
        median=values("crucible_margin_median"),
        q90=values("crucible_margin_q90"),
        pass_rate=values("crucible_pass_rate"),
        event_step=events,
        tier3_pass_rate=tier3,
        held_out=values("test_acc"),
    )


def _device(device: str) -> str:
    import torch

    from gmb_hf.training.settings import DEVICES

    choose("device", device, DEVICES, where="--device")
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        raise InputError("--device cuda: torch sees no CUDA device here; use --device cpu")
    return "cuda" if has_cuda and device != "cpu" else "cpu"
