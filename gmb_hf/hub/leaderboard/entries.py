"""What the leaderboard shows: the entries of each panel, ranked and grouped within classes."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from gmb_hf.base.escape import one_line
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord, FirstAlarmRecord
from gmb_hf.benchmark.prepare import decided_runs
from gmb_hf.benchmark.records import LABELS, SUPPORTED
from gmb_hf.hub.leaderboard.check import CheckedScore, CheckRecord
from gmb_hf.hub.leaderboard.groups import Groups
from gmb_hf.hub.leaderboard.published import JudgedPanel
from gmb_hf.hub.leaderboard.submission import Submission
from gmb_hf.hub.panels import EXPLORE, HELD_OUT, FrozenPanel
from gmb_hf.report.answer import reason
from gmb_hf.report.page import CLASSES, Run, alarms_of, embedded, timing

TRIAL = "trial"
"""Where the entries of a trial are said to be from."""
_SAFE = re.compile(r"[a-z0-9][a-z0-9_-]{0,50}")


class BoardEntry(NamedTuple):
    """One score on one panel, as a trial or the check of a submission found it."""

    score: CheckedScore
    panel: str
    budget: float
    locked: str
    lock: str
    n_scores: int
    submission: Submission | None = None
    check: CheckRecord | JudgedPanel | None = None
    recomputed: bool = False
    as_submitted: bool = False

    @property
    def computed(self) -> bool:
        """Whether its numbers were computed from the logs by whoever built this site.

        A trial that was not recomputed is theirs. Of a submission the site computes everything
        anew, but for a column of numbers, which may have seen the future.
        """
        return self.submission is None or (self.recomputed and not self.as_submitted)

    @property
    def may_alarm(self) -> bool:
        """Whether it may raise an alarm, by numbers that were computed."""
        return self.score.alarm_eligible and self.computed

    @property
    def status(self) -> str:
        """What was recomputed while the site was built, in words."""
        if not self.recomputed:
            return "by the trial" if self.submission is None else "not recomputed"
        return "from submitted numbers" if self.as_submitted else "recomputed"

    @property
    def name(self) -> str:
        """Of the score."""
        return self.score.name

    @property
    def kind(self) -> str:
        """The class of the score."""
        return self.score.kind

    @property
    def first(self) -> FirstAlarmRecord:
        """Its first alarms."""
        return self.score.first_alarm

    @property
    def at(self) -> FirstAlarmPointRecord:
        """Its first alarms at the budget that decides."""
        return self.first.at(self.budget)

    @property
    def own(self) -> bool:
        """Whether it was judged on own runs, not on the panel's."""
        return self.submission is not None and self.submission.record.retrained

    @property
    def built_in(self) -> bool:
        """Whether gmb-hf computes it."""
        return self.submission is None or self.name not in self.submission.record.scores

    @property
    def shown_name(self) -> str:
        """Its name, and whether it is reversed."""
        return f"{self.name} (reversed)" if self.score.sign == -1 else self.name

    @property
    def page(self) -> str:
        """The file of its score's page, which letters of no name get out of."""
        author = "" if self.built_in or not self.submission else self.submission.record.author
        if not author and _SAFE.fullmatch(self.name):
            return f"{self.name}.html"
        digest = hashlib.sha256(f"{self.name}\0{author.casefold()}".encode()).hexdigest()[:10]
        stem = re.sub(r"[^a-z0-9]+", "-", self.name.casefold()).strip("-")[:40]
        return f"{stem or 'score'}-{digest}.html"

    @property
    def origin(self) -> str:
        """Who judged it."""
        return TRIAL if self.submission is None else self.submission.record.name

    @property
    def label_rank(self) -> int:
        """Labels are sorted in their order, not by their letters."""
        return LABELS.index(self.score.label)

    @property
    def search(self) -> str:
        """What the search looks at."""
        said = [self.shown_name, self.panel, self.score.label, *map(reason, self.score.reasons)]
        if self.submission is not None:
            record = self.submission.record
            said += [record.name, record.author, record.claim, record.paper]
        return one_line(" ".join(said)).lower()

    @property
    def key(self) -> tuple[str, str]:
        """What tells the entries of a panel apart."""
        return self.page, self.origin

    @property
    def over_budget(self) -> bool:
        """Whether more runs have a false alarm than the budget allows, by the interval."""
        return self.at.state == "missed"

    @property
    def rank(self) -> tuple[bool, bool, float, float, str, str]:
        """What is best comes first: what was computed, and keeps the budget, by detection rate."""
        false = self.at.false_alarm_rate or 0.0
        return (not self.computed, self.over_budget, -self.detected, false, self.name, self.page)

    @property
    def detected(self) -> float:
        """The detection rate, 0 without events."""
        return self.at.detection_rate or 0.0


class Neighbour(NamedTuple):
    """Another score of the same class and panel, and how likely both detect equally many."""

    what: str
    entry: BoardEntry
    p_adjusted: float


class GroupOfScore(NamedTuple):
    """Which scores of its class an entry is not told apart from.

    Attributes:
        letters: of its groups, as `Groups.letters`.
        like_best: whether it is one of those.
        neighbours: the best, the one above and the one below, as far as there are any.
    """

    letters: str
    like_best: bool
    neighbours: tuple[Neighbour, ...]


