"""Runs of in-context probes, and reports on them: what a variant can do after k examples.

OUT/incontext.json   the numbers below, one value a seed   OUT/tables/   OUT/figures/
OUT/report.md        OUT/report.html

Accuracy (of linear_real the squared error over the dimension) at every k stands beside that of the
exact Bayes predictor, whose prior is uniform over all functions. Variants are compared on the seeds
that they share.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from gmb_hf.base import escape, stats
from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_json, write_text
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.events import find_events
from gmb_hf.protocol.incontext import probes
from gmb_hf.protocol.sequential.folder import differing_designs, distinct_names, refuse_repeated
from gmb_hf.protocol.sequential.summary import (
    comparison,
    mean,
    show_mean,
    spread,
    spread_columns,
    spread_table,
)
from gmb_hf.report import style
from gmb_hf.report.curves import median_over_runs
from gmb_hf.report.sheet import Sheet, sentences_of, template
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training import launch
from gmb_hf.training.config import DesignSettings
from gmb_hf.training.settings import first_difference
from gmb_hf.training.tracking import installed
from gmb_hf.training.variants import DENSE, Variant

SUMMARY, FORMAT = "incontext.json", "gmb-hf in-context 1"
SETTLED, HELD_FOR = 0.9, 3
"""E_plateau: few-shot accuracy at this level for so many checkpoints."""
JUMP, JUMP_WITHIN = 0.2, 4
"""E_jump: few-shot accuracy rises by so much within so many checkpoints."""
_HEADLINE = ("few_shot_accuracy", "few_shot_loss", "excess_loss", "induction_score")
_EVENTS = ("plateau_step", "jump_step")


@dataclass(frozen=True)
class Point(Record):
    """One variant after k examples, over seeds.

    Attributes:
        functions: which are asked about: held out from training, trained, or all of the prior.
        x: "any", or "new" where the prompt does not hold it.
        k: examples before the question.
        questions: that each seed answers.
        bayes_loss, bayes_accuracy: of the Bayes predictor; the accuracy is None of real numbers.
    """

    functions: str
    x: str
    k: int
    questions: int
    bayes_loss: float
    bayes_accuracy: float | None
    loss: stats.OverSeeds
    accuracy: stats.OverSeeds | None

    @property
    def shown(self) -> stats.OverSeeds:
        """The accuracy; of real numbers the loss."""
        return self.accuracy or self.loss

    @property
    def bayes(self) -> float | None:
        """What the Bayes predictor reaches, in the measure that is shown."""
        return self.bayes_loss if self.accuracy is None else self.bayes_accuracy


@dataclass(frozen=True)
class VariantProbe(Record):
    """One variant: its seeds, every point, and its scores by functions.

    Of the scores, `plateau_step` and `jump_step` are over the seeds that have such an event, with
    `settled` and `jumped` their numbers.
    """

    seeds: tuple[int, ...]
    points: tuple[Point, ...]
    scores: dict[str, dict[str, stats.OverSeeds]]
    events: dict[str, tuple[float | None, ...]]

    def curve(self, functions: str, x: str) -> list[Point]:
        """The points of one kind of question, by k."""
        return [one for one in self.points if (one.functions, one.x) == (functions, x)]

    @property
    def main_curve(self) -> list[Point]:
        """That of functions held out: of new x where they are asked about, else of any."""
        new = self.curve(probes.HELD_OUT, probes.NEW)
        return new or self.curve(probes.HELD_OUT, probes.ANY)


@dataclass(frozen=True)
class InContextSummary(Record):
    """Several variants on the same questions.

    Attributes:
        task: what was asked.
        functions: the kinds that were asked about, those held out first.
        baseline: the variant that the others are compared with.
        notes: what a reader must know of all the numbers.
        variants: name -> its numbers.
        differences: of every variant but the baseline, quantity by quantity, on functions held out.
        format: of the file.
    """

    task: str
    functions: tuple[str, ...]
    baseline: str
    notes: tuple[str, ...]
    variants: dict[str, VariantProbe]
    differences: tuple[stats.Difference, ...]
    format: str = FORMAT


class InContextReport(NamedTuple):
    """A summary, the files written, the report first, and the command to type next."""

    summary: InContextSummary
    files: tuple[Path, ...]
    following: str


def icl_report(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    at: Sequence[int] = (),
    baseline: str | None = None,
    figures: bool = True,
) -> InContextReport:
    """Summarize one run, or compare several, and write what stands at the head of this file.

    Args:
        folders: of `gmb icl run`.
        out: where to write; may be one of the folders.
        at: the k that the short table shows; all where none are given.
        baseline: the variant that the others are compared with; None takes `dense`, else the first.
        figures: whether to draw them.

    Raises:
        InputError: no folder, one twice, or without results; runs that were asked other things;
            a k beyond the prompts.
    """
    refuse_repeated(folders, of="gmb icl run")
    runs = [probes.InContextFolder(folder) for folder in folders]
    configs = [run.config() for run in runs]
    for run, config in zip(runs, configs, strict=True):
        difference = first_difference(configs[0].design()["prompt"], config.design()["prompt"])
        if difference:
            raise InputError(
                f"{runs[0].path} and {run.path} were asked different questions ({difference}); "
                "compare runs of one prompt section"
            )
    prompt = configs[0].prompt
    for k in at:
        if k < 0:
            raise InputError(f"--k {k}: examples are counted from 0")
        probes.check_block(
            k, prompt.tokens, f"prompts of {prompt.examples} examples in {folders[0]}"
        )
    paths = [run.path for run in runs]
    groups: dict[str, tuple[probes.InContextFolder, list[dict[str, Any]]]] = {}
    for run, shown in zip(runs, distinct_names(paths), strict=True):
        for name, found in run.results().items():
            groups[name if len(runs) == 1 else f"{name} ({shown})"] = (run, found)
    if not groups:
        raise InputError(f"{folders[0]}: no seed has finished; train with gmb icl run")
    notes = [
        f"{name}: seeds {', '.join(map(str, lost))} diverged (a loss is no number); they have no "
        "numbers"
        for name, (_, found) in groups.items()
        if (lost := [seed for one in found for seed in one["diverged"]])
    ]
    notes += differing_designs(paths, configs)
    logs = {name: run.logs(found[0]["variant"]) for name, (run, found) in groups.items()}
    variants = {
        name: probe
        for name, (_, found) in sorted(groups.items(), key=lambda item: (item[0] != DENSE, item[0]))
        if (probe := _probe(found, logs[name], configs[0])) is not None
    }
    if not variants:
        raise InputError(
            f"{folders[0]}: every seed has diverged; take a smaller learning rate, as in "
            "--set training.lr=1e-3, and another --out"
        )
    summary = _summarize(configs[0], variants, baseline, notes)
    target = Path(out)
    data = write_json(target / SUMMARY, summary.to_dict())
    drawn: dict[str, tuple[str, Figure | None]] = {}
    if figures:
        caption = "After k examples, beside the exact Bayes predictor"
        drawn["accuracy"] = caption, by_examples(summary)
        caption = "Over training, by k, on functions held out from training"
        drawn["learning"] = caption, over_training(summary, logs)
    following = shlex.join(_following(runs[0].path))
    versions = next(iter(groups.values()))[1][0].get("versions", {})
    facts = [("task", summary.task), ("design", configs[0].hash())]
    facts += [(f"version of {name}", str(version)) for name, version in sorted(versions.items())]
    sheet = Sheet(
        "GMB in-context probes",
        f"What is learned from the examples in a prompt: {summary.task}",
        [*sentences(summary), *summary.notes],
        tables=icl_tables(summary, at),
        facts=facts,
        next_command=following,
    )
    captions = [(name, caption) for name, (caption, figure) in drawn.items() if figure]
    markdown = template("report.md.j2", "gmb_hf.protocol.incontext")
    text = write_text(target / "report.md", markdown.render(page=sheet, figures=captions))
    page, *others = sheet.write_folder(target, drawn)
    return InContextReport(summary, (text, page, data, *others), following)


def _following(folder: Path) -> list[str]:
    """What to type next: a look at a model of the folder, or at its table."""
    models = sorted(folder.glob("models/*/seed_*"), key=lambda at: (at.parent.name != DENSE, at))
    if not models:
        return ["cat", str(folder / "tables" / "by_examples.md")]
    return ["gmb", "icl", "eval", str(models[0])]


def _probe(
    groups: Sequence[Mapping[str, Any]], log: RunLog | None, config: probes.InContextConfig
) -> VariantProbe | None:
    """All groups of a variant's seeds as one record; None where every seed has diverged."""
    groups = [one for one in groups if one["seeds"]]
    if not groups:
        return None
    seeds = [seed for one in groups for seed in one["seeds"]]
    order = np.argsort(seeds)
    ordered = tuple(int(seeds[place]) for place in order)

    def over(parts: Sequence[Sequence[float]]) -> stats.OverSeeds:
        return stats.over_seeds(np.concatenate(parts)[order])

    points, scores = [], {}
    for functions in groups[0]["functions"]:
        held = [one["functions"][functions] for one in groups]
        for same in zip(*(one["curves"] for one in held), strict=True):
            first = same[0]
            asked = {name: first[name] for name in ("x", "k", "questions", "bayes_loss")}
            asked["bayes_accuracy"] = first.get("bayes_accuracy")
            loss = over([one["loss"] for one in same])
            rates = over([one["accuracy"] for one in same]) if "accuracy" in first else None
            points.append(Point(functions, **asked, loss=loss, accuracy=rates))
        scores[functions] = {
            name: over([one["scores"][name] for one in held]) for name in held[0]["scores"]
        }
    return VariantProbe(ordered, tuple(points), scores, _events(log, ordered, config))


