"""Judges: models that say how good an answer to a prompt is, as one number; and their scores.

| how        | model           | score of an answer                                              |
|------------|-----------------|-----------------------------------------------------------------|
| label      | text classifier | probability of a label; the logit itself where there is but one |
| likelihood | causal          | mean log-probability of the answer's tokens after the prompt    |
| yes-no     | causal          | p(yes) / (p(yes) + p(no)) after a template that asks            |

A template is a text with {answer} in it, and {prompt} where the prompt shall stand. A judge has
seen what its owner trained it on, perhaps the labels that the metric is made of: that is for the
owner to say, and its scores pass the same gates as all others.
"""

from __future__ import annotations

import inspect
import math
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from string import Formatter
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, choose, positive_int, unknown
from gmb_hf.base.files import clear_os_errors
from gmb_hf.base.fingerprints import item_hash
from gmb_hf.base.pretrained import ModelSource
from gmb_hf.protocol.answers import files
from gmb_hf.protocol.answers.models import Head, Model, equally_long, head_of
from gmb_hf.training.launch import chosen_device

HOWS = ("label", "likelihood", "yes-no")
PLAIN = "{prompt}{answer}"
ASK = "{prompt}{answer}\n\nIs this a good continuation? Answer yes or no:"

ADVICE = "shorten the answers or the template, or choose another judge"  # where one does not fit
Pair = tuple[str, str]  # prompt and answer
Batches = Iterator[tuple[list[int], NDArray[np.float64]]]  # places of pairs, and their scores


class Judge(Protocol):
    """Whatever rates answers."""

    @property
    def place(self) -> str:
        """By what name it goes."""

    @property
    def about(self) -> dict[str, Any]:
        """Plain data on which a score depends, prompt and answer apart; `judge` names it."""

    def rated(self, pairs: Sequence[Pair], batch: int, /) -> Batches:
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
        if self.template is not None and self.how == "likelihood":
            raise InputError("--template: the likelihood is that of the answer after its prompt")
        if self.template is not None:
            _check_template(self.template)
        if not self.yes or not self.no or self.yes == self.no:
            raise InputError("--yes and --no: two different words are needed")


def filled(template: str, pair: Pair) -> str:
    """What a judge reads of a prompt and an answer."""
    return template.format(prompt=pair[0], answer=pair[1])


