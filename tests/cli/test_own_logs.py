"""`gmb evaluate --runs FILES --score COLUMN`: somebody's own logs, no training and no lock."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from command_line import COLUMNS, DESIGN, FEW_DRAWS, gmb, refused
from drawing import empty_figures
from synthetic import synthetic_runlog

from gmb_hf import Results

SCORES = ("--score=embedding_gini", "--score=train_acc", "--no-test-labels")


def labels(folder: str | Path) -> dict[str, str]:
    results = Results.read(Path(folder) / "results.yaml")
    return {item.name: item.label for item in results.indicators}


def test_from_logs_to_a_verdict_with_every_file(csv_logs: Path):
    scores = (*SCORES, "--score=test_loss_drop")
    with empty_figures():
        done = gmb("evaluate", "--runs", csv_logs, *scores, *DESIGN, figures=True)
    assert done.code == 0, done
    # Nothing is promised without a lock, and 48 runs cannot show a budget of 1 run in 20.
    assert labels("results")["embedding_gini"] == "INCONCLUSIVE"
    assert {"clock", "constant"} <= labels("results").keys()
    assert "None of 2 scores may raise an alarm yet" in done.out
    assert done.next_command.startswith("gmb plan --pilot ")
    assert "48 runs with 48 events are too few to lock" in " ".join(done.out.split())
    names = {path.name for path in Path("results").rglob("*")}
    for table in ("gate_summary", "utility_at_fpr", "robustness"):
        assert {f"{table}.csv", f"{table}.md", f"{table}.tex"} <= names
    for figure in ("first_alarm", "grokking_curves", "scores_around_event"):
        assert {f"{figure}.png", f"{figure}.svg"} <= names
    assert "report.md" in names
    files = [line for line in done.out.splitlines() if line.startswith("wrote")]
    assert files[:2] == [
        "wrote   results/report.md",
        "wrote   results/report.html",
    ]


class TestGates:
    """Exit code 1 is for a check that was asked for, and only then."""

    def test_supported_without_a_lock(self, csv_logs: Path):
        done = gmb("evaluate", "--runs", csv_logs, *SCORES, *DESIGN, "--require-supported")
        assert done.code == 1
        assert "no: no score may raise an alarm; without --lock none ever may" in done.err
        assert not Path("results/figures").exists()  # `gmb` of these tests says --no-figures
        assert "![" not in Path("results/report.md").read_text(encoding="utf-8")

    def test_not_supported(self, csv_logs: Path):
        options = ("--score=train_acc", *DESIGN, "--require-supported")
        message = refused("evaluate", "--runs", csv_logs, *options, code=1)
        assert message.startswith("no: no score may raise an alarm")
        assert Path("results/results.yaml").exists()

    def test_not_asked_for(self, csv_logs: Path):
        assert gmb("evaluate", "--runs", csv_logs, "--score=train_acc", *DESIGN).code == 0

    def test_a_control_supports_nothing(self, csv_logs: Path):
        options = ("--score=clock", *DESIGN, "--require-supported")
        assert gmb("evaluate", "--runs", csv_logs, *options).code == 1


def test_same_command_same_bytes(csv_logs: Path):
    for out in ("one", "two"):
        assert gmb("evaluate", "--runs", csv_logs, *SCORES, *DESIGN, "--out", out).code == 0
    for name in ("results.yaml", "report.md", "tables/gate_summary.csv"):
        assert (Path("one") / name).read_bytes() == (Path("two") / name).read_bytes()


def test_a_column_comes_before_the_indicator_of_its_name(csv_logs: Path):
    done = gmb("evaluate", "--runs", csv_logs, *SCORES, "--score=test_loss_drop", *DESIGN)
    assert done.code == 0, done
    results = Results.read("results/results.yaml")
    families = {item.name: item.family for item in results.indicators}
    assert families["embedding_gini"] == "external"
    assert families["test_loss_drop"] != "external"
    note = "Columns of the log, not the indicators of that name: embedding_gini."
    assert note in results.summary.x_notes
    assert f"note: {note}" in done.out


def test_what_the_linter_warns_of_is_printed_in_options(csv_logs: Path):
    options = (*SCORES, "--horizon=100", "--safe-gap=200", "--burn-in=150", *FEW_DRAWS)
    done = gmb("evaluate", "--runs", csv_logs, *options, "--lead-target=200")
    assert done.code == 0, done
    assert "note: [lead_target_beyond_horizon] --lead-target 200 exceeds" in done.out


def test_a_loss_falls(tmp_path: Path):
    log, steps = synthetic_runlog(40, 121), 10 * np.arange(121)
    data = {"eval_loss": 4 - 3.9 * log.panel("test_acc").values}
    data["gini"] = log.panel("embedding_gini").values
    write_trainer_states(tmp_path, steps, data)
    design = ("--metric=eval_loss", "--jump=0.8", "--horizon=100", "--safe-gap=200", "--score=gini")
    design += FEW_DRAWS
    given = ("evaluate", "--runs", tmp_path / "*/trainer_state.json", *design)
    rises = " ".join(gmb(*given).out.split())
    assert "it falls that way in 40 of 40 runs: for a loss set --falling." in rises
    done = gmb(*given, "--falling", "--new-max", "--force")
    assert done.code == 0, done
    found = Results.read("results/results.yaml")
    assert found.summary.n_events == 40
    assert found.design is not None
    assert (found.design.direction, found.design.require_new_max) == ("falling", True)
    # What is left open is said in steps: one checkpoint, and a quarter of the horizon.
    assert (found.design.lead_time_median_min, found.design.lead_time_target) == (10, 25)
    assert "eval_loss falls by at least 0.8" in Path("results/report.md").read_text()


def write_trainer_states(folder: Path, steps: Any, data: dict[str, Any]) -> None:
    """One trainer_state.json a run, as transformers' Trainer writes them."""
    for run in range(len(data["eval_loss"])):
        rows = [
            {"step": int(step), **{name: float(values[run, row]) for name, values in data.items()}}
            for row, step in enumerate(steps)
        ]
        state = {"global_step": int(steps[-1]), "log_history": rows}
        (folder / f"run_{run}").mkdir()
        (folder / f"run_{run}/trainer_state.json").write_text(json.dumps(state))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (
            ("--horizon=40", "--lead-min=50"),
            "no score can pass: --lead-min 50 exceeds the horizon 40, and no lead time is longer; "
            "lower it to 40 or less, or lengthen --horizon",
        ),
        (("--horizon=45", "--lead-min=42"), "whose last checkpoint is 40 steps before t*"),
        (("--horizon=5",), "--horizon 5 is shorter than the cadence 10"),
        (("--horizon=40", "--event=E_regime", "--radius=20", "--falling"), "--falling belongs to"),
    ],
)
def test_a_design_that_no_score_can_pass_is_refused(csv_logs: Path, typed: Any, said: str):
    assert said in refused("evaluate", "--runs", csv_logs, *SCORES, "--safe-gap=200", *typed)


