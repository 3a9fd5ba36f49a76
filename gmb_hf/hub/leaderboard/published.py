"""A published trial, computed anew: its scores stand on the leaderboard as submissions do.

    TRIAL/tables/trial.csv    what was published: a row for each score and panel, with every digit

A trial is one lock of all scores on each panel, and one look at its held-out runs. Nothing else of
it needs to be stored: the lock is found again from the explore runs. If its thresholds are those
that were published, it judges the held-out runs, which shows nothing that the table does not show
and is no other look; if not, it is refused. Each number is then compared with its row.
"""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from pydantic import Field

from gmb_hf._version import __version__
from gmb_hf.base.documents import Count, Many, Section
from gmb_hf.base.errors import InputError, first_of
from gmb_hf.base.escape import one_line
from gmb_hf.base.files import read_text
from gmb_hf.benchmark.ensembles import COMBINATIONS
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.benchmark.results import Results
from gmb_hf.design.lock import CENTRAL, Lock, target_key
from gmb_hf.hub.leaderboard.check import CheckedScore, same
from gmb_hf.hub.leaderboard.kept import Cache, key_of
from gmb_hf.hub.panels import EXPLORE, HELD_OUT, FrozenPanel
from gmb_hf.jobs.trial import in_processes, rows_of, trial_design, trial_table
from gmb_hf.report.answer import primary_target
from gmb_hf.report.page import class_of

TABLE = Path("tables", "trial.csv")
_KEYS = ("panel", "signal")
_MOST = 5  # rows that differ that are named

Rows = Mapping[str, Mapping[str, str]]
"""The published rows of one panel, by score."""


class JudgedPanel(Section):
    """Every score of a trial on one panel, as it was computed anew."""

    panel: str
    date: str
    package_version: str
    budget: float
    lock: str = Field(description="its fingerprint, the same on every day")
    n_scores: Count = Field(description="candidates of the lock, over which p-values are adjusted")
    numbers: Count = Field(description="of each score, how many are equal to the published ones")
    scores: Many[CheckedScore]
    differ: Many[str] = Field((), description="a line for each score that is left out")


def read_table(trial: Path) -> dict[str, dict[str, dict[str, str]]]:
    """What was published: panel -> score -> row.

    Raises:
        InputError: there is no table, or it is none of a trial.
    """
    path = trial / TABLE
    if not path.is_file():
        raise InputError(f"{trial}: holds no {TABLE} of a trial; gmb trial --out {trial}")
    found: dict[str, dict[str, dict[str, str]]] = {}
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    missing = {*_KEYS, "threshold", "label"} - {*(reader.fieldnames or ())}
    if missing:
        raise InputError(
            f"{path}: is no table of a trial: it has no column {first_of(sorted(missing))}; "
            "gmb trial writes it"
        )
    for number, row in enumerate(reader, start=2):
        if None in row or None in row.values():
            raise InputError(f"{path}, line {number}: has another number of cells than its heading")
        panel, score = (row[key] for key in _KEYS)
        if score in found.setdefault(panel, {}):
            raise InputError(f"{path}, line {number}: {one_line(score)} on {panel} stands twice")
        found[panel][score] = row
    if not found:
        raise InputError(f"{path}: has no rows; gmb trial writes it")
    return found


def recompute(
    trial: Path,
    cache: Cache,
    *,
    jobs: int = 1,
    counting: Callable[[str, int], AbstractContextManager[Callable[[str], None]]],
) -> tuple[list[JudgedPanel], list[str]]:
    """Every panel of a published trial, and a line for each that is not shown.

    Each is kept when it is done, so that the same call resumes.

    Raises:
        InputError: as `read_table`, or a process was ended.
    """
    table, known, missing = trial / TABLE, {}, {}
    left_out: list[str] = []
    published = read_table(trial)
    for name, rows in published.items():
        try:
            panel = FrozenPanel.find(name)
            panel.check()
        except InputError as error:
            left_out.append(f"{table}: {error}")
            continue
        key = key_of(panel=panel.entry.fingerprint, files=panel.record.files, rows=rows)
        known[name] = cache.get(key, JudgedPanel)
        if known[name] is None:
            missing[name] = partial(_judged, table, panel, rows, cache, key)
    found = in_processes(missing, jobs, counting("recomputing the trial", len(missing)))
    judged = [known[name] or found[name] for name in known]
    left_out += [one for one in judged if isinstance(one, str)]
    return [one for one in judged if isinstance(one, JudgedPanel)], left_out


