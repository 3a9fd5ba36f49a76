"""A submission: a score that was locked and judged on a panel, as a folder that anybody can check.

    NAME/README.md         the card: author, paper, claim, panel, where the code is
    NAME/lock.yaml         thresholds of the panel's explore runs
    NAME/results.yaml      what they are worth on its held-out runs
    NAME/scores.parquet    scores by run and step, of both parts, where gmb-hf cannot compute them
    NAME/runs.parquet      own runs, where the panel's lack what the score reads
    NAME/code/             files of the author, where the code is in no repository
    NAME/check.json        what `gmb leaderboard check` recomputed

Registered indicators of this package need no file of scores: they are computed from the panel.
"""

from __future__ import annotations

import datetime
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Self

import pyarrow as pa
from pydantic import Field, field_validator, model_validator

from gmb_hf._version import __version__
from gmb_hf.base.documents import Many, Section
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.base.escape import number, one_line, percent
from gmb_hf.base.files import lies_inside, whole_folder, write_text
from gmb_hf.base.schemas import Schema, dated
from gmb_hf.benchmark.prepare import Entry, entries_of
from gmb_hf.benchmark.results import Results
from gmb_hf.design.lock import Lock
from gmb_hf.hub.cards import CARD, Card, render_card
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.sources import read_runs
from gmb_hf.indicators.catalogue import KINDS, Indicator, Kind, compute
from gmb_hf.runs.columns import KEYS
from gmb_hf.runs.metadata import COLUMN_FAMILIES, PANEL
from gmb_hf.runs.runlog import RunLog

