"""Whether a results file is one: its schema, its numbers, and the definition of done.

Spec: GMB v0.4, section 7.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gmb_hf.base.errors import InputError
from gmb_hf.base.extensions import CheckedDocument
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord
from gmb_hf.benchmark.gates import budget_state, enough_budgets, label_of
from gmb_hf.benchmark.operationality import LayerBRecord
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.results import Results, check_file, load_results
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.thresholds import shown_line
from gmb_hf.design.design import Design

_SLACK = 1e-9  # a mean of rates may pass 1 by a rounding error


def check_results(path: str | Path) -> CheckedDocument:
    """Every violation of a results file, in YAML or JSON.

    The content of what is returned is `Results`, or None where there are faults in the form. A file
    without a single `x_` key is as good as ours; so is one whose `x_` keys are its own.

    Raises:
        InputError: the file cannot be read.
    """
    data, content = load_results(path)
    checked = Results.check(content)
    faults = list(checked.faults)
    if isinstance(data, dict) and "schema_version" not in data:
        faults.insert(0, "schema_version is required; add it")
    if faults:
        return CheckedDocument(tuple(faults), checked.set_aside, None)
    results = Results.parse(checked.content, where=str(path))
    faults = list(disagreements(results))
    try:
        check_file(data, "x_checksum", results)
    except InputError as error:
        faults.append(str(error))
    return CheckedDocument(tuple(faults), checked.set_aside, results)


def missing_tables(results: Results, folder: str | Path) -> list[str]:
    """The tables that the preregistration requires and that are not in a results folder, by path.

    An empty file is no table. Results without a preregistration require none.
    """
    design, stated = results.design, results.tables
    required = design.required_tables if design else ()
    paths = [getattr(stated, f"{name}_path") or f"{name} (no path)" for name in required]
    files = {path: Path(folder) / path for path in paths}
    return [path for path, file in files.items() if not (file.is_file() and file.stat().st_size)]


def disagreements(results: Results) -> Iterator[str]:
    """What a file says that cannot all be right."""
    summary, known = results.summary, results.event.n_events
    if summary.n_events is not None and summary.n_events > summary.n_seeds:
        yield f"summary.n_events is {summary.n_events}, of n_seeds {summary.n_seeds}"
    if results.event.t_event_by_seed and summary.n_events not in (None, known):
        yield (
            f"summary.n_events is {summary.n_events}, but event.t_event_by_seed has {known} events"
        )
    design = results.design
    for place, item in enumerate(results.indicators):
        of_gate = _of_gate(item.layer_B, design) if design else ()
        of_it = (
            *_of_indicator(item),
            *of_gate,
            *_of_first_alarm(item, design),
            *_of_eligible(item, design),
        )
        yield from (f"indicators[{place}].{fault}" for fault in of_it)


def _of_indicator(item: IndicatorRecord) -> Iterator[str]:
    gate = item.layer_B
    of = {"layer_A": "auc ap", "layer_B": "fpr_min", "layer_D": "pass_rate label_flip_rate"}
    shares = {
        f"{layer}.{field}": getattr(getattr(item, layer), field)
        for layer, fields in of.items()
        for field in fields.split()
    }
    shares |= {f"layer_B.targets[{n}]": target for n, target in enumerate(gate.targets)}
    shares |= {f"layer_B.achieved[{n}].achieved": at.achieved for n, at in enumerate(gate.achieved)}
    for field in ("fpr", "coverage", "lead_time_success"):
        for n, point in enumerate(item.layer_C.at_fpr):
            shares[f"layer_C.at_fpr[{n}].{field}"] = getattr(point, field)
    for path, value in shares.items():
        if value is not None and not -_SLACK <= value <= 1 + _SLACK:
            yield f"{path} must be a share between 0 and 1, got {value:g}"
    for n, row in enumerate(gate.achieved):
        if row.target not in gate.targets:
            yield f"layer_B.achieved[{n}].target {row.target:g} is not among layer_B.targets"
    if gate.ok_targets is not None and gate.ok_targets > len(gate.targets):
        yield f"layer_B.ok_targets is {gate.ok_targets}, of {len(gate.targets)} targets"
    # A failed layer B is invalid for alarm, whatever the ranking (spec 4.2).
    decided, floor = gate.x_decided_by or "controllability_pass", "fpr_floor_detected"
    if gate.by_budget:
        floor = "x_floor_certificate.floor"
    if item.label == SUPPORTED and gate.controlled is False:
        yield f"label is {item.label}, but layer_B.{decided} is false"
    if item.label == SUPPORTED and gate.floor:
        yield f"label is {item.label}, but layer_B.{floor} is true"
    if item.x_gates:
        few, scope = "few_events" in item.x_reasons, item.x_scope is not None
        label = label_of(item.x_gates, few=few, scope=scope)
        if item.label != label:
            yield f"label is {item.label}, by its gates (x_gates) it is {label}"


def _of_gate(gate: LayerBRecord, design: Design) -> Iterator[str]:
    """What layer B says that its rates, by the design, do not."""
    # Pooled over windows, as the specification has it; files of others may know one rate alone.
    rates = [(at.target, at.x_achieved_pooled, at.achieved) for at in gate.achieved]
    known = [
        (target, achieved if pooled is None else pooled)
        for target, pooled, achieved in rates
        if achieved is not None
    ]
    near = sum(abs(rate - target) <= design.fpr_eps + _SLACK for target, rate in known)
    least, strict = design.min_targets_ok, design.protocol == "strict"
    states = [
        (at.target, at.x_state, at.x_answer != "ABSTAIN")
        for at in gate.achieved
        if at.x_state is not None
    ]
    state = gate.x_budget_state
    if strict and len(states) == len(gate.achieved):
        state = enough_budgets(states, primary=design.primary_fpr, least=least)
    given = {
        "ok_targets": near,
        "controllability_pass": near >= least,
        "fpr_floor_detected": (gate.fpr_min or 0.0) > design.fpr_floor_max + _SLACK,
        "x_budget_state": state,
        "x_budget_pass": gate.x_budget_pass if state is None else state == "met",
        "x_decided_by": "x_budget_pass" if strict else "controllability_pass",
    }
    for field, value in given.items():
        if (stated := getattr(gate, field)) not in (None, value):
            yield f"layer_B.{field} is {stated}, by its rates and x_prereg it is {value}"


def _of_first_alarm(item: IndicatorRecord, design: Design | None) -> Iterator[str]:
    """What a verdict by runs says that its counts do not."""
    first = item.x_first_alarm
    if first is None:
        return
    points = {f"at_budget[{n}]": point for n, point in enumerate(first.at_budget)}
    points |= {f"other_events[{n}].at": one.at for n, one in enumerate(first.other_events)}
    for where, point in points.items():
        yield from (f"x_first_alarm.{where}.{fault}" for fault in _of_counts(point))
    budgets = [point.budget for point in first.at_budget]
    if design is not None and sorted(budgets) != sorted(design.run_budgets):
        yield f"x_first_alarm.at_budget has {budgets}, x_prereg {list(design.run_budgets)}"


def _of_counts(at: FirstAlarmPointRecord) -> Iterator[str]:
    """What does not add up at one budget."""
    sums = {
        "n_events": at.n_detected + at.n_false_before_event + at.n_missed,
        "n_detected": at.n_timely + at.n_early,
        "n_false": at.n_false_before_event + at.n_event_free_false,
    }
    for field, total in sums.items():
        if getattr(at, field) != total:
            yield f"{field} is {getattr(at, field)}, its parts add up to {total}"
    parts = {
        "n_false": ("n_runs", at.n_runs),
        "n_event_free_false": ("n_event_free", at.n_event_free),
    }
    for field, (whole, most) in parts.items():
        if getattr(at, field) > most:
            yield f"{field} is {getattr(at, field)}, of {whole} {most}"
    shares = {
        "detection_rate": (at.n_detected, at.n_events, at.detection_interval),
        "timely_rate": (at.n_timely, at.n_events, at.timely_interval),
        "false_alarm_rate": (at.n_false, at.n_runs, at.false_alarm_interval),
    }
    for field, (count, total, interval) in shares.items():
        stated, share = getattr(at, field), count / total if total else None
        if (stated is None) != (share is None) or abs((stated or 0) - (share or 0)) > _SLACK:
            yield f"{field} is {stated}, its counts say {share}"
        if interval is None or stated is None:
            continue
        if not interval.low - _SLACK <= stated <= interval.high + _SLACK:
            yield f"{field} is {stated}, outside its interval"
    # Cross-fitted, a fold may have no finite threshold where all runs together have one.
    if at.answer == "THRESHOLD" and math.isinf(at.threshold):
        yield f"answer is {at.answer}, the threshold {at.threshold}"


def _of_eligible(item: IndicatorRecord, design: Design | None) -> Iterator[str]:
    """What stands, by runs, against an alarm of a score that is said to be eligible."""
    first = item.x_first_alarm
    if not item.x_alarm_eligible or first is None:
        return
    if item.x_reasons:
        yield f"x_alarm_eligible is true, but x_reasons has {item.x_reasons[0]}"
    if item.family == "control" or item.x_sees_test_labels:
        what = "a control" if item.family == "control" else "an oracle (x_sees_test_labels)"
        yield f"x_alarm_eligible is true, but it is {what}"
    if design is None:
        return
    at = next((one for one in first.at_budget if one.budget == design.primary_run_budget), None)
    share, lead = (at.detection_rate, at.lead_median) if at else (None, None)
    flips, p_value = first.robustness.label_flip_rate, first.p_adjusted
    wrong = {
        "robustness.label_flip_rate": (flips or 0.0) > design.max_label_flip_rate + _SLACK,
        "state": at is None or at.state != "met",
        "threshold": at is None or at.answer == "ABSTAIN",
        "false_alarm_interval": at is None
        or budget_state(
            at.false_alarm_interval,
            budget=at.budget,
            line=shown_line(at.budget),
            shown=first.basis != "promised",
        )
        != "met",
        "detection_rate": share is None or share < design.detection_min - _SLACK,
        "lead_median": lead is None or lead < design.lead_least,
        "p_adjusted": p_value is None or p_value > design.alpha_per_look,
    }
    for field, holds in wrong.items():
        if holds:
            yield f"x_alarm_eligible is true, but x_first_alarm: {field} does not meet x_prereg"


# The specification's definition of done (section 7), checked on a results file.

_EVENTS_SUGGESTED = 30


class Check(NamedTuple):
    """One requirement, whether it holds, and by which numbers."""

    requirement: str
    passed: bool
    detail: str


def definition_of_done(results: Results, folder: str | Path | None = None) -> tuple[Check, ...]:
    """The requirements, a lock before the evaluation among them; a run is acceptable if all hold.

    `folder` is where the results file lies, for a look into its summary table; without, a stated
    path must do.
    """
    summary, names = results.summary, [item.name for item in results.indicators]
    least = summary.x_event_count_min
    least = _EVENTS_SUGGESTED if least is None else least
    counted = "an unknown number of" if summary.n_events is None else f"{summary.n_events:,}"
    stated = {point.fpr for item in results.indicators for point in item.layer_C.at_fpr}
    points = results.design.fpr_targets if results.design else tuple(sorted(stated))

    def for_each(requirement: str, lacking: Sequence[str], what: str) -> Check:
        detail = f"{len(names) - len(lacking)} of {len(names)} indicators have {what}"
        if lacking:
            detail += f"; missing: {', '.join(lacking)}"
        return Check(requirement, bool(names) and not lacking, detail)

    return (
        Check(
            f"At least {least} events across seeds",
            summary.n_events is not None and summary.n_events >= least,
            f"{counted} events in {summary.n_seeds:,} runs",
        ),
        for_each(
            "Layer B is computed and reported for every indicator",
            [item.name for item in results.indicators if not _has_layer_b(item)],
            "an achieved rate at every target",
        ),
        for_each(
            "Coverage and lead time are reported at every operating point",
            [item.name for item in results.indicators if not _has_layer_c(item, points)],
            f"them at {', '.join(f'{point:g}' for point in points) or 'no point'}",
        ),
        Check(
            "A single summary table exists",
            *_summary_table(results.tables.gate_summary_path, folder, names),
        ),
        Check(
            "Design and thresholds frozen before evaluation",
            results.locked,
            "by a lock" if results.locked else "no lock: this evaluation is exploratory",
        ),
    )


def _has_layer_b(item: IndicatorRecord) -> bool:
    rows = item.layer_B.achieved
    answered = {r.target for r in rows if r.achieved is not None or r.x_answer == "ABSTAIN"}
    return bool(item.layer_B.targets) and answered.issuperset(item.layer_B.targets)


def _has_layer_c(item: IndicatorRecord, points: Sequence[float]) -> bool:
    # A lead time exists only where an event was detected: zero coverage is a full report.
    reported = {
        point.fpr
        for point in item.layer_C.at_fpr
        if point.coverage == 0 or None not in (point.coverage, point.lead_time_median)
    }
    return bool(points) and reported.issuperset(points)


def _summary_table(
    path: str | None, folder: str | Path | None, names: Sequence[str]
) -> tuple[bool, str]:
    """Whether the summary table is there with a row for each indicator, and the detail."""
    if path is None or folder is None:
        return path is not None, path or "no path is given"
    table = Path(folder) / path
    if not table.is_file():
        return False, f"{path} is not there"
    if table.suffix == ".csv":
        with table.open(encoding="utf-8", newline="") as file:
            listed = {row.get("indicator") for row in csv.DictReader(file)}
        missing = ", ".join(name for name in names if name not in listed)
        if missing:
            return False, f"{path} lacks {missing}"
    return True, f"{path}, a row for each of {len(names)} indicators"
