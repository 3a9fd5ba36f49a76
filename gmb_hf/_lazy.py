"""Names that a package offers and loads when they are first used, so that importing it is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562).

        if not TYPE_CHECKING:
            __getattr__, __dir__ = lazy_names(__name__, {"RunLog": "runlog"})

    Type checkers read the same names from imports under `if TYPE_CHECKING`, which a test compares.

    Args:
        package: dotted name of the package.
        homes: name -> the module below the package that defines it, followed by `:` and the name
            there where it is another. A module's own name stands for the module.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from gmb_hf.base.extras import needing

        home, _, there = homes[name].partition(":")
        with needing(f"{package}.{name}"):
            module = import_module(f"{package}.{home}")
        return module if name == home.rpartition(".")[2] else getattr(module, there or name)

    return load, lambda: sorted(homes)


def from_above(name: str) -> Any:
    """A public name of the package, for a method such as `Results.plot`.

    A result is drawn by `report`, which stands above it and which it may not import. The package
    stands above both and says who does it; it loads that when the method is called.
    """
    return getattr(import_module(__name__.partition(".")[0]), name)
