"""The leaderboard as a static site: an index, a page for each panel, score and round.

It shows a published trial and submissions as they are computed anew while the site is built;
nothing that a submission says of itself but its words: author, claim, paper, code. What has not
changed since an earlier site is not computed again. A site is made anew as a whole, needs no
network, and is a Space as it lies (`sdk: static`). All that others wrote is escaped.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment
from markupsafe import Markup

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, positive_int
from gmb_hf.base.escape import number, one_line, p_value, percent, steps, yes_no
from gmb_hf.base.files import whole_folder
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.baselines import BaselineRecord
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord
from gmb_hf.benchmark.records import LABELS
from gmb_hf.benchmark.results import Results
from gmb_hf.hub.cards import CARD
from gmb_hf.hub.leaderboard.check import (
    CheckedScore,
    CheckedSubmission,
    CheckRecord,
    check_or_kept,
)
from gmb_hf.hub.leaderboard.entries import TRIAL, BoardEntry, PanelOnBoard, brief
from gmb_hf.hub.leaderboard.kept import Cache
from gmb_hf.hub.leaderboard.published import JudgedPanel
from gmb_hf.hub.leaderboard.published import recompute as recompute_trial
from gmb_hf.hub.leaderboard.round_judging import RoundOnBoard, show_round
from gmb_hf.hub.leaderboard.rounds import names
from gmb_hf.hub.leaderboard.submission import Submission, is_link
from gmb_hf.hub.panels import HELD_OUT, FrozenPanel
from gmb_hf.indicators import catalogue
from gmb_hf.report.answer import OUTCOMES, outcome_shares, primary_target, reason
from gmb_hf.report.page import (
    CLASSES,
    SCRIPTS,
    baseline_name,
    budget_data,
    class_of,
    embedded,
)
from gmb_hf.report.sheet import asset, templates
from gmb_hf.report.tables import DETECTION, FALSE_ALARMS, estimate
from gmb_hf.runs.metadata import PANEL

_MARK = "gmb_leaderboard"  # in the header of the README of a site
_STYLE, _SCRIPT, ROUNDS = "style.css", "board.js", "rounds"


@dataclass(frozen=True)
class Board:
    """The site that was made.

    Attributes:
        index: its first page.
        pages: how many there are.
        left_out: what is not shown, and why, a line each.
        sentence: what it holds.
    """

    index: Path
    pages: int
    left_out: tuple[str, ...]
    sentence: str


def build_board(
    submissions: str | Path | None,
    out: str | Path,
    *,
    trial: str | Path | None = None,
    rounds: str | Path | None = None,
    recompute: bool = True,
    cache: str | Path | None = None,
    jobs: int | None = None,
    counting: Callable[[str, int], AbstractContextManager[Callable[[str], None]]] | None = None,
) -> Board:
    """Make the site.

    Everything is computed anew; what differs is left out, with the reason. What the check.json of a
    submission says proves nothing: whoever makes a folder can write it.

    Args:
        submissions: the folder that holds their folders, if any.
        out: the folder of the site, which is made anew.
        trial: the folder that `gmb trial` wrote, or its `tables/trial.csv` alone in such a folder.
        rounds: the folder of rounds, if any; entries without code are judged anew.
        recompute: without it a submission is shown by its check.json, where that has seen the files
            in its folder, as "not recomputed", and the trial by its results.
        cache: where what was recomputed is kept, that of the user if not given.
        jobs: panels of the trial that are computed at a time; one a core if not given.
        counting: shows progress; nothing is shown without it.

    Raises:
        InputError: there is no such folder, nothing to show, a panel of the trial has other runs
            than it was judged on, or `out` holds something else.
    """
    site = Path(out)
    if submissions is None and trial is None and rounds is None:
        raise InputError(
            "there is nothing to show: name a folder of submissions, --trial FOLDER or --rounds "
            "FOLDER"
        )
    source = None if submissions is None else Path(submissions)
    if source is not None and not source.is_dir():
        raise InputError(f"{source}: there is no such folder of submissions")
    jobs = positive_int("--jobs", (os.cpu_count() or 1) if jobs is None else jobs)
    _refuse_other(site)
    count, kept = counting or (lambda *_: nullcontext(lambda _: None)), Cache.at(cache)
    entries: list[BoardEntry] = []
    left_out: list[str] = []
    if trial is not None and recompute:
        judged, left_out = recompute_trial(Path(trial), kept, jobs=jobs, counting=count)
        for one in judged:
            left_out += one.differ
            entries += _of_judged(one)
    elif trial is not None:
        entries = list(_of_trial(Path(trial)))
    shown: list[tuple[Submission, CheckRecord]] = []
    inside = () if source is None else source.iterdir()
    folders = [path for path in inside if path.is_dir() and path.name[0] != "."]
    what = "recomputing submissions" if recompute else "reading submissions"
    with count(what, len(folders)) as done:
        for folder in sorted(folders):
            try:
                found = check_or_kept(folder, kept) if recompute else _as_checked(folder)
            except InputError as error:
                left_out.append(one_line(str(error)))
            else:
                left_out += [one_line(fault) for fault in found.faults[:1]]
                if found.record is not None:
                    shown.append((found.submission, found.record))
                    entries += _of_submission(found, found.record, recomputed=recompute)
            done(folder.name)
    panels = list(_panels(entries, left_out))
    entries = [entry for panel in panels for entry in panel.entries]
    held = _rounds(rounds, kept, left_out, recompute=recompute, counting=count)
    if not entries and not held:
        why = f": {left_out[0]}" if left_out else ""
        raise InputError(f"{source or trial or rounds}: there is nothing to show{why}")
    shown = [pair for pair in shown if any(pair[0].record.panel == one.name for one in panels)]
    made = _Site(panels, shown, tuple(left_out), Path(trial) if trial else None, held)
    n_pages = _write(site, made.pages())
    of_rounds = f", {_several(len(held), 'round')}" if held else ""
    sentence = (
        f"{_several(n_pages, 'page')}: {_several(len({one.page for one in entries}), 'score')} on "
        f"{_several(len(panels), 'panel')}, {_several(len(entries), 'result')}, "
        f"{_several(len(shown), 'submission')}{of_rounds}."
    )
    return Board(site / "index.html", n_pages, tuple(left_out), sentence)


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _refuse_other(site: Path) -> None:
    """Refuse a folder that is no site of ours: it would be removed."""
    if not site.exists() or (site.is_dir() and not any(site.iterdir())):
        return
    readme = site / CARD
    if not (readme.is_file() and f"\n{_MARK}:" in readme.read_text("utf-8", errors="replace")):
        raise InputError(f"{site}: holds something else; choose another --out")


def _write(site: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write all files beside the old site, then in its place; returns how many pages there are."""
    count = 0
    site.parent.mkdir(parents=True, exist_ok=True)
    with whole_folder(site) as workshop:
        for name, text in pages:
            path = workshop / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            count += name.endswith(".html")
    return count


