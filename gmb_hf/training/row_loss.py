"""Cross-entropy and accuracy of nodes that several rows share, so that each has several targets.

Shapes: S models, K nodes, d width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gmb_hf.training.fused import LAYER_NORM_EPSILON, normalise


class _TargetLoss(torch.autograd.Function):
    """The weighted cross-entropy of every model; its gradient is formed in the forward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, head: Tensor, head_bias: Tensor, targets: Tensor) -> Tensor:
        width = x.shape[-1]
        normed, mean, inverse = torch.native_layer_norm(x, (width,), None, None, LAYER_NORM_EPSILON)
        scores = torch.baddbmm(head_bias, normed, head.transpose(1, 2)).log_softmax(-1)
        losses = -(scores * targets).sum((1, 2))
        d_logits = scores.exp_().mul_(targets.sum(-1, keepdim=True)).sub_(targets)
        ctx.save_for_backward(x, normed, mean, inverse, d_logits, head)
        return losses

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, normed, mean, inverse, d_logits, head = ctx.saved_tensors
        scaled = d_logits * gradients[0].view(-1, 1, 1)
        dx = torch.ops.aten.native_layer_norm_backward(
            torch.bmm(scaled, head),
            x,
            x.shape[-1:],
            mean,
            inverse,
            None,
            None,
            [True, False, False],
        )[0]
        d_head = torch.bmm(scaled.transpose(1, 2), normed)
        return dx, d_head, scaled.sum(1, keepdim=True), None


def target_loss(x: Tensor, head: Tensor, head_bias: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of every model, the targets' shares as weights: [S].

    Args:
        x: the residual stream, [S, K, d].
        head: [S, V, d] and head_bias: [S, 1, V], the final norm folded in.
        targets: the share of each token after each node, [S or 1, K, V].
    """
    losses: Tensor = _TargetLoss.apply(x, head, head_bias, targets)  # type: ignore[no-untyped-call]
    return losses


def target_results(
    x: Tensor, head: Tensor, head_bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every model and the share of its targets that score highest: [S] each.

    A tie for the highest is not right. There is no gradient; the arguments are `target_loss`'s.
    """
    logits = torch.baddbmm(head_bias, normalise(x), head.transpose(1, 2))
    losses = -(logits.log_softmax(-1) * targets).sum((1, 2))
    best = logits == logits.amax(-1, keepdim=True)
    alone = best.sum(-1, keepdim=True) == 1
    return losses, (targets * (best & alone)).sum((1, 2))
