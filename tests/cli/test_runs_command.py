"""`gmb runs read|verify`, and foreign logs judged as they lie."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pyarrow.csv
import pytest
from command_line import DESIGN, gmb, refused
from synthetic import synthetic_runlog

from gmb_hf import Results, RunLog
from gmb_hf.benchmark.prepare import preview_events

CHOSEN = "--columns=test_acc,embedding_gini"


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 trainings as a Trainer leaves them: a score every 10 steps, the metric every 20."""
    folder = tmp_path_factory.mktemp("trainings")
    log = synthetic_runlog(24)
    for run in log.runs:
        rows = log.select([run]).table.select(["step", "test_acc", "embedding_gini"]).to_pylist()
        history = []
        for row in rows:
            history.append({"step": row["step"], "embedding_gini": row["embedding_gini"]})
            if row["step"] % 20 == 0:
                history.append({"step": row["step"], "test_acc": row["test_acc"]})
        path = folder / run / "checkpoint-1200" / "trainer_state.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"global_step": 1200, "log_history": history}))
    return folder


class TestRead:
    def test_any_logs_to_one_table(self, trainings: Path):
        done = gmb("runs", "read", "--runs", trainings, "--out=all.parquet")
        assert done.code == 0, done
        assert "24 runs, 2904 rows, 2 columns, steps 0 to 1,200." in done.out
        assert "wrote   all.parquet\n" in done.out
        log = RunLog.read("all.parquet")
        assert log.fingerprint() == RunLog.read(trainings).fingerprint()
        words = shlex.split(done.next_command)
        assert words[:4] == ["gmb", "evaluate", "--runs", "all.parquet"]

    def test_only_rows_that_have_both_columns(self, trainings: Path):
        done = gmb("runs", "read", "--runs", trainings, CHOSEN, "--out=both.parquet")
        assert "note: Kept are the 1464 of 2904 rows in which test_acc and embed" in done.out
        assert "--metric test_acc --score embedding_gini --horizon 200" in done.next_command
        assert RunLog.read("both.parquet").panel("test_acc").cadence() == 20

    def test_merge_is_read(self, small_csv: Path, trainings: Path):
        done = gmb("runs", "merge", "--runs", small_csv, "--runs", trainings, "--out=m.parquet")
        assert done.code == 2
        assert "run 'seed_0' is in two files" in done.err
        Path("more.csv").write_text("run,step,test_acc\nx,0,1\nx,10,1\n")
        done = gmb("runs", "merge", "--runs", small_csv, "more.csv", "--out=m.parquet")
        assert done.code == 0, done
        assert RunLog.read("m.parquet").runs[-1] == "x"

    def test_the_end_of_each_log(self, small_csv: Path):
        read = ("runs", "read", "--runs", small_csv, "--out=runs.parquet")
        assert gmb(*read, "--last-rows=5").code == 0
        assert set(RunLog.read("runs.parquet").panel("step").lengths) == {5}

    def test_what_is_wrong_is_said(self, small_csv: Path):
        read = ("runs", "read", "--runs", small_csv, "--out=runs.parquet")
        assert "name it *.parquet" in refused(*read[:-1], "--out=a.csv")
        assert "write names with commas" in refused(*read, "--columns=test_acc,")
        message = refused(*read, "--columns=test_acc,embeding_gini")
        assert message.endswith("Did you mean 'embedding_gini'?")
        assert not Path("runs.parquet").exists()


