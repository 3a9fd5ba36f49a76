"""Reason codes and groups in words, for tables, figures and the report."""

from __future__ import annotations

from gmb_hf.benchmark.result_records import IndicatorRecord

LABELS = (
    "SUPPORTED_FOR_ALARM",
    "SCOPE_LIMITED",
    "INCONCLUSIVE",
    "ESTIMATOR_UNSTABLE",
    "RANK_ONLY",
)
"""The five labels, in the order in which they are listed."""

GROUPS = {
    "monitor": "Sees no test labels: a monitor",
    "undeclared": "Not declared whether it sees test labels",
    "oracle": "Sees test labels: an oracle, shown for comparison",
    "control": "Controls: what any monitor must beat",
}
"""The groups that indicators are shown in, in this order."""

REASONS = {
    "compat_protocol": "repeats the published computation",
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


def group_of(item: IndicatorRecord) -> str:
    """The key in `GROUPS` that an indicator belongs to."""
    if item.family == "control":
        return "control"
    if item.x_sees_test_labels is None:
        return "undeclared"
    return "oracle" if item.x_sees_test_labels else "monitor"