# What there is to show.


def _rounds(
    folder: str | Path | None,
    cache: Cache,
    left_out: list[str],
    *,
    recompute: bool,
    counting: Callable[[str, int], AbstractContextManager[Callable[[str], None]]],
) -> list[RoundOnBoard]:
    """The rounds of a folder, the latest first; one that was edited is left out."""
    if folder is None:
        return []
    place, found = Path(folder), []
    if not place.is_dir():
        raise InputError(f"{place}: there is no such folder of rounds")
    every = names(place)
    with counting("recomputing rounds" if recompute else "reading rounds", len(every)) as done:
        for name in every:
            try:
                found.append(show_round(place / name, cache, left_out, recompute=recompute))
            except InputError as error:
                left_out.append(one_line(str(error)))
            done(name)
    return sorted(found, key=lambda one: one.found.record.opened.date, reverse=True)


def _of_judged(judged: JudgedPanel) -> Iterator[BoardEntry]:
    for score in judged.scores:
        yield BoardEntry(
            score,
            panel=judged.panel,
            budget=judged.budget,
            locked=judged.date,
            lock=judged.lock,
            n_scores=judged.n_scores,
            check=judged,
            recomputed=True,
        )


def _of_trial(folder: Path) -> Iterator[BoardEntry]:
    found = sorted(folder.glob("*/results.yaml"))
    if not found:
        raise InputError(f"{folder}: holds no results of a trial; gmb trial --out {folder}")
    for path in found:
        results, panel = Results.read(path), FrozenPanel.find(path.parent.name)
        results.verify(str(path))
        runs = [one for one in results.x_sources if one.what == "runs"]
        if [one.repo for one in runs] != [f"{PANEL}{panel.name}"] or (
            runs[0].fingerprint != panel.entry.fingerprint
        ):
            raise InputError(f"{path}: is not of the runs that panel {panel.name!r} has here")
        budget, source = results.primary_run_budget, results.x_provenance
        if budget is None or not results.locked:
            raise InputError(f"{path}: was not judged by a lock of protocol strict")
        candidates = results.design.candidates if results.design else ()
        target = primary_target(results)
        for item in results.indicators:
            if (first := item.x_first_alarm) is not None:
                yield BoardEntry(
                    CheckedScore.of(item, first, kind=class_of(item), target=target),
                    panel=panel.name,
                    budget=budget,
                    locked=results.meta.date,
                    lock=(source.lock_hash or "") if source else "",
                    n_scores=len(candidates),
                )


