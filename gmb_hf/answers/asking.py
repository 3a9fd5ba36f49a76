"""What a judge is asked, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gmb_hf.validation import InputError, choose

HOWS = ("label", "likelihood", "yes-no")
PLAIN = "{prompt}{answer}"
ASK = "{prompt}{answer}\n\nIs this a good continuation? Answer yes or no:"

ADVICE = "shorten the answers or the template, or choose another judge"
"""What to do where an answer does not fit a judge."""

Pair = tuple[str, str]
"""Prompt and answer."""


class Judge(Protocol):
    """Whatever rates answers."""

    @property
    def place(self) -> str:
        """By what name it goes."""

    @property
    def about(self) -> dict[str, Any]:
        """Plain data on which a score depends, prompt and answer apart; `judge` names it."""

    def rated(
        self, pairs: Sequence[Pair], batch: int, /
    ) -> Iterator[tuple[list[int], NDArray[np.float64]]]:
        """Batch by batch, the places of pairs and their scores; NaN where there is none."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What a judge is asked.

    Attributes:
        how: one of `HOWS`; None where the model is a classifier, which can do but one thing.
        label: of a classifier, whose probability is the score.
        template: what it reads; `PLAIN` for a label, `ASK` for yes-no.
        yes, no: the words between which yes-no decides.
    """

    how: str | None = None
    label: str | None = None
    template: str | None = None
    yes: str = " yes"
    no: str = " no"

    def __post_init__(self) -> None:
        if self.how is not None:
            choose("way", self.how, HOWS, where="--how")
        if self.label is not None and self.how not in (None, "label"):
            raise InputError(f"--label is for --how label, not {self.how}")
        if self.template is not None:
            if self.how == "likelihood":
                raise InputError(
                    "--template: the likelihood is that of the answer after its prompt"
                )
            _check_template(self.template)
        if not self.yes or not self.no or self.yes == self.no:
            raise InputError("--yes and --no: two different words are needed")


def filled(template: str, pair: Pair) -> str:
    """What a judge reads of a prompt and an answer."""
    return template.format(prompt=pair[0], answer=pair[1])


def _check_template(template: str) -> None:
    try:
        fields = {name for _, name, _, _ in Formatter().parse(template) if name is not None}
    except ValueError as error:
        raise InputError(f"--template: {error}; a brace as such is written twice") from None
    if "answer" not in fields or fields - {"answer", "prompt"}:
        raise InputError(
            "--template: must have {answer} in it, may have {prompt}, and nothing else in braces; "
            "a brace as such is written twice"
        )
