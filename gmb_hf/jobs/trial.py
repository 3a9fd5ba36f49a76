"""The trial: every signal on every panel, thresholds frozen on explore runs, judged once.

    OUT/PANEL/                explore.csv, lock.yaml, results.yaml, report.*, tables/, figures/
    OUT/transfer/A-on-B/      the held-out runs of panel B by the lock of panel A: results.yaml
    OUT/pretrained/           for each panel, scores that are fitted on all others
    OUT/tables/trial.*        a row for each signal and panel; transfer.*: for each two panels;
                              splits.*, recalibrated.*: of combinations and of pretrained scores
    OUT/figures/trial.*       signals by panels
    OUT/report.md             the one page

A panel is frozen, so the same call gives the same numbers; what is there already, of this lock and
these runs, is not judged again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from threadpoolctl import threadpool_limits

from gmb_hf.base.errors import InputError, positive_int
from gmb_hf.base.escape import number, steps
from gmb_hf.base.files import write_text
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.ensembles import combinations_of
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord, FirstAlarmRecord
from gmb_hf.benchmark.locking import explore, make_lock, write_explored
from gmb_hf.benchmark.prepare import chance_of, prepare
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.results import Results
from gmb_hf.benchmark.utility import OperatingPointRecord
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.thresholds import in_words
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.hub.panels import EXPLORE, HELD_OUT, FrozenPanel, here
from gmb_hf.hub.recipes import RECIPES
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.claims import CLAIMS, Claim
from gmb_hf.jobs.recalibration import Recalibrated, calls, recalibrated_table
from gmb_hf.jobs.splits import OverSplits, over_splits, splits_table
from gmb_hf.report import style
from gmb_hf.report.answer import KINDS, RULE, kind_of, primary_target
from gmb_hf.report.report import publish
from gmb_hf.report.sheet import template
from gmb_hf.report.tables import DETECTION, FALSE_ALARMS
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from gmb_hf.jobs.run import Counting

Found = TypeVar("Found")
ONSET = 3.0
"""Times chance, where a metric has left it."""


@dataclass(frozen=True)
class Trial:
    """What the trial found.

    Attributes:
        panels: the names, in order.
        rows: every signal on every panel.
        transfers: the lock of each panel on each other one.
        paths: of the files, the page first.
    """

    panels: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    transfers: tuple[Transfer, ...]
    paths: tuple[Path, ...]


def trial(
    panels: Sequence[str],
    out: str | Path,
    *,
    figures: bool = True,
    jobs: int | None = None,
    counting: Counting | None = None,
) -> Trial:
    """Judge every candidate of the panels' designs, and each lock on the other panels.

    Args:
        panels: names; "all" for every one that is here and has a held-out part.
        out: the folder; the same call goes on where it stopped.
        figures: whether to draw those of each panel, too.
        jobs: panels judged at a time, in processes of their own; one a core if not given.
        counting: shows progress; nothing is shown without it.

    Raises:
        InputError: no such panel, one without a held-out part, one that was changed, a folder
            that holds the trial of other panels, or a process was killed.
    """
    counting = counting or _no_counting
    jobs = positive_int("--jobs", (os.cpu_count() or 1) if jobs is None else jobs)
    folder, chosen = Path(out), tuple(_split(here()) if list(panels) == ["all"] else panels)
    if not chosen:
        raise InputError("--panels: no panel is here; gmb panel list says which there are")
    found = {name: FrozenPanel.find(name) for name in chosen}
    for name in set(chosen) - set(_split(chosen)):
        raise InputError(f"--panels: panel {name!r} has no held-out part to be judged on")
    of_scores = counting if jobs == 1 else _no_counting  # else the bar counts panels
    results = in_processes(
        {
            name: partial(_judge_all, panel, folder / name, figures=figures, counting=of_scores)
            for name, panel in found.items()
        },
        jobs,
        counting("judging panels", len(chosen)) if jobs > 1 else _no_counting("", None),
    )
    supported = {
        name: {row.item.name for row in rows_of(name, own) if row.supported}
        for name, own in results.items()
    }
    count = counting("combinations over splits", len(chosen))
    split = in_processes(
        {name: partial(_over_splits, panel, folder / name) for name, panel in found.items()},
        jobs,
        count,
    )
    again = calls(found, ("label-free", "task-aware"), folder / "pretrained")
    count = counting("scores of other panels, calibrated anew", len(again))
    moved = [one for each in in_processes(again, jobs, count).values() for one in each]
    splits = [one for name in chosen for one in split[name]]
    crossed = {
        f"{lock_of} on {name}": partial(_transferred, lock_of, panel, folder, supported[lock_of])
        for lock_of in chosen
        for name, panel in found.items()
        if lock_of != name
    }
    transfers = [
        *in_processes(crossed, jobs, counting("locks on other panels", len(crossed))).values()
    ]
    rows = [row for name in chosen for row in rows_of(name, results[name])]
    page = render_trial(
        rows,
        chosen,
        transfers,
        asks={name: panel.record.asks for name, panel in found.items()},
        splits=splits,
        moved=moved,
    )
    paths = [write_text(folder / "report.md", page)]
    paths += style.save_figure(signals_by_panels(rows, chosen), folder / "figures" / "trial")
    tables = (trial_table(rows), transfer_table(transfers), splits_table(splits))
    for table in (*tables, recalibrated_table(moved)):
        paths += table.write(folder / "tables")
    return Trial(chosen, tuple(rows), tuple(transfers), tuple(paths))


def _no_counting(what: str, count: int | None) -> AbstractContextManager[Callable[[str], None]]:
    return nullcontext(lambda done: None)


def in_processes(
    calls: Mapping[str, Callable[[], Found]],
    jobs: int,
    counted: AbstractContextManager[Callable[[str], None]],
) -> dict[str, Found]:
    """What calls return, by their names; in this process, or at most `jobs` others.

    Raises:
        InputError: of a call, or a process was killed.
    """
    with counted as done:
        if jobs == 1 or len(calls) < 2:
            found = {}
            for name, call in calls.items():
                found[name] = call()
                done(name)
            return found
        context = get_context("spawn")  # a forked process may inherit held locks
        with ProcessPoolExecutor(min(jobs, len(calls)), context, initializer=_one_thread) as pool:
            waiting = {pool.submit(call): name for name, call in calls.items()}
            try:
                for ended in as_completed(waiting):
                    ended.result()
                    done(waiting[ended])
            except BrokenProcessPool:
                raise InputError(
                    f"--jobs {jobs}: a process was ended, as it is where memory runs out; the same "
                    "command with --jobs 1 goes on with what is there"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)
            return {name: ended.result() for ended, name in waiting.items()}


def _one_thread() -> None:
    """More would share the cores with those of the other processes."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # of what is loaded later
    threadpool_limits(1)


