"""Results files of earlier schemas: where they keep their checksum, and today's names of fields.

Each schema before today's has one function, which turns its content into that of the next. It is
given whatever a file holds, ours or not, and passes over what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gmb_hf.base.checksums import Checksums
from gmb_hf.base.errors import InputError
from gmb_hf.base.schemas import Schema, dated
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.benchmark.gates import AGAINST_ALARM, SLACK, State, budget_state, enough_budgets
from gmb_hf.benchmark.records import INCONCLUSIVE, RANK_ONLY, SCOPE_LIMITED, SUPPORTED, UNSTABLE
from gmb_hf.core.thresholds import pass_line
from gmb_hf.design.design import Design
from gmb_hf.design.lock import design_1

_checksums = partial(
    Checksums,
    code="results_edited",
    since="gmb evaluate wrote it",
    hint="evaluate again with gmb evaluate",
)

# Schema 1 -> 2. A score had a label by windows and another by runs, of which that by runs decided
# what may act; what the field calls detection was called warning, baselines blind alarms.

_MARKS = ("x_yaml_sha256", "x_json_sha256")  # of results.json, a copy of results.yaml

_NAMES_1 = {
    "x_seal": "x_checksum",
    # Of a first alarm.
    "n_warned": "n_detected",
    "warned": "detection_rate",
    "warned_interval": "detection_interval",
    "timely": "timely_rate",
    "false_share": "false_alarm_rate",
    "false_interval": "false_alarm_interval",
    # Of the drawn baselines.
    "mean_coverage": "detection_rate",
}
_DROPPED_1 = ("met", "memoryless", "risk_set", "rivals")  # of a first alarm, held elsewhere now
_BASELINES_1 = {"memoryless": "constant_hazard", "risk_set": "risk_set"}
_VERDICT_1 = ("label", "reasons", "sentence", "runs_to_settle", "scope", "strata")  # by runs

_CODES_1 = {
    "fpr_floor": "floor",
    "fpr_uncontrolled": "uncontrolled",
    "runs_uncontrolled": "uncontrolled",
    "warned_low": "detection_low",
    "no_better_than_blind": "no_better_than_chance",
    "interval_straddles": "straddle",
    "label_flips": "unstable",
}
_BOTH_1 = ("few_events", "no_ranking_signal", *AGAINST_ALARM)  # codes without a unit
_WORST_FIRST = (UNSTABLE, RANK_ONLY, SCOPE_LIMITED, INCONCLUSIVE, SUPPORTED)

Plain = dict[str, Any]


def upgrade_1(content: Plain) -> Plain:
    """A file of schema 1 in the terms of schema 2; what is not as such a file has it stays."""
    found = dated(_renamed(content), 2)
    design = _design_1(content)
    if design is not None:
        found["x_prereg"] = design.plain()
    if isinstance(content.get("indicators"), list):
        found["indicators"] = [
            tolerant(_indicator_1, item, design) for item in content["indicators"]
        ]
    return found


def tolerant(upgrade: Callable[..., Plain], item: Any, *more: Any) -> Any:
    """Upgraded, or as it is where it is not what the schema says: it is refused when it is read."""
    try:
        return upgrade(item, *more)
    except (AttributeError, KeyError, TypeError, ValueError):
        return item


def _design_1(content: Plain) -> Design | None:
    plain = content.get("x_prereg")
    try:
        return Design.parse(design_1(plain), where="x_prereg") if isinstance(plain, dict) else None
    except InputError:
        return None


def _renamed(section: Plain) -> Plain:
    return {_NAMES_1.get(key, key): value for key, value in section.items()}


def first_alarm_1(first: Plain) -> Plain:
    """The first alarms of a score without the verdict on them."""
    found = {key: value for key, value in first.items() if key not in _VERDICT_1}
    found["at_budget"] = [_point_1(at) for at in first["at_budget"]]
    found["robustness"] = _robustness_1(first["robustness"])
    others = first.get("other_events") or ()
    found["other_events"] = [{**one, "at": _point_1(one["at"])} for one in others]
    return found


def _point_1(at: Plain) -> Plain:
    found = _renamed({key: value for key, value in at.items() if key not in _DROPPED_1})
    pairs = {name: at.get(key) for key, name in _BASELINES_1.items()}
    found["baselines"] = {name: _renamed(one) for name, one in pairs.items() if one is not None}
    found["controls"] = {name: _renamed(one) for name, one in (at.get("rivals") or {}).items()}
    return found


def _robustness_1(layer: Plain) -> Plain:
    found = {key: value for key, value in layer.items() if key != "x_central_label"}
    central, members = layer.get("x_central_label"), layer.get("x_members") or ()
    found["x_central_passes"] = None if central is None else central == SUPPORTED
    found["x_members"] = [
        {**{k: v for k, v in one.items() if k != "label"}, "passes": one["label"] == SUPPORTED}
        for one in members
    ]
    return found


def _layer_b_1(gate: Plain, design: Design | None, *, promised: bool) -> Plain:
    """The specification's own fields by pooled rates, and budgets by promise or proof."""
    if design is None or gate.get("x_decided_by") != "x_budget_pass":
        return gate
    rows: list[Plain] = []
    states: list[tuple[float, State, bool]] = []
    for row in gate["achieved"]:
        line, interval = pass_line(row["target"], design.fpr_eps), row.get("x_interval")
        state = row.get("x_state")
        if promised and state == "straddles" and interval is not None:
            kept = IntervalRecord.parse(interval, where="x_interval")
            state = budget_state(kept, budget=line, line=line, shown=False)
        rows.append({**row, "x_state": state})
        states.append((row["target"], state or "straddles", row.get("x_answer") != "ABSTAIN"))
    pooled = [(row["target"], row.get("x_achieved_pooled")) for row in rows]
    near = sum(
        rate is not None and abs(rate - target) <= design.fpr_eps + SLACK for target, rate in pooled
    )
    state = enough_budgets(states, primary=design.primary_fpr, least=design.min_targets_ok)
    floor = (gate.get("x_floor_certificate") or {}).get("floor")
    return {
        **gate,
        "achieved": rows,
        "ok_targets": near,
        "controllability_pass": near >= design.min_targets_ok,
        "x_budget_state": state,
        "x_budget_pass": state == "met",
        "x_passed": state == "met" and not floor,
    }


