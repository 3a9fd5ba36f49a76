"""Continuations of a language model, drawn from numbers that are given.

Which token a probability vector yields is decided by one number in [0, 1) for each place of each
continuation: the first token whose cumulative probability exceeds it. So a continuation depends on
its own numbers and on the model alone, not on what else is in the batch, nor on torch's generator;
and with the same numbers at every checkpoint, what changes between two is the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.validation import InputError


class DivergedError(InputError):
    """A model gives no number for the next token: what it seems to write would be nobody's."""


class _Watched:
    """Remembers whether scores were ever NaN or without end; it changes none."""

    def __init__(self, device: torch.device) -> None:
        self.good = torch.ones((), dtype=torch.bool, device=device)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.good &= (scores < torch.inf).all()  # of NaN, this is False
        return scores


class _Drawn:
    """Makes the token that a number stands for the only one there is."""

    def __init__(self, draws: Tensor, temperature: float, prompt_tokens: int) -> None:
        self._draws = draws
        self._temperature = temperature
        self._prompt_tokens = prompt_tokens

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        # From the largest one down, so that the lowest temperature cannot make them infinite.
        below = scores.double() - scores.amax(-1, keepdim=True)
        chance = torch.softmax(below / self._temperature, dim=-1).cumsum(-1)  # [B, V]
        place = input_ids.shape[1] - self._prompt_tokens
        # The whole is 1 but for rounding, and a number must never lie beyond it.
        wanted = self._draws[:, place, None] * chance[:, -1:]  # [B, 1]
        token = torch.searchsorted(chance, wanted, right=True).clamp(max=scores.shape[1] - 1)
        return torch.full_like(scores, -torch.inf).scatter_(1, token, 0.0)


@torch.no_grad()
def continuations(
    model: Any,
    rows: Tensor,
    *,
    new_tokens: int,
    draws: NDArray[np.float64] | None = None,
    temperature: float = 1.0,
    end: int | None = None,
) -> Tensor:
    """What a model writes after prompts, int64 [B, new_tokens].

    Args:
        model: a causal language model of transformers, in evaluation mode.
        rows: the prompts' tokens, equally many in each, int64 [B, T].
        new_tokens: to write.
        draws: numbers in [0, 1), [B, new_tokens]; None takes the likeliest token each time.
        temperature: that logits are divided by before a token is drawn.
        end: of a text; after it there is no more than this token again.

    Raises:
        DivergedError: the model gives NaN or infinities for the next token.
    """
    from transformers import GenerationConfig, LogitsProcessorList

    watched = _Watched(rows.device)
    steps: list[Any] = [watched]
    if draws is not None:
        numbers = torch.from_numpy(draws).to(rows.device)
        steps.append(_Drawn(numbers, temperature, rows.shape[1]))
    padding = 0 if end is None else end
    # Not what lies beside the model: penalties, beams and temperatures of its own.
    settings = GenerationConfig(
        max_new_tokens=new_tokens,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=padding,
        use_cache=getattr(model.config, "use_cache", True),
    )
    held, model.generation_config = model.generation_config, settings
    try:
        whole = model.generate(
            rows,
            attention_mask=torch.ones_like(rows),
            generation_config=settings,
            logits_processor=LogitsProcessorList(steps),
        )
    finally:
        model.generation_config = held
    if not watched.good:
        raise DivergedError("the model gives NaN or infinities for the next token")
    found: Tensor = whole[:, rows.shape[1] :]
    short = new_tokens - found.shape[1]
    return torch.nn.functional.pad(found, (0, short), value=padding) if short else found
