"""Names that a package has but loads only when they are first used, so importing it costs nothing.

A package says where each of its names is defined, and hands over:

    _HOME = {"Panel": "panel"}

    def __getattr__(name: str) -> Any:
        return load(__name__, _HOME, name)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any


def load(package: str, homes: Mapping[str, str], name: str) -> Any:
    """What a name of a package stands for.

    Args:
        package: dotted name of the package.
        homes: name -> the module below the package that defines it, e.g. "panel".
        name: which one is asked for.

    Raises:
        AttributeError: the package has no such name.
    """
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(f"{package}.{homes[name]}"), name)
