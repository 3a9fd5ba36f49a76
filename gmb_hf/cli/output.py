"""How a command speaks, `--json`, `--quiet` or `--verbose`, and what it has answered so far."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Mapping
from typing import Any


class Output:
    """What one command says. `main` makes one for each command line.

    Attributes:
        command: as it was typed, e.g. "gmb panel list".
        json: one JSON object goes to standard output and nothing else; progress goes on.
        quiet: only the answer and errors; no progress, notes, files or next command.
        verbose: 1 for what the package logs, 2 for its details; a traceback for what is a defect.
        answer: what the command answers, by name; where it says nothing here, the sentences, facts
            and tables that it prints are its answer.
        fields: how each field of a design was typed, for messages.
    """

    def __init__(self, command: str = "gmb") -> None:
        self.command = command
        self.json = self.quiet = False
        self.verbose = 0
        self.fields: dict[str, str] = {}
        self.answer: dict[str, Any] = {}
        self.said: list[str] = []
        self.facts: dict[str, list[str]] = {}
        self.tables: list[Any] = []
        self.notes: list[str] = []
        self.wrote: list[str] = []
        self.following: str | None = None
        self.failure: str | None = None

    def content(self, code: int) -> dict[str, Any]:
        """The object of `--json`: the answer, what was written, and why the command failed."""
        printed = {"said": self.said, "facts": self.facts, "tables": self.tables}
        answer = self.answer or {name: found for name, found in printed.items() if found}
        found = {"command": self.command, "code": code, **answer}
        if self.failure is not None:
            found["error" if code != 1 else "failed"] = self.failure
        return {**found, "notes": self.notes, "wrote": self.wrote, "next": self.following}

    def end(self, code: int) -> None:
        """Print the object where it was asked for."""
        if not self.json:
            return
        from gmb_hf.base.documents import plain_data

        content = plain_data(self.content(code), number=_finite)
        print(json.dumps(content, ensure_ascii=False, allow_nan=False, default=_plain))


_current = Output()
_handlers: set[logging.Handler] = set()


def begin(command: str) -> Output:
    """A new command line, which knows nothing of those before it."""
    global _current
    _current = Output(command)
    logger = logging.getLogger("gmb_hf")
    for handler in {*logger.handlers} & _handlers:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    return _current


def current() -> Output:
    """That of the command which runs."""
    return _current


def speak(*, quiet: bool = False, verbose: int = 0) -> None:
    """Choose how much is said, here and by the log of the package, on which progress hangs.

    `verbose` is 1 for what the package logs, 2 for its details; it is said on standard error.
    """
    _current.quiet |= quiet
    _current.verbose = max(verbose, _current.verbose)
    if not quiet and not verbose:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    _handlers.add(handler)
    logger = logging.getLogger("gmb_hf")
    logger.addHandler(handler)
    logger.setLevel([logging.ERROR, logging.INFO, logging.DEBUG][min(_current.verbose, 2)])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """What JSON has no form for: text of a terminal, paths, sets and validated models."""
    from gmb_hf.base.documents import plain_data

    if hasattr(value, "model_dump"):
        return plain_data(value.model_dump(mode="json", by_alias=True), number=_finite)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(getattr(value, "plain", value))
