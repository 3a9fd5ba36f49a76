"""`gmb evaluate --event ...`: each event as the primary one, on logs as the project writes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from command_line import COLUMNS, FEW_DRAWS, gmb, refused
from synthetic import synthetic_runlog

from gmb_hf import Results
from gmb_hf.runs.runlog import RunLog

LENGTHS = ("--horizon=100", "--safe-gap=200", "--burn-in=150", "--lead-target=30", "--lead-min=20")
DESIGN = (*LENGTHS, *FEW_DRAWS)
SCORE = ("--score=embedding_gini", "--no-test-labels")
PLATEAU = ("--event=E_plateau", "--plateau-checkpoints=5", "--plateau-level=0.9")
REGIME = ("--event=E_regime", "--radius=20", "--quantile=0.985")


@pytest.fixture(scope="module")
def regimes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """48 synthetic runs whose published signals move together where the accuracy passes one half.

    In 3 of them no more than one signal does, 4 are unstable, 2 inconclusive.
    """
    log = synthetic_runlog(48, 151)
    accuracy = log.panel("test_acc")
    at = (accuracy.values > 0.5).argmax(axis=1)
    rows = np.arange(48)
    data: dict[str, Any] = {}
    for place, name in enumerate(("force", "info", "constraint")):
        for family in ("", "_alt"):
            values = np.zeros(accuracy.values.shape)
            values[rows, np.maximum(at, 1)] = 2.0
            values[:, [2 + 5 * place, 4 + 5 * place]] = 1.0  # early, and never together
            data[f"d_{name}{family}"] = values
    for name, some in (("d_force", rows[:3]), ("d_force_alt", rows[3:7])):
        data[name][some, at[some]] = 0.0
        data[name][some, 25] = 2.0
    data["d_info"][7:9] = 1.0
    data["embedding_gini"] = log.panel("embedding_gini").values
    made = RunLog.from_arrays(log.runs, 10 * np.arange(151), data, seeds=list(range(48)))
    path = tmp_path_factory.mktemp("regimes") / "all.csv"
    pyarrow.csv.write_csv(made.table, path)
    return path


def results() -> Results:
    return Results.read("results/results.yaml")


class TestPlateau:
    def test_judges_by_the_step_from_which_the_level_holds(self, csv_logs: Path):
        done = gmb("evaluate", "--runs", csv_logs, *SCORE, *DESIGN, *PLATEAU)
        assert done.code == 0, done
        found = results()
        assert found.event.type == "E_plateau"
        log = RunLog.read(csv_logs)
        held = log.panel("test_acc").values >= 0.9
        for row, step in enumerate(found.event.t_event_by_seed.values()):
            assert step is not None
            assert held[row, int(step) // 10 : int(step) // 10 + 5].all()
            assert not held[row, int(step) // 10 - 1]
        assert found.summary.n_events == 48
        assert found.design is not None
        assert found.design.plateau_checkpoints == 5
        report = Path("results/report.md").read_text()
        assert "the first of 5 consecutive checkpoints with test_acc at or above 0.9." in report

    def test_a_level_that_no_run_holds_is_a_note(self, csv_logs: Path):
        options = ("--event=E_plateau", "--plateau-checkpoints=5", "--plateau-level=2")
        done = gmb("evaluate", "--runs", csv_logs, *SCORE, *DESIGN, *options)
        assert done.code == 0
        assert "No run has an event: test_acc never settles as E_plateau asks." in done.out


class TestRegime:
    def test_excluded_runs_are_neither_events_nor_negatives_and_are_counted(self, regimes: Path):
        done = gmb("evaluate", "--runs", regimes, *SCORE, *DESIGN, *REGIME)
        assert done.code == 0, done
        found = results()
        summary = found.summary
        assert (summary.n_seeds, summary.n_events, summary.x_n_excluded) == (48, 39, 6)
        assert found.event.x_excluded == {
            **dict.fromkeys("3456", "ESTIMATOR_UNSTABLE"),
            **dict.fromkeys("78", "INCONCLUSIVE"),
        }
        assert set(found.event.x_without_event) == set("012")
        assert all(found.event.t_event_by_seed[seed] is None for seed in "012345678")
        for item in found.indicators:
            # The six would have negatives if they were taken for runs without an event.
            assert item.layer_B.x_n_runs is not None
            assert item.layer_B.x_n_runs <= 42
        note = (
            "Excluded, as neither events nor negatives: 6 of 48 runs; PT-MSS cannot say whether "
            "they have a transition (4 ESTIMATOR_UNSTABLE, 2 INCONCLUSIVE)."
        )
        assert note in summary.x_notes
        assert note in " ".join(done.out.split())
        assert (
            "Excluded, as neither events nor negatives: 6." in Path("results/report.md").read_text()
        )

    def test_the_same_numbers_come_out_without_the_excluded_runs(
        self, regimes: Path, tmp_path: Path
    ):
        gmb("evaluate", "--runs", regimes, *SCORE, *DESIGN, *REGIME, "--out=all")
        log = RunLog.read(regimes)
        apart = {f"seed_{seed}" for seed in range(3, 9)}
        kept = tmp_path / "kept.csv"
        rows = log.select([run for run in log.runs if run not in apart])
        pyarrow.csv.write_csv(rows.table, kept)
        gmb("evaluate", "--runs", kept, *SCORE, *DESIGN, *REGIME, "--out=kept")
        whole, part = (Results.read(f"{folder}/results.yaml") for folder in ("all", "kept"))
        assert whole.indicators == part.indicators

    def test_radius_below_the_cadence_is_refused(self, regimes: Path):
        message = refused("evaluate", "--runs", regimes, *SCORE, *DESIGN, *REGIME, "--radius=9")
        assert "[radius_below_cadence] --radius 9 is below the cadence 10" in message

    def test_with_the_protocol_to_the_letter_it_is_a_note(self, regimes: Path):
        options = (*REGIME, "--radius=9", "--protocol=v0.4")
        done = gmb("evaluate", "--runs", regimes, *SCORE, *DESIGN, *options)
        assert done.code == 0
        assert "note: [radius_below_cadence]" in done.out

    def test_runs_of_which_none_can_be_decided(self, regimes: Path):
        options = (*REGIME, "--quantile=0.9", "--protocol=v0.4")
        message = refused("evaluate", "--runs", regimes, *SCORE, *DESIGN, *options)
        assert "PT-MSS cannot say of any run whether it has an event (48 INCONCLUSIVE)" in message

    def test_our_own_observables(self, tmp_path: Path):
        path = synthetic_runlog(12, corrupted=True).write(tmp_path / "runs.parquet")
        done = gmb("evaluate", "--runs", path, *SCORE, *DESIGN, "--event=E_regime", "--radius=50")
        assert done.code == 0, done
        assert results().event.type == "E_regime"


class TestBeforeBurnIn:
    """Events that nothing can warn of are reported and count as uncovered."""

    def test_reported_in_summary_note_and_report(self, csv_logs: Path):
        options = ("--window=50", "--jump=0.2")
        done = gmb("evaluate", "--runs", csv_logs, *SCORE, *DESIGN, *options, "--burn-in=700")
        assert done.code == 0, done
        found = results()
        steps = [float(step) for step in found.event.t_event_by_seed.values() if step is not None]
        early = sum(step <= 700 for step in steps)
        assert 0 < early < len(steps)
        assert found.summary.x_n_too_early == early
        assert f"[events_before_burn_in] {early} of {len(steps)} events come before" in done.out
        assert f"{early} came too early" in Path("results/report.md").read_text()
        for item in found.indicators:
            point = item.layer_C.at_fpr[1]
            assert point.x_n_events == len(steps)
            assert point.x_n_covered is not None
            assert point.x_n_covered <= len(steps) - early


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--event=E_regim",), "--event: value 'E_regim' is unknown"),
            (
                ("--event=E_plateau",),
                "--event E_plateau needs --plateau-checkpoints and --plateau-level",
            ),
            (("--event=E_regime",), "--event E_regime needs --radius"),
            (("--event=E_plateau", "--jump=0.2"), "--jump belongs to E_jump; leave it out with"),
            (("--radius=20",), "--radius belongs to E_regime; leave it out with --event E_jump"),
            (
                (*PLATEAU, "--plateau-checkpoints=0"),
                "--plateau-checkpoints must be greater than or equal to 1",
            ),
            ((*PLATEAU, "--plateau-level=nan"), "--plateau-level must be a finite number"),
            (
                (*PLATEAU, "--plateau-regression=5"),
                "--plateau-regression 5 must be less than --plateau-checkpoints 5",
            ),
            (
                (*PLATEAU, "--plateau-checkpoints=42"),
                "--plateau-checkpoints is 42, but the longest run has 41 checkpoint(s)",
            ),
            ((*REGIME, "--quantile=1"), "--quantile must be less than 1"),
            ((*REGIME, "--radius=0"), "--radius must be greater than or equal to 1"),
            ((*REGIME, "--tolerance=-1"), "--tolerance must be greater than or equal to 0"),
            (REGIME, "PT-MSS needs the columns gradient_norm"),
        ],
    )
    def test_one_line_in_the_options_that_were_typed(
        self, small_csv: Path, options: tuple[str, ...], message: str
    ):
        assert message in refused("evaluate", "--runs", small_csv, *SCORE, *DESIGN, *options)

    def test_a_metric_that_is_nan_throughout(self, tmp_path: Path):
        log = synthetic_runlog(6, 41)
        columns = {name: log.panel(name).values for name in COLUMNS[2:]}
        columns["test_acc"][2] = np.nan
        made = RunLog.from_arrays(log.runs, 10 * np.arange(41), columns)
        path = made.write(tmp_path / "nan.parquet")
        message = refused("evaluate", "--runs", path, *SCORE, *DESIGN, *PLATEAU, "--nan=ignore")
        assert "run 'seed_2': metric 'test_acc' is NaN at every step" in message

    def test_runs_of_one_checkpoint(self, tmp_path: Path):
        path = synthetic_runlog(3, 1).write(tmp_path / "one.parquet")
        message = refused("evaluate", "--runs", path, *SCORE, *DESIGN, *REGIME)
        assert "no run has two checkpoints" in message


class TestOtherEvents:
    """`--also-event` on every command that takes a design."""

    def test_are_judged_beside_the_event_and_previewed(self, csv_logs: Path):
        also = (
            "--also-event=E_plateau:plateau-level=.9,plateau-checkpoints=5",
            "--also-event=E_jump:jump=.3,new-max",
        )
        done = gmb("runs", "verify", "--runs", csv_logs, "--metric=test_acc", *also)
        assert done.code == 0, done
        assert done.out.count("runs have one") == 3
        assert "--also-event E_jump:jump=.3,new-max" in done.out
        judged = ("evaluate", "--runs", csv_logs, *SCORE, *DESIGN, *also, "--no-figures")
        assert gmb(*judged).code == 0
        found = results().indicators[0].x_first_alarm
        assert found is not None
        assert [one.event for one in found.other_events] == [
            "E_plateau 0.9 x 5",
            "E_jump 0.3 in 50",
        ]

    @pytest.mark.parametrize(
        ("typed", "message"),
        [
            ("E_jumps", "type of event 'E_jumps' is unknown; .* Did you mean 'E_jump'"),
            ("E_jump:jum=.3", "key 'jum' is unknown; .* Did you mean 'jump'"),
            ("E_jump:jump", r"write jump=VALUE, as in --also-event TYPE\[:key=value,...\]"),
            ("E_jump:new-max=yes", "write new-max alone"),
            ("E_jump:jump=high", "--also-event.*jump.* must be a number"),
            ("E_plateau", "E_plateau needs"),
        ],
    )
    def test_a_wrong_one_is_said_in_options(self, csv_logs: Path, typed: str, message: str):
        words = ("evaluate", "--runs", csv_logs, *SCORE, *DESIGN)
        assert re.search(message, refused(*words, f"--also-event={typed}"))

    def test_one_that_is_given_twice(self, csv_logs: Path):
        twice = ["--also-event=E_jump:jump=.3"] * 2
        said = refused("evaluate", "--runs", csv_logs, *SCORE, *DESIGN, *twice)
        assert "E_jump 0.3 in 50 is listed twice" in said
