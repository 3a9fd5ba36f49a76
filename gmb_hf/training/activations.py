"""A plain forward over whole rows, for many models at once, that shows what is inside them.

The short forwards of `equations` and `rows` compute no attention pattern as such, keep no hidden
unit and have no gradient by the input. This one reads every token of every row up to the position
that is asked, by ordinary operations that autograd can follow. It costs a few times as much, so it
is used at checkpoints and not to train.

Of rows that show pairs x, y and ask again it tells how far the heads do what copying takes, in the
columns `prefix_matching` and `previous_token` (`CopyingHeads`).

Shapes: S models, n rows, T tokens up to the asked one, d width, h heads, f units of an MLP, V
vocabulary. Equality with the model's own forward: `tests/training/test_activations.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.tasks.incontext import InContextTask
from gmb_hf.training import blocks
from gmb_hf.training.blocks import Weights, normalise, take
from gmb_hf.training.recorders import CheckpointState, Recorder
from gmb_hf.training.stacked import SeedStack


@dataclass
class Activations:
    """What a forward shows at the position that is asked, the last of its rows.

    Attributes:
        attention: of each layer, how much every head attends to each token, [S, n, h, T].
        before, units: of each layer's MLP, before and after the activation, [S, n, f].
        hidden: what the output layer reads, [S, n, d].
        logits: [S, n, V].
    """

    attention: list[Tensor] = field(default_factory=list)
    before: list[Tensor] = field(default_factory=list)
    units: list[Tensor] = field(default_factory=list)
    hidden: Tensor = field(default_factory=lambda: torch.empty(0))
    logits: Tensor = field(default_factory=lambda: torch.empty(0))


def plain_layers(shape: GrokkingTransformerConfig) -> bool:
    """Whether this forward knows the layers: they have neither mixers nor loops."""
    return shape.cycles is None and not shape.mixer_windows


def shows_activations(stack: SeedStack) -> bool:
    """Whether this forward knows the models and their rows: equations, and layers as they stand."""
    return plain_layers(stack.shape) and stack.task.equation is not None


def asked_rows(stack: SeedStack) -> Tensor:
    """The training rows up to the token that the last answer follows, int64 [S, n, T]."""
    position = stack.task.answer_positions[-1]
    rows = torch.from_numpy(stack.of_training_rows("input_ids"))
    return rows[:, :, : position + 1].contiguous().to(stack.device)


def embed(weights: Weights, rows: Tensor) -> Tensor:
    """Token and position embeddings of rows [S, n, T]: [S, n, T, d]."""
    tokens = take(weights["model.embed_tokens.weight"], rows.flatten(1))
    positions = weights["model.embed_positions.weight"][:, : rows.shape[2]]
    embedded: Tensor = tokens.unflatten(1, rows.shape[1:]) + positions.unsqueeze(1)
    return embedded


def forward(
    weights: Weights,
    shape: GrokkingTransformerConfig,
    embedded: Tensor,
    *,
    drop: Callable[[Tensor], Tensor] = lambda states: states,
) -> Activations:
    """All activations of rows whose embeddings [S, n, T, d] are given, with gradients.

    Args:
        weights, shape: of the models, which have neither mixers nor loops.
        embedded: as `embed` gives them.
        drop: of everything that joins the residual stream, as GPT-2 applies dropout.
    """
    models, rows, length, width = embedded.shape
    heads, found = shape.num_attention_heads, Activations()
    states = drop(embedded).flatten(1, 2)

    def read(states: Tensor) -> Tensor:
        return normalise(states) if shape.layer_norm else states

    for layer in range(shape.num_hidden_layers):
        place, last = f"model.layers.{layer}", layer == shape.num_hidden_layers - 1
        normed = read(states)
        asking = _last(normed, rows) if last else None
        query, key_value = blocks.query_key_value(weights, place, normed, asking)
        key, value = (
            x.view(models, rows, 1, length, heads, -1) for x in key_value.split(width, -1)
        )
        asked = query.view(models, rows, -1, 1, heads, width // heads)  # [S, n, Tq, 1, h, d / h]
        scores = (asked * key).sum(-1) / math.sqrt(width // heads)  # [S, n, Tq, T, h]
        count = scores.shape[2]
        visible = torch.ones(count, length, dtype=torch.bool, device=scores.device)
        hidden_keys = ~visible.tril(length - count).unsqueeze(-1)
        pattern = scores.masked_fill(hidden_keys, -math.inf).softmax(3)
        found.attention.append(pattern[:, :, -1].transpose(2, 3))
        mixed = (pattern.unsqueeze(-1) * value).sum(3).view(models, rows * count, width)
        out = weights[f"{place}.attention.out.weight"], weights[f"{place}.attention.out.bias"]
        joined = torch.baddbmm(out[1].unsqueeze(1), mixed, out[0].transpose(1, 2))
        states = (_last(states, rows) if last else states) + drop(joined)
        mlp = f"{place}.mlp"
        up, up_bias = blocks.normed_linear(
            weights, f"{place}.norm_2", f"{mlp}.up.weight", f"{mlp}.up.bias"
        )
        before = torch.baddbmm(up_bias, read(states), up.transpose(1, 2))
        relu = shape.hidden_act == "relu"
        units = functional.relu(before) if relu else functional.gelu(before, approximate="tanh")
        down = weights[f"{mlp}.down.weight"], weights[f"{mlp}.down.bias"]
        joined = torch.baddbmm(down[1].unsqueeze(1), units, down[0].transpose(1, 2))
        states = states + drop(joined)
        found.before.append(_last(before, rows))
        found.units.append(_last(units, rows))
    found.logits, found.hidden = blocks.head_logits(weights, states)
    return found


def _last(states: Tensor, rows: int) -> Tensor:
    """The last of each row's states, [S, n k, c] -> [S, n, c]."""
    last: Tensor = states.unflatten(1, (rows, -1))[:, :, -1]
    return last


