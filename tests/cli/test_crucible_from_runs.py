"""`gmb crucible from-runs` as a user types it."""

from __future__ import annotations

import csv
import itertools
import json
import pkgutil
import re
import shutil

import numpy as np
import pytest
from command_line import gmb, refused
from crucible_builders import done
from synthetic import SYNTHETIC_DESIGN, synthetic_runlog

from gmb_hf import Lock
from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.margins import Tiers
from gmb_hf.crucible.scoreboard import Scoreboard
from gmb_hf.crucible.scores import ItemScores
from gmb_hf.design.design import Design
from gmb_hf.indicators import catalogue as registry
from gmb_hf.runs.runlog import RunLog

TINY = (
    "--set=task.prime=7",
    "--set=training.steps=20",
    "--set=training.compile=never",
    "--set=model.width=8",
    "--set=model.mlp_width=12",
    "--set=model.initializer_range=0.1",
    "--set=model.layer_norm=true",
    "--set=task.train_fraction=0.7",
    "--set=training.checkpoint_every=10",
    "--set=training.stop_after=none",
    "--set=training.weight_decay=1.5",
    "--set=training.lr=1.5e-3",
)
ASKED = ("crucible", "from-runs", *TINY, "--bundles", 40, "--negatives", 4)
# Few rows and no decay: memorised soon, and not at once.
MEMORISING = (
    "--set=task.train_rows=14",
    "--set=training.lr=0.03",
    "--set=training.weight_decay=0",
    "--set=training.steps=80",
    "--set=training.seeds_at_once=2",
    "--every=20",
)
COLUMNS = {
    "crucible_margin_q10",
    "crucible_margin_median",
    "crucible_margin_q90",
    "crucible_pass_rate",
    "crucible_mean_rank",
    "crucible_train_margin_q10",
    "crucible_tier3_pass_rate",
}


@pytest.fixture(scope="module")
def tracked(tmp_path_factory):
    """Three tiny runs, and what the command printed."""
    folder = tmp_path_factory.mktemp("tracked") / "out"
    return folder, done(gmb(*ASKED, "--seeds", "0:3", "--every", 5, "--out", folder, figures=True))


def test_what_the_command_leaves_and_says(tracked):
    folder, shown = tracked
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {
        "config.yaml",
        "logs/seeds-0-2-n3.parquet",
        "bundles.jsonl",
        "scores.parquet",
        "scoreboard.html",
        "scoreboard.json",
        "margins.png",
        "margins.svg",
        *(f"tiers/seed_{seed}.json" for seed in range(3)),
        *(f"parts/seed_{seed}.jsonl" for seed in range(3)),
    }
    words = " ".join(shown.out.split())  # lines break where they are full
    assert "seeds 0:3 never memorised their rows" in words
    assert "(medians; 3 runs, 0 with an event)" in words
    assert shown.next_command == (
        f"gmb evaluate --runs {folder}/logs --metric test_acc --score crucible_margin_q10 "
        "--horizon 400 --safe-gap 800"
    )


def test_the_training_is_that_of_gmb_train(tracked, tmp_path):
    folder, _ = tracked
    spaced = "--set=training.checkpoint_every=5"
    done(gmb("train", *TINY, spaced, "--seeds", "0:3", "--out", tmp_path / "plain"))
    plain, log = RunLog.read(tmp_path / "plain" / "logs"), RunLog.read(folder / "logs")
    assert set(log.observables) - set(plain.observables) == COLUMNS
    assert log.runs == plain.runs
    for name in plain.observables:
        assert np.array_equal(log.panel(name).values, plain.panel(name).values), name
    metadata = dict(log.metadata)
    assert metadata.pop("crucible") == {"bundles": 40, "negatives": 4, "seed": 0}
    assert metadata == plain.metadata


def test_bundles_are_of_held_out_equations_and_score_as_they_did(tracked, tmp_path):
    from gmb_hf.training.presets import preset
    from gmb_hf.training.stacked import task_data

    folder, _ = tracked
    file = read_bundles(folder / "bundles.jsonl")
    task = preset("quick").changed(["task.prime=7"]).task
    texts = task.build().texts()
    for seed in range(3):
        held_out = {texts[row] for row in task_data(task, seed).test_index}
        mine = [bundle for bundle in file.bundles if bundle.id.startswith(f"seed_{seed}/")]
        assert len(mine) == 40
        for bundle in mine:
            assert {bundle.anchor, bundle.positive, *bundle.negatives} <= held_out
            answer = bundle.anchor.split("= ")[1]
            assert bundle.positive.split("= ")[1] == answer
            assert answer not in {text.split("= ")[1] for text in bundle.negatives}
    done(gmb("crucible", "score", folder / "bundles.jsonl", "--out", tmp_path / "again.parquet"))
    again, scores = (
        ItemScores.read(path) for path in (tmp_path / "again.parquet", folder / "scores.parquet")
    )
    assert np.array_equal(again.margin, scores.margin)
    assert again.origin.content_hash == scores.origin.content_hash


