"""Every command that the README and the pages show is one that `gmb` takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gmb_hf.cli.app import command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINE = re.compile(r"^(?:\$ |next +)?(gmb [a-z].*?)(?: +#.*)?$", re.MULTILINE)
_NUMBERS = {"H", "G", "$!"}  # what stands for one


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command that stands on a line of its own; those cut short are left out."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in _LINE.findall(text):
        words = ["1" if word in _NUMBERS else word for word in shlex.split(line)[1:]]
        if "..." not in words:
            yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_is_parsed(page: Path) -> None:
    for words in commands(page):
        parser, rest = command(words), list(words)
        while rest and rest[0] in getattr(parser, "commands", ()):
            parser = parser.commands[rest.pop(0)]
        # A command keeps the first names of its option for help; the tests of help come later.
        context = parser.make_context("gmb", rest, help_option_names=["-h", "--help"])
        if words[0] == "lock":  # which needs one of the two, and says so when it runs
            assert context.params["out"] or context.params["made"], words


def test_commands_are_found() -> None:
    assert sum(len(list(commands(page))) for page in PAGES) > 80
