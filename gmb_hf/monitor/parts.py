"""Which weights of a model an observable means, by their names.

What the names are in the model of this package and in the common ones of transformers (GPT-2,
GPT-NeoX, Llama and its kin) is the default; for others they are given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from gmb_hf.validation import InputError


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Patterns of parameter names (regular expressions, found anywhere in the name).

    Attributes:
        attention: all parameters of the attention blocks.
        mixing: of these the matrices that make queries, keys and values.
        mlp: all parameters of the MLP blocks.
        embedding, unembedding: each of one matrix; by default what the model itself says
            (`get_input_embeddings`, `get_output_embeddings`; a tied head is the embedding).
        residues: the token ids 0 .. residues - 1 stand for the residues of modular arithmetic;
            Fourier observables need it.
    """

    attention: str = r"\.(attention|attn|self_attn)\."
    mixing: str = r"\.(qkv|c_attn|query_key_value|[qkv]_proj|query|key|value)\.weight$"
    mlp: str = r"\.(mlp|feed_forward|ffn)\."
    embedding: str | None = None
    unembedding: str | None = None
    residues: int | None = None

    def __post_init__(self) -> None:
        for name in ("attention", "mixing", "mlp", "embedding", "unembedding"):
            pattern = getattr(self, name)
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise InputError(f"parts: {name} {pattern!r} is no pattern: {error}") from None
        if self.residues is not None and self.residues < 3:
            raise InputError(f"parts: residues must be 3 or more, got {self.residues}")


class ModelWeights:
    """The weights of one model as stacks of one, [1, ...], in float32 or better.

    Args:
        model: a PreTrainedModel, not wrapped.
        parts: what is meant by the names.
    """

    def __init__(self, model: nn.Module, parts: Parts) -> None:
        self._model = model
        self._parts = parts
        _refuse_shards(model)
        self.named = {
            name: _stack_of_one(parameter.detach()) for name, parameter in model.named_parameters()
        }

    def all_of(self, part: str) -> list[Tensor]:
        """The weights whose names have the pattern of "attention", "mixing" or "mlp".

        Raises:
            InputError: there are none.
        """
        pattern = getattr(self._parts, part)
        found = [weight for name, weight in self.named.items() if re.search(pattern, name)]
        if not found:
            raise InputError(
                f"no weight of this model has a name like {pattern!r}; say which belong to its "
                f"{part} with parts=Parts({part}=...)"
            )
        return found

    @property
    def embedding_name(self) -> str:
        """The name of the input embedding."""
        return self._named("embedding", self._model.get_input_embeddings())  # type: ignore[operator]

    @property
    def embedding(self) -> Tensor:
        """The input embedding, [1, V, d]."""
        return self.named[self.embedding_name]

    @property
    def unembedding(self) -> Tensor:
        """The output layer, [1, V, d]; the embedding where they are one, or there is none."""
        head = self._model.get_output_embeddings()  # type: ignore[operator]
        if head is None and self._parts.unembedding is None:
            return self.embedding
        return self.named[self._named("unembedding", head)]

    @property
    def mixing(self) -> Tensor:
        """Queries, keys and values of all layers below one another, [1, rows, d]."""
        transposed = {
            f"{name}.weight"
            for name, module in self._model.named_modules()
            if isinstance(module, Conv1D)
        }
        self.all_of("mixing")
        rows = [
            weight.transpose(1, 2) if name in transposed else weight
            for name, weight in self.named.items()
            if re.search(self._parts.mixing, name)
        ]
        return torch.cat(rows, dim=1)

    def _named(self, part: str, layer: nn.Module | None) -> str:
        """The name of the matrix that is given for a part, else of the model's own layer."""
        pattern = getattr(self._parts, part)
        own = getattr(layer, "weight", None)
        found = [
            name
            for name, parameter in self._model.named_parameters()
            if (re.search(pattern, name) if pattern else parameter is own)
        ]
        if len(found) != 1:
            which = f"{len(found)} weights have a name like {pattern!r}" if pattern else "none"
            raise InputError(
                f"the {part} of this model is one matrix, but found: {which}; name it with "
                f"parts=Parts({part}=...)"
            )
        return found[0]


def _refuse_shards(model: nn.Module) -> None:
    """Weights that lie in pieces on several processes cannot be read on one of them."""
    for name, weight in model.named_parameters():
        if not weight.numel() or hasattr(weight, "full_tensor") or hasattr(weight, "_sharded_size"):
            raise InputError(
                f"weight {name!r} is not whole on this process: models that are sharded (FSDP, "
                "DeepSpeed ZeRO-3) cannot be watched from inside; follow their log with gmb monitor"
            )


def _stack_of_one(weight: Tensor) -> Tensor:
    kept = weight if weight.dtype in (torch.float32, torch.float64) else weight.float()
    return kept.unsqueeze(0)
