"""O1: what all observables cost, as a share of the training time (quick preset).

What a checkpoint's own step takes longer than the others counts as measuring.
"""

from __future__ import annotations

import json
import time
from typing import Any

from benchmarks.harness import Line, median, side

CHECKPOINTS = 12


def o1() -> Line:
    """The time that measuring takes over the time that training takes, target under 20%."""
    found = [side("observing") for _ in range(3)]
    share = median([each["measuring"] / each["training"] for each in found])
    details = [
        f"training {1e3 * found[-1]['training']:.1f} ms, measuring "
        f"{1e3 * found[-1]['measuring']:.1f} ms a checkpoint interval; {found[-1]['count']} "
        "observables"
    ]
    return Line("O1", f"{share:.1%}", "< 20%", share < 0.2, details)


def _measure() -> dict[str, Any]:
    from gmb_hf.training.launch import keep_freed_memory
    from gmb_hf.training.observables import Observer
    from gmb_hf.training.presets import preset
    from gmb_hf.training.stacked import SeedStack, wanted

    keep_freed_memory()
    config = preset("quick")
    seeds = range(config.training.seeds_at_once)
    stack = SeedStack(config, seeds, compiled=wanted(config, 2 * len(seeds)))
    observer = Observer(stack)
    plain, kept_steps, measuring = [], [], []
    count = 0
    every = config.training.checkpoint_every
    for step in range(CHECKPOINTS * every):
        at_checkpoint = step % every == 0
        start = time.perf_counter()
        losses, logits = stack.gradients(keep_logits=at_checkpoint)
        middle = time.perf_counter()
        if at_checkpoint:
            count = len(observer.measure(losses, logits))
        after = time.perf_counter()
        stack.update()
        spent = (middle - start) + (time.perf_counter() - after)
        if step >= 2 * every:  # the first intervals compile and warm up
            (kept_steps if at_checkpoint else plain).append(spent)
            if at_checkpoint:
                measuring.append(after - middle)
    extra = max(0.0, median(kept_steps) - median(plain))
    return {
        "training": median(plain) * every,
        "measuring": median(measuring) + extra,
        "count": count,
    }


if __name__ == "__main__":
    print(json.dumps(_measure()))
