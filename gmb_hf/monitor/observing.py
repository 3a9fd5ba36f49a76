"""The observables of somebody's own model in training, those of run logs by the same definitions.

What each means stands in `gmb_hf.training.observables`; here they are taken from one
PreTrainedModel of any architecture: from its weights, from held-out rows, from training rows, and
from its last update. Each labelled token of a row is an answer. Nothing of the training is changed:
the model is asked in evaluation mode, gradients are made apart from those of the optimizer, and no
random number of the training is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gmb_hf.monitor.answering import (
    Changed,
    evaluating,
    gradients_on,
    loss_on,
    quality,
    summed_up,
)
from gmb_hf.monitor.labelled import LabelledRows
from gmb_hf.monitor.parts import ModelWeights, Parts
from gmb_hf.training import measures
from gmb_hf.validation import InputError

_QUALITY = ("loss", "acc", "margin_q10", "margin_q50", "margin_q90")
_NORMS = ("weight_norm", "embedding_norm", "unembedding_norm", "attention_norm", "mlp_norm")
_SPECTRA = tuple(
    f"{part}_{kind}"
    for part in ("embedding", "unembedding", "attention")
    for kind in ("entropy", "rank")
)
_FOURIER = ("embedding_gini", "unembedding_gini")
_PROCESS = ("disagreement", "prediction_change")
UPDATE = "update_norm"
HELD_OUT = (*(f"test_{name}" for name in _QUALITY), "participation_ratio", *_PROCESS)
TRAINING = (*(f"train_{name}" for name in _QUALITY), "gradient_norm", "curvature")
COLLECTED = (*_NORMS, *_SPECTRA, *_FOURIER, UPDATE, *HELD_OUT, *TRAINING)
"""Every observable that can be taken from a model."""

Extra = Callable[[Any, int], Mapping[str, float]]
"""`extra(model, step)` gives columns that only the training's owner knows."""


