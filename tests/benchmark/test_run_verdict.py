"""First alarms, from the lock to the one label: what the measure alone does not show."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from ensemble_runs import design_with, ensemble
from ensemble_runs import runs as ensemble_runs

from gmb_hf import Design, RunLog
from gmb_hf.base.errors import InputError
from gmb_hf.base.stats import exact_binomial, holm
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock, evaluate_runs
from gmb_hf.benchmark.first_alarm import FirstAlarmPointRecord, FirstAlarmRecord
from gmb_hf.benchmark.gates import GateRecord
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.records import INCONCLUSIVE, SCOPE_LIMITED, SUPPORTED, UNSTABLE
from gmb_hf.benchmark.verdict import IndicatorRecord
from gmb_hf.core.thresholds import promise, shown_line
from gmb_hf.design.lock import Lock
from gmb_hf.indicators import catalogue

BUDGET = 0.05
SCORES = ("rise", "half", "noise")
GOLDEN = Path(__file__).parents[1] / "golden" / "inputs"
PLATEAU = {"type": "E_plateau", "x_plateau_threshold": 0.85, "x_plateau_checkpoints": 3}


def runs(n_runs: int, first_seed: int, *, empty: float = 0.0, without: str = "") -> RunLog:
    """Runs of 60 checkpoints with a jump of the metric, a plateau 50 steps later, and scores.

    `rise` is raised before every event, `half` where the weight decay is 1, `spike` at the one
    checkpoint 50 steps before; `noise` never. A share `empty` of `rise` is NaN. The column
    `without` is left out.
    """
    rng = np.random.default_rng(first_seed)
    steps = np.arange(60) * 10
    events = 10.0 * rng.integers(20, 50, size=n_runs)
    lead = events[:, None] - steps
    before, decay = (lead > 0) & (lead <= 100), np.arange(n_runs) % 2
    noise = rng.normal(size=(4, n_runs, 60))
    data = {
        "rise": noise[0] + 9 * before,
        "half": noise[1] + 9 * (before & (decay[:, None] == 1)),
        "spike": noise[2] + 9 * (lead == 50),
        "noise": noise[3],
        "test_acc": 0.1 + 0.5 * (lead <= -10) + 0.3 * (lead <= -60),
        "weight_decay": np.repeat(decay[:, None].astype(float), 60, axis=1),
    }
    data["rise"][rng.random((n_runs, 60)) < empty] = np.nan
    data.pop(without, None)
    seeds = [first_seed + i for i in range(n_runs)]
    return RunLog.from_arrays([f"seed_{seed}" for seed in seeds], steps, data, seeds=seeds)


def design(scores: Sequence[str] = SCORES, **overrides: Any) -> Design:
    settings: dict[str, Any] = {
        "horizon": 100,
        "safe_gap": 150,
        "w_event": 10,
        "burn_in": 20,
        "detection_min": 0.7,
        "smoothing_sweep": [1, 2],
        "run_groups": 3,
        "null_draws": 199,
        "bootstrap_draws": 50,
        "undeclared": ["task", "model", "optimizer", "schedule", "seeds_eval"],
        "candidates": [
            {"name": name, "family": "external", "x_sees_test_labels": False} for name in scores
        ],
    }
    return Design.minimal(**{**settings, **overrides})


def item(evaluation: Evaluation, name: str) -> IndicatorRecord:
    return evaluation.results.indicator(name)


def first_alarm(evaluation: Evaluation, name: str) -> FirstAlarmRecord:
    found = item(evaluation, name).x_first_alarm
    assert found is not None
    return found


def gate(evaluation: Evaluation, name: str, which: str) -> GateRecord:
    """The one gate of a score that is called so, e.g. "runs_budget"."""
    (found,) = (one for one in item(evaluation, name).x_gates if one.gate_code == which)
    return found


def primary(evaluation: Evaluation, name: str) -> FirstAlarmPointRecord:
    return first_alarm(evaluation, name).at(BUDGET)


STRATA = [
    {"name": "without", "where": "weight_decay == 0"},
    {"name": "strong", "where": "weight_decay >= 0.5"},
]


@pytest.fixture(scope="module")
def lock() -> Lock:
    # By windows `half` is so near to chance that a third of its variants get another result.
    chosen = design(strata=STRATA, also_events=[PLATEAU], max_label_flip_rate=0.5)
    return make_lock(chosen, runs(80, 0))[0]


@pytest.fixture(scope="module")
def judged(lock: Lock) -> Evaluation:
    return evaluate_lock(lock, runs(120, 1000))


class TestFromTheLock:
    def test_labels(self, judged):
        labels = {name: item(judged, name).label for name in SCORES}
        assert labels == {"rise": SUPPORTED, "half": SCOPE_LIMITED, "noise": "RANK_ONLY"}
        eligible = [item.name for item in judged.results.indicators if item.x_alarm_eligible]
        assert eligible == ["rise"]

    def test_holm_is_over_candidates_and_their_strata(self, judged):
        def own(name: str) -> list[float | None]:
            parts = [part.first_alarm for part in item(judged, name).x_strata]
            return [primary(judged, name).p_value, *(part.p_value for part in parts if part)]

        def adjusted(name: str) -> list[float | None]:
            parts = [part.first_alarm_p_adjusted for part in item(judged, name).x_strata]
            return [first_alarm(judged, name).p_adjusted, *parts]

        family = [p for name in SCORES for p in own(name)]
        assert len(family) == 9
        assert [p for name in SCORES for p in adjusted(name)] == holm(family)
        # A control is adjusted as if it alone had been added.
        assert adjusted("clock") == holm([*family, *own("clock")])[9:]

    def test_a_stratum_in_which_alone_it_holds(self, judged):
        found = item(judged, "half")
        without, strong = found.x_strata
        assert (without.passed, strong.passed) == (False, True)
        assert "runs_detection_low" in without.reasons
        assert {gate.state for gate in strong.gates} == {"met"}
        at = strong.first_alarm
        assert at.n_events == strong.n_events == 60 == at.n_detected + at.n_false_before_event
        assert (found.x_scope.name, found.x_reasons[0]) == ("strong", "runs_detection_low")
        assert found.x_sentence.startswith(
            "Holds only where weight_decay >= 0.5 (strong: 60 of 120 runs): there, it detects "
        )
        assert "it may not raise an alarm: its first alarm detects" in found.x_sentence
        assert item(judged, "rise").x_scope is None

    def test_thresholds_are_those_of_the_lock(self, lock, judged):
        for name in SCORES:
            locked = lock.run_thresholds(name)
            assert {p.budget: p.threshold for p in first_alarm(judged, name).at_budget} == locked

    def test_other_events_have_thresholds_of_their_own_in_the_lock(self, lock, judged):
        (event,) = lock.candidate("noise").other_events
        assert event == "E_plateau 0.85 x 3"
        for name in SCORES:
            (other,) = first_alarm(judged, name).other_events
            assert other.event == event
            assert other.at.threshold == lock.run_thresholds(name, event)[BUDGET]
            n_runs = lock.candidate(name).other_event_runs[event]
            expected = promise(BUDGET, n_runs).expected
            assert other.at.expected == expected
        # More checkpoints are negative before the later event: noise goes higher.
        thresholds = lock.run_thresholds("rise", event), lock.run_thresholds("rise")
        assert thresholds[0][BUDGET] > thresholds[1][BUDGET]

    def test_other_events_are_not_calibrated_again(self, lock):
        locked = {name: lock.candidate(name) for name in lock.x_lock.candidates}
        others = locked["rise"].other_events
        never = {event: dict.fromkeys(of, math.inf) for event, of in others.items()}
        locked["rise"] = locked["rise"].model_copy(update={"other_events": never})
        changed = lock.x_lock.model_copy(update={"candidates": locked})
        judged = evaluate_lock(replace(lock, x_lock=changed), runs(24, 1000))
        (other,) = first_alarm(judged, "rise").other_events
        assert (other.at.answer, other.at.n_detected) == ("ABSTAIN", 0)
        assert primary(judged, "rise").answer == "THRESHOLD"


def test_a_label_that_flips_with_smoothing():
    lock, _ = make_lock(design(["spike"], smoothing_sweep=[1, 9]), runs(60, 0))
    judged = evaluate_lock(lock, runs(80, 1000))
    found = first_alarm(judged, "spike")
    assert found.at(BUDGET).n_missed == 0
    assert item(judged, "spike").label == UNSTABLE
    assert item(judged, "spike").x_reasons == ("runs_unstable",)
    assert found.robustness.x_central_passes
    rate = found.robustness.label_flip_rate
    assert rate > 0.2
    # By windows, whose lead the horizon bounds, every variant passes: one unit is enough.
    assert item(judged, "spike").layer_D.label_flip_rate == 0
    assert "members with smooth=9 get another result" in found.robustness.sensitivity_notes
    assert item(judged, "spike").x_sentence == (
        f"Not to be trusted either way: {rate:.0%} of {found.robustness.family_size} admissible "
        "variants get another result by runs, 20% may."
    )
    assert not item(judged, "spike").x_alarm_eligible


class TestConditionalCalibration:
    def test_its_bound_keeps_the_budget(self, lock):
        chosen = design(["rise"], calibration="conditional")
        conditional, _ = make_lock(chosen, runs(80, 0))
        assert conditional.run_thresholds("rise")[BUDGET] > lock.run_thresholds("rise")[BUDGET]
        judged = evaluate_lock(conditional, runs(80, 1000))
        found = first_alarm(judged, "rise")
        assert (item(judged, "rise").label, found.calibration) == (SUPPORTED, "conditional")
        for point in found.at_budget:
            assert point.upper <= point.budget

    def test_forty_runs_are_too_few_for_one_in_twenty(self):
        chosen = design(["rise"], calibration="conditional")
        with pytest.raises(InputError, match=r"1 run in 20 takes 45 explore .* there are 40, whi"):
            make_lock(chosen, runs(40, 0))
        # Without a lock it is said by the verdict.
        judged = evaluate_runs(chosen, runs(80, 1000), explore=runs(40, 0))
        found = item(judged, "rise")
        assert (found.label, primary(judged, "rise").answer) == (INCONCLUSIVE, "ABSTAIN")
        assert found.x_reasons[0] == "runs_few_runs"
        assert "takes 45 calibration runs with negative windows, there are 40" in found.x_sentence
        assert found.x_runs_to_settle is None


def test_on_another_system_a_budget_must_be_shown(lock, judged):
    elsewhere = evaluate_lock(lock, runs(120, 1000), transfer=True)
    found, at = first_alarm(elsewhere, "rise"), primary(elsewhere, "rise")
    assert (found.basis, first_alarm(judged, "rise").basis) == ("shown", "promised")
    # The same runs and thresholds: what differs is what the interval must show.
    assert at.n_false == primary(judged, "rise").n_false
    interval = exact_binomial(at.n_false, at.n_runs)
    assert interval.high > shown_line(BUDGET) > interval.low
    assert (at.state, primary(judged, "rise").state) == ("straddles", "met")
    found = item(elsewhere, "rise")
    assert (found.label, found.x_alarm_eligible) == (INCONCLUSIVE, False)
    assert found.x_reasons[0] == "runs_straddle"
    assert f"straddle the line {shown_line(BUDGET):g} of the budget 0.05" in found.x_sentence
    # By windows, too, the upper end must keep its line; what is no budget is as it was.
    by_windows = gate(elsewhere, "rise", "windows_budget")
    states = [row.x_state for row in found.layer_B.achieved]
    for row in found.layer_B.achieved:
        line = row.target + min(0.01, row.target / 2)
        high, low = row.x_interval.high, row.x_interval.low
        shown = "met" if high <= line else "missed" if low > line else "straddles"
        assert row.x_state == ("straddles" if row.x_answer == "ABSTAIN" else shown)
    assert (by_windows.state == "met") == (states[1] == states[2] == "met")
    for which in ("runs_detection", "runs_chance", "windows_detection", "windows_chance"):
        assert gate(elsewhere, "rise", which) == gate(judged, "rise", which)


def test_another_system_is_judged_by_the_scores_that_it_has(judged):
    lock, lacking = make_lock(design(), runs(80, 0))[0], runs(120, 1000, without="noise")
    with pytest.raises(InputError, match=r"'noise' is neither a column"):
        evaluate_lock(lock, lacking)
    found = evaluate_lock(lock, lacking, transfer=True).results
    assert "noise" not in [item.name for item in found.indicators]
    told = [note for note in found.summary.x_notes if "not judged" in note]
    said = "1 locked score was not judged, because these runs, or some of them, lack columns: noise"
    assert told == [said]
    at = found.indicator("rise").x_first_alarm.at(BUDGET)
    assert at.n_detected == primary(judged, "rise").n_detected
    # Runs of several systems: one without a value is enough.
    whole = runs(120, 1000)
    kept = pc.if_else(pc.equal(whole.table["run"], whole.runs[0]), None, whole.table["noise"])
    place = whole.table.column_names.index("noise")
    some = RunLog.from_table(whole.table.set_column(place, "noise", kept), metadata=whole.metadata)
    other, _ = make_lock(design(), runs(81, 0))  # each allows one look
    found = evaluate_lock(other, some, transfer=True).results
    assert said in found.summary.x_notes


def test_the_runs_that_would_settle_it_do():
    """Forty runs leave the detection rate open; as many as it says, alike, do not.

    Nothing is said where they cannot be had: at a last look, or beyond what the lock allows.
    """
    # More runs can be added only where the lock allows a further look.
    looks = {"looks": 2, "max_eval_seeds": 500}
    chosen = design(["most"], detection_min=0.57, max_label_flip_rate=1.0, **looks)
    lock, _ = make_lock(chosen, with_most(runs(80, 3000), 3000))
    few = evaluate_lock(lock, with_most(runs(40, 1000), 1000))
    found, at = item(few, "most"), primary(few, "most")
    assert (found.label, found.x_reasons) == (INCONCLUSIVE, ("runs_straddle",))
    assert [one.gate_code for one in found.x_gates if one.state != "met"] == ["runs_detection"]
    assert gate(few, "most", "runs_detection").runs_to_settle == found.x_runs_to_settle
    settles = found.x_runs_to_settle
    said = f"settling it takes at least {settles - 40} more runs ({settles} in all), if the rates"
    assert said in found.x_sentence
    # A control is settled by no number of runs, nor anything where no look is left.
    assert not any(one.runs_to_settle for one in item(few, "clock").x_gates)
    for fewer in ({}, {"looks": 2, "max_eval_seeds": settles - 1}):
        once = design(["most"], detection_min=0.57, max_label_flip_rate=1.0, **fewer)
        last, _ = make_lock(once, with_most(runs(80, 3000), 3000))
        judged = evaluate_lock(last, with_most(runs(40, 1000), 1000))
        assert gate(judged, "most", "runs_detection").state == "straddles"
        assert not any(one.runs_to_settle for one in item(judged, "most").x_gates)
        assert item(judged, "most").x_runs_to_settle is None
        assert "settling" not in item(judged, "most").x_sentence
    events, least = found.x_runs_to_settle, lock.design.detection_min
    settled = exact_binomial(round(at.n_detected / at.n_events * events), events)
    assert not settled.low <= least <= settled.high


def with_most(log: RunLog, first_seed: int) -> RunLog:
    """A score `most`, which is `rise` but in every seventh run, where it is noise."""
    columns = {name: log.panel(name).values for name in log.observables}
    seventh = np.arange(len(log.runs))[:, None] % 7 == 0
    columns["most"] = np.where(seventh, columns["noise"], columns["rise"])
    seeds = range(first_seed, first_seed + len(log.runs))
    return RunLog.from_arrays(log.runs, log.panel("step").steps[0], columns, seeds=seeds)


def test_what_fails_one_gate_is_not_left_open_by_another():
    """Its detection rate straddles, but it does no better than chance: no more runs are asked."""
    lock, _ = make_lock(design(["half"], detection_min=0.4), runs(80, 3000))
    judged = evaluate_lock(lock, runs(40, 1000))
    assert gate(judged, "half", "runs_detection").state == "straddles"
    assert item(judged, "half").label == "RANK_ONLY"
    assert item(judged, "half").x_reasons[0] == "runs_no_better_than_chance"
    assert item(judged, "half").x_runs_to_settle is None


@pytest.mark.parametrize(
    ("scale", "state", "label"), [(9.0, "met", SUPPORTED), (0.0, "missed", "RANK_ONLY")]
)
def test_on_another_system_what_is_shown_is_met_or_missed(lock, scale, state, label):
    """Where negatives lie far lower the budget is shown to hold; far higher, not to."""
    log = runs(120, 1000)
    values = log.panel("rise").values
    columns = {name: log.panel(name).values for name in log.observables}
    columns["rise"] = np.where(values > 5, values, values - 6 if scale else values + 6)
    other = RunLog.from_arrays(
        log.runs, log.panel("step").steps[0], columns, seeds=range(1000, 1120)
    )
    judged = evaluate_lock(lock, other, transfer=True)
    at = primary(judged, "rise")
    assert (at.state, item(judged, "rise").label) == (state, label)
    interval = exact_binomial(at.n_false, at.n_runs)
    line = shown_line(BUDGET)
    assert interval.high <= line if state == "met" else interval.low > line


@pytest.mark.parametrize(("share", "state"), [(0.0, "met"), (0.3, "missed")])
def test_a_published_rule_is_judged_as_it_stands(share, state, monkeypatch):
    """It alarms where its value is 1, whatever explore runs show, and its rate must be shown."""
    rule = catalogue.Indicator(
        name="rise_rule",
        family="dynamics",
        summary="1 where the rise is above 5",
        needs=("rise",),
        function=lambda seen: (seen["rise"] > 5).astype(float),
        source="a paper",
        rule=True,
    )
    monkeypatch.setitem(catalogue._REGISTRY, rule.name, rule)

    def spoiled(log: RunLog, first_seed: int) -> RunLog:
        columns = {name: log.panel(name).values.copy() for name in log.observables}
        columns["rise"][: int(share * len(log.runs)), 5] = 9.0  # a false alarm at step 50
        seeds = range(first_seed, first_seed + len(log.runs))
        return RunLog.from_arrays(log.runs, log.panel("step").steps[0], columns, seeds=seeds)

    rules = [{"name": "rise_rule", "family": "dynamics"}]
    chosen = design([], candidates=rules, max_label_flip_rate=1.0)
    lock, _ = make_lock(chosen, spoiled(runs(80, 0), 0))
    assert set(lock.run_thresholds("rise_rule").values()) == {0.5}
    judged = evaluate_lock(lock, spoiled(runs(120, 1000), 1000))
    found, at = first_alarm(judged, "rise_rule"), primary(judged, "rise_rule")
    assert (found.basis, at.threshold, at.expected, at.state) == ("rule", 0.5, None, state)
    assert at.n_false == round(share * 120)
    assert at.n_detected == 120 - round(share * 120)
    rule_item = item(judged, "rise_rule")
    if share:
        assert rule_item.label == "RANK_ONLY"
        # 0 and 1 tie by windows; first alarms ring falsely in three runs of ten.
        assert rule_item.x_reasons[:2] == ("windows_floor", "runs_uncontrolled")
    else:
        assert rule_item.label == SUPPORTED
        said = "It is a published rule as it stands: nothing was calibrated."
        assert said in rule_item.x_sentence


def test_a_lock_from_before_first_alarms(tmp_path):
    shutil.copy(GOLDEN / "old_lock.yaml", tmp_path / "lock.yaml")
    judged = evaluate_lock(tmp_path / "lock.yaml", GOLDEN / "heldout.parquet")
    for item in judged.results.indicators:
        assert item.x_first_alarm is None
        assert item.x_alarm_eligible is False
        assert "no_first_alarm" in item.x_reasons
        assert "with a lock that has thresholds for it" in item.x_null_reasons["x_first_alarm"]


def test_scores_that_are_not_finite():
    chosen = design(["rise"], nan="ignore")
    log = runs(60, 0, empty=0.2)
    missing = np.isnan(log.panel("rise").values)
    assert missing.mean() > 0.15
    lock, _ = make_lock(chosen, log)
    maxima = lock.candidate("rise").run_maxima
    assert None not in maxima
    judged = evaluate_lock(lock, runs(80, 1000, empty=0.2))
    found = first_alarm(judged, "rise")
    assert (item(judged, "rise").label, found.at(BUDGET).n_events) == (SUPPORTED, 80)
    # What is missing raises no alarm, and none is counted as one.
    values = judged.log.panel("rise").values
    steps = judged.log.panel("step").values
    for row, step in enumerate(found.alarm_steps):
        if step is not None:
            value = values[row][steps[row] == step]
            assert value >= found.at(BUDGET).threshold


def test_a_run_without_a_single_score_raises_no_alarm_and_misses_its_event():
    log = runs(80, 1000)
    # Two locks that differ in what plays no part here, so that each has a look.
    locks = [
        make_lock(design(["rise"], nan="ignore", bootstrap_draws=draws), runs(80, 0))[0]
        for draws in (50, 51)
    ]
    columns = {name: log.panel(name).values.copy() for name in log.observables}
    columns["rise"][7] = np.nan
    emptied = RunLog.from_arrays(
        log.runs, log.panel("step").steps[0], columns, seeds=range(1000, 1080)
    )
    whole, found = (
        first_alarm(evaluate_lock(lock, part), "rise")
        for lock, part in zip(locks, (log, emptied), strict=True)
    )
    assert whole.alarm_steps[7] is not None
    assert found.alarm_steps[7] is None
    assert found.alarm_steps[:7] + found.alarm_steps[8:] == (
        whole.alarm_steps[:7] + whole.alarm_steps[8:]
    )
    at, before = found.at(BUDGET), whole.at(BUDGET)
    assert at.n_events == before.n_events == 80
    assert at.n_missed == before.n_missed + 1


def test_an_ensemble_is_promised_by_its_own_calibration_runs():
    chosen = design_with(ensemble())
    lock, _ = make_lock(chosen, ensemble_runs(60))
    n_runs = lock.calibration_runs("both")
    assert n_runs < lock.calibration_runs("embedding_norm_drop") == lock.x_lock.n_calibration_runs
    known = [one for one in lock.candidate("both").run_maxima if one is not None]
    assert len(known) == n_runs
    judged = evaluate_lock(lock, ensemble_runs(30, 1000))
    for name in ("both", "embedding_norm_drop"):
        for point in first_alarm(judged, name).at_budget:
            promised = promise(point.budget, lock.calibration_runs(name))
            assert (point.expected, point.upper) == (promised.expected, promised.upper)
            few = promised.rank is None
            assert (point.few_runs, math.isinf(point.threshold)) == (few, few)
