"""Explore, lock, evaluate: the same runs give the same numbers on every way to a verdict."""

from __future__ import annotations

import csv
import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from synthetic import synthetic_runlog

from gmb_hf import Design, InputError, Lock, RunLog
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock, evaluate_runs
from gmb_hf.benchmark.gates import label_of
from gmb_hf.benchmark.locking import Explored, explore, make_lock, write_explored
from gmb_hf.benchmark.prepare import CONTROLS, prepare
from gmb_hf.design.lock import LockedSystem
from gmb_hf.report.answer import answer
from gmb_hf.report.report import render_report

NAMES = ("embedding_norm_drop", "embedding_gini", "embedding_rank", *CONTROLS)


@pytest.fixture(scope="module")
def lock(explore_log: RunLog, design: Design) -> Lock:
    return make_lock(design, explore_log)[0]


@pytest.fixture(scope="module")
def by_lock(lock: Lock, held_out_log: RunLog) -> Evaluation:
    return evaluate_lock(lock, held_out_log, lock_path="lock.yaml")


@pytest.fixture(scope="module")
def by_runs(design: Design, explore_log: RunLog, held_out_log: RunLog) -> Evaluation:
    return evaluate_runs(design, held_out_log, explore=explore_log)


def described(log: RunLog, **metadata: Any) -> RunLog:
    return RunLog.from_table(log.table, metadata=metadata)


class TestBoundary:
    """What a verdict speaks about is declared, by the design or the logs, or said to be open."""

    def test_a_lock_without_it_is_refused(self, design: Design, explore_log: RunLog):
        bare = design.replace(undeclared=[], task="modular addition", optimizer="<optimizer>")
        with pytest.raises(InputError) as refused:
            make_lock(bare, explore_log)
        assert refused.value.code == "undeclared_boundary"
        assert str(refused.value) == (
            "prereg: boundary.model, boundary.optimizer, boundary.schedule, boundary.seeds_eval "
            "are not declared, nor do the logs say it: a verdict speaks about a declared system "
            "only. Type what it is, or boundary.x_undeclared for all that shall stay open, which "
            "the results repeat"
        )
        with pytest.raises(
            InputError, match=r"^prereg: boundary\.seeds_eval is not declared, nor do"
        ):
            make_lock(
                design.replace(undeclared=["task", "model", "optimizer", "schedule"]), explore_log
            )

    def test_logs_fill_it_in_and_undeclared_is_repeated(
        self, design: Design, explore_log: RunLog, held_out_log: RunLog
    ):
        system = {"task": "modular addition", "model": "one layer"}
        lock = make_lock(design.replace(schedule="undeclared"), described(explore_log, **system))[0]
        boundary = lock.design.section("boundary")
        assert (boundary["task"], boundary["model"]) == tuple(system.values())
        assert boundary["optimizer"] == boundary["schedule"] == "undeclared"
        assert boundary["x_undeclared"] == ("seeds_eval",)
        scope = "Holds for: optimizer undeclared, schedule undeclared, seeds_eval undeclared."
        # Of what is undeclared, held-out logs may say what they like.
        found = evaluate_lock(lock, described(held_out_log, optimizer="AdamW")).results
        assert scope in found.summary.x_notes
        assert answer(found).sentence.endswith(scope)
        assert found.boundary.model == "one layer"
        assert scope in render_report(found)
        told = "optimizer undeclared; schedule undeclared, and about nothing else"
        assert told in render_report(found)

    def test_undeclared_may_be_typed_for_the_seeds(self):
        lengths = {"horizon_steps": 100}, {"safe_gap_steps": 200}
        labels = dict(zip(("positive_window", "negative_window"), lengths, strict=True))
        plain = {"boundary": {"task": "undeclared", "seeds_eval": "undeclared"}, "labels": labels}
        read = Design.parse(plain, where="prereg.yaml")
        assert (read.seeds_eval, read.undeclared) == ((), ("seeds_eval",))
        assert read.scope == "Holds for: task undeclared, seeds_eval undeclared."
        assert Design.parse(read.plain(), where="again") == read


