"""Ledgers of panels: who has judged the held-out runs that many share (DECISIONS 13, 16).

Each lock may have been chosen by what earlier ones showed, so a panel allows so many, then it is
worn out. Its runs are recognised by their values, whatever file they come from and whatever was
joined to them. What looked is kept in the user's state folder, under the hash of the panel's runs;
the ledger that a panel was published with, `looks.yaml` in its folder, is read and never written.
"""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from gmb_hf.base.checksums import Checksums, canonical_hash
from gmb_hf.base.documents import Many, Section, front_matter, load_yaml, write_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.base.files import cache_folder, claimed, state_folder
from gmb_hf.base.fingerprints import SHOWN
from gmb_hf.design.design import Design
from gmb_hf.design.fingerprint import design_fingerprint
from gmb_hf.design.lock import Lock
from gmb_hf.runs.columns import RUN, STEP, float_column
from gmb_hf.runs.runlog import RunLog

CARD, HELD_OUT, PUBLISHED = "README.md", "heldout.parquet", "looks.yaml"
PANEL_KEY, FINGERPRINT_KEY = "gmb_panel", "gmb_fingerprint"
PLACE = "GMB_PANELS"
"""An environment variable: another folder of panels."""
FOLDER = "panels"
SHIPPED = Path(__file__).resolve().parents[1] / "hub" / "shipped"
"""The folder of the panels that are part of the package."""
CUT = "x_cut"
"""Where the card of a panel says of which whole panel it holds some columns."""
NO_LOCK = "no lock: "
RECORD = Checksums("x_checksum", since="the panel was frozen", hint="restore the card")
"""Of what a card says of its panel; cards of earlier versions have none."""
Judge = Lock | Design | Mapping[str, Any]
"""What judges: a lock; a design; or the settings of a protocol that has no design."""

_TAKEN = "another evaluation writes the ledger of this panel; run it again"
_HEADING = """\
The locks that judged the held-out runs of panel {name} on this machine; gmb writes it. Each of them
may have chosen by what earlier ones showed, so the panel wears out: its card says how many it
allows. What judged them without a lock counts as one: its hash is that of its design."""

_KNOWN = ("test_acc", "test_loss", "train_acc", "train_loss")  # where the metric is named otherwise
_COLUMNS = 3  # by which runs are recognised: one may stand still in a run
_LEAST, _SHARE = 6, 0.9  # moving rows that must be there, and their share that must be equal
_RELATIVE, _ABSOLUTE = 1e-4, 1e-6  # what rounding to four digits may change
_DENSE = 10_000_000  # steps are sorted by counting up to here


def folder_of_panels() -> Path:
    """The project's panels: $GMB_PANELS, ./panels, or beside the package in a checkout."""
    here, beside, *_ = _folders()
    there = PLACE not in os.environ and not here.is_dir() and beside.is_dir()
    return beside if there else here


def folder_of_fetched() -> Path:
    """Where panels that are fetched are kept: $GMB_PANELS, or the user's cache folder."""
    return Path(os.environ[PLACE]) if PLACE in os.environ else cache_folder() / FOLDER


def folders_of_panels() -> tuple[Path, ...]:
    """Where panels are looked up, in this order: the project's, the cache, the package's own.

    If $GMB_PANELS is set, there alone.
    """
    own = folder_of_panels()
    return (own,) if PLACE in os.environ else (own, folder_of_fetched(), SHIPPED)


def _folders() -> tuple[Path, ...]:
    """Wherever panels may lie."""
    beside = Path(__file__).resolve().parents[2] / FOLDER
    return Path(os.environ.get(PLACE, FOLDER)), beside, cache_folder() / FOLDER, SHIPPED


class LookedRecord(Section):
    """A lock that judged the held-out part; made again on another day it is no other one.

    What judges without a lock may choose by earlier looks as a lock does, and counts as one.
    """

    lock_hash: str = Field(description="without a lock: `no lock: ` and the hash of the design")
    content: str = Field("", description="`Lock.fingerprint`; empty in lines of older versions")
    date: str

    @classmethod
    def by(cls, judge: Judge) -> Self:
        """Today's look, by a lock or, without one, by a design or settings."""
        today, content = datetime.date.today().isoformat(), ""
        if isinstance(judge, Lock):
            name, content = judge.hash, judge.fingerprint
        elif isinstance(judge, Design):
            name = f"{NO_LOCK}{design_fingerprint(judge)}"
        else:
            name = f"{NO_LOCK}{canonical_hash(judge)}"
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

    def with_looks(self, others: Sequence[LookedRecord]) -> Self:
        """This ledger and those of other looks that it lacks."""
        known = list(self.locks)
        known += [one for one in others if not one.among(self.locks)]
        return type(self)(locks=tuple(known))


