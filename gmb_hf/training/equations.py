"""What the short forward is asked: the shape of the model, and the equations of every seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True, slots=True, kw_only=True)
class TrunkLayout:
    """What the forward must know beside the weights.

    Attributes:
        layers, heads: of the transformer.
        activation: of the MLP, "relu" or "gelu_new".
        residues: p, the number of operand tokens; their ids are 0..p-1.
        bos, operation, equals: token ids.
    """

    layers: int
    heads: int
    activation: str
    residues: int
    bos: int
    operation: int
    equals: int


@dataclass(frozen=True, slots=True)
class Equations:
    """The equations of every seed.

    Attributes:
        first, second: one-hot operands, [S, n, p].
        pair: second * p + first, [S, n].
        answers: token ids, [S, n].
    """

    first: Tensor
    second: Tensor
    pair: Tensor
    answers: Tensor

    @classmethod
    def from_operands(
        cls, first: Tensor, second: Tensor, answers: Tensor, *, residues: int, dtype: torch.dtype
    ) -> Equations:
        """Build from integer operands and answers, [S, n] each."""
        return cls(
            functional.one_hot(first, residues).to(dtype),
            functional.one_hot(second, residues).to(dtype),
            second * residues + first,
            answers,
        )
