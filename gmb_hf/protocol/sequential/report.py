"""Reports on folders of sequential runs: retention.json, tables and figures."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, chain
from operator import and_
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, repeated
from gmb_hf.base.files import write_json
from gmb_hf.base.fingerprints import SHOWN
from gmb_hf.base.stats import OverSeeds
from gmb_hf.protocol.sequential.config import (
    SequentialConfig,
    SuiteSettings,
    preset,
    smaller_than_protocol,
)
from gmb_hf.protocol.sequential.folder import (
    DESIGN,
    MATRIX,
    differing_designs,
    distinct_names,
    refuse_repeated,
)
from gmb_hf.protocol.sequential.matrix import MEASURES, RetentionMatrix, read_matrix
from gmb_hf.protocol.sequential.summary import (
    Chance,
    PhaseIncrease,
    RetentionSummary,
    chance_level,
    retention_tables,
    summarize,
)
from gmb_hf.report import style
from gmb_hf.report.curves import median_over_runs
from gmb_hf.report.sheet import Sheet, sentences_of
from gmb_hf.runs.metadata import refuse_mismatches
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.folder import read_config_file, read_design

SUMMARY = "retention.json"
_TEMPLATES = "gmb_hf.protocol.sequential"


class SequentialRun(NamedTuple):
    """The results in a folder of `gmb sequential run`, as the folder's files hold them.

    Task -> SHA-256 of its rows is `fingerprints`, variant -> its matrix is `matrices`.
    """

    folder: Path
    config: SequentialConfig
    fingerprints: dict[str, str]
    matrices: dict[str, RetentionMatrix]


class SequentialReport(NamedTuple):
    """A summary, the files written, remarks, and the command to type next."""

    summary: RetentionSummary
    files: tuple[Path, ...]
    notes: tuple[str, ...]
    following: str


def read_run(folder: str | Path) -> SequentialRun:
    """Read a folder; `InputError` without a design or matrix, or where one of them is wrong."""
    place = Path(folder)
    path = place / DESIGN
    config, matrices = read_design(SequentialConfig, path), read_matrix(place / MATRIX)
    fingerprints = read_config_file(path).get("fingerprints")
    tasks = next(iter(matrices.values())).tasks
    known = fingerprints if isinstance(fingerprints, dict) else {}
    if not all(isinstance(known.get(task), str) for task in tasks):
        raise InputError(
            f"{path}: no fingerprint for each of {', '.join(tasks)}; write the folder anew with "
            "gmb sequential run"
        )
    return SequentialRun(place, config, known, matrices)


def sequential_report(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    allow_fingerprint_mismatch: bool = False,
    baseline: str | None = None,
    figures: bool = True,
) -> SequentialReport:
    """Summarize one run, or compare several, and write retention.json, tables/ and figures/.

    Args:
        folders: of `gmb sequential run`.
        out: where to write; may be one of the folders.
        allow_fingerprint_mismatch: compare different data all the same; every table says so.
        baseline: the variant that the others are compared with; None takes `dense`, else the first.
        figures: whether to draw them.

    Raises:
        InputError: no folder, one twice, or one that is wrong; other tasks or another order.
        FingerprintMismatchError: a task's data differ.
    """
    refuse_repeated(folders, of="gmb sequential run")
    runs = [read_run(folder) for folder in folders]
    first = runs[0]
    different = [
        f"task {task!r}: fingerprint {mine[:SHOWN]} in {first.folder} and "
        f"{run.fingerprints[task][:SHOWN]} in {run.folder}"
        for run in runs[1:]
        for task, mine in first.fingerprints.items()
        if run.fingerprints.get(task, mine) != mine
    ]
    unequal = refuse_mismatches(different, allowed=allow_fingerprint_mismatch)
    matrices, curves = {}, {}
    for (place, variant), label in _labels(runs).items():
        matrices[label] = replace(runs[place].matrices[variant], variant=label)
        curves[label] = read_phases(runs[place].folder / "logs" / variant)
    agreed = reduce(and_, (_chance(run.config.suite).items() for run in runs))
    notes = (*unequal, *_design_notes(runs))
    summary = summarize(matrices, chance=dict(agreed), baseline=baseline, notes=notes)
    data = write_json(Path(out) / SUMMARY, summary.to_dict())
    drawn: dict[str, tuple[str, Figure | None]] = {}
    if figures:
        for measure in MEASURES:
            caption = f"{measure.capitalize()} on every task after every phase"
            drawn[f"matrix_{measure}"] = caption, retention_matrix(summary, measure)
        caption = "What was lost of each task's best, over seeds"
        drawn["forgetting"] = caption, forgetting_bars(summary)
        caption = "What each phase adds to the loss of the tasks learned before it"
        drawn["forgetting_by_phase"] = caption, forgetting_by_phase(summary)
        if any(curves.values()):
            caption = "Training and held-out loss, phase by phase"
            drawn["phases"] = caption, phase_curves(summary, curves)
    fingerprints = {task: mine for run in runs for task, mine in run.fingerprints.items()}
    said = sentences_of("sentences.j2", _TEMPLATES, variants=summary.variants)
    sheet = Sheet(
        "GMB sequential retention",
        f"What remains of {len(summary.trained_on)} tasks learned one after the other",
        [*said, *summary.notes],
        tables=retention_tables(summary),
        facts=[(f"fingerprint of {task}", digest) for task, digest in fingerprints.items()],
    )
    page, *others = sheet.write_folder(out, drawn)
    following = shlex.join(["cat", str(Path(out) / "tables" / "matrix_loss.md")])
    return SequentialReport(summary, (page, data, *others), summary.notes, following)


def _chance(suite: SuiteSettings) -> dict[str, Chance]:
    """Task -> its chance level; empty where the loss is over all positions."""
    tasks = suite.tasks if suite.loss_positions == "answer" else ()
    return {task: chance_level(suite.build(task)) for task in tasks}


def read_phases(folder: Path) -> list[PhaseCurves]:
    """The learning curves of a variant, phase by phase; empty where there are no logs."""
    logs: defaultdict[int, list[RunLog]] = defaultdict(list)
    for path in sorted(folder.glob("*.parquet")):
        log = RunLog.read(path, columns=["train_loss", "test_loss"])
        phase = log.metadata.get("phase")
        if not isinstance(phase, int):
            raise InputError(f"{path}: its metadata name no phase; is it a log of this run?")
        logs[phase].append(log)
    found = []
    for phase, parts in sorted(logs.items()):
        train, test = map(RunLog.concat(parts).panel, ("train_loss", "test_loss"))
        found.append(PhaseCurves(phase, test.steps, train.values, test.values))
    return found


def _design_notes(runs: Sequence[SequentialRun]) -> list[str]:
    """How the runs differ from the protocol, and from each other."""
    notes = []
    for run in runs:
        where = f"{run.folder}: " if len(runs) > 1 else ""
        name = run.config.preset or "this design"
        scale = _unlike_the_protocol(run.config)
        if scale:
            notes.append(f"{where}{name} is not the protocol: {scale}")
    folders, configs = [run.folder for run in runs], [run.config for run in runs]
    return [*notes, *differing_designs(folders, configs)]


def _unlike_the_protocol(config: SequentialConfig) -> str:
    """Each setting that differs from the protocol's, with both; empty where all are equal."""
    about: dict[str, Any] = {"config": config, "smaller": smaller_than_protocol(config)}
    about["protocol"] = preset("replication", config.suite.name)
    return ", ".join(sentences_of("unlike_protocol.j2", _TEMPLATES, **about))


