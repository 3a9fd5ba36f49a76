"""`gmb plan`: runs before any training, from assumptions or a pilot's logs."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import gmb, refused

from gmb_hf import Design
from gmb_hf.base.documents import load_yaml
from gmb_hf.benchmark.planning import plan_runs

PILOT = (
    "--score=embedding_gini",
    "--horizon=100",
    "--safe-gap=200",
    "--jump=0.2",
    "--burn-in=150",
)


@pytest.fixture(autouse=True, scope="module")
def _each_plan_is_made_once() -> Iterator[None]:
    """Several tests look at the same plan from another side."""
    made: dict[str, Any] = {}

    def remembered(design: Design, measured: Any = None, **assumed: Any) -> Any:
        if measured is not None:
            return plan_runs(design, measured, **assumed)
        key = f"{design.plain()} {sorted(assumed.items())}"
        if key not in made:
            made[key] = plan_runs(design, **assumed)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gmb_hf.benchmark.planning.plan_runs", remembered)
        yield


def rows(out: str, *, by_runs: bool = False) -> list[list[str]]:
    """The rows of a table: calibration, explore, what they buy, share of events, held-out, in all.

    The plan by runs stands first, that by windows below it.
    """
    lines = out.splitlines()
    heads = [place for place, line in enumerate(lines) if "calibrating  explore" in line]
    start = heads[0 if by_runs else 1] + 1
    table = []
    for line in lines[start:]:
        if not line.strip():
            break
        table.append(line.replace(",", "").split())
    return table


class TestAssumptions:
    def test_the_table_and_the_sentence_say_the_same(self):
        done = gmb("plan", "--f=.05", "--coverage=.5", "--power=.8")
        assert done.code == 0, done
        table = {row[0]: row for row in rows(done.out)}
        assert list(table) == ["19", "38", "95", "190", "380", "760"]
        assert table["19"][2] == "0.000"
        assert table["95"][2] == "0.040"
        advice = re.search(r"Train ([\d,]+) explore runs, of which 95 .* and ([\d,]+) held-out",
                           " ".join(done.out.split()))  # fmt: skip
        assert advice is not None
        # Of both units the larger numbers count; by runs 39 calibration runs are the choice.
        by_runs = {row[0]: row for row in rows(done.out, by_runs=True)}
        held_out = max(int(table["95"][4]), int(by_runs["39"][5]))
        assert [advice[1], int(advice[2])] == [table["95"][1], held_out]
        assert "Holm over 1 score at 0.05 takes 19 draws" in done.out
        assert done.next_command == "gmb prereg init --out prereg.yaml"

    def test_by_runs_comes_first(self):
        done = gmb("plan", "--assume-chance=.2", "--detection=.6")
        assert done.code == 0, done
        table = {row[0]: row for row in rows(done.out, by_runs=True)}
        assert list(table) == ["19", "39", "59", "99", "199", "399"]
        assert table["39"][2:5] == ["0.050", "0.096", "0.60"]
        assert table["19"][7] == "–"
        said = " ".join(done.out.split())
        assert "By runs, with a false-alarm budget of 1 run in 20 (marginal)" in said
        assert "sure of at most 0.096), and" in said
        first = said.index("By runs, with a false-alarm budget")
        assert first < said.index("The specification's view, by windows:")

    def test_a_budget_of_runs_may_be_another(self):
        out = gmb("plan", "--run-budget=.1", "--calibration=conditional", "--detection-min=.4").out
        assert rows(out, by_runs=True)[0][:4] == ["22", "32", "0.043", "0.099"]
        assert "false-alarm budget of 1 run in 10 (conditional)" in " ".join(out.split())
        assert "detection rate surely at least 0.4 " in out

    def test_nothing_is_written_unless_asked_for(self, tmp_path: Path):
        assert gmb("plan").code == 0
        assert list(tmp_path.iterdir()) == []

    def test_every_requirement_is_listed(self):
        out = gmb("plan", "--f=.05,.1", "--assume-chance=.2", "--candidates=50").out
        for line in (
            "30 events ",
            "coverage surely at least 0.3 ",
            "better than chance (0.20) ",
            "rate at 0.05  rate at 0.1",
        ):
            assert line in out
        assert "Holm over 50 scores at 0.05 takes 999 draws of each chance null: 2,000" in out

    def test_too_few_draws_are_said(self):
        out = gmb("plan", "--candidates=200").out
        assert (
            "takes 3,999 draws of each chance null: set x_null_draws, which is 2,000"
            in " ".join(out.split())
        )

    @pytest.mark.parametrize("name", ["plan.json", "plan.yaml"])
    def test_written_as(self, name: str):
        done = gmb("plan", "--out", name)
        assert done.code == 0
        assert f"wrote   {name}" in done.out
        path = Path(name)
        plan = json.loads(path.read_text()) if name.endswith("json") else load_yaml(path)
        assert plan["chosen"]["calibration"] == 95
        assert plan["goal"]["power"] == 0.8
        assert str(plan["chosen"]["held_out"]) == rows(done.out)[2][4]

    def test_where_no_number_of_runs_helps_the_answer_is_no(self):
        done = gmb("plan", "--assume-chance=.6")
        assert done.code == 1
        assert rows(done.out)[2][4:] == ["–", "–"]
        assert {row[5] for row in rows(done.out, by_runs=True)} == {"–"}
        assert done.err.startswith("no: no plan: up to 399 calibration runs and 100,000 held-out")

    @pytest.mark.parametrize("width", [80, 120])
    def test_it_fits_the_terminal(self, width: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", str(width))
        done = gmb("plan", "--f=.05,.1", "--assume-chance=.2", "--candidates=50")
        assert all(len(line.rstrip()) <= width for line in done.out.splitlines())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--f=five",), "--fpr 'five': write rates with commas"),
            (("--f=0.05,2",), "--fpr must be a number in (0, 1), got 2"),
            (("--f=0.05,0.05",), "--fpr must name at least one rate, each once"),
            (("--primary-fpr=0.2",), "--primary-fpr 0.2 is not among --fpr [0.05]"),
            (("--primary-fpr=0",), "--primary-fpr must be greater than 0"),
            (("--detection=0.3",), "--detection 0.3 must exceed the minimum 0.3"),
            (("--detection=2",), "--detection must be a number above 0 and at most 1, got 2"),
            (("--run-budgets=.1,.2",), "--run-budget 0.05 is not among --run-budgets"),
            (("--coverage=0",), "--coverage must be a number above 0 and at most 1, got 0"),
            (("--coverage=nan",), "--coverage must be a number above 0"),
            (("--coverage=0.3",), "--coverage 0.3 must exceed the minimum 0.3"),
            (("--power=1",), "--power must be a number in (0, 1), got 1"),
            (("--candidates=0",), "--candidates must be at least 1, got 0"),
            (("--alpha=2",), "--alpha must be less than 1"),
            (("--eps=-1",), "--eps must be greater than or equal to 0"),
            (("--events-min=0",), "--events-min must be greater than or equal to 1"),
            (("--coverage-min=2",), "--coverage-min must be less than or equal to 1"),
            (("--assume-events=1.5",), "--assume-events must be a number above 0 and at most 1"),
            (("--assume-negatives=0",), "--assume-negatives must be a number above 0"),
            (("--assume-chance=-1",), "--assume-chance must be a number above 0"),
            (("--horizon=5",), "--horizon describes a pilot: give its logs with --pilot"),
            (("--score=x",), "--score describes a pilot"),
            (("--out=plan.txt",), "plan.txt: a plan is written as .json or .yaml"),
            (("--prereg=gone.yaml",), "gone.yaml: there is no such file"),
            (("--power=much",), "Invalid value for '--power'"),
        ],
    )
    def test_bad_input(self, options: tuple[str, ...], message: str, tmp_path: Path):
        assert message in refused("plan", *options)
        assert list(tmp_path.iterdir()) == []


class TestPilot:
    def test_measured_instead_of_assumed(self, csv_logs: Path):
        done = gmb("plan", "--pilot", csv_logs, *PILOT)
        assert done.code == 0, done
        text = " ".join(done.out.split())
        assert "From 48 pilot runs: the first alarm detects 0." in text
        assert "From 48 pilot runs with 48 events: coverage 1.00 [0.93, 1.00]" in text
        assert "an event in 100% of runs" in text
        assert re.search(r"chance covers 0\.\d\d", text)
        assert "better than chance" in text

    def test_what_is_typed_goes_before_what_is_measured(self, csv_logs: Path):
        done = gmb("plan", "--pilot", csv_logs, *PILOT, "--coverage=0.9")
        assert {row[3] for row in rows(done.out)} == {"0.90"}

    def test_a_preregistration_gives_the_design(self, csv_logs: Path):
        Design.minimal(
            horizon=100,
            safe_gap=200,
            jump_threshold=0.2,
            burn_in=150,
            fpr_targets=[0.05, 0.1],
            null_draws=500,
            candidates=[{"name": "embedding_gini", "family": "external"}, {"name": "vei"}],
        ).write("prereg.yaml")
        done = gmb("plan", "--prereg=prereg.yaml", "--pilot", csv_logs)
        assert done.code == 0, done
        assert "rate at 0.05  rate at 0.1" in done.out
        assert "Holm over 2 scores at 0.05 takes 39 draws" in done.out
        following = "gmb lock --prereg prereg.yaml --runs EXPLORE_RUNS --out lock.yaml"
        assert done.next_command == following
        assert gmb("plan", "--prereg=prereg.yaml").code == 0
        # An option changes what the file says; both together are checked as one design.
        assert "takes 99 draws" in gmb("plan", "--prereg=prereg.yaml", "--alpha=.02").out
        message = refused("plan", "--prereg=prereg.yaml", "--f=.1")
        assert message.startswith("error: --min-targets-ok is 2, but there are only 1 --fpr")

    def test_a_score_with_a_floor_cannot_be_planned_for(self, small_csv: Path):
        with small_csv.open(encoding="utf-8", newline="") as file:
            table = list(csv.DictReader(file))
        for row in table:
            row["embedding_gini"] = (
                str(int(row["step"]) % 20 > 0)[0].replace("T", "1").replace("F", "0")
            )
        with small_csv.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
        done = gmb("plan", "--pilot", small_csv, "--score=embedding_gini", "--horizon=60",
                   "--safe-gap=100")  # fmt: skip
        assert done.code == 1
        assert "cannot alarm at a false positive rate of 0.05" in done.err
        assert "windows of the pilot tie at 1" in done.err

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "--score, --horizon, --safe-gap missing: say what to judge"),
            ((*PILOT, "--score=embeding_gini"), "Did you mean 'embedding_gini'?"),
            ((*PILOT, "--metric=acc"), "column 'acc' missing"),
            ((*PILOT, "--safe-gap=100"), "must be larger than"),
            ((*PILOT, "--window=25"), "--window is 25 steps, but 'test_acc' is logged every 10"),
            ((*PILOT, "--sign=2"), "--sign must be +1 or -1, got 2"),
            ((*PILOT, "--nan=drop"), "--nan: value 'drop' is unknown; known: error, ignore"),
            ((*PILOT, "--jump=5"), "none of the 48 pilot runs has an event"),
            ((*PILOT, "--burn-in=1190"), "0 pilot run(s) have negative windows"),
        ],
    )
    def test_bad_input(self, csv_logs: Path, options: tuple[str, ...], message: str):
        assert message in refused("plan", "--pilot", csv_logs, *options)

    def test_no_logs(self):
        assert "no such file or folder" in refused("plan", "--pilot=gone.csv", *PILOT)