def rows_of(panel: str, results: Results) -> list[TrialRow]:
    """The indicators of one panel's results, at the primary operating points."""
    budget = results.primary_run_budget
    return [
        TrialRow(panel, item, first, first.at(budget), item.point(primary_target(results)))
        for item in results.indicators
        if (first := item.x_first_alarm) is not None and budget is not None
    ]


def _split(names: Sequence[str]) -> list[str]:
    """Those panels that have an explore and a held-out part."""
    return [name for name in names if {EXPLORE, HELD_OUT} <= {*FrozenPanel.find(name).parts}]


def trial_design(panel: FrozenPanel, log: RunLog | None = None) -> Design:
    """What a trial asks of a panel: the single scores of its design, combined by class as they are.

    Where the level of a guess is known, and no event of the design is that the metric leaves it,
    this is another event that every score is shown on. `log` are its explore runs, where they were
    read already.
    """
    log, design = log or panel.read(EXPLORE), panel.design()
    single = [one.plain() for one in design.candidates if one.family != ENSEMBLE]
    chance = _chance_of(panel, log)
    asked: dict[str, Any] = {"candidates": single}
    if chance is not None and design.event_type != "E_onset":
        onset = {
            "type": "E_onset",
            "x_chance": chance,
            "x_chance_multiple": ONSET,
            "x_plateau_checkpoints": 5,
        }
        asked["also_events"] = [*(one.plain() for one in design.also_events), onset]
    design = design.replace(**asked)
    return design.replace(candidates=[*single, *combinations_of(design, log)])


