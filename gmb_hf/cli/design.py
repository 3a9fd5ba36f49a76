"""`gmb plan`, `gmb prereg`, `gmb explore` and `gmb lock`: how many runs, a design, and its end.

Options:
    prereg: A preregistration (gmb prereg init).
    preset: The design of a preset; that of the logs by default.
    score (column): Only this column or indicator, not the design's candidates; several are
        possible.
    pretrained (name): A pretrained score (gmb score list), or its file.
    sign: Of --score: +1: high scores mean risk; -1: low ones do.
    explore_share (share): Explore only this share of the runs; the others are held out. Choose it
        before you look at where events lie.

More options:
    sees_test_labels, --sees-test-labels/--no-test-labels: Whether held-out labels went into the
        columns of --score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from gmb_hf.base.errors import CheckFailed, InputError, fraction
from gmb_hf.base.escape import number
from gmb_hf.base.tables import Column, Table
from gmb_hf.cli import options
from gmb_hf.cli import screen as show
from gmb_hf.cli.options import App, DesignCommand

if TYPE_CHECKING:
    from gmb_hf.benchmark.planning import Pilot
    from gmb_hf.benchmark.prepare import Prepared
    from gmb_hf.design.design import Design
    from gmb_hf.design.power import Plan, RunsPlan
    from gmb_hf.design.power import Row as PlanRow
    from gmb_hf.runs.runlog import RunLog

app = App()


@app.command(cls=DesignCommand)
def init(
    context: typer.Context,
    out: Path,
    runs: list[str] | None = None,
    score: list[str] | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
    explore_share: float | None = None,
    step_column: str = "step",
    run_column: str = "run",
    force: bool = False,
) -> None:
    """Write a commented preregistration to fill in; with --runs, what the logs and options say.

    Options:
        out (prereg.yaml): Where to write it.
        runs: Logs whose system, cadence and scores it shall name.
        force: Replace a file that is there.
    """
    from gmb_hf.base.files import write_text
    from gmb_hf.benchmark.own_runs import undeclared_parts
    from gmb_hf.benchmark.prepare import with_boundary
    from gmb_hf.design.design import Design
    from gmb_hf.hub.sources import part_of

    if out.exists() and not force:
        raise InputError(f"{out}: is there already; choose another --out, or pass --force")
    if runs is None:
        said = [flag for name, flag in options.typed(context).items() if name not in _OF_A_FILE]
        if said:
            raise InputError(
                f"{', '.join(said)}: without --runs nothing says what that fits; give the logs "
                "with --runs, or leave it out and edit the file"
            )
        write_text(out, Design.template())
        lock = show.command("lock", prereg=out, runs="RUNS", out="lock.yaml")
        show.written([out], following=f"edit it, then {lock}")
        return
    log = _read(context, runs)
    design = _design(context, log)
    part, _ = part_of(log, design, "explore")
    write_text(out, with_boundary(design, part).commented())
    words = options.again(context, *_COLUMNS, of_design=False)
    lock = show.command("lock", "--runs", *runs, *words, prereg=out, out="lock.yaml")
    if undeclared_parts(design, part, split=False):
        lock += " --undeclared"
    show.written([out], following=lock)


def explore(
    context: typer.Context,
    runs: list[str],
    prereg: Path | None = None,
    preset: str | None = None,
    score: list[str] | None = None,
    pretrained: list[str] | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
    explore_share: float | None = None,
    step_column: str = "step",
    run_column: str = "run",
    out: Path | None = None,
) -> None:
    """Try both signs of every candidate on explore runs; nothing here is a claim."""
    from gmb_hf.benchmark.locking import explore as search
    from gmb_hf.benchmark.locking import write_explored
    from gmb_hf.design.lint import warning

    prepared, _ = _prepare(context, runs, prereg, preset)
    if prepared.near.pairs:
        show.say(str(warning("near_copies", note=prepared.near.note())))
    with show.counting("exploring", len(prepared.design.candidates) + 2) as done:
        rows = search(prepared.design, prepared, on_done=done)
    show.explored(rows, out, prepared.design.primary_run_budget)
    following = lock_next(context, runs, prepared.log, prepared.design, None)
    show.written([] if out is None else [write_explored(rows, out)], following=following)


def lock(
    context: typer.Context,
    runs: list[str] | None = None,
    prereg: Path | None = None,
    preset: str | None = None,
    score: list[str] | None = None,
    pretrained: list[str] | None = None,
    sign: int = 1,
    sees_test_labels: bool | None = None,
    explore_share: float | None = None,
    step_column: str = "step",
    run_column: str = "run",
    out: Path | None = None,
    strict_lint: bool = False,
    explain: bool = False,
    made: Path | None = None,
    force: bool = False,
    publish: str | None = None,
    private: bool = False,
) -> None:
    """Freeze the design and the thresholds found on explore runs; unsound designs are refused.

    Options:
        runs: Explore logs, or with --explore-share all of them: files, folders or globs.
        out: Where to write the lock.
        explain: Print each frozen choice in a sentence.
        made, --lock: With --explain or --publish: a lock that is there.

    More options:
        strict_lint: Refuse a design with warnings as well.
        force: Replace a lock that is there.
        publish: Commit it to this dataset of the Hub, which shows that it came first.
    """
    from gmb_hf.benchmark.locking import declared_design, make_lock
    from gmb_hf.design.explain import explain as sentences
    from gmb_hf.design.lock import Lock

    def show_and_publish(path: Path, frozen: Lock) -> None:
        for sentence in sentences(frozen) if explain else ():
            show.say(f"- {sentence}")
        if publish:
            from gmb_hf.hub.locks import publish_lock

            done = publish_lock(path, publish, private=private)
            show.say_whole("published", f"{done.url} ({done.commit})")

    given = runs or []
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
        judging = show.command("evaluate", runs="HELD_OUT_RUNS", lock=made, out=_free_results())
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
    prepared, aside = _prepare(context, given, prereg, preset)
    with options.said_in_options():
        declared_design(prepared)
    with show.counting("locking", len(prepared.design.candidates) + 2) as done:
        made_now = make_lock(prepared.design, prepared, strict_lint=strict_lint, on_done=done)
    frozen, findings = made_now
    for finding in findings:
        show.say(str(finding))
    frozen.write(out)
    show_and_publish(out, frozen)
    # Where explore and held-out runs lie together, evaluate takes its own from among them.
    held_out = given if aside else ["HELD_OUT_RUNS"]
    words = options.again(context, *_COLUMNS, of_design=False)
    judging = show.command("evaluate", "--runs", *held_out, *words, lock=out, out=_free_results())
    show.written([out], following=judging)


_OF_A_FILE = {"out", "force"}  # of `gmb prereg init` without runs
# What a next command is told again, beside the fields of the design.
_SAID = ("score", "pretrained", "sign", "sees_test_labels")
_COLUMNS = ("step_column", "run_column")


def _read(context: typer.Context, runs: Sequence[str]) -> RunLog:
    """The runs, by the columns that were named."""
    from gmb_hf.hub.sources import read_runs

    return read_runs(list(runs), **{name: context.params[name] for name in _COLUMNS})


def _design(
    context: typer.Context, log: RunLog, prereg: Path | None = None, preset: str | None = None
) -> Design:
    """The design of a file, a preset, the logs or, where none of them has one, of the options.

    Raises:
        InputError: nothing says which design, or an option does not fit it.
    """
    from gmb_hf.benchmark.own_runs import own_design, own_score, split
    from gmb_hf.hub.sources import design_for, has_design

    fields, given = options.design_fields(context), context.params
    scores, share = options.scores_of(context), given["explore_share"]
    known = {name: given[name] for name in ("sign", "sees_test_labels")}
    options.check_sign(given["sign"])
    if not given["score"] and known.keys() & options.typed(context).keys():
        raise InputError("--sign and --sees-test-labels are of --score; name one")
    options.refuse_candidates(fields, scores)
    own = prereg is None and preset is None and not has_design(log)
    if own:
        options.require_own(context, "or pass --prereg FILE, or --preset NAME")
    with options.said_in_options(every=own):
        if own:
            design = own_design(log, scores, **known, **fields)
        else:
            if scores:
                fields["candidates"] = [own_score(name, log, **known) for name in scores]
            design = design_for(log, prereg, preset, fields)
        if share is not None:
            if design.n_eval is not None:
                raise InputError(
                    "--explore-share: the design names its held-out runs already; leave it out"
                )
            design = design.replace(**split(log, fraction("--explore-share", share)))
    options.check_event(context, design.event_type)
    return design


def _prepare(
    context: typer.Context, given: list[str], prereg: Path | None, preset: str | None
) -> tuple[Prepared, int]:
    """Explore runs by the design that was asked for, and how many were set aside."""
    from gmb_hf.benchmark.prepare import prepare
    from gmb_hf.hub.sources import naming_panels, part_of

    log = _read(context, given)
    design = _design(context, log, prereg, preset)
    part, aside = part_of(log, design, "explore")
    if aside:
        show.say(f"{aside} runs were set aside: they are held out, or not declared.")
    with naming_panels(log):
        prepared = prepare(part, design)
    show.notes(prepared.left_out)
    return prepared, aside


def lock_next(
    context: typer.Context, runs: Sequence[str], log: RunLog, design: Design, share: float | None
) -> str:
    """The command that locks on these runs what was tried on them, by all that was typed.

    `share` of the runs are explored, where the design does not say which ones are.
    """
    from gmb_hf.benchmark.own_runs import undeclared_parts

    typed = options.typed(context)
    words = options.again(context, "prereg", "preset", *_SAID, *_COLUMNS)
    if "explore_share" in typed:
        words += options.again(context, "explore_share", of_design=False)
    elif share is not None and design.n_eval is None:
        words += ["--explore-share", f"{share:g}"]
    split = share is not None or "explore_share" in typed
    if undeclared_parts(design, log, split=split) and "undeclared" not in typed:
        words.append("--undeclared")
    lock = show.free("lock.yaml")  # one that is there is not replaced
    return show.command("lock", "--runs", *runs, *words, out=lock)


def _free_results() -> str:
    """A folder that holds no results: those of another design or lock are not replaced."""
    return show.free("results", "verdict", holding="results.yaml")


# How many runs to train.

_ALONE = (Column("held-out runs for one requirement alone"), Column("runs", "{:,}".format))
_TO_TRAIN = (
    Column("calibrating", "{:,}".format, take="calibration"),
    Column("explore", "{:,}".format, take="explore"),
)
_TO_JUDGE = (
    Column("held-out", "{:,}".format, take="held_out"),
    Column("in all", "{:,}".format, take="total"),
)


def _rate(row: PlanRow, at: float) -> float | None:
    return row.budgets[at] or None  # 0 where no threshold is finite


def _with_choice(found: Plan | RunsPlan, columns: Sequence[Column]) -> Table:
    """The rows of a plan; the one that it chooses is bold."""
    chosen = [place for place, row in enumerate(found.rows) if row is found.chosen]
    return replace(Table.of(found.rows, columns), chosen=chosen[0] if chosen else None)


def show_plan_by_runs(found: Plan, measured: Pilot | None) -> None:
    """Print what a verdict by runs takes: the plan that decides whether a score may act."""
    from gmb_hf.core.thresholds import in_words

    by_runs = found.by_runs
    assert by_runs is not None
    goal, assumed = by_runs.goal, by_runs.assumed
    budget = f"{in_words(goal.budget)} ({goal.calibration})"
    show.tell("plan_by_runs", budget=budget, assumed=assumed, pilot=measured)
    show.console().print()
    columns = (
        *_TO_TRAIN,
        Column("expected", number, take="expected"),
        Column("90% sure", number, take="upper"),
        Column("detection rate", partial(number, digits=2), take="detection"),
        *_TO_JUDGE,
        Column("transfer", "{:,}".format, take="transfer"),
    )
    show.table(_with_choice(by_runs, columns))
    show.table(Table(_ALONE, list(by_runs.alone.items())))
    show.tell("legend_of_plan_by_runs", style="dim")
    show.console().print()
    show.say("The specification's view, by windows:", style="bold")


def show_plan(found: Plan, measured: Pilot | None, null_draws: int) -> None:
    """Print a plan by windows; `null_draws` is what the design draws of each chance null."""
    goal = found.goal
    show.tell("plan", assumed=found.assumed, pilot=measured)
    show.console().print()
    columns = (
        *_TO_TRAIN,
        *(Column(f"rate at {at:g}", number, take=partial(_rate, at=at)) for at in goal.targets),
        Column("coverage", partial(number, digits=2), take="coverage"),
        *_TO_JUDGE,
    )
    show.table(_with_choice(found, columns))
    show.table(Table(_ALONE, list(found.alone.items())))
    show.tell("legend_of_plan", style="dim")
    best, by_runs = found.chosen, found.by_runs.chosen if found.by_runs else None
    if best is not None and by_runs is not None:
        explore, calibrating = max(
            (best.explore, best.calibration), (by_runs.explore, by_runs.calibration)
        )
        held_out = max(best.held_out or 0, by_runs.held_out or 0)
        runs: Any = {"explore": explore, "calibrating": calibrating, "held_out": held_out}
        show.tell("train_so_many", style="bold", **runs, by_runs=by_runs, power=goal.power)
        show.tell("stability")
    show.tell("draws", goal=goal, needed=found.null_draws, drawn=null_draws)


# Without a pilot nothing is read from the other fields of the design.
_GOAL = """
run_budgets primary_run_budget calibration detection_min
fpr_targets primary_fpr fpr_eps coverage_min event_count_min alpha min_targets_ok looks
max_eval_seeds seeds_eval null_draws protocol
"""
_OF_THE_GOAL = set(_GOAL.split())
_OF_THE_PILOT = {"score", "sign", "step_column", "run_column"}


class PlanCommand(DesignCommand):
    """`gmb plan`, where `--f` is short for the target rates."""

    also: ClassVar[Mapping[str, str]] = {"fpr_targets": "--f"}

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """`--runs` is `--pilot`, as the runs of every other command."""
        return super().parse_args(ctx, ["--pilot" if word == "--runs" else word for word in args])


def plan(
    context: typer.Context,
    detection: float | None = None,
    coverage: float | None = None,
    power: float = 0.8,
    candidates: int | None = None,
    assume_events: float | None = None,
    assume_negatives: float | None = None,
    assume_chance: float | None = None,
    prereg: Path | None = None,
    pilot: list[str] | None = None,
    score: list[str] | None = None,
    sign: int = 1,
    step_column: str = "step",
    run_column: str = "run",
    out: Path | None = None,
) -> None:
    """Say how many explore and held-out runs to train for a verdict, and what each number buys.

    Options:
        detection (share = 0.5): Share of events that its first alarm detects.
        coverage (share = 0.5): By windows: share of events that the score covers.
        power (share): Probability of a conclusive verdict, if the score is so good.
        candidates (number = those of --score or --prereg, else 1): Scores in the lock.
        prereg: Take the design from this preregistration.
        pilot: Measure instead of assume: logs of pilot runs; --runs is the same.
        score (column): Pilot: a column, or an indicator; of several the one that detects most.
        sign: Pilot: +1, or -1 where low scores mean risk.

    More options:
        assume_events (share = 0.9): Share of runs that have an event.
        assume_negatives (share = 0.75): Share of runs that have negative windows.
        assume_chance (share): Share of events by chance at equal cost; left out unless given.
        step_column: Pilot: column of steps.
        run_column: Pilot: column that tells runs apart.
        out: Write the plan, as .json or .yaml; else nothing is.
    """
    from gmb_hf.benchmark.own_runs import own_design, own_score
    from gmb_hf.benchmark.planning import check_ending, plan_runs, write_plan
    from gmb_hf.benchmark.planning import pilot as measure
    from gmb_hf.design.design import Design
    from gmb_hf.hub.sources import read_runs

    if out is not None:
        check_ending(out)
    given = pilot or []
    fields = options.design_fields(context)
    if not given:
        # Options that describe a pilot would be passed over.
        for name, flag in options.typed(context).items():
            if name in {*_OF_THE_PILOT, *fields} - _OF_THE_GOAL:
                raise InputError(f"{flag} describes a pilot: give its logs with --pilot")
    log = None
    options.check_sign(sign)
    if prereg is not None:
        design = Design.read(prereg)
        with options.said_in_options():
            design = design.replace(**fields)
        log = read_runs(given, step_column=step_column, run_column=run_column) if given else None
    else:
        if given:
            options.require_own(context, "or pass --prereg FILE")
        targets = fields.setdefault("fpr_targets", [0.05])
        if "primary_run_budget" in fields:
            fields.setdefault("run_budgets", [fields["primary_run_budget"]])
        fields.setdefault("min_targets_ok", min(2, len(targets)))
        fields.setdefault("primary_fpr", 0.05 if 0.05 in targets else targets[0])
        with options.said_in_options():
            # Nothing is read from these lengths without a pilot.
            design = Design.of({"horizon": 1, "safe_gap": 2, **fields})
            if given:
                log = read_runs(given, step_column=step_column, run_column=run_column)
                design = own_design(log, **fields)
    options.check_event(context, design.event_type)
    measured = None
    if log is not None:
        with options.said_in_options(every=True) if prereg is None else nullcontext():
            if score:
                design = design.replace(
                    candidates=[own_score(name, log, sign=sign) for name in score]
                )
            measured = measure(design, log, best=bool(score))
    found = plan_runs(
        design,
        measured,
        power=power,
        candidates=candidates,
        detection=detection,
        coverage=coverage,
        event_share=assume_events,
        negative_share=assume_negatives,
        chance=assume_chance,
    )
    show.answered(plan=found, pilot=measured)
    show_plan_by_runs(found, measured)
    show_plan(found, measured, design.null_draws)
    following = show.command("prereg", "init", out="prereg.yaml")
    if prereg is not None:
        following = show.command("lock", prereg=prereg, runs="EXPLORE_RUNS", out="lock.yaml")
    elif log is not None:
        following = lock_next(context, ["EXPLORE_RUNS"], log, design, None)
    show.written([write_plan(found, out)] if out is not None else [], following=following)
    assert found.by_runs is not None
    if found.by_runs.chosen is None:
        most = found.by_runs.rows[-1].calibration
        raise CheckFailed(
            f"no plan: up to {most:,} calibration runs and 100,000 held-out runs do not reach a "
            f"power of {power:g}"
        )
