"""What the short forward is asked: the shape of the model, and the equations of every seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.training.loops import Loops

_MIXERS = ("sort", "blend")


def unknown_mixers(shape: GrokkingTransformerConfig) -> tuple[str, ...]:
    """Names of those mixers of a model that the short forward has no formulas for."""
    return tuple(name for name in shape.mixer_windows if name not in _MIXERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrunkLayout:
    """What the forward must know beside the weights.

    Attributes:
        layers, heads: of the transformer.
        activation: of the MLP, "relu" or "gelu_new".
        residues: p, the number of operand tokens; their ids are 0..p-1.
        bos, operation, equals: token ids.
        sort_window, blend_window: of the model's mixers, None where it has none.
        loops: how often its layers are applied, None where it is once.
    """

    layers: int
    heads: int
    activation: str
    residues: int
    bos: int
    operation: int
    equals: int
    sort_window: int | None = None
    blend_window: int | None = None
    loops: Loops | None = None

    @classmethod
    def of(cls, shape: GrokkingTransformerConfig, task: ModularTask) -> TrunkLayout:
        """That of a model of this shape which learns this task.

        Raises:
            InputError: a mixer that the short forward does not know.
        """
        unknown = unknown_mixers(shape)
        if unknown:
            raise InputError(
                f"the short forward for equations does not know the mixer {unknown[0]}; "
                "teach it to gmb_hf/training/trunk.py, or train it by `gmb sequential run`, "
                "whose forward takes any"
            )
        return cls(
            layers=shape.num_hidden_layers,
            heads=shape.num_attention_heads,
            activation=shape.hidden_act,
            residues=task.prime,
            bos=task.vocabulary.bos,
            operation=task.operation_token,
            equals=task.vocabulary.eq,
            sort_window=shape.sort_window,
            blend_window=shape.blend_window,
            loops=Loops.of(shape),
        )


@dataclass(frozen=True, slots=True)
class Equations:
    """The equations of every seed.

    Attributes:
        operands: one-hot first operand, one-hot second operand, and a one: [S, n, 2p + 1].
        first_row, second_row: row of each operand in the tables [p, ...] of all seeds laid end to
            end, [S n].
        pair: second * p + first, [S, n].
        answers: token ids, [S, n].
    """

    operands: Tensor
    first_row: Tensor
    second_row: Tensor
    pair: Tensor
    answers: Tensor

    @classmethod
    def from_operands(
        cls, first: Tensor, second: Tensor, answers: Tensor, *, residues: int, dtype: torch.dtype
    ) -> Equations:
        """Build from integer operands and answers, [S, n] each."""
        start = residues * torch.arange(len(first), device=first.device).unsqueeze(1)
        one_hot = [functional.one_hot(operand, residues) for operand in (first, second)]
        return cls(
            torch.cat([*one_hot, torch.ones_like(first).unsqueeze(-1)], dim=-1).to(dtype),
            (start + first).flatten(),
            (start + second).flatten(),
            second * residues + first,
            answers,
        )

    @property
    def first(self) -> Tensor:
        """One-hot first operands, [S, n, p]."""
        return self.operands[..., : self.operands.shape[-1] // 2]

    @property
    def second(self) -> Tensor:
        """One-hot second operands, [S, n, p]."""
        residues = self.operands.shape[-1] // 2
        return self.operands[..., residues : 2 * residues]

    def pick_first(self, table: Tensor) -> Tensor:
        """The row of each equation's first operand, [S, p, c] -> [S, n, c]."""
        return _pick(table, self.first_row, self.first)

    def pick_second(self, table: Tensor) -> Tensor:
        """The row of each equation's second operand, [S, p, c] -> [S, n, c]."""
        return _pick(table, self.second_row, self.second)

    def sum_operands(self, first: Tensor, second: Tensor, constant: Tensor) -> Tensor:
        """first[a] + second[b] + constant of every equation, [S, n, c].

        Args:
            first, second: [S, p, c]. constant: [S, 1, c].
        """
        return torch.bmm(self.operands, torch.cat([first, second, constant], dim=1))


class _Pick(torch.autograd.Function):
    """Rows of a table; the gradient adds up in a fixed order on any device."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, one_hot: Tensor) -> Tensor:
        ctx.save_for_backward(rows, one_hot)
        picked = table.reshape(-1, table.shape[-1]).index_select(0, rows)
        return picked.view(len(table), -1, table.shape[-1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, one_hot = ctx.saved_tensors
        return _add_rows(gradients[0], rows, one_hot), None, None


# An operator of its own, because inductor would turn index_add into atomic additions.
@torch.library.custom_op("gmb_hf::add_rows", mutates_args=())
def _add_rows(gradient: Tensor, rows: Tensor, one_hot: Tensor) -> Tensor:
    """Add up the rows of [S, n, c] by the table row that they were picked from: [S, p, c]."""
    if gradient.device.type != "cpu":  # there index_add adds in any order
        return torch.bmm(one_hot.transpose(1, 2), gradient)
    seeds, _, columns = gradient.shape
    table = gradient.new_zeros(seeds * one_hot.shape[-1], columns)
    return table.index_add_(0, rows, gradient.reshape(-1, columns)).view(seeds, -1, columns)


@_add_rows.register_fake
def _(gradient: Tensor, rows: Tensor, one_hot: Tensor) -> Tensor:
    return gradient.new_empty(len(gradient), one_hot.shape[-1], gradient.shape[-1])


def _pick(table: Tensor, rows: Tensor, one_hot: Tensor) -> Tensor:
    picked: Tensor = _Pick.apply(table, rows, one_hot)  # type: ignore[no-untyped-call]
    return picked
