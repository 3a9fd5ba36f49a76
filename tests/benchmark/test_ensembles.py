"""Ensembles from a design to a verdict: what they are fitted on, and what is frozen."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ensemble_runs import MEMBERS, design_with, ensemble, runs, with_formula

from gmb_hf import Design, InputError, Lock, RunLog, make_lock, preset
from gmb_hf.base.documents import dump_yaml
from gmb_hf.benchmark.ensembles import COMBINATIONS, FEATURES, split_runs
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.health import lock_health
from gmb_hf.benchmark.locking import explore
from gmb_hf.benchmark.prepare import resolve
from gmb_hf.benchmark.results import Results
from gmb_hf.design.candidates import LEARNED_METRIC, Ensemble
from gmb_hf.design.design import PARTS
from gmb_hf.design.explain import explain
from gmb_hf.design.lock import CHECKSUMS
from gmb_hf.design.locked_ensembles import LockedEnsemble
from gmb_hf.hub.sources import part_of
from gmb_hf.indicators.catalogue import compute, get
from gmb_hf.indicators.ensemble import fitted_ensemble
from gmb_hf.training.presets import design_of

DESIGN = design_with(ensemble())


def locked(log: RunLog, design: Design = DESIGN) -> Lock:
    return make_lock(design, log)[0]


def formula(lock: Lock, name: str = "both") -> LockedEnsemble:
    found = lock.candidate(name).ensemble
    assert found is not None
    return found


def shuffled(log: RunLog, seed: int = 0) -> RunLog:
    """Runs that were logged side by side, in another order at each step."""
    steps = log.table["step"].to_numpy()
    order = np.lexsort((np.random.default_rng(seed).random(len(steps)), steps))
    return RunLog.from_table(log.table.take(pa.array(order)), metadata=log.metadata)


def without_dates(lock: Lock) -> dict[str, Any]:
    plain = copy.deepcopy(lock.plain())
    for name in ("created", "x_checksums", "hash"):
        del plain["x_lock"][name]
    plain["meta"] = {}
    return plain


@pytest.fixture(scope="module")
def explored() -> RunLog:
    return runs(40)


@pytest.fixture(scope="module")
def lock(explored: RunLog) -> Lock:
    return locked(explored)


class TestTheLock:
    def test_no_held_out_run_touches_it(self, explored: RunLog):
        """Held-out runs with other numbers, or other runs altogether, leave it as it is."""
        design = DESIGN.replace(seeds_explore=list(range(40)), seeds_eval=list(range(200, 230)))
        found = []
        for held_out in (runs(30, 200, share_with_event=0.2), runs(7, 300)):
            both = RunLog.concat([held_out, explored])
            part, aside = part_of(both, design, "explore")
            assert aside == len(held_out.runs)
            found.append(dump_yaml(without_dates(locked(part, design))))
        assert found[0] == found[1] == dump_yaml(without_dates(locked(explored, design)))

    def test_explore_runs_are_on_one_side_each(self, lock: Lock):
        found = formula(lock)
        fit, calibrate = set(found.fit_runs), set(found.calibrate_runs)
        assert not fit & calibrate
        assert fit | calibrate == set(lock.x_lock.explore_runs)
        assert len(fit) == round(0.3 * 40)

    def test_the_split_depends_on_names_and_seed_alone(self, explored: RunLog):
        design = Ensemble.parse({"members": ["a", "b"]}, where="test")
        fit, _ = split_runs(explored.runs, design)
        backwards, _ = split_runs(explored.runs[::-1], design)
        assert set(backwards) == set(fit)
        other = split_runs(explored.runs, design.model_copy(update={"split_seed": 1}))[0]
        assert set(other) != set(fit)

    def test_rows_in_another_order_give_the_same_lock(self, explored: RunLog, lock: Lock):
        assert without_dates(locked(shuffled(explored))) == without_dates(lock)

    def test_what_calibrating_runs_do_does_not_move_the_formula(self, explored: RunLog, lock: Lock):
        others = formula(lock).calibrate_runs
        table = explored.table
        touched = np.isin(table["run"].to_numpy(zero_copy_only=False), others)
        gini = table["embedding_gini"].to_numpy() * np.where(touched, 0.5, 1.0)
        place = table.column_names.index("embedding_gini")
        changed = RunLog.from_table(table.set_column(place, "embedding_gini", pa.array(gini)))
        again = locked(changed)
        assert formula(again).members == formula(lock).members
        assert formula(again).intercept == formula(lock).intercept
        assert again.thresholds("both") != lock.thresholds("both")

    def test_the_thresholds_are_those_of_the_other_runs(self, explored: RunLog, lock: Lock):
        """Found once more by locking the formula's score, as a column, on these runs alone."""
        found = formula(lock)
        others = explored.select(found.calibrate_runs)
        score = compute(others, fitted_ensemble("both", found))
        table = others.table.append_column("both_score", pa.array(score.values[score.present]))
        design = design_with({"name": "both_score", "family": "external"})
        alone = locked(RunLog.from_table(table), design)
        assert alone.candidate("both_score").members == lock.candidate("both").members
        assert alone.x_lock.n_calibration_runs == found.n_calibration_runs
        assert lock.calibration_runs("both") == found.n_calibration_runs
        assert lock.calibration_runs("embedding_norm_drop") == lock.x_lock.n_calibration_runs

    def test_it_is_read_as_it_was_written(self, lock: Lock, tmp_path: Path):
        assert Lock.read(lock.write(tmp_path / "lock.yaml")) == lock

    def test_one_from_before_there_were_features_is_read(self, lock: Lock, tmp_path: Path):
        plain = lock.plain()
        record = plain["x_lock"]["candidates"]["both"]["ensemble"]
        record["penalty"] = float(record.pop("setting"))
        del record["method"], record["features"], record["trees"]
        for member in record["members"]:
            member |= {key: member[key][0] for key in ("center", "scale", "coefficient")}
        plain["x_lock"]["hash"] = CHECKSUMS.of(plain)
        path = tmp_path / "lock.yaml"
        path.write_text(dump_yaml(plain))
        assert formula(Lock.read(path)) == formula(lock)

    @pytest.mark.parametrize("field", ["coefficient", "center", "scale"])
    def test_a_changed_coefficient_is_refused(self, lock: Lock, tmp_path: Path, field: str):
        plain = lock.plain()
        plain["x_lock"]["candidates"]["both"]["ensemble"]["members"][0][field][0] *= 1.0000001
        path = tmp_path / "lock.yaml"
        path.write_text(dump_yaml(plain))
        with pytest.raises(InputError, match="was edited after it was locked"):
            Lock.read(path)

    def test_a_run_that_moved_to_the_other_side_is_refused(self, lock: Lock, tmp_path: Path):
        plain = lock.plain()
        record = plain["x_lock"]["candidates"]["both"]["ensemble"]
        record["calibrate_runs"].append(record["fit_runs"].pop())
        path = tmp_path / "lock.yaml"
        path.write_text(dump_yaml(plain))
        with pytest.raises(InputError, match="was edited after it was locked"):
            Lock.read(path)

    def test_a_member_may_be_what_a_judge_said(self, explored: RunLog):
        said = {"name": "attention_rank", "family": "judge", "x_sees_test_labels": False}
        judged, column = (
            formula(locked(explored, design_with(ensemble(members=[MEMBERS[1], member]))))
            for member in (said, {**said, "family": "external"})
        )
        assert [member.family for member in judged.members] == ["dynamics", "judge"]
        assert judged.members[1].coefficient == column.members[1].coefficient
        scores = [
            compute(explored, fitted_ensemble("both", one)).values for one in (judged, column)
        ]
        np.testing.assert_array_equal(*scores)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda item: {"fit_runs": (*item.fit_runs, "seed_200")}, "'seed_200' is not among"),
            (lambda item: {"fit_runs": item.fit_runs[1:]}, "are not the explore runs, each once"),
            (lambda item: {"fit_runs": item.fit_runs + item.fit_runs[:1]}, "each once$"),
            (lambda item: {"members": item.members[1:]}, "formula is of embedding_norm_drop, csd"),
        ],
    )
    def test_a_record_of_other_runs_or_members_is_never_sealed(
        self, lock: Lock, change: Any, message: str
    ):
        record = formula(lock)
        other = record.model_copy(update=change(record))
        with pytest.raises(InputError, match=f"lock: candidate 'both': .*{message}"):
            with_formula(lock, "both", other)

    def test_it_is_explained_with_its_coefficients(self, lock: Lock):
        sentence = next(line for line in explain(lock) if line.startswith("both is the log-odds"))
        first = formula(lock).members[0]
        assert f"{abs(first.coefficient[0]):.3g} asinh((embedding_gini " in sentence
        assert "asinh((-attention_rank " in sentence
        assert "fitted on 12 explore runs" in sentence
        assert f"thresholds come from {formula(lock).n_calibration_runs} of the 28" in sentence

    def test_no_other_score_is_moved_by_it(self, explored: RunLog, lock: Lock):
        alone = locked(explored, design_with())
        for name in ("embedding_norm_drop", "clock", "constant"):
            assert lock.candidate(name) == alone.candidate(name)
        assert "ensemble" not in alone.plain()["x_lock"]["candidates"]["embedding_norm_drop"]
        assert "x_ensemble" not in alone.plain()["candidates"][0]

    def test_health_is_taken_on_runs_that_the_fit_did_not_see(self, explored: RunLog, lock: Lock):
        found = formula(lock)
        panel = compute(explored, fitted_ensemble("both", found))
        fit = [row for row, run in enumerate(panel.runs) if run in found.fit_runs]
        others = [row for row in range(panel.n_runs) if row not in fit]
        expected = lock_health(DESIGN, {"both": panel.select([*fit, *others])})
        health = lock.x_lock.x_health
        assert health is not None
        assert expected is not None
        assert health.candidates["both"] == expected.candidates["both"]
        assert health.n_reference_runs >= len(fit)
        drifting = panel.with_values(
            panel.values + 1e3 * np.isin(np.arange(40), fit)[:, None] * (panel.steps > 600)
        )
        mended = lock_health(DESIGN, {"both": drifting}, fitted_on={"both": found.fit_runs})
        assert mended is not None
        assert mended.n_calibration_runs == health.n_calibration_runs
        assert max(mended.candidates["both"].up.maxima) <= max(health.candidates["both"].up.maxima)

    def test_where_too_few_are_left_it_has_no_health_and_the_others_keep_theirs(self):
        log = runs(30)
        design = design_with(ensemble(fit_share=0.5), health_alpha=0.05)
        both, alone = (locked(log, one).x_lock.x_health for one in (design, design_with()))
        assert both is not None
        assert alone is not None
        assert "both" not in both.candidates
        assert both.candidates["embedding_norm_drop"] == alone.candidates["embedding_norm_drop"]

    def test_a_second_split_that_would_leave_too_few_does_not_cost_the_first_its_health(self):
        """Of 34 runs each fit sees 10; 24 are enough beside one fit, fewer than 19 beside two."""
        log = runs(34)
        second = ensemble("other", split_seed=1)
        one, two = (
            locked(log, design_with(ensemble(), *more, health_alpha=0.05)).x_lock.x_health
            for more in ((), (second,))
        )
        assert one is not None
        assert two is not None
        assert "other" not in two.candidates
        assert two.candidates == one.candidates


