"""Strata from the lock to the report: settings of runs, results, tables, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from gmb_hf import Design, InputError, RunLog
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.prepare import run_facts
from gmb_hf.benchmark.results import Results
from gmb_hf.cli import screen as show
from gmb_hf.design.explain import explain_design
from gmb_hf.design.lint import DesignFacts, lint
from gmb_hf.report.answer import answer
from gmb_hf.report.report import render_report
from gmb_hf.report.tables import gate_summary

STRATA = [
    {"name": "strong_decay", "where": "weight_decay >= 0.5"},
    {"name": "weak_decay", "where": "weight_decay < 0.5 and seed >= 0"},
]


def runs(n_runs: int, first_seed: int) -> RunLog:
    """The score rises before the event where the weight decay is 1, and is noise where it is .1."""
    rng = np.random.default_rng(first_seed)
    steps = np.arange(101) * 10
    events = 10.0 * rng.integers(40, 95, size=n_runs)
    decay = np.where(np.arange(n_runs) % 2, 1.0, 0.1)
    lead = events[:, None] - steps
    score = rng.normal(size=(n_runs, 101)) + 9 * (
        (lead > 0) & (lead <= 100) & (decay == 1)[:, None]
    )
    data = {
        "score": score,
        "test_acc": 0.1 + 0.8 * (lead <= -10),
        "weight_decay": np.repeat(decay[:, None], 101, axis=1),
    }
    seeds = [first_seed + i for i in range(n_runs)]
    return RunLog.from_arrays([f"seed_{seed}" for seed in seeds], steps, data, seeds=seeds)


def design(**overrides: Any) -> Design:
    settings: dict[str, Any] = {
        "horizon": 100,
        "safe_gap": 150,
        "w_event": 10,
        "burn_in": 20,
        "coverage_min": 0.8,
        "detection_min": 0.8,
        "smoothing_sweep": [1, 3],
        "strata": STRATA,
        "undeclared": ["task", "model", "optimizer", "schedule", "seeds_eval"],
        "candidates": [{"name": "score", "family": "external", "x_sees_test_labels": False}],
    }
    return Design.minimal(**{**settings, **overrides})


@pytest.fixture(scope="module")
def judged() -> Evaluation:
    lock, _ = make_lock(design(), runs(136, 0))
    return evaluate_lock(lock, runs(200, 1000))


def test_the_results_hold_the_predicate_and_every_stratum(
    judged: Evaluation, tmp_path: Path
) -> None:
    item = Results.read(judged.results.write(tmp_path / "results.yaml")).indicator("score")
    assert item.label == "SCOPE_LIMITED"
    assert item.x_scope is not None
    assert item.x_scope.where == "weight_decay >= 0.5"
    strong, weak = item.x_strata
    assert (strong.n_runs, strong.passed, strong.coverage) == (100, True, 1.0)
    assert (weak.n_runs, weak.passed) == (100, False)
    assert item.x_null_reasons["x_strata[1].label_flip_rate"] == (
        "not measured, since something else already stands against it"
    )
    assert "weight_decay >= 0.5" in item.x_sentence
    clock = judged.results.indicator("clock")
    assert clock.x_scope is None
    assert clock.x_null_reasons["x_scope"] == "the label is not SCOPE_LIMITED"


def test_report_tables_and_terminal_state_it(
    judged: Evaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    report = render_report(judged.results)
    assert "## Strata named beforehand" in report
    assert "| score | strong_decay | weight_decay \\>= 0.5 | 100 | 100 |" in report
    assert "| passes |" in report
    table = gate_summary(judged.results)
    scope = [column.name for column in table.columns].index("scope")
    assert [row[scope] for row in table.rows] == ["weight_decay >= 0.5", "", ""]
    monkeypatch.setattr(show, "console", lambda **_: Console(width=200, highlight=False))
    show.verdicts(judged.results, tmp_path / "report.md")
    assert "only where weight_decay >= 0.5" in capsys.readouterr().out
    said = answer(judged.results).sentence
    assert "score: Holds only where weight_decay >= 0.5" in said


def test_without_strata_the_report_has_no_such_section() -> None:
    lock, _ = make_lock(design(strata=[]), runs(40, 0))
    assert "Strata" not in render_report(evaluate_lock(lock, runs(40, 1000)).results)


def test_a_lock_says_what_its_strata_are_for() -> None:
    text = " ".join(explain_design(design()))
    assert "passes everything only where weight_decay >= 0.5 (stratum strong_decay)" in text


class TestFacts:
    def test_seed_and_column(self) -> None:
        facts = run_facts(design(), runs(4, 7))
        assert facts["weight_decay"].tolist() == [0.1, 1.0, 0.1, 1.0]
        assert facts["seed"].tolist() == [7.0, 8.0, 9.0, 10.0]

    def test_a_seed_that_is_not_known(self) -> None:
        log = runs(2, 7)
        table = log.table.drop_columns(["seed"])
        names = [f"run_{name[-1]}x" for name in table["run"].to_pylist()]
        renamed = table.set_column(table.column_names.index("run"), "run", [names])
        assert np.isnan(run_facts(design(), RunLog.from_table(renamed))["seed"]).all()

    def test_a_column_that_changes_within_a_run(self) -> None:
        changing = design(strata=[{"name": "high", "where": "score > 1"}])
        with pytest.raises(InputError, match=r"stratum 'high' .*'score' goes from .* within run"):
            make_lock(changing, runs(40, 0))

    def test_a_column_that_is_missing(self) -> None:
        missing = design(strata=[{"name": "big", "where": "weight_deacy > 1"}])
        with pytest.raises(InputError, match=r"'weight_deacy' is unknown; .* 'weight_decay'\?"):
            make_lock(missing, runs(40, 0))


class TestLint:
    def found(self, design: Design, **facts: Any) -> dict[str, str]:
        return {item.code: item.message for item in lint(design, DesignFacts(**facts))}

    def test_the_event_is_no_setting(self) -> None:
        late = design(strata=[{"name": "late", "where": "event_step > 600"}])
        assert "known only afterwards" in self.found(late)["stratum_on_event"]
        assert "stratum_on_event" not in self.found(design())

    def test_too_few_events_to_expect(self) -> None:
        found = self.found(
            design(), n_explore=100, n_eval=200, stratum_events={"strong_decay": 14, "weak": 15}
        )
        assert "strong_decay: 14 explore events let expect 28" in found["few_events_in_stratum"]

    def test_the_draws_must_reach_alpha_over_strata_and_looks(self) -> None:
        # 2 candidates x 3 tests at .05: 119 draws give 1/120 = .05/6; at two looks 239.
        for looks, needed in ((1, 119), (2, 239)):
            settings = {"looks": looks, "max_eval_seeds": 500}
            enough = design(null_draws=needed, **settings)
            assert "few_null_draws" not in self.found(enough, n_candidates=2)
            few = self.found(design(null_draws=needed - 1, **settings), n_candidates=2)
            assert f"draw at least {needed}" in few["few_null_draws"]
            assert "2 candidate(s), 2 strata each" in few["few_null_draws"]
