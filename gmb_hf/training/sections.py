"""Configs whose fields are sections: read from plain data, changed by `section.field=value`.

A config here is a dataclass with a field `preset`; every other field is a section, itself a
dataclass of settings. An unknown section or field is an error that names the nearest.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import yaml

from gmb_hf.validation import InputError, choose

_Config = TypeVar("_Config")


def from_sections(kind: type[_Config], data: Mapping[str, Any], *, where: str) -> _Config:
    """A config from nested dictionaries, as `dataclasses.asdict` makes them.

    Args:
        kind: class of the config.
        data: section -> field -> value; what is missing takes its default.
        where: what the data come from, for the error.

    Raises:
        InputError: an unknown section or field, or a bad value.
    """
    known = _section_types(kind)
    sections: dict[str, Any] = {}
    for key, value in data.items():
        if key == "preset":
            continue
        choose("section", key, tuple(known), where=where)
        if not isinstance(value, Mapping):
            raise InputError(f"{where}: {key} must hold fields with values, got {value!r}")
        names = tuple(entry.name for entry in dataclasses.fields(known[key]))
        for name in value:
            choose("field", name, names, where=f"{where}: {key}")
        sections[key] = known[key](**value)
    make: Any = kind
    config: _Config = make(preset=str(data.get("preset", "custom")), **sections)
    return config


def assigned(config: _Config, assignments: Iterable[str]) -> _Config:
    """The config with some fields changed by `section.field=value`.

    Raises:
        InputError: an assignment without `=`, an unknown section or field, or a bad value.
    """
    known = _section_types(type(config))
    values: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        section, dot, name = path.strip().partition(".")
        if not equals or not dot:
            raise InputError(
                f"--set {assignment!r}: write it as section.field=value, e.g. training.lr=3e-3"
            )
        choose("section", section, tuple(known), where=f"--set {assignment}")
        hints = typing.get_type_hints(known[section])
        choose("field", name, tuple(hints), where=f"--set {assignment}")
        value = _converted(text.strip(), hints[name], where=f"--set {assignment}")
        values.setdefault(section, {})[name] = value
    # All of a section at once: two fields may be right only together.
    parts = {
        section: dataclasses.replace(getattr(config, section), **fields)
        for section, fields in values.items()
    }
    return dataclasses.replace(config, **parts)  # type: ignore[type-var]


def _section_types(config: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(config)
    return {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}


def _converted(text: str, hint: Any, *, where: str) -> Any:
    """The text as a value of the field's type; numbers as YAML or Python writes them."""
    kinds = _alternatives(hint)
    if text.lower() in ("none", "null") and type(None) in kinds:
        return None
    items = next((kind for kind in kinds if typing.get_origin(kind) is tuple), None)
    if items is not None:
        item = typing.get_args(items)[0]
        return tuple(_converted(part.strip(), item, where=where) for part in text.split(","))
    if str in kinds:
        return text
    try:
        if bool in kinds:
            value = yaml.safe_load(text)
            if not isinstance(value, bool):
                raise ValueError
            return value
        return int(text) if int in kinds else float(text)
    except (ValueError, yaml.YAMLError):
        wanted = (
            "true or false" if bool in kinds else "a whole number" if int in kinds else "a number"
        )
        raise InputError(f"{where}: expected {wanted}, got {text!r}") from None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """`int | None` -> (int, None's type); any other hint -> itself alone."""
    is_union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if is_union else (hint,)