def _events(
    log: RunLog | None, seeds: Sequence[int], config: probes.InContextConfig
) -> dict[str, tuple[float | None, ...]]:
    """Name of the event -> the step at which each seed has it, None where it has none."""
    if log is None or "test_acc" not in log.observables:
        return {}
    every = config.training.checkpoint_every
    if config.training.steps // every + 1 <= max(HELD_FOR, JUMP_WITHIN):
        return {}
    plateau = {"plateau_threshold": SETTLED, "plateau_checkpoints": HELD_FOR}
    jump = {"w_event": JUMP_WITHIN * every, "jump_threshold": JUMP}
    designs: dict[str, dict[str, Any]] = {
        "plateau_step": {"event_type": "E_plateau", **plateau},
        "jump_step": {"event_type": "E_jump", **jump},
    }
    found = {}
    for name, fields in designs.items():
        steps = find_events(log, DesignSettings.of(**fields).design()).step
        by_seed = dict(zip(log.seeds, steps.tolist(), strict=True))
        said = [by_seed.get(seed, math.nan) for seed in seeds]
        found[name] = tuple(None if math.isnan(step) else step for step in said)
    return found


def _summarize(
    config: probes.InContextConfig,
    variants: Mapping[str, VariantProbe],
    baseline: str | None,
    notes: Sequence[str],
) -> InContextSummary:
    names = tuple(variants)
    base = stats.chosen_baseline(names, baseline)
    quantities: dict[str, dict[str, dict[int, float]]] = {}
    for name, one in variants.items():
        held = one.scores[probes.HELD_OUT]
        measured: dict[str, Sequence[float | None]] = {
            key: held[key].values for key in _HEADLINE if key in held
        }
        for point in one.main_curve:
            kind = "loss" if point.accuracy is None else "accuracy"
            measured[f"{kind}_k{point.k}"] = point.shown.values
        for key, values in (measured | one.events).items():
            by_seed = zip(one.seeds, values, strict=True)
            known = {seed: value for seed, value in by_seed if value is not None}
            quantities.setdefault(key, {})[name] = known
    pairs = [
        pair
        for quantity, by_variant in quantities.items()
        if base in by_variant
        for pair in stats.differences(quantity, by_variant, base)
    ]
    few = stats.few_seeds({name: one.seeds for name, one in variants.items()})
    functions = tuple(next(iter(variants.values())).scores)
    task = config.prompt.build().name
    return InContextSummary(task, functions, base, (*notes, *few), dict(variants), tuple(pairs))


