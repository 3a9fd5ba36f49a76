"""What the figures need, taken from a results file."""

from __future__ import annotations

import numpy as np

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.reporting.figures.fpr import FprCurve
from gmb_hf.reporting.figures.leads import LeadTimes
from gmb_hf.reporting.figures.summary_panels import SummaryRow
from gmb_hf.reporting.words import group_of, reason


def fpr_curve(item: IndicatorRecord) -> FprCurve:
    """The achieved rate of one indicator at each of its targets."""
    rows = item.layer_B.achieved
    intervals = [row.x_interval for row in rows]
    return FprCurve(
        item.name,
        np.array([row.target for row in rows]),
        np.array([np.nan if row.x_answer == "ABSTAIN" else _number(row.achieved) for row in rows]),
        np.array([np.nan if each is None else _number(each.low) for each in intervals]),
        np.array([np.nan if each is None else _number(each.high) for each in intervals]),
        np.array([row.x_state == "missed" for row in rows]),
        floor=_floor(item),
    )


def _floor(item: IndicatorRecord) -> float | None:
    """The least rate that an alarm of one indicator can have, None where no floor was found."""
    if not item.layer_B.fpr_floor_detected:
        return None
    certificate = item.layer_B.x_floor_certificate
    return item.layer_B.fpr_min if certificate is None else certificate.f_min_pos


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def lead_times(item: IndicatorRecord, target: float) -> LeadTimes | None:
    """The lead times of one indicator at one target rate, None where they are not stored."""
    point = item.point(target)
    if point is None or point.x_n_events is None:
        return None
    return LeadTimes(item.name, np.array(point.x_lead_times), point.x_n_events, group_of(item))


def summary_row(item: IndicatorRecord, target: float) -> SummaryRow:
    """What the summary shows of one indicator."""
    achieved, point = item.achieved(target), item.point(target)
    interval = achieved.x_interval if achieved else None
    spread = point.x_coverage_interval if point else None
    shift, risk = (point.x_shift_null, point.x_risk_set_null) if point else (None, None)
    own = point.x_p_value if point else None
    return SummaryRow(
        item.name + (" (reversed)" if item.x_sign == -1 else ""),
        group_of(item),
        item.label,
        achieved=achieved.achieved if achieved and achieved.x_answer != "ABSTAIN" else None,
        achieved_low=interval.low if interval else None,
        achieved_high=interval.high if interval else None,
        state=achieved.x_state if achieved else None,
        floor=_floor(item),
        coverage=point.coverage if point else None,
        coverage_low=spread.low if spread else None,
        coverage_high=spread.high if spread else None,
        shift_null=shift.mean_coverage if shift else None,
        risk_set_null=risk.mean_coverage if risk else None,
        lead=point.lead_time_median if point else None,
        p_value=own if item.x_p_adjusted is None else item.x_p_adjusted,
        why=reason(item.x_reasons[0]) if item.x_reasons and not item.x_alarm_eligible else "",
    )
