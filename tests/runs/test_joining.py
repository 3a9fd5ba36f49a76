"""Scores by run and step from anyone become a column; what matches nothing is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.runs.joining import join_scores
from gmb_hf.runs.metadata import column_family
from gmb_hf.runs.runlog import RunLog

ROWS: list[dict[str, Any]] = [
    {"run": f"seed_{run}", "step": step, "mine": run + step / 1000}
    for run in (1, 0)
    for step in (0, 20, 40)
]


@pytest.fixture(scope="module")
def log() -> RunLog:
    return synthetic_runlog(3, 5)


def scores(path: Path, rows: list[dict[str, Any]], **columns: Any) -> Path:
    table = pa.table({name: [row.get(name) for row in rows] for name in rows[0]})
    for name, value in columns.items():
        table = table.append_column(name, pa.array([value] * len(rows)))
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return path


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_with_a_score_by_run_and_step(log: RunLog, tmp_path: Path, ending: str) -> None:
    joined = join_scores(log, scores(tmp_path / f"s.{ending}", ROWS))
    assert joined.runs == ("seed_0", "seed_1")
    assert joined.panel("step").values.tolist() == [[0, 20, 40]] * 2
    np.testing.assert_allclose(joined.panel("mine").values, [[0, 0.02, 0.04], [1, 1.02, 1.04]])
    own = log.select(["seed_0", "seed_1"]).panel("test_acc").values[:, ::2]
    np.testing.assert_array_equal(joined.panel("test_acc").values, own)
    assert joined.notes == (
        "Without a score, and left out: 1 runs, seed_2.",
        "Kept are the 6 of 10 rows of these runs that have a score.",
    )
    assert joined.metadata["joined"] == {"mine": {"family": "external", "source": f"s.{ending}"}}
    assert {**joined.metadata, "joined": None} == {**log.metadata, "joined": None}


def test_what_made_a_score_is_kept(log: RunLog, tmp_path: Path) -> None:
    path = scores(tmp_path / "s.csv", ROWS, made_by="judge x@1, label 'good'", answers=3)
    joined = join_scores(log, path)
    kept = RunLog.read(joined.write(tmp_path / "joined.parquet"))
    entry = {"family": "judge", "source": "s.csv", "made_by": "judge x@1, label 'good'"}
    assert kept.metadata["joined"] == {"mine": entry}
    assert column_family(kept.metadata, "mine") == "judge"
    assert column_family(kept.metadata, "test_acc") == "external"
    other = [{**row, "theirs": 1.0} for row in ROWS]
    for row in other:
        del row["mine"]
    twice = join_scores(kept, scores(tmp_path / "t.csv", other, made_by="disagreement of 4"))
    assert {name: held["family"] for name, held in twice.metadata["joined"].items()} == {
        "mine": "judge",
        "theirs": "external",
    }


def test_a_log_of_anybodys_metadata(log: RunLog) -> None:
    for held in ({}, {"joined": 3}, {"joined": {"x": "judge"}}, {"joined": {"x": {"family": 1}}}):
        assert column_family(held, "x") == "external"


def changed(number: int, **values: Any) -> list[dict[str, Any]]:
    return [{**row, **(values if place == number else {})} for place, row in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            changed(0, run="sed_1"),
            r"no run sed_1 in run log; there are seed_0, .*Did you mean 'seed_1'",
        ),
        (changed(2, step=45), r"no row for seed_1 at 45 in run log; a score and a row belong"),
        (changed(1, step=0), "run 'seed_1' has two scores at one step; keep one of them"),
        (changed(4, mine=None), "run seed_0, step 20: mine has no value; leave the checkpoint out"),
        ([{**row, "seed": 7} for row in ROWS], "run seed_0, step 0: the seed is 7, in run log 0"),
        ([{**row, "more": 1} for row in ROWS], "which column is the score? It has mine, more"),
        (
            [{"test_acc" if key == "mine" else key: row[key] for key in row} for row in ROWS],
            "column 'test_acc' is in .* already; rename it",
        ),
    ],
)
def test_what_does_not_belong_together(
    log: RunLog, tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    path = scores(tmp_path / "s.jsonl", rows)
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        join_scores(log, path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_numbers_that_are_no_score(log: RunLog, tmp_path: Path, ending: str, value: str) -> None:
    path = scores(tmp_path / f"s.{ending}", changed(4, mine=float(value)))
    with pytest.raises(InputError, match=f"run seed_0, step 20: mine is {value}, no finite number"):
        join_scores(log, path)


def test_several_columns_and_one_that_is_not_there(log: RunLog, tmp_path: Path) -> None:
    path = scores(tmp_path / "s.csv", ROWS, more=1.5)
    joined = join_scores(log, path, ["more", "mine"])
    assert joined.observables[-2:] == ("more", "mine")
    with pytest.raises(InputError, match=r"column 'mein' missing; found: .*Did you mean 'mine'"):
        join_scores(log, path, ["mein"])
    with pytest.raises(InputError, match="--score more: is given twice"):
        join_scores(log, path, ["more", "more"])


def test_dropped_duplicates_are_not_forgotten(log: RunLog, tmp_path: Path) -> None:
    restarted = RunLog.from_table(log.table)
    restarted.dropped_duplicates = {"seed_0": 3, "seed_2": 1}
    joined = join_scores(restarted, scores(tmp_path / "s.csv", ROWS))
    assert joined.dropped_duplicates == {"seed_0": 3}
