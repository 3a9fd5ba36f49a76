"""A round: scores are entered by hash, then held-out runs are trained that nobody could know.

    rounds/NAME/round.yaml       what was opened, entered, closed, trained and judged, and when
    rounds/NAME/README.md        the card: the same for readers
    rounds/NAME/entries/ENTRY/   lock.yaml, and code.py where an indicator comes along
    rounds/NAME/training/        the held-out runs under way
    rounds/NAME/heldout.parquet  the held-out runs, frozen
    rounds/NAME/judged/ENTRY/    the lock for these seeds, its results and report

Each section of round.yaml has a hash over its content and the hash before it, so a section that is
edited later is noticed. The hash after the last entry decides the seeds of the held-out runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from gmb_hf._version import __version__
from gmb_hf.base.checksums import SHOWN, canonical_hash, leaves
from gmb_hf.base.documents import Count, Many, Section, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, choose, first_of, positive_int, repeated, unknown
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import claimed, read_bytes, whole_folder, write_text
from gmb_hf.base.fingerprints import source_hash
from gmb_hf.base.schemas import Schema
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.older import SCHEMA as RESULTS_SCHEMA
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.benchmark.results import Results
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.hub.cards import CARD, render_card
from gmb_hf.hub.leaderboard.check import (
    CheckedScore,
    compared,
    design_on,
    fields_passed_over,
    same,
)
from gmb_hf.hub.leaderboard.kept import Cache, key_of
from gmb_hf.hub.leaderboard.submission import LOCK, RESULTS, Words, checked_name, panel_of_lock
from gmb_hf.hub.panels import EXPLORE, FrozenPanel
from gmb_hf.hub.recipes import RECIPES, Recipe
from gmb_hf.indicators import catalogue
from gmb_hf.report.answer import primary_target
from gmb_hf.report.page import CLASSES, class_of
from gmb_hf.report.report import publish
from gmb_hf.runs.metadata import PANEL
from gmb_hf.runs.runlog import RunLog

FOLDER, FILE = Path("rounds"), "round.yaml"
ENTRIES, TRAINING, HELD_OUT, JUDGED = "entries", "training", "heldout.parquet", "judged"
CODE = "code.py"
FIRST_SEED = 2**31
"""Seeds of rounds begin here, above those of every recipe and preset."""
_END = 2**32
_MOST_CODE = 2**20  # bytes
_TAKEN = "another command writes this round; run it again"
_SCORED = ("candidates", "n_calibration_runs", "explore_runs")  # of a lock, found again
_HEADING = """\
A round of the leaderboard; gmb leaderboard round writes it. Each section has a hash over its
content and the hash before it. Publish this file (commit it) after each entry and at the close:
the hashes show what was changed only to those who know an earlier one."""

State = Literal["open", "closed", "trained", "judged"]
Counting = Callable[[str, int], AbstractContextManager[Callable[[str], None]]]


def now() -> datetime:
    """The time (UTC)."""
    return datetime.now(UTC)


class OpenedRecord(Section):
    """What a round is about, fixed before the first entry."""

    name: str
    date: str
    closes: str = Field(description="entries are taken up to here, UTC")
    panel: str
    content_hash: str = Field(description="of the panel's runs")
    config_hash: str = Field(description="of what the panel's recipe trains")
    held_out: Count = Field(description="runs that are trained after the close")
    beacon: str = Field("", description="what others publish after the close; seeds depend on it")
    package_version: str
    hash: str

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return checked_name(name, "round")

    @field_validator("closes")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        if datetime.fromisoformat(text).tzinfo is None:
            raise ValueError("is a time without its zone; write +00:00 behind it")
        return text


class EnteredRecord(Section):
    """One entry, by the hashes of its files."""

    name: str
    author: Words
    claim: Words
    date: str
    files: dict[str, str] = Field(description="name -> SHA-256 of its bytes")
    lock: str = Field(description="fingerprint of the lock, the same on every day")
    hash: str

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return checked_name(name, "entry")

    @field_validator("files")
    @classmethod
    def _are_files(cls, files: dict[str, str]) -> dict[str, str]:
        if not {LOCK} <= {*files} <= {LOCK, CODE}:
            raise ValueError(f"an entry has the files {LOCK} and, with a module, {CODE}")
        return files


class ClosedRecord(Section):
    """The close, which fixes the seeds of the held-out runs."""

    date: str
    early: bool = Field(False, description="before the date that was announced")
    beacon: str = ""
    round_hash: str = Field(description="of the last entry's hash and the beacon")
    first_seed: int = Field(description="of held_out seeds, one after the other; by round_hash")
    hash: str


class TrainedRecord(Section):
    """The held-out runs, frozen."""

    date: str
    file_hash: str = Field(description="SHA-256 of heldout.parquet")
    runs: Count
    package_version: str
    hash: str


class JudgedRecord(Section):
    """The one judgement of an entry."""

    name: str
    date: str
    results: str = Field("", description="SHA-256 of its results.yaml")
    fault: str = Field("", description="why it could not be judged")
    hash: str


SCHEMA = Schema("round", ())


class RoundRecord(Section):
    """The file of a round."""

    x_schema: int = SCHEMA.current
    opened: OpenedRecord
    entries: Many[EnteredRecord] = ()
    closed: ClosedRecord | None = None
    trained: TrainedRecord | None = None
    judged: Many[JudgedRecord] = ()

    @model_validator(mode="after")
    def _in_order(self) -> RoundRecord:
        known = [one.name for one in self.entries]
        for section, named in (("entries", known), ("judged", [one.name for one in self.judged])):
            twice = repeated(named)
            if twice is not None:
                raise ValueError(f"{section}: {twice!r} is there twice")
        if strange := {one.name for one in self.judged} - {*known}:
            raise ValueError(f"judged: {first_of(sorted(strange))} was never entered")
        if (self.judged and not self.trained) or (self.trained and not self.closed):
            raise ValueError("a round is closed, then trained, then judged; a section is missing")
        return self


def chained(previous: str, link: Mapping[str, Any]) -> str:
    """The hash of a section: over the hash before it, and all that it says but its own hash."""
    return canonical_hash([previous, {key: link[key] for key in link if key != "hash"}])


def round_hash(last: str, beacon: str) -> str:
    """What decides the seeds: the hash of the last entry, and the beacon's value.

    The date of the close is not in it, or whoever closes could choose among dates.
    """
    return canonical_hash([last, beacon])


def first_seed(of_round: str, count: int) -> int:
    """The first of `count` seeds from 2^31 on that a round's hash stands for.

    >>> first_seed("ab", 10) in range(2**31, 2**32 - 10)
    True
    """
    digest = hashlib.sha256(of_round.encode()).hexdigest()
    return FIRST_SEED + int(digest, 16) % (_END - FIRST_SEED - count)


@dataclass(frozen=True)
class Round:
    """A round in a folder, by its file, whose hashes are right.

    Attributes:
        folder: where it lies.
        content: of its file, as it stands there.
        record: the same with types.
    """

    folder: Path
    content: Mapping[str, Any]
    record: RoundRecord

    @classmethod
    def find(cls, name: str, rounds: Path = FOLDER) -> Self:
        """The round of a name.

        Raises:
            InputError: there is none (the nearest is named), or as `read`.
        """
        known = names(rounds)
        if name not in known:
            if not known:
                how = "gmb leaderboard round open NAME --panel PANEL --closes DATE"
                raise InputError(f"round {one_line(name)!r}: {rounds} holds no round; {how}")
            raise unknown("round", name, known)
        return cls.read(rounds / name)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The round of a folder.

        Raises:
            InputError: the file is no round, or a section was changed after it was written.
        """
        path = folder / FILE
        content = SCHEMA.opened(load_yaml(path), where=str(path))
        found = cls(folder, content, RoundRecord.parse(content, where=str(path)))
        if found.name != folder.resolve().name:
            raise InputError(
                f"{path}: opened.name is {found.name!r}, the folder is called "
                f"{one_line(folder.resolve().name)!r}; give both one name"
            )
        previous = ""
        for what, link in _links(content):
            right = chained(previous, link)
            if link["hash"] != right:
                raise InputError(
                    f"{path}: {what}, or what stands before it, was changed after it was written "
                    f"(its hash is {link['hash'][:SHOWN]}, its content has {right[:SHOWN]}); "
                    "restore the file",
                    code="round_edited",
                )
            previous = link["hash"]
        found._check_seeds(str(path))
        return found

    def _check_seeds(self, where: str) -> None:
        closed, opened = self.record.closed, self.record.opened
        if closed is None:
            return
        of_round = round_hash(self._last_entry, closed.beacon)
        if (closed.round_hash, closed.first_seed) != (
            of_round,
            first_seed(of_round, opened.held_out),
        ):
            raise InputError(
                f"{where}: closed: the seeds are not those of the last entry's hash; restore the "
                "file",
                code="round_edited",
            )

    @property
    def name(self) -> str:
        """The round's."""
        return self.record.opened.name

    @property
    def state(self) -> State:
        """How far it is."""
        record = self.record
        if record.closed is None:
            return "open"
        if record.trained is None:
            return "closed"
        return "judged" if len(record.judged) == len(record.entries) else "trained"

    @property
    def hash(self) -> str:
        """The hash of the last section."""
        return str([link["hash"] for _, link in _links(self.content)][-1])

    @property
    def _last_entry(self) -> str:
        record = self.record
        return record.entries[-1].hash if record.entries else record.opened.hash

    @property
    def closes(self) -> datetime:
        """Up to when entries are taken."""
        return datetime.fromisoformat(self.record.opened.closes)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Those of the held-out runs; none before the close."""
        closed = self.record.closed
        if closed is None:
            return ()
        return tuple(range(closed.first_seed, closed.first_seed + self.record.opened.held_out))

    @property
    def following(self) -> str:
        """The next command."""
        own = [] if self.folder.parent == FOLDER else ["--rounds", str(self.folder.parent)]
        if self.state == "judged":
            rounds = ["--rounds", str(self.folder.parent)]
            return shlex.join(["gmb", "leaderboard", "build", *rounds, "--out", "site"])
        command = {"open": "close", "closed": "train", "trained": "judge"}[self.state]
        return shlex.join(["gmb", "leaderboard", "round", command, self.name, *own])

    @property
    def n_trained(self) -> int:
        """How many of its held-out runs have ended."""
        from gmb_hf.training.folder import finished_seeds

        return len(finished_seeds(self.folder / TRAINING).intersection(self.seeds))

    def entry(self, name: str) -> Path:
        """The folder of an entry."""
        return self.folder / ENTRIES / name

    def panel(self) -> FrozenPanel:
        """The panel on whose explore runs the thresholds were found.

        Raises:
            InputError: it is not here, or has other runs.
        """
        opened = self.record.opened
        panel = FrozenPanel.find(opened.panel)
        panel.check()
        if panel.whole != opened.content_hash:
            raise InputError(
                f"round {self.name!r}: was opened on panel {opened.panel!r} with the hash "
                f"{opened.content_hash[:SHOWN]}, the panel here has {panel.whole[:SHOWN]}; fetch "
                "that one"
            )
        return panel

    def check_entries(self) -> None:
        """Refuse files of entries that are not, byte by byte, those that were entered.

        Raises:
            InputError: one was changed, or is missing; it is named.
        """
        for entry in self.record.entries:
            for file, said in entry.files.items():
                path = self.entry(entry.name) / file
                if not path.is_file():
                    raise InputError(f"{path}: is missing; restore what was entered")
                found = source_hash(path)
                if found != said:
                    raise InputError(
                        f"{path}: was changed after it was entered (SHA-256 {found[:SHOWN]}, "
                        f"entered {said[:SHOWN]}); restore the file",
                        code="entry_edited",
                    )

    def held_out(self) -> RunLog:
        """The held-out runs.

        Raises:
            InputError: they are not all trained, or the file was changed.
        """
        trained, path = self.record.trained, self.folder / HELD_OUT
        if trained is None:
            where = f"round {self.name!r}"
            if self.record.closed is None:
                raise InputError(
                    f"{where}: is open until {self.closes:%Y-%m-%d %H:%M} UTC; first "
                    f"close it, then train: {self.following}"
                )
            raise InputError(
                f"{where}: {self.n_trained} of {self.record.opened.held_out} held-out runs are "
                f"trained; nothing is judged before all are: {self.following}"
            )
        found = source_hash(path)
        if found != trained.file_hash:
            raise InputError(
                f"{path}: was changed after it was frozen (SHA-256 {found[:SHOWN]}, the round says "
                f"{trained.file_hash[:SHOWN]}); restore the file"
            )
        log = RunLog.read(path)
        if log.seeds != self.seeds:
            raise InputError(
                f"{path}: has the seeds {first_of(log.seeds, 3)}, the closed round gives "
                f"{first_of(self.seeds, 3)}; they are other runs"
            )
        return log

    def results(self, judged: JudgedRecord) -> Results:
        """The results of an entry; `InputError` where the file was changed."""
        path = self.folder / JUDGED / judged.name / RESULTS
        if source_hash(path) != judged.results:
            raise InputError(f"{path}: was changed after it was judged; restore the file")
        return Results.read(path)

    def lock(self, entry: EnteredRecord) -> Lock:
        """The lock of an entry, for the seeds of this round."""
        return Lock.read(self.entry(entry.name) / LOCK).for_seeds(self.seeds)

    def code(self, entry: EnteredRecord) -> Path | None:
        """The module of an entry; None where gmb-hf computes its scores."""
        return self.entry(entry.name) / CODE if CODE in entry.files else None

    def _added(self, key: str, link: Mapping[str, Any]) -> Round:
        """The round with one section more, which is written."""
        content = dict(self.content)
        found = {**link, "hash": chained(self.hash, link)}
        content[key] = [*content.get(key, ()), found] if key in ("entries", "judged") else found
        return _written(self.folder, content)


def _links(content: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every section that has a hash, in order, with what messages call it."""
    yield "opened", content["opened"]
    yield from ((f"entry {one['name']!r}", one) for one in content.get("entries") or ())
    for key in ("closed", "trained"):
        if content.get(key) is not None:
            yield key, content[key]
    yield from ((f"judged {one['name']!r}", one) for one in content.get("judged") or ())


