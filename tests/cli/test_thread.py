"""One thread from a look at logs to a monitor: each command proposes the one that works next."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest
from command_line import Outcome, gmb, refused

from gmb_hf import Design, Lock, Results, RunLog
from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.own_runs import own_design, split

ASKED = ("--metric=test_acc", "--score=unembedding_gini", "--event=E_plateau")
ASKED += ("--plateau-level=.5", "--plateau-checkpoints=5", "--horizon=400", "--safe-gap=800")


def proposed(done: Outcome) -> list[str]:
    """The words of the next command, without `gmb`."""
    words = shlex.split(done.next_command)
    assert words[0] == "gmb", done.next_command
    return words[1:]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example's 96 runs as CSV files, in the folder `my` of an empty one."""
    monkeypatch.chdir(tmp_path)
    done = gmb("runs", "example", "--out=my")
    assert done.code == 0, done
    words = ["--runs", "my", "--columns", "test_acc,unembedding_gini"]
    assert proposed(done) == ["runs", "verify", *words]
    return Path("my")


def test_from_logs_to_a_monitor_by_what_is_proposed(mine: Path):
    seen = gmb("runs", "verify", f"--runs={mine}", "--columns=test_acc,unembedding_gini")
    assert seen.code == 0
    assert "--horizon 250 --safe-gap 500" in seen.next_command  # 10 and 20 checkpoints
    first = gmb("evaluate", f"--runs={mine}", *ASKED, "--out=first")
    assert first.code == 0, first
    locked = gmb(*proposed(first))
    assert locked.code == 0, locked
    lock = Lock.read("lock.yaml")
    explored, held_out = lock.x_lock.explore_runs, lock.design.runs_eval
    assert (len(explored), len(held_out)) == (48, 48)
    assert not {*explored} & {*held_out}
    judged = gmb(*proposed(locked))
    assert judged.code == 0, judged
    assert "48 runs were set aside" in judged.out
    results = Results.read("results")
    assert sorted(results.boundary.seeds_eval) == sorted(held_out)
    item = results.indicator("unembedding_gini")
    if item.x_alarm_eligible:
        assert "The next command replays a held-out run; of one that is training" in judged.out
        followed = Path(proposed(judged)[2])
        assert followed.stem in held_out
        assert gmb(*proposed(judged)).code == 3
    else:
        assert proposed(judged) == ["results", "show", "results", "unembedding_gini"]
        assert gmb(*proposed(judged)).code == 0


def test_options_carry_over_to_the_lock(mine: Path):
    steps = mine / "run_01.csv"
    for path in mine.glob("*.csv"):
        path.write_text(path.read_text().replace("step,", "iteration,", 1))
    assert "if 'iteration' counts the steps, add --step-column iteration" in refused(
        "evaluate", "--runs", steps, *ASKED
    )
    more = ("--step-column=iteration", "--burn-in=100", "--sign=-1", "--no-test-labels")
    done = gmb("explore", f"--runs={mine}", *ASKED, *more)
    assert done.code == 0, done
    words = proposed(done)
    for pair in ("--step-column iteration", "--burn-in 100", "--sign -1", "--horizon 400"):
        assert pair in shlex.join(words)
    assert "--no-test-labels" in words
    assert "--explore-share" not in words  # these are all explore runs
    assert gmb(*words).code == 0


def test_a_preregistration_says_what_logs_and_options_say(mine: Path):
    init = ("prereg", "init", f"--runs={mine}", *ASKED, "--explore-share=.25", "--out=p.yaml")
    done = gmb(*init)
    assert done.code == 0, done
    design = Design.read("p.yaml")
    assert (design.cadence, len(design.runs_explore), len(design.runs_eval)) == (25, 24, 72)
    assert [one.name for one in design.candidates] == ["unembedding_gini"]
    assert "# steps between two checkpoints" in Path("p.yaml").read_text()
    assert "--undeclared" in proposed(done)
    assert gmb(*proposed(done)).code == 0
    assert Lock.read("lock.yaml").design.runs_eval == design.runs_eval


