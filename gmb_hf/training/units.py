"""What attention, hidden units and gradients by the input show, of models that learn equations.

Each observable is a function of stacked tensors [S, ...] -> [S]; the numbers are those of
`docs/signals.md`. All are read at EQ by `activations.forward`, over the first 256 training rows,
more where there are more than 32 residues, or over the first 64 of them ("probe rows").

| observable                    | what it is                                                      |
|-------------------------------|-----------------------------------------------------------------|
| activation_sparsity,          | share of activations at 0 (ReLU) or within .01 of it; of units  |
| dead_units                    | that no row activates [52]                                      |
| head_similarity,              | mean cosine of two heads' attention patterns; standard          |
| head_entropy_spread           | deviation over heads of the patterns' entropy [50]              |
| frequency_synchronisation,    | of units as functions of the operation's direction: share on    |
| frequency_rank                | the most common frequency; frequencies for 90% of power [49]    |
| synergy, redundancy           | smallest and largest O-information of groups of units [51]      |
| circuit_complexity            | divergence when a tenth of a block's weights is set to 0 [53]   |
| noise_entropy,                | matrix entropy of probe rows' states under noise, and what they |
| noise_information             | share with those without [56]                                   |
| centroid_alignment            | cosine of an input and its gradient of all logits [55]          |
| centroid_rank                 | directions with 90% of those gradients' variance [6]            |
| agop_trace, agop_top,         | of the average gradient outer product by the operands, and its  |
| agop_circulant_deviation      | distance from a circulant matrix [59]                           |

A model of one head has no head_*; an operation without a direction no frequency_* and
agop_circulant_deviation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.training import activations
from gmb_hf.training.activations import Activations
from gmb_hf.training.observables import EMBEDDING, NOISE_SCALE, orthonormal_waves, places
from gmb_hf.training.recorders import CheckpointState, Recorder
from gmb_hf.training.representations import (
    TINY,
    class_means,
    correlations,
    eigenvalue_shares,
    energy_rank,
    entropy,
    scatter,
)
from gmb_hf.training.stacked import SeedStack

ACTIVE = 0.01  # of an activation that is not exactly 0 where a unit is off
POWER_SHARE = 0.9
GROUPS, MOST_UNITS = 10, 32
ZEROED = 0.1
ROWS, ROWS_OF_RESIDUE, PROBES = 256, 8, 64
OPERANDS = (1, 3)
_CORRELATION_RIDGE = 1e-6


def sparsity(units: Tensor, *, relu: bool) -> tuple[Tensor, Tensor]:
    """The share of activations [S, n, f] that are off, and of units that are off in all rows."""
    off = units <= 0 if relu else units.abs() < ACTIVE
    rows = off.sum(1)  # in which each unit is off
    count = off.shape[1]
    return rows.double().mean(1) / count, (rows == count).double().mean(1)


def head_patterns(attention: Tensor) -> tuple[Tensor, Tensor]:
    """Mean cosine of two heads' patterns [S, n, h, T], and the spread of their entropies: [S]."""
    heads = attention.shape[2]
    unit = functional.normalize(attention, dim=-1)
    cosines = (unit.sum(2).square().sum(-1) - heads) / (heads * (heads - 1))
    spread = entropy(attention).double().mean(1).std(1, unbiased=False)
    return cosines.double().mean(1), spread


