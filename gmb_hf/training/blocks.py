"""The blocks of many models at once, with hand-written gradients and reused memory.

Autograd would allocate every intermediate anew at each step; at these sizes the page faults of
fresh memory cost more than the arithmetic. The MLP therefore writes its large intermediates into
a `Workspace` that lives as long as the training does. All gradients here are
checked against autograd in `tests/training/test_blocks.py`. Under torch.compile, which plans memory
itself, the same formulas are left to autograd.

Shapes: S seeds, n rows, d width, f hidden units of the MLP, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.modeling import GrokkingTransformerConfig
from gmb_hf.modeling.loops import halting_mean

LAYER_NORM_EPSILON = 1e-5

Weights = Mapping[str, Tensor]
"""A model's state dict with a leading axis of models on every tensor."""


class Workspace:
    """Buffers by name, shape, dtype and device, made once and overwritten at every step.

    A buffer handed out in a forward pass is read again in its backward pass: run the backward of
    one forward before the next forward with the same workspace.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[Any, ...], Tensor] = {}

    def get(self, name: str, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """A buffer of `shape` with the dtype and device of `like`; its content is arbitrary."""
        key = (name, shape, like.dtype, like.device)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(shape, dtype=like.dtype, device=like.device)
        return self._buffers[key]


def normalise(x: Tensor) -> Tensor:
    """Layer normalisation without gain and shift; `folded` moves those into the next weights."""
    return functional.layer_norm(x, x.shape[-1:], eps=LAYER_NORM_EPSILON)


def norm_parts(x: Tensor, layer_norm: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The same with the mean and the inverse deviation of each row, for `norm_gradient`.

    Of a model without norms, the states themselves and None.
    """
    if not layer_norm:
        return x, None, None
    return torch.native_layer_norm(x, x.shape[-1:], None, None, LAYER_NORM_EPSILON)


def folded(
    weight: Tensor, bias: Tensor | None, gain: Tensor, shift: Tensor
) -> tuple[Tensor, Tensor]:
    """The weight and bias that act on a normalised input as `linear(gain * x + shift)` would.

    Of a weight [S, out, in], bias [S, out] or None, gain and shift [S, in]: [S, out, in] and
    [S, 1, out].
    """
    moved = torch.bmm(shift.unsqueeze(1), weight.transpose(1, 2))
    return weight * gain.unsqueeze(1), moved if bias is None else moved + bias.unsqueeze(1)


def norm_gradient(
    gradient: Tensor, x: Tensor, mean: Tensor | None, inverse: Tensor | None
) -> Tensor:
    """The gradient by the input of `norm_parts`, which gave the mean and the inverse deviation."""
    if mean is None:
        return gradient
    only_input = [True, False, False]
    dx: Tensor = torch.ops.aten.native_layer_norm_backward(
        gradient, x, x.shape[-1:], mean, inverse, None, None, only_input
    )[0]
    return dx


