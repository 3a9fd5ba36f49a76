"""The ledger of a panel: every lock, or design without one, that judged its held-out part."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from pydantic import Field

from gmb_hf.base.documents import (
    Many,
    Section,
    load_yaml,
    write_yaml,
)
from gmb_hf.design.design import Design
from gmb_hf.design.fingerprint import design_fingerprint
from gmb_hf.design.lock import Lock

_HEADING = """\
The locks that judged the held-out runs of this panel; gmb evaluate writes it. Each of them may have
chosen by what earlier ones showed, so the panel wears out: its card says how many it allows. What
judged them without a lock counts as one: its hash is that of its design."""
NO_LOCK = "no lock: "


class LookedRecord(Section):
    """A lock that judged the held-out part; made again on another day it is no other one.

    What judges without a lock may choose by earlier looks as a lock does, and counts as one.
    """

    lock_hash: str = Field(description="without a lock: `no lock: ` and the hash of the design")
    content: str = Field("", description="`Lock.fingerprint`; empty in lines of older versions")
    date: str

    @classmethod
    def by(cls, judge: Lock | Design) -> Self:
        """Today's look, by a lock or, without one, by a design."""
        if isinstance(judge, Lock):
            name, content = judge.hash, judge.fingerprint
        else:
            name, content = f"{NO_LOCK}{design_fingerprint(judge)}", ""
        today = datetime.date.today().isoformat()
        return cls(lock_hash=name, content=content, date=today)

    def among(self, known: Sequence[LookedRecord]) -> bool:
        """Whether the same look is there already."""
        return any(
            self.lock_hash == one.lock_hash or self.content == one.content != "" for one in known
        )


class Ledger(Section):
    """Every lock that judged the held-out part of a panel, or what did without, oldest first."""

    locks: Many[LookedRecord] = ()

    @classmethod
    def read(cls, path: Path) -> Self:
        """The ledger of a file; an empty one where there is no file."""
        return cls.parse(load_yaml(path), where=str(path)) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write the file, atomically; earlier entries stay as they were."""
        write_yaml(path, self.as_read(), heading=_HEADING)