def test_log_scores_tiers_and_scoreboard_agree(tracked):
    folder, _ = tracked
    log, scores = RunLog.read(folder / "logs"), ItemScores.read(folder / "scores.parquet")
    margin = scores.margin.reshape(3, 40)
    last = {name: log.panel(name).values[:, -1] for name in COLUMNS - {"crucible_tier3_pass_rate"}}
    np.testing.assert_array_equal(last["crucible_margin_q10"], np.quantile(margin, 0.1, axis=1))
    np.testing.assert_array_equal(last["crucible_pass_rate"], (margin > 0).mean(axis=1))
    ranks = scores.ranks.strict.reshape(3, 40).mean(axis=1)
    np.testing.assert_array_equal(last["crucible_mean_rank"], ranks)
    for seed in range(3):
        tiers = Tiers.read(folder / "tiers" / f"seed_{seed}.json")
        assert tiers.encoder == f"seed_{seed}, not memorised, step 20"
        hard = np.array(scores.tiers).reshape(3, 40)[seed] == "tier3_adversarial"
        assert np.array_equal(hard, -margin[seed] > tiers.t2_cutoff)
        assert hard.sum() == tiers.counts["tier3_adversarial"]
    board = Scoreboard.read(folder / "scoreboard.json")
    assert board.overall.q10_margin == pytest.approx(np.quantile(margin, 0.1))
    assert board.checkpoint_path == "quick, step 20"


