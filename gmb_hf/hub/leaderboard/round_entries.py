"""Entries of a round: a frozen lock, or an indicator module whose lock is made when it is entered.

What is entered is found again on the panel's explore runs, and then known by its hash.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gmb_hf.base.checksums import SHOWN, leaves
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import claimed, read_bytes, whole_folder
from gmb_hf.base.fingerprints import source_hash
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.hub.leaderboard.check import (
    design_on,
    same,
)
from gmb_hf.hub.leaderboard.rounds import (
    CODE,
    FILE,
    FOLDER,
    TAKEN,
    EnteredRecord,
    Round,
    today,
)
from gmb_hf.hub.leaderboard.submission import LOCK, checked_name, panel_of_lock
from gmb_hf.hub.panels import EXPLORE, FrozenPanel
from gmb_hf.indicators import catalogue
from gmb_hf.runs.metadata import PANEL

_MOST_CODE = 2**20  # bytes
_SCORED = ("candidates", "n_calibration_runs", "explore_runs")  # of a lock, found again


def enter(
    name: str,
    entry: str,
    *,
    author: str,
    claim: str,
    lock: Path | None = None,
    code: Path | None = None,
    design: Path | None = None,
    rounds: Path = FOLDER,
) -> Round:
    """Enter scores: a frozen lock, or an indicator module whose lock is made now.

    The lock is made once more on the panel's explore runs, and must be the same.

    Args:
        name: of the round.
        entry: of the entry, and of its folder.
        author, claim: who, and what the scores are, in a line.
        lock: made on the panel's explore runs, by its design.
        code: a Python module that registers the indicators which the lock, or the design, names.
        design: without a lock: the panel's with other candidates; by default the candidates are
            the indicators of the module.
        rounds: the folder of rounds.

    Raises:
        InputError: the round is closed or its date is past, the name or the lock is entered
            already, the lock is of another panel or design or has other thresholds than the explore
            runs give, or the scores cannot be computed on runs that do not exist yet.
    """
    found = Round.find(name, rounds)
    _refuse_late(found)
    place = found.entry(checked_name(entry, "entry"))
    panel = found.panel()
    if lock is None and code is None and design is None:
        raise InputError("name what is entered: --lock FILE, or --code MODULE.py")
    for option, text in (("--author", author), ("--claim", claim)):
        if not one_line(text):
            raise InputError(f"{option} is empty; say it in a line")
    if lock is not None and design is not None:
        raise InputError("--design: the lock has a design; leave one of both out")
    with indicators_of(code) as registered:
        if lock is not None:
            frozen = Lock.read(lock)
            _refuse_other_design(found, frozen, lock)
            own = FrozenPanel.find(panel.name, _fingerprint(frozen, panel))
            expected = design_on(panel, frozen)
        else:
            own, expected = panel, _design(panel, design, registered)
        _refuse_columns(expected, panel, lock or design or code)
        made, _ = make_lock(expected, prepare(own.read(EXPLORE), expected))
        if lock is None:
            frozen = made
        else:
            _refuse_other_thresholds(frozen, made, lock)
    with claimed(found.folder / FILE, TAKEN):
        found = Round.read(found.folder)
        _refuse_late(found)
        _refuse_entered(found, entry, frozen, code)
        place.parent.mkdir(exist_ok=True)
        with whole_folder(place) as workshop:
            shutil.copyfile(lock, workshop / LOCK) if lock else frozen.write(workshop / LOCK)
            if code is not None:
                shutil.copyfile(code, workshop / CODE)
            files = {path.name: source_hash(path) for path in sorted(workshop.iterdir())}
            link = EnteredRecord.parse(
                {
                    "name": entry,
                    "author": one_line(author),
                    "claim": one_line(claim),
                    "date": today(),
                    "files": files,
                    "lock": frozen.fingerprint,
                    "hash": "",
                },
                where="entry",
            )
        return found.added("entries", {**link.plain(), "files": files})


def _refuse_late(found: Round) -> None:
    closed = found.record.closed
    if closed is not None:
        raise InputError(
            f"round {found.name!r}: was closed on {closed.date}; nothing is entered after the "
            "close, enter the next round"
        )
    if found.is_past:
        raise InputError(
            f"round {found.name!r}: takes entries up to {found.record.opened.closes}; nothing is "
            "entered after that, enter the next round"
        )


def _refuse_entered(found: Round, entry: str, lock: Lock, code: Path | None) -> None:
    """Refuse a name that is taken, and the same scores under another name."""
    of_code = source_hash(code) if code is not None else None
    for one in found.record.entries:
        if one.name == entry:
            raise InputError(
                f"round {found.name!r}: has an entry {entry!r} already; an entry is never "
                "replaced, choose another name"
            )
        if one.lock == lock.fingerprint and one.files.get(CODE) == of_code:
            raise InputError(
                f"round {found.name!r}: this lock is entered already, as {one.name!r}; it is "
                "judged once"
            )


@contextmanager
def indicators_of(code: Path | None) -> Iterator[tuple[str, ...]]:
    """Run a module; meanwhile the indicators that it registers are in the catalogue.

    Raises:
        InputError: it is no Python module, fails, or registers nothing.
    """
    with ExitStack() as held:
        held.enter_context(catalogue.standing_in(()))
        if code is None:
            yield ()
            return
        known = {*catalogue.names()}
        if code.suffix != ".py" or not code.is_file():
            raise InputError(f"--code {code}: is no Python module (.py) that is here")
        if len(read_bytes(code)) > _MOST_CODE:
            raise InputError(f"--code {code}: is larger than {_MOST_CODE >> 20} MB")
        name = f"entry_{source_hash(code)[:SHOWN]}"
        spec = importlib.util.spec_from_file_location(name, code)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look there
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # of anybody's module: any kind
            reason = one_line(f"{type(error).__name__}: {error}")
            raise InputError(f"--code {code}: could not be run: {reason}; repair it") from error
        finally:
            # Its functions are then sent by value to the process in which causality is tried.
            del sys.modules[name]
        found = tuple(one for one in catalogue.names() if one not in known)
        if not found:
            raise InputError(
                f"--code {code}: registers no indicator; decorate a function with "
                "gmb_hf.indicators.catalogue.register"
            )
        yield found


def _design(panel: FrozenPanel, path: Path | None, registered: tuple[str, ...]) -> Design:
    """The panel's design with the candidates of a file, or with those that a module registers."""
    own = panel.design()
    if path is None:
        candidates = [{"name": name, "family": catalogue.get(name).family} for name in registered]
        return own.replace(candidates=candidates)
    given = Design.read(path)
    expected = own.replace(candidates=[one.plain() for one in given.candidates])
    _refuse_differing(given, expected, path, panel.name)
    return expected


