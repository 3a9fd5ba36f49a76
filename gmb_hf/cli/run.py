"""`gmb run`: everything, from seeds to a verdict; `gmb train`: run logs; `gmb model push`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import typer

from gmb_hf.cli import options
from gmb_hf.cli import screen as show
from gmb_hf.cli.options import App


class RunCommand(options.DesignCommand):
    """`gmb run`: what is trained, and on which seeds, is said by --preset and --set."""

    without: ClassVar[Sequence[str]] = ("boundary",)


def run(
    context: typer.Context,
    out: Path,
    preset: str = "quick",
    changes: list[str] | None = None,
    device: str = "auto",
    jobs: int | None = None,
    figures: bool = True,
    track: list[str] | None = None,
) -> None:
    """Train, explore, lock, evaluate and report; the same command goes on where it stopped.

    Options:
        out (runs/quick): Folder for all of it; an earlier start resumes.
        changes, --set (field=value): Change a field: training.lr=3e-3, or of the design:
            horizon=200.
    """
    from gmb_hf.jobs.run import run as run_all
    from gmb_hf.training.presets import preset as named

    config = named(preset).changed(changes or [])
    fields = options.design_fields(context)
    options.check_event(context, fields.get("event_type", config.benchmark.design().event_type))
    config = config.judged_by(**fields)
    finished = run_all(
        config,
        out,
        device=device,
        jobs=jobs,
        figures=figures,
        counting=show.counting,
        track=show.trackers(track),
    )
    show.verdicts(finished.evaluation.results, out / "report.md")
    show.checklist(finished.evaluation.results, out)
    for warning in finished.warnings:
        show.say(warning)
    if finished.note:
        show.say(finished.note.replace("`", ""))
    show.written(finished.paths, following=finished.following)


# `gmb train`: run logs only.


def train(
    out: Path,
    preset: str = "quick",
    seeds: str | None = None,
    changes: list[str] | None = None,
    engine: str = "stacked",
    device: str = "auto",
    jobs: int | None = None,
    data: str | None = None,
    save_models: str | None = None,
    track: list[str] | None = None,
) -> None:
    """Train many seeds of a preset and log what happens inside them.

    Options:
        out (runs/mine): Folder for the run logs; an earlier start resumes.
        seeds: E.g. 0:64 or 3,7; the preset's seeds by default.
        engine: stacked: many seeds at once; single: one model at a time.
        data: The task's rows from the Hub: ORG/NAME@REV.
        save_models: Keep the models of these seeds, e.g. 0:4, in OUT/models.
    """
    from gmb_hf.hub.datasets import data_source
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.folder import finished_logs
    from gmb_hf.training.presets import preset as named

    config = named(preset).changed(changes or [])
    wanted = parse_seeds(seeds or f"{config.seeds.explore},{config.seeds.evaluate}")
    keep = parse_seeds(save_models) if save_models else ()
    about = data_source(data, config.task) if data else None
    given: Any = {"about": about, "keep": keep}
    # Where nothing is left to do, torch need not be loaded, which takes seconds.
    usual = engine == "stacked" and device == "auto" and jobs is None
    paths = finished_logs(config, wanted, out, **given) if usual else []
    if not paths:
        from gmb_hf.training.seeds import train_seeds

        given |= {"engine": engine, "device": device, "jobs": jobs}
        given |= {"track": show.trackers(track)}
        paths = train_seeds(config, wanted, out, **given)
    if keep:
        from gmb_hf.hub.models import write_cards

        show.notes(write_cards(out)[1])
    show.written(paths, following=show.command("explore", runs=out / "logs"))


# `gmb model`: models that a training kept.

app = App()


@app.command()
def create(
    preset: str,
    out: Path,
    prime: int | None = None,
    seed: int = 1337,
    variant: str = "dense",
    tokenizer: str | None = None,
) -> None:
    """Make an untrained model with its tokenizer, the evaluation protocol's first step.

    Options:
        preset: grokking, formal or gpt2.
        out (model): A new folder for the model and its tokenizer.
        prime: Modulus of grokking; 97 by default.
        seed: Seed of the weights.
        variant: E.g. dense, banded-256 or sort-4.
        tokenizer: Of gpt2: a name on the Hub or a folder; gpt2 by default.
    """
    from gmb_hf.hub.models import create_model

    given: Any = {"prime": prime, "seed": seed, "variant": variant, "tokenizer": tokenizer}
    made = create_model(preset, out, **given)
    show.say_whole("model", f"{made.parameters:,} parameters, {variant}")
    show.say_whole("input", f"{made.block} of {made.vocabulary:,} tokens at most")
    following = show.command("heldout", checkpoint=out, domain="wikitext2", out="heldout")
    if preset != "gpt2":
        suite = "formal" if preset == "formal" else "modular"
        following = show.command("sequential", "eval", checkpoint=out, suite=suite)
    show.written([out / "config.json", out / "model.safetensors"], following=following)


@app.command()
def push(
    checkpoint: Path,
    repo: str,
    results: Path | None = None,
    private: bool = False,
) -> None:
    """Publish a checkpoint with its log and a card, in one commit.

    Arguments:
        checkpoint: What --save-models kept, e.g. runs/quick/models/seed_1000.

    Options:
        results: A results.yaml, for the card's table of verdicts.
    """
    from gmb_hf.hub.models import push_model

    done = push_model(checkpoint, repo, results=results, private=private)
    call = (
        "import gmb_hf.modeling, transformers as t; "
        f"t.AutoModelForCausalLM.from_pretrained({repo!r}, revision={done.commit!r})"
    )
    show.pushed(done, following=f"python -c {shlex.quote(call)}")
