"""T13: what the columns of published signals cost, as a share of the training time.

The preset `quick`; all that `training.observables=published` records beside the usual columns. The
unit of the lines below is G, one forward and backward pass of all seeds over their training rows.
A recorder that "all" has too is measured by itself, not in the share.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Line, median, side

if TYPE_CHECKING:
    from gmb_hf.training.recorders import Recorder

REPEATS = 5
CADENCES = (10, 25)
WARM_UP = 52  # checkpoints, so that every window is full


def t13() -> Line:
    """The share at a checkpoint every 25 steps, target at most 60%; at 10 steps beside it."""
    cheap, costly = side("signals", "cheap"), side("signals", "costly")
    total = sum(cheap["recorders"].values())
    share = {every: total / (every * cheap["step"]) for every in CADENCES}
    details = [
        f"{share[10]:.0%} at a checkpoint every 10 steps; a step {1e3 * cheap['step']:.1f} ms, "
        f"G {1e3 * cheap['gradient']:.1f} ms, the cheap columns {1e3 * total:.1f} ms",
        *(
            f"{name} ({kind}): {seconds / found['gradient']:.2f} G"
            for kind, found in (("cheap", cheap), ("costly", costly))
            for name, seconds in found["recorders"].items()
        ),
    ]
    return Line("T13", f"{share[25]:.0%}", "<= 60%", share[25] <= 0.6, details)


def _measure(kind: str) -> dict[str, Any]:
    import torch

    from gmb_hf.training.launch import keep_freed_memory
    from gmb_hf.training.presets import preset
    from gmb_hf.training.recorders import CheckpointState
    from gmb_hf.training.seeds import CHEAP, DEAR
    from gmb_hf.training.stacked import SeedStack, wanted

    keep_freed_memory()
    config = preset("quick").changed(["training.observables=all"])
    seeds = range(config.training.seeds_at_once)
    stack = SeedStack(config, seeds, compiled=wanted(config, 2 * len(seeds)))

    def step() -> None:
        stack.gradients()
        stack.update()

    steps = _seconds(step, REPEATS)
    gradient = _seconds(lambda: stack.gradients(keep_logits=True), REPEATS)
    losses, logits = stack.gradients(keep_logits=True)
    updates = stack.last_updates()
    with torch.no_grad():
        test_logits, hidden = stack.test.logits(stack.weights)
        recorders = {}
        for recorder in CHEAP if kind == "cheap" else DEAR:
            one = recorder(stack)

            def measure(one: Recorder = one) -> None:
                # A checkpoint of its own: each pays for the hidden states that others share.
                now = CheckpointState(stack, losses, logits, test_logits, hidden, updates)
                one.measure(now)

            for _ in range(WARM_UP if kind == "cheap" else 0):
                measure()
            recorders[recorder.__name__] = _seconds(measure, REPEATS if kind == "cheap" else 1)
    return {"recorders": recorders, "step": steps, "gradient": gradient}


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Median time of a call; one that is repeated is made once before."""
    if repeats > 1:
        call()
    spent = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return median(spent)


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1])))
