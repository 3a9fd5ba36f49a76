"""Submissions to the leaderboard: made, computed anew, refused, and shown."""

from __future__ import annotations

import csv
import json
import re
import runpy
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from gmb_hf import Design, InputError, Results, RunLog, preset
from gmb_hf.base.files import json_text
from gmb_hf.base.stats import mcnemar
from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.benchmark.own_runs import own_score
from gmb_hf.cli import main
from gmb_hf.design.lock import CHECKSUMS, Lock
from gmb_hf.hub import panels
from gmb_hf.hub.leaderboard import published
from gmb_hf.hub.leaderboard.board import build_board
from gmb_hf.hub.leaderboard.check import CheckRecord, check, check_or_kept, hashes
from gmb_hf.hub.leaderboard.groups import Groups
from gmb_hf.hub.leaderboard.kept import PLACE, Cache
from gmb_hf.hub.leaderboard.serve import address, server
from gmb_hf.hub.leaderboard.submission import KEY, Submission, submit
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.hub.recipes import Recipe
from gmb_hf.hub.sources import part_of, read_runs
from gmb_hf.indicators import catalogue
from gmb_hf.jobs.trial import TrialRow, rows_of, trial_table
from gmb_hf.runs.joining import join_scores

ROOT = Path(__file__).resolve().parents[1]
NAME = "rise_of_gini"
EXAMPLE = ROOT / "examples" / "my_score" / "my_score.py"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = '<img src=x onerror="alert(1)">/../../{{ 7 * 7 }}'
"""A name that is markup, a path and a template."""


def small(log: RunLog, extra: str = "unembedding_gini") -> RunLog:
    """The columns that the tests read; the example's own one among them."""
    names = ("test_acc", "train_acc", "embedding_gini", "embedding_norm")
    values = {name: log.panel(name).values for name in names}
    values[extra] = values["embedding_gini"]
    return RunLog.from_arrays(log.runs, log.panel("step").steps[0], values, seeds=log.seeds)


@pytest.fixture(scope="module")
def home(
    tmp_path_factory: pytest.TempPathFactory,
    design: Design,
    explore_log: RunLog,
    held_out_log: RunLog,
) -> Iterator[Path]:
    """A folder with two small panels, in which everything is typed."""
    place = tmp_path_factory.mktemp("leaderboard")
    seeds = {"seeds_explore": list(explore_log.seeds), "seeds_eval": list(held_out_log.seeds)}
    gini = {"name": "embedding_gini", "family": "spectral"}
    few = {"null_draws": 199, "bootstrap_draws": 50, "window_sweep": [50, 100]}
    chosen = design.replace(**seeds, **few, candidates=[gini])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv(panels.PLACE, str(place / "panels"))
        patch.setenv(PLACE, str(place / "cache"))
        for name, extra in (("quick-29", "unembedding_gini"), ("mul-31", "other")):
            parts = {"explore": small(explore_log, extra), "heldout": small(held_out_log, extra)}
            recipe = Recipe(name, "Which score announces it", lambda: preset("smoke"))
            panels.freeze(recipe, parts, chosen, Path("panels", name), command="by hand")
        yield place


@pytest.fixture(scope="module")
def typed(home: Path) -> Path:
    """The way of docs/submit.md to a submission that is checked, by the functions it calls."""
    example = runpy.run_path(str(EXAMPLE))
    log = read_runs(["panel:quick-29"])
    example["score_runs"](log).write("my_score.parquet")
    join_scores(log, "my_score.parquet").write("joined.parquet")
    joined = RunLog.read("joined.parquet")
    candidate = own_score("my_score", joined, sees_test_labels=False)
    design = FrozenPanel.find("quick-29").design().replace(candidates=[candidate])
    lock, _ = make_lock(design, part_of(joined, design, "explore")[0])
    lock.write("lock.yaml")
    judge(Path("lock.yaml"), part_of(joined, design, "held-out")[0])
    made = submit(
        NAME,
        runs=["joined.parquet"],
        lock="lock.yaml",
        results="results",
        author="A. Reader",
        claim="Far above its least so far",
        code=[str(EXAMPLE)],
        task_aware=True,
    )
    assert check(made.folder).faults == ()
    return home


@pytest.fixture
def folder(typed: Path, tmp_path: Path) -> Path:
    """A copy of the submission that the page made."""
    return Path(shutil.copytree(typed / "submissions" / NAME, tmp_path / "submissions" / NAME))


def judge(lock: Path, held_out: RunLog) -> Path:
    """The results of held-out runs by a lock, beside it."""
    judged = evaluate_lock(Lock.read(lock), held_out).results
    return judged.with_checksums().write(lock.parent / "results" / "results.yaml")


def change_card(folder: Path, **fields: Any) -> None:
    path = folder / "README.md"
    header, _, rest = path.read_text().removeprefix("---\n").partition("---\n")
    data = yaml.safe_load(header)
    data[KEY] |= fields
    path.write_text(f"---\n{yaml.safe_dump(data)}---\n{rest}")


# One submission.


