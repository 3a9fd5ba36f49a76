"""Preregistrations and locks as files: the published template, every mistake, other versions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import gmb, locking, refused

from gmb_hf import Design
from gmb_hf.base.documents import dump_yaml
from gmb_hf.design.lock import Lock

# The layout and the placeholders of a published v0.4 template.
TEMPLATE = """\
meta: {benchmark: "GMB", version: "v0.4", date_locked: "YYYY-MM-DD", researcher: "A. Researcher",
       commit_hash: "<git commit>"}
boundary:
  task: "<task name>"
  model: "<arch>"
  optimizer: "<optimizer>"
  schedule: "<training schedule>"
  checkpoint_every_steps: 10
  seeds_explore: [42, 123, 456]
  seeds_eval: [1001, 1002, 1003]
event: {type: "E_jump", metric: "test_acc", window_W_event: 50, jump_threshold: 0.15,
        earliest_rule: true}
labels:
  positive_window: {horizon_steps: 2000, lead_time_target: 200}
  negative_window: {safe_gap_steps: 2000}
operating_points: {fpr_targets: [0.01, 0.05, 0.10], fpr_eps: 0.01, fpr_floor_max: 0.20,
                   min_targets_ok: 2}
candidates:
  - {name: "CSD_lag1", family: "dynamics", params: {window: 200, smooth: 0.10}}
  - {name: "VEI", family: "dynamics", params: {window: 200}}
  - {name: "HC_tau_L_p90", family: "hierarchical_convergence",
     params: {epsilon_residual: 1e-3, aggregation: "p90", cycle_T: 16}}
decision_thresholds:
  coverage_at_0_05_min: 0.30
  lead_time_median_min: 50
  robustness: {window_sweep: [100, 150, 200, 250], max_label_flip_rate: 0.20}
reporting: {required_tables: ["gate_summary", "utility_at_fpr", "robustness"],
            report_all_failures: true}
