"""What gradients and curvature of the training loss show, for all seeds at once.

Every observable is a function of stacked tensors [S, ...] -> [S]; numbers in brackets are those of
`docs/signals.md`. Gradients that are subtracted from one another are taken in float64: between
weights that are a small step apart they agree in most digits.

| observable                    | what it is                                                      |
|-------------------------------|-----------------------------------------------------------------|
| commutator_defect             | how much the order of two mini-batch steps matters [1]          |
| gradient_variance             | of the mean of two batches' gradients, over all weights [9, 10] |
| gradient_noise_scale          | noise over gradient of two batches, in rows, not unbiased [10]  |
| slow_gradient_norm            | of the gradients' exponential moving average [11]               |
| loss_scaling_alignment        | cosine of the weights with their own descent direction [16]     |
| hessian_top, hessian_trace    | largest eigenvalue and trace of the Hessian [8]                 |
| kernel_alignment,             | of the tangent kernel of probe rows: with the labels, from      |
| kernel_distance, kernel_speed | the first one, from the last one [60]                           |
| dropout_variance,             | of training accuracy over draws of dropout, and its mean [24]   |
| dropout_accuracy              |                                                                 |
| local_complexity              | units that change sign near a probe row's embedding [54]        |
| learning_coefficient          | local learning coefficient by Langevin sampling [12]            |

The first five are cheap. The others are measured at few checkpoints (`training.dear_every`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from gmb_hf.training import activations
from gmb_hf.training.recorders import CheckpointState, Recorder
from gmb_hf.training.stacked import SeedStack

BATCHES, MOST_BATCH_ROWS = 8, 512  # as in the paper, whose batches are a ninth of the rows
STEP = 1e-3  # of the plain gradient steps whose order is exchanged
SLOW = 0.98  # of the moving average, a step
DIFFERENCE = 1e-8  # length of the step by which a Hessian's product is taken
KRYLOV, TRACE_PROBES = 12, 6
KERNEL_ROWS = 32
DROPOUT, DROPOUT_PASSES, DROPOUT_ROWS = 0.3, 20, 100
COMPLEXITY_ROWS, DIRECTIONS, RADIUS = 25, 16, 0.05
SAMPLER_STEPS, SAMPLER_BURN_IN, SAMPLER_RATE, LOCALISATION = 200, 100, 3e-5, 100.0
TINY = 1e-300

Gradient = Callable[[Tensor], Tensor]
"""The gradient [S, P] of a loss of each model by all its weights laid end to end, [S, P]."""


def flat(tensors: Mapping[str, Tensor], dtype: torch.dtype = torch.float64) -> Tensor:
    """The tensors [S, ...] of every model laid end to end, [S, P]."""
    parts = [tensor.detach().reshape(len(tensor), -1).to(dtype) for tensor in tensors.values()]
    return torch.cat(parts, dim=1)


def shaped(vectors: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `flat` laid end to end, [S, P], by name and in shape."""
    sizes = [tensor[0].numel() for tensor in like.values()]
    parts = zip(like.items(), vectors.split(sizes, dim=1), strict=True)
    return {name: part.view(tensor.shape) for (name, tensor), part in parts}


def flat_gradient(
    outputs: Tensor, weights: Mapping[str, Tensor], masks: Mapping[str, Tensor], dtype: torch.dtype
) -> Tensor:
    """The gradient of every model's outputs by all its weights laid end to end, [S, P].

    It is 0 by a weight that the outputs do not depend on, and where a mask holds a weight at 0.
    """
    found = torch.autograd.grad(outputs.sum(), list(weights.values()), materialize_grads=True)
    named = dict(zip(weights, found, strict=True))
    return flat({name: g * masks[name] if name in masks else g for name, g in named.items()}, dtype)


