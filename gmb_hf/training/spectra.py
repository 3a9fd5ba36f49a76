"""What weights, their updates and windows of their snapshots show, for all seeds at once.

Numbers are those of the table in docs/signals.md, where the papers are named.

| column                       | no. | what it is|
|------------------------------|-----|------------------------------------------------------------|
| trajectory_pc1               | 2   | share of variance along the first component of the newest 30|
|                              |     | snapshots: Q, K, V, O of the last block, their mean|
| spectral_edge_gap            | 3   | s2^2 - s3^2 of the newest 10 attention increments|
| spectral_edge_ratio          | 3   | s_k / s_(k+1) of these, k as `edge` says|
| increment_lock_in            | 5   | s2 / s3 of the newest 20 increments|
| attention_commutator         | 4   | Frobenius norm of W_Q W_K - W_K W_Q, first block|
| query_gap                    | 4   | s1 - s2 of W_Q, first block|
| update_entropy               | 33  | entropy of 64 bins of the last update's sizes|
| update_top_share             | 33  | s1^2 / sum s^2 of the last update, mean over matrices|
| weight_effective_rank        | 34  | effective rank over rank, mean over matrices|
| stable_rank                  | 34  | sum s^2 / s1^2, mean over matrices|
| tail_exponent                | 35  | power law of the largest eigenvalues, mean over matrices|
| weight_entropy               | 37  | -sum |w| log |w||
| unembedding_weight_entropy   | 37  | entropy of 64 bins of the output layer's weights|
| compressed_length            | 38  | length of the rounded weights in an ideal code, nats|
| mask_distance                | 39  | Jaccard distance of the masks of large weights, to the last|
| embedding_participation, ... | 41  | of the embedding's Fourier coefficients over residues|
| initial_distance, _max       | 42  | Euclidean and largest distance from the initial weights|
| initial_cosine               | 42  | cosine of the weights with the initial ones|
| fiedler_value (costly)       | 32  | algebraic connectivity of the graph of weights|
| correlation_traps (costly)   | 36  | outliers of shuffled matrices|

A snapshot is taken and an increment ends at each checkpoint: their distance is the cadence. While
a run is younger than a window, the window holds what there is. Matrices are the embedding, the
output layer, and Q, K, V, O and both layers of the MLP of each block, without biases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from gmb_hf.training.observables import EMBEDDING, HEAD, ResidueWaves
from gmb_hf.training.recorders import CheckpointState, Recorder
from gmb_hf.training.stacked import SeedStack

SNAPSHOTS = 30
EDGE_WINDOW = 10
LOCK_WINDOW = 20
BINS = 64
KEPT_SHARE = 0.4  # of the weights, in a mask
LEAST_TAIL = 8  # eigenvalues of a power law
TOP_FREQUENCIES = 8
DENSITY_CUT = 0.5  # of the largest coefficient
ROUNDING = 0.5  # of the initial standard deviation
_FLOOR = 1e-6  # of the largest singular value: below is rounding
_QKV = ".attention.qkv.weight"
_PARTS = ("query", "key", "value")


def matrices(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weight matrices [S, m, n]; queries, keys and values apart, e.g. `...attention.query`."""
    found: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if name.endswith(_QKV):
            start = name.removesuffix("qkv.weight")
            found |= {start + part: w for part, w in zip(_PARTS, weight.chunk(3, 1), strict=True)}
        elif name in (EMBEDDING, HEAD) or name.endswith(
            (".attention.out.weight", ".mlp.up.weight", ".mlp.down.weight")
        ):
            found[name] = weight
    return found


def singular_values(stack: Sequence[Tensor], width: int) -> Tensor:
    """Singular values of matrices [S, m, n], the largest first, NaN behind: [matrices, S, width].

    One side of each matrix is the width. Those of a matrix of lower rank than `width` end earlier.
    """
    grams = []
    for matrix in stack:
        x = matrix.double()
        grams.append(x.transpose(1, 2) @ x if x.shape[2] == width else x @ x.transpose(1, 2))
    values: Tensor = torch.linalg.eigvalsh(torch.stack(grams)).flip(-1).clamp_(min=0).sqrt_()
    for place, matrix in enumerate(stack):
        values[place, :, min(matrix.shape[1:]) :] = math.nan
    return values