def test_a_reversed_score_says_so(csv_logs: Path):
    done = gmb("evaluate", "--runs", csv_logs, "--score=test_acc", "--sign=-1", *DESIGN)
    assert done.code == 0
    assert "-test_acc " in done.out
    assert "-score: reversed" in done.out


def test_files_of_a_glob_that_the_shell_has_opened(tmp_path: Path):
    log = synthetic_runlog(6, 61)
    for run in log.runs:
        pyarrow.csv.write_csv(log.select([run]).table.select(COLUMNS[1:]), tmp_path / f"{run}.csv")
    files = sorted(tmp_path.glob("*.csv"))
    score = ("--score=embedding_gini", "--horizon=100", "--safe-gap=150", *FEW_DRAWS)
    opened = gmb("evaluate", "--out=opened", *score, "--runs", *files)
    quoted = gmb("evaluate", "--out=quoted", *score, "--runs", tmp_path / "*.csv")
    assert opened.code == quoted.code == 0
    first, second = (Path(out, "results.yaml").read_bytes() for out in ("opened", "quoted"))
    assert first == second
    assert len(Results.read("opened/results.yaml").event.t_event_by_seed) == 6


def test_thresholds_from_explore_runs(chain: Path):
    options = ("--score=embedding_gini", *DESIGN, "--explore-runs", chain / "explore.csv")
    assert gmb("evaluate", "--runs", chain / "heldout.csv", *options).code == 0
    calibration = Results.read("results/results.yaml").x_calibration
    assert calibration is not None
    assert calibration.method == "explore"
    assert calibration.n_runs is not None
    assert 19 <= calibration.n_runs <= 30  # those of the 30 that have negative windows


def test_the_reference_runs_end_in_a_verdict_with_reasons(reference_runs: Path):
    options = ("--score=score", "--metric=acc_test", "--horizon=20000", "--safe-gap=25000")
    options += ("--window=1000", "--jump=0.04", "--floor=0.85", "--burn-in=10000")
    done = gmb("evaluate", "--runs", reference_runs / "*.csv", *options)
    assert done.code == 0, done
    results = Results.read("results/results.yaml")
    score = next(item for item in results.indicators if item.name == "score")
    assert score.label == "INCONCLUSIVE"
    assert score.x_reasons == ("few_events", "not_locked")
    assert "20 events are fewer than 30" in done.out
    assert any(
        "63 rows of restarted logs (0.5% of 12,083)" in note for note in results.summary.x_notes
    )
    assert "seed_140" in Path("results/report.md").read_text(encoding="utf-8")


def test_other_results_in_the_folder_are_replaced_only_where_it_is_asked(csv_logs: Path):
    """The same command may be given again; another design in the same folder may not."""
    judging = ("evaluate", "--runs", csv_logs, "--score=embedding_gini", *DESIGN)
    for _ in range(2):
        assert gmb(*judging).code == 0
    before = Path("results/results.yaml").read_bytes()
    others = (*judging[:-1], "--lead-min=25")
    message = refused(*others)
    assert message == (
        "error: results/results.yaml: holds results of other runs, or by another lock or design; "
        "choose another --out, or replace them with --force"
    )
    assert Path("results/results.yaml").read_bytes() == before
    assert gmb(*others, "--force").code == 0
    Path("results/results.yaml").write_text("notes of mine")
    assert "holds results of other runs" in refused(*judging)
