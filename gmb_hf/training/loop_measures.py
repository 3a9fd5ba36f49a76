"""What the states of a looped model show at a checkpoint, as functions of stacked tensors.

All states are those at EQ, where the answer is read, on the held-out rows, of which no label is
asked. H is the last layer, L the layers before it; z_L(k,j) is the state after inner step j of
cycle k, z_H(k) the one after cycle k, and both begin at zero. The norm keeps every state at the
length sqrt(d), so lengths are Euclidean norms over sqrt(d): 1 is a whole state, 0 is rest.

    r_L(k,j) = |z_L(k,j) - z_L(k,j-1)|,  z_L(k,0) = z_L(k-1,T)      r_H(k) = |z_H(k) - z_H(k-1)|

| observable                  | what it is                                                        |
|-----------------------------|-------------------------------------------------------------------|
| fast_update_K_J             | r_L(K,J), mean over rows                                          |
| slow_update_K               | r_H(K), mean over rows                                            |
| settling_qQ_at_E            | Q% quantile of the first j with r_L(k,j) <= E%, T + 1 if none     |
| reset_share_at_E            | share of d(k) >= E%, where d(k) = r_L(k,1) - r_L(k,T), k > 1      |
| reset_spike                 | median of d(k), k > 1                                             |
| state_distance_qQ           | Q% quantile of |z_H(k) - z_L(k,T)|                                |
| slow_, fast_participation   | participation ratio of the covariance of z_H(k), of z_L(k,T)      |
| halting_steps, _variance    | mean and variance of the cycle at which a row halts               |
| halting_margin              | logit of halting against going on, mean over cycles but the last  |

Quantiles and shares are over rows and cycles together, and so are covariances. The first cycle
starts from nothing and resets nothing: with a single cycle there is no reset to measure. The
cycle at which a row halts is a random one; its variance is over rows and over that.

Shapes: S models, m rows, d width, N cycles, T inner steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gmb_hf.modeling.loops import halting_shares
from gmb_hf.runs.loop_columns import LEVELS, at_level
from gmb_hf.training.loops import Loops, Trace
from gmb_hf.training.measures import participation_ratio

QUANTILES = (50, 90)  # per cent


def loop_observables(
    trace: Trace, loops: Loops, logits: Sequence[Tensor] | None = None
) -> dict[str, Tensor]:
    """All observables of the table above, [S] each.

    Args:
        trace: the states at EQ, [S, m, d] each.
        loops: of the model.
        logits: of halting at each cycle but the last, [S, m] each; of a model with halting.
    """
    fast = torch.stack(trace.fast, dim=1).unflatten(1, (loops.cycles, loops.inner_steps))
    slow = torch.stack(trace.slow, dim=1)  # [S, N, m, d]
    fast_updates = _lengths(_changes(fast.flatten(1, 2))).unflatten(1, fast.shape[1:3])
    slow_updates = _lengths(_changes(slow))  # [S, N, m]
    found = {
        f"fast_update_{cycle + 1}_{step + 1}": fast_updates[:, cycle, step].mean(-1)
        for cycle in range(loops.cycles)
        for step in range(loops.inner_steps)
    }
    found |= {
        f"slow_update_{cycle + 1}": slow_updates[:, cycle].mean(-1) for cycle in range(loops.cycles)
    }
    found |= _settling(fast_updates)
    if loops.cycles > 1:
        found |= _resets(fast_updates[:, 1:, 0] - fast_updates[:, 1:, -1])
    ends = fast[:, :, -1]  # [S, N, m, d]
    found |= _quantiles("state_distance_q{}", _lengths(slow - ends))
    found["slow_participation"] = participation_ratio(slow.flatten(1, 2))
    found["fast_participation"] = participation_ratio(ends.flatten(1, 2))
    return found if logits is None else found | _halting(logits)


def about(loops: Loops, layers: int) -> dict[str, Any]:
    """How the observables were taken, for the metadata of a log."""
    return {
        "slow_block": f"layer {layers}",
        "fast_block": "layer 1" if layers == 2 else f"layers 1 to {layers - 1}",
        "cycles": loops.cycles,
        "inner_steps": loops.inner_steps,
        "halting": loops.halting,
        "states": "at EQ, all held-out rows, at every inner step and cycle end",
        "norm": "Euclidean, over sqrt(width), which is the length of every state",
        "projection": "identity",
        "levels_percent": list(LEVELS),
    }


def _changes(states: Tensor) -> Tensor:
    """Each state minus the one before it, the first minus zero: [S, k, m, d]."""
    return torch.cat([states[:, :1], states[:, 1:] - states[:, :-1]], dim=1)


def _lengths(states: Tensor) -> Tensor:
    """Euclidean norms over sqrt(d), [..., d] -> [...]."""
    lengths: Tensor = states.norm(dim=-1) / math.sqrt(states.shape[-1])
    return lengths


def _quantiles(name: str, values: Tensor) -> dict[str, Tensor]:
    """Quantiles of [S, N, m] over cycles and rows, [S] each."""
    at = torch.tensor(QUANTILES, dtype=values.dtype, device=values.device) / 100
    found = torch.quantile(values.flatten(1), at, dim=1)
    return {name.format(percent): found[i] for i, percent in enumerate(QUANTILES)}


def _settling(updates: Tensor) -> dict[str, Tensor]:
    """First hitting times of [S, N, T, m], by level and quantile."""
    lowest = updates.cummin(dim=2).values
    found: dict[str, Tensor] = {}
    for level in LEVELS:
        # One more than the steps before the first that lies below.
        first = 1 + (lowest > level / 100).sum(2).to(updates.dtype)
        found |= _quantiles(at_level("settling_q{}", level), first)
    return found


def _resets(spikes: Tensor) -> dict[str, Tensor]:
    """Shares and median of [S, N - 1, m]."""
    spikes = spikes.flatten(1)
    shares = {
        at_level("reset_share", level): (spikes >= level / 100).to(spikes.dtype).mean(1)
        for level in LEVELS
    }
    return {**shares, "reset_spike": torch.quantile(spikes, 0.5, dim=1)}


def _halting(logits: Sequence[Tensor]) -> dict[str, Tensor]:
    shares = torch.stack(halting_shares(logits), dim=1)  # [S, N, m]
    cycle = torch.arange(1, shares.shape[1] + 1, dtype=shares.dtype, device=shares.device)
    chance = shares.mean(2)  # of each cycle, over rows: [S, N]
    mean = (chance * cycle).sum(1)
    return {
        "halting_steps": mean,
        "halting_variance": (chance * (cycle - mean.unsqueeze(1)).square()).sum(1),
        "halting_margin": torch.stack(list(logits), dim=1).mean((1, 2)),
    }