def sentences(summary: InContextSummary) -> list[str]:
    """What each variant came to, the first sentence about the baseline."""
    variants = sorted(summary.variants.items(), key=lambda item: item[0] != summary.baseline)
    about = {"variants": variants, "level": SETTLED, "median": np.median}
    return sentences_of("sentences.j2", "gmb_hf.protocol.incontext", **about)


def icl_tables(summary: InContextSummary, at: Sequence[int] = ()) -> list[Table]:
    """Every table of a summary: by k, in full, scores, events and the comparison."""
    made = [_short(summary, at), _full(summary), _scores(summary)]
    if any(one.events for one in summary.variants.values()):
        made.append(_event_table(summary))
    if summary.differences:
        caption = f"Difference from {summary.baseline} on functions held out, paired by seed"
        test = "p: sign-flip permutation test on shared seeds, Holm-adjusted over the variants"
        made.append(comparison(summary.differences, caption, test))
    return [replace(table, notes=(*summary.notes, *table.notes)) for table in made]


def held_out_table(summary: InContextSummary) -> Table:
    """A row for each k, of functions held out: Bayes, and each variant."""
    curves = [one.main_curve for one in summary.variants.values()]
    columns = [Column(f"k, {curves[0][0].x} x", str), Column("Bayes", show_mean)]
    columns += [Column(name, show_mean) for name in summary.variants]
    rows = [
        (points[0].k, _number(points[0].bayes), *(mean(point.shown) for point in points))
        for points in zip(*curves, strict=True)
    ]
    return Table(columns, rows)