def _labels(runs: Sequence[SequentialRun]) -> dict[tuple[int, str], str]:
    """(place of the run, variant) -> a unique name, with the folder's only where it is needed."""
    every = [(place, variant) for place, run in enumerate(runs) for variant in run.matrices]
    if repeated([variant for _, variant in every]) is None:
        return {key: key[1] for key in every}
    names = distinct_names([run.folder for run in runs])
    return {(place, variant): f"{variant} ({names[place]})" for place, variant in every}


def forgetting_bars(summary: RetentionSummary) -> Figure | None:
    """Forgetting of every task but the last, in accuracy above and in loss below.

    The whiskers are 95% Student intervals over seeds, the dots are the seeds. The figure is of 7.2
    by 4.6 inches; None of a single phase, in which nothing can be forgotten.
    """
    tasks, count = summary.trained_on[:-1], len(summary.variants)
    if not tasks:
        return None
    with style.house_style():
        figure = style.new_figure(7.2, 4.6)
        panels = figure.subplots(2, 1, sharex=True)
        for axes, measure in zip(panels, MEASURES, strict=True):
            for place, (name, variant) in enumerate(summary.variants.items()):
                ours = [task.forgetting for task in variant.tasks if task.measure == measure]
                found = [over for over in ours if over is not None]
                width = 0.8 / count
                at = np.arange(len(tasks)) + (place - (count - 1) / 2) * width
                axes.bar(
                    at,
                    [over.mean for over in found],
                    width=0.92 * width,
                    color=style.variant_colour(place),
                    hatch=style.VARIANT_HATCHES[place % len(style.VARIANT_HATCHES)],
                    edgecolor="#FFFFFF",
                    linewidth=0,
                    label=style.shorten(name, 26),
                    zorder=1,
                )
                for x, over in zip(at, found, strict=True):
                    _seeds(axes, x, over, width)
            axes.axhline(0, color=style.INK, lw=0.8)
            unit = " (nats)" if measure == "loss" else ""
            axes.set_ylabel(f"forgetting, {measure}{unit}")
            axes.tick_params(axis="x", length=0)
        style.rate_axis(panels[0].yaxis)
        panels[0].set_title("Forgetting: the best before the last phase against the end")
        panels[1].set_xticks(range(len(tasks)), [style.shorten(task, 18) for task in tasks])
        panels[1].set_xlabel(f"task, in the order of training (then {summary.trained_on[-1]})")
        style.legend_beside(panels[0])
        return figure


