"""Many seeds of one config trained at once, as stacked weights.

Every seed draws its initialisation and its split from itself alone, so seed 17 gives the same run
(to rounding) alone or in any company; `SeedStack.member` gives it back as an ordinary model. The
initial weights are those that transformers itself makes after `set_seed(17)`.

Shapes: S seeds, n training answers, m held-out answers; a row may have several.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.modeling.mixers import neighbour_sums, own_parameter_names
from gmb_hf.modeling.modeling_grokking import BandedLinear
from gmb_hf.tasks.task import Task, TaskData
from gmb_hf.training.blocks import Forward, Weights
from gmb_hf.training.config import ModelSettings, RunConfig, TaskSettings, TrainingSettings
from gmb_hf.training.equations import EquationForward, Equations
from gmb_hf.training.rows import RowForward, row_tree

MIXER_LR = 10.0  # times the learning rate, for the few numbers that a mixer learns
WORTH_COMPILING = 1e12  # multiply-adds: about a minute of two CPU cores
_EMBEDDING = "model.embed_tokens.weight"
_UNPULLED = "unpulled"
_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def _decay_groups(
    parameters: Mapping[str, Tensor], mixing: Collection[str], lr: Any, decay: Any
) -> list[dict[str, Any]]:
    """All parameters but the mixers' own, and those: ten times the rate, and no decay."""
    own = [value for name, value in parameters.items() if name in mixing]
    others = [value for name, value in parameters.items() if name not in mixing]
    groups = [{"params": others, "lr": lr, "weight_decay": decay}]
    if own:
        groups.append({"params": own, "lr": MIXER_LR * lr, "weight_decay": 0.0 * decay})
    return groups


def adamw(
    parameters: Mapping[str, Tensor],
    mixing: Collection[str],
    training: TrainingSettings,
    *,
    fused: bool | None = None,
) -> torch.optim.AdamW:
    """AdamW over all parameters, by name; `fused` is as torch's takes it.

    Those named in `mixing`, the mixers' own, have ten times the rate and no decay; decay acts on
    all others.
    """
    return torch.optim.AdamW(
        _decay_groups(parameters, mixing, training.lr, training.weight_decay),
        lr=training.lr,
        betas=(training.beta1, training.beta2),
        eps=training.eps,
        weight_decay=training.weight_decay,
        fused=fused,
    )


class SeedwiseAdamW(torch.optim.Optimizer):
    """AdamW over stacked parameters [S, ...] whose rate and decay differ from model to model.

    Its state is that of `torch.optim.AdamW`, and so are its steps where the numbers agree.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        mixing: Collection[str],
        training: TrainingSettings,
        rates: Rates,
    ) -> None:
        """As `adamw`, with the learning rates and weight decays of S models, each [S]."""
        self._training = training
        super().__init__(_decay_groups(parameters, mixing, *rates), {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of every parameter that has a gradient."""
        training = self._training
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["step"] = torch.tensor(0.0)
                    state["exp_avg"] = torch.zeros_like(weight)
                    state["exp_avg_sq"] = torch.zeros_like(weight)
                state["step"] += 1
                step = float(state["step"])
                lr = of_each_model(group["lr"], weight)
                weight.mul_(1 - lr * of_each_model(group["weight_decay"], weight))
                mean = state["exp_avg"].lerp_(weight.grad, 1 - training.beta1)
                square = state["exp_avg_sq"].mul_(training.beta2)
                square.addcmul_(weight.grad, weight.grad, value=1 - training.beta2)
                scale = (square / (1 - training.beta2**step)).sqrt_().add_(training.eps)
                weight.sub_(mean / scale * (lr / (1 - training.beta1**step)))


Rates = tuple[Tensor, Tensor]
"""The learning rate and the weight decay of S models, each [S]."""


def of_each_model(value: float | Tensor, weight: Tensor) -> float | Tensor:
    """A number of all models, or one of each [S], as it multiplies a parameter [S, ...]."""
    if isinstance(value, Tensor):
        return value.to(weight).view(-1, *[1] * (weight.ndim - 1))
    return value


