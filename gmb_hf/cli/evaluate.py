"""`gmb evaluate`: held-out runs by a lock, or a column of anybody's logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def evaluate(
    runs: Annotated[list[str], typer.Option(help="Run logs: files, folders or quoted globs.")],
    more_runs: Annotated[
        list[str] | None, typer.Argument(hidden=True, help="What an unquoted glob leaves.")
    ] = None,
    lock: Annotated[Path | None, typer.Option(help="Judge held-out runs by this lock.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("results"),
    score: Annotated[
        list[str] | None,
        typer.Option(help="A column, or an indicator, to judge; may be given several times."),
    ] = None,
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
    burn_in: Annotated[int, typer.Option(help="Ignore windows before this step.")] = 0,
    event_after: Annotated[int | None, typer.Option(help="No event before this step.")] = None,
    fpr: Annotated[str, typer.Option(help="Target false positive rates.")] = "0.01,0.05,0.10",
    primary_fpr: Annotated[float, typer.Option(help="The rate that the verdict is about.")] = 0.05,
    sign: Annotated[int, typer.Option(help="+1: high scores mean risk; -1: low ones do.")] = 1,
    sees_test_labels: Annotated[
        bool | None,
        typer.Option(
            "--sees-test-labels/--no-test-labels", help="Whether held-out labels went into it."
        ),
    ] = None,
    explore_runs: Annotated[
        list[str] | None, typer.Option(help="Find the thresholds on these runs.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="strict or v0.4.")] = "strict",
    lead_target: Annotated[int, typer.Option(help="A warning this early is a success.")] = 200,
    lead_min: Annotated[float, typer.Option(help="The least median lead, in steps.")] = 50,
    step_column: Annotated[str, typer.Option(help="Column of steps.")] = "step",
    run_column: Annotated[str, typer.Option(help="Column that tells runs apart.")] = "run",
    nan: Annotated[str, typer.Option(help="NaN scores: error, or ignore.")] = "error",
    require_supported: Annotated[
        bool, typer.Option("--require-supported", help="Exit 1 unless a score is supported.")
    ] = False,
) -> None:
    """Judge scores on held-out runs: may any of them raise an alarm?"""
    from gmb_hf.cli import show
    from gmb_hf.preregistration.lock import Lock
    from gmb_hf.preregistration.prereg import Prereg
    from gmb_hf.runs import RunLog
    from gmb_hf.validation import CheckFailed, InputError, choose
    from gmb_hf.workflows.evaluating import evaluate_lock, evaluate_runs
    from gmb_hf.workflows.publishing import publish
    from gmb_hf.workflows.sources import held_out_part

    def read(sources: list[str]) -> RunLog:
        return RunLog.read(sources, step_column=step_column, run_column=run_column)

    if lock is not None:
        if score or horizon is not None or safe_gap is not None:
            raise InputError("--lock fixes the design; leave out --score, --horizon, --safe-gap")
        frozen = Lock.read(lock)
        log, aside = held_out_part(read([*runs, *(more_runs or [])]), frozen.prereg)
        if aside:
            show.say(f"{aside} runs were set aside: they are not declared as held out.")
        with show.counting("judging", len(frozen.x_lock.candidates)) as done:
            evaluation = evaluate_lock(frozen, log, lock_path=str(lock), on_done=done)
        following = f"read {out / 'report.md'}"
    else:
        missing = [
            flag
            for flag, value in (
                ("--score", score),
                ("--horizon", horizon),
                ("--safe-gap", safe_gap),
            )
            if not value
        ]
        if missing or not score or horizon is None or safe_gap is None:
            raise InputError(
                f"{', '.join(missing)} missing: without --lock say what to judge, e.g. "
                "--score COLUMN --metric COLUMN --horizon 2000 --safe-gap 4000"
            )
        choose("protocol", protocol, ("strict", "v0.4"), where="--protocol")
        choose("value", nan, ("error", "ignore"), where="--nan")
        if sign not in (1, -1):
            raise InputError(f"--sign must be +1 or -1, got {sign}")
        targets = _rates(fpr)
        design = Prereg.minimal(
            horizon=horizon,
            safe_gap=safe_gap,
            metric=metric,
            w_event=window,
            jump_threshold=jump,
            theta_floor=floor,
            event_t_min=event_after,
            burn_in=burn_in,
            fpr_targets=targets,
            min_targets_ok=min(2, len(targets)),
            primary_fpr=primary_fpr,
            protocol=protocol,
            lead_time_target=lead_target,
            lead_time_median_min=lead_min,
            nan=nan,
            candidates=[
                {"name": name, "x_sign": sign, "x_sees_test_labels": sees_test_labels}
                for name in score
            ],
        )
        log = read([*runs, *(more_runs or [])])
        explored = read(explore_runs) if explore_runs else None
        with show.counting("judging", len(score) + 2) as done:
            evaluation = evaluate_runs(design, log, explore=explored, on_done=done)
        following = (
            f"read {out / 'report.md'}; for a claim, preregister (gmb prereg init) and lock "
            "(gmb lock)"
        )
    paths = publish(evaluation, out, next_command=following)
    show.verdicts(evaluation.results, out / "report.md")
    show.written(paths, following=following)
    if require_supported and not any(
        item.x_alarm_eligible for item in evaluation.results.indicators
    ):
        raise CheckFailed("no score is SUPPORTED_FOR_ALARM")


def _rates(text: str) -> list[float]:
    from gmb_hf.validation import InputError, fraction

    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--fpr {text!r}: write rates with commas, e.g. 0.01,0.05,0.10") from None
    return [fraction("--fpr", rate) for rate in rates]
