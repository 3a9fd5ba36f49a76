"""Runs over training: how each memorises and generalises, and what scores do around the event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from gmb_hf.benchmark.scores import Scores
from gmb_hf.design.design import Design
from gmb_hf.report import style
from gmb_hf.report.style import BLUE, INK, MUTED, ORANGE, VERMILION, line_key, note
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

# Of a metric that carries the event: the same on training rows, and what both are called.
_METRICS = {"test_acc": ("train_acc", "accuracy"), "acc_test": ("acc_train", "accuracy")}


@style.house_style()
def grokking_curves(log: RunLog, metric: str, event_step: NDArray[np.float64]) -> Figure:
    """The metric of every run over training, on training and held-out rows, with every t*.

    The metric is the column that carries the event; on training rows it is shown where it is
    logged. t* are in steps, [R], NaN where there was no event. The figure has 7.2 by 4 inches: the
    curves above, the distribution of t* below.
    """
    panel = log.panel(metric)
    steps, test = panel.steps, style.drawable(np.where(panel.present, panel.values, np.nan))
    beside, named = _METRICS.get(metric, ("", metric))
    named, trained = style.shorten(named, 40), beside in log.observables
    figure = style.new_figure(7.2, 4.0)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[4.2, 1])
    handles = [
        line_key("held-out rows, median", color=BLUE, linewidth=2.2),
        line_key("one run", color=BLUE, linewidth=0.6, alpha=0.5),
        line_key("its event t*", color=INK, marker=".", linestyle=""),
    ]
    if trained:
        _draw(top, steps, style.drawable(log.panel(beside).values), ORANGE, style.DASHED)
        key = line_key("training rows, median", color=ORANGE, linewidth=2.2, linestyle=style.DASHED)
        handles.insert(0, key)
    _draw(top, steps, test, BLUE, "solid")
    at = (steps == event_step[:, None]) & np.isfinite(test)
    top.plot(steps[at], test[at], ".", color=INK, markersize=3.4, markeredgewidth=0, zorder=4)
    last = int(steps.max())
    top.set_xlim(0, last)
    shown = test[np.isfinite(test)]
    if len(shown) and shown.min() >= 0 and shown.max() <= 1:
        top.set_ylim(-0.02, 1.03)
        style.rate_axis(top.yaxis)
    top.set_ylabel(named)
    # Inside a panel it would lie on some of the curves.
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    count = f"{len(steps):,} run" + ("" if len(steps) == 1 else "s")
    top.set_title(f"{'Training and held-out' if trained else 'Held-out'} {named} of {count}")
    _distribution(bottom, event_step[np.isfinite(event_step)], last, len(steps))
    return figure


def _draw(
    axes: Axes, steps: NDArray[np.int64], values: NDArray[np.float64], colour: str, dashes: Any
) -> None:
    """A thin line for each run, and their median.

    A run that has ended counts with its last value: those that go on longest are the ones that have
    not generalised, and a median of them alone would fall as others end.
    """
    style.thin_lines(axes, steps, values, colour)
    grid, median = median_over_runs(*held(steps, values))
    axes.plot(grid, median, color="#FFFFFF", linewidth=4, alpha=0.8, zorder=2)
    axes.plot(grid, median, color=colour, linewidth=2.2, linestyle=dashes, zorder=3)


def _distribution(axes: Axes, events: NDArray[np.float64], last: int, n_runs: int) -> None:
    """How the events spread over training, and their median."""
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    style.step_axis(axes, "training step")
    axes.set_ylabel("t*", rotation=0, ha="right", va="center")
    if not len(events):
        text = f"no event in {n_runs:,} runs"
        middle: Any = {"ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(0.5, 0.5, text, color=MUTED, **middle)
        return
    counts, edges = np.histogram(events, bins=50, range=(0, last))
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=BLUE, alpha=0.35)
    median = float(np.median(events))
    axes.axvline(median, color=INK, linewidth=1.1)
    right = median > 0.6 * last
    text = f"{len(events):,} of {n_runs:,} runs have an event; median t* = {median:,.0f} steps"
    look: Any = {"xycoords": ("data", "axes fraction"), "va": "top", "fontsize": 7.5, "color": INK}
    side, shift = ("right", -5) if right else ("left", 5)
    note(axes, text, (median, 1), (shift, -2), ha=side, **look)


def held(
    steps: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The curves, each with its last value at every later step of the others: both [R, T + K].

    Steps and values are [R, T], NaN where a run has no such checkpoint.
    """
    seen = np.isfinite(values)
    rows = np.arange(len(values))
    last = values.shape[1] - 1 - seen[:, ::-1].argmax(axis=1)
    ended = np.where(seen.any(axis=1), steps[rows, last], np.iinfo(np.int64).max)
    grid = np.unique(steps[seen])
    grid = grid[grid > ended.min()]
    after = np.where(grid > ended[:, None], values[rows, last][:, None], np.nan)
    return np.hstack([steps, np.broadcast_to(grid, after.shape)]), np.hstack([values, after])


