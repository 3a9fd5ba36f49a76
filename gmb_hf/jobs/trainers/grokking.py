"""Train the seeds of a preset under Accelerate.

    python -m gmb_hf.jobs.trainers.grokking --preset smoke --seeds 0:8 --out runs/smoke
    accelerate launch -m gmb_hf.jobs.trainers.grokking --preset paper --seeds 0:256 --out runs/paper
    torchrun --nproc_per_node 2 -m gmb_hf.jobs.trainers.grokking --cpu --preset quick --out runs/q

The default engine stacks many seeds into one step; with several processes each takes its share of
the seeds. `--engine single` trains one model at a time through `accelerator.prepare`; with several
processes it runs data-parallel. `gmb train` is the same on one process.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, train, print what was written; the exit code, 2 for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m gmb_hf.jobs.trainers.grokking",
        description="Train the seeds of a preset under Accelerate.",
    )
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE")
    parser.add_argument("--seeds", help="e.g. 0:64; the preset's seeds when not given")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine", choices=("stacked", "single"), default="stacked")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    parser.add_argument("--data", help="the task's rows from the Hub: ORG/NAME@REV")
    parser.add_argument("--track", action="append", default=[], metavar="TRACKER")
    options = parser.parse_args(arguments)

    from gmb_hf.hub.datasets import data_source
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.launch import exit_code, make_accelerator
    from gmb_hf.training.presets import preset

    def work() -> None:
        config = preset(options.preset).changed(options.set)
        seeds = parse_seeds(options.seeds or f"{config.seeds.explore},{config.seeds.evaluate}")
        about = data_source(options.data, config.task) if options.data else {}
        # After the checks: a mistake is reported before torch is imported.
        from gmb_hf.training.seeds import train_seeds

        paths = train_seeds(
            config,
            seeds,
            options.out,
            engine=options.engine,
            about=about,
            track=options.track,
            accelerator=make_accelerator(cpu=options.cpu),
        )
        if paths:
            print("\n".join(str(path) for path in paths))
            print(f"next: gmb explore --runs {options.out}/logs")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
