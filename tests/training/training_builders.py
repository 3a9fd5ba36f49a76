"""Small configs, models with weights that matter, and the model's own loss to compare with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gmb_hf.modeling import GrokkingTransformerForCausalLM
from gmb_hf.training.config import ModelSettings, RunConfig, TaskSettings, TrainingSettings
from gmb_hf.training.stacked import SeedStack, initial_model, task_data

TASK = {"operation": "sub", "prime": 5}
MODEL = {"layers": 1, "heads": 2, "width": 8, "mlp_width": 12}
TRAINING = {"steps": 20, "checkpoint_every": 5, "lr": 1e-2, "compile": "never"}
VARIANT_TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
EQUALS = 4  # the position whose next token is the answer


def small_config(*, task=None, model=None, training=None) -> RunConfig:
    """A config that trains in a blink; the arguments change fields of its sections."""
    return RunConfig(
        preset="test",
        task=TaskSettings(**{**TASK, **(task or {})}),
        model=ModelSettings(**{**MODEL, **(model or {})}),
        training=TrainingSettings(**{**TRAINING, **(training or {})}),
    )


def lively_model(
    config: RunConfig, seed: int, dtype: torch.dtype = torch.float64
) -> GrokkingTransformerForCausalLM:
    """A model with large weights, biases and norms, so that every part of it matters."""
    model = initial_model(config, seed).to(dtype)
    model.set_attn_implementation("eager")
    generator = torch.Generator().manual_seed(1000 + seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(centre + 0.4 * noise)
    return model


def stacked(
    config: RunConfig,
    models: Mapping[int, torch.nn.Module],
    dtype: torch.dtype = torch.float64,
) -> SeedStack:
    """The models, given by seed, as one stack."""
    stack = SeedStack(config, list(models), dtype=dtype)
    for index, model in enumerate(models.values()):
        stack.load_member(index, model)
    return stack


def equations(config: RunConfig, seed: int, split: str = "train") -> tuple[Tensor, Tensor]:
    """The tokens [n, 8] and the labels [n, 8] of a seed's rows."""
    data = task_data(config.task, seed)
    index = data.train_index if split == "train" else data.test_index
    return torch.from_numpy(data.input_ids[index]), torch.from_numpy(data.labels[index])


def own_loss(model: torch.nn.Module, config: RunConfig, seed: int) -> tuple[Tensor, Tensor]:
    """The model's loss on its training rows through all eight tokens, and the logits at EQ."""
    input_ids, labels = equations(config, seed)
    out = model(input_ids=input_ids, labels=labels)
    return out.loss, out.logits[:, EQUALS]


def difference(found: Tensor, expected: Tensor) -> float:
    """The largest difference relative to the largest expected number."""
    assert found.shape == expected.shape
    largest = expected.abs().max().clamp(min=torch.finfo(expected.dtype).tiny)
    return float(((found - expected).abs().max() / largest).detach())


def gradients_of_both(config, seeds, dtype, tolerance):
    """For each seed {name: gradients, stacked and the model's own}, once its losses agree."""
    models = {seed: lively_model(config, seed, dtype) for seed in seeds}
    stack = stacked(config, models, dtype)
    losses, logits = stack.gradients(keep_logits=True)
    for index, (seed, model) in enumerate(models.items()):
        loss, own_logits = own_loss(model, config, seed)
        loss.backward()
        assert difference(losses[index], loss) <= tolerance
        assert difference(logits[index], own_logits) <= tolerance
        yield {
            name: (stack.weights[name].grad[index], parameter.grad)
            for name, parameter in model.named_parameters()
        }


def assert_variants_same(config, seeds, dtype):
    """Losses, answer logits and every parameter's gradient agree, relative to the largest.

    Relative to the largest of all, since some gradients are mere rounding: a window of one mixes a
    state with itself, and its gate has no other.

    Returns:
        for each seed the model's own gradients by name.
    """
    tolerance, owned = VARIANT_TOLERANCE[dtype], []
    for gradients in gradients_of_both(config, seeds, dtype, tolerance):
        largest = max(float(own.abs().max()) for _, own in gradients.values())
        for name, (found, own) in gradients.items():
            assert float((found - own).abs().max()) <= tolerance * largest, name
        owned.append({name: own for name, (_, own) in gradients.items()})
    return owned


def train_together(stack: SeedStack, steps: int) -> Tensor:
    """Make so many updates and return the training losses before each, [steps, S]."""
    losses = []
    for _ in range(steps):
        losses.append(stack.gradients()[0])
        stack.update()
    return torch.stack(losses) if losses else torch.empty(0, len(stack))