def _seeds(axes: Axes, x: float, over: OverSeeds, width: float) -> None:
    """The dots of the seeds and the whiskers on a bar."""
    spots = x + np.linspace(-0.25, 0.25, over.n_seeds) * width if over.n_seeds > 1 else [x]
    axes.plot(spots, over.values, "o", ms=3, mew=0.6, mfc="#FFFFFF", mec=style.INK, zorder=3)
    if over.t_high is not None:
        look: dict[str, Any] = {"ecolor": style.INK, "elinewidth": 1.1, "capsize": 2.5}
        axes.errorbar(x, over.mean, yerr=over.t_high - over.mean, zorder=2, **look)


def forgetting_by_phase(summary: RetentionSummary) -> Figure | None:
    """What each phase adds to the loss, in nats, of every task that was learned before it.

    A panel per task, phases across, a mark per variant: the mean over seeds with its 95% Student
    interval; small dots are seeds. Above 0 is forgotten, below 0 is won back. None of fewer than
    three phases, of which the bars say the same.
    """
    trained = summary.trained_on
    if len(trained) < _LEAST_PHASES:
        return None
    # Tasks learned later have fewer phases after them, and narrower panels.
    widths = [len(trained) - place for place in range(1, len(trained))]
    with style.house_style():
        figure = style.new_figure(7.2, 3.2)
        panels = figure.subplots(1, len(widths), sharey=True, width_ratios=widths)
        for axes, task in zip(panels, trained, strict=False):
            for place, (name, variant) in enumerate(summary.variants.items()):
                _added(axes, variant.increases, task, place, len(summary.variants), name)
            after = range(trained.index(task) + 2, len(trained) + 1)
            axes.set_xticks([*after], [str(phase) for phase in after])
            axes.set_xlim(after[0] - 0.6, after[-1] + 0.6)
            axes.axhline(0, color=style.INK, lw=0.8, zorder=1)
            axes.set_title(style.shorten(task, 14))
        panels[0].set_ylabel("loss added by the phase (nats)")
        tasks = ", ".join(f"{i} {style.shorten(task, 14)}" for i, task in enumerate(trained, 1))
        figure.supxlabel(f"phase ({tasks})", fontsize="medium")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside right upper")
        return figure