class TestOneWayOrTheOther:
    """A lock made on the explore runs, or the same explore runs given along."""

    def test_thresholds(self, by_lock: Evaluation, by_runs: Evaluation):
        for name in NAMES:
            locked, found = (way.judgements[name].calibrated for way in (by_lock, by_runs))
            assert locked.deployed == found.deployed

    @pytest.mark.parametrize("layer", ["layer_A", "layer_C", "layer_D", "diagnostics"])
    def test_every_number_of(self, layer: str, by_lock: Evaluation, by_runs: Evaluation):
        for locked, found in zip(
            by_lock.results.indicators, by_runs.results.indicators, strict=True
        ):
            assert locked.name == found.name
            assert getattr(locked, layer) == getattr(found, layer), locked.name

    def test_layer_b_but_for_what_a_lock_promises(self, by_lock: Evaluation, by_runs: Evaluation):
        for locked, found in zip(
            by_lock.results.indicators, by_runs.results.indicators, strict=True
        ):
            ours, theirs = (
                item.layer_B.model_copy(
                    update={
                        "x_calibration": None,
                        "x_budget_state": None,
                        "x_budget_pass": None,
                        "x_passed": None,
                        "achieved": tuple(
                            row.model_copy(update={"x_state": None})
                            for row in item.layer_B.achieved
                        ),
                    }
                )
                for item in (locked, found)
            )
            assert ours == theirs

    def test_first_alarms_but_for_what_a_lock_promises(
        self, by_lock: Evaluation, by_runs: Evaluation
    ):
        for locked, found in zip(
            by_lock.results.indicators, by_runs.results.indicators, strict=True
        ):
            ours, theirs = locked.x_first_alarm, found.x_first_alarm
            assert (ours.basis, theirs.basis) == ("promised", "shown")
            assert ours.alarm_steps == theirs.alarm_steps
            for at, beside in zip(ours.at_budget, theirs.at_budget, strict=True):
                assert at == beside.model_copy(update={"state": at.state})

    def test_what_a_lock_promises_must_be_shown_without_one(
        self, by_lock: Evaluation, by_runs: Evaluation, design: Design
    ):
        """The same intervals, which a promise must not lie above, and proof must lie below."""
        for locked, found in zip(
            by_lock.results.indicators, by_runs.results.indicators, strict=True
        ):
            for ours, theirs in zip(locked.layer_B.achieved, found.layer_B.achieved, strict=True):
                line = ours.target + min(design.fpr_eps, ours.target / 2)
                low, high = ours.x_interval.low, ours.x_interval.high
                if ours.x_answer == "ABSTAIN":
                    assert (ours.x_state, theirs.x_state) == ("straddles", "straddles")
                elif locked.name != "constant":  # a tie forbids every budget
                    assert ours.x_state == ("missed" if low > line else "met")
                    proof = "met" if high <= line else "missed" if low > line else "straddles"
                    assert theirs.x_state == proof
            for ours, theirs in zip(
                locked.x_first_alarm.at_budget, found.x_first_alarm.at_budget, strict=True
            ):
                low, high = ours.false_alarm_interval.low, ours.false_alarm_interval.high
                line = ours.budget + min(0.05, ours.budget / 2)
                assert ours.state == ("missed" if low > ours.budget else "met")
                proof = "met" if high <= line else "missed" if low > line else "straddles"
                assert theirs.state == proof

    def test_the_gates_but_for_what_a_lock_promises(self, by_lock: Evaluation, by_runs: Evaluation):
        """Detection, chance and lead are one thing; budgets, and their stability, another."""
        promised = {"budget", "stability"}
        for locked, found in zip(
            by_lock.results.indicators, by_runs.results.indicators, strict=True
        ):
            ours, theirs = (
                [gate for gate in item.x_gates if gate.gate not in promised]
                for item in (locked, found)
            )
            assert ours == theirs
            for item in (locked, found):
                few = "few_events" in item.x_reasons
                assert item.label == label_of(item.x_gates, few=few)
        assert "SUPPORTED_FOR_ALARM" in {item.label for item in by_lock.results.indicators}
        assert not any(item.x_alarm_eligible for item in by_runs.results.indicators)

    def test_the_results_say_which(self, by_lock: Evaluation, by_runs: Evaluation):
        for way, method in ((by_lock, "locked"), (by_runs, "explore")):
            assert way.results.x_calibration is not None
            assert way.results.x_calibration.method == method
        assert by_lock.lock is not None
        assert by_runs.lock is None
        assert by_lock.results.meta.prereg_path == "lock.yaml"

    def test_a_lock_dates_its_results(self, lock: Lock, held_out_log: RunLog):
        earlier = dataclasses.replace(
            lock, x_lock=lock.x_lock.model_copy(update={"created": "2020-02-29T23:59:59+00:00"})
        )
        meta = evaluate_lock(earlier, held_out_log).results.meta
        assert meta.date == "2020-02-29"
        assert meta.run_id == f"runs_{held_out_log.fingerprint()[:8]}"

    def test_files_in_place_of_a_lock_and_runs(
        self, lock: Lock, held_out_log: RunLog, by_lock: Evaluation, tmp_path: Path
    ):
        path = lock.write(tmp_path / "lock.yaml")
        again = evaluate_lock(path, held_out_log.write(tmp_path / "heldout.parquet"))
        assert again.results.indicators == by_lock.results.indicators
        assert again.results.meta.prereg_path == str(path)