@dataclass(frozen=True)
class SharedRuns:
    """The held-out runs of a panel, which many judge, and who has."""

    folder: Path
    header: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Those of the panel in a folder; `InputError` where its card cannot be read."""
        card = folder / CARD
        return cls(folder, front_matter(card.read_text("utf-8-sig"), where=str(card)))

    @property
    def name(self) -> str:
        """The panel's."""
        return self.folder.name

    @cached_property
    def allowed(self) -> int:
        """How many locks may look, by the card; `InputError` where that was edited."""
        return int(checked_record(self.header, str(self.folder / CARD))["locks_allowed"])

    @property
    def path(self) -> Path:
        """The ledger of this machine.

        A copy of the panel under another name has the same, and so has one with fewer columns.
        """
        entries = [*(self.header.get(FINGERPRINT_KEY) or {}).values()]
        whole = (self.header.get(PANEL_KEY) or {}).get(CUT) or entries[0]
        mark = whole["content_hash"]
        return state_folder() / FOLDER / f"{mark[:SHOWN]}.looks.yaml"

    def ledger(self) -> Ledger:
        """Every lock that looked: those that the panel was published with, then those here."""
        published = Ledger.read(self.folder / PUBLISHED)
        return published.with_looks(Ledger.read(self.path).locks)

    def said(self, judge: Judge | None = None) -> str:
        """How many have looked, with this one, in a sentence."""
        known = self.ledger()
        if judge is not None:
            known = known.with_looks([LookedRecord.by(judge)])
        return (
            f"{self.name}: {len(known.locks)} of {self.allowed} locks have looked at its held-out "
            "runs."
        )

    def refuse_worn_out(self, judge: Judge) -> None:
        """Refuse another lock, or design without one, where as many as the card allows have looked.

        Raises:
            InputError: the panel is worn out.
        """
        known = self.ledger().locks
        if len(known) >= self.allowed and not LookedRecord.by(judge).among(known):
            raise InputError(
                f"panel {self.name!r}: {len(known)} locks have judged its held-out runs, and its "
                f"card allows {self.allowed}; judge on runs that nobody has looked at",
                code="no_look_left",
            )

    def keep_look(self, judge: Judge) -> None:
        """Write a lock, or what judges without one, into the ledger of this machine, once.

        Raises:
            InputError: others took the last look meanwhile, or the folder cannot be written to.
        """
        with claimed(self.path, _TAKEN):
            self.refuse_worn_out(judge)
            look = LookedRecord.by(judge)
            if not look.among(self.ledger().locks):
                kept = Ledger.read(self.path).with_looks([look])
                write_yaml(self.path, kept.as_read(), heading=_HEADING.format(name=self.name))


