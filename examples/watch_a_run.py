"""Replay stored runs with the monitor: a correct alarm, and a faulty measurement.

    gmb run --preset standard --out runs/standard        # once, to make the lock; takes minutes
    python examples/watch_a_run.py --lock runs/standard/lock.yaml --runs runs/standard/logs

The monitor receives the rows of a log one checkpoint at a time, as from a training; docs/monitor.md
shows the same inside a Trainer. Explore runs are skipped. The first run shown is the first whose
alarm is raised inside the safe gap before its event; the results say how many events are detected.

In the second run, the columns that the monitor needs keep their last value from halfway to the
event on, as if from a stale copy. Such a score never rises. The run shown is the first in which the
monitor notices this and abstains before the event; earlier runs are counted.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gmb_hf import Lock, Results, RunLog
from gmb_hf.benchmark.events import find_events
from gmb_hf.monitor import AlarmMonitor, Reading
from gmb_hf.report import style

SYSTEM = ("task", "model", "optimizer", "schedule")
SHOWN = 2.5  # times the threshold; scores rise further once the model generalises
COLOURS = {"ALARM": style.VERMILION, "ABSTAIN": style.MUTED}


@dataclass(frozen=True)
class Watched:
    """One replayed run: its rows, what the monitor answered, and when it did what."""

    run: str
    rows: Sequence[dict[str, Any]]
    readings: Sequence[Reading]
    event: float
    stale_from: int | None

    @property
    def memorised(self) -> int | None:
        """The first step at which the training accuracy is .99."""
        return next((row["step"] for row in self.rows if row.get("train_acc", 0) >= 0.99), None)

    def first(self, state: str) -> int | None:
        """The first step at which the monitor had this state."""
        return next((one.step for one in self.readings if one.state == state), None)

    def timeline(self) -> Iterator[str]:
        """What happened, one line per moment and change of state."""
        moments = {
            "memorised": self.memorised,
            "alarm": self.first("ALARM"),
            "abstains": self.first("ABSTAIN"),
            "event": int(self.event) if math.isfinite(self.event) else None,
        }
        yield ", ".join(f"{what} at {step}" for what, step in moments.items() if step is not None)
        before = None
        for reading in self.readings:
            if reading.state != before and not reading.step > self.event:
                yield f"{reading.step:6} {reading.state}: {reading.reason}"
            before = reading.state


class Replay:
    """Monitors the runs of a log, one after another."""

    def __init__(self, lock: Path, results: Path, log: RunLog, act: str | None) -> None:
        self.lock = Lock.read(lock)
        explored = set(self.lock.x_lock.explore_runs)
        self.log = log.select([run for run in log.runs if run not in explored])
        self.unnoticed = 0  # runs with a fault that was not noticed before the event
        self._results = Results.read(results)
        self.events = find_events(self.log, self.lock.design).step
        first = AlarmMonitor(self.lock, self._results, act=None if act is None else [act])
        self.acts = first.acting[0]  # the highest detection rate, if several may act
        self.promise = self.monitor().rule.promise

    def monitor(self) -> AlarmMonitor:
        """A new monitor, for a run of the log."""
        said = {name: self.log.metadata.get(name) for name in SYSTEM}
        return AlarmMonitor(self.lock, self._results, act=[self.acts], show=(), system=said)

    def watch(self, place: int, stale_from: int | None = None) -> Watched:
        """One run to its end; from `stale_from` on, the needed columns keep their value."""
        run, monitor = self.log.runs[place], self.monitor()
        rows = self.log.select([run]).table.drop_columns(["run", "seed"]).to_pylist()
        stale: dict[str, Any] = {}
        readings = []
        for row in rows:
            readings.append(monitor.update(**{**row, **stale}))
            if row["step"] == stale_from:
                stale = {name: row[name] for name in monitor.needs}
        return Watched(run, rows, readings, float(self.events[place]), stale_from)

    def detected(self) -> Watched | None:
        """The first run whose alarm comes inside the safe gap before its event."""
        for place in np.flatnonzero(np.isfinite(self.events)):
            found = self.watch(int(place))
            alarm, gap = found.first("ALARM"), self.lock.design.safe_gap
            if alarm is not None and 0 < found.event - alarm < gap and not found.first("ABSTAIN"):
                return found
        return None

    def abstained(self) -> Watched | None:
        """The first run with an event whose stale measurement is noticed before it."""
        cadence = self.monitor().cadence
        for place in np.flatnonzero(np.isfinite(self.events)):
            middle = int(self.events[place] / 2) // cadence * cadence
            found = self.watch(int(place), stale_from=middle)
            abstains = found.first("ABSTAIN")
            if abstains is not None and middle < abstains < found.event:
                return found
            self.unnoticed += 1
        return None


def draw(shown: Sequence[Watched], acts: str, metric: str) -> Figure:
    """The metric above, score and state below; one column a run."""
    with style.house_style():
        figure = style.new_figure(8.6, 4.2)
        grid = figure.subplots(2, len(shown), sharex=True, squeeze=False, height_ratios=(1, 1.5))
        for column, one in enumerate(shown):
            above, below = grid[0, column], grid[1, column]
            stale = "" if one.stale_from is None else f", measured until step {one.stale_from:,}"
            above.set_title(f"{one.run}{stale}")
            steps = [row["step"] for row in one.rows]
            above.plot(steps, [row[metric] for row in one.rows], color=style.INK)
            read = [reading.indicator(acts) for reading in one.readings]
            below.plot(steps, [item.score for item in read], color=style.BLUE)
            threshold = read[0].threshold
            below.axhline(threshold, color=style.ORANGE, linestyle="--", label="threshold")
            known = filter(math.isfinite, (item.score for item in read))
            low = min([-0.1 * abs(threshold), *known])
            high = max(SHOWN * abs(threshold), threshold + 0.4 * (threshold - low))
            below.set_ylim(low, high)
            for state, colour in COLOURS.items():
                when = [reading.state == state for reading in one.readings]
                if any(when):
                    below.fill_between(
                        steps, low, high, where=when, color=colour, alpha=0.25, lw=0, label=state
                    )
            for axes in (above, below):
                axes.axvline(one.event, color=style.GREEN, linewidth=1, label="event")
            below.legend(loc="upper left")
            style.step_axis(below, "step")
        grid[0, 0].set_ylabel(metric)
        grid[1, 0].set_ylabel(acts)
    return figure


def main() -> None:
    """Find both runs, print what happened, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--runs", nargs="+", required=True, help="logs that the lock has not seen")
    parser.add_argument("--results", type=Path, help="beside the lock by default")
    parser.add_argument("--act", help="by default the eligible one that detects most")
    parser.add_argument("--picture", type=Path, help="file of the figure, without a suffix")
    options = parser.parse_args()
    results = options.results or options.lock.with_name("results.yaml")
    replay = Replay(options.lock, results, RunLog.read(options.runs), options.act)
    print(f"{replay.acts}: {replay.promise}")
    found = {"as it was": replay.detected(), "measured wrongly": replay.abstained()}
    for what, one in found.items():
        stale = "" if one is None or one.stale_from is None else f" from step {one.stale_from} on"
        print(f"\n{'no run of the log' if one is None else one.run}, {what}{stale}")
        for line in () if one is None else one.timeline():
            print(f"  {line}")
    print(f"\n{replay.unnoticed} runs before it, measured wrongly: not noticed before the event")
    shown = [one for one in found.values() if one is not None]
    if options.picture is not None and shown:
        figure = draw(shown, replay.acts, replay.lock.design.metric or "test_acc")
        print("wrote", *style.save_figure(figure, options.picture, formats=("png",)))


if __name__ == "__main__":
    main()
