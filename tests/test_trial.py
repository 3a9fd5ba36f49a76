"""`gmb trial` on two small panels: its numbers are those of the panels' results, and it resumes."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from gmb_hf import Design, InputError, Lock, RunLog, make_lock, preset
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.results import Results
from gmb_hf.hub import panels
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import Recipe
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.claims import CLAIMS
from gmb_hf.jobs.trial import KINDS, measured, trial

COLUMNS = ("test_acc", "train_acc", "embedding_gini", "embedding_norm", "embedding_rank")


def part(log: RunLog, cut: int) -> RunLog:
    values = {name: log.panel(name).values for name in COLUMNS}
    values["embedding_gini"] = values["embedding_gini"] * cut
    return RunLog.from_arrays(log.runs, log.panel("step").steps[0], values, seeds=log.seeds)


@pytest.fixture
def folder(
    tmp_path: Path,
    design: Design,
    explore_log: RunLog,
    held_out_log: RunLog,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Two panels, the second with a score of another scale."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(panels.PLACE, "panels")
    seeds = {"seeds_explore": list(range(30)), "seeds_eval": list(range(100, 140))}
    chosen = design.replace(**seeds, null_draws=199, bootstrap_draws=50)
    for name, scale in (("first", 1), ("second", 3)):
        parts = {"explore": part(explore_log, scale), "heldout": part(held_out_log, scale)}
        recipe = Recipe(name, "A question", lambda: preset("smoke"))
        panels.freeze(recipe, parts, chosen, Path("panels", name), command="by hand")
    return Path("trial")


def test_a_trial_from_panels_to_one_page(folder: Path) -> None:
    found = trial(["all"], folder, figures=False)
    assert found.panels == ("first", "second")
    assert {path.name for path in found.paths} >= {"report.md", "trial.png", "trial.csv"}
    assert all(path.stat().st_size for path in found.paths)
    # Every number is that of the results of its panel.
    with (folder / "tables" / "trial.csv").open() as file:
        rows = {(row["panel"], row["signal"]): row for row in csv.DictReader(file)}
    for name in found.panels:
        results = Results.read(folder / name / "results.yaml")
        assert {signal for panel, signal in rows if panel == name} == {
            item.name for item in results.indicators
        }
        for item in results.indicators:
            assert item.x_first_alarm is not None
            at = item.x_first_alarm.at(0.05)
            row = rows[name, item.name]
            assert row["label"] == item.label
            assert float(row["detection_rate"]) == at.detection_rate
            point = item.point(0.05)
            assert point is not None
            assert float(row["coverage"]) == point.coverage
            assert int(row["n_runs"]) == at.n_runs
        looks = FrozenPanel.find(name).ledger().locks
        assert len(looks) == 2  # each panel has the runs of the other one; transfers do not count
    # A score times three is the same alarm by thresholds times three, and not by those of one.
    first, second = (rows[name, "embedding_gini"] for name in found.panels)
    for rate in ("detection_rate", "false_alarm_rate"):
        assert first[rate] == second[rate]
    matrix = {(one.lock_of, one.panel): one for one in found.transfers}
    assert set(matrix) == {("first", "second"), ("second", "first")}
    page = (folder / "report.md").read_text(encoding="utf-8")
    for kind in {row.kind for row in found.rows}:
        assert f"## {KINDS[kind]}" in page
    # Each claim stands beside what was measured, signals of other kinds told apart.
    detected = float(rows["first", "embedding_gini"]["detection_rate"])
    said = f"Here `embedding_gini` (knows the task) detected {detected:.0%} ["
    assert said in next(line for line in page.splitlines() if "**Fourier concentration**" in line)
    assert page.count("Not measured: no panel of this trial has its columns.") > 20
    # Of many panels a sentence names the least and the most.
    claim = next(claim for claim in CLAIMS if "embedding_gini" in claim.indicators)
    own = [row for row in found.rows if row.item.name == "embedding_gini"]
    shares = {"a": 0.5, "b": 0.25, "c": 1.0, "d": 0.75}
    many = [
        own[0]._replace(panel=panel, at=own[0].at.model_copy(update={"detection_rate": share}))
        for panel, share in shares.items()
    ]
    text = measured(claim, many, [*shares])
    assert re.search(r"detected 25% \[[\d, ]+\] on b to 100% \[[\d, ]+\] on c \(", text), text
    # Of several measures the best on average comes first, and where another one detected more.
    item = own[0].item.model_copy(update={"name": "embedding_top8"})
    at = own[0].at.model_copy(update={"detection_rate": 0.875})
    other = [own[0]._replace(panel="a", item=item, at=at)]
    text = measured(claim, [many[1], *other, many[2]], ["a", "b", "c"])
    assert text.startswith("Here the best of 2 measures on average, `embedding_top8` (knows"), text
    assert text.endswith(", and the highest rate of another is 100%, `embedding_gini` on c.")
    # The same call judges nothing again.
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("results.yaml")}
    again = trial(["first", "second"], folder, figures=False, jobs=2)
    assert [row.at for row in again.rows] == [row.at for row in found.rows]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("results.yaml")} == before


def test_what_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"panel 'first1' is unknown; .* Did you mean 'first'"):
        trial(["first1"], folder)
    (folder / "second").mkdir(parents=True)
    own = trial(["first"], folder, figures=False)
    assert own.transfers == ()
    (folder / "second" / "lock.yaml").write_bytes((folder / "first" / "lock.yaml").read_bytes())
    message = "second/lock.yaml: is a lock of another panel, or of another design; choose another"
    with pytest.raises(InputError, match=message):
        trial(["first", "second"], folder, figures=False, jobs=1)


def test_a_lock_has_a_look_of_its_own_at_each_other_panel(
    design: Design, explore_log: RunLog, held_out_log: RunLog, tmp_path: Path
) -> None:
    """In one process, too, where a lock that is copied is no other lock."""
    one = design.replace(candidates=design.candidates[:1], null_draws=100, bootstrap_draws=50)
    lock = make_lock(one, explore_log)[0]
    parts = (held_out_log.runs[:20], held_out_log.runs[20:])
    for number, runs in enumerate(parts):
        own = Lock.read(lock.write(tmp_path / str(number) / "lock.yaml"))
        found = evaluate_lock(own, held_out_log.select(runs), transfer=True, counted=True)
        assert found.results.summary.x_look == 1
    own = Lock.read(lock.write(tmp_path / "own" / "lock.yaml"))
    assert evaluate_lock(own, held_out_log).results.summary.x_look == 1
    copy = Lock.read(lock.write(tmp_path / "copy" / "lock.yaml"))
    with pytest.raises(InputError, match="allows 1 look at held-out runs"):
        evaluate_lock(copy, held_out_log.select(parts[0]))


def test_every_published_signal_has_its_claim_once() -> None:
    said = [name for claim in CLAIMS for name in claim.indicators]
    assert len(said) == len(set(said))
    published = {name for name in catalogue.names() if catalogue.get(name).published}
    assert published - {"train_loss"} <= set(said) <= set(catalogue.names())