def _as_checked(folder: Path) -> CheckedSubmission:
    """What the check.json of a folder says of the very files that lie there."""
    found = CheckRecord.of(folder)
    if found is None:
        Submission.read(folder)
        raise InputError(f"{folder}: was not checked as it is now: gmb leaderboard check")
    submission, record = found
    return CheckedSubmission(submission, (), record.not_checked, record)


def _of_submission(
    found: CheckedSubmission, record: CheckRecord, *, recomputed: bool
) -> Iterator[BoardEntry]:
    about = found.submission.record
    for score in record.scores:
        yield BoardEntry(
            score,
            panel=about.panel,
            budget=record.budget,
            locked=record.locked,
            lock=about.lock_hash,
            n_scores=record.n_scores,
            submission=found.submission,
            check=record,
            recomputed=recomputed,
            as_submitted=score.name in found.as_submitted,
        )


def _panels(entries: Sequence[BoardEntry], left_out: list[str]) -> Iterator[PanelOnBoard]:
    """Each panel with its entries; one that is not here, or has other runs, leaves them out."""
    by_panel: dict[str, list[BoardEntry]] = {}
    for entry in entries:
        by_panel.setdefault(entry.panel, []).append(entry)
    for name, own in sorted(by_panel.items()):
        try:
            panel = FrozenPanel.find(name)
            panel.check()
        except InputError as error:
            left_out += sorted({f"{one.origin}: {error}" for one in own})
            continue
        kept = []
        for one in own:
            said = one.submission.record.fingerprint if one.submission else None
            if said is None or FrozenPanel.find(name, said).holds(said, panel):
                kept.append(one)
            else:
                left_out.append(f"{one.origin}: is of other runs than panel {name!r} has here")
        if kept:
            yield PanelOnBoard(panel, tuple(sorted(kept, key=lambda one: one.rank)))


# The pages.


@dataclass(frozen=True)
class _Site:
    panels: Sequence[PanelOnBoard]
    submissions: Sequence[tuple[Submission, CheckRecord]]
    left_out: tuple[str, ...]
    trial: Path | None
    rounds: Sequence[RoundOnBoard] = ()

    def pages(self) -> Iterator[tuple[str, str]]:
        """Every file: its place and its text."""
        own = Path(__file__).parent
        yield _STYLE, asset("page.css") + (own / "board.css").read_text(encoding="utf-8")
        script = (own / "board.js").read_text(encoding="utf-8")
        yield _SCRIPT, "".join(map(asset, SCRIPTS)) + script
        letters = {
            (panel.name, *key): group.letters
            for panel in self.panels
            for key, group in panel.groups.items()
        }
        yield "leaderboard.csv", _table(self.entries, letters).csv()
        yield CARD, self._readme()
        yield "index.html", self._render("index", up="", **self._index())
        for panel in self.panels:
            yield f"panels/{panel.name}.html", self._render("panel", up="../", **_of_panel(panel))
            yield f"panels/{panel.name}.js", panel.script
        for one in self.rounds:
            page = self._render("round", up="../", board=one)
            yield f"{ROUNDS}/{one.found.name}.html", page
        places = {panel.name: panel for panel in self.panels}
        for name, entries in self.by_page.items():
            found = _of_score(entries, places)
            yield f"scores/{name}", self._render("score", up="../", **found)

    @cached_property
    def entries(self) -> list[BoardEntry]:
        """All of them, panel by panel."""
        return [entry for panel in self.panels for entry in panel.entries]

    @cached_property
    def by_page(self) -> dict[str, list[BoardEntry]]:
        """The entries of each score's page."""
        found: dict[str, list[BoardEntry]] = {}
        for entry in self.entries:
            found.setdefault(entry.page, []).append(entry)
        return found

    def _render(self, name: str, **values: Any) -> str:
        shared = {"panels": self.panels, "rounds": self.rounds}
        return _environment().get_template(f"{name}.html.j2").render(**shared, **values)

    def _readme(self) -> str:
        header = {
            "title": "GMB leaderboard",
            "emoji": "📈",
            "colorFrom": "blue",
            "colorTo": "gray",
            "sdk": "static",
            "app_file": "index.html",
            "pinned": False,
            "tags": ["gmb", "grokking", "leaderboard"],
            _MARK: {"package_version": __version__, "panels": [one.name for one in self.panels]},
        }
        text = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
        return (
            f"---\n{text}---\n\n# GMB leaderboard\n\n"
            "Which scores detect grokking before it comes, on frozen runs. Made by `gmb "
            "leaderboard build`; open `index.html`.\n"
        )

    def _index(self) -> dict[str, Any]:
        rows: dict[str, list[_IndexRow]] = {}
        every = [(page, entries) for page, entries in self.by_page.items()]
        for page, entries in every:
            own = [entry for entry in entries if not entry.own]
            if not own:
                continue
            by_panel: dict[str, BoardEntry] = {}
            for entry in own:  # of several on a panel the one that was judged first is shown
                held = by_panel.setdefault(entry.panel, entry)
                if (entry.submission is not None, entry.locked) < (
                    held.submission is not None,
                    held.locked,
                ):
                    by_panel[entry.panel] = entry
            rows.setdefault(own[0].kind, []).append(
                _IndexRow(page, own[0], [by_panel.get(panel.name) for panel in self.panels])
            )
        for some in rows.values():
            some.sort(key=lambda row: row.rank)
        return {
            "classes": [(k, h, rows[k]) for k, h in CLASSES.items() if k in rows],
            "submissions": self.submissions,
            "recomputed": any(entry.recomputed for entry in self.entries),
            "n_results": len(self.entries),
            "left_out": self.left_out,
            "transfers": _transfers(self.trial),
            "n_scores": len(self.by_page),
            "n_held_out": sum(panel.parts[HELD_OUT] for panel in self.panels),
            "budget": self.entries[0].budget if self.entries else None,
            "has_trial": self.trial is not None,
            "page_of": {
                (entry.submission.record.name, entry.name): entry.page
                for entry in self.entries
                if entry.submission is not None
            },
        }