def _short(summary: InContextSummary, at: Sequence[int]) -> Table:
    """A row for each variant, functions and kind of x; a column for each k."""
    first = next(iter(summary.variants.values()))
    accuracy = first.points[0].accuracy is not None
    shown = [k for k in sorted({point.k for point in first.points}) if not at or k in at]
    columns = [Column("variant", shrinks_to=10), Column("functions"), Column("x")]
    columns += [Column(f"k={k}", show_mean) for k in shown]
    rows: list[list[Any]] = []
    for functions in summary.functions:
        for x in (probes.ANY, probes.NEW):
            exact = {p.k: _number(p.bayes) for p in first.curve(functions, x)}
            if exact:
                rows.append(["Bayes", functions, x, *(exact.get(k, "–") for k in shown)])
            for name, one in summary.variants.items() if exact else ():
                found = {p.k: mean(p.shown) for p in one.curve(functions, x)}
                rows.append([name, functions, x, *(found.get(k, "–") for k in shown)])
    what = "Accuracy" if accuracy else "Squared error a dimension"
    return Table(columns, rows, "by_examples", f"{what} after k examples")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _full(summary: InContextSummary) -> Table:
    """Every number at every k."""
    columns = [Column(name) for name in ("variant", "functions", "x")]
    columns += [Column("k", str), Column("questions", str), Column("seeds", str)]
    columns += [Column("bayes_accuracy", escape.number), *spread_columns("", "accuracy_")]
    columns += [Column("bayes_loss", escape.number), *spread_columns("", "loss_")]
    rows = []
    for name, one in summary.variants.items():
        for p in one.points:
            row: list[Any] = [name, p.functions, p.x, p.k, p.questions, len(one.seeds)]
            row += [p.bayes_accuracy, *spread(p.accuracy), p.bayes_loss, *spread(p.loss)]
            rows.append(row)
    return Table(columns, rows, "by_examples_full", "Every k, with intervals over seeds")


def _scores(summary: InContextSummary) -> Table:
    """Few-shot accuracy, excess loss and induction score."""
    rows = (
        (name, functions, quantity, len(one.seeds), over)
        for name, one in summary.variants.items()
        for functions, held in one.scores.items()
        for quantity, over in held.items()
    )
    head = ("variant", "functions", "quantity", "seeds")
    return spread_table(head, rows, "scores", "Few-shot answers, excess loss and induction")