class TestVerify:
    def test_with_a_metric_it_says_where_the_events_fall(self, trainings: Path):
        done = gmb("runs", "verify", "--runs", trainings, "--metric=test_acc", "--jump=.2")
        assert done.code == 0, done
        assert (
            "event   E_jump: first step at which test_acc rises by at least 0.2 within 40 "
            in done.out
        )
        found = preview_events(RunLog.read(trainings), metric="test_acc", jump_threshold=0.2)
        first, middle, last = found.steps
        assert (found.runs, found.events, found.window, found.at_first) == (24, 24, 40, 0)
        events = f"events  24 of 24 runs have one, from step {first} to {last:,}, median {middle}"
        assert events in done.out
        assert "warning" not in done.out
        assert done.next_command.endswith(
            "--metric test_acc --jump 0.2 --score embedding_gini --horizon 200 --safe-gap 400"
        )

    def test_without_a_metric_it_shows_those_of_test_acc_where_that_is_a_column(
        self, trainings: Path, tmp_path: Path
    ):
        done = gmb("runs", "verify", "--runs", trainings)
        usual = gmb("runs", "verify", "--runs", trainings, "--metric", "test_acc")
        shown = [line for line in done.out.splitlines() if line.startswith("event")]
        assert shown == [line for line in usual.out.splitlines() if line.startswith("event")]
        assert [line.split()[0] for line in shown] == ["event", "events"]
        assert "--metric test_acc --score embedding_gini" in done.next_command
        other = tmp_path / "other.csv"
        other.write_text("run,step,loss\na,0,1.0\na,10,0.5\n")
        assert "\nevent" not in gmb("runs", "verify", "--runs", other).out

    def test_events_on_the_first_row_and_none_at_all(self, small_csv: Path):
        Path("loss.csv").write_text("step,loss\n0,1\n10,2\n20,2\n30,2\n")
        done = gmb("runs", "verify", "--runs=loss.csv", "--metric=loss", "--window=10")
        assert done.code == 0, done
        assert "events  1 of 1 runs have one, from step 0 to 0, median 0" in done.out
        warning = (
            "1 of 1 events fall on the first row, so nothing can detect them; set --event-after"
        )
        assert f"warning {warning} or --floor" in " ".join(done.out.split())
        done = gmb("runs", "verify", "--runs=loss.csv", "--metric=loss", "--jump=5", "--window=10")
        assert "events  0 of 1 runs have one\n" in done.out
        assert "note: No run has an event: loss never jumps as E_jump asks" in done.out
        done = gmb("runs", "verify", "--runs=loss.csv", "--metric=loss", "--window=15")
        assert (done.code, done.out.count("events")) == (2, 0)
        assert "--window is 15 steps, but 'loss' is logged every 10 steps" in done.err
        Path("loss.csv").write_text("step,loss\n0,1\n10,nan\n20,2\n")
        done = gmb("runs", "verify", "--runs=loss.csv", "--metric=loss", "--window=10")
        assert done.code == 1
        assert "events  cannot be found: run 'loss', step 10: metric 'loss' is NaN" in done.out

    def test_it_takes_what_defines_an_event_and_nothing_else_of_a_design(self):
        assert "No such option: --horizon" in refused("runs", "verify", "--horizon=5")

    def test_sound_logs(self, trainings: Path):
        done = gmb("runs", "verify", "--runs", trainings, CHOSEN)
        assert done.code == 0, done
        assert "runs    24: seed_0 to seed_23\n" in done.out
        assert "rows    1,464, steps 0 to 1,200, every 20\n" in done.out
        assert "Nothing is wrong with these logs." in done.out
        assert done.next_command.endswith("--score embedding_gini --horizon 200 --safe-gap 400")

    def test_a_line_for_each_fault_and_exit_1(self):
        Path("a.csv").write_text("step,x\n0,1\n10,nan\n20,3\n40,4\n")
        Path("b.csv").write_text("step,x\n0,1\n")
        done = gmb("runs", "verify", "--runs", ".")
        assert done.code == 1
        assert [line for line in done.out.splitlines() if line.startswith("fault")] == [
            "fault   run 'a': step 40 comes 20 after the one before it, not 10",
            "fault   run 'b' has one checkpoint, at step 0",
            "fault   column 'x' is NaN in 1 of 5 cells, first in run 'a' at step 10",
        ]
        assert done.err == "no: 3 faults in these logs, named above\n"
        assert "next" not in done.out

    def test_keys_of_other_names_go_into_the_next_command(self):
        Path("a.csv").write_text("epoch,id,acc,x\n0,a,0,1\n1,a,0,2\n2,a,1,3\n")
        done = gmb("runs", "verify", "--runs=a.csv", "--step-column=epoch", "--run-column=id")
        assert "--runs a.csv --step-column epoch --run-column id" in done.next_command


def test_a_trainers_states_are_judged_where_metric_and_score_are_known(trainings: Path):
    options = ("--score=embedding_gini", "--metric=test_acc", *DESIGN, "--window=40")
    done = gmb("evaluate", "--runs", trainings, *options)
    assert done.code == 0, done
    note = "Kept are the 1464 of 2904 rows in which test_acc and embedding_gini have a value."
    assert f"note: {note}" in done.out
    results = Results.read("results/results.yaml")
    assert note in results.summary.x_notes
    assert results.summary.n_seeds == 24
    assert gmb("runs", "read", "--runs", trainings, CHOSEN, "--out=both.parquet").code == 0
    assert gmb("evaluate", "--runs=both.parquet", *options, "--out=again").code == 0
    assert Results.read("again/results.yaml").indicators == results.indicators


def test_a_guess_of_the_steps_is_said(small_csv: Path):
    table = pyarrow.csv.read_csv(small_csv)
    names = ["global_step" if name == "step" else name for name in table.column_names]
    pyarrow.csv.write_csv(table.rename_columns(names), "renamed.csv")
    judge = ("--score=embedding_gini", "--horizon=60", "--safe-gap=100")
    done = gmb("evaluate", "--runs=renamed.csv", *judge)
    assert done.code == 0, done
    assert "note: The steps are the column 'global_step'." in done.out
