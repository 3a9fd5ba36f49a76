"""Rows with labels, on which the model of a live run is measured.

A row is what a causal language model is trained on: `input_ids`, `labels` (-100 where nothing is to
be predicted) and, where rows are padded, `attention_mask`. Each labelled token is one answer.

Shapes: n rows, T tokens, m answers, V vocabulary, d width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gmb_hf.tasks.task import IGNORED
from gmb_hf.validation import InputError

BATCH_ROWS = 1024


@dataclass(frozen=True)
class Answers:
    """What a model says of a batch of rows.

    Attributes:
        logits: [1, m, V], those that predict the answers.
        answers: int64 [1, m].
        hidden: [1, m, d], the states that the logits are made from; None where not asked for.
    """

    logits: Tensor
    answers: Tensor
    hidden: Tensor | None


@dataclass(frozen=True)
class LabelledRows:
    """Rows of equal length.

    Attributes:
        input_ids: int64 [n, T].
        labels: int64 [n, T], aligned with the tokens.
        attention_mask: int64 [n, T], or None.
    """

    input_ids: Tensor
    labels: Tensor
    attention_mask: Tensor | None

    @classmethod
    def of(cls, rows: Any, *, where: str) -> LabelledRows:
        """Rows from a `datasets.Dataset`, a sequence of mappings, or a mapping of arrays.

        Raises:
            InputError: a column is missing, rows differ in length, or nothing is labelled.
        """
        columns = {}
        for name in ("input_ids", "labels", "attention_mask"):
            cells = _column(rows, name, where)
            if cells is None and name != "attention_mask":
                raise InputError(f"{where}: column {name!r} missing; give input_ids and labels")
            columns[name] = None if cells is None else _tensor(cells, name, where)
        input_ids, labels = columns["input_ids"], columns["labels"]
        assert input_ids is not None
        assert labels is not None
        if input_ids.shape != labels.shape or input_ids.dim() != 2:
            raise InputError(
                f"{where}: input_ids are {list(input_ids.shape)} and labels "
                f"{list(labels.shape)}; give one label for each token of each row"
            )
        if not bool((labels[:, 1:] != IGNORED).any()):
            raise InputError(
                f"{where}: no token has a label; labels are {IGNORED} where nothing is predicted"
            )
        return cls(input_ids, labels, columns["attention_mask"])

    def batches(self, model: Any, *, hidden: bool = False, **options: Any) -> Iterator[Answers]:
        """What the model says, batch by batch.

        Args:
            model: called with `input_ids` and `attention_mask`; a PreTrainedModel.
            hidden: whether to give the hidden states too.
            options: further arguments of the call.
        """
        device = next(model.parameters()).device
        for start in range(0, len(self.input_ids), BATCH_ROWS):
            some = slice(start, start + BATCH_ROWS)
            inputs: dict[str, Any] = {"input_ids": self.input_ids[some].to(device)}
            if self.attention_mask is not None:
                inputs["attention_mask"] = self.attention_mask[some].to(device)
            said = model(**inputs, output_hidden_states=hidden, use_cache=False, **options)
            answers = self.labels[some, 1:].to(device)
            asked = answers != IGNORED
            yield Answers(
                said.logits[:, :-1][asked].unsqueeze(0).float(),
                answers[asked].unsqueeze(0),
                said.hidden_states[-1][:, :-1][asked].unsqueeze(0) if hidden else None,
            )


def _column(rows: Any, name: str, where: str) -> Any:
    if isinstance(rows, Mapping):
        return rows.get(name)
    try:
        if hasattr(rows, "column_names"):
            return rows[name][:] if name in rows.column_names else None
        found = [row[name] for row in rows if name in row]
        return found if len(found) == len(rows) and found else None
    except (TypeError, KeyError):
        raise InputError(
            f"{where}: give rows with input_ids and labels: a datasets.Dataset, a list of "
            f"mappings, or a mapping of arrays; got {type(rows).__name__}"
        ) from None


def _tensor(cells: Any, name: str, where: str) -> Tensor:
    if isinstance(cells, Tensor):
        return cells.detach().to("cpu", torch.int64)
    try:
        return torch.stack([torch.as_tensor(row, dtype=torch.int64) for row in cells])
    except (RuntimeError, TypeError, ValueError):
        raise InputError(
            f"{where}: column {name!r} holds no rows of equally many whole numbers; pad them, "
            "with an attention_mask"
        ) from None
