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
| restricted_loss, excluded_loss | losses with only, and without, the logits' key waves along the|
|                                | direction of the operation (Nanda 2023), see `fourier_losses`|
| correction_rate                | accuracy against the truth on rows with a wrong label|

Models with loops have those of `loop_measures` too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.training import measures
from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.fourier_losses import FourierLosses
from gmb_hf.training.loop_measures import loop_observables
from gmb_hf.training.loops import Trace, halting_logits
from gmb_hf.training.trunk import answer_logits
from gmb_hf.validation import InputError

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
        embedding = ensemble.weights[EMBEDDING]
        self._noise = measures.noise_like(embedding[0])
        self._fourier = measures.fourier_basis(ensemble.layout.residues).to(embedding)
        self._fourier_losses = FourierLosses.of(ensemble)

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
        found |= measures.answer_quality("train", measures.margins(logits, ensemble.train.answers))
        trace = Trace()
        test_logits, hidden = answer_logits(ensemble.weights, ensemble.layout, ensemble.test, trace)
        answers = ensemble.test.answers
        found["test_loss"] = measures.answer_losses(test_logits, answers).mean(1)
        found |= measures.answer_quality("test", measures.margins(test_logits, answers))
        found |= self._norms(ensemble.last_updates() if updates is None else updates)
        found |= self._spectra()
        found["participation_ratio"] = measures.participation_ratio(hidden)
        found["curvature"] = measures.curvature(
            losses,
            ensemble.weights,
            self._gradients(),
            ensemble.losses_at,
            weight_norm=found["weight_norm"],
            gradient_norm=found["gradient_norm"],
        )
        found |= self._process(test_logits.argmax(-1)) | self._of_loops(trace)
        if self._fourier_losses is not None:
            found |= self._fourier_losses.measure(logits, test_logits)
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

    def _gradients(self) -> dict[str, Tensor]:
        weights = self.ensemble.weights
        return {name: w.grad for name, w in weights.items() if w.grad is not None}

    def _norms(self, updates: Mapping[str, Tensor]) -> dict[str, Tensor]:
        squares = {name: measures.square(w) for name, w in self.ensemble.weights.items()}

        def part(word: str) -> Tensor:
            return measures.sum_of([square for name, square in squares.items() if word in name])

        norms = {
            "weight_norm": part(""),
            "embedding_norm": squares[EMBEDDING],
            "unembedding_norm": squares.get(HEAD, squares[EMBEDDING]),
            "attention_norm": part(".attention."),
            "mlp_norm": part(".mlp."),
        }
        return {
            **{name: square.sqrt() for name, square in norms.items()},
            "gradient_norm": measures.norm(self._gradients().values()),
            "update_norm": measures.norm(updates.values()),
        }

    def _spectra(self) -> dict[str, Tensor]:
        weights, residues = self.ensemble.weights, self.ensemble.layout.residues
        embedding = weights[EMBEDDING]
        unembedding = weights.get(HEAD, embedding)
        attention = [w for name, w in weights.items() if name.endswith("attention.qkv.weight")]
        parts = ("embedding", "unembedding", "attention")
        entropy = measures.spectral_entropy((embedding, unembedding, torch.cat(attention, dim=1)))
        found = {f"{part}_entropy": entropy[i] for i, part in enumerate(parts)}
        found |= {f"{part}_rank": entropy[i].exp() for i, part in enumerate(parts)}
        for part, matrix in (("embedding", embedding), ("unembedding", unembedding)):
            found[f"{part}_gini"] = measures.fourier_gini(matrix[:, :residues], self._fourier)
        return found

    def _of_loops(self, trace: Trace) -> dict[str, Tensor]:
        weights, loops = self.ensemble.weights, self.ensemble.layout.loops
        if loops is None:
            return {}
        logits = halting_logits(weights, trace.slow) if loops.halting else None
        return loop_observables(trace, loops, logits)

    def _process(self, predictions: Tensor) -> dict[str, Tensor]:
        ensemble = self.ensemble
        embedding = ensemble.weights[EMBEDDING]
        differs = []
        for noise in self._noise:
            noisy = {**ensemble.weights, EMBEDDING: measures.perturbed(embedding, noise)}
            if HEAD not in noisy:  # a tied head stays as it is: the noise is on the input
                noisy[HEAD] = embedding
            logits, _ = answer_logits(noisy, ensemble.layout, ensemble.test)
            differs.append(measures.changed_share(logits.argmax(-1), predictions))
        # A resumed run reads its predictions from disk, wherever it trains.
        held = predictions if self.predictions is None else self.predictions
        before = held.to(predictions.device)
        self.predictions = predictions
        return {
            "disagreement": measures.sum_of(differs) / len(differs),
            "prediction_change": measures.changed_share(predictions, before),
        }
