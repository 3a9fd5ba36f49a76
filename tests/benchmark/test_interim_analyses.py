"""Looks at held-out runs: alpha is split over them, and beyond the locked numbers is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import synthetic_runlog

from gmb_hf import Design, InputError, Lock, RunLog
from gmb_hf.base.documents import load_yaml
from gmb_hf.benchmark.evaluate import Evaluation, evaluate_lock
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.design.looks import LooksFile, next_look


def held_out(n_runs: int, *, seed: int = 1, first_seed: int = 100) -> RunLog:
    return synthetic_runlog(n_runs, seed=seed, first_seed=first_seed)


def part(log: RunLog, start: int, stop: int) -> RunLog:
    return log.select(log.runs[start:stop])


@pytest.fixture(scope="module")
def runs() -> RunLog:
    return held_out(60)


@pytest.fixture(scope="module")
def design(design: Design) -> Design:
    """The shared one with one candidate and few draws: what is found does not matter here."""
    return design.replace(candidates=design.candidates[1:2], null_draws=80, bootstrap_draws=20)


@pytest.fixture(scope="module")
def plain(explore_log: RunLog, design: Design) -> Lock:
    return make_lock(design, explore_log)[0]


@pytest.fixture(scope="module")
def twice(explore_log: RunLog, design: Design) -> Lock:
    return make_lock(design.replace(looks=2, max_eval_seeds=50), explore_log)[0]


def look(lock: Lock, folder: Path, log: RunLog) -> Evaluation:
    return evaluate_lock(lock.write(folder / "lock.yaml"), log)


def renamed(log: RunLog, *, first: int = 0) -> RunLog:
    """The runs under other names, without their seeds."""
    names = {run: f"other-{place}" for place, run in enumerate(log.runs, start=first)}
    table = log.table.drop_columns(["seed"])
    runs = [names[run] for run in table["run"].to_pylist()]
    return RunLog.from_table(table.set_column(0, "run", [runs]))


def test_one_look_is_all_unless_more_are_locked(plain: Lock, runs: RunLog, tmp_path: Path) -> None:
    first = look(plain, tmp_path, part(runs, 0, 30)).results
    assert (first.summary.x_look, first.summary.x_looks) == (1, 1)
    kept = LooksFile.parse(load_yaml(tmp_path / "lock.looks.yaml"), where="test")
    assert list(kept.looks[0].runs) == [f"seed_{seed}" for seed in range(100, 130)]
    with pytest.raises(
        InputError, match=r"lock\.yaml: allows 1 look at held-out runs \(x_looks\).*: 10 new"
    ):
        look(plain, tmp_path, part(runs, 0, 40))
    with pytest.raises(InputError, match="Give exactly those, or lock again and judge new seeds"):
        look(plain, tmp_path, part(runs, 30, 60))


def test_the_same_runs_again_are_no_new_look(plain: Lock, runs: RunLog, tmp_path: Path) -> None:
    whole = part(runs, 0, 40)
    first = look(plain, tmp_path, whole).results
    written = (tmp_path / "lock.looks.yaml").read_bytes()
    assert look(plain, tmp_path, whole).results.plain() == first.plain()
    # Nor are they under other names: their content says which they are.
    assert look(plain, tmp_path, renamed(whole)).results.summary.x_look == 1
    assert (tmp_path / "lock.looks.yaml").read_bytes() == written


def test_a_lock_that_is_made_again_has_looked(
    explore_log: RunLog, design: Design, runs: RunLog, tmp_path: Path
) -> None:
    """On another day, through a link, in memory, or in memory and then on disk."""

    def made(day: str) -> Lock:
        return make_lock(design.replace(date_locked=day), explore_log)[0]

    look(made("2026-01-01"), tmp_path, part(runs, 0, 20))
    link = tmp_path / "link.yaml"
    link.symlink_to(tmp_path / "lock.yaml")
    told = r"allows 1 look at held-out runs \(x_looks\), taken on .*: 20 new"
    again = made("2026-01-02").write(tmp_path / "lock.yaml")
    for lock in (again, link):
        with pytest.raises(InputError, match=told):
            evaluate_lock(lock, part(runs, 20, 40))
    evaluate_lock(made("2026-01-03"), part(runs, 0, 20))
    for lock in (made("2026-01-04"), made("2026-01-05").write(tmp_path / "other.yaml")):
        with pytest.raises(InputError, match=told):
            evaluate_lock(lock, part(runs, 40, 60))
    assert evaluate_lock(link, part(runs, 0, 20)).results.summary.x_look == 1


def test_some_of_the_runs_are_another_look(
    plain: Lock, twice: Lock, runs: RunLog, tmp_path: Path
) -> None:
    look(plain, tmp_path, part(runs, 0, 40))
    for some in (part(runs, 0, 35), renamed(part(runs, 5, 40))):
        with pytest.raises(InputError, match=r"not the runs of it: 5 left out \(seed_"):
            look(plain, tmp_path, some)


def test_other_logs_under_old_names_are_another_look(
    plain: Lock, twice: Lock, runs: RunLog, tmp_path: Path
) -> None:
    again = held_out(30, seed=5)
    told = r"30 changed, other logs under old names \(seed_100, "
    look(plain, tmp_path, part(runs, 0, 30))
    with pytest.raises(InputError, match=told):
        look(plain, tmp_path, again)
    look(twice, tmp_path, part(runs, 0, 30))
    with pytest.raises(InputError, match=f"look 2 must keep every run .*{told}"):
        look(twice, tmp_path, again)


def test_which_runs_were_judged_is_said_to_have_been_open(plain: Lock, runs: RunLog) -> None:
    notes = evaluate_lock(plain, part(runs, 0, 30)).results.summary.x_notes
    assert any("names no held-out runs: this look fixed the 30 runs" in note for note in notes)


def test_named_seeds_leave_no_choice(explore_log: RunLog, design: Design, runs: RunLog) -> None:
    named = design.replace(seeds_eval=list(range(100, 140)))
    lock = make_lock(named, explore_log)[0]
    with pytest.raises(InputError, match=r"look 1 must judge all of .* 10 of 40 are missing"):
        evaluate_lock(lock, part(runs, 10, 40))
    found = evaluate_lock(lock, part(runs, 0, 40)).results.summary
    assert found.x_look == 1
    assert not any("names no held-out runs" in note for note in found.x_notes)
    lock = make_lock(named.replace(looks=2), explore_log)[0]
    with pytest.raises(InputError, match=r"look 1 judges the first ones .* 10 of 40 are missing"):
        evaluate_lock(lock, part(runs, 10, 40))
    assert evaluate_lock(lock, part(runs, 0, 30)).results.summary.x_look == 1
    with pytest.raises(InputError, match=r"look 2 must judge all .* 5 of 40 are missing"):
        evaluate_lock(lock, part(runs, 0, 35))
    assert evaluate_lock(lock, part(runs, 0, 40)).results.summary.x_look == 2


def test_a_lock_that_was_never_written_keeps_its_looks_in_the_process(
    explore_log: RunLog, design: Design, runs: RunLog
) -> None:
    lock = make_lock(design.replace(seed=91), explore_log)[0]
    evaluate_lock(lock, part(runs, 0, 30))
    with pytest.raises(InputError, match=r"^lock: allows 1 look .* 10 left out"):
        evaluate_lock(lock, part(runs, 0, 20))


def test_explore_runs_are_known_by_content(plain: Lock, explore_log: RunLog, runs: RunLog) -> None:
    mixed = RunLog.concat([renamed(explore_log.select(explore_log.runs[:3])), part(runs, 0, 30)])
    with pytest.raises(InputError, match=r"held-out runs: 3 also used to explore \(other-0, "):
        evaluate_lock(plain, mixed)


def test_two_evaluations_at_once(plain: Lock, runs: RunLog, tmp_path: Path) -> None:
    lock = Lock.read(plain.write(tmp_path / "lock.yaml"))
    one, other = next_look(lock, part(runs, 0, 30)), next_look(lock, part(runs, 30, 60))
    same = next_look(lock, part(runs, 0, 30))
    one.keep()
    same.keep()
    with pytest.raises(InputError, match="allows 1 look"):
        other.keep()
    assert len(LooksFile.beside(lock).looks) == 1


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
    with pytest.raises(InputError, match=r"allows 2 looks .*: 5 new"):
        look(twice, tmp_path, part(runs, 0, 50))


def test_a_later_look_keeps_every_run(twice: Lock, runs: RunLog, tmp_path: Path) -> None:
    look(twice, tmp_path, part(runs, 0, 30))
    with pytest.raises(
        InputError, match=r"look 2 must keep every run .* 10 left out \(seed_100, seed_101"
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