class _MLPBlock(torch.autograd.Function):
    """x + act(normalise(x) @ up.T + up_bias) @ down.T + down_bias, or the same of x as it is."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        up: Tensor,
        up_bias: Tensor,
        down: Tensor,
        down_bias: Tensor,
        activation: str,
        layer_norm: bool,
        workspace: Workspace,
        name: str,
    ) -> Tensor:
        wide = (*x.shape[:2], up.shape[1])
        normed, mean, inverse = norm_parts(x, layer_norm)
        before = workspace.get(f"{name}.before", wide, x)
        torch.baddbmm(up_bias, normed, up.transpose(1, 2), out=before)
        if activation == "relu":
            after = before.relu_()
        else:
            after = workspace.get(f"{name}.after", wide, x)
            torch.ops.aten.gelu.out(before, approximate="tanh", out=after)
        y = torch.add(x, down_bias)
        y.baddbmm_(after, down.transpose(1, 2))
        ctx.save_for_backward(x, normed, mean, inverse, before, after, up, down)
        ctx.activation, ctx.workspace = activation, workspace
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = gradients
        x, normed, mean, inverse, before, after, up, down = ctx.saved_tensors
        d_down = torch.bmm(dy.transpose(1, 2), after)
        # Read by this backward alone, so one serves them all.
        hidden = ctx.workspace.get("gradient", tuple(before.shape), x)
        torch.bmm(dy, down, out=hidden)
        if ctx.activation == "relu":
            torch.ops.aten.threshold_backward.grad_input(hidden, after, 0, grad_input=hidden)
        else:
            torch.ops.aten.gelu_backward.grad_input(
                hidden, before, approximate="tanh", grad_input=hidden
            )
        d_up = torch.bmm(hidden.transpose(1, 2), normed)
        dx = norm_gradient(torch.bmm(hidden, up), x, mean, inverse).add_(dy)
        d_up_bias, d_down_bias = hidden.sum(1, keepdim=True), dy.sum(1, keepdim=True)
        return dx, d_up, d_up_bias, d_down, d_down_bias, None, None, None, None


def mlp_block(
    x: Tensor,
    up: Tensor,
    up_bias: Tensor,
    down: Tensor,
    down_bias: Tensor,
    *,
    activation: str,
    layer_norm: bool = True,
    workspace: Workspace,
    name: str,
) -> Tensor:
    """Pre-norm MLP with its residual, [S, n, d] -> [S, n, d].

    Args:
        x: [S, n, d]. up: [S, f, d] and up_bias: [S, 1, f], the norm's gain and shift folded in.
        down: [S, d, f]. down_bias: [S, 1, d].
        activation: "relu" or "gelu_new" (the tanh form of GPT-2).
        layer_norm: whether the states are normalised first.
        name: of the layer and its application, so that no two of one forward share buffers.
    """
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():
        arguments = (x, up, up_bias, down, down_bias, activation, layer_norm, workspace, name)
        out: Tensor = _MLPBlock.apply(*arguments)  # type: ignore[no-untyped-call]
        return out
    normed = normalise(x) if layer_norm else x
    hidden = torch.baddbmm(up_bias, normed, up.transpose(1, 2))
    relu = activation == "relu"
    hidden = functional.relu(hidden) if relu else functional.gelu(hidden, approximate="tanh")
    return torch.baddbmm(x + down_bias, hidden, down.transpose(1, 2))


class _WeightedMean(torch.autograd.Function):
    """Numerators over denominators; autograd's own gradient would square the denominator."""

    @staticmethod
    def forward(ctx: Any, sums: Tensor, heads: int) -> Tensor:
        numerator, denominator = sums.split([sums.shape[-1] - heads, heads], dim=-1)
        inverse = denominator.reciprocal().unsqueeze(-1)
        mean = numerator.view(*numerator.shape[:-1], heads, -1) * inverse  # [S, n, h, d/h]
        ctx.save_for_backward(mean, inverse)
        out: Tensor = mean.flatten(2)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        mean, inverse = ctx.saved_tensors
        d_numerator = gradients[0].view(mean.shape) * inverse
        d_denominator = -(d_numerator * mean).sum(-1)
        return torch.cat([d_numerator.flatten(2), d_denominator], dim=-1), None


def weighted_mean(sums: Tensor, heads: int) -> Tensor:
    """The mean values of a softmax from its two sums, per head: [S, n, d].

    `sums` [S, n, d + h] are the weighted sums of the values and, side by side with them, those of
    the weights, which may be anything from exp(-80) to exp(80), also in float32: neither the mean
    nor its gradient squares their sum.
    """
    mean: Tensor = _WeightedMean.apply(sums, heads)  # type: ignore[no-untyped-call]
    return mean


