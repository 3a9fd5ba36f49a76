"""Many models of one shape, their weights stacked, and one AdamW over all of them.

A model knows nothing of its neighbours: the losses are added up, so every gradient and every
update is the one that the model would have alone. What the losses are computed from is the
caller's: `ensemble` has equations, and other callers other rows.

Shapes: S models.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.training.settings import TrainingSettings

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def seeded_model(shape: GrokkingTransformerConfig, seed: int) -> GrokkingTransformerForCausalLM:
    """A new model as after `transformers.set_seed(seed)`; the global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GrokkingTransformerForCausalLM(shape)


class StackedModel:
    """S models of one shape that are trained together.

    Attributes:
        training: the numbers of AdamW.
        weights: name -> parameter [S, ...], named as in the model's state dict.
        optimizer: of all weights.
        device: where they are.
        step: updates made so far.
    """

    def __init__(
        self,
        models: Sequence[GrokkingTransformerForCausalLM],
        training: TrainingSettings,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.training = training
        self.device = torch.device(device)
        self.step = 0
        self._template = copy.deepcopy(models[0])
        states = [_parameters(model) for model in models]
        self.weights = {
            name: torch.stack([state[name] for state in states])
            .to(self.device, dtype)
            .requires_grad_()
            for name in states[0]
        }
        self.reset_optimizer()

    def reset_optimizer(self) -> None:
        """Begin with a new AdamW: no moments, and its bias correction anew."""
        training = self.training
        self.optimizer = torch.optim.AdamW(
            self.weights.values(),
            lr=training.lr,
            betas=(training.beta1, training.beta2),
            eps=training.eps,
            weight_decay=training.weight_decay,
            fused=True,
        )

    def backward(self, losses: Tensor) -> None:
        """Set every parameter's gradient from the losses [S] of all models."""
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # a sum: models do not share parameters, so none is averaged
        for weight in self.weights.values():
            if weight.grad is None:  # unused parameters must still decay
                weight.grad = torch.zeros_like(weight)

    def update(self) -> None:
        """One AdamW step with the gradients that `backward` set."""
        self.optimizer.step()
        self.step += 1

    def member(self, index: int) -> GrokkingTransformerForCausalLM:
        """One model as it is now, on the CPU; `save_pretrained` saves it."""
        model = copy.deepcopy(self._template)
        for name, parameter in _parameters(model).items():
            parameter.copy_(self.weights[name][index].detach())
        return model

    def load_member(self, index: int, model: torch.nn.Module) -> None:
        """Take the weights of one model from a model of the same shape."""
        with torch.no_grad():
            for name, parameter in _parameters(model).items():
                self.weights[name][index].copy_(parameter)

    def last_updates(self) -> dict[str, Tensor]:
        """The change that the last step made to each parameter; zeros before the first.

        Recomputed from the optimizer's moments, so that no copy of the weights is kept: AdamW
        sets w' = w (1 - lr decay) - lr m / (sqrt(v) + eps) with bias-corrected m and v.
        """
        training = self.training
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
        self.optimizer.state.clear()
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(tensors[f"weight.{name}"])
                if all(f"{key}.{name}" in tensors for key in _MOMENTS):
                    self.optimizer.state[weight] = {
                        key: tensors[f"{key}.{name}"].to(weight.device).clone() for key in _MOMENTS
                    }


def _parameters(model: torch.nn.Module) -> dict[str, Tensor]:
    # A tied head appears once, as the embedding.
    return {name: parameter.detach() for name, parameter in model.named_parameters()}