def _judged(
    table: Path, panel: FrozenPanel, rows: Rows, cache: Cache, key: str
) -> JudgedPanel | str:
    """One panel, judged and kept; or why it is not shown."""
    try:
        found = judge_again(panel, rows, where=str(table))
    except InputError as error:
        return f"{table}: {error}"
    cache.put(key, found)
    return found


def judge_again(panel: FrozenPanel, rows: Rows, *, where: str) -> JudgedPanel:
    """Lock all scores of a panel and judge them, if that is the look that was published.

    Args:
        panel: with its design, whose candidates are the scores.
        rows: the published ones.
        where: the table, for messages.

    Raises:
        InputError: the lock has other scores than the table, or other thresholds.
    """
    # Trials of before were of the panel's own design, without combinations by class.
    design = trial_design(panel) if {*COMBINATIONS} & {*rows} else panel.design()
    lock, _ = make_lock(design, prepare(panel.read(EXPLORE), design))
    _refuse_another_look(lock, rows, where=f"panel {panel.name!r}")
    # The lock of the trial has looked, and what it saw is in the table.
    results = evaluate_lock(lock, panel.read(HELD_OUT), counted=True).results
    budget = results.primary_run_budget
    if budget is None:
        raise InputError(f"panel {panel.name!r}: its design has no budget by runs")
    ours = _rows(panel.name, results)
    differ = {name: line for name in ours if (line := _difference(rows[name], ours[name]))}
    target = primary_target(results)
    return JudgedPanel(
        panel=panel.name,
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        package_version=__version__,
        budget=budget,
        lock=lock.fingerprint,
        n_scores=len(design.candidates),
        numbers=len(next(iter(ours.values()))) - len(_KEYS),
        scores=tuple(
            CheckedScore.of(item, first, kind=class_of(item), target=target)
            for item in results.indicators
            if item.name not in differ and (first := item.x_first_alarm) is not None
        ),
        differ=tuple(
            f"{where}: {one_line(name)} on {panel.name}: {differ[name]}" for name in differ
        ),
    )


def _rows(panel: str, results: Results) -> dict[str, dict[str, str]]:
    """What a trial would publish of results, by score."""
    text = trial_table(rows_of(panel, results)).csv()
    return {row["signal"]: row for row in csv.DictReader(io.StringIO(text, newline=""))}


def _refuse_another_look(lock: Lock, rows: Rows, *, where: str) -> None:
    """Refuse a lock that is not the one which was published."""
    names = {*lock.x_lock.candidates}
    if names != {*rows}:
        other = first_of(sorted(names ^ {*rows}))
        raise InputError(
            f"{where}: its design and the table differ in {other}; judging other scores is another "
            "look: gmb trial"
        )
    budget = target_key(lock.design.primary_run_budget)
    other_thresholds = [
        name
        for name, one in lock.x_lock.candidates.items()
        if not same(_number(rows[name]["threshold"]), one.first_alarm[CENTRAL][budget])
    ]
    if other_thresholds:
        name = other_thresholds[0]
        found = lock.x_lock.candidates[name].first_alarm[CENTRAL][budget]
        raise InputError(
            f"{where}: {len(other_thresholds)} of {len(names)} thresholds are not those of the "
            f"table ({one_line(name)}: published {rows[name]['threshold'] or 'nothing'}, found "
            f"{found:.6g}); judging by another lock is another look: gmb trial"
        )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _difference(published: Mapping[str, str], found: Mapping[str, str]) -> str:
    """The first numbers of a row that differ, in a line; empty where none does."""
    wrong: list[str] = []
    for name, value in found.items():
        said = published.get(name)
        if said is None:
            continue  # a column that was added since
        both: Sequence[float | None] = (_number(said), _number(value))
        if not (said == value or (None not in both and same(*both))):
            wrong.append(f"{name}: published {one_line(said) or 'nothing'}, recomputed {value}")
    return "; ".join(wrong[:_MOST])
