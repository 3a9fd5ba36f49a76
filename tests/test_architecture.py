"""Who may import whom: the layers of the package, read from the imports.

Every import counts: one inside a function, one under `if TYPE_CHECKING:`, a module that is named in
a string, and one that an `__init__` loads when it is first asked (`lazy_names`).
"""

from __future__ import annotations

import ast
import functools
import io
import re
import shutil
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from gmb_hf.base.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "gmb_hf"

BASE = ["base", "_version", "_lazy"]
PARTS = [
    "core",
    "tasks",
    "runs",
    "design",
    "indicators",
    "benchmark",
    "report",
    "crucible",
    "modeling",
    "training",
    "protocol.language",
    "protocol.scaling",
    "protocol.sequential",
    "protocol.incontext",
    "protocol.answers",
    "monitor",
    "hub",
    "hub.apps",
    "jobs.metrics",
    "jobs.run",
    "jobs.splits",
    "jobs.recalibration",
    "jobs.trial",
    "hub.leaderboard",
    "jobs.demo",
    "jobs.trainers",
    "cli",
    "__main__",
]
"""Folders and modules under gmb_hf, from below: each may import those before it.

Of `protocol`, `hub` and `jobs`, what lies in them has a place of its own.
"""
SHARED = {part.split(".")[0] for part in PARTS if "." in part}

EXCEPTIONS = {("gmb_hf.crucible.grokking", "training")}
"""(module, part): the fixture of grokking is a trained model."""

ON_TOP = {"metrics", "trainers", "dataset_scripts", "benchmarks", "tests"}
"""Top-level folders of scripts: nothing in the package imports them."""

TORCH = {"torch", "transformers", "accelerate"}
WITHOUT_TORCH = {*BASE, *PARTS[: PARTS.index("crucible") + 1]}
NUMERICS = {"numpy", "scipy", "sklearn", "pyarrow", "torch", "transformers", "matplotlib"}
COMPAT = "gmb_hf.benchmark.compat"


class Import(NamedTuple):
    """One import statement (or module named in a string) of a file of the package."""

    path: Path
    line: int
    module: str  # dotted, e.g. "gmb_hf.runs.panel" or "torch"
    deferred: bool  # in a function or under TYPE_CHECKING: not run when the file is imported

    @property
    def importer(self) -> str:
        """The importing module, dotted; a package's `__init__` goes by the package's name."""
        return module_of(self.path)

    @property
    def home(self) -> str:
        """The part that imports; `__init__` for the package itself."""
        return part_of(self.importer)

    def at(self, rule: str) -> str:
        """The line that a failure shows."""
        return f"{self.path.relative_to(ROOT)}:{self.line}: imports {self.module}; {rule}"


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """`gmb_hf.runs.panel` -> `runs`; `gmb_hf.hub.apps.page` -> `hub.apps`; itself -> `__init__`."""
    parts = module.split(".")
    if ".".join(parts[1:3]) in PARTS:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 else "__init__"


@functools.cache
def parsed(path: Path) -> ast.Module:
    """A file of the package as a tree, read once for all the rules."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> list[Import]:
    """Every import of one file, relative ones resolved."""
    found: list[Import] = []
    _walk(parsed(path).body, path, found, deferred=False)
    return found


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
NAMING = (ast.Import, ast.ImportFrom, ast.Call, ast.Constant)


def _walk(nodes: Iterable[ast.AST], path: Path, found: list[Import], *, deferred: bool) -> None:
    for node in nodes:
        if isinstance(node, NAMING):
            late = deferred or _is_lazy(node)
            found += [Import(path, node.lineno, name, late) for name in _named(node, path)]
        inner = (
            deferred
            or isinstance(node, FUNCTIONS)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        )
        _walk(ast.iter_child_nodes(node), path, found, deferred=inner)


def _named(node: ast.AST, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = path.relative_to(ROOT).with_suffix("").parts[: -node.level]
            base = ".".join([*package, *([node.module] if node.module else [])])
        return [_submodule(base, alias.name) for alias in node.names]
    if _is_lazy(node):
        stub = path.with_suffix(".pyi")
        return [name for line in parsed(stub).body for name in _named(line, stub)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if re.fullmatch(rf"{PACKAGE}(\.\w+)+", node.value) else []
    return []


def _is_lazy(node: ast.AST) -> bool:
    """Whether it loads the names of the stub beside the file when they are first asked for."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "lazy_names"