def test_a_column_is_computed_anew_from_its_numbers_on(typed: Path) -> None:
    submission = Submission.read(typed / "submissions" / NAME)
    assert submission.record.scores["my_score"].kind == "task-aware"
    assert (submission.folder / "code" / "my_score.py").is_file()
    _, found = CheckRecord.of(submission.folder) or (None, None)
    assert found is not None
    results = Results.read(typed / "results" / "results.yaml")
    (score,) = found.scores
    assert score.first_alarm == results.indicators[0].x_first_alarm
    assert found.not_checked == (
        "my_score: that its numbers are computed from these logs, and causally",
        "my_score: that it is task-aware, as its author says",
        "how often held-out runs were looked at before this lock: they lie open",
    )
    # Checked once more it is the same, and the ledger of the panel does not count the check.
    looks = FrozenPanel.find("quick-29").ledger().locks
    again = check(submission.folder)
    assert again.record is not None
    assert again.record.scores == found.scores
    assert FrozenPanel.find("quick-29").ledger().locks == looks


def test_the_example_is_causal(explore_log: RunLog) -> None:
    example = runpy.run_path(str(EXAMPLE))
    gini = explore_log.panel("embedding_gini").values[0]
    whole = example["my_score"](gini)
    for cut in (1, 5, 17):
        assert np.array_equal(example["my_score"](gini[:cut]), whole[:cut])


def test_a_registered_indicator_needs_no_scores(typed: Path, tmp_path: Path) -> None:
    lock, panel = tmp_path / "lock.yaml", FrozenPanel.find("quick-29")
    make_lock(panel.design(), panel.read("explore"))[0].write(lock)
    results = judge(lock, panel.read("heldout"))
    made = submit(
        "plain",
        runs=["panel:quick-29"],
        lock=lock,
        results=results,
        author="A",
        claim="B",
        code=["https://github.com/ORG/NAME@0123abc"],
        out=tmp_path,
    )
    assert made.files == ("README.md", "lock.yaml", "results.yaml")
    found = check(made.folder)
    assert found.faults == ()
    assert found.not_checked == (
        "how often held-out runs were looked at before this lock: they lie open",
    )
    again = {"lock": lock, "results": results, "author": "A", "claim": "B", "out": tmp_path / "x"}
    for wrong, message in (
        ({"code": ["https://github.com/ORG/NAME"]}, "a repository stands with its commit"),
        ({"code": ["no.py"]}, "--code no.py: there is no such file or folder"),
        ({"code": []}, "--code is missing: name a repository and its commit"),
        ({"out": tmp_path}, "is there already; choose another name, or remove it"),
        ({"results": typed / "results"}, "was not judged by"),
        ({"panel": "mul-31"}, "is on panel 'quick-29', not 'mul-31'; leave out --panel"),
        ({"author": " "}, "author"),
        ({"name": "../plain"}, "'../plain' is no name of a submission: letters, digits"),
    ):
        given: Any = {**again, "name": "plain", "code": [str(lock)], **wrong}
        with pytest.raises(InputError, match=re.escape(message)):
            submit(given.pop("name"), runs=["panel:quick-29"], **given)


def test_a_column_of_the_panel_needs_no_scores(
    typed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The score of the page that every newcomer reads first: one that the panel records."""
    lock, results = str(tmp_path / "lock.yaml"), str(tmp_path / "results")
    panel = ["--runs", "panel:quick-29"]
    assert main(["lock", *panel, "--score", "unembedding_gini", "--out", lock]) == 0
    judged = ["evaluate", *panel, "--lock", lock, "--out", results, "--no-figures"]
    assert main(judged) == 0
    said = ["--author", "A", "--claim", "B", "--code", "https://github.com/ORG/NAME@0123abc"]
    said += ["--paper", "https://arxiv.org/abs/2201.02177"]
    given = ["--lock", lock, "--results", results, *said, "--out", str(tmp_path)]
    assert main(["submit", "theirs", *panel, *given]) == 0
    assert Submission.read(tmp_path / "theirs").files == ("README.md", "lock.yaml", "results.yaml")
    card = (tmp_path / "theirs" / "README.md").read_text()
    assert "Code: <https://github.com/ORG/NAME> at 0123abc." in card
    assert ", <https://arxiv.org/abs/2201.02177>. A submission" in card
    found = check(tmp_path / "theirs")
    assert found.faults == ()
    assert found.record is not None
    assert [(one.name, one.kind) for one in found.record.scores] == [
        ("unembedding_gini", "task-aware")
    ]
    log = read_runs(["panel:quick-29"])
    names = {run: f"mine_{run}" for run in log.runs}
    runs = pa.array([names[str(run)] for run in log.table["run"].to_pylist()])
    log.with_rows(log.table.set_column(0, "run", runs)).write(tmp_path / "others.parquet")
    capsys.readouterr()
    assert main(["submit", "n", "--runs", str(tmp_path / "others.parquet"), *given]) == 2
    assert f"not those of panel:quick-29, on which {lock} was made" in capsys.readouterr().err


# What differs.


def other_panel(folder: Path) -> None:
    """The lock of another panel, with all that belongs to it."""
    panel = FrozenPanel.find("mul-31")
    lock, _ = make_lock(panel.design(), panel.read("explore"))
    lock.write(folder / "lock.yaml")
    change_card(folder, lock_hash=lock.hash)


def changed_scores(folder: Path) -> None:
    log = RunLog.read(folder / "scores.parquet")
    values = log.table["my_score"].to_numpy() + 0.01
    table = log.table.set_column(
        log.table.column_names.index("my_score"), "my_score", pa.array(values)
    )
    RunLog.from_table(table).write(folder / "scores.parquet")


def fewer_scores(folder: Path) -> None:
    log = RunLog.read(folder / "scores.parquet")
    RunLog.from_table(log.table.slice(3)).write(folder / "scores.parquet")


def edited_scores(folder: Path) -> None:
    table = pq.read_table(folder / "scores.parquet")
    place = table.column_names.index("my_score")
    values = pa.array(table["my_score"].to_numpy() * 2)
    pq.write_table(table.set_column(place, "my_score", values), folder / "scores.parquet")


def easier_threshold(folder: Path) -> None:
    """A lower threshold, in a lock whose seal is right."""
    data = yaml.safe_load((folder / "lock.yaml").read_text())
    data["x_lock"]["candidates"]["my_score"]["first_alarm"]["central"]["0.05"] = 0.125
    data["x_lock"]["hash"] = CHECKSUMS.of(data)
    (folder / "lock.yaml").write_text(yaml.safe_dump(data))
    lock = Lock.read(folder / "lock.yaml")
    results = Results.read(folder / "results.yaml")
    assert results.x_provenance is not None
    source = results.x_provenance.model_copy(update={"lock_hash": lock.hash})
    changed = results.model_copy(update={"x_provenance": source})
    changed.with_checksums().write(folder / "results.yaml")
    change_card(folder, lock_hash=lock.hash)


def better_results(folder: Path) -> None:
    """More events detected than there were, with new checksums."""
    results = Results.read(folder / "results.yaml")
    item = results.indicators[0]
    assert item.x_first_alarm is not None
    points = [
        one.model_copy(update={"detection_rate": 0.99, "lead_median": 321.0})
        for one in item.x_first_alarm.at_budget
    ]
    first = item.x_first_alarm.model_copy(update={"at_budget": tuple(points)})
    items = (item.model_copy(update={"x_first_alarm": first}), *results.indicators[1:])
    results.model_copy(update={"indicators": items}).with_checksums().write(folder / "results.yaml")


def forged_check(folder: Path) -> None:
    data = json.loads((folder / "check.json").read_text().replace("1e999", "1e308"))
    data["scores"][0]["first_alarm"]["at_budget"][0]["detection_rate"] = 0.99
    (folder / "check.json").write_text(json_text(data))


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "another panel's lock": (
        other_panel,
        r"lock\.yaml: was made on panel 'mul-31', the card says panel 'quick-29'",
    ),
    "changed scores": (
        changed_scores,
        r"lock\.yaml: x_lock\.candidates\.my_score\.members\.central\.0\.\d+: submitted "
        r"[-\d.]+, recomputed [-\d.]+",
    ),
    "fewer scores": (fewer_scores, r"scores\.parquet has no score for 3 of [\d,]+ checkpoints"),
    "edited scores": (edited_scores, r"scores\.parquet: the content is not what gmb wrote"),
    "an easier threshold": (
        easier_threshold,
        r"my_score\.first_alarm\.central\.0\.05: submitted 0\.125, recomputed",
    ),
    "better results": (
        better_results,
        r"results\.yaml: indicators\.my_score\.x_first_alarm\.at_budget\[0\]\.detection_rate: "
        r"submitted 0\.99, recomputed 0\.",
    ),
    "a forged check": (forged_check, r"check\.json: scores\[0\]\.first_alarm.*submitted 0\.99"),
    "another fingerprint": (
        lambda folder: change_card(folder, fingerprint="0" * 16 + "|null|70"),
        r"the card is of panel 'quick-29' with the runs 0{16}\|null\|70, the panel here has",
    ),
    "own runs that are the panel's": (
        lambda folder: (
            change_card(folder, retrained=True),
            shutil.copy(folder / "scores.parquet", folder / "runs.parquet"),
        ),
        r"was made on panel 'quick-29', the card says own runs",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_what_differs_is_named(folder: Path, what: str, capsys: Any, home: Path) -> None:
    spoil, message = FAULTS[what]
    spoil(folder)
    assert main(["leaderboard", "check", str(folder)]) == 2
    said = capsys.readouterr()
    assert re.search(message, said.err), said.err
    assert "Traceback" not in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"panel": "quick-30"}, "panel 'quick-30' is unknown; .* Did you mean 'quick-29'"),
        ({"panel": "sub-29"}, r"panel 'sub-29': is not in .*gmb panel build sub-29"),
        ({"panel": "../quick-29"}, r"panel '../quick-29' is unknown"),
        ({"name": HOSTILE}, "is no name of a submission: letters, digits"),
        ({"name": "other"}, "gmb_submission.name is 'other', the folder is called"),
        ({"code": [{"file": "../../../etc/passwd"}]}, "is no file in this folder; nothing is read"),
        ({"code": [{"file": "gone.py"}]}, "gone.py: is missing; gmb submit writes it"),
        ({"code": [{"repository": "javascript:alert(1)", "commit": "0123abc"}]}, "https address"),
        ({"code": [{}]}, "name either a file or a repository and a commit"),
        ({"claim": "x" * 301}, "claim"),
        ({"claims": "x"}, "claims is unknown; did you mean claim"),
        (
            {"x_schema": 3},
            r"is a submission of schema 3, written by gmb-hf .* up to 2: upg",
        ),
    ],
)
def test_a_card_that_is_none(folder: Path, fields: dict[str, Any], message: str) -> None:
    change_card(folder, **fields)
    with pytest.raises(InputError, match=message) as caught:
        check(folder)
    assert "\n" not in str(caught.value)


def test_no_submission(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"is no submission: it has no README.md; gmb submit"):
        check(tmp_path)
    with pytest.raises(InputError, match=rf"it has no README.md; name one in it: {NAME}$"):
        check(folder.parent)
    (tmp_path / "README.md").write_text("---\na: b\n---\n")
    with pytest.raises(InputError, match="its header has no gmb_submission"):
        check(tmp_path)
    (folder / "scores.parquet").unlink()
    with pytest.raises(InputError, match=r"scores.parquet: is missing; gmb submit writes it"):
        check(folder)


# Scores of a package, and own runs.


def test_an_indicator_of_a_package_with_and_without_it(home: Path, tmp_path: Path) -> None:
    def slope(seen: catalogue.Observables, *, window: int = 100) -> Any:
        count, values = seen.checkpoints(window), seen["embedding_gini"]
        return values - np.roll(np.pad(values, ((0, 0), (count, 0)), "edge"), 0)[:, :-count]

    theirs = catalogue.Indicator(
        name="their_slope",
        family="dynamics",
        summary="rise",
        needs=("embedding_gini",),
        function=slope,
        source="a package",
        parameters={"window": 100},
        window_parameter="window",
        package="their_package",
    )
    panel = FrozenPanel.find("quick-29")
    with catalogue.standing_in([theirs]):
        candidate = {"name": "their_slope", "family": "dynamics", "params": {"window": 100}}
        lock, _ = make_lock(panel.design().replace(candidates=[candidate]), panel.read("explore"))
        lock.write(tmp_path / "lock.yaml")
        judge(tmp_path / "lock.yaml", panel.read("heldout"))
        made = submit(
            "theirs",
            runs=["panel:quick-29"],
            lock=tmp_path / "lock.yaml",
            results=tmp_path / "results",
            author="A",
            claim="B",
            code=[str(tmp_path / "lock.yaml")],
            out=tmp_path / "submissions",
        )
        assert made.columns == ["their_slope [window=50]", "their_slope [window=100]"]
        installed = check(made.folder)
        assert installed.faults == ()
        assert len(installed.not_checked) == 1
    without = check(made.folder)
    assert without.faults == ()
    assert "by the package their_package, which is not installed here" in without.not_checked[0]
    other = catalogue.Indicator(
        **{**theirs.__dict__, "function": lambda seen, window: 2 * slope(seen, window=window)}
    )
    with catalogue.standing_in([other]):
        (fault,) = check(made.folder).faults[:1]
    assert re.search(
        r"their_slope \[window=50\] of run seed_\d+ at step [\d,]+: submitted [-.\de]+, "
        r"their_package computes [-.\de]+",
        fault,
    )


@pytest.fixture(scope="module")
def on_own_runs(home: Path, explore_log: RunLog, held_out_log: RunLog) -> Path:
    """A submission on runs of one's own, with a column that the panel lacks."""
    place = home / "own"
    place.mkdir()
    logs = []
    for log, first in ((explore_log, 300), (held_out_log, 400)):
        own = small(log, "their_column")
        table = own.table.set_column(
            own.table.column_names.index("seed"),
            "seed",
            pa.array(own.table["seed"].to_numpy() % 100 + first),
        )
        names = pa.array([f"own_{seed}" for seed in table["seed"].to_pylist()])
        logs.append(RunLog.from_table(table.set_column(0, "run", names)))
    RunLog.concat(logs).write(place / "own.parquet")
    fields = {
        "seeds_explore": list(range(300, 330)),
        "seeds_eval": list(range(400, 440)),
        "candidates": [{"name": "their_column", "family": "external", "x_sees_test_labels": False}],
    }
    design = FrozenPanel.find("quick-29").design().replace(**fields)
    lock, _ = make_lock(design, logs[0])
    lock.write(place / "lock.yaml")
    judge(place / "lock.yaml", logs[1])
    given: Any = {
        "runs": [str(place / "own.parquet")],
        "lock": place / "lock.yaml",
        "results": place / "results",
        "author": "Somebody",
        "claim": "Own runs",
        "code": [str(place / "lock.yaml")],
        "out": place / "submissions",
    }
    with pytest.raises(
        InputError, match="is on no panel; for own runs of a panel's configuration say"
    ):
        submit("own", **given)
    submit("own", panel="quick-29", **given)
    return place / "submissions" / "own"


def test_own_runs_are_checked_and_listed_apart(on_own_runs: Path, tmp_path: Path) -> None:
    found = check(on_own_runs)
    assert found.faults == ()
    assert "that the runs are trainings of the panel's configuration, all of them and unchosen" in (
        found.not_checked
    )
    build_board(on_own_runs.parent, tmp_path / "site")
    page = (tmp_path / "site" / "panels" / "quick-29.html").read_text()
    ranked, apart = page.split("On own runs, listed apart")
    assert "their_<wbr>column" in apart
    assert "their_<wbr>column" not in ranked
    assert "Nothing has been judged on this panel&#39;s own runs yet." in ranked


# The site.


class Shown(HTMLParser):
    """The tags of a page and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def many(folder: Path, count: int, *, name: str = "my_score") -> Path:
    """So many copies of a submission, by others, as the check left them."""
    source = folder.parent
    check_text = json.loads((folder / "check.json").read_text().replace("1e999", "1e308"))
    for number in range(count):
        place = source / f"copy-{number}"
        shutil.copytree(folder, place)
        author, about = f"Reader{number} {HOSTILE}", {name: {"kind": "task-aware"}}
        change_card(place, name=place.name, author=author, scores=about)
        submission = Submission.read(place)
        scores = [{**one, "name": name} for one in check_text["scores"]]
        data = {**check_text, "files": hashes(submission), "scores": scores}
        data["submission"] = submission.record.plain()
        (place / "check.json").write_text(json.dumps(data))
    return source


@pytest.fixture(scope="module")
def site(typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of a trial of two panels, fifty submissions with hostile words, and own runs."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(typed / "submissions", place / "submissions")
    many(place / "submissions" / NAME, 49, name=HOSTILE)
    rows: list[TrialRow] = []
    for name in ("quick-29", "mul-31"):
        panel = FrozenPanel.find(name)
        lock, _ = make_lock(panel.design(), panel.read("explore"))
        judged = evaluate_lock(lock, panel.read("heldout"))
        judged.results.with_checksums().write(place / "trial" / name / "results.yaml")
        rows += rows_of(name, judged.results)
    trial_table(rows).write(place / "trial" / "tables")
    (place / "trial" / "tables" / "transfer.csv").write_text(
        "lock_of,panel,supported,signal,label,detection_rate,false_alarm_rate,false_alarm_high,"
        "fault\n"
        "quick-29,mul-31,1,embedding_gini,RANK_ONLY,0.5,0.02,0.1,\n"
        "mul-31,quick-29,,,,,,,no column\n"
    )
    made = build_board(
        place / "submissions", place / "site", trial=place / "trial", recompute=False
    )
    assert made.left_out == ()
    return place / "site"


def test_every_page_is_whole_and_escaped(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 1 + 2 + 50 + 4  # the index, panels, submissions, the trial
    for page in pages:
        shown = Shown(page.read_text(encoding="utf-8"))
        assert not {tag for tag, _ in shown.tags} & {"img", "iframe", "object"}
        for tag, attributes in shown.tags:
            assert not [name for name in attributes if name.startswith("on")]
            link = attributes.get("href") or attributes.get("src")
            if link and tag != "a":
                assert (page.parent / link).resolve().is_file()
            elif link and not link.startswith(("http", "#")):
                assert (page.parent / link.partition("#")[0]).resolve().is_file(), link
    text = (site / "panels" / "quick-29.html").read_text(encoding="utf-8")
    shown = Shown(text)
    assert "{{ 7 * 7 }}" in shown.text
    assert f"Reader3 {HOSTILE}" in shown.text
    assert all(path.parent.name == "scores" for path in site.glob("scores/*"))
    readme = (site / "README.md").read_text()
    assert yaml.safe_load(readme.split("---")[1])["sdk"] == "static"
    rows = (site / "leaderboard.csv").read_text().splitlines()
    assert len(rows) == 1 + 50 + 2 * 4


def test_the_numbers_are_those_of_the_operator(site: Path) -> None:
    results = Results.read(site.parent / "trial" / "mul-31" / "results.yaml")
    first = results.indicators[0].x_first_alarm
    assert first is not None
    at = first.at(0.05)
    assert at.detection_interval is not None
    page = Shown((site / "panels" / "mul-31.html").read_text())
    low, high = at.detection_interval.low, at.detection_interval.high
    said = f"detected {at.detection_rate:.0%} [{low:.0%}, {high:.0%}] of {at.n_events} events"
    assert said in page.text
    assert "1 run in 20" in page.text
    assert "Held-out runs" in page.text


def test_what_is_left_out_and_what_is_refused(folder: Path, tmp_path: Path, site: Path) -> None:
    source = folder.parent
    (folder / "README.md").write_text((folder / "README.md").read_text() + "\n")
    (source / "empty").mkdir()
    (source / "note.txt").touch()
    out = tmp_path / "site"
    with pytest.raises(InputError, match=r"there is nothing to show: .*empty: is no submission"):
        build_board(source, out, recompute=False)
    made = build_board(source, out, trial=site.parent / "trial", recompute=False)
    assert [re.sub(r".*submissions/", "", why) for why in made.left_out] == [
        "empty: is no submission: it has no README.md; gmb submit makes one",
        f"{NAME}: was not checked as it is now: gmb leaderboard check",
    ]
    assert "was not checked as it is now" in (out / "index.html").read_text()
    (folder / "check.json").unlink()
    made = build_board(source, out, trial=site.parent / "trial")  # over its own site, computed anew
    assert len(made.left_out) == 1
    assert NAME in (out / "index.html").read_text()
    with pytest.raises(InputError, match="submissions: holds something else; choose another --out"):
        build_board(source, source, trial=site.parent / "trial")
    with pytest.raises(InputError, match="nowhere: there is no such folder of submissions"):
        build_board(tmp_path / "nowhere", out)
    with pytest.raises(InputError, match="there is nothing to show: name a folder of submissions"):
        build_board(None, out)
    with pytest.raises(InputError, match=r"holds no tables/trial\.csv of a trial; gmb trial --out"):
        build_board(source, out, trial=site)
    with pytest.raises(InputError, match="holds no results of a trial"):
        build_board(source, out, trial=site, recompute=False)
    with pytest.raises(InputError, match="--jobs"):
        build_board(source, out, jobs=0)
    with pytest.raises(InputError, match=r"card: is a file; what was recomputed is kept in a fold"):
        build_board(source, out, cache=touched(tmp_path / "card"))
    other = tmp_path / "trial" / "mul-31"
    shutil.copytree(site.parent / "trial" / "quick-29", other)
    with pytest.raises(InputError, match="is not of the runs that panel 'mul-31' has here"):
        build_board(source, out, trial=other.parent, recompute=False)


def touched(path: Path) -> Path:
    path.touch()
    return path


def test_a_forged_check_is_not_shown(folder: Path, tmp_path: Path) -> None:
    """A result that says more than the panel gives, with its checksums and a check.json to fit."""
    source, out = folder.parent, tmp_path / "site"
    results = Results.read(folder / "results.yaml")
    (item,) = results.indicators[:1]
    rate = item.model_copy(update={"x_sentence": "Detects everything."})
    forged = results.model_copy(update={"indicators": (rate, *results.indicators[1:])})
    forged.with_checksums().write(folder / "results.yaml")
    said = json.loads((folder / "check.json").read_text())
    (score,) = said["scores"]
    score |= {"sentence": "Detects everything.", "alarm_eligible": True}
    said["files"] = hashes(Submission.read(folder))
    (folder / "check.json").write_text(json.dumps(said))
    with pytest.raises(
        InputError, match=r"nothing to show: .*submitted Detects everything\., reco"
    ):
        build_board(source, out)
    # Who does not compute anew is told so on every page, and nothing is called best.
    words = ["leaderboard", "build", str(source), "--out", str(out), "--no-recompute"]
    assert main(words) == 0
    pages = {path.parent.name: path.read_text() for path in out.rglob("*.html")}
    assert "Nothing was recomputed: submissions stand here as their authors say." in pages["site"]
    assert "No score here was computed from the logs: none is called best." in pages["panels"]
    assert "not recomputed: its check.json says so" in pages["scores"]
    assert ",not recomputed," in (out / "leaderboard.csv").read_text()
    assert 'class="name may"' not in pages["panels"]


def test_a_column_of_numbers_is_shown_and_never_called_best(
    folder: Path, tmp_path: Path, site: Path
) -> None:
    out = tmp_path / "site"
    build_board(folder.parent, out, trial=site.parent / "trial")
    page = (out / "panels" / "quick-29.html").read_text()
    rows = Shown(page[page.index("<tbody") :]).text
    assert "from submitted numbers" in rows
    index = (out / "index.html").read_text()
    assert "Everything was recomputed by whoever built this site" in index
    best = re.findall(r"The best(?: of them)?, ([^,]+), detected", page)
    assert best
    assert "my_score" not in best
    build_board(folder.parent, out)
    assert "none is called best" in (out / "panels" / "quick-29.html").read_text()


# The published trial.


@pytest.fixture
def trial(site: Path, tmp_path: Path) -> Path:
    """A folder with what a trial published, and nothing else of it."""
    (tmp_path / "trial" / "tables").mkdir(parents=True)
    shutil.copy(site.parent / "trial" / "tables" / "trial.csv", tmp_path / "trial" / "tables")
    return tmp_path / "trial"


def test_a_published_trial_is_recomputed_from_its_table_alone(
    trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = {name: FrozenPanel.find(name).ledger() for name in ("quick-29", "mul-31")}
    made = build_board(None, tmp_path / "site", trial=trial, jobs=1)
    assert made.sentence == "7 pages: 4 scores on 2 panels, 8 results, 0 submissions."
    assert made.left_out == ()
    # It is the look that was published, and no other one.
    assert {name: FrozenPanel.find(name).ledger() for name in looked} == looked
    page = Shown((tmp_path / "site" / "scores" / "embedding_gini.html").read_text()).text
    assert "values are equal to those of its table" in page
    assert "What the words mean" in page
    first = (tmp_path / "site" / "index.html").read_text()
    # Nothing has changed: nothing is judged again, and the site is the same.
    monkeypatch.setattr(published, "judge_again", None)
    build_board(None, tmp_path / "site", trial=trial, jobs=1)
    assert (tmp_path / "site" / "index.html").read_text() == first


def test_an_interrupted_build_resumes(
    trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, seen = published.judge_again, []

    def judge(panel: FrozenPanel, *given: Any, **more: Any) -> Any:
        seen.append(panel.name)
        if seen == ["quick-29", "mul-31"]:
            raise KeyboardInterrupt
        return own(panel, *given, **more)

    monkeypatch.setattr(published, "judge_again", judge)
    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        build_board(None, tmp_path / "site", trial=trial, jobs=1, cache=cache)
    assert not (tmp_path / "site").exists()
    (kept,) = cache.iterdir()
    build_board(None, tmp_path / "site", trial=trial, jobs=1, cache=cache)
    assert seen == ["quick-29", "mul-31", "mul-31"]
    # What was cut short is computed again.
    kept.write_text(kept.read_text()[:100])
    build_board(None, tmp_path / "site", trial=trial, jobs=1, cache=cache)
    assert seen[3:] == ["quick-29"]


def changed(trial: Path, score: str, **cells: str) -> Path:
    """The table with other cells in the row of a score on mul-31."""
    path = trial / "tables" / "trial.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if (row["panel"], row["signal"]) == ("mul-31", score):
            row |= cells
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return trial


def test_a_row_that_differs_is_left_out(trial: Path, tmp_path: Path) -> None:
    made = build_board(
        None,
        tmp_path / "site",
        trial=changed(trial, "embedding_gini", detection_rate="0.999", label="of tomorrow"),
        jobs=1,
    )
    (line,) = made.left_out
    assert "trial.csv: embedding_gini on mul-31: label: published of tomorrow, recomputed " in line
    assert "detection_rate: published 0.999, recomputed " in line
    rows = (tmp_path / "site" / "leaderboard.csv").read_text().splitlines()
    assert len(rows) == 1 + 7


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ({"threshold": "0.123"}, r"1 of 4 thresholds are not those of the table \(embedding_gini: "
         r"published 0\.123, found \S+\); judging by another lock is another look: gmb trial"),
        ({"threshold": ""}, "embedding_gini: published nothing, found"),
        ({"signal": "mine"}, "its design and the table differ in embedding_gini, mine; judging "
         "other scores is another look: gmb trial"),
    ],
)  # fmt: skip
def test_another_lock_than_the_published_one_judges_nothing(
    trial: Path, tmp_path: Path, cells: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    own = published.evaluate_lock

    def judge(lock: Lock, runs: RunLog, **more: Any) -> Any:
        judged.append(runs.runs[0])
        return own(lock, runs, **more)

    monkeypatch.setattr(published, "evaluate_lock", judge)
    made = build_board(
        None,
        tmp_path / "site",
        trial=changed(trial, "embedding_gini", **cells),
        jobs=1,
        cache=tmp_path / "cache",
    )
    assert len(judged) == 1
    (line,) = made.left_out
    assert "panel 'mul-31': " in line
    assert re.search(why, line)
    assert not (tmp_path / "site" / "panels" / "mul-31.html").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no table of a trial: it has no column label, panel, signal, "),
        ("signal,panel,label\n", "it has no column threshold; gmb trial writes it"),
        ("signal,panel,label,threshold\n", r"trial\.csv: has no rows; gmb trial writes it"),
        ("signal,panel,label,threshold\na,b,c\n", "line 2: has another number of cells"),
        ("signal,panel,label,threshold\na,b,c,1\na,b,c,1\n", "line 3: a on b stands twice"),
        ("signal,panel,label,threshold\na,nowhere,c,1\n", "nothing to show: .*panel 'nowhere'"),
    ],
)
def test_a_table_that_is_none(trial: Path, tmp_path: Path, text: str, why: str) -> None:
    (trial / "tables" / "trial.csv").write_text(text)
    with pytest.raises(InputError, match=why):
        build_board(None, tmp_path / "site", trial=trial)


def test_a_submission_that_has_not_changed_is_not_computed_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, out = tmp_path / "cache", tmp_path / "site"
    found = check_or_kept(folder, Cache.at(cache))
    monkeypatch.setattr("gmb_hf.hub.leaderboard.check.check", None)
    assert check_or_kept(folder, Cache.at(cache)) == found
    assert build_board(folder.parent, out, cache=cache).left_out == ()
    change_card(folder, author="Another")
    with pytest.raises(TypeError):  # `check` is called
        check_or_kept(folder, Cache.at(cache))


# Groups.


def test_groups_by_hand() -> None:
    best, close, worse = [1] * 20, [0, 0] + [1] * 18, [0] * 20
    found = Groups.of([best, close, worse])
    # 0 to 2, 0 to 20 and 0 to 18 discordant events: two-sided binomials, Holm over three pairs.
    expected = {(0, 1): 0.5, (0, 2): 3 * 2 * 0.5**20, (1, 2): 2 * 2 * 0.5**18}
    for (one, other), p_value in expected.items():
        assert found.p_adjusted[one, other] == pytest.approx(p_value)
        assert found.p_adjusted[other, one] == found.p_adjusted[one, other]
    assert found.letters == ["a", "a", "b"]
    assert found.p_adjusted[0, 1] == mcnemar(best, close).p_value
    # A score between two that are told apart is in both groups.
    assert Groups.of([[1] * 8, [1] * 4 + [0] * 4, [0] * 8]).letters == ["a", "ab", "b"]
    with pytest.raises(InputError, match="scores are compared on the same events"):
        Groups.of([[1, 0], [1]])


def test_groups_are_on_the_pages(site: Path) -> None:
    page = (site / "panels" / "mul-31.html").read_text()
    assert '<span class="group' in page
    with (site / "leaderboard.csv").open() as file:
        groups = {(row["panel"], row["score"]): row["group"] for row in csv.DictReader(file)}
    assert set(groups.values()) <= {"", "a", "b", "ab"}


# In a browser.


def test_the_site_is_served_on_this_machine_alone(site: Path, tmp_path: Path) -> None:
    with server(site, 0) as running:
        thread = Thread(target=running.serve_forever)
        thread.start()
        here = address(running)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", here)
        with urlopen(here) as answer:
            assert b"GMB leaderboard" in answer.read()
        with urlopen(f"{here}leaderboard.csv") as answer:
            assert answer.status == 200
        for place in ("scores/", "%2e%2e/trial/tables/trial.csv", "nowhere.html"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{here}{place}")
        port = running.server_address[1]
        with pytest.raises(InputError, match=f"--port {port}: is taken; choose another, or 0"):
            server(site, port)
        running.shutdown()
        thread.join()
    for port in (-1, 70_000):
        with pytest.raises(InputError, match=rf"--port {port}: a port is a number from 0 \(a free"):
            server(site, port)
    with pytest.raises(InputError, match=r"holds no index\.html; gmb leaderboard build --out"):
        server(tmp_path, 0)


def test_serving_by_command(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("socketserver.BaseServer.serve_forever", ended)
    assert main(["leaderboard", "serve", str(site), "--port", "0"]) == 0
    assert re.search(r"^http://127\.0\.0\.1:\d+/ shows ", capsys.readouterr().out)
    assert main(["leaderboard", "serve", str(site.parent)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "holds no index.html; gmb leaderboard build --out" in line


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("chromium is not on the PATH (Debian: apt install chromium)")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright, of the extra `test`, is not installed"
    )
    with playwright.sync_playwright() as running:
        launched = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


KIND = "rows => rows.map(row => row.dataset.kind)"


def test_the_site_in_a_browser(browser: Any, site: Path) -> None:
    context = browser.new_context(viewport={"width": 375, "height": 800}, color_scheme="dark")
    page, faults = context.new_page(), []
    page.on("console", lambda said: faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda one: None if one.url.startswith("file:") else faults.append(one.url))
    page.goto((site / "index.html").as_uri())
    for place in ("panels/quick-29.html", "index.html"):
        page.goto((site / place).as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, place
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    page.goto((site / "panels" / "quick-29.html").as_uri())
    assert page.locator("tr.score").count() == 50 + 4
    page.get_by_label("Search").fill("reader7 <img")
    assert page.locator("tr.score:visible").count() == 1
    page.locator("#clear").click()
    head = page.locator("#table > thead th", has_text="false-alarm rate")
    head.get_by_role("button").click()
    keys = "rows => rows.map(row => [row.parentNode.dataset.kind, row.cells[6].dataset.key])"
    for kind in ("task-aware", "baseline"):
        found = page.locator("tr.score").evaluate_all(keys)
        shares = [float(key) for own, key in found if own == kind and key]
        assert shares == sorted(shares)  # few false alarms are the better ones
    # A tab shows its class alone, and a search goes to the first class that has a match.
    page.get_by_role("tab", name="Baselines").click()
    assert {*page.locator("tr.score:visible").evaluate_all(KIND)} == {"baseline"}
    page.get_by_role("tab", name="Baselines").press("ArrowRight")
    assert "baseline" not in page.locator("tr.score:visible").evaluate_all(KIND)
    page.get_by_label("Search").fill("clock")
    assert {*page.locator("tr.score:visible").evaluate_all(KIND)} == {"baseline"}
    assert page.get_by_role("tab", selected=True).inner_text().startswith("Baselines")
    page.locator("#clear").click()
    page.locator("tr.score:visible a.name").first.click()
    page.wait_for_selector(".cards svg")
    assert page.locator(".cards svg").count() >= 3
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    context.close()
    assert faults == []