def test_what_an_option_fits_must_be_there():
    message = refused("prereg", "init", "--horizon=400", "--out=p.yaml")
    assert message.startswith("error: --horizon: without --runs nothing says what that fits")
    assert not Path("p.yaml").exists()


def test_lengths_fit_the_cadence(mine: Path):
    log = RunLog.read(mine)
    sparse = RunLog.from_table(
        log.table.filter([step % 75 == 0 for step in log.table["step"].to_pylist()])
    )
    lengths = {"horizon": 400, "safe_gap": 800}
    design = own_design(sparse, ["csd_variance"], metric="test_acc", **lengths)
    assert design.w_event == 75
    assert all(window % 75 == 0 for window in design.window_sweep)
    kept = own_design(log, ["unembedding_gini"], metric="test_acc", **lengths)
    assert (kept.w_event, kept.window_sweep) == (50, (100, 150, 200, 250))


class TestSplit:
    def test_by_names_the_same_each_time_and_whatever_the_order(self, mine: Path):
        log = RunLog.read(mine)
        found = split(log, 0.5)
        assert found == split(log.select(tuple(reversed(log.runs))), 0.5)
        assert {*found["runs_explore"], *found["runs_eval"]} == {*log.runs}

    def test_by_seeds_where_each_run_has_its_own(self, small_csv: Path):
        log = RunLog.read(small_csv)
        found = split(log, 0.5)
        assert {*found["seeds_explore"], *found["seeds_eval"]} == {*log.seeds}

    @pytest.mark.parametrize(("share", "part"), [(0.001, "explore"), (0.999, "judge")])
    def test_neither_part_is_empty(self, mine: Path, share: float, part: str):
        with pytest.raises(InputError, match=f"of 96 runs leaves none to {part}; give more runs"):
            split(RunLog.read(mine), share)

    def test_a_design_that_names_its_runs_is_not_split_again(self, mine: Path):
        init = ("prereg", "init", f"--runs={mine}", *ASKED, "--explore-share=.5", "--out=p.yaml")
        assert gmb(*init).code == 0
        locking = ("lock", f"--runs={mine}", "--prereg=p.yaml", "--undeclared", "--out=l.yaml")
        message = refused(*locking, "--explore-share=.4")
        assert "the design names its held-out runs already; leave it out" in message

    def test_no_run_is_added_or_left_out_after_the_lock(self, mine: Path):
        locking = ("lock", f"--runs={mine}", *ASKED, "--explore-share=.5", "--undeclared")
        assert gmb(*locking, "--out=lock.yaml").code == 0
        lock = Lock.read("lock.yaml")
        some = [str(mine / f"{run}.csv") for run in lock.design.runs_eval]
        judging = ("evaluate", "--lock=lock.yaml", "--runs")
        missing = refused(*judging, *some[1:])
        assert f"1 of 48 are missing ({lock.design.runs_eval[0]})" in missing
        assert gmb(*judging, *some).code == 0

    def test_a_run_in_both_parts_is_refused(self):
        parts = {"runs_explore": ["a", "b"], "runs_eval": ["b"]}
        with pytest.raises(InputError, match="b in both x_runs_explore and x_runs_eval"):
            Design.minimal(horizon=1, safe_gap=2, **parts)


def test_a_metric_that_falls_is_said_and_asked_for_next(mine: Path):
    for path in mine.glob("*.csv"):
        rows = [line.split(",") for line in path.read_text().splitlines()]
        best = itertools.accumulate((float(row[2]) for row in rows[1:]), max)
        falling = zip(rows[1:], best, strict=True)
        lines = ["step,loss,score", *(f"{row[0]},{2 - most},{row[3]}" for row, most in falling)]
        path.write_text("\n".join(lines) + "\n")
    asked = ("--metric=loss", "--horizon=400", "--safe-gap=800", "--event-after=50")
    seen = gmb("runs", "verify", f"--runs={mine}", "--metric=loss", "--event-after=50")
    assert "--falling" in proposed(seen)
    done = gmb("evaluate", f"--runs={mine}", "--score=score", *asked)
    assert done.code == 0, done
    assert "--falling" in proposed(done)
    again = gmb(*proposed(done))
    assert again.code == 0, again
    assert proposed(again)[0] == "plan"  # too few events to hold 30 of them out


