"""`gmb crucible exposure|pareto|mine|aggregate` as a user types them."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from command_line import gmb, refused
from crucible_builders import board, done, lines, write
from safetensors.numpy import save_file

TRAINING = ("crucible", "exposure", "--steps", 10_000, "--batch-size", 32, "--probability", 0.1)
LEGACY = ("--pool", "legacy=454:0.75")


def test_the_exposure_of_the_specification(tmp_path):
    pools = (*LEGACY, "--pool", "organic=100:0.25")
    shown = done(gmb(*TRAINING, *pools, "--gate", "--out=exposure.json"))
    assert "24,000" in shown.out
    assert "52.9" in shown.out
    legacy = json.loads((tmp_path / "exposure.json").read_text())["pools"][0]
    assert legacy["draws"] == 24_000
    assert legacy["status"] == "healthy"


def test_too_few_exposures_close_the_gate(tmp_path):
    pools = (*LEGACY, "--pool", "organic=1200:0.25")
    assert "SEVERE" in done(gmb(*TRAINING, *pools)).out
    message = refused(*TRAINING, *pools, "--gate", code=1)
    assert message == "no: items would be seen too rarely; the guardrails above say which"
    assert not list(tmp_path.iterdir()), "an answer is written only on request"


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        (LEGACY, "the ratios of the pools add up to 0.75, not to 1"),
        (("--pool", "legacy"), "--pool 'legacy': must be NAME=SIZE:RATIO"),
        (("--pool", "legacy=x:1"), "must be NAME=SIZE:RATIO"),
        (("--pool", "legacy=0:1"), "every pool that is drawn from is empty"),
        (("--pool", "a=1:nan"), "pool 'a': ratio must be a number in [0, 1]"),
    ],
)
def test_pools_that_cannot_be(pools, message):
    assert message in refused(*TRAINING, *pools)


ROWS = [("a", 0.5, 0.7), ("b", 0.6, 0.6), ("c", 0.6, 0.5), ("d", 0.6, 0.6)]


def results(path, rows=ROWS):
    keys = ("name", "frozen_tier3", "organic_holdout")
    table = [dict(zip(keys, row, strict=True)) for row in rows]
    if path.suffix == ".json":
        path.write_text(json.dumps(table))
    elif path.suffix == ".jsonl":
        write(path, table)
    else:
        path.write_text("\n".join([",".join(keys), *(",".join(map(str, row)) for row in rows)]))
    return path


@pytest.mark.parametrize("name", ["results.csv", "results.json", "results.jsonl"])
def test_the_frontier_of_a_table(tmp_path, name):
    shown = done(gmb("crucible", "pareto", results(tmp_path / name), "--out=pareto", figures=True))
    first = [line.split(" ")[0] for line in shown.out.splitlines()]
    assert first[1:7] == ["on", "a", "b", "d", "dominated", "c"]
    found = json.loads((tmp_path / "pareto.json").read_text())["configurations"]
    assert [row["on_frontier"] for row in found] == [True, True, False, True]
    assert (tmp_path / "pareto.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "pareto.svg").read_text()


def test_how_surely_one_configuration_beats_another(tmp_path):
    for name, gain in (("weak", 0.0), ("strong", 0.4)):
        board(tmp_path, name, gain=gain)
    lines = ["name,frozen_tier3,organic_holdout,frozen_scores,organic_scores"]
    for name in ("weak", "strong"):
        made = json.loads((tmp_path / f"{name}.json").read_text())
        rate = made["overall"]["pass_rate"]
        lines.append(f"{name},{rate},{rate},{name}.parquet,{name}.parquet")
    (tmp_path / "results.csv").write_text("\n".join(lines))
    shown = done(gmb("crucible", "pareto", "results.csv", "--draws", 200, "--out=pareto"))
    assert "strong (100%)" in shown.out
    found = json.loads((tmp_path / "pareto.json").read_text())["dominance_probability"]
    assert found == {"weak": {"strong": 0.0}, "strong": {"weak": 1.0}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "r.csv",
            "name,frozen_tier3,organic_holdout\na,0.5,\n",
            "organic_holdout must be a finite",
        ),
        ("r.csv", "name,frozen_tier3\na,0.5\n", "result 0 (a): organic_holdout must be a finite"),
        ("r.csv", "name,frozen_tier3,organic_holdout\na,x,1\n", "frozen_tier3 must be a finite"),
        ("r.csv", "name,frozen_tier3,organic_holdout\na,nan,1\n", "it is nan"),
        ("r.csv", "name,frozen_tier3,organic_holdout\n", "holds no results"),
        ("r.json", "[1]", "result 0 must be an object, got 1"),
        ("r.jsonl", "{\n", "r.jsonl:1: is not JSON"),
        ("r.txt", "", "results come as .csv, .json or .jsonl"),
    ],
)
def test_tables_that_have_no_frontier(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert message in refused("crucible", "pareto", name, "--out=pareto")


def mining(tmp_path, n=40, size=120):
    rng = np.random.default_rng(0)
    anchors, pool = rng.normal(size=(n, 8)), rng.normal(size=(size, 8))
    positives = anchors + 1.2 * rng.normal(size=(n, 8))
    anchors[-1] = anchors[0]  # a near duplicate
    made = [
        {"id": f"c{i}", "anchor": f"a{i}", "positive": f"p{i}"}
        | ({"negatives": []} if i % 2 else {})
        for i in range(n)
    ]
    write(tmp_path / "candidates.jsonl", made)
    (tmp_path / "pool.jsonl").write_text(
        "".join(json.dumps({"text": f"t{i}"} if i % 2 else f"t{i}") + "\n" for i in range(size))
    )
    np.save(tmp_path / "c.npy", np.stack([anchors, positives], axis=1).reshape(-1, 8))
    np.save(tmp_path / "p.npy", pool)
    given = ("--embeddings", "c.npy", "--pool-embeddings", "p.npy")
    return (
        "crucible",
        "mine",
        "candidates.jsonl",
        "--out",
        "mined",
        "--pool",
        "pool.jsonl",
        *given,
    )


def test_mining_writes_what_it_accepts_and_what_needs_a_look(tmp_path):
    shown = done(gmb(*mining(tmp_path), "--threshold", "-0.1"))
    assert "of 39 candidates accepted: mining pass rate" in shown.out
    summary = json.loads((tmp_path / "mined" / "mining.json").read_text())
    accepted, quarantined = (
        [json.loads(line) for line in (tmp_path / "mined" / name).read_text().splitlines()]
        for name in ("accepted.jsonl", "quarantine.jsonl")
    )
    assert len(accepted) == summary["accepted"] > 0
    assert len(quarantined) == summary["quarantined"] > 0
    assert all(line["mining"]["passes"] >= 3 for line in accepted)
    assert all(len(line["negatives"]) == 10 for line in accepted)
    copy = next(line for line in quarantined if line["id"] == "c39")
    assert copy["quarantine"]["duplicate_of"] == "c0"
    assert shlex.split(shown.next_command)[:4] == [
        "gmb",
        "crucible",
        "score",
        "mined/accepted.jsonl",
    ]
    # Accepted candidates are bundles.
    rows = np.random.default_rng(0).normal(size=(12 * len(accepted), 4))
    np.save(tmp_path / "rows.npy", rows)
    done(
        gmb(
            "crucible",
            "score",
            "mined/accepted.jsonl",
            "--embeddings",
            "rows.npy",
            "--out=scores.parquet",
        )
    )


def test_the_threshold_is_a_quantile_of_organic_dangers(tmp_path):
    command = mining(tmp_path)
    items = lines(200)
    write(tmp_path / "organic.jsonl", items)
    done(gmb("crucible", "score", "organic.jsonl", "--name", "m", "--out=scores.parquet"))
    shown = done(gmb(*command, "--organic", "scores.parquet", "--quantile", "0.7"))
    given = [line["similarities"] for line in items]
    dangers = sorted(max(one["negatives"]) - one["positive"] for one in given)
    summary = json.loads((tmp_path / "mined" / "mining.json").read_text())
    assert summary["settings"]["threshold"] == pytest.approx(dangers[139])  # ceil(.7 * 200) items
    about = summary["calibration"]
    assert (about["scores"], about["quantile"], about["n"]) == ("scores.parquet", 0.7, 200)
    assert "the 0.7 quantile of the dangers of 200 organic items" in shown.out
    assert "organic items have 2 to 7 negatives, a lineup 10" in " ".join(shown.out.split())
    few = done(gmb(*command, "--organic", "scores.parquet", "--quantile", "0.97"))
    assert "only 6 of 200 organic items lie above the threshold" in " ".join(few.out.split())
    beyond = refused(*command, "--organic", "scores.parquet", "--quantile", "1.5")
    assert "--quantile must lie between 0 and 1, got 1.5" in beyond


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--organic", "o", "--threshold", 0), "--threshold and --organic exclude each other"),
        (("--quantile", 0.5), "--quantile is one of the dangers of --organic; give that, too"),
        (("--organic", "o.parquet"), "o.parquet: there is no such file"),
        (("--min-passes", 11), "min_passes 11 is above the number of lineups, 10"),
        (("--lineup-size", 500), "the pool has"),
        (("--seed", -1), "seed must be a whole number of at least 0, got -1"),
        (("--encoder", "x"), "give either --embeddings with --pool-embeddings, or --encoder"),
    ],
)
def test_minings_that_cannot_be(tmp_path, options, message):
    assert message in refused(*mining(tmp_path), *options)
    assert not (tmp_path / "mined").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            {"id": "x", "anchor": "a", "positives": "b"},
            "c.jsonl:1: no 'positive'; a candidate needs anchor and positive; found: 'id', "
            "'anchor', 'positives'. Is 'positives' meant?",
        ),
        (
            {"id": "x", "similarities": [1, 2]},
            "item 'x' has no texts to embed; it needs anchor and p",
        ),
    ],
)
def test_candidates_that_are_none(tmp_path, line, message):
    command = mining(tmp_path)
    write(tmp_path / "c.jsonl", [line])
    assert message in refused(*command[:2], "c.jsonl", *command[3:])


def test_candidates_without_negatives_as_safetensors(tmp_path):
    command = mining(tmp_path)
    rows = np.load(tmp_path / "c.npy").reshape(40, 2, 8)
    arrays = {"anchor": rows[:, 0].copy(), "positive": rows[:, 1].copy()}
    save_file(arrays, tmp_path / "c.safetensors")
    one = done(gmb(*command, "--threshold", "-0.1"))
    other = done(gmb(*command, "--threshold", "-0.1", "--embeddings", "c.safetensors"))
    assert one.out == other.out


def test_pools_of_texts_that_are_none(tmp_path):
    command = mining(tmp_path)
    assert "go together" in refused(*command[:-2])
    (tmp_path / "pool.jsonl").write_text('"a"\n{"txt": "b"}\n')
    assert "pool.jsonl:2: a line of the pool is text or an object" in refused(*command)
    (tmp_path / "pool.jsonl").write_text("\n")
    assert "pool.jsonl: holds no texts" in refused(*command)


def test_seeds_are_summed_up_and_held_against_others(tmp_path):
    mine = [board(tmp_path, f"a{seed}", seed=seed, gain=0.3) for seed in range(3)]
    theirs = [board(tmp_path, f"b{seed}", seed=10 + seed) for seed in range(3)]
    done(gmb("crucible", "aggregate", *theirs, "--out", "b.json"))
    shown = done(gmb("crucible", "aggregate", *mine, "--against", "b.json", "--out=aggregate.json"))
    assert "the pass rate is two points apart" in shown.out
    found = json.loads((tmp_path / "aggregate.json").read_text())
    rates = [json.loads(path.read_text())["overall"]["pass_rate"] for path in mine]
    stats = found["groups"]["overall"]["pass_rate"]
    assert stats["mean"] == pytest.approx(np.mean(rates))
    assert stats["std"] == pytest.approx(np.std(rates, ddof=1))
    assert (stats["n_seeds"], stats["method"]) == (3, "t")
    assert found["scoreboards"] == ["a0.json", "a1.json", "a2.json"]
    assert found["bootstrap"]["overall"]["ci_low"] > 0
    normal = done(gmb("crucible", "aggregate", *mine, "--method", "normal", "--out", "n.json"))
    assert normal.out
    narrower = json.loads((tmp_path / "n.json").read_text())["groups"]["overall"]["pass_rate"]
    assert narrower["ci_high"] < stats["ci_high"]


def test_one_seed_has_no_interval(tmp_path):
    shown = done(gmb("crucible", "aggregate", board(tmp_path, "a"), "--out=aggregate.json"))
    assert "note: one seed has no interval" in shown.out
    found = json.loads((tmp_path / "aggregate.json").read_text())["groups"]["overall"]["pass_rate"]
    assert (found["std"], found["ci_low"], found["ci_high"]) == (None, None, None)


def test_scoreboards_that_do_not_belong_together(tmp_path):
    one, other = board(tmp_path, "one", n=30), board(tmp_path, "other")
    aggregate = ("crucible", "aggregate")
    assert "cannot be taken together: the content hash" in refused(*aggregate, one, other)
    shown = done(gmb(*aggregate, one, other, "--allow-fingerprint-mismatch"))
    assert "note: not comparable" in shown.out
    assert "is named twice; one scoreboard is one seed" in refused(*aggregate, one, one)
    assert "is no aggregate; make one of" in refused(*aggregate, one, "--against", other)
    assert "method 'student' is unknown" in refused(*aggregate, one, "--method", "student")
