"""The lock: it round-trips, it explains itself, and no change to it goes unseen."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gmb_hf.base.checksums import canonical_hash
from gmb_hf.base.documents import dump_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.design.design import Design
from gmb_hf.design.explain import explain
from gmb_hf.design.lock import Lock, LockedCandidate, member_key, target_key

TAUS = {0.01: math.inf, 0.05: 1.5, 0.1: 1 / 3}


def design(**overrides: Any) -> Design:
    settings: dict[str, Any] = {
        "horizon": 200,
        "safe_gap": 400,
        "cadence": 25,
        "task": "modular subtraction",
        "seeds_eval": [100, 101, 102],
        "candidates": [{"name": "csd"}, {"name": "entropy drop", "x_sign": -1}],
    }
    return Design.minimal(**{**settings, **overrides})


def frozen(**overrides: Any) -> dict[str, LockedCandidate]:
    members = {"central": TAUS, member_key(window=100, smooth=3): TAUS}
    candidates = {
        "csd": LockedCandidate.freeze(members, family="dynamics", needs=("test_loss",)),
        "entropy drop": LockedCandidate.freeze(members, sign=-1, family="spectral"),
        "clock": LockedCandidate.freeze({"central": TAUS}, family="control"),
    }
    return {**candidates, **overrides}


def build(
    chosen: Design | None = None,
    candidates: dict[str, LockedCandidate] | None = None,
    **overrides: Any,
) -> Lock:
    settings: dict[str, Any] = {
        "explore_fingerprint": "ab" * 32,
        "explore_runs": ["seed_1", "seed_2", "pilot"],
        "explore_seeds": [1, 2, None],
        "n_calibration_runs": 32,
        "created": "2026-01-27T12:00:00+00:00",
    }
    return Lock.build(chosen or design(), candidates or frozen(), **{**settings, **overrides})


def test_it_survives_a_round_trip_infinity_included(tmp_path: Path) -> None:
    lock = build()
    path = lock.write(tmp_path / "lock.yaml")
    assert Lock.read(path) == lock
    assert Lock.read(path).thresholds("csd") == TAUS
    assert Lock.read(path).thresholds("csd", "window=100,smooth=3") == TAUS
    assert "'0.01': .inf" in path.read_text()


def test_a_lock_is_also_a_readable_preregistration_but_for_its_record(tmp_path: Path) -> None:
    path = build().write(tmp_path / "lock.yaml")
    with pytest.raises(InputError, match=r"lock\.yaml: is a lock, .*gmb evaluate --lock"):
        Design.read(path)


def test_the_same_content_has_the_same_hash_and_any_other_another() -> None:
    assert build().hash == build().hash
    assert re.fullmatch("[0-9a-f]{64}", build().hash)
    others = [
        build(n_calibration_runs=33),
        build(design(horizon=201)),
        build(explore_fingerprint="cd" * 32),
        build(
            candidates=frozen(
                clock=LockedCandidate.freeze({"central": TAUS}, sign=-1, family="control")
            )
        ),
    ]
    assert len({lock.hash for lock in [build(), *others]}) == 5


def test_the_effective_budget_is_written_down() -> None:
    # f - (1-f)/m at m = 32: .05 - .95/32 and .1 - .9/32; 32 runs cannot pay for .01.
    budget = build().x_lock.effective_budget
    assert budget["0.01"] == 0
    assert budget["0.05"] == pytest.approx(0.0203125)
    assert budget["0.1"] == pytest.approx(0.071875)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("horizon_steps: 200", "horizon_steps: 250"),
        ("'0.05': 1.5", "'0.05': 1.4"),
        ("sign: -1", "sign: 1"),
        ("n_calibration_runs: 32", "n_calibration_runs: 99"),
        ("seeds_eval: [100, 101, 102]", "seeds_eval: [100, 101]"),
        ("hash: ", "hash: 0"),
        ("task: modular subtraction", "task: modular addition"),
    ],
)
def test_an_edited_lock_is_refused(old: str, new: str, tmp_path: Path) -> None:
    path = build().write(tmp_path / "lock.yaml")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=r"lock\.yaml: was edited after it was locked"):
        Lock.read(path)


def test_comments_and_layout_are_no_edit(tmp_path: Path) -> None:
    lock = build()
    path = lock.write(tmp_path / "lock.yaml")
    path.write_text("# seen by the committee\n" + path.read_text().replace("0.15", "0.150"))
    assert Lock.read(path) == lock


def test_a_lock_changed_in_memory_fails_its_own_check() -> None:
    lock = build()
    lock.verify()
    with pytest.raises(InputError, match="was edited"):
        replace(lock, design=lock.design.replace(horizon=300)).verify()


def test_a_lock_of_another_schema_or_version_is_refused(tmp_path: Path) -> None:
    path = build().write(tmp_path / "lock.yaml")
    text = path.read_text()
    path.write_text(text.replace("x_schema: 2", "x_schema: 7"))
    message = r"is a lock of schema 7, written by gmb-hf .* reads schemas up to 2: upgrade it"
    with pytest.raises(InputError, match=message):
        Lock.read(path)
    path.write_text(text.replace("x_schema: 2", "x_schema: two"))
    with pytest.raises(InputError, match="x_schema must be a whole number from 1 to 2, got 'two'"):
        Lock.read(path)
    path.write_text(text.split("x_lock:")[0])
    with pytest.raises(InputError, match="is no lock"):
        Lock.read(path)
    path.write_text(text.replace("version: v0.4", "version: v0.9"))
    with pytest.raises(InputError, match="edited"):
        Lock.read(path)


def test_an_old_lock_without_a_later_default_still_reads(tmp_path: Path) -> None:
    content = build().plain()
    del content["x_nan"]
    del content["x_lock"]["hash"]
    content["x_lock"]["hash"] = canonical_hash(content)
    path = tmp_path / "lock.yaml"
    path.write_text(dump_yaml(content))
    assert Lock.read(path).design.nan == "error"


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ({"csd": frozen()["csd"]}, "candidate 'entropy drop' of the prereg has no thresholds"),
        (
            frozen(**{"entropy drop": LockedCandidate.freeze({"central": TAUS})}),
            r"candidate 'entropy drop' has sign \+1, the prereg says -1",
        ),
        (
            frozen(other=LockedCandidate.freeze({"central": TAUS}, family="dynamics")),
            "not in the prereg: candidate 'other' is unknown",
        ),
        (frozen(csd=LockedCandidate.freeze({"smooth=1": TAUS})), "has no member 'central'"),
        (
            frozen(csd=LockedCandidate.freeze({"central": {0.05: 1.0}})),
            "targets 0.01, 0.1 do not match",
        ),
        (
            frozen(csd=LockedCandidate.freeze({"central": {**TAUS, 0.05: math.nan}})),
            "the threshold for 0.05 is NaN",
        ),
    ],
)
def test_an_incomplete_lock_is_not_built(
    candidates: dict[str, LockedCandidate], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        build(candidates=candidates)


def test_explore_seeds_cannot_be_held_out() -> None:
    with pytest.raises(InputError, match=r"also used to explore \(101, 102\)"):
        build(explore_seeds=[101, 102, 103])


class TestEvaluation:
    """What held-out runs must be."""

    RUNS = ("seed_100", "seed_101", "seed_102")
    SEEDS = (100, 101, 102)

    def test_the_declared_runs_pass(self) -> None:
        notes = build().check_evaluation(
            self.RUNS,
            self.SEEDS,
            fingerprint="cd" * 32,
            declared={
                "checkpoint_every_steps": [25],
                "task": ["modular subtraction"],
                "model": ["whatever the lock left open"],
            },
            candidates=["csd", "clock"],
        )
        assert notes == ()

    def test_a_missing_seed_is_noted_and_an_added_one_refused(self) -> None:
        notes = build().check_evaluation(self.RUNS[:2], self.SEEDS[:2])
        assert notes == ("1 of 3 held-out seeds that the lock declares are missing: 102",)
        with pytest.raises(InputError, match="seeds 7 are not among the lock's"):
            build().check_evaluation((*self.RUNS, "seed_7"), (*self.SEEDS, 7))

    def test_a_transfer_may_be_to_other_seeds_wholly_and_not_to_chosen_ones(self) -> None:
        others = ("seed_7", "seed_8"), (7, 8)
        with pytest.raises(InputError, match="seeds 7, 8 are not among the lock's"):
            build().check_evaluation(*others)
        notes = build().check_evaluation(*others, transfer=True)
        assert notes == (
            "None of the held-out seeds is one that the lock declares: these are others.",
        )
        with pytest.raises(InputError, match="seeds 7 are not among the lock's"):
            build().check_evaluation((*self.RUNS, "seed_7"), (*self.SEEDS, 7), transfer=True)

    def test_explore_runs_are_refused_by_seed_name_and_content(self) -> None:
        lock = build(design(seeds_eval=[]))
        with pytest.raises(InputError, match=r"1 also used to explore \(2\)"):
            lock.check_evaluation(("seed_2",), (2,))
        with pytest.raises(InputError, match=r"1 also used to explore \(pilot\)"):
            lock.check_evaluation(("pilot",), (None,))
        with pytest.raises(InputError, match="are the explore runs"):
            lock.check_evaluation(("a",), (None,), fingerprint="ab" * 32)

    @pytest.mark.parametrize(
        ("facts", "message"),
        [
            ({"checkpoint_every_steps": [50]}, "checkpoint_every_steps: locked 25, found 50"),
            ({"task": ["copy"]}, "task: locked 'modular subtraction', found 'copy'"),
            ({"task": [None, "modular subtraction", "copy"]}, "found 'copy'"),
            ({"optimizer": ["SGD"]}, "optimizer: locked 'AdamW', found 'SGD'"),
            ({"schedule": ["cosine"]}, "schedule: locked 'constant', found 'cosine'"),
        ],
    )
    def test_another_boundary_is_refused(self, facts: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            build(design(optimizer="AdamW", schedule="constant")).check_evaluation(
                self.RUNS, self.SEEDS, declared=facts
            )

    def test_a_transfer_may_differ_in_all_but_the_cadence(self) -> None:
        lock = build(design(optimizer="AdamW"))
        facts: dict[str, Any] = {"task": ["copy"], "optimizer": ["SGD"]}
        lock.check_evaluation(self.RUNS, self.SEEDS, declared=facts, transfer=True)
        facts["checkpoint_every_steps"] = [50]
        with pytest.raises(InputError, match=r"found 50; .* lock that system anew$"):
            lock.check_evaluation(self.RUNS, self.SEEDS, declared=facts, transfer=True)

    def test_a_candidate_that_is_not_locked_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"'csdd' is unknown; .* Did you mean 'csd'"):
            build().check_evaluation(self.RUNS, self.SEEDS, candidates=["csdd"])
        with pytest.raises(InputError, match="member 'smooth=9' is unknown"):
            build().thresholds("csd", "smooth=9")


def test_it_explains_every_choice_in_sentences() -> None:
    lines = explain(build(design(burn_in=200, theta_floor=0.5, require_new_max=True)))
    assert all(line.endswith(".") and "None" not in line for line in lines)
    text = "\n".join(lines)
    for part in (
        "task modular subtraction",
        "test_acc rises by at least 0.15 within 50 steps",
        "An alarm in the 200 steps before t* is early warning",
        "Windows before step 200 are ignored",
        "A budget of 0.01 has no finite threshold with 32 calibration runs: it takes 99",
        "A budget of 0.05 buys an expected false positive rate of 0.020",
        "entropy drop, oriented reversed, alarms at scores above 1.5 for a budget of 0.05",
        "p <= 0.05, adjusted over all candidates",
    ):
        assert part in text
    letter = "\n".join(explain(build(design(protocol="v0.4"))))
    assert "to the letter" in letter
    # There the threshold is an observed score, which alarms itself; strict lies just above one.
    assert "alarms at scores of at least 1.5 for a budget of 0.05" in letter


def test_a_score_without_a_finite_threshold_is_said_never_to_alarm() -> None:
    never = LockedCandidate.freeze({"central": dict.fromkeys(TAUS, math.inf)}, family="control")
    text = "\n".join(explain(build(candidates=frozen(clock=never))))
    assert "clock, oriented as declared, never alarms" in text


def test_the_names_of_members_and_targets() -> None:
    assert member_key(smooth=5) == "smooth=5"
    assert member_key(window=200, smooth=3) == "window=200,smooth=3"
    assert [target_key(value) for value in (0.05, 0.1)] == ["0.05", "0.1"]
