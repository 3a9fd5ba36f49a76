"""`gmb explore`, `gmb lock`, `gmb evaluate --lock`: from a search to a claim on held-out runs."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from command_line import gmb, locking, refused

from gmb_hf import Design, Results, RunLog
from gmb_hf.base.documents import write_yaml
from gmb_hf.benchmark.prepare import CONTROLS
from gmb_hf.design.design import PARTS
from gmb_hf.design.lock import Lock

JUDGED = ("--lock", "lock.yaml", "--runs", "heldout.csv")


@pytest.fixture(autouse=True)
def _copy_of_the_chain(chain: Path, tmp_path: Path) -> None:
    """The chain's files in the working folder, for a test to change."""
    shutil.copytree(chain, tmp_path, dirs_exist_ok=True)


class TestExplore:
    def test_both_signs_of_every_candidate_and_control(self):
        done = gmb("explore", "--runs=explore.csv", "--prereg=prereg.yaml", "--out=explore.csv")
        assert done.code == 0, done
        with Path("explore.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        tried = {(row["indicator"], row["sign"]) for row in rows}
        names = ("embedding_gini", "test_loss_drop", *CONTROLS)
        assert tried == {(name, sign) for name in names for sign in ("1", "-1")}
        assert "nothing here is a claim" in done.out

    def test_the_next_command_goes_on_with_the_same_design(self):
        done = gmb(
            "explore",
            "--runs=heldout.csv",
            "--runs=explore.csv",
            "--prereg=prereg.yaml",
            "--out=explore.csv",
        )
        assert "60 runs were set aside" in done.out
        # The name of a lock that is there is not proposed.
        assert done.next_command == (
            "gmb lock --runs heldout.csv explore.csv --prereg prereg.yaml --out lock-2.yaml"
        )

    def test_no_design(self):
        message = refused("explore", "--runs=explore.csv", "--out=explore.csv")
        assert message.startswith(
            "error: --score, --horizon, --safe-gap missing: say what to judge"
        )
        assert message.endswith("or pass --prereg FILE, or --preset NAME")

    def test_two_designs(self):
        options = ("--prereg=prereg.yaml", "--preset=quick")
        assert "give one of them" in refused(
            "explore", "--runs=explore.csv", *options, "--out=explore.csv"
        )


class TestLock:
    def test_prints_the_next_command_and_keeps_the_explore_runs_out_of_it(self):
        done = gmb("lock", *locking(Path()), "--out=new.yaml")
        assert done.code == 0, done
        assert done.next_command == (
            "gmb evaluate --runs HELD_OUT_RUNS --lock new.yaml --out results"
        )
        lock = Lock.read("new.yaml")
        assert len(lock.x_lock.explore_runs) == 30
        assert set(lock.x_lock.candidates) >= {"embedding_gini", "test_loss_drop", "clock"}

    def test_warnings_are_printed(self):
        done = gmb("lock", *locking(Path()), "--out=new.yaml")
        assert "warning [few_runs_for_target] a threshold for 0.01 takes 99" in done.out

    def test_strict_lint_refuses_warnings_and_writes_nothing(self):
        message = refused("lock", *locking(Path()), "--out=new.yaml", "--strict-lint")
        assert "design refused" in message
        assert "[few_runs_for_target]" in message
        assert not Path("new.yaml").exists()

    def test_an_unsound_design_is_refused_with_each_fault(self):
        design = Design.read("prereg.yaml")
        design.replace(primary_fpr=0.01, null_draws=10).write("prereg.yaml")
        message = refused("lock", *locking(Path()), "--out=new.yaml")
        assert "design refused, 2 fault(s)" in message
        assert "[few_runs_for_primary]" in message
        assert "[few_null_draws]" in message
        assert not Path("new.yaml").exists()

    def test_a_gap_no_wider_than_the_horizon(self):
        Design.read("prereg.yaml").replace(safe_gap=100).write("prereg.yaml")
        message = refused("lock", *locking(Path()), "--out=new.yaml")
        assert "must be larger than horizon" in message

    def test_never_overwrites_a_lock_unasked(self):
        before = Path("lock.yaml").read_bytes()
        message = refused("lock", *locking(Path()), "--out=lock.yaml")
        assert message.startswith("error: lock.yaml: a lock is there already")
        assert "--force" in message
        assert Path("lock.yaml").read_bytes() == before
        assert gmb("lock", *locking(Path()), "--force", "--out=lock.yaml").code == 0

    def test_explain_says_each_choice_in_a_sentence(self):
        done = gmb("lock", *locking(Path()), "--out=new.yaml", "--explain")
        assert "- The event t* is the first step at which test_acc rises" in done.out
        again = gmb("lock", "--explain", "--lock=new.yaml")
        sentences = [line for line in done.out.splitlines() if line.startswith("- ")]
        assert [line for line in again.out.splitlines() if line.startswith("- ")] == sentences
        assert again.next_command.startswith("gmb evaluate --runs HELD_OUT_RUNS --lock new.yaml")

    @pytest.mark.parametrize("options", [(), ("--explain", "--runs=explore.csv")])
    def test_a_lock_to_explain_and_one_to_make_are_two_things(self, options: tuple[str, ...]):
        message = refused("lock", "--lock=lock.yaml", *options)
        assert "gmb lock --explain --lock FILE" in message

    def test_without_runs(self):
        assert "--runs is missing" in refused("lock", "--prereg=prereg.yaml", "--out=new.yaml")

    def test_the_seal_depends_on_the_design_and_the_runs(self):
        assert gmb("lock", *locking(Path()), "--out=new.yaml").code == 0
        first, second = (Lock.read(name).x_lock for name in ("lock.yaml", "new.yaml"))
        assert first.explore_fingerprint == second.explore_fingerprint
        assert first.candidates == second.candidates


class TestEvaluate:
    def test_held_out_runs_are_judged_by_the_locked_thresholds(self):
        done = gmb("evaluate", *JUDGED, "--require-supported")
        assert done.code == 0, done
        results = Results.read("results/results.yaml")
        lock = Lock.read("lock.yaml")
        assert results.x_provenance is not None
        assert results.x_provenance.lock_hash == lock.hash
        assert results.x_calibration is not None
        assert results.x_calibration.method == "locked"
        for item in results.indicators:
            tau = {row.target: row.x_threshold for row in item.layer_B.achieved}
            assert tau == lock.thresholds(item.name)
        labels = {item.name: item.label for item in results.indicators}
        assert labels["embedding_gini"] == "SUPPORTED_FOR_ALARM"
        assert done.next_command.startswith("gmb monitor --follow LOG --lock lock.yaml --results ")

    def test_takes_the_held_out_runs_from_among_all(self):
        done = gmb("evaluate", *JUDGED, "explore.csv")
        assert done.code == 0, done
        assert "30 runs were set aside" in done.out
        assert len(Results.read("results/results.yaml").event.t_event_by_seed) == 60

    def test_missing_held_out_seeds_are_refused(self):
        log = RunLog.read("heldout.csv")
        log.select(log.runs[:58]).write("part.parquet")
        message = refused("evaluate", "--lock=lock.yaml", "--runs=part.parquet")
        assert (
            "must judge all of boundary.seeds_eval, and 2 of 60 are missing (158, 159)" in message
        )

    def test_an_edited_lock(self):
        text = Path("lock.yaml").read_text(encoding="utf-8")
        Path("lock.yaml").write_text(
            text.replace("horizon_steps: 100", "horizon_steps: 150"), encoding="utf-8"
        )
        message = refused("evaluate", *JUDGED)
        assert message.startswith("error: lock.yaml: was edited after it was locked")
        assert not Path("results").exists()

    def test_its_own_explore_runs(self):
        message = refused("evaluate", "--lock=lock.yaml", "--runs=explore.csv")
        assert "none of the 30 runs is a declared held-out run" in message

    def test_its_own_explore_runs_where_no_seeds_are_declared(self):
        both = {"seeds_explore": [], "seeds_eval": []}
        Design.read("prereg.yaml").replace(**both, undeclared=PARTS).write("prereg.yaml")
        assert gmb("lock", *locking(Path()), "--out=free.yaml").code == 0
        free = Lock.read("free.yaml").design
        assert free.seeds_explore == tuple(range(30))  # as they were seen
        assert free.scope.endswith("schedule undeclared, seeds_eval undeclared.")
        message = refused("evaluate", "--lock=free.yaml", "--runs=explore.csv")
        assert "none of the 30 runs is a declared held-out run" in message

    def test_explore_runs_without_seeds_are_declared_or_left_open(self):
        table = RunLog.read("explore.csv").table
        names = [f"run {run}" for run in table["run"].to_pylist()]
        table = table.set_column(table.column_names.index("run"), "run", [names])
        RunLog.from_table(table).write("nameless.parquet")
        others = [part for part in PARTS if part != "seeds_explore"]
        design = Design.read("prereg.yaml").replace(seeds_explore=[], seeds_eval=[])
        design.replace(undeclared=others).write("prereg.yaml")
        asked = ("lock", "--prereg=prereg.yaml", "--runs=nameless.parquet", "--out=open.yaml")
        message = refused(*asked)
        assert "--seeds-explore is not declared, nor do the logs say it" in message
        design.replace(undeclared=PARTS).write("prereg.yaml")
        assert gmb(*asked).code == 0
        scope = Lock.read("open.yaml").design.scope
        assert scope.endswith("seeds_explore undeclared, seeds_eval undeclared.")
        message = refused("evaluate", "--lock=open.yaml", "--runs=nameless.parquet")
        assert "held-out runs are the explore runs that this lock was made on" in message
        log = RunLog.read("nameless.parquet")
        log.select(log.runs[:8]).write("some.parquet")
        message = refused("evaluate", "--lock=open.yaml", "--runs=some.parquet")
        assert "held-out runs: 8 also used to explore (run seed_0, run seed_1" in message

    def test_a_column_that_the_held_out_runs_lack(self):
        table = RunLog.read("heldout.csv").table.drop_columns(["embedding_gini"])
        RunLog.from_table(table).write("lacking.parquet")
        message = refused("evaluate", "--lock=lock.yaml", "--runs=lacking.parquet")
        assert "'embedding_gini'" in message
        assert "missing; found: test_acc" in message

    def test_another_cadence(self):
        table = RunLog.read("heldout.csv").table
        rows = [step % 20 == 0 for step in table["step"].to_pylist()]
        RunLog.from_table(table.filter(rows)).write("sparse.parquet")
        message = refused("evaluate", "--lock=lock.yaml", "--runs=sparse.parquet")
        assert "boundary.checkpoint_every_steps: locked 10, found 20" in message

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            (("--score=x",), "--score"),
            (("--horizon=5", "--safe-gap=9"), "--horizon, --safe-gap"),
            (("--metric=test_acc",), "--metric"),
            (("--fpr=0.1", "--sign=-1", "--protocol=v0.4"), "--sign, --protocol, --fpr"),
            (("--explore-runs=explore.csv",), "--explore-runs"),
            (("--nan=ignore",), "--nan"),
        ],
    )
    def test_options_that_the_lock_fixes(self, options: tuple[str, ...], named: str):
        message = refused("evaluate", *JUDGED, *options)
        assert message == f"error: --lock fixes the design; leave out {named}"

    def test_what_is_no_lock(self):
        message = refused("evaluate", "--lock=prereg.yaml", "--runs=heldout.csv")
        assert message.startswith("error: prereg.yaml: is no lock")