def _written(folder: Path, content: dict[str, Any]) -> Round:
    """Write the file of a round and its card."""
    write_yaml(folder / FILE, content, heading=_HEADING)
    found = Round.read(folder)
    header = {"pretty_name": f"GMB round {found.name}", "tags": ["gmb", "gmb-round"]}
    text = render_card("round", header, round=found, record=found.record)
    write_text(folder / CARD, text)
    return found


class RoundScore(NamedTuple):
    """One score of an entry, as it was judged on the held-out runs of a round."""

    entry: EnteredRecord
    score: CheckedScore
    budget: float

    @property
    def at(self) -> FirstAlarmPointRecord:
        """Its first alarms at the budget that decides."""
        return self.score.first_alarm.at(self.budget)

    @property
    def name(self) -> str:
        """Of the score, and whether it is reversed."""
        return f"{self.score.name} (reversed)" if self.score.sign == -1 else self.score.name

    @property
    def may_alarm(self) -> bool:
        """Whether it may raise an alarm."""
        return self.score.alarm_eligible

    @property
    def over_budget(self) -> bool:
        """Whether more runs have a false alarm than the budget allows, by the interval."""
        return self.at.state == "missed"

    @property
    def rank(self) -> tuple[int, bool, float, float, str, str]:
        """By class; what keeps the budget comes first, by detection rate."""
        at, kind = self.at, list(CLASSES).index(self.score.kind)
        rates = -(at.detection_rate or 0.0), at.false_alarm_rate or 0.0
        return (kind, self.over_budget, *rates, self.score.name, self.entry.name)


