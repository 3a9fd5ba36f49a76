"""Every folder in metrics/ is a Space: a card that the Hub reads, and what the card promises."""

from __future__ import annotations

import ast
import configparser
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import gmb_hf.jobs.metrics
from gmb_hf.jobs.metrics import Module

ROOT = Path(gmb_hf.jobs.metrics.__file__).parents[2]
SECTIONS = ("Inputs", "Outputs", "Examples", "Limits", "Citation")


@pytest.fixture(params=gmb_hf.jobs.metrics.names())
def module(request: pytest.FixtureRequest) -> Module:
    return gmb_hf.jobs.metrics.module(request.param)


def card(module: Module) -> tuple[dict[str, Any], str]:
    """The front matter and the text below it."""
    text = (module.folder / "README.md").read_text(encoding="utf-8")
    _, front, body = re.split(r"^---$", text, maxsplit=2, flags=re.MULTILINE)
    return yaml.safe_load(front), body


def test_the_folder_holds_a_space_and_nothing_else(module: Module) -> None:
    files = {path.name for path in module.folder.iterdir() if path.is_file()}
    assert files == {f"{module.name}.py", "README.md", "app.py", "requirements.txt"}


def test_the_front_matter_is_that_of_a_gradio_space(module: Module) -> None:
    front, _ = card(module)
    assert front["sdk"] == "gradio"
    assert front["app_file"] == "app.py"
    assert {"evaluate", module.kind} <= set(front["tags"])
    assert front["license"] == "apache-2.0"
    assert front["title"]
    assert 0 < len(front["short_description"]) <= 60  # what the Hub takes
    assert len(front["description"]) <= 200
    colours = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
    assert {front["colorFrom"], front["colorTo"]} <= colours


def test_the_space_runs_on_the_gradio_that_is_tested(module: Module) -> None:
    front, _ = card(module)
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"gradio=={front['sdk_version']}" in constraints


def test_the_card_has_every_section_in_order(module: Module) -> None:
    _, body = card(module)
    found = re.findall(r"^## (.+)$", body, flags=re.MULTILINE)
    assert [title for title in found if title in SECTIONS] == list(SECTIONS)
    assert module.name in body


def test_the_space_installs_this_package_with_its_apps(module: Module) -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lines = (module.folder / "requirements.txt").read_text(encoding="utf-8").split()
    assert lines[0] == f"{config['metadata']['name']}[apps]"
    assert "apps" in config["options.extras_require"]


def test_imports_are_one_per_line_as_the_scanner_of_evaluate_wants(module: Module) -> None:
    tree = ast.parse(module.script.read_text(encoding="utf-8"))
    assert all(len(node.names) == 1 for node in ast.walk(tree) if isinstance(node, ast.Import))


def test_the_summary_is_the_first_sentence_of_the_script(module: Module) -> None:
    assert module.summary
    assert module.summary in module.script.read_text(encoding="utf-8").replace("\n", " ")
