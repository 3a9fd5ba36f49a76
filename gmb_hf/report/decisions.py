"""Decisions in words and as a table: what stopping runs saves, and what it loses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.base.escape import percent, shorten, steps
from gmb_hf.base.stats import IntervalRecord
from gmb_hf.base.tables import Column, Table, follow
from gmb_hf.benchmark.decisions import (
    CLOCK,
    LEARNED,
    ONSET,
    RULES,
    DecisionRecord,
    Decisions,
    StoppedRecord,
)
from gmb_hf.core.decisions import Rule
from gmb_hf.report.answer import GROUPS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADINGS: dict[str, str] = {**GROUPS, "rival": "Rivals: what a score must beat"}
"""The groups of a table, in its order."""

RULE_TITLES: dict[Rule, str] = {
    "without_alarm": "Stop runs without an alarm by a step",
    "after_alarm": "Stop runs some steps after their alarm",
}
_SHOWN_NAME = 40


def rival_name(name: str, metric: str) -> str:
    """What a rival is called in a sentence."""
    names = {CLOCK: "the clock alone", ONSET: f"the onset of {metric}"}
    return names.get(name, f"the learned {metric}" if name == LEARNED else name)


def policy(one: DecisionRecord, metric: str) -> str:
    """What is done, in the words of a sentence that goes on with a verb."""
    at = steps(one.at)
    if one.name == CLOCK:
        return f"stopping every run at step {at}"
    sign = f"an onset of {metric}" if one.name == ONSET else f"an alarm of {one.name}"
    sign = shorten(sign, _SHOWN_NAME)
    if one.rule == "without_alarm":
        return f"stopping runs without {sign} by step {at}"
    return f"stopping runs {at} steps after {sign}"


def worth(at: StoppedRecord) -> str:
    """What it saves and loses, in a clause."""
    events = "event" if at.n_events == 1 else "events"
    return (
        f"saves {_with_ends(at.saved, at.saved_interval)} of steps and loses {at.n_lost} of "
        f"{at.n_events} {events}, {_with_ends(at.lost, at.lost_interval)}"
    )


def sentence(found: Decisions, one: DecisionRecord) -> str:
    """The answer of one score: what it saves and loses, and the rivals at no greater loss."""
    if one.judged is None:
        share = f"{100 * found.tolerated:.3g}%"
        name = shorten(one.name, _SHOWN_NAME)
        return f"{name}: no choice keeps the share of lost events at {share}."
    doing = policy(one, found.metric)
    refuted = "more than the " if one.state == "missed" else ""
    text = f"{doing[0].upper()}{doing[1:]} {worth(one.judged)} ({refuted}"
    text += f"{100 * found.tolerated:.3g}% tolerated)"
    beside = [
        f"{rival_name(name, found.metric)} saves {percent(saved)}"
        for name, saved in one.rivals.items()
    ]
    return f"{text}; losing no more, {', '.join(beside)}." if beside else f"{text}."


def answers(found: Decisions) -> list[str]:
    """The answer in a sentence for each rule; what saves most on the explore runs is named."""
    best = (found.best(rule) for rule in RULES)
    return [sentence(found, one) for one in best if one is not None]


def _with_ends(share: float, within: IntervalRecord | None) -> str:
    ends = "" if within is None else f" [{100 * within.low:.0f}, {100 * within.high:.0f}]"
    return f"{percent(share)}{ends}"


def _part(name: str, part: str) -> list[Column]:
    shares = [f"{part}.{name}", f"{part}.{name}_interval.low", f"{part}.{name}_interval.high"]
    where = "explore" if part == "explored" else "heldout"
    names = [f"{name}_{where}", f"{name}_{where}_low", f"{name}_{where}_high"]
    return [Column(one, percent, take=take) for one, take in zip(names, shares, strict=True)]


def decisions_table(found: Decisions) -> Table:
    """A row for each score under each rule, what saves most on explore runs first; then rivals."""
    rivals = list(dict.fromkeys(name for one in found.decisions for name in one.rivals))
    columns = [
        Column("rule", take="rule"),
        Column("score", take="name"),
        Column("group", take="group"),
        Column("budget", "{:g}".format, take="budget"),
        Column("at", steps, take="at"),
        *_part("saved", "judged"),
        *_part("lost", "judged"),
        Column("n_lost", "{:,}".format, take="judged.n_lost"),
        Column("n_events", "{:,}".format, take="judged.n_events"),
        Column("n_stopped", "{:,}".format, take="judged.n_stopped"),
        Column("n_runs", "{:,}".format, take="judged.n_runs"),
        *(Column(f"{name}_saves", percent, take=_saves(name)) for name in rivals),
        *_part("saved", "explored"),
        *_part("lost", "explored"),
        Column("state", take="state"),
    ]
    own = [one for rule in RULES for one in found.of(rule)]
    others = [one for one in found.decisions if one.group == "rival"]
    note = (
        f"at: the step, or the delay in steps, chosen on explore runs; {found.tolerated:g} of "
        "events may be lost. *_saves: what a rival saves where it loses no more events."
    )
    table = Table.of([*own, *others], columns, "decisions", "What stopping runs saves and loses")
    return Table(table.columns, table.rows, table.name, table.caption, [note])


def shown_columns(found: Decisions) -> list[Column]:
    """The columns of a terminal or a page."""
    rivals = [one.name for one in found.rivals("without_alarm")]
    headings = {CLOCK: "clock", ONSET: "onset", LEARNED: "learned"}

    def both(name: str) -> Column:
        def text(one: DecisionRecord) -> str | None:
            share = follow(one, f"judged.{name}")
            return (
                None if share is None else _with_ends(share, follow(one, f"judged.{name}_interval"))
            )

        return Column(f"{name} [95%]", str, take=text)

    return [
        Column("score", shrinks_to=12, take=lambda one: one.name),
        Column("at", steps, take="at"),
        Column("budget", "{:g}".format, take="budget", from_width=90),
        both("saved"),
        both("lost"),
        Column("events", take=_of_events, align="r"),
        *(Column(headings[name], percent, take=_saves(name)) for name in rivals),
        Column("explore saved", percent, take="explored.saved", from_width=110),
    ]


def _saves(rival: str) -> Callable[[DecisionRecord], float | None]:
    return lambda one: one.rivals.get(rival)


def _of_events(one: DecisionRecord) -> str | None:
    at = one.judged
    return None if at is None else f"{at.n_lost} of {at.n_events}"


def write_decisions(
    found: Decisions, folder: str | Path, figure: Figure | None = None
) -> list[Path]:
    """Write decisions.yaml, tables/ and, where one is given, the figure; returns the files."""
    place = Path(folder)
    paths = [found.write(place / "decisions.yaml")]
    if figure is not None:
        from gmb_hf.report.style import save_figure

        paths += save_figure(figure, place / "figures" / "decisions")
    return [*paths, *decisions_table(found).write(place / "tables")]


def ordered(records: Sequence[DecisionRecord]) -> dict[str, list[DecisionRecord]]:
    """Records by group, in the order of `HEADINGS`."""
    return {name: [one for one in records if one.group == name] for name in HEADINGS}
