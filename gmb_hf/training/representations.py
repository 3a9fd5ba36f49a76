"""What activations and outputs show on rows, for all seeds at once.

Every observable is a function of stacked tensors [S, ...] -> [S]; numbers in brackets are those of
`docs/signals.md`, which names papers and what had to be guessed. Hidden states are those that the
output layer reads. "Probe rows" are the first 100 training rows, which are in random order.

| observable                   | what it is                                                        |
|------------------------------|-------------------------------------------------------------------|
| dmd_residual, hankel_rank    | of a dynamic mode decomposition of log-probabilities [18, 19]     |
| loss_participation,          | of the covariance of probe losses over the last checkpoints [21]  |
| loss_heat_capacity           |                                                                   |
| train_confidence, logit_scale| mean largest probability; root mean square of logits [23]         |
| swap_divergence,             | between the answers to (a, b) and (b, a) [25]                     |
| swap_agreement               |                                                                   |
| input_sensitivity            | share of answers that another operand changes [28]                |
| alignment_ratio              | log-alignment of the output layer with its inputs [44]            |
| hidden_entropy               | spectral entropy of the hidden states' covariance [45]            |
| head_tail_contrast           | of the same spectrum, on held-out rows [46]                       |
| train_/test_class_distance   | between classes over within classes [47]                          |
| bifurcation_coordinate       | log precision of a mixture over its critical value [48]           |
| probe_accuracy               | of a linear probe, on the half of rows it was not fitted to [66]  |
| relative_flatness            | of the output layer [14]                                          |
| zero_loss_share              | rows whose loss is exactly 0 [16]                                 |
| intrinsic_dimension          | two nearest neighbours [57]                                       |
| component_persistence        | total persistence of H0 [58]                                      |
| hidden_rank,                 | directions with 99% of the energy; effective rank of the          |
| hidden_correlation_rank      | correlations [61]                                                 |
| head_information_ratio,      | of class means and the output layer's rows [56]                   |
| head_entropy_difference      |                                                                   |
| distance_outliers            | eigenvalues of the distance matrix beyond its bulk [63]           |

What attention and hidden units show is in `units`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gmb_hf.tasks.modular import OPERATIONS, ModularTask
from gmb_hf.training.blocks import answer_losses, take
from gmb_hf.training.observables import EMBEDDING, HEAD
from gmb_hf.training.recorders import CheckpointState, Recorder
from gmb_hf.training.stacked import SeedStack

PROBE_ROWS = 100
PROBE_QUANTILES = tuple(round(0.05 * i, 2) for i in range(1, 20))
DMD_STEPS, DMD_LEAST, DMD_DELAYS = 500, 20, 5  # a window in steps, and in checkpoints at least
DMD_ENERGY = 0.99
LOSS_WINDOW = 20  # checkpoints
RANK_ENERGY = 0.99
TOP_DIRECTIONS = 5
PROTOTYPES, MIXTURE_STEPS = 8, 5
RIDGE = 1e-3  # of the mean diagonal
OUTLIER_ROWS = 64
TINY = 1e-30


# Spectra of rows.


def scatter(rows: Tensor) -> Tensor:
    """Covariance of the columns of [S, n, d] times n, in float64: [S, d, d]."""
    centred = rows - rows.mean(1, keepdim=True)
    return (centred.transpose(1, 2) @ centred).double()


def spectrum_shares(rows: Tensor) -> Tensor:
    """Eigenvalues of the covariance of [S, n, d], largest first, over their sum: [S, d]."""
    return eigenvalue_shares(scatter(rows))


def eigenvalue_shares(matrices: Tensor) -> Tensor:
    """Eigenvalues of positive matrices [..., d, d], largest first, over their sum."""
    values = torch.linalg.eigvalsh(matrices).clamp(min=0).flip(-1)
    shares: Tensor = values / values.sum(-1, keepdim=True).clamp(min=TINY)
    return shares


def entropy(shares: Tensor) -> Tensor:
    """Shannon entropy in nats, over the last axis."""
    return -torch.xlogy(shares, shares).sum(-1)


def energy_rank(shares: Tensor, energy: float = RANK_ENERGY) -> Tensor:
    """How many of the largest shares [..., d] it takes to make up `energy` of the whole."""
    return 1 + (shares.cumsum(-1) < energy).sum(-1).clamp(max=shares.shape[-1] - 1)


def head_tail_contrast(shares: Tensor) -> Tensor:
    """Log of the five largest shares' sum over the sum of the rest."""
    head, tail = shares[..., :TOP_DIRECTIONS].sum(-1), shares[..., TOP_DIRECTIONS:].sum(-1)
    return head.clamp(min=1e-12).log() - tail.clamp(min=1e-12).log()


