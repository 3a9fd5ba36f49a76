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
from gmb_hf.modeling.banded import BandedLinear
from gmb_hf.modeling.hebbian import neighbour_sums
from gmb_hf.modeling.mixers import own_parameter_names
from gmb_hf.training.optimizer import adamw
from gmb_hf.training.settings import TrainingSettings

_EMBEDDING = "model.embed_tokens.weight"
_UNPULLED = "unpulled"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def seeded_model(shape: GrokkingTransformerConfig, seed: int) -> GrokkingTransformerForCausalLM:
    """A new model as after `transformers.set_seed(seed)`; the global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GrokkingTransformerForCausalLM(shape)


def pull_matrices(input_ids: Tensor, shape: GrokkingTransformerConfig) -> Tensor | None:
    """What the Hebbian pull of a step does to the embeddings, as one matrix for each model.

    The mean pull on a token is linear in the embeddings and, over the same rows, the same matrix
    at every step; so a step is E += rate M E.

    Args:
        input_ids: whole rows of every model as it reads them, int64 [S, n, T].
        shape: of the models.

    Returns:
        rate M in float64, [S, V, V]; None for models without the pull.
    """
    if shape.hebbian_window is None:
        return None
    identity = torch.eye(shape.vocab_size, dtype=torch.float64)
    pulls = []
    for rows in input_ids:
        sums, counts = neighbour_sums(identity, rows, shape.hebbian_window)
        pulls.append(shape.hebbian_rate * sums / counts.clamp(min=1)[:, None])
    return torch.stack(pulls)


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
        self._mixing = own_parameter_names(models[0])
        self._masks = {
            f"{name}.weight": module.mask.to(self.device, dtype)
            for name, module in models[0].named_modules()
            if isinstance(module, BandedLinear)
        }
        states = [_parameters(model) for model in models]
        self.weights = {
            name: torch.stack([state[name] for state in states])
            .to(self.device, dtype)
            .requires_grad_()
            for name in states[0]
        }
        self._unpulled: tuple[int, Tensor] | None = None  # embeddings before the pull of a step
        self.reset_optimizer()

    def reset_optimizer(self) -> None:
        """Begin with a new AdamW: no moments, and its bias correction anew."""
        self.optimizer = adamw(self.weights, self._mixing, self.training, fused=True)

    def backward(self, losses: Tensor) -> None:
        """Set every parameter's gradient from the losses [S] of all models."""
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # a sum: models do not share parameters, so none is averaged
        for weight in self.weights.values():
            if weight.grad is None:  # unused parameters must still decay
                weight.grad = torch.zeros_like(weight)
        for name, mask in self._masks.items():
            gradient = self.weights[name].grad
            assert gradient is not None
            gradient.mul_(mask)  # AdamW leaves a weight of zero without gradient at zero

    @torch.no_grad()
    def pull(self, matrices: Tensor) -> None:
        """Draw neighbouring tokens together, once in a step however often it is asked for.

        Args:
            matrices: those of `pull_matrices`, in the dtype and on the device of the weights.
        """
        if self._unpulled and self._unpulled[0] == self.step:
            return
        embedding = self.weights[_EMBEDDING]
        before = embedding.detach().clone()
        self._unpulled = (self.step, before)
        embedding.baddbmm_(matrices, before)

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
            for name, mask in self._masks.items():
                self.weights[name][index].mul_(mask)

    def some(self, places: Sequence[int]) -> StackedModel:
        """A copy of the models at some places, with their moments, to be trained further."""
        part = copy.copy(self)
        index = torch.as_tensor(places, device=self.device)
        part.weights = {
            name: weight.detach()[index].requires_grad_() for name, weight in self.weights.items()
        }
        part._unpulled = None
        part.reset_optimizer()
        for name, weight in self.weights.items():
            held = self.optimizer.state.get(weight)
            if held:
                part.optimizer.state[part.weights[name]] = {
                    key: value.clone() if key == "step" else value[index]
                    for key, value in held.items()
                }
        return part

    @torch.no_grad()
    def take_back(self, part: StackedModel, places: Sequence[int]) -> None:
        """Put the models that `some` copied back to their places; the others stay as they are."""
        index = torch.as_tensor(places, device=self.device)
        self.step = part.step
        for name, weight in self.weights.items():
            weight[index] = part.weights[name]
            trained = part.optimizer.state.get(part.weights[name], {})
            if trained:
                mine = self.optimizer.state[weight]
                mine["step"] = trained["step"].clone()
                for key in ("exp_avg", "exp_avg_sq"):
                    mine.setdefault(key, torch.zeros_like(weight))[index] = trained[key]

    def last_updates(self) -> dict[str, Tensor]:
        """The change that the last step made to each parameter; zeros before the first.

        Recomputed from the optimizer's moments, so that no copy of the weights is kept: AdamW
        sets w' = w (1 - lr decay) - lr m / (sqrt(v) + eps) with bias-corrected m and v.
        """
        training = self.training
        updates = {}
        numbers = {
            weight: group for group in self.optimizer.param_groups for weight in group["params"]
        }
        for name, weight in self.weights.items():
            state = self.optimizer.state.get(weight)
            if not state:
                updates[name] = torch.zeros_like(weight)
                continue
            lr, decay = numbers[weight]["lr"], numbers[weight]["weight_decay"]
            step = float(state["step"])
            mean = state["exp_avg"] / (1 - training.beta1**step)
            scale = (state["exp_avg_sq"] / (1 - training.beta2**step)).sqrt_().add_(training.eps)
            move = mean.div_(scale).mul_(lr)
            after = self._after_step(name, weight.detach())
            updates[name] = after - (after + move) / (1 - lr * decay)
        return updates

    def _after_step(self, name: str, weight: Tensor) -> Tensor:
        """The weight that the last step left, before this step's pull."""
        held = self._unpulled
        return held[1] if name == _EMBEDDING and held and held[0] == self.step else weight

    def state(self) -> dict[str, Tensor]:
        """Everything that training needs to go on: weights, moments and the step."""
        tensors = {"step": torch.tensor(self.step)}
        if self._unpulled and self._unpulled[0] == self.step:
            tensors[_UNPULLED] = self._unpulled[1]
        for name, weight in self.weights.items():
            tensors[f"weight.{name}"] = weight.detach()
            for key, value in self.optimizer.state.get(weight, {}).items():
                tensors[f"{key}.{name}"] = value
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self.step = int(tensors["step"])
        self.optimizer.state.clear()
        unpulled = tensors.get(_UNPULLED)
        self._unpulled = None if unpulled is None else (self.step, unpulled.to(self.device))
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
