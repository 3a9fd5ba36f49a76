"""Answers of checkpoints: each prompt continued K times, the same draws at every checkpoint.

    answers.jsonl              the answers, checkpoint after checkpoint
    answers.jsonl.about.json   settings, and the hash of every checkpoint that is in there

A checkpoint's answers are added at once and whole, and are not made again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf._version import __version__
from gmb_hf.base.errors import InputError, positive, positive_int
from gmb_hf.base.files import claim, read_json, write_json, write_text
from gmb_hf.base.fingerprints import content_hash
from gmb_hf.base.pretrained import find_model
from gmb_hf.protocol.answers.files import ModelAnswer, read_answers, shown_json
from gmb_hf.protocol.answers.models import Model, Saved, equally_long
from gmb_hf.protocol.language.data import load_tokenizer, tokenizer_hash, tokenizer_source
from gmb_hf.protocol.language.train import DivergedError, continuations
from gmb_hf.training.launch import chosen_device

SCHEMA = "gmb-answers-1"


@dataclass(frozen=True, kw_only=True)
class AnswerSampling:
    """How a prompt is continued.

    Attributes:
        samples: continuations of each prompt; 1 where `greedy`.
        new_tokens: at most; a continuation stops at the end of its text.
        temperature: that logits are divided by; Wang et al. (2022) sample at 0.7.
        greedy: the likeliest token each time, and nothing drawn.
        seed: of the draws.
    """

    samples: int = 8
    new_tokens: int = 32
    temperature: float = 0.7
    greedy: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        positive_int("--samples", self.samples)
        positive_int("--new-tokens", self.new_tokens)
        positive("--temperature", self.temperature)
        if self.seed < 0:
            raise InputError(f"--seed must be at least 0, got {self.seed}")
        if self.greedy and self.samples != 1:
            raise InputError("--greedy gives one answer; leave --samples out, or set it to 1")

    def draws(self, prompt: str) -> NDArray[np.float64]:
        """The numbers that decide the continuations of a prompt, [samples, new_tokens].

        They depend on the seed and the prompt alone, and more samples leave the first ones.
        """
        digest = hashlib.sha256(prompt.encode("utf-8")).digest()
        random = np.random.default_rng([self.seed, int.from_bytes(digest[:8])])
        return random.random((self.samples, self.new_tokens))


def generate(
    checkpoints: Sequence[Saved],
    prompts: Sequence[str],
    out: str | Path,
    sampling: AnswerSampling,
    *,
    tokenizer: str | None = None,
    batch: int = 64,
    device: str = "auto",
    trust_remote_code: bool = False,
    on_checkpoint: Callable[[str], None] = lambda _: None,
) -> int:
    """Write the answers of all checkpoints that are not in the file yet; how many those were.

    Args:
        checkpoints, prompts: which are to answer what.
        out: the file of answers.
        sampling: how they answer.
        tokenizer: folder or repository; each checkpoint's own where not given.
        batch: continuations made at once.
        device: auto, cpu or cuda.
        trust_remote_code: let code that comes with a checkpoint run.
        on_checkpoint: called when one is done, or was before.

    Raises:
        InputError: a checkpoint cannot be loaded, a prompt is too long for it, or the file holds
            other answers than the note beside it says, or is written to by another process.
    """
    path = Path(out)
    positive_int("--batch-size", batch)
    lent = None if tokenizer is None else tokenizer_source(tokenizer)
    words = None if lent is None else load_tokenizer(lent)
    settings = {
        "schema": SCHEMA,
        **asdict(sampling),
        "prompts": content_hash(prompts),
        "tokenizer": None if words is None else tokenizer_hash(words),
    }
    versions = {"gmb_hf": __version__, "torch": version("torch")}
    identity = None if lent is None else lent.identity
    about = {**settings, "tokenizer_identity": identity, "versions": versions}
    taken = "another process writes answers here; wait for it, or choose another --out"
    with claim(path, taken):
        done, lines = _finished(path, settings, len(prompts) * sampling.samples)
        write_json(about_path(path), {**about, "checkpoints": done})
        answered = 0
        for saved in checkpoints:
            source = find_model(str(saved.folder), trust_remote_code=trust_remote_code)
            name = _name(saved.run, saved.step)
            if name not in done:
                model = Model(source, "causal", words, chosen_device(device))
                made = answers_of(model, saved, prompts, sampling, batch)
                lines += [answer.to_json() for answer in made]
                write_text(path, "\n".join(lines) + "\n")
                done[name] = source.identity
                write_json(about_path(path), {**about, "checkpoints": done})
                answered += 1
            elif done[name] != source.identity:
                raise InputError(
                    f"{path}: holds answers of run {saved.run!r} at step {saved.step} from other "
                    f"weights than those of {saved.folder}; choose another --out"
                )
            on_checkpoint(name)
    return answered


def about_path(out: str | Path) -> Path:
    """The file beside answers that says what made them."""
    return Path(f"{out}.about.json")


def answers_of(
    model: Model, saved: Saved, prompts: Sequence[str], sampling: AnswerSampling, batch: int
) -> list[ModelAnswer]:
    """Every prompt's continuations; prompts of equally many tokens are computed together."""
    rows = [model.start + model.ids(prompt) for prompt in prompts]
    sizes = [len(row) for row in rows]
    model.require_tokens(sizes, prompts)
    advice = "shorten the prompt, or lower --new-tokens"
    model.require_room([size + sampling.new_tokens for size in sizes], prompts, advice)
    jobs = [(place, sample) for place in range(len(rows)) for sample in range(sampling.samples)]
    numbers = [sampling.draws(prompt) for prompt in prompts]
    texts = [""] * len(jobs)
    for places in equally_long([sizes[prompt] for prompt, _ in jobs], batch):
        part = [jobs[place] for place in places]
        try:
            made = continuations(
                model.network,
                model.tensor([rows[prompt] for prompt, _ in part]),
                new_tokens=sampling.new_tokens,
                draws=None if sampling.greedy else np.stack([numbers[p][s] for p, s in part]),
                temperature=sampling.temperature,
                end=model.tokenizer.eos_token_id,
            )
        except DivergedError as error:
            message = f"{model.place}: {error}: it has diverged; leave this checkpoint out"
            raise InputError(message) from None
        for place, ids in zip(places, made.tolist(), strict=True):
            texts[place] = model.text_after(rows[jobs[place][0]], ids)
    return [
        ModelAnswer(
            run=saved.run, step=saved.step, prompt=prompts[prompt], sample=sample, answer=text
        )
        for (prompt, sample), text in zip(jobs, texts, strict=True)
    ]


