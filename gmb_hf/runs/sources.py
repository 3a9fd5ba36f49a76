"""From what a user names (files, folders, globs) to the list of run log files."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from gmb_hf.runs.readers.registry import KNOWN, reader_of
from gmb_hf.validation import InputError, nearest


def find_files(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    """Every run log file that `sources` name, in their order, each once.

    A folder stands for the run log files directly in it (hidden files are passed over); where it
    has none, for the logs of the trainings in its subfolders that left event files or a Trainer's
    state. A glob stands for what it matches, `**` included.

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
        if reader_of(path) is None:
            raise InputError(f"{path}: not a run log; known endings: {KNOWN}")
        return [path]
    if glob.has_magic(str(path)):
        return _matching(str(path))
    raise InputError(f"{path}: no such file or folder{_neighbour(path)}")


def _in_folder(folder: Path) -> list[Path]:
    entries = sorted(folder.iterdir())
    tables = [path for path in entries if _is_log(path) and not _folder_is_run(path)]
    files = tables + _of_training(folder) or _of_trainings(folder)
    if not files:
        inside = ", ".join([path.name for path in entries if path.is_dir()][:6])
        hint = f"; it has the folders {inside}" if inside else ""
        raise InputError(f"{folder}: no run log ({KNOWN}) in this folder{hint}")
    return files


def _of_training(folder: Path) -> list[Path]:
    """What a training left in its folder besides tables, which stand for themselves.

    Event files and a Trainer's state, those of its checkpoints included; where there are none, the
    event files where a Trainer puts them.
    """
    found = [path for path in sorted(folder.iterdir()) if _is_log(path) and _folder_is_run(path)]
    found += sorted(folder.glob("checkpoint-*/trainer_state.json"))
    return found or sorted(path for path in folder.glob("runs/*/*") if _is_log(path))


def _of_trainings(folder: Path) -> list[Path]:
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    return [file for child in inside for file in _of_training(child)]


def _folder_is_run(path: Path) -> bool:
    reader = reader_of(path)
    return reader is not None and reader.run_folder is not None


def _matching(pattern: str) -> list[Path]:
    seen = sorted(map(Path, glob.glob(pattern, recursive=True)))
    folders = [path for path in seen if path.is_dir()]
    logs = [path for path in seen if _is_log(path)]
    logs += [file for folder in folders for file in _of_training(folder)]
    logs = logs or [file for folder in folders for file in _of_trainings(folder)]
    if not logs:
        other = f"; it matches {seen[0]}, which is no run log" if seen else ""
        raise InputError(
            f"{pattern}: no run log ({KNOWN}) matches this pattern{other}; "
            "check the folder and the quotes around it"
        )
    return logs


def _is_log(path: Path) -> bool:
    return reader_of(path) is not None and path.name[0] not in "._" and path.is_file()


def _neighbour(path: Path) -> str:
    if not path.parent.is_dir():
        return f"; the folder {path.parent} does not exist either"
    guess = nearest(path.name, [p.name for p in path.parent.iterdir()])
    return f". Did you mean {str(path.parent / guess)!r}?" if guess else ""