def correlations(covariance: Tensor) -> Tensor:
    """Of a multiple of a covariance matrix [S, d, d]; of a constant 0, but 1 with itself."""
    squares = covariance.diagonal(dim1=1, dim2=2)
    varies = squares > 1e-12 * squares.amax(1, keepdim=True)
    inverse = torch.where(varies, squares.clamp(min=TINY).rsqrt(), 0.0)
    matrix = covariance * inverse.unsqueeze(1) * inverse.unsqueeze(2)
    matrix.diagonal(dim1=1, dim2=2).fill_(1.0)
    return matrix


# Rows with labels.


def memberships(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """One-hot labels [S, n, classes]; faster than torch's, which goes through integers."""
    return (labels.unsqueeze(-1) == torch.arange(classes, device=labels.device)).to(dtype)


def class_means(hidden: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Mean of the rows [S, n, d] of each class, 0 without rows, and their number.

    `labels` are [S, n] below `classes`; the results [S, classes, d] and [S, classes].
    """
    member = memberships(labels, classes, hidden.dtype)
    counts = member.sum(1)
    sums = member.transpose(1, 2) @ hidden
    return sums / counts.clamp(min=1).unsqueeze(-1), counts


def class_distance(hidden: Tensor, labels: Tensor, means: Tensor, counts: Tensor) -> Tensor:
    """Mean squared distance of two class means over that of a row from its class mean, [S].

    Means and counts of the classes are of `class_means`.
    """
    present = (counts > 0).to(hidden.dtype)
    number = present.sum(1)
    weights = (present / number.clamp(min=1).unsqueeze(1)).unsqueeze(-1)
    centre = (means * weights).sum(1, keepdim=True)
    spread = ((means - centre).square().sum(-1) * present).sum(1)
    # Over all pairs i < j of C means, sum |c_i - c_j|^2 = C sum |c_i - centre|^2.
    between = 2 * spread / (number - 1).clamp(min=1)
    within_class = (hidden - take(means, labels)).square().sum(-1).mean(1)
    return between.double() / within_class.double().clamp(min=1e-12)


def probe_accuracy(hidden: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Accuracy of a linear probe for the label, by ridge regression in two folds, [S].

    Each half of the rows is predicted by a fit to the other half.
    """
    targets = memberships(labels, classes, hidden.dtype)
    half, right = hidden.shape[1] // 2, []
    for fitted, left in ((slice(half, None), slice(half)), (slice(half), slice(half, None))):
        mean = hidden[:, fitted].mean(1, keepdim=True)
        x = hidden[:, fitted] - mean
        gram = (x.transpose(1, 2) @ x).double()
        ridge = RIDGE * gram.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-9)
        gram = gram + torch.diag_embed(ridge.unsqueeze(1).expand(-1, gram.shape[1]))
        average = targets[:, fitted].mean(1, keepdim=True)
        moments = x.transpose(1, 2) @ (targets[:, fitted] - average)
        fit = torch.linalg.solve(gram, moments.double()).to(hidden.dtype)
        found = (hidden[:, left] - mean) @ fit + average
        right.append((found.argmax(-1) == labels[:, left]).double())
    return torch.cat(right, dim=1).mean(1)


# The output layer and its inputs.


def alignment_ratio(hidden: Tensor, head: Tensor) -> Tensor:
    """1 + log_d(sum_i p_i q_i) / 2 of the output layer [S, V, d] and its inputs [S, n, d].

    p are the normalised squared singular values and q the normalised squared projections of the
    inputs on the right singular vectors, so that the sum is tr(G M) / (tr G tr M) of the two Gram
    matrices.
    """
    gram, moments = ((x.transpose(1, 2) @ x).double() for x in (head, hidden))
    traces = [x.diagonal(dim1=1, dim2=2).sum(1) for x in (gram, moments)]
    kept = (gram * moments).sum((1, 2)) / (traces[0] * traces[1]).clamp(min=TINY)
    return 1 + 0.5 * kept.clamp(min=TINY).log() / math.log(max(head.shape[2], 2))


def relative_flatness(shares: Tensor, hidden: Tensor, head: Tensor) -> Tensor:
    """Sum over pairs of output rows of <w_s, w_t> tr(H_st), H the loss's Hessian by the rows, [S].

    For cross-entropy H_st = mean of (p_s [s = t] - p_s p_t) x x', so the sum is the mean over rows
    of |x|^2 times the variance of w_s under p.

    Args:
        shares: the probabilities p, [S, n, V].
        hidden: x, [S, n, d].
        head: w, [S, V, d].
    """
    top = shares.argmax(-1)
    # Variance around the likeliest row, which has no part in it: nothing cancels where p is near 1.
    rest = shares.scatter(-1, top.unsqueeze(-1), 0.0)
    apart = take((head.unsqueeze(1) - head.unsqueeze(2)).square().sum(-1), top)
    shift = rest @ head - rest.sum(-1, keepdim=True) * take(head, top)
    variance = (rest * apart).sum(-1) - shift.square().sum(-1)
    return (hidden.square().sum(-1) * variance).double().mean(1)


def gram_entropy(gram: Tensor) -> Tensor:
    """Von Neumann entropy of a positive matrix [..., n, n] over its trace."""
    return entropy(eigenvalue_shares(gram))


def shared_information(features: Tensor, rows: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix mutual information ratio and entropy difference ratio of two sets of vectors, [S].

    Args:
        features, rows: class means and output rows, [S, C, d].
        present: which classes there are, [S, C]; the others are left out.
    """
    grams = []
    for vectors in (features, rows):
        unit = functional.normalize(vectors.double(), dim=-1) * present.unsqueeze(-1)
        grams.append(unit @ unit.transpose(1, 2))
    first, second = (gram_entropy(gram) for gram in grams)
    information = first + second - gram_entropy(grams[0] * grams[1])
    smaller, larger = torch.minimum(first, second), torch.maximum(first, second)
    ratio = information / smaller.clamp(min=1e-9)
    return ratio, (first - second).abs() / larger.clamp(min=1e-9)


# The cloud of probe rows.


def distances_between(rows: Tensor) -> Tensor:
    """Euclidean distances of rows [S, n, d] in float64, [S, n, n]; of equal rows exactly 0."""
    centred = rows.double() - rows.double().mean(1, keepdim=True)
    squares = squared_distances(centred, centred)
    lengths = centred.square().sum(-1)
    rounding = 1e-13 * (lengths.unsqueeze(1) + lengths.unsqueeze(2))
    return torch.where(squares > rounding, squares, 0.0).sqrt()


def squared_distances(rows: Tensor, others: Tensor) -> Tensor:
    """Of rows [S, n, d] and others [S, m, d], [S, n, m]; of one row and itself about 0."""
    lengths = rows.square().sum(-1).unsqueeze(2) + others.square().sum(-1).unsqueeze(1)
    return torch.baddbmm(lengths, rows, others.transpose(1, 2), alpha=-2).clamp_(min=0)


def intrinsic_dimension(distances: Tensor) -> Tensor:
    """Maximum likelihood dimension of two nearest neighbours, of distances [S, n, n]: [S].

    n over the sum of log(r2 / r1); rows that coincide with another one are left out.
    """
    away = distances + torch.diag_embed(distances.new_full(distances.shape[:2], math.inf))
    nearest = away.topk(2, dim=2, largest=False).values
    apart = nearest[:, :, 0] > 1e-9 * nearest[:, :, 1]
    logs = torch.where(apart, nearest[:, :, 1].log() - nearest[:, :, 0].clamp(min=TINY).log(), 0.0)
    count, total = apart.sum(1), logs.sum(1)
    return torch.where(total > 0, count / total.clamp(min=TINY), 0.0)


def component_persistence(distances: Tensor) -> Tensor:
    """Total persistence of H0 of the Vietoris-Rips filtration, of distances [S, n, n]: [S].

    Components are born at 0 and die at the edges of the minimum spanning tree, which are the
    heights of single linkage.
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    pairs = [squareform(one, checks=False) for one in distances.cpu().numpy()]
    return distances.new_tensor([linkage(pair, "single")[:, 2].sum() for pair in pairs])


def distance_outliers(distances: Tensor) -> Tensor:
    """How far the largest eigenvalue of a distance matrix [S, n, n] lies beyond its bulk, [S].

    Log of the largest |eigenvalue| of the doubly centred distances over 2 sd sqrt(n), the edge of
    Wigner's semicircle for independent entries of the same standard deviation.
    """
    n = distances.shape[1]
    centred = distances - distances.mean(1, keepdim=True)
    centred = centred - centred.mean(2, keepdim=True)
    deviation = centred.square().mean((1, 2)).sqrt()
    largest = torch.linalg.eigvalsh(centred).abs().amax(-1)
    edge = 2 * deviation * math.sqrt(n)
    beyond: Tensor = largest.clamp(min=1e-12).log() - edge.clamp(min=1e-12).log()
    return beyond


def bifurcation_coordinate(hidden: Tensor) -> Tensor:
    """log(beta / beta_c), beta_c = 1 / largest eigenvalue of the covariance of [S, n, d]: [S].

    beta is the precision of an isotropic Gaussian mixture of 8 equal components, fitted by 5 steps
    of expectation maximisation from rows at even distances.
    """
    rows = hidden - hidden.mean(1, keepdim=True)
    count, width = rows.shape[1:]
    start = torch.linspace(0, count - 1, min(PROTOTYPES, count), device=rows.device).long()
    centres = rows[:, start]
    variance = rows.var(1, unbiased=False).mean(1)
    squares = squared_distances(rows, centres)
    for _ in range(MIXTURE_STEPS):
        share = (squares / (-2 * variance.clamp(min=TINY).view(-1, 1, 1))).softmax(-1)
        mass = share.sum(1).clamp(min=1e-9)
        centres = (share.transpose(1, 2) @ rows) / mass.unsqueeze(-1)
        squares = squared_distances(rows, centres)
        variance = (share * squares).sum((1, 2)) / (count * width)
    largest = torch.linalg.eigvalsh(scatter(rows) / count)[:, -1]
    coordinate: Tensor = largest.clamp(min=1e-12).log() - variance.double().clamp(min=1e-12).log()
    return coordinate


# Windows of checkpoints.


def dmd_residual(records: Tensor) -> tuple[Tensor, Tensor]:
    """Relative residual of a Hankel DMD of records [W, S, q], and the rank that it took: [S] each.

    Vectors of d = DMD_DELAYS records, h_t = (z_t, ..., z_(t + d - 1)), make X = (h_1 ... h_(m-1))
    and Y = (h_2 ... h_m). With the singular vectors U, V that hold 99% of the energy of X, the
    operator in the reduced space predicts U U' Y V V'; the residual is the Frobenius norm of the
    rest over that of Y.
    """
    z = records.double().transpose(0, 1)  # [S, W, q]
    hankel = z.unfold(1, DMD_DELAYS, 1).flatten(2).transpose(1, 2)  # [S, q d, m]
    x, y = hankel[:, :, :-1], hankel[:, :, 1:]
    # Through the Gram matrix of X, which is smaller: U U' Y V V' = X V s^-2 V' X' Y V V'.
    squares, right = torch.linalg.eigh(x.transpose(1, 2) @ x)
    squares, right = squares.flip(-1).clamp(min=0), right.flip(-1)
    shares = squares / squares.sum(-1, keepdim=True).clamp(min=TINY)
    rank = energy_rank(shares, DMD_ENERGY)
    used = torch.arange(squares.shape[1], device=z.device) < rank.unsqueeze(1)
    right = right * used.unsqueeze(1)
    inverse = torch.where(used & (squares > 0), 1 / squares.clamp(min=TINY), 0.0)
    coefficients = (right * inverse.unsqueeze(1)) @ (
        right.transpose(1, 2) @ (x.transpose(1, 2) @ y)
    )
    predicted = x @ (coefficients @ right) @ right.transpose(1, 2)
    length = y.flatten(1).norm(dim=1).clamp(min=TINY)
    return (y - predicted).flatten(1).norm(dim=1) / length, rank


def loss_spectrum(losses: Tensor) -> tuple[Tensor, Tensor]:
    """Participation ratio and heat capacity of the losses' covariance over time: [S] each.

    Of losses [W, S, n] at W checkpoints; with the normalised eigenvalues p, the participation ratio
    is 1 / sum p^2 and the heat capacity the variance of -log p under p.
    """
    x = losses.double().transpose(0, 1)
    x = x - x.mean(1, keepdim=True)
    shares = eigenvalue_shares(
        x @ x.transpose(1, 2)
    )  # those of the covariance of rows, but for zeros
    varies = shares.sum(-1) > 0.5
    logs = shares.clamp(min=TINY).log()
    mean = (shares * logs).sum(-1)
    capacity = (shares * logs.square()).sum(-1) - mean.square()
    participation = 1 / shares.square().sum(-1).clamp(min=TINY)
    return torch.where(varies, participation, 1.0), torch.where(varies, capacity.clamp(min=0), 0.0)


# Answers to all pairs of operands.


def swap_violation(logits: Tensor, swapped: Tensor) -> tuple[Tensor, Tensor]:
    """Mean symmetric divergence between rows [S, n, V] of two inputs, and the share of alike ones.

    The divergence is the mean of both Kullback-Leibler divergences, in nats.
    """
    logs = [x.double().log_softmax(-1) for x in (logits, swapped)]
    divergence = 0.5 * ((logs[0].exp() - logs[1].exp()) * (logs[0] - logs[1])).sum(-1)
    agree = logits.argmax(-1) == swapped.argmax(-1)
    return divergence.mean(1), agree.double().mean(1)


def input_sensitivity(predictions: Tensor, present: Tensor, answers: int) -> Tensor:
    """The share of predictions that change when one operand is replaced by another one, [S].

    The mean over all pairs, both operands and all replacements, of predictions [S, p, p] where
    `present` [p, p]; there are `answers` tokens that may be predicted.
    """
    changed, total = predictions.new_zeros(len(predictions)).double(), 0.0
    for grid, mask in ((predictions, present), (predictions.transpose(1, 2), present.T)):
        counts = torch.zeros(*grid.shape[:2], answers, dtype=torch.float64, device=grid.device)
        counts.scatter_add_(2, grid, mask.double().expand(grid.shape))
        number = mask.sum(1).double()  # of pairs that share the operand that stays
        alike = (counts * (counts - 1)).sum(2)
        changed = changed + (number * (number - 1) - alike).sum(1)
        total += float((number * (number - 1)).sum())
    return changed / max(total, 1.0)


class AllPairs:
    """Puts the logits of training and held-out rows in the order of the pairs of operands.

    Args:
        stack: of equations, a row for each pair.
    """

    def __init__(self, stack: SeedStack) -> None:
        columns = [torch.from_numpy(column) for column in stack.task.operands().values()]
        equation = stack.task.equation
        assert equation is not None
        p = self.residues = equation.residues
        pair = columns[0] * p + columns[1]
        at = torch.full((p * p,), -1, dtype=torch.long)
        at[pair] = torch.arange(len(pair))
        # Where each row of the task is among the logits, training and held-out rows side by side.
        order = [np.concatenate([one.train_index, one.test_index]) for one in stack.data]
        self._place = torch.from_numpy(np.argsort(order, axis=1)).to(stack.device)
        self.present = (at >= 0).view(p, p).to(stack.device)
        self._at = at.clamp(min=0).to(stack.device)
        swap = at.view(p, p).T.flatten()
        kept = (columns[0] < columns[1]) & (swap[pair] >= 0)
        self._pairs = torch.arange(len(pair))[kept].unsqueeze(0).to(stack.device)
        self._swapped = swap[pair][kept].unsqueeze(0).to(stack.device)

    def ordered(self, train: Tensor, test: Tensor) -> Tensor:
        """Rows [S, n, c] and [S, m, c] in the order of the task's, [S, n + m, c]."""
        return take(torch.cat([train, test], dim=1), self._place)

    def predictions(self, logits: Tensor) -> Tensor:
        """Of ordered logits: [S, p, p] by the operands, anything where there is no such row."""
        found = logits.argmax(-1)[:, self._at]
        return found.view(len(found), self.residues, self.residues)

    def swapped(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Of ordered logits those of the pairs a < b, and those of (b, a), [S, pairs, V] each."""
        return take(logits, self._pairs), take(logits, self._swapped)


class Representations(Recorder):
    """Records the observables of the table above."""

    def __init__(self, stack: SeedStack) -> None:
        self._dmd_window = max(DMD_STEPS // stack.training.checkpoint_every, DMD_LEAST)
        self._pairs: AllPairs | None = None
        task = stack.task
        self._commutes = isinstance(task, ModularTask) and OPERATIONS[task.operation].commutes
        if task.equation is not None:
            self._pairs = AllPairs(stack)

    def measure(self, now: CheckpointState) -> dict[str, Tensor]:
        """All of them, [S]."""
        stack, weights = now.stack, now.weights
        logits, hidden, test_hidden = now.logits, now.train_hidden, now.test_hidden
        labels, test_labels = stack.train.answers, stack.test.answers
        words = stack.shape.vocab_size
        means, counts = class_means(hidden, labels, words)
        head = weights.get(HEAD, weights[EMBEDDING])
        probe = slice(PROBE_ROWS)
        shares = logits.softmax(-1)
        scores = logits[:, probe].double().log_softmax(-1)
        given = scores.gather(-1, labels[:, probe].unsqueeze(-1)).squeeze(-1)
        found = {
            "train_confidence": shares.amax(-1).double().mean(1),
            "logit_scale": logits.square().mean((1, 2)).sqrt(),
            # of cross-entropies in float32
            "zero_loss_share": (answer_losses(logits.float(), labels) == 0).double().mean(1),
            "alignment_ratio": alignment_ratio(hidden, head),
            "relative_flatness": relative_flatness(shares, hidden, head),
            "train_class_distance": class_distance(hidden, labels, means, counts),
            "test_class_distance": class_distance(
                test_hidden, test_labels, *class_means(test_hidden, test_labels, words)
            ),
            "probe_accuracy": probe_accuracy(hidden, labels, words),
            "bifurcation_coordinate": bifurcation_coordinate(hidden[:, probe]),
        }
        found |= self._of_spectra(hidden, test_hidden)
        found |= self._of_windows(given)
        distances = distances_between(hidden[:, probe])
        found["intrinsic_dimension"] = intrinsic_dimension(distances)
        found["component_persistence"] = component_persistence(distances)
        unlabelled = distances_between(test_hidden[:, :OUTLIER_ROWS])
        found["distance_outliers"] = distance_outliers(unlabelled)
        centred = means - hidden.mean(1, keepdim=True)
        ratio, difference = shared_information(centred, head[:, :words], (counts > 0).double())
        found["head_information_ratio"], found["head_entropy_difference"] = ratio, difference
        if self._pairs is not None:
            found |= self._of_pairs(self._pairs, logits, now.test_logits)
        return found

    def _of_spectra(self, hidden: Tensor, test_hidden: Tensor) -> dict[str, Tensor]:
        covariance = scatter(hidden)
        shares = eigenvalue_shares(covariance)
        ranks = entropy(eigenvalue_shares(correlations(covariance))).exp()
        return {
            "hidden_entropy": entropy(shares) / math.log(max(shares.shape[-1], 2)),
            "hidden_rank": energy_rank(shares),
            "hidden_correlation_rank": ranks,
            "head_tail_contrast": head_tail_contrast(spectrum_shares(test_hidden)),
        }

    def _of_windows(self, given: Tensor) -> dict[str, Tensor]:
        """Of the log-probabilities of the probe rows' answers, [S, 100]."""
        at = torch.tensor(PROBE_QUANTILES, dtype=given.dtype, device=given.device)
        quantiles = torch.quantile(given, at, dim=1).T
        quantiles = self.keep_newest("quantiles", quantiles, self._dmd_window)
        residual, rank = (given.new_zeros(len(given)) for _ in range(2))
        if quantiles.shape[1] == self._dmd_window:
            residual, rank = dmd_residual(quantiles.transpose(0, 1))
        losses = self.keep_newest("losses", -given, LOSS_WINDOW)
        participation, capacity = loss_spectrum(losses.transpose(0, 1))
        return {
            "dmd_residual": residual,
            "hankel_rank": rank,
            "loss_participation": participation,
            "loss_heat_capacity": capacity,
        }

    def _of_pairs(self, pairs: AllPairs, train: Tensor, test: Tensor) -> dict[str, Tensor]:
        logits = pairs.ordered(train, test)
        predictions = pairs.predictions(logits)
        found = {
            "input_sensitivity": input_sensitivity(predictions, pairs.present, logits.shape[-1])
        }
        if self._commutes:
            found["swap_divergence"], found["swap_agreement"] = swap_violation(
                *pairs.swapped(logits)
            )
        return found
