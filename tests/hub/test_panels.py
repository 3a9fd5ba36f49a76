"""Frozen panels: what is in the folder, what is refused, and what commands make of `panel:NAME`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hub_client import Terminal
from hub_store import Hub

from gmb_hf import Design, InputError, RunLog, preset
from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs
from gmb_hf.benchmark.locking import explore, make_lock
from gmb_hf.benchmark.results import Results
from gmb_hf.design import ledger
from gmb_hf.design.ledger import panel_looks
from gmb_hf.design.lock import CHECKSUMS
from gmb_hf.hub import panels
from gmb_hf.hub.curves import CurveShape
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import Recipe
from gmb_hf.hub.sources import design_for, panel_of, part_of, read_runs

NAME = "made-up"
COLUMNS = ("test_acc", "train_acc", "embedding_gini", "embedding_norm", "embedding_rank")


def part(log: RunLog) -> RunLog:
    values = {name: log.panel(name).values for name in COLUMNS}
    return RunLog.from_arrays(log.runs, log.panel("step").steps[0], values, seeds=log.seeds)


def recipe(locks: int = 200) -> Recipe:
    return Recipe(NAME, "Does it <work>", lambda: preset("smoke"), locks)


@pytest.fixture
def panel(
    commands: Terminal,
    design: Design,
    explore_log: RunLog,
    held_out_log: RunLog,
    monkeypatch: pytest.MonkeyPatch,
) -> FrozenPanel:
    """In ./panels, of 30 explore and 40 held-out runs; the package ships none."""
    monkeypatch.delenv(panels.PLACE, raising=False)
    monkeypatch.setattr(ledger, "SHIPPED", Path("shipped"))
    seeds = {"seeds_explore": list(range(30)), "seeds_eval": list(range(100, 140))}
    parts = {"explore": part(explore_log), "heldout": part(held_out_log)}
    place = Path("panels") / NAME
    return panels.freeze(recipe(), parts, design.replace(**seeds), place, command="gmb made it")


def test_what_lies_in_the_folder_is_what_was_frozen(
    panel: FrozenPanel, explore_log: RunLog, held_out_log: RunLog
) -> None:
    assert sorted(path.name for path in panel.folder.iterdir()) == sorted(
        ["README.md", "design.yaml", "explore.parquet", "heldout.parquet"]
    )
    assert NAME in panels.names()
    found = FrozenPanel.find(NAME)
    assert found.faults() == []
    for name, log in (("explore", explore_log), ("heldout", held_out_log)):
        held = found.read(name)
        assert (held.runs, held.seeds) == (log.runs, log.seeds)
        for column in COLUMNS:
            rounded = log.panel(column).values.astype(np.float32)
            np.testing.assert_array_equal(held.panel(column).values, rounded)
    whole = read_runs(f"panel:{NAME}")
    assert RunLog.read(f"panel:{NAME}").fingerprint() == whole.fingerprint()
    assert (len(whole.runs), found.entry.item_count) == (70, 70)
    fields = design_for(whole, None, None)
    assert (fields.seeds_eval, fields.horizon) == (tuple(range(100, 140)), found.design().horizon)
    assert panel_of(whole) is not None
    assert panel_of(explore_log) is None


def test_load_dataset_reads_it(panel: FrozenPanel) -> None:
    from datasets import load_dataset

    rows = load_dataset(str(panel.folder))
    assert {part: len(rows[part].unique("run")) for part in rows} == {"explore": 30, "heldout": 40}


def test_its_card_says_how_its_runs_grok(panel: FrozenPanel, held_out_log: RunLog) -> None:
    text = panel.card.path.read_text(encoding="utf-8")
    assert "Does it \\<work\\>? A panel is frozen" in text
    assert "`gmb made it` with gmb_hf" in text
    curves = panel.record.curves
    assert curves is not None
    assert f"| share of runs that reach .9 | {curves.reach_nine_tenths:.3f} |" in text
    assert "path/to/this/folder" in text


def test_without_a_panel_nothing_is_pushed(
    commands: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(panels.PLACE, str(tmp_path))
    message = commands.refused("panel", "push", "me/panels")
    assert message == f"{tmp_path}: there is no panel to push; gmb panel build NAME makes one"


@pytest.mark.parametrize("file", ["explore.parquet", "heldout.parquet", "design.yaml"])
def test_a_changed_byte_is_named(panel: FrozenPanel, commands: Terminal, file: str) -> None:
    path = panel.folder / file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    message = rf"{file}: was changed \(SHA-256 \w+, the card says \w+\); a panel is frozen: restore"
    for use in (panel.check, panel.design, lambda: read_runs(f"panel:{NAME}")):
        with pytest.raises(InputError, match=message):
            use()
    code, out, _ = commands.gmb("panel", "verify", NAME)
    assert (code, f"{file}: was changed" in out) == (1, True)


def test_what_is_missing_or_unknown(panel: FrozenPanel, commands: Terminal) -> None:
    message = commands.refused("lock", "--runs=panel:made-op", "--out=lock.yaml")
    assert message.startswith("panel 'made-op' is unknown; known: ")
    assert message.endswith("Did you mean 'made-up'?")
    outside = f"../{panel.folder.parent.name}/{NAME}"  # where a panel lies, but by another way
    message = commands.refused("lock", f"--runs=panel:{outside}", "--out=lock.yaml")
    assert message.startswith(f"panel '{outside}' is unknown; known: ")
    whole = panel.card.path.read_text(encoding="utf-8")
    whole = "\n".join(line for line in whole.splitlines() if "x_checksum" not in line)
    away = whole.replace("  explore.parquet: ", f"  ../{NAME}/explore.parquet: ")
    assert away != whole
    panel.card.path.write_text(away, encoding="utf-8")
    message = commands.refused("evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini")
    assert f"/{NAME}/../{NAME}/explore.parquet is missing" in message
    panel.card.path.write_text(whole, encoding="utf-8")
    (panel.folder / "heldout.parquet").unlink()
    message = commands.refused("evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini")
    assert "panel 'made-up': panels/made-up/heldout.parquet is missing; copy panels/mad" in message
    assert commands.refused("panel", "build", NAME).startswith(f"panel {NAME!r} is unknown")


def test_scores_joined_to_a_panel_are_locked_next(panel: FrozenPanel, commands: Terminal) -> None:
    log = read_runs(f"panel:{NAME}")
    scores = log.with_rows(log.table.select(["run", "step", "embedding_gini"]))
    names = ["run", "step", "mine"]
    RunLog.from_table(scores.table.rename_columns(names)).write("mine.parquet")
    joining = ("runs", "join", f"--runs=panel:{NAME}", "--scores=mine.parquet", "--out=j.parquet")
    said = commands.done(*joining)
    assert "next    gmb lock --runs j.parquet --score mine --no-test-labels --out lock.yaml" in said


def test_from_a_lock_to_the_ledger(panel: FrozenPanel, commands: Terminal) -> None:
    commands.done("lock", f"--runs=panel:{NAME}", "--out=lock.yaml")
    judging = ("evaluate", "--lock=lock.yaml", f"--runs=panel:{NAME}", "--no-figures")
    commands.done(*judging)
    commands.done(*judging)  # the same look
    results = Results.read("results/results.yaml")
    (source,) = results.x_sources
    assert (source.repo, source.config) == (f"panel:{NAME}", NAME)
    assert results.summary.n_seeds == 40
    (looked,) = FrozenPanel.find(NAME).ledger().locks
    assert looked.lock_hash == yaml.safe_load(Path("lock.yaml").read_text())["x_lock"]["hash"]
    said = commands.done("panel", "show", NAME)
    assert f"locks   {NAME}: 1 of 200 locks have looked at its held-out runs." in said
    # The same lock, made again on another day, is no other look.
    lock = yaml.safe_load(Path("lock.yaml").read_text())
    lock["x_lock"]["created"] = "2026-01-01T00:00:00+00:00"
    lock["x_lock"]["hash"] = CHECKSUMS.of(lock)
    Path("again.yaml").write_text(yaml.safe_dump(lock))
    again = ("evaluate", "--lock=again.yaml", f"--runs=panel:{NAME}", "--no-figures")
    commands.done(*again, "--out=again")
    assert FrozenPanel.find(NAME).ledger().locks == (looked,)
    # A panel that is worn out is judged by no other lock; who looked before may look again.
    worn_out(panel)
    commands.done(*judging)
    message = commands.refused(
        "evaluate", f"--runs=panel:{NAME}", "--score=embedding_norm", "--out=other"
    )
    assert message == (
        f"panel {NAME!r}: 201 locks have judged its held-out runs, and its card allows 200; judge "
        "on runs that nobody has looked at"
    )


def test_one_score_without_a_lock_takes_thresholds_from_the_explore_part(
    panel: FrozenPanel, commands: Terminal
) -> None:
    first = ("evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini", "--no-figures")
    # The panel has a design: the next step is the lock, unless another event or gap was asked for.
    lock = f"next    gmb lock --runs panel:{NAME} --score embedding_gini"
    assert f"{lock} --out lock.yaml" in commands.done(*first)
    results = Results.read("results/results.yaml")
    assert results.summary.n_seeds == 40
    assert results.x_calibration is not None
    assert results.x_calibration.method == "explore"
    # It saw the held-out runs, and counts as a look: once, whenever it is asked again.
    commands.done(
        "evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini", "--no-figures", "--out=again"
    )
    (looked,) = panel.ledger().locks
    assert re.fullmatch("no lock: [0-9a-f]{64}", looked.lock_hash)
    other = ("evaluate", f"--runs=panel:{NAME}", "--score=embedding_norm", "--no-figures")
    commands.done(*other, "--out=other")
    assert [one.lock_hash[:8] for one in panel.ledger().locks] == ["no lock:"] * 2
    reversed_too = commands.done(*other, "--sign=-1", "--out=reversed")
    assert "--score embedding_norm --sign -1 --out lock.yaml" in reversed_too
    of_its_own = commands.done(*first, "--detection-min=.5", "--out=mine")
    assert "next    gmb lock --runs" in of_its_own
    assert "4 of 200 locks have looked" in commands.done("panel", "show", NAME)
    assert "4 of 200" in commands.done("panel", "list")
    worn_out(panel)
    worn = ("evaluate", f"--runs=panel:{NAME}", "--score=embedding_rank", "--out=worn")
    message = commands.refused(*worn)
    assert message.startswith(f"panel {NAME!r}: 204 locks have judged its held-out runs, and its")
    message = commands.refused(
        "evaluate", f"--runs=panel:{NAME}", "--score=a", "--explore-runs=panels"
    )
    assert message == f"--explore-runs: panel:{NAME} has its own; leave the option out"


def test_python_leaves_a_line_in_the_ledger_as_the_commands_do(panel: FrozenPanel) -> None:
    explored = panel.read("explore")
    design = panel.design()
    lock, _ = make_lock(design, explored)
    evaluate_runs(design, explored.select(explored.runs[:20]))
    assert panel.ledger().locks == ()  # nothing was judged that counts
    held = panel.read("heldout")
    evaluate_runs(design, held, explore=explored)
    judged = evaluate_lock(lock, part_of(panel.read(), design, "held-out")[0])
    assert judged.log.seeds == tuple(range(100, 140))
    hashes = [one.lock_hash for one in panel.ledger().locks]
    assert hashes[0].startswith("no lock: ")
    assert hashes[1:] == [lock.hash]
    worn_out(panel)
    other = design.replace(candidates=[{"name": "embedding_norm", "family": "spectral"}])
    others, _ = make_lock(other, explored)
    for judge in (lambda: evaluate_lock(others, held), lambda: evaluate_runs(other, held)):
        with pytest.raises(InputError, match="202 locks have judged its held-out runs"):
            judge()
    assert len(panel.ledger().locks) == 202


# Whatever file its held-out runs come by, the ledger counts.

TIMES = ("--metric=test_acc", "--horizon=100", "--safe-gap=200", "--no-figures")
ROUGH = ("--horizon=200", "--safe-gap=400", "--window=100", "--no-figures")


def worn_out(panel: FrozenPanel, locks: int = 200) -> bytes:
    """As many locks as the panel was published with; returns the bytes of that ledger."""
    others = [{"lock_hash": f"{number:064}", "date": "2026-01-01"} for number in range(locks)]
    path = panel.folder / "looks.yaml"
    path.write_text(yaml.safe_dump({"locks": others}))
    return path.read_bytes()


def test_runs_of_a_panel_count_whatever_file_they_come_by(
    panel: FrozenPanel, commands: Terminal
) -> None:
    held = panel.read("heldout")
    held.write("copy.parquet")
    frame = held.to_pandas()
    few = frame[frame.run.isin(held.runs[5:20]) & (frame.step % 100 == 0)]
    few = few.rename(columns={"test_acc": "accuracy"}).assign(run="mine_" + few.run)
    few.to_csv("few.csv", index=False, float_format="%.5g")
    percent = frame.assign(test_acc=100 * frame.test_acc, run="own_" + frame.run)
    percent[["run", "step", "test_acc", "embedding_gini"]].to_csv("percent.csv", index=False)
    scores = frame[["run", "step"]].assign(mine=frame.embedding_gini**2)
    scores[scores.step >= 200].to_csv("scores.csv", index=False)
    joining = ("runs", "join", "--runs=copy.parquet", "--scores=scores.csv", "--out=joined.parquet")
    commands.done(*joining)
    gini, path = "--score=embedding_gini", f"--runs=panels/{NAME}"
    asked = [
        (f"{path}/heldout.parquet", gini, *TIMES),
        (f"{path}/held*.parquet", gini, *TIMES, "--protocol=v0.4"),
        ("--runs=copy.parquet", gini, "--protocol=compat", "--no-figures"),
        ("--runs=few.csv", gini, "--metric=accuracy", *ROUGH),
        ("--runs=joined.parquet", "--score=mine", *TIMES),
        ("--runs=percent.csv", gini, "--jump=15", *TIMES),
    ]
    for count, words in enumerate(asked, start=1):
        said = commands.done("evaluate", *words, f"--out=out-{count}")
        sentence = f"{NAME}: {count} of 200 locks have looked at its held-out runs."
        assert f"note: {sentence}" in " ".join(said.split())
        assert sentence in Results.read(f"out-{count}/results.yaml").summary.x_notes
        assert sentence in " ".join(Path(f"out-{count}/report.md").read_text().split())
    assert len(panel.ledger().locks) == len(asked)
    commands.done("evaluate", f"{path}/explore.parquet", gini, *TIMES, "--out=free")
    assert len(panel.ledger().locks) == len(asked)


def test_to_explore_or_lock_on_held_out_runs_is_a_look(panel: FrozenPanel) -> None:
    design = panel.design().replace(seeds_explore=list(range(100, 140)), seeds_eval=[1, 2])
    explore(design, panel.read("heldout"), combinations=False)
    make_lock(design, panel.read("heldout"))
    assert len(panel.ledger().locks) == 1  # by the same design
    worn_out(panel)
    other = design.replace(horizon=60)
    for door in (explore, make_lock):
        with pytest.raises(InputError, match="201 locks have judged its held-out runs"):
            door(other, panel.read("heldout"))


def test_two_that_look_at_once_do_not_both_take_the_last_place(panel: FrozenPanel) -> None:
    published, held = worn_out(panel, 199), panel.read("heldout")
    first, second = ({"x_compat": name} for name in ("one", "other"))
    looks = [panel_looks(judge, "test_acc", held) for judge in (first, second)]
    assert looks[0].notes == [f"{NAME}: 200 of 200 locks have looked at its held-out runs."]
    looks[0].keep()
    with pytest.raises(InputError, match="200 locks have judged its held-out runs, and its card"):
        looks[1].keep()
    assert len(panel.ledger().locks) == 200
    # The ledger that it was published with is read, never written; one's own lies elsewhere.
    assert (panel.folder / "looks.yaml").read_bytes() == published
    assert panel.shared.path.parent == Path(os.environ["GMB_STATE"]) / "panels"
    assert "200 of 200" in panel.shared.said(first)


def test_a_ledger_that_cannot_be_kept_stops_the_evaluation(
    panel: FrozenPanel, commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("in-the-way").touch()
    monkeypatch.setenv("GMB_STATE", "in-the-way")
    message = commands.refused("evaluate", f"--runs=panel:{NAME}", "--score=embedding_gini")
    assert message.startswith("in-the-way/panels/")
    assert "could not be written: a " in message
    assert not Path("results").exists()


def test_the_number_of_looks_that_a_card_allows_is_not_edited(
    panel: FrozenPanel, commands: Terminal
) -> None:
    path = panel.card.path
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.replace("locks_allowed: 200", "locks_allowed: 999"), encoding="utf-8")
    for words in (
        ("panel", "show", NAME),
        ("evaluate", f"--runs=panels/{NAME}/heldout.parquet", "--score=embedding_gini", *TIMES),
    ):
        message = commands.refused(*words)
        assert f"{NAME}/README.md: gmb_panel: was edited after the panel was frozen" in message
        assert message.endswith("restore the card")
    # A card of an earlier version has no checksum, and is read.
    old = "\n".join(line for line in whole.splitlines() if "x_checksum" not in line)
    path.write_text(old, encoding="utf-8")
    assert FrozenPanel.find(NAME).record.locks_allowed == 200


def test_pushed_panels_are_one_dataset_with_a_config_each(
    panel: FrozenPanel, hub: Hub, commands: Terminal
) -> None:
    said = commands.done("panel", "push", "acme/panels")
    there = hub.repositories["dataset:acme/panels"]
    own = [f"{NAME}/{file}" for file in ("README.md", *panel.record.files)]
    assert sorted(there.files) == sorted(["README.md", *own])
    log = read_runs(f"hf://datasets/acme/panels@{there.sha}/{NAME}")
    assert log.fingerprint() == panel.read().fingerprint()
    assert f"gmb evaluate --runs hf://datasets/acme/panels@{there.sha}/{NAME}" in said


def test_a_panel_is_built_once_and_frozen(
    commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = preset("smoke").changed(
        ["training.steps=40", "seeds.explore=0:2", "seeds.evaluate=5:7", "task.prime=7"]
    )
    monkeypatch.setitem(panels.RECIPES, "tiny", Recipe("tiny", "Is it built", lambda: config))
    assert "tiny" in commands.done("panel", "list")
    message = commands.refused("panel", "show", "tiny")
    assert message.startswith("panel 'tiny': is not in ")
    assert message.endswith("train other runs of the same configuration: gmb panel build tiny")
    commands.done("panel", "build", "tiny", "--jobs=1")
    panel = FrozenPanel.find("tiny")
    assert panel.read("heldout").seeds == (5, 6)
    assert panel.record.command == "gmb panel build tiny"
    assert Path("runs/panels/tiny/logs").is_dir()
    message = commands.refused("panel", "build", "tiny")
    assert message == "panels/tiny: holds a panel, which is frozen; choose another --out"


def test_where_there_is_none_the_list_says_so(
    commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(panels.PLACE, "nowhere")
    monkeypatch.setattr(panels, "RECIPES", {})
    said = commands.done("panel", "list")
    assert said.startswith("No panel is frozen yet: none lies in the folder")


def test_the_shape_of_curves_by_hand() -> None:
    """Memorised at 30 with .04, .5 at 240, from .2 at 200 to .8 at 280; one spike in 28 rows."""
    steps = np.arange(0, 310, 10)
    train = np.where(steps >= 30, 1.0, 0.5)
    train[10] = 0.9
    test = np.full(31, 0.04)
    test[20:] = np.clip(0.2 + 0.075 * np.arange(11), 0, 0.95)
    never = np.full(31, 0.04)
    log = RunLog.from_arrays(
        ["a", "b"],
        steps,
        {"train_acc": np.stack([train, train * 0.5]), "test_acc": np.stack([test, never])},
    )
    shape = CurveShape.of(log)
    np.testing.assert_array_equal(shape.memorised, [30, np.nan])
    np.testing.assert_array_equal(shape.reached[0.5], [240, np.nan])
    np.testing.assert_array_equal(shape.at_memorisation, [0.04, np.nan])
    np.testing.assert_allclose(shape.ratio, [8, np.nan])
    np.testing.assert_allclose(shape.width, [80 / 210, np.nan])
    np.testing.assert_allclose(shape.spikes, [1 / 28, np.nan])
    summary = shape.summary()
    assert (summary.memorised, summary.reach_half, summary.spread) == (0.5, 0.5, 1.0)


def test_a_column_that_a_panel_lacks_is_said_to_be_in_which_one(
    panel: FrozenPanel, commands: Terminal, explore_log: RunLog, design: Design
) -> None:
    judging = ("evaluate", "--runs", f"panel:{NAME}", "--score", "effective_rank")
    message = commands.refused(*judging)
    assert "column 'unembedding_rank' missing" in message
    assert message.endswith("; no panel here has it")
    other = Recipe("other", "Has it more", lambda: preset("smoke"))
    panels.freeze(other, {"explore": explore_log}, design, Path("panels/other"), command="by hand")
    assert commands.refused(*judging).endswith("; panels that have it: other")


PANELS = Path(__file__).resolve().parents[2] / panels.FOLDER
"""Those that the repository holds."""


@pytest.mark.parametrize("name", sorted(path.parent.name for path in PANELS.glob("*/README.md")))
def test_a_panel_of_the_repository_is_as_its_card_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(panels.PLACE, str(PANELS))
    found = FrozenPanel.find(name)
    assert found.faults() == []
    assert all(path.stat().st_size <= 25e6 for path in found.parts.values())
    assert name in panels.RECIPES
    log = found.read()
    assert found.entry.item_count == len(log.runs)
    assert set(log.observables) >= {found.design().metric}


def test_the_runs_of_others_are_judged_without_a_split(
    commands: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(panels.PLACE, str(PANELS))
    judging = ("evaluate", "--runs", "panel:reference", "--score", "score", "--no-figures")
    commands.done(*judging)
    results = Results.read("results/results.yaml")
    assert results.summary.n_events == 20
    assert results.indicators[0].x_reasons == ("few_events", "not_locked")
    assert "evaluate --runs panel:reference" in commands.done("panel", "show", "reference")


def test_whose_runs_make_a_panel(
    commands: Terminal, monkeypatch: pytest.MonkeyPatch, explore_log: RunLog
) -> None:
    monkeypatch.setenv(panels.PLACE, "mine")
    explore_log.write("runs.csv")
    assert commands.refused("panel", "build", "reference") == (
        "panel 'reference': is made of the logs of others; name them by --runs"
    )
    assert commands.refused("panel", "build", "quick-29", "--runs", "runs.csv") == (
        "panel 'quick-29': is trained; leave out --runs"
    )
    source = str(PANELS / "reference" / "explore.parquet")
    said = commands.done("panel", "build", "reference", "--runs", source)
    assert said.startswith("20 runs are frozen.")
    made, shipped = (
        FrozenPanel.find("reference"),
        (PANELS / "reference/explore.parquet").read_bytes(),
    )
    assert made.parts["explore"].read_bytes() == shipped
    assert "Qien Huang" in made.card.path.read_text(encoding="utf-8")