def median_over_runs(
    steps: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The median over runs at each step that at least half of the runs have reached.

    Steps and values are [R, T], NaN where a run has no such checkpoint; returned are steps [K] and
    medians [K].
    """
    seen = np.isfinite(values)
    grid, place, counts = np.unique(steps[seen], return_inverse=True, return_counts=True)
    order = np.lexsort((values[seen], place))
    ordered = values[seen][order]
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    low, high = ordered[start + (counts - 1) // 2], ordered[start + counts // 2]
    enough = counts * 2 >= seen.any(axis=1).sum()
    return grid[enough], (0.5 * (low + high))[enough]


# Scores on the clock of the event: what a score does before t*, over all runs.

_COLUMNS = 3
_REACH = 3  # horizons on each side of t*
_WIDE, _NARROW, _HORIZON = "#CFE1EE", "#8FBBD9", "#F1EFE6"


def align(
    values: ArrayLike, steps: ArrayLike, present: ArrayLike, event_step: ArrayLike, *, reach: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Put the rows of a panel on the clock t - t*.

    Args:
        values, steps, present: a panel, each [R, T].
        event_step: t* [R], NaN where there is no event; such runs are left out.
        reach: how far to look on each side of t*, in steps.

    Returns:
        Offsets [K] that any run has, within +-reach; values [runs with event, K], NaN where a
        run has no checkpoint at that offset.
    """
    scores = np.asarray(values, dtype=np.float64)
    clock = np.asarray(steps, dtype=np.int64)
    events = np.asarray(event_step, dtype=np.float64)
    chosen = np.flatnonzero(np.isfinite(events))
    relative = clock[chosen] - events[chosen].astype(np.int64)[:, None]
    near = np.asarray(present, dtype=np.bool_)[chosen] & (np.abs(relative) <= reach)
    offsets = np.unique(relative[near])
    aligned = np.full((len(chosen), len(offsets)), np.nan)
    row, column = np.nonzero(near)
    aligned[row, np.searchsorted(offsets, relative[near])] = scores[chosen[row], column]
    return offsets, aligned


@style.house_style()
def scores_around_event(
    scores: Sequence[tuple[Scores, float | None, str]], *, horizon: int, safe_gap: int | None = None
) -> Figure:
    """Quantile bands over runs around t*, the horizon shaded, the threshold drawn.

    Args:
        scores: what is shown, one panel each, its threshold (None or infinite: none is drawn) and
            the budget which that keeps, in words.
        horizon: steps before t* in which an alarm is early warning; three are shown on each side.
        safe_gap: an alarm so many steps before t*, or earlier, is false; marked where given.
    """
    columns = min(_COLUMNS, max(1, len(scores)))
    rows = max(1, -(-len(scores) // columns))
    figure = style.new_figure(0.3 + 2.75 * columns, 0.45 + 1.95 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for index, axes in enumerate(grid.flat):
        if index >= len(scores):
            axes.set_visible(False)
            continue
        _panel(axes, *scores[index], horizon, safe_gap)
        if index + columns >= len(scores):
            axes.set_xlabel("steps relative to t*")
    for axes in grid[:, 0]:
        axes.set_ylabel("score (higher: riskier)")
    handles: list[Artist] = [
        line_key("median run", color=BLUE, linewidth=1.8),
        Patch(color=_NARROW, label="middle half of runs"),
        Patch(color=_WIDE, label="5% to 95%"),
        Patch(color=_HORIZON, label="horizon"),
        line_key("threshold", color=VERMILION, linestyle=style.LONG_DASHED),
    ]
    if safe_gap is not None:
        handles.append(line_key("end of the safe zone", color=MUTED, linestyle=(0, (1, 1.4))))
    figure.legend(handles=handles, loc="outside upper left", ncols=2 * columns)
    return figure


def _panel(
    axes: Axes,
    scores: Scores,
    threshold: float | None,
    budget: str,
    horizon: int,
    safe_gap: int | None,
) -> None:
    offsets, values = align(
        scores.values, scores.steps, scores.present, scores.event_step, reach=_REACH * horizon
    )
    values = style.drawable(values)
    enough = np.isfinite(values).sum(axis=0) >= max(2, 0.1 * len(values))
    offsets, values = offsets[enough], values[:, enough]
    axes.set_title(style.shorten(scores.name, 36), fontsize=8)
    if not len(offsets):
        axes.text(0.5, 0.5, "no event to align", transform=axes.transAxes, ha="center", color=MUTED)
        return
    bands = np.nanquantile(values, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    axes.axvspan(-horizon, 0, color=_HORIZON, linewidth=0, zorder=0)
    axes.fill_between(offsets, bands[0], bands[4], color=_WIDE, linewidth=0, zorder=1)
    axes.fill_between(offsets, bands[1], bands[3], color=_NARROW, linewidth=0, zorder=2)
    axes.plot(offsets, bands[2], color=BLUE, linewidth=1.8, zorder=3)
    axes.axvline(0, color=INK, linewidth=1, zorder=4)
    if safe_gap is not None and safe_gap <= -offsets[0]:
        axes.axvline(-safe_gap, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)), zorder=4)
    tau = np.inf if threshold is None else float(style.drawable(threshold))
    axes.set_ylim(*_limits(bands, [tau] if np.isfinite(tau) else []))
    if np.isfinite(tau):
        axes.axhline(tau, color=VERMILION, linewidth=1.2, linestyle=style.LONG_DASHED, zorder=4)
        look: Any = {"xycoords": ("axes fraction", "data"), "fontsize": 6.8, "va": "bottom"}
        look |= {"color": VERMILION, "zorder": 5, "path_effects": style.HALO}
        note(axes, f"alarm: {budget}", (0.015, tau), (0, 2), **look)
    axes.set_xlim(offsets[0], offsets[-1])
    style.step_axis(axes, "", ticks=4)


def _limits(bands: NDArray[np.float64], marks: Sequence[float]) -> tuple[float, float]:
    """Limits that show the threshold and the middle half; wild tails run out of the panel."""
    middle = np.concatenate([bands[1], bands[3], marks])
    bottom, top = float(middle.min()), float(middle.max())
    low, high = float(bands[0].min()), float(bands[4].max())
    reach = 1.2 * (top - bottom) or 0.5 * (high - low) or 0.5
    bottom, top = min(bottom, max(low, bottom - reach)), max(top, min(high, top + reach))
    margin = 0.1 * (top - bottom) or 0.5
    return bottom - margin / 2, top + margin


@style.house_style()
def missed_events(
    scores: Scores,
    metric: Panel,
    threshold: float,
    alarms: Sequence[float | None],
    *,
    horizon: int,
    safe_gap: int,
    count: int = 6,
) -> Figure | None:
    """Runs whose event was not detected, the first of them: the metric and what the score did.

    None where every event was. The score is drawn on a scale of its own, the same in all
    panels, with its threshold; a false alarm, so early that it means another thing, is marked.

    Args:
        scores: of all runs, with their events.
        metric: the column that carries the event, of the same runs.
        threshold: of the score, finite.
        alarms: the step of each run's first alarm before its event, None where there was none.
        horizon, safe_gap: in steps before the event, as of the design.
        count: how many runs are shown at most.
    """
    first = np.array([np.nan if step is None else step for step in alarms], dtype=np.float64)
    false = first <= scores.event_step - safe_gap
    without = np.flatnonzero(scores.has_event & (np.isnan(first) | false))
    if not len(without):
        return None
    chosen = without[:count]
    across = min(3, len(chosen))
    figure, axes = style.panel_grid(len(chosen), across, width=7.2, panel_height=1.6)
    values = style.drawable(np.where(scores.present, scores.values, np.nan))[chosen]
    low, high = np.nanquantile(values, [0.01, 0.99])
    low, high = min(low, threshold), max(high, threshold)
    margin = 0.08 * (high - low) or 0.5
    for own, run, line in zip(axes, chosen.tolist(), values, strict=True):
        event, there = scores.event_step[run], metric.present[run]
        steps = metric.steps[run][there]
        shown = steps <= event + horizon
        own.axvspan(event - horizon, event, color=_HORIZON, linewidth=0, zorder=0)
        own.plot(steps[shown], metric.values[run][there][shown], color=BLUE, linewidth=1.6)
        own.axvline(event, color=INK, linewidth=1)
        other = own.twinx()
        other.set_ylim(low - margin, high + margin)
        other.set_yticks([])
        before = scores.present[run] & (scores.steps[run] <= event + horizon)
        other.plot(scores.steps[run][before], line[before], color=MUTED, linewidth=1)
        other.axhline(threshold, color=VERMILION, linewidth=1.1, linestyle=style.LONG_DASHED)
        if false[run]:
            other.axvline(first[run], color=VERMILION, linewidth=1.4)
        said = f"false alarm at {first[run]:,.0f}" if false[run] else "no alarm"
        own.set_title(f"{style.shorten(scores.runs[run], 28)}\n{said}", fontsize=7.5)
        style.step_axis(own, "", ticks=4)
    style.title(
        figure,
        f"{style.shorten(scores.name, 36)}: {len(without)} of {scores.has_event.sum()} events "
        f"not detected{f', the first {count}' if len(without) > count else ''}",
        fontsize=9,
    )  # fmt: skip
    for own in axes[-across:]:
        own.set_xlabel("training steps")
    axes[0].set_ylabel(style.shorten(metric.name, 24))
    handles: list[Artist] = [
        line_key(style.shorten(metric.name, 24), color=BLUE, linewidth=1.6),
        line_key("score, own scale", color=MUTED, linewidth=1),
        line_key("threshold", color=VERMILION, linestyle=style.LONG_DASHED),
        line_key("event t*", color=INK, linewidth=1),
        Patch(color=_HORIZON, label="horizon"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


# One run: what an operator would have seen.


@style.house_style()
def one_run(
    scores: Scores,
    metric: Panel,
    *,
    threshold: float | None,
    alarm: float | None,
    outcome: str,
    name: str,
    design: Design,
) -> Figure:
    """The metric of one run above, a score and its threshold below, its event and alarm in both.

    The horizon before the event is shaded, and the steps from there to the end of the safe gap more
    faintly: an alarm in the one is timely, in the other early, before both false.

    Args:
        scores: of this run alone, with its event.
        metric: the column that carries the event, of this run and others.
        threshold: that this run is judged by; None: none that is finite.
        alarm: the step of its first alarm before the event; None: there is none.
        outcome: what the alarm was, in words; "" where nobody says.
        name: of the score, as it is shown.
        design: with the horizon and the safe gap.
    """
    (run,), event = scores.runs, float(scores.event_step[0])
    place = metric.runs.index(run)
    figure = style.new_figure(7.2, 3.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.25])
    there = metric.present[place]
    values = style.drawable(metric.values[place][there])
    above.plot(metric.steps[place][there], values, color=BLUE, linewidth=1.6)
    known = scores.present[0]
    below.plot(scores.steps[0][known], style.drawable(scores.values[0][known]), color=INK)
    handles: list[Artist] = []
    if threshold is not None:
        line: Any = {"color": VERMILION, "linewidth": 1.3, "linestyle": style.LONG_DASHED}
        below.axhline(float(style.drawable(threshold)), **line)
        handles.append(line_key("threshold", **line))
    if np.isfinite(event):
        handles.append(line_key("event t*", color=INK, linewidth=1.2))
        handles.append(Patch(color=_NARROW, label="horizon: timely"))
        handles.append(Patch(color=_WIDE, label="up to the safe gap: early"))
    if alarm is not None:
        handles.insert(0, line_key("first alarm", color=VERMILION, marker="v", linewidth=1.2))
    for axes in (above, below):
        if np.isfinite(event):
            axes.axvspan(event - design.safe_gap, event - design.horizon, color=_WIDE, lw=0)
            axes.axvspan(event - design.horizon, event, color=_NARROW, linewidth=0)
            axes.axvline(event, color=INK, linewidth=1.2)
        if alarm is not None:
            axes.axvline(alarm, color=VERMILION, linewidth=1.2)
    if alarm is not None:
        at = scores.values[0][known][scores.steps[0][known] == alarm]
        below.plot([alarm], style.drawable(at[:1]), "v", color=VERMILION, markersize=6)
    above.set_xlim(0, max(1, int(metric.steps[place].max())))
    if len(values) and np.nanmin(values) >= 0 and np.nanmax(values) <= 1:
        above.set_ylim(-0.02, 1.03)
        style.rate_axis(above.yaxis)
    _, called = _METRICS.get(metric.name, ("", metric.name))
    above.set_ylabel(style.shorten(called, 24))
    below.set_ylabel("score")
    style.step_axis(below, "training step")
    said = [f"run {style.shorten(run, 28)}", outcome]
    if np.isfinite(event) and alarm is not None:
        said.append(f"{event - alarm:,.0f} steps before the event")
    style.title(
        figure,
        f"{style.shorten(name, 48)}: {', '.join(filter(None, said))}",
        x=0.01,
        ha="left",
        fontsize=10,
        weight="bold",
    )
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=7)
    return figure