def answer_losses(logits: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropy [S, n] of logits [S, n, V] at the answers [S, n]."""
    losses = functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
    return losses.view(answers.shape)


def answer_loss(
    x: Tensor,
    head: Tensor,
    head_bias: Tensor,
    answers: Tensor,
    *,
    layer_norm: bool = True,
    keep_logits: bool,
) -> tuple[Tensor, Tensor]:
    """Mean cross-entropy [S] at the answer and, on request, the logits [S, n, V], else empty.

    Args:
        x: the residual stream at the position before the answer, [S, n, d].
        head: [S, V, d] and head_bias: [S, 1, V], the final norm folded in.
        answers: token ids, [S, n].
        layer_norm: whether the states are normalised first.
        keep_logits: also return the logits, without a gradient.
    """
    normed = normalise(x) if layer_norm else x
    logits = torch.baddbmm(head_bias, normed, head.transpose(1, 2))
    # A copy: inductor reuses the buffer of the logits in the backward pass.
    kept = logits.detach().clone() if keep_logits else logits.new_empty(0)
    return answer_losses(logits, answers).mean(1), kept


def normed_linear(
    weights: Weights, norm: str, weight: str, bias: str | None = None
) -> tuple[Tensor, Tensor]:
    """The weight [S, out, d] and bias [S, 1, out] of a linear layer, acting on normalised rows.

    `norm`, `weight` and `bias` are names in `weights`, the first one of the norm before the layer;
    without that norm the layer acts on the rows as they are.
    """
    linear, shift = weights[weight], None if bias is None else weights[bias]
    if f"{norm}.weight" in weights:
        return folded(linear, shift, weights[f"{norm}.weight"], weights[f"{norm}.bias"])
    none = linear.new_zeros(len(linear), 1, linear.shape[1])
    return linear, none if shift is None else shift.unsqueeze(1)


def query_key_value(
    weights: Weights, layer: str, normed: Tensor, asking: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A layer's queries [S, q, d], and its keys and values side by side [S, m, 2d].

    `normed` are all rows as attention reads them, [S, m, d], and `asking` those of it that have a
    query, [S, q, d]; all when absent.
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


class _Take(torch.autograd.Function):
    """Rows picked out of stacked tables; the gradient adds up in a fixed order on any device."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = table.shape[1]
        if len(index) == 1:
            return table.index_select(1, index[0])
        picked = table.flatten(0, 1).index_select(0, _end_to_end(index, ctx.rows))
        return picked.view(len(table), -1, table.shape[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        return _add_rows(gradients[0], index, ctx.rows), None


def _end_to_end(index: Tensor, rows: int) -> Tensor:
    """Indices into the tables of all models laid end to end, [S, k] -> [S k]."""
    start = rows * torch.arange(len(index), device=index.device).unsqueeze(1)
    return (start + index).flatten()


# An operator of its own, because inductor would turn index_add into atomic additions.
@torch.library.custom_op("gmb_hf::add_rows", mutates_args=())
def _add_rows(gradient: Tensor, index: Tensor, rows: int) -> Tensor:
    """Add up the rows [S, k, c] by the table row that they were picked from: [S, m, c]."""
    models, _, columns = gradient.shape
    if gradient.device.type == "cpu" and len(index) == 1:
        table = gradient.new_zeros(models, rows, columns)
        return table.index_add_(1, index[0], gradient)
    flat = gradient.new_zeros(models * rows, columns)
    at = _end_to_end(index.expand(models, -1), rows)
    if gradient.device.type == "cpu":
        flat.index_add_(0, at, gradient.flatten(0, 1))
    else:  # there index_add adds in any order, and this sorts first
        flat.index_put_((at,), gradient.flatten(0, 1), accumulate=True)
    return flat.view(models, rows, columns)


@_add_rows.register_fake
def _(gradient: Tensor, index: Tensor, rows: int) -> Tensor:
    return gradient.new_empty(len(gradient), rows, gradient.shape[-1])


def take(table: Tensor, index: Tensor) -> Tensor:
    """The rows of each model's table: [S, m, c] -> [S, k, c].

    `index` is int64 [S, k], or [1, k] where all models take the same rows.
    """
    taken: Tensor = _Take.apply(table, index)  # type: ignore[no-untyped-call]
    return taken


def head_logits(weights: Weights, states: Tensor) -> tuple[Tensor, Tensor]:
    """Logits [S, m, V] and states after the final norm [S, m, d], of those before it."""
    head, bias = output_head(weights)
    if "model.norm.weight" not in weights:
        return torch.baddbmm(bias, states, head.transpose(1, 2)), states
    normed = normalise(states)
    gain, shift = (weights[f"model.norm.{name}"].unsqueeze(1) for name in ("weight", "bias"))
    logits = torch.baddbmm(bias, normed, head.transpose(1, 2))
    return logits, torch.addcmul(shift, normed, gain)


class Forward(ABC):
    """The exact forward of S models over one table of a task's rows.

    Attributes:
        shape: the config of the models.
        answers: the K tokens that follow a query position, row by row, int64 [S, K].
    """

    shape: GrokkingTransformerConfig
    answers: Tensor

    @abstractmethod
    def losses(self, weights: Weights, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        """Mean cross-entropy [S] in nats, with gradients, and on request the logits [S, K, V]."""

    @abstractmethod
    def logits(self, weights: Weights, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """Logits [S, K, V] and final hidden states [S, K, d] at the query positions, no gradient.

        `trace` is given the states of all steps of a model with loops.
        """

    def results(self, weights: Weights) -> tuple[Tensor, Tensor]:
        """Loss [S] and share of right answers [S], no gradient; a tie is not right."""
        logits, _ = self.logits(weights)
        right = logits.gather(-1, self.answers.unsqueeze(-1))
        losses = logits.logsumexp(-1) - right.squeeze(-1)
        alone = (logits >= right).sum(-1) == 1
        return losses.double().mean(1), alone.double().mean(1)


@dataclass
class Trace:
    """The states of a forward at the asked rows, [S, n, d] each.

    `fast` are z_L after every inner step, N T of them, and `slow` z_H after every cycle, N of them.
    """

    fast: list[Tensor] = field(default_factory=list)
    slow: list[Tensor] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks(ABC):
    """The blocks of all models over the states of their rows, as short as they can be.

    The slow block of the last cycle, and the halting unit of every cycle, see the asked rows alone.

    Attributes:
        weights: of the models.
        shape: their config.
        workspace: buffers that the caller keeps between steps.
        start: the embedding, in the form in which the first layer takes it.
    """

    weights: Weights
    shape: GrokkingTransformerConfig
    workspace: Workspace
    start: Tensor

    @abstractmethod
    def block(self, layer: int, application: int, states: Tensor, *, asked_alone: bool) -> Tensor:
        """The states after a layer, of all rows or of the asked ones.

        `application` counts how often the layer has been applied before; the states of the very
        first one are `start`.
        """

    def embedded(self) -> Tensor:
        """The embedding of all rows, [S, m, d]."""
        return self.start

    def read(self, states: Tensor) -> Tensor:
        """States as a layer reads them: normalised, where the model has norms."""
        return normalise(states) if self.shape.layer_norm else states

    @abstractmethod
    def asked(self, states: Tensor) -> Tensor:
        """The asked ones of all rows, [S, m, d] -> [S, n, d]."""

    def after_attention(
        self, layer: int, application: int, mixed: Tensor, residual: Tensor
    ) -> Tensor:
        """The rest of a block: mixed values join the residual stream, then the MLP; [S, m, d]."""
        place = f"model.layers.{layer}.attention.out"
        out, bias = self.weights[f"{place}.weight"], self.weights[f"{place}.bias"].unsqueeze(1)
        states = torch.baddbmm(residual + bias, mixed, out.transpose(1, 2))
        return self.feed_forward(layer, application, states)

    def feed_forward(self, layer: int, application: int, states: Tensor) -> Tensor:
        """The MLP of a block with its residual, [S, m, d]."""
        weights, place = self.weights, f"model.layers.{layer}"
        mlp = f"{place}.mlp"
        up = normed_linear(weights, f"{place}.norm_2", f"{mlp}.up.weight", f"{mlp}.up.bias")
        down = weights[f"{mlp}.down.weight"], weights[f"{mlp}.down.bias"].unsqueeze(1)
        return mlp_block(
            states,
            *up,
            *down,
            activation=self.shape.hidden_act,
            layer_norm=self.shape.layer_norm,
            workspace=self.workspace,
            name=f"{place}/{application}",
        )

    def final_states(self, trace: Trace | None = None) -> Tensor:
        """The state that the answer is read from, before the final norm: [S, n, d].

        `trace` is given the states of all steps of a model with loops.
        """
        shape, states = self.shape, self.start
        slow_layer = shape.num_hidden_layers - 1
        if shape.cycles is None or shape.inner_steps is None:
            for layer in range(shape.num_hidden_layers):
                states = self.block(layer, 0, states, asked_alone=layer == slow_layer)
            return states
        embedded, fast, ends = self.embedded(), states, list[Tensor]()
        slow: Tensor | float = 0.0
        for cycle in range(shape.cycles):
            last = cycle == shape.cycles - 1
            for step in range(shape.inner_steps):
                application = cycle * shape.inner_steps + step
                if application:
                    states = embedded + fast + slow
                for layer in range(slow_layer):
                    states = self.block(layer, application, states, asked_alone=False)
                fast = normalise(states)
                if trace is not None:
                    trace.fast.append(self.asked(fast))
            slow = normalise(self.block(slow_layer, cycle, fast + slow, asked_alone=last))
            ends.append(slow if last else self.asked(slow))
        if trace is not None:
            trace.slow.extend(ends)
        return halting_mean(halting_logits(self.weights, ends), ends) if shape.halting else ends[-1]


def halting_logits(weights: Weights, ends: Sequence[Tensor]) -> list[Tensor]:
    """The logit of halting at the end of every cycle but the last, N - 1 of [S, n].

    `ends` are z_H after every cycle, N of [S, n, d].
    """
    weight, bias = (weights[f"model.halting.{name}"] for name in ("weight", "bias"))
    return [(end @ weight.unsqueeze(-1)).squeeze(-1) + bias.unsqueeze(-1) for end in ends[:-1]]
