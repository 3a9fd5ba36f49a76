"""Variants of the architecture as people write them: `dense`, `banded-256`, `sort-4+blend-8`.

| text          | fields of the model, and what they do                                  |
|---------------|------------------------------------------------------------------------|
| dense         | none: every model without a variant                                    |
| banded-B      | band_fc1 = band_fc2 = B: a unit of the MLP sees a band of the others   |
| banded-B1-B2  | band_fc1 = B1 (up), band_fc2 = B2 (down); `none` leaves one of them so |
| sort-W        | sort_window = W: after each block, states mix with alike earlier ones  |
| blend-G       | blend_window = G: embeddings mix with those of the tokens before them  |
| hebbian-H     | hebbian_window = H: in training, neighbours pull their embeddings      |
| hebbian-H@R   | the same at another hebbian_rate R than 0.001                          |
| loops-NxT     | cycles = N, inner_steps = T: N slow cycles of T steps of a fast block  |
| ...-halting   | the same with halting: the answer is a learned mean over the cycles    |

Several are joined by `+`. The fields have the same names in `ModelSettings` and in
`GrokkingTransformerConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gmb_hf.base.errors import InputError, choose, positive_int, repeated

DENSE = "dense"
HEBBIAN_RATE = 1e-3
RATE = "hebbian_rate"
LOOPS = "loops"
HALTING = "halting"
LOOP_SIZES = ("cycles", "inner_steps")
KINDS: dict[str, tuple[str, ...]] = {
    "banded": ("band_fc1", "band_fc2"),
    "sort": ("sort_window",),
    "blend": ("blend_window",),
    "hebbian": ("hebbian_window",),
}
"""Kind -> the fields that its numbers set, in the order in which names are written."""

SIZES = tuple(name for names in KINDS.values() for name in names)
FIELDS = (*SIZES, RATE, *LOOP_SIZES, HALTING)
"""Every field that a variant sets."""


@dataclass(frozen=True)
class Variant:
    """One architecture.

    Attributes:
        fields: of `ModelSettings` and the model's config; those that are not set are left out.
        name: as `parse_variant` reads it; two texts of one architecture have one name.
    """

    fields: Mapping[str, int | float] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Variant:
        """The variant that fields of a model make; None, and all other fields, are left out."""
        sizes = (*SIZES, *LOOP_SIZES)
        kept = {name: values[name] for name in sizes if values.get(name) is not None}
        if "hebbian_window" in kept:
            kept[RATE] = values.get(RATE, HEBBIAN_RATE)
        if values.get(HALTING):
            kept[HALTING] = True
        return cls(kept)

    @property
    def name(self) -> str:
        parts = []
        for kind, names in KINDS.items():
            sizes = [self.fields.get(name) for name in names]
            if any(sizes):
                shown = sizes[:1] if len(set(sizes)) == 1 else sizes
                parts.append("-".join([kind, *(str(size or "none") for size in shown)]))
        rate = self.fields.get(RATE, HEBBIAN_RATE)
        if rate != HEBBIAN_RATE:
            parts[-1] += f"@{rate!r}"
        if any(self.fields.get(name) for name in LOOP_SIZES):
            times = "x".join(str(self.fields.get(name)) for name in LOOP_SIZES)
            parts.append(f"{LOOPS}-{times}" + (f"-{HALTING}" if self.fields.get(HALTING) else ""))
        return "+".join(parts) or DENSE


def parse_variant(text: str) -> Variant:
    """The variant that `text` stands for.

    Raises:
        InputError: an unknown kind (the nearest is named), a part given twice, or a number that
            is missing, one too many, or not a whole number of at least 1.

    Examples:
        >>> parse_variant("banded-256-128+sort-4").fields
        {'band_fc1': 256, 'band_fc2': 128, 'sort_window': 4}
    """
    parts = [part.strip() for part in text.split("+")]
    where = f"variant {text!r}"
    kinds = []
    found: dict[str, Any] = {}
    for part in parts:
        numbers, at, rate = part.partition("@")
        kind, *sizes = numbers.split("-")
        kinds.append(choose("kind", kind, (DENSE, *KINDS, LOOPS), where=where))
        if kind == DENSE:
            if len(parts) > 1 or part != DENSE:
                raise InputError(f"{where}: {DENSE} stands alone and without numbers")
            continue
        found.update(_loops(sizes, where) if kind == LOOPS else _sizes(kind, sizes, where))
        if at:
            found[RATE] = _rate(kind, rate, where)
    twice = repeated(kinds)
    if twice:
        raise InputError(f"{where}: {twice} is given twice; give each kind once")
    return Variant.of(found)


def _sizes(kind: str, texts: list[str], where: str) -> dict[str, int | None]:
    names = KINDS[kind]
    if len(names) == 2 and len(texts) == 1:
        texts = texts * 2
    if len(texts) != len(names):
        forms = " or ".join(f"{kind}-{'-'.join(['8'] * n)}" for n in range(1, len(names) + 1))
        raise InputError(f"{where}: {kind} takes its numbers as in {forms}")
    sizes: dict[str, int | None] = {}
    for name, text in zip(names, texts, strict=True):
        none = text == "none" and len(names) == 2
        sizes[name] = None if none else _number(name, text, where)
    if not any(sizes.values()):
        raise InputError(f"{where}: without any band it is the {DENSE} one; write {DENSE}")
    return sizes


def _loops(texts: list[str], where: str) -> dict[str, int | bool]:
    times = texts[0].split("x") if texts else []
    if len(times) != 2 or texts[1:] not in ([], [HALTING]):
        raise InputError(f"{where}: {LOOPS} is written as in {LOOPS}-2x3 or {LOOPS}-2x3-{HALTING}")
    pairs = zip(LOOP_SIZES, times, strict=True)
    return {name: _number(name, text, where) for name, text in pairs} | {HALTING: bool(texts[1:])}


def _number(name: str, text: str, where: str) -> int:
    return positive_int(name, int(text) if text.isdecimal() else text, where=where)


def _rate(kind: str, text: str, where: str) -> float:
    if kind != "hebbian":
        raise InputError(f"{where}: {kind} has no rate; only hebbian-H@RATE has")
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate < float("inf"):
        raise InputError(f"{where}: {text!r} is no rate; write a number above 0, as in @0.001")
    return rate