def _layer_c_1(layer: Plain) -> Plain:
    points = []
    for at in layer["at_fpr"]:
        nulls = {key: at[key] for key in at if key.startswith("x_") and key.endswith("_null")}
        found = {key: value for key, value in at.items() if key not in nulls}
        found["x_baselines"] = {
            key.removeprefix("x_").removesuffix("_null"): _renamed(null)
            for key, null in nulls.items()
            if null is not None
        }
        points.append(found)
    return {**layer, "at_fpr": points}


def _indicator_1(item: Plain, design: Design | None) -> Plain:
    first = item.get("x_first_alarm")
    promised = first is not None and first.get("basis") == "promised"
    found = {
        **item,
        "layer_B": _layer_b_1(item["layer_B"], design, promised=promised),
        "layer_C": _layer_c_1(item["layer_C"]),
        "layer_D": _robustness_1(item["layer_D"]),
        "x_null_reasons": {
            path: why
            for path, why in (item.get("x_null_reasons") or {}).items()
            if path.removeprefix("x_first_alarm.").partition("[")[0] not in _VERDICT_1
        },
    }
    if first is None:
        return {**found, "x_reasons": codes_1(item.get("x_reasons"), "windows")}
    windows, runs = _label_by_windows(found, design), first["label"]
    label = worse_of(windows, runs)
    stated = {
        "windows": (item["label"], item.get("x_reasons"), item.get("x_sentence")),
        "runs": (first["label"], first.get("reasons"), first.get("sentence")),
    }
    decided = {"windows": windows, "runs": runs}
    against = [code for code in item.get("x_reasons") or () if code in AGAINST_ALARM]
    codes = [
        code
        for unit, (_, reasons, _) in stated.items()
        if decided[unit] != SUPPORTED
        for code in codes_1(reasons, unit)
        if code not in AGAINST_ALARM
    ]
    told = "runs" if runs == label else "windows"
    for unit, (own, _, sentence) in stated.items():
        found |= {f"x_label_by_{unit}": own, f"x_sentence_by_{unit}": sentence}
    return {
        **found,
        "label": label,
        "x_reasons": list(dict.fromkeys([*codes, *against])),
        "x_sentence": stated[told][2],
        "x_alarm_eligible": bool(item.get("x_alarm_eligible")) and label == SUPPORTED,
        "x_strata": _strata_1(item.get("x_strata") or (), first.get("strata") or ()),
        "x_first_alarm": first_alarm_1(first),
    }