def centred_means(vectors: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Class means of vectors [S, n, c] less the mean of these: [S, classes, c], 0 without rows.

    A row whose label is -1 is in no class.
    """
    means, counts = class_means(vectors, labels, classes)
    present = (counts > 0).to(means.dtype).unsqueeze(-1)
    average = (means * present).sum(1, keepdim=True) / present.sum(1, keepdim=True).clamp(min=1)
    return (means - average) * present


def frequencies(units: Tensor, place: Tensor, waves: Tensor) -> tuple[Tensor, Tensor]:
    """Share of units on the most common frequency, chance taken off, and frequencies they need.

    The mean response of each unit over the rows of each place of the cyclic group is a function on
    that group. The first number is (share - 1 / K) / (1 - 1 / K) for K frequencies, the second the
    median over units of the fewest frequencies that hold 90% of the power.

    Args:
        units: [S, n, f].
        place: of the rows' true answers, -1 for one outside the group, [S, n].
        waves: of `orthonormal_waves`, [2, K, G].
    """
    count, order = waves.shape[1:]
    centred = centred_means(units, place, order).double()
    amplitudes = (waves.double().reshape(-1, order) @ centred).unflatten(1, (2, count))
    power = amplitudes.square().sum(1)  # [S, K, f]
    alive = power.sum(1) > TINY
    dominant = functional.one_hot(power.argmax(1), count) * alive.unsqueeze(-1)
    share = dominant.sum(1).amax(1).double() / alive.sum(1).clamp(min=1)
    chance = 1 / count
    ordered = power.transpose(1, 2).sort(-1, descending=True).values
    needed = energy_rank(ordered / ordered.sum(-1, keepdim=True).clamp(min=TINY), POWER_SHARE)
    needed = torch.where(alive, needed, 0).double()
    found = (share - chance) / max(1 - chance, TINY)
    return found, needed.median(1).values


def grouped(matrix: Tensor, groups: int) -> Tensor:
    """Agglomerative clustering by average linkage of 1 - correlation [S, f, f]: groups [S, f].

    Groups are numbered from 0 by their first members.
    """
    distance = 1 - matrix
    distance.diagonal(dim1=1, dim2=2).fill_(math.inf)
    seeds, count = distance.shape[:2]
    models = torch.arange(seeds, device=matrix.device)
    size = torch.ones(seeds, count, dtype=distance.dtype, device=matrix.device)
    label = torch.arange(count, device=matrix.device).repeat(seeds, 1)
    for _ in range(count - groups):
        nearest = distance.flatten(1).argmin(1)
        first, second = nearest // count, nearest % count  # the first of equal ones: first < second
        sizes = size[models, first], size[models, second]
        total = sizes[0] + sizes[1]
        joined = (
            sizes[0].unsqueeze(1) * distance[models, first]
            + sizes[1].unsqueeze(1) * distance[models, second]
        ) / total.unsqueeze(1)
        distance[models, first] = joined
        distance[models, :, first] = joined
        distance[models, second] = math.inf
        distance[models, :, second] = math.inf
        size[models, first] = total
        label = torch.where(label == second.unsqueeze(1), first.unsqueeze(1), label)
    used = functional.one_hot(label, count).amax(1)
    return (used.cumsum(1) - 1).gather(1, label)


def normal_scores(values: Tensor) -> Tensor:
    """The columns of [S, n, k] as a Gaussian copula sees them: normal quantiles of mean ranks."""
    from scipy.stats import rankdata

    ranks = torch.from_numpy(rankdata(values.cpu().numpy(), axis=1)).to(values.device)
    scores: Tensor = torch.special.ndtri(ranks / (values.shape[1] + 1))
    return scores


def log_minors(matrix: Tensor) -> Tensor:
    """Log determinants of all principal minors of positive matrices [S, k, k]: [S, 2^k].

    Bit j of the place says whether row j belongs to the minor; the empty one has 0.
    """
    parts, logs = matrix.unsqueeze(1), matrix.new_zeros(len(matrix), 1)
    for _ in range(matrix.shape[1]):
        pivot, column = parts[..., :1, :1], parts[..., 1:, :1]
        rest = parts[..., 1:, 1:]
        schur = rest - column @ column.transpose(2, 3) / pivot
        with_pivot = logs + pivot[..., 0, 0].clamp(min=TINY).log()
        parts, logs = torch.cat([rest, schur], dim=1), torch.cat([logs, with_pivot], dim=1)
    return logs


def o_information(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest O-information of two or more Gaussian variables: [S] each, in nats.

    Of correlation matrices [S, k, k], over all subsets of the variables: (m - 2) H(Z) + sum over j
    of H(Z_j) - H(Z without j), where constants cancel.
    """
    count = matrix.shape[1]
    identity = torch.eye(count, dtype=matrix.dtype, device=matrix.device)
    entropies = 0.5 * log_minors((1 - _CORRELATION_RIDGE) * matrix + _CORRELATION_RIDGE * identity)
    subset = torch.arange(2**count, device=matrix.device)
    bits = (subset.unsqueeze(1) >> torch.arange(count, device=matrix.device)) & 1
    size = bits.sum(1)
    omega = (size - 2) * entropies
    for j in range(count):
        omega = omega - bits[:, j] * entropies[:, subset & ~(1 << j)]
    several = omega[:, size >= 2]
    return several.amin(1), several.amax(1)


def unit_information(units: Tensor) -> tuple[Tensor, Tensor]:
    """Synergy and redundancy of ten groups of units [S, n, f], by a Gaussian copula: [S] each."""
    step = math.ceil(units.shape[2] / MOST_UNITS)
    few = units[:, :, ::step]
    groups = min(GROUPS, few.shape[2])
    label = grouped(correlations(scatter(few)), groups)
    member = functional.one_hot(label, groups).to(few.dtype)
    means = (few @ member) / member.sum(1, keepdim=True)
    return o_information(correlations(scatter(normal_scores(means))))


def divergence(logits: Tensor, others: Tensor) -> Tensor:
    """Mean Kullback-Leibler divergence of rows of logits [S, n, V] from others, in nats: [S]."""
    logs = [x.double().log_softmax(-1) for x in (logits, others)]
    return (logs[0].exp() * (logs[0] - logs[1])).sum(-1).mean(1)


def collision_entropies(clean: Tensor, noisy: Tensor) -> tuple[Tensor, Tensor]:
    """Renyi's matrix entropy of order 2 of noisy rows [S, n, d], and what clean ones share: [S].

    Of the Gram matrices of rows of length 1 over n; jointly that of their Hadamard product.
    """
    grams = []
    for rows in (clean, noisy):
        unit = functional.normalize(rows.double(), dim=-1)
        grams.append(unit @ unit.transpose(1, 2) / rows.shape[1])
    joint = grams[0] * grams[1] * clean.shape[1]
    first, second, both = (-g.square().sum((1, 2)).clamp(min=TINY).log() for g in (*grams, joint))
    return second, first + second - both


def circulant_deviation(matrix: Tensor) -> Tensor:
    """Norm of what a matrix [S, G, G] differs from its circulant part by, over its own: [S]."""
    order = matrix.shape[1]
    steps = torch.arange(order, device=matrix.device)
    at = (steps.unsqueeze(1) + steps) % order  # row i, i + k
    diagonals = matrix.gather(2, at.expand(len(matrix), -1, -1))
    rest = diagonals - diagonals.mean(1, keepdim=True)
    whole = matrix.flatten(1).norm(dim=1).clamp(min=TINY)
    deviation: Tensor = rest.flatten(1).norm(dim=1) / whole
    return deviation


def class_spread(vectors: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Shares of variance of the class means of vectors [S, n, c] by direction, largest first."""
    centred = centred_means(vectors.double(), labels, classes)
    return eigenvalue_shares(centred @ centred.transpose(1, 2))


class Units(Recorder):
    """Records the observables of the table above; none of a model that it cannot look into."""

    def __init__(self, stack: SeedStack) -> None:
        self._rows: Tensor | None = None
        if not activations.shows_activations(stack):
            return
        equation, shape = stack.task.equation, stack.shape
        assert equation is not None
        count = max(ROWS, ROWS_OF_RESIDUE * equation.residues)
        self._rows = activations.asked_rows(stack)[:, :count]
        self._place: Tensor | None = None
        order = places(equation.group, equation.residues)
        if order is not None:
            at = torch.tensor(order, device=stack.device)
            self._place = at[stack.truth[:, :count]]
            self._waves = orthonormal_waves(max(order) + 1).to(stack.device)
            self._order = at.argsort()[-(max(order) + 1) :]
        # The same for all seeds, at every checkpoint and in any company.
        generator = torch.Generator().manual_seed(0)
        probes = self._rows[0, :PROBES].shape
        noise = torch.randn(*probes, shape.hidden_size, generator=generator)
        signs = torch.randint(2, (probes[0], shape.vocab_size), generator=generator)
        self._noise = noise.to(stack.device)
        self._signs = (2 * signs - 1).to(stack.device)
        block = f"model.layers.{shape.num_hidden_layers - 1}."
        self._kept = {
            name: torch.rand(weight.shape[1:], generator=generator).to(stack.device) >= ZEROED
            for name, weight in stack.weights.items()
            if name.startswith(block) and weight.dim() == 3
        }

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """All of them, [S]."""
        if self._rows is None:
            return {}
        weights, shape = now.weights, now.stack.shape
        shown = activations.forward(weights, shape, activations.embed(weights, self._rows))
        units = torch.cat(shown.units, dim=2)
        sparse, dead = sparsity(units, relu=shape.hidden_act == "relu")
        synergy, redundancy = unit_information(shown.units[-1])
        found = {
            "activation_sparsity": sparse,
            "dead_units": dead,
            "synergy": synergy,
            "redundancy": redundancy,
        }
        if shape.num_attention_heads > 1:
            patterns = [head_patterns(pattern[:, :PROBES]) for pattern in shown.attention]
            found["head_similarity"], found["head_entropy_spread"] = (
                torch.stack(values).mean(0) for values in zip(*patterns, strict=True)
            )
        if self._place is not None:
            found["frequency_synchronisation"], found["frequency_rank"] = frequencies(
                units, self._place, self._waves
            )
        probes = self._rows[:, :PROBES]
        embedded = activations.embed(weights, probes)
        found |= self._of_perturbations(now, shown, embedded)
        return found | self._of_input_gradients(now, embedded)

    def _of_perturbations(
        self, now: CheckpointState, shown: Activations, embedded: Tensor
    ) -> dict[str, Tensor]:
        weights, shape = now.weights, now.stack.shape
        clean = shown.hidden[:, :PROBES], shown.logits[:, :PROBES]
        scale = embedded.square().mean((1, 2, 3), keepdim=True).sqrt()
        noise = NOISE_SCALE * scale * self._noise.to(embedded.dtype)
        noisy = activations.forward(weights, shape, embedded + noise)
        own, shared = collision_entropies(clean[0], noisy.hidden)
        zeroed = {name: weights[name] * kept for name, kept in self._kept.items()}
        less = activations.forward({**weights, **zeroed}, shape, embedded)
        return {
            "noise_entropy": own,
            "noise_information": shared,
            "circuit_complexity": divergence(clean[1], less.logits),
        }

    def _of_input_gradients(self, now: CheckpointState, embedded: Tensor) -> dict[str, Tensor]:
        stack, weights = now.stack, now.weights
        with torch.enable_grad():
            inputs = embedded.detach().requires_grad_()
            logits = activations.forward(weights, stack.shape, inputs).logits
            everything = torch.autograd.grad(logits.sum(), inputs, retain_graph=True)[0].double()
            probed = torch.autograd.grad((logits * self._signs).sum(), inputs)[0].double()
        flat = everything.flatten(2)
        cosines = functional.cosine_similarity(embedded.double().flatten(2), flat, dim=2)
        labels, words = stack.train.answers[:, :PROBES], stack.shape.vocab_size
        spread = class_spread(flat, labels, words)
        found = {
            "centroid_alignment": cosines.mean(1),
            "centroid_rank": energy_rank(spread, POWER_SHARE),
        }
        count = flat.shape[1] * words
        by_operand = []
        for position in OPERANDS:
            rows = probed[:, :, position]
            by_operand.append(rows.transpose(1, 2) @ rows / count)
        whole = by_operand[0] + by_operand[1]
        found["agop_trace"] = whole.diagonal(dim1=1, dim2=2).sum(1)
        found["agop_top"] = torch.linalg.eigvalsh(whole)[:, -1]
        if self._place is not None:
            residues = weights[EMBEDDING][:, self._order].double()
            deviations = [
                circulant_deviation(residues @ one @ residues.transpose(1, 2)) for one in by_operand
            ]
            found["agop_circulant_deviation"] = torch.stack(deviations).mean(0)
        return found
