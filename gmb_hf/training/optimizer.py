"""AdamW as both engines use it: one group for the transformer, one for what a variant adds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from gmb_hf.training.settings import TrainingSettings

MIXER_LR = 10.0  # times the learning rate, for the few numbers that a mixer learns


def adamw(
    parameters: Mapping[str, Tensor],
    mixing: Collection[str],
    training: TrainingSettings,
    *,
    fused: bool | None = None,
) -> torch.optim.AdamW:
    """AdamW over all parameters; decay acts on every one that is not a mixer's own.

    Args:
        parameters: by name.
        mixing: names of the mixers' own parameters: ten times the rate, and no decay.
        training: the numbers.
        fused: as torch's AdamW takes it.
    """
    groups: list[dict[str, Any]] = [
        {"params": [value for name, value in parameters.items() if name not in mixing]}
    ]
    own = [value for name, value in parameters.items() if name in mixing]
    if own:
        groups.append({"params": own, "lr": MIXER_LR * training.lr, "weight_decay": 0.0})
    return torch.optim.AdamW(
        groups,
        lr=training.lr,
        betas=(training.beta1, training.beta2),
        eps=training.eps,
        weight_decay=training.weight_decay,
        fused=fused,
    )
