"""Several processes of one training: whether they know of each other, and who trains what."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, InitProcessGroupKwargs, broadcast_object_list

from gmb_hf.validation import InputError

# Processes wait for the slowest one at the end; the default gives up after minutes.
_PATIENCE = timedelta(days=30)


def make_accelerator(*, cpu: bool, **settings: Any) -> Accelerator:
    """An Accelerator that cuts each batch over its processes.

    Args:
        cpu: train on the CPU; needed where several processes share one.
        settings: of the Accelerator, such as `mixed_precision`.

    Raises:
        InputError: several processes were launched, but this one does not see the others.
    """
    accelerator = Accelerator(
        cpu=cpu,
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        kwargs_handlers=[InitProcessGroupKwargs(timeout=_PATIENCE)],
        **settings,
    )
    check_world(accelerator.num_processes)
    return accelerator


def check_world(processes: int) -> None:
    """Refuse a launch whose processes do not know of each other.

    Args:
        processes: how many this process sees.

    Raises:
        InputError: WORLD_SIZE, which the launcher sets, is another number.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world != processes:
        raise InputError(
            f"{world} processes were launched but each sees {processes}; on a CPU pass --cpu "
            "and launch with torchrun --nproc_per_node N"
        )


def own_share(seeds: Sequence[int], accelerator: Accelerator) -> Sequence[int]:
    """The seeds that this process trains: every n-th, so that all have equally many."""
    return seeds[accelerator.process_index :: accelerator.num_processes]


def on_main(accelerator: Accelerator, work: Callable[[], Any]) -> None:
    """Do work in the main process; the others wait for it, and fail where it fails.

    Raises:
        InputError: the work raised it, in every process.
    """
    faults: list[str | None] = [None]
    if accelerator.is_main_process:
        try:
            work()
        except InputError as error:
            faults = [str(error)]
    fault = broadcast_object_list(faults)[0]
    if fault is not None:
        raise InputError(fault)