def _submodule(base: str, name: str) -> str:
    """`from package import name`: the module `package.name` where there is one, else `package`."""
    if not base.startswith(PACKAGE):
        return base
    place = ROOT.joinpath(*base.split("."), name)
    is_module = place.with_suffix(".py").exists() or (place / "__init__.py").exists()
    return f"{base}.{name}" if is_module else base


FILES = sorted((ROOT / PACKAGE).rglob("*.py"))
MODULES = {module_of(path) for path in FILES}


@functools.cache
def imports() -> list[Import]:
    """Every import of the package."""
    return [found for path in FILES for found in imports_of(path)]


@functools.cache
def ours() -> list[Import]:
    """The imports of modules of the package itself."""
    return [found for found in imports() if found.module in MODULES]


def show(faults: list[str]) -> str:
    return "\n".join(["", *faults])


def may_import(importer: str, home: str, imported: str) -> bool:
    """Whether a module of the part `home` may import from the part `imported`."""
    if imported == home or imported in BASE or (importer, imported) in EXCEPTIONS:
        return True
    if imported not in PARTS or home not in PARTS:
        return home == "__init__"
    return PARTS.index(imported) < PARTS.index(home)


def test_every_folder_has_its_place_in_the_plan():
    homes = {part_of(module) for module in MODULES} - {"__init__"}
    assert homes - SHARED == {*BASE, *PARTS} - SHARED
    assert all(
        module.count(".") == 1 for module in MODULES if part_of(module) in {"protocol", "jobs"}
    )


def test_the_top_of_the_package_shows_what_is_here():
    top = [path for path in (ROOT / PACKAGE).iterdir() if path.name != "__pycache__"]
    assert sum(path.is_dir() for path in top) <= 16
    assert sum(path.suffix == ".py" for path in top) <= 4


def test_imports_go_one_way_only():
    faults = [
        found.at(f"{found.home} lies below {part_of(found.module)}")
        for found in ours()
        if not may_import(found.importer, found.home, part_of(found.module))
    ]
    assert not faults, show(faults)


def test_no_exception_is_left_over():
    used = {(found.importer, part_of(found.module)) for found in ours()}
    assert used >= EXCEPTIONS


def test_no_circles_between_files():
    graph: dict[str, list[str]] = {}
    for found in ours():
        if found.module != found.importer:
            graph.setdefault(found.importer, []).append(found.module)
    circle = _circle(graph)
    assert circle is None, f"files import each other in a circle: {' -> '.join(circle or ())}"


def test_no_honest_protocol_knows_the_quirks_of_compat():
    judging = {"core", "design", "indicators", "benchmark", "crucible", "jobs.metrics"}
    faults = [
        found.at(f"the rules of compat stay in {COMPAT}")
        for found in ours()
        if found.home in judging
        and found.module.startswith(COMPAT)
        and not found.importer.startswith(COMPAT)
    ]
    assert any(found.module.startswith(COMPAT) for found in ours()), "the file has moved"
    assert not faults, show(faults)


def test_no_torch_up_to_crucible():
    faults = [
        found.at(f"up to crucible there is no {', '.join(sorted(TORCH))}")
        for found in imports()
        if found.home in WITHOUT_TORCH
        and found.module.split(".")[0] in TORCH
        and found.importer not in {importer for importer, _ in EXCEPTIONS}
    ]
    assert not faults, show(faults)


