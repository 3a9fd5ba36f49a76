"""G1 to G3: what the gates of a locked evaluation let through, on scores whose truth is known.

Thresholds come from explore runs of the same configuration, the verdict is that of `judge`, by the
rules and minima of a default design. The tests ask the same of fewer panels.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import norm

from benchmarks.harness import Line
from benchmarks.laws import CADENCE, LAWS, Law, noise, raised
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.verdict import IndicatorRecord, judge
from gmb_hf.core.first_alarm import first_alarms
from gmb_hf.design.design import Design

CHECKPOINTS = 100
SIZES = (40, 64)  # explore runs, and as many held-out runs
NOISE_PANELS = 40  # of each kind of noise and size: 400 in all
PANELS = 400
LARGE = 128

DESIGN = Design.minimal(
    horizon=200,
    safe_gap=300,
    w_event=CADENCE,
    burn_in=2 * CADENCE,
    null_draws=400,
    bootstrap_draws=400,
)
NOISE_DESIGN = DESIGN.replace(event_count_min=20)  # so that ragged runs are asked, too
BUDGET = DESIGN.primary_run_budget

Drawn = Callable[[int, np.random.Generator, str], Scores]
"""Draws a score of so many runs; the name of each begins with a prefix."""


def _drifting(
    n_runs: int, rng: np.random.Generator, prefix: str, *, mean: float, spread: float
) -> Scores:
    """AR(1) noise on a line through time, whose slope may differ between runs."""
    scores = noise(LAWS["autocorrelated"], n_runs, CHECKPOINTS, rng, prefix)
    slopes = mean + spread * rng.normal(size=(n_runs, 1))
    return replace(scores, values=scores.values + slopes * scores.steps / CADENCE)


def _of_law(n_runs: int, rng: np.random.Generator, prefix: str, *, law: Law) -> Scores:
    return noise(law, n_runs, CHECKPOINTS, rng, prefix)


NOISE: Mapping[str, Drawn] = {
    "AR(1)": partial(_of_law, law=LAWS["autocorrelated"]),
    "clock": partial(_drifting, mean=0.2, spread=0.0),
    "trends": partial(_drifting, mean=0.0, spread=0.1),
    "ties": partial(_of_law, law=LAWS["ties"]),
    "ragged lengths": partial(_of_law, law=LAWS["ragged"]),
}
"""Scores that know nothing of the event but what the step tells."""


def locked(held_out: Scores, explore: Scores, design: Design = DESIGN) -> IndicatorRecord:
    """The verdict of a locked evaluation."""
    return judge(Judgement(held_out, explore, design), locked=True)


def noise_panel(kind: str, n_runs: int, seed: int) -> IndicatorRecord:
    """The verdict on noise, by so many explore and as many held-out runs."""
    rng = np.random.default_rng([41, n_runs, seed])
    explore = NOISE[kind](n_runs, rng, "explore")
    return locked(NOISE[kind](n_runs, rng, "held_out"), explore, NOISE_DESIGN)


def panel_at(n_runs: int, seed: int, *, factor: float, detected: float) -> IndicatorRecord:
    """The verdict on a score of which the truth at the locked threshold is chosen.

    Each held-out run has a false alarm with probability `factor` times the primary budget of runs,
    and a rise before its event with probability `detected`, at the threshold that the lock found
    on the explore runs. By windows, and at other budgets, it is as the noise has it.
    """
    rng = np.random.default_rng([42, n_runs, seed])
    by = 50.0  # far above the noise
    explore = raised(_runs(n_runs, rng, "explore"), by, over=10 * CADENCE)
    tau = Judgement(explore, explore, DESIGN).run_calibrated.deployed[BUDGET]
    pool = _runs(max(1000, 20 * n_runs), rng, "held_out")
    false = _false(pool, tau)
    wanted = rng.random(n_runs) < factor * BUDGET
    rows = np.empty(n_runs, dtype=np.int64)
    for held in (False, True):
        rows[wanted == held] = np.flatnonzero(false == held)[: int((wanted == held).sum())]
    held_out = pool.select(rows)
    rises = raised(held_out, by, over=10 * CADENCE).values
    chosen = rng.random((n_runs, 1)) < detected
    return locked(replace(held_out, values=np.where(chosen, rises, held_out.values)), explore)


def panel_of_roc(
    n_runs: int, seed: int, *, at: float, detected: float, checkpoints: int = CHECKPOINTS
) -> IndicatorRecord:
    """The verdict on a score whose curve passes through a point; the lock finds its threshold.

    A threshold at which a share `at` of runs has a false alarm lies below the rise of a share
    `detected` of events.
    """
    rng = np.random.default_rng([43, n_runs, seed])
    both = []
    for prefix in ("explore", "held_out"):
        scores = _runs(n_runs, rng, prefix, checkpoints)
        height = _level(at, checkpoints) + norm.ppf(detected) + rng.normal(size=(n_runs, 1))
        lead = scores.event_step[:, None] - scores.steps
        within = (lead > 0) & (lead <= 10 * CADENCE)
        both.append(replace(scores, values=np.where(within, height, scores.values)))
    explore, held_out = both
    return locked(held_out, explore)


@cache
def _level(share: float, checkpoints: int) -> float:
    """The threshold at which a share of runs has a false alarm, from many of them."""
    scores = _runs(20_000, np.random.default_rng(44), "run", checkpoints)
    return float(np.nanquantile(Judgement(scores, None, DESIGN).maxima, 1 - share))


def _runs(
    n_runs: int, rng: np.random.Generator, prefix: str, checkpoints: int = CHECKPOINTS
) -> Scores:
    """AR(1) noise of runs whose events all leave them a negative window."""
    return noise(Law(correlation=0.9, early=0.4), n_runs, checkpoints, rng, prefix)


def _false(scores: Scores, tau: float) -> NDArray[np.bool_]:
    """Which runs have a false alarm at a threshold, bool [R]."""
    judgement = Judgement(scores, None, DESIGN)
    found = first_alarms(
        scores.values,
        scores.steps,
        scores.event_step,
        tau,
        judgement.windows,
        horizon=DESIGN.horizon,
        safe_gap=DESIGN.safe_gap,
        burn_in=DESIGN.burn_in,
        present=scores.present,
    )
    return found.false


def verdicts(
    panel: Callable[[int], IndicatorRecord], panels: int, *, jobs: int = 2
) -> list[tuple[str, bool, tuple[str, ...]]]:
    """Label, eligibility and reasons of the panels with the seeds 0, 1, ..."""

    def short(seed: int) -> tuple[str, bool, tuple[str, ...]]:
        found = panel(seed)
        return found.label, bool(found.x_alarm_eligible), tuple(found.x_reasons)

    if jobs == 1:
        return [short(seed) for seed in range(panels)]
    found: list[tuple[str, bool, tuple[str, ...]]] = Parallel(n_jobs=jobs)(
        delayed(short)(seed) for seed in range(panels)
    )
    return found


def _summary(found: list[tuple[str, bool, tuple[str, ...]]]) -> str:
    labels = Counter(label for label, _, _ in found)
    reasons = Counter(code for label, _, codes in found if label != SUPPORTED for code in codes)
    said = ", ".join(f"{count} {label}" for label, count in labels.most_common())
    why = ", ".join(f"{code} {count}" for code, count in reasons.most_common(4))
    return said + (f" ({why})" if why else "")


def g1() -> Line:
    """Noise is eligible for an alarm in at most 2 of 400 locked panels."""
    begun, eligible, total, details = time.perf_counter(), 0, 0, []
    for size in SIZES:
        for kind in NOISE:
            found = verdicts(partial(noise_panel, kind, size), NOISE_PANELS)
            own = sum(able for _, able, _ in found)
            eligible, total = eligible + own, total + len(found)
            details.append(
                f"{kind}, {size} + {size} runs: {own} of {len(found)} eligible; {_summary(found)}"
            )
    details.append(f"seeds 0 to {NOISE_PANELS - 1} each; {time.perf_counter() - begun:.0f} s")
    return Line("G1", f"{eligible} of {total}", "<= 2 of 400", eligible <= 2, details)


def g2() -> Line:
    """70% of events at half the budget: supported in at least 80% of panels of 40 + 40 runs.

    That is asked at the threshold of the lock. Beside it, the same point on the score's curve while
    each lock spends what its 40 explore runs make of the budget, with the events within few safe
    gaps, where the clock detects half of them, and within more.
    """
    begun, size = time.perf_counter(), SIZES[0]
    curve = partial(panel_of_roc, size, at=0.5 * BUDGET, detected=0.7)
    cases = {
        "at the locked threshold": partial(panel_at, size, factor=0.5, detected=0.7),
        f"on the curve, {CHECKPOINTS} checkpoints": curve,
        f"on the curve, {2 * CHECKPOINTS} checkpoints": partial(curve, checkpoints=2 * CHECKPOINTS),
    }
    shares, details = [], []
    for name, panel in cases.items():
        found = verdicts(panel, PANELS)
        shares.append(sum(able for _, able, _ in found) / len(found))
        details.append(f"{name}: {shares[-1]:.1%} eligible; {_summary(found)}")
    details.append(f"seeds 0 to {PANELS - 1} each; {time.perf_counter() - begun:.0f} s")
    return Line("G2", f"{shares[0]:.1%}", ">= 80%", shares[0] >= 0.8, details)


def g3() -> Line:
    """Three times the budget: supported in at most 10% of panels of 128 + 128 runs."""
    begun, shares, details = time.perf_counter(), {}, []
    for factor in (1, 2, 3):
        found = verdicts(partial(panel_at, LARGE, factor=factor, detected=0.7), PANELS)
        shares[factor] = sum(label == SUPPORTED for label, _, _ in found) / len(found)
        details.append(f"{factor} x the budget: {shares[factor]:.1%} supported; {_summary(found)}")
    details.append(f"seeds 0 to {PANELS - 1} each; {time.perf_counter() - begun:.0f} s")
    return Line("G3", f"{shares[3]:.1%}", "<= 10%", shares[3] <= 0.1, details)


if __name__ == "__main__":
    lines = [one() for one in (g1, g2, g3)]
    print(*lines, sep="\n")
    sys.exit(not all(line.passed for line in lines))
