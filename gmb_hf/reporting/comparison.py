"""Two evaluations side by side, indicator by indicator, and whether that means anything.

Numbers compare where both come from the same held-out runs and the same preregistration; the
fingerprints say so. Files of other people carry none: then events, seeds and system are compared,
and where they are silent too, nobody can tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gmb_hf.benchmark.result_records import IndicatorRecord
from gmb_hf.benchmark.results import Results
from gmb_hf.preregistration.documents import canonical_hash
from gmb_hf.reporting.answer import primary_target

Value = str | float | None

QUANTITIES = ("label", "AUC", "FPR", "coverage", "p")
_FINGERPRINTED = ("held-out data", "preregistration")
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
    """One indicator in both files.

    Attributes:
        name: of the indicator.
        only_in: "A" or "B" where the other file does not have it.
        values: by the names in `QUANTITIES`.
    """

    name: str
    only_in: str | None
    values: dict[str, Pair]

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        return self.only_in is not None or any(pair.changed for pair in self.values.values())


@dataclass(frozen=True)
class Comparison:
    """Two results files.

    Attributes:
        target: the false positive rate at which FPR, coverage and p are taken.
        differences: what makes the files incomparable, in words; empty where nothing is known to.
        unknown: what neither of the two fingerprints could settle.
        indicators: those of A in its order, then those of B alone; changed ones first.
    """

    target: float
    differences: tuple[str, ...]
    unknown: tuple[str, ...]
    indicators: tuple[IndicatorPair, ...]

    @property
    def comparable(self) -> bool | None:
        """Whether the numbers may be compared; None where nobody can tell."""
        if self.differences:
            return False
        return None if self.unknown else True


def compare(a: Results, b: Results) -> Comparison:
    """Put two evaluations side by side."""
    target = primary_target(a)
    named = {item.name: item for item in b.indicators}
    pairs = [_pair(item, named.pop(item.name, None), target) for item in a.indicators]
    pairs += [_pair(None, item, target) for item in named.values()]
    differences = [*_different_fingerprints(a, b)]
    unknown = [*_unknown_fingerprints(a, b)]
    if unknown:
        differences += _different_statements(a, b)
    pairs.sort(key=lambda pair: not pair.changed)
    return Comparison(target, tuple(differences), tuple(unknown), tuple(pairs))


def _different_fingerprints(a: Results, b: Results) -> Iterator[str]:
    for what in _FINGERPRINTED:
        first, second = _fingerprints(a, b, what)
        if first and second and first != second:
            yield f"{what} ({first[:_SHOWN]} and {second[:_SHOWN]})"


def _unknown_fingerprints(a: Results, b: Results) -> Iterator[str]:
    for what in _FINGERPRINTED:
        sides = zip(("A", "B"), _fingerprints(a, b, what), strict=True)
        silent = [name for name, fingerprint in sides if not fingerprint]
        if silent:
            verb = "have" if len(silent) > 1 else "has"
            yield f"{' and '.join(silent)} {verb} no fingerprint of the {what}"


def _different_statements(a: Results, b: Results) -> Iterator[str]:
    """What files without fingerprints say about their runs; what is left open is not compared."""
    stated = {
        "event.type": (a.event.type, b.event.type),
        "event.t_event_by_seed": (a.event.t_event_by_seed, b.event.t_event_by_seed),
        "boundary.task": (a.boundary.task, b.boundary.task),
        "boundary.model": (a.boundary.model, b.boundary.model),
        "boundary.seeds_eval": (a.boundary.seeds_eval, b.boundary.seeds_eval),
        "x_protocol": (a.x_protocol, b.x_protocol),
    }
    for field, (first, second) in stated.items():
        if first and second and first != second:
            yield field


def _fingerprints(a: Results, b: Results, what: str) -> tuple[str | None, str | None]:
    if what == "preregistration" and a.x_prereg is not None and b.x_prereg is not None:
        return _design(a.x_prereg), _design(b.x_prereg)
    field = "prereg_hash" if what == "preregistration" else "evaluation_fingerprint"
    first, second = (
        None if side.x_provenance is None else getattr(side.x_provenance, field) for side in (a, b)
    )
    return first, second


def _design(prereg: Mapping[str, Any]) -> str:
    # Who fixed it, when, and with which commit is no part of the design.
    return canonical_hash({key: value for key, value in prereg.items() if key != "meta"})


def _pair(a: IndicatorRecord | None, b: IndicatorRecord | None, target: float) -> IndicatorPair:
    first, second = _values(a, target), _values(b, target)
    present = a or b
    return IndicatorPair(
        name="" if present is None else present.name,
        only_in="B" if a is None else "A" if b is None else None,
        values={name: Pair(first[name], second[name]) for name in QUANTITIES},
    )


def _values(item: IndicatorRecord | None, target: float) -> dict[str, Value]:
    if item is None:
        return dict.fromkeys(QUANTITIES)
    achieved, point = item.achieved(target), item.point(target)
    raw = None if point is None else point.x_p_value
    return {
        "label": item.label,
        "AUC": item.layer_A.auc,
        "FPR": None if achieved is None else achieved.achieved,
        "coverage": None if point is None else point.coverage,
        # As in the report: the raw p stands where nothing was adjusted.
        "p": raw if item.x_p_adjusted is None else item.x_p_adjusted,
    }
