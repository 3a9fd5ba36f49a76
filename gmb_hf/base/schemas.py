"""Versions of the schemas of files, and how a file of an earlier one is read.

A file says its version as `x_schema`; the first version did not say so yet. Each kind of file has
one function a version, which turns the content of that version into that of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import cut

KEY = "x_schema"
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Schema:
    """The versions of one kind of file.

    Attributes:
        kind: what messages call it.
        upgrades: the first turns the content of schema 1 into that of schema 2, and so on; none
            changes what it is given.
    """

    kind: str
    upgrades: tuple[Upgrade, ...]

    @property
    def current(self) -> int:
        """The version that is written today."""
        return len(self.upgrades) + 1

    def version(self, section: Any, *, where: str, writer: object = None) -> int:
        """The version of a file, by the section that says so.

        Raises:
            InputError: it is no version, or a later one; `writer` is the version of the package
                that wrote it, the section's `package_version` unless given.
        """
        found = section.get(KEY, 1) if isinstance(section, dict) else 1
        if type(found) is not int or found < 1:
            reason = f"{KEY} must be a whole number from 1 to {self.current}, got {found!r}"
            raise InputError.at(where, "bad_value", reason, field=KEY)
        if found > self.current:
            writer = writer or section.get("package_version")
            by = f"gmb-hf {cut(writer, 20)}" if isinstance(writer, str) else "a later gmb-hf"
            reason = (
                f"is a {self.kind} of schema {found}, written by {by}; gmb-hf {__version__} reads "
                f"schemas up to {self.current}: upgrade it, pip install --upgrade gmb-hf"
            )
            raise InputError.at(where, "newer_schema", reason, field=KEY)
        return found

    def opened(self, data: Any, *, where: str, writer: object = None) -> Any:
        """The content of a file as that of today; `InputError` as `version`."""
        version = self.version(data, where=where, writer=writer)
        return self.upgraded(data, version) if isinstance(data, dict) else data

    def upgraded(self, content: dict[str, Any], version: int) -> dict[str, Any]:
        """The content of a file of a version as that of today."""
        for upgrade in self.upgrades[version - 1 :]:
            content = upgrade(content)
        return content


def dated(content: dict[str, Any], version: int) -> dict[str, Any]:
    """The content as of a version; what it called `format` before is left out."""
    return {KEY: version, **{k: v for k, v in content.items() if k not in (KEY, "format")}}
