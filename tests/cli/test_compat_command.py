"""`gmb evaluate --protocol compat`: what it takes, what it leaves, and what it refuses."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow.csv
import pytest
from command_line import COLUMNS, gmb, refused
from synthetic import synthetic_runlog

from gmb_hf import Results

COMPAT = ("evaluate", "--protocol", "compat", "--horizon", "200")
SCORE = ("--score", "embedding_gini")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Eight runs in a file each, one of them without an event."""
    folder = tmp_path / "logs"
    folder.mkdir()
    log = synthetic_runlog(8, 81, share_with_event=0.9)
    for run in log.runs:
        pyarrow.csv.write_csv(log.select([run]).table.select(COLUMNS[1:]), folder / f"{run}.csv")
    return folder


def spoil(path: Path, column: str, text: str, rows: slice = slice(20, 21)) -> None:
    """Other text in some cells of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    for row in table[rows]:
        row[column] = text
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def read() -> Results:
    return Results.read("results/results.yaml")


def test_it_leaves_every_file_and_no_alarm(logs: Path):
    scores = (*SCORE, "--score", "train_acc", "--fpr", ".01,.05,.20")
    done = gmb(*COMPAT, "--runs", logs, *scores, figures=True)
    assert done.code == 0, done
    assert "compat repeats the published computation and never supports an alarm" in done.out
    assert "None of 2 scores may raise an alarm" in done.out
    assert done.next_command == "gmb results show results"
    names = {path.name for path in Path("results").rglob("*.*")}
    for table in ("gate_summary", "utility_at_fpr", "robustness", "per_run", "tradeoff"):
        assert {f"{table}.csv", f"{table}.md", f"{table}.tex"} <= names
    drawn = {"grokking_curves", "scores_around_event"}
    assert {Path(name).stem for name in names if name.endswith(".png")} == drawn
    results = read()
    assert results.x_protocol == "compat"
    assert [item.name for item in results.indicators] == ["embedding_gini", "train_acc"]
    assert not any(item.x_alarm_eligible for item in results.indicators)
    assert "x_per_run" not in (results.model_extra or {})  # each score has its own
    report = Path("results/report.md").read_text(encoding="utf-8")
    assert "Protocol: compat, the reference implementation's own computation." in report
    assert "[per_run](tables/per_run.csv), [tradeoff](tables/tradeoff.csv)" in report
    assert "95% interval" not in report


class TestForms:
    def test_a_glob_that_the_shell_has_opened(self, logs: Path):
        for out, runs in (("a", sorted(logs.glob("*.csv"))), ("b", [logs / "*.csv"])):
            assert gmb(*COMPAT, "--out", out, *SCORE, "--runs", *runs).code == 0
        first, second = (Path(out, "results.yaml").read_bytes() for out in ("a", "b"))
        assert first == second

    @pytest.mark.parametrize("sign", [("--sign", "-1"), ("--sign=-1",)])
    def test_a_reversed_score(self, logs: Path, sign: tuple[str, ...]):
        done = gmb(*COMPAT, "--runs", logs, *SCORE, *sign)
        assert "-embedding_gini: " in done.out
        assert read().indicators[0].x_sign == -1
        assert gmb(*COMPAT, "--runs", logs, *SCORE, "--sign", "+1").code == 0
        assert read().indicators[0].x_sign == 1

    def test_published_settings_unless_typed(self, logs: Path):
        assert gmb(*COMPAT[:3], "--runs", logs, *SCORE).code == 0
        held = (read().model_extra or {})["x_compat"]
        defaults = {
            "w_jump": 2, "delta_jump": 0.04, "theta_floor": 0.85, "delta_back": 0.03, "hold_k": 5,
            "horizon": 20_000, "smoothing": 1, "metric": "test_acc",
        }  # fmt: skip
        assert defaults.items() <= held.items()
        typed = ("--jump=.1", "--floor=.5", "--jump-checkpoints=3", "--hold-checkpoints=4")
        typed += ("--fall-back=.02", "--smoothing=2", "--lead-target=30")
        assert gmb(*COMPAT, "--runs", logs, *SCORE, *typed).code == 0
        changed = {
            "w_jump": 3, "delta_jump": 0.1, "theta_floor": 0.5, "delta_back": 0.02, "hold_k": 4,
            "horizon": 200, "smoothing": 2, "lead_time_target": 30,
        }  # fmt: skip
        assert changed.items() <= (read().model_extra or {})["x_compat"].items()

    def test_thresholds_from_outside(self, logs: Path):
        assert gmb(*COMPAT, "--runs", logs, *SCORE, "--thresholds", ".5,-.25").code == 0
        results = read()
        (item,) = results.indicators
        assert results.x_calibration is not None
        assert results.x_calibration.method == "given"
        assert [row.x_threshold for row in item.layer_B.achieved] == [0.5, -0.25]
        assert [row.target for row in item.layer_B.achieved] == [
            row.achieved for row in item.layer_B.achieved
        ]
        options = ("--thresholds", ".5,.25", "--fpr", ".05,.1")
        assert gmb(*COMPAT, "--runs", logs, *SCORE, *options).code == 0
        assert read().indicators[0].layer_B.targets == (0.05, 0.1)

    def test_last_rows(self, logs: Path):
        done = gmb(*COMPAT, "--runs", logs, *SCORE, "--last-rows", "60")
        assert "note: Only the last 60 rows of each log were read." in done.out
        rows = (read().model_extra or {})["x_per_run"]
        assert {row["n_pos"] + row["n_neg"] for row in rows} == {60}

    def test_rows_in_any_order_are_sorted_by_step(self, logs: Path):
        assert gmb(*COMPAT, "--runs", logs, *SCORE, "--out=sorted").code == 0
        for path in logs.glob("*.csv"):
            head, *lines = path.read_text().splitlines()
            path.write_text("\n".join([head, *lines[40:], *lines[:40]]) + "\n")
        assert gmb(*COMPAT, "--runs", logs, *SCORE, "--out=shuffled").code == 0
        first, second = (Path(out, "results.yaml").read_bytes() for out in ("sorted", "shuffled"))
        assert first == second

    def test_a_step_that_is_logged_twice_counts_twice(self, logs: Path):
        path = logs / "seed_3.csv"
        head, *lines = path.read_text().splitlines()
        path.write_text("\n".join([head, *lines[:5], *lines]) + "\n")
        done = gmb(*COMPAT, "--runs", logs, *SCORE)
        assert "note: 5 rows repeat a step and are kept" in done.out
        assert "seed_3 (5)" in done.out
        lengths = {
            r["run"]: r["n_pos"] + r["n_neg"] for r in (read().model_extra or {})["x_per_run"]
        }
        assert lengths["seed_3"] == lengths["seed_2"] + 5

    def test_no_event_at_all(self, logs: Path):
        done = gmb(*COMPAT, "--runs", logs, *SCORE, "--floor", "2")
        assert done.code == 0, done
        assert "0 events are fewer than 30" in done.out
        point = read().indicators[0].layer_C.at_fpr[0]
        assert point.coverage is None
        assert read().indicators[0].x_null_reasons["layer_C.at_fpr[0].coverage"] == (
            "no run has an event"
        )

    def test_an_indicator_in_place_of_a_column(self, logs: Path):
        assert gmb(*COMPAT, "--runs", logs, "--score", "test_loss_drop").code == 0
        assert read().indicators[0].family == "oracle"

    def test_a_constant_score(self, logs: Path):
        for path in logs.glob("*.csv"):
            spoil(path, "update_norm", "1.5", slice(None))
        assert gmb(*COMPAT, "--runs", logs, "--score", "update_norm").code == 0
        (item,) = read().indicators
        assert item.layer_B.fpr_floor_detected
        assert item.x_null_reasons["x_per_run[0].n_eff"].startswith("the score is constant")

    def test_nothing_is_supported(self, logs: Path):
        message = refused(*COMPAT, "--runs", logs, *SCORE, "--require-supported", code=1)
        assert message.startswith("no: no score may raise an alarm; with --protocol compat none")
        assert Path("results/results.yaml").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--last-rows=0",), "--last-rows must be a whole number of at least 1, got 0"),
        (("--last-rows=3",), "has 3 rows, but its event and the means of these settings need at"),
        (("--smoothing=500",), "has 81 rows, but its event and the means of these settings need"),
        (("--smoothing=0",), "--smoothing must be a whole number of at least 1, got 0"),
        (("--jump-checkpoints=0",), "--jump-checkpoints must be a whole number of at least 1"),
        (("--hold-checkpoints=1",), "--hold-checkpoints must be at least 2"),
        (("--fall-back=-1",), "--fall-back must not be negative, got -1"),
        (("--jump=nan",), "--jump must be a finite number, got nan"),
        (("--thresholds=.1",), None),
        (("--thresholds=.1", "--fpr=.05,.1"), "--thresholds names 1 and --fpr 2; give one thres"),
        (("--thresholds=.1;.2",), "--thresholds '.1;.2': write numbers with commas, e.g. 0.1776,"),
        (("--thresholds=inf",), "--thresholds must be finite numbers, got inf"),
        (("--fpr=.05,5",), "--fpr must be a number in (0, 1), got 5.0"),
        (("--fpr=.05,.05",), "--fpr names a rate twice"),
        (("--fpr=five",), "--fpr 'five': write rates with commas"),
        (("--sign=2",), "--sign must be +1 or -1, got 2"),
        (("--horizon=0",), "--horizon must be a whole number of at least 1, got 0"),
        (("--metric=tst_acc",), "column 'tst_acc' missing; found: "),
        (("--score=train_ac",), "'train_ac' is neither a column nor an indicator"),
        (("--score=embedding_gini",), "score 'embedding_gini' is given twice; name it once"),
        (("--lock=x.yaml",), "compat does not go with --lock: a lock freezes a design"),
        (("--explore-runs=logs",), "compat does not go with --explore-runs: compat finds its"),
        (("--safe-gap=400",), "compat does not go with --safe-gap: the reference has no safe gap"),
        (("--window=50",), "compat does not go with --window: the reference's jump is counted in"),
        (("--burn-in=50",), "compat does not go with --burn-in: the reference knows nothing of"),
        (("--nan=ignore",), "compat does not go with --nan: the reference has no rule for NaN"),
    ],
)
def test_bad_options(logs: Path, options: tuple[str, ...], message: str | None):
    command = (*COMPAT, "--runs", logs, *SCORE, *options)
    if message is None:
        assert gmb(*command).code == 0
        return
    assert message in refused(*command)
    assert not Path("results").exists()


@pytest.mark.parametrize("options", [("--protocol", "strict"), ("--protocol=v0.4",), ()])
def test_options_of_compat_alone(logs: Path, options: tuple[str, ...]):
    command = ("evaluate", "--runs", logs, *SCORE, "--horizon=60", "--safe-gap=100", *options)
    message = refused(*command, "--last-rows=9", "--thresholds=1")
    assert message == (
        "error: only --protocol compat has --thresholds, --last-rows; add it, or leave that out"
    )


def test_an_unknown_protocol_and_no_score(logs: Path):
    message = refused("evaluate", "--runs", logs, "--protocol", "compt")
    assert "'compt' is unknown; known: compat, strict, v0.4. Did you mean 'compat'?" in message
    assert "--score missing" in refused(*COMPAT, "--runs", logs)


@pytest.mark.parametrize(
    ("column", "text", "rows", "message"),
    [
        ("embedding_gini", "nan", slice(None), "score 'embedding_gini' is nan (at every step of"),
        ("embedding_gini", "", slice(None), "column 'embedding_gini' has no value in run 'seed_2'"),
        ("embedding_gini", "", slice(3, 5), "step 30: score 'embedding_gini' is nan (at 2 steps"),
        ("embedding_gini", "inf", slice(7, 8), "run 'seed_2', step 70: score 'embedding_gini' is"),
        ("test_acc", "nan", slice(4, 5), "run 'seed_2', step 40: metric 'test_acc' is nan (at 1"),
        ("embedding_gini", "abc", slice(9, 10), "seed_2.csv: line 11"),
    ],
)
def test_bad_cells(logs: Path, column: str, text: str, rows: slice, message: str):
    spoil(logs / "seed_2.csv", column, text, rows)
    assert message in refused(*COMPAT, "--runs", logs, *SCORE)
    assert not Path("results").exists()