def test_datasets_only_inside_functions_of_tasks():
    faults = [
        found.at("up to crucible only tasks may, inside a function")
        for found in imports()
        if found.home in WITHOUT_TORCH
        and found.module.split(".")[0] == "datasets"
        and (found.home != "tasks" or not found.deferred)
    ]
    assert not faults, show(faults)


def test_scripts_on_top_are_never_imported_from_below():
    faults = [
        found.at("scripts stand on top of the package")
        for found in imports()
        if found.module.split(".")[0] in ON_TOP
    ]
    assert not faults, show(faults)


DOORS = {"json": "gmb_hf/base/files.py", "yaml": "gmb_hf/base/documents.py"}
"""What reads JSON and YAML: `parse_json` and `parse_yaml` refuse what crashes or hangs a parser."""

WRITERS = {"dumps", "dump", "safe_dump"}


def doors(path: Path) -> Iterator[str]:
    """Each use of the modules json and yaml in a file that is no writing, with its line."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
        elif isinstance(node, ast.ImportFrom) and node.module:
            module, name = node.module.split(".")[0], ", ".join(one.name for one in node.names)
        else:
            continue
        if module in DOORS and name not in WRITERS and path != ROOT / DOORS[module]:
            yield f"{path}:{node.lineno}: {module}.{name}; {DOORS[module]} has the only reader"


def test_one_reader_of_json_and_one_of_yaml():
    scripts = (ROOT / folder for folder in ("metrics", "trainers", "dataset_scripts"))
    files = [*FILES, *(path for folder in scripts for path in folder.rglob("*.py"))]
    faults = [fault for path in files for fault in doors(path)]
    assert not faults, show(faults)


@pytest.mark.parametrize("source", ["json.loads(x)", "yaml.safe_load(x)", "from json import load"])
def test_another_reader_is_found(tmp_path: Path, source: str):
    (tmp_path / "a.py").write_text(f"{source}\njson.dumps(x)\n")
    (found,) = doors(tmp_path / "a.py")
    assert ":1: " in found


def test_command_line_holds_no_numerics():
    faults = [
        found.at("cli parses, calls and prints; it computes nothing")
        for found in imports()
        if found.home == "cli" and found.module.split(".")[0] in NUMERICS
    ]
    assert not faults, show(faults)


def classes(path: Path) -> Iterator[str]:
    """The public classes of a file."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_a_class_has_a_name_of_its_own():
    homes: dict[str, list[str]] = {}
    for path in FILES:
        for name in classes(path):
            homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    shared = {name: found for name, found in homes.items() if len(found) > 1}
    faults = [f"{name}: {', '.join(found)}" for name, found in sorted(shared.items())]
    assert not faults, show(faults)


def lines_of_code(path: Path) -> int:
    """Lines that hold code; docstrings, comments and empty lines are none."""
    source = path.read_bytes()
    beside = (
        *(tokenize.ENCODING, tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER),
        *(tokenize.INDENT, tokenize.DEDENT),
    )
    code: set[int] = set()
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type not in beside:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(path)):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            code.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(code)


