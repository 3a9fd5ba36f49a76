"""Files of earlier versions are read, verified, compared, judged, watched and submitted today.

`data/old/README.md` says what they are. Nothing here depends on how a verdict is worded or called:
what must survive is that they are accepted, and that counts, thresholds and hashes stay.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from hub_client import Terminal
from hub_store import Hub

from gmb_hf import Design, InputError, Lock, Results, RunLog
from gmb_hf.design.looks import LooksFile
from gmb_hf.hub import panels
from gmb_hf.hub.leaderboard.check import CheckRecord
from gmb_hf.hub.leaderboard.submission import Submission
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.monitor.monitor import AlarmMonitor

OLD = Path(__file__).parent / "data" / "old" / "v0.4"
HASH = "290fdb7a1188598af9c9e5a055da083b2ca3940a5d26e7a63d0a1a1d941e9df1"
RUNS, EVENTS = 40, 38
KINDS = ("embedding_norm", "embedding_gini_gain", "both", "trees")
CONTROLS = ("clock", "constant", "steps_since_memorisation")
GAIN, BOTH = "embedding_gini_gain", "both"
LOCK, JUDGED = Path("locked/lock.yaml"), Path("locked/results/results.yaml")
EXPLORED = [Path("exploratory", protocol, "results.yaml") for protocol in ("strict", "v0.4")]
SUBMITTED = Path("submissions/old_score")
RESULTS = [JUDGED, *EXPLORED]
EXPLORE_RUNS, HELD_OUT_RUNS = (f"panels/old-29/{part}.parquet" for part in panels.PARTS)
EXPLORING = (
    *("--score=unembedding_gini", "--horizon=100", "--safe-gap=200", "--jump=0.2"),
    *("--window=60", "--burn-in=160", "--fpr=0.05", "--run-budgets=0.05", "--null-draws=200"),
    *("--bootstrap-draws=100", "--smoothing-sweep=1,3", "--run-groups=2", "--no-figures"),
)
"""What was typed for the exploratory results."""
COPY = "GMB_OLD_FILES_BY_A_COPY"


@pytest.fixture
def typed(commands: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Where commands are typed, with a copy of the old files in the current folder."""
    shutil.copytree(OLD, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv(panels.PLACE, "panels")
    return commands


def raw(path: str | Path) -> Any:
    """What a file says, by a parser of nobody's."""
    text = Path(path).read_text(encoding="utf-8")
    return json.loads(text) if Path(path).suffix == ".json" else yaml.safe_load(text)


def prereg(design: Design) -> dict[str, Any]:
    """What a design fixes, whoever fixed it and when."""
    return {name: values for name, values in design.plain().items() if name != "meta"}


def test_by_which_package() -> None:
    """By the copy that `test_a_later_version_with_more_fields_uses_them_all` makes, in it."""
    fields = getattr(Design.minimal(horizon=1, safe_gap=2), "added", None)
    assert fields == (7 if COPY in os.environ else None)


def test_nobody_has_edited_them() -> None:
    digest = hashlib.sha256()
    for path in sorted(OLD.rglob("*"), key=lambda path: path.relative_to(OLD).as_posix()):
        if path.is_file():
            digest.update(path.relative_to(OLD).as_posix().encode() + b"\0" + path.read_bytes())
    assert digest.hexdigest() == HASH, "old files stay as they were written: restore them"


# A preregistration.


def test_a_preregistration_says_what_it_said(typed: Terminal) -> None:
    old = Design.read("locked/prereg.yaml")
    said = raw("locked/prereg.yaml")
    assert [candidate.name for candidate in old.candidates] == list(KINDS)
    assert old.horizon == said["labels"]["positive_window"]["horizon_steps"]
    assert old.burn_in == said["x_burn_in"] == 160
    assert [stratum.name for stratum in old.strata] == ["late"]
    assert len(list(old.other_events())) == 1
    assert (len(old.seeds_explore), len(old.seeds_eval)) == (RUNS, RUNS)


def test_one_of_before_equals_one_of_after(typed: Terminal) -> None:
    old = Design.read("locked/prereg.yaml")
    assert Design.read(old.write("again.yaml")) == old
    typed.done("prereg", "init", "--out=template.yaml")
    before, after = (Design.read(path) for path in ("locked/template.yaml", "template.yaml"))
    assert prereg(before) == prereg(after)
    # The lock fills in what system the logs are of, and changes nothing else.
    said, locked = prereg(old), prereg(Lock.read(LOCK).design)
    assert {name for name in locked if locked[name] != said.get(name)} == {"boundary"}
    boundary = said.pop("boundary")
    assert {**locked["boundary"], **boundary} == locked["boundary"]


def test_it_is_locked_as_it_was(typed: Terminal) -> None:
    given = ("--prereg=locked/prereg.yaml", f"--runs={EXPLORE_RUNS}")
    typed.done("lock", *given, "--out=again.yaml")
    old, new = Lock.read(LOCK), Lock.read("again.yaml")
    assert prereg(new.design) == prereg(old.design)
    assert new.x_lock.explore_hashes == old.x_lock.explore_hashes
    assert new.x_lock.explore_fingerprint == old.x_lock.explore_fingerprint
    for name in (*KINDS, *CONTROLS):
        assert new.thresholds(name) == pytest.approx(old.thresholds(name), rel=1e-6)
        assert new.run_thresholds(name) == pytest.approx(old.run_thresholds(name), rel=1e-6)


# A lock and its look.


@pytest.mark.parametrize("path", [LOCK, "locked_on_panel/lock.yaml", SUBMITTED / "lock.yaml"])
def test_a_lock_is_read_and_verified(typed: Terminal, path: str | Path) -> None:
    lock, said = Lock.read(path), raw(path)["x_lock"]
    lock.verify()
    assert lock.hash == said["hash"]
    assert {*lock.x_lock.candidates} == {*said["candidates"]} >= {*CONTROLS}
    for name, frozen in said["candidates"].items():
        locked = {repr(f): tau for f, tau in lock.thresholds(name).items()}
        assert locked == frozen["members"]["central"]
        locked = {repr(budget): tau for budget, tau in lock.run_thresholds(name).items()}
        assert locked == frozen["first_alarm"]["central"]
    assert lock.x_lock.explore_seeds == tuple(range(RUNS))
    assert lock.design.seeds_eval == tuple(range(200, 200 + RUNS))
    typed.done("lock", "--explain", "--lock", path)


def test_it_holds_every_kind_of_candidate(typed: Terminal) -> None:
    lock = Lock.read(LOCK)
    assert {*lock.x_lock.candidates} == {*KINDS, *CONTROLS}
    assert lock.candidate("embedding_norm").sign == -1
    assert lock.candidate(GAIN).params == {"window": 80}
    methods = {name: getattr(lock.candidate(name).ensemble, "method", None) for name in KINDS}
    assert methods == {"embedding_norm": None, GAIN: None, BOTH: "logistic", "trees": "boosted"}
    # The event of x_also_events has thresholds of its own.
    assert len(lock.candidate(GAIN).other_events) == 1


def test_it_is_the_same_lock_when_it_is_copied(typed: Terminal) -> None:
    old = Lock.read(LOCK)
    Path("copy").mkdir()
    shutil.copy(LOCK, "copy/lock.yaml")
    copied = Lock.read("copy/lock.yaml")
    assert (copied.hash, copied.fingerprint) == (old.hash, old.fingerprint)
    Lock.read(old.write("written.yaml")).verify()


@pytest.mark.parametrize(
    ("before", "after"),
    [("x_burn_in: 160", "x_burn_in: 180"), ("window: 80", "window: 100"), ("sign: -1", "sign: 1")],
)
def test_an_edited_one_is_refused(typed: Terminal, before: str, after: str) -> None:
    text = LOCK.read_text(encoding="utf-8")
    assert before in text
    LOCK.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(InputError):
        Lock.read(LOCK)
    typed.refused("evaluate", "--lock", LOCK, "--runs", HELD_OUT_RUNS, "--out=new")


def test_its_look_is_the_same_look(typed: Terminal) -> None:
    looks = Path("locked/lock.looks.yaml")
    before, old = looks.read_bytes(), Results.read(JUDGED)
    judging = ("evaluate", "--lock", LOCK, "--no-figures")
    # The same runs into the same folder: no other look, and nothing of others is replaced.
    typed.done(*judging, "--runs", HELD_OUT_RUNS, "--out", JUDGED.parent)
    assert looks.read_bytes() == before
    new = Results.read(JUDGED)
    assert new.x_provenance is not None
    assert new.x_provenance.lock_hash == raw(LOCK)["x_lock"]["hash"]
    assert new.event.t_event_by_seed == old.event.t_event_by_seed
    assert {item.name for item in new.indicators} == {item.name for item in old.indicators}
    typed.done("results", "compare", OLD / JUDGED, JUDGED)
    # Fewer runs would be another look, which this lock does not allow.
    log = RunLog.read(HELD_OUT_RUNS)
    log.select(log.runs[:30]).write("fewer.parquet")
    typed.refused(*judging, "--runs=fewer.parquet", "--out=fewer")
    assert looks.read_bytes() == before
    (look,) = LooksFile.beside(Lock.read(LOCK)).by(Lock.read(LOCK))
    assert (look.look, len(look.runs)) == (1, RUNS)


def test_it_is_published(typed: Terminal, hub: Hub) -> None:
    typed.done("lock", "--lock", LOCK, "--publish=acme/locks")
    there = hub.repositories["dataset:acme/locks"]
    place = f"locks/{raw(LOCK)['x_lock']['hash']}"
    assert there.files[f"{place}/lock.yaml"] == (OLD / LOCK).read_bytes()
    judging = ("evaluate", "--lock", LOCK, "--runs", HELD_OUT_RUNS, "--no-figures")
    typed.done(*judging, "--out=new")
    record = Results.read("new/results.yaml").x_published
    assert record is not None
    assert not record.before_evaluation  # its look was taken before
    assert f"{place}/looks.yaml" in there.files


# Results.


@pytest.mark.parametrize("path", [*RESULTS, SUBMITTED / "results.yaml"])
def test_results_are_read_and_sealed(typed: Terminal, path: Path) -> None:
    results, said = Results.read(path), raw(path)
    results.verify(str(path))
    assert [item.name for item in results.indicators] == [one["name"] for one in said["indicators"]]
    assert results.meta.run_id == said["meta"]["run_id"]
    assert results.event.t_event_by_seed == said["event"]["t_event_by_seed"]
    assert (results.summary.n_seeds, results.summary.n_events) == (RUNS, EVENTS)
    assert results.locked == (path not in EXPLORED)
    assert prereg(results.design) == prereg(Design.parse(said["x_prereg"], where="x_prereg"))
    assert "Results(" in repr(results)
    assert len(results.to_pandas()) == len(said["indicators"])


@pytest.mark.parametrize("path", RESULTS)
def test_they_are_valid_and_reported(typed: Terminal, path: Path) -> None:
    typed.done("results", "validate", path)
    typed.done("report", path, "--out=page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert all(item.name in page for item in Results.read(path).indicators)
    typed.done("report", path.parent)
    assert (path.parent / "report.html").is_file()


def test_what_may_raise_an_alarm_still_may(typed: Terminal) -> None:
    for path, able in ((JUDGED, {GAIN, BOTH}), (SUBMITTED / "results.yaml", {"my_score"})):
        eligible = {item.name for item in Results.read(path).indicators if item.x_alarm_eligible}
        assert eligible >= able
        assert not eligible & {*CONTROLS}
    for path in EXPLORED:
        assert not any(item.x_alarm_eligible for item in Results.read(path).indicators)


def test_the_twin_in_json_says_the_same(typed: Terminal) -> None:
    twin = JUDGED.with_suffix(".json")
    typed.done("results", "validate", twin)
    both, alone = Results.read(JUDGED), Results.read(twin)
    twin.unlink()
    assert Results.read(JUDGED) == both == alone


def test_the_twin_tells_what_was_edited(typed: Terminal) -> None:
    text = JUDGED.read_text(encoding="utf-8")
    assert "n_seeds: 40" in text
    JUDGED.write_text(text.replace("n_seeds: 40", "n_seeds: 41"), encoding="utf-8")
    with pytest.raises(InputError, match=r"edited after .*; changed: summary\.n_seeds; evaluate"):
        Results.read(JUDGED)
    JUDGED.with_suffix(".json").unlink()
    with pytest.raises(InputError, match="which field changed cannot be known"):
        Results.read(JUDGED)


def test_they_compare_with_themselves_and_not_with_others(typed: Terminal) -> None:
    for path in RESULTS:
        said = typed.done("results", "compare", path, path, "--out=same.md")
        assert "Comparable: the same judged data and the same preregistration." in said
    typed.done("results", "compare", JUDGED, JUDGED.with_suffix(".json"))
    said = typed.refused("results", "compare", JUDGED, EXPLORED[0])
    assert "numbers do not compare across that" in said


@pytest.mark.parametrize("path", EXPLORED)
def test_exploratory_ones_are_made_again_in_their_place(typed: Terminal, path: Path) -> None:
    old = Results.read(path)
    protocol = path.parent.name
    out = ("--protocol", protocol, "--out", path.parent)
    typed.done("evaluate", "--runs", HELD_OUT_RUNS, *EXPLORING, *out)  # nothing of others is there
    new = Results.read(path)
    assert new.event.t_event_by_seed == old.event.t_event_by_seed
    assert prereg(new.design) == prereg(old.design)
    typed.done("results", "compare", OLD / path, path)
    # Another design would replace what it did not find.
    typed.refused("evaluate", "--runs", HELD_OUT_RUNS, *EXPLORING, *out, "--burn-in=180")


# A panel and its ledger.


def ledger() -> bytes:
    return Path("panels/old-29", panels.LEDGER).read_bytes()


def test_a_panel_is_read_and_verified(typed: Terminal) -> None:
    panel = FrozenPanel.find("old-29")
    assert panel.faults() == []
    assert [len(panel.read(part).runs) for part in panels.PARTS] == [RUNS, RUNS]
    assert prereg(panel.design()) == prereg(Design.read("panels/old-29/design.yaml"))
    said = raw("panels/old-29/looks.yaml")["locks"]
    assert [one.lock_hash for one in panel.ledger().locks] == [one["lock_hash"] for one in said]
    for command in (("verify", "old-29"), ("show", "old-29"), ("list",)):
        assert "old-29" in typed.done("panel", *command)
    typed.done("runs", "verify", "--runs=panel:old-29")


def test_who_looked_before_is_no_other(typed: Terminal) -> None:
    before, judging = ledger(), ("evaluate", "--runs=panel:old-29", "--no-figures")
    typed.done(*judging, "--score=embedding_gini", "--out=explored")
    assert ledger() == before
    typed.done(*judging, "--lock=locked_on_panel/lock.yaml", "--out=judged")
    assert ledger() == before
    typed.done(*judging, "--score=embedding_norm", "--out=another")
    assert len(FrozenPanel.find("old-29").ledger().locks) == 3
    assert ledger().startswith(before)


def test_a_changed_panel_is_refused(typed: Terminal) -> None:
    path = Path("panels/old-29/design.yaml")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("x_burn_in: 160", "x_burn_in: 180"), encoding="utf-8")
    assert FrozenPanel.find("old-29").faults()
    code, _, _ = typed.gmb("panel", "verify", "old-29")
    assert code == 1


# A submission.


def test_a_submission_is_read_and_checked(typed: Terminal) -> None:
    submission = Submission.read(SUBMITTED)
    assert submission.record.lock_hash == raw(SUBMITTED / "lock.yaml")["x_lock"]["hash"]
    assert submission.record.panel == "old-29"
    assert {*submission.record.scores} == {"my_score"}
    # What was found then stands: it is shown without being computed once more.
    known = CheckRecord.of(SUBMITTED)
    assert known is not None
    typed.done("leaderboard", "build", "submissions", "--out=site")
    assert "old_score" in Path("site/index.html").read_text(encoding="utf-8")
    typed.done("leaderboard", "check", SUBMITTED)
    assert CheckRecord.of(SUBMITTED) is not None


def test_a_submission_that_was_not_checked(typed: Terminal) -> None:
    (SUBMITTED / "check.json").unlink()
    typed.done("leaderboard", "check", SUBMITTED)
    scores = raw(SUBMITTED / "check.json")["scores"]
    assert [one["name"] for one in scores] == ["my_score"]


def test_old_files_are_submitted(typed: Terminal) -> None:
    joining = ("--runs=panel:old-29", "--scores", SUBMITTED / "scores.parquet")
    typed.done("runs", "join", *joining, "--out=joined.parquet")
    files = ("--lock", SUBMITTED / "lock.yaml", "--results", SUBMITTED / "results.yaml")
    author = ("--author=A", "--claim=B", "--code", SUBMITTED / "code" / "my_score.py")
    typed.done("submit", "again", "--runs=joined.parquet", *files, *author)
    typed.done("leaderboard", "check", "submissions/again")
    assert raw(Path("submissions/again/check.json"))["n_scores"] == 1


def test_a_changed_number_is_found(typed: Terminal) -> None:
    (SUBMITTED / "check.json").unlink()
    path = SUBMITTED / "results.yaml"
    text = path.read_text(encoding="utf-8")
    steps = raw(path)["event"]["t_event_by_seed"]
    path.write_text(text.replace(f"'200': {steps['200']}", "'200': 780"), encoding="utf-8")
    typed.refused("leaderboard", "check", SUBMITTED)


# A monitor.

BY = ("--lock", LOCK, "--results", JUDGED, "--act", GAIN)


@pytest.fixture
def raised(typed: Terminal) -> int:
    """The step at which the alarm of the watched run was raised."""
    return int(raw("watched/whole.jsonl.monitor.json")["monitor"]["alarm"]["step"])


@pytest.fixture
def rows(typed: Terminal) -> list[dict[str, Any]]:
    """Every checkpoint of the watched run."""
    lines = Path("watched/whole.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture
def monitor(typed: Terminal) -> Iterator[AlarmMonitor]:
    """A new one, as the saved one was."""
    with closing(AlarmMonitor(LOCK, JUDGED, act=[BOTH])) as made:
        yield made


def test_a_run_is_watched_by_an_old_lock(typed: Terminal, raised: int) -> None:
    watching = ("--follow=watched/whole.jsonl", "--idle=0")
    code, out, _ = typed.gmb("monitor", *BY, *watching, "--state=new.json")
    assert (code, f"step {raised}" in out) == (3, True)
    # What may act is asked of the results, and some may.
    code, _, _ = typed.gmb("monitor", *BY[:4], *watching, "--state=other.json")
    assert code == 3


def test_a_watch_goes_on_from_where_it_was(typed: Terminal, raised: int) -> None:
    log, whole = Path("watched/midrun.jsonl"), Path("watched/whole.jsonl")
    state = Path(f"{log}.monitor.json")
    before = raw(state)["monitor"]
    assert before.get("alarm") is None
    lines = log.read_text(encoding="utf-8").splitlines()
    # The beginning is gone: a monitor that did not go on from the state would abstain.
    assert before["run"]["last"] == json.loads(lines[-1])["step"] < raised
    rest = whole.read_text(encoding="utf-8").splitlines(keepends=True)[len(lines) :]
    log.write_text("".join(rest), encoding="utf-8")
    code, out, err = typed.gmb("monitor", *BY, "--follow", log, "--idle=0")
    assert (code, f"step {raised}" in out) == (3, True), err
    state.unlink()
    code, _, _ = typed.gmb("monitor", *BY, "--follow", log, "--idle=0")
    assert code == 4  # it abstains to the end


def test_an_alarm_that_was_raised_stands(typed: Terminal, raised: int) -> None:
    state = Path("watched/whole.jsonl.monitor.json")
    before = state.read_bytes()
    code, out, _ = typed.gmb("monitor", *BY, "--follow=watched/whole.jsonl", "--idle=0")
    assert (code, f"step {raised}" in out) == (3, True)
    assert state.read_bytes() == before


def test_a_saved_monitor_goes_on(monitor: AlarmMonitor, rows: list[dict[str, Any]]) -> None:
    last = raw("watched/saved.json")["run"]["last"]
    monitor.load("watched/saved.json")
    whole = AlarmMonitor(LOCK, JUDGED, act=[BOTH])
    for row in rows:
        expected = whole.update(**row)
        if row["step"] > last:
            assert str(monitor.update(**row)) == str(expected)
    assert monitor.alarm is not None
    assert monitor.alarm == whole.alarm


def test_a_damaged_state_is_refused(monitor: AlarmMonitor) -> None:
    path = Path("watched/saved.json")
    path.write_text(path.read_text(encoding="utf-8").replace('"seen": 22', '"seen": 23'))
    with pytest.raises(InputError):
        monitor.load(path)


def test_a_training_is_watched_on(rows: list[dict[str, Any]], raised: int) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from gmb_hf.monitor.callback import STATE_FILE, RunWatch
    from gmb_hf.monitor.observe import Parts

    model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=4, n_layer=1, n_head=1, n_positions=4))
    by_step = {row["step"]: row for row in rows}
    folders = sorted(Path("watched/training").glob("checkpoint-*"))
    before, after = (int(folder.name.partition("-")[2]) for folder in folders)
    assert before < raised == after
    for folder, step in zip(folders, (before, after), strict=True):
        watch = RunWatch(
            LOCK,
            JUDGED,
            act=[GAIN],
            parts=Parts(residues=5),
            extra=lambda model, at: {"embedding_gini": by_step[at]["embedding_gini"]},
        )
        watch.resume(folder / STATE_FILE, step)
        assert watch.failed is None
        assert watch.acted == (after if step == after else None)
        acted = [
            row["step"] for row in rows if row["step"] > step and watch.check(model, row["step"])
        ]
        assert watch.failed is None
        assert acted == ([] if step == after else [raised])  # once a run
    log = RunLog.read("watched/training/gmb_monitor.jsonl")
    assert log.table.num_rows == len(rows)
    assert "embedding_gini" in log.observables