def _check_template(template: str) -> None:
    try:
        parts = [part for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise InputError(f"--template: {error}; a brace as such is written twice") from None
    fields = {name for _, name, _, _ in parts}
    # {answer:>99999999999} would ask for so many characters.
    formatted = any(form or conversion for _, _, form, conversion in parts)
    if "answer" not in fields or fields - {"answer", "prompt"} or formatted:
        what = "must have {answer} in it, may have {prompt}, and nothing else in braces"
        raise InputError(f"--template: {what}; a brace as such is written twice")


class _ModelJudge:
    """What judges that are models have in common; `place` and `about` are those of `Judge`."""

    def __init__(self, model: Model, about: dict[str, Any]) -> None:
        self._model = model
        self.place = model.place
        self.about = {"judge": model.source.identity, **about}


class CausalJudge(_ModelJudge):
    """A causal model: how likely the answer is, or whether it says yes or no of it.

    `words` are yes and no, before which it reads the template; without them it gives the likelihood
    of the answer after the prompt alone.
    """

    def __init__(self, model: Model, template: str, words: tuple[str, str] | None) -> None:
        about: dict[str, Any] = {"how": "likelihood"}
        if words is not None:
            about = {"how": "yes-no", "template": template, "yes": words[0], "no": words[1]}
        super().__init__(model, about)
        self._template = template
        self._words = words

    def rated(self, pairs: Sequence[Pair], batch: int) -> Batches:
        """As `Judge`. An answer without a token has no likelihood.

        Raises:
            InputError: a word of yes and no has no token, or both have the same ones.
        """
        if self._words is None:
            return self._likelihoods(pairs, batch)
        return self._verdicts(pairs, batch, self._words)

    def _likelihoods(self, pairs: Sequence[Pair], batch: int) -> Batches:
        model = self._model
        prompt_ids = {prompt: model.ids(prompt) for prompt in {prompt for prompt, _ in pairs}}
        before = [model.start + prompt_ids[prompt] for prompt, _ in pairs]
        ends = [model.ids_after(prompt, prompt_ids[prompt], answer) for prompt, answer in pairs]
        rows = [one + end for one, end in zip(before, ends, strict=True)]
        self._check(before, [len(row) for row in rows], pairs)
        for places in equally_long([len(row) for row in rows], batch):
            sizes = np.array([len(ends[place]) for place in places])
            sums = self._log_chances([rows[place] for place in places], sizes)
            yield places, np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0)

    def _verdicts(self, pairs: Sequence[Pair], batch: int, words: tuple[str, str]) -> Batches:
        model = self._model
        word_ids = self._word_ids(words)
        before = [model.start + model.ids(filled(self._template, pair)) for pair in pairs]
        longest = max(map(len, word_ids))
        self._check(before, [len(row) + longest for row in before], pairs)
        for places in equally_long([len(row) for row in before], batch):
            rows = [[before[place] + word for place in places] for word in word_ids]
            yes, no = map(self._log_chances, rows, map(len, word_ids))
            yield places, 1 / (1 + np.exp(np.clip(no - yes, -700, 700)))

    def _word_ids(self, words: tuple[str, str]) -> list[list[int]]:
        """The tokens of both words, as they are after what the template ends with."""
        model = self._model
        text = filled(self._template, ("", ""))
        text_ids = model.ids(text)
        found = [model.ids_after(text, text_ids, word) for word in words]
        for word, ids in zip(words, found, strict=True):
            if not ids:
                raise InputError(f"{model.place}: the word {word!r} has no token")
        if found[0] == found[1]:
            what = f"the words {words[0]!r} and {words[1]!r} are the same to it"
            raise InputError(f"{model.place}: {what}; choose others: --yes, --no")
        return found

    @torch.no_grad()
    def _log_chances(
        self, rows: list[list[int]], sizes: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """ln p of the last tokens of each row, so many of them, after those before, [n]."""
        most = int(np.max(sizes))
        if not most:
            return np.zeros(len(rows))
        model = self._model
        ids = model.tensor(rows)
        # The logits of a token stand at the place of the one before it.
        keeps = "logits_to_keep" in inspect.signature(model.network.forward).parameters
        options = {"logits_to_keep": most + 1} if keeps else {}
        found = model.network(input_ids=ids, attention_mask=torch.ones_like(ids), **options)
        logits = found.logits[:, -(most + 1) : -1]  # [n, most, V]
        chosen_logits = logits.gather(-1, ids[:, -most:, None])[..., 0]  # [n, most]
        each = (chosen_logits - logits.logsumexp(-1)).double()
        counted = np.arange(most, 0, -1) <= np.broadcast_to(sizes, len(rows))[:, None]
        chosen = torch.from_numpy(counted).to(model.device)
        return model.finite(torch.where(chosen, each, 0.0).sum(-1))

    def _check(self, before: list[list[int]], sizes: list[int], pairs: Sequence[Pair]) -> None:
        prompts = [prompt for prompt, _ in pairs]
        self._model.require_tokens([len(row) for row in before], prompts)
        self._model.require_room(sizes, prompts, ADVICE)


class LabelJudge(_ModelJudge):
    """A text classifier: the probability of a label.

    A model of several labels that exclude each other gives them a softmax, one of labels that do
    not a sigmoid each; with one output alone, as reward models have it, the score is that number.

    Raises:
        InputError: it has several labels and none is named, or no such label.
    """

    def __init__(self, model: Model, label: str | None, template: str) -> None:
        config = model.config
        self._label, name = _chosen_label(model.place, config, label)
        super().__init__(model, {"how": "label", "label": name, "template": template})
        self._template = template
        self._exclusive = config.problem_type != "multi_label_classification"

    @torch.no_grad()
    def rated(self, pairs: Sequence[Pair], batch: int) -> Batches:
        """As `Judge`."""
        model = self._model
        config = model.network.config
        if config.pad_token_id is None:
            # Causal models with a classifier's head look for the last token that is no padding,
            # and take one row at a time where they know none. There is no padding here.
            config.pad_token_id = -1
        texts = [filled(self._template, pair) for pair in pairs]
        rows = [model.ids(text, framed=True) for text in texts]
        model.require_room([len(row) for row in rows], [prompt for prompt, _ in pairs], ADVICE)
        for places in equally_long([len(row) for row in rows], batch):
            ids = model.tensor([rows[place] for place in places])
            logits = model.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
            logits = logits.double()
            if config.num_labels > 1:
                logits = logits.softmax(-1) if self._exclusive else logits.sigmoid()
            yield places, model.finite(logits[:, self._label])


def _chosen_label(place: str, config: Any, label: str | None) -> tuple[int, str]:
    names = {int(number): str(name) for number, name in config.id2label.items()}
    if label is None and config.num_labels == 1:
        return 0, names.get(0, "LABEL_0")
    known = [names[number] for number in sorted(names)]
    if label is None:
        unnamed = all(name == f"LABEL_{number}" for number, name in names.items())
        what = "its labels have no names" if unnamed else "it has several labels"
        hint = f"say whose probability is the score: --label {known[-1]}"
        raise InputError(f"{place}: {what} ({', '.join(known)}); {hint}")
    if label not in known:
        raise unknown("label", label, known, where=place)
    return next(number for number, name in names.items() if name == label), label


def load_judge(source: ModelSource, asking: Asking, *, device: str = "auto") -> Judge:
    """The judge of a model; its weights are loaded when it first rates.

    Args:
        source: the model, as `find_model` finds it.
        asking: how it is asked, and what its answer counts.
        device: auto, cpu or cuda.

    Raises:
        InputError: the model is of another kind than the way of asking needs, or of several labels.
    """
    head = head_of(source)
    how = asking.how
    if how is None and head == "causal":
        hint = "say how it judges: --how likelihood, or --how yes-no"
        raise InputError(f"{source.place}: is a causal language model; {hint}")
    wanted: Head = "classifier" if how in (None, "label") else "causal"
    model = Model(source, wanted, device=chosen_device(device))
    if wanted == "classifier":
        return LabelJudge(model, asking.label, asking.template or PLAIN)
    words = (asking.yes, asking.no) if how == "yes-no" else None
    return CausalJudge(model, asking.template or ASK if words else PLAIN, words)


_PATIENCE = 60.0  # seconds for another process that is writing
_QUERY = "SELECT score FROM scores WHERE key = ?"
_TABLE = "CREATE TABLE IF NOT EXISTS scores (key BLOB PRIMARY KEY, score REAL) WITHOUT ROWID"


def default_cache() -> Path:
    """Where the scores of this user are kept."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "gmb-hf" / "judge.sqlite"


class ScoreCache:
    """Scores that were paid for once, in a file: SHA-256 of what they depend on -> number.

    Raises:
        InputError: the file is of another kind, or cannot be written to.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        with clear_os_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._clear_errors():
            self._held = sqlite3.connect(self.path, timeout=_PATIENCE)
            with self._held:
                self._held.execute(_TABLE)

    def get(self, keys: Sequence[bytes]) -> dict[bytes, float]:
        """Those of the keys that are known, with their scores; NaN for "has none"."""
        found: dict[bytes, float] = {}
        with self._clear_errors():
            for key in keys:
                for (score,) in self._held.execute(_QUERY, (key,)):
                    found[key] = math.nan if score is None else score
        return found

    def put(self, scores: Mapping[bytes, float]) -> None:
        """Keep these, all or none."""
        with self._clear_errors(), self._held:
            self._held.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", scores.items())

    def __enter__(self) -> ScoreCache:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            what = f"cannot be used as a cache of scores ({error})"
            hint = "remove it, or choose another --cache"
            raise InputError(f"{self.path}: {what}; {hint}") from None


_RULES = 2  # to be raised when the same judge gives another number to the same answer
_SAVE_EVERY = 1.0  # seconds
_AT_ONCE = 1 << 14  # answers that a judge is given: it holds the tokens of all of them


@dataclass(frozen=True)
class Rated:
    """The scores of a file of answers, by run and step.

    Distinct answers were rated now or known from the cache; the empty have no score and count in
    no mean.
    """

    scores: files.CheckpointScores
    rated_now: int
    from_cache: int
    empty: int


def rate(
    answers: Sequence[files.ModelAnswer],
    judge: Judge,
    cache: ScoreCache,
    *,
    name: str = "judge",
    batch: int = 32,
    on_rated: Callable[[int], None] = lambda _: None,
) -> Rated:
    """Rate answers; the score of a checkpoint is the mean over its prompts of those over samples.

    Each distinct answer is rated once, and never again where the cache is the same.

    Args:
        cache: new scores are saved there every second, so that a rating that was stopped goes on.
        name: of the score.
        batch: answers computed at once.
        on_rated: hears how many answers have been rated or looked up since the last call.

    Raises:
        InputError: checkpoints were asked other prompts, an answer does not fit the judge, it gives
            an infinite number, or all answers of a checkpoint are without a score.
    """
    positive_int("--batch-size", batch)
    grouped = files.by_checkpoint(answers)
    files.require_same_prompts(grouped)
    pairs = dict.fromkeys(one.pair for one in answers)
    keys = {pair: item_hash([_RULES, judge.about, *pair]) for pair in pairs}
    found = cache.get(list(keys.values()))
    missing = [pair for pair, key in keys.items() if key not in found]
    on_rated(len(keys) - len(missing))
    # The longest first, so that one that does not fit is known before the others are paid for.
    missing.sort(key=lambda pair: len(pair[0]) + len(pair[1]), reverse=True)
    unsaved: dict[bytes, float] = {}
    saved_at = time.monotonic()
    try:
        for start in range(0, len(missing), _AT_ONCE):
            some = missing[start : start + _AT_ONCE]
            for places, values in judge.rated(some, batch):
                for place, value in zip(places, values.tolist(), strict=True):
                    if math.isinf(value):
                        message = f"{judge.place}: gives {value}; a judge must give finite numbers"
                        raise InputError(message)
                    unsaved[keys[some[place]]] = value
                on_rated(len(places))
                if time.monotonic() - saved_at > _SAVE_EVERY:
                    cache.put(unsaved)
                    found |= unsaved
                    unsaved, saved_at = {}, time.monotonic()
    finally:
        cache.put(unsaved)
    found |= unsaved
    rows, empty = [], 0
    for (run, step), prompts in grouped.items():
        means, count = [], 0
        for given in prompts.values():
            each = [found[keys[one.pair]] for one in given]
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
        rows.append(files.CheckpointScore(run, step, math.fsum(means) / len(means), count, seed))
    scores = files.CheckpointScores(name, tuple(rows), made_by(judge))
    return Rated(scores, len(missing), len(keys) - len(missing), empty)


def made_by(judge: Judge) -> str:
    """A line that names what a judge's scores depend on, and the versions at hand.

    Scores that were known from before may have been computed by others.
    """
    about = dict(judge.about)
    identity = about.pop("judge")
    rest = "".join(f", {key} {value!r}" for key, value in about.items())
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers"))
    return f"judge {judge.place} ({identity}){rest}; gmb-hf {__version__}, {versions}"