KEY = "gmb_submission"
LOCK, RESULTS, SCORES, RUNS, CODE = (
    "lock.yaml",
    "results.yaml",
    "scores.parquet",
    "runs.parquet",
    "code",
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_WEB = re.compile(r"https?://[^\s<>\"'`]+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_LARGEST = 2**20  # bytes of code that are carried along
Words = Annotated[str, Field(min_length=1, max_length=300)]


class CodeRecord(Section):
    """Where code is: a repository at a commit, or a file in `code/`."""

    repository: str = ""
    commit: str = ""
    file: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> CodeRecord:
        if bool(self.file) == bool(self.repository):
            raise ValueError("name either a file or a repository and a commit")
        if self.repository and not (is_link(self.repository) and _COMMIT.fullmatch(self.commit)):
            raise ValueError(
                "a repository is an https address, its commit 7 to 64 hexadecimal digits"
            )
        return self


class ScoreRecord(Section):
    """A score that gmb-hf does not compute: what its numbers in scores.parquet are."""

    kind: Kind = Field(description="what the author says that it is told")
    package: str = Field("", description="that registers it; empty: a column")
    window_parameter: str | None = None
    windows: Many[int] = Field((), description="in steps; each has a column of scores")
    rule: bool = False

    def column(self, name: str, window: int | None = None) -> str:
        """Its column in scores.parquet, of a window where it has several.

        That of a package is called otherwise than the score, which may be installed.
        """
        if window is not None:
            return f"{name} [{self.window_parameter}={window}]"
        return f"{name} [{self.package}]" if self.package else name

    def columns(self, name: str) -> list[str]:
        """All of them."""
        return [self.column(name, window) for window in self.windows or (None,)]


SCHEMA = Schema("submission", (partial(dated, version=2),))


class SubmissionRecord(Section):
    """What the card says of a submission."""

    x_schema: int = SCHEMA.current
    name: str
    author: Words
    claim: Words
    paper: Annotated[str, Field(max_length=300)] = ""
    panel: str
    fingerprint: str = Field(description="of the panel's runs")
    retrained: bool = Field(False, description="judged on own runs of the panel's configuration")
    code: Many[CodeRecord]
    scores: dict[str, ScoreRecord] = Field(
        default_factory=dict, description="those that gmb-hf does not compute"
    )
    lock_hash: str
    date: str
    package_version: str

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, name: str) -> str:
        return checked_name(name, "submission")


def checked_name(name: str, of: str) -> str:
    """A name of something that has a folder of its own; `InputError` where it is none."""
    if not _NAME.fullmatch(name):
        article = "an" if of[0] in "aeiou" else "a"
        raise InputError(
            f"{one_line(name)!r} is no name of {article} {of}: letters, digits, dot, hyphen and "
            "underscore, 64 at most, the first a letter or digit"
        )
    return name


def is_link(text: str) -> bool:
    """Whether a text is an address of the web, alone."""
    return _WEB.fullmatch(text) is not None


@dataclass(frozen=True)
class Submission:
    """A submission that lies in a folder, by its card."""

    folder: Path
    record: SubmissionRecord

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """The submission of a folder; its files are there, their content is not looked at.

        Raises:
            InputError: it is none, a file is missing, or the card names something outside.
        """
        place = Path(folder)
        if not (place / CARD).is_file():
            inside = sorted(card.parent.name for card in place.glob(f"*/{CARD}"))
            what = f"name one in it: {first_of(inside)}" if inside else "gmb submit makes one"
            raise InputError(f"{place}: is no submission: it has no {CARD}; {what}")
        card = Card.read(place)
        if KEY not in card.header:
            raise InputError(f"{card.where}: is no submission: its header has no {KEY}")
        said, where = card.header[KEY], f"{card.where}: {KEY}"
        record = SubmissionRecord.parse(SCHEMA.opened(said, where=where), where=where)
        if place.resolve().name != record.name:
            raise InputError(
                f"{card.where}: {KEY}.name is {record.name!r}, the folder is called "
                f"{one_line(place.resolve().name)!r}; give both one name"
            )
        found = cls(place, record)
        for file in (*found.files, *(f"{CODE}/{one.file}" for one in record.code if one.file)):
            if not lies_inside(place, file):
                raise InputError(
                    f"{card.where}: names {one_line(file)!r}, which is no file in this folder; "
                    "nothing is read there"
                )
            if not (place / file).is_file():
                raise InputError(f"{place / one_line(file)}: is missing; gmb submit writes it")
        return found

    @property
    def files(self) -> tuple[str, ...]:
        """What the check reads, by name."""
        scores = (SCORES,) if self.record.scores else ()
        return (CARD, LOCK, RESULTS, *scores, *((RUNS,) if self.record.retrained else ()))

    @property
    def columns(self) -> list[str]:
        """Those of scores.parquet that are scores."""
        return [one for name, score in self.record.scores.items() for one in score.columns(name)]


def submit(
    name: str,
    *,
    runs: Sequence[str | Path],
    lock: str | Path,
    results: str | Path,
    author: str,
    claim: str,
    paper: str = "",
    code: Sequence[str] = (),
    panel: str | None = None,
    task_aware: bool = False,
    out: str | Path = "submissions",
) -> Submission:
    """Make the folder of a submission.

    Args:
        name: of the submission, and of its folder.
        runs: as the lock saw them: `panel:NAME`, the log that a file of scores was joined to, or
            own runs.
        lock: made on the explore runs among them.
        results: of its evaluation, the file or the folder.
        author, claim, paper: who, what in a line, and where one can read of it.
        code: each a repository at a commit, `https://...@COMMIT`, or a file or folder, which is
            copied.
        panel: whose configuration own runs follow; of runs of a panel it is known.
        task_aware: whether the columns know the operation, or the Fourier basis.
        out: the folder of submissions.

    Raises:
        InputError: the lock is of another panel, the results are by another lock, a text is missing
            or too long, there is no code, or the folder is there already.
    """
    place = Path(out) / checked_name(name, "submission")
    if place.exists():
        raise InputError(f"{place}: is there already; choose another name, or remove it")
    carried, references = _code(code)
    frozen, judged = Lock.read(lock), _results(results)
    if judged.x_provenance is None or judged.x_provenance.lock_hash != frozen.hash:
        raise InputError(f"{results}: was not judged by {lock}; gmb evaluate --lock {lock}")
    home = panel_of_lock(frozen)
    if home is None and panel is None:
        raise InputError(
            f"{lock}: is on no panel; for own runs of a panel's configuration say --panel NAME: "
            "they are listed apart, since runs that are trained again are other runs"
        )
    if None not in (home, panel) and home != panel:
        raise InputError(f"{lock}: is on panel {home!r}, not {panel!r}; leave out --panel")
    found = FrozenPanel.find(str(home or panel))
    log, retrained = read_runs([str(one) for one in runs]), home is None
    own = None if retrained else found.read()
    if own is not None and not set(log.runs) <= set(own.runs):
        given = " ".join(one_line(str(one)) for one in runs)
        raise InputError(f"--runs {given}: not those of {PANEL}{home}, on which {lock} was made")
    files: dict[str, pa.Array] = {}
    about: dict[str, ScoreRecord] = {}
    for indicator, score in third_party(frozen, log, task_aware=task_aware):
        if own is not None and not score.package and indicator.name in own.observables:
            continue  # a column of the panel itself, which the check reads there
        about[indicator.name] = score
        files |= _series(indicator, score, frozen, log)
    record = SubmissionRecord.parse(
        {
            "name": name,
            "author": one_line(author),
            "claim": one_line(claim),
            "paper": one_line(paper),
            "panel": found.name,
            "fingerprint": found.entry.fingerprint,
            "retrained": retrained,
            "code": references,
            "scores": {key: one.plain() for key, one in about.items()},
            "lock_hash": frozen.hash,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "package_version": __version__,
        },
        where="submission",
    )
    place.parent.mkdir(parents=True, exist_ok=True)
    source = Path(results) / RESULTS if Path(results).is_dir() else Path(results)
    with whole_folder(place) as workshop:
        shutil.copyfile(lock, workshop / LOCK)
        judged.write(workshop / RESULTS) if source.suffix == ".json" else shutil.copyfile(
            source, workshop / RESULTS
        )
        if files:
            keys = log.table.select([one for one in log.table.column_names if one in KEYS])
            table = pa.table({**{one: keys[one] for one in keys.column_names}, **files})
            RunLog.from_table(table, metadata={}).write(workshop / SCORES)
        if retrained:
            kept = [*KEYS, *(one for one in read_columns(frozen) if one not in about)]
            names = [one for one in log.table.column_names if one in kept]
            log.with_rows(log.table.select(names)).write(workshop / RUNS)
        for file, path in carried.items():
            (workshop / CODE / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, workshop / CODE / file)
        write_text(workshop / CARD, _card(record, frozen, judged))
    return Submission.read(place)


def panel_of_lock(lock: Lock) -> str | None:
    """The panel whose runs a lock was made on; None where it was made on others."""
    found = {one.repo for one in lock.x_lock.x_sources if one.what == "runs"}
    named = [one.removeprefix(PANEL) for one in found if one.startswith(PANEL)]
    return named[0] if len(found) == len(named) == 1 else None


def third_party(
    lock: Lock, log: RunLog, *, task_aware: bool = False
) -> Iterator[tuple[Indicator, ScoreRecord]]:
    """The scores of a lock, members of ensembles among them, that this package does not compute."""
    seen: set[str] = set()
    for entry in _parts(entries_of(lock.design, log)):
        indicator = entry.indicator
        column = indicator.family in COLUMN_FAMILIES
        if entry.name in seen or not (column or indicator.package not in ("", "gmb_hf")):
            continue
        seen.add(entry.name)
        kind = indicator.kind
        if column and task_aware and kind == KINDS[0]:
            kind = "task-aware"
        windows = {entry.window, *entry.windows(lock.design)} - {None}
        yield (
            indicator,
            ScoreRecord.parse(
                {
                    "kind": kind,
                    "package": "" if column else indicator.package,
                    "window_parameter": indicator.window_parameter,
                    "windows": sorted(one for one in windows if one is not None),
                    "rule": indicator.rule,
                },
                where=f"score {entry.name!r}",
            ),
        )


def _parts(entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        yield from entry.members or (entry,)


def parameters_of(lock: Lock, name: str) -> Mapping[str, Any]:
    """The parameters of a score of a lock, as a candidate or as a member of an ensemble."""
    if name in lock.x_lock.candidates:
        return lock.candidate(name).params
    members = (
        one
        for candidate in lock.design.candidates
        if candidate.x_ensemble is not None
        for one in candidate.x_ensemble.members
    )
    return next(one.params for one in members if one.name == name)


def _series(
    indicator: Indicator, record: ScoreRecord, lock: Lock, log: RunLog
) -> dict[str, pa.Array]:
    """The columns of scores.parquet of one score, a value for each row of the log."""
    if not record.package:
        return {record.column(indicator.name): log.table[indicator.name]}
    found, parameters = {}, parameters_of(lock, indicator.name)
    for window in record.windows or (None,):
        given = dict(parameters)
        if window is not None and record.window_parameter is not None:
            given[record.window_parameter] = window
        panel = compute(log, indicator, **given)
        found[record.column(indicator.name, window)] = pa.array(panel.values[panel.present])
    return found


def read_columns(lock: Lock) -> list[str]:
    """What a lock reads of a log, for its event, its other events, its scores and its strata."""
    design = lock.design
    other = [event.metric for _, event in design.other_events()]
    strata = [name for stratum in design.strata for name in stratum.names]
    return list(dict.fromkeys([*lock.columns, *(one for one in other if one), *strata]))


def _results(path: str | Path) -> Results:
    found = Results.read(path)
    found.verify(str(path))
    if found.primary_run_budget is None:
        raise InputError(f"{path}: has no first alarms by runs; judge by protocol strict")
    return found


def _code(given: Sequence[str]) -> tuple[dict[str, Path], list[dict[str, str]]]:
    """The files to carry along, by their place in code/, and what the card says of all code."""
    files: dict[str, Path] = {}
    references: list[dict[str, str]] = []
    for text in given:
        if _WEB.match(text):
            repository, _, commit = text.rpartition("@")
            if not (is_link(repository) and _COMMIT.fullmatch(commit)):
                raise InputError(
                    f"--code {one_line(text)}: a repository stands with its commit, e.g. "
                    "https://github.com/ORG/NAME@0123abc"
                )
            references.append({"repository": repository, "commit": commit})
            continue
        path = Path(text)
        if not path.exists():
            raise InputError(f"--code {one_line(text)}: there is no such file or folder")
        every = [path] if path.is_file() else sorted(one for one in path.rglob("*.*"))
        for one in every:
            inside = Path(one.name) if path.is_file() else one.relative_to(path)
            hidden = any(part.startswith((".", "__pycache__")) for part in inside.parts)
            if one.is_file() and not hidden:
                files[inside.as_posix()] = one
    size = sum(path.stat().st_size for path in files.values())
    if size > _LARGEST:
        raise InputError(
            f"--code: {size:,} bytes are too much to carry along, {_LARGEST:,} are the most; name "
            "a repository and a commit"
        )
    references += [{"file": name} for name in files]
    if not references:
        raise InputError(
            "--code is missing: name a repository and its commit, https://...@COMMIT, or files"
        )
    return files, references


def _card(record: SubmissionRecord, lock: Lock, results: Results) -> str:
    budget = results.primary_run_budget
    rows = [
        (item.name, item.label, item.x_first_alarm.at(budget))
        for item in results.indicators
        if item.family != "control" and item.x_first_alarm is not None and budget is not None
    ]
    paper = record.paper if is_link(record.paper) else ""
    header = {
        "pretty_name": f"GMB submission {record.name}",
        "tags": ["gmb", "gmb-submission"],
        **({"paper": paper} if paper else {}),
        KEY: {
            "x_schema": record.x_schema,
            **record.model_dump(mode="json", exclude_defaults=True),
        },
    }
    return render_card(
        "submission",
        header,
        record=record,
        paper=paper,
        rows=rows,
        budget=budget,
        percent=percent,
        number=number,
        n_explore=len(lock.x_lock.explore_runs),
        n_judged=results.summary.n_seeds,
        scores=first_of(list(record.scores)),
    )
