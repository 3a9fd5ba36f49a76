"""Names that a package offers and loads when they are first used, so that importing it is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562).

        __getattr__, __dir__ = lazy_names(__name__, {"RunLog": "runlog"})

    Args:
        package: dotted name of the package.
        homes: name -> the module below the package that defines it, followed by `:` and the name
            there where it is another. A module's own name stands for the module.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, _, there = homes[name].partition(":")
        module = import_module(f"{package}.{home}")
        return module if name == home else getattr(module, there or name)

    return load, lambda: sorted(homes)