def judged_scores(found: Round) -> tuple[list[RoundScore], list[tuple[EnteredRecord, str]]]:
    """Every score of the entries that are judged, and why others could not be.

    Raises:
        InputError: results were changed after they were judged.
    """
    entries = {one.name: one for one in found.record.entries}
    scores: list[RoundScore] = []
    faults: list[tuple[EnteredRecord, str]] = []
    for judged in found.record.judged:
        entry = entries[judged.name]
        if judged.fault:
            faults.append((entry, judged.fault))
            continue
        results = found.results(judged)
        budget, target = results.primary_run_budget, primary_target(results)
        for item in results.indicators:
            first = item.x_first_alarm
            if item.family != "control" and first is not None and budget is not None:
                score = CheckedScore.of(item, first, kind=class_of(item), target=target)
                scores.append(RoundScore(entry, score, budget))
    return sorted(scores, key=lambda one: one.rank), faults


def names(rounds: Path = FOLDER) -> tuple[str, ...]:
    """The rounds of a folder, sorted."""
    return tuple(sorted(path.parent.name for path in rounds.glob(f"*/{FILE}")))


# Before the close.


def open_round(
    name: str,
    *,
    panel: str,
    closes: str,
    held_out: int | None = None,
    beacon: str = "",
    rounds: Path = FOLDER,
) -> Round:
    """Open a round.

    Args:
        name: of the round, and of its folder.
        panel: whose explore runs thresholds are found on, and whose recipe trains.
        closes: a date, which is in the round as a whole, or a date and time (UTC).
        held_out: how many runs are trained; as many as the recipe holds out if not given.
        beacon: what others will publish after the close; the seeds depend on it as well, so that
            nobody who enters last can choose among them.
        rounds: the folder of rounds.

    Raises:
        InputError: the round is there already, the panel is not here or cannot be trained, or the
            date is past or none.
    """
    from gmb_hf.training.config import parse_seeds

    folder = rounds / checked_name(name, "round")
    if (folder / FILE).exists():
        raise InputError(f"{folder}: is there already; choose another name")
    found = FrozenPanel.find(panel)
    found.check()
    recipe = _recipe(panel)
    if EXPLORE not in found.parts:
        raise InputError(f"panel {panel!r}: has no explore part, on which thresholds are found")
    config = recipe.config()
    planned = len(parse_seeds(config.seeds.evaluate))
    count = positive_int("--held-out", planned if held_out is None else held_out)
    if count < (groups := found.design().run_groups):
        raise InputError(
            f"--held-out {count}: the panel's design compares {groups} groups of runs "
            f"(x_run_groups); train {groups} at least"
        )
    ends = _end_of(closes)
    if ends <= now():
        raise InputError(f"--closes {closes}: is past; a round closes after it is opened")
    link = {
        "name": name,
        "date": _today(),
        "closes": ends.isoformat(),
        "panel": panel,
        "content_hash": found.whole,
        "config_hash": config.training_hash(),
        "held_out": count,
        **({"beacon": one_line(beacon)} if beacon else {}),
        "package_version": __version__,
    }
    folder.mkdir(parents=True, exist_ok=True)
    opened = {**link, "hash": chained("", link)}
    return _written(folder, {"x_schema": SCHEMA.current, "opened": opened})