def _event_table(summary: InContextSummary) -> Table:
    """The step at which each seed settled and jumped."""
    columns = [Column("variant"), Column("seed", str)]
    columns += [Column(name, escape.steps) for name in _EVENTS]
    rows = []
    for name, one in summary.variants.items():
        for place, seed in enumerate(one.seeds):
            steps = [one.events.get(event, (None,) * len(one.seeds))[place] for event in _EVENTS]
            rows.append((name, seed, *steps))
    note = (
        f"E_plateau: few-shot accuracy of at least {SETTLED:g} at {HELD_FOR} checkpoints in a row. "
        f"E_jump: a rise of {JUMP:g} within {JUMP_WITHIN} checkpoints."
    )
    return Table(columns, rows, "events", "When in-context learning emerges", (note,))


# Figures.


def by_examples(summary: InContextSummary) -> Figure | None:
    """A panel for each kind of question: means over seeds against k, Bayes in black.

    Bands are 95% Student intervals over seeds. Errors of linear_real are on a logarithmic axis.
    """
    first = next(iter(summary.variants.values()))
    kinds = [
        (functions, x)
        for functions in summary.functions
        for x in (probes.ANY, probes.NEW)
        if len(first.curve(functions, x)) > 1 and (x == probes.ANY or functions == probes.HELD_OUT)
    ]
    if not kinds:
        return None
    accuracy = first.points[0].accuracy is not None
    with style.house_style():
        columns = min(len(kinds), 2)
        width = 0.9 + 3.0 * columns
        figure, panels = style.panel_grid(
            len(kinds), columns, width=width, panel_height=2.2, above=0.5
        )
        for axes, (functions, x) in zip(panels, kinds, strict=True):
            exact = first.curve(functions, x)
            k = [point.k for point in exact]
            shown = [max(point.bayes or 0.0, 0.0 if accuracy else 1e-6) for point in exact]
            axes.plot(k, shown, color=style.INK, lw=1.1, ls=style.DASHED, zorder=4, label="Bayes")
            for place, (name, one) in enumerate(summary.variants.items()):
                curve = one.curve(functions, x)
                over = [point.shown for point in curve]
                at, means = [p.k for p in curve], [value.mean for value in over]
                colour = style.variant_colour(place)
                dash = style.VARIANT_DASHES[place % len(style.VARIANT_DASHES)]
                label = style.shorten(name, 24)
                axes.plot(at, means, "o", ls=dash, ms=3, color=colour, label=label, zorder=3)
                if over[0].t_low is not None:
                    low, high = ([getattr(v, end) for v in over] for end in ("t_low", "t_high"))
                    least = 0.0 if accuracy else 1e-6
                    band = np.clip(low, least, None), np.clip(high, least, 1 if accuracy else None)
                    axes.fill_between(at, *band, color=colour, alpha=0.15, lw=0, zorder=2)
            which = {probes.HELD_OUT: "functions held out", "all": "all functions"}
            title = which.get(functions, f"{functions} functions")
            axes.set_title(title if x == probes.ANY else f"{title}, new x")
            axes.set_xticks(k)
        if accuracy:
            panels[0].set_ylim(0, 1.03)
            style.rate_axis(panels[0].yaxis)
        else:
            panels[0].set_yscale("log")
        for index, axes in enumerate(panels):
            if index % columns == 0:
                axes.set_ylabel("accuracy" if accuracy else "squared error / d")
            if index + columns >= len(kinds):
                axes.set_xlabel("k, examples in the prompt")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 6))
        return figure


