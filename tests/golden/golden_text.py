"""Text that two machines and two days agree on: times, versions and last digits taken out."""

from __future__ import annotations

import re
from pathlib import Path

DIGITS = 9
"""Significant digits of a float that are compared."""

_FLOAT = re.compile(r"(?<![\w.])-?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]\d+)(?!\w|\.\d)")

# What changes from day to day, and what stands in its place.
_VARIES = (
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:\+00:00|Z)?", "<time>"),
    (
        r"(Date: |date: '|date_locked: '|\"date\": \"|fixed on |[Ll]ocked on )\d{4}-\d\d-\d\d",
        r"\1<date>",
    ),
    (r"(package_version[\"']?: [\"']?)[\w.+]+", r"\1<version>"),
    (r"(x_checksum: )[0-9a-f]{64}", r"\1<hash>"),  # versions and days are under it
    (r"(: )['\"]?[0-9a-f]{16}['\"]?(?=\n)", r"\1<hash>"),  # and those of the parts
    (r"(python[\"']?: [\"']?)\d[\w.+]*", r"\1<version>"),
    (r"gmb-hf \d[\w.+]*", "gmb-hf <version>"),
    # Packages that take part are those that this process has loaded by now.
    (r"(Python )\d+\.\d+(?:\.\d+)?(?:, [\w-]+ \d[\w.+]*)*", r"\1<version>"),
    # Of a state of a monitor: of more digits than are compared.
    (r'(, "hash": ")[0-9a-f]{64}(?="}\n)', r"\1<hash>"),
    (r"(\n +packages:)(?:\n +[\w-]+: '?\d[\w.+]*'?)+", r"\1 <versions>"),
)


def comparable(text: str, folder: Path | None = None, *, digits: int = DIGITS) -> str:
    """The text without what varies.

    Args:
        folder: an absolute path that is written `<folder>`.
        digits: significant digits that are kept of each float.
    """
    if folder is not None:
        text = text.replace(str(folder), "<folder>")
    for pattern, instead in _VARIES:
        text = re.sub(pattern, instead, text)
    text = _FLOAT.sub(lambda found: rounded(found.group(), digits), text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def rounded(token: str, digits: int = DIGITS) -> str:
    """A float as written, unless it has more digits than are compared.

    >>> rounded("0.30000000000000004"), rounded("0.50"), rounded("1e-17")
    ('0.3', '0.50', '1e-17')
    """
    mantissa = re.split("[eE]", token)[0].lstrip("-").replace(".", "").lstrip("0")
    return token if len(mantissa) <= digits else f"{float(token):.{digits}g}"