def _recipe(panel: str) -> Recipe:
    recipe = RECIPES[choose("recipe of a panel", panel, tuple(RECIPES))]
    if recipe.credit:
        raise InputError(
            f"panel {panel!r}: is made of the logs of others, so no fresh runs of it can be "
            "trained; choose another --panel"
        )
    return recipe


def _today() -> str:
    return now().isoformat(timespec="seconds")


def _end_of(text: str) -> datetime:
    """The end of a day, or a time of it, in UTC."""
    try:
        found = datetime.combine(date.fromisoformat(text), time(23, 59, 59))
    except ValueError:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise InputError(
                f"--closes {one_line(text)}: is no date; write 2030-01-31, or 2030-01-31T12:00 for "
                "a time (UTC)"
            ) from None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


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
    with claimed(found.folder / FILE, _TAKEN):
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
                    "date": _today(),
                    "files": files,
                    "lock": frozen.fingerprint,
                    "hash": "",
                },
                where="entry",
            )
        return found._added("entries", {**link.plain(), "files": files})


def _refuse_late(found: Round) -> None:
    closed = found.record.closed
    if closed is not None:
        raise InputError(
            f"round {found.name!r}: was closed on {closed.date}; nothing is entered after the "
            "close, enter the next round"
        )
    if now() > found.closes:
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
    if not FrozenPanel.find(panel.name, theirs).holds(theirs, panel):
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


