"""The judgement of a round: every entry once, on the held-out runs, and anew for each site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from gmb_hf.base.documents import Count, Many, Section
from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import claimed
from gmb_hf.base.fingerprints import source_hash
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord
from gmb_hf.benchmark.older import SCHEMA as RESULTS_SCHEMA
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.design.lock import Lock
from gmb_hf.hub.leaderboard.check import (
    CheckedScore,
    compared,
    fields_passed_over,
)
from gmb_hf.hub.leaderboard.kept import Cache, key_of
from gmb_hf.hub.leaderboard.round_entries import indicators_of
from gmb_hf.hub.leaderboard.rounds import (
    FILE,
    FOLDER,
    JUDGED,
    TAKEN,
    EnteredRecord,
    JudgedRecord,
    Round,
    today,
)
from gmb_hf.hub.leaderboard.submission import LOCK, RESULTS
from gmb_hf.report.answer import primary_target
from gmb_hf.report.page import CLASSES, class_of
from gmb_hf.report.report import publish
from gmb_hf.runs.runlog import RunLog

Counting = Callable[[str, int], AbstractContextManager[Callable[[str], None]]]


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
            with claimed(found.folder / FILE, TAKEN):
                found = Round.read(found.folder)
                if entry.name not in {one.name for one in found.record.judged}:
                    found = found.added("judged", link)
            told(entry.name)
    return found


def _judged(found: Round, entry: EnteredRecord, log: RunLog) -> dict[str, Any]:
    """What the file of the round says of an entry that is judged now."""
    link = {"name": entry.name, "date": today()}
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
