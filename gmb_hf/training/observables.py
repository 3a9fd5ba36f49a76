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
| *_gini                         | Gini coefficient of Fourier power over residues (Nanda 2023)|
| participation_ratio            | of the held-out hidden states' covariance, (sum l)^2 / sum l^2|
| curvature                      | second derivative of the loss along the gradient|
| disagreement                   | share of held-out answers that change when embeddings are noisy|
| prediction_change              | share of held-out answers that differ from the last checkpoint's|
| correction_rate                | accuracy against the truth on rows with a wrong label|
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.trunk import answer_logits
from gmb_hf.validation import InputError

QUANTILES = (0.1, 0.5, 0.9)
NOISE_PASSES = 1
NOISE_SCALE = 0.25  # of the embedding's root mean square
CURVATURE_STEP = 2.0**-9  # of the weight norm, and no further than
CURVATURE_FALL = 2.0**-7  # of the loss would fall along a straight line
EMBEDDING = "model.embed_tokens.weight"
HEAD = "lm_head.weight"


class Observer:
    """Measures an ensemble; it remembers the predictions of the last checkpoint.

    Attributes:
        predictions: predicted answers of the held-out rows at the last checkpoint, [S, m], or
            None before the first; part of the state that a resumed run needs.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.predictions: Tensor | None = None
        shape = ensemble.weights[EMBEDDING].shape[1:]
        generator = torch.Generator().manual_seed(0)  # the same perturbations for every seed
        self._noise = [
            torch.randn(shape, generator=generator).to(ensemble.weights[EMBEDDING])
            for _ in range(NOISE_PASSES)
        ]
        self._fourier = _fourier_basis(ensemble.layout.residues).to(ensemble.weights[EMBEDDING])

    @torch.no_grad()
    def measure(
        self, losses: Tensor, logits: Tensor, updates: Mapping[str, Tensor] | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """All observables of the checkpoint whose losses, logits and gradients were just made.

        Args:
            losses: training losses, [S].
            logits: training logits, [S, n, V].
            updates: the last change of each parameter; the ensemble's own when not given.

        Raises:
            InputError: a number is not finite; seed, observable and step are named.
        """
        ensemble = self.ensemble
        self._check_finite("train_loss", losses.double().cpu().numpy())
        found: dict[str, Tensor] = {"train_loss": losses}
        found |= self._answers("train", logits, ensemble.train.answers)
        test_logits, hidden = answer_logits(ensemble.weights, ensemble.layout, ensemble.test)
        answers = ensemble.test.answers
        found["test_loss"] = functional.cross_entropy(
            test_logits.transpose(1, 2), answers, reduction="none"
        ).mean(1)
        found |= self._answers("test", test_logits, answers)
        found |= self._norms(ensemble.last_updates() if updates is None else updates)
        found |= self._spectra()
        found["participation_ratio"] = _participation_ratio(hidden)
        found["curvature"] = self._curvature(losses)
        found |= self._process(test_logits.argmax(-1))
        if bool(ensemble.corrupted.any()):
            right = logits.argmax(-1) == ensemble.truth
            wrong = ensemble.corrupted
            found["correction_rate"] = (right & wrong).sum(1) / wrong.sum(1)
        values = {name: value.double().cpu().numpy() for name, value in found.items()}
        for name, value in values.items():
            self._check_finite(name, value)
        return values

    def _check_finite(self, name: str, values: NDArray[np.float64]) -> None:
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise InputError(
                f"seed {self.ensemble.seeds[bad[0]]}: {name} is not finite at step "
                f"{self.ensemble.step}; lower training.lr or training.weight_decay"
            )

    def _answers(self, split: str, logits: Tensor, answers: Tensor) -> dict[str, Tensor]:
        index = answers.unsqueeze(-1)
        given = logits.gather(-1, index).squeeze(-1)
        best_other = logits.scatter(-1, index, -math.inf).amax(-1)
        margin = given - best_other  # [S, rows]
        at = torch.tensor(QUANTILES, dtype=margin.dtype, device=margin.device)
        q10, q50, q90 = torch.quantile(margin, at, dim=1)
        return {
            f"{split}_acc": (margin > 0).to(margin.dtype).mean(1),
            f"{split}_margin_q10": q10,
            f"{split}_margin_q50": q50,
            f"{split}_margin_q90": q90,
        }

    def _norms(self, updates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        weights = self.ensemble.weights
        squares = {name: _square(weight) for name, weight in weights.items()}

        def norm(part: str) -> Tensor:
            return sum_of([value for name, value in squares.items() if part in name]).sqrt()

        gradients = [_square(weight.grad) for weight in weights.values() if weight.grad is not None]
        embedding = squares[EMBEDDING].sqrt()
        return {
            "weight_norm": sum_of(list(squares.values())).sqrt(),
            "embedding_norm": embedding,
            "unembedding_norm": squares[HEAD].sqrt() if HEAD in squares else embedding,
            "attention_norm": norm(".attention."),
            "mlp_norm": norm(".mlp."),
            "gradient_norm": sum_of(gradients).sqrt(),
            "update_norm": sum_of([_square(update) for update in updates.values()]).sqrt(),
        }

    def _spectra(self) -> dict[str, Tensor]:
        weights, residues = self.ensemble.weights, self.ensemble.layout.residues
        embedding = weights[EMBEDDING]
        unembedding = weights.get(HEAD, embedding)
        attention = [w for name, w in weights.items() if name.endswith("attention.qkv.weight")]
        parts = ("embedding", "unembedding", "attention")
        matrices = (embedding, unembedding, torch.cat(attention, dim=1))
        # Singular values through Gram matrices [S, d, d]: one batched call for all parts.
        grams = torch.stack([m.double().transpose(1, 2) @ m.double() for m in matrices])
        singular = torch.linalg.eigvalsh(grams).clamp_(min=0).sqrt_()
        share = singular / singular.sum(-1, keepdim=True).clamp_(min=1e-300)
        entropy = -torch.xlogy(share, share).sum(-1)  # [3, S]
        found = {f"{part}_entropy": entropy[i] for i, part in enumerate(parts)}
        found |= {f"{part}_rank": entropy[i].exp() for i, part in enumerate(parts)}
        for part, matrix in (("embedding", embedding), ("unembedding", unembedding)):
            found[f"{part}_gini"] = _fourier_gini(matrix[:, :residues], self._fourier)
        return found

    def _curvature(self, losses: Tensor) -> Tensor:
        """2 (L(w + e u) - L(w) - e |g|) / e^2 along the unit gradient u, [S].

        Once a model has memorised, the loss bends within a thousandth of the weight norm; a step
        e in proportion to L / |g| stays inside the bend and above the rounding of the loss.
        """
        weights = self.ensemble.weights
        slope = sum_of([_square(w.grad) for w in weights.values() if w.grad is not None]).sqrt()
        length = CURVATURE_STEP * sum_of([_square(w) for w in weights.values()]).sqrt()
        length = torch.minimum(length, CURVATURE_FALL * losses / slope)  # inf where slope is 0
        scale = torch.where(slope > 0, length / slope, 0.0)
        moved = {
            name: torch.addcmul(w, w.grad, scale.view(-1, *[1] * (w.dim() - 1)))
            for name, w in weights.items()
            if w.grad is not None
        }
        rise = self.ensemble.losses_at(moved).double() - losses.double()
        bent = 2 * (rise - length.double() * slope.double()) / length.double() ** 2
        return torch.where(slope > 0, bent, 0.0)

    def _process(self, predictions: Tensor) -> dict[str, Tensor]:
        ensemble = self.ensemble
        embedding = ensemble.weights[EMBEDDING]
        scale = NOISE_SCALE * embedding.square().mean((1, 2), keepdim=True).sqrt()
        differs = []
        for noise in self._noise:
            noisy = {**ensemble.weights, EMBEDDING: embedding + scale * noise}
            if HEAD not in noisy:  # a tied head stays as it is: the noise is on the input
                noisy[HEAD] = embedding
            logits, _ = answer_logits(noisy, ensemble.layout, ensemble.test)
            differs.append((logits.argmax(-1) != predictions).double().mean(1))
        # A resumed run reads its predictions from disk, wherever it trains.
        held = predictions if self.predictions is None else self.predictions
        before = held.to(predictions.device)
        self.predictions = predictions
        return {
            "disagreement": sum_of(differs) / len(differs),
            "prediction_change": (predictions != before).double().mean(1),
        }


def sum_of(terms: list[Tensor]) -> Tensor:
    """The sum of tensors of one shape."""
    return torch.stack(terms).sum(0)


def _square(weight: Tensor) -> Tensor:
    return weight.detach().reshape(len(weight), -1).square().sum(1)  # [S]


def _participation_ratio(hidden: Tensor) -> Tensor:
    """(sum of eigenvalues)^2 / sum of their squares, of the covariance of [S, m, d]: [S]."""
    centred = hidden - hidden.mean(1, keepdim=True)
    covariance = centred.transpose(1, 2) @ centred
    trace = covariance.diagonal(dim1=1, dim2=2).sum(1)
    return trace.square() / covariance.square().sum((1, 2)).clamp(min=1e-30)


def _fourier_basis(residues: int) -> Tensor:
    """Cosines and sines of the frequencies 1 .. (p-1)/2 over the residues, [2, k, p]."""
    frequencies = torch.arange(1, (residues - 1) // 2 + 1, dtype=torch.float64)
    angles = 2 * math.pi * frequencies[:, None] * torch.arange(residues)[None, :] / residues
    return torch.stack([angles.cos(), angles.sin()])


def _fourier_gini(matrix: Tensor, basis: Tensor) -> Tensor:
    """Gini coefficient of the power per frequency of [S, p, d]: 0 when even, near 1 for one."""
    amplitudes = torch.einsum("ckp,spd->sckd", basis, matrix)
    power = amplitudes.square().sum((1, 3)).sort(dim=1).values  # [S, k], increasing
    count = power.shape[1]
    rank = 2 * torch.arange(1, count + 1, device=power.device, dtype=power.dtype) - count - 1
    return (rank * power).sum(1) / (count * power.sum(1)).clamp(min=1e-30)
