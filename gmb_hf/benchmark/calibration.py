"""Thresholds from negative windows, and nothing else.

`v0.4` takes the observed score whose false positive rate is nearest to the target. `strict` treats
runs, not windows, as exchangeable, and takes a conformal quantile over them: hierarchical
conformal prediction in the sense of Lee, Barber and Willett (2023), "Distribution-free inference
with hierarchical data", where each run weighs the same and spreads its weight over its windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, wraps
from typing import Any, Literal, TypeVar, TypeVarTuple, cast

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.scores import NegativeScores, Scores, Windows, label_windows
from gmb_hf.design.design import Design
from gmb_hf.design.power import promise

Method = Literal["in_sample", "cross_run", "explore", "locked"]
Rule = Callable[[NegativeScores, float], float]
Targets = TypeVarTuple("Targets")
Found = TypeVar("Found")

_LEAVE_ONE_OUT_UP_TO = 40
_FOLDS = 10
# Sums of 1/n over many windows carry rounding errors; without slack m = 19 runs at f = .05, whose
# bound is exactly 0, would get a false infinity. In units of one run's rate.
_SLACK = 1e-9


@dataclass(frozen=True, eq=False)
class Calibration:
    """Thresholds for R evaluation runs.

    Attributes:
        method: where they come from. `locked`: from a lock file; `explore`: calibration runs;
            `cross_run`: for each fold of the evaluation runs, the runs outside it; `in_sample`:
            the same negatives that are then measured.
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


def spec_threshold(negatives: NegativeScores, target: float) -> float:
    """The `v0.4` threshold: |achieved - target| least, the smaller achieved rate on a tie.

    Candidates are the distinct scores and +infinity, at which nothing alarms. O(n log n) through
    the sort in `negatives`; the comparison is exact.
    """
    if not negatives.n_windows:
        return math.inf
    # The target as it is written, .05 and not its binary neighbour: ties depend on it.
    wanted = Fraction(repr(float(target))) * negatives.n_windows
    above = int(np.searchsorted(negatives.windows_at_or_above, math.floor(wanted), side="right"))
    below_count = int(negatives.windows_at_or_above[above - 1]) if above else 0
    if above < len(negatives.distinct):
        above_count = int(negatives.windows_at_or_above[above])
        if above_count - wanted < wanted - below_count:
            return float(negatives.distinct[above])
    return float(negatives.distinct[above - 1]) if above else math.inf


def conformal_threshold(negatives: NegativeScores, target: float) -> float:
    """The `strict` threshold: just above the weighted (1 - f) quantile over runs.

    Each of the m runs with negatives weighs 1/(m+1), spread evenly over its windows, and 1/(m+1)
    lies at +infinity. The quantile q is the smallest score at or below which lies a weight of
    1 - f at least; that is, the runs' rates of exceeding q sum up to at most f (m+1) - 1.

    Returns:
        nextafter(q, inf), or +infinity where the answer is ABSTAIN: m < 1/f - 1.
    """
    allowed = target * (negatives.n_runs + 1) - 1
    if not negatives.n_windows or allowed < -_SLACK:
        return math.inf
    exceeding = np.concatenate([[0.0], negatives.rate_sums[:-1]])
    last = int(np.searchsorted(exceeding, allowed + _SLACK, side="right")) - 1
    return float(np.nextafter(negatives.distinct[last], math.inf))


RULES: Mapping[str, Rule] = {"v0.4": spec_threshold, "strict": conformal_threshold}
"""The threshold rule of each protocol."""


def calibrate(
    protocol: str,
    targets: Sequence[float],
    evaluation: NegativeScores,
    *,
    calibration: NegativeScores | None = None,
    cross_fit: bool = False,
) -> Calibration:
    """Thresholds for the evaluation runs.

    Calibration runs are used where there are any; else `v0.4` calibrates on the evaluation runs
    themselves, as its text says, and `strict`, or either with `cross_fit`, cross-fits over them:
    leave-one-run-out up to 40 runs, 10 folds above.
    """
    n_runs, rule = len(evaluation.counts), RULES[protocol]

    def found(negatives: NegativeScores) -> tuple[dict[float, float], int]:
        return {target: rule(negatives, target) for target in targets}, negatives.n_runs

    deployed, known = found(evaluation if calibration is None else calibration)
    if calibration is None and (protocol == "strict" or cross_fit):
        return _cross_fit(deployed, n_runs, lambda rows: found(evaluation.select(rows)))
    return _constant("in_sample" if calibration is None else "explore", deployed, n_runs, known)


