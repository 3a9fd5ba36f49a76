"""Retention as tables: the matrix as the protocol draws it, every cell, the sums, the comparison.

In Markdown and LaTeX a mean stands with half the width of its 95% Student interval, 0.12 ± 0.03;
CSV holds the means in full, and `matrix_full` and `retention_summary` both intervals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from gmb_hf import escape
from gmb_hf.errors import InputError, repeated
from gmb_hf.fingerprints import SHOWN
from gmb_hf.report.style import save_figure
from gmb_hf.runs.metadata import refuse_mismatches
from gmb_hf.runs.runlog import RunLog
from gmb_hf.sequential.config import SequentialConfig, preset, smaller_than_protocol
from gmb_hf.sequential.figures import PhaseCurves, forgetting_bars, phase_curves, retention_matrix
from gmb_hf.sequential.matrix import MEASURES, RetentionMatrix, read_matrix
from gmb_hf.sequential.summary import Chance, RetentionSummary, TaskSummary, chance_level, summarize
from gmb_hf.stats import OverSeeds
from gmb_hf.tables import Column, Row, Table
from gmb_hf.training.checkpoints import read_claim
from gmb_hf.training.config import first_difference

SPREAD = ("mean", "std", "t_low", "t_high", "bootstrap_low", "bootstrap_high")
"""What of a number over seeds goes into columns of their own."""

_NOT_TRAINED_YET = "-"


class Mean(float):
    """A mean over seeds that also knows half the width of its 95% Student interval."""

    reach: float | None

    def __new__(cls, over: OverSeeds) -> Mean:
        made = super().__new__(cls, over.mean)
        made.reach = None if over.t_high is None else over.t_high - over.mean
        return made


def mean(over: OverSeeds | None) -> Mean | None:
    """The mean for a cell of a table; None where there is no number."""
    return None if over is None else Mean(over)


def show_mean(value: Mean | str | None) -> str:
    """A mean as readers see it.

    >>> from gmb_hf.stats import over_seeds
    >>> show_mean(mean(over_seeds([1.0, 2.0, 3.0]))), show_mean(mean(over_seeds([0.25])))
    ('2.000 ± 2.484', '0.250')
    """
    if value is None or isinstance(value, str):
        return escape.number(None) if value is None else value
    around = "" if value.reach is None else f" ± {value.reach:.3f}"
    return f"{float(value):.3f}{around}"


def retention_tables(summary: RetentionSummary) -> tuple[Table, ...]:
    """Every table of a summary; its notes go with each of them."""
    made = (
        *(protocol_matrix(summary, measure) for measure in MEASURES),
        full_matrix(summary),
        sums(summary),
        by_task(summary),
        *([comparison(summary)] if summary.differences else []),
    )
    return tuple(replace(table, notes=(*summary.notes, *table.notes)) for table in made)


def protocol_matrix(summary: RetentionSummary, measure: str) -> Table:
    """The protocol's matrix: a task has a number from its own phase on."""
    columns = (
        Column("Variant"),
        Column("Phase", str),
        Column("Trained on", align="l"),
        *(Column(f"val_{task}", show_mean) for task in summary.trained_on),
    )
    rows: list[Row] = []
    for name, variant in summary.variants.items():
        for phase, trained_on in enumerate(summary.trained_on, start=1):
            cells = [
                mean(getattr(variant.cell(phase, task), measure))
                if place <= phase
                else _NOT_TRAINED_YET
                for place, task in enumerate(summary.trained_on, start=1)
            ]
            rows.append((name, phase, trained_on, *cells))
    unit = "loss in nats" if measure == "loss" else measure
    caption = f"Validation {unit} of each task after each phase"
    return Table(columns, rows, f"matrix_{measure}", caption)


def full_matrix(summary: RetentionSummary) -> Table:
    """Every task after every phase, the untrained model and tasks to come included."""
    columns = (
        Column("variant"),
        Column("phase", str),
        Column("trained_on"),
        Column("task"),
        Column("seeds", str),
        *(_number(f"{measure}_{name}") for measure in MEASURES for name in ("chance", *SPREAD)),
    )
    rows = []
    for name, variant in summary.variants.items():
        for cell in variant.matrix:
            chance = summary.chance[cell.task]
            numbers = [
                number
                for measure in MEASURES
                for number in (
                    None if chance is None else getattr(chance, measure),
                    *spread(getattr(cell, measure)),
                )
            ]
            key = (name, cell.phase, cell.trained_on, cell.task, len(variant.seeds))
            rows.append((*key, *numbers))
    return Table(columns, rows, "matrix_full", "Every task after every phase")


def sums(summary: RetentionSummary) -> Table:
    """Average, learning, transfer and forgetting of each variant."""
    columns = (
        Column("variant"),
        Column("quantity"),
        Column("seeds", str),
        *map(_number, SPREAD),
    )
    rows = tuple(
        (name, quantity, len(variant.seeds), *spread(over))
        for name, variant in summary.variants.items()
        for quantity, over in variant.quantities.items()
    )
    return Table(columns, rows, "retention_summary", "What each variant keeps, over seeds")