_LEAST_PHASES = 3


def _added(
    axes: Axes, increases: Sequence[PhaseIncrease], task: str, place: int, count: int, name: str
) -> None:
    """The increases of one variant and task, beside those of the other variants."""
    ours = [one for one in increases if one.task == task]
    at = np.array([one.phase for one in ours]) + (place - (count - 1) / 2) * (0.7 / count)
    colour = style.variant_colour(place)
    mean = np.array([one.loss.mean for one in ours])
    high = [one.loss.mean if one.loss.t_high is None else one.loss.t_high for one in ours]
    look: dict[str, Any] = {"color": colour, "mec": "#FFFFFF", "mew": 0.5, "ms": 5.5}
    mark = style.variant_marker(place)
    for x, one in zip(at, ours, strict=True):
        values = one.loss.values
        beside = [x + 0.12 / count] * len(values)
        axes.plot(beside, values, ".", color=colour, ms=3, alpha=0.6, mew=0, zorder=2)
    label = style.shorten(name, 26)
    axes.errorbar(at, mean, np.array(high) - mean, fmt=mark, label=label, lw=1, zorder=3, **look)


_HELD_OUT: dict[str, Any] = {"lw": 1.8}
_TRAINING: dict[str, Any] = {"lw": 1, "ls": style.DASHED}
_CHANCE: dict[str, Any] = {"color": style.INK, "lw": 0.8, "ls": (0, (1, 1.5))}


class PhaseCurves(NamedTuple):
    """The losses of S seeds at T checkpoints of one phase, which is counted from 1.

    `steps` are within the phase, int64 [S, T]; `train` and `test` are losses of the task that is
    trained, float64 [S, T], NaN where absent.
    """

    phase: int
    steps: NDArray[np.int64]
    train: NDArray[np.float64]
    test: NDArray[np.float64]


def phase_curves(summary: RetentionSummary, curves: Mapping[str, Sequence[PhaseCurves]]) -> Figure:
    """A panel per variant: losses in nats on a logarithmic axis over all phases, one after another.

    Thick lines are medians over seeds of the held-out loss of the task that is trained, thin ones
    seeds, dashed ones medians of its training loss. Marks are the means of every trained task at
    the end of each phase, joined by dotted lines: what is retained. `curves` are the phases of each
    variant in their order; a variant without logs has marks alone.
    """
    names = list(summary.variants)
    longest = dict.fromkeys(range(1, len(summary.trained_on) + 1), 1)
    for one in chain.from_iterable(curves.values()):
        longest[one.phase] = max(longest[one.phase], int(one.steps.max()))
    # The step at which each phase ends, phase 0 first: the longest that any variant trained.
    ends = list(accumulate(longest.values(), initial=0))
    with style.house_style():
        figure = style.new_figure(7.2, 0.9 + 1.55 * len(names))
        panels = np.atleast_1d(figure.subplots(len(names), 1, sharex=True, sharey=True))
        for axes, name in zip(panels, names, strict=True):
            _boundaries(axes, summary, ends, name == names[0])
            for one in curves.get(name, ()):
                _phase(axes, one, ends[one.phase - 1])
            _retained(axes, summary, name, ends)
            axes.set_yscale("log")
            style.log_loss_axis(axes.yaxis)
            axes.set_ylabel("loss (nats)")
            axes.set_title(style.shorten(name, 40), pad=15 if name == names[0] else 5)
        panels[-1].set_xlim(0, ends[-1])
        style.step_axis(panels[-1], "training step, over all phases")
        figure.legend(handles=_legend(summary), loc="outside right upper")
        return figure


def _boundaries(axes: Axes, summary: RetentionSummary, ends: list[int], named: bool) -> None:
    levels = _chance_levels(summary, "loss")
    if len(levels) == 1:
        axes.axhline(*levels, **_CHANCE, zorder=0)
    look: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "center", "fontsize": 7.5}
    for phase, task in enumerate(summary.trained_on, start=1):
        begin, end = ends[phase - 1 : phase + 1]
        if phase > 1:
            axes.axvline(begin, color=style.MUTED, lw=0.8, zorder=0)
        if named:
            name, middle = f"{phase} {style.shorten(task, 14)}", ((begin + end) / 2, 1)
            style.note(axes, name, middle, (0, 3), color=_colour(phase), **look)


