"""Damaged, foreign and misplaced files of `gmb crucible`, each with its one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import refused
from crucible_builders import board, lines, write

SUM = ("crucible", "scoreboard", "--eval-version", "v1", "--scores")


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """m.jsonl, m.parquet and m.json of 20 items."""
    return board(tmp_path, "m", n=20)


def spoiled(column: str, value: object) -> None:
    """bad.parquet: m.parquet with another value of its first item."""
    table = pq.read_table("m.parquet")
    values = [value, *table[column].to_pylist()[1:]]
    place = table.column_names.index(column)
    changed = table.set_column(place, column, pa.array(values, table[column].type))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), "bad.parquet")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("margin", float("nan")),
        ("margin", float("inf")),
        ("margin", 1e308),
        ("margin", 0.0),
        ("rank", 0),
        ("rank", -5),
        ("rank", 999),
        ("rank_pessimistic", 0),
        ("rank_realistic", float("nan")),
        ("n_negatives", 0),
        ("n_negatives", -3),
    ],
)
def test_scores_that_no_item_can_have(scored, column, value):
    spoiled(column, value)
    message = refused(*SUM, "bad.parquet", "--out=x.json")
    assert message == (
        "error: bad.parquet: item 'q0': margin and ranks cannot be of one item; "
        "score the bundles again"
    )


def test_scores_with_other_faults(scored):
    spoiled("item_hash", "zz")
    assert "column 'item_hash' must hold 64 hex digits each" in refused(
        *SUM, "bad.parquet", "--out=x.json"
    )
    table = pq.read_table("m.parquet")
    pq.write_table(table.slice(0, 0), "none.parquet")
    assert "none.parquet: holds no item; score" in refused(*SUM, "none.parquet", "--out=x.json")
    origin = json.loads(table.schema.metadata[b"gmb_crucible"])
    for key, value, said in (("encoder", "", "encoder"), ("n_skipped", -1, "n_skipped")):
        held = {b"gmb_crucible": json.dumps({**origin, key: value}).encode()}
        pq.write_table(table.replace_schema_metadata(held), "bad.parquet")
        assert f"bad.parquet: {said}" in refused(*SUM, "bad.parquet", "--out=x.json")


def test_what_cannot_be_scored(tmp_path):
    bare = {"anchor": "a", "positive": "b", "negatives": [], "similarities": [1]}
    write(tmp_path / "bare.jsonl", [bare])
    score = ("crucible", "score", "bare.jsonl", "--out=x.parquet")
    assert "no item has negatives, so there is nothing to score" in refused(*score, "--skip-empty")
    assert "--name is empty; name what made the similarities" in refused(*score, "--name", " ")


def test_scoreboards_that_could_not_be_read_again(scored):
    to = (*SUM, "m.parquet")
    assert "scoreboards are written as .json" in refused(*to, "--out=x.html")
    seed = refused(*to, "--out=x.json", "--seed", 10**30)
    assert "eval_header: seed must be less than" in seed
    blank = refused(
        "crucible", "scoreboard", "--scores=m.parquet", "--eval-version= ", "--out=x.json"
    )
    assert "version is empty; name that of the evaluation set, e.g. v1" in blank
    assert not Path("x.json").exists()


def test_an_answer_is_not_written_over_what_it_is_made_of(scored):
    shutil.copy("m.json", "n.json")
    Path("r.json").write_text('[{"name": "a", "frozen_tier3": 0.5, "organic_holdout": 0.5}]')
    shutil.copy("m.jsonl", "b.parquet")
    shutil.copy("m.parquet", "p.json")
    held = {path: path.read_bytes() for path in Path().glob("*.*")}
    for command in (
        ("compare", "m.json", "n.json", "--out=n.json"),
        ("aggregate", "m.json", "n.json", "--out=./m.json"),
        ("aggregate", "m.json", "--against=n.json", "--out=n.json"),
        ("pareto", "r.json", "--out=r"),
        ("pareto", "r.json", "--out=r.png"),
        ("score", "b.parquet", "--out=b.parquet"),
        ("tiers", "fit", "--scores=m.parquet", "--out=m.parquet", "--force"),
        ("tiers", "assign", "--tiers=t", "--scores=m.parquet", "--bundles=b", "--out=m.parquet"),
        ("scoreboard", "--scores=p.json", "--eval-version=v1", "--out=p.json"),
    ):
        assert "is a file that is read; write to another one" in refused("crucible", *command)
    assert {path: path.read_bytes() for path in Path().glob("*.*")} == held


def test_aggregates_that_are_none(scored):
    for text, message in (
        ('{"scoreboards": []}', "is no aggregate"),
        ('{"scoreboards": ["a\\u0000b"]}', "there is no such file"),
        ('{"scoreboards": ["."]}', "this is a folder; name a file in it"),
    ):
        Path("bad.json").write_text(text)
        assert message in refused("crucible", "aggregate", "m.json", "--against=bad.json")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "r.csv",
            "name,frozen_tier3,organic_holdout\na,0,5,0,7\n",
            "result 0 has more cells than there are columns; is a comma inside a cell?",
        ),
        (
            "r.csv",
            "name,frozen_tier3,frozen_tier3,organic_holdout\na,0,1,1\n",
            "column 'frozen_tier3' occurs more than once",
        ),
        (
            "r.csv",
            "name,frozen_tier3,organic_holdout\na,50,70\n",
            "result 0 (a): frozen_tier3 must be a pass rate in [0, 1], it is 50.0",
        ),
        (
            "r.json",
            '[{"frozen_tier3": 0.5, "organic_holdout": -1}]',
            "result 0 (without a name): organic_holdout must be a pass rate in [0, 1]",
        ),
        (
            "r.json",
            '[{"name": ["a"], "frozen_tier3": 1, "organic_holdout": 1}]',
            "result 0: name must be text, got ['a']",
        ),
        (
            "r.csv",
            "name,frozen_tier3,organic_holdout,frozen_scores,organic_scores\n"
            "a,1,1,a.parquet,a.parquet\nb,1,1,,a.parquet\n",
            "b: frozen_scores is missing, others have such files",
        ),
    ],
)
def test_tables_whose_frontier_would_be_wrong(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert message in refused("crucible", "pareto", name)


def test_numbers_beyond_what_can_be_computed(scored):
    exposure = ("crucible", "exposure", "--probability", 1, "--batch-size", 1)
    one = ("--pool", "a=1:1")
    assert "steps must be at most" in refused(*exposure, "--steps", 10**400, *one)
    huge = refused(*exposure, "--steps", 10, "--pool", f"a={10**400}:1")
    assert "pool 'a': size must be a whole number of at least 0 and at most 9,007,199" in huge
    many = refused(*exposure, "--steps", 10**12, *one)
    assert "pool 'a': 1.0e+12 expected exposures an item; 1e+09 are the most" in many
    most = "must be at most 10,000,000, got 1000000000000"
    shutil.copy("m.json", "n.json")
    write(Path("o.jsonl"), lines(20))
    assert most in refused("crucible", "compare", "m.json", "n.json", "--permutations", 10**12)
    Path("other.json").write_text('{"scoreboards": ["n.json"]}')
    against = ("crucible", "aggregate", "m.json", "--against=other.json", "--draws", 10**12)
    assert most in refused(*against)
    Path("r.csv").write_text(
        "name,frozen_tier3,organic_holdout,frozen_scores,organic_scores\n"
        "a,1,1,m.parquet,m.parquet\nb,1,1,m.parquet,m.parquet\n"
    )
    assert most in refused("crucible", "pareto", "r.csv", "--draws", 10**12)
    mine = ("crucible", "mine", "c", "--pool=p", "--embeddings=e", "--pool-embeddings=f", "--out=m")
    assert "lineups must be at most 10,000" in refused(*mine, "--lineups", 10**12)


def test_embeddings_that_are_none(tmp_path):
    text = {"anchor": "a", "positive": "b", "negatives": ["c"]}
    write(tmp_path / "e.jsonl", [text])
    for array, message in (
        (np.full((3, 2), np.nan), "item '1': an embedding is zero or not finite"),
        (np.zeros((3, 0)), "an embedding is zero or not finite"),
        (np.ones((3, 2, 2)), "needs 3 rows"),
        (np.ones((3, 2), dtype=complex), "holds complex128, not numbers"),
        (np.full((3, 2), "a"), "not numbers"),
    ):
        np.save("e.npy", array)
        assert message in refused(
            "crucible", "score", "e.jsonl", "--embeddings=e.npy", "--out=x.parquet"
        )
