"""T4, T5 and T5b: what judging costs.

`python -m benchmarks.judging SIDE` measures one side in a process of its own. The shortest of some
repeats counts: what else the machine does can only add to it.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Line, side
from benchmarks.laws import LAWS, noise, raised
from gmb_hf.base.stats import resamples
from gmb_hf.benchmark.judgement import Judgement, Locked
from gmb_hf.benchmark.operationality import diagnose, layer_b
from gmb_hf.benchmark.ranking import layer_a
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.utility import layer_c
from gmb_hf.benchmark.verdict import judge
from gmb_hf.core.nulls import risk_set, uniform_draws
from gmb_hf.core.thresholds import Negatives, spec_threshold
from gmb_hf.design.design import Design

REPEATS = 5
SCANNED = 10_000  # negative windows of both scans; the quadratic one takes a second for them
INDICATORS = 20


def t4() -> Line:
    """Layers A to D, 2,000 draws of each chance baseline and the family for one score, 40 x 601."""
    found, scan = side("judging", "one"), side("judging", "scan")
    passed = found["seconds"] <= 2 and scan["ratio"] >= 1000 and scan["equal"]
    details = [
        f"shortest of {REPEATS}; family of {found['family']}, {found['draws']} draws of each "
        "chance baseline",
        f"threshold scan {scan['ratio']:,.0f}x the quadratic one (target >= 1,000x), equal in "
        f"{scan['targets']} targets: {1e3 * scan['fast']:.2f} ms against {scan['slow']:.2f} s a "
        f"target on {SCANNED:,} windows",
    ]
    if not scan["equal"]:
        details.append("WRONG: the two scans found different thresholds")
    return Line("T4", f"{found['seconds']:.2f} s", "<= 2 s", passed, details)


def t5() -> Line:
    """Layers A to C for 20 indicators on 1,000 runs x 1,000 checkpoints."""
    found = side("judging", "many")
    passed = found["seconds"] <= 30 and found["gigabytes"] <= 4
    details = [
        f"peak memory {found['gigabytes']:.2f} GB (target <= 4 GB), all {INDICATORS} held at once",
        f"per indicator A {found['a']:.2f} s, B {found['b']:.2f} s, C {found['c']:.2f} s, "
        f"diagnostics {found['d']:.2f} s",
    ]
    return Line("T5", f"{found['seconds']:.1f} s", "<= 30 s", passed, details)


def t5b() -> Line:
    """Layers A to D of one score on 10,000 runs x 200 checkpoints: nothing is quadratic in runs."""
    found = side("judging", "wide")
    passed = found["seconds"] <= 20 and found["gigabytes"] <= 1.5 and found["equal"]
    details = [
        f"peak memory {found['gigabytes']:.2f} GB (target <= 1.5 GB), CPU {found['cpu']:.1f} s, "
        f"family of {found['family']}, label {found['label']}",
        f"risk sets of {found['checked']} runs counted by event time and run by run: "
        + ("equal" if found["equal"] else "WRONG, they differ"),
    ]
    return Line("T5b", f"{found['seconds']:.1f} s", "<= 20 s", passed, details)


def quadratic_shares(
    scores: Scores, alarms: NDArray[np.bool_], design: Design
) -> NDArray[np.float64]:
    """The chances of the baseline `risk_set`, asking every run about every event."""
    shares = np.full(scores.n_runs, np.nan)
    for own in np.flatnonzero(scores.has_event):
        event = scores.event_step[own]
        at_risk = ~(scores.event_step < event) & (scores.last_step >= event)
        at_risk[own] = True
        start = max(event - design.horizon, design.burn_in)
        window = (scores.steps >= start) & (scores.steps < event) & scores.present
        shares[own] = (alarms & window).any(axis=1)[at_risk].mean()
    return shares


def quadratic_threshold(scores: Sequence[float], target: float) -> float:
    """The `v0.4` threshold, asking every score about every candidate.

    The candidates are the distinct scores and +infinity; |achieved - target| least, the smaller
    achieved rate on a tie.
    """
    best, chosen = (abs(0.0 - target), 0.0), float("inf")
    for tau in sorted(set(scores), reverse=True):
        alarms = 0
        for score in scores:
            if score >= tau:
                alarms += 1
        achieved = alarms / len(scores)
        if (abs(achieved - target), achieved) < best:
            best, chosen = (abs(achieved - target), achieved), tau
    return chosen


def _design(**overrides: Any) -> Design:
    return Design.minimal(horizon=1000, safe_gap=1500, w_event=10, burn_in=200, **overrides)


def _one() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    law = LAWS["autocorrelated"]
    explore, held_out = noise(law, 40, 601, rng, "explore"), noise(law, 40, 601, rng)
    # Explore runs, no explore runs: what takes longer counts.
    best = max(
        _shortest(lambda: judge(Judgement(held_out, explore, _design()))),
        _shortest(lambda: judge(Judgement(held_out, None, _design()))),
    )
    parts = judge(Judgement(held_out, explore, _design()))
    return {
        "seconds": best,
        "family": parts.layer_D.family_size,
        "draws": parts.layer_C.at(0.05).x_baselines["shift"].draws,
    }


def _shortest(work: Callable[[], Any]) -> float:
    spent = []
    for _ in range(REPEATS):
        resamples.cache_clear()
        uniform_draws.cache_clear()
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return min(spent)


def _scan() -> dict[str, Any]:
    scores = noise(LAWS["ties"], 40, 601, np.random.default_rng(1))
    windows = Judgement(scores, None, _design(protocol="v0.4")).windows
    row, column = np.nonzero(windows.negative)
    # Every run keeps a part, so that both sides see the same windows; half of them are tied.
    kept = np.linspace(0, len(row) - 1, SCANNED).astype(int)
    values = scores.values[row[kept], column[kept]]
    values[::2] += np.random.default_rng(2).normal(size=len(values[::2]))
    listed = values.tolist()
    targets = (0.01, 0.05, 0.10, 0.20)
    begun = time.perf_counter()
    slow = [quadratic_threshold(listed, target) for target in targets]
    slow_seconds = (time.perf_counter() - begun) / len(targets)

    def scan() -> list[float]:
        order = np.argsort(-values, kind="stable")
        runs = row[kept][order]
        negatives = Negatives(values[order], runs, np.bincount(row[kept], minlength=40))
        return [spec_threshold(negatives, target) for target in targets]

    fast_seconds = min(_time(scan) for _ in range(50)) / len(targets)
    return {
        "ratio": slow_seconds / fast_seconds,
        "slow": slow_seconds,
        "fast": fast_seconds,
        "targets": len(targets),
        "equal": slow == scan(),
    }


def _time(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _many() -> dict[str, float]:
    rng = np.random.default_rng(0)
    laws = list(LAWS.values())
    cases = []
    for index in range(INDICATORS):
        law = laws[index % len(laws)]
        explore, held_out = noise(law, 100, 1000, rng, "explore"), noise(law, 1000, 1000, rng)
        cases.append((held_out, explore))
    spent = dict.fromkeys("abcd", 0.0)
    judgements = [Judgement(held_out, explore, _design()) for held_out, explore in cases]
    begun = time.perf_counter()
    for judgement in judgements:
        marks = [time.perf_counter()]
        layer_a(judgement)
        marks.append(time.perf_counter())
        layer_b(judgement)
        marks.append(time.perf_counter())
        utility = layer_c(judgement)
        marks.append(time.perf_counter())
        diagnose(judgement, coverage=utility.at(0.05).coverage)
        marks.append(time.perf_counter())
        for name, seconds in zip(spent, np.diff(marks), strict=True):
            spent[name] += float(seconds)
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    parts = {name: total / INDICATORS for name, total in spent.items()}
    return {"seconds": seconds, "gigabytes": peak, **parts}


def _wide() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    design = Design.minimal(horizon=400, safe_gap=500, w_event=10, burn_in=100)
    equal, checked = True, 300
    for law in LAWS.values():
        small = noise(law, checked, 200, rng)
        high = float(np.nanquantile(small.values, 0.95))
        known = Locked({1: dict.fromkeys(design.fpr_targets, high)})
        found = Judgement(small, known, design).alarms(0.05)
        slow = quadratic_shares(small, found.grid.alarm, design)
        equal &= np.array_equal(risk_set(found), slow, equal_nan=True)
    # It passes every layer, so that every member of the family draws its baselines.
    law = LAWS["autocorrelated"]
    scores = raised(noise(law, 10_000, 200, rng), 8.0, over=design.horizon)
    begun, cpu = time.perf_counter(), time.process_time()
    judged = judge(Judgement(scores, None, design))
    return {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
        "family": judged.layer_D.family_size,
        "label": judged.label,
        "equal": equal,
        "checked": checked,
    }


if __name__ == "__main__":
    sides = {"one": _one, "scan": _scan, "many": _many, "wide": _wide}
    print(json.dumps(sides[sys.argv[1]]()))
