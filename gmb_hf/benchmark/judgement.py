"""What every layer takes: a score to judge, where its thresholds come from, and the design.

Thresholds have one source: a lock, explore runs, the judged runs themselves (cross-fitted over
runs, or in sample), or nobody (a published rule, whose values are alarms). `Judgement` finds those
of both units of counting and lays out the alarms that they raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.scores import Scores, score_windows
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.core.nulls import Alarms
from gmb_hf.core.thresholds import (
    Negatives,
    conformal_threshold,
    run_maxima,
    run_threshold,
    spec_threshold,
)
from gmb_hf.core.utility import WindowAlarms
from gmb_hf.core.windows import Windows
from gmb_hf.design.design import Design

Method = Literal["in_sample", "cross_run", "explore", "locked"]
Basis = Literal["promised", "shown", "rule"]
RULES: Mapping[str, Callable[[Negatives, float], float]] = {
    "v0.4": spec_threshold,
    "strict": conformal_threshold,
}
"""The threshold rule of each protocol, by windows."""
RULE_THRESHOLD = 0.5
"""Between the values of a published rule: 0, and 1 where it alarms."""

A = TypeVar("A", bound=Alarms)
_LEAVE_ONE_OUT_UP_TO = 40
_FOLDS = 10


@dataclass(frozen=True)
class Locked:
    """Thresholds that earlier runs have fixed.

    Attributes:
        windows: target -> threshold, by the length of the trailing mean (1: the score itself).
            None: they are found on the judged runs, as the protocol does it.
        runs: budget of runs -> threshold of the first alarm, likewise. Empty: none are known, and
            first alarms are not judged. None: first alarms are cross-fitted over the judged runs.
        n_runs: how many runs with negatives they come from, if known.
    """

    windows: Mapping[int, Mapping[float, float]] | None
    runs: Mapping[int, Mapping[float, float]] | None = field(default_factory=dict)
    n_runs: int | None = None


Source = Scores | Locked | Literal["cross_run", "in_sample"] | None
"""Explore runs, a lock, or the judged runs; None: the latter, as the protocol does it."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Thresholds for R judged runs, in one unit of counting.

    Attributes:
        method: where they come from. `locked`: from a lock file; `explore`: calibration runs;
            `cross_run`: for each fold of the judged runs, the runs outside it; `in_sample`: the
            same negatives that are then measured.
        thresholds: target -> float64 [R], the threshold that each run is judged by.
        deployed: target -> the one threshold to use on further runs. Under `cross_run` it comes
            from all runs, which no fold's threshold may see.
        n_runs: calibration runs with negative windows, the fewest over folds; None where locked
            thresholds do not tell.
    """

    method: Method
    thresholds: Mapping[float, NDArray[np.float64]]
    deployed: Mapping[float, float]
    n_runs: int | None

    def finite(self, target: float) -> bool:
        """Whether every run has a finite threshold at a target: else the answer is ABSTAIN."""
        return bool(np.isfinite(self.thresholds[target]).all()) and math.isfinite(
            self.deployed[target]
        )

    def select(self, rows: NDArray[Any]) -> Calibration:
        """That of some of the runs."""
        return replace(self, thresholds={at: tau[rows] for at, tau in self.thresholds.items()})


def constant(
    method: Method, chosen: Mapping[float, float], n_runs: int, calibration_runs: int | None
) -> Calibration:
    """One threshold a target for all of R runs."""
    thresholds = {target: np.full(n_runs, tau) for target, tau in chosen.items()}
    return Calibration(method, thresholds, dict(chosen), calibration_runs)


Found = tuple[Mapping[float, float], int]
"""Thresholds by target, and the number of calibration runs with negative windows."""


def by_windows(design: Design, negatives: Negatives) -> Found:
    """The threshold of each target rate."""
    rule = RULES[design.protocol]
    return {target: rule(negatives, target) for target in design.fpr_targets}, negatives.n_runs


def by_runs(design: Design, maxima: NDArray[np.float64]) -> Found:
    """The first-alarm threshold of each budget of runs, from `run_maxima`."""
    chosen = {
        budget: run_threshold(maxima, budget, design.calibration) for budget in design.run_budgets
    }
    return chosen, int((~np.isnan(maxima)).sum())


def cross_fit(
    deployed: Found, n_runs: int, without: Callable[[NDArray[np.intp]], Found]
) -> Calibration:
    """Each fold by the runs outside it: `without` finds thresholds from such rows."""
    fold, known = folds(n_runs), []
    thresholds = {target: np.full(n_runs, math.inf) for target in deployed[0]}
    for held_out in range(int(fold.max(initial=-1)) + 1):
        found, count = without(np.flatnonzero(fold != held_out))
        known.append(count)
        for target, tau in found.items():
            thresholds[target][fold == held_out] = tau
    return Calibration("cross_run", thresholds, dict(deployed[0]), min(known, default=0))


def folds(n_runs: int) -> NDArray[np.int64]:
    """The fold of each run, int64 [R]: its own up to 40 runs, one of 10 above."""
    return np.arange(n_runs) % (n_runs if n_runs <= _LEAVE_ONE_OUT_UP_TO else _FOLDS)


def runs_to_cross_fit(n_needed: int) -> int:
    """The fewest runs of which, by `folds`, `n_needed` at least lie outside every fold."""
    if n_needed < _LEAVE_ONE_OUT_UP_TO:
        return n_needed + 1
    return math.ceil(Fraction(n_needed * _FOLDS, _FOLDS - 1))


class Tops(NamedTuple):
    """The top of the scores of R runs; see `gmb_hf.core.thresholds.floor_certificate`."""

    highest: NDArray[np.float64]
    ties: NDArray[np.int64]
    counts: NDArray[np.int64]
    positive: NDArray[np.float64]


class Judgement:
    """One score to be judged, where its thresholds come from, and the design.

    Attributes:
        evaluation: the held-out runs.
        source: where thresholds come from; see `Source`.
        design: everything fixed beforehand.
        smoothing: the length of the trailing mean that the scores went through; 1: none.
        basis: on what the budgets of false alarms rest: "promised" by calibration runs of the same
            system; "shown" where the held-out runs follow another configuration, or nothing was
            locked; "rule" where the values are the alarms, 0 and 1, of a rule that nobody
            calibrated. But for the first, the rates must be shown.
    """

    def __init__(
        self,
        evaluation: Scores,
        source: Source,
        design: Design,
        *,
        basis: Basis | None = None,
        smoothing: int = 1,
        windows: Windows | None = None,
    ) -> None:
        """Label the windows; thresholds and alarms are found when they are first asked for.

        Raises:
            InputError: the scores do not fit the design (see `score_windows`).
        """
        self._evaluation, self.source, self.design = evaluation, source, design
        held_by_others = isinstance(source, Scores | Locked)
        self.basis: Basis = basis or ("promised" if held_by_others else "shown")
        self.smoothing = smoothing
        self._windows = score_windows(evaluation, design) if windows is None else windows
        self._by_target: dict[float, WindowAlarms] = {}
        self._by_budget: dict[float, FirstAlarms] = {}
        self._smoothed: dict[int, Judgement] = {}

    def __repr__(self) -> str:
        source = self.source if isinstance(self.source, str) else type(self.source).__name__
        about = f"{self.evaluation.name!r}, {self.n_runs} runs, thresholds: {source}"
        return f"{type(self).__name__}({about})"

    @property
    def evaluation(self) -> Scores:
        """The held-out runs."""
        return self._evaluation

    @property
    def windows(self) -> Windows:
        """The labels of the held-out windows."""
        return self._windows

    @property
    def strict(self) -> bool:
        """Whether the `strict` protocol is in force."""
        return self.design.protocol == "strict"

    @property
    def counts_runs(self) -> bool:
        """Whether first alarms are judged: in `strict`, where the source knows thresholds."""
        known = not isinstance(self.source, Locked) or self.source.runs != {}
        return self.strict and known

    @property
    def n_runs(self) -> int:
        """How many held-out runs there are."""
        return self.evaluation.n_runs

    @property
    def n_events(self) -> int:
        """How many held-out runs have an event."""
        return int(self.evaluation.has_event.sum())

    @cached_property
    def negatives(self) -> Negatives:
        """The scores of the held-out negative windows, sorted."""
        return Negatives.of(self.evaluation.values, self.windows.negative)

    @cached_property
    def maxima(self) -> NDArray[np.float64]:
        """The greatest negative score of each held-out run, float64 [R]; NaN where it has none."""
        return run_maxima(self.evaluation.values, self.windows.negative)

    @cached_property
    def tops(self) -> Tops:
        """The top of the held-out scores."""
        values, windows = self.evaluation.values, self.windows
        ties = windows.negative & (values == self.maxima[:, None])
        positive = np.where(windows.positive, values, -np.inf).max(axis=1, initial=-np.inf)
        return Tops(
            self.maxima, ties.sum(axis=1), windows.negative.sum(axis=1, dtype=np.int64), positive
        )

    @cached_property
    def _explore_windows(self) -> Windows | None:
        return score_windows(self.source, self.design) if isinstance(self.source, Scores) else None

    @cached_property
    def calibrated(self) -> Calibration:
        """The thresholds by which the held-out windows are judged."""
        design, source, n_runs = self.design, self.source, self.n_runs
        if isinstance(source, Locked) and source.windows is not None:
            return self._locked("target", design.fpr_targets, source.windows)
        if isinstance(source, Scores) and self._explore_windows is not None:
            explored = Negatives.of(source.values, self._explore_windows.negative)
            chosen, known = by_windows(design, explored)
            return constant("explore", chosen, n_runs, known)
        found = by_windows(design, self.negatives)
        if source == "cross_run" or (source != "in_sample" and self.strict):
            select = self.negatives.select
            return cross_fit(found, n_runs, lambda rows: by_windows(design, select(rows)))
        return constant("in_sample", found[0], n_runs, found[1])

    @cached_property
    def run_calibrated(self) -> Calibration:
        """The thresholds by which the first alarms of the held-out runs are judged."""
        design, source, n_runs = self.design, self.source, self.n_runs
        if self.basis == "rule":
            fixed = dict.fromkeys(design.run_budgets, RULE_THRESHOLD)
            return constant("locked", fixed, n_runs, None)
        if isinstance(source, Locked) and source.runs is not None:
            return self._locked("run budget", design.run_budgets, source.runs)
        if isinstance(source, Scores) and self._explore_windows is not None:
            chosen, known = by_runs(
                design, run_maxima(source.values, self._explore_windows.negative)
            )
            return constant("explore", chosen, n_runs, known)
        maxima = self.maxima
        return cross_fit(
            by_runs(design, maxima), n_runs, lambda rows: by_runs(design, maxima[rows])
        )

    def _locked(
        self, what: str, asked: Sequence[float], known: Mapping[int, Mapping[float, float]]
    ) -> Calibration:
        if self.smoothing not in known:
            raise InputError(
                f"score {self.evaluation.name!r}: no locked thresholds for smoothing over "
                f"{self.smoothing} checkpoints, which x_smoothing_sweep asks for; lock again"
            )
        locked = known[self.smoothing]
        for target in (target for target in asked if target not in locked):
            raise InputError(
                f"no locked threshold for the {what} {target:g}; there are thresholds for "
                f"{', '.join(f'{one:g}' for one in locked) or 'none; lock again'}"
            )
        chosen = {target: float(locked[target]) for target in asked}
        source = self.source
        n_runs = source.n_runs if isinstance(source, Locked) else None
        return constant("locked", chosen, self.n_runs, n_runs)

    def alarms(self, target: float) -> WindowAlarms:
        """The alarms by windows at a target's thresholds."""
        if target not in self._by_target:
            self._by_target[target] = self._found(WindowAlarms, target)
        return self._by_target[target]

    def first_alarms(self, budget: float) -> FirstAlarms:
        """The first alarms at the thresholds of a budget of runs."""
        if budget not in self._by_budget:
            self._by_budget[budget] = self._found(FirstAlarms, budget)
        return self._by_budget[budget]

    def _found(self, kind: type[A], at: float) -> A:
        """The alarms of a unit at the thresholds of a target or budget."""
        scores, design = self.evaluation, self.design
        calibrated = self.run_calibrated if kind.unit == "runs" else self.calibrated
        return kind.of(
            scores.values,
            scores.steps,
            scores.event_step,
            calibrated.thresholds[at],
            self.windows,
            horizon=design.horizon,
            safe_gap=design.safe_gap,
            burn_in=design.burn_in,
            present=scores.present,
        )

    def achievable_rates(self, *, per_run: bool) -> NDArray[np.float64]:
        """The false positive rates of all finite thresholds that alarm, ascending, float64 [G].

        Each distinct negative is such a threshold; the first rate is 0 where a positive window
        lies above them all.
        """
        rates, highest = self.negatives.rates(per_run=per_run), self.negatives.values[:1]
        positive = self.evaluation.values[self.windows.positive]
        return np.append(0.0, rates) if (positive > highest).any() else rates

    def smoothed(self, checkpoints: int) -> Judgement:
        """The same judgement of the trailing mean over `checkpoints` checkpoints.

        It is kept, since both units ask for it, until `forget_smoothed`.

        Raises:
            InputError: thresholds are locked, but none for this length.
        """
        if checkpoints == self.smoothing:
            return self
        if checkpoints not in self._smoothed:
            source = self.source
            # What is finite stays so, and a label asks for nothing else of a score.
            made = self._changed(
                evaluation=self.evaluation.smooth(checkpoints),
                source=source.smooth(checkpoints) if isinstance(source, Scores) else source,
                smoothing=checkpoints,
            )
            if isinstance(source, Locked):
                made.calibrated  # noqa: B018 - a length that the lock lacks is refused here
            self._smoothed[checkpoints] = made
        return self._smoothed[checkpoints]

    def forget_smoothed(self) -> None:
        """Let go of the smoothed judgements."""
        self._smoothed.clear()

    def with_horizon(self, design: Design, windows: Windows) -> Judgement:
        """The same judgement by a design that differs in what is positive, and only there.

        Negative windows end at the safe gap, so that they and the thresholds found on them stay
        what they are. `windows` are the labels.
        """
        made = self._changed(design=design, windows=windows)
        made.negatives, made.maxima = self.negatives, self.maxima
        made.calibrated = self.calibrated
        return made

    def select(self, rows: NDArray[Any]) -> Judgement:
        """The same judgement of some of the held-out runs.

        Each keeps its threshold, under `cross_run` that of its fold: fewer runs to calibrate on
        could starve a target, which would say nothing of the score. `in_sample` calibrates on what
        it measures, here the chosen runs.
        """
        chosen = np.asarray(rows, dtype=np.int64)
        if self.calibrated.method == "in_sample":
            evaluation, windows = self.evaluation.select(chosen), self.windows.select(chosen)
            return self._changed(evaluation=evaluation, windows=windows)
        return PartJudgement(self, chosen)

    def _changed(self, **changes: Any) -> Judgement:
        """The same judgement but for some arguments."""
        names = ("evaluation", "source", "design", "basis", "smoothing", "windows")
        return Judgement(**{**{name: getattr(self, name) for name in names}, **changes})


