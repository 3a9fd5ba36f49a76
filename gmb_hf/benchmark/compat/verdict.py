"""What may be said of a score after the reference's computation: never that it may alarm."""

from __future__ import annotations

from dataclasses import dataclass

from gmb_hf.benchmark.compat.measure import Measured
from gmb_hf.benchmark.compat.settings import CompatSettings

PROTOCOL_REASON = "compat_protocol"
# .04 misses .05 by .010000000000000002: a tolerance of .01 must still hold.
_SLACK = 1e-12


@dataclass(frozen=True)
class Gate:
    """Layer B by the specification's rules, on the reference's numbers.

    Attributes:
        met: whether each target is met; empty where thresholds came without targets.
        fpr_min: the least achieved rate.
        controllable: enough targets are met; None without targets.
        floor: the least achieved rate is too high; None where thresholds were given, since what
            else the score could reach was not searched.
    """

    met: tuple[bool, ...]
    fpr_min: float
    controllable: bool | None
    floor: bool | None

    @property
    def passed(self) -> bool | None:
        """Controllable and without a floor; None where one of them is not known."""
        if self.controllable is None or self.floor is None:
            return None
        return self.controllable and not self.floor


@dataclass(frozen=True)
class CompatVerdict:
    """A label that is never SUPPORTED_FOR_ALARM, with its reasons and a sentence."""

    label: str
    reasons: tuple[str, ...]
    sentence: str


def gate(measured: Measured, settings: CompatSettings) -> Gate:
    """Whether a false-alarm budget can be set, in sample."""
    fpr_min = min(point.achieved for point in measured.points)
    searched = settings.thresholds is None
    met: tuple[bool, ...] = ()
    if settings.fpr_targets:
        met = tuple(
            abs(point.achieved - point.target) <= settings.fpr_eps + _SLACK
            for point in measured.points
        )
    return Gate(
        met=met,
        fpr_min=fpr_min,
        controllable=sum(met) >= settings.min_targets_ok if met else None,
        floor=fpr_min > settings.fpr_floor_max + _SLACK if searched else None,
    )


def conclude(measured: Measured, settings: CompatSettings) -> CompatVerdict:
    """Label one score.

    A failure in sample is a failure, so that layer B may fail. Success in sample proves nothing:
    what would be SUPPORTED_FOR_ALARM by the published rules is INCONCLUSIVE here.
    """
    found = gate(measured, settings)
    faults = _faults(measured, found, settings)
    n_events = measured.points[0].n_events
    if n_events < settings.event_count_min:
        few = f"{n_events} events are fewer than {settings.event_count_min}"
        return _verdict("INCONCLUSIVE", {"few_events": few, **faults}, settings)
    if faults:
        return _verdict("RANK_ONLY", faults, settings)
    return _verdict("INCONCLUSIVE", {}, settings)


def _faults(measured: Measured, found: Gate, settings: CompatSettings) -> dict[str, str]:
    """What stands against an alarm whatever the protocol: code -> clause."""
    faults = {}
    if found.floor:
        faults["fpr_floor"] = f"no threshold has a false positive rate below {found.fpr_min:.3f}"
    if found.controllable is False:
        faults["fpr_uncontrolled"] = (
            f"{sum(found.met)} of {len(found.met)} false-alarm budgets hold, "
            f"{settings.min_targets_ok} must"
        )
    if faults and (measured.auc is None or measured.auc <= 0.5):
        auc = "undefined" if measured.auc is None else f"{measured.auc:.2f}"
        faults["no_ranking_signal"] = (
            f"it does not rank the windows before an event higher (AUC {auc})"
        )
    return faults


def _verdict(label: str, reasons: dict[str, str], settings: CompatSettings) -> CompatVerdict:
    opening = "May not raise an alarm" if label == "RANK_ONLY" else "Not decided"
    source = (
        "measures thresholds on the windows that they come from"
        if settings.thresholds is None
        else "takes thresholds from outside"
    )
    protocol = (
        f"compat repeats the published computation, which {source} and tests nothing against "
        "chance, so it never supports an alarm (--protocol strict can)"
    )
    clauses = "; ".join([*reasons.values(), protocol])
    return CompatVerdict(label, (*reasons, PROTOCOL_REASON), f"{opening}: {clauses}.")
