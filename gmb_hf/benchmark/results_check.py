"""Whether anybody's results file is one: the schema, and what its numbers must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.preregistration.documents import load_document

_SLACK = 1e-9  # a mean of rates may pass 1 by a rounding error


@dataclass(frozen=True)
class FileCheck:
    """A results file beside the schema.

    Attributes:
        violations: one line each, beginning with the path of the field.
        set_aside: extensions of others that do not read as ours, which they need not.
        results: what the file says; None where it does not match the schema.
    """

    violations: tuple[str, ...]
    set_aside: tuple[str, ...]
    results: Results | None


def check_results(path: str | Path) -> FileCheck:
    """Every violation of a results file, in YAML or JSON.

    A file without a single `x_` key is as good as ours; so is one whose `x_` keys are its own.

    Raises:
        InputError: the file cannot be read.
    """
    data = load_document(path)
    checked = Results.check(data)
    faults = list(checked.faults)
    if isinstance(data, dict) and "schema_version" not in data:
        faults.insert(0, "schema_version is required; add it")
    if faults:
        return FileCheck(tuple(faults), checked.set_aside, None)
    results = Results.parse(checked.content, where=str(path))
    return FileCheck(tuple(_disagreements(results)), checked.set_aside, results)


def _disagreements(results: Results) -> Iterator[str]:
    summary = results.summary
    steps = results.event.t_event_by_seed
    known = sum(step is not None for step in steps.values())
    if summary.n_events is not None and summary.n_events > summary.n_seeds:
        yield f"summary.n_events is {summary.n_events}, of n_seeds {summary.n_seeds}"
    if steps and summary.n_events is not None and known != summary.n_events:
        yield (
            f"summary.n_events is {summary.n_events}, but event.t_event_by_seed has {known} events"
        )
    for place, item in enumerate(results.indicators):
        yield from (f"indicators[{place}].{fault}" for fault in _of_indicator(item))


def _of_indicator(item: IndicatorRecord) -> Iterator[str]:
    gate, points = item.layer_B, item.layer_C.at_fpr
    shares = {
        "layer_A.auc": item.layer_A.auc,
        "layer_A.ap": item.layer_A.ap,
        "layer_B.fpr_min": gate.fpr_min,
        "layer_D.pass_rate": item.layer_D.pass_rate,
        "layer_D.label_flip_rate": item.layer_D.label_flip_rate,
        **{f"layer_B.targets[{n}]": target for n, target in enumerate(gate.targets)},
        **{f"layer_B.achieved[{n}].achieved": row.achieved for n, row in enumerate(gate.achieved)},
        **{f"layer_C.at_fpr[{n}].fpr": point.fpr for n, point in enumerate(points)},
        **{f"layer_C.at_fpr[{n}].coverage": point.coverage for n, point in enumerate(points)},
        **{
            f"layer_C.at_fpr[{n}].lead_time_success": point.lead_time_success
            for n, point in enumerate(points)
        },
    }
    for path, value in shares.items():
        if value is not None and not -_SLACK <= value <= 1 + _SLACK:
            yield f"{path} must be a share between 0 and 1, got {value:g}"
    for n, row in enumerate(gate.achieved):
        if row.target not in gate.targets:
            yield f"layer_B.achieved[{n}].target {row.target:g} is not among layer_B.targets"
    if gate.ok_targets is not None and gate.ok_targets > len(gate.targets):
        yield f"layer_B.ok_targets is {gate.ok_targets}, of {len(gate.targets)} targets"
    yield from _of_label(item)


def _of_label(item: IndicatorRecord) -> Iterator[str]:
    """A failed layer B is invalid for alarm, whatever the ranking (spec 4.2)."""
    if item.label != "SUPPORTED_FOR_ALARM":
        return
    if item.layer_B.controllability_pass is False:
        yield f"label is {item.label}, but layer_B.controllability_pass is false"
    if item.layer_B.fpr_floor_detected:
        yield f"label is {item.label}, but layer_B.fpr_floor_detected is true"
