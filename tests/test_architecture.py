"""Who may import whom: the plan of the house, read from the imports.

Every import counts, also one inside a function, a module that is named in a string, and one that an
`__init__` loads when it is first asked (`_HOME`); one under `if TYPE_CHECKING:` is for the reader
only and is free.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "gmb_hf"

BASE = {"_lazy", "_version", "validation", "files", "jsonfile", "fingerprints"}
UP_TO_BENCHMARK = {"tasks", "runs", "preregistration", "indicators", "benchmark"}
GROUND_FLOOR = UP_TO_BENCHMARK | {"crucible", "continual"}
GROUND = BASE | GROUND_FLOOR
TRAINING = {"modeling", "training"}
MAY_IMPORT = {
    "_lazy": set(),
    "_version": set(),
    "validation": set(),
    "files": {"validation"},
    "jsonfile": {"validation", "files"},
    "fingerprints": {"validation", "files"},
    # The ground floor, in its own order.
    "tasks": BASE,
    "runs": BASE,
    "preregistration": BASE,
    "indicators": BASE | {"tasks", "runs", "preregistration"},
    "benchmark": BASE | {"tasks", "runs", "preregistration", "indicators"},
    "crucible": BASE | UP_TO_BENCHMARK,
    "continual": BASE | UP_TO_BENCHMARK | {"crucible"},
    # Models are trained on tasks and leave runs.
    "modeling": BASE | {"tasks", "runs"},
    "training": BASE | {"tasks", "runs", "modeling"},
    "protocols": GROUND | TRAINING,
    "monitor": GROUND | TRAINING,
    "answers": GROUND | TRAINING | {"hub"},
    # What is made of results.
    "reporting": GROUND,
    "hub": GROUND,
    "workflows": GROUND | TRAINING | {"protocols", "monitor", "reporting", "hub"},
    "cli": GROUND
    | TRAINING
    | {"protocols", "monitor", "answers", "reporting", "hub", "workflows", "metrics"},
    "metrics": GROUND,
    # Pages of the metrics.
    "apps": GROUND | {"reporting", "metrics"},
    "__init__": {"_lazy", "_version"},
}
"""Folder or module directly under gmb_hf -> those that it may import, itself apart."""

ON_TOP = {"metrics", "trainers", "dataset_scripts", "benchmarks", "tests"}
"""Top-level folders of scripts: nothing in the package imports them."""

TORCH = {"torch", "transformers", "accelerate"}


class Import(NamedTuple):
    """One import statement (or module named in a string) of a file of the package."""

    path: Path
    line: int
    module: str  # dotted, e.g. "gmb_hf.runs.panel" or "torch"
    inside_function: bool

    @property
    def importer(self) -> str:
        """The importing module, dotted; a package's `__init__` goes by the package's name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def home(self) -> str:
        """The folder or module under gmb_hf that imports; `__init__` for the package itself."""
        return unit(self.importer)

    def at(self, rule: str) -> str:
        """The line that a failure shows."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: imports {self.module}; {rule}"


def unit(module: str) -> str:
    """`gmb_hf.runs.panel` -> `runs`; the package itself -> `__init__`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of(path: Path) -> Iterator[Import]:
    """Every import of one file but those under TYPE_CHECKING, relative ones resolved."""
    yield from _walk(ast.parse(path.read_text(encoding="utf-8")).body, path, inside=False)


