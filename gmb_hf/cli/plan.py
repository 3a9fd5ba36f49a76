"""`gmb plan`: before any training, the runs that a verdict will need."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gmb_hf.cli import screen as show
from gmb_hf.cli.options import check_sign, rates, typed
from gmb_hf.escape import number
from gmb_hf.tables import Column, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from gmb_hf.benchmark.planning import Pilot
    from gmb_hf.design.design import Design
    from gmb_hf.design.power import Assumed, Goal, Plan
    from gmb_hf.runs.runlog import RunLog


def show_plan(found: Plan, measured: Pilot | None, null_draws: int) -> None:
    """Print a plan; `null_draws` is what the design draws of each chance null."""
    goal = found.goal
    show.say(_suppositions(found, measured))
    show.console().print()
    columns = (
        Column("calibrating", align="r"),
        Column("explore", align="r"),
        *(Column(f"rate at {target:g}", align="r") for target in goal.targets),
        Column("coverage", align="r"),
        Column("held-out", align="r"),
        Column("in all", align="r"),
    )
    rows = []
    for row in found.rows:
        cells = [
            f"{row.calibration:,}",
            f"{row.explore:,}",
            *(number(rate) if rate else "–" for rate in row.budgets.values()),
            number(row.coverage, 2),
            "–" if row.held_out is None else f"{row.held_out:,}",
            "–" if row.total is None else f"{row.total:,}",
        ]
        rows.append([Text(cell, style="bold" if row is found.chosen else "") for cell in cells])
    show.table(Table(columns, rows))
    alone = (Column("held-out runs for one requirement alone"), Column("runs", "{:,}".format))
    show.table(Table(alone, list(found.alone.items())))
    show.say(
        "calibrating: explore runs with negative windows. explore: to train, so that there are so "
        "many of those. rate: the false positive rate to expect; –: no finite threshold. held-out "
        "–: no number of runs is enough.",
        style="dim",
    )
    if found.chosen is not None:
        show.say(_advice(found), style="bold")
    enough = (
        f"{null_draws:,} are enough"
        if null_draws >= found.null_draws
        else f"set x_null_draws, which is {null_draws:,}"
    )
    scores = "score" if goal.candidates == 1 else "scores"
    show.say(
        f"Holm over {goal.candidates:,} {scores} at {goal.alpha:g} takes {found.null_draws:,} "
        f"draws of each chance null: {enough}."
    )


def _suppositions(found: Plan, measured: Pilot | None) -> str:
    assumed, goal = found.assumed, found.goal
    windows = assumed.windows[goal.primary]
    rate = goal.primary
    scatter = (rate * (1 - rate) / windows) ** 0.5
    chance = (
        "chance is left out (--assume-chance)"
        if assumed.chance is None
        else f"chance covers {assumed.chance:.2f}"
    )
    if measured is None:
        source, coverage = "Supposed", f"coverage {assumed.coverage:.2f} at whatever rate"
    else:
        source = f"From {measured.n_runs:,} pilot runs with {measured.n_events:,} events"
        interval = measured.coverage_interval(assumed)
        coverage = (
            f"coverage {assumed.coverage:.2f} [{interval.low:.2f}, {interval.high:.2f}] at the "
            "rate that is bought (to plan for less: --coverage)"
        )
    return (
        f"{source}: {coverage}; rates of runs that scatter by {scatter:.3f} around {rate:g}, as "
        f"with {windows:.1f} independent negative windows a run; an event in "
        f"{assumed.event_share:.0%} of runs, negative windows in {assumed.negative_share:.0%}; "
        f"{chance}."
    )


def _advice(found: Plan) -> str:
    goal, row = found.goal, found.chosen
    if row is None or row.held_out is None:
        return ""
    return (
        f"Train {row.explore:,} explore runs, of which {row.calibration:,} should have negative "
        f"windows and buy an expected rate of {row.budgets[goal.primary]:.3f} at {goal.primary:g}, "
        f"and {row.held_out:,} held-out runs: a score as good as supposed is then supported with "
        f"a probability of about {goal.power:.0%}."
    )


# Without a pilot, supposed unless said otherwise.
_COVERAGE, _WINDOWS, _EVENTS, _NEGATIVES = 0.5, 10.0, 0.9, 0.75
# Beside those of `gmb evaluate`: options in place of the fields that they set.
_OPTION_OF = {
    "operating_points.fpr_eps": "--eps",
    "decision_thresholds.coverage_at_0_05_min": "--coverage-min",
    "x_event_count_min": "--events-min",
    "x_alpha": "--alpha",
    "x_nan must": "--nan must",
}
_EVENT_AND_WINDOWS = {
    "metric",
    "horizon",
    "safe_gap",
    "window",
    "jump",
    "floor",
    "event_after",
    "burn_in",
}
_OF_THE_DESIGN = _EVENT_AND_WINDOWS | {
    "f",
    "primary_fpr",
    "eps",
    "coverage_min",
    "event_count_min",
    "alpha",
}
_OF_THE_PILOT = _EVENT_AND_WINDOWS | {"score", "sign", "nan", "step_column", "run_column"}


def plan(
    context: typer.Context,
    f: Annotated[
        str, typer.Option("--f", "--fpr", help="Target false positive rates, e.g. .05 or .05,.10.")
    ] = "0.05",
    coverage: Annotated[
        float | None,
        typer.Option(help="Share of events that the score warns of, at the rate it is given."),
    ] = None,
    power: Annotated[
        float, typer.Option(help="Probability of a conclusive verdict, if the score is so good.")
    ] = 0.8,
    primary_fpr: Annotated[
        float | None, typer.Option(help="The rate that the verdict is about; 0.05, or the first.")
    ] = None,
    eps: Annotated[float, typer.Option(help="Tolerance above a target.")] = 0.01,
    coverage_min: Annotated[float, typer.Option(help="Least coverage that passes.")] = 0.30,
    event_count_min: Annotated[
        int, typer.Option("--events-min", help="Least number of held-out events.")
    ] = 30,
    candidates: Annotated[
        int | None, typer.Option(help="Scores in the lock; 1, or those of --prereg.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Level of the test against chance.")] = 0.05,
    assume_windows: Annotated[
        float | None,
        typer.Option(
            help="Independent negative windows a run: runs' rates vary by f(1-f)/this. [10]"
        ),
    ] = None,
    assume_events: Annotated[
        float | None, typer.Option(help="Share of runs that have an event. [0.9]")
    ] = None,
    assume_negatives: Annotated[
        float | None, typer.Option(help="Share of runs that have negative windows. [0.75]")
    ] = None,
    assume_chance: Annotated[
        float | None, typer.Option(help="Coverage by chance at equal cost; left out unless given.")
    ] = None,
    prereg: Annotated[
        Path | None, typer.Option(help="Take the design from this preregistration.")
    ] = None,
    pilot: Annotated[
        list[str] | None, typer.Option(help="Measure instead of assume: logs of pilot runs.")
    ] = None,
    more_runs: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="What an unquoted glob leaves.")
    ] = None,
    score: Annotated[str | None, typer.Option(help="Pilot: a column, or an indicator.")] = None,
    metric: Annotated[
        str, typer.Option(help="Pilot: column that the event is read from.")
    ] = "test_acc",
    horizon: Annotated[
        int | None, typer.Option(help="Pilot: steps before the event that are early warning.")
    ] = None,
    safe_gap: Annotated[
        int | None, typer.Option(help="Pilot: steps before the event up to which alarms are false.")
    ] = None,
    window: Annotated[int, typer.Option(help="Pilot: window of the jump, in steps.")] = 50,
    jump: Annotated[float, typer.Option(help="Pilot: rise of the metric in a jump.")] = 0.15,
    floor: Annotated[
        float | None, typer.Option(help="Pilot: level that the metric must reach.")
    ] = None,
    event_after: Annotated[
        int | None, typer.Option(help="Pilot: no event before this step.")
    ] = None,
    burn_in: Annotated[int, typer.Option(help="Pilot: ignore windows before this step.")] = 0,
    sign: Annotated[int, typer.Option(help="Pilot: +1, or -1 where low scores mean risk.")] = 1,
    nan: Annotated[str, typer.Option(help="Pilot: NaN scores: error, or ignore.")] = "error",
    step_column: Annotated[str, typer.Option(help="Pilot: column of steps.")] = "step",
    run_column: Annotated[str, typer.Option(help="Pilot: column that tells runs apart.")] = "run",
    out: Annotated[
        Path | None, typer.Option(help="Write the plan, as .json or .yaml; else nothing is.")
    ] = None,
) -> None:
    """Say how many explore and held-out runs to train for a verdict, and what each number buys."""
    from gmb_hf.benchmark.planning import check_ending, goal_of, write_plan
    from gmb_hf.cli import screen as show
    from gmb_hf.design.design import Design
    from gmb_hf.design.power import plan as make_plan
    from gmb_hf.errors import CheckFailed, InputError, fraction
    from gmb_hf.hub.sources import read_runs

    if out is not None:
        check_ending(out)
    fraction("--power", power)
    if candidates is not None and candidates < 1:
        raise InputError(f"--candidates must be at least 1, got {candidates}")
    sources = [*(pilot or []), *(more_runs or [])]
    if not sources:
        _refuse(context, _OF_THE_PILOT, "describes a pilot: give its logs with --pilot")
    if prereg is not None:
        _refuse(context, _OF_THE_DESIGN, "is fixed by --prereg: leave it out")
        design = Design.read(prereg)
    else:
        if sources and not (score and horizon and safe_gap):
            raise InputError(
                "--pilot needs --score COLUMN, --horizon H and --safe-gap G (and --metric COLUMN), "
                "or --prereg FILE"
            )
        try:
            design = Design.minimal(
                # Nothing is read from these lengths without a pilot.
                horizon=horizon or 1,
                safe_gap=safe_gap or 2,
                metric=metric,
                w_event=window,
                jump_threshold=jump,
                theta_floor=floor,
                event_t_min=event_after,
                burn_in=burn_in,
                nan=nan,
                alpha=alpha,
                fpr_eps=eps,
                coverage_min=coverage_min,
                event_count_min=event_count_min,
                **_targets(f, primary_fpr),
            )
        except InputError as error:
            raise InputError(_in_options(str(error))) from error
    goal = goal_of(design, power=power, candidates=candidates)
    shares = {
        "coverage": _share("--coverage", coverage),
        "event_share": _share("--assume-events", assume_events),
        "negative_share": _share("--assume-negatives", assume_negatives),
        "chance": _share("--assume-chance", assume_chance),
    }
    typed = {name: value for name, value in shares.items() if value is not None}
    if assume_windows is not None and not 1 <= assume_windows < float("inf"):
        raise InputError(f"--assume-windows must be a number of at least 1, got {assume_windows:g}")
    measured = None
    if sources:
        log = read_runs(sources, step_column=step_column, run_column=run_column)
        measured = _pilot(log, design, score, sign, typed_design=prereg is None)
    supposed = _supposed(goal, measured, typed, assume_windows)
    if "coverage" in typed and typed["coverage"] <= goal.coverage_min:
        raise InputError(
            f"--coverage {typed['coverage']:g} must exceed the minimum {goal.coverage_min:g}: what "
            "lies at it is never surely above it"
        )
    found = make_plan(goal, supposed)
    show_plan(found, measured, design.null_draws)
    following = shlex.join(["gmb", "prereg", "init", "--out", "prereg.yaml"])
    if prereg is not None:
        following = shlex.join(["gmb", "lock", "--prereg", str(prereg), "--runs", "EXPLORE_RUNS"])
    show.written([write_plan(found, out)] if out is not None else [], following=following)
    if found.chosen is None:
        most = found.rows[-1].calibration
        raise CheckFailed(
            f"no plan: up to {most:,} calibration runs and 100,000 held-out runs do not reach a "
            f"power of {power:g}"
        )


def _supposed(
    goal: Goal, measured: Pilot | None, typed: dict[str, float], windows: float | None
) -> Callable[[int], Assumed]:
    """What to suppose for each number of calibration runs; what was typed goes before all."""
    from gmb_hf.design.power import Assumed

    fixed: dict[str, Any] = dict(typed)
    if windows is not None:
        fixed["windows"] = dict.fromkeys(goal.targets, windows)
    if measured is not None:
        return lambda m: replace(measured.assumed(m), **fixed)
    standard: dict[str, Any] = {
        "coverage": _COVERAGE,
        "windows": dict.fromkeys(goal.targets, _WINDOWS),
        "event_share": _EVENTS,
        "negative_share": _NEGATIVES,
    }
    assumed = Assumed(**{**standard, **fixed})
    return lambda m: assumed


def _pilot(
    log: RunLog, design: Design, score: str | None, sign: int, *, typed_design: bool
) -> Pilot:
    from gmb_hf.benchmark.planning import pilot
    from gmb_hf.benchmark.prepare import own_score
    from gmb_hf.errors import InputError

    check_sign(sign)
    try:
        if score is not None:
            design = design.replace(candidates=[own_score(score, log, sign=sign)])
        return pilot(design, log)
    except InputError as error:
        raise InputError(_in_options(str(error)) if typed_design else str(error)) from error


def _in_options(message: str) -> str:
    from gmb_hf.cli.evaluate import in_options

    for field, option in _OPTION_OF.items():
        message = message.replace(field, option)
    return in_options(message)


def _targets(text: str, primary: float | None) -> dict[str, Any]:
    targets = rates(text)
    if primary is None:
        primary = 0.05 if 0.05 in targets else targets[0]
    return {
        "fpr_targets": targets,
        "min_targets_ok": min(2, len(targets)),
        "primary_fpr": primary,
    }


def _share(option: str, value: float | None) -> float | None:
    from gmb_hf.errors import InputError

    if value is not None and not 0 < value <= 1:
        raise InputError(f"{option} must be a number above 0 and at most 1, got {value:g}")
    return value


def _refuse(context: typer.Context, names: set[str], why: str) -> None:
    """Options that would be passed over are refused."""
    from gmb_hf.errors import InputError

    for name, option in typed(context).items():
        if name in names:
            raise InputError(f"{option} {why}")