def _chance_of(panel: FrozenPanel, log: RunLog) -> float | None:
    """The accuracy of a guess: as the logs say, else by the recipe of the panel."""
    design = panel.design()
    recipe = RECIPES.get(panel.name)
    found = chance_of(design, log)
    if found is None and recipe is not None and not recipe.credit:
        return recipe.config().chance
    return found


def judge(
    panel: FrozenPanel,
    folder: Path,
    *,
    figures: bool,
    design: Design | None = None,
    counting: Counting = _no_counting,
    exploring: bool = True,
    about: Mapping[str, Any] | None = None,
) -> Results:
    """Explore, lock and evaluate one panel in a folder, or read what an earlier call left there.

    The lock does not need what exploring shows, which is for readers. `design` is the panel's own
    unless given; `about` is what the metadata of explore runs say where a panel was frozen before
    they did.
    """
    place, path = folder / "lock.yaml", folder / "results.yaml"
    lock = Lock.read(place) if place.exists() else None
    design = design or panel.design()
    if lock is not None:
        own = design.plain()
        theirs = lock.design.plain()
        same = panel.source["fingerprint"] in [one.fingerprint for one in lock.x_lock.x_sources]
        if not same or own["candidates"] != theirs["candidates"]:
            raise InputError(
                f"{place}: is a lock of another panel, or of another design; choose another --out"
            )
        if path.exists():
            held = Results.read(path)
            if held.x_provenance is not None and held.x_provenance.lock_hash == lock.hash:
                return held
    if lock is None:
        log = panel.read(EXPLORE)
        log.metadata = {**(about or {}), **log.metadata}
        explored = prepare(log, design)
        count = len(explored.entries)
        if exploring:
            with counting(f"{panel.name}: exploring", count) as done:
                # A combination takes ten fits more than its lock, which says what it is made of.
                tried = explore(design, explored, combinations=False, on_done=done)
                write_explored(tried, folder / "explore.csv")
        with counting(f"{panel.name}: locking", count) as done:
            made, _ = make_lock(design, explored, on_done=done)
        lock = Lock.read(made.write(place))
    with counting(f"{panel.name}: judging", len(lock.x_lock.candidates)) as done:
        log = panel.read(HELD_OUT)
        log.metadata = {**(about or {}), **log.metadata}
        evaluation = evaluate_lock(lock, log, lock_path="lock.yaml", on_done=done)
    publish(evaluation, folder, figures=figures)
    return evaluation.results


def _judge_all(panel: FrozenPanel, folder: Path, **shown: Any) -> Results:
    """One panel by the design of a trial; what logs do not say of chance is added to them."""
    log = panel.read(EXPLORE)
    chance = _chance_of(panel, log)
    about = {} if chance is None else {"chance": chance}
    return judge(panel, folder, design=trial_design(panel, log), about=about, **shown)


def _over_splits(panel: FrozenPanel, folder: Path) -> list[OverSplits]:
    """The combinations of a panel's lock over other splits of its explore runs."""
    lock = Lock.read(folder / "lock.yaml")
    explored, held_out = (prepare(panel.read(part), lock.design) for part in (EXPLORE, HELD_OUT))
    locked = lock.x_lock.candidates
    formulas = {name: one.ensemble for name, one in locked.items() if one.ensemble is not None}
    return over_splits(panel.name, explored, held_out, formulas)


