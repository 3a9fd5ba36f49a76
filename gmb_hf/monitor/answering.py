"""What a model says of labelled rows: losses, margins and gradients over all their answers.

Shapes: m answers; a stack of one model, as in `gmb_hf.training.measures`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from gmb_hf.monitor.labelled import Answers, LabelledRows
from gmb_hf.training import measures


class Changed:
    """A model with other values for some of its weights, to be called like it.

    Args:
        model: left as it is.
        changed: name -> value.
        tied: whether a weight that the model uses in two places changes in both.
    """

    def __init__(
        self, model: torch.nn.Module, changed: Mapping[str, Tensor], *, tied: bool = True
    ) -> None:
        self._model = model
        self._tied = tied
        own = dict(model.named_parameters())
        self._changed = {name: value.to(own[name].dtype) for name, value in changed.items()}

    def parameters(self) -> Iterator[Tensor]:
        """Those of the model."""
        return self._model.parameters()

    def __call__(self, **inputs: Any) -> Any:
        return functional_call(self._model, self._changed, (), inputs, tie_weights=self._tied)


def summed_up(answers: Answers) -> dict[str, Tensor]:
    """What is kept of a batch: numbers per answer, without its logits."""
    kept = {
        "losses": measures.answer_losses(answers.logits, answers.answers),
        "margins": measures.margins(answers.logits, answers.answers),
        "predictions": answers.logits.argmax(-1),
    }
    return kept if answers.hidden is None else {**kept, "hidden": answers.hidden}


def quality(split: str, said: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Loss, accuracy and margins over the answers of all batches, [1] each."""
    losses, margins = (
        torch.cat([one[name] for one in said], dim=1) for name in ("losses", "margins")
    )
    return {f"{split}_loss": losses.mean(1), **measures.answer_quality(split, margins)}


def gradients_on(model: torch.nn.Module, rows: LabelledRows) -> dict[str, Tensor]:
    """Of the mean loss over all answers, [1, ...] each; `.grad` is left as it is."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    # In float32 at least, also of a model in half precision.
    total = {
        name: torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        for name, weight in weights.items()
    }
    count = 0
    for said in rows.batches(model):
        loss = measures.answer_losses(said.logits, said.answers).sum()
        made = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        for name, gradient in zip(weights, made, strict=True):
            if gradient is not None:
                total[name] += gradient
        count += said.answers.shape[1]
    return {name: (gradient / count).unsqueeze(0) for name, gradient in total.items()}


def loss_on(model: Any, rows: LabelledRows) -> Tensor:
    """The mean loss over all answers, [1]."""
    losses = [measures.answer_losses(said.logits, said.answers) for said in rows.batches(model)]
    return torch.cat(losses, dim=1).mean(1)


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """In evaluation mode, and each module afterwards in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