# The close, and what comes after it.


def close(name: str, *, early: bool = False, beacon: str = "", rounds: Path = FOLDER) -> Round:
    """Close a round: from here on the seeds of its held-out runs are fixed, and known.

    Args:
        name: of the round.
        early: close before the date; the card says so.
        beacon: the value of what was announced when it was opened.
        rounds: the folder of rounds.

    Raises:
        InputError: it is closed already, has no entries, one of them was changed, its date has not
            come, or the beacon is missing or was not announced.
    """
    folder = Round.find(name, rounds).folder
    with claimed(folder / FILE, _TAKEN):
        found = Round.read(folder)
        opened, closed = found.record.opened, found.record.closed
        where = f"round {name!r}"
        if closed is not None:
            raise InputError(
                f"{where}: was closed on {closed.date}, which fixed its seeds; go on with: "
                f"{found.following}"
            )
        if not found.record.entries:
            raise InputError(
                f"{where}: has no entries, so nothing would be judged; gmb leaderboard round enter "
                f"{name} ENTRY --lock FILE"
            )
        found.check_entries()
        before = now() < found.closes
        if before and not early:
            raise InputError(
                f"{where}: takes entries up to {opened.closes}; close it then, or now with --early,"
                " which its card will say"
            )
        if bool(beacon) != bool(opened.beacon):
            raise InputError(
                f"{where}: its seeds depend on {opened.beacon!r} as well; pass its value: --beacon "
                "VALUE"
                if opened.beacon
                else f"{where}: no beacon was announced when it was opened; leave out --beacon"
            )
        of_round = round_hash(found._last_entry, one_line(beacon))
        link = {
            "date": _today(),
            **({"early": True} if before else {}),
            **({"beacon": one_line(beacon)} if beacon else {}),
            "round_hash": of_round,
            "first_seed": first_seed(of_round, opened.held_out),
        }
        return found._added("closed", link)


