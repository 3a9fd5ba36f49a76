"""The power rule: what is still open, and how many held-out runs would settle it.

A first, honest estimate: the true rate is taken to be the estimate, the interval shrinks with the
square root of the number of runs, and four times in five it shall clear its line.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from gmb_hf.benchmark.calibration import runs_to_cross_fit
from gmb_hf.benchmark.intervals import Interval, runs_for_zero
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import LayerB, TargetResult, pass_line
from gmb_hf.benchmark.rates import bootstrap_rate, run_rates
from gmb_hf.benchmark.utility import OperatingPoint
from gmb_hf.preregistration.plan import runs_needed

# Beyond so many times the runs the estimate is a guess about a coin on its edge.
_FARTHEST = 100
# Normal quantiles: an interval of half-width 1.96 se around a fresh estimate clears the line with
# probability .8 when the truth lies 1.96 + .84 se away from it.
_POWER = 1 + 0.8416 / 1.9600


@dataclass(frozen=True)
class OpenQuestion:
    """Something that the held-out runs do not decide.

    Attributes:
        reason: its code.
        text: one clause for the sentence.
        runs: held-out runs in total that would settle the layer it belongs to; None where no
            number can be given.
    """

    reason: str
    text: str
    runs: int | None


def few_events(judgement: Judgement) -> OpenQuestion | None:
    """Fewer events than the preregistration asks for."""
    events, least = judgement.n_events, judgement.prereg.event_count_min
    if events >= least:
        return None
    runs = math.ceil(judgement.evaluation.n_runs * least / events) if events else None
    counted = "1 event is" if events == 1 else f"{events} events are"
    return OpenQuestion("few_events", f"{counted} fewer than {least}", runs)


def open_questions(
    judgement: Judgement, layer_b: LayerB, primary: OperatingPoint
) -> tuple[OpenQuestion, ...]:
    """What `strict` must leave open: empty where layers B and C are decided.

    A layer that fails beyond doubt settles the verdict, whatever else is open: a floor at .5 needs
    no more runs.
    """
    least = judgement.prereg.min_targets_ok
    possible = layer_b.surely_met + layer_b.open_targets
    if layer_b.fpr_floor_detected or possible < least:
        return ()
    coverage = _coverage_question(judgement, primary)
    interval, minimum = primary.coverage_interval, judgement.prereg.coverage_min
    untested = layer_b.at(primary.fpr).few_runs
    if coverage is None and not untested and interval is not None and interval.high < minimum:
        return ()
    questions = [] if coverage is None or untested else [coverage]
    if layer_b.surely_met < least:
        questions += _budget_questions(judgement, layer_b)
    elif untested:
        questions.append(_target_question(judgement, layer_b.at(primary.fpr)))
    return tuple(questions)


def _coverage_question(judgement: Judgement, primary: OperatingPoint) -> OpenQuestion | None:
    interval, minimum = primary.coverage_interval, judgement.prereg.coverage_min
    if interval is None or primary.coverage is None or not interval.low < minimum <= interval.high:
        return None
    runs = _runs_to_clear(judgement.evaluation.n_runs, primary.coverage, minimum, interval)
    text = (
        f"coverage {primary.coverage:.2f} [{interval.low:.2f}, {interval.high:.2f}] straddles "
        f"its minimum {minimum:.2f}"
    )
    return OpenQuestion("interval_straddles", text, runs)


def _budget_questions(judgement: Judgement, layer_b: LayerB) -> list[OpenQuestion]:
    """One question per open target; enough of them must be decided, the nearest first."""
    unsettled = [result for result in layer_b.targets if result.state == "straddles"]
    asked = [_target_question(judgement, result) for result in unsettled]
    met, possible = layer_b.surely_met, layer_b.surely_met + len(asked)
    runs: int | None = 0
    for question, result in sorted(
        zip(asked, unsettled, strict=True), key=lambda pair: pair[0].runs or math.inf
    ):
        if met >= judgement.prereg.min_targets_ok or possible < judgement.prereg.min_targets_ok:
            break
        runs = question.runs
        met, possible = met + result.met, possible - (not result.met)
    return [dataclasses.replace(question, runs=runs) for question in asked]


def _target_question(judgement: Judgement, result: TargetResult) -> OpenQuestion:
    with_negatives, n_runs = judgement.negatives.n_runs, judgement.evaluation.n_runs
    if not with_negatives or result.interval is None:
        prereg = judgement.prereg
        text = (
            "no held-out run has a negative window: none goes on past burn-in "
            f"{prereg.burn_in} to {prereg.safe_gap} steps before its event"
        )
        return OpenQuestion("no_negative_windows", text, None)
    if result.few_runs:
        found, needed = judgement.calibrated.n_runs, runs_needed(result.target)
        text = (
            f"a threshold for {result.target:g} takes {needed} calibration runs with negative "
            f"windows, there are {found}"
        )
        runs: int | None = None
        if judgement.calibrated.method == "cross_run":
            # These calibrate each other; further held-out runs help no other calibration.
            runs = math.ceil(runs_to_cross_fit(needed) * n_runs / with_negatives)
        return OpenQuestion("few_runs", text, runs)
    line = pass_line(result.target, judgement.prereg.fpr_eps)
    low, high = result.interval.low, result.interval.high
    text = (
        f"the rate {result.achieved:.3f} [{low:.3f}, {high:.3f}] at target {result.target:g} "
        f"straddles its line {line:g}"
    )
    return OpenQuestion("interval_straddles", text, _runs_for_rate(judgement, result, line))


def _runs_for_rate(judgement: Judgement, result: TargetResult, line: float) -> int | None:
    """Runs after which the interval clears the line: its bootstrap, and what silence proves."""
    interval, n_runs = result.interval, judgement.evaluation.n_runs
    if interval is None or result.achieved is None:
        return None
    if interval.method == "run bootstrap":
        return _runs_to_clear(n_runs, result.achieved, line, interval)
    silent = math.ceil(n_runs * runs_for_zero(line) / judgement.negatives.n_runs)
    if interval.method == "exact binomial":
        return silent
    sampled = bootstrap_rate(judgement, *run_rates(judgement, result.target))
    if sampled is None or not sampled.low <= line < sampled.high:
        return max(silent, n_runs + 1)
    enough = _runs_to_clear(n_runs, result.achieved, line, sampled)
    return None if enough is None else max(silent, enough)


def _runs_to_clear(n_runs: int, estimate: float, line: float, interval: Interval) -> int | None:
    distance = abs(line - estimate)
    reach = _POWER * (interval.high - estimate if estimate < line else estimate - interval.low)
    if distance * math.sqrt(_FARTHEST) <= reach:
        return None
    return math.ceil(n_runs * (reach / distance) ** 2)
