"""`gmb evaluate --protocol compat` against every number that the reference project published.

`expected.json` holds its tables for seeds 140 to 159 (CC BY 4.0, Qien Huang); the pilot's numbers
are its results for repair A (seeds 140 to 143, each trained once) and B (the score times .4).
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import published_score as published
import pytest

from gmb_hf import Results
from gmb_hf.cli import main

TARGETS = (0.01, 0.05, 0.10, 0.20)
ROW = [
    "run", "n_pos", "n_neg", "n_eff", "n_eff_ratio", "k_eff", "tie_dom", "roc_auc",
    "average_precision",
]  # fmt: skip


def evaluate(out: Path, runs: Path, *options: str) -> dict[str, Any]:
    """Run the command and return the results file as plain data."""
    command = ["evaluate", "--protocol", "compat", "--runs", str(runs), "--score", "score"]
    command += ["--metric", "acc_test", *options, "--no-figures", "--out", str(out)]
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(command) == 0
    return Results.read(out / "results.yaml").plain()


@pytest.fixture(scope="module")
def expected(reference_runs: Path) -> dict[str, Any]:
    return json.loads((reference_runs / "expected.json").read_text())


@pytest.fixture(scope="module", params=["plus", "minus"])
def sign(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def results(
    reference_runs: Path, sign: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    one = "+1" if sign == "plus" else "-1"
    options = ("--sign", one, "--fpr", ".01,.05,.10,.20")
    return evaluate(tmp_path_factory.mktemp(sign), reference_runs / "*.csv", *options)


def test_events_of_20_of_20_runs(results: dict[str, Any], expected: dict[str, Any]) -> None:
    published_steps = {run.removeprefix("seed_"): row["t_event"] for run, row in expected.items()}
    assert results["event"]["t_event_by_seed"] == published_steps
    assert results["event"]["x_without_event"] == {"155": "no event by step 300000"}


def test_windows_of_20_of_20_runs(results: dict[str, Any], expected: dict[str, Any]) -> None:
    found = {row["run"]: (row["n_pos"], row["n_neg"]) for row in results["x_per_run"]}
    assert found == {run: (row["n_pos"], row["n_neg"]) for run, row in expected.items()}
    assert found["seed_140"] == (41, 623)  # its repeated steps are kept


def test_ranking_of_each_run(results: dict[str, Any], expected: dict[str, Any], sign: str) -> None:
    ranked = 0
    for row in results["x_per_run"]:
        want = expected[row["run"]][sign]
        for name in ("roc_auc", "average_precision"):
            close = None if want[name] is None else pytest.approx(want[name], abs=1e-5)
            assert row[name] == close, (row["run"], name)
        ranked += row["roc_auc"] is not None
    assert ranked == 19


def test_diagnostics_of_each_run(
    results: dict[str, Any], expected: dict[str, Any], sign: str
) -> None:
    for row in results["x_per_run"]:
        want = expected[row["run"]]
        assert row["n_eff"] == pytest.approx(want["n_eff_neg"], rel=1e-4)
        assert row["n_eff_ratio"] == pytest.approx(want["n_eff_neg"] / want["n_neg"], rel=1e-4)
        assert row["k_eff"] == pytest.approx(want["k_eff_neg"], rel=1e-4)
        assert row["tie_dom"] == pytest.approx(want[sign]["tie_dom_topq"], rel=1e-4)


def test_the_file_has_what_its_readers_look_for(results: dict[str, Any]) -> None:
    (item,) = results["indicators"]
    assert all(list(row) == ROW for row in item["x_per_run"])
    assert (results["x_per_run"], results["x_thresholds"]) == (
        item["x_per_run"],
        item["x_thresholds"],
    )
    assert len(item["x_thresholds"]) == len(TARGETS)
    assert tuple(row["target"] for row in item["layer_B"]["achieved"]) == TARGETS
    for point in item["layer_C"]["at_fpr"]:
        assert point["x_abstain_rate"] == pytest.approx(1 - point["coverage"])


def test_both_signs_and_the_published_floor(results: dict[str, Any], sign: str) -> None:
    (item,) = results["indicators"]
    floor = item["layer_B"]["fpr_floor_detected"]
    assert (item["label"], item["x_alarm_eligible"]) == ("INCONCLUSIVE", False)
    assert item["x_reasons"][0] == "few_events"
    assert item["x_reasons"][-1] == "compat_protocol"
    if sign == "plus":
        assert (floor, item["layer_B"]["ok_targets"]) == (False, 4)
        points = item["layer_C"]["at_fpr"]
        assert [point["x_n_covered"] for point in points] == [0, 6, 10, 12]
        assert [point["x_lead_time_mean"] for point in points] == [None, 16000, 10700, 12250]
        return
    # Published for all 40 runs: .438, whatever the target; coverage 1.
    assert (floor, item["layer_B"]["ok_targets"]) == (True, 0)
    assert item["x_thresholds"] == [0.0] * 4
    assert {row["achieved"] for row in item["layer_B"]["achieved"]} == {5111 / 11304}
    assert {point["coverage"] for point in item["layer_C"]["at_fpr"]} == {1.0}


def test_published_thresholds_from_outside(reference_runs: Path, tmp_path: Path) -> None:
    runs, given = reference_runs / "*.csv", ("--thresholds", ".1776,.0984443")
    (item,) = evaluate(tmp_path / "a", runs, *given, "--fpr", ".05,.10")["indicators"]
    assert item["x_thresholds"] == [0.1776, 0.0984443]
    covered = [(point["x_n_covered"], point["x_n_events"]) for point in item["layer_C"]["at_fpr"]]
    assert covered == [(6, 19), (10, 19)]
    achieved = [row["achieved"] for row in item["layer_B"]["achieved"]]
    assert achieved == pytest.approx([0.05, 0.10], abs=0.003)
    (alone,) = evaluate(tmp_path / "b", runs, *given)["indicators"]
    assert alone["layer_B"]["targets"] == achieved
    assert alone["layer_B"]["ok_targets"] is None


@pytest.fixture(scope="module")
def pilot_logs(reference_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs as they were written, each training with its own score.

    The files at hand are sorted by step, and the score of the restarted run is averaged over
    its doubled rows; the published pilot scored the second training alone.
    """
    folder = tmp_path_factory.mktemp("pilot")
    for seed in range(140, 144):
        path = reference_runs / f"seed_{seed}.csv"
        rows = published.read(path)
        training = published.once(rows)
        values = published.score(published.entropy_changes(training))
        scored = [
            {**row, "score": repr(float(value))}
            for row, value in zip(training, values, strict=True)
        ]
        doubled = len(rows) - len(training)
        published.write(folder / path.name, [*scored[:doubled], *scored])
    assert len(published.read(folder / "seed_140.csv")) == 601 + 63
    return folder


