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
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from gmb_hf._version import __version__
from gmb_hf.base.checksums import SHOWN, canonical_hash
from gmb_hf.base.documents import Count, Many, Section, load_yaml, write_yaml
from gmb_hf.base.errors import InputError, choose, first_of, positive_int, repeated, unknown
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import claimed, write_text
from gmb_hf.base.fingerprints import source_hash
from gmb_hf.base.schemas import Schema
from gmb_hf.benchmark.results import Results
from gmb_hf.design.lock import Lock
from gmb_hf.hub.cards import CARD, render_card
from gmb_hf.hub.leaderboard.submission import LOCK, RESULTS, Words, checked_name
from gmb_hf.hub.panels import EXPLORE, FrozenPanel
from gmb_hf.hub.recipes import RECIPES, Recipe
from gmb_hf.runs.runlog import RunLog

FOLDER, FILE = Path("rounds"), "round.yaml"
ENTRIES, TRAINING, HELD_OUT, JUDGED = "entries", "training", "heldout.parquet", "judged"
CODE = "code.py"
FIRST_SEED = 2**31
"""Seeds of rounds begin here, above those of every recipe and preset."""
_END = 2**32
TAKEN = "another command writes this round; run it again"
_HEADING = """\
A round of the leaderboard; gmb leaderboard round writes it. Each section has a hash over its
content and the hash before it. Publish this file (commit it) after each entry and at the close:
the hashes show what was changed only to those who know an earlier one."""

State = Literal["open", "closed", "trained", "judged"]


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
        of_round = round_hash(self.last_entry, closed.beacon)
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
    def last_entry(self) -> str:
        """The hash of the last entry; without any, of the opened round."""
        record = self.record
        return record.entries[-1].hash if record.entries else record.opened.hash

    @property
    def closes(self) -> datetime:
        """Up to when entries are taken."""
        return datetime.fromisoformat(self.record.opened.closes)

    @property
    def is_past(self) -> bool:
        """Whether the date up to which entries are taken is past."""
        return now() > self.closes

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
        # One that was held out since then has the same explore runs, by its earlier fingerprint.
        marks = (panel.whole, *(one.partition("|")[0] for one in panel.fingerprints))
        if not any(opened.content_hash.startswith(mark) for mark in marks):
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

    def added(self, key: str, link: Mapping[str, Any]) -> Round:
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


def names(rounds: Path = FOLDER) -> tuple[str, ...]:
    """The rounds of a folder, sorted."""
    return tuple(sorted(path.parent.name for path in rounds.glob(f"*/{FILE}")))


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
        "date": today(),
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


def today() -> str:
    """The time (UTC), to the second."""
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
    with claimed(folder / FILE, TAKEN):
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
        of_round = round_hash(found.last_entry, one_line(beacon))
        link = {
            "date": today(),
            **({"early": True} if before else {}),
            **({"beacon": one_line(beacon)} if beacon else {}),
            "round_hash": of_round,
            "first_seed": first_seed(of_round, opened.held_out),
        }
        return found.added("closed", link)


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
    with claimed(found.folder / FILE, TAKEN):
        found = Round.read(found.folder)
        link = {
            "date": today(),
            "file_hash": source_hash(path),
            "runs": len(log.runs),
            "package_version": __version__,
        }
        return found if found.record.trained else found.added("trained", link)