def effective_ranks(singular: Tensor) -> Tensor:
    """exp of the entropy of the normalised singular values [..., k], over their number: [...]."""
    share = singular / singular.nansum(-1, keepdim=True).clamp(min=1e-300)
    entropy = -torch.xlogy(share, share).nansum(-1)
    return entropy.exp() / singular.isfinite().sum(-1)


def stable_ranks(singular: Tensor) -> Tensor:
    """Sum of squares of the singular values [..., k], the largest first, over the first's."""
    squares = singular.square()
    return squares.nansum(-1) / squares[..., 0].clamp(min=1e-300)


def tail_exponents(eigenvalues: Tensor) -> Tensor:
    """Exponent of a power law fitted to the largest eigenvalues [..., k]: [...].

    Clauset et al. (2009): 1 + n / sum log(x / x_min) over the n eigenvalues from x_min on, with the
    x_min that leaves the smallest Kolmogorov-Smirnov distance. A tail has at least `LEAST_TAIL`
    eigenvalues, or all of a smaller matrix.

    Args:
        eigenvalues: the largest first; NaN behind where there are fewer.
    """
    # Row i takes the i + 1 largest as the tail, so that its smallest is x_min.
    largest = eigenvalues[..., :1]
    log = eigenvalues.clamp(min=1e-300).log().clamp(min=(largest * 1e-12).clamp(min=1e-300).log())
    count = torch.arange(1, log.shape[-1] + 1, device=log.device, dtype=log.dtype)
    inside = count <= count.unsqueeze(-1)  # [tail, place]
    above = torch.where(inside, log.unsqueeze(-2) - log.unsqueeze(-1), 0.0)  # log(x / x_min)
    exponent = 1 + count / above.sum(-1).clamp(min=1e-12)
    fitted = 1 - torch.exp((1 - exponent).unsqueeze(-1) * above)
    empirical = (count.unsqueeze(-1) - count) / count.unsqueeze(-1)  # the share that is smaller
    distance = torch.where(inside, (fitted - empirical).abs(), 0.0).amax(-1)
    known = eigenvalues.isfinite()
    least = known.sum(-1, keepdim=True).clamp(max=LEAST_TAIL)
    distance = torch.where(known & (count >= least), distance, math.inf)
    best: Tensor = exponent.gather(-1, distance.argmin(-1, keepdim=True)).squeeze(-1)
    return best


class Increments:
    """Inner products of the newest increments of vectors, kept as they come in.

    Args:
        size: how many increments are held at most.
        kept: what holds them, of a recorder: their `count`, the `last` vectors [S, M, D], the
            `ring` of increments [S, M, size, D] and their `gram` [S, M, size, size].
    """

    def __init__(self, size: int, kept: dict[str, Tensor]) -> None:
        self._size, self._kept = size, kept

    def add(self, vectors: Tensor) -> None:
        """Take the next vectors [S, M, D]; the first ones have no increment."""
        vectors, kept = vectors.double(), self._kept
        if "last" not in kept:
            models, many, length = vectors.shape
            kept["count"] = torch.tensor(0)
            kept["ring"] = vectors.new_zeros(models, many, self._size, length)
            kept["gram"] = vectors.new_zeros(models, many, self._size, self._size)
        else:
            place, moved = int(kept["count"]) % self._size, vectors - kept["last"]
            kept["ring"][:, :, place] = moved
            products = (kept["ring"] @ moved.unsqueeze(-1)).squeeze(-1)
            kept["gram"][:, :, place], kept["gram"][..., place] = products, products
            kept["count"] = kept["count"] + 1
        kept["last"] = vectors

    def gram(self, newest: int) -> Tensor:
        """Inner products [S, M, k, k] of the newest, the oldest first; fewer in a young run."""
        end = int(self._kept["count"])
        order = torch.arange(end - min(end, self._size, newest), end) % self._size
        return self._kept["gram"][..., order, :][..., order]


def first_component_share(gram: Tensor) -> Tensor:
    """Share of the variance of snapshots along their first principal component: [...].

    1 where nothing has moved. `gram` [..., k, k] is that of the increments between them.
    """
    count = gram.shape[-1] + 1
    sums = torch.ones(count, count - 1, dtype=gram.dtype, device=gram.device).tril(-1)
    sums -= sums.mean(0)  # snapshots, from the first one on, less their mean
    centred = sums @ gram @ sums.T
    trace = centred.diagonal(dim1=-2, dim2=-1).sum(-1)
    share = torch.linalg.eigvalsh(centred)[..., -1] / trace.clamp(min=1e-300)
    return torch.where(trace > 0, share, 1.0)