def contents(folder):
    """Every file's bytes, apart from those that hold a date or where the folder is."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in files
        if path.name not in ("scoreboard.json", "scores.parquet", "margins.svg")
    }


class Stopped(BaseException):
    """Ctrl-C, in place of it."""


def stop_at(monkeypatch, owner, name, call):
    """Raise `Stopped` in place of a call of a function, counted from 1."""
    calls, before = itertools.count(1), getattr(owner, name)

    def counted(*arguments, **settings):
        if next(calls) == call:
            raise Stopped
        return before(*arguments, **settings)

    monkeypatch.setattr(owner, name, counted)


@pytest.fixture(scope="module")
def memorised(tmp_path_factory):
    """Two groups of two runs that memorise, tracked in one go."""
    folder = tmp_path_factory.mktemp("memorised") / "out"
    done(gmb(*ASKED, *MEMORISING, "--seeds", "0:4", "--out", folder))
    return folder


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        ("gmb_hf.training.stacked.SeedStack", "update", 155),  # of 2 x 80
        ("gmb_hf.training.seeds", "write_log", 2),
        ("gmb_hf.crucible.grokking", "read_bundles", 1),
    ],
)
def test_an_interrupted_command_goes_on(memorised, tmp_path, monkeypatch, owner, name, call):
    monkeypatch.setattr("gmb_hf.training.seeds.SAVE_EVERY_SECONDS", -1.0)
    asked = (*ASKED, *MEMORISING, "--seeds", "0:4", "--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        stop_at(patch, pkgutil.resolve_name(owner), name, call)
        with pytest.raises(Stopped):
            gmb(*asked)
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("logs/*")}
    done(gmb(*asked))
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert contents(tmp_path / "out") == contents(memorised)
    first, second = (ItemScores.read(x / "scores.parquet") for x in (tmp_path / "out", memorised))
    assert first.tiers == second.tiers


def test_what_is_finished_is_not_done_again(memorised, tmp_path, monkeypatch):
    out = tmp_path / "out"
    shutil.copytree(memorised, out)
    (out / "scores.parquet").unlink()
    (out / "bundles.jsonl").write_text("half a li")
    with monkeypatch.context() as patch:
        patch.setattr("gmb_hf.training.stacked.SeedStack.update", lambda _: pytest.fail("trained"))
        done(gmb(*ASKED, *MEMORISING, "--seeds", "0:2", "--out", out))
    # As after `gmb train`, the folder holds what it held, of all its seeds.
    assert contents(out) == contents(memorised)
    done(gmb(*ASKED, *MEMORISING, "--seeds", 9, "--out", out))
    assert ItemScores.read(out / "scores.parquet").ids[-1] == "seed_9/39"
    assert len(RunLog.read(out / "logs").runs) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--bundles", 41), "(crucible.bundles: 40 -> 41)"),
        (("--negatives", 3), "(crucible.negatives: 4 -> 3)"),
        (("--bundle-seed", 1), "(crucible.seed: 0 -> 1)"),
        (("--set", "training.lr=0.01"), "(training.lr: 0.03 -> 0.01)"),
    ],
)
def test_another_design_is_refused(memorised, change, message):
    before = contents(memorised)
    refusal = refused(*ASKED, *MEMORISING, *change, "--seeds", "0:4", "--out", memorised)
    assert f"this folder holds runs of another config {message}; choose another --out" in refusal
    assert contents(memorised) == before


def test_a_part_that_was_lost_or_spoiled_is_named(memorised, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(memorised, out)
    asked = (*ASKED, *MEMORISING, "--seeds", "0:4", "--out", out)
    part = out / "parts" / "seed_1.jsonl"
    for text in ("[1]\n", '{"id": "a"}\n', None):
        part.write_text(text) if text else part.unlink()
        assert f"{part}: missing or changed, but {out / 'logs'} holds its run" in refused(*asked)


def test_groups_of_seeds_change_no_bundle(tracked, tmp_path):
    folder, _ = tracked
    alone = "--set=training.seeds_at_once=1"
    done(gmb(*ASKED, alone, "--seeds", "0:3", "--every", 5, "--out", tmp_path / "out"))
    first, second = (read_bundles(place / "bundles.jsonl") for place in (folder, tmp_path / "out"))
    assert first.content_hash == second.content_hash
    np.testing.assert_allclose(first.similarities().values, second.similarities().values, atol=1e-4)


def test_tiers_are_frozen_when_a_run_has_memorised(memorised):
    log = RunLog.read(memorised / "logs")
    knows = log.panel("train_acc").values >= 0.99
    assert knows.any(axis=1).all()
    assert not knows[:, 0].any()
    rate = log.panel("crucible_tier3_pass_rate").values
    for run, seed in enumerate(range(4)):
        since = knows[run].argmax()
        assert np.isnan(rate[run, :since]).all()
        assert np.isfinite(rate[run, since:]).all()
        tiers = Tiers.read(memorised / "tiers" / f"seed_{seed}.json")
        assert tiers.encoder == f"seed_{seed}, memorised at step {20 * since}"


def test_a_saved_model_is_asked_the_same(tracked, tmp_path):
    from gmb_hf.training.presets import preset
    from gmb_hf.training.stacked import initial_model

    folder, _ = tracked
    config = preset("quick").changed([item.removeprefix("--set=") for item in TINY])
    initial_model(config, 1).save_pretrained(tmp_path / "model")
    out = tmp_path / "asked"
    shown = done(gmb(*ASKED, "--model", tmp_path / "model", "--seeds", 1, "--out", out))
    assert not (out / "logs").exists()
    assert shown.next_command.startswith("gmb crucible compare")
    texts = [
        [(one.anchor, one.positive, one.negatives) for one in file.bundles if "_1/" in one.id]
        for file in (read_bundles(folder / "bundles.jsonl"), read_bundles(out / "bundles.jsonl"))
    ]
    assert texts[0] == texts[1]
    first = RunLog.read(folder / "logs").panel("crucible_margin_q10").values[1, 0]
    board = json.loads((out / "scoreboard.json").read_text())
    assert board["overall"]["q10_margin"] == pytest.approx(first, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--negatives", 15), "held-out equations of data seed 0: 15 negatives are asked for"),
        (("--negatives", 0), "--negatives must be a whole number of at least 1, got 0"),
        (("--bundles", 0), "--bundles must be a whole number of at least 1, got 0"),
        (("--bundle-seed", -1), "seed must be a whole number of at least 0, got -1"),
        (("--preset", "quik"), "quick"),
        (("--seeds", ""), "is no seed"),
        (("--seeds", "3:3"), "is empty"),
        (("--every", 7), "steps=20 is no multiple of"),
        (("--every", 0), "checkpoint_every must be greater than or equal to 1, got 0"),
        (("--set", "task.train_rows=48"), "no two of the 1 equations to draw from have the same"),
        (("--device", "tpu"), "tpu"),
        (("--model", "nowhere", "--seeds", "0"), "nowhere: holds no model"),
        (("--model", "nowhere", "--seeds", "0:2"), "a saved model is one run"),
    ],
)
def test_what_cannot_be_asked(tmp_path, arguments, message):
    assert message in refused(*ASKED, "--out", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()


def test_a_model_of_another_task_or_none_at_all(tmp_path):
    from gmb_hf.training.presets import preset
    from gmb_hf.training.stacked import initial_model

    initial_model(preset("quick"), 0).save_pretrained(tmp_path / "model")
    asked = (*ASKED, "--seeds", 0, "--out", tmp_path / "out")
    message = refused(*asked, "--model", tmp_path / "model")
    assert "has 33 tokens, but sub_p7, 70% train, shared tokens needs 11" in message
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "hidden_size": 16}))
    assert "could not be loaded" in refused(*asked, "--model", tmp_path / "model")
    path.write_text(json.dumps({**config, "num_hidden_layers": 2}))
    message = refused(*asked, "--model", tmp_path / "model")
    assert "of its weights are missing or unknown, e.g. model.layers.1." in message
    (tmp_path / "model" / "model.safetensors").unlink()
    path.write_text("{")
    assert "config.json could not be read" in refused(*asked, "--model", tmp_path / "model")


def test_a_folder_that_is_a_file_is_refused_before_training(tmp_path):
    (tmp_path / "out").write_text("")
    assert "a file with this name is in the way" in refused(*ASKED, "--out", tmp_path / "out")


def test_q10_is_an_indicator_where_its_column_is(tracked, synthetic_log):
    log = RunLog.read(tracked[0] / "logs")
    names = {"crucible_margin_q10", "crucible_train_margin_q10"}
    assert names <= set(registry.available(log))
    assert not names & set(registry.available(synthetic_log))
    for name in names:
        assert np.array_equal(registry.compute(log, name).values, log.panel(name).values)
    # Positives are found by true answers: of held-out rows no monitor may know them.
    assert registry.get("crucible_margin_q10").sees_test_labels
    assert not registry.get("crucible_train_margin_q10").sees_test_labels


def test_two_trainings_are_compared_on_the_same_items(memorised, tmp_path):
    other = tmp_path / "other"
    slower = "--set=training.lr=0.02"
    shown = done(gmb(*ASKED, *MEMORISING, slower, "--seeds", "0:4", "--out", other))
    command = f"gmb crucible compare {other}/scoreboard.json OTHER/scoreboard.json"
    assert f"compare {command}" in shown.out.splitlines()
    boards = [folder / "scoreboard.json" for folder in (memorised, other)]
    compared = done(gmb("crucible", "compare", *boards, "--out", tmp_path / "comparison.json"))
    found = json.loads((tmp_path / "comparison.json").read_text())
    assert found["comparable"] is True
    assert found["paired_tests"][0]["n"] == 160
    # Each model was given its tiers when it had memorised: they are not the same items.
    note, *_ = (text for text in found["notes"] if "tier" in text)
    assert re.match(r"\d+ of 160 items are in another tier than before: each model has", note)
    assert "frozen tier3" not in compared.out
    shown = done(gmb("crucible", "compare", boards[0], boards[0], "--out", tmp_path / "same.json"))
    assert "frozen tier3" in shown.out


def test_margins_are_explored_and_locked_like_any_indicator(tmp_path):
    names = ("crucible_margin_q10", "crucible_train_margin_q10")
    runs, prereg = tmp_path / "runs.parquet", tmp_path / "prereg.yaml"
    synthetic_runlog(30, bundles=True).write(runs)
    Design.minimal(
        **SYNTHETIC_DESIGN,
        seeds_explore=list(range(30)),
        seeds_eval=list(range(100, 160)),
        candidates=[{"name": name, "family": "crucible"} for name in names],
    ).write(prereg)
    table, lock = tmp_path / "explore.csv", tmp_path / "lock.yaml"
    given = ("--prereg", prereg, "--runs", runs)
    done(gmb("explore", *given, "--out", table))
    with table.open() as file:
        rows = {(row["indicator"], row["sign"]): row for row in csv.DictReader(file)}
    for name in names:
        assert float(rows[name, "1"]["auc"]) + float(rows[name, "-1"]["auc"]) == pytest.approx(1)
    shown = done(gmb("lock", *given, "--out", lock))
    assert shown.next_command.startswith("gmb ")
    assert {item.name for item in Lock.read(lock).design.candidates} == {*names}
