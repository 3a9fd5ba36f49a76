"""Reason codes and labels in words, for tables, figures and the report."""

from __future__ import annotations

REASONS = {
    "coverage_low": "warns of too few events",
    "few_events": "too few events",
    "few_runs": "too few calibration runs",
    "fpr_floor": "false-alarm floor",
    "fpr_uncontrolled": "false rate uncontrolled",
    "interval_straddles": "interval straddles a line",
    "label_flips": "label flips too easily",
    "lead_short": "warns too late",
    "no_better_than_chance": "no better than chance",
    "no_negative_windows": "no negative windows",
    "no_ranking_signal": "does not rank",
}


def reason(code: str) -> str:
    """A reason code in words; an unknown code speaks for itself."""
    return REASONS.get(code, code.replace("_", " "))