class PartJudgement(Judgement):
    """Some of the runs of a judgement, by its thresholds: what it knows of each run is taken.

    Attributes:
        whole, rows: of which judgement these are which runs, int64 [R].
    """

    def __init__(self, whole: Judgement, rows: NDArray[np.int64]) -> None:
        """Take some rows of a judgement."""
        self.whole, self.rows = whole, rows
        self.source, self.design = whole.source, whole.design
        self.basis, self.smoothing = whole.basis, whole.smoothing
        self._by_target, self._by_budget = {}, {}

    @cached_property
    def evaluation(self) -> Scores:
        """The chosen runs."""
        return self.whole.evaluation.select(self.rows)

    @cached_property
    def windows(self) -> Windows:
        """The labels of their windows."""
        return self.whole.windows.select(self.rows)

    @property
    def n_runs(self) -> int:
        """How many runs were chosen."""
        return len(self.rows)

    @property
    def n_events(self) -> int:
        """How many of them have an event."""
        return int(self.whole.evaluation.has_event[self.rows].sum())

    @cached_property
    def negatives(self) -> Negatives:
        """The scores of their negative windows, sorted."""
        return self.whole.negatives.select(self.rows)

    @cached_property
    def tops(self) -> Tops:
        """The top of their scores."""
        whole, rows = self.whole.tops, self.rows
        return Tops(whole.highest[rows], whole.ties[rows], whole.counts[rows], whole.positive[rows])

    @cached_property
    def calibrated(self) -> Calibration:
        """Their thresholds by windows."""
        return self.whole.calibrated.select(self.rows)

    @cached_property
    def run_calibrated(self) -> Calibration:
        """Their thresholds by runs."""
        return self.whole.run_calibrated.select(self.rows)

    def _found(self, kind: type[A], at: float) -> A:
        whole = self.whole
        alarms = whole.first_alarms(at) if kind.unit == "runs" else whole.alarms(at)
        return cast(A, alarms.select(self.rows))

    def smoothed(self, checkpoints: int) -> Judgement:
        """The same runs of the trailing mean over `checkpoints` checkpoints."""
        return self.whole.smoothed(checkpoints).select(self.rows)

    def forget_smoothed(self) -> None:
        """What is smoothed is kept by the whole."""
