"""JSON files, written atomically and read strictly: no key twice, no NaN, no infinity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gmb_hf.files import check_file, write_text
from gmb_hf.validation import InputError, repeated


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs of a JSON object, for `object_pairs_hook`; a key given twice is an `InputError`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError(f"key {repeated(key for key, _ in pairs)!r} is given twice")
    return found


def parse_json(text: str, *, where: str) -> Any:
    """Parse JSON text; `where` (file and line) opens the message of an error.

    Raises:
        InputError: it is not JSON, repeats a key, or holds NaN or an infinity.
    """
    try:
        # A line keeps its end: what lacks at its end would be said to lack in the next one.
        text = text.rstrip()
        return json.loads(text, object_pairs_hook=each_key_once, parse_constant=_constant)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        raise InputError(
            f"{where}: is not JSON: {error.msg} ({line}column {error.colno})"
        ) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where}: {reason}") from None


def read_json(path: str | Path) -> Any:
    """Parse one JSON file.

    Raises:
        InputError: the file is missing, a folder, not UTF-8, or no such JSON.
    """
    return parse_json(read_text(path), where=str(path))


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, with or without a byte order mark.

    Raises:
        InputError: the file is missing, a folder, or not UTF-8.
    """
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; an `InputError` where there is none."""
    check_file(path)
    return Path(path).read_bytes()


def write_json(path: str | Path, data: Any) -> Path:
    """Write plain data as indented JSON, atomically."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    return write_text(path, text + "\n")


def _constant(name: str) -> Any:
    raise ValueError(f"is not JSON: {name} is no number")