def _phase(axes: Axes, one: PhaseCurves, begin: int) -> None:
    steps, colour = one.steps + begin, _colour(one.phase)
    # A loss of 0 has no place on the axis.
    style.thin_lines(axes, steps, np.where(one.test > 0, one.test, np.nan), colour, most=0.3)
    axes.plot(*median_over_runs(steps, one.test), color=colour, **_HELD_OUT, zorder=3)
    axes.plot(*median_over_runs(steps, one.train), color=colour, **_TRAINING, zorder=2)


def _retained(axes: Axes, summary: RetentionSummary, name: str, ends: list[int]) -> None:
    variant, last = summary.variants[name], len(summary.trained_on)
    look: dict[str, Any] = {"mec": "#FFFFFF", "mew": 0.5, "clip_on": False, "zorder": 5}
    for place, task in enumerate(summary.trained_on, start=1):
        kept = [variant.cell(phase, task).loss.mean for phase in range(place, last + 1)]
        axes.plot(ends[place:], kept, **_look(place), **look)


def _legend(summary: RetentionSummary) -> list[Line2D]:
    kinds = {"held-out, median": _HELD_OUT, "one seed": {"lw": 0.6}, "training, median": _TRAINING}
    handles = [style.line_key(name, color=style.MUTED, **look) for name, look in kinds.items()]
    for place, task in enumerate(summary.trained_on, start=1):
        handles.append(style.line_key(f"{style.shorten(task, 14)} at phase ends", **_look(place)))
    levels = _chance_levels(summary, "loss")
    if len(levels) == 1:
        handles.append(style.line_key(f"chance, {levels.pop():.3g}", **_CHANCE))
    return handles


def _chance_levels(summary: RetentionSummary, measure: str) -> set[float]:
    return {getattr(chance, measure) for chance in summary.chance.values() if chance is not None}


def _colour(place: int) -> str:
    return style.variant_colour(place - 1)


def _look(place: int) -> dict[str, Any]:
    """The marks of a task at the ends of phases."""
    line: dict[str, Any] = {"ms": 4.5, "lw": 1, "ls": style.DOTTED}
    return {"color": _colour(place), "marker": style.variant_marker(place - 1), **line}


_COLOURS = LinearSegmentedColormap.from_list("chance", [style.BLUE, "#FFFFFF", style.VERMILION])
_HEAT: dict[str, Any] = {"cmap": _COLOURS, "norm": TwoSlopeNorm(0, -1, 1), "aspect": "auto"}
_CELL_WIDTH, _CELL_HEIGHT = 0.62, 0.34  # inches
_LEAST_GAP = 0.3  # of a colour bar, so that two labels do not overlap
_MOST_COLUMNS = 2  # fill the width of a page
_LEFT, _GAP, _TOP, _RIGHT, _BOTTOM = 0.9, 0.25, 0.6, 0.95, 0.12


def retention_matrix(summary: RetentionSummary, measure: str) -> Figure:
    """A panel per variant: phases down, tasks across, the mean over seeds in each cell.

    Blue is better than a guess, red worse, white is chance. A frame marks the task of the phase;
    numbers in italics are of tasks that are not trained yet. `measure` is "loss" or "accuracy".
    """
    names = list(summary.variants)
    columns = min(len(names), _MOST_COLUMNS)
    rows = math.ceil(len(names) / columns)
    wide, high = len(summary.tasks) * _CELL_WIDTH, (len(summary.trained_on) + 1) * _CELL_HEIGHT
    width = _LEFT + columns * wide + (columns - 1) * _GAP + _RIGHT
    height = rows * (high + _TOP) + _BOTTOM
    with style.house_style():
        figure = Figure(figsize=(width, height))

        def panel(left: float, row: int, inches: float) -> Axes:
            bottom = 1 - (row + 1) * (high + _TOP) / height
            return figure.add_axes((left / width, bottom, inches / width, high / height))

        for index, name in enumerate(names):
            row, column = divmod(index, columns)
            axes = panel(_LEFT + column * (wide + _GAP), row, wide)
            _draw(axes, summary, name, measure)
            axes.tick_params(labelleft=column == 0)
        _colour_bar(panel(width - _RIGHT + 0.18, 0, 0.1), summary, measure)
        return figure


