"""What every stacked forward does alike: the weights of a block and of the head, norms folded in.

Shapes: S models, m rows, d width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gmb_hf.training.fused import Workspace, folded, mlp_block

Weights = Mapping[str, Tensor]


def normed_linear(
    weights: Weights, norm: str, weight: str, bias: str | None = None
) -> tuple[Tensor, Tensor]:
    """The weight [S, out, d] and bias [S, 1, out] of a linear layer, acting on normalised rows.

    Args:
        weights: the model's state dict with a leading axis of models on every tensor.
        norm: name of the norm before the layer.
        weight, bias: names in `weights`.
    """
    return folded(
        weights[weight],
        None if bias is None else weights[bias],
        weights[f"{norm}.weight"],
        weights[f"{norm}.bias"],
    )


def query_key_value(
    weights: Weights, layer: str, normed: Tensor, asking: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A layer's queries [S, q, d], and its keys and values side by side [S, m, 2d].

    Args:
        weights: as in `normed_linear`.
        layer: its name in `weights`.
        normed: all rows, normalised, [S, m, d].
        asking: those rows of it that have a query, [S, q, d]; all when absent.
    """
    width = normed.shape[-1]
    qkv = f"{layer}.attention.qkv"
    weight, bias = normed_linear(weights, f"{layer}.norm_1", f"{qkv}.weight", f"{qkv}.bias")
    if asking is None:
        query, rest = torch.baddbmm(bias, normed, weight.transpose(1, 2)).split(
            [width, 2 * width], dim=-1
        )
        return query, rest
    query_weight, rest_weight = weight.split([width, 2 * width], dim=1)
    query_bias, rest_bias = bias.split([width, 2 * width], dim=2)
    query = torch.baddbmm(query_bias, asking, query_weight.transpose(1, 2))
    return query, torch.baddbmm(rest_bias, normed, rest_weight.transpose(1, 2))


def output_head(weights: Weights) -> tuple[Tensor, Tensor]:
    """Weight [S, V, d] and bias [S, 1, V] of the output layer, which may be the embedding."""
    tied = "lm_head.weight" not in weights
    head = "model.embed_tokens.weight" if tied else "lm_head.weight"
    return normed_linear(weights, "model.norm", head)


def after_attention(
    weights: Weights,
    layer: str,
    mixed: Tensor,
    residual: Tensor,
    activation: str,
    workspace: Workspace,
    *,
    application: int = 0,
) -> Tensor:
    """The rest of a block: attention joins the residual stream, then the MLP; [S, m, d].

    Args:
        weights: as in `normed_linear`.
        layer: its name in `weights`.
        mixed, residual: the mixed values and the states that they are added to, [S, m, d] each.
        activation: of the MLP.
        workspace: as in `fused.mlp_block`.
        application: how often the layer has been applied before in the same forward.
    """
    out = weights[f"{layer}.attention.out.weight"].transpose(1, 2)
    bias = weights[f"{layer}.attention.out.bias"].unsqueeze(1)
    states = torch.baddbmm(residual + bias, mixed, out)
    return feed_forward(weights, layer, states, activation, workspace, application=application)


def feed_forward(
    weights: Weights,
    layer: str,
    states: Tensor,
    activation: str,
    workspace: Workspace,
    *,
    application: int = 0,
) -> Tensor:
    """The MLP of a block with its residual, [S, m, d]; the arguments are as above."""
    up, up_bias = normed_linear(
        weights, f"{layer}.norm_2", f"{layer}.mlp.up.weight", f"{layer}.mlp.up.bias"
    )
    return mlp_block(
        states,
        up,
        up_bias,
        weights[f"{layer}.mlp.down.weight"],
        weights[f"{layer}.mlp.down.bias"].unsqueeze(1),
        activation=activation,
        workspace=workspace,
        name=f"{layer}/{application}",
    )
