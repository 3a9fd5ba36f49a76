"""Figures for a paper: plain arrays in, a matplotlib `Figure` out, `save_figure` writes it."""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "AlignedScore": "aligned",
    "FprCurve": "fpr",
    "GeneralisationCurves": "generalisation",
    "GrokkingCurves": "curves",
    "LeadTimes": "leads",
    "MarginCurves": "margins",
    "PhaseCurves": "phases",
    "SummaryRow": "summary_panels",
    "align": "aligned",
    "forgetting_bars": "forgetting",
    "fpr_control": "fpr",
    "generalisation_figure": "generalisation",
    "grokking_curves": "curves",
    "heldout_bars": "heldout",
    "label_summary": "summary",
    "lead_time_distribution": "leads",
    "margin_curves": "margins",
    "pareto_plot": "pareto",
    "phase_curves": "phases",
    "save_figure": "style",
    "scores_around_event": "aligned",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
