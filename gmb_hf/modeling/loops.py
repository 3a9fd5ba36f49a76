"""Loops: a fast block that is applied several times within each of several slow cycles.

The last layer is the slow block H, all layers before it the fast block L. With the embedding e,
N cycles and T inner steps:

    z_L = z_H = 0
    for k = 1..N:
        for j = 1..T:  z_L <- LN(L(z_L + z_H + e))
        z_H <- LN(H(z_L + z_H))

and z_H is what the final norm and the output layer read. All steps share the weights of their
block, and gradients run back through all of them. LN has no parameters: every state has the length
sqrt(C), so that the length of an update means the same at every step of a training.

With halting, the output is the mean of z_H over cycles, weighted by the probability of halting
there: a unit reads z_H(k) and halts with lambda_k, what is left after the last but one halts at the
last (Graves 2016; Banino et al. 2021, PonderNet). It learns from the task's loss alone.

References:
- Wang et al. 2025, "Hierarchical Reasoning Model". https://arxiv.org/abs/2506.21734
- Graves 2016, "Adaptive Computation Time for Recurrent Neural Networks".
  https://arxiv.org/abs/1603.08983
- Banino et al. 2021, "PonderNet: Learning to Ponder". https://arxiv.org/abs/2107.05407

This file travels with saved models: it imports torch alone.

Shapes in comments: B sequences, T tokens, C width, N cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def looped(
    embedded: Tensor,
    fast_block: Callable[[Tensor], Tensor],
    slow_block: Callable[[Tensor], Tensor],
    *,
    cycles: int,
    inner_steps: int,
    eps: float,
) -> list[Tensor]:
    """The slow state at the end of every cycle, N of [B, T, C].

    Args:
        embedded: e, [B, T, C].
        fast_block, slow_block: L and H, from [B, T, C] to [B, T, C].
        cycles, inner_steps: how often H is applied, and L within each cycle.
        eps: of the norm.
    """

    def normalised(states: Tensor) -> Tensor:
        return functional.layer_norm(states, states.shape[-1:], eps=eps)

    fast = slow = torch.zeros_like(embedded)
    ends = []
    for _ in range(cycles):
        for _ in range(inner_steps):
            fast = normalised(fast_block(fast + slow + embedded))
        slow = normalised(slow_block(fast + slow))
        ends.append(slow)
    return ends


def halting_shares(logits: Sequence[Tensor]) -> list[Tensor]:
    """The probability of halting at each cycle; together they are 1.

    p_k = lambda_k prod_{i<k} (1 - lambda_i), lambda = sigmoid(logit); the last takes the rest.

    Args:
        logits: of halting at each cycle but the last, N - 1 of [...].

    Returns:
        N of [...].
    """
    left = torch.ones_like(logits[0])
    shares = []
    for logit in logits:
        shares.append(left * logit.sigmoid())
        left = left * (-logit).sigmoid()
    return [*shares, left]


def halting_mean(logits: Sequence[Tensor], ends: Sequence[Tensor]) -> Tensor:
    """The mean of the states of all cycles by the probability of halting there, [..., C]."""
    shares = halting_shares(logits)
    terms = [share.unsqueeze(-1) * end for share, end in zip(shares, ends, strict=True)]
    return torch.stack(terms).sum(0)


class Halting(nn.Module):
    """The halting unit: one number for each state, the logit of halting there.

    It begins with zeros, so that half of what is left halts at each cycle.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        # Not nn.Linear: drawing numbers here would change those of all weights that come after.
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, ends: Sequence[Tensor]) -> Tensor:
        """The mean of the states [..., C] over cycles by the probability of halting there."""
        logits = [(end * self.weight).sum(-1) + self.bias for end in ends[:-1]]
        return halting_mean(logits, ends)
