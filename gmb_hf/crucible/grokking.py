"""Crucible over training: which equations does a grokking model hold to have the same answer?

A bundle's anchor is an equation, its positive another one with the same answer, its negatives
equations with other answers. Bundles are drawn once from a task's rows and a generator and know
nothing of any model, so that every checkpoint is scored on the same ones.

Shapes: m rows to draw from, N bundles, K negatives each, S seeds, R runs, T checkpoints.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from gmb_hf.base.errors import InputError, positive_int
from gmb_hf.base.files import read_jsonl, write_jsonl
from gmb_hf.base.fingerprints import content_hash
from gmb_hf.base.stats import generator
from gmb_hf.benchmark.events import find_events
from gmb_hf.crucible import margins
from gmb_hf.crucible.bundles import item_content, read_bundles
from gmb_hf.crucible.scoreboard import Scoreboard, scoreboard_of
from gmb_hf.crucible.scores import ItemScores
from gmb_hf.report import style
from gmb_hf.report.curves import median_over_runs
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks.task import TaskData
from gmb_hf.training.checkpoints import load_model
from gmb_hf.training.config import RunConfig, TaskSettings, format_seeds
from gmb_hf.training.folder import finished_seeds
from gmb_hf.training.launch import MEMORISED
from gmb_hf.training.observables import cosines, model_hidden
from gmb_hf.training.presets import design_of
from gmb_hf.training.seeds import Callbacks, TrainingCallback, train_seeds
from gmb_hf.training.stacked import SeedStack, task_data

Q10 = "crucible_margin_q10"
TRAIN_Q10 = "crucible_train_margin_q10"
TIER3_RATE = "crucible_tier3_pass_rate"


class EquationBundles(NamedTuple):
    """Anchors [N] and candidates [N, 1 + K], the positive first, as indices of the rows, int64."""

    anchors: NDArray[np.int64]
    candidates: NDArray[np.int64]


def draw_bundles(
    answers: ArrayLike, n: int, negatives: int, rng: np.random.Generator
) -> EquationBundles:
    """Draw bundles from rows with these answers.

    Every row that shares its answer with another one is an anchor equally often, up to one;
    positives and negatives are drawn uniformly, the negatives of a bundle without repetition.

    Args:
        answers: the answer of each row, [m].
        n: how many bundles.
        negatives: K, of each of them.
        rng: equal generators draw equal bundles.

    Raises:
        InputError: no two rows have the same answer, or too few have another one.

    >>> found = draw_bundles([3, 3, 5, 7], 2, 2, np.random.default_rng(0))
    >>> sorted(found.anchors.tolist()), sorted(found.candidates[0, 1:].tolist())
    ([0, 1], [2, 3])
    """
    given = np.asarray(answers)
    positive_int("bundles", n)
    positive_int("negatives", negatives)
    order = np.argsort(given, kind="stable")  # rows with one answer lie together
    _, start, group, size = np.unique(
        given[order], return_index=True, return_inverse=True, return_counts=True
    )
    eligible = np.flatnonzero(size[group] > 1)  # positions in `order`
    if not len(eligible):
        raise InputError(
            f"no two of the {len(given)} equations to draw from have the same answer, so none has "
            "a positive; hold out more equations, or take a larger modulus"
        )
    fewest = len(given) - int(size[size > 1].max())
    if negatives > fewest:
        raise InputError(
            f"{negatives} negatives are asked for, but only {fewest} of the {len(given)} "
            f"equations to draw from have another answer than some anchor; ask for at most {fewest}"
        )
    rounds = -(-n // len(eligible))
    anchors = np.concatenate([rng.permutation(eligible) for _ in range(rounds)])[:n]
    first, width = start[group[anchors]], size[group[anchors]]
    # One to width - 1 places further on, around its group.
    positives = first + (anchors - first + rng.integers(1, width)) % width
    others = np.stack(
        [rng.choice(len(given) - count, negatives, replace=False) for count in width.tolist()]
    )
    others += (others >= first[:, None]) * width[:, None]  # past the anchor's group
    return EquationBundles(order[anchors], order[np.column_stack([positives, others])])


def bundle_lines(
    bundles: EquationBundles, texts: list[str], similarities: NDArray[np.floating], *, prefix: str
) -> list[dict[str, Any]]:
    """The bundles as `bundles.parse_bundle` reads them; their ids begin with a prefix (`seed_3`).

    Bundles are indices of the m texts, similarities are of the candidates, [N, 1 + K].
    """
    rows = zip(*(array.tolist() for array in (*bundles, similarities)), strict=True)
    return [
        {
            "id": f"{prefix}/{number}",
            "anchor": texts[anchor],
            "positive": texts[positive],
            "negatives": [texts[place] for place in negatives],
            "similarities": {"positive": near, "negatives": far},
        }
        for number, (anchor, (positive, *negatives), (near, *far)) in enumerate(rows)
    ]


def margins_of(similarities: NDArray[np.floating]) -> margins.Floats:
    """Margins of many seeds' bundles, the positive first: [S, N, 1 + K] to [S, N]."""
    values = np.asarray(similarities, dtype=np.float64)
    return np.asarray(values[..., 0] - values[..., 1:].max(axis=-1))


