"""`gmb explore` and `gmb lock`: a free search, and the end of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmb_hf.cli.options import check_event, design_fields, said_in_options, typed

if TYPE_CHECKING:
    from gmb_hf.design.design import Design
    from gmb_hf.design.lock import Lock
    from gmb_hf.runs.runlog import RunLog


app = typer.Typer(no_args_is_help=True)


@app.callback()
def _prereg() -> None:
    """Begin a preregistration."""


@app.command()
def init(
    out: Annotated[Path, typer.Option(help="Where to write it.")] = Path("prereg.yaml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented preregistration to fill in."""
    from gmb_hf.cli.screen import written
    from gmb_hf.design.design import Design
    from gmb_hf.errors import InputError
    from gmb_hf.files import write_text

    if out.exists() and not force:
        raise InputError(f"{out}: is there already; choose another --out, or pass --force")
    write_text(out, Design.template())
    lock = shlex.join(["gmb", "lock", "--prereg", str(out), "--runs", "RUNS", "--out", "lock.yaml"])
    written([out], following=f"edit it, then {lock}")


MoreRuns = Annotated[
    list[str] | None, typer.Argument(hidden=True, help="What an unquoted glob leaves.")
]
Prereg = Annotated[Path | None, typer.Option(help="A preregistration (gmb prereg init).")]
Preset = Annotated[
    str | None, typer.Option(help="The design of a preset; that of the logs by default.")
]


def explore(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Option(help="Run logs: files, folders, globs, or hf://datasets/ORG/NAME@REV."),
    ],
    more_runs: MoreRuns = None,
    prereg: Prereg = None,
    preset: Preset = None,
    out: Annotated[Path, typer.Option(help="Where to write the table.")] = Path("explore.csv"),
) -> None:
    """Try both signs of every candidate on explore runs; nothing here is a claim."""
    from gmb_hf.benchmark.locking import explore as search
    from gmb_hf.benchmark.locking import write_explored
    from gmb_hf.benchmark.prepare import prepare
    from gmb_hf.cli import screen as show
    from gmb_hf.hub.sources import part_of, read_runs

    sources = [*runs, *(more_runs or [])]
    log = read_runs(sources)
    design = _design(context, log, prereg, preset)
    part, aside = part_of(log, design, "explore")
    if aside:
        show.say(f"{aside} runs were set aside: they are held out, or not declared.")
    prepared = prepare(part, design)
    for note in prepared.left_out:
        show.say(f"note: {note}")
    with show.counting("exploring", len(design.candidates) + 2) as done:
        rows = search(design, prepared, on_done=done)
    path = write_explored(rows, out)
    show.explored(rows, path)
    given = {"--prereg": prereg, "--preset": preset, "--out": Path("lock.yaml")}
    show.written([path], following=_command("gmb lock", sources, given))


def lock(
    context: typer.Context,
    runs: Annotated[
        list[str] | None, typer.Option(help="Explore logs: files, folders or globs.")
    ] = None,
    more_runs: MoreRuns = None,
    prereg: Prereg = None,
    preset: Preset = None,
    out: Annotated[Path, typer.Option(help="Where to write the lock.")] = Path("lock.yaml"),
    strict_lint: Annotated[
        bool, typer.Option("--strict-lint", help="Refuse a design with warnings as well.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print each frozen choice in a sentence.")
    ] = False,
    made: Annotated[
        Path | None, typer.Option("--lock", help="With --explain: a lock that exists already.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a lock that is there.")] = False,
) -> None:
    """Freeze the design and the thresholds found on explore runs; unsound designs are refused."""
    from gmb_hf.benchmark.locking import make_lock
    from gmb_hf.benchmark.prepare import prepare
    from gmb_hf.cli import screen as show
    from gmb_hf.design.lock import Lock
    from gmb_hf.errors import InputError
    from gmb_hf.hub.sources import part_of, read_runs

    sources = [*(runs or []), *(more_runs or [])]
    if made is not None:
        if not explain or sources:
            raise InputError(
                "--lock names a lock to explain: gmb lock --explain --lock FILE; a new one is "
                "made with --runs and --out"
            )
        typed_fields = [typed(context)[name] for name in design_fields(context)]
        if typed_fields:
            raise InputError(f"--lock fixes the design; leave out {', '.join(typed_fields)}")
        _explain(Lock.read(made))
        judging = {"--lock": made, "--out": Path("results")}
        show.say_whole("next", _command("gmb evaluate", ["HELD_OUT_RUNS"], judging))
        return
    if not sources:
        raise InputError("--runs is missing: name the explore logs, e.g. --runs runs/quick/logs")
    if out.exists() and not force:
        raise InputError(
            f"{out}: a lock is there already; thresholds are locked once. Choose another --out, "
            "or pass --force and judge on new seeds"
        )
    log = read_runs(sources)
    design = _design(context, log, prereg, preset)
    part, aside = part_of(log, design, "explore")
    if aside:
        show.say(f"{aside} runs were set aside: they are held out, or not declared.")
    prepared = prepare(part, design)
    for note in prepared.left_out:
        show.say(f"note: {note}")
    with show.counting("locking", len(design.candidates) + 2) as done:
        frozen, findings = make_lock(design, prepared, strict_lint=strict_lint, on_done=done)
    for finding in findings:
        show.say(str(finding))
    if explain:
        _explain(frozen)
    frozen.write(out)
    # Where explore and held-out runs lie together, evaluate takes its own from among them.
    held_out = sources if aside else ["HELD_OUT_RUNS"]
    judging = {"--lock": out, "--out": Path("results")}
    show.written([out], following=_command("gmb evaluate", held_out, judging))


def _design(context: typer.Context, log: RunLog, prereg: Path | None, preset: str | None) -> Design:
    """The design of a file, of a preset or of the logs, with what was typed beside it."""
    from gmb_hf.hub.sources import design_for

    with said_in_options():
        design = design_for(log, prereg, preset, design_fields(context))
    check_event(context, design.event_type)
    return design


def _explain(lock: Lock) -> None:
    from gmb_hf.cli import screen as show
    from gmb_hf.design.explain import explain

    for sentence in explain(lock):
        show.say(f"- {sentence}")


def _command(name: str, sources: Sequence[str], options: Mapping[str, object]) -> str:
    """A command to type next, quoted for a shell."""
    words = [*name.split(), "--runs", *sources]
    for flag, value in options.items():
        if value is not None:
            words += [flag, str(value)]
    return shlex.join(words)
