"""Two evaluations side by side, indicator by indicator, and whether that means anything.

Numbers compare where both come from the same runs and the same preregistration; the
fingerprints say so. Files of other people carry none: then events, seeds and system are compared,
and where they are silent too, nobody can tell.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gmb_hf.base import escape
from gmb_hf.base.checksums import canonical_hash
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_text
from gmb_hf.base.tables import Column, Table, follow
from gmb_hf.benchmark.results import Results
from gmb_hf.design.design import Design
from gmb_hf.design.fingerprint import design_fingerprint
from gmb_hf.report.answer import RankedVerdicts, answer
from gmb_hf.report.tables import ScoreColumn, score_columns, score_rows

Value = str | float | None

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
    """One indicator in both files: its label, and its numbers by the names of `score_columns`.

    `only_in` is "A" or "B" where the other file does not have it.
    """

    name: str
    only_in: str | None
    values: dict[str, Pair]

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.only_in is not None or any(pair.changed for pair in self.values.values())


@dataclass(frozen=True)
class ResultsComparison:
    """Two results files.

    Attributes:
        target: the false positive rate at which numbers by windows are taken.
        budget: the share of runs at which those by runs are; None where neither file has them.
        columns: the numbers that are compared, beside the label.
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
    columns: tuple[ScoreColumn, ...] = ()

    @property
    def comparable(self) -> bool | None:
        """Whether the numbers may be compared; None where nobody can tell."""
        if self.differences:
            return False
        return None if self.unknown else True


def compare(a: Results, b: Results) -> ResultsComparison:
    """Put two evaluations `a` and `b` side by side: labels and numbers of the scores of both."""
    one, other = answer(a), answer(b)
    budget = one.budget or other.budget
    one, other = (replace(it, target=one.target, budget=budget) for it in (one, other))
    columns = tuple(score_columns(one))
    first, second = _values(a, one, columns), _values(b, other, columns)
    pairs = []
    for name in {**first, **second}:
        only_in = "B" if name not in first else "A" if name not in second else None
        values = {
            key: Pair(first.get(name, {}).get(key), second.get(name, {}).get(key))
            for key in ("label", *(column.name for column in columns))
        }
        pairs.append(IndicatorPair(name, only_in, values))
    differences, unknown = [], []
    for what in _FINGERPRINTED:
        known = _fingerprints(a, b, what)
        silent = [name for name, there in zip("AB", known, strict=True) if not there]
        if silent:
            verb = "have" if len(silent) > 1 else "has"
            unknown.append(f"{' and '.join(silent)} {verb} no fingerprint of the {what}")
        elif known[0] != known[1]:
            differences.append(f"{what} ({' and '.join(str(it)[:_SHOWN] for it in known)})")
    if unknown:  # what such files say about their runs; what is left open is not compared
        for field in _STATEMENTS.split():
            said = [follow(a, field), follow(b, field)]
            differences += [field] if all(said) and said[0] != said[1] else []
    pairs.sort(key=lambda pair: not pair.changed)
    exploratory = tuple(name for name, results in (("A", a), ("B", b)) if not results.locked)
    found = tuple(differences), tuple(unknown), tuple(pairs), exploratory
    return ResultsComparison(one.target, *found, budget, columns)


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


def _values(
    results: Results, found: RankedVerdicts, columns: Sequence[ScoreColumn]
) -> dict[str, dict[str, Value]]:
    """The label and the numbers of each indicator, by name, in the order of the file."""
    return {
        row.item.name: {
            "label": row.item.shown_label,
            **{column.name: column.value(row) for column in columns},
        }
        for row in score_rows(found, results.indicators)
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
    labels = [pair for pair in changed if not pair.only_in and pair.values["label"].changed]
    of_all = f"{len(changed)} of {len(comparison.indicators)} indicators differ"
    return f"{of_all}, {len(labels)} in their label."


def shown(column: ScoreColumn | None, value: Value) -> str:
    """One value as readers see it; `column` is None for a label."""
    if column is None or value is None:
        return str(value or "–")
    # A difference below one per cent must be seen.
    return escape.number(float(value)) if column.show is escape.percent else column.show(value)


def _markdown(comparison: ResultsComparison, a: str, b: str) -> str:
    known = {column.name: column for column in comparison.columns}
    columns = [Column("indicator", str, "l"), Column("label", str, "l")]
    columns += [Column(column.full, str) for column in comparison.columns]
    rows = []
    for item in comparison.indicators:
        cells = [
            escape.markdown(item.name) + (f" (only in {item.only_in})" if item.only_in else "")
        ]
        for name, pair in item.values.items():
            both, column = item.only_in is None and pair.changed, known.get(name)
            text = shown(column, pair.b if item.only_in == "B" else pair.a)
            cells.append(f"{text} → **{shown(column, pair.b)}**" if both else text)
        rows.append(cells)
    about = f"A is {escape.markdown(a)}, B is {escape.markdown(b)}."
    said = f"{escape.markdown(verdict(comparison))} {count_changes(comparison)}"
    return "\n".join([about, "", said, "", Table(columns, rows).md()])


def _csv(comparison: ResultsComparison, a: str, b: str) -> str:
    columns = [Column(name) for name in ("indicator", "quantity", "A", "B", "changed", "only_in")]
    rows = [
        (item.name, name, pair.a, pair.b, str(pair.changed), item.only_in)
        for item in comparison.indicators
        for name, pair in item.values.items()
    ]
    return Table(columns, rows).csv()


def _json(comparison: ResultsComparison, a: str, b: str) -> str:
    content: dict[str, Any] = {"a": a, "b": b, "comparable": comparison.comparable}
    content |= {name: getattr(comparison, name) for name in _STATED}
    content["indicators"] = [
        {"name": item.name, "only_in": item.only_in, "changed": item.changed}
        | {key: {**vars(two), "changed": two.changed} for key, two in item.values.items()}
        for item in comparison.indicators
    ]
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


_STATED = ("target", "budget", "differences", "unknown")
_WRITERS = {".md": _markdown, ".csv": _csv, ".json": _json}
