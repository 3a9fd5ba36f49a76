"""An evaluation as files, and the data of a run as a dataset."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
import pytest
import yaml
from drawing import empty_figures
from evaluation_builders import NAMES, results

from gmb_hf import Design, Results, RunLog, preset
from gmb_hf.base.fingerprints import content_hash
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock, evaluate_runs
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.hub.datasets import write_data
from gmb_hf.report.curves import grokking_curves
from gmb_hf.report.figures import ROWS_FROM, draw, draw_with_runs
from gmb_hf.report.report import publish


@pytest.fixture(scope="module")
def evaluation(design: Design, held_out_log: RunLog) -> Evaluation:
    return evaluate_runs(design, held_out_log)


@pytest.fixture(scope="module")
def published(evaluation: Evaluation, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("results")
    return publish(evaluation, folder, note="Read *this*.", next_command="gmb next --out x")


class TestPublish:
    def test_the_report_comes_first_and_every_file_exists(self, published: list[Path]):
        assert published[0].name == "report.md"
        assert all(path.stat().st_size for path in published)
        folder = published[0].parent
        assert {path for path in folder.rglob("*") if path.is_file()} == {*published}

    def test_figures_that_this_evaluation_has_data_for(self, published: list[Path]):
        names = {path.stem for path in published if path.suffix == ".png"}
        assert names == {
            "first_alarm",
            "grokking_curves",
            "scores_around_event",
        }

    def test_gates_and_lead_times_of_many_scores_are_drawn(self):
        few, many = (draw(results([*NAMES][:count])) for count in (ROWS_FROM - 1, ROWS_FROM))
        assert {*many} - {*few} == {"summary", "fpr", "leads"}

    def test_note_and_next_command_stand_in_the_report(self, published: list[Path]):
        text = published[0].read_text(encoding="utf-8")
        assert "> Read *this*." in text
        assert "gmb next --out x" in text
        for path in published:
            if path.suffix == ".png":
                assert f"figures/{path.name}" in text

    def test_results_read_back(self, published: list[Path], evaluation: Evaluation):
        path = next(path for path in published if path.name == "results.yaml")
        assert Results.read(path) == evaluation.results

    def test_around_the_event_stands_the_threshold_of_the_first_alarm(
        self, design: Design, explore_log: RunLog, held_out_log: RunLog, evaluation: Evaluation
    ):
        judged = evaluate_lock(make_lock(design, explore_log)[0], held_out_log)
        axes = draw_with_runs(judged)["aligned"].axes[0]
        best = judged.results.indicator(axes.get_title("left")).x_first_alarm
        assert best is not None
        assert "alarm: 1 run in 20" in [text.get_text() for text in axes.texts]
        assert best.at(0.05).threshold in [line.get_ydata()[0] for line in axes.lines]
        # Without a lock the thresholds differ by run, so that none is drawn for all of them.
        axes = draw_with_runs(evaluation)["aligned"].axes[0]
        assert not any("alarm" in text.get_text() for text in axes.texts)

    def test_without_events_there_is_nothing_to_align(
        self, design: Design, held_out_log: RunLog, tmp_path: Path
    ):
        flat = evaluate_runs(design.replace(jump_threshold=5.0), held_out_log)
        with empty_figures():
            names = {path.stem for path in publish(flat, tmp_path) if path.suffix == ".png"}
        assert names.isdisjoint({"scores_around_event", "lead_times"})
        assert "grokking_curves" in names

    def test_a_metric_of_another_name(self, held_out_log: RunLog):
        renamed = [
            {"test_acc": "acc_test", "train_acc": "acc_train"}.get(name, name)
            for name in held_out_log.table.column_names
        ]
        log = RunLog.from_table(held_out_log.table.rename_columns(renamed))
        figure = grokking_curves(log, "acc_test", np.full(len(log.runs), np.nan))
        top = figure.axes[0]
        assert top.get_ylabel() == "accuracy"
        drawn = [lines.get_segments() for lines in top.collections]
        train = log.panel("acc_train").values
        assert np.array_equal(drawn[0][0][:, 1], train[0][np.isfinite(train[0])])


class TestData:
    def test_a_folder_that_datasets_loads(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        config = preset("smoke")
        card, parquet = write_data(config, tmp_path / "data")
        monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
        rows = datasets.load_dataset(
            str(card.parent), "add_p19", split="full", cache_dir=str(tmp_path / "cache")
        )
        task = config.task.build()
        assert rows.num_rows == 19 * 19
        assert np.array_equal(rows["input_ids"], task.rows())
        assert parquet == tmp_path / "data" / "add_p19" / "full-00000-of-00001.parquet"
        header = yaml.safe_load(card.read_text(encoding="utf-8").split("---")[1])
        entry = header["gmb_fingerprint"]["add_p19"]
        items = [{"split": "full", "row": row} for row in rows]
        assert entry["content_hash"] == content_hash(items)
        assert entry["fingerprint"] == f"{content_hash(items)[:16]}|null|361"

    def test_the_same_config_gives_the_same_bytes_anywhere(self, tmp_path: Path):
        first = write_data(preset("quick"), tmp_path / "a")
        second = write_data(preset("quick"), tmp_path / "b" / "c")
        assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ("task.data_seed=42", "drawn from seed 42"),
            ("task.train_rows=100", "Runs train on 100 of them"),
            ("task.train_fraction=0.75", "Runs train on 0.75 of them"),
        ],
    )
    def test_the_card_says_how_runs_split_it(self, tmp_path: Path, change: str, text: str):
        card, _ = write_data(preset("smoke").changed([change]), tmp_path)
        assert text in card.read_text(encoding="utf-8")
