"""The file of answers: one JSON object {run, step, prompt, sample, answer} a line, anybody's.

    {"run": "seed_3", "step": 400, "prompt": "Once upon", "sample": 0, "answer": " a time"}

`sample` counts the answers that a checkpoint gave to the same prompt; `seed`, the run's, may be
left out. Further keys are passed over.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gmb_hf.files import check_file
from gmb_hf.jsonfile import parse_json
from gmb_hf.validation import InputError

_KINDS = {"run": str, "step": int, "prompt": str, "sample": int, "answer": str}
_SHOWN = 40
LARGEST = 2**53
"""Logs of runs hold no larger step or seed: from here on not all whole numbers are doubles."""

_WORDS = {str: "text", int: "a whole number"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a checkpoint said.

    Attributes:
        run, step: of the checkpoint.
        prompt: what it was given.
        sample: which of its answers to this prompt, from 0.
        answer: what it said, without the prompt.
        seed: of the run; None where nobody says.
        line: of the file, from 1; 0 where there is none.
    """

    run: str
    step: int
    prompt: str
    sample: int
    answer: str
    seed: int | None = None
    line: int = field(default=0, compare=False)

    def to_json(self) -> str:
        """The line of a file, without its end."""
        names = [*_KINDS, *(("seed",) if self.seed is not None else ())]
        return json.dumps({name: getattr(self, name) for name in names}, ensure_ascii=False)


Checkpoint = tuple[str, int]
"""Run and step."""


def read_answers(path: str | Path) -> tuple[Answer, ...]:
    """The answers of a file, in its order; blank lines are passed over.

    Raises:
        InputError: no such file, no answers in it, a line that is no such object (its number is
            given), an answer given twice, a run with two seeds, or a last line that is cut off.
    """
    place = Path(path)
    check_file(place)
    found: list[Answer] = []
    lines: dict[tuple[str, int, str, int], int] = {}
    seeds: dict[str, int | None] = {}
    with place.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if not raw.strip():
                continue
            where = f"{place}:{number}"
            answer = _parsed(raw, number, where)
            key = (answer.run, answer.step, answer.prompt, answer.sample)
            if key in lines:
                raise InputError(
                    f"{where}: run {answer.run!r}, step {answer.step}, sample {answer.sample} of "
                    f"this prompt stands in line {lines[key]} already; remove one, or number the "
                    "samples"
                )
            if seeds.setdefault(answer.run, answer.seed) != answer.seed:
                raise InputError(
                    f"{where}: run {answer.run!r} has the seed {answer.seed} here and "
                    f"{seeds[answer.run]} before; name the runs apart"
                )
            lines[key] = number
            found.append(answer)
    if not found:
        raise InputError(f"{place}: holds no answers; a line is one JSON object {_form()}")
    return tuple(found)


def by_checkpoint(answers: Iterable[Answer]) -> dict[Checkpoint, dict[str, list[Answer]]]:
    """The answers of each checkpoint by prompt, in the order in which they come."""
    found: dict[Checkpoint, dict[str, list[Answer]]] = {}
    for answer in answers:
        prompts = found.setdefault((answer.run, answer.step), {})
        prompts.setdefault(answer.prompt, []).append(answer)
    return found


def require_same_prompts(grouped: Mapping[Checkpoint, Mapping[str, Sequence[Answer]]]) -> None:
    """Refuse checkpoints that were asked other prompts: their means do not compare.

    Raises:
        InputError: a checkpoint lacks a prompt that others have; both are named.
    """
    everything = {prompt: place for place, prompts in grouped.items() for prompt in prompts}
    for (run, step), prompts in grouped.items():
        if len(prompts) < len(everything):
            prompt = next(prompt for prompt in everything if prompt not in prompts)
            other, at = everything[prompt]
            raise InputError(
                f"run {run!r}, step {step}: no answer to the prompt {shown(prompt)}, which run "
                f"{other!r} has at step {at}; means over different prompts do not compare"
            )


def shown(text: str) -> str:
    """The beginning of a text, as a message quotes it."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _parsed(raw: bytes, number: int, where: str) -> Answer:
    whole = raw.endswith(b"\n")
    try:
        item = parse_json(raw.decode("utf-8"), where=where)
    except (UnicodeDecodeError, InputError) as error:
        if not whole:
            raise InputError(
                f"{where}: ends in the middle of a line; whatever wrote it was stopped: write it "
                "again, or remove this line"
            ) from None
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where}: is not UTF-8 text (byte {error.start} of the line)") from None
    if not isinstance(item, dict):
        raise InputError(f"{where}: is no JSON object {_form()}")
    values: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        if name not in item:
            raise InputError(f"{where}: {name!r} is missing; a line has {_form()}")
        values[name] = _of_kind(name, item[name], kind, where)
    if not values["run"].strip():
        raise InputError(f"{where}: 'run' is empty; name the run that answered")
    if item.get("seed") is not None:
        values["seed"] = _of_kind("seed", item["seed"], int, where)
    return Answer(**values, line=number)


def _of_kind(name: str, value: Any, kind: type, where: str) -> Any:
    right = isinstance(value, kind) and not isinstance(value, bool)
    if not right or (kind is int and not 0 <= value <= LARGEST):
        bound = "" if kind is str else " of at least 0" if not right or value < 0 else " up to 2^53"
        raise InputError(
            f"{where}: {name!r} must be {_WORDS[kind]}{bound}, got {shown_json(value)}"
        )
    return check_text(value, f"{where}: {name!r}") if kind is str else value


def check_text(text: str, where: str) -> str:
    """Refuse half of a character, which JSON can name and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where} holds half of a character (place {error.start})") from None
    return text


def shown_json(value: Any) -> str:
    """A value as a message quotes it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _form() -> str:
    return "{" + ", ".join(_KINDS) + "}"
