"""An evaluation to files: results.yaml, tables, figures, report.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.scores import Scores
from gmb_hf.reporting.answer import answer
from gmb_hf.reporting.evaluation import featured, write_evaluation
from gmb_hf.reporting.figures.aligned import AlignedScore, align
from gmb_hf.reporting.figures.curves import GrokkingCurves
from gmb_hf.runs import RunLog
from gmb_hf.workflows.judging import Evaluation

# Horizons on each side of t* in the aligned figure.
_REACH = 3
_METRICS = {"test_acc": ("train_acc", "accuracy"), "acc_test": ("acc_train", "accuracy")}


def publish(
    evaluation: Evaluation,
    out: str | Path,
    *,
    note: str | None = None,
    next_command: str | None = None,
) -> list[Path]:
    """Write everything that an evaluation leaves, and return the files, the report first.

    Args:
        evaluation: what was judged.
        out: the folder; results.yaml, report.md, tables/ and figures/ go into it.
        note: a remark for the report in Markdown, e.g. that few runs leave verdicts open.
        next_command: what to type next, for the report.
    """
    names = featured(answer(evaluation.results))
    has_events = evaluation.events.n_events > 0
    return write_evaluation(
        evaluation.results,
        out,
        curves=_curves(evaluation),
        aligned=[_aligned(name, evaluation) for name in names] if has_events else [],
        cadence=evaluation.prereg.boundary.checkpoint_every_steps,
        note=note,
        next_command=next_command,
    )


def _curves(evaluation: Evaluation) -> GrokkingCurves | None:
    """None where no run logs the metric: E_regime reads its event from other columns."""
    log, metric = evaluation.log, evaluation.prereg.metric
    if metric not in log.observables:
        return None
    return grokking_curves_of(log, metric, evaluation.events.step)


def grokking_curves_of(log: RunLog, metric: str, event_step: NDArray[np.float64]) -> GrokkingCurves:
    """The metric of every run with its event, and the same on training rows where it is logged."""
    test = log.panel(metric)
    beside, shown = _METRICS.get(metric, (None, metric))
    return GrokkingCurves(
        steps=test.steps,
        test=np.where(test.present, test.values, np.nan),
        event_step=event_step,
        train=log.panel(beside).values if beside in log.observables else None,
        metric=shown,
    )


def _aligned(name: str, evaluation: Evaluation) -> AlignedScore:
    judgement, target = evaluation.judgements[name], evaluation.prereg.primary_fpr
    return aligned_score(
        judgement.evaluation,
        horizon=evaluation.prereg.horizon,
        threshold=judgement.calibrated.deployed.get(target),
        target=target,
    )


def aligned_score(
    scores: Scores, *, horizon: int, threshold: float | None, target: float
) -> AlignedScore:
    """A score around t*, a few horizons to each side, with the threshold for a target rate."""
    offsets, values = align(
        scores.values,
        scores.steps,
        scores.present,
        scores.event_step,
        reach=_REACH * horizon,
    )
    return AlignedScore(scores.name, offsets, values, threshold, target)
