"""`gmb run` and `gmb train`: from seeds to a verdict in one folder that resumes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import SMOKE, Outcome, gmb, refused
from drawing import empty_figures
from synthetic import synthetic_runlog

from gmb_hf import Results, RunLog
from gmb_hf.benchmark.prepare import available_candidates
from gmb_hf.design.lock import Lock
from gmb_hf.training.folder import check_config
from gmb_hf.training.presets import preset
from gmb_hf.training.stacked import SeedStack

TINY = (
    "train",
    "--preset=smoke",
    "--set=training.steps=20",
    "--set=task.prime=7",
    "--set=training.compile=never",
)
Smoke = tuple[Path, Outcome]


JUDGED = ("csd_variance", "curvature", "disagreement_drop", "effective_rank", "excluded_loss")


@pytest.fixture(autouse=True, scope="module")
def _few_candidates() -> Iterator[None]:
    """Of some forty scores that these logs can feed, a few of each kind are candidates."""

    def few(log: RunLog) -> list[dict[str, Any]]:
        return [item for item in available_candidates(log) if item["name"] in JUDGED]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gmb_hf.benchmark.prepare.available_candidates", few)
        yield


@pytest.fixture(scope="module")
def smoke(_few_candidates: None, tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """One `gmb run --preset smoke` that many tests look at and none changes."""
    folder = tmp_path_factory.mktemp("smoke") / "run"
    with empty_figures():
        done = gmb(*SMOKE, "--out", folder, figures=True)
    assert done.code == 0, done
    return folder, done


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by its relative path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def without_figures(document: bytes) -> list[bytes]:
    """The lines of a document that show no figure."""
    return [line for line in document.splitlines() if line and not line.startswith(b"![")]


class TestWhatARunLeaves:
    def test_every_file_of_the_plan(self, smoke: Smoke):
        names = contents(smoke[0]).keys()
        expected = {
            "config.yaml",
            "data/README.md",
            "data/add_p19/full-00000-of-00001.parquet",
            "explore.csv",
            "lock.yaml",
            "lock.looks.yaml",
            "results.yaml",
            "report.md",
            "report.html",
            "curves.json",
            "card/README.md",
            "card/training.png",
            "card/verdicts.png",
            "models/seed_1000/config.json",
            "models/seed_1000/log.parquet",
            "models/seed_1000/model.safetensors",
            "models/seed_1000/tokenizer.json",
        }
        tables = ("first_alarm", "other_events", "gate_summary", "utility_at_fpr", "robustness")
        expected |= {f"tables/{name}.{kind}" for name in tables for kind in ("csv", "md", "tex")}
        figures = (
            "first_alarm",
            "label_summary",
            "fpr_control",
            "grokking_curves",
            "scores_around_event",
        )
        expected |= {f"figures/{name}.{kind}" for name in figures for kind in ("png", "svg")}
        assert expected <= names
        others = names - expected
        known = ("logs/seeds-", "figures/lead_times", "figures/missed_events", "models/seed_1000/")
        assert not [name for name in others if not name.startswith(known)]
        assert not any("state" in name or name.endswith(".tmp") for name in others)

    def test_ends_with_answer_table_files_and_next_command(self, smoke: Smoke):
        folder, done = smoke
        lines = done.out.splitlines()
        assert "may raise an alarm yet with a budget of 1 run in 20" in done.out
        assert any(line.startswith("score ") and "detect" in line for line in lines)
        assert any(line.startswith("clock ") for line in lines)
        written = [line.removeprefix("wrote   ") for line in lines if line.startswith("wrote")]
        assert written[0] == str(folder / "report.md")
        assert written[1] == str(folder / "report.html")
        assert written[2] == str(folder / "figures" / "first_alarm.png")
        assert done.next_command == "gmb run --preset quick --out runs/quick"

    def test_the_linters_warnings_are_shown(self, smoke: Smoke):
        assert "warning [few_runs_for_target]" in smoke[1].out

    def test_logs_hold_every_seed_and_what_made_them(self, smoke: Smoke):
        log = RunLog.read(smoke[0] / "logs")
        assert set(log.seeds) == {*range(22), *range(1000, 1006)}
        assert log.metadata["preset"] == "smoke"
        assert log.metadata["design"]["seeds"]["explore"] == "0:22"
        assert {"train_loss", "test_acc", "embedding_gini", "disagreement"} <= set(log.observables)

    def test_held_out_runs_alone_are_judged(self, smoke: Smoke):
        lock, results = Lock.read(smoke[0] / "lock.yaml"), Results.read(smoke[0] / "results.yaml")
        assert set(lock.x_lock.explore_seeds) == set(range(22))
        assert set(results.boundary.seeds_eval) == set(range(1000, 1006))
        assert results.x_provenance is not None
        assert results.x_provenance.lock_hash == lock.hash

    def test_the_data_loads_as_a_dataset(self, smoke: Smoke, monkeypatch: pytest.MonkeyPatch):
        rows = pq.read_table(smoke[0] / "data" / "add_p19" / "full-00000-of-00001.parquet")
        assert rows.num_rows == 19 * 19
        first = rows.slice(5, 1).to_pylist()[0]
        assert first["answer"] == (first["a"] + first["b"]) % 19
        card = (smoke[0] / "data" / "README.md").read_text(encoding="utf-8")
        assert "gmb_fingerprint:" in card
        assert str(smoke[0]) not in card, "the card must not depend on where it lies"


@pytest.fixture(scope="module")
def copy(smoke: Smoke, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run once more, to be tried to change."""
    folder = tmp_path_factory.mktemp("resume") / "run"
    shutil.copytree(smoke[0], folder)
    return folder