@pytest.fixture(scope="module")
def results(lock: Lock) -> Results:
    return evaluate_lock(lock, runs(40, 200)).results


class TestTheVerdict:
    def test_it_is_one_more_candidate(self, results: Results, lock: Lock, tmp_path: Path):
        found = results.indicator("both")
        assert found.family == "ensemble"
        assert found.x_sees_test_labels is False
        # Every gate is met but one: of four variants by runs, one gets another result.
        assert (found.label, found.x_reasons) == ("ESTIMATOR_UNSTABLE", ("runs_unstable",))
        assert [gate.gate_code for gate in found.x_gates if gate.state != "met"] == [
            "runs_stability"
        ]
        assert found.x_first_alarm.robustness.label_flip_rate == 0.25
        assert found.point(0.1).coverage > 0.8
        assert Results.read(results.write(tmp_path / "results.yaml")) == results

    def test_its_budget_is_that_of_its_own_calibrating_runs(self, results: Results, lock: Lock):
        both, single = (results.indicator(name) for name in ("both", "embedding_norm_drop"))
        budgets = [one.achieved(0.1).x_effective_budget for one in (both, single)]
        n, m = formula(lock).n_calibration_runs, lock.x_lock.n_calibration_runs
        assert budgets == pytest.approx([0.1 - 0.9 / n, 0.1 - 0.9 / m], abs=2e-3)
        assert results.x_calibration is not None
        assert results.x_calibration.n_runs == m

    def test_a_note_says_what_it_was_made_on(self, results: Results, lock: Lock):
        runs_of_it = formula(lock).n_calibration_runs
        assert any(
            f"both was fitted on 12 explore runs; its thresholds come from {runs_of_it} others"
            in note
            for note in results.summary.x_notes
        )

    def test_it_is_varied_over_horizons_not_windows(self, results: Results):
        members = {
            item.name.partition("=")[0] for item in results.indicator("both").layer_D.x_members
        }
        assert members == {"horizon"}

    def test_a_run_of_the_fit_is_refused(self, explored: RunLog, lock: Lock):
        one = RunLog.concat([explored.select(formula(lock).fit_runs[:1]), runs(20, 200)])
        with pytest.raises(InputError, match="also used to explore"):
            evaluate_lock(lock, one)

    def test_held_out_runs_without_a_members_column(self, lock: Lock):
        log = runs(20, 200)
        bare = RunLog.from_table(log.table.drop_columns(["attention_rank"]))
        with pytest.raises(InputError, match="attention_rank"):
            evaluate_lock(lock, bare)

    def test_a_held_out_column_of_its_name_is_not_it(self, lock: Lock):
        log = runs(20, 200)
        table = log.table.append_column("both", pa.array(np.zeros(log.table.num_rows)))
        found, expected = (
            evaluate_lock(lock, each).results.indicator("both").point(0.1)
            for each in (RunLog.from_table(table), log)
        )
        assert found == expected

    def test_nan_in_a_member_is_nan_in_the_score(self, lock: Lock):
        log = runs(20, 200)
        ranks = log.table["attention_rank"].to_numpy().copy()
        ranks[30] = math.nan
        place = log.table.column_names.index("attention_rank")
        broken = RunLog.from_table(log.table.set_column(place, "attention_rank", pa.array(ranks)))
        score = compute(broken, fitted_ensemble("both", formula(lock))).values
        assert np.argwhere(np.isnan(score)).tolist() == [[0, 30]]
        with pytest.raises(InputError, match="score 'both' is nan in a labelled window"):
            evaluate_lock(lock, broken)

    def test_one_member_that_sees_labels_makes_it_an_oracle(self, explored: RunLog):
        design = design_with(ensemble(members=["embedding_gini_gain", "test_loss_drop"]))
        assert locked(explored, design).candidate("both").sees_test_labels is True
        unsaid = ensemble(members=[MEMBERS[1], {"name": "attention_rank"}])
        assert locked(explored, design_with(unsaid)).candidate("both").sees_test_labels is None


