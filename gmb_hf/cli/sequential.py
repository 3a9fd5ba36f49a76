"""`gmb sequential`: tasks one after the other, and what a model keeps of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmb_hf.cli.options import DifferentData
from gmb_hf.cli.screen import console, say, table
from gmb_hf.escape import number, p_value
from gmb_hf.tables import Column, Row, Table

if TYPE_CHECKING:
    from gmb_hf.sequential.generalisation import Generalised
    from gmb_hf.sequential.summary import RetentionSummary
    from gmb_hf.stats import OverSeeds


_QUANTITIES = {
    "learned": "learning_accuracy",
    "at the end": "average_accuracy",
    "forgotten": "forgetting_accuracy",
    "loss learned": "learning_loss",
    "loss at the end": "average_loss",
}


def sums(summary: RetentionSummary) -> None:
    """Learning, average and forgetting of each variant, means with their intervals."""
    rows = [
        [
            name,
            str(len(variant.seeds)),
            *(_mean(variant.quantities[q]) for q in _QUANTITIES.values()),
        ]
        for name, variant in summary.variants.items()
    ]
    _print(("variant", "seeds", *_QUANTITIES), rows)
    say(
        "Accuracy: after the task's own phase, after the last phase, and what was lost of the best "
        "before it; means over tasks, ± half the 95% Student interval over seeds.",
        style="dim",
    )


def generalised(found: Generalised) -> None:
    """Best and final losses of each variant, then the comparison at equal training loss."""
    rows = [
        [
            name,
            str(len(course.runs)),
            _mean(course.best_validation_loss),
            _mean(course.final_validation_loss),
            _mean(course.final_train_loss),
            _mean(course.final_gap),
        ]
        for name, course in found.variants.items()
    ]
    _print(("variant", "runs", "best val", "final val", "final train", "final gap"), rows)
    pairs = []
    for one in found.matched:
        gap = one.difference
        pairs.append(
            [
                one.variant,
                f"{one.overlap:.0%}" + ("" if one.reliable else " UNRELIABLE"),
                _mean(one.variant_mean),
                _mean(one.baseline_mean),
                _mean(gap.difference if gap else None),
                p_value(gap.p_adjusted if gap else None),
            ]
        )
    if pairs:
        _print(("at equal train loss", "overlap", "val", found.baseline, "difference", "p"), pairs)


def _mean(over: OverSeeds | None) -> str:
    from gmb_hf.sequential.report import mean, show_mean

    return number(None) if over is None else show_mean(mean(over))


def _print(heads: Sequence[str], rows: Sequence[Row]) -> None:
    columns = [Column(heads[0], shrinks_to=12), *(Column(head, align="r") for head in heads[1:])]
    console().print()
    table(Table(columns, rows))


# `gmb sequential eval`: a saved model on every task of a suite.


def evaluate(
    context: typer.Context,
    checkpoint: Annotated[Path, typer.Option(help="A folder that save_pretrained left.")],
    suite: Annotated[str, typer.Option(help="modular or formal.")],
    preset: Annotated[
        str | None,
        typer.Option(help="replication or quick; if not given, that of the checkpoint's own run."),
    ] = None,
    op_token: Annotated[str | None, typer.Option(help="shared or distinct.")] = None,
    prime: Annotated[int | None, typer.Option(help="Modulus of the modular suite.")] = None,
    loss_positions: Annotated[str | None, typer.Option(help="answer or all.")] = None,
    data_seed: Annotated[int | None, typer.Option(help="Draws the split; 42.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: suite.train_fraction=0.6.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("evaluation.json"),
) -> None:
    """Held-out loss and accuracy of a checkpoint on every task, through the model itself."""
    from gmb_hf.cli import screen as show
    from gmb_hf.sequential.evaluate import evaluate_checkpoint

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
        show.say(f"asked as {found.design} says")
    columns = (Column("task"), Column("loss", number), Column("accuracy", number))
    rows = [(result.task, result.loss, result.accuracy) for result in found.results]
    show.table(Table(columns, rows))
    following = ["cat", str(found.path)]
    if found.design is not None:
        following = ["gmb", "sequential", "report", str(found.design.parent)]
    show.written([found.path], following=shlex.join(following))


# `gmb sequential report`: what is kept, from runs of one design or of several.


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of gmb sequential run.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write; of one run its own folder, if not given."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Which variant the others are held against; dense, or the first."),
    ] = None,
    allow_fingerprint_mismatch: DifferentData = False,
) -> None:
    """Matrices, retention, forgetting and paired tests: retention.json, tables and figures."""
    from gmb_hf.cli import screen as show
    from gmb_hf.errors import InputError
    from gmb_hf.sequential.report import sequential_report

    if out is None and len(runs) > 1:
        raise InputError("--out is missing: name a folder for the report of several runs")
    target = out or runs[0]
    made = sequential_report(
        runs, target, allow_fingerprint_mismatch=allow_fingerprint_mismatch, baseline=baseline
    )
    sums(made.summary)
    for note in made.summary.notes:
        show.say(f"note: {note}")
    matrix = shlex.quote(str(target / "tables" / "matrix_loss.md"))
    show.written(list(made.files), following=f"cat {matrix}")


# `gmb sequential run`: every variant through the tasks of a suite, then the report.


def run(
    context: typer.Context,
    suite: Annotated[str, typer.Option(help="modular or formal.")],
    out: Annotated[Path, typer.Option(help="Folder for all of it; an earlier start resumes.")],
    preset: Annotated[str, typer.Option(help="replication or quick.")] = "quick",
    variants: Annotated[
        str,
        typer.Option(help="E.g. dense,banded-256,sort-4,blend-8,hebbian-4; + joins two in one."),
    ] = "dense",
    seeds: Annotated[str, typer.Option(help="E.g. 0:8 or 1337,42,7.")] = "0:8",
    order: Annotated[
        str | None, typer.Option(help="Tasks in the order of training, with commas.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Updates in each phase, or one number a phase: 500,1000,...")
    ] = None,
    stop_loss: Annotated[
        float | None,
        typer.Option(help="Held-out loss at which a seed's phase ends; --set can say none."),
    ] = None,
    stop_early: Annotated[
        str | None, typer.Option(help="In which phases, e.g. 1,2; all if not given.")
    ] = None,
    carry_optimizer: Annotated[
        bool, typer.Option("--carry-optimizer", help="Keep AdamW's moments from phase to phase.")
    ] = False,
    op_token: Annotated[
        str | None,
        typer.Option(help="shared: one token for all operations, as published; or distinct."),
    ] = None,
    loss_positions: Annotated[
        str | None, typer.Option(help="answer, or all: the loss over every token of the rows.")
    ] = None,
    compat_batch: Annotated[
        bool, typer.Option("--compat-batch", help="Drop the last training row, as published.")
    ] = False,
    data_seed: Annotated[int | None, typer.Option(help="Draws the split; 42.")] = None,
    prime: Annotated[int | None, typer.Option(help="Modulus of the modular suite.")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a field: training.lr=3e-3.")
    ] = None,
    save_models: Annotated[
        str, typer.Option(help="Keep models after the last phase, after all, or none.")
    ] = "last",
    track: Annotated[
        list[str] | None, typer.Option(help="tensorboard, trackio or wandb; several are possible.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help="Groups of seeds trained at a time; on a CPU one a core if not given."),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train tasks one after the other and evaluate all of them after each; resumes."""
    from gmb_hf.cli import screen as show
    from gmb_hf.sequential.run import SHORT, parse_variants, run_sequential, sequential_config
    from gmb_hf.training.config import parse_seeds

    options = {name: context.params[name] for name in ("steps", *SHORT)}
    config = sequential_config(suite, preset, options, changes or [])
    finished = run_sequential(
        config,
        parse_variants(variants),
        parse_seeds(seeds),
        out,
        device=device,
        save_models=save_models,
        track=track or [],
        jobs=jobs,
    )
    assert finished is not None  # this is the only process
    sums(finished.summary)
    for note in finished.notes:
        show.say(f"note: {note}")
    show.written(finished.paths, following=shlex.join(finished.following))


