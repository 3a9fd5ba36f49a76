"""Banded layers: linear layers of which each unit meets only its neighbours in the other layer.

This file travels with saved models: it imports torch and its neighbours alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import initialization as init


def band_mask(outputs: int, inputs: int, band: int) -> Tensor:
    """Which weights [outputs, inputs] of a linear layer lie in the band, bool.

    Unit n of the narrower layer and unit w of the wider one, `ratio` times as wide, are connected
    iff |w - ratio n| <= band / 2: in an MLP of four times the width, |j - 4i| for the layer up
    and |i - 4j| for the layer down.
    """
    narrow, wide = min(outputs, inputs), max(outputs, inputs)
    # Multiplied through by 2 narrow, the comparison is one of whole numbers.
    distance = (torch.arange(wide) * narrow)[:, None] - torch.arange(narrow) * wide
    within = 2 * distance.abs() <= band * narrow  # [wide, narrow]
    return within if outputs == wide else within.T.contiguous()


class BandedLinear(nn.Linear):
    """A linear layer whose weights outside the band are zero and stay zero; biases are free.

    The forward multiplies the weights by the mask, so those outside get no gradient.

    Args:
        in_features, out_features: as of `nn.Linear`.
        band: twice the largest distance, in units of the wider layer.
    """

    mask: Tensor

    def __init__(self, in_features: int, out_features: int, band: int) -> None:
        super().__init__(in_features, out_features)
        self.band = band
        mask = band_mask(out_features, in_features, band)
        self.register_buffer("mask", mask.to(self.weight.device), persistent=False)

    @torch.no_grad()
    def clear_outside(self) -> None:
        """Set the mask, and the weights outside it to zero."""
        # Transformers leaves the mask empty when it loads a model: it is not in the file.
        init.copy_(self.mask, band_mask(self.out_features, self.in_features, self.band))
        self.weight.mul_(self.mask)

    def forward(self, input: Tensor) -> Tensor:
        return nn.functional.linear(input, self.weight * self.mask, self.bias)


__all__ = ["BandedLinear", "band_mask"]
