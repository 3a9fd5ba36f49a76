"""Every wrong thing that a user may type or feed: one clear line, exit 2, nothing lost."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SMOKE, gmb, locking, refused

from gmb_hf import Results

JUDGE = ("--score=embedding_gini", "--horizon=60", "--safe-gap=100")
TRAIN = ("train", "--preset=smoke", "--out=x")
Rows = list[dict[str, str]]


def rewrite(path: Path, change: Callable[[Rows], Rows]) -> None:
    """Change the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = change(list(csv.DictReader(file)))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def with_cell(line: int, column: str, text: str) -> Callable[[Rows], Rows]:
    """The cell on a line of the file (the header is line 1) replaced."""

    def change(rows: Rows) -> Rows:
        rows[line - 2][column] = text
        return rows

    return change


class TestFiles:
    def test_missing_file(self, small_csv: Path):
        message = refused("evaluate", "--runs=smaller.csv", *JUDGE)
        assert message == "error: smaller.csv: no such file or folder. Did you mean 'small.csv'?"
        assert not Path("results").exists()

    def test_empty_file(self):
        Path("empty.csv").touch()
        message = refused("evaluate", "--runs=empty.csv", *JUDGE)
        assert message.startswith("error: empty.csv: the file is empty")

    def test_header_only(self):
        Path("head.csv").write_text("step,test_acc,embedding_gini\n")
        assert "head.csv: no rows below the header" in refused(
            "evaluate", "--runs=head.csv", *JUDGE
        )

    def test_no_matching_glob(self):
        message = refused("evaluate", "--runs=logs/*.csv", *JUDGE)
        assert message.startswith("error: logs/*.csv: no run log")
        assert "matches this pattern" in message

    def test_folder_without_logs(self, tmp_path: Path):
        (tmp_path / "bare").mkdir()
        assert "bare: no run log" in refused("evaluate", "--runs=bare", *JUDGE)

    def test_another_kind_of_file(self):
        Path("log.txt").write_text("step 1")
        assert "known endings: .parquet, .csv" in refused("evaluate", "--runs=log.txt", *JUDGE)

    @pytest.mark.parametrize("command", ["evaluate", "lock"])
    def test_missing_lock_or_preregistration(self, small_csv: Path, command: str):
        flag = "--lock" if command == "evaluate" else "--prereg"
        message = refused(command, "--runs", small_csv, flag, "gone.yaml")
        assert message == "error: gone.yaml: there is no such file"


class TestColumns:
    def test_missing_score(self, small_csv: Path):
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--score=embeding_gin")
        assert "'embeding_gin' is neither a column nor an indicator" in message
        assert "columns: test_acc, train_acc" in message
        assert message.endswith("Did you mean 'embedding_gini'?")

    def test_missing_metric(self, small_csv: Path):
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--metric=acc_test")
        assert "small.csv: column 'acc_test' missing; found: test_acc" in message
        assert message.endswith("Did you mean 'test_acc'?")

    @pytest.mark.parametrize("flag", ["--step-column", "--run-column"])
    def test_missing_key_column(self, small_csv: Path, flag: str):
        message = refused("evaluate", "--runs", small_csv, *JUDGE, f"{flag}=rum")
        assert "column 'rum' missing; found: run, step" in message

    def test_text_in_a_number_column(self, small_csv: Path):
        rewrite(small_csv, with_cell(17, "embedding_gini", "oops"))
        message = refused("evaluate", "--runs", small_csv, *JUDGE)
        assert "small.csv: line 17: column 'embedding_gini' holds 'oops'" in message

    def test_a_column_of_text_as_score(self, small_csv: Path):
        rewrite(small_csv, lambda rows: [{**row, "host": "node-a"} for row in rows])
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--score=host")
        assert "line 2: column 'host' holds 'node-a', not a number" in message

    def test_observable_of_an_indicator_that_is_missing(self, small_csv: Path):
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--score=disagreement_drop")
        assert "indicator 'disagreement_drop'" in message
        assert "column 'disagreement' missing" in message