def test_a_score_that_ranks_the_wrong_way_round_is_told_the_other_sign(mine: Path):
    done = gmb("evaluate", f"--runs={mine}", *ASKED, "--sign=-1")
    said = " ".join(done.out.split())
    assert "unembedding_gini ranks the wrong way round (AUC 0.0" in said
    assert "with --sign +1 it detects " in said
    assert "ranks the wrong way" not in gmb("evaluate", f"--runs={mine}", *ASKED, "--force").out


def test_logs_in_folders_below_are_named_by_a_pattern(mine: Path):
    for number, path in enumerate(sorted(mine.glob("*.csv"))[:4]):
        folder = Path("nested") / f"trial_{number}" / "out"
        folder.mkdir(parents=True)
        path.rename(folder / path.name)
    message = refused("runs", "verify", "--runs=nested")
    assert message.endswith("for the logs in them give --runs 'nested/*/*/*.csv'")
    assert gmb("runs", "verify", "--runs=nested/*/*/*.csv").code == 0


def test_the_example_is_not_mixed_with_other_logs(mine: Path):
    assert "holds CSV files already; choose another --out" in refused("runs", "example", "--out=my")


def test_fewer_runs_are_split_so_that_a_verdict_can_follow(mine: Path):
    for path in sorted(mine.glob("*.csv"))[56:]:
        path.unlink()
    first = gmb("evaluate", f"--runs={mine}", *ASKED)  # leaves `results`
    assert "--explore-share 0.4" in shlex.join(proposed(first)), first.next_command
    locked = gmb(*proposed(first))
    assert proposed(locked)[-2:] == ["--out", "verdict"]
    judged = gmb(*proposed(locked))
    assert judged.code == 0, judged
    assert "events are fewer than 30" not in judged.out


def test_runs_too_few_for_a_lock_are_told_how_many_to_train(mine: Path):
    for path in sorted(mine.glob("*.csv"))[40:]:
        path.unlink()
    done = gmb("evaluate", f"--runs={mine}", *ASKED)
    assert "40 runs with 40 events are too few to lock on some of them" in " ".join(
        done.out.split()
    )
    assert proposed(done)[:3] == ["plan", "--pilot", "my"]


def test_of_several_scores_a_plan_is_for_the_best_and_names_all(mine: Path):
    for path in sorted(mine.glob("*.csv"))[40:]:
        path.unlink()
    done = gmb("evaluate", f"--runs={mine}", *ASKED, "--score=train_acc")
    words = proposed(done)
    assert [words[place + 1] for place, word in enumerate(words) if word == "--score"] == [
        "unembedding_gini",
        "train_acc",
    ]
    planned = gmb(*words)
    assert planned.code == 0, planned
    said = " ".join(planned.out.split())
    assert (
        "the first alarm of unembedding_gini, the best of 2 scores on these runs, detects" in said
    )
    assert "Holm over 2 scores" in said
    assert proposed(planned)[:3] == ["lock", "--runs", "EXPLORE_RUNS"]
    assert proposed(planned).count("--score") == 2


def test_columns_that_nobody_named_are_guessed_and_said(mine: Path):
    done = gmb("runs", "verify", f"--runs={mine}")
    assert done.code == 0, done
    words = ["evaluate", "--runs", "my", "--metric", "test_acc", "--score", "unembedding_gini"]
    assert proposed(done) == [*words, "--horizon", "250", "--safe-gap", "500"]
    said = " ".join(done.out.split())
    assert "test_acc and unembedding_gini are guesses by the names of the columns" in said
    assert "--score what is judged (train_acc may be, too)." in said
    seen = gmb("runs", "verify", f"--runs={mine}", "--metric=test_acc")
    assert "unembedding_gini is a guess by the names of the columns: --score what" in " ".join(
        seen.out.split()
    )


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("reward,x", "No name of a column says what shows the event: name it by --metric, or"),
        ("test_acc,x", "No column may be judged as a score of test_acc: it must vary, at"),
    ],
)
def test_where_nothing_can_be_guessed_a_sentence_says_so(columns: str, said: str, tmp_path: Path):
    rows = [f"{step},{step % 7},{1 if columns[0] == 't' else step}" for step in range(0, 90, 10)]
    log = tmp_path / "one.csv"
    log.write_text("\n".join([f"step,{columns}", *rows]) + "\n")
    done = gmb("runs", "verify", "--runs", log)
    assert done.code == 0, done
    assert said in " ".join(done.out.split())
    assert "next" not in done.out