def test_results_of_another_lock_are_refused(typed: Terminal) -> None:
    watching = ("--follow=watched/whole.jsonl", "--idle=0", "--state=new.json")
    of_a_panel = ("monitor", "--lock=locked_on_panel/lock.yaml", "--results", JUDGED)
    assert "these results are of " in typed.refused(*of_a_panel, *watching)
    of_none = typed.refused("monitor", "--lock", LOCK, "--results", EXPLORED[0], *watching)
    assert "these results are of " in of_none


# What a later version may do: fields with a default, added to every record of a file.

ADDED = {
    "design/candidates.py": {"Score": "x_added: int = 7", "Ensemble": "added: int = 7"},
    "design/design.py": {"Design": 'added: int = at("x_added", 7, "a later field")'},
    "design/strata.py": {"Stratum": "added: int = 7"},
    "design/lock.py": {"LockRecord": "x_added: int = 7", "LockedCandidate": "added: int = 7"},
    "design/locked_ensembles.py": {"LockedEnsemble": "added: int = 7"},
    "design/looks.py": {"LookRecord": "added: int = 7", "Publication": "added: int = 7"},
    "benchmark/results.py": {"Results": "x_added: int = 7"},
    "benchmark/sections.py": {
        "MetaRecord": "x_added: int = 7",
        "SummaryRecord": "x_added: int = 7",
    },
    "benchmark/verdict.py": {"IndicatorRecord": "x_added: int = 7"},
    "benchmark/operationality.py": {"LayerBRecord": "x_added: int = 7"},
    "benchmark/first_alarm.py": {"FirstAlarmPointRecord": "added: float | None = None"},
    "hub/panels.py": {"PanelRecord": "added: int = 7"},
    "design/ledger.py": {"LookedRecord": "added: int = 7"},
    "hub/leaderboard/submission.py": {"SubmissionRecord": "added: int = 7"},
    "hub/leaderboard/check.py": {"CheckRecord": "added: int = 7", "CheckedScore": "added: int = 7"},
    "monitor/monitor.py": {"MonitorState": "added: int = 7", "IndicatorState": "added: int = 7"},
}
"""File of the package -> class -> the field that it gets."""
COMPUTED = {
    "benchmark/first_alarm.py": (
        "        **leads,\n",
        "        **leads,\n        added=leads['lead_q95'],\n",
    )
}
"""File -> text, and what stands there where the field is a number that is computed."""


