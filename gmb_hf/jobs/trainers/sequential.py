"""Train tasks one after the other, and measure what is kept, under Accelerate.

    python -m gmb_hf.jobs.trainers.sequential --suite formal --preset quick --out runs/formal
    accelerate launch -m gmb_hf.jobs.trainers.sequential --suite modular --preset replication \\
        --variants dense,banded-256,sort-4 --seeds 0:8 --out runs/modular
    torchrun --nproc_per_node 2 -m gmb_hf.jobs.trainers.sequential --cpu --suite modular \\
        --out runs/two

Several processes share the seeds of each variant; the same command resumes. `gmb sequential run` is
the same on one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train, print what was written; the exit code, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m gmb_hf.jobs.trainers.sequential",
        description="Train tasks one after the other, and measure what is kept, under Accelerate.",
    )
    parser.add_argument("--suite", required=True, help="modular or formal")
    parser.add_argument("--preset", default="quick", help="replication or quick")
    parser.add_argument("--variants", default="dense", help="e.g. dense,banded-256,sort-4")
    parser.add_argument("--seeds", default="0:8", help="e.g. 0:8 or 1337,42,7")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--order", help="tasks in the order of training, with commas")
    parser.add_argument("--steps", help="updates in each phase, or one number a phase")
    parser.add_argument("--stop-loss", type=float, help="held-out loss that ends a seed's phase")
    parser.add_argument("--stop-early", help="in which phases, e.g. 1,2; all if not given")
    parser.add_argument("--carry-optimizer", action="store_true")
    parser.add_argument("--op-token", help="shared or distinct")
    parser.add_argument("--loss-positions", help="answer or all")
    parser.add_argument("--compat-batch", action="store_true")
    parser.add_argument("--data-seed", type=int)
    parser.add_argument("--prime", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE")
    parser.add_argument("--save-models", default="last", help="last, all or none")
    parser.add_argument("--track", action="append", default=[], metavar="TRACKER")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    options = parser.parse_args(arguments)

    from gmb_hf.training.launch import exit_code

    return exit_code(lambda: train(options))


def train(options: argparse.Namespace) -> None:
    """Train this process's seeds; the main process reports on all of them."""
    from gmb_hf.protocol.sequential.run import parse_variants, run_sequential, sequential_config
    from gmb_hf.training.config import parse_seeds

    config = sequential_config(options.suite, options.preset, vars(options), options.set)
    variants, seeds = parse_variants(options.variants), parse_seeds(options.seeds)

    from gmb_hf.training.launch import make_accelerator

    finished = run_sequential(
        config,
        variants,
        seeds,
        options.out,
        save_models=options.save_models,
        track=options.track,
        accelerator=make_accelerator(cpu=options.cpu),
    )
    if finished is None:
        return
    from gmb_hf.hub.models import write_cards

    for note in (*finished.notes, *write_cards(options.out)[1]):
        print(f"note: {note}")
    print("\n".join(str(path) for path in finished.files))
    print(f"next: {finished.following}")


if __name__ == "__main__":
    sys.exit(main())