def train(
    name: str, *, jobs: int | None = None, device: str = "auto", rounds: Path = FOLDER
) -> Round:
    """Train the held-out runs of a closed round, or go on with them, and freeze them.

    Args:
        name: of the round.
        jobs, device: as of `train_seeds`.
        rounds: the folder of rounds.

    Returns:
        The round; as it is where the runs are trained already.

    Raises:
        InputError: it is open, the recipe trains otherwise than when it was opened, or as
            `train_seeds`.
    """
    found = Round.find(name, rounds)
    if found.record.trained is not None:
        return found
    if found.record.closed is None:
        raise InputError(
            f"round {name!r}: is open; the seeds are known when it is closed: {found.following}"
        )
    recipe = _recipe(found.record.opened.panel)
    config = recipe.config()
    if config.training_hash() != found.record.opened.config_hash:
        raise InputError(
            f"round {name!r}: the recipe of panel {recipe.name!r} trains otherwise than when the "
            f"round was opened, by gmb-hf {found.record.opened.package_version}; install that "
            "version"
        )
    from gmb_hf.training.seeds import train_seeds  # torch

    paths = train_seeds(config, found.seeds, found.folder / TRAINING, jobs=jobs, device=device)
    log = RunLog.read(paths)
    by_seed = dict(zip(log.seeds, log.runs, strict=True))
    log = log.select([by_seed[seed] for seed in found.seeds])
    path = log.write(found.folder / HELD_OUT, single=recipe.single)
    with claimed(found.folder / FILE, _TAKEN):
        found = Round.read(found.folder)
        link = {
            "date": _today(),
            "file_hash": source_hash(path),
            "runs": len(log.runs),
            "package_version": __version__,
        }
        return found if found.record.trained else found._added("trained", link)


def judge_round(name: str, *, rounds: Path = FOLDER, counting: Counting | None = None) -> Round:
    """Judge every entry of a round once, on the held-out runs; what is judged stays as it is.

    An entry whose scores cannot be computed there has the reason in place of results.

    Args:
        name: of the round.
        rounds: the folder of rounds.
        counting: shows progress; nothing is shown without it.

    Raises:
        InputError: the runs are not all trained, or a file of an entry or of the runs was changed.
    """
    found = Round.find(name, rounds)
    log = found.held_out()
    found.check_entries()
    done = {one.name for one in found.record.judged}
    left = [one for one in found.record.entries if one.name not in done]
    count = counting or (lambda *_: nullcontext(lambda _: None))
    with count("judging entries", len(left)) as told:
        for entry in left:
            link = _judged(found, entry, log)
            with claimed(found.folder / FILE, _TAKEN):
                found = Round.read(found.folder)
                if entry.name not in {one.name for one in found.record.judged}:
                    found = found._added("judged", link)
            told(entry.name)
    return found


