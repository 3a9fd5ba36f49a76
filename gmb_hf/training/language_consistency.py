"""Self-consistency of a language model in training: do samples from it agree with each other?

Prompts are the beginnings of held-out blocks; no label is read. The numbers that decide the samples
are the same at every checkpoint and in every run, so that what changes is the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import nn

from gmb_hf.tasks.text_consistency import disagreement
from gmb_hf.training.continuations import DivergedError, continuations
from gmb_hf.training.language_settings import ConsistencySettings
from gmb_hf.training.language_tokens import spaced_blocks

_ROWS = 256  # continuations written at once


def self_consistency(
    model: nn.Module,
    held_out: NDArray[Any],
    settings: ConsistencySettings,
    accelerator: Accelerator,
) -> dict[str, float]:
    """The observable `self_consistency_disagreement`; every process must call it.

    NaN where the model has diverged: nobody writes what its samples agree on.

    Args:
        model: as Accelerate prepared it; it is left in evaluation mode.
        held_out: a stream of tokens, [N].
        settings: how many prompts and samples, and how long.
        accelerator: whose processes share the prompts.
    """
    prompts = spaced_blocks(held_out, settings.prompt_tokens, settings.prompts)[:, :-1]
    own = range(accelerator.process_index, len(prompts), accelerator.num_processes)
    total = torch.zeros((), dtype=torch.float64, device=accelerator.device)
    plain = accelerator.unwrap_model(model).eval()
    at_once = max(1, _ROWS // settings.samples)
    for start in range(0, len(own), at_once):
        total += _disagreeing(plain, prompts, own[start : start + at_once], settings, total.device)
    found = accelerator.reduce(total, reduction="sum")
    return {"self_consistency_disagreement": float(found) / len(prompts)}


def _disagreeing(
    model: Any,
    prompts: NDArray[np.int64],
    numbers: Sequence[int],
    settings: ConsistencySettings,
    device: torch.device,
) -> float:
    """The sum of the disagreement over prompts of these numbers; NaN of a diverged model."""
    k, length = settings.samples, settings.new_tokens
    draws = np.concatenate([_draws(number, k, length) for number in numbers])
    rows = torch.from_numpy(np.repeat(prompts[numbers], k, axis=0)).to(device)
    try:
        written = continuations(
            model, rows, new_tokens=length, draws=draws, temperature=settings.temperature
        )
    except DivergedError:
        return math.nan
    samples = written.view(len(numbers), k, length).tolist()
    return len(numbers) * disagreement([list(map(tuple, row)) for row in samples])


def _draws(prompt: int, samples: int, length: int) -> NDArray[np.float64]:
    return np.random.default_rng(prompt).random((samples, length))