def _walk(nodes: Iterable[ast.AST], path: Path, *, inside: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _walk(node.orelse, path, inside=inside)
            continue
        for name in _named(node, path):
            yield Import(path, node.lineno, name, inside)
        inner = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(ast.iter_child_nodes(node), path, inside=inner)


def _named(node: ast.AST, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
            base = ".".join([*package, *([node.module] if node.module else [])])
        return [_submodule(base, alias.name) for alias in node.names]
    if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "_HOME":
        package = ".".join(path.relative_to(ROOT).parts[:-1])
        if package == PACKAGE:
            return []  # the public names, from all over the house
        return [f"{package}.{home}" for home in sorted({*ast.literal_eval(node.value).values()})]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if re.fullmatch(rf"{PACKAGE}(\.\w+)+", node.value) else []
    return []


def _submodule(base: str, name: str) -> str:
    """`from package import name`: the module `package.name` where there is one, else `package`."""
    place = ROOT.joinpath(*base.split("."), name)
    is_module = place.with_suffix(".py").exists() or (place / "__init__.py").exists()
    return f"{base}.{name}" if is_module else base


FILES = sorted((ROOT / PACKAGE).rglob("*.py"))
IMPORTS = [found for path in FILES for found in imports_of(path)]
OURS = [found for found in IMPORTS if found.module.split(".")[0] == PACKAGE]


def show(faults: list[str]) -> str:
    return "\n".join(["", *faults])


def test_every_folder_has_its_place_in_the_plan():
    homes = {unit(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in FILES}
    strangers = sorted(homes - MAY_IMPORT.keys())
    assert not strangers, f"not in the plan of the house (MAY_IMPORT): {strangers}"


def test_imports_go_down_the_house_only():
    faults = [
        found.at(
            f"{found.home} may import only {', '.join(sorted(MAY_IMPORT[found.home])) or 'nothing'}"
        )
        for found in OURS
        if unit(found.module) != found.home and unit(found.module) not in MAY_IMPORT[found.home]
    ]
    assert not faults, show(faults)


def test_the_plan_itself_has_no_circle():
    assert _circle({home: sorted(below) for home, below in MAY_IMPORT.items()}) is None


def test_no_circles_between_modules():
    graph: dict[str, list[str]] = {}
    for found in OURS:
        if found.module != found.importer:
            graph.setdefault(found.importer, []).append(found.module)
    circle = _circle(graph)
    assert circle is None, f"modules import each other in a circle: {' -> '.join(circle or ())}"


def test_no_honest_protocol_knows_the_quirks_of_compat():
    quirks = "gmb_hf.benchmark.compat"
    judging = {"preregistration", "indicators", "benchmark", "crucible", "metrics"}
    faults = [
        found.at(f"the rules of compat stay in {quirks}")
        for found in OURS
        if found.home in judging
        and found.module.startswith(quirks)
        and not found.importer.startswith(quirks)
    ]
    assert any(found.module.startswith(quirks) for found in OURS), "the folder has moved"
    assert not faults, show(faults)


def test_ground_floor_knows_no_torch():
    faults = [
        found.at(f"{found.home} is on the ground floor: no {', '.join(sorted(TORCH))}")
        for found in IMPORTS
        if found.home in GROUND_FLOOR and found.module.split(".")[0] in TORCH
    ]
    assert not faults, show(faults)


def test_datasets_only_inside_functions_of_tasks():
    faults = [
        found.at("on the ground floor only tasks may, inside a function")
        for found in IMPORTS
        if found.home in GROUND_FLOOR
        and found.module.split(".")[0] == "datasets"
        and (found.home != "tasks" or not found.inside_function)
    ]
    assert not faults, show(faults)


def test_scripts_on_top_are_never_imported_from_below():
    faults = [
        found.at("scripts stand on top of the package")
        for found in IMPORTS
        if found.module.split(".")[0] in ON_TOP
    ]
    assert not faults, show(faults)


def test_command_line_holds_no_numerics():
    libraries = {"numpy", "scipy", "sklearn", "pyarrow", "torch", "transformers", "matplotlib"}
    faults = [
        found.at("cli parses, calls and prints; it computes nothing")
        for found in IMPORTS
        if found.home == "cli" and found.module.split(".")[0] in libraries
    ]
    assert not faults, show(faults)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", [("torch", False)]),
        ("def f():\n    from torch import nn", [("torch", True)]),
        ("from gmb_hf.runs import RunLog", [("gmb_hf.runs", False)]),
        ("from gmb_hf.runs import panel", [("gmb_hf.runs.panel", False)]),
        ("from . import panel", [("gmb_hf.runs.panel", False)]),
        ("from ..files import write_text", [("gmb_hf.files", False)]),
        ("_HOME = {'Panel': 'panel', 'Row': 'panel'}", [("gmb_hf.runs.panel", False)]),
        ("x = 'gmb_hf.indicators.catalogue'", [("gmb_hf.indicators.catalogue", False)]),
        ("if TYPE_CHECKING:\n    import torch", []),
        ("if typing.TYPE_CHECKING:\n    import a\nelse:\n    import b", [("b", False)]),
    ],
)
def test_the_reader_of_imports_sees_each_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: list[tuple[str, bool]]
):
    house = tmp_path / PACKAGE / "runs"
    house.mkdir(parents=True)
    for name in ("__init__.py", "panel.py"):
        (house / name).touch()
    path = house / "probe.py"
    path.write_text(source)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert [(found.module, found.inside_function) for found in imports_of(path)] == expected


def test_a_fault_names_file_line_and_rule():
    found = Import(ROOT / PACKAGE / "runs" / "panel.py", 7, "torch", False)
    assert found.at("no torch here") == "gmb_hf/runs/panel.py:7: imports torch; no torch here"


def _circle(graph: dict[str, list[str]]) -> list[str] | None:
    """The nodes of a circle, first and last the same, or None."""
    finished: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str] | None:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in finished:
            return None
        for other in graph.get(node, ()):
            found = visit(other, [*trail, node])
            if found:
                return found
        finished.add(node)
        return None

    return next((found for node in graph if (found := visit(node, []))), None)


def test_circles_are_found():
    assert _circle({"a": ["b"], "b": ["c"], "c": ["a"]}) == ["a", "b", "c", "a"]
    assert _circle({"a": ["b", "c"], "b": ["c"]}) is None