class TestBoundary:
    """Logs that do not say what system they are of: their owner does, or says `undeclared`."""

    def test_a_lock_names_every_missing_part(self, chain: Path):
        told = Design.read(chain / "prereg.yaml").replace(undeclared=[])
        told.write("prereg.yaml")
        options = ("--prereg=prereg.yaml", "--runs", chain / "explore.csv", "--out=new.yaml")
        assert refused("lock", *options) == (
            "error: --task, --model, --optimizer, --schedule are not declared, nor do the logs say "
            "it: a verdict speaks about a declared system only. Type what it is, or --undeclared "
            "for all that shall stay open, which the results repeat"
        )
        assert not Path("new.yaml").exists()
        assert gmb("lock", *options, "--task=addition", "--undeclared").code == 0
        boundary = Lock.read("new.yaml").design.section("boundary")
        assert (boundary["task"], boundary["model"]) == ("addition", "undeclared")
        done = gmb("evaluate", "--runs", chain / "heldout.csv", "--lock=new.yaml", "--out=found")
        scope = "Holds for: model undeclared, optimizer undeclared, schedule undeclared."
        assert scope in " ".join(done.out.split())
        assert scope in Path("found/report.md").read_text(encoding="utf-8")
        assert scope in Results.read("found/results.yaml").summary.x_notes
        for name in told.required_tables:
            assert Path(f"found/tables/{name}.csv").is_file()

    def test_an_unknown_table_is_refused(self, chain: Path):
        prereg = (chain / "prereg.yaml").read_text(encoding="utf-8")
        Path("bad.yaml").write_text(prereg.replace("utility_at_fpr", "utilty_at_fpr"), "utf-8")
        assert refused("lock", "--prereg=bad.yaml", "--runs=explore.csv", "--out=new.yaml") == (
            "error: bad.yaml: reporting.required_tables: table 'utilty_at_fpr' is unknown; known: "
            "gate_summary, robustness, utility_at_fpr. Did you mean 'utility_at_fpr'?"
        )

    def test_no_table_is_refused(self):
        plain = Design.read("prereg.yaml").plain()
        plain["reporting"]["required_tables"] = []
        write_yaml("bad.yaml", plain)
        assert refused("lock", "--prereg=bad.yaml", "--runs=explore.csv", "--out=new.yaml") == (
            "error: bad.yaml: reporting.required_tables: must name at least one table: "
            "gate_summary, utility_at_fpr, robustness"
        )