def folds(n_runs: int) -> NDArray[np.int64]:
    """The fold of each run, int64 [R]: its own up to 40 runs, one of 10 above."""
    return np.arange(n_runs) % (n_runs if n_runs <= _LEAVE_ONE_OUT_UP_TO else _FOLDS)


def runs_to_cross_fit(n_needed: int) -> int:
    """The fewest runs of which, by `folds`, `n_needed` at least lie outside every fold."""
    if n_needed < _LEAVE_ONE_OUT_UP_TO:
        return n_needed + 1
    return math.ceil(Fraction(n_needed * _FOLDS, _FOLDS - 1))


def _constant(
    method: Method, chosen: Mapping[float, float], n_runs: int, calibration_runs: int | None
) -> Calibration:
    thresholds = {target: np.full(n_runs, tau) for target, tau in chosen.items()}
    return Calibration(method, thresholds, dict(chosen), calibration_runs)


def _cross_fit(
    deployed: Mapping[float, float],
    n_runs: int,
    of_runs: Callable[[NDArray[np.intp]], tuple[Mapping[float, float], int]],
) -> Calibration:
    """Each fold by the runs outside it: `of_runs` finds thresholds, and on how many runs."""
    fold, known = folds(n_runs), []
    thresholds = {target: np.full(n_runs, math.inf) for target in deployed}
    for held_out in range(int(fold.max(initial=-1)) + 1):
        found, count = of_runs(np.flatnonzero(fold != held_out))
        known.append(count)
        for target, tau in found.items():
            thresholds[target][fold == held_out] = tau
    return Calibration("cross_run", thresholds, dict(deployed), min(known, default=0))


# The first alarm: a budget of runs, whose threshold lies among the runs' greatest negative scores.


