"""A causal language model as a judge: how likely an answer is, or whether it says yes of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gmb_hf.answers.asking import ADVICE, Pair, filled
from gmb_hf.answers.batches import equally_long
from gmb_hf.answers.models import Loaded
from gmb_hf.answers.unloaded import Unloaded
from gmb_hf.validation import InputError


class CausalJudge:
    """A causal model: how likely the answer is, or whether it says yes or no of it.

    Args:
        model: that judges.
        template: what it reads before the words; with the likelihood the prompt alone is read.
        words: yes and no; None for the likelihood of the answer.
    """

    def __init__(self, model: Unloaded, template: str, words: tuple[str, str] | None) -> None:
        self._model = model
        self._template = template
        self._words = words

    @property
    def place(self) -> str:
        """As `Judge`."""
        return self._model.place

    @property
    def about(self) -> dict[str, Any]:
        """As `Judge`."""
        about = {"judge": self._model.source.identity}
        if self._words is None:
            return {**about, "how": "likelihood"}
        yes, no = self._words
        return {**about, "how": "yes-no", "template": self._template, "yes": yes, "no": no}

    def rated(
        self, pairs: Sequence[Pair], batch: int
    ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        """As `Judge`. An answer without a token has no likelihood.

        Raises:
            InputError: a word of yes and no has no token, or both have the same ones.
        """
        if self._words is None:
            yield from self._likelihoods(pairs, batch)
        else:
            yield from self._verdicts(pairs, batch, self._words)

    def _likelihoods(
        self, pairs: Sequence[Pair], batch: int
    ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        loaded = self._model.loaded
        begun = {prompt: loaded.ids(prompt) for prompt in {prompt for prompt, _ in pairs}}
        before = [loaded.start + begun[prompt] for prompt, _ in pairs]
        ends = [loaded.ids_after(prompt, begun[prompt], answer) for prompt, answer in pairs]
        rows = [one + end for one, end in zip(before, ends, strict=True)]
        self._check(before, [len(row) for row in rows], pairs)
        for places in equally_long([len(row) for row in rows], batch):
            sizes = np.array([len(ends[place]) for place in places])
            sums = self._log_chances([rows[place] for place in places], sizes)
            yield places, np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0)

    def _verdicts(
        self, pairs: Sequence[Pair], batch: int, words: tuple[str, str]
    ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        loaded = self._model.loaded
        word_ids = self._word_ids(loaded, words)
        before = [loaded.start + loaded.ids(filled(self._template, pair)) for pair in pairs]
        longest = max(map(len, word_ids))
        self._check(before, [len(row) + longest for row in before], pairs)
        for places in equally_long([len(row) for row in before], batch):
            yes, no = (
                self._log_chances([before[place] + word for place in places], len(word))
                for word in word_ids
            )
            yield places, 1 / (1 + np.exp(np.clip(no - yes, -700, 700)))

    def _word_ids(self, loaded: Loaded, words: tuple[str, str]) -> list[list[int]]:
        """The tokens of both words, as they are after what the template ends with."""
        text = filled(self._template, ("", ""))
        begun = loaded.ids(text)
        found = [loaded.ids_after(text, begun, word) for word in words]
        for word, ids in zip(words, found, strict=True):
            if not ids:
                raise InputError(f"{loaded.place}: the word {word!r} has no token")
        if found[0] == found[1]:
            raise InputError(
                f"{loaded.place}: the words {words[0]!r} and {words[1]!r} are the same to it; "
                "choose others: --yes, --no"
            )
        return found

    @torch.no_grad()
    def _log_chances(
        self, rows: list[list[int]], sizes: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """ln p of the last tokens of each row, so many of them, after those before, [n]."""
        most = int(np.max(sizes))
        if not most:
            return np.zeros(len(rows))
        loaded = self._model.loaded
        ids = loaded.tensor(rows)
        # The logits of a token stand at the place of the one before it.
        keeps = "logits_to_keep" in inspect.signature(loaded.model.forward).parameters
        kept = {"logits_to_keep": most + 1} if keeps else {}
        found = loaded.model(input_ids=ids, attention_mask=torch.ones_like(ids), **kept)
        logits = found.logits[:, -(most + 1) : -1]  # [n, most, V]
        said = logits.gather(-1, ids[:, -most:, None])[..., 0]  # [n, most]
        each = (said - logits.logsumexp(-1)).double()
        asked = np.arange(most, 0, -1) <= np.broadcast_to(sizes, len(rows))[:, None]
        chosen = torch.from_numpy(asked).to(loaded.device)
        return loaded.finite(torch.where(chosen, each, 0.0).sum(-1))

    def _check(self, before: list[list[int]], sizes: list[int], pairs: Sequence[Pair]) -> None:
        prompts = [prompt for prompt, _ in pairs]
        self._model.loaded.require_begun([len(row) for row in before], prompts)
        self._model.loaded.require_room(sizes, prompts, ADVICE)
