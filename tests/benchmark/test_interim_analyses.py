"""Looks at held-out runs: alpha is split over them, and beyond the locked numbers is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import synthetic_runlog

from gmb_hf import Design, InputError, Lock, RunLog
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.design.lock import LooksFile
from gmb_hf.documents import load_yaml


def held_out(n_runs: int, *, seed: int = 1, first_seed: int = 100) -> RunLog:
    return synthetic_runlog(n_runs, seed=seed, first_seed=first_seed)


def part(log: RunLog, start: int, stop: int) -> RunLog:
    return log.select(log.runs[start:stop])


@pytest.fixture(scope="module")
def runs() -> RunLog:
    return held_out(60)


@pytest.fixture(scope="module")
def plain(explore_log: RunLog, design: Design) -> Lock:
    return make_lock(design, explore_log)[0]


@pytest.fixture(scope="module")
def twice(explore_log: RunLog, design: Design) -> Lock:
    return make_lock(design.replace(looks=2, max_eval_seeds=50), explore_log)[0]


def look(lock: Lock, folder: Path, log: RunLog) -> Evaluation:
    path = folder / "lock.yaml"
    return evaluate_lock(lock, log, lock_path=str(path), keep_looks=True)


def test_one_look_is_all_unless_more_are_locked(plain: Lock, runs: RunLog, tmp_path: Path) -> None:
    first = look(plain, tmp_path, part(runs, 0, 30)).results
    assert (first.summary.x_look, first.summary.x_looks) == (1, 1)
    kept = LooksFile.parse(load_yaml(tmp_path / "lock.looks.yaml"), where="test")
    assert kept.looks[0].runs == tuple(str(seed) for seed in range(100, 130))
    with pytest.raises(
        InputError, match=r"lock\.yaml: allows 1 look at held-out runs \(x_looks\).*10 runs are new"
    ):
        look(plain, tmp_path, part(runs, 0, 40))
    with pytest.raises(InputError, match="Lock again and judge new seeds alone"):
        look(plain, tmp_path, part(runs, 30, 60))


def test_the_same_runs_again_are_no_new_look(plain: Lock, runs: RunLog, tmp_path: Path) -> None:
    whole = part(runs, 0, 40)
    first = look(plain, tmp_path, whole).results
    written = (tmp_path / "lock.looks.yaml").read_bytes()
    assert look(plain, tmp_path, whole).results.plain() == first.plain()
    # Nor are some of them.
    assert look(plain, tmp_path, part(runs, 0, 35)).results.summary.x_look == 1
    assert (tmp_path / "lock.looks.yaml").read_bytes() == written


def test_runs_of_one_name_with_another_content_are_told(
    plain: Lock, runs: RunLog, tmp_path: Path
) -> None:
    look(plain, tmp_path, part(runs, 0, 30))
    again = look(plain, tmp_path, held_out(30, seed=5)).results
    assert any("had another content at look 1" in note for note in again.summary.x_notes)


def test_locked_looks_split_alpha_and_may_add_runs(
    twice: Lock, runs: RunLog, tmp_path: Path
) -> None:
    first = look(twice, tmp_path, part(runs, 0, 30))
    assert first.results.summary.x_look == 1
    assert (
        "Look 1 of 2 at held-out runs: each tests at p <= 0.025." in first.results.summary.x_notes
    )
    second = look(twice, tmp_path, part(runs, 0, 45))
    assert (second.results.summary.x_look, second.results.summary.x_looks) == (2, 2)
    with pytest.raises(InputError, match=r"allows 2 looks .* 5 runs are new"):
        look(twice, tmp_path, part(runs, 0, 50))


def test_a_later_look_keeps_every_run(twice: Lock, runs: RunLog, tmp_path: Path) -> None:
    look(twice, tmp_path, part(runs, 0, 30))
    with pytest.raises(
        InputError, match=r"look 2 must keep every run .* 10 are missing \(100, 101"
    ):
        look(twice, tmp_path, part(runs, 10, 40))


def test_more_runs_than_locked_are_refused(twice: Lock, runs: RunLog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"51 held-out runs are more than .* x_max_eval_seeds 50"):
        look(twice, tmp_path, part(runs, 0, 51))
    assert not (tmp_path / "lock.looks.yaml").exists()


def test_a_refused_evaluation_is_no_look(
    plain: Lock, runs: RunLog, explore_log: RunLog, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="explore"):
        look(plain, tmp_path, explore_log)
    assert look(plain, tmp_path, part(runs, 0, 30)).results.summary.x_look == 1


def test_another_lock_in_the_same_place_counts_anew_and_says_so(
    plain: Lock, twice: Lock, runs: RunLog, tmp_path: Path
) -> None:
    look(plain, tmp_path, part(runs, 0, 30))
    again = look(twice, tmp_path, part(runs, 20, 50)).results
    assert again.summary.x_look == 1
    assert any(
        "10 of these runs were judged by an earlier lock" in n for n in again.summary.x_notes
    )


def test_the_level_of_a_look_decides(twice: Lock) -> None:
    assert twice.design.alpha_per_look == 0.025


def test_a_spoilt_record_of_looks_is_refused(plain: Lock, runs: RunLog, tmp_path: Path) -> None:
    (tmp_path / "lock.looks.yaml").write_text("looks:\n- {look: one}\n")
    with pytest.raises(InputError, match=r"lock\.looks\.yaml: looks\[0\]\.lock_hash is required"):
        look(plain, tmp_path, runs)
