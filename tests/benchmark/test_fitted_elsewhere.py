"""Pretrained scores: fitted on some systems, frozen, and calibrated on another one."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from ensemble_runs import MEMBERS, design_with, runs

from gmb_hf import Design, InputError, Lock, RunLog, make_lock
from gmb_hf.benchmark.own_runs import own_score
from gmb_hf.benchmark.prepare import Prepared, prepare
from gmb_hf.benchmark.pretrained import fit_score
from gmb_hf.core.first_alarm import first_alarms
from gmb_hf.core.thresholds import run_maxima, run_threshold
from gmb_hf.design.pretrained import PretrainedScore, shipped_scores
from gmb_hf.indicators.causal import place_so_far
from gmb_hf.indicators.ensemble import features_of, squashed
from gmb_hf.monitor.monitor import AlarmMonitor

NAMES = [member["name"] for member in MEMBERS]


def system(first_seed: int, scale: float = 1.0, n_runs: int = 30) -> Prepared:
    """Runs of one made-up system; its columns have a scale of their own."""
    log = runs(n_runs, first_seed)
    columns = {name: log.panel(name).values * scale for name in log.observables}
    for name in ("test_acc", "train_acc"):
        columns[name] = log.panel(name).values
    log = RunLog.from_arrays(log.runs, log.panel("step").steps[0], columns, seeds=log.seeds)
    design = design_with(*MEMBERS[:1], *MEMBERS[2:])
    return prepare(log, design)


@pytest.fixture(scope="module")
def fitted() -> PretrainedScore:
    return fit_score(
        "both", {"one": system(0), "two": system(100, 3.0)}, "label-free", about="For tests."
    )


@pytest.fixture
def file(fitted: PretrainedScore, tmp_path: Path) -> Path:
    return fitted.write(tmp_path / "both.yaml")


def candidate(file: Path, **changed: Any) -> dict[str, Any]:
    frozen = {"source": str(file), "hash": PretrainedScore.read(file).hash, **changed}
    return {"name": "both", "x_pretrained": frozen}


def locked(file: Path, n_runs: int = 40, **changed: Any) -> Lock:
    log = runs(n_runs, 300)
    return make_lock(design_with(candidate(file), **changed), log)[0]


class TestTheScore:
    def test_it_says_what_it_is_made_of(self, fitted: PretrainedScore):
        assert [one.name for one in fitted.formula.members] == [NAMES[1], NAMES[2], NAMES[3]]
        assert [(one.source, one.runs) for one in fitted.fitted_on] == [("one", 30), ("two", 30)]
        assert fitted.needs == ("attention_rank", "embedding_norm", "test_acc") or "step" not in (
            fitted.needs
        )
        assert fitted.kind == "label-free"
        assert sum(share for _, share in fitted.formula.by_member()) == pytest.approx(1)
        assert sum(share for _, share in fitted.formula.by_family()) == pytest.approx(1)

    def test_it_is_there_and_back(self, fitted: PretrainedScore, file: Path):
        assert PretrainedScore.read(file) == fitted
        assert PretrainedScore.find(file) == fitted

    def test_an_edited_one_is_refused(self, file: Path):
        data = yaml.safe_load(file.read_text())
        data["formula"]["intercept"] += 1
        file.write_text(yaml.safe_dump(data))
        with pytest.raises(InputError, match="was edited after it was fitted"):
            PretrainedScore.read(file)

    def test_another_file_is_refused(self, tmp_path: Path):
        (tmp_path / "a.yaml").write_text("a: 1\n")
        with pytest.raises(InputError, match=r"is no pretrained score .* gmb score fit"):
            PretrainedScore.read(tmp_path / "a.yaml")
        with pytest.raises(InputError, match="pretrained score 'label_fre' is unknown"):
            PretrainedScore.find("label_fre")

    def test_windows_have_as_many_checkpoints_at_another_cadence(self, fitted: PretrainedScore):
        assert fitted.cadence == 10
        windows = [one.params["window"] for one in fitted.at_cadence(50).members[:2]]
        assert windows == [5 * one.params["window"] for one in fitted.formula.members[:2]]

    def test_the_penalty_is_the_one_that_predicts_parts_that_are_left_out(
        self, fitted: PretrainedScore
    ):
        losses = fitted.formula.log_losses
        assert fitted.formula.log_loss == min(losses.values())
        assert len(losses) > 1

    def test_the_parts_must_fit_together(self):
        one = system(0)
        other = prepare(one.log, one.design.replace(horizon=300))
        with pytest.raises(InputError, match="the runs differ in horizons: "):
            fit_score("both", {"one": one, "two": other}, "label-free")
        with pytest.raises(InputError, match="'test_loss' is no label-free score that all of"):
            fit_score("both", {"one": one}, "label-free", only=["test_loss"])
        few = prepare(one.log, one.design.replace(candidates=[MEMBERS[2]]))
        with pytest.raises(InputError, match="the runs have no task-aware score in common"):
            fit_score("both", {"one": few}, "task-aware")


class TestTheLock:
    def test_all_explore_runs_calibrate_it(self, file: Path, fitted: PretrainedScore):
        lock = locked(file)
        ensemble = lock.candidate("both").ensemble
        assert ensemble is not None
        assert ensemble.pretrained == fitted.hash
        assert ensemble.fitted_elsewhere == "one, two"
        assert ensemble.fit_runs == ()
        assert sorted(ensemble.calibrate_runs) == sorted(lock.x_lock.explore_runs)
        assert lock.calibration_runs("both") == lock.x_lock.n_calibration_runs
        assert not lock.candidate("both").sees_test_labels

    def test_a_design_may_name_it_without_a_hash(self, file: Path, fitted: PretrainedScore):
        lock = make_lock(design_with(candidate(file, hash="")), runs(40, 300))[0]
        ensemble = lock.candidate("both").ensemble
        assert ensemble is not None
        assert ensemble.pretrained == fitted.hash

    def test_its_score_is_the_formula(self, file: Path, fitted: PretrainedScore):
        log = runs(3, 500)
        prepared = prepare(log, design_with(candidate(file)))
        found = prepared.scores(next(e for e in prepared.entries if e.name == "both"))
        total = np.full(found.values.shape, fitted.formula.intercept)
        for member in fitted.formula.members:
            asked = {"name": member.name, "params": member.params, "x_sign": member.sign}
            asked["family"] = member.family
            one = prepare(log, design_with(asked, candidates=[asked])).entries[0].panel(log).values
            terms = zip(member.center, member.scale, member.coefficient, strict=True)
            features = features_of(one, fitted.formula.features)
            assert any(np.array_equal(each, place_so_far(one)) for each in features)
            for values, (center, scale, coefficient) in zip(features, terms, strict=True):
                total += coefficient * squashed(values, center, scale)
        np.testing.assert_allclose(found.values, total, rtol=1e-9)

    def test_its_thresholds_are_those_of_these_runs(self, file: Path):
        lock = locked(file)
        prepared = prepare(runs(40, 300), lock.design)
        scores = prepared.scores(next(e for e in prepared.entries if e.name == "both"))
        negative = prepared.windows.negative
        found = lock.run_thresholds("both")[0.1]
        assert found == pytest.approx(run_threshold(run_maxima(scores.values, negative), 0.1))
        alarms = first_alarms(
            scores.values, scores.steps, scores.event_step, found, prepared.windows,
            horizon=prepared.design.horizon, safe_gap=prepared.design.safe_gap,
        )  # fmt: skip
        assert alarms.false_alarm_rate is not None
        assert alarms.false_alarm_rate <= 0.1

    def test_it_is_read_without_the_file_of_the_score(self, file: Path, tmp_path: Path):
        path = locked(file).write(tmp_path / "lock.yaml")
        file.unlink()
        lock = Lock.read(path)
        found = prepare(runs(5, 600), lock).entries
        assert "both" in [entry.name for entry in found]

    def test_another_score_of_that_name_is_refused(self, file: Path):
        with pytest.raises(InputError, match=r"is [0-9a-f]{16} here, the design asks for 0000"):
            make_lock(design_with(candidate(file, hash="0" * 64)), runs(30, 300))

    def test_a_log_without_its_columns_names_what_records_them(self, file: Path):
        log = runs(30, 300)
        few = RunLog.from_table(log.table.drop(["attention_rank"]))
        with pytest.raises(InputError) as raised:
            prepare(few, design_with(candidate(file)))
        assert (
            "candidate 'both': the logs lack 1 of the 3 columns that it is made of; "
            "gmb_hf.monitor.observe.ModelObserver measures attention_rank" in str(raised.value)
        )

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"x_ensemble": {"members": ["train_loss", "test_loss"]}}, "x_pretrained was elsewhe"),
            ({"family": "dynamics"}, "x_pretrained makes the family ensemble"),
            ({"params": {"window": 100}}, "a pretrained score has no params of its own"),
        ],
    )
    def test_what_a_design_may_not_ask(self, file: Path, changed: Any, message: str):
        with pytest.raises(InputError, match=message):
            design_with({**candidate(file), **changed})

    def test_a_formula_of_another_score_is_no_lock(self, file: Path):
        lock = locked(file)
        held = copy.deepcopy(lock.plain())
        held["x_lock"]["candidates"]["both"]["ensemble"]["pretrained"] = "1" * 64
        with pytest.raises(InputError, match="its formula is 1111"):
            Lock.build(
                Design.parse({k: v for k, v in held.items() if k != "x_lock"}, where="design"),
                {
                    **lock.x_lock.candidates,
                    "both": lock.candidate("both").model_copy(
                        update={
                            "ensemble": lock.candidate("both").ensemble.model_copy(  # type: ignore[union-attr]
                                update={"pretrained": "1" * 64}
                            )
                        }
                    ),
                },
                explore_fingerprint=lock.x_lock.explore_fingerprint,
                explore_runs=lock.x_lock.explore_runs,
                explore_seeds=lock.x_lock.explore_seeds,
                n_calibration_runs=lock.x_lock.n_calibration_runs,
            )


class TestWatching:
    def test_it_may_be_watched_with_before_a_verdict(self, file: Path):
        lock = locked(file)
        monitor = AlarmMonitor(lock, None, accept="recalibrated", system="as locked")
        assert monitor.acting == ("both",)
        assert monitor.rule.promise.startswith("False alarms in at most 1 run in 20")
        assert monitor.rule.promise.endswith(
            "That it detects anything in this system is not shown. It was fitted on one, two."
        )
        log = runs(1, 700)
        columns = {name: log.panel(name).values[0] for name in log.observables}
        for place, step in enumerate(log.panel("step").steps[0]):
            row = {name: values[place] for name, values in columns.items()}
            found = monitor.update(step=int(step), **row)
        assert "is not shown" in found.promise

    def test_nothing_else_may(self, file: Path):
        with pytest.raises(InputError, match="'embedding_norm_drop' is no pretrained score of"):
            AlarmMonitor(locked(file), None, accept="recalibrated", act=["embedding_norm_drop"])
        plain = make_lock(design_with(), runs(40, 300))[0]
        with pytest.raises(InputError, match="holds no pretrained score that sees no labels"):
            AlarmMonitor(plain, None, accept="recalibrated")
        with pytest.raises(InputError, match="accept recalibrated: results are given"):
            AlarmMonitor(plain, "results.yaml", accept="recalibrated")
        with pytest.raises(InputError, match="a lock without results"):
            AlarmMonitor(locked(file), None)


def test_a_score_is_named_as_others_are(file: Path):
    log = runs(5, 300)
    found = own_score(f"pretrained:{file}", log)
    assert found["name"] == "both"
    assert found["x_pretrained"]["hash"] == PretrainedScore.read(file).hash
    assert isinstance(shipped_scores(), tuple)
