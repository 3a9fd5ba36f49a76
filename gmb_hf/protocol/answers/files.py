"""The file of answers: one JSON object {run, step, prompt, sample, answer} a line, anybody's.

    {"run": "seed_3", "step": 400, "prompt": "Once upon", "sample": 0, "answer": " a time"}

`sample` counts the answers that a checkpoint gave to the same prompt; `seed`, the run's, may be
left out. Further keys are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pydantic import AfterValidator, ConfigDict, Field

from gmb_hf._version import __version__
from gmb_hf.base.documents import Section
from gmb_hf.base.errors import InputError, positive_int, repeated
from gmb_hf.base.files import CUT_OFF, atomic_path, parse_json, read_lines, read_text, write_jsonl
from gmb_hf.runs.columns import KEYS, natural_key
from gmb_hf.runs.joining import MADE_BY
from gmb_hf.tasks.text import disagreement

_SHOWN = 40
LARGEST = 2**53
"""Logs of runs hold no larger step or seed: from here on not all whole numbers are doubles."""

Whole = Annotated[int, Field(ge=0, le=LARGEST)]


def _named(run: str) -> str:
    if not run.strip():
        raise InputError("is empty; name the run that answered")
    return run


class ModelAnswer(Section):
    """One answer of a checkpoint, the text without the prompt.

    `sample` tells which of its answers to this prompt it is, from 0; `seed` is the run's, None
    where nobody says.
    """

    model_config = ConfigDict(extra="ignore")

    run: Annotated[str, AfterValidator(_named)]
    step: Whole
    prompt: str
    sample: Whole
    answer: str
    seed: Whole | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Prompt and answer, which are all that a judge reads."""
        return self.prompt, self.answer

    def to_json(self) -> str:
        """The line of a file, without its end."""
        return json.dumps(self.plain(), ensure_ascii=False)


_FORM = "{run, step, prompt, sample, answer}"
Checkpoint = tuple[str, int]  # run and step


def read_answers(path: str | Path) -> tuple[ModelAnswer, ...]:
    """The answers of a file, in its order; blank lines are passed over.

    Raises:
        InputError: no such file, no answers in it, a line that is no such object (its number is
            given), an answer given twice, a run with two seeds, or a last line that is cut off.
    """
    place = Path(path)
    found: list[ModelAnswer] = []
    lines: dict[tuple[str, int, str, int], int] = {}
    seeds: dict[str, int | None] = {}
    for number, line in read_lines(place):
        where = f"{place}:{number}"
        answer = _parsed(line, where)
        run, seed = answer.run, answer.seed
        first = lines.setdefault((run, answer.step, answer.prompt, answer.sample), number)
        if first != number:
            raise InputError(
                f"{where}: run {run!r}, step {answer.step}, sample {answer.sample} of this "
                f"prompt stands in line {first} already; remove one, or number the samples"
            )
        if seeds.setdefault(run, seed) != seed:
            what = f"run {run!r} has the seed {seed} here and {seeds[run]} before"
            raise InputError(f"{where}: {what}; name the runs apart")
        found.append(answer)
    if not found:
        raise InputError(f"{place}: holds no answers; a line is one JSON object {_FORM}")
    return tuple(found)


def by_checkpoint(answers: Iterable[ModelAnswer]) -> dict[Checkpoint, dict[str, list[ModelAnswer]]]:
    """The answers of each checkpoint by prompt, in the order in which they come."""
    found: dict[Checkpoint, dict[str, list[ModelAnswer]]] = {}
    for answer in answers:
        prompts = found.setdefault((answer.run, answer.step), {})
        prompts.setdefault(answer.prompt, []).append(answer)
    return found


def require_same_prompts(grouped: Mapping[Checkpoint, Mapping[str, Sequence[ModelAnswer]]]) -> None:
    """Refuse checkpoints that were asked other prompts: their means do not compare."""
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
    return repr(_short(text))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _parsed(line: str, where: str) -> ModelAnswer:
    try:
        item = parse_json(line, where=where)
    except InputError:
        if line.endswith("\n"):
            raise
        raise InputError(f"{where}: {CUT_OFF}") from None
    if not isinstance(item, dict):
        raise InputError(f"{where}: is no JSON object {_FORM}")
    return ModelAnswer.parse(item, where=where)


