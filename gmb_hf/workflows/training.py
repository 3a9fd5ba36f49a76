"""Train seeds with a progress bar, by either engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf.training.config import RunConfig
from gmb_hf.training.devices import chosen_device
from gmb_hf.training.settings import ENGINES
from gmb_hf.validation import InputError, choose

if TYPE_CHECKING:
    from gmb_hf.training.companion import Beside


def train_seeds(
    config: RunConfig,
    seeds: Sequence[int],
    out: str | Path,
    *,
    engine: str = "stacked",
    device: str = "auto",
    beside: Beside | None = None,
    about: Mapping[str, Any] | None = None,
    keep: Sequence[int] = (),
) -> list[Path]:
    """Train what is missing in `out` and return the files of all logs; see `stacked.train`.

    Args:
        config, seeds, out, beside: as there.
        engine: "stacked" or "single".
        device: "auto", "cpu" or "cuda".
        about: what else decides the logs, e.g. where the data came from; it stands in their
            metadata and in the folder's config.
        keep: seeds whose models are kept.

    Raises:
        ValueError: the single engine has nobody `beside` it.
        InputError: no such engine or device, another config in the folder, it cannot be written
            to, or a model to keep is of no seed or gone.
    """
    for seed in keep:
        if seed not in seeds:
            raise InputError(f"--save-models: seed {seed} is not trained here; see --seeds")
    choose("engine", engine, ENGINES, where="--engine")
    chosen = chosen_device(device)
    if beside is not None and engine == "single":
        raise ValueError("only the stacked engine measures something beside the observables")
    from gmb_hf.training import single, stacked
    from gmb_hf.training.companion import Beside
    from gmb_hf.training.processes import make_accelerator
    from gmb_hf.training.progress import Bar, Listener

    steps = config.training.steps
    folder = Path(out)
    beside = beside or Beside()
    beside = replace(beside, about={**beside.about, **(about or {})})
    stacked.claim(folder, config, beside.about)

    def work(listener: Listener | None) -> list[Path]:
        if engine == "single":
            accelerator = make_accelerator(cpu=chosen == "cpu")
            return single.train(
                config,
                seeds,
                folder,
                accelerator=accelerator,
                listener=listener,
                about=beside.about,
                keep=keep,
            )
        return stacked.train(
            config, seeds, folder, listener=listener, device=chosen, beside=beside, keep=keep
        )

    done = len(set(seeds) & stacked.finished_seeds(folder))
    if done == len(seeds):
        return work(None)
    with Bar(len(seeds) * steps, done * steps) as bar:
        return work(bar)
