"""What is wrong with an ensemble is said in one line; what is doubtful about it, in a warning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ensemble_runs import design_with, ensemble, runs

from gmb_hf import InputError, RunLog, make_lock
from gmb_hf.benchmark.evaluate import evaluate_lock, evaluate_runs
from gmb_hf.benchmark.health import LockedBounds
from gmb_hf.indicators import catalogue as registry


@pytest.fixture(scope="module")
def explored() -> RunLog:
    return runs(48)


class TestRefused:
    """Each in one line that says what to do."""

    @pytest.mark.parametrize(
        ("candidate", "message"),
        [
            (
                ensemble(members=["embedding_gini_gain"]),
                "members must be two scores at least, got 1",
            ),
            (ensemble(members=["update_norm"] * 2), "members: 'update_norm' is listed twice"),
            (ensemble(penalties=[0.1, 0]), "penalties must be from 1e-08 to 1e.08, got 0"),
            (ensemble(penalties=[-1.0]), "penalties must be from 1e-08 to 1e.08, got -1"),
            (ensemble(penalties=[1e-9, 1]), "penalties must be from 1e-08 to 1e.08, got 1e-09"),
            (ensemble(penalties=[1e300]), "penalties must be from 1e-08 to 1e.08, got 1e.300"),
            (ensemble(penalties=[]), "penalties must name at least one"),
            (ensemble(folds=1), "folds"),
            (ensemble(fit_share=1.0), "fit_share"),
            (ensemble(split=3), "split is unknown; did you mean split_seed"),
            (
                ensemble(members=["update_norm", {"name": "other", "family": "ensemble"}]),
                "'other' is itself an ensemble",
            ),
            (ensemble(members=["update_norm", "both"]), "'both' is a member of itself"),
            ({"name": "both", "family": "ensemble"}, "an ensemble needs x_ensemble"),
            ({**ensemble(), "family": "process"}, "x_ensemble makes the family ensemble"),
            ({**ensemble(), "params": {"window": 100}}, "has no params of its own"),
        ],
    )
    def test_by_the_design(self, candidate: Any, message: str):
        with pytest.raises(InputError, match=message) as raised:
            design_with(candidate)
        assert "\n" not in str(raised.value)

    def test_a_member_that_is_another_candidate_which_is_an_ensemble(self):
        nested = ensemble("all", ["both", "update_norm"])
        with pytest.raises(InputError, match="'all' has the member 'both', which is itself an ens"):
            design_with(ensemble(), nested)

    @pytest.mark.parametrize(
        ("candidate", "message"),
        [
            (
                ensemble(members=["embedding_gini_gian", "update_norm"]),
                r"'embedding_gini_gian' is neither .* Did you mean 'embedding_gini_gain'\?",
            ),
            (
                ensemble(members=["embedding_gini", "csd_variance"]),
                "member 'embedding_gini': is a column of the log and an indicator",
            ),
            (ensemble("weight_norm"), "is the name of an indicator or a column; rename"),
            (
                {
                    **ensemble(members=["test_loss_drop", "attention_rank"]),
                    "x_sees_test_labels": False,
                },
                "'both': x_sees_test_labels is False, but by its members it is True; say it of the",
            ),
            (
                {
                    **ensemble(members=["embedding_gini_gain", "attention_rank"]),
                    "x_sees_test_labels": False,
                },
                "'both': x_sees_test_labels is False, but a member does not say; say it of the",
            ),
            (
                ensemble(
                    members=[{"name": "csd_variance", "params": {"window": 55}}, "attention_rank"]
                ),
                "window is 55 steps, but checkpoints are 10 steps apart",
            ),
            (
                ensemble(
                    members=[{"name": "csd_variance", "params": {"windo_w": 50}}, "attention_rank"]
                ),
                "windo_w",
            ),
        ],
    )
    def test_by_the_log(self, explored: RunLog, candidate: Any, message: str):
        with pytest.raises(InputError, match=message) as raised:
            make_lock(design_with(candidate), explored)
        assert "\n" not in str(raised.value)

    def test_too_few_runs_to_fit(self, explored: RunLog):
        design = design_with(ensemble(fit_share=0.15, folds=8))
        message = r"'both': \d of its 7 fitting runs have positive and negative windows, fewer"
        with pytest.raises(InputError, match=message):
            make_lock(design, explored)

    def test_a_member_without_a_score_in_a_labelled_window(self, explored: RunLog):
        place = explored.table.column_names.index("attention_rank")
        nothing = pa.array(np.full(explored.table.num_rows, np.nan))
        table = explored.table.set_column(place, "attention_rank", nothing)
        with pytest.raises(InputError, match="score 'attention_rank' is nan in a labelled window"):
            make_lock(design_with(ensemble()), RunLog.from_table(table))

    def test_a_member_that_has_run_away(self, explored: RunLog):
        place = explored.table.column_names.index("attention_rank")
        rank = explored.table["attention_rank"].to_numpy() * 1e305
        table = explored.table.set_column(place, "attention_rank", pa.array(rank))
        message = (
            r"'both': its member 'attention_rank' is -.*e\+30\d in run .*, step \d+, too large"
        )
        with pytest.raises(InputError, match=message):
            make_lock(design_with(ensemble()), RunLog.from_table(table))

    def test_one_that_is_judged_without_a_lock(self, explored: RunLog):
        with pytest.raises(
            InputError, match=r"'both'.* gets its coefficients when it is locked: gmb"
        ):
            evaluate_runs(design_with(ensemble()), explored)

    def test_a_member_that_peeks_at_the_future(self, explored: RunLog, monkeypatch):
        entry = registry.get("update_norm")
        peeks = lambda seen: seen["update_norm"][:, ::-1]  # noqa: E731
        monkeypatch.setitem(
            registry._REGISTRY,
            "update_norm",
            registry.Indicator(**{**entry.__dict__, "function": peeks}),
        )
        member = {"name": "update_norm", "family": entry.family}
        design = design_with(ensemble(members=[member, "csd_variance"]))
        message = r"\[non_causal_indicator\] both: update_norm changes its past"
        with pytest.raises(InputError, match=message):
            make_lock(design, explored)


class TestWarned:
    def test_of_targets_that_its_own_runs_cannot_reach(self, explored: RunLog):
        lock, findings = make_lock(design_with(ensemble(fit_share=0.6)), explored)
        found = {finding.code: finding.message for finding in findings}
        assert found["few_runs_for_ensemble"].startswith(
            "both: thresholds for 0.05, 1 run in 20 take 19"
        )
        assert lock.thresholds("both")[0.05] == math.inf
        assert math.isfinite(lock.thresholds("both")[0.1])
        judged = evaluate_lock(lock, runs(40, 200)).results.indicator("both")
        # The target of .1 alone counts by windows, the primary one; by runs that of 1 in 20 must.
        assert [row.x_few_runs for row in judged.layer_B.achieved] == [True, False]
        assert (judged.layer_B.n_met, judged.layer_B.x_budget_state) == (1, "met")
        assert [point.few_runs for point in judged.x_first_alarm.at_budget] == [True, False, False]
        assert (judged.label, judged.x_reasons) == ("INCONCLUSIVE", ("runs_few_runs",))
        # No held-out run can calibrate it.
        assert judged.x_runs_to_settle is None

    def test_of_few_runs_to_fit(self, explored: RunLog):
        few, enough = (
            [one.code for one in make_lock(design_with(ensemble(fit_share=share)), explored)[1]]
            for share in (0.3, 0.65)
        )
        assert "few_fit_runs" in few
        assert "few_fit_runs" not in enough

    def test_of_a_penalty_at_the_edge_of_the_grid(self, explored: RunLog):
        _, findings = make_lock(design_with(ensemble(penalties=[1, 10])), explored)
        found = {finding.code: finding.message for finding in findings}
        assert "both: the best of its penalties is 1, at the edge" in found["penalty_at_edge"]
        assert "add smaller ones" in found["penalty_at_edge"]

    def test_of_a_monitor_that_could_not_tell_a_drift(self, explored: RunLog):
        lock, findings = make_lock(
            design_with(ensemble(fit_share=0.7), health_alpha=0.05), explored
        )
        found = {finding.code: finding.message for finding in findings}
        message = "both: a monitor cannot tell that it drifts, for which 0.05 takes 19 explore runs"
        assert found["no_health_for_ensemble"].startswith(message)
        assert LockedBounds(lock.x_lock.x_health, ["both"]).sentence == (
            "Calibration health cannot be promised: the lock holds no ranks for both: too few "
            "explore runs are left beside those of a fit, or none that others are ranked among "
            "has a finite score."
        )

    def test_and_refused_where_warnings_are(self, explored: RunLog):
        design = design_with(ensemble(penalties=[1, 10]), fpr_targets=[0.2], primary_fpr=0.2)
        with pytest.raises(InputError, match=r"\[penalty_at_edge\]"):
            make_lock(design, explored, strict_lint=True)
