"""The quantities of a checkpoint, as functions of stacked tensors: what each observable is.

`observables` applies them to an ensemble, `gmb_hf.monitor` to the one model of somebody's training,
a stack of one. What each is called and means stands in `observables`.

Shapes: S models, n rows with an answer each, V vocabulary, d width, p residues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

QUANTILES = (0.1, 0.5, 0.9)
NOISE_PASSES = 1
NOISE_SCALE = 0.25  # of the embedding's root mean square
CURVATURE_STEP = 2.0**-9  # of the weight norm, and no further than
CURVATURE_FALL = 2.0**-7  # of the loss would fall along a straight line


def sum_of(terms: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return torch.stack(list(terms)).sum(0)


def square(weight: Tensor) -> Tensor:
    """The sum of squares of each model's weight [S, ...]: [S]."""
    return weight.detach().reshape(len(weight), -1).square().sum(1)


def norm(weights: Iterable[Tensor]) -> Tensor:
    """The Euclidean norm of several weights together, [S]."""
    return sum_of([square(weight) for weight in weights]).sqrt()


def answer_losses(logits: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropy [S, n] of logits [S, n, V] at the answers [S, n]."""
    losses = functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
    return losses.view(answers.shape)


def margins(logits: Tensor, answers: Tensor) -> Tensor:
    """The answer's logit minus the best other logit, [S, n]; arguments as in `answer_losses`."""
    index = answers.unsqueeze(-1)
    given = logits.gather(-1, index).squeeze(-1)
    best_other = logits.scatter(-1, index, -math.inf).amax(-1)
    return given - best_other


def answer_quality(split: str, margin: Tensor) -> dict[str, Tensor]:
    """Accuracy and quantiles of the margins [S, n], [S] each, named for the split."""
    q10, q50, q90 = quantiles(margin, QUANTILES)
    return {
        f"{split}_acc": (margin > 0).to(margin.dtype).mean(1),
        f"{split}_margin_q10": q10,
        f"{split}_margin_q50": q50,
        f"{split}_margin_q90": q90,
    }


def quantiles(values: Tensor, shares: Sequence[float]) -> Tensor:
    """`torch.quantile` of each model's values [S, n] at the shares: [shares, S], the same bits."""
    # numpy sorts ten times as fast as torch, which also says where each value was.
    ordered = torch.from_numpy(np.sort(values.detach().cpu().numpy(), axis=1)).to(values.device)
    rank = torch.tensor(shares, dtype=values.dtype, device=values.device) * (values.shape[1] - 1)
    below, above = rank.floor().long(), rank.ceil().long()
    found = torch.lerp(ordered[:, below], ordered[:, above], rank - below)
    spoilt = ordered[:, -1:].isnan()  # a NaN is sorted behind all numbers
    return torch.where(spoilt, math.nan, found).T


def spectral_entropy(matrices: Sequence[Tensor]) -> Tensor:
    """Entropy (nats) of the normalised singular values of matrices [S, m, d]: [matrices, S]."""
    # Singular values through Gram matrices [S, d, d]: one batched call for all of them.
    grams = torch.stack([m.double().transpose(1, 2) @ m.double() for m in matrices])
    singular = torch.linalg.eigvalsh(grams).clamp_(min=0).sqrt_()
    share = singular / singular.sum(-1, keepdim=True).clamp_(min=1e-300)
    return -torch.xlogy(share, share).sum(-1)


def participation_ratio(hidden: Tensor) -> Tensor:
    """(sum of eigenvalues)^2 / sum of their squares, of the covariance of [S, n, d]: [S]."""
    centred = hidden - hidden.mean(1, keepdim=True)
    covariance = centred.transpose(1, 2) @ centred
    trace = covariance.diagonal(dim1=1, dim2=2).sum(1)
    return trace.square() / covariance.square().sum((1, 2)).clamp(min=1e-30)


def fourier_basis(residues: int) -> Tensor:
    """Cosines and sines of the frequencies 1 .. (p-1)/2 over the residues, [2, k, p]."""
    frequencies = torch.arange(1, (residues - 1) // 2 + 1, dtype=torch.float64)
    angles = 2 * math.pi * frequencies[:, None] * torch.arange(residues)[None, :] / residues
    return torch.stack([angles.cos(), angles.sin()])


def fourier_gini(matrix: Tensor, basis: Tensor) -> Tensor:
    """Gini coefficient of the power per frequency of [S, p, d]: 0 when even, near 1 for one."""
    amplitudes = torch.einsum("ckp,spd->sckd", basis, matrix)
    power = amplitudes.square().sum((1, 3)).sort(dim=1).values  # [S, k], increasing
    count = power.shape[1]
    rank = 2 * torch.arange(1, count + 1, device=power.device, dtype=power.dtype) - count - 1
    return (rank * power).sum(1) / (count * power.sum(1)).clamp(min=1e-30)


def noise_like(embedding: Tensor) -> list[Tensor]:
    """The perturbations of an embedding [V, d]: the same ones for every model of the shape."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(embedding.shape, generator=generator).to(embedding) for _ in range(NOISE_PASSES)
    ]


def perturbed(embedding: Tensor, noise: Tensor) -> Tensor:
    """Embeddings [S, V, d] with a noise [V, d] in proportion to their root mean square."""
    scale = NOISE_SCALE * embedding.square().mean((1, 2), keepdim=True).sqrt()
    return embedding + scale * noise


def changed_share(predictions: Tensor, others: Tensor) -> Tensor:
    """The share of predictions [S, n] that differ from others, [S]."""
    return (predictions != others).double().mean(1)


def curvature(
    losses: Tensor,
    weights: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    losses_at: Callable[[Mapping[str, Tensor]], Tensor],
    *,
    weight_norm: Tensor,
    gradient_norm: Tensor,
) -> Tensor:
    """2 (L(w + e u) - L(w) - e |g|) / e^2 along the unit gradient u, [S].

    Once a model has memorised, the loss bends within a thousandth of the weight norm; a step e in
    proportion to L / |g| stays inside the bend and above the rounding of the loss.

    Args:
        losses: at the weights, [S].
        weights: name -> [S, ...].
        gradients: of the loss, for those weights that have one.
        losses_at: the losses at other weights; it is given those with a gradient only.
        weight_norm, gradient_norm: of all of them together, [S].
    """
    slope = gradient_norm
    length = CURVATURE_STEP * weight_norm
    length = torch.minimum(length, CURVATURE_FALL * losses / slope)  # inf where slope is 0
    scale = torch.where(slope > 0, length / slope, 0.0)
    moved = {
        name: torch.addcmul(
            weights[name], gradient, scale.view(-1, *[1] * (weights[name].dim() - 1))
        )
        for name, gradient in gradients.items()
    }
    rise = losses_at(moved).double() - losses.double()
    bent = 2 * (rise - length.double() * slope.double()) / length.double() ** 2
    return torch.where(slope > 0, bent, 0.0)
