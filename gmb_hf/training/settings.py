"""Configs that are made of sections: read, changed by assignment, and hashed.

A config and its sections are the pydantic models of `base/documents.py`: immutable, strictly typed,
with errors that name the path of each wrong field. `Config.changed` makes another config from
`section.field=value` assignments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from gmb_hf.base.documents import Section, read_value
from gmb_hf.base.errors import InputError, choose


def _as_written(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    check(value)
    return value


# A whole number stays one where any number will do: hashes are over the values as given.
AS_WRITTEN = WrapValidator(_as_written)
Size = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AS_WRITTEN]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), AS_WRITTEN]
Fraction = Annotated[float, Field(gt=0, lt=1), AS_WRITTEN]
ClosedFraction = Annotated[float, Field(ge=0, le=1), AS_WRITTEN]


def one_of(kind: str, known: Iterable[str]) -> AfterValidator:
    """The check that a text is one of these names; the message suggests the nearest."""
    return AfterValidator(lambda value: choose(kind, value, tuple(known)))


class SettingsSection(Section):
    """A config or one of its sections."""

    kind: ClassVar[str] = "config"
    """What messages call it."""

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """From its fields; `InputError` for an unknown one or a bad value."""
        return cls.parse(fields, where=cls.kind)

    def replace(self, **fields: Any) -> Self:
        """A copy with some fields changed, checked like a new one."""
        return self.of(**{**dict(self), **fields})

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Check what holds of several fields together."""

    @classmethod
    def assignable(cls) -> dict[str, Any]:
        """Name of each field -> its type."""
        return {name: field.annotation for name, field in cls.model_fields.items()}

    def check_multiple(self, name: str, part: str) -> None:
        """Refuse a field that is no multiple of another one."""
        value, of = getattr(self, name), getattr(self, part)
        if value % of:
            raise InputError(f"{name}={value} is no multiple of {part}={of}; change one of them")


class Config(SettingsSection):
    """Sections of settings, and the name of the preset that they began with."""

    preset: str = "custom"

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "config") -> Self:
        """A config from section -> field -> value; what is missing takes its default.

        `where` opens the message of the `InputError` for an unknown section or field, or a bad
        value.
        """
        return cls.parse(data, where=where)

    def changed(self, assignments: Iterable[str]) -> Self:
        """A config with some fields changed by `section.field=value`.

        `InputError` for one without `=`, an unknown section or field, or a bad value.
        """
        sections = {name: value for name, value in self if isinstance(value, SettingsSection)}
        # All of a section at once: two fields may be right only together.
        changes: dict[str, dict[str, Any]] = {}
        for assignment in assignments:
            path, equals, text = assignment.partition("=")
            section, dot, name = path.strip().partition(".")
            if not equals or not dot:
                raise InputError(
                    f"--set {assignment!r}: write it as section.field=value, e.g. training.lr=3e-3"
                )
            where = f"--set {assignment}"
            known = sections[choose("section", section, tuple(sections), where=where)].assignable()
            choose("field", name, tuple(known), where=where)
            changes.setdefault(section, {})[name] = read_value(known[name], text, where=where)
        changed = {name: {**dict(sections[name]), **new} for name, new in changes.items()}
        return self.parse({**dict(self), **changed}, where="--set")


def preset_sections(
    presets: Mapping[str, Mapping[str, Any]], name: str, case: str = ""
) -> dict[str, Any]:
    """Section -> fields of a preset, as a `presets.yaml` has them, and its name as `preset`.

    What its `cases` say of the case comes last; of an unknown name `InputError` names the nearest.
    """
    given = dict(presets[choose("preset", name, tuple(presets))])
    own = given.pop("cases", {}).get(case, {})
    sections = {key: {**given.get(key, {}), **own.get(key, {})} for key in {**given, **own}}
    return {**sections, "preset": name}


def config_hash(identity: Mapping[str, Any]) -> str:
    """SHA-256 of plain data, 64 hex digits."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The first field in which two nested dictionaries differ, as `path: old -> new`, or None."""
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            inner = first_difference(before, after)
            if inner:
                return f"{key}.{inner}"
        elif before != after:
            return f"{key}: {before!r} -> {after!r}"
    return None