app = typer.Typer(no_args_is_help=True)
app.command("run")(run)
app.command("eval")(evaluate)
app.command("report")(report)


@app.callback()
def _sequential() -> None:
    """Train tasks one after the other, and measure what is kept."""


# `gmb generalization`: variants compared at equal training loss.


def generalization(
    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=PATH...",
            help="Run logs of each variant: files, folders or globs; a name may come again.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("generalization"),
    baseline: Annotated[
        str | None,
        typer.Option(help="Which variant the others are held against; dense, or the first."),
    ] = None,
    train: Annotated[str | None, typer.Option(help="Column of the training loss.")] = None,
    validation: Annotated[str | None, typer.Option(help="Column of the validation loss.")] = None,
    points: Annotated[int, typer.Option(help="Training losses that are looked at.")] = 32,
    allow_fingerprint_mismatch: DifferentData = False,
) -> None:
    """Validation loss at equal training loss, best and final losses, and the gap over training."""
    import shlex

    from gmb_hf.cli import screen as show
    from gmb_hf.sequential import generalisation as generalising

    found, variants = generalising.compare_logs(
        generalising.named_sources(logs),
        train=train,
        validation=validation,
        baseline=baseline,
        points=points,
        allow_fingerprint_mismatch=allow_fingerprint_mismatch,
    )
    files = generalising.write_generalised(found, variants, out)
    generalised(found)
    for note in found.notes:
        show.say(f"note: {note}")
    table = shlex.quote(str(out / "tables" / "generalization_losses.md"))
    show.written(files, following=f"cat {table}")