def margin_observables(similarities: NDArray[np.floating]) -> dict[str, margins.Floats]:
    """What a checkpoint adds to a run log, each [S]: as `margin_stats` and `rank_stats` of a seed.

    The similarities are [S, N, 1 + K], the positive of each bundle first.
    """
    margin = margins_of(similarities)
    q10, median, q90 = np.quantile(margin, margins.QUANTILES, axis=1)
    above = similarities[..., 1:] > similarities[..., :1]
    return {
        Q10: q10,
        "crucible_margin_median": median,
        "crucible_margin_q90": q90,
        "crucible_pass_rate": (margin > 0).mean(axis=1),
        "crucible_mean_rank": (1 + above.sum(axis=-1)).mean(axis=1),
    }


@dataclass(frozen=True, slots=True)
class BundleSampling:
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
        return self._draw(data.true_answers[data.test_index], 2 * data_seed, "held-out")

    def training(self, data: TaskData, data_seed: int) -> EquationBundles:
        """Bundles of training equations, by the answers that are trained on, right or wrong."""
        return self._draw(data.answers[data.train_index], 2 * data_seed + 1, "training")

    def _draw(self, answers: NDArray[np.int64], stream: int, rows: str) -> EquationBundles:
        if answers.shape[1] > 1:
            raise InputError(
                f"bundles are drawn by a row's answer, and rows of this task have "
                f"{answers.shape[1]} answer tokens; choose a task with one, e.g. task.name=parity_8"
            )
        rng = generator(self.seed, stream)
        try:
            return draw_bundles(answers[:, 0], self.bundles, self.negatives, rng)
        except InputError as error:
            seed = stream // 2
            raise error.reworded(f"{rows} equations of data seed {seed}: {error}") from None


def held_out_texts(settings: TaskSettings, data: TaskData) -> list[str]:
    """The held-out equations as people write them."""
    every = settings.build().texts()
    return [every[row] for row in data.test_index.tolist()]


class RunBundles(NamedTuple):
    """The N bundles of one run, scored by its last checkpoint, with the cutoffs of their tiers."""

    lines: list[dict[str, Any]]
    tiers: margins.Tiers

    @staticmethod
    def paths(folder: Path, seed: int) -> tuple[Path, Path]:
        """The files of a run: its bundles, and its cutoffs."""
        return folder / "parts" / f"seed_{seed}.jsonl", folder / "tiers" / f"seed_{seed}.json"

    def write(self, folder: Path, seed: int) -> None:
        """Write both files, each atomically; files that are there are replaced."""
        bundles, cutoffs = self.paths(folder, seed)
        self.tiers.write(cutoffs)
        write_jsonl(bundles, self.lines)

    @classmethod
    def read(cls, folder: Path, seed: int) -> RunBundles:
        """Read what `write` left; raises InputError where it is not as it was written."""
        bundles, cutoffs = cls.paths(folder, seed)
        lines: list[Any] = [None]
        if bundles.is_file():
            lines = [line for _, line in read_jsonl(bundles)]
        if not all(isinstance(line, dict) and "tier" in line for line in lines):
            raise InputError(
                f"{bundles}: missing or changed, but {folder / 'logs'} holds its run; delete the "
                "log of the run to train it again, or choose another --out"
            )
        return cls(lines, margins.Tiers.read(cutoffs))