class TestRows:
    def test_nan_scores_name_run_and_step(self, small_csv: Path):
        rewrite(small_csv, with_cell(8, "embedding_gini", "nan"))
        message = refused("evaluate", "--runs", small_csv, *JUDGE)
        assert message.startswith("error: run 'seed_0', step 60: score 'embedding_gini' is nan")
        assert "--burn-in" in message
        assert "--nan ignore" in message

    @pytest.mark.usefixtures("no_figures")
    def test_nan_scores_may_be_ignored_and_are_counted(self, small_csv: Path):
        rewrite(small_csv, with_cell(8, "embedding_gini", "nan"))
        assert gmb("evaluate", "--runs", small_csv, *JUDGE, "--nan=ignore").code == 0
        score = Results.read("results/results.yaml").indicators[0]
        assert score.layer_B.x_dropped_windows == 1

    def test_nan_metric_names_run_and_step(self, small_csv: Path):
        rewrite(small_csv, with_cell(8, "test_acc", ""))
        message = refused("evaluate", "--runs", small_csv, *JUDGE)
        assert message.startswith("error: run 'seed_0', step 60: metric 'test_acc' is NaN")

    def test_unsorted_steps(self, small_csv: Path):
        def swap(rows: Rows) -> Rows:
            rows[3], rows[9] = rows[9], rows[3]
            return rows

        rewrite(small_csv, swap)
        message = refused("evaluate", "--runs", small_csv, *JUDGE)
        assert "run 'seed_0': step 40 comes after step 90" in message

    @pytest.mark.usefixtures("no_figures")
    def test_duplicate_steps_keep_the_last_row_and_are_reported(self, small_csv: Path):
        clean = ("evaluate", "--runs", small_csv, *JUDGE)
        assert gmb(*clean, "--out=clean").code == 0

        def restarted(rows: Rows) -> Rows:
            wrong = [{**row, "test_acc": "0.9", "embedding_gini": "9"} for row in rows[5:9]]
            return [*rows[:5], *wrong, *rows[5:]]

        rewrite(small_csv, restarted)
        assert gmb(*clean, "--out=restarted").code == 0
        results = Results.read("restarted/results.yaml")
        assert "4 rows of restarted logs were dropped: seed_0 (4)." in results.summary.x_notes
        assert results.indicators == Results.read("clean/results.yaml").indicators

    @pytest.mark.usefixtures("no_figures")
    def test_runs_of_different_lengths_are_fine(self, small_csv: Path):
        rewrite(small_csv, lambda rows: rows[:-15])
        assert gmb("evaluate", "--runs", small_csv, *JUDGE).code == 0

    def test_one_spacing_of_checkpoints(self, small_csv: Path):
        rewrite(small_csv, lambda rows: rows[:20] + rows[21:])
        message = refused("evaluate", "--runs", small_csv, *JUDGE)
        assert (
            "run 'seed_0': checkpoints are 10 steps apart, but step 210 comes 20 after" in message
        )

    def test_negative_steps(self, small_csv: Path):
        rewrite(small_csv, with_cell(2, "step", "-10"))
        assert "line 2: column 'step' is -10" in refused("evaluate", "--runs", small_csv, *JUDGE)

    def test_no_events_at_all_end_in_an_honest_inconclusive(self, small_csv: Path):
        rewrite(small_csv, lambda rows: [{**row, "test_acc": "0.03"} for row in rows])
        done = gmb("evaluate", "--runs", small_csv, *JUDGE)
        assert done.code == 0, done
        results = Results.read("results/results.yaml")
        assert results.summary.n_events == 0
        assert {item.label for item in results.indicators} == {"INCONCLUSIVE"}
        assert any(
            "No run has an event: test_acc never jumps" in n for n in results.summary.x_notes
        )
        assert "embedding_gini: Not decided" in done.out

    def test_a_single_run(self, small_csv: Path):
        rewrite(small_csv, lambda rows: [row for row in rows if row["run"] == "seed_0"])
        assert gmb("evaluate", "--runs", small_csv, *JUDGE).code == 0
        assert {i.label for i in Results.read("results/results.yaml").indicators} == {
            "INCONCLUSIVE"
        }

    def test_a_single_checkpoint(self, small_csv: Path):
        rewrite(small_csv, lambda rows: [row for row in rows if row["step"] == "0"])
        assert "no run has two checkpoints" in refused("evaluate", "--runs", small_csv, *JUDGE)