def _refuse_differing(given: Design, expected: Design, path: Path, panel: str) -> None:
    """Refuse a design that asks another question than the panel's."""
    for name, place in Design.places().items():
        if place.startswith(("meta.", "boundary.")) or name == "candidates":
            continue
        theirs, ours = getattr(given, name), getattr(expected, name)
        if theirs != ours and ours is not None:  # what is left open is filled in, and compared then
            raise InputError(
                f"{path}: is of another design: {place} is {_said(theirs)}, panel {panel!r} has "
                f"{_said(ours)}; a round judges by the panel's design, lock with --runs "
                f"{PANEL}{panel}",
                code="other_design",
                field=place,
            )


def _said(value: Any) -> str:
    return "not given" if value is None else one_line(str(value))[:60]


def _refuse_other_design(found: Round, lock: Lock, path: Path) -> None:
    """Refuse a lock of other runs, or of another design, than the round's panel has."""
    panel, home = found.panel(), panel_of_lock(lock)
    if home != panel.name:
        made = "own runs" if home is None else f"panel {home!r}"
        raise InputError(
            f"{path}: was made on {made}, the round is on panel {panel.name!r}; gmb lock --runs "
            f"{PANEL}{panel.name}"
        )
    theirs = _fingerprint(lock, panel)
    known = theirs in panel.fingerprints  # those of its explore part alone, too
    if not known and not FrozenPanel.find(panel.name, theirs).holds(theirs, panel):
        raise InputError(
            f"{path}: was made on runs {theirs} of panel {panel.name!r}, it has "
            f"{panel.entry.fingerprint}; lock again"
        )
    _refuse_differing(lock.design, design_on(panel, lock), path, panel.name)


def _fingerprint(lock: Lock, panel: FrozenPanel) -> str:
    """Of the panel's runs on which a lock was made."""
    named = (one for one in lock.x_lock.x_sources if one.repo == f"{PANEL}{panel.name}")
    return next(one.fingerprint for one in named)


def _refuse_columns(design: Design, panel: FrozenPanel, path: Path | None) -> None:
    """Refuse columns that fresh runs will not have: nobody has computed them yet."""
    known, columns = {*catalogue.names()}, panel.columns
    members = [
        part
        for one in design.candidates
        if one.x_pretrained is None
        for part in (one.x_ensemble.members if one.x_ensemble is not None else (one,))
    ]
    lacking = [one.name for one in members if one.name not in known and one.name not in columns]
    if lacking:
        raise InputError(
            f"{path}: {first_of(lacking)}: no indicator and no column of panel {panel.name!r}, so "
            "nobody can compute it on runs that are not trained yet; enter the code: --code "
            "MODULE.py",
            code="no_code",
        )


def _refuse_other_thresholds(lock: Lock, made: Lock, path: Path) -> None:
    """Refuse a lock that says otherwise than the explore runs do."""
    theirs, ours = (
        {
            **{key: part for key, part in one.design.plain().items() if key != "meta"},
            "x_lock": {key: one.x_lock.plain().get(key) for key in _SCORED},
        }
        for one in (lock, made)
    )
    differ = [place for place, a, b in leaves(theirs, ours, "") if not same(a, b)]
    if differ:
        raise InputError(
            f"{path}: is not what the explore runs give: {first_of(differ, 3)} differ"
            f"{'s' if len(differ) == 1 else ''}; lock again with gmb lock",
            code="other_thresholds",
        )