def test_joined_scores_are_declared_in_the_next_command(mine: Path):
    rows = RunLog.read(mine).table.select(["run", "step", "unembedding_gini"])
    RunLog.from_table(rows.rename_columns(["run", "step", "own"])).write("own.parquet")
    done = gmb("runs", "join", "--runs=my", "--scores=own.parquet", "--out=joined.parquet")
    assert done.code == 0, done
    words = ["evaluate", "--runs", "joined.parquet", "--no-test-labels", "--metric", "test_acc"]
    assert proposed(done)[:-4] == [*words, "--score", "own"]
    assert "--no-test-labels in the next command declares that no held-out label" in done.out
    assert gmb(*proposed(done)).code == 0


def test_the_verdicts_of_a_file_are_followed_by_those_of_its_best_score(mine: Path):
    assert gmb("evaluate", f"--runs={mine}", *ASKED).code == 0
    done = gmb("results", "show", "results")
    assert proposed(done) == ["results", "show", "results/results.yaml", "unembedding_gini"]


def test_what_is_there_is_not_proposed_again(mine: Path):
    tried = ("explore", f"--runs={mine}", *ASKED)
    assert proposed(gmb(*tried))[-1] == "lock.yaml"
    Path("lock.yaml").write_text("another")
    assert proposed(gmb(*tried))[-1] == "lock-2.yaml"


def test_too_few_events_are_said_beside_the_gates(mine: Path):
    some = sorted(mine.glob("*.csv"))[:12]
    done = gmb("evaluate", "--runs", *some, *ASKED, "--out=few")
    assert done.code == 0, done
    shown = gmb("results", "show", "few", "unembedding_gini")
    assert "there are too few events to conclude (see above)" in shown.out


def test_logs_without_their_option_are_put_behind_it(mine: Path):
    message = refused("runs", "verify", mine)
    assert message == "error: Missing option '--runs', e.g. --runs my. See gmb runs verify --help."


def test_a_log_that_is_not_there_is_said_to_be_waited_for(mine: Path):
    locking = ("lock", f"--runs={mine}", *ASKED, "--explore-share=.5", "--undeclared")
    assert gmb(*locking, "--out=lock.yaml").code == 0
    assert gmb("evaluate", f"--runs={mine}", "--lock=lock.yaml").code == 0
    watching = ("--lock=lock.yaml", "--follow=gone.jsonl", "--idle=0")
    done = gmb("monitor", *watching)
    assert done.code == 4, done
    assert "note: gone.jsonl is not there yet; it is waited for" in done.out


def test_rises_too_slow_for_a_jump_are_said(tmp_path: Path):
    lines = ["run,step,val_acc,probe"]
    for run in range(6):
        width = 1 if run else 200
        for step in range(0, 4000, 20):
            at = min(max((step - 2000 + width) / (2 * width), 0), 1)
            lines.append(f"run-{run},{step},{at:.3f},{(step * (run + 3)) % 17}")
    (tmp_path / "slow.csv").write_text("\n".join(lines) + "\n")
    done = gmb("runs", "verify", "--runs", tmp_path / "slow.csv")
    assert done.code == 0, done
    said = " ".join(done.out.split())
    assert "In 1 of the 1 runs without an event val_acc rises as far, but slower" in said
    assert "a longer --window takes such runs in, or --event E_plateau, a level that" in said


def test_a_results_folder_that_is_taken_is_not_proposed(mine: Path):
    seen = ("runs", "verify", f"--runs={mine}")
    assert "--out" not in proposed(gmb(*seen))
    assert gmb("evaluate", f"--runs={mine}", *ASKED).code == 0  # leaves `results`
    assert proposed(gmb(*seen))[-2:] == ["--out", "first"]