class TestPilot:
    """Seeds 140 to 143, the last 601 rows of each log."""

    THRESHOLDS = (4.76225, 0.162133, 0.0852487, 0.0472146)
    ROWS = (
        (89.3663, 0.0357143, 0.428528, 0.0575926),
        (87.2261, 0.0357143, 0.522125, 0.0667915),
        (85.6462, 0.0357143, 0.354443, 0.0534448),
        (84.685, 0.0357143, 0.605923, 0.102202),
    )

    def test_published_numbers(self, pilot_logs: Path, tmp_path: Path) -> None:
        options = ("--last-rows", "601", "--fpr", ".01,.05,.10,.20")
        results = evaluate(tmp_path, pilot_logs / "*.csv", *options)
        self.check(results, 1.0)

    def test_the_score_times_two_fifths(self, pilot_logs: Path, tmp_path: Path) -> None:
        for path in pilot_logs.glob("*.csv"):
            rows = published.read(path)
            scaled = [{**row, "score": repr(0.4 * float(row["score"]))} for row in rows]
            published.write(tmp_path / path.name, scaled)
        options = ("--last-rows", "601", "--fpr", ".01,.05,.10,.20")
        results = evaluate(tmp_path / "out", tmp_path / "*.csv", *options)
        whole = evaluate(tmp_path / "whole", pilot_logs / "*.csv", *options)
        assert results["x_thresholds"] == [0.4 * tau for tau in whole["x_thresholds"]]
        self.check(results, 0.4)

    def check(self, results: dict[str, Any], scale: float) -> None:
        (item,) = results["indicators"]
        thresholds = [scale * tau for tau in self.THRESHOLDS]
        assert item["x_thresholds"] == pytest.approx(thresholds, rel=2e-6)
        achieved = [row["achieved"] for row in item["layer_B"]["achieved"]]
        assert achieved == pytest.approx([0.00982143, 0.05, 0.1, 0.2], abs=1e-8)
        points = item["layer_C"]["at_fpr"]
        assert [point["x_n_covered"] for point in points] == [0, 2, 2, 2]
        assert [point["x_n_events"] for point in points] == [4, 4, 4, 4]
        assert [point["x_abstain_rate"] for point in points] == [1, 0.5, 0.5, 0.5]
        assert [point["x_lead_time_mean"] for point in points] == [None, 12250, 12250, 12250]
        for row, want in zip(item["x_per_run"], self.ROWS, strict=True):
            found = [row[key] for key in ("n_eff", "tie_dom", "roc_auc", "average_precision")]
            assert found == pytest.approx(want, rel=1e-5)
            assert row["k_eff"] == pytest.approx(1.1368, rel=1e-5)
        # Standard deviations over n, as in the published summary.
        ratio = item["diagnostics"]["x_n_eff_ratio_mean"], item["diagnostics"]["x_n_eff_ratio_sd"]
        assert ratio == pytest.approx((0.15487662885976483, 0.003163430942608224), rel=1e-9)


def test_the_score_column_is_the_published_score(reference_runs: Path) -> None:
    """It is smoothed where it is made: compat must not smooth it again."""
    for path in sorted(reference_runs.glob("seed_*.csv")):
        rows = published.read(path)
        training = published.once(rows)
        changes = published.entropy_changes(training)
        if len(rows) > len(training):
            # Sorted by step, the second row of a step follows its like: nothing changes between.
            assert path.stem == published.RESTARTED
            doubled = len(rows) - len(training)
            twice = np.zeros(2 * doubled)
            twice[::2] = changes[:doubled]
            changes = np.concatenate([twice, changes[doubled:]])
        column = [float(row["score"]) for row in rows]
        np.testing.assert_allclose(published.score(changes), column, rtol=1e-9, atol=1e-12)
