"""Many seeds of one config trained at once, as stacked weights.

Every seed draws its initialisation and its split from itself alone, so seed 17 gives the same run
(to rounding) alone or in any company; `Ensemble.member` gives it back as an ordinary model. The
initial weights are those that transformers itself makes after `set_seed(17)`.

Shapes: S seeds, n training equations, m held-out equations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.tasks import TaskData
from gmb_hf.training.compiled import CompiledLosses
from gmb_hf.training.config import RunConfig
from gmb_hf.training.equations import Equations, TrunkLayout
from gmb_hf.training.fused import Workspace
from gmb_hf.training.settings import ModelSettings, TaskSettings
from gmb_hf.training.stacked_model import StackedModel, pull_matrices, seeded_model
from gmb_hf.training.trunk import answer_losses
from gmb_hf.validation import InputError


def task_data(settings: TaskSettings, seed: int) -> TaskData:
    """The rows of `seed`: its split and its wrong labels."""
    return settings.build().data(settings.share, settings.data_seed_of(seed))


def shape_fields(model: ModelSettings) -> dict[str, Any]:
    """The fields of `GrokkingTransformerConfig` that the settings of a model decide."""
    return {
        "hidden_size": model.width,
        "intermediate_size": model.mlp_width,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "hidden_act": model.activation,
        "initializer_range": model.initializer_range,
        "tie_word_embeddings": model.tied,
        **model.variant.fields,
    }


def model_config(config: RunConfig) -> GrokkingTransformerConfig:
    """The shape of the model that a run trains.

    Raises:
        InputError: a variant that a model of this size cannot have.
    """
    try:
        return GrokkingTransformerConfig.grokking(
            prime=config.task.prime,
            vocab_size=config.task.build().vocab_size,
            **shape_fields(config.model),
        )
    except ValueError as error:
        raise InputError(f"model: {error}") from None


def initial_model(config: RunConfig, seed: int) -> GrokkingTransformerForCausalLM:
    """The model of `seed` before training, as after `transformers.set_seed(seed)`."""
    return seeded_model(model_config(config), seed)


class Ensemble(StackedModel):
    """The models of S seeds of one config, and the equations that they learn.

    Attributes:
        config, seeds: what is trained.
        layout: of the model and the task, for the short forward.
        train, test: the equations of every seed; `test` has m of them.
        truth: true answers of the training equations, [S, n].
        corrupted: which training equations carry a wrong label, [S, n].
        fingerprints: of every seed's data.

    With `compiled` the steps go through torch.compile.
    """

    def __init__(
        self,
        config: RunConfig,
        seeds: Sequence[int],
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        if not seeds:
            raise InputError("no seeds to train; give at least one, e.g. --seeds 0:32")
        models = [initial_model(config, seed) for seed in seeds]
        super().__init__(models, config.training, device=device, dtype=dtype)
        self.config = config
        self.seeds = tuple(seeds)
        self.layout = TrunkLayout.of(model_config(config), config.task.build())
        self._workspace = Workspace()
        self._compiled = CompiledLosses(self.layout, self._workspace) if compiled else None
        self._load_data(dtype)

    def __len__(self) -> int:
        return len(self.seeds)

    def gradients(self, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        """Set every parameter's gradient; the losses [S] and, on request, the logits [S, n, V]."""
        if self._pulls is not None:
            self.pull(self._pulls)
        losses, logits = self._losses(keep_logits)
        self.backward(losses)
        return losses.detach(), logits

    def _losses(self, keep_logits: bool) -> tuple[Tensor, Tensor]:
        if self._compiled is not None and self._compiled.works:
            found = self._compiled(self.weights, self.train)
            if found is not None:
                return found
        return answer_losses(
            self.weights, self.layout, self.train, self._workspace, keep_logits=keep_logits
        )

    def losses_at(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Training losses [S] at other weights, without gradients."""
        with torch.no_grad():
            return answer_losses(weights, self.layout, self.train, self._workspace)[0]

    def _load_data(self, dtype: torch.dtype) -> None:
        prime = self.config.task.prime
        data = [task_data(self.config.task, seed) for seed in self.seeds]
        self.fingerprints = tuple(item.fingerprint() for item in data)

        def equations(indices: list[NDArray[np.int64]]) -> Equations:
            rows = np.stack(
                [item.input_ids[index] for item, index in zip(data, indices, strict=True)]
            )
            first, second, answers = (
                torch.from_numpy(rows[:, :, position].copy()).to(self.device)
                for position in (1, 3, 5)
            )
            return Equations.from_operands(first, second, answers, residues=prime, dtype=dtype)

        train = [item.train_index for item in data]
        self.train = equations(train)
        rows = [item.input_ids[index] for item, index in zip(data, train, strict=True)]
        pulls = pull_matrices(torch.from_numpy(np.stack(rows)), model_config(self.config))
        self._pulls = None if pulls is None else pulls.to(self.device, dtype)
        self.test = equations([item.test_index for item in data])
        truth = [item.true_answers[index, 0] for item, index in zip(data, train, strict=True)]
        wrong = [item.corrupted[index] for item, index in zip(data, train, strict=True)]
        self.truth = torch.from_numpy(np.stack(truth)).to(self.device)
        self.corrupted = torch.from_numpy(np.stack(wrong)).to(self.device)