def worse_of(windows: str, runs: str) -> str:
    """One label of the two that a score had."""
    return next(one for one in _WORST_FIRST if one in (windows, runs))


def codes_1(codes: Any, unit: str) -> list[str]:
    """Reason codes of a verdict in one unit, as they are called today."""
    if not isinstance(codes, list | tuple | None):
        raise TypeError("no list of codes")
    named = (_CODES_1.get(code, code) for code in codes or ())
    return [code if code in _BOTH_1 else f"{unit}_{code}" for code in named]


def _label_by_windows(item: Plain, design: Design | None) -> str:
    """The label by windows; supported where only budgets straddled that today's rule finds met.

    How often such a label flips was counted by the rule of its day, and is no fault here.
    """
    label = str(item["label"])
    reasons = {*(item.get("x_reasons") or ())} - {*AGAINST_ALARM}
    gate = item["layer_B"]
    if design is None or label != INCONCLUSIVE or reasons != {"interval_straddles"}:
        return label
    at = next(one for one in item["layer_C"]["at_fpr"] if one["fpr"] == design.primary_fpr)
    covered, lead = at.get("x_coverage_interval"), at.get("lead_time_median")
    p_value = item.get("x_p_adjusted")
    met = (
        gate["x_passed"],
        covered is not None and covered["low"] >= design.coverage_min - SLACK,
        lead is not None and lead >= design.lead_least,
        p_value is not None and p_value <= design.alpha_per_look,
    )
    return SUPPORTED if all(met) else label


def _strata_1(windows: Sequence[Plain], runs: Sequence[Plain]) -> list[Plain]:
    """The strata of both units, which were two lists."""
    by_name = {one["name"]: one for one in runs}
    found = []
    for one in windows:
        other = by_name.get(one["name"])
        if other is None:
            found.append(one)
            continue
        reasons = [
            *codes_1(one.get("reasons"), "windows"),
            *codes_1(other.get("reasons"), "runs"),
        ]
        at = other.get("at")
        found.append(
            {
                **one,
                "passed": one["passed"] and other["passed"],
                "reasons": list(dict.fromkeys(reasons)),
                "first_alarm": None if at is None else _point_1(at),
                "first_alarm_p_adjusted": other.get("p_adjusted"),
            }
        )
    return found


SCHEMA = Schema("results file", (upgrade_1,))
"""Of what `gmb evaluate` writes."""

_OPENED = ("meta", "boundary", "event", "summary", "indicators")
CHECKSUMS = {1: _checksums("x_seal"), 2: _checksums("x_checksum", "x_checksums", _OPENED)}
"""Where a file keeps its checksums, by its schema."""


def without_marks(content: Mapping[str, Any]) -> dict[str, Any]:
    """A results file without the checksums of the copy that results.json once was."""
    return {key: value for key, value in content.items() if key not in _MARKS}


def is_copy(text: str) -> bool:
    """Whether the beginning of a JSON file is that of such a copy."""
    return text.startswith(f'{{"{_MARKS[0]}":')
