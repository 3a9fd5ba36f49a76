"""What the package prints and writes is what it printed and wrote when the files were made.

See README.md beside this file. A failure shows a unified diff.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from golden_cases import ALONE, EXPECTED, bad_inputs, played, refusal, scenarios

pytestmark = pytest.mark.filterwarnings("ignore")

FILES = sorted(path.relative_to(EXPECTED).as_posix() for path in EXPECTED.rglob("*.*"))


def difference(expected: str, found: str, name: str) -> str:
    """A unified diff of at most 200 lines."""
    lines: Iterator[str] = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), f"expected/{name}", "now", lineterm="", n=2
    )
    shown = list(lines)
    more = [f"... and {len(shown) - 200} more lines"] if len(shown) > 200 else []
    return "\n".join([*shown[:200], *more])


@pytest.mark.parametrize("name", [name for name in FILES if name != "bad_inputs.yaml"])
def test_golden_file(name: str) -> None:
    expected = (EXPECTED / name).read_text(encoding="utf-8")
    if name in ALONE:
        found = ALONE[name]()
    else:
        texts = played(name.partition("/")[0])
        assert name in texts, f"no longer written; there are {sorted(texts)}"
        found = texts[name]
    assert found == expected, difference(expected, found, name)


@functools.cache
def refused() -> dict[str, dict[str, Any]]:
    """Name of each bad input -> its exit code and its error."""
    return yaml.safe_load((EXPECTED / "bad_inputs.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", bad_inputs())
def test_bad_input(name: str) -> None:
    expected, found = (yaml.safe_dump(one, width=1000) for one in (refused()[name], refusal(name)))
    assert found == expected, difference(expected, found, f"bad_inputs.yaml: {name}")


@pytest.mark.parametrize("name", scenarios())
def test_no_file_is_without_an_expected_one(name: str) -> None:
    assert not set(played(name)) - set(FILES)
