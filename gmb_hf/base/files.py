"""Atomic writes: a file is either the old one or the new one, never half of either; and the reading
of files that others wrote, which are regular files within limits.

What is written goes to a temporary file in the same folder, is flushed to disk and then renamed
over the target. A full disk or a missing permission becomes an `InputError` that names the file,
and leaves what was there before.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import logging
import math
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from gmb_hf.base.errors import InputError, repeated

if TYPE_CHECKING:
    from filelock import BaseFileLock

logger = logging.getLogger(__name__)

STATE = "GMB_STATE"
"""An environment variable: another folder for what `state_folder` is for."""
CACHE = "GMB_CACHE"
"""The same of `cache_folder`."""

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space and run the same command again",
    errno.EDQUOT: "the disk quota is used up; free some space and run the same command again",
    errno.EFBIG: "files may not be so large here; raise the limit (ulimit -f) and run it again",
    errno.EACCES: "no permission to write here; choose another folder",
    errno.EPERM: "no permission to write here; choose another folder",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOTDIR: "a part of this path is a file, not a folder; choose another folder",
    errno.EISDIR: "this is a folder, not a file; choose another name",
}


@contextlib.contextmanager
def clear_os_errors(path: str | Path) -> Iterator[None]:
    """Turn an `OSError` met while writing `path` into an `InputError` that says what to do."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0)
        if reason is None and not isinstance(error, FileExistsError):
            raise
        reason = reason or "a file with this name is in the way; choose another folder"
        raise InputError(f"{path}: could not be written: {reason}") from error


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it replaces `path`, on error it is removed.

    Raises:
        InputError: the disk is full, or the place cannot be written to.
    """
    target = Path(path)
    with clear_os_errors(target), temporary_beside(target) as temporary:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)  # it can be read only by setting it
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
        logger.debug("wrote %s", target)


_MARK = ".gmb-"  # in the names of temporary files and folders
_HOLD = ".held"  # after the name of one: the lock of the process that works on it
_swept: set[Path] = set()


@contextlib.contextmanager
def temporary_beside(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """Yield an empty file or folder beside a target; removed afterwards where it is still there.

    A killed process leaves its own. This process holds a lock of the operating system on a file
    beside it, and the first write of a process into a folder removes those there that nobody holds.
    """
    parent = target.parent.absolute()
    parent.mkdir(parents=True, exist_ok=True)
    if parent not in _swept:
        remove_strays(parent)
        _swept.add(parent)
    name = f".{target.name}{_MARK}{secrets.token_hex(4)}{'' if folder else target.suffix}"
    path = target.parent / name
    hold = _lock_on(_holder(path))
    with contextlib.suppress(OSError):  # a file system without locks, where none is removed
        hold.acquire(timeout=_PATIENCE)
    try:
        path.mkdir(0o700) if folder else path.touch(0o600, exist_ok=False)
        yield path
    finally:
        _remove(path)
        _let_go(hold)


@contextlib.contextmanager
def whole_folder(place: Path) -> Iterator[Path]:
    """Yield a folder to fill, which then takes its place at once; on an error nothing changes.

    `InputError` where the disk is full, or the place cannot be written to.
    """
    with clear_os_errors(place), temporary_beside(place, folder=True) as workshop:
        yield workshop
        workshop.chmod(place.parent.stat().st_mode)
        shutil.rmtree(place, ignore_errors=True)
        workshop.rename(place)


def remove_strays(folder: Path) -> None:
    """Remove what killed processes have left half written in a folder and in those inside it."""
    found = [*folder.glob(f".*{_MARK}*"), *folder.glob(f"*/.*{_MARK}*")]
    for path in {path.with_name(path.name.removesuffix(_HOLD)) for path in found}:
        hold = _lock_on(_holder(path))
        with contextlib.suppress(OSError):
            hold.acquire(blocking=False)
            _remove(path)
            _let_go(hold)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


_PATIENCE = 1.0  # seconds in which a process that only looks at a lock gives it back


def _holder(path: Path) -> Path:
    return path.with_name(path.name + _HOLD)


def _lock_on(path: Path) -> BaseFileLock:
    from filelock import FileLock

    return FileLock(path, thread_local=False)


def _let_go(lock: BaseFileLock) -> None:
    """Release a lock and remove its file: before, so that no other process holds what is removed.

    Windows removes no file that is open, so there it goes afterwards.
    """
    file = Path(lock.lock_file)
    with contextlib.suppress(OSError):
        file.unlink(missing_ok=True)
    lock.release()
    if os.name == "nt":
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def claim(path: str | Path, taken: str, *, passing: bool = False) -> contextlib.ExitStack:
    """Claim a path, which need not exist, for this process alone, until what is returned is closed.

    It is a lock of the operating system on a file beside it, which ends with the process, however
    that ends. `taken` is what to say where another process has it; the file goes away with the
    claim where `passing`.

    Raises:
        InputError: another process has claimed it, or the place cannot be written to.
    """
    place = Path(path)
    lock = _lock_on(place.with_name(f".{place.name}.claim"))
    with clear_os_errors(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            # A process that is about to end may have removed the file: then it is made again.
            lock.acquire(timeout=0.1, poll_interval=0.02)
        except TimeoutError:
            raise InputError(f"{path}: {taken}") from None
    held = contextlib.ExitStack()
    held.callback(*((_let_go, lock) if passing else (lock.release,)))
    return held


def claimed(path: str | Path, taken: str) -> contextlib.ExitStack:
    """Claim a path as `claim` does, for a while; the file of the claim goes away afterwards."""
    return claim(path, taken, passing=True)


def state_folder() -> Path:
    """Where gmb keeps what outlives a project: $GMB_STATE, or the user's state folder."""
    from platformdirs import user_state_path

    return Path(os.environ.get(STATE) or user_state_path("gmb-hf", appauthor=False))