def seeded_model(shape: GrokkingTransformerConfig, seed: int) -> GrokkingTransformerForCausalLM:
    """A new model as after `transformers.set_seed(seed)`; the global random state stays."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GrokkingTransformerForCausalLM(shape)


def pull_matrices(input_ids: Tensor, shape: GrokkingTransformerConfig) -> Tensor | None:
    """What the Hebbian pull of a step does to the embeddings: rate M in float64, [S, V, V].

    The mean pull on a token is linear in the embeddings and, over the same rows, the same matrix
    at every step; so a step is E += rate M E. `input_ids` are whole rows of every model as it reads
    them, int64 [S, n, T]. None for models without the pull.
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
        masks: of the banded weights, by name: where they are free.
    """

    def __init__(
        self,
        models: Sequence[GrokkingTransformerForCausalLM],
        training: TrainingSettings,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        rates: Rates | None = None,
    ) -> None:
        self.training, self._rates = training, rates
        self.device = torch.device(device)
        self.step = 0
        self._template = copy.deepcopy(models[0])
        self._scales = [model.config.initializer_range for model in models]
        self._mixing = own_parameter_names(models[0])
        self.masks = {
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
        self.optimizer: torch.optim.Optimizer
        if self._rates is not None:
            each = SeedwiseAdamW(self.weights, self._mixing, self.training, self._rates)
            self.optimizer = each
            return
        self.optimizer = adamw(self.weights, self._mixing, self.training, fused=True)

    def backward(self, losses: Tensor) -> None:
        """Set every parameter's gradient from the losses [S] of all models."""
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()  # a sum: models do not share parameters, so none is averaged
        for weight in self.weights.values():
            if weight.grad is None:  # unused parameters must still decay
                weight.grad = torch.zeros_like(weight)
        for name, mask in self.masks.items():
            gradient = self.weights[name].grad
            assert gradient is not None
            gradient.mul_(mask)  # AdamW leaves a weight of zero without gradient at zero

    @torch.no_grad()
    def pull(self, matrices: Tensor) -> None:
        """Draw neighbouring tokens together, once in a step however often it is asked for.

        `matrices` are those of `pull_matrices`, in the dtype and on the device of the weights.
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
        model.config.initializer_range = self._scales[index]
        for name, parameter in _parameters(model).items():
            parameter.copy_(self.weights[name][index].detach())
        return model

    def load_member(self, index: int, model: torch.nn.Module) -> None:
        """Take the weights of one model from a model of the same shape."""
        with torch.no_grad():
            for name, parameter in _parameters(model).items():
                self.weights[name][index].copy_(parameter)
            for name, mask in self.masks.items():
                self.weights[name][index].mul_(mask)

    def restart_member(self, index: int, model: torch.nn.Module) -> None:
        """Take the weights of a model, as `load_member`, and forget the moments of its place."""
        self.load_member(index, model)
        for state in self.optimizer.state.values():
            for key in ("exp_avg", "exp_avg_sq"):
                state[key][index] = 0.0

    def some(self, places: Sequence[int]) -> StackedModel:
        """A copy of the models at some places, with their moments, to be trained further."""
        part = copy.copy(self)
        index = torch.as_tensor(places, device=self.device)
        part.weights = {
            name: weight.detach()[index].requires_grad_() for name, weight in self.weights.items()
        }
        part._unpulled = None
        part._scales = [self._scales[place] for place in places]
        if self._rates is not None:
            lr, decay = self._rates
            part._rates = lr[index], decay[index]
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
            lr = of_each_model(numbers[weight]["lr"], weight)
            decay = of_each_model(numbers[weight]["weight_decay"], weight)
            step = float(state["step"])
            mean = state["exp_avg"] / (1 - training.beta1**step)
            scale = (state["exp_avg_sq"] / (1 - training.beta2**step)).sqrt_().add_(training.eps)
            move = mean.div_(scale).mul_(lr)
            after = weight.detach()
            if name == _EMBEDDING and self._unpulled and self._unpulled[0] == self.step:
                after = self._unpulled[1]  # what the last step left, before this step's pull
            updates[name] = after - (after + move) / (1 - lr * decay)
        return updates

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


def pays(config: RunConfig, n_seeds: int) -> bool:
    """Whether training so many seeds is work enough to win back the time that compiling takes."""
    task, model = config.task, config.model
    rows = task.train_rows or round(task.train_fraction * task.prime**2)
    # The MLP dominates; a layer has two rows per equation, the last one unless it is sorted. Of a
    # layer that is applied again, compiling takes so much longer as it saves: it counts once.
    tokens = rows * (2 * model.layers - (model.sort_window is None))
    per_step = tokens * 2 * model.width * model.mlp_width * 3  # forward, and twice that backward
    return n_seeds * config.training.steps * per_step >= WORTH_COMPILING


def wanted(config: RunConfig, n_seeds: int) -> bool:
    """Whether the config asks for compiling: "always", "never", or "auto" where it pays.

    The forward of other tasks than equations is never compiled.
    """
    mode = config.training.compile
    if config.task.name is not None or mode == "never":
        return False
    return mode == "always" or pays(config, n_seeds)


class CompiledLosses:
    """The losses of an `EquationForward` with its logits, compiled at the first call.

    Attributes:
        works: False once compiling has failed, or has given other losses than the plain forward;
            the caller then goes on without it.
        proved: whether it has been compiled, and gave the same losses.
    """

    def __init__(self, forward: EquationForward) -> None:
        def losses(weights: Weights) -> tuple[Tensor, Tensor]:
            # One graph with logits serves all steps: a copy costs less than a second compilation.
            return forward.losses(weights, keep_logits=True)

        # Its search for a compiler warns of a CUDA that is not there, also where none is asked for.
        logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
        self._plain, self._losses = losses, torch.compile(losses, dynamic=False)
        self.proved = False
        self.works = True

    def __call__(self, weights: Weights) -> tuple[Tensor, Tensor] | None:
        """The losses [S] and the logits [S, n, V], or None where this machine cannot compile."""
        try:
            found: tuple[Tensor, Tensor] = self._losses(weights)
        except Exception as error:
            if self.proved:
                raise
            # Whatever the compiler of this machine lacks, training goes on without it.
            self._give_up(f"does not work here ({type(error).__name__})")
            return None
        if not self.proved:
            # Kernels that torch cached under another instruction set have given NaN.
            with torch.no_grad():
                expected = self._plain(weights)[0]
            if not torch.allclose(found[0], expected, rtol=1e-3, atol=1e-5, equal_nan=True):
                self._give_up("gives other losses here than the plain forward")
                return None
        self.proved = True
        return found

    def _give_up(self, why: str) -> None:
        message = f"torch.compile {why}; training goes on without it, a little slower"
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        self.works = False


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
        "layer_norm": model.layer_norm,
        "tie_word_embeddings": model.tied,
        **model.variant.fields,
    }


def model_shape(task: Task, settings: ModelSettings) -> GrokkingTransformerConfig:
    """The config of a model that learns a task; `ValueError` for a variant that it cannot have."""
    words = task.vocabulary
    return GrokkingTransformerConfig(
        vocab_size=words.size,
        max_position_embeddings=task.block_size,
        bos_token_id=words.bos,
        eos_token_id=words.eos,
        pad_token_id=words.eos,
        **shape_fields(settings),
    )


def model_config(config: RunConfig) -> GrokkingTransformerConfig:
    """The config of the model that a run trains; `InputError` for a variant it cannot have."""
    try:
        return model_shape(config.task.build(), config.model)
    except ValueError as error:
        raise InputError(f"model: {error}") from None


def exact_forward(
    task: Task,
    shape: GrokkingTransformerConfig,
    rows: NDArray[np.int64],
    positions: tuple[int, ...],
    *,
    models: int,
    all_rows: NDArray[np.int64] | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Forward:
    """The shortest forward over rows of a task that gives the model's own numbers.

    Args:
        task: of the rows.
        shape: of the models, of which there are S = `models`.
        rows, positions, all_rows: as in `row_tree`.
        device, dtype: of the models' weights.
    """
    equation = task.equation
    known = set(shape.mixer_windows) <= set(EquationForward.MIXERS)
    if equation is None or not known or positions != task.answer_positions:
        of_weights: Any = {"device": device, "dtype": dtype}
        words = shape.vocab_size
        tree = row_tree(rows, positions, vocab_size=words, all_rows=all_rows, **of_weights)
        return RowForward(shape, tree, models)
    each = torch.from_numpy(rows).to(device).expand(models, *rows.shape[-2:])
    bos = task.vocabulary.bos
    return EquationForward(shape, Equations.of_rows(each, equation, bos, dtype=dtype))


def initial_model(config: RunConfig, seed: int) -> GrokkingTransformerForCausalLM:
    """The model of `seed` before training, as after `transformers.set_seed(seed)`."""
    return seeded_model(model_config(config.of_seed(seed)), seed)


def stackable(config: RunConfig, seeds: Sequence[int]) -> list[tuple[int, ...]]:
    """The seeds in groups of one task and one shape, which is one group unless they draw these."""
    groups: dict[Any, list[int]] = {}
    for seed in seeds:
        own = config.of_seed(seed)
        groups.setdefault((own.task, own.model.replace(initializer_range=1.0)), []).append(seed)
    return [tuple(group) for group in groups.values()]


def _rates(each: Sequence[RunConfig], device: Any, dtype: torch.dtype) -> Rates | None:
    """Learning rates and weight decays of models; None where they are the same for all."""
    pairs = [(own.training.lr, own.training.weight_decay) for own in each]
    if len({*pairs}) == 1:
        return None
    lr, decay = torch.tensor(pairs, device=device, dtype=dtype).unbind(1)
    return lr, decay


class SeedStack(StackedModel):
    """The models of S seeds of one config, and the rows that they learn.

    Attributes:
        config: what is trained; where seeds draw rates, of the first.
        seeds: of the models.
        scales: standard deviation of each model's initial weights, [S].
        task, shape: the task, and the models' config.
        data: the rows of every seed.
        train, test: the forwards over every seed's training rows and held-out rows.
        truth: true answers of the training rows, in the order of `train.answers`, [S, n].
        corrupted: which of them carry a wrong label, [S, n].
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
        if len(stackable(config, seeds)) > 1:
            raise ValueError("these seeds draw different tasks or shapes; see stackable")
        each = [config.of_seed(seed) for seed in seeds]
        models = [initial_model(own, seed) for own, seed in zip(each, seeds, strict=True)]
        self.config, rates = each[0], _rates(each, device, dtype)
        super().__init__(models, self.config.training, device=device, dtype=dtype, rates=rates)
        self.seeds = tuple(seeds)
        self.scales = torch.tensor(self._scales, device=self.device, dtype=dtype)
        self.task, self.shape = self.config.task.build(), models[0].config
        self.data = tuple(task_data(self.config.task, seed) for seed in self.seeds)
        self.fingerprints = tuple(item.fingerprint() for item in self.data)
        train_rows = self.of_training_rows("input_ids")
        test_rows = np.stack([item.input_ids[item.test_index] for item in self.data])
        self.train, self.test = (self.forward(rows, dtype) for rows in (train_rows, test_rows))
        pulls = pull_matrices(torch.from_numpy(train_rows), self.shape)
        self._pulls = None if pulls is None else pulls.to(self.device, dtype)
        truth = self.of_training_rows("true_answers")  # [S, n, A]
        wrong = np.repeat(self.of_training_rows("corrupted"), truth.shape[2], axis=1)
        self.truth = torch.from_numpy(truth.reshape(len(self), -1)).to(self.device)
        self.corrupted = torch.from_numpy(wrong).to(self.device)
        self._compiled: CompiledLosses | None = None
        if compiled and isinstance(self.train, EquationForward):
            self._compiled = CompiledLosses(self.train)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def compiles(self) -> bool:
        """Whether the next gradients are compiled first, which takes its time."""
        return self._compiled is not None and self._compiled.works and not self._compiled.proved

    def of_training_rows(self, name: str, part: slice = slice(None)) -> NDArray[Any]:
        """A field of `TaskData` on every seed's training rows, or on part of them: [S, n, ...]."""
        return np.stack([getattr(item, name)[item.train_index[part]] for item in self.data])

    def forward(self, rows: NDArray[np.int64], dtype: torch.dtype) -> Forward:
        """The forward over whole rows of every seed, int64 [S, n, T]."""
        return exact_forward(
            self.task,
            self.shape,
            rows,
            self.task.answer_positions,
            models=len(self),
            all_rows=None if self.task.corrupts_labels else self.task.rows(),
            device=self.device,
            dtype=dtype,
        )

    def gradients(self, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        """Set every parameter's gradient; the losses [S] and, on request, the logits [S, n, V]."""
        if self._pulls is not None:
            self.pull(self._pulls)
        found = None
        if self._compiled is not None and self._compiled.works:
            found = self._compiled(self.weights)
        losses, logits = found or self.train.losses(self.weights, keep_logits=keep_logits)
        self.backward(losses)
        return losses.detach(), logits

    def losses_at(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Training losses [S] at other weights, without gradients."""
        with torch.no_grad():
            return self.train.losses(weights)[0]