class TestUnsound:
    """What cannot be locked is refused before it is trained for."""

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ("benchmark.primary_fpr=0.07", "benchmark: primary_fpr 0.07 is not among"),
            (
                "benchmark.also_events=[{type: E_jump, window_W_event: 55}]",
                "[event_window_off_cadence] x_also_events, E_jump 0.2 in 55: window_W_event 55",
            ),
            ("benchmark.window_sweep=55,60", "[window_off_cadence] window_sweep 55"),
            ("seeds.explore=0:5", "[few_runs_for_primary] a threshold for"),
            ("seeds.evaluate=1000:1002", "[run_groups_exceed_runs]"),
        ],
    )
    def test_nothing_is_trained(self, change: str, named: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("gmb_hf.training.seeds.train_group", _must_not_run)
        assert named in refused(*SMOKE, "--out=x", f"--set={change}")
        assert not Path("x").exists()


class TestResume:
    def test_trains_nothing_and_writes_the_same_bytes(
        self, copy: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("gmb_hf.training.seeds.train_group", _must_not_run)
        before = contents(copy)
        assert gmb(*SMOKE, "--out", copy).code == 0
        shows_figures = ("report.md", "card/README.md")
        after = contents(copy)
        for name in shows_figures:  # the same but for the figures, which were not drawn again
            assert without_figures(after.pop(name)) == without_figures(before.pop(name))
        assert after == before

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ("training.lr=1e-3", "config.yaml: this folder holds runs of another config"),
            ("task.prime=23", "task.prime: 19 -> 23"),
            ("benchmark.horizon=70", "positive_window.horizon_steps: 60 -> 70"),
            ("seeds.explore=0:30", "lock.yaml: this folder was locked with another design"),
            ("seeds.evaluate=1000:1009", "boundary.seeds_eval"),
        ],
    )
    def test_another_config_or_design_is_refused_and_nothing_changes(
        self, copy: Path, change: str, named: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("gmb_hf.training.seeds.train_group", _must_not_run)
        before = contents(copy)
        message = refused(*SMOKE, "--out", copy, f"--set={change}")
        assert named in message
        assert "choose another --out" in message
        assert contents(copy) == before

    def test_an_edited_lock_is_refused_before_anything_else(self, copy: Path):
        lock = copy / "lock.yaml"
        text = lock.read_text(encoding="utf-8")
        lock.write_text(text.replace("sign: 1", "sign: -1", 1), encoding="utf-8")
        assert "was edited after it was locked" in refused(*SMOKE, "--out", copy)
        lock.write_text(text, encoding="utf-8")

    def test_other_explore_runs_than_the_locked_ones(self, copy: Path):
        path = next((copy / "logs").glob("*.parquet"))
        kept = path.read_bytes()
        log = RunLog.read(path)
        index = log.table.column_names.index("curvature")
        values = pa.array(log.table["curvature"].to_numpy() + 1)
        changed = log.table.set_column(index, "curvature", values)
        RunLog.from_table(changed, metadata=log.metadata).write(path)
        message = refused(*SMOKE, "--out", copy)
        assert "was made on other explore runs" in message
        path.write_bytes(kept)


class TestAfterTheRun:
    """The logs of a run are input for the other commands."""

    def test_explore_uses_the_design_the_logs_were_trained_for(self, smoke: Smoke):
        done = gmb("explore", "--runs", smoke[0] / "logs", "--out=explore.csv")
        assert done.code == 0, done
        assert "6 runs were set aside" in done.out
        assert Path("explore.csv").read_bytes() == (smoke[0] / "explore.csv").read_bytes()

    def test_lock_and_evaluate_find_the_same_numbers(self, smoke: Smoke):
        assert gmb("lock", "--runs", smoke[0] / "logs", "--out=new.yaml").code == 0
        ours, theirs = Lock.read("new.yaml"), Lock.read(smoke[0] / "lock.yaml")
        assert ours.x_lock.candidates == theirs.x_lock.candidates
        # The commit is that of the folder in which the lock was made.
        theirs_commit = {"commit_hash": theirs.design.commit_hash}
        assert ours.design.model_copy(update=theirs_commit) == theirs.design
        done = gmb("evaluate", "--lock=new.yaml", "--runs", smoke[0] / "logs")
        assert done.code == 0, done
        assert "22 runs were set aside" in done.out
        again = Results.read("results/results.yaml").indicators
        assert again == Results.read(smoke[0] / "results.yaml").indicators

    def test_indicators_that_the_logs_can_feed(self, smoke: Smoke):
        done = gmb("indicators", "--runs", smoke[0] / "logs")
        assert "embedding_gini " in done.out
        assert "correction_rate" not in done.out, "no label is corrupted in these logs"


class TestTrain:
    def test_run_logs_only(self):
        done = gmb(*TINY, "--seeds=3,5", "--out=logs only")
        assert done.code == 0, done
        assert set(RunLog.read("logs only/logs").seeds) == {3, 5}
        assert {path.name for path in Path("logs only").iterdir()} >= {"config.yaml", "logs"}
        assert not Path("logs only/results.yaml").exists()
        assert done.next_command == "gmb explore --runs 'logs only/logs'"

    def test_more_seeds_are_added_and_none_is_trained_twice(self):
        assert gmb(*TINY, "--seeds=3,5", "--out=t").code == 0
        before = contents(Path("t"))
        assert gmb(*TINY, "--seeds=3:7", "--out=t").code == 0
        assert set(RunLog.read("t/logs").seeds) == {3, 4, 5, 6}
        assert before.items() <= contents(Path("t")).items()

    def test_engine_single_gives_the_same_losses(self):
        for engine in ("single", "stacked"):
            assert gmb(*TINY, "--seeds=3", f"--engine={engine}", f"--out={engine}").code == 0
        single, stacked = (RunLog.read(f"{name}/logs") for name in ("single", "stacked"))
        assert single.panel("train_loss").values == pytest.approx(
            stacked.panel("train_loss").values, rel=1e-4
        )

    def test_one_field_changes_with_set(self):
        assert gmb(*TINY, "--seeds=1", "--set=training.lr=3e-3", "--out=t").code == 0
        assert RunLog.read("t/logs").metadata["config"]["training"]["lr"] == 3e-3


class TestInterrupted:
    """Ctrl-C at any moment, and the same command goes on."""

    @pytest.fixture
    def interrupt(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
        """Press Ctrl-C after so many updates; states are saved at every checkpoint."""
        monkeypatch.setattr("gmb_hf.training.seeds.SAVE_EVERY_SECONDS", 0.0)
        update = SeedStack.update

        def press_after(updates: int) -> None:
            left = iter(range(updates))

            def pressed(self: SeedStack) -> None:
                if next(left, None) is None:
                    raise KeyboardInterrupt
                update(self)

            monkeypatch.setattr(SeedStack, "update", pressed)

        yield press_after
        monkeypatch.setattr(SeedStack, "update", update)

    def test_says_how_to_go_on_and_ends_with_the_same_log(self, interrupt: Callable[[int], None]):
        assert gmb(*TINY, "--seeds=0:3", "--out=whole").code == 0
        interrupt(15)
        done = gmb(*TINY, "--seeds=0:3", "--out=t")
        assert done.code == 130
        message = done.err.splitlines()[-1]  # the progress bar stands above it
        assert message.startswith("interrupted; ")
        assert "the same command goes on" in message
        assert not list(Path("t/logs").glob("*"))
        assert list(Path("t/state").glob("*.safetensors"))
        interrupt(10)  # the ten updates from step 10, where the state was saved, to the end
        assert gmb(*TINY, "--seeds=0:3", "--out=t").code == 0
        whole, resumed = contents(Path("whole")), contents(Path("t"))
        assert resumed == whole

    def test_another_config_in_the_same_folder_is_refused_and_the_state_kept(
        self, interrupt: Callable[[int], None]
    ):
        interrupt(15)
        assert gmb(*TINY, "--seeds=0:3", "--out=t").code == 130
        before = contents(Path("t"))
        message = refused(*TINY, "--seeds=0:3", "--out=t", "--set=training.lr=1e-3")
        assert "training.lr: 0.01 -> 0.001" in message
        assert contents(Path("t")) == before


def _must_not_run(*_: object, **__: object) -> None:
    pytest.fail("nothing was left to train")


def test_metadata_is_plain_json(smoke: Smoke):
    path = next((smoke[0] / "logs").glob("*.parquet"))
    held = json.loads(pq.read_schema(path).metadata[b"gmb"])
    assert held["task"] == "add_p19, 80% train, shared tokens"
    assert held["checkpoint_every_steps"] == 10


def test_a_finished_training_answers_without_loading_torch(monkeypatch: pytest.MonkeyPatch):
    """The command takes two seconds, most of which would be torch's."""
    monkeypatch.setitem(sys.modules, "gmb_hf.training.seeds", None)  # to import it is an error
    check_config(Path("out"), preset("smoke").training_identity())
    log = synthetic_runlog(3)
    log.metadata["config_hash"] = preset("smoke").training_hash()
    log.write("out/logs/seeds-0-2-n3.parquet")
    seeds = ",".join(map(str, log.seeds))
    training = ("train", "--preset=smoke", "--out=out", f"--seeds={seeds}")
    done = gmb(*training)
    assert (done.code, done.next_command) == (0, "gmb explore --runs out/logs")
    assert "out/logs/seeds-0-2-n3.parquet" in done.out
    message = refused(*training, "--set=training.steps=410")
    assert "this folder holds runs of another config (training.steps: 400 -> 410)" in message
    with pytest.raises(ImportError):
        gmb("-v", *training, "--device=cpu")
