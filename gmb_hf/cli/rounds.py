"""`gmb leaderboard round`: scores are entered by hash, then judged on runs trained after the close.

Arguments:
    name: Of the round.

More options:
    rounds: Folder of rounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.base.escape import percent, steps
from gmb_hf.base.tables import Column, Line, Row, Table, section
from gmb_hf.cli import screen
from gmb_hf.cli.options import App

if TYPE_CHECKING:
    from gmb_hf.hub.leaderboard.rounds import Round

app = App()
ROUNDS = Path("rounds")
_MOST_SCORES = 10  # of a class
_JUDGED = (
    Column("score", shrinks_to=12, take="name"),
    Column("entry", shrinks_to=10, take="entry.name"),
    Column("label", take="score.label"),
    Column("detected", percent, take="at.detection_rate"),
    Column("timely", percent, take="at.timely_rate"),
    Column("false", percent, take="at.false_alarm_rate"),
    Column("chance", percent, take="at.chance"),
    Column("lead", steps, take="at.lead_median"),
)


@app.command("open")
def open_(
    name: str,
    panel: str,
    closes: str,
    held_out: int | None = None,
    beacon: str = "",
    rounds: Path = ROUNDS,
) -> None:
    """Open a round: what is trained after the close, and until when scores are entered.

    Options:
        panel (panel): Thresholds are found on its explore runs; its recipe trains the fresh runs.
        closes (DATE): The last day, 2030-01-31, or a time (UTC), 2030-01-31T12:00.
        held_out: Runs that are trained after the close; as many as the recipe has if not given.
        beacon: What others publish after the close, e.g. 'drand round 5123456'; seeds depend on it.
    """
    from gmb_hf.hub.leaderboard.rounds import open_round

    _written(
        open_round(
            name, panel=panel, closes=closes, held_out=held_out, beacon=beacon, rounds=rounds
        ),
        f"gmb leaderboard round enter {name} ENTRY --lock FILE --author WHO --claim WHAT",
    )


@app.command()
def enter(
    name: str,
    entry: str,
    author: str,
    claim: str,
    lock: Path | None = None,
    code: Path | None = None,
    design: Path | None = None,
    rounds: Path = ROUNDS,
) -> None:
    """Enter scores by their hash: a lock, or an indicator module, whose lock is made now.

    The module is run, here and where the round is judged.

    Arguments:
        entry: Name of the entry.

    Options:
        author: Who enters it.
        claim: What the scores are, in a line.
        lock: Made on the panel's explore runs.
        code (MODULE.py): Registers the indicators that the lock or the design names.
        design: Without a lock: which candidates; by default every indicator of the module.
    """
    from gmb_hf.hub.leaderboard.round_entries import enter as enter_round

    with screen.counting(f"locking {entry} once more"):
        found = enter_round(
            name,
            entry,
            author=author,
            claim=claim,
            lock=lock,
            code=code,
            design=design,
            rounds=rounds,
        )
    _written(found, f"gmb leaderboard round status {name}")


@app.command()
def close(name: str, early: bool = False, beacon: str = "", rounds: Path = ROUNDS) -> None:
    """Close a round: nothing is entered any more, and the seeds of its held-out runs are fixed.

    Options:
        early: Close before the date; the card says so.
        beacon: The value of what was announced.
    """
    from gmb_hf.hub.leaderboard.rounds import close as close_round

    found = close_round(name, early=early, beacon=beacon, rounds=rounds)
    _written(found, found.following)


@app.command()
def train(name: str, jobs: int | None = None, device: str = "auto", rounds: Path = ROUNDS) -> None:
    """Train the held-out runs of a closed round; the same command goes on where it stopped."""
    from gmb_hf.hub.leaderboard.rounds import train as train_round

    found = train_round(name, jobs=jobs, device=device, rounds=rounds)
    _written(found, found.following)


@app.command()
def judge(name: str, rounds: Path = ROUNDS) -> None:
    """Judge each entry once on the held-out runs; the same command goes on where it stopped."""
    from gmb_hf.hub.leaderboard.round_judging import judge_round

    found = judge_round(name, rounds=rounds, counting=screen.counting)
    _show_judged(found)
    _written(found, found.following)


@app.command()
def status(name: str | None = None, rounds: Path = ROUNDS) -> None:
    """How far a round is, with its hashes checked; all rounds if none is named."""
    from gmb_hf.hub.leaderboard.rounds import Round, names

    if name is not None:
        found = Round.find(name, rounds)
        found.check_entries()
        _show(found)
        _show_judged(found)
        screen.say_whole("next", found.following)
        return
    every = [Round.find(one, rounds) for one in names(rounds)]
    screen.answered(rounds=[one.record for one in every])
    if not every:
        screen.say(f"{rounds} holds no round.")
        how = "gmb leaderboard round open NAME --panel PANEL --closes DATE"
        screen.say_whole("next", how)
        return
    columns = (
        Column("round", take="name"),
        Column("state", take="state"),
        Column("panel", take="record.opened.panel"),
        Column("closes", take="record.opened.closes"),
        Column("entries", take=lambda one: f"{len(one.record.entries):,}", align="r"),
        Column("hash", take=lambda one: one.hash[:16]),
    )
    screen.table(Table.of(every, columns))
    screen.say_whole("next", f"gmb leaderboard round status {every[0].name}")


def _show(found: Round) -> None:
    """What the file of a round says."""
    record, opened = found.record, found.record.opened
    screen.answered(state=found.state, hash=found.hash, record=record)
    screen.say(f"Round {found.name} is {found.state}.")
    screen.say_whole("panel", f"{opened.panel}, {opened.held_out:,} fresh held-out runs")
    screen.say_whole("opened", opened.date)
    screen.say_whole("closes", opened.closes)
    for entry in record.entries:
        screen.say_whole("entry", f"{entry.name} by {entry.author}, {entry.date}")
    if record.closed is not None:
        early = ", early" if record.closed.early else ""
        screen.say_whole("closed", f"{record.closed.date}{early}")
        screen.say_whole("seeds", f"{found.seeds[0]} to {found.seeds[-1]}")
    if record.trained is not None:
        screen.say_whole("trained", record.trained.date)
    elif record.closed is not None:
        screen.say_whole("trained", f"{found.n_trained} of {opened.held_out} runs so far")
    screen.say_whole("hash", found.hash)


def _show_judged(found: Round) -> None:
    """What every entry is worth on the fresh runs."""
    from gmb_hf.hub.leaderboard.round_judging import judged_scores
    from gmb_hf.report.page import CLASSES

    if not found.record.judged:
        return
    scores, faults = judged_scores(found)
    rows: list[Row | Line] = []
    for kind, heading in CLASSES.items():
        own = [one for one in scores if one.score.kind == kind]
        rest = f" in {found.folder / 'judged'}"
        rows += section(Table.of(own, _JUDGED).rows, heading, _MOST_SCORES, rest)
    screen.answered(scores=scores)
    screen.table(Table(_JUDGED, rows), above=True)
    screen.notes(f"{entry.name} could not be judged: {why}" for entry, why in faults)


def _written(found: Round, following: str) -> None:
    _show(found)
    paths = [found.folder / "round.yaml", found.folder / "README.md"]
    screen.written(paths, following=following)