def check_text(text: str, where: str) -> str:
    """Refuse half of a character, which JSON can name and no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{where} holds half of a character (place {error.start})") from None
    return text


def shown_json(value: Any) -> str:
    """A value as a message quotes it."""
    return _short(json.dumps(value, ensure_ascii=False))


def read_prompts(path: str | Path) -> tuple[str, ...]:
    """The prompts of a text file, one a line; blank lines are passed over.

    In a `.jsonl` file a line is {"prompt": ...}, so that a prompt may hold line breaks.

    Raises:
        InputError: no such file, no prompts, a line that is no such object, or a prompt twice.
    """
    found = [line.rstrip("\r") for line in read_text(path).split("\n") if line.strip()]
    if str(path).endswith(".jsonl"):
        for number, line in enumerate(found, start=1):
            where = f"{path}: prompt {number}"
            item = parse_json(line, where=where)
            prompt = item.get("prompt") if isinstance(item, dict) else None
            if not isinstance(prompt, str):
                raise InputError(f'{where}: is no object {{"prompt": text}}')
            found[number - 1] = check_text(prompt, where)
    if not found:
        raise InputError(f"{path}: holds no prompts; write one a line")
    twice = repeated(found)
    if twice is not None:
        raise InputError(f"{path}: the prompt {shown(twice)} stands there twice; once is enough")
    return tuple(found)


ENDINGS = (".parquet", ".csv", ".jsonl")
_COUNT = "answers"


@dataclass(frozen=True)
class CheckpointScore:
    """The score of a checkpoint: a mean over so many answers."""

    run: str
    step: int
    score: float
    answers: int
    seed: int | None = None


@dataclass(frozen=True)
class CheckpointScores:
    """One score of many checkpoints: the name of its column, and a line that names what made it."""

    name: str
    rows: tuple[CheckpointScore, ...]
    made_by: str

    def table(self) -> pa.Table:
        """Rows by run and step, with the columns above."""
        rows = sorted(self.rows, key=lambda row: (natural_key(row.run), row.step))
        columns = {
            "run": pa.array([row.run for row in rows], pa.string()),
            "step": pa.array([row.step for row in rows], pa.int64()),
            "seed": pa.array([row.seed for row in rows], pa.int64()),
            self.name: pa.array([row.score for row in rows], pa.float64()),
            _COUNT: pa.array([row.answers for row in rows], pa.int64()),
            MADE_BY: pa.array([self.made_by] * len(rows), pa.string()),
        }
        table = pa.table(columns)
        return table.drop("seed") if table["seed"].null_count == len(rows) else table


def check_scores_path(path: str | Path, name: str) -> None:
    """Refuse an ending or a column name that a file of scores cannot have, before any work."""
    if Path(path).suffix not in ENDINGS:
        raise InputError(f"--out {path}: scores are written as {', '.join(ENDINGS)}")
    if name in (*KEYS, _COUNT, MADE_BY) or not name.strip():
        raise InputError(f"--name {name!r}: is taken by another column; choose another name")


def write_scores(path: str | Path, scores: CheckpointScores) -> Path:
    """Write a file of scores, atomically; `check_scores_path` says which it may be."""
    check_scores_path(path, scores.name)
    place, table = Path(path), scores.table()
    if place.suffix == ".jsonl":
        return write_jsonl(place, table.to_pylist())
    with atomic_path(place) as temporary:
        if place.suffix == ".csv":
            pyarrow.csv.write_csv(table, temporary)
        else:
            pq.write_table(table, temporary, compression="zstd")
    return place


NAME = "self_consistency_disagreement"


def consistency(
    answers: Sequence[ModelAnswer], *, first_words: int | None = None, any_case: bool = False
) -> CheckpointScores:
    """The disagreement of each checkpoint's samples, the mean over its prompts.

    White space counts as one space between words, and as nothing at either end.

    Args:
        first_words: compare so many words only; None compares all.
        any_case: capitals are as good as small letters.

    Raises:
        InputError: checkpoints were asked other prompts, or not equally often; or only once.
    """
    if first_words is not None:
        positive_int("--first-words", first_words)

    def compared(answer: str) -> str:
        return " ".join((answer.casefold() if any_case else answer).split()[:first_words])

    grouped = by_checkpoint(answers)
    require_same_prompts(grouped)
    counts = {len(given): place for place, prompts in grouped.items() for given in prompts.values()}
    if len(counts) > 1:
        (few, (run, step)), (many, there) = min(counts.items()), max(counts.items())
        raise InputError(
            f"run {run!r}, step {step}: {few} samples of a prompt, where run {there[0]!r} has "
            f"{many} at step {there[1]}; the most frequent of fewer samples has a larger share by "
            "itself: give equally many"
        )
    (k,) = counts
    if k < 2:
        raise InputError("one sample of each prompt agrees with itself; make several: --samples 8")
    rows = []
    for (run, step), prompts in grouped.items():
        samples = [[compared(one.answer) for one in given] for given in prompts.values()]
        seed = next(iter(prompts.values()))[0].seed
        rows.append(CheckpointScore(run, step, disagreement(samples), k * len(prompts), seed))
    what = "answers" if first_words is None else f"first {first_words} words"
    case = ", in any case" if any_case else ""
    made_by = f"disagreement of {k} samples, {what}{case}; gmb-hf {__version__}"
    return CheckpointScores(NAME, tuple(rows), made_by)