class MarginCallback(TrainingCallback):
    """Scores the same bundles at every checkpoint of a stack, and tiers them once memorised.

    The `RunBundles` of each of its S seeds are written to the folder at the end.
    """

    def __init__(self, stack: SeedStack, sampling: BundleSampling, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        task = stack.config.task
        drawn = [(task_data(task, seed), task.data_seed_of(seed)) for seed in stack.seeds]
        self._held_out = [sampling.held_out(*pair) for pair in drawn]
        self._indices = _indices(self._held_out, stack.device)
        training = [sampling.training(*pair) for pair in drawn]
        self._training_indices = _indices(training, stack.device)
        self._texts = [held_out_texts(task, data) for data, _ in drawn]
        shape = len(stack), sampling.bundles
        self._similarities = np.empty((*shape, 1 + sampling.negatives))
        self._tiers: dict[int, margins.Tiers] = {}
        self._labels = np.full(shape, "", dtype="<U32")
        # Tiers are fitted to the margins of the step at which a seed has memorised; -1 before.
        self._frozen_step = np.full(len(stack), -1)
        self._frozen_margin = np.zeros(shape)

    def measure(self, train_acc: margins.Floats) -> dict[str, margins.Floats]:
        """What the checkpoint adds to the run log, each [S]; accuracies on training rows, [S]."""
        stack = self._stack
        self._similarities = _cosines(stack.test.logits(stack.weights)[1], self._indices)
        training = _cosines(stack.train.logits(stack.weights)[1], self._training_indices)
        margin = margins_of(self._similarities)
        for place in np.flatnonzero((train_acc >= MEMORISED) & (self._frozen_step < 0)).tolist():
            self._freeze(place, margin[place], stack.step)
        hard = self._labels == margins.HARDEST
        count, passes = hard.sum(axis=1), ((margin > 0) & hard).sum(axis=1)
        return {
            **margin_observables(self._similarities),
            TRAIN_Q10: margin_observables(training)[Q10],
            TIER3_RATE: np.where(count > 0, passes / np.maximum(count, 1), np.nan),
        }

    def state(self) -> dict[str, Tensor]:
        """The last similarities, and the margins that the tiers are fitted to."""
        names = ("similarities", "frozen_step", "frozen_margin")
        return {name: torch.from_numpy(getattr(self, f"_{name}")) for name in names}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self._similarities = tensors["similarities"].numpy()
        margin = tensors["frozen_margin"].numpy()
        for place, step in enumerate(tensors["frozen_step"].tolist()):
            if step >= 0:
                self._freeze(place, margin[place], step)

    def finish(self) -> None:
        """Fit tiers for the seeds that never memorised, and write the bundles of each seed."""
        when = f"not memorised, step {self._stack.step}"
        for place, seed in enumerate(self._stack.seeds):
            if place not in self._tiers:
                self._fit(place, margins_of(self._similarities[place]), when)
            pairs = zip(self._lines(place), self._labels[place].tolist(), strict=True)
            lines = [{**line, "tier": label} for line, label in pairs]
            RunBundles(lines, self._tiers[place]).write(self._folder, seed)

    def _lines(self, place: int) -> list[dict[str, Any]]:
        """The held-out bundles of a seed with their last similarities, as lines of JSONL."""
        name, found = f"seed_{self._stack.seeds[place]}", self._similarities[place]
        return bundle_lines(self._held_out[place], self._texts[place], found, prefix=name)

    def _freeze(self, place: int, margin: margins.Floats, step: int) -> None:
        self._frozen_step[place], self._frozen_margin[place] = step, margin
        self._fit(place, margin, f"memorised at step {step}")

    def _fit(self, place: int, margin: margins.Floats, when: str) -> None:
        corpus = content_hash(map(item_content, self._lines(place)))
        encoder = f"seed_{self._stack.seeds[place]}, {when}"
        tiers = margins.fit_tiers(-margin, encoder=encoder, corpus_hash=corpus)
        self._tiers[place], self._labels[place] = tiers, margins.assign_tiers(tiers, -margin)


def _indices(bundles: list[EquationBundles], device: torch.device) -> tuple[Tensor, ...]:
    """Indices of the anchors [S, N] and of the candidates [S, N, 1 + K]."""
    stacked = (np.stack(arrays) for arrays in zip(*bundles, strict=True))
    return tuple(torch.from_numpy(indices).to(device) for indices in stacked)


def _cosines(hidden: Tensor, indices: tuple[Tensor, ...]) -> margins.Floats:
    return np.asarray(cosines(hidden, *indices).double().cpu().numpy())


class ScoredBundles(NamedTuple):
    """The scoreboard of scored bundles, and the files: scoreboard, scores and bundles."""

    board: Scoreboard
    paths: tuple[Path, ...]


def _write_scored(
    folder: Path,
    lines: Sequence[dict[str, Any]],
    seed: int,
    encoder: str,
    labels: Sequence[str] | None = None,
) -> ScoredBundles:
    """Write bundles, as drawn by this seed, with their scores and scoreboard.

    The tiers (labels) stay out of the bundles, whose hash is the data's: two models that are scored
    on the same equations have one content hash, and can be compared.
    """
    file = read_bundles(write_jsonl(folder / "bundles.jsonl", lines))
    scores = ItemScores.of(file, file.similarities(), encoder)
    if labels is not None:
        scores = dataclasses.replace(scores, tiers=tuple(labels))
    table, target = scores.write(folder / "scores.parquet"), folder / "scoreboard.json"
    board = scoreboard_of(table, target, version="1", seed=seed, frozen=False)
    return ScoredBundles(board, (target, target.with_suffix(".html"), table, file.path))


def score_model(
    model: str | Path, config: RunConfig, seed: int, out: str | Path, *, sampling: BundleSampling
) -> ScoredBundles:
    """Bundles of a saved model, without a history.

    Args:
        model: folder of a `GrokkingTransformerForCausalLM`.
        config: its `task` says what the model was trained on.
        seed: of the run, which says what was held out.
        out: a folder.
        sampling: of the bundles.

    Raises:
        InputError: no such model, or one of another vocabulary.
    """
    config = config.of_seed(seed)
    task, data = config.task, task_data(config.task, seed)
    loaded = load_model(model)
    if loaded.config.vocab_size != data.vocab_size:
        hint = "say what it was trained on, e.g. --set task.prime=97 --set task.operation=add"
        found = f"has {loaded.config.vocab_size} tokens, but {task.title} needs {data.vocab_size}"
        raise InputError(f"{model}: {found}; {hint}")
    bundles = sampling.held_out(data, task.data_seed_of(seed))
    rows = torch.from_numpy(data.input_ids[data.test_index])
    hidden = model_hidden(loaded, rows, data.answer_positions[0])
    found = _cosines(hidden[None], _indices([bundles], hidden.device))[0]
    lines = bundle_lines(bundles, held_out_texts(task, data), found, prefix=f"seed_{seed}")
    return _write_scored(Path(out), lines, sampling.seed, str(model))


@dataclass(frozen=True)
class MarginProgress:
    """q10 of the held-out margins, each a median over the runs that have it, or None.

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


def margin_progress(log: RunLog, events: margins.Floats) -> MarginProgress:
    """How q10 rises, and how much of that before the events: t* of each run or NaN, [R]."""
    panel = log.panel(Q10)
    q10, steps, runs = panel.values, panel.steps, np.arange(len(panel.runs))
    knows, at = log.panel("train_acc").values >= MEMORISED, steps == events[:, None]
    start, event = (
        np.where(there.any(axis=1), q10[runs, there.argmax(axis=1)], np.nan)
        for there in (knows, at)
    )
    since = np.where(knows.any(axis=1), steps[runs, knows.argmax(axis=1)], np.inf)
    last = q10[:, -1]
    rises = (since < events) & (last > start)
    share = np.divide(event - start, last - start, where=rises, out=np.full(len(runs), np.nan))
    n_events, middle = int(at.any(axis=1).sum()), float(np.median(last))
    medians = _median(start), _median(event), middle, _median(share)
    return MarginProgress(len(runs), n_events, *medians)


def _median(values: margins.Floats) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None


@dataclass(frozen=True)
class TrackedRuns:
    """What `from_runs` left: the log of all runs in the folder, and the files written.

    Attributes:
        events: t* of each run, NaN where there is none, float64 [R].
        scored: the held-out bundles at the last checkpoint.
        notes: what a reader must know.
    """

    log: RunLog
    events: margins.Floats
    scored: ScoredBundles
    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def from_runs(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    sampling: BundleSampling,
    device: str = "auto",
    figures: bool = True,
) -> TrackedRuns:
    """Train the seeds that the folder does not hold yet, and track the margins of their bundles.

    Args:
        config: what to train; its checkpoints are those that are measured.
        seeds: of the runs.
        out: a folder.
        sampling: of the bundles.
        device: "auto", "cpu" or "cuda".
        figures: whether to draw the margins.

    Raises:
        InputError: no seeds, bundles that the task has not enough equations for, or a folder that
            belongs to another config or cannot be written to.
    """
    folder = Path(out)
    if not seeds:
        raise InputError("no seeds to train; give at least one, e.g. --seeds 0:4")
    for seed in seeds:  # before the first group is trained: has each seed enough equations?
        own = config.of_seed(seed).task
        drawn_from = task_data(own, seed), own.data_seed_of(seed)
        sampling.held_out(*drawn_from)
        sampling.training(*drawn_from)
    # Bundles are scored until the last step, whatever a run's own log needs.
    config = config.replace(training=config.training.replace(stop_after=None))
    callbacks = Callbacks(
        lambda stack: MarginCallback(stack, sampling, folder),
        {"crucible": dataclasses.asdict(sampling)},
    )
    logs = train_seeds(config, seeds, folder, device=device, callbacks=callbacks)
    runs = {seed: RunBundles.read(folder, seed) for seed in sorted(finished_seeds(folder))}
    lines = [line for run in runs.values() for line in run.lines]
    labels = [line.pop("tier") for line in lines]
    encoder = f"{config.preset}, step {config.training.steps}"
    scored = _write_scored(folder, lines, sampling.seed, encoder, labels)
    log = RunLog.read(folder / "logs")
    best = zip(log.seeds, log.panel("train_acc").values.max(axis=1), strict=True)
    late = [seed for seed, accuracy in best if seed is not None and not accuracy >= MEMORISED]
    empty, notes = [seed for seed, run in runs.items() if run.tiers.notes], []
    if late:
        why = "their tiers are those of their last checkpoint and show no progress"
        notes.append(f"seeds {format_seeds(sorted(late))} never memorised their rows; {why}")
    if empty:
        why = "(few bundles, or dangers tie)"
        notes.append(f"seeds {format_seeds(empty)} have a tier without items {why}")
    try:
        events = find_events(log, design_of(config, log)).step
    except InputError as error:
        events = np.full(len(log.runs), np.nan)
        notes.append(f"no events: {error}")
    drawn = style.save_figure(margin_curves(log, events), folder / "margins") if figures else []
    shown = [("Margins, pass rate and accuracy over training", one) for one in drawn[:1]]
    scored.board.sheet(shown).write(folder / "scoreboard.html")
    cutoffs = [RunBundles.paths(folder, seed)[1] for seed in runs]
    return TrackedRuns(log, events, scored, (*drawn, *scored.paths, *logs, *cutoffs), tuple(notes))


@style.house_style()
def margin_curves(log: RunLog, events: margins.Floats) -> Figure:
    """Quantiles of the margins above, pass rates below, each run's t* as a point on its curve.

    The log is one of `from_runs`, `events` are t* of each run in steps, NaN where there was none,
    [R]. The figure has 7.2 by 4.8 inches; bold lines are medians over runs, thin lines are runs.
    """
    steps = log.panel("train_acc").steps
    names = (Q10, "crucible_margin_median", "crucible_margin_q90", "crucible_pass_rate", "test_acc")
    q10, middle, q90, pass_rate, accuracy = (log.panel(name).values for name in names)
    # Not as a panel, which refuses a run that has no value: it never memorised.
    tier3 = log.table[TIER3_RATE].to_numpy().reshape(steps.shape)
    found, at = events[np.isfinite(events)], steps == events[:, None]
    figure = style.new_figure(7.2, 4.8)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1.25, 1])
    top.axhline(0, color=style.MUTED, linewidth=0.7, zorder=0)
    for axes, label, values, colour, dashes in (
        (top, "q90", q90, style.GREEN, style.DOTTED),
        (top, "median", middle, style.ORANGE, style.DASHED),
        (top, "q10, the hardest tenth", q10, style.BLUE, "solid"),
        (bottom, "held-out accuracy", accuracy, style.BLACK, style.DOTTED),
        (bottom, "pass rate, tier3", tier3, style.VERMILION, style.DASHED),
        (bottom, "pass rate", pass_rate, style.BLUE, "solid"),
    ):
        if np.isfinite(values).any():  # the median over runs
            look: Any = {"color": colour, "linestyle": dashes, "label": label}
            axes.plot(*median_over_runs(steps, values), linewidth=1.9, zorder=3, **look)
    top.set_ylabel("margin (difference of cosines)")
    bottom.set(ylabel="share", ylim=(-0.02, 1.03), xlim=(0, max(int(steps.max()), 1)))
    style.rate_axis(bottom.yaxis)
    style.step_axis(bottom, "training step")
    runs = f"{len(steps):,} run" + ("" if len(steps) == 1 else "s")
    top.set_title(f"Margins of held-out bundles, {runs}, {len(found):,} with an event")
    dot: Any = {"markersize": 4, "markeredgewidth": 0, "label": "a run's event t*", "zorder": 4}
    for axes, values in ((top, q10), (bottom, pass_rate)):
        style.thin_lines(axes, steps, values, style.BLUE, most=0.45)
        if at.any():
            axes.plot(steps[at], values[at], ".", color=style.INK, **dot)
        if len(found):
            t_star = float(np.median(found))
            label = f"median t*, {t_star:,.0f} steps"
            axes.axvline(t_star, color=style.INK, linewidth=0.9, label=label, zorder=0)
        style.legend_beside(axes)
    return figure
