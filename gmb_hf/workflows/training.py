"""Train seeds with a progress bar, by either engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gmb_hf.training.config import RunConfig
from gmb_hf.training.settings import DEVICES, ENGINES
from gmb_hf.validation import InputError, choose


def train_seeds(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    engine: str = "stacked",
    device: str = "auto",
) -> list[Path]:
    """Train what is missing in `out` and return the files of all logs; see `stacked.train`.

    Raises:
        InputError: no such engine or device, another config in the folder, or it cannot be
            written to.
    """
    choose("engine", engine, ENGINES, where="--engine")
    choose("device", device, DEVICES, where="--device")
    import torch

    from gmb_hf.training import single, stacked
    from gmb_hf.training.progress import Bar, Listener

    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        raise InputError("--device cuda: torch sees no CUDA device here; use --device cpu")
    chosen = "cuda" if has_cuda and device != "cpu" else "cpu"
    steps = config.training.steps
    folder = Path(out)
    stacked.claim(folder, config)

    def work(listener: Listener | None) -> list[Path]:
        if engine == "single":
            accelerator = single.make_accelerator(cpu=chosen == "cpu")
            return single.train(config, seeds, folder, accelerator=accelerator, listener=listener)
        return stacked.train(config, seeds, folder, listener=listener, device=chosen)

    done = len(set(seeds) & stacked.finished_seeds(folder))
    if done == len(seeds):
        return work(None)
    with Bar(len(seeds) * steps, done * steps) as bar:
        return work(bar)