def cache_folder() -> Path:
    """Where gmb keeps what can be fetched again: $GMB_CACHE, or the user's cache folder."""
    from platformdirs import user_cache_path

    return Path(os.environ.get(CACHE) or user_cache_path("gmb-hf", appauthor=False))


def lies_inside(folder: Path, name: str) -> bool:
    """Whether a path, named by a file in a folder, lies in that folder, where links lead too.

    In the cache of the Hub's client a folder's files are links to `../../blobs`, and lie inside.
    """
    path, root, there = PurePath(name), folder.resolve(), (folder / name).resolve()
    roots = (root, root.parents[1] / "blobs") if root.parent.name == "snapshots" else (root,)
    inside = any(there.is_relative_to(known) for known in roots)
    return inside and not path.is_absolute() and ".." not in path.parts


# Files that are read. docs/reliability.md lists the limits.

MOST_BYTES = 2**33
"""Of a file that is read."""
STREAMED = 2**60
"""Of one that is read block by block, such as text to train on or weights to hash."""
MOST_TEXT = 2**28
"""Bytes of a document that is held as a whole: JSON, a table of scores, a card."""
_LONGEST_LINE = 2**26  # bytes of a line of JSON
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_file(path: str | Path, *, most: int = MOST_BYTES) -> None:
    """Refuse a path that is no regular file, where links lead too, or has more than `most` bytes.

    What reads a pipe waits for who writes it, and what reads a device may never come to its end.
    """
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise InputError.at(path, "no_such_file", "there is no such file") from None
    except OSError as error:
        what = f"could not be read: {error.strerror}"
        raise InputError.at(path, "unreadable", what) from None
    if stat.S_ISDIR(found.st_mode):
        raise InputError.at(path, "not_a_file", "this is a folder; name a file in it")
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
        what = f"is {kind}, and only regular files are read; save its content to a file"
        raise InputError.at(path, "not_a_file", what)
    if found.st_size > most:
        what = f"is larger than {most >> 20:,} MB, the most that is read of such a file"
        raise InputError.at(path, "too_large", what)


def open_file(path: str | Path, *, most: int = MOST_BYTES) -> io.BufferedReader:
    """Open a regular file within the limit of bytes; `InputError` as `check_file`."""
    check_file(path, most=most)
    try:
        return Path(path).open("rb")
    except PermissionError:
        raise InputError.at(path, "unreadable", "no permission to read it") from None


