"""What a user may type or feed wrong: one clear line, exit 2, nothing lost.

The golden files (`tests/golden/bad_inputs.yaml`) hold many more, with the files that they leave.
"""

from __future__ import annotations

import csv
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import FEW_DRAWS, SMOKE, gmb, locking, refused

from gmb_hf import InputError, Results, RunLog

JUDGE = ("--score=embedding_gini", "--horizon=60", "--safe-gap=100", *FEW_DRAWS)
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


def test_a_fault_is_one_line_and_exit_code_2():
    """What the line says is tested where the fault is found, and by the golden files."""
    message = refused("evaluate", "--runs=smaller.csv", *JUDGE)
    with pytest.raises(InputError) as raised:
        RunLog.read("smaller.csv")
    assert message == f"error: {raised.value}"
    assert not Path("results").exists()


class TestRows:
    def test_nan_scores_may_be_ignored_and_are_counted(self, small_csv: Path):
        rewrite(small_csv, with_cell(8, "embedding_gini", "nan"))
        assert gmb("evaluate", "--runs", small_csv, *JUDGE, "--nan=ignore").code == 0
        score = Results.read("results/results.yaml").indicators[0]
        assert score.layer_B.x_dropped_windows == 1

    def test_duplicate_steps_keep_the_last_row_and_are_reported(self, small_csv: Path):
        clean = ("evaluate", "--runs", small_csv, *JUDGE)
        assert gmb(*clean, "--out=clean").code == 0

        def restarted(rows: Rows) -> Rows:
            wrong = [{**row, "test_acc": "0.9", "embedding_gini": "9"} for row in rows[5:9]]
            return [*rows[:5], *wrong, *rows[5:]]

        rewrite(small_csv, restarted)
        assert gmb(*clean, "--out=restarted").code == 0
        results = Results.read("restarted/results.yaml")
        rows = RunLog.read(small_csv, on_duplicate="keep").table.num_rows
        share = 4 / rows
        note = f"4 rows of restarted logs ({share:.1%} of {rows:,}) were dropped: seed_0 (4)."
        assert note in results.summary.x_notes
        assert results.indicators == Results.read("clean/results.yaml").indicators

    def test_runs_of_different_lengths_are_fine(self, small_csv: Path):
        rewrite(small_csv, lambda rows: rows[:-15])
        assert gmb("evaluate", "--runs", small_csv, *JUDGE).code == 0

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


class TestDesign:
    """Options of `gmb evaluate`; errors speak in the options that were typed."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--horizon=200",), "--safe-gap 100 must be larger than --horizon 200"),
            (("--lead-min=80",), "--lead-min 80 exceeds the horizon 60"),
            (("--jump=0",), "--jump must be greater than 0"),
            (("--burn-in=-1",), "--burn-in must be greater than or equal to 0"),
            (("--fpr=",), "--fpr '': write rates with commas"),
            (("--fpr=0.05,nan",), "--fpr must be a number in (0, 1), got nan"),
            (("--primary-fpr=2",), "--primary-fpr must be less than 1"),
            (("--sign=up",), "Invalid value for '--sign'"),
            (("--score=embedding_gini",), "--score: the name 'embedding_gini' is used twice"),
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
        assert message.startswith(f"error: {named}: say what to judge, e.g. --score COLUMN")


class TestWords:
    """Unknown words name the nearest known one."""

    @pytest.mark.parametrize(
        ("arguments", "hint"),
        [
            (("train", "--out=x", "--preset=standards"), "Did you mean 'standard'?"),
            ((*TRAIN, "--set=lr=1"), "write it as section.field=value"),
            ((*TRAIN, "--set=training.steps=15"), "is no multiple of"),
            ((*TRAIN, "--set=benchmark.horizon=400"), "must be less than"),
            ((*TRAIN, "--set=seeds.explore=1000"), "overlap in [1000]"),
            ((*TRAIN, "--seeds=5:2"), "'5:2' is empty"),
            ((*TRAIN, "--seeds=-3"), "seeds are 0 to 2^32 - 1"),
            (("evaluat",), "No such command 'evaluat'. Did you mean 'evaluate'? See gmb --help."),
            (("run",), "Missing option '--out', e.g. --out runs/quick. See gmb run --help."),
            (("data", "export", "--task=add_p97", "--op-token=one", "--out=x"), "'one'"),
            (
                ("data", "export", "--task=copy_16", "--out=x"),
                "choose an input_length of at most 8; shards have rows of the protocol's length",
            ),
            (("prereg",), ""),
        ],
    )
    def test_unknown_or_bad(
        self, arguments: tuple[str, ...], hint: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(
            "gmb_hf.training.seeds.train_stacked", lambda *_, **__: pytest.fail("began")
        )
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
        message = refused("evaluate", "--runs", small_csv, *JUDGE, "--force")
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
            ("prereg", "init", "--out=prereg.yaml"),
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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to catch")
def test_sigterm_is_ctrl_c_with_a_code_of_its_own(monkeypatch: pytest.MonkeyPatch):
    before = signal.getsignal(signal.SIGTERM)

    def stopped() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("it went on")

    monkeypatch.setattr("gmb_hf.indicators.catalogue.names", stopped)
    message = refused("indicators", code=143)
    assert message == "stopped; nothing finished is lost, the same command goes on from there"
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch):
    def broken() -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("gmb_hf.indicators.catalogue.names", broken)
    done = gmb("indicators")
    line = "error: a defect of gmb-hf, ZeroDivisionError: a bug; gmb -v shows where\n"
    assert (done.code, done.out, done.err) == (70, "", line)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        gmb("-v", "indicators")
