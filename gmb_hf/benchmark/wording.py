"""The verdict in words: one clause for each reason code, and the praise of a supported score."""

from __future__ import annotations

from gmb_hf.benchmark.discrimination import LayerA
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import LayerB
from gmb_hf.benchmark.robustness import LayerD
from gmb_hf.benchmark.utility import OperatingPoint


def supported(layer_b: LayerB, primary: OperatingPoint) -> str:
    """What speaks for the score, at its primary operating point."""
    return (
        f"at a budget of {primary.fpr:.0%} false alarms it warned of {_share(primary.coverage)} of "
        f"{_events(primary)}{_by_chance(primary)}, in the median "
        f"{primary.lead_time_median:g} steps ahead, and {layer_b.ok_targets} of "
        f"{len(layer_b.targets)} budgets held"
    )


def flips(layer_d: LayerD, allowed: float) -> str:
    """How often the label flips, and how often it may."""
    return (
        f"{layer_d.label_flip_rate:.0%} of {layer_d.family_size} admissible variants get another "
        f"label, {allowed:.0%} may"
    )


def clause(
    reason: str,
    judgement: Judgement,
    layer_a: LayerA,
    layer_b: LayerB,
    primary: OperatingPoint,
    p_adjusted: float | None,
) -> str:
    """What a reason code means for this score."""
    prereg = judgement.prereg
    if reason == "fpr_floor":
        return _floor(layer_b)
    if reason == "fpr_uncontrolled":
        return (
            f"{layer_b.ok_targets} of {len(layer_b.targets)} false-alarm budgets hold, "
            f"{prereg.min_targets_ok} must"
        )
    if reason == "few_runs":
        short = ", ".join(f"{result.target:g}" for result in layer_b.targets if result.few_runs)
        return f"too few calibration runs for a threshold at {short}"
    if reason == "coverage_low":
        return (
            f"it warned of {_share(primary.coverage)} of {_events(primary)} at a budget of "
            f"{primary.fpr:.0%}, {prereg.coverage_min:.0%} is the minimum"
        )
    if reason == "no_better_than_chance":
        p_value = "" if p_adjusted is None else f" (p = {p_adjusted:.3f})"
        return f"it warns no better than chance{_by_chance(primary)}{p_value}"
    if reason == "lead_short":
        lead = primary.lead_time_median
        known = "no event is warned of" if lead is None else f"the median lead is {lead:g} steps"
        return f"{known}, {prereg.lead_time_median_min:g} is the minimum"
    auc = "undefined" if layer_a.auc is None else f"{layer_a.auc:.2f}"
    return f"it does not rank the windows before an event higher (AUC {auc})"


def _floor(layer_b: LayerB) -> str:
    certificate = layer_b.certificate
    if certificate is None:
        return "it has no achievable false positive rate"
    tie = ""
    if certificate.tied_value is not None:
        tie = f", since {certificate.tied_windows} windows tie at {certificate.tied_value:g}"
    return f"it cannot alarm at a false positive rate below {certificate.f_min_pos:.3f}{tie}"


def _by_chance(primary: OperatingPoint) -> str:
    shift, risk = primary.shift_null, primary.risk_set_null
    if shift is None or risk is None:
        return ""
    return f" (chance gives {_share(shift.mean_coverage)} and {_share(risk.mean_coverage)})"


def _events(primary: OperatingPoint) -> str:
    return f"{primary.n_events} event" + ("" if primary.n_events == 1 else "s")


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.0%}"