class TestDesign:
    """Options of `gmb evaluate`; errors speak in the options that were typed."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--window=25",), "--window is 25 steps, but 'test_acc' is logged every 10 steps"),
            (("--horizon=100",), "--safe-gap 100 must be larger than --horizon 100"),
            (("--horizon=200",), "--safe-gap 100 must be larger than --horizon 200"),
            (("--horizon=-5",), "--horizon must be greater than or equal to 1, got -5"),
            (("--lead-min=80",), "--lead-min 80 exceeds the horizon 60"),
            (("--jump=0",), "--jump must be greater than 0"),
            (("--burn-in=-1",), "--burn-in must be greater than or equal to 0"),
            (("--fpr=a,b",), "--fpr 'a,b': write rates with commas, e.g. 0.01,0.05,0.10"),
            (("--fpr=",), "--fpr '': write rates with commas"),
            (("--fpr=0.05,1.5",), "--fpr must be a number in (0, 1), got 1.5"),
            (("--fpr=0.05,nan",), "--fpr must be a number in (0, 1), got nan"),
            (("--fpr=0.05,0.05",), "--fpr must name at least one rate, each once"),
            (("--fpr=0.1,0.2",), "--primary-fpr 0.05 is not among --fpr [0.1, 0.2]"),
            (("--primary-fpr=2",), "--primary-fpr must be less than 1"),
            (("--sign=2",), "--sign must be +1 or -1, got 2"),
            (("--sign=up",), "Invalid value for '--sign'"),
            (("--horizon=1e3",), "Invalid value for '--horizon'"),
            (
                ("--protocol=strickt",),
                "--protocol: value 'strickt' is unknown; known: compat, strict, v0.4.",
            ),
            (("--nan=drop",), "--nan: value 'drop' is unknown; known: error, ignore."),
            (("--score=embedding_gini",), "--score: the name 'embedding_gini' is used twice"),
            (("--score=test_loss_dro",), "Did you mean 'test_loss_drop'?"),
        ],
    )
    def test_bad_value(self, small_csv: Path, options: tuple[str, ...], message: str):
        assert message in refused("evaluate", "--runs", small_csv, *JUDGE, *options)
        assert not Path("results").exists()

    @pytest.mark.parametrize(
        ("options", "named"),
        [
            ((), "--score, --horizon, --safe-gap missing"),
            (("--score=x",), "--horizon, --safe-gap missing"),
            (("--score=x", "--horizon=5"), "--safe-gap missing"),
        ],
    )
    def test_what_is_needed(self, small_csv: Path, options: tuple[str, ...], named: str):
        message = refused("evaluate", "--runs", small_csv, *options)
        assert message.startswith(f"error: {named}: without --lock say what to judge")

    def test_explore_and_evaluated_runs_overlap(self, small_csv: Path):
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--explore-runs", small_csv)
        assert "the explore runs are the runs to judge" in message


class TestWords:
    """Unknown words name the nearest known one."""

    @pytest.mark.parametrize(
        ("arguments", "hint"),
        [
            (("evaluates",), "No such command 'evaluates'. Did you mean 'evaluate'?"),
            (("run", "--out=x", "--preste=quick"), "No such option: --preste"),
            (("run", "--out=x", "--preset=quik"), "Did you mean 'quick'?"),
            (("train", "--out=x", "--preset=standards"), "Did you mean 'standard'?"),
            ((*TRAIN, "--set=training.lrr=1"), "field 'lrr' is unknown"),
            ((*TRAIN, "--set=trainings.lr=1"), "Did you mean 'training'?"),
            ((*TRAIN, "--set=lr=1"), "write it as section.field=value"),
            ((*TRAIN, "--set=training.lr"), "write it as section.field=value"),
            ((*TRAIN, "--set=training.steps=many"), "expected a whole number"),
            ((*TRAIN, "--set=training.steps=15"), "is no multiple of"),
            ((*TRAIN, "--set=benchmark.horizon=400"), "must be less than"),
            ((*TRAIN, "--set=seeds.explore=1000"), "overlap in [1000]"),
            ((*TRAIN, "--seeds=a:b"), "'a:b' is no seed"),
            ((*TRAIN, "--seeds=5:2"), "'5:2' is empty"),
            ((*TRAIN, "--seeds=1,1"), "given twice"),
            ((*TRAIN, "--seeds=-3"), "seeds are 0 to 2^32 - 1"),
            ((*TRAIN, "--engine=stack"), "Did you mean 'stacked'?"),
            ((*TRAIN, "--device=gpu"), "--device: device 'gpu' is unknown"),
            (("evaluat",), "No such command 'evaluat'. Did you mean 'evaluate'? See gmb --help."),
            (("run",), "Missing option '--out'. See gmb run --help."),
            (("explore",), "Missing option '--runs'. See gmb explore --help."),
            (("indicators", "embeding_gini"), "Did you mean 'embedding_gini'?"),
            (("data", "export", "--task=modular_ad", "--out=x"), "Did you mean 'modular_add'?"),
            (("data", "export", "--task=parity_8", "--prime=7", "--out=x"), "takes no prime"),
            (("data", "export", "--task=add_p97", "--op-token=one", "--out=x"), "'one'"),
            (
                ("data", "export", "--task=copy_16", "--out=x"),
                "choose an input_length of at most 8; shards have rows of the protocol's length",
            ),
            (("data", "export", "--task=add_p97", "--fraction=2", "--out=x"), "fraction"),
            (("prereg",), ""),
        ],
    )
    def test_unknown_or_bad(
        self, arguments: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("gmb_hf.training.stacked.train", lambda *_, **__: pytest.fail("began"))
        if not hint:  # a bare group of commands shows its help
            done = gmb(*arguments)
            assert (done.code, done.err) == (2, "")
            assert "Usage: gmb prereg" in done.out
        else:
            assert hint in refused(*arguments)
        assert not Path("x").exists(), "nothing is begun before the words are understood"

    def test_unknown_candidate_and_key_of_a_preregistration(self, chain: Path):
        text = (chain / "prereg.yaml").read_text(encoding="utf-8")
        Path("a.yaml").write_text(text.replace("name: test_loss_drop", "name: test_los_drop"))
        options = ("--runs", chain / "explore.csv", "--out=new.yaml", "--prereg")
        assert "Did you mean 'test_loss_drop'?" in refused("lock", *options, "a.yaml")
        Path("b.yaml").write_text(text.replace("x_burn_in:", "x_burn_inn:"))
        assert refused("lock", *options, "b.yaml") == (
            "error: b.yaml: x_burn_inn is unknown; did you mean x_burn_in?"
        )
        assert not Path("new.yaml").exists()


class TestPlaces:
    """Where nothing can be written."""

    @pytest.mark.parametrize(
        "arguments",
        [
            (*SMOKE, "--out=taken"),
            ("train", "--preset=smoke", "--seeds=1", "--out=taken"),
            ("data", "export", "--task=parity_8", "--out=taken"),
            ("prereg", "init", "--out=taken/prereg.yaml"),
        ],
        ids=lambda arguments: arguments[0],
    )
    def test_out_is_a_file(self, arguments: tuple[str, ...]):
        Path("taken").write_text("mine")
        message = refused(*arguments)
        assert message.startswith("error: taken")
        assert "choose another folder" in message
        assert Path("taken").read_text() == "mine"

    def test_out_is_a_file_for_results(self, small_csv: Path):
        Path("taken").write_text("mine")
        assert "taken" in refused("evaluate", "--runs", small_csv, *JUDGE, "--out=taken")
        assert Path("taken").read_text() == "mine"

    def test_out_is_a_folder_for_a_lock(self, chain: Path):
        Path("folder").mkdir()
        message = refused("lock", *locking(chain), "--out=folder", "--force")
        assert "this is a folder, not a file" in message

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_read_only_folder(self, small_csv: Path):
        closed = Path("closed")
        closed.mkdir(mode=0o555)
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--out", closed / "results")
        assert "no permission to write here" in message

    def test_full_disk_keeps_what_was_there(self, small_csv: Path, full_disk: Callable[[], None]):
        Path("results").mkdir()
        Path("results/results.yaml").write_text("yesterday's")
        full_disk()
        message = refused("evaluate", "--runs", small_csv, *JUDGE)
        assert message == (
            "error: results/results.yaml: could not be written: the disk is full; free some "
            "space and run the same command again"
        )
        assert Path("results/results.yaml").read_text() == "yesterday's"
        assert os.listdir("results") == ["results.yaml"], "no half-written file is left behind"

    @pytest.mark.parametrize(
        "arguments",
        [
            ("train", "--preset=smoke", "--set=training.steps=20", "--seeds=1", "--out=x"),
            ("data", "export", "--task=parity_8", "--out=x"),
            ("prereg", "init"),
        ],
        ids=lambda arguments: arguments[0],
    )
    def test_full_disk(self, arguments: tuple[str, ...], full_disk: Callable[[], None]):
        full_disk()
        done = gmb(*arguments)
        assert done.code == 2
        assert "the disk is full" in done.err.splitlines()[-1]
        assert not [path for path in Path().rglob("*") if path.is_file()]

    @pytest.fixture
    def full_disk(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
        """From now on nothing can be flushed to the disk."""

        def no_space(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return lambda: monkeypatch.setattr("os.fsync", no_space)


class TestEveryCommandMayBeInterrupted:
    @pytest.mark.parametrize(
        ("arguments", "inside"),
        [
            (("indicators",), "gmb_hf.indicators.catalogue.names"),
            (("evaluate", "--runs=small.csv", *JUDGE), "gmb_hf.benchmark.evaluate.judge_all"),
            (("explore", "--runs=small.csv"), "gmb_hf.runs.runlog.RunLog.read"),
        ],
        ids=lambda value: value[0] if isinstance(value, tuple) else "",
    )
    def test_ctrl_c(
        self,
        arguments: tuple[str, ...],
        inside: str,
        small_csv: Path,
        monkeypatch: pytest.MonkeyPatch,
    ):
        def pressed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(inside, pressed)
        message = refused(*arguments, code=130)
        assert message.startswith("interrupted; ")
        assert not Path("results").exists()


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch):
    def broken() -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("gmb_hf.indicators.catalogue.names", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        gmb("indicators")