def _transferred(
    lock_of: str, panel: FrozenPanel, folder: Path, supported: Collection[str]
) -> Transfer:
    """The lock of one panel on another: the best of those signals that its own panel supports."""
    place = folder / "transfer" / f"{lock_of}-on-{panel.name}"
    lock, path = Lock.read(folder / lock_of / "lock.yaml"), place / "results.yaml"
    held = Results.read(path) if path.exists() else None
    if held is None or held.x_provenance is None or held.x_provenance.lock_hash != lock.hash:
        try:
            # A look of its own: the lock file beside it keeps the looks at its own panel.
            own = Lock.read(lock.write(place / "lock.yaml"))
            # What a trial shows of a panel is one look, which its own lock has taken.
            judged = evaluate_lock(own, panel.read(HELD_OUT), transfer=True, counted=True)
        except InputError as error:
            return Transfer(lock_of, panel.name, None, None, str(error))
        publish(judged, place, figures=False)
        held = judged.results
    rows = [
        row
        for row in rows_of(panel.name, held)
        if row.item.name in supported and row.item.x_sees_test_labels is False
    ]
    best = max(rows, key=attrgetter("detected"), default=None)
    return Transfer(lock_of, panel.name, best, sum(row.supported for row in rows))


# On paper: signals by panels, claims and measurements, transfers, a figure, a page.


class TrialRow(NamedTuple):
    """One signal on one panel, at the primary operating points: by runs and by windows."""

    panel: str
    item: IndicatorRecord
    first: FirstAlarmRecord
    at: FirstAlarmPointRecord

    by_windows: OperatingPointRecord | None

    @property
    def kind(self) -> str:
        """A key of `KINDS`."""
        return kind_of(self.item)

    @property
    def onset(self) -> FirstAlarmPointRecord | None:
        """The same score before the metric leaves chance, where that is another event."""
        others = (one for one in self.first.other_events if one.event.startswith("E_onset"))
        return next((one.at for one in others), None)

    @property
    def supported(self) -> bool:
        """Whether its label is the one that lets a score act."""
        return self.item.label == SUPPORTED

    @property
    def detected(self) -> float:
        """Its detection rate, 0 without events."""
        return self.at.detection_rate or 0.0


class Transfer(NamedTuple):
    """The best signal of a panel's lock, by its own held-out runs, on those of another panel."""

    lock_of: str
    panel: str
    row: TrialRow | None
    n_supported: int | None
    fault: str = ""


_COLUMNS = (
    Column("signal", take="item.name"),
    Column("kind", take="kind"),
    Column("panel", take="panel"),
    Column("label", take="item.label"),
    *DETECTION,
    *FALSE_ALARMS,
    Column("lead_median", steps, take="at.lead_median"),
    Column("metric_at_alarm", number, take="first.visible.at_alarm_median"),
    Column("unseen", number, take="first.visible.unseen"),
    Column("ahead_of_learned_metric", steps, take="first.ahead.median"),
    Column("ahead_low", steps, take="first.ahead.interval.low"),
    Column("ahead_high", steps, take="first.ahead.interval.high"),
    Column("onset_detection_rate", number, take="onset.detection_rate"),
    Column("onset_false_alarm_rate", number, take="onset.false_alarm_rate"),
    Column("onset_lead_median", steps, take="onset.lead_median"),
    Column("chance", number, take="at.chance"),
    Column("p_adjusted", number, take="first.p_adjusted"),
    Column("n_events", "{:,}".format, take="at.n_events"),
    Column("n_runs", "{:,}".format, take="at.n_runs"),
    Column("threshold", "{:.6g}".format, take="at.threshold"),
    Column("reasons", take=lambda row: "; ".join(row.item.x_reasons)),
    Column("coverage", number, take="by_windows.coverage"),
    Column("chance_by_windows", number, take="by_windows.chance"),
    Column("AUC", number, take="item.layer_A.auc"),
)


def trial_table(rows: Sequence[TrialRow]) -> Table:
    """Every signal on every panel, with every digit."""
    return Table.of(rows, _COLUMNS, "trial", "The trial, at the primary operating points")