MOST_COLUMNS, MOST_CELLS = 20_000, 250_000_000
"""Of a table that is read."""


def check_table(where: str | Path, *, rows: int, columns: int, kept: int | None = None) -> None:
    """Refuse a table that is too large to be held, of which `kept` columns are read.

    It is asked before a Parquet file is read: a few bytes of one may stand for any number of rows.
    """
    what = None
    if columns > MOST_COLUMNS:
        what = f"has {columns:,} columns; {MOST_COLUMNS:,} are the most that are read"
    elif rows * max(2, kept or columns) > MOST_CELLS:  # a row has a step and a value at least
        cells = f"{rows:,} rows of {kept or columns:,} columns"
        what = f"has {cells}; {MOST_CELLS:,} cells are the most; split the runs into several files"
    if what:
        raise InputError.at(where, "too_large", what)


def check_not_read(out: str | Path | None, *read: str | Path | None) -> None:
    """Refuse to write an answer over one of the files that it is made of; None is no file."""
    if out is not None and Path(out).resolve() in {Path(one).resolve() for one in read if one}:
        raise InputError.at(out, "is_read", "is a file that is read; write to another one")


def write_bytes(path: str | Path, content: bytes) -> Path:
    """Write `content` to `path` atomically and return the path."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)
    return Path(path)


def write_text(path: str | Path, content: str) -> Path:
    """Write `content` to `path` as UTF-8, atomically, and return the path."""
    return write_bytes(path, content.encode("utf-8"))


def shipped(packaged: str, top_level: str, *, holding: str) -> Path:
    """A folder of the top level that comes along with the package.

    Args:
        packaged: what it is called inside an installed package.
        top_level: what it is called in a checkout, beside the package.
        holding: a file in it, by which it is known.

    Raises:
        InputError: neither place has it.
    """
    package = Path(__file__).resolve().parents[1]
    for place in (package / packaged, package.parent / top_level):
        if (place / holding).is_file():
            return place
    raise InputError(f"{package}: {top_level}/ is missing from this installation; install it again")


# JSON files, written atomically and read strictly. `parse_json` is the only reader of JSON text.

DEEPEST = 100
"""How deeply the lists and mappings of a JSON or YAML document may be nested."""
_LONGEST = 300  # digits; what is longer no float can hold
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = repeated(key for key, _ in pairs)
        raise InputError(f"key {twice!r} is given twice", code="repeated_key")
    return found


def parse_json(text: str, *, where: str, foreign: bool = False) -> Any:
    """Parse JSON text.

    Args:
        text: of one document.
        where: file and line, which open the message of an error.
        foreign: other programs write it: NaN, infinities and integers beyond 64 bits are read.

    Raises:
        InputError: it is not JSON, repeats a key, is nested too deeply or too large, or holds a
            number or a character that cannot be written again.
    """
    # A line keeps its end: what lacks at its end would be said to lack in the next one.
    text = text.rstrip()
    try:
        if len(text) > MOST_TEXT:
            raise ValueError(f"is larger than {MOST_TEXT >> 20} MB")
        integer, constant = (_long, float) if foreign else (_whole, _constant)
        found = json.loads(
            text, object_pairs_hook=_each_key_once, parse_int=integer, parse_constant=constant
        )
        if text.count("[") + text.count("{") > DEEPEST:
            _check_depth(found)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        reason = f"is not JSON: {error.msg} ({line}column {error.colno})"
        raise InputError.at(where, "not_json", reason) from None
    except RecursionError:
        what = f"is nested too deeply; {DEEPEST} levels are the most"
        raise InputError.at(where, "not_json", what) from None
    except UnicodeEncodeError:
        what = "holds half of a surrogate pair (\\ud800 to \\udfff), which is no character"
        raise InputError.at(where, "not_json", what) from None
    except ValueError as error:
        code = error.code if isinstance(error, InputError) else "not_json"
        raise InputError.at(where, code, str(error)) from None
    return found


def as_float(cell: Any) -> float:
    """A number, or text of one, as a float: a whole number of 400 digits is infinite, as 1e400."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def json_fault(error: InputError) -> str:
    """What is wrong with the JSON text that `parse_json` was given with `where="it"`."""
    return str(error).removeprefix("it: ").removeprefix("is not JSON: ")


