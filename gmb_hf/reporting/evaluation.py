"""Everything that an evaluation leaves: results.yaml, tables/, figures/ and report.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from gmb_hf.benchmark.compat.record import settings_of
from gmb_hf.benchmark.operationality import pass_line
from gmb_hf.benchmark.results import Results
from gmb_hf.reporting.answer import Answer, answer
from gmb_hf.reporting.compat_tables import compat_tables
from gmb_hf.reporting.escape import steps
from gmb_hf.reporting.figures.aligned import AlignedScore, scores_around_event
from gmb_hf.reporting.figures.curves import GrokkingCurves, grokking_curves
from gmb_hf.reporting.figures.fpr import fpr_control
from gmb_hf.reporting.figures.from_results import fpr_curve, lead_times, summary_row
from gmb_hf.reporting.figures.leads import lead_time_distribution
from gmb_hf.reporting.figures.style import save_figure
from gmb_hf.reporting.figures.summary import label_summary
from gmb_hf.reporting.report import write_report
from gmb_hf.reporting.tables import write_each, write_tables

_NAMES = {
    "summary": "label_summary",
    "curves": "grokking_curves",
    "fpr": "fpr_control",
    "aligned": "scores_around_event",
    "leads": "lead_times",
}


def write_evaluation(
    results: Results,
    folder: str | Path,
    *,
    curves: GrokkingCurves | None = None,
    aligned: Sequence[AlignedScore] = (),
    cadence: int | None = None,
    note: str | None = None,
    next_command: str | None = None,
) -> list[Path]:
    """Write an evaluation to a folder, every file atomically.

    Args:
        results: what was found.
        folder: where to; made if it is not there.
        curves: the held-out runs over training.
        aligned: scores around t*; `featured` says which.
        cadence: steps between checkpoints.
        note: a remark below the answer, in Markdown.
        next_command: what to type next.

    Returns:
        The files written: report.md first, then results.yaml, tables and figures.
    """
    place = Path(folder)
    written = [
        results.write(place / "results.yaml"),
        *write_tables(results, place / "tables"),
        *write_each(compat_tables(results), place / "tables"),
    ]
    drawn = draw(results, curves=curves, aligned=aligned, cadence=cadence)
    for name, figure in drawn.items():
        written += save_figure(figure, place / "figures" / _NAMES[name])
    links = {name: f"figures/{_NAMES[name]}.png" for name in drawn}
    report = write_report(
        results,
        place / "report.md",
        figures=links,
        note=note,
        next_command=next_command,
        folder=place,
    )
    return [report, *written]


def draw(
    results: Results,
    *,
    curves: GrokkingCurves | None = None,
    aligned: Sequence[AlignedScore] = (),
    cadence: int | None = None,
) -> dict[str, Figure]:
    """Every figure that there is data for, by the names in `report.FIGURES`."""
    found = answer(results)
    prereg = results.prereg
    # The reference has its settings in place of a design; its labels need no summary.
    design = prereg or settings_of(results)
    figures: dict[str, Figure] = {}
    if design is None or not found.ranked:
        return figures
    strict = results.x_protocol == "strict"
    eps = design.fpr_eps
    if prereg is not None:
        figures["summary"] = label_summary(
            [summary_row(item, found.target) for item in found.ranked],
            title=found.title,
            subtitle=subtitle(results),
            target=found.target,
            cap=pass_line(found.target, eps) if strict else found.target + eps,
            coverage_min=prereg.coverage_min,
        )
    if curves is not None:
        figures["curves"] = grokking_curves(curves)
    if design.fpr_targets:
        curves_of = [fpr_curve(item) for item in found.ranked]
        source = results.x_calibration
        same = source is not None and source.method == "in_sample"
        figures["fpr"] = fpr_control(
            curves_of,
            eps=eps,
            cap=strict,
            measured_on="the runs calibrated on" if same else "held-out runs",
        )
    if aligned:
        figures["aligned"] = scores_around_event(
            aligned, horizon=design.horizon, safe_gap=prereg.safe_gap if prereg else None
        )
    leads = [lead_times(item, found.target) for item in found.ranked]
    stored = [item for item in leads if item is not None and item.n_events]
    if stored:
        figures["leads"] = lead_time_distribution(
            stored,
            horizon=design.horizon,
            lead_time_target=design.lead_time_target,
            target=found.target,
            cadence=cadence or (prereg.boundary.checkpoint_every_steps if prereg else None),
        )
    return figures


def featured(found: Answer, count: int = 6) -> tuple[str, ...]:
    """The names of the scores that are worth a look around t*: the best, controls left out."""
    names = [item.name for item in found.ranked if item.family != "control"]
    return tuple(names[:count])


def subtitle(results: Results) -> str:
    """What was judged, in one line."""
    summary, calibration = results.summary, results.x_calibration
    sources = {
        "locked": "thresholds locked on {} explore runs",
        "explore": "thresholds from {} explore runs",
        "cross_run": "thresholds cross-fitted over runs",
        "in_sample": "thresholds from the same runs",
        "given": "thresholds from outside",
    }
    parts = [
        results.boundary.task,
        results.boundary.model,
        f"{summary.n_seeds:,} held-out runs, {steps(summary.n_events)} events",
    ]
    if calibration is not None:
        count = "the" if calibration.n_runs is None else f"{calibration.n_runs:,}"
        parts.append(sources[calibration.method].format(count))
    return " · ".join(part for part in parts if part)
