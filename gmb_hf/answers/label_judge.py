"""A text classifier as a judge: the probability of one of its labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.answers.asking import ADVICE, Pair, filled
from gmb_hf.answers.batches import equally_long
from gmb_hf.answers.unloaded import Unloaded
from gmb_hf.validation import InputError, unknown


class LabelJudge:
    """A text classifier: the probability of a label.

    A model of several labels that exclude each other gives them a softmax, one of labels that do
    not a sigmoid each; with one output alone, as reward models have it, the score is that number.

    Raises:
        InputError: it has several labels and none is named, or no such label.
    """

    def __init__(self, model: Unloaded, label: str | None, template: str) -> None:
        self._model = model
        self._template = template
        config = model.config
        self._place, self._label = _label_place(model.place, config, label)
        self._exclusive = config.problem_type != "multi_label_classification"
        self._single = config.num_labels == 1

    @property
    def place(self) -> str:
        """As `Judge`."""
        return self._model.place

    @property
    def about(self) -> dict[str, Any]:
        """As `Judge`."""
        return {
            "judge": self._model.source.identity,
            "how": "label",
            "label": self._label,
            "template": self._template,
        }

    @torch.no_grad()
    def rated(
        self, pairs: Sequence[Pair], batch: int
    ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        """As `Judge`."""
        loaded = self._model.loaded
        config = loaded.model.config
        if config.pad_token_id is None:
            # Causal models with a classifier's head look for the last token that is no padding,
            # and take one row at a time where they know none. There is no padding here.
            config.pad_token_id = -1
        texts = [filled(self._template, pair) for pair in pairs]
        rows = [loaded.ids(text, framed=True) for text in texts]
        loaded.require_room([len(row) for row in rows], [prompt for prompt, _ in pairs], ADVICE)
        for places in equally_long([len(row) for row in rows], batch):
            ids = loaded.tensor([rows[place] for place in places])
            logits = loaded.model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            yield places, loaded.finite(self._score(logits.double()))

    def _score(self, logits: Tensor) -> Tensor:
        if self._single:
            return logits[:, 0]
        chance = logits.softmax(-1) if self._exclusive else logits.sigmoid()
        return chance[:, self._place]


def _label_place(place: str, config: Any, label: str | None) -> tuple[int, str]:
    names = {int(number): str(name) for number, name in config.id2label.items()}
    if label is None and config.num_labels == 1:
        return 0, names.get(0, "LABEL_0")
    known = [names[number] for number in sorted(names)]
    if label is None:
        unnamed = all(name == f"LABEL_{number}" for number, name in names.items())
        what = "its labels have no names" if unnamed else "it has several labels"
        raise InputError(
            f"{place}: {what} ({', '.join(known)}); say whose probability is the score: --label "
            f"{known[-1]}"
        )
    if label not in known:
        raise unknown("label", label, known, where=place)
    return next(number for number, name in names.items() if name == label), label