class TestNumbers:
    """How large the package is: bounds that a change may not pass without a word."""

    def test_files(self):
        # 160 were reached before panels, the signals of others, report.html and tokenizers came in.
        # 203 before commands with one noun shared a file; 190 before files of several nouns
        # (design, lock, results, panels) were split.
        # 213 before scores were tried for causality, and what is a look of a panel was found out.
        # 217 before panels were fetched, and a published trial, groups of scores and a server came
        # to the leaderboard.
        # 228 before decisions were judged, rounds came to the leaderboard and groups that do not
        # commute to the tasks; with pretrained scores.
        assert len(FILES) <= 244

    def test_lines_of_code(self):
        lines = sum(map(lines_of_code, FILES))
        # 43,690 when docstrings, comments and empty lines ceased to be counted; 41,000 is the aim.
        # 40,952 before copied runs, cheating scores and remade locks were refused.
        # 45,000 before decisions were judged, rounds, groups that do not commute, panels whose
        # held-out part comes after a lock, and pretrained scores.
        assert lines <= 48_100, "what can be said in fewer lines?"

    def test_share_of_lines_that_import(self):
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES)
        statements = [
            node
            for path in FILES
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        importing = sum(node.end_lineno - node.lineno + 1 for node in statements)
        # 0.055 before the trainers came in, scripts whose heavy imports wait for their arguments.
        # 0.056 before what papers claim became a data file: fewer lines, the same imports.
        # 0.058 before tables of names, words and settings became data files, likewise.
        # 0.059 before commands shared what they ask of one's own runs.
        # 0.06 before rounds had files for the round, its entries and their judgement.
        assert importing <= 0.0605 * lines, f"{importing} of {lines} lines, {importing / lines:.2%}"

    def test_modules_that_an_evaluation_loads(self, tmp_path: Path):
        inputs = ROOT / "tests" / "golden" / "inputs"
        lock = shutil.copy(inputs / "lock.yaml", tmp_path)  # its interim analyses stand beside it
        command = ["evaluate", "--lock", str(lock)]
        command += ["--runs", str(inputs / "heldout.parquet"), "--out", str(tmp_path / "results")]
        code = (
            "import sys; from pathlib import Path; from matplotlib.figure import Figure; "
            "Figure.savefig = lambda _, path, **__: Path(path).touch(); "  # drawn, not rendered
            f"from gmb_hf.cli import main; assert main({command!r}) == 0; "
            "print(*sys.modules, file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        every = done.stderr.splitlines()[-1].split()
        assert not {*every} & {*EXTRAS, "matplotlib.pyplot"}  # the base installation judges
        loaded = [name for name in every if name.split(".")[0] == PACKAGE]
        assert len(loaded) <= 92, f"{len(loaded)}: {' '.join(sorted(loaded))}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch", [("torch", False)]),
        ("def f():\n    from torch import nn", [("torch", True)]),
        ("from gmb_hf.runs import RunLog", [("gmb_hf.runs", False)]),
        ("from gmb_hf.runs import panel", [("gmb_hf.runs.panel", False)]),
        ("from . import panel", [("gmb_hf.runs.panel", False)]),
        ("from ..files import write_text", [("gmb_hf.files", False)]),
        ("lazy_names(__name__, __file__)", [("gmb_hf.runs.panel", True)]),
        ("x = 'gmb_hf.indicators.catalogue'", [("gmb_hf.indicators.catalogue", False)]),
        ("if TYPE_CHECKING:\n    import torch", [("torch", True)]),
    ],
)
def test_the_reader_of_imports_sees_each_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, expected: list[tuple[str, bool]]
):
    folder = tmp_path / PACKAGE / "runs"
    folder.mkdir(parents=True)
    for name in ("__init__.py", "panel.py"):
        (folder / name).touch()
    path = folder / "probe.py"
    path.write_text(source)
    path.with_suffix(".pyi").write_text("from gmb_hf.runs.panel import Panel as Panel")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert [(found.module, found.deferred) for found in imports_of(path)] == expected


def test_a_fault_names_file_line_and_rule():
    found = Import(ROOT / PACKAGE / "runs" / "panel.py", 7, "torch", False)
    assert found.at("no torch here") == "gmb_hf/runs/panel.py:7: imports torch; no torch here"


def test_the_plan_is_read_from_below():
    assert may_import("gmb_hf.runs.panel", "runs", "tasks")
    assert may_import("gmb_hf.runs.panel", "runs", "base")
    assert not may_import("gmb_hf.runs.panel", "runs", "benchmark")
    assert not may_import("gmb_hf.base.errors", "errors", "runs")
    assert may_import("gmb_hf.crucible.grokking", "crucible", "training")
    assert not may_import("gmb_hf.crucible.margins", "crucible", "training")


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