@dataclass(frozen=True)
class PanelOnBoard:
    """A panel, with every entry on it, best first within its class."""

    panel: FrozenPanel
    entries: tuple[BoardEntry, ...]

    @property
    def name(self) -> str:
        """The panel's."""
        return self.panel.name

    @cached_property
    def ranked(self) -> list[BoardEntry]:
        """Those on its own runs."""
        return [entry for entry in self.entries if not entry.own]

    @cached_property
    def retrained(self) -> list[BoardEntry]:
        """Those on own runs of its configuration, which are other runs."""
        return [entry for entry in self.entries if entry.own]

    @cached_property
    def design(self) -> Any:
        """Of its evaluation."""
        return self.panel.design()

    @cached_property
    def events(self) -> tuple[Run, ...]:
        """The held-out runs that are judged, with t*."""
        log = self.panel.read(HELD_OUT)
        kept, events = decided_runs(self.design, log)
        return tuple(
            Run(run, None if math.isnan(step) else step, "no event")
            for run, step in zip(kept.runs, events.step.tolist(), strict=True)
        )

    @cached_property
    def script(self) -> str:
        """The judged runs and the design for the charts of every score, which load it once."""
        runs = {
            "names": [run.name for run in self.events],
            "events": [run.event for run in self.events],
            "design": timing(self.design),
            "by": "runs",
        }
        return f"(globalThis.gmbPanels ??= {{}})[{embedded(self.name)}]={embedded(brief(runs))};\n"

    @cached_property
    def alarms(self) -> dict[tuple[str, str], list[tuple[float | None, str]]]:
        """The first alarm of each run and what it was, of each entry that holds it."""
        found = {}
        for one in self.ranked:
            alarms = alarms_of(one.first, self.events, self.design, one.at)
            if alarms is not None:
                found[one.key] = alarms
        return found

    @cached_property
    def groups(self) -> dict[tuple[str, str], GroupOfScore]:
        """Which scores of a class the events tell apart, of those that keep the budget."""
        found = {}
        for kind in CLASSES:
            own = [
                one
                for one in self.computed
                if one.kind == kind and one.key in self.alarms and not one.over_budget
            ]
            table = [self._detected(one) for one in own]
            if len(own) < 2 or not any(table[0]):
                continue
            compared = Groups.of(table)
            for place, one in enumerate(own):
                others = {0: "the best", place - 1: "the one above", place + 1: "the one below"}
                others[0] = "the best"
                found[one.key] = GroupOfScore(
                    compared.letters[place],
                    not compared.apart[0, place],
                    tuple(
                        Neighbour(what, own[other], float(compared.p_adjusted[place, other]))
                        for other, what in others.items()
                        if 0 <= other < len(own) and other != place
                    ),
                )
        return found

    def _detected(self, entry: BoardEntry) -> list[bool]:
        """Whether it detects each event."""
        return [
            outcome in ("timely", "early")
            for (_, outcome), run in zip(self.alarms[entry.key], self.events, strict=True)
            if run.event is not None
        ]

    def like_best(self, best: BoardEntry) -> list[BoardEntry]:
        """The others of the class of its best score that are not told apart from it."""
        return [
            one
            for one in self.computed
            if one.kind == best.kind
            and one.key != best.key
            and one.key in self.groups
            and self.groups[one.key].like_best
        ]

    @cached_property
    def parts(self) -> dict[str, int]:
        """How many runs each part has."""
        return {
            part: len(self.panel.read(part, columns=[self.design.metric]).runs)
            for part in (EXPLORE, HELD_OUT)
        }

    def classes(self, entries: Sequence[BoardEntry]) -> list[tuple[str, str, list[BoardEntry]]]:
        """The classes that there are: name, heading, entries."""
        return [
            (kind, heading, own)
            for kind, heading in CLASSES.items()
            if (own := [entry for entry in entries if entry.kind == kind])
        ]

    def best(self, kind: str) -> BoardEntry | None:
        """The best of a class on its own runs."""
        return next((one for one in self.computed if one.kind == kind and one.detected), None)

    @cached_property
    def computed(self) -> list[BoardEntry]:
        """Those on its own runs whose numbers were computed: only they are called best."""
        return [entry for entry in self.ranked if entry.computed]

    @cached_property
    def subject(self) -> str:
        """The class that the answer is about: the first that there is."""
        kinds = {entry.kind for entry in self.computed or self.ranked}
        return next((kind for kind in CLASSES if kind in kinds), "label-free")

    @property
    def others(self) -> str:
        """How many of the other classes pass every gate, in a sentence; empty where none does."""
        counts = Counter(one.kind for one in self.computed if one.score.label == SUPPORTED)
        found = [f"{counts[k]} {k}" for k in CLASSES if counts[k] and k != self.subject]
        return f"Of the other classes, these pass every gate: {', '.join(found)}." if found else ""


def brief(value: Any) -> Any:
    """Plain data with the digits that a chart shows; every digit is in leaderboard.csv."""
    if isinstance(value, dict):
        return {key: brief(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [brief(one) for one in value]
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    return int(value) if value.is_integer() else float(f"{value:.6g}")
