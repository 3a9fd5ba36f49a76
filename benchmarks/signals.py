"""T13: what the columns of published signals cost, as a share of the training time.

The preset `quick`; all that `training.observables=published` records beside the usual columns. The
unit of the lines below is G, one forward and backward pass of all seeds over their training rows.
A recorder that "all" has too is measured by itself, not in the share.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Line, median, side

REPEATS = 5
CADENCES = (10, 25)
WARM_UP = 32  # checkpoints, so that every window is full


def t13() -> Line:
    """The share at a checkpoint every 25 steps, target at most 60%; at 10 steps beside it."""
    found = [side("signals") for _ in range(3)]
    shares = {
        every: median([each["published"] / (every * each["step"]) for each in found])
        for every in CADENCES
    }
    last = found[-1]
    details = [
        f"{shares[10]:.0%} at a checkpoint every 10 steps; a step {1e3 * last['step']:.1f} ms, "
        f"G {1e3 * last['gradient']:.1f} ms, the cheap columns {1e3 * last['published']:.1f} ms",
        *(
            f"{name} ({kind}): {seconds / last['gradient']:.2f} G"
            for kind in ("cheap", "costly")
            for name, seconds in last[kind].items()
        ),
    ]
    return Line("T13", f"{shares[25]:.0%}", "<= 60%", shares[25] <= 0.6, details)


def _measure() -> dict[str, Any]:
    import torch

    from gmb_hf.training.ensemble import Ensemble, wanted
    from gmb_hf.training.launch import keep_freed_memory
    from gmb_hf.training.presets import preset
    from gmb_hf.training.published import CHEAP, DEAR
    from gmb_hf.training.recorders import Checkpoint

    keep_freed_memory()
    config = preset("quick").changed(["training.observables=all"])
    seeds = range(config.training.seeds_at_once)
    ensemble = Ensemble(config, seeds, compiled=wanted(config, 2 * len(seeds)))
    for _ in range(3):
        ensemble.gradients(keep_logits=True)
        ensemble.update()

    def step() -> None:
        ensemble.gradients()
        ensemble.update()

    steps = _seconds(step)
    gradient = _seconds(lambda: ensemble.gradients(keep_logits=True))
    losses, logits = ensemble.gradients(keep_logits=True)
    with torch.no_grad():
        test_logits, hidden = ensemble.test.logits(ensemble.weights)
    updates = ensemble.last_updates()
    recorders = {
        kind: {each.__name__: each(ensemble) for each in group}
        for kind, group in (
            ("cheap", CHEAP),
            ("costly", DEAR),
        )
    }

    def checkpoint() -> Checkpoint:
        return Checkpoint(ensemble, losses, logits, test_logits, hidden, updates)

    @torch.no_grad()
    def all_cheap() -> None:
        now = checkpoint()
        for recorder in recorders["cheap"].values():
            recorder.measure(now)

    for _ in range(WARM_UP):
        all_cheap()
    found: dict[str, Any] = {
        kind: {
            name: _seconds(
                torch.no_grad()(lambda one=one: one.measure(checkpoint())),
                repeats=REPEATS if kind == "cheap" else 1,
            )
            for name, one in group.items()
        }
        for kind, group in recorders.items()
    }
    return {**found, "step": steps, "gradient": gradient, "published": _seconds(all_cheap)}


def _seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    if repeats > 1:
        call()
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return median(spent)


if __name__ == "__main__":
    print(json.dumps(_measure()))
