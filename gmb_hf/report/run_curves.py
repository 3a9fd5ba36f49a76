"""Runs as curves: the metric of a run, and below it a score with its threshold.

`RunCurves` is what report.html draws them from, for every run of every score, packed so that the
page stays small; it is kept as curves.json beside results.yaml. `plot_run` is the same picture of
one run as a figure.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError, unknown
from gmb_hf.base.escape import one_line
from gmb_hf.benchmark.evaluate import Evaluation
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.report.answer import OUTCOMES, answer, shown_name
from gmb_hf.report.page import Run, alarms_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_VALUES = 200_000
"""Of all curves of a page together, which then take some 350 kB."""
LEAST_RUNS = 64
"""So many runs are kept whatever their length."""
LEVELS = 4095
"""Of the values between the least and the greatest of a curve; one more code says: none."""
_ORDER = ("timely", "early", "miss", "false", "rejection")


def curves_of(found: Evaluation) -> dict[str, Any] | None:
    """The curves of an evaluation's runs, packed for its page; None where the metric is no column.

    Where all values are more than `MOST_VALUES`, the first runs in the order of the log are kept,
    `LEAST_RUNS` at least, and of every `every` checkpoints one point: the last value of the metric,
    and the highest of a score, so that no crossing of a threshold is lost.

    Returns:
        A JSON object. `results`: the checksum of the results that the curves belong to; `of`: how
        many runs were judged; `sizes`: points of each run kept; `steps`, `metric`, `scores`: packed
        columns (see `_packed`), of `scores` in the order of `answer(results).ranked`, each with its
        `threshold`: one number, or one for each run (None: none that is finite); `by`: the unit
        that the thresholds belong to.
    """
    design, ranked = found.design, answer(found.results).ranked
    if design.metric not in found.log.observables:
        return None
    metric = found.log.panel(design.metric)
    lengths = metric.present.sum(axis=1)
    columns = 1 + len(ranked)
    fitting = int(np.searchsorted(np.cumsum(lengths), MOST_VALUES / columns, side="right"))
    kept = min(len(lengths), max(LEAST_RUNS, fitting))
    every = max(1, math.ceil(int(lengths[:kept].sum()) * columns / MOST_VALUES))
    sizes = [-(-int(length) // every) for length in lengths[:kept]]

    def thinned(values: NDArray[Any], highest: bool = False) -> list[NDArray[np.float64]]:
        return [_thinned(values[run, : lengths[run]], every, highest) for run in range(kept)]

    judged = [found.judgements[item.name] for item in ranked]
    return {
        "results": found.results.x_checksum,
        "name": one_line(design.metric or ""),
        "of": len(lengths),
        "every": every,
        "sizes": sizes,
        "steps": _squeezed(
            np.concatenate([np.diff(one, prepend=0.0) for one in thinned(metric.steps)])
        ),
        "metric": _packed(thinned(metric.values)),
        "by": "runs" if any(one.counts_runs for one in judged) else "windows",
        "scores": [
            {
                "values": _packed(thinned(one.evaluation.values, highest=True)),
                "threshold": _common([_finite(tau) for tau in thresholds_of(one)[:kept]]),
            }
            for one in judged
        ],
    }


def thresholds_of(judged: Judgement) -> NDArray[np.float64]:
    """What each run is judged by at the primary operating point, float64 [R]: by runs, or by
    windows where first alarms are not judged."""
    design = judged.design
    by_runs = judged.counts_runs
    calibrated = judged.run_calibrated if by_runs else judged.calibrated
    at = design.primary_run_budget if by_runs else design.primary_fpr
    return calibrated.thresholds[at]


def _thinned(values: NDArray[Any], every: int, highest: bool) -> NDArray[np.float64]:
    """One value of every so many: the last one, or the highest that is finite; NaN if none is."""
    found: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    if every == 1:
        return found
    blocks = np.full((-(-len(found) // every), every), -np.inf)
    blocks.flat[: len(found)] = np.where(np.isfinite(found), found, -np.inf)
    if highest:
        tops: NDArray[np.float64] = blocks.max(axis=1)
        tops[np.isinf(tops)] = np.nan
        return tops
    ends = np.minimum(np.arange(1, len(blocks) + 1) * every, len(found)) - 1
    last: NDArray[np.float64] = found[ends]
    return last


def _packed(curves: Sequence[NDArray[np.float64]]) -> str:
    """Curves as text: of each its least and greatest value, then its points in `LEVELS` levels.

    A point is the difference to the one before, modulo `LEVELS` + 1, as 16 bits: all low bytes,
    then all high ones, which compress well.
    """
    ends, codes = [], []
    for curve in curves:
        finite = curve[np.isfinite(curve)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
        low, high = max(low, -1e300), min(high, 1e300)  # an axis is a difference of two
        size = (high - low) or 1.0
        levels = np.rint((np.clip(curve, low, high) - low) / size * (LEVELS - 1))
        code = np.where(np.isfinite(curve), levels, LEVELS).astype(np.int64)
        codes.append(np.diff(code, prepend=0) % (LEVELS + 1))
        ends += [low, high]
    points = np.concatenate(codes)
    planes = np.concatenate([points & 255, points >> 8]).astype(np.uint8).tobytes()
    return _squeezed(np.array(ends), planes)


def _squeezed(numbers: NDArray[np.float64], more: bytes = b"") -> str:
    content = numbers.astype("<f8").tobytes() + more
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _common(values: Sequence[float | None]) -> Any:
    """One of them where all are the same, else all."""
    return values[0] if len({*values}) == 1 else list(values)


def plot_run(found: Evaluation, run: str | None = None, score: str | None = None) -> Figure:
    """One run of an evaluation: its metric above, a score and its threshold below.

    The event, the horizon, the safe gap and the first alarm are marked in both. A notebook shows
    the figure; `plot_run(found).savefig("one_run.png")` keeps it.

    Args:
        found: from `evaluate_lock` or `evaluate_runs`.
        run: its name, or its seed. If not given, the first run in the order of the log whose event
            was detected in time; else the first with an early detection, a miss or a false alarm.
        score: its name; the first of the results' order if not given.

    Raises:
        InputError: there is no such run or score, or the metric is no column of the log.
    """
    from gmb_hf.report.curves import one_run  # loads matplotlib

    ranked = answer(found.results).ranked
    names = [item.name for item in ranked]
    item = ranked[_place("score", {name: at for at, name in enumerate(names)}, score)]
    metric, judged = found.design.metric, found.judgements[item.name]
    if metric is None or metric not in found.log.observables:
        raise InputError(f"plot_run: the metric {metric!r} is no column of these runs")
    scores = judged.evaluation
    alarms, first = _alarms(found, item.name)
    # A page names runs by their seeds, where it knows them.
    event = found.results.event
    shown = [name for name in event.t_event_by_seed if name not in event.x_excluded]
    places = {name: at for names in (shown, scores.runs) for at, name in enumerate(names)}
    place = first if run is None else _place("run", places, run)
    step, outcome = alarms[place] if alarms else (None, "")
    return one_run(
        scores.select([place]),
        found.log.panel(metric),
        threshold=_finite(thresholds_of(judged)[place]),
        alarm=step,
        outcome=OUTCOMES.get(outcome, outcome),
        name=shown_name(item),
        design=found.design,
    )


def _place(what: str, places: Mapping[str, int], name: str | None) -> int:
    if name is not None and name not in places:
        raise unknown(what, name, places, where="plot_run")
    return 0 if name is None else places[name]


def _alarms(found: Evaluation, score: str) -> tuple[list[tuple[float | None, str]] | None, int]:
    """The first alarm of each run and what it was, and the run that is worth a look first."""
    item = found.results.indicator(score)
    first, at = item.x_first_alarm, answer(found.results).point(item)
    if first is None or at is None:
        return None, 0
    events = found.events.step.tolist()
    runs = [Run("", None if math.isnan(event) else event, "") for event in events]
    alarms = alarms_of(first, runs, found.design, at)
    outcomes = [outcome for _, outcome in alarms or ()]
    place = next((outcomes.index(one) for one in _ORDER if one in outcomes), 0)
    return alarms, place
