"""From folders of sequential runs to retention.json, tables and figures.

Runs made at different times are compared only where their data have equal fingerprints.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from gmb_hf.continual.chance import Chance, chance_level
from gmb_hf.continual.matrix import RetentionMatrix, read_matrix
from gmb_hf.continual.retention import MEASURES
from gmb_hf.continual.summary import RetentionSummary, summarize
from gmb_hf.fingerprints import SHOWN
from gmb_hf.protocols.sequential_presets import preset, smaller_than_protocol
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.reporting.figures.forgetting import forgetting_bars
from gmb_hf.reporting.figures.phases import PhaseCurves, phase_curves
from gmb_hf.reporting.figures.retention_matrix import retention_matrix
from gmb_hf.reporting.figures.style import save_figure
from gmb_hf.reporting.retention_tables import retention_tables
from gmb_hf.reporting.tables import write_each
from gmb_hf.runs import RunLog
from gmb_hf.training.claims import read_claim
from gmb_hf.training.config import first_difference
from gmb_hf.validation import InputError, repeated
from gmb_hf.workflows.learned_data import refuse_mismatches

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
    files += write_each(retention_tables(summary), target / "tables")
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
