"""`gmb prereg`, `gmb explore` and `gmb lock`: a design, a free search, and the end of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmb_hf.cli import options
from gmb_hf.cli import screen as show
from gmb_hf.cli.options import Answer, App, MoreRuns, Private, Runs, option, product
from gmb_hf.errors import InputError

if TYPE_CHECKING:
    from gmb_hf.benchmark.prepare import Prepared

app = App()

Prereg = Annotated[Path | None, option("A preregistration (gmb prereg init).")]
Preset = Annotated[str | None, option("The design of a preset; that of the logs by default.")]
Score = Annotated[
    list[str] | None,
    option("Only this column or indicator, not the design's candidates; several are possible."),
]


@app.command()
def init(
    out: Annotated[Path, product("Where to write it.", "prereg.yaml")],
    force: Annotated[bool, option("Replace a file that is there.", "--force")] = False,
) -> None:
    """Write a commented preregistration to fill in."""
    from gmb_hf.design.design import Design
    from gmb_hf.files import write_text

    if out.exists() and not force:
        raise InputError(f"{out}: is there already; choose another --out, or pass --force")
    write_text(out, Design.template())
    lock = show.command("lock", prereg=out, runs="RUNS", out="lock.yaml")
    show.written([out], following=f"edit it, then {lock}")


def explore(
    context: typer.Context,
    runs: Runs,
    more_runs: MoreRuns = None,
    prereg: Prereg = None,
    preset: Preset = None,
    out: Answer = None,
) -> None:
    """Try both signs of every candidate on explore runs; nothing here is a claim."""
    from gmb_hf.benchmark.locking import explore as search
    from gmb_hf.benchmark.locking import write_explored

    given = options.sources(runs, more_runs)
    prepared, _ = _prepare(context, given, prereg, preset)
    with show.counting("exploring", len(prepared.design.candidates) + 2) as done:
        rows = search(prepared.design, prepared, on_done=done)
    show.explored(rows, out, prepared.design.primary_run_budget)
    lock = ("lock", "--runs", *given)
    following = show.command(*lock, prereg=prereg, preset=preset, out="lock.yaml")
    show.written([] if out is None else [write_explored(rows, out)], following=following)


def lock(
    context: typer.Context,
    runs: Annotated[list[str] | None, option("Explore logs: files, folders or globs.")] = None,
    more_runs: MoreRuns = None,
    prereg: Prereg = None,
    preset: Preset = None,
    score: Score = None,
    sign: Annotated[int, option("Of --score: +1, high means risk; -1, low does.")] = 1,
    sees_test_labels: Annotated[
        bool | None,
        option(
            "Whether held-out labels went into the columns of --score.",
            "--sees-test-labels/--no-test-labels",
        ),
    ] = None,
    out: Annotated[Path | None, option("Where to write the lock.")] = None,
    strict_lint: Annotated[
        bool, option("Refuse a design with warnings as well.", "--strict-lint")
    ] = False,
    explain: Annotated[
        bool, option("Print each frozen choice in a sentence.", "--explain")
    ] = False,
    made: Annotated[
        Path | None, option("With --explain or --publish: a lock that is there.", "--lock")
    ] = None,
    force: Annotated[bool, option("Replace a lock that is there.", "--force")] = False,
    publish: Annotated[
        str | None,
        option("Commit it to this dataset of the Hub, which shows that it came first."),
    ] = None,
    private: Private = False,
) -> None:
    """Freeze the design and the thresholds found on explore runs; unsound designs are refused."""
    from gmb_hf.benchmark.locking import make_lock
    from gmb_hf.design.explain import explain as sentences
    from gmb_hf.design.lint import declared
    from gmb_hf.design.lock import Lock

    def show_and_publish(path: Path, frozen: Lock) -> None:
        for sentence in sentences(frozen) if explain else ():
            show.say(f"- {sentence}")
        if publish:
            from gmb_hf.hub.locks import publish_lock

            done = publish_lock(path, publish, private=private)
            show.say_whole("published", f"{done.url} ({done.commit})")

    given = options.sources(runs, more_runs)
    if made is not None:
        if given or not (explain or publish):
            raise InputError(
                "--lock names a lock to explain: gmb lock --explain --lock FILE, or to --publish; "
                "a new one is made with --runs and --out"
            )
        typed_fields = [options.typed(context)[name] for name in options.design_fields(context)]
        if typed_fields:
            raise InputError(f"--lock fixes the design; leave out {', '.join(typed_fields)}")
        show_and_publish(made, Lock.read(made))
        judging = show.command("evaluate", runs="HELD_OUT_RUNS", lock=made, out="results")
        show.say_whole("next", judging)
        return
    if not given:
        raise InputError("--runs is missing: name the explore logs, e.g. --runs runs/quick/logs")
    if out is None:
        raise InputError("--out is missing: name the lock, e.g. --out lock.yaml")
    if out.exists() and not force:
        raise InputError(
            f"{out}: a lock is there already; thresholds are locked once. Choose another --out, "
            "or pass --force and judge on new seeds"
        )
    options.check_sign(sign)
    known: Any = {"sign": sign, "sees_test_labels": sees_test_labels}
    if not score and {"sign", "sees_test_labels"} & options.typed(context).keys():
        raise InputError("--sign and --sees-test-labels are of --score; name one")
    prepared, aside = _prepare(context, given, prereg, preset, score, known)
    with options.said_in_options():
        declared(prepared.completed)
    with show.counting("locking", len(prepared.design.candidates) + 2) as done:
        made_now = make_lock(prepared.design, prepared, strict_lint=strict_lint, on_done=done)
    frozen, findings = made_now
    for finding in findings:
        show.say(str(finding))
    frozen.write(out)
    show_and_publish(out, frozen)
    # Where explore and held-out runs lie together, evaluate takes its own from among them.
    held_out = given if aside else ["HELD_OUT_RUNS"]
    judging = show.command("evaluate", "--runs", *held_out, lock=out, out="results")
    show.written([out], following=judging)


def _prepare(
    context: typer.Context,
    given: list[str],
    prereg: Path | None,
    preset: str | None,
    scores: list[str] | None = None,
    known: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Prepared, int]:
    """Explore runs by the design of a file, a preset or the logs, and how many were set aside."""
    from gmb_hf.benchmark.prepare import own_score, prepare
    from gmb_hf.hub.panels import naming_panels
    from gmb_hf.hub.sources import design_for, part_of, read_runs

    log = read_runs(given)
    fields = options.design_fields(context)
    if scores:
        fields["candidates"] = [own_score(name, log, **known) for name in scores]
    with options.said_in_options():
        design = design_for(log, prereg, preset, fields)
    options.check_event(context, design.event_type)
    part, aside = part_of(log, design, "explore")
    if aside:
        show.say(f"{aside} runs were set aside: they are held out, or not declared.")
    with naming_panels(log):
        prepared = prepare(part, design)
    show.notes(prepared.left_out)
    return prepared, aside
