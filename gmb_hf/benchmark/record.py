"""What a layer returns: a frozen dataclass that also shows itself as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


class Record:
    """Mixin of the frozen dataclasses that hold results."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as dicts, lists and Python numbers; NaN becomes None, infinity stays."""
        plain: dict[str, Any] = plain_data(self)
        return plain


def plain_data(value: Any) -> Any:
    """`value` as dicts, lists and Python scalars, ready for YAML or JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain_data(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {_key(key): plain_data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return [plain_data(item) for item in value]
    if isinstance(value, np.generic):
        return plain_data(value.item())
    if isinstance(value, float) and value != value:
        return None
    return value


def _key(key: Any) -> Any:
    # A target rate as a key is its exact decimal, as in a lock file.
    return repr(float(key)) if isinstance(key, float) else key
