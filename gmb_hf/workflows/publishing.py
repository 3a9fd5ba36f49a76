"""An evaluation to files: results.yaml, tables, figures, report.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.reporting.answer import Answer, answer
from gmb_hf.reporting.figures.aligned import AlignedScore, align, scores_around_event
from gmb_hf.reporting.figures.curves import GrokkingCurves, grokking_curves
from gmb_hf.reporting.figures.fpr import fpr_control
from gmb_hf.reporting.figures.from_results import fpr_curve, lead_times, summary_row
from gmb_hf.reporting.figures.leads import lead_time_distribution
from gmb_hf.reporting.figures.style import save_figure
from gmb_hf.reporting.figures.summary import label_summary
from gmb_hf.reporting.report import write_report
from gmb_hf.reporting.tables import write_tables
from gmb_hf.workflows.evaluating import Evaluation

ALIGNED_SCORES = 6
LEAD_ROWS = 14


def publish(
    evaluation: Evaluation,
    out: str | Path,
    *,
    note: str | None = None,
    next_command: str | None = None,
) -> list[Path]:
    """Write everything that an evaluation leaves, and return the files.

    Args:
        evaluation: what was judged.
        out: the folder; results.yaml, report.md, tables/ and figures/ go into it.
        note: a remark for the report, e.g. that few runs leave verdicts open.
        next_command: what to type next, for the report.
    """
    folder = Path(out)
    results = evaluation.results
    written = [results.write(folder / "results.yaml"), *write_tables(results, folder / "tables")]
    figures = write_figures(evaluation, folder / "figures")
    shown = {path.stem: f"figures/{path.name}" for path in figures if path.suffix == ".png"}
    report = write_report(
        results, folder / "report.md", figures=shown, note=note, next_command=next_command
    )
    return [report, *written, *figures]


def write_figures(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Draw every figure that the evaluation has data for, as PNG and SVG."""
    results, prereg = evaluation.results, evaluation.prereg
    found = answer(results)
    drawn = {
        "summary": label_summary(
            [summary_row(item, found.target) for item in found.ranked],
            target=found.target,
            cap=found.target + _tolerance(evaluation, found.target),
            coverage_min=prereg.coverage_min,
            title=found.title,
            subtitle=_subtitle(evaluation),
        ),
        "curves": grokking_curves(_curves(evaluation)),
        "fpr": fpr_control(
            [fpr_curve(item) for item in found.ranked],
            eps=prereg.fpr_eps,
            cap=prereg.protocol == "strict",
        ),
    }
    if evaluation.events.n_events:
        drawn["aligned"] = scores_around_event(
            [_aligned(item, evaluation, found.target) for item in _prominent(found)],
            horizon=prereg.horizon,
            safe_gap=prereg.safe_gap,
        )
        leads = [lead_times(item, found.target) for item in found.ranked]
        rows = [row for row in leads if row is not None and len(row.leads)][:LEAD_ROWS]
        if rows:
            drawn["leads"] = lead_time_distribution(
                rows,
                horizon=prereg.horizon,
                lead_time_target=prereg.lead_time_target,
                target=found.target,
                cadence=prereg.boundary.checkpoint_every_steps,
            )
    paths = []
    for name, figure in drawn.items():
        paths += save_figure(figure, folder / name)
    return paths


def _tolerance(evaluation: Evaluation, target: float) -> float:
    eps = evaluation.prereg.fpr_eps
    return min(eps, target / 2) if evaluation.prereg.protocol == "strict" else eps


def _subtitle(evaluation: Evaluation) -> str:
    summary, boundary = evaluation.results.summary, evaluation.results.boundary
    where = ", ".join(part for part in (boundary.task, boundary.model) if part)
    counts = f"{summary.n_seeds} held-out runs, {summary.n_events} with an event"
    return f"{where}: {counts}" if where else counts


def _curves(evaluation: Evaluation) -> GrokkingCurves:
    log, metric = evaluation.log, evaluation.prereg.metric
    test = log.panel(metric)
    beside = metric.replace("test", "train")
    train = log.panel(beside).values if beside != metric and beside in log.observables else None
    return GrokkingCurves(
        steps=test.steps,
        test=np.where(test.present, test.values, np.nan),
        event_step=evaluation.events.step,
        train=train,
        metric="accuracy" if metric in ("test_acc", "acc_test") else metric,
    )


def _prominent(found: Answer) -> list[IndicatorRecord]:
    """The scores shown around t*: the best monitors, the best oracle, and the clock."""
    monitors = [*found.group("monitor"), *found.group("undeclared")]
    oracles, controls = found.group("oracle"), found.group("control")
    clock = [item for item in controls if item.name == "clock"]
    beside = [*oracles[:1], *clock]
    return [*monitors[: ALIGNED_SCORES - len(beside)], *beside]


def _aligned(item: IndicatorRecord, evaluation: Evaluation, target: float) -> AlignedScore:
    judgement = evaluation.judgements[item.name]
    scores = judgement.evaluation
    offsets, values = align(
        scores.values,
        scores.steps,
        scores.present,
        scores.event_step,
        reach=3 * evaluation.prereg.horizon,
    )
    threshold = judgement.calibrated.deployed.get(target)
    return AlignedScore(item.name, offsets, values, threshold, target)
