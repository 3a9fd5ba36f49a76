"""The demo: a frozen panel is judged, then fresh runs are trained and watched with what passed.

OUT/quick-29/             explore.csv, lock.yaml, results.yaml, report.*, tables/, figures/
OUT/fresh/logs/           the run logs of the fresh seeds
OUT/watch.py              a plain Trainer on the same task, watched by the same lock
OUT/tables/watched.*      a row for each fresh run: its alarm, its event, its lead time
OUT/figures/watched.*     their curves with both marked
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from matplotlib.figure import Figure

from gmb_hf.base import escape
from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import number
from gmb_hf.base.extras import missing, present
from gmb_hf.base.files import write_text
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.events import find_events
from gmb_hf.benchmark.results import Results
from gmb_hf.design.design import Design
from gmb_hf.design.lock import Lock
from gmb_hf.hub.panels import EXPLORE, FrozenPanel
from gmb_hf.indicators.catalogue import get, names
from gmb_hf.jobs.trial import judge
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.report import style
from gmb_hf.report.style import save_figure
from gmb_hf.runs.metadata import SYSTEM
from gmb_hf.runs.runlog import RunLog
from gmb_hf.training.config import HELD, RunConfig, parse_seeds
from gmb_hf.training.folder import finished_seeds
from gmb_hf.training.launch import Bar

if TYPE_CHECKING:
    from gmb_hf.jobs.run import Counting

PANEL = "quick-29"
SEEDS = "700000:700006"
"""No panel and no preset has these."""
FRESH = "fresh"
SCRIPT = "watch.py"
WATCHED_BY = "unembedding_gini"
"""The score that the script acts on: it is measured from the weights alone."""
_AFTER = 4  # checkpoints of a fresh run once its event has come


@dataclass(frozen=True)
class Watched:
    """What a monitor saw of one run.

    Attributes:
        run: its name.
        alarm: the step at which it was raised; None where it was not.
        event: the step of the run's event; None where there was none.
        outcome: what became of it, as `FirstAlarms.outcomes` has it.
        last: the last step.
    """

    run: str
    alarm: int | None
    event: int | None
    outcome: str
    last: int

    @property
    def lead(self) -> int | None:
        """Its lead time: steps from the alarm to the event."""
        if self.alarm is None or self.event is None:
            return None
        return self.event - self.alarm


@dataclass(frozen=True)
class Demo:
    """What the demo found: the verdicts of the panel, and fresh runs as the monitor saw them."""

    results: Results
    acting: tuple[str, ...]
    watched: tuple[Watched, ...]
    paths: tuple[Path, ...]


def demo(
    out: str | Path,
    *,
    panel: str = PANEL,
    seeds: str = SEEDS,
    train: bool = True,
    figures: bool = True,
    counting: Counting | None = None,
    on_verdicts: Callable[[Results], None] = lambda results: None,
    say: Callable[[str], None] = lambda text: None,
) -> Demo:
    """Judge a panel, then train fresh seeds of its configuration and watch them.

    Args:
        out: the folder; what an earlier start finished is not done again.
        panel: its name.
        seeds: fresh ones, that the panel does not have.
        train: whether to train and watch any; without, the panel is judged and torch not needed.
        figures: whether to draw any.
        counting: shows progress; nothing is shown without it.
        on_verdicts: is told the verdicts on the panel, before anything is trained.
        say: is told each alarm when it is raised.

    Raises:
        MissingExtra: torch is not installed, which training needs.
        InputError: the panel is not here, its logs do not say what was trained, no score of it may
            raise an alarm, or the folder holds something else.
    """
    if train and not present("torch"):
        raise missing("gmb demo", "torch", otherwise="gmb demo --no-train judges the panel alone")
    counting = counting or (lambda what, count: nullcontext(lambda done: None))
    folder, frozen = Path(out), FrozenPanel.find(panel)
    made = frozen.read(EXPLORE).metadata
    if not isinstance(made.get("config"), dict):
        raise InputError(f"panel {panel!r}: its logs do not say what was trained; choose another")
    config = RunConfig.from_dict({"preset": made.get("preset", "custom"), **made["config"]})
    shown: Any = {"figures": figures, "counting": counting, "exploring": False}
    results = judge(frozen, folder / panel, about=_system(made, config), **shown)
    on_verdicts(results)
    if not train:
        return Demo(results, (), (), (folder / panel / "report.md",))
    lock = Lock.read(folder / panel / "lock.yaml")
    acting = AlarmMonitor(lock, results, show=()).acting
    short = no_more_than_watched(config, lock.design, acting)
    log = _fresh(short, parse_seeds(seeds), folder / FRESH, lock, results, say)
    acting, watched = watch(log, lock, results)
    table = watched_table(watched)
    paths = [*table.write(folder / "tables"), folder / panel / "report.md"]
    if WATCHED_BY in acting and config.task.build().equation is not None:
        paths.append(write_text(folder / SCRIPT, trainer_script(config, lock, panel)))
    if figures:
        curves = watched_curves(log, lock.design.metric, watched)
        paths += save_figure(curves, folder / "figures" / "watched")
    return Demo(results, acting, watched, tuple(paths))


def trainer_script(config: RunConfig, lock: Lock, folder: str) -> str:
    """A plain Trainer of transformers on the task of a config, watched by a lock, as a script.

    It lies beside the `folder` that holds the lock and its results.
    """
    from gmb_hf.training.stacked import shape_fields

    task = config.task.build()
    sizes = {"vocab_size": task.vocab_size, "max_position_embeddings": task.block_size}
    shape = {**sizes, **shape_fields(config.model)}
    text = Path(__file__).with_name("watch.py.j2").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["literal"] = lambda one: json.dumps(one) if isinstance(one, str) else one
    return environment.from_string(text).render(
        config=config,
        task=task.name,
        shape=shape,
        score=WATCHED_BY,
        said=lock.design.task,
        folder=folder,
    )


def _system(made: Mapping[str, Any], config: RunConfig) -> dict[str, Any]:
    """What a callback compares, of a panel whose logs are older than this entry."""
    if SYSTEM in made or not present("torch"):
        return {}
    from gmb_hf.training.seeds import system_shown

    return {SYSTEM: system_shown(config)}


def no_more_than_watched(config: RunConfig, design: Design, acting: Sequence[str]) -> RunConfig:
    """The same training without what nobody reads: columns of published signals, and the end.

    Neither changes what a run does up to its event. A compiled step would cost more than it saves.
    """
    known = all(name in names() and not get(name).published for name in acting)
    training = config.training
    fewer: dict[str, Any] = {"compile": "never"}
    if known:
        fewer["observables"] = "usual"
    if training.stop_after is not None:
        fewer["stop_after"] = min(training.stop_after, _AFTER * training.checkpoint_every)
        of_accuracy = (design.event_type, design.metric) == ("E_plateau", "test_acc")
        if of_accuracy and (design.plateau_checkpoints or 0) <= HELD:
            fewer["stop_at"] = design.plateau_threshold
    return config.replace(training=training.replace(**fewer))


def _fresh(
    config: RunConfig,
    seeds: Sequence[int],
    folder: Path,
    lock: Lock,
    results: Results,
    say: Callable[[str], None],
) -> RunLog:
    """Train the seeds, with a monitor beside each, or read what an earlier start has finished."""
    if not finished_seeds(folder).issuperset(seeds):
        from gmb_hf.training.seeds import train_stacked

        # A monitor sees a run from its beginning, so that one which was interrupted begins anew.
        shutil.rmtree(folder, ignore_errors=True)
        with _Watching(config, seeds, lock, results, say) as bar:
            train_stacked(config, seeds, folder, listener=bar)
    log = RunLog.read(folder / "logs")
    return log.select([run for run, seed in zip(log.runs, log.seeds, strict=True) if seed in seeds])


class _Watching(Bar):
    """Shows the progress of a training to a monitor for each seed, and tells of its alarms."""

    def __init__(
        self,
        config: RunConfig,
        seeds: Sequence[int],
        lock: Lock,
        results: Results,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(len(seeds) * config.training.steps)
        self._monitors = {seed: AlarmMonitor(lock, results, show=()) for seed in seeds}
        self._say, self._raised = say, set[int]()

    def measured(self, seeds: Sequence[int], found: Mapping[str, Any]) -> None:
        super().measured(seeds, found)
        for place, seed in enumerate(seeds):
            step, row = int(found["step"][place]), {name: found[name][place] for name in found}
            del row["step"]
            reading = self._monitors[seed].update(step=step, **row)
            if reading.alarm is not None and seed not in self._raised:
                self._raised.add(seed)
                accuracy = f"held-out accuracy is {number(float(row['test_acc']))}"
                self._say(f"ALARM   seed {seed}, step {reading.alarm:,}: {accuracy} so far")


def watch(
    log: RunLog, lock: Lock, results: Results, act: Sequence[str] | None = None
) -> tuple[tuple[str, ...], tuple[Watched, ...]]:
    """Show every run of a log to a monitor of its own, one checkpoint after the other.

    `act` is as of `AlarmMonitor`. Returns the scores that act, and what became of each run; an
    alarm that comes with or after the event is none.
    """
    design, events = lock.design, find_events(log, lock.design)
    monitor = AlarmMonitor(lock, results, act=act, show=())
    fresh = monitor.state_dict()
    found = []
    for run, event in zip(log.runs, events.step.tolist(), strict=True):
        monitor.load_state_dict(fresh)
        rows = log.select([run]).table.select(["step", *monitor.needs]).to_pylist()
        for row in rows:
            monitor.update(**row)
        alarm = None if monitor.alarm is None else monitor.alarm.step
        happened = None if np.isnan(event) else int(event)
        if alarm is not None and happened is not None and alarm >= happened:
            alarm = None
        outcome = _outcome(alarm, happened, design)
        found.append(Watched(run, alarm, happened, outcome, rows[-1]["step"]))
    return monitor.acting, tuple(found)


def _outcome(alarm: int | None, event: int | None, design: Design) -> str:
    """As `FirstAlarms.outcomes` says it, of one run whose alarm comes before its event."""
    if alarm is None:
        return "correct_rejection" if event is None else "miss"
    if event is None or event - alarm >= design.safe_gap:
        return "false_alarm"
    return "timely" if event - alarm <= design.horizon else "early"


def _said(one: Watched) -> str:
    return one.outcome.replace("_", " ")


def watched_table(watched: Sequence[Watched]) -> Table:
    """A row for each run."""
    columns = (
        Column("run"),
        Column("alarm at step", align="r"),
        Column("event at step", align="r"),
        Column("lead time", align="r"),
        Column("outcome"),
    )
    rows = [
        (one.run, *map(escape.steps, (one.alarm, one.event, one.lead)), _said(one))
        for one in watched
    ]
    return Table(columns, rows, name="watched")


@style.house_style()
def watched_curves(log: RunLog, metric: str, watched: Sequence[Watched]) -> Figure:
    """Held-out and training accuracy of each run, with its alarm and its event marked."""
    columns = min(3, len(watched))
    figure, axes = style.panel_grid(len(watched), columns, width=7.2, panel_height=1.75)
    panel = log.panel(metric)
    beside = log.panel("train_acc").values if "train_acc" in log.observables else None
    for place, (one, own) in enumerate(zip(watched, axes, strict=True)):
        there = panel.present[place]
        steps = panel.steps[place][there]
        if beside is not None:
            own.plot(steps, beside[place][there], color=style.ORANGE, linewidth=1)
        own.plot(steps, panel.values[place][there], color=style.BLUE, linewidth=1.6)
        if one.alarm is not None:
            own.axvline(one.alarm, color=style.VERMILION, linewidth=1.4)
        if one.event is not None:
            at = panel.values[place][panel.steps[place] == one.event]
            own.plot([one.event], at[:1], "o", color=style.INK, markersize=4)
        ahead = f", lead time {one.lead:,} steps" if one.lead is not None else ""
        own.set_title(f"{style.shorten(one.run, 28)}\n{_said(one)}{ahead}", fontsize=7.5)
        own.set_ylim(-0.02, 1.03)
        style.rate_axis(own.yaxis)
        style.step_axis(own, "", ticks=4)
    figure.supxlabel("training steps", fontsize=8.5)
    handles = [
        style.line_key("training accuracy", color=style.ORANGE, linewidth=1),
        style.line_key("held-out accuracy", color=style.BLUE, linewidth=1.6),
        style.line_key("alarm", color=style.VERMILION, linewidth=1.4),
        style.line_key("event", color=style.INK, marker="o", markersize=4, linestyle=""),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure
