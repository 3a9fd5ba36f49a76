"""Rounds of the leaderboard: a tiny one from the first command to the page, and what is refused."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_client import Terminal

from gmb_hf import InputError, Results, preset
from gmb_hf.base.fingerprints import source_hash
from gmb_hf.design import ledger
from gmb_hf.design.lock import CHECKSUMS, Lock
from gmb_hf.hub import panels
from gmb_hf.hub.leaderboard import rounds
from gmb_hf.hub.leaderboard.kept import PLACE
from gmb_hf.hub.leaderboard.rounds import FIRST_SEED, Round, chained, first_seed, round_hash
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import RECIPES, Recipe
from gmb_hf.indicators import catalogue
from gmb_hf.training.config import parse_seeds
from gmb_hf.training.presets import PRESETS

CODE = """
from __future__ import annotations
from dataclasses import dataclass
import numpy as np
from gmb_hf.indicators.catalogue import register

@dataclass
class Scale:
    by: float = 1.0

@register("rise_of_norm", family="dynamics", summary="s", needs=("weight_norm",), source="here")
def rise_of_norm(seen):
    norm = seen["weight_norm"]
    return (norm - np.minimum.accumulate(norm, axis=1)) * Scale().by
"""
FAILS = CODE.replace("    return (", "    assert len(norm) != 5, 'five'\n    return (")
PEEKS = CODE.replace("np.minimum.accumulate(norm, axis=1)", "norm[:, -1:]")
ROUND = ("leaderboard", "round")
SAID = ("--author", "A. <Reader>", "--claim", "What it is")


class Typed:
    """What each step of the round left: copies of its folder by state."""

    def __init__(self, home: Path, terminal: Terminal) -> None:
        self.home, self.terminal = home, terminal
        self.said: dict[str, str] = {}

    def step(self, state: str, *words: object) -> None:
        """Type a command, and keep a copy of what it left."""
        self.said[state] = self.terminal.done(*ROUND, *words)
        shutil.copytree("rounds", Path("states", state))


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Typed]:
    """A round on a panel of 24 explore runs, typed from `open` to `judge`."""
    home = tmp_path_factory.mktemp("rounds")
    config = preset("smoke").changed(
        ["seeds.evaluate=1000:1006", "training.steps=300", "benchmark.null_draws=199"]
    )
    recipe = Recipe("tiny", "Is it judged afterwards", lambda: config)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.delenv(panels.PLACE, raising=False)
        patch.setattr(ledger, "SHIPPED", Path("shipped"))
        patch.setenv(PLACE, str(home / "cache"))
        patch.setitem(panels.RECIPES, "tiny", recipe)
        terminal = Terminal()
        terminal.done("panel", "build", "tiny", "--jobs=1")
        scores = ("--score", "embedding_norm_drop", "--score", "embedding_gini")
        terminal.done("lock", "--runs", "panel:tiny", *scores, "--out", "lock.yaml")
        Path("rise.py").write_text(CODE)
        done = Typed(home, terminal)
        done.step("new", "open", "first", "--panel=tiny", "--closes=2999-01-31", "--held-out=5")
        done.step("one", "enter", "first", "norm", "--lock=lock.yaml", *SAID)
        Path("fails.py").write_text(FAILS)
        terminal.done(*ROUND, "enter", "first", "fails", "--code=fails.py", *SAID)
        done.step("open", "enter", "first", "rise", "--code=rise.py", *SAID)
        done.step("closed", "close", "first", "--early")
        done.step("trained", "train", "first", "--jobs=1", "--device=cpu")
        done.step("judged", "judge", "first")
        yield done


@pytest.fixture
def at(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that puts the round back into a state, and returns its folder."""

    def state(name: str) -> Path:
        shutil.rmtree("rounds")
        shutil.copytree(Path("states", name), "rounds")
        return Path("rounds", "first")

    return state


def refused(typed: Typed, *words: object) -> str:
    return typed.terminal.refused(*ROUND, *words)


def edit(folder: Path, change: Any) -> None:
    path = folder / "round.yaml"
    content = yaml.safe_load(path.read_text())
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


# The whole way.


def test_every_entry_is_judged_on_runs_that_are_trained_after_the_close(
    typed: Typed, at: Any
) -> None:
    folder = at("judged")
    found = Round.find("first")
    record, closed = found.record, found.record.closed
    assert found.state == "judged"
    assert closed is not None
    assert closed.early
    assert closed.round_hash == round_hash(record.entries[-1].hash, "")
    seeds = range(closed.first_seed, closed.first_seed + 5)
    assert found.seeds == tuple(seeds)
    assert found.held_out().seeds == found.seeds
    for entry in (record.entries[0], record.entries[2]):
        frozen = Lock.read(found.entry(entry.name) / "lock.yaml")
        results = Results.read(folder / "judged" / entry.name)
        lock = Lock.read(folder / "judged" / entry.name / "lock.yaml")
        assert lock.x_lock.candidates == frozen.x_lock.candidates
        assert lock.design == frozen.design.replace(seeds_eval=found.seeds)
        assert results.x_provenance is not None
        assert results.x_provenance.lock_hash == lock.hash
        assert results.summary.n_seeds == 5
    assert Lock.read("lock.yaml").hash == Lock.read(found.entry("norm") / "lock.yaml").hash
    assert record.entries[2].files["code.py"] == source_hash("rise.py")
    assert "rise_of_norm" in typed.said["judged"]
    assert "Round first is closed." in typed.said["closed"]
    assert "0 of 5 runs so far" in typed.said["closed"]
    assert typed.said["new"].endswith(
        "gmb leaderboard round enter first ENTRY --lock FILE --author WHO --claim WHAT\n"
    )
    assert "gmb leaderboard round judge first" in typed.said["trained"]
    card = (folder / "README.md").read_text()
    assert f"`{closed.round_hash}`" in card
    assert "A. \\<Reader\\>" in card
    # The panel's own held-out runs were not looked at.
    assert not FrozenPanel.find("tiny").ledger().locks


def test_done_again_nothing_changes(typed: Typed, at: Any) -> None:
    folder = at("judged")
    before = (folder / "round.yaml").read_bytes()
    typed.terminal.done(*ROUND, "train", "first")
    typed.terminal.done(*ROUND, "judge", "first")
    assert (folder / "round.yaml").read_bytes() == before
    said = typed.terminal.done(*ROUND, "status", "first")
    assert "gmb leaderboard build --rounds rounds --out site" in said
    assert "first" in typed.terminal.done(*ROUND, "status")


def test_judging_resumes(typed: Typed, at: Any) -> None:
    folder = at("judged")
    judged = Round.find("first").record.judged
    edit(folder, lambda content: content["judged"].pop())  # stopped before the last was noted
    shutil.rmtree(folder / "judged" / "rise")
    assert Round.find("first").state == "trained"
    typed.terminal.done(*ROUND, "judge", "first")
    again = Round.find("first").record.judged
    assert [one.name for one in again] == ["norm", "fails", "rise"]
    assert again[:2] == judged[:2]
    assert again[2].results == judged[2].results


def test_training_resumes(typed: Typed, at: Any) -> None:
    folder = at("trained")
    edit(folder, lambda content: content.pop("trained"))  # stopped before it was noted
    (folder / "heldout.parquet").unlink()
    assert Round.find("first").n_trained == 5
    typed.terminal.done(*ROUND, "train", "first")
    found = Round.find("first")
    assert found.held_out().seeds == found.seeds


def test_the_site_has_a_page_for_each_round(typed: Typed, at: Any) -> None:
    folder = at("judged")
    said = typed.terminal.done("leaderboard", "build", "--rounds=rounds", "--out=site")
    assert "2 pages: 0 scores on 0 panels, 0 results, 0 submissions, 1 round." in said
    index, page = (Path("site", name).read_text() for name in ("index.html", "rounds/first.html"))
    assert 'href="rounds/first.html"' in index
    record = Round.find("first").record
    assert record.closed is not None
    assert record.closed.round_hash in page
    dates = (record.opened, record.closed, record.trained, *record.judged)
    assert all(one is not None and one.date[:10] in page for one in dates)
    assert "3 entries were frozen before any of the 5 held-out runs was trained" in page
    assert "A. &lt;Reader&gt;" in page
    assert page.count("<td>recomputed</td>") == 2  # both scores of the lock
    assert page.count("<td>by the round</td>") == 1  # nobody's code is run
    # Results that were made up, with all hashes right.
    path = folder / "judged" / "norm" / "results.yaml"
    results = Results.read(path)
    first = results.indicators[0].x_first_alarm
    assert first is not None
    better = results.indicators[0].model_copy(update={"x_sentence": "The best of all."})
    made_up = results.model_copy(update={"indicators": (better, *results.indicators[1:])})
    made_up.with_checksums().write(path)

    def resign(content: dict[str, Any]) -> None:
        content["judged"][0]["results"] = source_hash(path)
        previous = content["trained"]["hash"]
        for link in content["judged"]:
            previous = link["hash"] = chained(previous, link)

    edit(folder, resign)
    said = typed.terminal.done("leaderboard", "build", "--rounds=rounds", "--out=site")
    assert "left out: round first: rounds/first/judged/norm/results.yaml: " in said
    assert "embedding_gini" not in Path("site/rounds/first.html").read_text()


def test_an_open_round_has_a_page(typed: Typed, at: Any) -> None:
    at("one")
    typed.terminal.done("leaderboard", "build", "--rounds=rounds", "--out=site")
    page = Path("site/rounds/first.html").read_text()
    assert "This round is open: entries are taken until 2999-01-31T23:59:59+00:00." in page
    assert "Hash of the closed round" not in page


def test_an_edited_round_is_left_out_of_the_site(typed: Typed, at: Any) -> None:
    folder = at("judged")
    edit(folder, lambda content: content["entries"][0].update(claim="Another"))
    message = typed.terminal.refused("leaderboard", "build", "--rounds=rounds", "--out=site")
    assert message.startswith("rounds: there is nothing to show: rounds/first/round.yaml: entry")
    message = typed.terminal.refused("leaderboard", "build", "--rounds=nowhere", "--out=site")
    assert message == "nowhere: there is no such folder of rounds"


# Hashes and seeds.


def test_seeds_of_rounds_are_nobody_elses() -> None:
    known = [
        seed
        for config in (
            *(preset(name) for name in PRESETS),
            *(recipe.config() for recipe in RECIPES.values()),
        )
        for part in (config.seeds.explore, config.seeds.evaluate)
        for seed in parse_seeds(part)
    ]
    assert max(known) < FIRST_SEED
    drawn = {first_seed(f"{number:064x}", 256) for number in range(200)}
    assert len(drawn) == 200
    assert all(FIRST_SEED <= seed <= 2**32 - 256 for seed in drawn)


def test_the_seeds_follow_from_every_entry_and_the_beacon_but_not_from_the_day(
    typed: Typed, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("open")
    early = rounds.close("first", early=True).record.closed
    at("open")
    monkeypatch.setattr(rounds, "now", lambda: datetime(3000, 1, 1, tzinfo=UTC))
    late = rounds.close("first").record.closed
    at("one")
    fewer = rounds.close("first").record.closed
    assert early is not None
    assert late is not None
    assert fewer is not None
    assert (late.early, late.round_hash) == (False, early.round_hash)
    assert late.first_seed == early.first_seed != fewer.first_seed
    assert round_hash("a", "") != round_hash("a", "7")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda content: content["opened"].update(held_out=6), "opened"),
        (lambda content: content["entries"][0].update(author="B"), "entry 'norm'"),
        (
            lambda content: content.update(judged=[], entries=content["entries"][1:]),
            "entry 'fails'",
        ),
        (lambda content: content["entries"].reverse(), "entry 'rise'"),
        (lambda content: content.update(judged=[], entries=content["entries"][:2]), "closed"),
        (lambda content: content["closed"].update(first_seed=FIRST_SEED), "closed"),
        (lambda content: content["trained"].update(runs=4), "trained"),
        (lambda content: content["judged"][2].update(results="0"), "judged 'rise'"),
    ],
)
def test_an_edited_section_is_noticed(typed: Typed, at: Any, change: Any, what: str) -> None:
    edit(at("judged"), change)
    message = refused(typed, "status", "first")
    start = f"rounds/first/round.yaml: {what}, or what stands before it, was changed after it was"
    assert message.startswith(start)
    assert message.endswith("; restore the file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["opened"].update(name="other"), "opened.name is 'other', the fol"),
        (
            lambda content: content["opened"].update(name="../x"),
            "opened.name: '../x' is no name ",
        ),
        (lambda content: content["opened"].update(closes="soon"), "opened.closes: Invalid isoform"),
        (
            lambda content: content["opened"].update(closes="2999-01-31"),
            "opened.closes: is a ",
        ),
        (lambda content: content["entries"][0].update(name="/x"), "entries[0].name: '/x' is no na"),
        (
            lambda content: content["entries"][0].update(files={"../lock.yaml": "0"}),
            "entries[0].files: an entry has the files lock.yaml and, with a module, code.py",
        ),
        (
            lambda content: content["entries"].append(content["entries"][0]),
            "entries: 'norm' is there twice",
        ),
        (lambda content: content["judged"][0].update(name="x"), "judged: x was never entered"),
        (
            lambda content: content.pop("trained"),
            "a round is closed, then trained, then judged; a section is missing",
        ),
        (lambda content: content.update(x_schema=2), "is a round of schema 2, written by a later"),
        (lambda content: content.pop("opened"), "opened is required; add it"),
        (lambda content: content.update(entry=[]), "entry is unknown; did you mean entries?"),
    ],
)
def test_what_is_no_round(typed: Typed, at: Any, change: Any, message: str) -> None:
    edit(at("judged"), change)
    assert refused(typed, "status", "first").startswith(f"rounds/first/round.yaml: {message}")


def test_seeds_that_are_chosen_are_noticed(typed: Typed, at: Any) -> None:
    def choose(content: dict[str, Any]) -> None:
        content["closed"]["first_seed"] = FIRST_SEED
        content["closed"]["hash"] = chained(content["entries"][-1]["hash"], content["closed"])

    edit(at("closed"), choose)
    assert refused(typed, "train", "first") == (
        "rounds/first/round.yaml: closed: the seeds are not those of the last entry's hash; "
        "restore the file"
    )


@pytest.mark.parametrize("file", ["lock.yaml", "code.py"])
def test_an_entry_that_was_changed_after_it_was_entered(typed: Typed, at: Any, file: str) -> None:
    path = at("open") / "entries" / "rise" / file
    path.write_text(path.read_text() + "\n")
    message = rf"rounds/first/entries/rise/{file}: was changed after it was entered \(SHA-256 "
    assert re.match(message, refused(typed, "close", "first", "--early"))
    path.unlink()
    message = f"rounds/first/entries/rise/{file}: is missing; restore what was entered"
    assert refused(typed, "status", "first") == message


def test_held_out_runs_or_results_that_were_changed(typed: Typed, at: Any) -> None:
    folder = at("trained")
    shutil.copyfile("panels/tiny/heldout.parquet", folder / "heldout.parquet")
    message = refused(typed, "judge", "first")
    assert message.startswith("rounds/first/heldout.parquet: was changed after it was frozen")
    folder = at("judged")
    path = folder / "judged" / "norm" / "results.yaml"
    path.write_text(path.read_text() + "\n")
    assert refused(typed, "status", "first") == f"{path}: was changed after it was judged; " + (
        "restore the file"
    )


def test_a_lock_is_for_no_seeds_that_it_was_found_on(typed: Typed) -> None:
    lock = Lock.read("lock.yaml")
    with pytest.raises(InputError, match=r"held-out seeds: 1 also used to explore \(3\); a thresh"):
        lock.for_seeds([3, 1000])


# Bad input.


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--panel=tiny", "--closes=soon"), "--closes soon: is no date; write 2030-01-31, or "),
        (("--panel=tiny", "--closes=2001-01-31"), "--closes 2001-01-31: is past; a round closes "),
        (("--panel=tinny", "--closes=2999-01-31"), "panel 'tinny' is unknown; known: "),
        (
            ("--panel=tiny", "--closes=2999-01-31", "--held-out=3"),
            "--held-out 3: the panel's design compares 5 groups of runs (x_run_groups); train 5",
        ),
        (("--panel=tiny", "--closes=2999-01-31", "--held-out=0"), "--held-out must be "),
    ],
)
def test_a_round_that_cannot_be_opened(
    typed: Typed, at: Any, words: tuple[str, ...], message: str
) -> None:
    at("new")
    assert refused(typed, "open", "other", *words).startswith(message)
    assert not Path("rounds", "other").exists()


def test_a_round_of_runs_that_others_trained(
    typed: Typed, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("new")
    words = ("--panel=tiny", "--closes=2999-01-31")
    message = "rounds/first: is there already; choose another name"
    assert refused(typed, "open", "first", *words) == message
    assert refused(typed, "open", "../first", *words).startswith("'../first' is no name of a round")
    others = Recipe("tiny", "Whose", lambda: preset("smoke"), credit="Others'.")
    monkeypatch.setitem(RECIPES, "tiny", others)
    message = "panel 'tiny': is made of the logs of others, so no fresh runs of it can be trained"
    assert refused(typed, "open", "other", *words).startswith(message)


def test_an_unknown_round(typed: Typed, at: Any) -> None:
    at("new")
    for command in ("close", "train", "judge", "status"):
        message = "round 'fist' is unknown; known: first. Did you mean 'first'?"
        assert refused(typed, command, "fist") == message
    assert refused(typed, "close", "fist", "--rounds=nowhere") == (
        "round 'fist': nowhere holds no round; gmb leaderboard round open NAME --panel PANEL "
        "--closes DATE"
    )
    said = typed.terminal.done(*ROUND, "status", "--rounds=nowhere")
    assert said.startswith("nowhere holds no round.")


def test_what_comes_too_early_or_too_late(
    typed: Typed, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("new")
    assert refused(typed, "close", "first", "--early") == (
        "round 'first': has no entries, so nothing would be judged; gmb leaderboard round enter "
        "first ENTRY --lock FILE"
    )
    at("open")
    assert refused(typed, "close", "first") == (
        "round 'first': takes entries up to 2999-01-31T23:59:59+00:00; close it then, or now with "
        "--early, which its card will say"
    )
    assert refused(typed, "train", "first") == (
        "round 'first': is open; the seeds are known when it is closed: gmb leaderboard round "
        "close first"
    )
    assert refused(typed, "judge", "first") == (
        "round 'first': is open until 2999-01-31 23:59 UTC; first close it, then train: gmb "
        "leaderboard round close first"
    )
    entering = ("enter", "first", "late", "--lock=lock.yaml", *SAID)
    monkeypatch.setattr(rounds, "now", lambda: datetime(3000, 1, 1, tzinfo=UTC))
    assert refused(typed, *entering) == (
        "round 'first': takes entries up to 2999-01-31T23:59:59+00:00; nothing is entered after "
        "that, enter the next round"
    )
    at("closed")
    day = Round.find("first").content["closed"]["date"]
    assert refused(typed, *entering) == (
        f"round 'first': was closed on {day}; nothing is entered after the close, enter the next "
        "round"
    )
    assert refused(typed, "close", "first") == (
        f"round 'first': was closed on {day}, which fixed its seeds; go on with: gmb leaderboard "
        "round train first"
    )
    assert refused(typed, "judge", "first") == (
        "round 'first': 0 of 5 held-out runs are trained; nothing is judged before all are: gmb "
        "leaderboard round train first"
    )


def test_a_recipe_that_was_changed_meanwhile(
    typed: Typed, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("closed")
    other = RECIPES["tiny"].config().changed(["training.lr=0.02"])
    monkeypatch.setitem(RECIPES, "tiny", Recipe("tiny", "Is it", lambda: other))
    message = "round 'first': the recipe of panel 'tiny' trains otherwise than when the round was"
    assert refused(typed, "train", "first").startswith(message)


def test_a_beacon_that_was_announced(typed: Typed, at: Any) -> None:
    at("open")
    assert refused(typed, "close", "first", "--early", "--beacon=7") == (
        "round 'first': no beacon was announced when it was opened; leave out --beacon"
    )
    shutil.rmtree("rounds")
    words = ("--panel=tiny", "--closes=2999-01-31", "--beacon=drand round 5")
    typed.terminal.done(*ROUND, "open", "first", *words)
    typed.terminal.done(*ROUND, "enter", "first", "norm", "--lock=lock.yaml", *SAID)
    assert refused(typed, "close", "first", "--early") == (
        "round 'first': its seeds depend on 'drand round 5' as well; pass its value: --beacon VALUE"
    )
    typed.terminal.done(*ROUND, "close", "first", "--early", "--beacon=7")
    found = Round.find("first").record
    assert found.closed is not None
    assert found.closed.round_hash == round_hash(found.entries[-1].hash, "7")


def relocked(out: str, change: Any) -> str:
    """A lock whose content was changed, and hashed anew."""
    content = yaml.safe_load(Path("lock.yaml").read_text())
    change(content)
    Path(out).write_text(yaml.safe_dump(CHECKSUMS.added_to(content), sort_keys=False))
    return f"--lock={out}"


def lower(content: dict[str, Any]) -> None:
    """A threshold that no explore run gives."""
    found = content["x_lock"]["candidates"]["embedding_gini"]["first_alarm"]["central"]
    found["0.05"] -= 1.0


def elsewhere(content: dict[str, Any]) -> None:
    content["x_lock"]["x_sources"][0]["repo"] = "panel:quick-29"


def of_own_runs(content: dict[str, Any]) -> None:
    content["x_lock"]["x_sources"] = []


def of_other_runs(content: dict[str, Any]) -> None:
    content["x_lock"]["x_sources"][0]["fingerprint"] = "0123456789abcdef|null|30"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lower, "x.yaml: is not what the explore runs give: x_lock.candidates.embedding_gini"),
        (elsewhere, "x.yaml: was made on panel 'quick-29', the round is on panel 'tiny'; gmb lock"),
        (
            of_own_runs,
            "x.yaml: was made on own runs, the round is on panel 'tiny'; ",
        ),
        (of_other_runs, "x.yaml: was made on runs 0123456789abcdef|null|30 of panel 'tiny', it "),
        (
            lambda content: content["event"].update(metric="train_acc"),
            "x.yaml: is of another design: event.metric is train_acc, panel 'tiny' has test_acc; ",
        ),
        (
            lambda content: content["labels"]["positive_window"].update(horizon_steps=50),
            "x.yaml: is of another design: labels.positive_window.horizon_steps is 50, ",
        ),
    ],
)
def test_a_lock_that_is_no_entry(typed: Typed, at: Any, change: Any, message: str) -> None:
    folder = at("new")
    said = refused(typed, "enter", "first", "other", relocked("x.yaml", change), *SAID)
    assert said.startswith(message)
    assert not Round.find("first").record.entries
    assert not (folder / "entries").exists()


def test_what_is_no_entry(typed: Typed, at: Any) -> None:
    at("one")
    entering = ("enter", "first", "other")
    lock = ("--lock=lock.yaml", *SAID)
    assert refused(typed, "enter", "first", "../x", *lock).startswith("'../x' is no name of an en")
    assert refused(typed, "enter", "first", "norm", *lock) == (
        "round 'first': has an entry 'norm' already; an entry is never replaced, choose another "
        "name"
    )
    assert refused(typed, *entering, *lock) == (
        "round 'first': this lock is entered already, as 'norm'; it is judged once"
    )
    assert refused(typed, *entering, *SAID) == (
        "name what is entered: --lock FILE, or --code MODULE.py"
    )
    both = ("--design=panels/tiny/design.yaml", *lock)
    message = "--design: the lock has a design; leave one of both out"
    assert refused(typed, *entering, *both) == message
    silent = ("--lock=lock.yaml", "--author= ", "--claim=x")
    assert refused(typed, *entering, *silent) == "--author is empty; say it in a line"
    for name, content, message in (
        ("no.txt", "", "--code no.txt: is no Python module (.py) that is here"),
        ("bad.py", "import nothing_so", "--code bad.py: could not be run: ModuleNotFoundError: "),
        ("none.py", "x = 1\n", "--code none.py: registers no indicator; decorate a function"),
        ("peeks.py", PEEKS, "design refused, 1 fault(s): [non_causal_indicator] rise_of_norm"),
    ):
        Path(name).write_text(content)
        assert refused(typed, *entering, f"--code={name}", *SAID).startswith(message)
    design = yaml.safe_load(Path("panels/tiny/design.yaml").read_text())
    design["candidates"] = [{"name": "my_column", "family": "external"}]
    Path("mine.yaml").write_text(yaml.safe_dump(design))
    assert refused(typed, *entering, "--design=mine.yaml", *SAID) == (
        "mine.yaml: my_column: no indicator and no column of panel 'tiny', so nobody can compute "
        "it on runs that are not trained yet; enter the code: --code MODULE.py"
    )
    assert [one.name for one in Round.find("first").record.entries] == ["norm"]


def test_a_design_names_the_candidates(typed: Typed, at: Any) -> None:
    at("new")
    design = yaml.safe_load(Path("panels/tiny/design.yaml").read_text())
    design["candidates"] = [{"name": "rise_of_norm", "family": "dynamics", "x_sign": -1}]
    Path("mine.yaml").write_text(yaml.safe_dump(design))
    words = ("--code=rise.py", "--design=mine.yaml", *SAID)
    typed.terminal.done(*ROUND, "enter", "first", "turned", *words)
    lock = Lock.read("rounds/first/entries/turned/lock.yaml")
    assert lock.candidate("rise_of_norm").sign == -1
    with pytest.raises(InputError, match="rise_of_norm"):  # it was registered for the entry alone
        catalogue.get("rise_of_norm")


def test_the_panel_may_have_its_held_out_part_trained_meanwhile(
    typed: Typed, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round, and a lock, on an explore part alone are of the panel that it becomes."""
    shutil.rmtree(at("new"))
    whole = FrozenPanel.find("tiny")
    monkeypatch.setenv(panels.PLACE, "later")
    parts = {part: whole.read(part) for part in ("explore", "heldout")}
    for log in parts.values():
        log.metadata = {key: log.metadata[key] for key in log.metadata if key != "hub"}
    freezing = (whole.design(), Path("later", "tiny"))
    early = panels.freeze(
        RECIPES["tiny"], {"explore": parts["explore"]}, *freezing, command="by hand"
    )
    for score in ("embedding_norm_drop", "embedding_gini"):
        words = ("--runs=panel:tiny", f"--score={score}", f"--out={score}.yaml")
        typed.terminal.done("lock", *words)
    typed.terminal.done(*ROUND, "open", "first", "--panel=tiny", "--closes=2999-01-31")
    typed.terminal.done(*ROUND, "enter", "first", "a", "--lock=embedding_norm_drop.yaml", *SAID)
    lock = Path("embedding_gini.yaml")
    note = panels.LockedRecord(
        lock_hash=Lock.read(lock).hash,
        locked="2030-01-31",
        trained="2030-02-01",
        explore_fingerprint=early.entry.fingerprint,
    )
    shutil.rmtree("later")
    panels.freeze(RECIPES["tiny"], parts, *freezing, command="by hand", after=(lock, note))
    typed.terminal.done(*ROUND, "enter", "first", "b", f"--lock={lock}", *SAID)
    typed.terminal.done(*ROUND, "close", "first", "--early")


def test_an_entry_that_fails_on_the_fresh_runs(typed: Typed, at: Any) -> None:
    """Its reason stands in place of results, and the others are judged."""
    folder = at("judged")
    said = typed.said["judged"]
    assert "note: fails could not be judged: indicator 'rise_of_norm': the function" in said
    assert "AssertionError: five" in Round.find("first").record.judged[1].fault
    assert not (folder / "judged" / "fails" / "results.yaml").exists()
    typed.terminal.done("leaderboard", "build", "--rounds=rounds", "--no-recompute", "--out=site")
    page = Path("site/rounds/first.html").read_text()
    assert "fails could not be judged: " in page
    assert "<td>recomputed</td>" not in page
