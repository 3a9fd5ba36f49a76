"""A monitor on held-out runs: what the batch evaluation says, and what it must not say."""

from __future__ import annotations

import math
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live_runs import DESIGN, GAIN, GINI, NORM, SYSTEM, Evaluated

from gmb_hf import make_lock
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.results import Results
from gmb_hf.indicators.catalogue import compute
from gmb_hf.monitor.monitor import AlarmMonitor
from gmb_hf.monitor.reading import Reading


def last(monitor: AlarmMonitor, rows: Any) -> Reading:
    for row in rows:
        reading = monitor.update(**row)
    return reading


class TestAlarm:
    @pytest.mark.parametrize("name", [GAIN, "settled_structure", NORM])
    def test_by_windows_it_rings_wherever_the_batch_evaluation_does(
        self, evaluated: Evaluated, name: str
    ) -> None:
        lock, held_out = evaluated.lock, evaluated.held_out
        scores = compute(held_out, name, **lock.candidate(name).params)
        threshold = lock.thresholds(name)[lock.design.primary_fpr]
        over = (scores.values >= threshold) & (scores.steps >= lock.design.burn_in)
        for row in range(4):
            monitor = evaluated.monitor(name, unit="window")
            readings = [monitor.update(**at) for at in evaluated.rows(row)]
            alarms = [reading.step for reading in readings if reading.state == "ALARM"]
            np.testing.assert_array_equal(alarms, scores.steps[row, over[row]])
            np.testing.assert_array_equal(
                [reading.scores[name] for reading in readings], scores.values[row]
            )
            assert len(alarms) > 1
            assert readings[-1].alarm is None

    def test_a_reading_says_score_threshold_budget_and_reason(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(GAIN)
        for row in evaluated.rows():
            reading = monitor.update(**row)
            if reading.state == "ALARM":
                break
        item = reading.indicator(GAIN)
        assert item.score >= item.threshold == evaluated.lock.run_thresholds(GAIN)[0.05]
        assert reading.reason == (
            f"{GAIN} reached {item.score:.6g}, its threshold is {item.threshold:.6g}"
        )
        watched = (reading.step - 150) // 10 + 1
        assert (item.alarms, item.watched) == (1, watched)
        assert (item.unit, item.budget, item.budget_spent) == ("run", 0.05, None)
        assert reading.since == reading.alarm == reading.step
        assert (
            item.promise
            == reading.promise
            == (
                "False alarms in at most 1 run in 20 (0.043 expected, 90% sure of at most 0.071, "
                "by 92 explore runs)."
            )
        )
        assert reading.health == (
            "It abstains for nothing in at most 0.05 of runs, by 50 whole explore runs."
        )
        assert reading.to_dict()["indicators"][0]["label"] == "SUPPORTED_FOR_ALARM"

    def test_another_target_of_the_lock(self, evaluated: Evaluated) -> None:
        """A stricter threshold and budget by the same verdicts: it alarms no earlier."""
        lock, shown = evaluated.lock, {"show": [GINI], "unit": "window"}
        usual, strict = (evaluated.monitor(NORM, target=at, **shown) for at in (None, 0.05))
        assert (usual.rule.budget, strict.rule.budget) == (0.1, 0.05)
        assert usual.rule.promise == (
            "False alarms at 10% of the windows before an event, not in that share of runs: it may "
            "ring at many checkpoints of a run."
        )
        assert usual.acting == strict.acting
        alarms: tuple[list[int], list[int]] = ([], [])
        for row in evaluated.rows():
            for steps, monitor in zip(alarms, (usual, strict), strict=True):
                reading = monitor.update(**row)
                if reading.state == "ALARM":
                    steps.append(reading.step)
        assert set(alarms[1]) < set(alarms[0])
        assert alarms[1]
        for item in reading.indicators:
            assert item.threshold == lock.thresholds(item.name)[0.05]
            assert item.budget == 0.05
        spent = reading.indicator(NORM)
        assert spent.budget_spent == pytest.approx(len(alarms[1]) / (0.05 * spent.watched))

    def test_before_burn_in_nothing_is_an_alarm(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(GAIN)
        readings = [monitor.update(**row) for row in islice(evaluated.rows(), 15)]
        assert {reading.state for reading in readings} == {"CLEAR"}
        assert readings[-1].reason == "burn-in: an alarm can be raised from step 150 on"

    def test_by_default_all_that_may_act_and_the_others_are_shown(
        self, evaluated: Evaluated
    ) -> None:
        monitor = evaluated.monitor(show=None)
        eligible = {item.name for item in evaluated.results.indicators if item.x_alarm_eligible}
        assert set(monitor.acting) == eligible == {GINI, GAIN, NORM, "settled_structure"}
        assert set(monitor.needs) == {
            "embedding_gini",
            "embedding_norm",
            "unembedding_gini",
            "prediction_change",
        }
        assert monitor.shown_needs == ("train_loss", "train_acc")
        reading = last(monitor, islice(evaluated.rows(), 60))
        assert {item.name for item in reading.acting} == eligible
        assert reading.scores.keys() > eligible | {"clock", "constant"}

    def test_what_is_shown_never_alarms_and_never_abstains(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(GAIN, show=["clock", "csd_variance"], unit="window")
        over = broken = 0
        for row in evaluated.rows():
            reading = monitor.update(**{key: row[key] for key in ("step", "embedding_gini")})
            over += reading.indicator("clock").over and not reading.indicator(GAIN).over
            broken += reading.indicator("csd_variance").broken == "column 'train_loss' is missing"
            assert reading.state == ("ALARM" if reading.indicator(GAIN).over else "CLEAR")
        assert over > 0
        assert broken == 121

    def test_where_nothing_is_supported_it_abstains(self, evaluated: Evaluated) -> None:
        results = evaluated.results.model_copy(
            update={
                "indicators": tuple(
                    item.model_copy(
                        update={"label": "RANK_ONLY", "x_alarm_eligible": False, "x_gates": ()}
                    )
                    for item in evaluated.results.indicators
                )
            }
        ).with_checksums()
        monitor = AlarmMonitor(evaluated.lock, results)
        for row in evaluated.rows():
            reading = monitor.update(**row)
            assert reading.state == "ABSTAIN"
            assert reading.reason == ("these results make no indicator eligible: none may act")


class TestRefused:
    def test_a_lock_without_results(self, evaluated: Evaluated) -> None:
        with pytest.raises(InputError, match=r"^a lock without results: .*gmb evaluate --lock"):
            AlarmMonitor(evaluated.lock, None)

    def test_results_lie_where_evaluate_writes_them(
        self, evaluated: Evaluated, tmp_path: Path
    ) -> None:
        lock = evaluated.lock.write(tmp_path / "lock.yaml")
        with pytest.raises(InputError, match=f"none by this lock in {tmp_path} and its folders"):
            AlarmMonitor(lock, None)
        for folder in ("results", "another"):
            (tmp_path / folder).mkdir()
        (tmp_path / "another" / "results.yaml").write_text("nothing of the kind")
        evaluated.results.write(tmp_path / "results" / "results.yaml")
        assert AlarmMonitor(lock, None).acting == AlarmMonitor(lock, evaluated.results).acting

    def test_results_of_another_lock(self, evaluated: Evaluated, tmp_path: Path) -> None:
        other, _ = make_lock(DESIGN.replace(burn_in=160), evaluated.explore)
        path = evaluated.results.write(tmp_path / "results.yaml")
        message = (
            rf"^{path}: these results are of lock {evaluated.lock.hash[:16]}, not of lock "
            rf"{other.hash[:16]}; give those that gmb evaluate --lock wrote"
        )
        with pytest.raises(InputError, match=message):
            AlarmMonitor(other.write(tmp_path / "lock.yaml"), path)

    def test_results_of_no_lock(self, evaluated: Evaluated) -> None:
        with pytest.raises(InputError, match=r"^results: these results are of no lock, not of"):
            AlarmMonitor(
                evaluated.lock, evaluated.results.model_copy(update={"x_provenance": None})
            )

    def test_results_that_were_edited(self, evaluated: Evaluated, tmp_path: Path) -> None:
        text = evaluated.results.write(tmp_path / "results.yaml").read_text()
        path = tmp_path / "edited.yaml"
        for old, new in (
            ("label: RANK_ONLY", "label: INCONCLUSIVE"),
            ("n_events: 100", "n_events: 99"),
            ("x_checksum: ", "x_checksum: 0"),
        ):
            assert old in text
            path.write_text(text.replace(old, new, 1))
            with pytest.raises(InputError, match=r"edited\.yaml: was edited after gmb evaluate"):
                AlarmMonitor(evaluated.lock, path)
        path.write_text(text[: text.index("x_checksum: ")])
        with pytest.raises(InputError, match=r"edited\.yaml: has no checksum \(x_checksum\); eval"):
            AlarmMonitor(evaluated.lock, path)
        summary = evaluated.results.summary.model_copy(update={"n_seeds": 101})
        changed = evaluated.results.model_copy(update={"summary": summary})
        with pytest.raises(InputError, match=r"^results: was edited"):
            AlarmMonitor(evaluated.lock, changed)

    @pytest.mark.parametrize(
        ("name", "changed", "message"),
        [
            ("clock", {}, "but it is a control"),
            ("clock", {"family": "dynamics"}, r"by its gates \(x_gates\) it is RANK_ONLY"),
            ("clock", {"family": "dynamics", "x_gates": []}, "detection_rate does not meet x_pr"),
            (GAIN, {"x_reasons": ["runs_detection_low"]}, "x_reasons has runs_detection_low"),
            (GAIN, {"x_sees_test_labels": True}, r"an oracle"),
            (GAIN, {"p_adjusted": 0.2}, "p_adjusted does not meet x_prereg"),
            (GAIN, {"label": "RANK_ONLY"}, r"x_alarm_eligible is true, the label is RANK_ONLY"),
        ],
    )
    def test_a_label_against_its_own_reasons_and_layers(
        self, evaluated: Evaluated, name: str, changed: dict[str, Any], message: str
    ) -> None:
        plain = evaluated.results.plain()
        item = next(one for one in plain["indicators"] if one["name"] == name)
        by_runs = item["x_first_alarm"]
        item |= {"x_alarm_eligible": True, "label": "SUPPORTED_FOR_ALARM", "x_reasons": []}
        for field, value in changed.items():
            (by_runs if field in by_runs else item)[field] = value
        # What no results file may say is refused when it is read, the rest by the monitor.
        with pytest.raises(InputError, match=rf"^(results: contradicts itself|test): .*{message}"):
            AlarmMonitor(evaluated.lock, Results.parse(plain, where="test").with_checksums())

    def test_controls_and_oracles_of_the_lock_never_act(self, evaluated: Evaluated) -> None:
        plain = evaluated.results.plain()
        items = {item["name"]: item for item in plain["indicators"]}
        # All that a supported score has, under the name of a control.
        items["clock"].update({**items[GAIN], "name": "clock"})
        forged = Results.parse(plain, where="test").with_checksums()
        with pytest.raises(InputError, match="'clock' is a control by the lock: it never acts"):
            AlarmMonitor(evaluated.lock, forged)

    def test_an_edited_lock(self, evaluated: Evaluated, tmp_path: Path) -> None:
        path = evaluated.lock.write(tmp_path / "lock.yaml")
        path.write_text(path.read_text().replace("x_burn_in: 150", "x_burn_in: 0"))
        with pytest.raises(InputError, match="was edited after it was locked"):
            AlarmMonitor(path, evaluated.results)

    def test_edited_ranks(self, evaluated: Evaluated, tmp_path: Path) -> None:
        path = evaluated.lock.write(tmp_path / "lock.yaml")
        path.write_text(path.read_text().replace("n_reference_runs: 50", "n_reference_runs: 51"))
        with pytest.raises(InputError, match="was edited after it was locked"):
            AlarmMonitor(path, evaluated.results)

    def test_an_ineligible_indicator_asked_to_act(self, evaluated: Evaluated) -> None:
        message = (
            "^indicator 'csd_variance' is RANK_ONLY: it may be shown, but never act; "
            f"those that may: {GINI}, {GAIN}, settled_structure, {NORM}$"
        )
        with pytest.raises(InputError, match=message):
            evaluated.monitor("csd_variance")

    def test_an_unknown_indicator_asked_to_act(self, evaluated: Evaluated) -> None:
        with pytest.raises(InputError, match=f"Did you mean '{GAIN}'"):
            evaluated.monitor("embedding_gini_gian")

    def test_an_unknown_indicator_to_show(self, evaluated: Evaluated) -> None:
        with pytest.raises(InputError, match="candidate 'clokc' is unknown"):
            evaluated.monitor(GAIN, show=["clokc"])

    @pytest.mark.parametrize("target", [0.02, True, "x"])
    def test_a_target_that_the_lock_has_not(self, evaluated: Evaluated, target: Any) -> None:
        message = rf"^target {target!r} is not in the lock; its targets: 0\.05, 0\.1$"
        with pytest.raises(InputError, match=message):
            evaluated.monitor(GAIN, unit="window", target=target)

    def test_a_target_without_a_threshold(self, evaluated: Evaluated) -> None:
        lock, _ = make_lock(DESIGN.replace(fpr_targets=[0.001, 0.05, 0.1]), evaluated.explore)
        source = evaluated.results.x_provenance
        assert source is not None
        of_it = source.model_copy(update={"lock_hash": lock.hash})
        results = evaluated.results.model_copy(update={"x_provenance": of_it}).with_checksums()
        message = (
            f"^target 0.001: the lock says ABSTAIN for {GAIN}, {NORM}, it has too few explore runs "
            "for so small a rate; targets with a threshold: 0.05, 0.1$"
        )
        by: dict[str, Any] = {"unit": "window"}
        with pytest.raises(InputError, match=message):
            AlarmMonitor(lock, results, act=[GAIN, NORM], target=0.001, **by)
        assert AlarmMonitor(lock, results, act=[GAIN], target=0.05, **by).rule.budget == 0.05

    def test_an_unknown_statement_of_the_system(self, evaluated: Evaluated) -> None:
        with pytest.raises(InputError, match=r"^system: field 'modelx' is unknown.*'model'"):
            evaluated.monitor(GAIN, system={"modelx": "made-up"})

    @pytest.mark.parametrize("step", [-1, 1.5, True, "10", None])
    def test_a_step_that_is_none(self, evaluated: Evaluated, step: Any) -> None:
        with pytest.raises(InputError, match=r"^step must be a whole number from 0 on, got"):
            evaluated.monitor(GAIN).update(step=step, embedding_gini=0.3)

    def test_a_step_of_numpy_is_one(self, evaluated: Evaluated) -> None:
        reading = evaluated.monitor(GAIN).update(step=np.int64(0), embedding_gini=0.3)
        assert reading.state == "CLEAR"


class TestAbstention:
    def test_a_column_that_is_missing(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(NORM)
        last(monitor, islice(evaluated.rows(), 20))
        reading = monitor.update(step=200, embeding_norm=3.0)
        assert (reading.state, reading.since) == ("ABSTAIN", 200)
        assert reading.reason == (
            f"{NORM} is broken since step 200: column 'embedding_norm' is missing "
            "(did you mean 'embeding_norm'?)"
        )

    @pytest.mark.parametrize(
        ("value", "said"),
        [(math.nan, "nan"), (math.inf, "inf"), ("high", "'high', no number"), (None, "None, no")],
    )
    def test_a_value_that_is_none(self, evaluated: Evaluated, value: Any, said: str) -> None:
        monitor = evaluated.monitor(NORM)
        last(monitor, islice(evaluated.rows(), 20))
        reading = monitor.update(step=200, embedding_norm=value)
        assert reading.state == "ABSTAIN"
        assert f"broken since step 200: column 'embedding_norm' is {said}" in reading.reason

    def test_a_window_mends_when_no_trace_is_left_in_it(self, evaluated: Evaluated) -> None:
        monitor, whole = evaluated.monitor(NORM), evaluated.monitor(NORM)
        for row in evaluated.rows():
            usual = whole.update(**row)
            spoilt = {**row, "embedding_norm": math.nan} if row["step"] == 400 else row
            reading = monitor.update(**spoilt)
            # The fall over a window of 100 steps looks back 10 checkpoints.
            if 400 <= row["step"] <= 500:
                assert (reading.state, reading.since) == ("ABSTAIN", 400)
            else:
                assert reading.state == usual.state
                assert reading.scores == usual.scores
        # At the checkpoints left out nothing was watched.
        assert whole.update(step=1210, embedding_norm=1.0).indicator(NORM).watched == 106
        assert monitor.update(step=1210, embedding_norm=1.0).indicator(NORM).watched == 106 - 11

    def test_what_remembers_the_whole_run_stays_broken(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(GAIN)
        for row in evaluated.rows():
            if row["step"] == 300:
                row["embedding_gini"] = math.nan
            reading = monitor.update(**row)
        assert (reading.state, reading.since, reading.step) == ("ABSTAIN", 300, 1200)

    def test_a_checkpoint_that_was_missed(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(NORM)
        states = {
            row["step"]: monitor.update(**row) for row in evaluated.rows() if row["step"] != 400
        }
        assert states[390].state == "CLEAR"
        assert states[410].reason == (
            f"{NORM} is broken since step 410: step 410 comes 20 steps after the checkpoint before "
            "it, where the lock has one every 10"
        )
        assert states[510].state == "ABSTAIN"
        assert states[520].indicator(NORM).broken is None

    @pytest.mark.parametrize("cadence", [5, 20])
    def test_another_cadence(self, evaluated: Evaluated, cadence: int) -> None:
        monitor = evaluated.monitor(NORM)
        readings = [monitor.update(step=cadence * i, embedding_norm=3.0) for i in range(60)]
        assert {reading.state for reading in readings[2:]} == {"ABSTAIN"}

    def test_the_first_interval_may_be_shorter(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(NORM)
        lock = evaluated.lock
        assert lock.x_lock.x_health is not None
        assert lock.x_lock.x_health.first_step == 0
        monitor.update(step=0, embedding_norm=3.0)
        assert monitor.update(step=9, embedding_norm=3.0).state == "CLEAR"
        assert monitor.update(step=19, embedding_norm=3.0).state == "CLEAR"

    @pytest.mark.parametrize("field", ["task", "model", "optimizer", "schedule"])
    def test_another_system(self, evaluated: Evaluated, field: str) -> None:
        monitor = evaluated.monitor(NORM, system={**SYSTEM, field: "another"})
        reading = monitor.update(step=0, embedding_norm=3.0)
        assert reading.state == "ABSTAIN"
        assert reading.reason == (
            f"{NORM} is broken since step 0: the run's {field} is 'another', the lock is about "
            f"{SYSTEM[field]!r}"
        )
        assert last(monitor, islice(evaluated.rows(), 1, None)).state == "ABSTAIN"

    def test_after_a_transfer_the_system_is_the_one_that_was_judged(
        self, transferred: Path
    ) -> None:
        files = [transferred / name for name in ("lock.yaml", "results.yaml")]
        states = {}
        for task in (SYSTEM["task"], "another"):
            # So few runs show no budget, so that none may act and one is read along.
            monitor = AlarmMonitor(*files, show=[NORM], system={**SYSTEM, "task": task})
            states[task] = monitor.update(step=0, embedding_norm=3.0).indicator(NORM).broken
            assert not any("does not say" in note for note in monitor.notes)
        told = f"the run's task is {SYSTEM['task']!r}, the verdicts are about 'another'"
        assert states == {SYSTEM["task"]: told, "another": None}

    def test_what_the_run_does_not_say_is_noted(self, evaluated: Evaluated) -> None:
        said = {"task": ["synthetic"], "model": None, "checkpoint_every_steps": [10]}
        monitor = evaluated.monitor(NORM, system=said)
        assert monitor.notes == (
            "The run does not say its model, optimizer, schedule: not compared.",
        )
        assert monitor.update(step=0, embedding_norm=3.0).state == "CLEAR"

    def test_beyond_the_explore_runs(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(NORM, unit="window")
        last(monitor, evaluated.rows())
        reading = monitor.update(step=1210, embedding_norm=9.0)
        assert reading.state == "ABSTAIN"
        assert "step 1210 lies beyond the explore runs, which end at step 1200" in reading.reason

    def test_watched_from_the_middle_on(self, evaluated: Evaluated) -> None:
        window, whole_run = evaluated.monitor(NORM), evaluated.monitor(GAIN)
        readings = {
            row["step"]: (window.update(**row), whole_run.update(**row))
            for row in islice(evaluated.rows(), 50, None)
        }
        assert "watched from step 500 on, the explore runs from 0" in readings[500][0].reason
        assert readings[600][0].state == "ABSTAIN"
        assert readings[610][0].indicator(NORM).broken is None
        assert readings[1200][1].state == "ABSTAIN"

    def test_a_score_that_overflows(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor("settled_structure")
        row = {"unembedding_gini": 1e308, "prediction_change": -1e308}
        monitor.update(step=0, unembedding_gini=0.0, prediction_change=0.0)
        with np.errstate(over="ignore"):
            reading = monitor.update(step=10, **row)
        assert reading.state == "ABSTAIN"
        assert "broken since step 10: its score is inf" in reading.reason


class TestRestart:
    def test_steps_that_go_backwards(self, evaluated: Evaluated) -> None:
        monitor = evaluated.monitor(NORM)
        last(monitor, islice(evaluated.rows(), 31))
        message = (
            r"^step 210 comes after step 300: the run went back; after a restart load the "
            r"monitor's state of that checkpoint, or begin a new monitor$"
        )
        with pytest.raises(InputError, match=message):
            monitor.update(step=210, embedding_norm=3.0)
        # Nobody can tell any more what its windows hold.
        reading = last(monitor, islice(evaluated.rows(), 31, None))
        assert (reading.state, reading.since) == ("ABSTAIN", 310)
        assert "the run went back, and no state was loaded" in reading.reason

    def test_a_step_given_twice_changes_nothing(self, evaluated: Evaluated) -> None:
        monitor, whole = evaluated.monitor(NORM), evaluated.monitor(NORM)
        for row in evaluated.rows():
            first = monitor.update(**row)
            with pytest.raises(InputError, match=rf"^step {row['step']} was given already"):
                monitor.update(**row)
            assert first == whole.update(**row)
