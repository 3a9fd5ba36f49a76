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
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


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

    from gmb_hf.hub.sources import data_source
    from gmb_hf.training.config import parse_seeds
    from gmb_hf.training.launch import exit_code
    from gmb_hf.training.presets import preset

    def work() -> None:
        config = preset(options.preset).changed(options.set)
        seeds = parse_seeds(options.seeds or f"{config.seeds.explore},{config.seeds.evaluate}")
        paths = train(
            config,
            seeds,
            options.out,
            engine=options.engine,
            cpu=options.cpu,
            about=data_source(options.data, config.task) if options.data else {},
            track=options.track,
        )
        if paths:
            print("\n".join(str(path) for path in paths))
            print(f"next: gmb explore --runs {options.out}/logs")

    return exit_code(work)


def train(
    config: RunConfig,
    seeds: Sequence[int],
    out: Path,
    *,
    engine: str,
    cpu: bool,
    about: Mapping[str, Any],
    track: Sequence[str] = (),
) -> list[Path]:
    """Train this process's part; the files of all logs so far on the main process, else none."""
    from gmb_hf.training import seeds as training
    from gmb_hf.training.folder import finished_seeds, log_paths
    from gmb_hf.training.launch import Bar, Listener, make_accelerator, own_share
    from gmb_hf.training.tracking import SeedTracking, Tracking, installed

    present, notes = installed(track)
    accelerator = make_accelerator(cpu=cpu)
    main_process = accelerator.is_main_process
    if engine == "stacked":
        seeds = own_share(seeds, accelerator)
    done = len(set(seeds) & finished_seeds(out))
    steps = config.training.steps
    # One bar is enough for a terminal; the other processes train alike.
    shown = (
        Bar(len(seeds) * steps, done * steps)
        if main_process
        else contextlib.nullcontext(Listener())
    )
    for note in notes if main_process else ():
        print(f"note: {note}", file=sys.stderr)
    if engine == "single" and not main_process:
        present = []  # every process trains the same seeds
    project: Any = {"project": "gmb-train", "config": config.training_identity()}
    with shown as heard, Tracking(present, out, **project) as tracking:
        bar = SeedTracking(tracking, heard) if present else heard
        if engine == "single":
            given: Any = {"accelerator": accelerator, "about": about}
            paths = training.train_single(config, seeds, out, listener=bar, **given)
        else:
            given = {
                "device": accelerator.device.type,
                "callbacks": training.Callbacks(about=about),
            }
            training.train_stacked(config, seeds, out, listener=bar, **given)
            accelerator.wait_for_everyone()
            paths = log_paths(out)
    return paths if main_process else []


if __name__ == "__main__":
    sys.exit(main())
