"""Two evaluations side by side, indicator by indicator, and whether that means anything.

Numbers compare where both come from the same runs and the same preregistration; the
fingerprints say so. Files of other people carry none: then events, seeds and system are compared,
and where they are silent too, nobody can tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmb_hf.base import escape
from gmb_hf.base.checksums import canonical_hash
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_text
from gmb_hf.base.tables import Column, Table, follow
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.design.design import Design
from gmb_hf.design.fingerprint import design_fingerprint
from gmb_hf.report.answer import primary_budget, primary_target, shown_p

Value = str | float | None

QUANTITIES = ("label", "AUC", "FPR", "coverage", "p")
BY_RUNS = ("label by runs", "warned", "timely", "false runs", "p by runs")
"""Of the first alarm, beside those by windows where either file has them."""
_FINGERPRINTED = ("judged data", "preregistration")
_STATEMENTS = """
event.type event.t_event_by_seed boundary.task boundary.model boundary.seeds_eval x_protocol
"""
_SHOWN = 16  # characters of a fingerprint


@dataclass(frozen=True)
class Pair:
    """One quantity in both files; None where a file does not have it."""

    a: Value
    b: Value

    @property
    def changed(self) -> bool:
        """Whether they differ by more than a rounding error."""
        if isinstance(self.a, float) and isinstance(self.b, float):
            return not math.isclose(self.a, self.b, rel_tol=1e-9, abs_tol=1e-12)
        return self.a != self.b


@dataclass(frozen=True)
class IndicatorPair:
    """One indicator in both files, its values by the names in `BY_RUNS` and `QUANTITIES`.

    `only_in` is "A" or "B" where the other file does not have it.
    """

    name: str
    only_in: str | None
    values: dict[str, Pair]

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.differs(tuple(self.values))

    def differs(self, names: Sequence[str]) -> bool:
        """Whether any of these quantities does."""
        return self.only_in is not None or any(self.values[name].changed for name in names)


@dataclass(frozen=True)
class ResultsComparison:
    """Two results files.

    Attributes:
        target: the false positive rate at which FPR, coverage and p are taken.
        budget: the share of runs at which those of `BY_RUNS` are; None where neither file has them.
        differences: what makes the files incomparable, in words; empty where nothing is known to.
        unknown: what neither of the two fingerprints could settle.
        indicators: those of A in its order, then those of B alone; changed ones first.
        exploratory: which of "A" and "B" were judged without a lock.
    """

    target: float
    differences: tuple[str, ...]
    unknown: tuple[str, ...]
    indicators: tuple[IndicatorPair, ...]
    exploratory: tuple[str, ...] = ()
    budget: float | None = None

    @property
    def by_runs(self) -> bool:
        """Whether either file judged first alarms."""
        return self.budget is not None

    @property
    def comparable(self) -> bool | None:
        """Whether the numbers may be compared; None where nobody can tell."""
        if self.differences:
            return False
        return None if self.unknown else True


def compare(a: Results, b: Results) -> ResultsComparison:
    """Put two evaluations `a` and `b` side by side: labels and numbers of the scores of both."""
    target = primary_target(a)
    budget = primary_budget(a) or primary_budget(b)
    named = {item.name: item for item in b.indicators}
    pairs = [
        _pair(item.name, item, named.pop(item.name, None), target, budget) for item in a.indicators
    ]
    pairs += [_pair(name, None, item, target, budget) for name, item in named.items()]
    differences, unknown = [], []
    for what in _FINGERPRINTED:
        first, second = _fingerprints(a, b, what)
        silent = [name for name, known in (("A", first), ("B", second)) if not known]
        if silent:
            verb = "have" if len(silent) > 1 else "has"
            unknown.append(f"{' and '.join(silent)} {verb} no fingerprint of the {what}")
        elif first and second and first != second:
            differences.append(f"{what} ({first[:_SHOWN]} and {second[:_SHOWN]})")
    if unknown:  # what such files say about their runs; what is left open is not compared
        for field in _STATEMENTS.split():
            one, other = follow(a, field), follow(b, field)
            differences += [field] if one and other and one != other else []
    pairs.sort(key=lambda pair: not pair.changed)
    exploratory = tuple(name for name, results in (("A", a), ("B", b)) if not results.locked)
    return ResultsComparison(
        target, tuple(differences), tuple(unknown), tuple(pairs), exploratory, budget
    )


def _fingerprints(a: Results, b: Results, what: str) -> tuple[str | None, str | None]:
    if what == "preregistration" and a.x_prereg is not None and b.x_prereg is not None:
        return _design(a.x_prereg), _design(b.x_prereg)
    field = "prereg_hash" if what == "preregistration" else "evaluation_fingerprint"
    first, second = (follow(side, f"x_provenance.{field}") for side in (a, b))
    return first, second


def _design(plain: Mapping[str, Any]) -> str:
    # Who fixed it, when, and with which commit is no part of the design.
    try:
        return design_fingerprint(Design.parse(plain, where="x_prereg"))
    except InputError:  # of somebody else's results
        return canonical_hash({key: value for key, value in plain.items() if key != "meta"})


def _pair(
    name: str,
    a: IndicatorRecord | None,
    b: IndicatorRecord | None,
    target: float,
    budget: float | None,
) -> IndicatorPair:
    first, second = _values(a, target, budget), _values(b, target, budget)
    only_in = "B" if a is None else "A" if b is None else None
    return IndicatorPair(name, only_in, {key: Pair(first[key], second[key]) for key in first})


def _values(item: IndicatorRecord | None, target: float, budget: float | None) -> dict[str, Value]:
    names = QUANTITIES if budget is None else (*BY_RUNS, *QUANTITIES)
    found: dict[str, Value] = dict.fromkeys(names)
    if item is None:
        return found
    first = item.x_first_alarm
    if first is not None and budget is not None:
        # The other file may have been judged at other budgets.
        at = next((point for point in first.at_budget if point.budget == budget), None)
        found |= {
            "label by runs": first.label,
            "warned": follow(at, "warned"),
            "timely": follow(at, "timely"),
            "false runs": follow(at, "false_share"),
            "p by runs": first.p_adjusted,
        }
    return found | {
        "label": item.label,
        "AUC": item.layer_A.auc,
        "FPR": follow(item.achieved(target), "achieved"),
        "coverage": follow(item.point(target), "coverage"),
        "p": shown_p(item, target),
    }


# A comparison of two evaluations as Markdown, CSV or JSON.


def write_comparison(comparison: ResultsComparison, a: str, b: str, path: str | Path) -> Path:
    """Write a comparison of the files `a` and `b`, atomically; the ending of the name decides how.

    Raises:
        InputError: the name ends in none of .md, .csv and .json.
    """
    check_ending(path)
    text = _WRITERS[Path(path).suffix](comparison, a, b)
    return write_text(path, text)


def check_ending(path: str | Path) -> None:
    """Raise `InputError` unless a comparison can be written to this file."""
    if Path(path).suffix not in _WRITERS:
        raise InputError(f"{path}: a comparison is written as {', '.join(_WRITERS)}; choose one")


def verdict(comparison: ResultsComparison) -> str:
    """Whether the numbers compare, in a sentence."""
    said = "Comparable: the same judged data and the same preregistration."
    if comparison.differences:
        said = f"Not comparable: they differ in their {', '.join(comparison.differences)}."
    elif comparison.unknown:
        said = f"Nobody can tell whether they are comparable: {'; '.join(comparison.unknown)}."
    if comparison.exploratory:
        said += f" Exploratory, without a lock: {' and '.join(comparison.exploratory)}."
    return said


def count_changes(comparison: ResultsComparison) -> str:
    """How many indicators changed, in a sentence."""
    changed = [pair for pair in comparison.indicators if pair.changed]
    label = "label by runs" if comparison.by_runs else "label"
    labels = [pair for pair in changed if not pair.only_in and pair.values[label].changed]
    total = len(comparison.indicators)
    return f"{len(changed)} of {total} indicators differ, {len(labels)} in their {label}."


def shown(name: str, value: Value) -> str:
    """One value as readers see it."""
    if isinstance(value, str):
        return value
    if name in ("p", "p by runs"):
        return escape.p_value(value)
    return escape.number(value, 2 if name in ("AUC", "coverage") else 3)


def _markdown(comparison: ResultsComparison, a: str, b: str) -> str:
    columns = [Column("indicator", str, "l")]
    if comparison.by_runs:
        at = f" at {comparison.budget:g} of runs"
        columns.append(Column(BY_RUNS[0], str, "l"))
        columns += [Column(name + at, str) for name in BY_RUNS[1:]]
    columns.append(Column("label by windows" if comparison.by_runs else "label", str, "l"))
    at = f" at {comparison.target:g}"
    columns += [Column(name + at * (name != "AUC"), str) for name in QUANTITIES[1:]]
    rows = []
    for item in comparison.indicators:
        cells = [
            escape.markdown(item.name) + (f" (only in {item.only_in})" if item.only_in else "")
        ]
        for name, pair in item.values.items():
            both = item.only_in is None and pair.changed
            text = shown(name, pair.b if item.only_in == "B" else pair.a)
            cells.append(f"{text} → **{shown(name, pair.b)}**" if both else text)
        rows.append(cells)
    head, rule, *body = Table(columns, rows).md().splitlines()
    about = f"A is {escape.markdown(a)}, B is {escape.markdown(b)}."
    said = f"{escape.markdown(verdict(comparison))} {count_changes(comparison)}"
    # The rule is as in the first version of this file.
    return "\n".join([about, "", said, "", head, rule.replace(" ", ""), *body]) + "\n"


def _csv(comparison: ResultsComparison, a: str, b: str) -> str:
    columns = [Column(name) for name in ("indicator", "quantity", "A", "B", "changed", "only_in")]
    rows = [
        (item.name, name, pair.a, pair.b, str(pair.changed), item.only_in)
        for item in comparison.indicators
        for name, pair in item.values.items()
    ]
    return Table(columns, rows).csv()


def _json(comparison: ResultsComparison, a: str, b: str) -> str:
    content: dict[str, Any] = {
        "a": a,
        "b": b,
        "target": comparison.target,
        **({"budget": comparison.budget} if comparison.by_runs else {}),
        "comparable": comparison.comparable,
        "differences": list(comparison.differences),
        "unknown": list(comparison.unknown),
        "indicators": [],
    }
    for item in comparison.indicators:
        known = {"name": item.name, "only_in": item.only_in, "changed": item.changed}
        pairs = item.values.items()
        both = {key: {"a": two.a, "b": two.b, "changed": two.changed} for key, two in pairs}
        content["indicators"].append({**known, **both})
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_WRITERS = {".md": _markdown, ".csv": _csv, ".json": _json}