def with_fields(source: str, fields: dict[str, str]) -> str:
    """The text of a module with a field after the docstring of each class."""
    lines = source.splitlines()
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    found = {node.name: node for node in classes if node.name in fields}
    assert {*found} == {*fields}
    for name, node in sorted(found.items(), key=lambda item: -item[1].lineno):
        after = node.body[0].end_lineno or 0
        lines.insert(after, f"    {fields[name]}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_a_later_version_with_more_fields_uses_them_all(tmp_path: Path) -> None:
    """Everything above, by a copy of the package in which every record has one more field."""
    root = Path(__file__).parents[1]
    for folder in ("gmb_hf", "metrics", "cards", "benchmarks"):
        shutil.copytree(root / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc"))
    for file, fields in ADDED.items():
        path = tmp_path / "gmb_hf" / file
        source = with_fields(path.read_text(encoding="utf-8"), fields)
        if file in COMPUTED:
            assert source.count(COMPUTED[file][0]) == 1
            source = source.replace(*COMPUTED[file])
        path.write_text(source, encoding="utf-8")
    again = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", __file__]
    again += ["-c", str(root / "pyproject.toml"), "-o", f"pythonpath={tmp_path}"]
    again += ["-k", "not a_later_version"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), COPY: "1"}
    done = subprocess.run(again, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
