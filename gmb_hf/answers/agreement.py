"""Self-consistency of checkpoints, from a file of answers: no model is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gmb_hf._version import __version__
from gmb_hf.answers.answers_file import Answer, by_checkpoint, require_same_prompts
from gmb_hf.answers.scores_file import CheckpointScore, Scores
from gmb_hf.tasks.text_consistency import disagreement
from gmb_hf.validation import InputError, positive_int

NAME = "self_consistency_disagreement"


@dataclass(frozen=True, kw_only=True)
class Normalised:
    """When two answers are the same: when what is left of them is.

    White space counts as one space between words, and as nothing at either end.

    Attributes:
        first_words: compare so many words only; None compares all.
        any_case: capitals are as good as small letters.
    """

    first_words: int | None = None
    any_case: bool = False

    def __post_init__(self) -> None:
        if self.first_words is not None:
            positive_int("--first-words", self.first_words)

    def __call__(self, answer: str) -> str:
        """What is compared."""
        words = (answer.casefold() if self.any_case else answer).split()
        return " ".join(words[: self.first_words])


def consistency(answers: Sequence[Answer], normalised: Normalised) -> Scores:
    """The disagreement of each checkpoint's samples, the mean over its prompts.

    Raises:
        InputError: checkpoints were asked other prompts, or not equally often; or only once.
    """
    grouped = by_checkpoint(answers)
    require_same_prompts(grouped)
    counts = {len(given): place for place, prompts in grouped.items() for given in prompts.values()}
    if len(counts) > 1:
        (few, at), (many, there) = min(counts.items()), max(counts.items())
        raise InputError(
            f"run {at[0]!r}, step {at[1]}: {few} samples of a prompt, where run {there[0]!r} has "
            f"{many} at step {there[1]}; the most frequent of fewer samples has a larger share by "
            "itself: give equally many"
        )
    (k,) = counts
    if k < 2:
        raise InputError("one sample of each prompt agrees with itself; make several: --samples 8")
    rows = [
        CheckpointScore(
            run,
            step,
            disagreement([[normalised(one.answer) for one in given] for given in prompts.values()]),
            k * len(prompts),
            next(iter(prompts.values()))[0].seed,
        )
        for (run, step), prompts in grouped.items()
    ]
    what = "answers" if normalised.first_words is None else f"first {normalised.first_words} words"
    case = ", in any case" if normalised.any_case else ""
    made_by = f"disagreement of {k} samples, {what}{case}; gmb-hf {__version__}"
    return Scores(NAME, tuple(rows), made_by)