def checked_record(header: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """What a card says of its panel, as it stands there.

    Raises:
        InputError: it says nothing, or it was edited after the panel was frozen.
    """
    record, where = header.get(PANEL_KEY), f"{where}: {PANEL_KEY}"
    if not isinstance(record, Mapping) or type(record.get("locks_allowed")) is not int:
        raise InputError(f"{where}: does not say how many locks may look (locks_allowed)")
    if record.get(RECORD.place):
        RECORD.check(record, where)
    return record


@dataclass(frozen=True)
class PanelLooks:
    """The look at held-out runs of panels that is about to be taken; often at none.

    Attributes:
        shared: the panels whose held-out runs are judged.
        judge: by what; None where the look was counted elsewhere.
    """

    shared: tuple[SharedRuns, ...]
    judge: Judge | None

    @property
    def notes(self) -> list[str]:
        """How many have looked at each of them, a sentence each."""
        return [one.said(self.judge) for one in self.shared]

    def keep(self) -> None:
        """Write the look down; call it before anybody sees a result.

        Raises:
            InputError: as `SharedRuns.keep_look`.
        """
        if self.judge is not None:
            for one in self.shared:
                one.keep_look(self.judge)


def panel_looks(judge: Judge | None, metric: str, *logs: RunLog) -> PanelLooks:
    """The look at panels that judging these logs is.

    Args:
        judge: a lock, a design or settings; None where the look is counted already.
        metric: the column in which events are found.
        logs: what is judged, and what thresholds are found on.

    Raises:
        InputError: as many as may have looked at one of the panels, or its card was edited.
    """
    found: dict[Path, SharedRuns] = {}
    for log in logs:
        for one in recognised(log, metric):
            found.setdefault(one.path, one)  # of copies of a panel the one that is used
    if judge is not None:
        for one in found.values():
            one.refuse_worn_out(judge)
    return PanelLooks(tuple(found.values()), judge)


# Which panels the runs of a log are of.


def recognised(log: RunLog, metric: str) -> Iterator[SharedRuns]:
    """The panels that lie here of which a log has a held-out run, or some rows of one.

    A run is recognised by the metric and up to two other columns, at the steps that both have: two
    of them must be equal (one, where no other moves), in nine of ten values, to four digits. A
    metric above 1 is in percent where the panel's is none.
    """
    clock = log.panel(STEP)
    runs = np.repeat(np.arange(len(clock.runs)), clock.lengths)
    grid, place = _grid(clock.steps[clock.present])
    ours: dict[str, NDArray[np.float64]] = {}
    for folder in dict.fromkeys(place.resolve() for place in _folders()):
        for path in sorted(folder.glob(f"*/{HELD_OUT}")):
            if not (path.parent / CARD).is_file():
                continue
            file = str(path), path.stat().st_mtime_ns
            steps = _clock(*file)[1]
            own, its = np.isin(grid, steps), np.isin(steps, grid)
            if own.sum() < _LEAST:
                continue
            for pairs in _pairs(log, metric, _columns(*file)):
                for name in pairs:
                    if name not in ours:
                        ours[name] = _on_grid(runs, place, float_column(log.table[name]))
                both = [
                    (ours[name][:, own], _cells(*file, other)[:, its])
                    for name, other in pairs.items()
                ]
                if pairs:
                    both[0] = _as_shares(*both[0]), both[0][1]
                if _share_a_run(both):
                    yield SharedRuns.of(path.parent)
                    break


def _pairs(log: RunLog, metric: str, have: frozenset[str]) -> Iterator[dict[str, str]]:
    """Columns of a log -> those of a panel that they may be, the metric first."""
    names = dict.fromkeys((metric, *_KNOWN, *log.observables))
    both = [name for name in names if name in have and name in log.observables]
    same = {name: name for name in both[:_COLUMNS]}
    if metric in have or metric not in log.observables:
        yield from [same] if same else []
    else:
        yield from ({metric: name, **same} for name in _KNOWN if name in have)


@cache
def _columns(path: str, changed: int) -> frozenset[str]:
    """The columns of numbers of a panel's file."""
    schema = pq.read_schema(path)
    return frozenset(field.name for field in schema if pa.types.is_floating(field.type))


def _read(path: str, columns: list[str]) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(columns, use_threads=False)


@cache
def _clock(path: str, changed: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Of each row of a panel its run, by number; all steps; and of each row which one it is."""
    try:
        table = _read(path, [RUN, STEP])
        runs = np.asarray(table[RUN].combine_chunks().dictionary_encode().indices)
        steps, place = _grid(np.asarray(table[STEP], dtype=np.int64))
    except (pa.ArrowException, OSError):  # what cannot be read has given no log its runs
        return (np.empty(0, dtype=np.int64),) * 3
    return runs, steps, place


@cache
def _cells(path: str, changed: int, column: str) -> NDArray[np.float64]:
    """A column of a panel, [P, steps]."""
    runs, _, place = _clock(path, changed)
    values = np.asarray(_read(path, [column])[column], dtype=np.float64)
    return _on_grid(runs, place, values)


def _grid(steps: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All steps in order, and which of them each row has."""
    known = np.flatnonzero(np.bincount(steps)) if steps.max(initial=0) < _DENSE else None
    if known is None:
        return np.unique(steps, return_inverse=True)
    place = np.zeros(int(known[-1]) + 1, dtype=np.int64)
    place[known] = np.arange(len(known))
    return known, place[steps]


def _on_grid(
    runs: NDArray[np.int64], place: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Values [N] of runs and steps as [R, T], NaN where there is none."""
    found = np.full((int(runs.max()) + 1, int(place.max()) + 1), np.nan)
    found[runs, place] = values
    return found


def _share_a_run(
    columns: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> bool:
    """Whether two logs share a run, by columns of both: [R, T] of one, [P, T] of the other."""
    telling: Counter[int] = Counter()
    equal: Counter[tuple[int, int]] = Counter()
    for ours, theirs in columns:
        for run, rows in _equal_rows(ours, theirs):
            telling[run] += 1
            equal.update((run, row) for row in rows)
    # Curves without noise may be equal by chance: two columns decide, where two move.
    return any(count >= min(telling[run], 2) for (run, _), count in equal.items())


def _equal_rows(
    ours: NDArray[np.float64], theirs: NDArray[np.float64]
) -> Iterator[tuple[int, list[int]]]:
    """Each of their runs that moves, and those of ours that are equal to it."""
    change = np.abs(np.diff(theirs, axis=1, prepend=np.nan))
    moves = change > _slack(theirs)
    # One telling step rules out nearly every run: logged by most, and after a great move.
    logged = np.isfinite(ours).sum(axis=0)
    worth = np.where(moves, logged + change / (1 + np.nanmax(change, initial=0.0)), -1)
    first = worth.argmax(axis=1)
    by_step = np.ascontiguousarray(ours.T)
    for run in np.flatnonzero(moves.sum(axis=1) >= _LEAST).tolist():
        value = theirs[run, first[run]]
        other = np.abs(by_step[first[run]] - value) > _slack(value)
        rows = np.flatnonzero(~other)
        if not len(rows):
            yield run, []
            continue
        at = np.flatnonzero(moves[run])
        seen = ours[np.ix_(rows, at)]
        known = np.isfinite(seen).sum(axis=1)
        equal = (np.abs(seen - theirs[run, at]) <= _slack(theirs[run, at])).sum(axis=1)
        yield run, rows[(known >= _LEAST) & (equal >= _SHARE * known)].tolist()


def _as_shares(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Our metric, of percents as shares of 1, where theirs is such a share."""
    in_percent = np.nanmax(theirs, initial=0.0) <= 1 < np.nanmax(ours, initial=0.0)
    return ours / 100 if in_percent else ours


def _slack(values: Any) -> Any:
    return _ABSOLUTE + _RELATIVE * np.abs(values)
