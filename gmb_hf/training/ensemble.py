"""Many seeds of one config trained at once, as stacked weights.

Every seed draws its initialisation and its split from itself alone, so seed 17 gives the same run
(to rounding) alone or in any company; `Ensemble.member` gives it back as an ordinary model. The
initial weights are those that transformers itself makes after `set_seed(17)`.

Shapes: S seeds, n training equations, m held-out equations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.tasks import TaskData
from gmb_hf.tasks.vocabulary import operation_id
from gmb_hf.training.compiled import CompiledLosses
from gmb_hf.training.config import RunConfig
from gmb_hf.training.equations import Equations, TrunkLayout
from gmb_hf.training.fused import Workspace
from gmb_hf.training.settings import TaskSettings
from gmb_hf.training.trunk import answer_losses
from gmb_hf.validation import InputError


def task_data(settings: TaskSettings, seed: int) -> TaskData:
    """The rows of `seed`: its split and its wrong labels."""
    return settings.build().data(settings.share, settings.data_seed_of(seed))


def model_config(config: RunConfig) -> GrokkingTransformerConfig:
    """The shape of the model that a run trains."""
    task, model = config.task.build(), config.model
    return GrokkingTransformerConfig.grokking(
        prime=config.task.prime,
        vocab_size=task.vocab_size,
        hidden_size=model.width,
        intermediate_size=model.mlp_width,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        hidden_act=model.activation,
        initializer_range=model.initializer_range,
        tie_word_embeddings=model.tied,
    )


def initial_model(config: RunConfig, seed: int) -> GrokkingTransformerForCausalLM:
    """The model of `seed` before training, as after `transformers.set_seed(seed)`."""
    with _random_state(seed):
        return GrokkingTransformerForCausalLM(model_config(config))


def trunk_layout(config: RunConfig) -> TrunkLayout:
    """What the short forward must know of the model and the task."""
    vocabulary = config.task.build().vocabulary
    return TrunkLayout(
        layers=config.model.layers,
        heads=config.model.heads,
        activation=config.model.activation,
        residues=config.task.prime,
        bos=vocabulary.bos,
        operation=operation_id(config.task.operation, config.task.prime, config.task.op_token),
        equals=vocabulary.eq,
    )


class Ensemble:
    """S seeds of one config, their weights stacked, and one AdamW over all of them.

    Attributes:
        config, seeds: what is trained.
        weights: name -> parameter [S, ...], named as in the model's state dict.
        train, test: the equations of every seed; `test` has m of them.
        truth: true answers of the training equations, [S, n].
        corrupted: which training equations carry a wrong label, [S, n].
        step: updates made so far.

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
        self.config = config
        self.seeds = tuple(seeds)
        self.device = torch.device(device)
        self.layout = trunk_layout(config)
        self.step = 0
        self._workspace = Workspace()
        self._compiled = CompiledLosses(self.layout, self._workspace) if compiled else None
        states = [_parameters(initial_model(config, seed)) for seed in self.seeds]
        self.weights = {
            name: torch.stack([state[name] for state in states])
            .to(self.device, dtype)
            .requires_grad_()
            for name in states[0]
        }
        self._load_data(dtype)
        training = config.training
        self.optimizer = torch.optim.AdamW(
            self.weights.values(),
            lr=training.lr,
            betas=(training.beta1, training.beta2),
            eps=training.eps,
            weight_decay=training.weight_decay,
            fused=True,
        )

    def __len__(self) -> int:
        return len(self.seeds)

    def gradients(self, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        """Set every parameter's gradient; the losses [S] and, on request, the logits [S, n, V]."""
        losses, logits = self._losses(keep_logits)
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # a sum: seeds do not share parameters, so none is averaged
        for weight in self.weights.values():
            if weight.grad is None:  # unused parameters must still decay
                weight.grad = torch.zeros_like(weight)
        return losses.detach(), logits

    def _losses(self, keep_logits: bool) -> tuple[Tensor, Tensor]:
        if self._compiled is not None and self._compiled.works:
            found = self._compiled(self.weights, self.train)
            if found is not None:
                return found
        return answer_losses(
            self.weights, self.layout, self.train, self._workspace, keep_logits=keep_logits
        )

    def update(self) -> None:
        """One AdamW step with the gradients that `gradients` set."""
        self.optimizer.step()
        self.step += 1

    def losses_at(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Training losses [S] at other weights, without gradients."""
        with torch.no_grad():
            return answer_losses(weights, self.layout, self.train, self._workspace)[0]

    def member(self, index: int) -> GrokkingTransformerForCausalLM:
        """The model of `seeds[index]` as it is now, on the CPU; `save_pretrained` saves it."""
        model = initial_model(self.config, self.seeds[index])
        for name, parameter in _parameters(model).items():
            parameter.copy_(self.weights[name][index].detach())
        return model

    def load_member(self, index: int, model: torch.nn.Module) -> None:
        """Take the weights of one seed from a model of the same shape."""
        with torch.no_grad():
            for name, parameter in _parameters(model).items():
                self.weights[name][index].copy_(parameter)

    def last_updates(self) -> dict[str, Tensor]:
        """The change that the last step made to each parameter; zeros before the first.

        Recomputed from the optimizer's moments, so that no copy of the weights is kept: AdamW
        sets w' = w (1 - lr decay) - lr m / (sqrt(v) + eps) with bias-corrected m and v.
        """
        training = self.config.training
        updates = {}
        for name, weight in self.weights.items():
            state = self.optimizer.state.get(weight)
            if not state:
                updates[name] = torch.zeros_like(weight)
                continue
            step = float(state["step"])
            mean = state["exp_avg"] / (1 - training.beta1**step)
            scale = (state["exp_avg_sq"] / (1 - training.beta2**step)).sqrt_().add_(training.eps)
            move = mean.div_(scale).mul_(training.lr)
            kept = 1 - training.lr * training.weight_decay
            updates[name] = weight.detach() - (weight.detach() + move) / kept
        return updates

    def state(self) -> dict[str, Tensor]:
        """Everything that training needs to go on: weights, moments and the step."""
        tensors = {"step": torch.tensor(self.step)}
        for name, weight in self.weights.items():
            tensors[f"weight.{name}"] = weight.detach()
            for key, value in self.optimizer.state.get(weight, {}).items():
                tensors[f"{key}.{name}"] = value
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self.step = int(tensors["step"])
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(tensors[f"weight.{name}"])
                keys = ("step", "exp_avg", "exp_avg_sq")
                if all(f"{key}.{name}" in tensors for key in keys):
                    self.optimizer.state[weight] = {
                        key: tensors[f"{key}.{name}"].to(weight.device).clone() for key in keys
                    }

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
        self.test = equations([item.test_index for item in data])
        truth = [item.true_answers[index, 0] for item, index in zip(data, train, strict=True)]
        wrong = [item.corrupted[index] for item, index in zip(data, train, strict=True)]
        self.truth = torch.from_numpy(np.stack(truth)).to(self.device)
        self.corrupted = torch.from_numpy(np.stack(wrong)).to(self.device)


def _parameters(model: torch.nn.Module) -> dict[str, Tensor]:
    # A tied head appears once, as the embedding.
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@contextlib.contextmanager
def _random_state(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