class _IndexRow(NamedTuple):
    """One score on all panels."""

    page: str
    entry: BoardEntry
    cells: list[BoardEntry | None]

    @property
    def judged(self) -> list[BoardEntry]:
        """Where it was."""
        return [entry for entry in self.cells if entry is not None]

    @property
    def n_supported(self) -> int:
        """On how many panels it may raise an alarm."""
        return sum(entry.may_alarm for entry in self.judged)

    @property
    def mean(self) -> float:
        """The detection rate, mean over the panels it was judged on."""
        return sum(entry.detected for entry in self.judged) / len(self.judged)

    @property
    def rank(self) -> tuple[float, bool, float, str]:
        """By the panels it may raise an alarm on, then by detection rate."""
        unknown = not any(entry.computed for entry in self.judged)
        return (-self.n_supported, unknown, -self.mean, self.page)


def _of_panel(board: PanelOnBoard) -> dict[str, Any]:
    labels = [one for one in LABELS if any(one == entry.score.label for entry in board.ranked)]
    # That of the trial is in the ledger, where its look was counted.
    locks = {entry.lock for entry in board.entries if not entry.own and entry.submission}
    ledger = {one.lock_hash for one in board.panel.ledger().locks}
    best = next((one for one in board.computed if one.kind == board.subject), None)
    return {
        "board": board,
        "best": best,
        "like_best": board.like_best(best) if best else [],
        "classes": board.classes(board.ranked),
        "labels": labels,
        "n_locks": len(locks | ledger),
        "origins": [
            name
            for name, is_trial in (("trial", True), ("submission", False))
            if any((entry.submission is None) == is_trial for entry in board.ranked)
        ],
    }


def _of_score(entries: Sequence[BoardEntry], panels: Mapping[str, PanelOnBoard]) -> dict[str, Any]:
    first = entries[0]
    known = None
    if first.built_in and first.name in catalogue.names():
        known = catalogue.get(first.name)
    return {
        "entry": first,
        "entries": entries,
        "groups": [panels[one.panel].groups.get(one.key) for one in entries],
        "anchors": [_anchor(one) for one in entries],
        "scripts": list(dict.fromkeys(one.panel for one in entries)),
        "data": Markup(embedded([_charts(one, panels[one.panel]) for one in entries])),
        "known": known,
        "heading": CLASSES[first.kind],
        "papers": list(
            dict.fromkeys(
                one.submission.record.paper
                for one in entries
                if one.submission and one.submission.record.paper
            )
        ),
    }