class LossGradient:
    """The gradient of the mean loss over some training rows, at any weights of the models.

    Args:
        stack: of the models.
        part: which of the training rows.
        dtype: of the computation.
    """

    def __init__(
        self, stack: SeedStack, part: slice, *, dtype: torch.dtype = torch.float64
    ) -> None:
        self._stack = stack
        self.rows = stack.of_training_rows("input_ids", part)
        self._forward = stack.forward(self.rows, dtype)

    def with_losses(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Losses [S] and their gradient [S, P] at weights [S, P]."""
        stack = self._stack
        with torch.enable_grad():
            at = {
                name: part.detach().contiguous().requires_grad_()
                for name, part in shaped(weights, stack.weights).items()
            }
            losses = self._forward.losses(at)[0]
            return losses.detach(), flat_gradient(losses, at, stack.masks, weights.dtype)

    def __call__(self, weights: Tensor) -> Tensor:
        """The gradient [S, P] at weights [S, P]."""
        return self.with_losses(weights)[1]


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(1)


def commutator_defect(
    weights: Tensor, first: Gradient, second: Gradient, step: float = STEP
) -> tuple[Tensor, Tensor, Tensor]:
    """|theta_AB - theta_BA| / (|step g_A| |step g_B|), and both gradients at theta.

    theta_AB follows a plain gradient step on A by one on B, theta_BA the other way round: to first
    order the numerator is step^2 |H_B g_A - H_A g_B|.
    """
    of_first, of_second = first(weights), second(weights)
    first_then = -step * (of_first + second(weights - step * of_first))
    second_then = -step * (of_second + first(weights - step * of_second))
    scale = step**2 * of_first.norm(dim=1) * of_second.norm(dim=1)
    return (first_then - second_then).norm(dim=1) / scale.clamp(min=TINY), of_first, of_second


def gradient_noise(first: Tensor, second: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Variance of the mean gradient of two batches, and the noise scale in rows: [S] each.

    With b rows in each batch, |g_A - g_B|^2 / 2 estimates tr(Sigma) / b; the variance of the mean
    of both is half of that, and the scale tr(Sigma) / |g|^2, g the mean of both. The noise in g is
    not taken off: the scale is 2b where the batches' gradients are orthogonal, whatever the noise.
    """
    squares = (first - second).square().sum(1)
    whole = (0.5 * (first + second)).square().sum(1)
    return squares / 4, rows * squares / 2 / whole.clamp(min=TINY)


def scaling_alignment(weights: Tensor, gradient: Tensor) -> Tensor:
    """Cosine of -g with the weights: above 0 where descent scales the model up."""
    lengths = weights.norm(dim=1) * gradient.norm(dim=1)
    cosine: Tensor = -_dot(weights, gradient) / lengths.clamp(min=TINY)
    return cosine


class Gradients(Recorder):
    """Records the cheap observables of the table above."""

    def __init__(self, stack: SeedStack) -> None:
        count = stack.train.answers.shape[1] // len(stack.task.answer_positions)
        self._rows = min(count // BATCHES, MOST_BATCH_ROWS)
        parts = slice(self._rows), slice(self._rows, 2 * self._rows)
        self._batches: tuple[LossGradient, LossGradient] | None = None
        if self._rows:
            self._batches = LossGradient(stack, parts[0]), LossGradient(stack, parts[1])
        self._memory = SLOW**stack.training.checkpoint_every

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """All of them, [S]."""
        set_by_loss = {name: now.stack.weights[name].grad for name in now.weights}
        gradient = flat({name: g for name, g in set_by_loss.items() if g is not None})
        weights = flat(now.weights)
        slow = torch.lerp(gradient, self.kept.get("slow", gradient), self._memory)
        self.kept["slow"] = slow
        found = {
            "slow_gradient_norm": slow.norm(dim=1),
            "loss_scaling_alignment": scaling_alignment(weights, gradient),
        }
        if self._batches is not None:
            defect, first, second = commutator_defect(weights, *self._batches)
            found["commutator_defect"] = defect
            found["gradient_variance"], found["gradient_noise_scale"] = gradient_noise(
                first, second, self._rows
            )
        return found


# The Hessian.


def hessian_product(gradient: Gradient, weights: Tensor, here: Tensor, direction: Tensor) -> Tensor:
    """H v of directions [S, P] of length 1, from the gradient here, [S, P], and a step away.

    Where a ReLU turns within the step, the gradient jumps, and the jump over so short a step is
    larger than all else: of the differences to both sides the smaller one is taken.
    """
    ahead = gradient(weights + DIFFERENCE * direction) - here
    behind = here - gradient(weights - DIFFERENCE * direction)
    smooth = ahead.norm(dim=1, keepdim=True) <= behind.norm(dim=1, keepdim=True)
    return torch.where(smooth, ahead, behind) / DIFFERENCE


def largest_eigenvalue(product: Gradient, start: Tensor, steps: int = KRYLOV) -> Tensor:
    """The largest eigenvalue of a symmetric operator on [S, P], by Lanczos' method: [S].

    Args:
        product: of the operator with vectors of length 1.
        start: a vector [P] or [S, P] to begin with.
        steps: how many products are taken; no more than P.
    """
    basis = [start / start.norm(dim=-1, keepdim=True)]
    rows: list[Tensor] = []
    for step in range(steps):
        image = product(basis[-1])
        rows.append(torch.stack([_dot(image, vector) for vector in basis], dim=1))
        if step == steps - 1:
            break
        rest = image
        for _ in range(2):  # once leaves what rounding brought in
            for vector in basis:
                rest = rest - _dot(rest, vector).unsqueeze(1) * vector
        length = rest.norm(dim=1, keepdim=True)
        # A space that is exhausted goes on with zeros.
        alive = length > 1e-10 * image.norm(dim=1, keepdim=True).clamp(min=TINY)
        basis.append(torch.where(alive, rest / length.clamp(min=TINY), 0.0))
    matrix = torch.zeros(len(start), steps, steps, dtype=start.dtype, device=start.device)
    for step, row in enumerate(rows):
        matrix[:, step, : step + 1] = row
    largest: Tensor = torch.linalg.eigvalsh(matrix, UPLO="L")[:, -1]
    return largest


class Hessian(Recorder):
    """Records the largest eigenvalue and the trace of the training loss's Hessian.

    The trace is Hutchinson's estimate by six vectors of signs, the same for all seeds and at all
    checkpoints, so that it moves with the weights alone.
    """

    def __init__(self, stack: SeedStack) -> None:
        self._gradient = LossGradient(stack, slice(None))

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """Both, [S]."""
        weights = flat(now.weights)
        here = self._gradient(weights)
        generator = torch.Generator().manual_seed(0)
        size = weights.shape[1]
        signs = torch.randint(2, (TRACE_PROBES, size), generator=generator)
        signs = (2 * signs - 1).to(weights)
        start = torch.randn(size, generator=generator, dtype=weights.dtype).to(weights.device)

        def product(direction: Tensor) -> Tensor:
            return hessian_product(self._gradient, weights, here, direction)

        trace = torch.zeros(len(weights), dtype=weights.dtype, device=weights.device)
        for sign in signs:
            unit = (sign / math.sqrt(size)).expand_as(weights)
            trace += size * _dot(unit, product(unit)) / TRACE_PROBES
        top = largest_eigenvalue(product, start.expand_as(weights), min(KRYLOV, size))
        return {"hessian_top": top, "hessian_trace": trace}


# The tangent kernel.


def tangent_kernel(gradients: Tensor) -> Tensor:
    """Inner products [S, n, n] of the gradients of n outputs, [S, n, P]."""
    return (gradients @ gradients.transpose(1, 2)).double()


def kernel_cosine(first: Tensor, second: Tensor, *, centred: bool = False) -> Tensor:
    """Cosine of two kernels [S, n, n]; centred it is their alignment (CKA): [S]."""
    if centred:
        first, second = (
            k - k.mean(1, keepdim=True) - k.mean(2, keepdim=True) + k.mean((1, 2), keepdim=True)
            for k in (first, second)
        )
    lengths = first.flatten(1).norm(dim=1) * second.flatten(1).norm(dim=1)
    cosine: Tensor = (first * second).sum((1, 2)) / lengths.clamp(min=TINY)
    return cosine


class TangentKernel(Recorder):
    """Records how the kernel of the answers' logits moves; none of a model it cannot look into.

    Of the first 32 training rows, whose output is the logit of the answer that they carry.
    """

    def __init__(self, stack: SeedStack) -> None:
        self._rows: Tensor | None = None
        if activations.shows_activations(stack):
            self._rows = activations.asked_rows(stack)[:, :KERNEL_ROWS]
            self._labels = stack.train.answers[:, :KERNEL_ROWS]

    def gradients(self, now: CheckpointState) -> Tensor:
        """The gradient of each row's output by all weights, [S, n, P]."""
        assert self._rows is not None
        seeds, count, length = self._rows.shape
        with torch.enable_grad():
            # Each row is read by a copy of its model.
            copies = {
                name: weight.repeat_interleave(count, dim=0).requires_grad_()
                for name, weight in now.weights.items()
            }
            embedded = activations.embed(copies, self._rows.reshape(-1, 1, length))
            logits = activations.forward(copies, now.stack.shape, embedded).logits[:, 0]
            outputs = logits.gather(1, self._labels.reshape(-1, 1))
            found = flat_gradient(outputs, copies, now.stack.masks, outputs.dtype)
        return found.view(seeds, count, -1)

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """All three, [S]."""
        if self._rows is None:
            return {}
        kernel = tangent_kernel(self.gradients(now))
        first = self.kept.setdefault("first", kernel)
        last = self.kept.get("last", kernel)
        self.kept["last"] = kernel
        same = (self._labels.unsqueeze(1) == self._labels.unsqueeze(2)).double()
        moved = (kernel - last).flatten(1).norm(dim=1)
        return {
            "kernel_alignment": kernel_cosine(kernel, same),
            "kernel_distance": 1 - kernel_cosine(kernel, first, centred=True),
            "kernel_speed": moved / kernel.flatten(1).norm(dim=1).clamp(min=TINY),
        }


# Noise in activations, inputs and weights.


class Perturbations(Recorder):
    """Records dropout and local complexity; none of a model that it cannot look into."""

    def __init__(self, stack: SeedStack) -> None:
        self._rows: Tensor | None = None
        if activations.shows_activations(stack):
            self._rows = activations.asked_rows(stack)

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """All three, [S]."""
        if self._rows is None:
            return {}
        accuracies = self._under_dropout(now, self._rows[:, :DROPOUT_ROWS])
        return {
            "dropout_variance": accuracies.var(0, unbiased=False),
            "dropout_accuracy": accuracies.mean(0),
            "local_complexity": self._local_complexity(now, self._rows[:, :COMPLEXITY_ROWS]),
        }

    def _under_dropout(self, now: CheckpointState, rows: Tensor) -> Tensor:
        """Training accuracy under each draw, [draws, S]."""
        generator = torch.Generator().manual_seed(0)

        def drop(states: Tensor) -> Tensor:
            kept = torch.rand(states.shape[1:], generator=generator) >= DROPOUT
            return states * kept.to(states) / (1 - DROPOUT)

        labels = now.stack.train.answers[:, : rows.shape[1]]
        embedded = activations.embed(now.weights, rows)
        found = []
        for _ in range(DROPOUT_PASSES):
            logits = activations.forward(now.weights, now.stack.shape, embedded, drop=drop).logits
            found.append((logits.argmax(-1) == labels).double().mean(1))
        return torch.stack(found)

    def _local_complexity(self, now: CheckpointState, rows: Tensor) -> Tensor:
        embedded = activations.embed(now.weights, rows)
        seeds, count = rows.shape[:2]
        generator, size = torch.Generator().manual_seed(0), embedded[0, 0].numel()
        normal = torch.randn(size, DIRECTIONS, generator=generator, dtype=torch.float64)
        directions = torch.linalg.qr(normal).Q.T.to(embedded)
        vertices = torch.cat([directions, -directions]).view(-1, *embedded.shape[2:])
        length = RADIUS * embedded.flatten(2).norm(dim=2).view(seeds, count, 1, 1, 1)
        around = (embedded.unsqueeze(2) + length * vertices).flatten(1, 2)
        shown = activations.forward(now.weights, now.stack.shape, around)
        crossed = torch.zeros(seeds, count, dtype=torch.float64, device=rows.device)
        for before in shown.before:
            above = (before > 0).unflatten(1, (count, -1))
            crossed += (above.any(2) & ~above.all(2)).double().sum(2)
        return crossed.mean(1)


class LearningCoefficient(Recorder):
    """Records the local learning coefficient, n beta (mean loss of samples - loss), beta = 1/log n.

    Samples are of one chain of Langevin dynamics that is drawn to the present weights, with the
    gradient of all training rows and the same noise for every seed.
    """

    def __init__(self, stack: SeedStack) -> None:
        self._gradient = LossGradient(stack, slice(None), dtype=torch.float32)
        self._count = self._gradient.rows.shape[1]

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """The coefficient, [S]."""
        centre = flat(now.weights, torch.float32)
        beta = self._count / math.log(max(self._count, 3))
        generator = torch.Generator().manual_seed(0)
        weights, sampled = centre, []
        for step in range(SAMPLER_STEPS):
            losses, gradient = self._gradient.with_losses(weights)
            if step >= SAMPLER_BURN_IN:
                sampled.append(losses.double())
            noise = torch.randn(centre.shape[1], generator=generator).to(centre)
            pull = beta * gradient + LOCALISATION * (weights - centre)
            weights = weights - SAMPLER_RATE / 2 * pull + math.sqrt(SAMPLER_RATE) * noise
        # A chain that diverges, where the loss is very sharp, counts as a large coefficient.
        mean = torch.stack(sampled).nan_to_num(1e6).clamp(max=1e6).mean(0)
        return {"learning_coefficient": beta * (mean - now.losses.double())}