def transfer_table(found: Sequence[Transfer]) -> Table:
    """The lock of each panel on the held-out runs of each other one."""
    columns = (
        Column("lock_of", take="lock_of"),
        Column("panel", take="panel"),
        Column("supported", "{:,}".format, take="n_supported"),
        Column("signal", take="row.item.name"),
        Column("label", take="row.item.label"),
        Column("detection_rate", number, take="row.at.detection_rate"),
        Column("false_alarm_rate", number, take="row.at.false_alarm_rate"),
        Column("false_alarm_high", number, take="row.at.false_alarm_interval.high"),
        Column("fault", take="fault"),
    )
    return Table.of(found, columns, "transfer", "Locks of one panel on runs of another")


def _ranked(rows: Sequence[TrialRow], panels: Sequence[str]) -> list[list[TrialRow | None]]:
    """The rows of each signal by panel, the best signal first: by the mean detection rate."""
    by_signal: dict[str, dict[str, TrialRow]] = {}
    for row in rows:
        by_signal.setdefault(row.item.name, {})[row.panel] = row

    def worth(held: Mapping[str, TrialRow]) -> float:
        return float(np.mean([row.detected for row in held.values()]))

    ordered = sorted(by_signal.values(), key=worth, reverse=True)
    return [[held.get(panel) for panel in panels] for held in ordered]


def overview(rows: Sequence[TrialRow], panels: Sequence[str]) -> Table:
    """A row for each signal, a column for each panel: detection and false-alarm rate."""
    columns = [Column("signal"), *(Column(name, align="r") for name in panels)]

    def cell(row: TrialRow | None) -> str:
        if row is None or row.at.detection_rate is None:
            return "–"
        said = f"{row.at.detection_rate:.0%} ({row.at.false_alarm_rate or 0:.0%})"
        return f"{said} supported" if row.supported else said

    lines = [
        [next(row for row in held if row is not None).item.name, *map(cell, held)]
        for held in _ranked(rows, panels)
    ]
    return Table(columns, lines)


_MOST = {"label-free": 24}
_MOST_OF_OTHERS = 8
_LEGEND = (
    "detection rate of the first alarm, in %",
    "dot: supported; framed: too many false alarms",
)


def signals_by_panels(rows: Sequence[TrialRow], panels: Sequence[str]) -> Figure:
    """The detection rate of each signal's first alarm on each panel, by kind; one column.

    A dot: supported. An orange frame: more runs than the budget have a false alarm, by the
    interval. A dash: no threshold keeps the budget, or the panel lacks the signal. Of each kind the
    best are drawn, and a line says what the others reach at most.
    """
    groups = [(kind, _ranked([row for row in rows if row.kind == kind], panels)) for kind in KINDS]
    drawn: list[tuple[str, list[list[TrialRow | None]], str]] = []
    for kind, held in groups:
        most = _MOST.get(kind, _MOST_OF_OTHERS)
        rest = [row.detected for line in held[most:] for row in line if row is not None]
        more = f"and {len(held) - most} more, none above {max(rest):.0%}" if rest else ""
        if held:
            drawn.append((kind, held[:most], more))
    if not drawn:
        raise InputError("trial: no signal was judged on any panel")
    count = sum(1.3 + len(held) + bool(more) for _, held, more in drawn)
    with style.house_style():
        figure = style.new_figure(1.75 + 0.31 * max(len(panels), 3), 1.1 + 0.122 * count)
        axes = figure.subplots()
        y = 0.0
        for kind, held, more in drawn:
            axes.text(-0.6, y, kind, fontsize=5.8, weight="bold", ha="right", va="center")
            y += 1.0
            for line in held:
                name = next(row for row in line if row is not None).item.name
                axes.text(-0.6, y, style.shorten(name, 30), fontsize=5.4, ha="right", va="center")
                for x, row in enumerate(line):
                    _cell(axes, x, y, row)
                y += 1.0
            if more:
                axes.text(
                    -0.6, y, more, fontsize=5, style="italic", color=style.MUTED, ha="right",
                    va="center",
                )  # fmt: skip
                y += 1.0
            y += 0.3
        for x, panel in enumerate(panels):
            axes.text(x, -0.7, panel, fontsize=5.8, rotation=45, ha="left", va="bottom")
        for place, said in enumerate(_LEGEND):
            axes.text(
                max(len(panels), 3) - 0.45, y + 0.3 + place, said, fontsize=5, color=style.MUTED,
                ha="right", va="center",
            )  # fmt: skip
        axes.set_xlim(-0.55, max(len(panels), 3) - 0.45)
        axes.set_ylim(y + 2, -0.6)
        axes.set_axis_off()
    return figure