class TestLocking:
    def test_candidates_and_controls_with_every_member(self, lock: Lock):
        assert tuple(lock.x_lock.candidates) == NAMES
        assert len(lock.candidate("embedding_norm_drop").members) == 2 + 2 * 2
        assert len(lock.candidate("embedding_gini").members) == 2
        assert lock.candidate("embedding_rank").sign == -1

    def test_what_the_explore_runs_are(self, lock: Lock, explore_log: RunLog):
        assert lock.x_lock.explore_runs == explore_log.runs
        assert lock.x_lock.explore_fingerprint == explore_log.fingerprint()
        assert 19 <= lock.x_lock.n_calibration_runs <= 30
        assert lock.design.cadence == 10

    def test_what_30_runs_cannot_pay_for_is_infinite(self, lock: Lock):
        thresholds = lock.thresholds("embedding_gini")
        assert math.isinf(thresholds[0.01])
        assert math.isfinite(thresholds[0.05])
        assert thresholds[0.05] >= thresholds[0.10]

    def test_progress_is_told(self, design: Design, explore_log: RunLog):
        told: list[str] = []
        make_lock(design, explore_log, on_done=told.append)
        assert tuple(told) == NAMES

    def test_held_out_seeds_among_the_explore_runs(self, design: Design, explore_log: RunLog):
        held_out = list(range(3, 100))
        with pytest.raises(InputError, match=r"3, 4, .* are in both seeds_explore and seeds_eval"):
            make_lock(design.replace(seeds_eval=held_out), explore_log)

    def test_explore_seeds_are_those_that_were_seen(self, design: Design, explore_log: RunLog):
        lock, _ = make_lock(design.replace(seeds_explore=[]), explore_log)
        assert lock.design.seeds_explore == tuple(sorted(explore_log.seeds))
        assert "seeds_explore" not in lock.design.scope

    def test_a_boundary_that_the_explore_logs_contradict(self, design: Design, explore_log: RunLog):
        log = described(explore_log, optimizer="SGD")
        with pytest.raises(InputError, match=r"boundary\.optimizer is 'AdamW', the explore logs"):
            make_lock(design.replace(optimizer="AdamW"), log)

    def test_a_candidate_that_sees_the_future(
        self, design: Design, explore_log: RunLog, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("gmb_hf.benchmark.locking.non_causal", lambda *_: ("peeks",))
        with pytest.raises(InputError, match="peeks changes its past when the future is cut off"):
            make_lock(design, explore_log)

    def test_warnings_come_back_and_refuse_on_request(self, design: Design, explore_log: RunLog):
        _, findings = make_lock(design, explore_log)
        assert {item.code for item in findings} >= {"few_runs_for_target", "thin_budget"}
        assert {item.level for item in findings} == {"warning"}
        with pytest.raises(InputError, match="design refused"):
            make_lock(design, explore_log, strict_lint=True)


class TestEvaluating:
    def test_every_held_out_run_and_its_event(self, by_lock: Evaluation, held_out_log: RunLog):
        found = by_lock.results.event.t_event_by_seed
        assert len(found) == 40
        assert by_lock.results.summary.n_events == by_lock.events.n_events == 40
        assert by_lock.log is held_out_log

    def test_the_boundary_of_the_lock(self, lock: Lock, held_out_log: RunLog):
        sparse = held_out_log.table.filter(
            pa.array(np.asarray(held_out_log.table["step"]) % 50 == 0)
        )
        with pytest.raises(InputError, match=r"checkpoint_every_steps: locked 10, found 50"):
            evaluate_lock(lock, RunLog.from_table(sparse))

    def test_every_part_of_the_boundary(
        self, design: Design, explore_log: RunLog, held_out_log: RunLog
    ):
        system = {"task": "t", "model": "m", "optimizer": "o", "schedule": "s"}
        lock = make_lock(design, described(explore_log, **system))[0]
        assert evaluate_lock(lock, described(held_out_log, **system)).results.indicators
        for field in system:
            other = described(held_out_log, **{**system, field: "other"})
            with pytest.raises(InputError, match=rf"boundary\.{field}: locked '.', found 'other'"):
                evaluate_lock(lock, other)

    def test_what_a_callback_can_see_of_the_system(self, design: Design, explore_log: RunLog):
        said = {"task": "t", "model": "m", "optimizer": "o", "schedule": "s"}
        shown = {"architecture": "Llama", "optimizer": "SGD", "learning_rate": 0.1}

        def locked(log: RunLog, **fields: str) -> Lock:
            return make_lock(design.replace(**fields), log)[0]

        old = locked(described(explore_log, **said))
        assert old.x_lock.x_system == LockedSystem()
        new = locked(described(explore_log, **said, system=shown))
        assert new.x_lock.x_system is not None
        assert new.x_lock.x_system.plain() == shown
        assert new.fingerprint == old.fingerprint  # no other lock to look by
        # What is not declared is not compared, nor what is no such value or differs in the logs.
        half = locked(described(explore_log, **said, system=shown), model="undeclared")
        assert half.x_lock.x_system is not None
        assert half.x_lock.x_system.architecture is None
        parts = [
            described(explore_log.select(explore_log.runs[i::2]), **said, system={**shown, **odd})
            for i, odd in enumerate([{"learning_rate": 0.2}, {"weight_decay": "none", "x": []}])
        ]
        mixed = locked(RunLog.concat(parts)).x_lock.x_system
        assert mixed is not None
        assert mixed.plain() == {"architecture": "Llama", "optimizer": "SGD"}
        foreign = described(explore_log, **said, system=[1])
        assert locked(foreign).x_lock.x_system == LockedSystem()

    def test_one_part_of_the_logs_from_another_system(
        self, design: Design, explore_log: RunLog, held_out_log: RunLog
    ):
        lock = make_lock(design, described(explore_log, task="t"))[0]
        halves = (held_out_log.select(held_out_log.runs[i::2]) for i in (0, 1))
        mixed = [
            described(half, task=task) for half, task in zip(halves, ("t", "other"), strict=True)
        ]
        with pytest.raises(InputError, match=r"boundary\.task: locked 't', found 'other'"):
            evaluate_lock(lock, RunLog.concat(mixed))

    def test_runs_that_the_lock_was_made_on(self, lock: Lock, explore_log: RunLog):
        with pytest.raises(InputError, match="are the explore runs that this lock was made on"):
            evaluate_lock(lock, explore_log)

    def test_a_run_on_both_sides_without_a_lock(self, design: Design, explore_log: RunLog):
        some = explore_log.select(explore_log.runs[:2])
        with pytest.raises(InputError, match=r"to judge: 2 also used to explore \(0, 1\)"):
            evaluate_runs(design, explore_log, explore=some)
        with pytest.raises(InputError, match="the explore runs are the runs to judge"):
            evaluate_runs(design, explore_log, explore=explore_log)

    def test_the_same_seeds_under_other_names_without_a_lock(
        self, design: Design, explore_log: RunLog
    ):
        table = explore_log.table
        names = pa.array([f"late_{name}" for name in table["run"].to_pylist()])
        renamed = RunLog.from_table(table.set_column(0, "run", names)).select(["late_seed_3"])
        assert renamed.seeds == (3,)
        with pytest.raises(InputError, match=r"1 also used to explore \(3\)"):
            evaluate_runs(design, renamed, explore=explore_log)

    def test_explore_runs_of_another_cadence_without_a_lock(
        self, design: Design, explore_log: RunLog, held_out_log: RunLog
    ):
        sparse = RunLog.from_table(
            explore_log.table.filter(pa.array(np.asarray(explore_log.table["step"]) % 50 == 0))
        )
        with pytest.raises(InputError, match="checkpoint every 50 steps, the runs to judge every"):
            evaluate_runs(design, held_out_log, explore=sparse)

    def test_without_a_lock_the_design_is_linted_too(
        self, design: Design, held_out_log: RunLog, by_runs: Evaluation
    ):
        notes = by_runs.results.summary.x_notes
        assert any(note.startswith("[thin_budget] with ") for note in notes)
        with pytest.raises(InputError, match="lead_minimum_beyond_horizon"):
            evaluate_runs(design.replace(lead_time_median_min=500), held_out_log)

    def test_a_note_says_which_namesake_was_taken(self, by_runs: Evaluation):
        note = "Indicators, not the columns of the log of that name: embedding_gini."
        assert note in by_runs.results.summary.x_notes

    def test_alone_the_runs_calibrate_one_another(self, design: Design, held_out_log: RunLog):
        results = evaluate_runs(design, held_out_log).results
        assert results.x_calibration is not None
        assert results.x_calibration.method == "cross_run"
        literal = evaluate_runs(design.replace(protocol="v0.4"), held_out_log).results
        assert literal.x_calibration is not None
        assert literal.x_calibration.method == "in_sample"
        assert literal.x_protocol == "v0.4"

    def test_no_events_is_a_note_and_no_verdict(self, design: Design, held_out_log: RunLog):
        flat = design.replace(jump_threshold=5.0)
        results = evaluate_runs(flat, held_out_log).results
        assert {item.label for item in results.indicators} == {"INCONCLUSIVE"}
        assert (
            "No run has an event: test_acc never jumps as E_jump asks." in results.summary.x_notes
        )

    def test_p_values_are_adjusted_over_the_candidates(self, by_lock: Evaluation, design: Design):
        for item in by_lock.results.indicators:
            point = item.point(design.primary_fpr)
            assert point is not None
            assert item.x_p_adjusted is not None
            assert point.x_p_value is not None
            assert point.x_p_value <= item.x_p_adjusted <= 1


@pytest.fixture(scope="module")
def rows() -> list[Explored]:
    """Both signs of two candidates and the controls on 24 explore runs."""
    return explore(design_of_rows(), synthetic_runlog(24, 81))


def design_of_rows() -> Design:
    names = [{"name": "embedding_gini", "family": "spectral"}, {"name": "train_acc", "x_sign": -1}]
    lengths = {"horizon": 100, "safe_gap": 150, "w_event": 50}
    return Design.minimal(**lengths, jump_threshold=0.2, candidates=names)


class TestExploring:
    def test_both_signs_best_first(self, rows: list[Explored]):
        tried = {(row.indicator, row.sign) for row in rows}
        names = ("embedding_gini", "train_acc", *CONTROLS)
        assert tried == {(name, sign) for name in names for sign in (1, -1)}
        assert (rows[0].indicator, rows[0].sign) == ("embedding_gini", 1)
        detected = [row.detection_rate or 0.0 for row in rows]
        assert detected == sorted(detected, reverse=True)
        assert detected[0] > 0.5

    def test_first_alarms_are_those_of_the_judgement(self, rows: list[Explored]):
        best, constant = rows[0], next(row for row in rows if row.indicator == "constant")
        assert best.timely_rate is not None
        assert best.timely_rate <= best.detection_rate
        assert best.run_p_value < 0.01
        assert best.chance < best.detection_rate
        assert (constant.detection_rate, constant.false_alarm_rate) == (0.0, 0.0)
        few = explore(design_of_rows(), synthetic_runlog(12, 81))
        found = {(row.detection_rate, row.false_alarm_rate, row.run_p_value) for row in few}
        assert found == {(None,) * 3}

    def test_opposite_signs_rank_oppositely(self, rows: list[Explored]):
        area = {(row.indicator, row.sign): row.auc for row in rows}
        for name in ("embedding_gini", "train_acc", "clock"):
            up, down = area[name, 1], area[name, -1]
            assert up is not None
            assert down is not None
            assert up + down == pytest.approx(1)

    def test_chance_is_the_harder_baseline(self, rows: list[Explored], design: Design):
        log, chosen = synthetic_runlog(24, 81), design_of_rows()
        prepared = prepare(log, chosen)
        entry = next(one for one in prepared.entries if one.name == "embedding_gini")
        alarms = prepared.judgement(entry).first_alarms(chosen.primary_run_budget)
        by_name = {name: each.mean() for name, each in alarms.chances.items()}
        assert set(by_name) == {"constant_hazard", "risk_set"}
        assert rows[0].chance == max(by_name.values())
        assert rows[0].run_p_value == max(alarms.p_values.values())

    def test_the_table_reads_back(self, rows: list[Explored], tmp_path: Path):
        path = write_explored(rows, tmp_path / "explore.csv")
        with path.open(encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file))
        assert list(found[0])[-5:] == [
            "coverage", "lead_time_median", "shift_coverage", "risk_set_coverage", "p_value",
        ]  # fmt: skip
        assert float(found[0]["shift_coverage"]) == rows[0].nulls["shift"]
        assert [row["indicator"] for row in found] == [row.indicator for row in rows]
        missing = [row for row, text in zip(rows, found, strict=True) if text["p_value"] == ""]
        assert all(row.p_value is None for row in missing)
        assert float(found[0]["auc"]) == rows[0].auc