class CopyingHeads(Recorder):
    """How far heads do what copying from a prompt takes, in in-context tasks (Olsson et al. 2022).

    `prefix_matching`: how much the last x of a row attends to the y that followed that x before, in
    the head that does so most; by it the paper tells induction heads. `previous_token`: how much
    the y before it attends to its own x, likewise; a later layer finds the x by it. Both are means
    over the first 128 training rows, the first over those whose last x was seen. No answer is read.
    """

    ROWS = 128

    def __init__(self, stack: SeedStack) -> None:
        self._rows: Tensor | None = None
        if plain_layers(stack.shape) and isinstance(stack.task, InContextTask):
            self._rows = asked_rows(stack)[:, : self.ROWS].contiguous()
            before = self._rows[:, :, 1:-1:2] == self._rows[:, :, -1:]  # at each earlier x
            self._follows = torch.zeros(self._rows.shape, device=stack.device)
            self._follows[:, :, 2::2] = before.to(self._follows)
            self._seen = before.any(2).sum(1).clamp(min=1)

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """Both, [S]; none of another task, or of layers that this forward does not know."""
        if self._rows is None:
            return {}
        to_answer = self._attention(now, self._rows) * self._follows.unsqueeze(2)
        to_previous = self._attention(now, self._rows[:, :, :-1])[..., -2]
        return {
            "prefix_matching": (to_answer.sum((2, 4)) / self._seen.view(-1, 1)).amax((0, 2)),
            "previous_token": to_previous.mean(2).amax((0, 2)),
        }

    @staticmethod
    def _attention(now: CheckpointState, rows: Tensor) -> Tensor:
        """How much each head attends from the last token of rows to each, [layers, S, n, h, T]."""
        embedded = embed(now.weights, rows)
        return torch.stack(forward(now.weights, now.stack.shape, embedded).attention)
