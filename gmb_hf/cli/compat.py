"""`gmb evaluate --protocol compat`: the reference implementation's computation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gmb_hf.cli.options import check_sign, numbers, typed

if TYPE_CHECKING:
    from gmb_hf.benchmark.compat.settings import CompatSettings
    from gmb_hf.benchmark.results import Results

# Parameter of the command -> the reference's setting; what is not typed keeps its published value.
_SETTINGS = {
    "metric": "metric",
    "horizon": "horizon",
    "jump": "delta_jump",
    "floor": "theta_floor",
    "jump_checkpoints": "w_jump",
    "hold_checkpoints": "hold_k",
    "fall_back": "delta_back",
    "smoothing": "smoothing",
    "lead_target": "lead_time_target",
}
OWN = ("jump_checkpoints", "hold_checkpoints", "fall_back", "smoothing", "thresholds", "last_rows")
"""Parameters that no other protocol has."""

_SHARED = {
    "runs",
    "more_runs",
    "out",
    "score",
    "fpr",
    "sign",
    "sees_test_labels",
    "protocol",
    "step_column",
    "run_column",
    "require_supported",
    "help",
}
_WHY_NOT = {
    "lock": "a lock freezes a design and thresholds of strict or v0.4; judge by it without "
    "--protocol compat",
    "explore_runs": "compat finds its thresholds on the runs that it measures, as published; use "
    "--protocol strict, or give thresholds by --thresholds",
    "safe_gap": "the reference has no safe gap: every window that is not positive is negative",
    "window": "the reference's jump is counted in checkpoints; say --jump-checkpoints",
    "nan": "the reference has no rule for NaN; mend the column",
}


def reproduce(context: typer.Context) -> None:
    """Run the command by its parsed parameters."""
    from gmb_hf.cli import show
    from gmb_hf.validation import CheckFailed, InputError, positive_int
    from gmb_hf.workflows import reproducing
    from gmb_hf.workflows.candidates import own_score
    from gmb_hf.workflows.run_sources import read_runs

    _refuse_foreign(context)
    given = context.params
    scores, sign, last_rows = given["score"], given["sign"], given["last_rows"]
    if not scores:
        raise InputError("--score missing: say which column to judge, e.g. --score COLUMN")
    check_sign(sign)
    if last_rows is not None:
        positive_int("--last-rows", last_rows)
    settings = _settings(context)
    log = read_runs(
        [*given["runs"], *(given["more_runs"] or [])],
        step_column=given["step_column"],
        run_column=given["run_column"],
        on_duplicate="sort",
        last_rows=last_rows,
    )
    notes = () if last_rows is None else (f"Only the last {last_rows} rows of each log were read.",)
    found = reproducing.reproduce(
        log,
        [
            own_score(name, log, sign=sign, sees_test_labels=given["sees_test_labels"])
            for name in scores
        ],
        settings,
        notes=notes,
    )
    following = "gmb prereg init --out prereg.yaml"
    paths = reproducing.publish_reproduction(found, given["out"], next_command=following)
    _show(found.results, given["out"] / "report.md")
    show.checklist(found.results, given["out"])
    for note in found.results.summary.x_notes:
        show.say(f"note: {note}")
    show.written(paths, following=following)
    if given["require_supported"]:
        raise CheckFailed("no score is SUPPORTED_FOR_ALARM; with --protocol compat none ever is")


def refuse_own(context: typer.Context) -> None:
    """With another protocol, an option of this one must not be passed over."""
    from gmb_hf.validation import InputError

    wrong = [option for name, option in typed(context).items() if name in OWN]
    if wrong:
        shown = ", ".join(wrong)
        raise InputError(f"only --protocol compat has {shown}; add it, or leave that out")


def _refuse_foreign(context: typer.Context) -> None:
    from gmb_hf.validation import InputError

    for name, option in typed(context).items():
        if name not in _SHARED | {*_SETTINGS, *OWN}:
            why = _WHY_NOT.get(name, "the reference knows nothing of the kind")
            raise InputError(f"--protocol compat does not go with {option}: {why}")


def _settings(context: typer.Context) -> CompatSettings:
    from gmb_hf.benchmark.compat.settings import CompatSettings
    from gmb_hf.validation import InputError

    given, on_line = context.params, typed(context)
    chosen: dict[str, Any] = {
        setting: given[name]
        for name, setting in _SETTINGS.items()
        if name in on_line or name == "metric"
    }
    thresholds = given["thresholds"]
    targets: tuple[float, ...] = ()
    if thresholds is not None:
        chosen["thresholds"] = numbers("--thresholds", thresholds, example="0.1776,0.0984443")
    if thresholds is None or "fpr" in on_line:
        targets = numbers("--fpr", given["fpr"], example="0.01,0.05,0.10")
    try:
        return CompatSettings(fpr_targets=targets, min_targets_ok=min(2, len(targets)), **chosen)
    except InputError as error:
        options = {setting: f"--{name.replace('_', '-')}" for name, setting in _SETTINGS.items()}
        options |= {"fpr_targets": "--fpr", "thresholds": "--thresholds"}
        names = "|".join(options)
        message = re.sub(rf"\b({names})\b", lambda match: options[match.group()], str(error))
        raise InputError(message) from error


def _show(results: Results, report: Path) -> None:
    """The answer, then what each threshold of each score costs and covers."""
    from rich.text import Text

    from gmb_hf.cli import show
    from gmb_hf.cli.table import Column, Group, lay_out
    from gmb_hf.reporting.answer import answer
    from gmb_hf.reporting.compat_tables import OperatingPoint, operating_points
    from gmb_hf.reporting.escape import number, one_line, steps

    columns = [
        Column(head, right=True)
        for head in ("target", "threshold", "FPR", "covered", "cover", "abstain", "lead")
    ]

    def cells(point: OperatingPoint) -> list[Text]:
        shown = (
            f"{point.target:.4g}",
            f"{point.threshold:.6g}",
            number(point.achieved, 4),
            f"{point.n_covered} of {point.n_events}",
            number(point.coverage, 2),
            number(point.abstain_rate, 2),
            steps(point.lead_time_mean),
        )
        return [Text(cell) for cell in shown]

    groups = [
        Group(
            [cells(point) for point in operating_points(item)],
            heading=f"{show.signed(item.name, item.x_sign)}: {item.label}, "
            f"AUC {number(item.layer_A.auc)}, AP {number(item.layer_A.ap)}",
        )
        for item in results.indicators
    ]
    screen = show.console()
    screen.print()
    show.say(answer(results).sentence, style="bold")
    if len(results.indicators) > 1:
        show.say("compat repeats the published computation and never supports an alarm.")
    screen.print()
    for part in lay_out(columns, groups, screen.width):
        screen.print(part)
    screen.print()
    show.say(
        "FPR: share of all windows but the positive ones. covered: events warned of. lead: mean, "
        f"in steps. Every run: tables/per_run.csv; every word: {one_line(str(report))}.",
        style="dim",
    )
