"""From what a user names (files, folders, globs) to the list of run log files."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from gmb_hf.validation import InputError, nearest

SUFFIXES = (".parquet", ".csv", ".jsonl", ".ndjson")


def find_files(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """Every run log file that `sources` name, in their order, each once.

    A folder stands for the run log files directly in it (hidden files are passed over); a glob for
    what it matches, `**` included.

    Raises:
        InputError: no sources, a missing file, a folder or glob without a run log file, or a file
            of another kind.
    """
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    if not given:
        raise InputError("no run logs given; name a file, a folder or a glob")
    found: dict[Path, None] = {}
    for source in given:
        found.update(dict.fromkeys(_expand(source)))
    return list(found)


def _expand(source: str | Path) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_dir():
        return _in_folder(path)
    if path.exists():
        if path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{path}: not a run log; known endings: {', '.join(SUFFIXES)}")
        return [path]
    if glob.has_magic(str(path)):
        return _matching(str(path))
    raise InputError(f"{path}: no such file or folder{_neighbour(path)}")


def _in_folder(folder: Path) -> list[Path]:
    files = sorted(p for p in folder.iterdir() if p.is_file() and _is_log(p))
    if not files:
        inside = sorted(p.name for p in folder.iterdir() if p.is_dir())[:6]
        hint = f"; it has the folders {', '.join(inside)}" if inside else ""
        raise InputError(f"{folder}: no run log ({', '.join(SUFFIXES)}) in this folder{hint}")
    return files


def _matching(pattern: str) -> list[Path]:
    files = sorted(p for p in map(Path, glob.glob(pattern, recursive=True)) if p.is_file())
    logs = [path for path in files if _is_log(path)]
    if not logs:
        seen = f"; it matches {files[0]}, which is no run log" if files else ""
        raise InputError(
            f"{pattern}: no run log ({', '.join(SUFFIXES)}) matches this pattern{seen}; "
            "check the folder and the quotes around it"
        )
    return logs


def _is_log(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith((".", "_"))


def _neighbour(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either"
    guess = nearest(path.name, [p.name for p in path.parent.iterdir()])
    return f". Did you mean {str(path.parent / guess)!r}?" if guess else ""