def edge(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Gap s2^2 - s3^2 and ratio s_k / s_(k+1) at the spectral edge of increments, [S] each.

    k has the largest (s_k / sum s)(s_k / s_(k+1)). Missing singular values are 0; the ratio is 1
    for fewer than two increments. `gram` [S, n, n] is that of the increments.
    """
    singular = _singular(gram)
    squares = torch.nn.functional.pad(singular, (0, 3)).square()
    gap = squares[:, 1] - squares[:, 2]
    if singular.shape[1] < 2:
        return gap, torch.ones_like(gap)
    ratios = _ratios(singular)
    k = (singular[:, :-1] * ratios).argmax(1, keepdim=True)
    return gap, ratios.gather(1, k).squeeze(1)


def lock_in(gram: Tensor) -> Tensor:
    """s2 / s3 of increments by their inner products [S, n, n]; 1 for fewer than three: [S]."""
    if gram.shape[1] < 3:
        return gram.new_ones(len(gram))
    return _ratios(_singular(gram))[:, 1]


def _singular(gram: Tensor) -> Tensor:
    values: Tensor = torch.linalg.eigvalsh(gram).flip(-1).clamp(min=0).sqrt()
    return values


def _ratios(singular: Tensor) -> Tensor:
    """Each singular value over the next, [S, n - 1]; 1 where all are rounding."""
    floored = singular.clamp(min=1e-30).maximum(_FLOOR * singular[:, :1])
    ratios: Tensor = floored[:, :-1] / floored[:, 1:]
    return ratios


def commutator_norm(query: Tensor, key: Tensor) -> Tensor:
    """Frobenius norm of QK - KQ of matrices [S, d, d]: [S]."""
    found: Tensor = (query @ key - key @ query).flatten(1).norm(dim=1)
    return found


def histogram_entropy(values: Tensor) -> Tensor:
    """Entropy (nats) of a histogram of values [S, N] in 64 even bins over their range, [S]."""
    low, high = values.amin(1, keepdim=True), values.amax(1, keepdim=True)
    place = (values - low) / (high - low).clamp(min=1e-30) * BINS
    return _entropy_of(place.long().clamp(max=BINS - 1), BINS)


def _entropy_of(symbols: Tensor, count: int) -> Tensor:
    """Entropy (nats) of the shares of each of the symbols 0 .. count - 1 in [S, N], [S]."""
    models = torch.arange(len(symbols), device=symbols.device).unsqueeze(1)
    flat = (count * models + symbols).flatten()
    share = torch.bincount(flat, minlength=count * len(symbols)).view(len(symbols), count).double()
    share /= symbols.shape[1]
    return -torch.xlogy(share, share).sum(1)


def code_length(values: Tensor, step: float | Tensor) -> Tensor:
    """Nats that values [S, N], rounded to multiples of `step`, take by their own frequencies, [S].

    The step is one number or one of each row, [S, 1]. The length is that which an ideal coder comes
    to when it knows how often each multiple occurs.
    """
    symbols = (values / step).round().long()
    lowest = int(symbols.min())
    return values.shape[1] * _entropy_of(symbols - lowest, int(symbols.max()) - lowest + 1)


def large_weights(sizes: Tensor) -> Tensor:
    """Which of the sizes [S, N] are among the largest 40%, bool."""
    smaller = sizes.shape[1] - math.ceil(KEPT_SHARE * sizes.shape[1])
    # numpy finds the place several times as fast as torch.
    ordered = np.partition(sizes.detach().cpu().numpy(), smaller, axis=1)
    least = torch.from_numpy(ordered[:, smaller : smaller + 1]).to(sizes.device)
    return sizes >= least


def jaccard_distance(one: Tensor, other: Tensor) -> Tensor:
    """1 - |A and B| / |A or B| of masks [S, N]: [S]."""
    common, either = (one & other).sum(1), (one | other).sum(1)
    return 1 - common.double() / either.clamp(min=1)


def fourier_measures(amplitudes: Tensor, pairs: int) -> dict[str, Tensor]:
    """Measures of Fourier coefficients over residues [S, 2, k, d] of `ResidueWaves`, [S] each.

    `pairs` is how many frequencies have a sine, all or all but the last.

    With c_k and s_k the norms of the cosine and sine coefficients of frequency k, and
    v_k^2 = c_k^2 + s_k^2:

    - participation: sum v^4 / (sum v^2)^2, the inverse participation ratio;
    - top8: share of v^2 that the 8 largest have;
    - density: share of all c_k and s_k above half of the largest of their kind;
    - balance: mean of min(c_k, s_k) / max(c_k, s_k).
    """
    sizes = amplitudes.norm(dim=-1).double()  # [S, 2, k]
    power = sizes.square().sum(1)
    total = power.sum(1).clamp(min=1e-300)
    largest = power.topk(min(TOP_FREQUENCIES, power.shape[1])).values
    shares = (sizes.amin(1) / sizes.amax(1).clamp(min=1e-300))[:, :pairs]
    dense = sizes > DENSITY_CUT * sizes.amax(2, keepdim=True)
    return {
        "participation": power.square().sum(1) / total.square(),
        "top8": largest.sum(1) / total,
        "density": dense.double().sum((1, 2)) / max(power.shape[1] + pairs, 1),
        "balance": shares.sum(1) / max(pairs, 1),
    }


def _flat(weights: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([weight.reshape(len(weight), -1) for weight in weights.values()], dim=1)


class Spectra(Recorder):
    """Records what weights and updates show; it reads no row."""

    def __init__(self, stack: SeedStack) -> None:
        # Drawn from the seeds, so that a training that goes on has them again.
        self._initial = _flat({name: w.detach() for name, w in stack.weights.items()})
        self._width = stack.shape.hidden_size
        self._step = ROUNDING * stack.scales.unsqueeze(1)
        self._increments = Increments(SNAPSHOTS - 1, self.kept)
        self._waves = ResidueWaves.of(stack)

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        named = matrices(now.weights)
        found = self._of_window(named)
        singular = singular_values(list(named.values()), self._width)
        found |= {
            "weight_effective_rank": effective_ranks(singular).mean(0),
            "stable_rank": stable_ranks(singular).mean(0),
            "tail_exponent": tail_exponents(singular.square()).mean(0),
        }
        first = {part: name for name in reversed(named) for part in _PARTS if name.endswith(part)}
        query, key = first["query"], first["key"]
        of_query = singular[list(named).index(query)]
        found["attention_commutator"] = commutator_norm(named[query], named[key])
        found["query_gap"] = of_query[:, 0] - of_query[:, 1]
        found |= self._of_updates(now.updates)
        found |= self._of_values(_flat(now.weights))
        head = now.weights.get(HEAD, now.weights[EMBEDDING])
        found["unembedding_weight_entropy"] = histogram_entropy(head.flatten(1))
        if self._waves is not None:
            measures = fourier_measures(
                self._waves.amplitudes(now.weights[EMBEDDING]), self._waves.pairs
            )
            found |= {f"embedding_{name}": value for name, value in measures.items()}
        return found

    def _of_window(self, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
        vectors = [w.flatten(1) for name, w in named.items() if ".attention." in name]
        self._increments.add(torch.stack(vectors, dim=1))
        last = self._increments.gram(SNAPSHOTS - 1)[:, -4:]  # Q, K, V and O of the last block
        gram = self._increments.gram(LOCK_WINDOW).sum(1)
        gap, ratio = edge(gram[:, -EDGE_WINDOW:, -EDGE_WINDOW:])
        return {
            "trajectory_pc1": first_component_share(last).mean(1),
            "spectral_edge_gap": gap,
            "spectral_edge_ratio": ratio,
            "increment_lock_in": lock_in(gram),
        }

    def _of_updates(self, updates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        largest = singular_values(list(matrices(updates).values()), self._width)
        share = 1 / stable_ranks(largest)
        moved = largest[..., 0] > 0
        return {
            "update_entropy": histogram_entropy(_flat(updates).abs()),
            "update_top_share": torch.where(moved, share, 0.0).mean(0),
        }

    def _of_values(self, values: Tensor) -> dict[str, Tensor]:
        """Measures of all weights [S, N]."""
        sizes = values.abs()
        large = large_weights(sizes)
        before = self.kept.get("large", large)
        self.kept["large"] = large
        moved = values - self._initial
        product = (values * self._initial).sum(1, dtype=torch.float64)
        lengths = values.norm(dim=1) * self._initial.norm(dim=1)
        return {
            "weight_entropy": -torch.xlogy(sizes, sizes).sum(1, dtype=torch.float64),
            "compressed_length": code_length(values, self._step),
            "mask_distance": jaccard_distance(large, before),
            "initial_distance": moved.norm(dim=1),
            "initial_distance_max": moved.abs().amax(1),
            "initial_cosine": product / lengths.clamp(min=1e-30),
        }


def weight_graph(weights: Mapping[str, Tensor]) -> Tensor:
    """Edge weights [S, N, N] of the graph of a model's units, zero where there is no edge.

    Units are the tokens of the input, the channels of the residual stream, which all blocks share,
    the channels of the query, key and value of each block, its hidden units, and the tokens of the
    output. An edge is the size of the weight between two units; the value has two, one into it and
    one out of it, added up. Every edge has one end in the residual stream.
    """
    named = matrices(weights)
    embedding = named[EMBEDDING]
    sides = [embedding.abs()]  # units beside the residual stream, each [S, units, width]
    for name, matrix in named.items():
        if name.endswith(("query", "key")):
            sides.append(matrix.abs())
        elif name.endswith("value"):
            out = named[name.replace(".attention.value", ".attention.out.weight")]
            sides.append(matrix.abs() + out.transpose(1, 2).abs())
        elif name.endswith(".mlp.up.weight"):
            down = named[name.replace(".mlp.up.", ".mlp.down.")]
            sides.append(matrix.abs() + down.transpose(1, 2).abs())
    sides.append(named.get(HEAD, embedding).abs())
    beside = torch.cat(sides, dim=1).double()
    width = beside.shape[2]
    graph = torch.nn.functional.pad(beside, (0, beside.shape[1], width, 0))
    graph[:, :width, width:] = beside.transpose(1, 2)
    return graph


def fiedler_value(graph: Tensor) -> Tensor:
    """Second smallest eigenvalue of the Laplacian of graphs [S, N, N], [S]."""
    laplacian = torch.diag_embed(graph.sum(2)) - graph
    second: Tensor = torch.linalg.eigvalsh(laplacian)[:, 1]
    return second


def trap_counts(stack: Sequence[Tensor], width: int) -> Tensor:
    """Eigenvalues of shuffled matrices [S, m, n] outside the bulk of random ones, [matrices, S].

    A matrix whose entries are shuffled has the spectrum of Marchenko and Pastur; outliers are left
    by entries that are too large. With k <= n the sides and eigenvalues scaled to a mean of 1, the
    bulk ends at b = (1 + sqrt(k / n))^2, and an outlier lies above
    b + sqrt(sqrt(k / n) b^(2/3) k^(-2/3)), as in WeightWatcher.
    """
    generator, shuffled = torch.Generator().manual_seed(0), []
    for matrix in stack:
        order = torch.randperm(matrix[0].numel(), generator=generator).to(matrix.device)
        shuffled.append(matrix.flatten(1)[:, order].view(matrix.shape))
    eigenvalues = singular_values(shuffled, width).square()
    eigenvalues = eigenvalues / eigenvalues.nanmean(-1, keepdim=True).clamp(min=1e-300)
    ends = []
    for matrix in stack:
        k, n = sorted(matrix.shape[1:])
        bulk = (1 + math.sqrt(k / n)) ** 2
        ends.append(bulk + math.sqrt(math.sqrt(k / n) * (bulk / k) ** (2 / 3)))
    above = eigenvalues > torch.tensor(ends).to(eigenvalues).view(-1, 1, 1)
    return above.sum(-1)


class CostlySpectra(Recorder):
    """Records the measures of the weights that take eigenvalues of large or of more matrices."""

    def __init__(self, stack: SeedStack) -> None:
        self._width = stack.shape.hidden_size

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        traps = trap_counts(list(matrices(now.weights).values()), self._width)
        return {
            "fiedler_value": fiedler_value(weight_graph(now.weights)),
            "correlation_traps": traps.sum(0).double(),
        }
