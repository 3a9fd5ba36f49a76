"""Answers rated by a judge: each distinct answer once, and never again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from gmb_hf._version import __version__
from gmb_hf.answers.files import (
    Answer,
    CheckpointScore,
    ScoreCache,
    Scores,
    by_checkpoint,
    require_same_prompts,
)
from gmb_hf.answers.judges import Judge, Pair
from gmb_hf.errors import InputError, positive_int
from gmb_hf.fingerprints import item_hash
from gmb_hf.tasks.text import disagreement

_RULES = 2  # to be raised when the same judge gives another number to the same answer
_SAVE_EVERY = 1.0  # seconds
_AT_ONCE = 1 << 14  # answers that a judge is given: it holds the tokens of all of them


@dataclass(frozen=True)
class Rated:
    """The scores of a file of answers.

    Attributes:
        scores: by run and step.
        rated_now: distinct answers that the judge saw now.
        from_cache: distinct answers whose score was in the cache.
        empty: answers without a score, which no mean counts.
    """

    scores: Scores
    rated_now: int
    from_cache: int
    empty: int


def rate(
    answers: Sequence[Answer],
    judge: Judge,
    cache: ScoreCache,
    *,
    name: str = "judge",
    batch: int = 32,
    on_rated: Callable[[int], None] = lambda _: None,
) -> Rated:
    """Rate answers; the score of a checkpoint is the mean over its prompts of those over samples.

    Args:
        answers: as `read_answers` gives them.
        judge: that rates those of which the cache knows nothing.
        cache: new scores are saved there every second, so that a rating that was stopped goes on.
        name: of the score.
        batch: answers computed at once.
        on_rated: hears how many answers have been rated or looked up since the last call.

    Raises:
        InputError: checkpoints were asked other prompts, an answer does not fit the judge, it gives
            an infinite number, or all answers of a checkpoint are without a score.
    """
    positive_int("--batch-size", batch)
    grouped = by_checkpoint(answers)
    require_same_prompts(grouped)
    keys = {pair: _key(judge, pair) for pair in dict.fromkeys(map(_pair, answers))}
    found = cache.get(list(keys.values()))
    missing = [pair for pair, key in keys.items() if key not in found]
    on_rated(len(keys) - len(missing))
    # The longest first, so that one that does not fit is known before the others are paid for.
    missing.sort(key=lambda pair: len(pair[0]) + len(pair[1]), reverse=True)
    for start in range(0, len(missing), _AT_ONCE):
        part = missing[start : start + _AT_ONCE]
        found |= _rate_missing(part, keys, judge, cache, batch, on_rated)

    rows, empty = [], 0
    for (run, step), prompts in grouped.items():
        means, count = [], 0
        for given in prompts.values():
            each = [found[keys[_pair(answer)]] for answer in given]
            rated = [value for value in each if not math.isnan(value)]
            empty += len(each) - len(rated)
            count += len(rated)
            if rated:
                means.append(math.fsum(rated) / len(rated))
        if not means:
            raise InputError(
                f"run {run!r}, step {step}: all answers are empty, and an empty answer has no "
                "likelihood; rate with --how label or yes-no"
            )
        seed = next(iter(prompts.values()))[0].seed
        rows.append(CheckpointScore(run, step, math.fsum(means) / len(means), count, seed))
    scores = Scores(name, tuple(rows), made_by(judge))
    return Rated(scores, len(missing), len(keys) - len(missing), empty)


def _rate_missing(
    pairs: Sequence[Pair],
    keys: Mapping[Pair, bytes],
    judge: Judge,
    cache: ScoreCache,
    batch: int,
    on_rated: Callable[[int], None],
) -> dict[bytes, float]:
    """The scores of pairs, which go into the cache as they come."""
    found: dict[bytes, float] = {}
    unsaved: dict[bytes, float] = {}
    saved_at = time.monotonic()
    try:
        for places, values in judge.rated(pairs, batch):
            for place, value in zip(places, values.tolist(), strict=True):
                if math.isinf(value):
                    raise InputError(
                        f"{judge.place}: gives {value}; a judge must give finite numbers"
                    )
                unsaved[keys[pairs[place]]] = value
            on_rated(len(places))
            if time.monotonic() - saved_at > _SAVE_EVERY:
                cache.put(unsaved)
                found |= unsaved
                unsaved, saved_at = {}, time.monotonic()
    finally:
        if unsaved:
            cache.put(unsaved)
    return found | unsaved


def made_by(judge: Judge) -> str:
    """A line that names what a judge's scores depend on, and the versions at hand.

    Scores that were known from before may have been computed by others.
    """
    about = dict(judge.about)
    identity = about.pop("judge")
    rest = "".join(f", {key} {value!r}" for key, value in about.items())
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    return f"judge {judge.place} ({identity}){rest}; gmb-hf {__version__}, {versions}"


def _pair(answer: Answer) -> Pair:
    return answer.prompt, answer.answer


def _key(judge: Judge, pair: Pair) -> bytes:
    prompt, answer = pair
    return item_hash([_RULES, judge.about, prompt, answer])


# Self-consistency of checkpoints, from a file of answers: no model is needed.


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
