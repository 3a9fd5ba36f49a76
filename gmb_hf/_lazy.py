"""Names that a package offers and loads when they are first used, so that importing it is cheap."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562), whose stub says what it offers.

        __getattr__, __dir__ = lazy_names(__name__, __file__)

    The stub `__init__.pyi` beside the file imports the names, and is what type checkers read (as
    in SPEC 1 of Scientific Python).
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname or alias.name: (str(node.module), alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from gmb_hf.base.extras import needing

        home, there = homes[name]
        with needing(f"{package}.{name}"):
            # As the import of the stub: `there` may be a module, too.
            module = __import__(home, fromlist=[there])
        return getattr(module, there)

    return load, lambda: sorted(homes)


def from_above(name: str) -> Any:
    """A public name of the package, for a method such as `Results.plot`.

    A result is drawn by `report`, which stands above it and which it may not import. The package
    stands above both and says who does it; it loads that when the method is called.
    """
    return getattr(import_module(__name__.partition(".")[0]), name)