def _judged(found: Round, entry: EnteredRecord, log: RunLog) -> dict[str, Any]:
    """What the file of the round says of an entry that is judged now."""
    link = {"name": entry.name, "date": _today()}
    folder = found.folder / JUDGED / entry.name
    with indicators_of(found.code(entry)):
        lock = Lock.read(found.lock(entry).write(folder / LOCK))
        prepared = prepare(log, lock)
        try:
            for one in prepared.entries:
                prepared.panel(one)
        except InputError as error:  # nothing is written here: it is the entry's own
            return {**link, "fault": one_line(str(error))}
        evaluation = evaluate_lock(lock, prepared, lock_path=LOCK)
    publish(evaluation, folder, figures=False)
    return {**link, "results": source_hash(folder / RESULTS)}


# What a site shows of a round.


class RecomputedEntry(Section):
    """An entry judged anew, as it is kept for the next site."""

    numbers: Count = Field(description="how many were equal")
    differ: Many[str] = ()


@dataclass(frozen=True)
class RoundOnBoard:
    """A round with its scores, best first within each class.

    Attributes:
        found: the round, whose hashes are right.
        scores: of the entries that are judged.
        faults: why others could not be judged.
        recomputed: entry -> how many of its numbers were computed anew and are equal. Those with
            code are not among them, since a site runs nobody's code.
    """

    found: Round
    scores: Sequence[RoundScore]
    faults: Sequence[tuple[EnteredRecord, str]]
    recomputed: Mapping[str, int]

    @property
    def classes(self) -> list[tuple[str, str, list[RoundScore]]]:
        """The classes that there are: name, heading, scores."""
        return [
            (kind, heading, own)
            for kind, heading in CLASSES.items()
            if (own := [one for one in self.scores if one.score.kind == kind])
        ]


def show_round(
    folder: Path, cache: Cache, left_out: list[str], *, recompute: bool = True
) -> RoundOnBoard:
    """A round for a site; entries whose numbers differ are named in `left_out`.

    Raises:
        InputError: a section or a file of the round was changed.
    """
    found = Round.read(folder)
    found.check_entries()
    scores, faults = judged_scores(found)
    entries = {one.name: one for one in found.record.entries}
    recomputed: dict[str, int] = {}
    for judged in found.record.judged if recompute else ():
        entry = entries[judged.name]
        if judged.fault or found.code(entry) is not None:
            continue
        key = key_of(round=found.hash, entry=entry.hash, results=judged.results)
        kept = cache.get(key, RecomputedEntry)
        if kept is None:
            kept = _recomputed(found, entry, judged)
            cache.put(key, kept)
        if kept.differ:
            left_out.append(f"round {found.name}: {kept.differ[0]}")
            scores = [one for one in scores if one.entry.name != entry.name]
        else:
            recomputed[entry.name] = kept.numbers
    return RoundOnBoard(found, scores, faults, recomputed)


def _recomputed(found: Round, entry: EnteredRecord, judged: JudgedRecord) -> RecomputedEntry:
    """The verdicts of an entry beside those that were written down."""
    results = found.results(judged)
    evaluated = evaluate_lock(found.lock(entry), found.held_out()).results
    theirs, ours = (
        {one["name"]: one for one in plain["indicators"]}
        for plain in (results.as_read(), evaluated.plain())
    )
    source = results.x_provenance
    writer = source.package_version if source is not None else None
    passed_over = fields_passed_over(results.file_schema, RESULTS_SCHEMA, writer)
    where = found.folder / JUDGED / entry.name / RESULTS
    differ, numbers = compared(where, theirs, ours, passed_over)
    return RecomputedEntry(numbers=numbers, differ=tuple(differ))
