"""From what a user names to raw tables: files found, put together where they are one run, read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.runs.raw import RawTable, Wanted
from gmb_hf.runs.readers.registry import Reader, reader_of
from gmb_hf.runs.sources import find_files
from gmb_hf.validation import InputError


@dataclass(frozen=True)
class Source:
    """Files that are read as one.

    Attributes:
        reader: of their format.
        place: the file, or the folder of the run.
        files: the file, or those of the run that were named.
    """

    reader: Reader
    place: Path
    files: tuple[Path, ...]

    @property
    def run_name(self) -> str:
        """The name of the run, where the file does not name it."""
        return self.place.name if self.reader.run_folder else self.place.stem

    def read(self, wanted: Wanted) -> RawTable:
        """The raw table.

        Raises:
            InputError: a file is empty, unreadable, not UTF-8, or not of its format.
        """
        try:
            for path in self.files:
                if not path.stat().st_size:
                    raise InputError(f"{path}: the file is empty; is the training still starting?")
            return self.reader.read(self.files, wanted)
        except UnicodeDecodeError as error:
            file = self.files[0]
            raise InputError(f"{file}: not UTF-8 text; save the file as UTF-8") from error
        except OSError as error:
            file = self.files[0]
            raise InputError(f"{file}: could not be read: {error.strerror or error}") from error


def read_sources(
    sources: str | Path | Sequence[str | Path], wanted: Wanted
) -> Iterator[tuple[Source, RawTable]]:
    """Each file, or each run's files, with its raw table.

    Raises:
        InputError: nothing to read, two logs of one run, or a file that is wrong.
    """
    for source in gather(find_files(sources)):
        yield source, source.read(wanted)


def gather(files: Sequence[Path]) -> list[Source]:
    """The files put together that make one run, in the order in which they were found.

    Raises:
        InputError: a run's folder holds logs of two formats, which may be one training twice.
    """
    groups: dict[Path, tuple[Reader, list[Path]]] = {}
    for path in files:
        reader = reader_of(path)
        if reader is None:
            raise InputError(f"{path}: not a run log")
        place = path if reader.run_folder is None else reader.run_folder(path)
        held, members = groups.setdefault(place, (reader, []))
        if held is not reader:
            raise _logged_twice(place, members[0], path)
        members.append(path)
    folders = {place: held for place, (held, _) in groups.items() if held.run_folder}
    for reader, members in groups.values():
        for folder in members[0].absolute().parents:
            other = folders.get(folder)
            if other is not None and other is not reader:
                raise _logged_twice(folder, groups[folder][1][0], members[0])
    return [Source(reader, place, tuple(members)) for place, (reader, members) in groups.items()]


def _logged_twice(folder: Path, one: Path, other: Path) -> InputError:
    return InputError(
        f"{folder}: {one.name} and {other.name} may be two logs of one run; name the files of one "
        "format, e.g. by a glob in quotes"
    )
