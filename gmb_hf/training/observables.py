"""What is measured at a checkpoint, for all seeds at once.

Each observable is a float64 array [S]. The gradient is the one at the checkpoint's weights, the
update the one that led to them, so a row of the log knows nothing of later steps.

| observable                     | what it is|
|-------------------------------|-----------------------------------------------------------------|
| train_/test_loss, _acc         | cross-entropy (nats); share of rows whose answer scores highest|
| train_/test_margin_q10,50,90   | quantiles of the answer's logit minus the best other logit|
| *_norm                         | Euclidean norms of weights, gradient and last update|
| *_entropy, *_rank              | entropy (nats) of the normalised singular values and its exp,|
|                                | the effective rank (Roy and Vetterli 2007)|
| *_gini                         | Gini coefficient of Fourier power over residues (Nanda 2023),|
|                                | in the order of the task's group: see `ResidueWaves`|
| participation_ratio            | of the held-out hidden states' covariance, (sum l)^2 / sum l^2|
| curvature                      | second difference of the loss along the gradient, over a step|
|                                | of finite length: see `curvature`|
| disagreement                   | share of held-out answers that change when embeddings are noisy|
| prediction_change              | share of held-out answers that differ from the last checkpoint's|
| restricted_loss, excluded_loss | losses with only, and without, the logits' key waves along the|
|                                | direction of the operation (Nanda 2023), see `FourierLosses`|
| correction_rate                | accuracy against the truth on rows with a wrong label|

A row with several answer tokens is right when all of them are, and its margin is the smallest of
theirs; losses and shares of changed answers are over tokens. A task that is no equation over
residues has no *_gini, restricted_loss and excluded_loss. Models with loops have those of
`loop_observables` too. What published signals need beside these is recorded where the config asks
for it: see `published`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.loops import halting_shares
from gmb_hf.runs.metadata import LEVELS, at_level
from gmb_hf.training.blocks import Trace, halting_logits, take
from gmb_hf.training.blocks import answer_losses as answer_losses
from gmb_hf.training.recorders import CheckpointState, Recorder, measured_by, under, within
from gmb_hf.training.stacked import SeedStack

EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"
QUANTILES = (0.1, 0.5, 0.9)
LOOP_QUANTILES = (50, 90)  # per cent
KEY_FREQUENCIES = 5  # as many as the network of Nanda (2023) has
NOISE_SCALE = 0.25  # of the embedding's root mean square
CURVATURE_STEP = 2.0**-9  # of the weight norm, and no further than
CURVATURE_FALL = 2.0**-7  # of the loss would fall along a straight line
NORMS = ("weight_norm", "embedding_norm", "unembedding_norm", "attention_norm", "mlp_norm")
FOURIER = ("embedding_gini", "unembedding_gini")
_SPECTRAL = {"embedding": "embedding", "unembedding": "unembedding", "attention": "mixing"}
SPECTRA = tuple(f"{part}_{kind}" for part in _SPECTRAL for kind in ("entropy", "rank"))
OF_WEIGHTS = (*NORMS, *SPECTRA, *FOURIER)


def norm(weights: Iterable[Tensor]) -> Tensor:
    """The Euclidean norm of several weights [S, ...] together, [S]."""
    squares = [weight.detach().reshape(len(weight), -1).square().sum(1) for weight in weights]
    return torch.stack(squares).sum(0).sqrt()


def margins(logits: Tensor, answers: Tensor) -> Tensor:
    """The answer's logit minus the best other logit, [S, n]; arguments as in `answer_losses`."""
    index = answers.unsqueeze(-1)
    given = logits.gather(-1, index).squeeze(-1)
    best_other = logits.scatter(-1, index, -math.inf).amax(-1)
    return given - best_other


def answer_quality(split: str, margin: Tensor) -> dict[str, Tensor]:
    """Accuracy and quantiles of the margins [S, n], [S] each, named for the split."""
    names = (f"{split}_margin_q{100 * share:.0f}" for share in QUANTILES)
    accuracy = {f"{split}_acc": (margin > 0).to(margin.dtype).mean(1)}
    return accuracy | dict(zip(names, quantiles(margin, QUANTILES), strict=True))


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


