"""`gmb sequential` and `gmb icl`: what a model keeps of tasks in turn, and learns from prompts.

Options:
    suite: modular or formal.
    loss_positions: answer or all.
    prime: Modulus of the modular suite.
    baseline: Which variant the others are held against; dense, or the first.
    rule: linear, affine_table, copy_rule or linear_real.

More options:
    data_seed (number = 42): Draws the split.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import number, p_value
from gmb_hf.base.tables import Column, Table
from gmb_hf.cli import screen
from gmb_hf.cli.options import App

if TYPE_CHECKING:
    from gmb_hf.protocol.sequential.summary import RetentionSummary

app, icl = App(), App()


@app.command()
def run(
    context: typer.Context,
    suite: str,
    out: Path,
    preset: str = "quick",
    variants: str = "dense",
    seeds: str = "0:8",
    order: str | None = None,
    steps: str | None = None,
    stop_loss: float | None = None,
    stop_early: str | None = None,
    carry_optimizer: bool = False,
    op_token: str | None = None,
    loss_positions: str | None = None,
    compat_batch: bool = False,
    data_seed: int | None = None,
    prime: int | None = None,
    changes: list[str] | None = None,
    save_models: str = "last",
    track: list[str] | None = None,
    jobs: int | None = None,
    device: str = "auto",
    figures: bool = True,
) -> None:
    """Train tasks one after the other and evaluate all of them after each; resumes.

    Options:
        out (runs/seq): Folder for all of it; an earlier start resumes.
        preset: replication or quick.
        variants: E.g. dense,banded-256,sort-4,blend-8,hebbian-4; + joins two in one.
        seeds: E.g. 0:8 or 1337,42,7.
        order: Tasks in the order of training, with commas.
        steps: Updates in each phase, or one number a phase: 500,1000,...
        save_models: Keep models after the last phase, after all, or none.

    More options:
        stop_loss: Held-out loss at which a seed's phase ends; --set can say none.
        stop_early: In which phases, e.g. 1,2; all if not given.
        carry_optimizer: Keep AdamW's moments from phase to phase.
        op_token: shared: one token for all operations, as published; or distinct.
        loss_positions: answer, or all: the loss over every token of the rows.
        compat_batch: Drop the last training row, as published.
    """
    from gmb_hf.hub.models import write_cards
    from gmb_hf.protocol.sequential.run import (
        SHORT,
        parse_variants,
        run_sequential,
        sequential_config,
    )
    from gmb_hf.training.config import parse_seeds

    typed = {name: context.params[name] for name in ("steps", *SHORT)}
    config = sequential_config(suite, preset, typed, changes or [])
    finished = run_sequential(
        config,
        parse_variants(variants),
        parse_seeds(seeds),
        out,
        device=device,
        save_models=save_models,
        track=screen.trackers(track),
        jobs=jobs,
        figures=figures,
    )
    assert finished is not None  # this is the only process
    _print_summary(finished.summary)
    screen.notes((*finished.notes, *write_cards(out)[1]))
    screen.written(finished.files, following=finished.following)


@app.command("eval")
def evaluate(
    context: typer.Context,
    checkpoint: Path,
    suite: str,
    preset: str | None = None,
    op_token: str | None = None,
    prime: int | None = None,
    loss_positions: str | None = None,
    data_seed: int | None = None,
    changes: list[str] | None = None,
    device: str = "auto",
    out: Path | None = None,
) -> None:
    """Held-out loss and accuracy of a checkpoint on every task, through the model itself.

    Options:
        changes, --set (field=value): Change a field: suite.train_fraction=0.6.
        checkpoint: A folder that save_pretrained left.
        preset: replication or quick; if not given, that of the checkpoint's own run.
        op_token: shared or distinct.
    """
    from gmb_hf.protocol.sequential.run import evaluate_checkpoint

    names = ("op_token", "prime", "loss_positions", "data_seed")
    found = evaluate_checkpoint(
        checkpoint,
        suite,
        out,
        preset=preset,
        options={name: context.params[name] for name in names},
        changes=changes or [],
        device=device,
    )
    if found.design is not None:
        screen.say(f"asked as {found.design} says")
    shown = {"task": None, "loss": number, "accuracy": number}
    columns = [Column(name, show, take=name) for name, show in shown.items()]
    screen.table(Table.of(found.results, columns))
    asked = {"checkpoint": checkpoint, "suite": suite, "out": "evaluation.json"}
    following = screen.command("sequential", "eval", **asked)
    if found.design is not None:
        following = screen.command("sequential", "report", found.design.parent)
    screen.written([] if found.path is None else [found.path], following=following)


@app.command()
def report(
    runs: list[Path],
    out: Path | None = None,
    baseline: str | None = None,
    allow_fingerprint_mismatch: bool = False,
    figures: bool = True,
) -> None:
    """Matrices, retention, forgetting and paired tests: retention.json, tables and figures.

    Arguments:
        runs: Folders of gmb sequential run.

    Options:
        out: Where to write; of one run its own folder, if not given.
    """
    from gmb_hf.protocol.sequential.report import sequential_report

    made = sequential_report(
        runs,
        _target(runs, out),
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
        baseline=baseline,
        figures=figures,
    )
    _print_summary(made.summary)
    screen.notes(made.notes)
    screen.written(made.files, following=made.following)


def generalization(
    logs: list[str],
    out: Path | None = None,
    baseline: str | None = None,
    train: str | None = None,
    validation: str | None = None,
    points: int = 32,
    allow_fingerprint_mismatch: bool = False,
    figures: bool = True,
) -> None:
    """Validation loss at equal training loss, best and final losses, and the gap over training.

    Arguments:
        logs (NAME=PATH...): Run logs of each variant: files, folders or globs; a name may come
            again.

    Options:
        out: Folder for tables and figures; by default the answer is printed.
        train: Column of the training loss.
        validation: Column of the validation loss.
        points: Training losses that are looked at.
    """
    from gmb_hf.protocol.sequential.generalisation import (
        compare_logs,
        named_sources,
        write_generalised,
    )
    from gmb_hf.protocol.sequential.summary import mean, mean_column, show_mean

    found, curves = compare_logs(
        named_sources(logs),
        train=train,
        validation=validation,
        baseline=baseline,
        points=points,
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
    )
    files = [] if out is None else write_generalised(found, curves, out, figures=figures)
    shown = {
        "best val": "best_validation_loss",
        "final val": "final_validation_loss",
        "final train": "final_train_loss",
        "final gap": "final_gap",
    }
    columns = [Column("variant", shrinks_to=12), Column("runs", str)]
    columns += [Column(name, show_mean) for name in shown]
    rows = [
        (name, len(one.runs), *(mean(getattr(one, field)) for field in shown.values()))
        for name, one in found.variants.items()
    ]
    screen.table(Table(columns, rows), above=True)
    reliable = ("{0.overlap:.0%} UNRELIABLE".format, "{0.overlap:.0%}".format)
    pairs = (
        Column("at equal train loss", take="variant", shrinks_to=12),
        Column("overlap", align="r", take=lambda one: reliable[bool(one.reliable)](one)),
        mean_column("val", "variant_mean"),
        mean_column(found.baseline, "baseline_mean"),
        mean_column("difference", "difference.difference"),
        Column("p", p_value, take="difference.p_adjusted"),
    )
    if found.matched:
        screen.table(Table.of(found.matched, pairs), above=True)
    screen.notes(found.notes)
    following = screen.command("generalization", *logs, out="generalization")
    if out is not None:
        following = shlex.join(["cat", str(out / "tables" / "generalization_losses.md")])
    screen.written(files, following=following)


def _target(runs: list[Path], out: Path | None) -> Path:
    """Where a report goes; of one run into its own folder."""
    if out is None and len(runs) > 1:
        raise InputError("--out is missing: name a folder for the report of several runs")
    return out or runs[0]


_QUANTITIES = {
    "learned": "learning_accuracy",
    "at the end": "average_accuracy",
    "forgotten": "forgetting_accuracy",
    "loss learned": "learning_loss",
    "loss at the end": "average_loss",
}


def _print_summary(summary: RetentionSummary) -> None:
    """Learning, average and forgetting of each variant, means with their intervals."""
    from gmb_hf.protocol.sequential.summary import mean, show_mean

    columns = [Column("variant", shrinks_to=12), Column("seeds", str)]
    columns += [Column(name, show_mean) for name in _QUANTITIES]
    rows = [
        (name, len(one.seeds), *(mean(one.quantities[key]) for key in _QUANTITIES.values()))
        for name, one in summary.variants.items()
    ]
    screen.table(Table(columns, rows), above=True)
    screen.tell("legend_of_retention", style="dim")


# `gmb icl`: what a model learns from the examples in its prompt, beside the Bayes predictor.


@icl.command("run")
def icl_run(
    out: Path,
    rule: str = "linear",
    preset: str = "quick",
    variants: str = "dense",
    seeds: str = "0:5",
    prime: int | None = None,
    dimension: int | None = None,
    examples: int | None = None,
    block: int | None = None,
    steps: int | None = None,
    changes: list[str] | None = None,
    save_models: bool = True,
    track: list[str] | None = None,
    jobs: int | None = None,
    device: str = "auto",
    figures: bool = True,
) -> None:
    """Train on functions drawn anew at every step, and ask after k examples; resumes.

    Options:
        save_models, --save-models/--no-models: Keep the models.
        examples, --k (number = 8): The most examples in a prompt.
        out (runs/icl): Folder for all of it; an earlier start resumes.
        preset: quick, or smoke for a look at the machinery.
        variants: E.g. dense,banded-64,sort-4,blend-8,hebbian-4; + joins two in one.
        seeds: E.g. 0:5 or 1337,42,7.
        prime: Modulus of a rule over residues; 11.
        dimension: Of the vectors of linear_real; 5.
        block: Positions of the model; as many as K needs.
        steps: Updates; a preset's if not given.
    """
    from gmb_hf.protocol.incontext.probes import preset as named
    from gmb_hf.protocol.incontext.report import run_icl
    from gmb_hf.protocol.sequential.run import parse_variants
    from gmb_hf.training.config import parse_seeds

    given = {
        "prompt.prime": prime,
        "prompt.dimension": dimension,
        "prompt.examples": examples,
        "prompt.block": block,
        "training.steps": steps,
    }
    said = [f"{name}={value}" for name, value in given.items() if value is not None]
    if examples is not None and block is None:
        said.append("prompt.block=none")  # as many as these examples need
    config = named(preset, rule).changed([*said, *(changes or [])])
    made, notes = run_icl(
        config,
        parse_variants(variants),
        parse_seeds(seeds),
        out,
        device=device,
        save_models=save_models,
        track=screen.trackers(track),
        jobs=jobs,
        figures=figures,
    )
    _print_probes(made)
    screen.notes(notes)
    screen.written(made.files, following=made.following)


@icl.command("eval")
def icl_evaluate(
    checkpoint: Path, examples: int | None = None, device: str = "auto", out: Path | None = None
) -> None:
    """Accuracy of a checkpoint after k examples, through the model itself.

    Arguments:
        checkpoint: A model under OUT/models of gmb icl run.

    Options:
        examples, --k: The most examples in a prompt.
    """
    from gmb_hf.base.files import write_json
    from gmb_hf.protocol.incontext.probes import evaluate_checkpoint

    config, found = evaluate_checkpoint(checkpoint, examples=examples, device=device)
    names = ("accuracy", "bayes_accuracy") if "accuracy" in found[0] else ("loss", "bayes_loss")
    columns = [Column("functions"), Column("x"), Column("k", str)]
    columns += [Column(name, number) for name in names]
    rows = []
    for one in found:
        values = (one[name][0] if isinstance(one[name], list) else one[name] for name in names)
        rows.append((one["functions"], one["x"], one["k"], *values))
    screen.table(Table(columns, rows), above=True)
    paths = []
    if out is not None:
        content = {"checkpoint": str(checkpoint), "design": config.design(), "points": found}
        paths.append(write_json(out, content))
    following = screen.command("icl", "report", checkpoint.resolve().parents[2])
    screen.written(paths, following=following)


@icl.command("report")
def icl_report(
    runs: list[Path],
    out: Path | None = None,
    at: str | None = None,
    baseline: str | None = None,
    figures: bool = True,
) -> None:
    """Accuracy after k examples, events and paired tests: incontext.json, tables and figures.

    Arguments:
        runs: Folders of gmb icl run.

    Options:
        at, --k: Examples in the short table, e.g. 0,1,2,3,8.
        out: Where to write; of one run its own folder, if not given.
    """
    from gmb_hf.base.documents import read_value
    from gmb_hf.protocol.incontext import report as probes

    chosen = read_value(tuple[int, ...], at, where=f"--k {at!r}") if at else ()
    target = _target(runs, out)
    made = probes.icl_report(runs, target, at=list(chosen), baseline=baseline, figures=figures)
    _print_probes(made)
    following = shlex.join(["cat", str(target / "tables" / "by_examples.md")])
    screen.written(list(made.files), following=following)


def _print_probes(made: object) -> None:
    """The answer, and the short table of functions held out."""
    from gmb_hf.protocol.incontext.report import InContextReport, held_out_table, sentences

    assert isinstance(made, InContextReport)
    for sentence in sentences(made.summary):
        screen.say(sentence)
    screen.table(held_out_table(made.summary), above=True)
    screen.notes(made.summary.notes)
