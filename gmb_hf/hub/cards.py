"""Cards: the README of what is published, a YAML header and Markdown, from a template in cards/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gmb_hf._version import __version__
from gmb_hf.files import shipped

HERE = "path/to/this/folder"
"""How a card's example calls the folder that it lies in; once pushed, it is the repository."""


def folder() -> Path:
    """Where the templates lie: inside an installed package, or beside it in a checkout.

    Raises:
        InputError: neither place has them.
    """
    return shipped("card_templates", "cards", holding="dataset.md.j2")


def render_card(kind: str, header: Mapping[str, Any], **values: Any) -> str:
    """The text of a README.md.

    Args:
        kind: of what, which names the template: `dataset` for `dataset.md.j2`.
        header: the YAML that the Hub reads, as plain data, in the order in which it shall stand.
        values: what the template shows; one that it asks for and is not here is an error.

    Raises:
        InputError: the templates are missing from this installation.
        jinja2.TemplateNotFound: there is no such template.
        jinja2.UndefinedError: a value is missing.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder()),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, of values that this package made
    )
    return environment.get_template(f"{kind}.md.j2").render(
        header=yaml.safe_dump(dict(header), sort_keys=False),
        version=__version__,
        here=HERE,
        **values,
    )