class TestExplore:
    def test_it_is_shown_cross_fitted(self, explored: RunLog):
        rows = explore(DESIGN, explored)
        shown = {row.sign: row for row in rows if row.indicator == "both"}
        assert set(shown) == {1, -1}
        assert shown[1].family == "ensemble"
        assert shown[1].coverage > 0.8
        assert shown[1].auc == pytest.approx(1 - shown[-1].auc)


class TestPresets:
    def test_a_combination_is_of_its_class(self):
        log = runs(32)
        design = design_of(preset("quick").changed(EARLIER), log)
        of_kind: dict[str, list[str]] = {}
        made: dict[str, Any] = {}
        for item in design.candidates:
            if item.x_ensemble is None:
                of_kind.setdefault(get(item.name).kind, []).append(item.name)
            else:
                made[item.name] = item
        label_free, task_aware = of_kind["label-free"], of_kind["task-aware"]
        for name, (kind, method) in COMBINATIONS.items():
            ensemble = made[name].x_ensemble
            found = [member.name for member in ensemble.members]
            assert (ensemble.method, ensemble.features) == (method, FEATURES)
            assert (
                found
                == {
                    "label-free": label_free,
                    "task-aware": label_free + task_aware,
                    "label-using": [
                        *("test_loss", "test_loss_drop", "test_accuracy"),
                        *("test_margin_q10", "test_margin_q90"),
                    ],
                }[kind]
            )
            assert resolve(made[name], log).indicator.kind == kind

    def test_they_are_fitted_by_a_lock(self):
        log = runs(32)
        design = design_of(preset("quick").changed(EARLIER), log)
        few = []
        for item in design.candidates:
            if item.x_ensemble is not None:
                members = {"members": item.x_ensemble.members[-4:]}
                kept = item.x_ensemble.model_copy(update=members)
                few.append(item.model_copy(update={"x_ensemble": kept}))
        lock = locked(log, design.replace(candidates=few, seeds_eval=[], undeclared=list(PARTS)))
        found = {name: formula(lock, name).method for name in COMBINATIONS}
        assert found == {name: method for name, (_, method) in COMBINATIONS.items()}
        assert lock.candidate(LEARNED_METRIC).sees_test_labels

    def test_half_of_many_runs_fit_it(self):
        config = preset("quick").changed([*EARLIER, "seeds.explore=0:76"])
        for log, share in ((runs(76), 0.5), (runs(75), 0.3)):
            *_, last = design_of(config, log).candidates
            assert last.x_ensemble is not None
            assert last.x_ensemble.fit_share == share

    def test_it_can_be_taken_out(self):
        config = preset("quick").changed([*EARLIER, "benchmark.combination=false"])
        names = [item.name for item in design_of(config, runs(32)).candidates]
        assert not set(COMBINATIONS) & set(names)

    @pytest.mark.parametrize("change", ["seeds.explore=0:12", "benchmark.horizon=5"])
    def test_it_is_left_out_where_it_could_not_be_fitted(self, change: str):
        config = preset("quick").changed([*EARLIER, change])
        names = [item.name for item in design_of(config, runs(32)).candidates]
        assert not set(COMBINATIONS) & set(names)

    def test_a_config_without_it_says_what_it_said_before(self):
        assert "combination" not in preset("smoke").design()["benchmark"]
        assert preset("standard").design()["benchmark"]["combination"] is True


EARLIER = ["benchmark.horizon=100", "benchmark.safe_gap=150", "benchmark.burn_in=150"]
"""What suits made-up runs."""