def fourier_basis(order: int) -> Tensor:
    """Cosines and sines of the frequencies over a cyclic group of `order` elements, [2, k, G].

    All waves have one norm. In a group of even order the highest frequency has no sine; zeros stand
    for it.
    """
    frequencies = torch.arange(1, order // 2 + 1, dtype=torch.float64)
    angles = 2 * math.pi * frequencies[:, None] * torch.arange(order)[None, :] / order
    basis = torch.stack([angles.cos(), angles.sin()])
    if order % 2 == 0:
        basis[:, -1] = 0.0
        basis[0, -1, 0::2], basis[0, -1, 1::2] = math.sqrt(0.5), -math.sqrt(0.5)
    return basis


class ResidueWaves:
    """The waves over the residues that are the rows of a matrix, in the order of a task's group.

    A network that multiplies sees a wave over discrete logarithms, which over the residues as they
    are counted is noise; of such a group the zero is left out. Without a group the order is that of
    the residues.

    Args:
        residues: p; rows 0 .. p - 1 stand for them.
        group: as in `EquationTokens`.
        like: a tensor of the type and on the device of the matrices.

    Attributes:
        pairs: of a cosine and a sine; in a group of even order the highest frequency, the last, has
            none.
    """

    def __init__(self, residues: int, group: str | None = None, *, like: Tensor) -> None:
        place = places(group, residues) or range(residues)
        order = sorted((at, residue) for residue, at in enumerate(place) if at >= 0)
        self.residues = residues
        self._order = torch.tensor([residue for _, residue in order], device=like.device)
        self._basis = fourier_basis(len(order)).to(like)
        self.pairs = (len(order) - 1) // 2

    @classmethod
    def of(cls, stack: SeedStack) -> ResidueWaves | None:
        """Those of a stack's embeddings; None where its tokens stand for no residues."""
        equation, like = stack.task.equation, stack.weights[EMBEDDING]
        return cls(equation.residues, equation.group, like=like) if equation else None

    def amplitudes(self, matrix: Tensor) -> Tensor:
        """Coefficients of the cosines and sines in [S, V, d], V >= p: [S, 2, k, d]."""
        return torch.einsum("ckp,spd->sckd", self._basis, matrix[:, self._order])


def fourier_gini(amplitudes: Tensor) -> Tensor:
    """Gini coefficient [S] of the power per frequency, 0 when even, near 1 for one.

    `amplitudes` [S, 2, k, d] are of `ResidueWaves`.
    """
    power = amplitudes.square().sum((1, 3)).sort(dim=1).values  # [S, k], increasing
    count = power.shape[1]
    rank = 2 * torch.arange(1, count + 1, device=power.device, dtype=power.dtype) - count - 1
    return (rank * power).sum(1) / (count * power.sum(1)).clamp(min=1e-30)


def of_weights(
    parts: Mapping[str, Callable[[], Iterable[Tensor]]],
    needs: Collection[str],
    waves: ResidueWaves | None = None,
) -> dict[str, Tensor]:
    """Norms, spectra and Fourier Gini coefficients of the weights, those that `needs` names, [S].

    Args:
        parts: what gives the weights [S, ...] of "weight" (all), "embedding", "unembedding",
            "attention", "mlp" and "mixing" (queries, keys and values); more have norms alone.
        needs: names of observables.
        waves: over the residues; None where tokens stand for none.

    Raises:
        InputError: an embedding has fewer rows than there are residues.
    """
    norms = [name for name in parts if f"{name}_norm" in needs]
    found = {f"{name}_norm": norm(parts[name]()) for name in norms}
    entropies = {}
    for part, place in _SPECTRAL.items():
        if not {f"{part}_entropy", f"{part}_rank"}.isdisjoint(needs):
            entropies[part] = spectral_entropy([torch.cat(list(parts[place]()), dim=1)])[0]
    found |= {f"{part}_entropy": entropy for part, entropy in entropies.items()}
    found |= {f"{part}_rank": entropy.exp() for part, entropy in entropies.items()}
    if waves is None:
        return found
    for name in [name for name in FOURIER if name in needs]:
        (matrix,) = parts[name.removesuffix("_gini")]()
        residues, rows = waves.residues, matrix.shape[1]
        if rows < residues:
            raise InputError(f"parts: residues is {residues}, but the matrix has {rows} rows")
        found[name] = fourier_gini(waves.amplitudes(matrix))
    return found


def disagreement(
    predictions: Tensor, embedding: Tensor, predict: Callable[[Tensor], Tensor]
) -> Tensor:
    """The share of predictions [S, n] that change when embeddings [S, V, d] are noisy, [S].

    The noise is in proportion to the root mean square, and the same for all models of the shape;
    `predict` gives the predictions by other embeddings.
    """
    scale = NOISE_SCALE * embedding.square().mean((1, 2), keepdim=True).sqrt()
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(embedding.shape[1:], generator=generator).to(embedding)
    return changed_share(predict(embedding + scale * noise), predictions)


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
    proportion to L / |g| stays inside the bend and above the rounding of the loss. It is 0 where
    the loss, or its slope, is 0 in the precision at hand.

    The step is finite: where ReLUs turn on its way, what it finds is larger than the second
    derivative, by about a half in the median of trainings as in the panels.

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
    # Without weight decay a loss comes down to 0 in float32, with a slope that is not yet 0.
    bends = (slope > torch.finfo(slope.dtype).tiny) & (length > 0)
    scale = torch.where(bends, length / slope, 0.0)
    moved = {
        name: torch.addcmul(
            weights[name], gradient, scale.view(-1, *[1] * (weights[name].dim() - 1))
        )
        for name, gradient in gradients.items()
    }
    rise = losses_at(moved).double() - losses.double()
    bent = 2 * (rise - length.double() * slope.double()) / length.double() ** 2
    return torch.where(bends, bent, 0.0)


def loop_observables(trace: Trace, logits: Sequence[Tensor] | None = None) -> dict[str, Tensor]:
    """All observables of the table above, [S] each.

    Args:
        trace: the states at EQ, [S, m, d] each.
        logits: of halting at each cycle but the last, [S, m] each; of a model with halting.
    """
    cycles, steps = len(trace.slow), len(trace.fast) // len(trace.slow)
    fast = torch.stack(trace.fast, dim=1).unflatten(1, (cycles, steps))
    slow = torch.stack(trace.slow, dim=1)  # [S, N, m, d]
    fast_updates = _lengths(_changes(fast.flatten(1, 2))).unflatten(1, fast.shape[1:3])
    slow_updates = _lengths(_changes(slow))  # [S, N, m]
    found = {
        f"fast_update_{cycle + 1}_{step + 1}": fast_updates[:, cycle, step].mean(-1)
        for cycle in range(cycles)
        for step in range(steps)
    }
    found |= {
        f"slow_update_{cycle + 1}": slow_updates[:, cycle].mean(-1) for cycle in range(cycles)
    }
    lowest = fast_updates.cummin(dim=2).values
    for level in LEVELS:
        # The first hitting time: one more than the steps before the first that lies below.
        first = 1 + (lowest > level / 100).sum(2).to(lowest.dtype)
        found |= _quantiles(at_level("settling_q{}", level), first)
    if cycles > 1:
        spikes = (fast_updates[:, 1:, 0] - fast_updates[:, 1:, -1]).flatten(1)
        for level in LEVELS:
            share = (spikes >= level / 100).to(spikes.dtype).mean(1)
            found[at_level("reset_share", level)] = share
        found["reset_spike"] = torch.quantile(spikes, 0.5, dim=1)
    ends = fast[:, :, -1]  # [S, N, m, d]
    found |= _quantiles("state_distance_q{}", _lengths(slow - ends))
    found["slow_participation"] = participation_ratio(slow.flatten(1, 2))
    found["fast_participation"] = participation_ratio(ends.flatten(1, 2))
    return found if logits is None else found | _halting(logits)


def about_loops(shape: GrokkingTransformerConfig) -> dict[str, Any]:
    """How the observables of a model with loops were taken, for the metadata of a log."""
    layers = shape.num_hidden_layers
    return {
        "slow_block": f"layer {layers}",
        "fast_block": "layer 1" if layers == 2 else f"layers 1 to {layers - 1}",
        "cycles": shape.cycles,
        "inner_steps": shape.inner_steps,
        "halting": shape.halting,
        "states": "at EQ, all held-out rows, at every inner step and cycle end",
        "norm": "Euclidean, over sqrt(width), which is the length of every state",
        "projection": "identity",
        "levels_percent": list(LEVELS),
    }


def _changes(states: Tensor) -> Tensor:
    """Each state minus the one before it, the first minus zero: [S, k, m, d]."""
    return torch.cat([states[:, :1], states[:, 1:] - states[:, :-1]], dim=1)


def _lengths(states: Tensor) -> Tensor:
    """Euclidean norms over sqrt(d), [..., d] -> [...]."""
    lengths: Tensor = states.norm(dim=-1) / math.sqrt(states.shape[-1])
    return lengths


def _quantiles(name: str, values: Tensor) -> dict[str, Tensor]:
    """Quantiles of [S, N, m] over cycles and rows, [S] each."""
    found = quantiles(values.flatten(1), [percent / 100 for percent in LOOP_QUANTILES])
    return dict(zip(map(name.format, LOOP_QUANTILES), found, strict=True))


def _halting(logits: Sequence[Tensor]) -> dict[str, Tensor]:
    shares = torch.stack(halting_shares(logits), dim=1)  # [S, N, m]
    cycle = torch.arange(1, shares.shape[1] + 1, dtype=shares.dtype, device=shares.device)
    chance = shares.mean(2)  # of each cycle, over rows: [S, N]
    mean = (chance * cycle).sum(1)
    return {
        "halting_steps": mean,
        "halting_variance": (chance * (cycle - mean.unsqueeze(1)).square()).sum(1),
        "halting_margin": torch.stack(list(logits), dim=1).mean((1, 2)),
    }


class FourierLosses:
    """Measures the logits of all pairs of operands, part of them trained on.

    Args:
        place: of each residue as an answer, as `places` says.
        train: true answers of the training rows, [S, n].
        test: answers of the held-out rows, [S, m]; with the training rows all pairs.
        labels: answers that the training rows carry, [S, n].
        dtype: of the logits.
    """

    def __init__(
        self,
        place: Sequence[int],
        *,
        train: Tensor,
        test: Tensor,
        labels: Tensor,
        dtype: torch.dtype,
    ) -> None:
        self._order = max(place) + 1
        at = torch.tensor(place, device=train.device)
        self._answers = at.argsort()[-self._order :]
        # Rows with a zero, which have no place, are collected behind the others.
        at = torch.where(at < 0, self._order, at)
        self._train, self._labels = at[train], labels
        self._sums = [_adder(at[answers], self._order + 1) for answers in (train, test)]
        self._waves = orthonormal_waves(self._order).to(train.device, dtype)

    @classmethod
    def of(cls, stack: SeedStack) -> FourierLosses | None:
        """That of a stack; None where the operation has no direction."""
        equation = stack.task.equation
        place = None if equation is None else places(equation.group, equation.residues)
        if place is None:
            return None
        return cls(
            place,
            train=stack.truth,
            test=stack.test.answers,
            labels=stack.train.answers,
            dtype=stack.weights[EMBEDDING].dtype,
        )

    def measure(self, train: Tensor, test: Tensor) -> dict[str, Tensor]:
        """`restricted_loss` and `excluded_loss`, [S]; of all logits, [S, n, V] and [S, m, V]."""
        sums = self._sums[0](train) + self._sums[1](test)
        means = sums[:, :-1] / self._order  # every place has as many pairs as there are places
        key = key_waves(means, self._waves)
        kept = means.mean(1, keepdim=True) + key
        removed = take(functional.pad(key, (0, 0, 0, 1)), self._train)
        left = torch.sub(train, removed, out=removed)
        answers = self._answers.expand(len(key), -1)
        return {
            "restricted_loss": answer_losses(kept, answers).mean(1),
            "excluded_loss": answer_losses(left, self._labels).mean(1),
        }


def _adder(place: Tensor, places: int) -> Callable[[Tensor], Tensor]:
    """What adds up rows [S, n, V] by the place [S, n] of each: [S, places, V].

    Each place is a bag of rows, which is many times as fast as `index_add`, and in a fixed order.
    """
    models = torch.arange(len(place), device=place.device).unsqueeze(1)
    bag = (places * models + place).flatten()
    ends = torch.bincount(bag, minlength=places * len(place)).cumsum(0)
    order, starts = bag.argsort(stable=True), functional.pad(ends, (1, -1))

    def add(rows: Tensor) -> Tensor:
        sums: Tensor = functional.embedding_bag(order, rows.flatten(0, 1), starts, mode="sum")
        return sums.view(len(rows), places, -1)

    return add


def places(group: str | None, prime: int) -> list[int] | None:
    """Where each answer stands in the cyclic group in which an operation adds its operands.

    A list over the residues of the modulus, -1 for the zero, which is outside the "multiplicative"
    group, while "additive" has all. None where there is no such group, or one without a wave.
    """
    if group == "additive":
        return list(range(prime))
    if group is None or prime == 2:
        return None
    root = next(  # whose powers are all residues but 0
        g for g in range(2, prime) if len({pow(g, e, prime) for e in range(prime - 1)}) == prime - 1
    )
    logarithms = {pow(root, exponent, prime): exponent for exponent in range(prime - 1)}
    return [logarithms.get(residue, -1) for residue in range(prime)]


def orthonormal_waves(order: int) -> Tensor:
    """The waves of `fourier_basis` with norm 1, [2, k, G]."""
    return fourier_basis(order) * math.sqrt(2 / order)


def key_waves(means: Tensor, waves: Tensor) -> Tensor:
    """The part of the mean logits [S, G, V] that the key frequencies make, same shape.

    `means` are of the pairs at each place, `waves` of `orthonormal_waves`. What all tokens of a row
    have in common is left out: a softmax does not see it.
    """
    centred = means - means.mean(-1, keepdim=True)
    count, order = waves.shape[1:]
    flat = waves.reshape(-1, order)
    amplitudes: Tensor = (flat @ centred).unflatten(1, (2, count))  # [S, 2, k, V]
    power = amplitudes.square().sum((1, 3))
    key = power.topk(min(KEY_FREQUENCIES, count)).indices
    chosen = torch.zeros_like(power).scatter_(1, key, 1.0)
    return flat.T @ (amplitudes * chosen[:, None, :, None]).flatten(1, 2)


@torch.no_grad()
def model_hidden(model: GrokkingTransformerForCausalLM, input_ids: Tensor, position: int) -> Tensor:
    """The final hidden states [m, d] of one model by its own forward, before the answer.

    `input_ids` are [m, T]; the model is in any mode, since it has no dropout.
    """
    # Causal: what follows the position changes nothing.
    states = model.model(input_ids=input_ids[:, : position + 1]).last_hidden_state
    found: Tensor = states[:, position]
    return found


@torch.no_grad()
def cosines(hidden: Tensor, anchors: Tensor, candidates: Tensor) -> Tensor:
    """Cosine of every candidate with its anchor, [S, N, C].

    Both are places among the m states `hidden` [S, m, d]: anchors [S, N], candidates [S, N, C]. A
    state of length 0 has the cosine 0 with all others.
    """
    unit = functional.normalize(hidden, dim=-1)
    candidate = take(unit, candidates.flatten(1)).unflatten(1, candidates.shape[1:])
    return torch.einsum("snd,sncd->snc", take(unit, anchors), candidate)


class Observer:
    """Measures a stack; it remembers the predictions of the last checkpoint.

    Args:
        stack: what is measured.
        recorders: of columns beside the usual ones, which begin with this stack.

    Attributes:
        predictions: predicted answers of the held-out rows at the last checkpoint, [S, m], or
            None before the first; part of the state that a resumed run needs.
    """

    def __init__(self, stack: SeedStack, recorders: Sequence[Recorder] = ()) -> None:
        self.stack = stack
        self.recorders = tuple(recorders)
        self.predictions: Tensor | None = None
        self._waves = ResidueWaves.of(stack)
        self._fourier_losses = FourierLosses.of(stack)

    @torch.no_grad()
    def measure(
        self, losses: Tensor, logits: Tensor, updates: Mapping[str, Tensor] | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """All observables of the checkpoint whose losses, logits and gradients were just made.

        Args:
            losses: training losses, [S].
            logits: training logits, [S, n, V].
            updates: the last change of each parameter; the stack's own when not given.

        Raises:
            InputError: a number is not finite; seed, observable and step are named.
        """
        stack = self.stack
        self._check_finite("train_loss", losses.double().cpu().numpy())
        found: dict[str, Tensor] = {"train_loss": losses}
        found |= answer_quality("train", self._of_rows(margins(logits, stack.train.answers)))
        trace = Trace()
        test_logits, hidden = stack.test.logits(stack.weights, trace)
        answers = stack.test.answers
        found["test_loss"] = answer_losses(test_logits, answers).mean(1)
        found |= answer_quality("test", self._of_rows(margins(test_logits, answers)))
        updates = stack.last_updates() if updates is None else updates
        found |= self._of_weights(updates)
        found["participation_ratio"] = participation_ratio(hidden)
        found["curvature"] = curvature(
            losses,
            stack.weights,
            self._gradients(),
            stack.losses_at,
            weight_norm=found["weight_norm"],
            gradient_norm=found["gradient_norm"],
        )
        predictions = test_logits.argmax(-1)
        embedding = stack.weights[EMBEDDING]
        found["disagreement"] = disagreement(predictions, embedding, self._predictions_by)
        # A resumed run reads its predictions from disk, wherever it trains.
        before = predictions if self.predictions is None else self.predictions
        found["prediction_change"] = changed_share(predictions, before.to(predictions.device))
        self.predictions = predictions
        if trace.slow:
            halts = stack.shape.halting
            halting = halting_logits(stack.weights, trace.slow) if halts else None
            found |= loop_observables(trace, halting)
        if self._fourier_losses is not None:
            found |= self._fourier_losses.measure(logits, test_logits)
        if bool(stack.corrupted.any()):
            right = logits.argmax(-1) == stack.truth
            wrong = stack.corrupted
            found["correction_rate"] = (right & wrong).sum(1) / wrong.sum(1)
        if self.recorders:
            now = CheckpointState(stack, losses, logits, test_logits, hidden, updates)
            found = measured_by(self.recorders, now, found)
        values = {name: value.double().cpu().numpy() for name, value in found.items()}
        for name, value in values.items():
            self._check_finite(name, value)
        return values

    def state(self) -> dict[str, Tensor]:
        """What the recorders need to resume; `predictions` are stored apart."""
        states = (under(str(i), one.state()) for i, one in enumerate(self.recorders))
        # A recorder may hold one tensor twice, which a file of tensors does not take.
        return {name: tensor.clone() for state in states for name, tensor in state.items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        here = {name: tensor.to(self.stack.device) for name, tensor in tensors.items()}
        for i, recorder in enumerate(self.recorders):
            recorder.load_state(within(str(i), here))

    def _of_rows(self, margin: Tensor) -> Tensor:
        """Margins [S, rows] of margins at all answers: a row is its worst scored one."""
        task = self.stack.task
        of_tokens = margin.unflatten(1, (-1, len(task.answer_positions)))
        if len(task.scored_answers) < len(task.answer_positions):
            of_tokens = of_tokens[..., list(task.scored_answers)]
        smallest: Tensor = of_tokens.amin(-1)
        return smallest

    def _check_finite(self, name: str, values: NDArray[np.float64]) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"seed {self.stack.seeds[bad[0]]}: {name} is not finite at step "
                f"{self.stack.step}; lower training.lr or training.weight_decay"
            )

    def _gradients(self) -> dict[str, Tensor]:
        weights = self.stack.weights
        return {name: w.grad for name, w in weights.items() if w.grad is not None}

    def _of_weights(self, updates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        weights = self.stack.weights
        embedding = weights[EMBEDDING]
        head = weights.get(HEAD, embedding)

        def named(word: str) -> Callable[[], list[Tensor]]:
            return lambda: [weight for name, weight in weights.items() if word in name]

        parts: dict[str, Callable[[], Iterable[Tensor]]] = {
            "weight": weights.values,
            "embedding": lambda: [embedding],
            "unembedding": lambda: [head],
            "attention": named(".attention."),
            "mlp": named(".mlp."),
            "gradient": self._gradients().values,
            "update": updates.values,
            "mixing": named(".attention.qkv.weight"),
        }
        needs = (*OF_WEIGHTS, "gradient_norm", "update_norm")
        return of_weights(parts, needs, self._waves)

    def _predictions_by(self, embedding: Tensor) -> Tensor:
        """Predictions of the held-out rows with other embeddings [S, V, d] of the input."""
        weights = self.stack.weights
        noisy = {HEAD: weights[EMBEDDING], **weights, EMBEDDING: embedding}  # a tied head stays
        logits, _ = self.stack.test.logits(noisy)
        return logits.argmax(-1)