def by_task(summary: RetentionSummary) -> Table:
    """Learning, end and forgetting of each task."""
    shown: dict[str, Callable[[TaskSummary], OverSeeds | None]] = {
        "learning": lambda task: task.learning,
        "final": lambda task: task.final,
        "forgetting": lambda task: task.forgetting,
        "backward_transfer": lambda task: task.backward_transfer,
        "forward_transfer": lambda task: task.forward_transfer,
    }
    columns = (
        Column("variant"),
        Column("measure"),
        Column("task"),
        *(Column(name, show_mean) for name in shown),
    )
    rows = tuple(
        (name, task.measure, task.task, *(mean(take(task)) for take in shown.values()))
        for name, variant in summary.variants.items()
        for task in variant.tasks
    )
    return Table(columns, rows, "retention_by_task", "Learning and forgetting, task by task")


def comparison(summary: RetentionSummary) -> Table:
    """Every variant less the baseline, on shared seeds."""
    columns = (
        Column("quantity"),
        Column("variant"),
        Column("baseline"),
        Column("shared_seeds", str),
        *map(_number, SPREAD),
        Column("p", escape.p_value),
        Column("p_adjusted", escape.p_value),
    )
    rows = tuple(
        (
            pair.quantity,
            pair.variant,
            pair.baseline,
            len(pair.seeds),
            *spread(pair.difference),
            pair.p_value,
            pair.p_adjusted,
        )
        for pair in summary.differences
    )
    caption = f"Difference from {summary.baseline}, paired by seed"
    notes = (summary.test,) if summary.test else ()
    return Table(columns, rows, "comparison", caption, notes)


def spread(over: OverSeeds | None) -> tuple[float | None, ...]:
    """The numbers of `SPREAD`."""
    return tuple(None if over is None else getattr(over, name) for name in SPREAD)


def _number(name: str) -> Column:
    return Column(name, escape.number)


# From folders of sequential runs to retention.json, tables and figures.


DESIGN, MATRIX = "sequential.yaml", "matrix.csv"
SUMMARY = "retention.json"
_NUMBERS = {
    "suite": ("train_fraction", "data_seed"),
    "training": ("lr", "weight_decay", "beta1", "beta2", "eps"),
}
"""Section -> the fields that a note names where they are not the protocol's."""


@dataclass(frozen=True, eq=False)
class SequentialRun:
    """What a folder of `gmb sequential run` holds.

    Attributes:
        folder: where.
        config: what was asked for.
        fingerprints: task -> SHA-256 of its rows.
        matrices: variant -> its matrix.
    """

    folder: Path
    config: SequentialConfig
    fingerprints: dict[str, str]
    matrices: dict[str, RetentionMatrix]

    @property
    def chance(self) -> dict[str, Chance]:
        """Task -> its chance level; empty where the loss is over all positions."""
        suite = self.config.suite
        if suite.loss_positions != "answer":
            return {}
        return {task: chance_level(suite.build(task)) for task in suite.tasks}


@dataclass(frozen=True)
class SequentialReport:
    """A summary, and the files written."""

    summary: RetentionSummary
    files: tuple[Path, ...]


def read_run(folder: str | Path) -> SequentialRun:
    """Read a folder.

    Raises:
        InputError: it has no design or no matrix, or one of them is wrong.
    """
    place = Path(folder)
    path = place / DESIGN
    held = read_claim(path)
    config = SequentialConfig.from_design(held.get("design") or {}, where=str(path))
    matrices = read_matrix(place / MATRIX)
    fingerprints = held.get("fingerprints")
    tasks = next(iter(matrices.values())).tasks
    if not isinstance(fingerprints, dict) or not all(
        isinstance(fingerprints.get(task), str) for task in tasks
    ):
        raise InputError(
            f"{path}: no fingerprint for each of {', '.join(tasks)}; write the folder anew with "
            "gmb sequential run"
        )
    return SequentialRun(
        place, replace(config, preset=str(held.get("preset", ""))), fingerprints, matrices
    )


def report(
    folders: Sequence[Path],
    out: Path,
    *,
    allow_fingerprint_mismatch: bool = False,
    baseline: str | None = None,
) -> list[Path]:
    """Write what `sequential_report` makes of these folders; returns the files."""
    made = sequential_report(
        folders, out, allow_fingerprint_mismatch=allow_fingerprint_mismatch, baseline=baseline
    )
    return list(made.files)


