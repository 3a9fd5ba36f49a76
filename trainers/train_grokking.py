"""Train the seeds of a preset under Accelerate.

    python trainers/train_grokking.py --preset smoke --seeds 0:8 --out runs/smoke
    accelerate launch trainers/train_grokking.py --preset paper --seeds 0:256 --out runs/paper
    torchrun --nproc_per_node 2 trainers/train_grokking.py --cpu --preset quick --out runs/quick

The default engine stacks many seeds into one step; with several processes each takes its share of
the seeds. `--engine single` trains one model at a time through `accelerator.prepare`; with several
processes it runs data-parallel. `gmb train` is the same on one process.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig


def main(arguments: list[str] | None = None) -> int:
    """Parse, train, print what was written; the exit code, 2 for bad input."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.FIELD=VALUE")
    parser.add_argument("--seeds", help="e.g. 0:64; the preset's seeds when not given")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engine", choices=("stacked", "single"), default="stacked")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    options = parser.parse_args(arguments)

    from gmb_hf.training.presets import preset
    from gmb_hf.training.seeds import parse_seeds
    from gmb_hf.validation import InputError

    try:
        config = preset(options.preset).changed(options.set)
        seeds = parse_seeds(options.seeds or f"{config.seeds.explore},{config.seeds.evaluate}")
        paths = train(config, seeds, options.out, engine=options.engine, cpu=options.cpu)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from the last saved state", file=sys.stderr)
        return 130
    if paths:
        print("\n".join(str(path) for path in paths))
        print(f"next: gmb explore --runs {options.out}/logs")
    return 0


def train(
    config: RunConfig, seeds: Sequence[int], out: Path, *, engine: str, cpu: bool
) -> list[Path]:
    """Train this process's part; the files of all logs so far on the main process, else none."""
    from gmb_hf.training import single, stacked
    from gmb_hf.training.progress import Bar

    accelerator = single.make_accelerator(cpu=cpu)
    _check_world(accelerator.num_processes)
    main_process = accelerator.is_main_process
    if engine == "stacked":
        seeds = seeds[accelerator.process_index :: accelerator.num_processes]
    done = len(set(seeds) & stacked.finished_seeds(out))
    steps = config.training.steps
    # One bar is enough for a terminal; the other processes train alike.
    shown = Bar(len(seeds) * steps, done * steps) if main_process else contextlib.nullcontext()
    with shown as bar:
        if engine == "single":
            paths = single.train(config, seeds, out, accelerator=accelerator, listener=bar)
        else:
            paths = stacked.train(config, seeds, out, listener=bar, device=accelerator.device.type)
    return paths if main_process else []


def _check_world(processes: int) -> None:
    """Refuse a launch whose processes do not know of each other."""
    from gmb_hf.validation import InputError

    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world != processes:
        raise InputError(
            f"{world} processes were launched but each sees {processes}; on a CPU pass --cpu "
            "and launch with torchrun --nproc_per_node N"
        )


if __name__ == "__main__":
    sys.exit(main())
