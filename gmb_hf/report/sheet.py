"""report.html of what is no evaluation: the answer, figures and tables in the frame of report.html.

One page from a file, without network: figures are part of it, tables sort, light and dark, names
escaped.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from gmb_hf._version import __version__
from gmb_hf.base.escape import markdown, one_line, percent
from gmb_hf.base.files import write_text
from gmb_hf.base.tables import Table
from gmb_hf.core.thresholds import in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Drawn = Mapping[str, tuple[str, "Figure | None"]]
"""Name of the file -> caption and figure, None where there is nothing to draw."""

_SCRIPTS = ("table.js", "sheet.js")


@dataclass(frozen=True)
class Sheet:
    """What a page shows, from top to bottom.

    Attributes:
        kind: what kind of report it is, above the title.
        title: the question, or what was compared.
        answer: sentences, the first in large letters.
        figures: caption and PNG file.
        tables: each under its caption, with its notes.
        facts: name and value, of what made the numbers.
        next_command: what to type next.
    """

    kind: str
    title: str
    answer: Sequence[str] = ()
    figures: Sequence[tuple[str, Path]] = ()
    tables: Sequence[Table] = ()
    facts: Sequence[tuple[str, str]] = ()
    next_command: str | None = None

    def html(self) -> str:
        """The page.

        Raises:
            OSError: a figure cannot be read.
        """
        return template("sheet.html.j2").render(
            **frame(_SCRIPTS),
            sheet=self,
            figures=[(caption, _embedded(path)) for caption, path in self.figures],
        )

    def write(self, path: str | Path) -> Path:
        """Write the page, atomically."""
        return write_text(path, self.html())

    def write_folder(self, folder: str | Path, drawn: Drawn = MappingProxyType({})) -> list[Path]:
        """Write report.html, tables/ and figures/ to a folder; returns the files, the page first.

        Those that are `drawn` come after the page's own.
        """
        place, figures = Path(folder), list(self.figures)
        written = [path for table in self.tables for path in table.write(place / "tables")]
        for name, (caption, figure) in drawn.items():
            if figure is None:
                continue
            from gmb_hf.report.style import save_figure  # loads matplotlib

            png, *others = save_figure(figure, place / "figures" / name)
            figures.append((caption, png))
            written += [png, *others]
        return [replace(self, figures=figures).write(place / "report.html"), *written]


def frame(scripts: Sequence[str]) -> dict[str, Any]:
    """What the head of a page holds: the style, its scripts and their hash, the version."""
    script = "".join(map(asset, scripts))
    return {
        "style": Markup(asset("page.css")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "version": __version__,
    }


def asset(name: str) -> str:
    """The text of a style or a script of the report."""
    text = importlib.resources.files("gmb_hf.report").joinpath(name).read_text(encoding="utf-8")
    return text.strip() + "\n"


def _embedded(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def sort_key(value: Any) -> str:
    """What the script of a page sorts a cell by; "" where there is no value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return str(value)


@cache  # it takes longer to compile than to fill in
def template(name: str, package: str = "gmb_hf.report") -> Template:
    """A template, by the name of its file in a package."""
    return templates(package, page=name.endswith(".html.j2")).get_template(name)


def sentences_of(name: str, package: str, /, **about: Any) -> list[str]:
    """The sentences of a template: a blank line ends one, and other white space is one space."""
    environment = templates(package, page=False).overlay(trim_blocks=True, lstrip_blocks=True)
    text = environment.get_template(name).render(about)
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def templates(package: str, *, page: bool) -> Environment:
    """The templates of pages, where whatever a user named is escaped by itself, or of Markdown.

    In Markdown the filter `md` escapes it, wherever it goes.
    """
    environment = Environment(
        loader=PackageLoader(package, "."),
        undefined=StrictUndefined,
        autoescape=page,
        trim_blocks=page,
        lstrip_blocks=page,
        keep_trailing_newline=not page,
    )
    environment.filters.update(
        key=sort_key,
        percent=percent,
        line=one_line,
        md=markdown,
        path=lambda path: quote(str(path)),
    )
    environment.globals["in_words"] = in_words
    return environment
