"""Errors for the person who typed, and the checks that every entry shares.

An `InputError` is one line that says what is wrong, where, and what to do. The command line
prints it and exits with code 2; in a notebook it is an ordinary `ValueError`.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self, TypeVar

_Item = TypeVar("_Item", bound=Hashable)


class InputError(ValueError):
    """A mistake in what the user gave: one line that says what, where, and what to do.

    Args:
        message: the line.
        code: a short stable name of the fault, e.g. "missing_column"; messages may be reworded.
        location: where the fault is, as far as it is known: `where` (file or source), `place` (in
            the file, e.g. "line 17"), `run`, `step`, `column`, `field` (of a document), `name`.

    Attributes:
        code: as given.
        location: as given, without what is None.
    """

    code = "bad_input"

    def __init__(self, message: str, *, code: str | None = None, **location: str | int | None):
        super().__init__(message)
        if code is not None:
            self.code = code
        self.location = {key: value for key, value in location.items() if value is not None}

    @classmethod
    def at(cls, where: object, code: str, what: str, **location: str | int | None) -> Self:
        """The error `where: what` for a fault in a file or another source.

        `code` names the kind of fault, for programs; `location` is a row, line or column of it.
        """
        return cls(f"{where}: {what}", code=code, where=str(where), **location)

    def reworded(self, message: str) -> InputError:
        """The same fault with another message, e.g. of a caller who knows more of the place."""
        return InputError(message, code=self.code, **self.location)


class CheckFailed(Exception):
    """The command ran as asked and its answer is no (exit code 1)."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or None when nothing is close.

    Another case of a known word, or the beginning of just one, is that word.
    """
    pool = list(known)
    folded = {name.casefold(): name for name in pool}
    if word.casefold() in folded:
        return folded[word.casefold()]
    begun = [name for fold, name in folded.items() if word and fold.startswith(word.casefold())]
    if len(begun) == 1:
        return begun[0]
    found = difflib.get_close_matches(word, pool, n=1, cutoff=0.5)
    return found[0] if found else None


def unknown(kind: str, word: str, known: Iterable[str], *, where: str = "") -> InputError:
    """The error for a name that is not known: `kind 'word' is unknown; did you mean ...?`.

    `kind` is what the word should have named, e.g. "column" or "preset", `known` every name that
    would have been right, `where` the file or field, put before the message.
    """
    names = sorted(known)
    guess, shown = nearest(str(word), names), first_of(names, 24) or "none"
    hint = f" Did you mean {guess!r}?" if guess else ""
    message = f"{where}{': ' * bool(where)}{kind} {word!r} is unknown; known: {shown}.{hint}"
    code = f"unknown_{kind.replace(' ', '_')}"
    return InputError(message, code=code, where=where or None, name=word)


def first_of(items: Sequence[object], most: int = 8) -> str:
    """The items with commas; of more than `most` the first ones and how many there are beside.

    >>> first_of([3, 1, 4, 1, 5], most=3)
    '3, 1, 4 and 2 more'
    """
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(str(item) for item in items[:most]) + more


def first_line(error: BaseException) -> str:
    """The first line of what an error says; the name of its class where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def choose(kind: str, word: str, known: Sequence[str], *, where: str = "") -> str:
    """Return `word` if it is one of `known`, else raise the error that names the nearest."""
    if word not in known:
        raise unknown(kind, word, known, where=where)
    return word


def repeated(items: Iterable[_Item]) -> _Item | None:
    """The first of the items that occurs again later, or None when each stands once."""
    return next((item for item, count in Counter(items).items() if count > 1), None)


def _bad_value(name: str, must: str, value: Any, where: str = "") -> InputError:
    message = f"{where}: {name}" if where else name
    return InputError(
        f"{message} must be {must}, got {value!r}", code="bad_value", where=where or None, name=name
    )


def _is_finite(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, (int, float)) and math.isfinite(value)


def positive_int(name: str, value: Any, *, where: str = "", most: int | None = None) -> int:
    """Return `value` as an int from 1 to `most`, else raise `InputError`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _bad_value(name, "a whole number of at least 1", value, where)
    if most is not None and value > most:
        raise _bad_value(name, f"at most {most:,}", value, where)
    return value


def fraction(name: str, value: Any, *, where: str = "", closed: bool = False) -> float:
    """Return `value` as a float in (0, 1), or in [0, 1] when `closed`, else raise `InputError`."""
    if not _is_finite(value) or not (0 <= value <= 1 if closed else 0 < value < 1):
        bounds = "[0, 1]" if closed else "(0, 1)"
        raise _bad_value(name, f"a number in {bounds}", value, where)
    return float(value)


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0, or raise `InputError`."""
    if not _is_finite(value) or value < 0:
        raise _bad_value(name, "a finite number of at least 0", value)
    return float(value)


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0, or raise `InputError`."""
    if not_negative(name, value) == 0:
        raise InputError(f"{name} must be more than 0", code="bad_value", name=name)
    return float(value)


@contextmanager
def right_call(
    metric: str, arguments: str, *, reworded: Callable[[str], str] = str
) -> Iterator[None]:
    """Say whatever is wrong inside with the metric's name and a call that is right.

    `arguments` are those of a right call, as they would be typed; `reworded` says what is wrong in
    the words of the caller.

    Raises:
        InputError: `metric: what is wrong. Right call: metric.compute(arguments)`.
    """
    try:
        yield
    except InputError as error:
        message = reworded(str(error))
        end = "" if message.endswith(("?", ".")) else "."
        right = f"{metric}.compute({arguments})"
        raise error.reworded(f"{metric}: {message}{end} Right call: {right}") from None
