"""What a run is made from: its sections together, read, written and changed by assignment.

A config is immutable; `changed` makes another one from `section.field=value` assignments, and an
unknown section or field is an error that names the nearest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from gmb_hf.training.settings import (
    BenchmarkSettings,
    ModelSettings,
    SeedSettings,
    TaskSettings,
    TrainingSettings,
)
from gmb_hf.validation import InputError, choose


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """Everything that `gmb run` needs, by section."""

    preset: str
    task: TaskSettings = field(default_factory=TaskSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    benchmark: BenchmarkSettings = field(default_factory=BenchmarkSettings)
    seeds: SeedSettings = field(default_factory=SeedSettings)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "config") -> RunConfig:
        """Read what `to_dict` wrote.

        Raises:
            InputError: an unknown section or field, or a bad value.
        """
        types = _section_types()
        sections: dict[str, Any] = {}
        for key, value in data.items():
            if key == "preset":
                continue
            choose("section", key, tuple(types), where=where)
            if not isinstance(value, Mapping):
                raise InputError(f"{where}: {key} must hold fields with values, got {value!r}")
            names = tuple(entry.name for entry in dataclasses.fields(types[key]))
            for name in value:
                choose("field", name, names, where=f"{where}: {key}")
            sections[key] = types[key](**value)
        return cls(preset=str(data.get("preset", "custom")), **sections)

    def changed(self, assignments: Iterable[str]) -> RunConfig:
        """A config with some fields changed by `section.field=value`.

        Raises:
            InputError: an assignment without `=`, an unknown section or field, or a bad value.
        """
        types = _section_types()
        values: dict[str, dict[str, Any]] = {}
        for assignment in assignments:
            path, equals, text = assignment.partition("=")
            section, dot, name = path.strip().partition(".")
            if not equals or not dot:
                raise InputError(
                    f"--set {assignment!r}: write it as section.field=value, e.g. training.lr=3e-3"
                )
            choose("section", section, tuple(types), where=f"--set {assignment}")
            hints = typing.get_type_hints(types[section])
            choose("field", name, tuple(hints), where=f"--set {assignment}")
            value = _converted(text.strip(), hints[name], where=f"--set {assignment}")
            values.setdefault(section, {})[name] = value
        # All of a section at once: two fields may be right only together.
        parts = {
            section: dataclasses.replace(getattr(self, section), **fields)
            for section, fields in values.items()
        }
        return dataclasses.replace(self, **parts)

    def training_identity(self) -> dict[str, Any]:
        """The part of the config that decides a run's log, seed apart, as plain dictionaries."""
        training = dataclasses.asdict(self.training)
        for name in ("seeds_at_once", "compile"):  # they change speed, not results
            del training[name]
        return {
            "task": dataclasses.asdict(self.task),
            "model": dataclasses.asdict(self.model),
            "training": training,
        }

    def design(self) -> dict[str, Any]:
        """The part that says how runs are to be judged, as plain dictionaries."""
        return {
            "benchmark": dataclasses.asdict(self.benchmark),
            "seeds": dataclasses.asdict(self.seeds),
        }

    def training_hash(self) -> str:
        """SHA-256 of `training_identity`, 64 hex digits."""
        text = json.dumps(self.training_identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


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


def _section_types() -> dict[str, Any]:
    hints = typing.get_type_hints(RunConfig)
    return {name: kind for name, kind in hints.items() if dataclasses.is_dataclass(kind)}


def _converted(text: str, kind: Any, *, where: str) -> Any:
    """The text as a value of the field's type; numbers as YAML or Python writes them."""
    if typing.get_origin(kind) is tuple:
        return tuple(_converted(part.strip(), int, where=where) for part in text.split(","))
    kinds = typing.get_args(kind) or (kind,)
    if text.lower() in ("none", "null") and type(None) in kinds:
        return None
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