"""


def paths(value: Any, path: str = "") -> set[str]:
    """Every path of a document that is no extension."""
    if isinstance(value, dict):
        found = {f"{path}.{key}" for key in value if not str(key).startswith("x_")}
        return found.union(
            *(paths(item, f"{path}.{key}") for key, item in value.items() if key[:2] != "x_")
        )
    if isinstance(value, list):
        return set().union(*(paths(item, f"{path}[{n}]") for n, item in enumerate(value)))
    return set()


class TestTemplate:
    def test_it_loads_unchanged_and_saves_with_the_same_names_and_values(self):
        Path("theirs.yaml").write_text(TEMPLATE)
        Design.read("theirs.yaml").write("ours.yaml")
        theirs, ours = (yaml.safe_load(Path(name).read_text()) for name in
                        ("theirs.yaml", "ours.yaml"))  # fmt: skip
        assert paths(ours) == paths(theirs)
        theirs["candidates"][2]["params"]["epsilon_residual"] = 0.001  # text to this reader
        for section, fields in theirs.items():
            if isinstance(fields, dict):
                kept = {key: value for key, value in ours[section].items() if key in fields}
                assert kept == fields
            else:
                assert ours[section] == fields

    def test_the_trap_in_it_is_named(self, chain: Path):
        Path("theirs.yaml").write_text(TEMPLATE.replace("[42, 123, 456]", "[1, 2, 3]"))
        message = refused(
            "lock", "--prereg=theirs.yaml", "--runs", chain / "explore.csv", "--out=lock.yaml"
        )
        assert "CSD_lag1" in message  # no indicator here has that name, which comes first
        text = TEMPLATE.replace("[42, 123, 456]", "[]").replace("[1001, 1002, 1003]", "[]")
        start, end = text.index("candidates:"), text.index("decision_thresholds:")
        one = "candidates:\n  - {name: embedding_gini, family: external}\n"
        Path("theirs.yaml").write_text(text[:start] + one + text[end:])
        options = (
            "--undeclared",
            "--prereg=theirs.yaml",
            "--runs",
            chain / "explore.csv",
            "--out=lock.yaml",
        )
        message = refused("lock", *options)
        assert "design refused" in message
        assert "[horizon_reaches_gap]" in message

    def test_placeholders_are_warned_of_and_refused_on_request(self, chain: Path):
        plain = yaml.safe_load((chain / "prereg.yaml").read_text())
        plain["meta"].update(researcher="<name>", commit_hash="<git commit>")
        Path("p.yaml").write_text(dump_yaml(plain))
        options = ("--prereg=p.yaml", "--runs", chain / "explore.csv", "--out=new.yaml")
        done = gmb("lock", *options)
        assert "warning [left_to_fill_in] meta.researcher still as the template" in done.out
        assert "[left_to_fill_in]" in refused("lock", *options, "--force", "--strict-lint")

    def test_prereg_init_writes_what_prereg_reads(self):
        done = gmb("prereg", "init", "--out=prereg.yaml")
        assert done.code == 0
        assert "gmb lock --prereg prereg.yaml" in done.out
        assert Design.read("prereg.yaml").horizon == 2000


class TestMistakes:
    @pytest.mark.parametrize(
        ("section", "key", "value", "message"),
        [
            ("event", "windw_W_event", 50, "event.windw_W_event is unknown; did you mean window_W"),
            ("event", "window_W_event", "fifty", "event.window_W_event must be a whole number"),
            (
                "event",
                "type",
                "E_jmp",
                "event.type must be 'E_jump', 'E_plateau', 'E_onset' or 'E_regime'",
            ),
            ("labels", "negative_window", None, "labels.negative_window must be a mapping"),
            ("labels", "positive_window", {}, "positive_window.horizon_steps is required; add it"),
            (
                "operating_points",
                "fpr_targets",
                0.05,
                "operating_points.fpr_targets must be a list",
            ),
            ("operating_points", "fpr_eps", "1%", "operating_points.fpr_eps must be a number"),
            ("boundary", "seeds_eval", ["a"], "boundary.seeds_eval[0] must be a whole number"),
            ("meta", "version", "v0.5", "meta.version must be 'v0.4', got 'v0.5'"),
            ("x_protocoll", None, "strict", "x_protocoll is unknown; did you mean x_protocol?"),
        ],
    )
    @pytest.mark.parametrize("command", ["lock", "explore"])
    def test_a_field_is_named_by_its_path(
        self, command: str, section: str, key: str | None, value: Any, message: str, chain: Path
    ):
        plain = yaml.safe_load((chain / "prereg.yaml").read_text())
        if key is None:
            plain[section] = value
        else:
            plain[section][key] = value
        Path("bad.yaml").write_text(dump_yaml(plain))
        said = refused(command, "--prereg=bad.yaml", "--runs", chain / "explore.csv", "--out=o")
        assert said.startswith("error: bad.yaml: ")
        assert message in said
        assert not Path("o").exists()

    def test_lengths_that_leave_no_windows_or_events_are_findings_too(self, chain: Path):
        plain = yaml.safe_load((chain / "prereg.yaml").read_text())
        plain["event"]["window_W_event"] = 25
        plain["labels"]["negative_window"]["safe_gap_steps"] = 100
        plain["x_null_draws"] = 10
        Path("bad.yaml").write_text(dump_yaml(plain))
        said = refused(
            "lock", "--prereg=bad.yaml", "--runs", chain / "explore.csv", "--out=lock.yaml"
        )
        assert said.startswith("error: design refused, 3 fault(s): [horizon_reaches_gap]")
        assert "[event_window_off_cadence]" in said
        assert "[few_null_draws]" in said

    def test_several_at_once(self, chain: Path):
        plain = yaml.safe_load((chain / "prereg.yaml").read_text())
        plain["event"].update(metrik="a", jump_threshold="high")
        Path("bad.yaml").write_text(dump_yaml(plain))
        said = refused(
            "lock", "--prereg=bad.yaml", "--runs", chain / "explore.csv", "--out=lock.yaml"
        )
        assert "event.jump_threshold must be a number" in said
        assert "event.metrik is unknown; did you mean metric?" in said


class TestLocks:
    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("x_schema: 2", "x_schema: 3", "is a lock of schema 3, written by gmb-hf"),
            ("horizon_steps: 100", "horizon_steps: 120", "was edited after it was locked"),
            ("sign: 1", "sign: -1", "was edited after it was locked"),
            ("x_lock:", "x_lok:", "is no lock (there is no x_lock section)"),
        ],
    )
    @pytest.mark.parametrize("command", ["evaluate", "lock"])
    def test_one_that_cannot_be_trusted(
        self, command: str, old: str, new: str, message: str, chain: Path
    ):
        text = (chain / "lock.yaml").read_text(encoding="utf-8")
        assert old in text
        Path("l.yaml").write_text(text.replace(old, new, 1), encoding="utf-8")
        options = ("--explain",) if command == "lock" else ("--runs", chain / "heldout.csv")
        said = refused(command, "--lock=l.yaml", *options)
        assert said.startswith("error: l.yaml: ")
        assert message in said

    @pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
    def test_it_records_the_commit_of_the_working_folder(self, chain: Path, tmp_path: Path):
        (tmp_path / "train.py").write_text("1\n")
        identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        for words in (("init", "-q"), ("add", "train.py"), ("commit", "-qm", "first")):
            subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True,
                              capture_output=True, text=True).stdout.strip()  # fmt: skip
        assert gmb("lock", *locking(chain), "--out=new.yaml").code == 0
        lock = Lock.read("new.yaml")
        assert lock.design.commit_hash == head
        assert lock.design.date_locked == lock.x_lock.created.partition("T")[0]
        done = gmb("lock", "--explain", "--lock=new.yaml")
        assert f"the code is that of commit {head}" in " ".join(done.out.split())

    def test_where_git_knows_none_it_says_so(self, chain: Path, monkeypatch, tmp_path: Path):
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        assert gmb("lock", *locking(chain), "--out=new.yaml").code == 0
        assert Lock.read("new.yaml").design.commit_hash is None
        done = gmb("lock", "--explain", "--lock=new.yaml")
        assert "no commit of the code is on record" in done.out
