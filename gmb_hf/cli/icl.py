"""`gmb icl`: what a model learns from the examples in its prompt, beside the Bayes predictor."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from gmb_hf.cli import options, screen
from gmb_hf.cli.options import Answer, App, Changes, Device, Figures, argument, option, product
from gmb_hf.errors import InputError
from gmb_hf.escape import number
from gmb_hf.tables import Column, Table

app = App()

Rule = Annotated[str, option("linear, affine_table, copy_rule or linear_real.")]


@app.command()
def run(
    out: Annotated[Path, product("Folder for all of it; an earlier start resumes.", "runs/icl")],
    rule: Rule = "linear",
    preset: Annotated[str, option("quick, or smoke for a look at the machinery.")] = "quick",
    variants: Annotated[
        str, option("E.g. dense,banded-64,sort-4,blend-8,hebbian-4; + joins two in one.")
    ] = "dense",
    seeds: Annotated[str, option("E.g. 0:5 or 1337,42,7.")] = "0:5",
    prime: Annotated[int | None, option("Modulus of a rule over residues; 11.")] = None,
    dimension: Annotated[int | None, option("Of the vectors of linear_real; 5.")] = None,
    examples: Annotated[int | None, option("The most examples in a prompt; 8.", "--k")] = None,
    block: Annotated[int | None, option("Positions of the model; as many as K needs.")] = None,
    steps: Annotated[int | None, option("Updates; a preset's if not given.")] = None,
    changes: Changes = None,
    save_models: Annotated[bool, option("Keep the models.", "--save-models/--no-models")] = True,
    track: options.Track = None,
    jobs: options.Jobs = None,
    device: Device = "auto",
    figures: Figures = True,
) -> None:
    """Train on functions drawn anew at every step, and ask after k examples; resumes."""
    from gmb_hf.sequential.incontext import preset as named
    from gmb_hf.sequential.incontext_report import run_icl
    from gmb_hf.sequential.run import parse_variants
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
    finished = run_icl(
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
    _print(finished.report)
    screen.notes(finished.notes)
    screen.written(finished.report.files, following=shlex.join(finished.following))


@app.command("eval")
def evaluate(
    checkpoint: Annotated[Path, argument("A model under OUT/models of gmb icl run.")],
    examples: Annotated[int | None, option("The most examples in a prompt.", "--k")] = None,
    device: Device = "auto",
    out: Answer = None,
) -> None:
    """Accuracy of a checkpoint after k examples, through the model itself."""
    from gmb_hf.files import write_json
    from gmb_hf.sequential.incontext import evaluate_checkpoint

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


@app.command()
def report(
    runs: Annotated[list[Path], argument("Folders of gmb icl run.")],
    out: Annotated[
        Path | None, option("Where to write; of one run its own folder, if not given.")
    ] = None,
    at: Annotated[str | None, option("Examples in the short table, e.g. 0,1,2,3,8.", "--k")] = None,
    baseline: Annotated[
        str | None, option("Which variant the others are held against; dense, or the first.")
    ] = None,
    figures: Figures = True,
) -> None:
    """Accuracy after k examples, events and paired tests: incontext.json, tables and figures."""
    from gmb_hf.sequential.incontext_report import icl_report

    if out is None and len(runs) > 1:
        raise InputError("--out is missing: name a folder for the report of several runs")
    chosen = options.numbers("--k", at, kind="whole numbers", example="0,1,2,3") if at else ()
    for one in chosen:
        if one != int(one):
            raise InputError(f"--k {at}: {one:g} is no whole number of examples")
    target = out or runs[0]
    made = icl_report(
        runs, target, at=[int(one) for one in chosen], baseline=baseline, figures=figures
    )
    _print(made)
    following = shlex.join(["cat", str(target / "tables" / "by_examples.md")])
    screen.written(list(made.files), following=following)


def _print(made: object) -> None:
    """The answer, and the short table of functions held out."""
    from gmb_hf.sequential.incontext_report import InContextReport, held_out_table, sentences

    assert isinstance(made, InContextReport)
    for sentence in sentences(made.summary):
        screen.say(sentence)
    screen.table(held_out_table(made.summary), above=True)
    screen.notes(made.summary.notes)
