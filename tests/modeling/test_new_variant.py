"""The page that adds a variant: its changes apply to the package as it is, and its program runs."""

import re
import shutil
from pathlib import Path

import pytest
from launched import run_code

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "new_variant.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def apply(folder, diff):
    """Apply `--- path`, `@@`, then lines that begin with a space, - or +."""
    for part in re.split(r"^--- ", diff, flags=re.MULTILINE)[1:]:
        name, *hunks = part.split("\n@@\n")
        path = folder / name
        for hunk in hunks:
            lines = hunk.splitlines()
            assert all(line[:1] in {"", " ", "-", "+"} for line in lines)
            old, new = (
                "".join(line[1:] + "\n" for line in lines if line[:1] != left_out)
                for left_out in "+-"
            )
            text = path.read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{name} has no longer the one place\n{old}"
            path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def package(tmp_path):
    """A copy of the package with the page's changes."""
    half_written = shutil.ignore_patterns("*.pyc.*")  # what is compiled is copied as well
    shutil.copytree(ROOT / "gmb_hf", tmp_path / "gmb_hf", ignore=half_written)
    for diff in blocks("diff"):
        apply(tmp_path, diff)
    return tmp_path


def test_the_page_adds_a_variant(package):
    (program,), (expected,) = blocks("python"), blocks("text")
    here = f"import gmb_hf\nassert gmb_hf.__file__.startswith({str(package)!r})\n"
    result = run_code(here + program, package=package, folder=package)
    assert result.returncode == 0, result.stderr
    assert result.stdout == expected