def _finished(path: Path, settings: dict[str, Any], each: int) -> tuple[dict[str, str], list[str]]:
    """The checkpoints that the note names, with the hash of their weights; and their lines.

    Each has so many. Others were written by a process that stopped before it wrote the note.
    """
    note = about_path(path)
    if not note.exists():
        if path.exists():
            what = f"exists, and nothing says what made it ({note.name} is missing)"
            raise InputError(f"{path}: {what}; choose another --out")
        return {}, []
    held = read_json(note)
    found = held.get("checkpoints") if isinstance(held, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"{note}: says nothing of answers; remove it with {path.name}")
    for name, value in settings.items():
        if held.get(name) != value:
            what = f"{name}: {shown_json(held.get(name))} there, {shown_json(value)} now"
            raise InputError(f"{path}: holds answers made otherwise ({what}); choose another --out")
    if found and not path.exists():
        raise InputError(f"{path}: is gone, but {note} says what it held; remove that, too")
    if not found:
        return {}, []
    known = [one for one in read_answers(path) if _name(one.run, one.step) in found]
    counts = Counter(_name(one.run, one.step) for one in known)
    for name in found:
        if counts[name] != each:
            what = f"has {counts[name]} of the {each} answers of {name!r} that {note.name} says"
            raise InputError(f"{path}: {what} it holds; remove both files, and ask again")
    return dict(found), [answer.to_json() for answer in known]


def _name(run: str, step: int) -> str:
    return f"{run} {step}"
