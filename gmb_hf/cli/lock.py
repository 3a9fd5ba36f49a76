"""`gmb explore` and `gmb lock`: a free search, and the end of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Runs = Annotated[list[str], typer.Option(help="Run logs: files, folders or quoted globs.")]
Prereg = Annotated[Path | None, typer.Option(help="A preregistration (gmb prereg init).")]
Preset = Annotated[
    str | None, typer.Option(help="The design of a preset; the one that made the logs by default.")
]


def explore(
    runs: Runs,
    prereg: Prereg = None,
    preset: Preset = None,
    out: Annotated[Path, typer.Option(help="Where to write the table.")] = Path("explore.csv"),
) -> None:
    """Try both signs of every candidate on explore runs; nothing here is a claim."""
    from gmb_hf.cli import show
    from gmb_hf.runs import RunLog
    from gmb_hf.workflows.exploring import explore as search
    from gmb_hf.workflows.exploring import write_explored
    from gmb_hf.workflows.sources import design_for, explore_part

    log = RunLog.read(runs)
    design = design_for(log, prereg, preset)
    part, aside = explore_part(log, design)
    if aside:
        show.say(f"{aside} runs were set aside: they are held out, or not declared.")
    with show.counting("exploring", len(design.candidates) + 2) as done:
        rows = search(design, part, on_done=done)
    path = write_explored(rows, out)
    show.explored(rows, path)
    show.written([path], following=f"gmb lock --runs {runs[0]} --out lock.yaml")


def lock(
    runs: Annotated[
        list[str] | None, typer.Option(help="Explore logs: files, folders or quoted globs.")
    ] = None,
    prereg: Prereg = None,
    preset: Preset = None,
    out: Annotated[Path, typer.Option(help="Where to write the lock.")] = Path("lock.yaml"),
    strict_lint: Annotated[
        bool, typer.Option("--strict-lint", help="Refuse a design with warnings as well.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print each frozen choice in a sentence.")
    ] = False,
    show_lock: Annotated[
        Path | None, typer.Option("--lock", help="With --explain: a lock that exists already.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a lock that is there.")] = False,
) -> None:
    """Freeze the design and the thresholds found on explore runs; unsound designs are refused."""
    from gmb_hf.cli import show
    from gmb_hf.preregistration.lock import Lock
    from gmb_hf.runs import RunLog
    from gmb_hf.validation import InputError
    from gmb_hf.workflows.locking import make_lock
    from gmb_hf.workflows.sources import design_for, explore_part

    if show_lock is not None:
        for sentence in Lock.read(show_lock).explain():
            show.say(f"- {sentence}")
        return
    if not runs:
        raise InputError("--runs is missing: name the explore logs, e.g. --runs runs/quick/logs")
    if out.exists() and not force:
        raise InputError(
            f"{out}: a lock is there already; thresholds are locked once. Choose another --out, "
            "or pass --force and judge on new seeds"
        )
    log = RunLog.read(runs)
    design = design_for(log, prereg, preset)
    part, aside = explore_part(log, design)
    if aside:
        show.say(f"{aside} runs were set aside: they are held out, or not declared.")
    with show.counting("locking", len(design.candidates) + 2) as done:
        made, findings = make_lock(design, part, strict_lint=strict_lint, on_done=done)
    for finding in findings:
        show.say(str(finding))
    if explain:
        for sentence in made.explain():
            show.say(f"- {sentence}")
    made.write(out)
    show.written([out], following=f"gmb evaluate --lock {out} --runs {runs[0]} --out results")