def _badness(
    summary: RetentionSummary, means: NDArray[np.float64], measure: str
) -> NDArray[np.float64]:
    """-1 where a mean is perfect, 0 at chance (else untrained), 1 as far on the other side."""
    known = zip(summary.chance.values(), means[0], strict=True)
    levels = np.array([getattr(chance, measure, untrained) for chance, untrained in known])
    reach = levels if measure == "loss" else levels - 1
    found = np.divide(means - levels, reach, out=np.zeros_like(means), where=reach != 0)
    clipped: NDArray[np.float64] = found.clip(-1, 1)
    return clipped


def _draw(axes: Axes, summary: RetentionSummary, name: str, measure: str) -> None:
    variant, tasks = summary.variants[name], summary.tasks
    every = [getattr(cell, measure).mean for cell in variant.matrix]
    means = np.reshape(every, (-1, len(tasks)))
    values = _badness(summary, means, measure)
    axes.imshow(values, **_HEAT)
    trained_on = ("", *summary.trained_on)
    for (phase, k), mean in np.ndenumerate(means):
        ink = "#FFFFFF" if abs(values[phase, k]) > 0.8 else style.INK
        slant = "normal" if tasks[k] in trained_on[: phase + 1] else "italic"
        axes.text(
            k, phase, _short(mean), color=ink, style=slant, ha="center", va="center", size=7.5
        )
        if tasks[k] == trained_on[phase]:
            frame = Rectangle((k - 0.5, phase - 0.5), 1, 1, fill=False, ec=style.INK, lw=1.4)
            frame.set_clip_on(False)
            axes.add_patch(frame)
    axes.set_xticks(range(len(tasks)), [style.shorten(task, 11) for task in tasks])
    axes.xaxis.tick_top()
    phases = [f"{at} {style.shorten(task, 11)}" for at, task in enumerate(summary.trained_on, 1)]
    axes.set_yticks(range(len(phases) + 1), ["untrained", *phases])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    seeds = "1 seed" if len(variant.seeds) == 1 else f"{len(variant.seeds)} seeds"
    axes.set_title(f"{style.shorten(name, 26)}: {measure}, {seeds}", pad=5)


def _colour_bar(axes: Axes, summary: RetentionSummary, measure: str) -> None:
    """From perfect at the bottom over the chance level to worse than guessing."""
    levels = _chance_levels(summary, measure)
    best, worst = ("0", "2×\nand more") if measure == "loss" else ("1", "0")
    # An accuracy cannot be worse than 0, which may lie close to chance.
    top = 1.0 if measure == "loss" else max((x / (1 - x) for x in levels if x < 1), default=0.0)
    axes.imshow(np.linspace(top, -1, 256)[:, None], extent=(0, 1, -1, top), **_HEAT)
    middle = "chance" if levels else "untrained"
    if measure == "accuracy" and (len(levels) != 1 or top < _LEAST_GAP):
        worst = ""  # an accuracy of 0 has several places here, or none of its own
    if len(levels) == 1:
        middle += f"\n{_short(levels.pop())}"
    axes.axhline(0, color=style.INK, lw=0.8)
    ticks = [(-1.0, best), (0.0, middle), *([(top, worst)] if worst else [])]
    axes.set_yticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.yaxis.tick_right()
    axes.set_xticks([])
    axes.spines[:].set_visible(False)


def _short(value: float) -> str:
    """Three digits at most: 11.2, 4.57, .062; below .0005 only that it is."""
    if value >= 1:
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    if 0 < abs(value) < 0.0005:
        return "<.001"
    return "0" if value == 0 else f"{value:.3f}".replace("0.", ".", 1).replace("1.000", "1")