def _anchor(entry: BoardEntry) -> str:
    """Where a page of a score holds an entry: by its panel, and who judged it if not the trial."""
    return entry.panel if entry.submission is None else f"{entry.panel}-{entry.origin}"


def _transfers(trial: Path | None) -> list[dict[str, str]]:
    """The rows of the trial's matrix of locks on other panels, as it wrote them."""
    path = trial / "tables" / "transfer.csv" if trial is not None else None
    if path is None or not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {str(key): value or "" for key, value in row.items() if isinstance(value, str)}
            for row in csv.DictReader(file)
        ]


def _table(entries: Sequence[BoardEntry], letters: Mapping[tuple[str, str, str], str]) -> Table:
    """Every number of the tables, in full, with the groups of each entry."""
    columns = (
        Column("score", take="name"),
        Column("sign", "{:+d}".format, take="score.sign"),
        Column("class", take="kind"),
        Column("panel", take="panel"),
        Column("from", take="origin"),
        Column("numbers", take="status"),
        Column("own_runs", str, take=lambda one: str(one.own).lower()),
        Column("label", take="score.label"),
        Column("alarm_eligible", yes_no, take="score.alarm_eligible"),
        Column("budget", number, take="budget"),
        *DETECTION,
        *FALSE_ALARMS,
        Column("group", take=lambda one: letters.get((one.panel, *one.key), "")),
        Column("chance", number, take="at.chance"),
        Column("lead_median", steps, take="at.lead_median"),
        Column("p_adjusted", number, take="first.p_adjusted"),
        Column("n_events", "{:,}".format, take="at.n_events"),
        Column("n_runs", "{:,}".format, take="at.n_runs"),
        Column("coverage", number, take="score.coverage"),
        Column("chance_by_windows", number, take="score.chance_by_windows"),
        Column("AUC", number, take="score.auc"),
        Column("lock", take="lock"),
    )
    return Table.of(entries, columns, "leaderboard", "The leaderboard, at the primary points")


@cache
def _environment() -> Environment:
    """The templates, and what they call."""
    environment = templates("gmb_hf.hub.leaderboard", page=True)
    environment.filters.update(
        percent=percent, steps=steps, p=p_value, interval=_interval, reason=reason
    )
    environment.globals.update(
        anchor=_anchor,
        baselines=_baselines,
        estimate=estimate,
        is_link=is_link,
        number=number,
        outcome_shares=outcome_shares,
        percent=percent,
        outcomes={name: OUTCOMES[name] for name in _DRAWN},
        version=__version__,
        trial_name=TRIAL,
        tabs=_TABS,
        statuses=_STATUSES,
    )
    return environment


_STATUSES = {
    "from submitted numbers": "a column of numbers, from which everything was recomputed; whether "
    "it saw the future is not known, so it is shown and never called best",
    "not recomputed": "what the check.json of the submission says, which its author can write; it "
    "is shown and never called best",
}
_TABS = {
    "label-free": "Label-free",
    "undeclared": "Undeclared",
    "task-aware": "Task-aware",
    "rule": "Published rules",
    "label-using": "Oracles",
    "baseline": "Baselines",
}
_DRAWN = ("timely", "early", "miss", "rejection", "false")  # from left to right


def _interval(interval: IntervalRecord | None) -> str:
    return f"[{percent(interval.low)}, {percent(interval.high)}]" if interval else ""


def _baselines(at: FirstAlarmPointRecord) -> list[tuple[str, BaselineRecord]]:
    """The chance baselines and controls of a point, by what they are called."""
    return [(baseline_name(name), one) for name, one in at.beside.items()]


def _charts(entry: BoardEntry, board: PanelOnBoard) -> Any:
    """What the charts of a report need of an entry beside its panel's script."""
    alarms, at = board.alarms.get(entry.key), budget_data(entry.at)
    return brief(
        {
            "panel": entry.panel,
            "own": entry.own,
            "alarms": [step for step, _ in alarms] if alarms else None,
            "outcomes": "".join(_OUTCOMES[outcome] for _, outcome in alarms or ()),
            "budgets": [budget_data(one) for one in entry.first.at_budget],
            "detected": at["detected"],
            "detectedInterval": at["detectedInterval"],
            "baselines": [
                {"name": name, "detected": one.detection_rate, "p": one.p_value}
                for name, one in _baselines(entry.at)
            ],
        }
    )


_OUTCOMES = {"timely": "t", "early": "e", "miss": "m", "rejection": "q", "false": "f"}