def over_training(summary: InContextSummary, logs: Mapping[str, RunLog | None]) -> Figure | None:
    """A row of panels per variant: accuracy at each k, and the induction score, against steps.

    Lines are medians over seeds, thin ones single seeds of the largest k; the lighter, the fewer
    examples.
    """
    shown = {name: log for name in summary.variants if (log := logs.get(name)) is not None}
    if not shown:
        return None
    first = next(iter(shown.values()))
    accuracy = "test_acc" in first.observables
    stem = "accuracy" if accuracy else "loss"
    columns = [name for name in first.observables if name.startswith(f"{stem}_new_k")]
    columns = columns or [name for name in first.observables if name.startswith(f"{stem}_k")]
    numbers = sorted(int(name.rpartition("_k")[2]) for name in columns)
    base = columns[0].rpartition("_k")[0]
    right = "induction_score" if "induction_score" in first.observables else "excess_loss"
    shades = colormaps["viridis"](np.linspace(0.93, 0.0, len(numbers)))
    colours = [to_hex(shade) for shade in shades]
    with style.house_style():
        figure = style.new_figure(7.2, 0.6 + 1.75 * len(shown))
        panels = figure.subplots(len(shown), 2, sharex=True, sharey="col", squeeze=False)
        for (left, beside), (name, log) in zip(panels, shown.items(), strict=True):
            for k, colour in zip(numbers, colours, strict=True):
                panel = log.panel(f"{base}_k{k}")
                values = panel.values if accuracy else np.maximum(panel.values, 1e-6)
                if k == numbers[-1]:
                    style.thin_lines(left, panel.steps, values, colour, most=0.4)
                left.plot(*median_over_runs(panel.steps, values), color=colour, lw=1.3, zorder=3)
            panel = log.panel(right)
            style.thin_lines(beside, panel.steps, panel.values, style.BLUE, most=0.4)
            beside.plot(*median_over_runs(panel.steps, panel.values), color=style.BLUE, zorder=3)
            beside.axhline(0, color=style.INK, lw=0.8)
            left.set_title(style.shorten(name, 40))
            left.set_ylabel("accuracy, new x" if accuracy and "_new" in base else stem)
            beside.set_ylabel(
                "loss at a repeat − before" if right == "induction_score" else "excess loss"
            )
        if accuracy:
            panels[0][0].set_ylim(0, 1.03)
            style.rate_axis(panels[0][0].yaxis)
        else:
            panels[0][0].set_yscale("log")
        for axes in panels[-1]:
            style.step_axis(axes, "training step")
        keys = [
            style.line_key(f"k = {k}", color=colour)
            for k, colour in zip(numbers, colours, strict=True)
        ]
        figure.legend(handles=keys, loc="outside right upper")
        return figure


# The run: training, then the report.


def run_icl(
    config: probes.InContextConfig,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    out: str | Path,
    *,
    device: str = "auto",
    save_models: bool = True,
    track: Sequence[str] = (),
    jobs: int | None = None,
    figures: bool = True,
) -> tuple[InContextReport, list[str]]:
    """Train what is missing in `out` and report on all that it holds; the report, and remarks.

    Args:
        config: the design.
        variants: the architectures, each trained on all seeds.
        seeds: that the folder shall hold at the end.
        out: the folder, as described above.
        device: "auto", "cpu" or "cuda".
        save_models: whether models are kept.
        track: "tensorboard", "trackio", "wandb"; those that are not installed are left out.
        jobs: how many groups of seeds are trained at a time, in as many processes; None for one a
            core, and 1 on a GPU.
        figures: whether the report draws figures/.

    `InputError` where a variant does not fit the model, for another design in the folder, no such
    device, or a folder that cannot be written to.
    """
    for variant in variants:
        probes.model_shape(config, variant)  # what does not fit is said before anything is trained
    trackers, notes = installed(track)
    place, folder = launch.chosen_device(device), probes.InContextFolder(out)
    at_once = config.training.seeds_at_once
    jobs = launch.parallel_jobs(jobs, len(variants) * math.ceil(len(seeds) / at_once), place)
    folder.claim(config)
    options: Any = {"device": place, "save_models": save_models, "trackers": trackers}
    steps = config.training.steps
    folder.train(probes.train_group, config, variants, seeds, steps=steps, jobs=jobs, **options)
    return icl_report([folder.path], folder.path, figures=figures), notes