def sequential_report(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    allow_fingerprint_mismatch: bool = False,
    baseline: str | None = None,
) -> SequentialReport:
    """Sum up one run, or compare several, and write retention.json, tables/ and figures/.

    Args:
        folders: of `gmb sequential run`.
        out: where to write; may be one of the folders.
        allow_fingerprint_mismatch: compare different data all the same; every table says so.
        baseline: the variant that the others are held against; None takes `dense`, else the first.

    Raises:
        InputError: no folder, one twice, or one that is wrong; other tasks or another order.
        FingerprintMismatchError: a task's data differ.
    """
    if not folders:
        raise InputError("no run given; name a folder of gmb sequential run")
    twice = repeated([Path(folder).resolve() for folder in folders])
    if twice is not None:
        raise InputError(f"{twice}: the folder is named twice; name each run once")
    runs = [read_run(folder) for folder in folders]
    unequal = refuse_mismatches(_mismatches(runs), allowed=allow_fingerprint_mismatch)
    notes = (*unequal, *_designs(runs))
    labels = _labels(runs)
    matrices = {
        label: replace(run.matrices[variant], variant=label)
        for (place, variant), label in labels.items()
        for run in (runs[place],)
    }
    chance = _common_chance(runs)
    summary = summarize(matrices, chance=chance, baseline=baseline, notes=notes)
    curves = {
        label: found
        for (place, variant), label in labels.items()
        if (found := read_phases(runs[place].folder / "logs" / variant))
    }
    target = Path(out)
    files = [summary.write(target / SUMMARY)]
    for table in retention_tables(summary):
        files += table.write(target / "tables")
    for name, figure in _figures(summary, curves).items():
        files += save_figure(figure, target / "figures" / name)
    return SequentialReport(summary, tuple(files))


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
        log = RunLog.concat(parts)
        train, test = log.panel("train_loss"), log.panel("test_loss")
        found.append(PhaseCurves(phase, test.steps, train.values, test.values))
    return found


def _figures(
    summary: RetentionSummary, curves: Mapping[str, Sequence[PhaseCurves]]
) -> dict[str, Figure]:
    found = {f"matrix_{measure}": retention_matrix(summary, measure) for measure in MEASURES}
    bars = forgetting_bars(summary)
    if bars is not None:
        found["forgetting"] = bars
    if curves:
        found["phases"] = phase_curves(summary, curves)
    return found


def _mismatches(runs: Sequence[SequentialRun]) -> list[str]:
    """Each task whose data differ from those of the first run, with both fingerprints."""
    first = runs[0]
    return [
        f"task {task!r}: fingerprint {first.fingerprints[task][:SHOWN]} in {first.folder} and "
        f"{run.fingerprints[task][:SHOWN]} in {run.folder}"
        for run in runs[1:]
        for task in first.fingerprints
        if task in run.fingerprints and run.fingerprints[task] != first.fingerprints[task]
    ]


def _designs(runs: Sequence[SequentialRun]) -> list[str]:
    """In what the runs differ from the protocol, and from each other."""
    notes = []
    for run in runs:
        where = f"{run.folder}: " if len(runs) > 1 else ""
        scale = _unlike_the_protocol(run.config)
        if scale:
            notes.append(
                f"{where}{run.config.preset or 'this design'} is not the protocol: {scale}"
            )
    for run in runs[1:]:
        found = first_difference(runs[0].config.design(), run.config.design())
        if found:
            notes.append(f"designs of {runs[0].folder} and {run.folder} differ: {found}")
    return notes


def _unlike_the_protocol(config: SequentialConfig) -> str:
    """Each setting that is another one, with the protocol's; empty where all are equal."""
    asked = preset("replication", config.suite.name)
    parts = [smaller_than_protocol(config)]
    if config.steps != asked.steps:
        counts = "/".join(f"{steps:,}" for steps in sorted({*config.steps}))
        parts.append(f"{counts} steps a phase (protocol: {asked.training.steps:,})")
    if config.phases.stop_loss is not None:
        parts.append(f"a seed's phase ends at a held-out loss of {config.phases.stop_loss:g}")
    if config.suite.loss_positions != asked.suite.loss_positions:
        parts.append(f"loss at {config.suite.loss_positions} positions")
    if config.suite.order != asked.suite.order:
        parts.append(f"trained in the order {', '.join(config.suite.tasks)}")
    if config.phases.carry_optimizer:
        parts.append("optimizer carried from phase to phase")
    for section, names in _NUMBERS.items():
        for name in names:
            mine, theirs = (getattr(getattr(one, section), name) for one in (config, asked))
            if mine != theirs:
                parts.append(f"{name} {mine:g} (protocol: {theirs:g})")
    return ", ".join(part for part in parts if part)


def _labels(runs: Sequence[SequentialRun]) -> dict[tuple[int, str], str]:
    """(place of the run, variant) -> a name that no other has: the folder's only where needed."""
    every = [(place, variant) for place, run in enumerate(runs) for variant in run.matrices]
    if repeated([variant for _, variant in every]) is None:
        return {key: key[1] for key in every}
    names = [run.folder.resolve().name for run in runs]
    if repeated(names) is not None:
        names = [str(run.folder) for run in runs]
    return {(place, variant): f"{variant} ({names[place]})" for place, variant in every}


def _common_chance(runs: Sequence[SequentialRun]) -> dict[str, Chance]:
    """The chance levels on which all runs agree."""
    first, *others = [run.chance for run in runs]
    return {
        task: level
        for task, level in first.items()
        if all(other.get(task) == level for other in others)
    }