def _check_depth(found: Any) -> None:
    level = [found]
    for _ in range(DEEPEST):
        parts = (one.values() if isinstance(one, dict) else one for one in level)
        level = [item for part in parts for item in part if isinstance(item, (dict, list))]
        if not level:
            return
    raise RecursionError


def _long(text: str) -> int:
    if len(text) > _LONGEST:
        raise ValueError(f"the integer {text[:12]}... has {len(text)} digits; no number is so long")
    return int(text)


def _whole(text: str) -> int:
    value = _long(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the integer {text} does not fit 64 bits; write it with an exponent")
    return value


def read_json(path: str | Path, *, foreign: bool = False) -> Any:
    """Parse one JSON file, as `parse_json` does.

    Raises:
        InputError: as `read_text`, or it is no such JSON.
    """
    return parse_json(read_text(path), where=str(path), foreign=foreign)


def read_text(path: str | Path, *, most: int = MOST_TEXT) -> str:
    """The text of a UTF-8 file, with or without a byte order mark.

    Raises:
        InputError: the file is missing, no regular file, larger than `most` bytes, or not UTF-8.
    """
    check_file(path, most=most)
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file; an `InputError` as `check_file`."""
    with open_file(path) as file:
        return file.read()


def write_json(path: str | Path, data: Any) -> Path:
    """Write plain data as indented JSON, atomically."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    return write_text(path, text + "\n")


_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity')


def json_text(data: Any) -> str:
    """Plain data as JSON on one line; what is infinite becomes a number beyond what a float holds,
    which reads back as infinite.

    >>> json_text({"tau": float("inf"), "of": "Infinity"})
    '{"tau":1e999,"of":"Infinity"}'
    """
    return _INFINITY.sub(
        lambda found: "1e999" if found[0] == "Infinity" else found[0],
        json.dumps(data, separators=(",", ":"), ensure_ascii=False),
    )


def write_jsonl(path: str | Path, items: Iterable[Any]) -> Path:
    """Write plain data as JSONL, one item a line, atomically."""
    lines = (json.dumps(item, ensure_ascii=False, allow_nan=False) for item in items)
    return write_text(path, "".join(f"{line}\n" for line in lines))


CUT_OFF = (
    "ends in the middle of a line; whatever wrote it was stopped: write it again, or remove this "
    "line"
)
"""What is wrong with a last line that cannot be read."""


def read_lines(path: str | Path, digest: Any = None) -> Iterator[tuple[int, str]]:
    """Number and text, with its end, of every line of a UTF-8 file that is not blank.

    The bytes of all lines go into `digest`, a hash of hashlib, if there is one.

    Raises:
        InputError: as `check_file`; a line is not UTF-8, or longer than any; the line is named.
    """
    with open_file(path) as file:
        lines = iter(lambda: file.readline(_LONGEST_LINE + 1), b"")
        for number, raw in enumerate(lines, start=1):
            if len(raw) > _LONGEST_LINE:
                raise InputError(f"{path}:{number}: is longer than {_LONGEST_LINE >> 20} MB")
            if digest is not None:
                digest.update(raw)
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                what = f"is not UTF-8 text (byte {error.start} of the line)"
                if error.reason == "unexpected end of data":
                    what = CUT_OFF
                raise InputError(f"{path}:{number}: {what}") from None
            if text.strip():
                yield number, text


def read_jsonl(path: str | Path) -> list[tuple[str, Any]]:
    """Each line of a JSONL file that is not blank, as `path:number` and what it holds.

    Raises:
        InputError: as `read_lines` and `parse_json`; the line is named.
    """
    named = ((f"{path}:{number}", line.rstrip("\n")) for number, line in read_lines(path))
    return [(where, parse_json(line, where=where)) for where, line in named]


def _constant(name: str) -> Any:
    raise ValueError(f"is not JSON: {name} is no number")
