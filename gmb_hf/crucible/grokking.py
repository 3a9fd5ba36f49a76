"""Which bundles a run is asked: drawn from its equations, by their answers and a seed."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.equations import (
    EquationBundles,
    bundle_lines,
    draw_bundles,
    equation_texts,
    margins_of,
    track,
)
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.score import scoreboard_of
from gmb_hf.crucible.scoreboard import Scoreboard
from gmb_hf.crucible.tiers import HARDEST, EmptyTierWarning, Tiers, assign_tiers, fit_tiers
from gmb_hf.errors import InputError, positive_int
from gmb_hf.files import parse_json, write_text
from gmb_hf.fingerprints import content_hash
from gmb_hf.runs.runlog import RunLog
from gmb_hf.stats import generator
from gmb_hf.tasks.task import TaskData
from gmb_hf.training.config import TaskSettings
from gmb_hf.training.ensemble import Ensemble, task_data
from gmb_hf.training.observables import answer_hidden, cosines
from gmb_hf.training.progress import MEMORISED

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


_HELD_OUT, _TRAINING = 0, 1  # streams of a data seed


@dataclass(frozen=True, slots=True)
class Drawing:
    """How bundles are drawn.

    Attributes:
        bundles: N, for each seed.
        negatives: K, in each bundle.
        seed: of the drawing; equal rows get equal bundles, whatever the model.
    """

    bundles: int = 512
    negatives: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        positive_int("--bundles", self.bundles)
        positive_int("--negatives", self.negatives)
        generator(self.seed, 0)

    def held_out(self, data: TaskData, data_seed: int) -> EquationBundles:
        """Bundles of held-out equations, by their true answers."""
        return self._draw(data.true_answers[data.test_index, 0], data_seed, _HELD_OUT)

    def training(self, data: TaskData, data_seed: int) -> EquationBundles:
        """Bundles of training equations, by the answers that are trained on, right or wrong."""
        return self._draw(data.answers[data.train_index, 0], data_seed, _TRAINING)

    def _draw(self, answers: NDArray[np.int64], data_seed: int, stream: int) -> EquationBundles:
        rng = generator(self.seed, 2 * data_seed + stream)
        rows = "training" if stream == _TRAINING else "held-out"
        try:
            return draw_bundles(answers, self.bundles, self.negatives, rng)
        except InputError as error:
            raise InputError(f"{rows} equations of data seed {data_seed}: {error}") from None


def held_out_texts(settings: TaskSettings, data: TaskData) -> list[str]:
    """The held-out equations as people write them."""
    every = equation_texts(settings.build())
    return [every[row] for row in data.test_index.tolist()]


# What a tracked run leaves at its end, a part of what `gmb crucible from-runs` writes.


@dataclass(frozen=True)
class Part:
    """One run's.

    Attributes:
        seed: of the run.
        lines: its N bundles as lines of JSONL, with similarities and without tiers.
        labels: tier of each bundle, N.
        tiers: the cutoffs behind the labels.
    """

    seed: int
    lines: tuple[dict[str, Any], ...]
    labels: tuple[str, ...]
    tiers: Tiers


def jsonl(lines: Sequence[dict[str, Any]]) -> str:
    """Plain data as the text of a JSONL file."""
    return "".join(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n" for line in lines)


def tiers_path(folder: Path, seed: int) -> Path:
    """Where the cutoffs of a run are."""
    return folder / "tiers" / f"seed_{seed}.json"


def write_part(
    folder: Path,
    seed: int,
    lines: Sequence[dict[str, Any]],
    labels: NDArray[np.str_],
    tiers: Tiers,
) -> None:
    """Write the part of a run, each of its files at once; a part that is there is replaced."""
    tiered = [{**line, "tier": label} for line, label in zip(lines, labels.tolist(), strict=True)]
    tiers.write(tiers_path(folder, seed))
    write_text(_path(folder, seed), jsonl(tiered))


def read_part(folder: Path, seed: int) -> Part:
    """Read what `write_part` left.

    Raises:
        InputError: it is not there, or is not as it was written.
    """
    path = _path(folder, seed)
    try:
        text = path.read_text(encoding="utf-8")
        found = tuple(
            parse_json(line, where=f"{path}:{number}")
            for number, line in enumerate(text.splitlines(), start=1)
        )
        labels = tuple(line.pop("tier") for line in found)
    except (FileNotFoundError, UnicodeDecodeError, AttributeError, KeyError, TypeError):
        raise InputError(
            f"{path}: missing or changed, but {folder / 'logs'} holds its run; delete the log of "
            "the run to train it again, or choose another --out"
        ) from None
    return Part(seed, found, labels, Tiers.read(tiers_path(folder, seed)))


def _path(folder: Path, seed: int) -> Path:
    return folder / "parts" / f"seed_{seed}.jsonl"


# How far the margins of grokking runs have come: at memorisation, at the event, at the end.


Q10 = "crucible_margin_q10"


@dataclass(frozen=True)
class Course:
    """q10 of the held-out margins, each a median over the runs that it can be said of, or None.

    Attributes:
        n_runs, n_events: how many runs there are, and how many have an event.
        memorised: at a run's first checkpoint after memorisation.
        event: at t*.
        last: at the last checkpoint.
        share: (event - memorised) / (last - memorised), where memorisation came before t* and q10
            is higher at the end: 0 says that nothing of the rise came before the event.
    """

    n_runs: int
    n_events: int
    memorised: float | None
    event: float | None
    last: float
    share: float | None


def course_of(log: RunLog, events: NDArray[np.float64]) -> Course:
    """How q10 rises, and how much of that before the event.

    Args:
        log: with `crucible_margin_q10` and `train_acc`.
        events: t* of each run, NaN where there is none, [R].
    """
    from gmb_hf.training.progress import MEMORISED

    panel = log.panel(Q10)
    q10, steps, runs = panel.values, panel.steps, np.arange(len(panel.runs))
    knows = log.panel("train_acc").values >= MEMORISED
    start = np.where(knows.any(axis=1), q10[runs, knows.argmax(axis=1)], np.nan)
    at = steps == events[:, None]
    event = np.where(at.any(axis=1), q10[runs, at.argmax(axis=1)], np.nan)
    last = q10[:, -1]
    since = np.where(knows.any(axis=1), steps[runs, knows.argmax(axis=1)], np.inf)
    fair = (since < events) & (last > start)
    share = np.divide(event - start, last - start, where=fair, out=np.full(len(runs), np.nan))
    return Course(
        n_runs=len(runs),
        n_events=int(at.any(axis=1).sum()),
        memorised=_median(start),
        event=_median(event),
        last=float(np.median(last)),
        share=_median(share),
    )


def _median(values: NDArray[np.float64]) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None


# The same bundles asked of every seed at every checkpoint, and the tiers that come of it.


TIER3_RATE = "crucible_tier3_pass_rate"
TRAIN_Q10 = "crucible_train_margin_q10"


class Tracker:
    """Asks the seeds of an ensemble; a `Companion` of their training.

    Args:
        ensemble: S seeds.
        drawing: what they are asked.
        folder: where the parts of the seeds go, `crucible_parts`.
    """

    def __init__(self, ensemble: Ensemble, drawing: Drawing, folder: Path) -> None:
        self._ensemble, self._folder = ensemble, folder
        task = ensemble.config.task
        drawn = [(task.data_seed_of(seed), task_data(task, seed)) for seed in ensemble.seeds]
        self._held_out = [drawing.held_out(data, number) for number, data in drawn]
        training = [drawing.training(data, number) for number, data in drawn]
        self._places = _places(self._held_out, ensemble.device)
        self._training_places = _places(training, ensemble.device)
        self._texts = [held_out_texts(task, data) for _, data in drawn]
        shape = len(ensemble), drawing.bundles
        self._similarities = np.empty((*shape, 1 + drawing.negatives))
        self._tiers: list[Tiers | None] = [None] * len(ensemble)
        self._labels = np.full(shape, "", dtype="<U32")
        # What the tiers come of: the step at which they were frozen, -1 before, and the margins.
        self._frozen_step = np.full(len(ensemble), -1)
        self._frozen_margin = np.zeros(shape)

    def measure(self, train_acc: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """What the checkpoint adds to the run log, each [S].

        Args:
            train_acc: accuracies on training rows, [S].
        """
        ensemble = self._ensemble
        self._similarities = _cosines(answer_hidden(ensemble, ensemble.test), self._places)
        training = _cosines(answer_hidden(ensemble, ensemble.train), self._training_places)
        margin = margins_of(self._similarities)
        for place in np.flatnonzero((train_acc >= MEMORISED) & (self._frozen_step < 0)).tolist():
            self._freeze(place, margin[place], ensemble.step)
        return {
            **track(self._similarities),
            TRAIN_Q10: track(training)["crucible_margin_q10"],
            TIER3_RATE: self._tier3(margin),
        }

    def state(self) -> dict[str, Tensor]:
        """The last answers, and what the tiers come of."""
        return {
            "similarities": torch.from_numpy(self._similarities),
            "frozen_step": torch.from_numpy(self._frozen_step),
            "frozen_margin": torch.from_numpy(self._frozen_margin),
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self._similarities = tensors["similarities"].numpy()
        margin = tensors["frozen_margin"].numpy()
        for place, step in enumerate(tensors["frozen_step"].tolist()):
            if step >= 0:
                self._freeze(place, margin[place], step)

    def finish(self) -> None:
        """Give tiers to the seeds that never memorised, and write the part of each seed."""
        for place, seed in enumerate(self._ensemble.seeds):
            tiers = self._tiers[place]
            if tiers is None:
                margin = margins_of(self._similarities[place])
                when = f"not memorised, step {self._ensemble.step}"
                tiers = self._fit(place, margin, when)
            write_part(self._folder, seed, self._lines(place), self._labels[place], tiers)

    def _lines(self, place: int) -> list[dict[str, Any]]:
        """The held-out bundles of a seed with their last similarities, as lines of JSONL."""
        name = f"seed_{self._ensemble.seeds[place]}"
        texts = self._texts[place]
        found = self._similarities[place]
        return list(bundle_lines(self._held_out[place], texts, found, prefix=name))

    def _freeze(self, place: int, margin: NDArray[np.float64], step: int) -> None:
        self._frozen_step[place], self._frozen_margin[place] = step, margin
        self._fit(place, margin, f"memorised at step {step}")

    def _fit(self, place: int, margin: NDArray[np.float64], when: str) -> Tiers:
        items = [
            {key: value for key, value in line.items() if key != "similarities"}
            for line in self._lines(place)
        ]
        seed = self._ensemble.seeds[place]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptyTierWarning)  # which the counts tell too
            tiers = fit_tiers(
                -margin, encoder=f"seed_{seed}, {when}", corpus_hash=content_hash(items)
            )
        self._tiers[place] = tiers
        self._labels[place] = assign_tiers(tiers, -margin)
        return tiers

    def _tier3(self, margin: NDArray[np.float64]) -> NDArray[np.float64]:
        hard = self._labels == HARDEST
        count = hard.sum(axis=1)
        passes = ((margin > 0) & hard).sum(axis=1)
        return np.where(count > 0, passes / np.maximum(count, 1), np.nan)


def _places(bundles: list[EquationBundles], device: torch.device) -> tuple[Tensor, Tensor]:
    anchors = np.stack([one.anchors for one in bundles])
    candidates = np.stack([one.candidates for one in bundles])
    return torch.from_numpy(anchors).to(device), torch.from_numpy(candidates).to(device)


def _cosines(hidden: Tensor, places: tuple[Tensor, Tensor]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = cosines(hidden, *places).double().cpu().numpy()
    return found


# Models that were asked bundles of equations: what is written of their answers.


@dataclass(frozen=True)
class Asked:
    """What was written.

    Attributes:
        scores: of the bundles.
        board: their sum.
        paths: scoreboard, scores and bundles.
    """

    scores: ItemScores
    board: Scoreboard
    paths: tuple[Path, ...]


def write_asked(
    folder: Path,
    lines: Sequence[dict[str, Any]],
    seed: int,
    encoder: str,
    *,
    labels: Sequence[str] | None = None,
) -> Asked:
    """Bundles, scores and scoreboard; the tiers stay out of the bundles, whose hash is the data's.

    Two models asked about the same equations have one content hash, and can be compared.

    Args:
        folder: where to.
        lines: bundles with similarities.
        seed: of their drawing.
        encoder: who answered.
        labels: tier of each bundle.
    """
    path = write_text(folder / "bundles.jsonl", jsonl(lines))
    file = read_bundles(path)
    scores = ItemScores.of(file, file.similarities(), encoder)
    if labels is not None:
        scores = dataclasses.replace(scores, tiers=tuple(labels))
    table, target = scores.write(folder / "scores.parquet"), folder / "scoreboard.json"
    board = scoreboard_of(table, target, version="1", seed=seed)
    return Asked(scores, board, (target, table, path))


def ask_model(
    model: str | Path, config: RunConfig, seed: int, out: str | Path, *, drawing: Drawing
) -> Asked:
    """Bundles of a saved model, without a history.

    Args:
        model: folder of a `GrokkingTransformerForCausalLM`.
        config: its `task` says what the model was trained on.
        seed: of the run, which says what was held out.
        out: a folder.
        drawing: how many bundles, of how many negatives, drawn by which seed.

    Raises:
        InputError: no such model, or one of another vocabulary.
    """
    import torch

    from gmb_hf.crucible.equations import bundle_lines
    from gmb_hf.training.checkpoints import load_model
    from gmb_hf.training.ensemble import task_data
    from gmb_hf.training.observables import cosines, model_hidden

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
    return write_asked(Path(out), lines, drawing.seed, str(model))


# Bundles out of grokking models: train seeds, and ask each of them the same at every checkpoint.


@dataclass(frozen=True)
class FromRuns:
    """What a command left.

    Attributes:
        log: of all runs in the folder.
        events: t* of each of them, NaN where there is none, float64 [R].
        asked: the held-out bundles at the last checkpoint.
        paths: the files written.
        notes: what a reader must know.
    """

    log: RunLog
    events: NDArray[np.float64]
    asked: Asked
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
    """Train the seeds that the folder does not hold yet, and track the margins of their bundles.

    Args:
        config: what to train; its checkpoints are those that are measured.
        seeds: of the runs.
        out: a folder.
        drawing: how many bundles, of how many negatives, drawn by which seed.
        device: "auto", "cpu" or "cuda".

    Raises:
        InputError: no seeds, bundles that the task has not enough equations for, or a folder that
            belongs to another config or cannot be written to.
    """
    from gmb_hf.crucible.figures import margin_curves
    from gmb_hf.report.style import save_figure
    from gmb_hf.training.single import train_seeds
    from gmb_hf.training.stacked import Beside, finished_seeds

    folder = Path(out)
    if not seeds:
        raise InputError("no seeds to train; give at least one, e.g. --seeds 0:4")
    _refuse_undrawable(config, seeds, drawing)
    beside = Beside(
        lambda ensemble: Tracker(ensemble, drawing, folder),
        {"crucible": dataclasses.asdict(drawing)},
    )
    logs = train_seeds(config, seeds, folder, device=device, beside=beside)
    parts = [read_part(folder, seed) for seed in sorted(finished_seeds(folder))]
    asked = write_asked(
        folder,
        [line for part in parts for line in part.lines],
        drawing.seed,
        f"{config.preset}, step {config.training.steps}",
        labels=[label for part in parts for label in part.labels],
    )
    log = RunLog.read(folder / "logs")
    events, notes = _events(config, log)
    drawn = save_figure(margin_curves(_curves(log, events)), folder / "margins")
    cutoffs = [tiers_path(folder, part.seed) for part in parts]
    paths = (*drawn, *asked.paths, *logs, *cutoffs)
    return FromRuns(log, events, asked, paths, (*_notes(log, parts), *notes))


def _refuse_undrawable(config: RunConfig, seeds: Sequence[int], drawing: Drawing) -> None:
    """Say before the first group is trained that some later seed has too few equations."""
    from gmb_hf.training.ensemble import task_data

    for seed in seeds:
        data, number = task_data(config.task, seed), config.task.data_seed_of(seed)
        drawing.held_out(data, number)
        drawing.training(data, number)


def _notes(log: RunLog, parts: Sequence[Part]) -> list[str]:
    from gmb_hf.training.config import format_seeds
    from gmb_hf.training.progress import MEMORISED

    accuracy = log.panel("train_acc").values.max(axis=1)
    late = sorted(
        seed
        for seed, best in zip(log.seeds, accuracy.tolist(), strict=True)
        if seed is not None and not best >= MEMORISED
    )
    empty = [part.seed for part in parts if 0 in part.tiers.counts.values()]
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
    from gmb_hf.benchmark.locking import prereg_from_config

    try:
        found = find_events(log.panel, prereg_from_config(config, log), names=log.observables)
    except InputError as error:
        return np.full(len(log.runs), np.nan), [f"no events: {error}"]
    return found.step, []


def _curves(log: RunLog, events: NDArray[np.float64]) -> Any:
    from gmb_hf.crucible.figures import MarginCurves

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