def run_maxima(scores: Scores, windows: Windows) -> NDArray[np.float64]:
    """The greatest score over each run's negative windows, float64 [R]; NaN where it has none."""
    maxima = np.where(windows.negative, scores.values, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(windows.negative.any(axis=1), maxima, np.nan)


def run_threshold(maxima: NDArray[np.float64], budget: float, calibration: str) -> float:
    """The threshold at which at most a share `budget` of fresh runs has a false alarm.

    Split conformal prediction (Vovk, Gammerman and Shafer 2005) with a run's greatest negative
    score as its nonconformity: exact in finite samples where runs are exchangeable, ties included.

    Args:
        maxima: of the calibration runs, NaN where a run has no negative window.
        budget: the share of runs.
        calibration: see `promise`.

    Returns:
        Just above the k-th smallest; +infinity where k exceeds their number: ABSTAIN.
    """
    known = np.sort(maxima[~np.isnan(maxima)])
    rank = promise(budget, len(known), calibration).rank
    return math.inf if rank is None else float(np.nextafter(known[rank - 1], math.inf))


def run_thresholds(maxima: NDArray[np.float64], design: Design) -> dict[float, float]:
    """The first-alarm threshold of every budget of a design; see `run_threshold`."""
    rule = design.calibration
    return {budget: run_threshold(maxima, budget, rule) for budget in design.run_budgets}


def calibrate_runs(
    design: Design,
    evaluation: NDArray[np.float64],
    *,
    calibration: NDArray[np.float64] | None = None,
) -> Calibration:
    """First-alarm thresholds for the evaluation runs, by the budgets of the design.

    As in `calibrate`: those of calibration runs, else cross-fitted over the evaluation runs.
    `evaluation` and `calibration` are `run_maxima`.
    """

    def found(maxima: NDArray[np.float64]) -> tuple[dict[float, float], int]:
        return run_thresholds(maxima, design), int((~np.isnan(maxima)).sum())

    deployed, known = found(evaluation if calibration is None else calibration)
    if calibration is None:
        return _cross_fit(deployed, len(evaluation), lambda rows: found(evaluation[rows]))
    return _constant("explore", deployed, len(evaluation), known)


# What every layer takes: scores to judge, how to calibrate them, and the design.


Basis = Literal["promised", "shown", "rule"]
RULE_THRESHOLD = 0.5
"""Between the values of a rule: 0, and 1 where it alarms."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """One score to be judged, how its thresholds are found, and the design.

    Attributes:
        evaluation: the held-out runs.
        calibration: the explore runs; None where there are none.
        design: everything fixed beforehand.
        thresholds: target -> locked threshold; `calibration` is then not consulted.
        smoothed_thresholds: the same for the trailing mean over that many checkpoints, by length.
        run_thresholds, smoothed_run_thresholds: the same for first alarms, by budget of runs.
        calibration_runs: how many runs with negatives the locked thresholds come from, if known.
        cross_fit: under `v0.4`, judge each run by the threshold of the others where nothing else
            sets it; `strict` always does.
        basis: on what a budget of runs rests: "promised" by the calibration runs; "shown" where
            the held-out runs follow another law; "rule" where the values are the alarms, 0 and 1,
            of a rule that nobody calibrated. But for the first, the rate must be shown.
        part_of: a judgement of more runs by the same thresholds, and which rows of it these are.
    """

    evaluation: Scores
    calibration: Scores | None
    design: Design
    thresholds: Mapping[float, float] | None = None
    smoothed_thresholds: Mapping[int, Mapping[float, float]] = field(default_factory=dict)
    calibration_runs: int | None = None
    cross_fit: bool = False
    run_thresholds: Mapping[float, float] | None = None
    smoothed_run_thresholds: Mapping[int, Mapping[float, float]] = field(default_factory=dict)
    basis: Basis = "promised"
    part_of: tuple[Judgement, NDArray[Any]] | None = field(default=None, init=False)

    @property
    def strict(self) -> bool:
        """Whether the `strict` protocol is in force."""
        return self.design.protocol == "strict"

    @property
    def n_events(self) -> int:
        """How many held-out runs have an event."""
        return int(self.evaluation.has_event.sum())

    @cached_property
    def windows(self) -> Windows:
        """The labels of the held-out windows."""
        if self.part_of is not None:
            whole, rows = self.part_of
            return whole.windows.select(rows)
        return label_windows(self.evaluation, self.design)

    @cached_property
    def negatives(self) -> NegativeScores:
        """The scores of the held-out negative windows, sorted."""
        if self.part_of is not None:
            whole, rows = self.part_of
            return whole.negatives.select(rows)
        return NegativeScores.of(self.evaluation, self.windows)

    @property
    def achievable_rates(self) -> NDArray[np.float64]:
        """The false positive rates of all finite thresholds that alarm, ascending, float64 [G].

        Each distinct negative is such a threshold; the first rate is 0 where a positive window
        lies above them all.
        """
        rates, highest = self.negatives.rates(per_run=self.strict), self.negatives.values[:1]
        positive = self.evaluation.values[self.windows.positive]
        return np.append(0.0, rates) if (positive > highest).any() else rates

    @cached_property
    def calibrated(self) -> Calibration:
        """The thresholds by which the held-out runs are judged."""
        targets, explore = self.design.fpr_targets, None
        if self.thresholds is not None:
            return self._locked("target", targets, self.thresholds)
        if self.calibration is not None:
            labels = label_windows(self.calibration, self.design)
            explore = NegativeScores.of(self.calibration, labels)
        protocol, cross_fit = self.design.protocol, self.cross_fit
        return calibrate(
            protocol, targets, self.negatives, calibration=explore, cross_fit=cross_fit
        )

    @cached_property
    def run_calibrated(self) -> Calibration:
        """The thresholds by which the first alarms of the held-out runs are judged."""
        explore = None
        if self.basis == "rule":
            fixed = dict.fromkeys(self.design.run_budgets, RULE_THRESHOLD)
            return _constant("locked", fixed, self.evaluation.n_runs, None)
        if self.run_thresholds is not None:
            return self._locked("run budget", self.design.run_budgets, self.run_thresholds)
        if self.calibration is not None:
            labels = label_windows(self.calibration, self.design)
            explore = run_maxima(self.calibration, labels)
        maxima = run_maxima(self.evaluation, self.windows)
        return calibrate_runs(self.design, maxima, calibration=explore)

    def _locked(
        self, what: str, asked: Sequence[float], locked: Mapping[float, float]
    ) -> Calibration:
        for target in (target for target in asked if target not in locked):
            raise InputError(
                f"no locked threshold for the {what} {target:g}; there are thresholds for "
                f"{', '.join(f'{known:g}' for known in locked) or 'none; lock again'}"
            )
        chosen = {target: float(locked[target]) for target in asked}
        return _constant("locked", chosen, self.evaluation.n_runs, self.calibration_runs)

    @cached_property
    def _alarms(self) -> dict[float, NDArray[np.bool_]]:
        return {}

    def alarms(self, target: float) -> NDArray[np.bool_]:
        """Whether each checkpoint alarms (s >= tau) at this target's thresholds, bool [R, T].

        A score that is NaN or infinite raises no alarm: there is nothing to compare.
        """
        if target not in self._alarms:
            values = self.evaluation.values
            thresholds = self.calibrated.thresholds[target][:, None]
            self._alarms[target] = (values >= thresholds) & np.isfinite(values)
        return self._alarms[target]

    def smoothed(self, checkpoints: int) -> Judgement:
        """The same judgement of the trailing mean over `checkpoints` checkpoints.

        Raises:
            InputError: thresholds are locked, but none for this length.
        """
        if checkpoints == 1:
            return self
        if checkpoints not in self._smoothed:
            self._smoothed[checkpoints] = self._smooth(checkpoints)
        return self._smoothed[checkpoints]

    @cached_property
    def _smoothed(self) -> dict[int, Judgement]:
        return {}

    def forget_smoothed(self) -> None:
        """Let go of the smoothed judgements, which the layers D by windows and by runs share."""
        self._smoothed.clear()

    def _smooth(self, checkpoints: int) -> Judgement:
        def smoothed(
            locked: Mapping[float, float] | None, known: Mapping[int, Mapping[float, float]]
        ) -> Mapping[float, float] | None:
            if locked is not None and checkpoints not in known:
                raise InputError(
                    f"score {self.evaluation.name!r}: no locked thresholds for smoothing over "
                    f"{checkpoints} checkpoints, which x_smoothing_sweep asks for; lock again"
                )
            return None if locked is None else known[checkpoints]

        explore = self.calibration
        changed = replace(
            self,
            evaluation=self.evaluation.smooth(checkpoints),
            calibration=None if explore is None else explore.smooth(checkpoints),
            thresholds=smoothed(self.thresholds, self.smoothed_thresholds),
            run_thresholds=smoothed(self.run_thresholds, self.smoothed_run_thresholds),
        )
        # What is finite stays so, and a label asks for nothing else of a score.
        changed.__dict__["windows"] = self.windows
        return changed

    def with_horizon(self, design: Design, windows: Windows) -> Judgement:
        """The same judgement by a design that differs in what is positive, and only there.

        Negative windows end at the safe gap, so that they, the thresholds found on them and the
        alarms that these raise stay what they are. `windows` are the labels.
        """
        changed = replace(self, design=design)
        changed.__dict__.update(calibrated=self.calibrated, _alarms=self._alarms, windows=windows)
        return changed

    def select(self, rows: NDArray[Any]) -> Judgement:
        """The same judgement of some of the held-out runs.

        Each keeps its threshold, under `cross_run` that of its fold: fewer runs to calibrate on
        could starve a target, which would say nothing of the score. `in_sample` calibrates on what
        it measures, here the chosen runs.
        """
        chosen = replace(self, evaluation=self.evaluation.select(rows))
        if self.calibrated.method == "in_sample":
            for name in ("windows", "negatives"):
                chosen.__dict__[name] = getattr(self, name).select(rows)
            return chosen
        thresholds = {f: tau[rows] for f, tau in self.calibrated.thresholds.items()}
        chosen.__dict__["calibrated"] = replace(self.calibrated, thresholds=thresholds)
        chosen.__dict__["part_of"] = self, rows
        return chosen


def per_run(
    measure: Callable[[Judgement, *Targets], Found],
) -> Callable[[Judgement, *Targets], Found]:
    """Measure once what no run's company changes; a part of a judgement takes it from the whole.

    Decorates a measure that gives arrays [R, ...], one or a named tuple of them, or has `select`.
    """

    @wraps(measure)
    def measured(judgement: Judgement, *targets: *Targets) -> Found:
        key, known = (measure, *targets), judgement.__dict__.setdefault("_per_run", {})
        part = judgement.part_of
        if key not in known and part is None:
            known[key] = measure(judgement, *targets)
        elif key not in known and part is not None:
            found, rows = cast("Any", measured(part[0], *targets)), part[1]
            if isinstance(found, tuple):
                known[key] = type(found)(*(column[rows] for column in found))
            else:
                known[key] = found[rows] if isinstance(found, np.ndarray) else found.select(rows)
        return cast("Found", known[key])

    return measured
