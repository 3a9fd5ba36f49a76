"""The page of tables and figures: everything is in it, names are text, tables can be sorted."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

from gmb_hf.base.escape import number
from gmb_hf.base.tables import Column, Line, Table
from gmb_hf.report.sheet import Sheet

HOSTILE = "</script><img src=x onerror=alert(1)>"


def page(tmp_path: Path) -> str:
    (tmp_path / "drawn.png").write_bytes(b"bytes of a picture")
    columns = [Column("variant"), Column("phase", str), Column("loss", number)]
    rows = [("dense", 1, 0.04), (HOSTILE, 2, None), ("banded", 3, float("nan"))]
    plain = Table(columns, rows, "x", "Loss after each phase", notes=[f"3 seeds {HOSTILE}"])
    parted = Table(columns, [Line(f"part {HOSTILE}"), *rows], "y", "In parts")
    return Sheet(
        "GMB sequential retention",
        f"What remains of 4 tasks {HOSTILE}",
        ["dense keeps .26.", f"A note {HOSTILE}"],
        [(f"Matrix {HOSTILE}", tmp_path / "drawn.png")],
        [plain, parted],
        [("fingerprint", HOSTILE)],
        f"gmb next {HOSTILE}",
    ).html()


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_sheet_holds_everything_and_asks_for_nothing(tmp_path: Path) -> None:
    text = page(tmp_path)
    tags = Tags(text).tags
    (picture,) = [about for tag, about in tags if tag == "img"]  # none of the hostile names
    encoded = base64.b64encode(b"bytes of a picture").decode()
    assert picture["src"] == f"data:image/png;base64,{encoded}"
    assert all("onerror" not in about for _, about in tags)
    assert not [about for _, about in tags if about.get("href") or "srcset" in about]
    assert text.count("&lt;/script&gt;&lt;img") >= 8
    assert [about["data-key"] for tag, about in tags if tag == "td"][:9] == [
        *("dense", "1", "0.04"),
        *(HOSTILE, "2", ""),
        *("banded", "3", ""),
    ]
    # A line across the table is a heading of it, and such a table is not sorted.
    assert len(re.findall(r'<tr class="heading">', text)) == 1
    headings = [about.get("data-type") for tag, about in tags if tag == "th"]
    assert headings[:3] == ["text", "number", "number"]


def test_equal_sheets_are_equal_bytes(tmp_path: Path) -> None:
    assert page(tmp_path) == page(tmp_path)
