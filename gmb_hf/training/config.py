"""What a run is made from: its sections together, read, written and changed by assignment.

A config is immutable; `changed` makes another one from `section.field=value` assignments
(`sections`), and an unknown section or field is an error that names the nearest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gmb_hf.training.benchmark_settings import BenchmarkSettings
from gmb_hf.training.sections import assigned, from_sections
from gmb_hf.training.settings import (
    ModelSettings,
    SeedSettings,
    TaskSettings,
    TrainingSettings,
)
from gmb_hf.training.variants import FIELDS


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
        return from_sections(cls, data, where=where)

    def changed(self, assignments: Iterable[str]) -> RunConfig:
        """A config with some fields changed by `section.field=value`.

        Raises:
            InputError: an assignment without `=`, an unknown section or field, or a bad value.
        """
        return assigned(self, assignments)

    def training_identity(self) -> dict[str, Any]:
        """The part of the config that decides a run's log, seed apart, as plain dictionaries."""
        training = dataclasses.asdict(self.training)
        for name in ("seeds_at_once", "compile"):  # they change speed, not results
            del training[name]
        model = dataclasses.asdict(self.model)
        for name in FIELDS:  # what a model does not have, its identity does not name
            del model[name]
        return {
            "task": dataclasses.asdict(self.task),
            "model": {**model, **self.model.variant.fields},
            "training": training,
        }

    def design(self) -> dict[str, Any]:
        """The part that says how runs are to be judged, as plain dictionaries."""
        benchmark = dataclasses.asdict(self.benchmark)
        if not self.benchmark.combination:  # as before there was one, so that logs agree
            del benchmark["combination"]
        return {
            "benchmark": benchmark,
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
