"""The file of prompts that checkpoints are to answer."""

from __future__ import annotations

from pathlib import Path

from gmb_hf.answers.answers_file import check_text, shown
from gmb_hf.jsonfile import parse_json, read_text
from gmb_hf.validation import InputError, repeated


def read_prompts(path: str | Path) -> tuple[str, ...]:
    """The prompts of a text file, one a line; blank lines are passed over.

    In a `.jsonl` file a line is {"prompt": ...}, so that a prompt may hold line breaks.

    Raises:
        InputError: no such file, no prompts, a line that is no such object, or a prompt twice.
    """
    lines = [line for line in read_text(path).split("\n") if line.strip()]
    found = [line.rstrip("\r") for line in lines]
    if str(path).endswith(".jsonl"):
        found = [_prompt_of(line, f"{path}: prompt {n}") for n, line in enumerate(lines, start=1)]
    if not found:
        raise InputError(f"{path}: holds no prompts; write one a line")
    twice = repeated(found)
    if twice is not None:
        raise InputError(f"{path}: the prompt {shown(twice)} stands there twice; once is enough")
    return tuple(found)


def _prompt_of(line: str, where: str) -> str:
    item = parse_json(line, where=where)
    prompt = item.get("prompt") if isinstance(item, dict) else None
    if not isinstance(prompt, str):
        raise InputError(f'{where}: is no object {{"prompt": text}}')
    return check_text(prompt, where)