class TestTransfer:
    """Runs of another system, judged by a lock that promises nothing about them."""

    @pytest.fixture(autouse=True)
    def _another_task(self) -> None:
        budget = {"run_budgets": (0.2,), "primary_run_budget": 0.2}
        Design.read("prereg.yaml").replace(task="addition", **budget).write("prereg.yaml")
        assert gmb("lock", *locking(Path()), "--out=lock.yaml", "--force").code == 0
        log = RunLog.read("heldout.csv")
        RunLog.from_table(log.table, metadata={"task": "sub\x1btraction"}).write("other.parquet")

    def test_is_refused_unless_it_is_asked_for(self):
        message = refused("evaluate", "--lock=lock.yaml", "--runs=other.parquet")
        assert "boundary.task: locked 'addition', found 'sub\\x1btraction'" in message
        assert message.endswith("or judge what the lock is worth there with --transfer")
        assert "give --lock FILE" in refused(
            "evaluate", "--transfer", "--runs=other.parquet", "--score=embedding_gini"
        )

    def test_budgets_must_be_shown(self):
        done = gmb(
            "evaluate", "--lock=lock.yaml", "--runs=other.parquet", "--transfer", "--no-figures"
        )
        assert done.code == 0, done
        results = Results.read("results/results.yaml")
        note = "differ in task 'sub\\x1btraction', locked 'addition'. What the lock promises"
        assert any(note in one for one in results.summary.x_notes)
        for item in results.indicators:
            first = item.x_first_alarm
            assert first is not None
            assert first.basis == "shown"
            point = first.at(0.2)
            assert point.false_alarm_interval is not None
            assert (point.state == "met") == (point.false_alarm_interval.high <= 0.25)
            shown = "This was shown by the judged runs alone" in item.x_sentence
            assert shown == (item.label == "SUPPORTED_FOR_ALARM")