class ModelObserver:
    """Measures what is needed, and no more.

    Args:
        needs: observables.
        heldout, train: rows with labels, as `LabelledRows.of` takes them.
        parts: which weights are meant.
        extra: gives the columns that are not among `COLLECTED`.

    Attributes:
        predictions: of the held-out answers at the last checkpoint, [1, m]; None before.

    Raises:
        InputError: something is needed that cannot be measured from what was given.
    """

    def __init__(
        self,
        needs: Sequence[str],
        *,
        heldout: Any = None,
        train: Any = None,
        parts: Parts | None = None,
        extra: Extra | None = None,
    ) -> None:
        self._needs = frozenset(needs)
        self._parts = parts or Parts()
        self._extra = extra
        self._require(HELD_OUT, heldout, "held-out rows", "heldout")
        self._require(TRAINING, train, "training rows", "train")
        self._require(_FOURIER, self._parts.residues, "the residues' embeddings", "parts")
        self._require(self._needs - {*COLLECTED}, extra, "nothing that a model shows", "extra")
        self._heldout = self._rows(HELD_OUT, heldout, "heldout")
        self._train = self._rows(TRAINING, train, "train")
        self.predictions: Tensor | None = None
        self._before: dict[str, Tensor] = {}

    @property
    def remembers(self) -> bool:
        """Whether `remember` is of use."""
        return UPDATE in self._needs

    def remember(self, model: torch.nn.Module) -> None:
        """Keep the weights before the update that leads to the next checkpoint."""
        if self.remembers:
            weights = ModelWeights(model, self._parts).named
            self._before = {name: weight.clone() for name, weight in weights.items()}

    def measure(self, model: torch.nn.Module, step: int) -> dict[str, float]:
        """The observables that are needed.

        Args:
            model: a PreTrainedModel, whole and not wrapped.
            step: of the training.

        Raises:
            InputError: the model has no such weights, or `extra` lacks a column.
        """
        found: dict[str, Tensor | float] = {}
        with evaluating(model):
            weights = ModelWeights(model, self._parts)
            with torch.no_grad():
                found |= self._of_weights(weights)
                if self._heldout is not None:
                    found |= self._of_held_out(model, weights, self._heldout)
            if self._train is not None:
                found |= self._of_training(model, weights, self._train)
        if self._extra is not None:
            found |= dict(self._extra(model, step))
        lacking = sorted(self._needs - found.keys())
        if lacking:
            raise InputError(f"extra gave no column {lacking[0]!r}; gave: {', '.join(found)}")
        return {name: float(found[name]) for name in sorted(self._needs)}

    def _require(self, columns: Any, given: Any, what: str, name: str) -> None:
        needed = sorted(self._needs.intersection(columns))
        if needed and given is None:
            example = {"parts": "Parts(residues=P)", "extra": "a function of (model, step)"}
            raise InputError(
                f"the lock's indicators read {', '.join(needed)}, measured on {what}: give "
                f"{name}={example.get(name, 'a dataset with input_ids and labels')}, or let "
                "indicators act that do without (act=[...])"
            )

    def _rows(self, columns: Sequence[str], rows: Any, name: str) -> LabelledRows | None:
        return LabelledRows.of(rows, where=name) if self._needs.intersection(columns) else None

    def _of_weights(self, weights: ModelWeights) -> dict[str, Tensor]:
        recipes: dict[str, Callable[[], Tensor]] = {
            "weight_norm": lambda: measures.norm(weights.named.values()),
            "embedding_norm": lambda: measures.norm([weights.embedding]),
            "unembedding_norm": lambda: measures.norm([weights.unembedding]),
            "attention_norm": lambda: measures.norm(weights.all_of("attention")),
            "mlp_norm": lambda: measures.norm(weights.all_of("mlp")),
            UPDATE: lambda: self._update_norm(weights),
        }
        matrices: dict[str, Callable[[], Tensor]] = {
            "embedding": lambda: weights.embedding,
            "unembedding": lambda: weights.unembedding,
            "attention": lambda: weights.mixing,
        }
        found = {name: make() for name, make in recipes.items() if name in self._needs}
        for part, matrix in matrices.items():
            if self._needs & {f"{part}_entropy", f"{part}_rank"}:
                entropy = measures.spectral_entropy([matrix()])[0]
                found |= {f"{part}_entropy": entropy, f"{part}_rank": entropy.exp()}
            if f"{part}_gini" in self._needs:
                found[f"{part}_gini"] = self._gini(matrix())
        return found

    def _gini(self, matrix: Tensor) -> Tensor:
        residues = self._parts.residues
        assert residues is not None
        if matrix.shape[1] < residues:
            raise InputError(
                f"parts: residues is {residues}, but the matrix has {matrix.shape[1]} rows"
            )
        basis = measures.fourier_basis(residues).to(matrix)
        return measures.fourier_gini(matrix[:, :residues], basis)

    def _update_norm(self, weights: ModelWeights) -> Tensor:
        return measures.norm(
            weight - self._before.get(name, weight) for name, weight in weights.named.items()
        )

    def _of_held_out(
        self, model: torch.nn.Module, weights: ModelWeights, rows: LabelledRows
    ) -> dict[str, Tensor]:
        states = "participation_ratio" in self._needs
        said = list(map(summed_up, rows.batches(model, hidden=states)))
        found = quality("test", said)
        predictions = torch.cat([one["predictions"] for one in said], dim=1)
        if states:
            hidden = torch.cat([one["hidden"] for one in said], dim=1)
            found["participation_ratio"] = measures.participation_ratio(hidden)
        if "disagreement" in self._needs:
            found["disagreement"] = self._disagreement(model, weights, rows, predictions)
        before = predictions if self.predictions is None else self.predictions
        if before.shape != predictions.shape:
            raise InputError("the held-out rows are others than those of the saved state")
        found["prediction_change"] = measures.changed_share(predictions, before.to(predictions))
        self.predictions = predictions
        return found

    def _disagreement(
        self,
        model: torch.nn.Module,
        weights: ModelWeights,
        rows: LabelledRows,
        predictions: Tensor,
    ) -> Tensor:
        differs = []
        for noise in measures.noise_like(weights.embedding[0]):
            noisy = measures.perturbed(weights.embedding, noise)[0]
            other = Changed(model, {weights.embedding_name: noisy}, tied=False)
            said = rows.batches(other)
            guessed = torch.cat([one.logits.argmax(-1) for one in said], dim=1)
            differs.append(measures.changed_share(guessed, predictions))
        return measures.sum_of(differs) / len(differs)

    def _of_training(
        self, model: torch.nn.Module, weights: ModelWeights, rows: LabelledRows
    ) -> dict[str, Tensor]:
        bends = "curvature" in self._needs
        with torch.no_grad():
            found = quality("train", list(map(summed_up, rows.batches(model))))
        if not bends and "gradient_norm" not in self._needs:
            return found
        gradients = gradients_on(model, rows)
        found["gradient_norm"] = measures.norm(gradients.values())

        def losses_at(moved: Mapping[str, Tensor]) -> Tensor:
            return loss_on(Changed(model, {name: w[0] for name, w in moved.items()}), rows)

        if bends:
            with torch.no_grad():
                found["curvature"] = measures.curvature(
                    found["train_loss"],
                    weights.named,
                    gradients,
                    losses_at,
                    weight_norm=measures.norm(weights.named.values()),
                    gradient_norm=found["gradient_norm"],
                )
        return found