def _cell(axes: Axes, x: int, y: float, row: TrialRow | None) -> None:
    """One signal on one panel: the darker, the more events it detects."""
    rate = None if row is None else row.at.detection_rate
    if row is None or rate is None:
        axes.text(x, y, "\u2013", fontsize=5.5, ha="center", va="center", color=style.MUTED)
        return
    over = row.at.state == "missed"
    look: Any = {"edgecolor": style.VERMILION, "linewidth": 0.8} if over else {"edgecolor": "none"}
    shade = colormaps["Blues"](0.06 + 0.86 * rate)
    axes.add_patch(Rectangle((x - 0.46, y - 0.44), 0.92, 0.88, facecolor=shade, **look))
    ink = "#FFFFFF" if rate > 0.55 else style.INK
    axes.text(x, y, f"{100 * rate:.0f}", fontsize=5.2, ha="center", va="center", color=ink)
    if row.supported:
        axes.plot([x + 0.34], [y - 0.2], marker="o", markersize=1.6, color=ink)


_TOLD = {"label-using": " (sees held-out labels)", "task-aware": " (knows the task)"}
_MOST_NAMED = 3  # panels of which a sentence names each


def measured(claim: Claim, rows: Sequence[TrialRow], panels: Sequence[str]) -> str:
    """What the trial found of one claim, in one sentence of Markdown."""
    own = [row for row in rows if row.item.name in claim.indicators]
    ranked = {
        kind: [
            [row for row in line if row is not None]
            for line in _ranked([row for row in own if row.kind == kind], panels)
        ]
        for kind in KINDS
    }
    return template("measured.md.j2").render(
        kinds={kind: lines for kind, lines in ranked.items() if lines},
        rule=RULE,
        told={name: _TOLD.get(catalogue.get(name).kind, "") for name in {r.item.name for r in own}},
        most_named=_MOST_NAMED,
    )


def render_trial(
    rows: Sequence[TrialRow],
    panels: Sequence[str],
    transfers: Sequence[Transfer],
    *,
    asks: Mapping[str, str],
    splits: Sequence[OverSplits] = (),
    moved: Sequence[Recalibrated] = (),
) -> str:
    """The page, as Markdown.

    Args:
        rows: every signal on every panel.
        panels: their names, in the order of the columns.
        transfers: the matrix.
        asks: what each panel asks.
        splits: the combinations over splits of the explore runs.
        moved: pretrained scores on the panels that they have not seen.
    """
    kinds = [
        (heading, overview(own, panels).md())
        for kind, heading in KINDS.items()
        if (own := [row for row in rows if row.kind == kind])
    ]
    return template("trial.md.j2").render(
        panels=[(name, asks[name], _facts(rows, name)) for name in panels],
        kinds=kinds,
        n_signals=len({row.item.name for row in rows}),
        best=_best(rows, panels),
        transfer=transfer_table(transfers).md() if transfers else "",
        splits=splits,
        moved=moved,
        words=in_words,
        budget=in_words(rows[0].at.budget),
        claims=[(claim, measured(claim, rows, panels)) for claim in CLAIMS],
    )


def _facts(rows: Sequence[TrialRow], panel: str) -> TrialRow:
    return next(row for row in rows if row.panel == panel)


def _best(rows: Sequence[TrialRow], panels: Sequence[str]) -> list[tuple[str, str, TrialRow]]:
    """Of each panel the best of each kind, by detection rate."""
    found = []
    for panel in panels:
        for kind in KINDS:
            own = [row for row in rows if row.panel == panel and row.kind == kind]
            known = [row for row in own if row.at.detection_rate is not None]
            if known:
                found.append((panel, kind, max(known, key=attrgetter("detected"))))
    return found
