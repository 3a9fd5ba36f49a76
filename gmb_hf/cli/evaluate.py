"""`gmb evaluate`: held-out runs by a lock, or a column of anybody's logs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmb_hf.cli import compat, event_options
from gmb_hf.cli.event_options import (
    EventType,
    PlateauCheckpoints,
    PlateauLevel,
    PlateauRegression,
    Quantile,
    Radius,
    Tolerance,
)
from gmb_hf.cli.options import check_sign, rates, typed

if TYPE_CHECKING:
    from gmb_hf.runs import RunLog
    from gmb_hf.workflows.judging import Evaluation

# Without a lock there is no file: errors speak in the options that were typed.
_OPTION_OF = {
    "prereg: ": "",
    **event_options.OPTION_OF,
    "labels.positive_window.horizon_steps": "--horizon",
    "labels.positive_window.lead_time_target": "--lead-target",
    "labels.negative_window.safe_gap_steps": "--safe-gap",
    "event.window_W_event": "--window",
    "event.jump_threshold": "--jump",
    "event.x_event_t_min": "--event-after",
    "event.x_theta_floor": "--floor",
    "decision_thresholds.lead_time_median_min": "--lead-min",
    "operating_points.fpr_targets": "--fpr",
    "operating_points: fpr_targets": "--fpr",
    "x_primary_fpr": "--primary-fpr",
    "x_burn_in": "--burn-in",
    "x_nan: ignore": "--nan ignore",
    "candidates: the name": "--score: the name",
    # The linter names fields without their sections.
    "lead_time_median_min": "--lead-min",
    "lead_time_target": "--lead-target",
    "safe_gap_steps": "--safe-gap",
    "horizon_steps": "--horizon",
    "window_W_event": "--window",
    "x_event_t_min or x_theta_floor": "--event-after or --floor",
    "set x_event_t_min": "set --event-after",
    "set x_require_new_max: true": "set x_require_new_max: true in a preregistration",
}
_COMPAT = "Protocol compat"
_BESIDE_A_LOCK = {
    "runs",
    "more_runs",
    "lock",
    "out",
    "step_column",
    "run_column",
    "require_supported",
    "help",
}


def evaluate(
    context: typer.Context,
    runs: Annotated[
        list[str],
        typer.Option(help="Run logs: files, folders, globs, or hf://datasets/ORG/NAME@REV."),
    ],
    more_runs: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="What an unquoted glob leaves.")
    ] = None,
    lock: Annotated[Path | None, typer.Option(help="Judge held-out runs by this lock.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    score: Annotated[
        list[str] | None,
        typer.Option(help="A column, or an indicator, to judge; may be given several times."),
    ] = None,
    event: EventType = "E_jump",
    metric: Annotated[str, typer.Option(help="Column that the event is read from.")] = "test_acc",
    horizon: Annotated[
        int | None, typer.Option(help="Steps before the event in which an alarm is a warning.")
    ] = None,
    safe_gap: Annotated[
        int | None, typer.Option(help="Steps before the event up to which an alarm is false.")
    ] = None,
    window: Annotated[int, typer.Option(help="Window of the jump, in steps.")] = 50,
    jump: Annotated[float, typer.Option(help="Rise of the metric that makes a jump.")] = 0.15,
    floor: Annotated[
        float | None, typer.Option(help="Level that the metric must reach in the jump.")
    ] = None,
    plateau_checkpoints: PlateauCheckpoints = None,
    plateau_level: PlateauLevel = None,
    plateau_regression: PlateauRegression = None,
    quantile: Quantile = None,
    radius: Radius = None,
    tolerance: Tolerance = None,
    burn_in: Annotated[int, typer.Option(help="Ignore windows before this step.")] = 0,
    event_after: Annotated[int | None, typer.Option(help="No event before this step.")] = None,
    fpr: Annotated[str, typer.Option(help="Target false positive rates.")] = "0.01,0.05,0.10",
    primary_fpr: Annotated[float, typer.Option(help="The rate that the verdict is about.")] = 0.05,
    sign: Annotated[int, typer.Option(help="+1: high scores mean risk; -1: low ones do.")] = 1,
    sees_test_labels: Annotated[
        bool | None,
        typer.Option(
            "--sees-test-labels/--no-test-labels",
            help="Whether held-out labels went into these columns.",
        ),
    ] = None,
    explore_runs: Annotated[
        list[str] | None, typer.Option(help="Find the thresholds on these runs.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="strict, v0.4, or compat (the reference's own numbers).")
    ] = "strict",
    lead_target: Annotated[int, typer.Option(help="A warning this early is a success.")] = 200,
    lead_min: Annotated[float, typer.Option(help="The least median lead, in steps.")] = 50,
    step_column: Annotated[str, typer.Option(help="Column of steps.")] = "step",
    run_column: Annotated[str, typer.Option(help="Column that tells runs apart.")] = "run",
    nan: Annotated[str, typer.Option(help="NaN scores: error, or ignore.")] = "error",
    require_supported: Annotated[
        bool, typer.Option("--require-supported", help="Exit 1 unless a score is supported.")
    ] = False,
    thresholds: Annotated[
        str | None,
        typer.Option(help="Thresholds from outside, one a target.", rich_help_panel=_COMPAT),
    ] = None,
    last_rows: Annotated[
        int | None, typer.Option(help="Keep the end of each log.", rich_help_panel=_COMPAT)
    ] = None,
    jump_checkpoints: Annotated[
        int, typer.Option(help="The jump, and the mean before it.", rich_help_panel=_COMPAT)
    ] = 2,
    hold_checkpoints: Annotated[
        int, typer.Option(help="How long the level must hold.", rich_help_panel=_COMPAT)
    ] = 5,
    fall_back: Annotated[
        float, typer.Option(help="How far it may fall back.", rich_help_panel=_COMPAT)
    ] = 0.03,
    smoothing: Annotated[
        int, typer.Option(help="Checkpoints to average a score over.", rich_help_panel=_COMPAT)
    ] = 1,
) -> None:
    """Judge scores on held-out runs: may any of them raise an alarm?"""
    from gmb_hf.cli import show
    from gmb_hf.reporting.answer import answer
    from gmb_hf.validation import CheckFailed, InputError
    from gmb_hf.workflows.candidates import own_score
    from gmb_hf.workflows.looks import looks_path
    from gmb_hf.workflows.publishing import publish
    from gmb_hf.workflows.run_sources import read_runs

    def read(sources: list[str]) -> RunLog:
        return read_runs(sources, step_column=step_column, run_column=run_column)

    protocol = _one_of("--protocol", protocol, ("strict", "v0.4", "compat"))
    if protocol == "compat":
        compat.reproduce(context)
        return
    sources = [*runs, *(more_runs or [])]
    if lock is not None:
        _refuse_design_options(context)
        evaluation = _by_lock(lock, read(sources))
        following = shlex.join(["gmb", "lock", "--explain", "--lock", str(lock)])
    else:
        lacking = [
            flag
            for flag, value in (
                ("--score", score),
                ("--horizon", horizon),
                ("--safe-gap", safe_gap),
            )
            if not value
        ]
        if lacking:
            raise InputError(
                f"{', '.join(lacking)} missing: without --lock say what to judge, e.g. "
                "--score COLUMN --metric COLUMN --horizon 2000 --safe-gap 4000"
            )
        compat.refuse_own(context)
        targets = rates(fpr)
        design: dict[str, Any] = {
            "horizon": horizon,
            "safe_gap": safe_gap,
            "event_type": event_options.check_event(context, event),
            "metric": metric,
            "w_event": window,
            "jump_threshold": jump,
            "theta_floor": floor,
            "plateau_checkpoints": plateau_checkpoints,
            "plateau_threshold": plateau_level,
            "plateau_regression": plateau_regression,
            "regime_quantile": quantile,
            "regime_radius": radius,
            "regime_tolerance": tolerance,
            "event_t_min": event_after,
            "burn_in": burn_in,
            "fpr_targets": targets,
            "min_targets_ok": min(2, len(targets)),
            "primary_fpr": primary_fpr,
            "protocol": protocol,
            "lead_time_target": lead_target,
            "lead_time_median_min": lead_min,
            "nan": _one_of("--nan", nan, ("error", "ignore")),
        }
        check_sign(sign)
        log, earlier = read(sources), read(explore_runs) if explore_runs else None
        design["candidates"] = [
            own_score(name, log, sign=sign, sees_test_labels=sees_test_labels)
            for name in score or ()
        ]
        evaluation = _by_options(design, log, earlier)
        following = "gmb prereg init --out prereg.yaml"
    paths = publish(evaluation, out, next_command=following)
    if lock is not None:
        paths.append(looks_path(lock))
    show.verdicts(evaluation.results, out / "report.md")
    show.checklist(evaluation.results, out)
    if lock is None:
        for note in evaluation.results.summary.x_notes:
            show.say(f"note: {in_options(note)}")
        show.say("For a claim, fix the design and lock it before you look at held-out runs.")
    show.written(paths, following=following)
    if require_supported and not answer(evaluation.results).may_alarm:
        raise CheckFailed("no score is SUPPORTED_FOR_ALARM")


def _by_lock(path: Path, log: RunLog) -> Evaluation:
    from gmb_hf.cli import show
    from gmb_hf.preregistration.lock import Lock
    from gmb_hf.workflows.evaluating import evaluate_lock
    from gmb_hf.workflows.sources import held_out_part

    lock = Lock.read(path)
    part, aside = held_out_part(log, lock.prereg)
    if aside:
        show.say(f"{aside} runs were set aside: they are not declared as held out.")
    with show.counting("judging", len(lock.x_lock.candidates)) as done:
        return evaluate_lock(lock, part, lock_path=str(path), keep_looks=True, on_done=done)


def _by_options(design: dict[str, Any], log: RunLog, earlier: RunLog | None) -> Evaluation:
    from gmb_hf.cli import show
    from gmb_hf.preregistration.prereg import Prereg
    from gmb_hf.validation import InputError
    from gmb_hf.workflows.candidates import CONTROLS
    from gmb_hf.workflows.evaluating import evaluate_runs

    try:
        prereg = Prereg.minimal(**design)
        count = len({*CONTROLS, *(candidate.name for candidate in prereg.candidates)})
        with show.counting("judging", count) as done:
            return evaluate_runs(prereg, log, explore=earlier, on_done=done)
    except InputError as error:
        raise InputError(in_options(str(error))) from error


def in_options(message: str) -> str:
    """A message about fields of a preregistration, in the options that set them."""
    for field, option in _OPTION_OF.items():
        message = message.replace(field, option)
    return message


def _refuse_design_options(context: typer.Context) -> None:
    """A lock fixes the design; an option that would change it must not be passed over."""
    from gmb_hf.validation import InputError

    wrong = [option for name, option in typed(context).items() if name not in _BESIDE_A_LOCK]
    if wrong:
        raise InputError(f"--lock fixes the design; leave out {', '.join(wrong)}")


def _one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    from gmb_hf.validation import choose

    return choose("value", value, known, where=option)
