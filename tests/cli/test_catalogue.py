"""The small commands: `gmb --version`, `--help`, `indicators`, `data export`, `prereg init`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import gmb, refused

import gmb_hf
from gmb_hf import Design, cli
from gmb_hf.indicators.catalogue import get, names
from gmb_hf.tasks.shards import export_shards, read_shard


def test_version():
    done = gmb("--version")
    assert (done.code, done.out, done.err) == (0, f"gmb-hf {gmb_hf.__version__}\n", "")


class TestHelp:
    @pytest.mark.parametrize("flag", ["-h", "--help"])
    def test_names_every_command_and_where_to_start(self, flag: str):
        done = gmb(flag)
        assert done.code == 0
        for command in ("run", "train", "explore", "lock", "evaluate", "indicators", "data"):
            assert re.search(rf"\b{command}\b", done.out)
        assert "gmb run --preset quick --out runs/quick" in " ".join(done.out.split())

    def test_a_bare_command_shows_it_too(self):
        done = gmb()
        assert (done.code, done.err) == (2, "")
        assert "Usage: gmb" in done.out

    def test_every_option_says_what_it_is(self):
        """Which options there are is frozen in `tests/golden/expected/help.txt`."""
        left, seen = [((), cli.command([]))], 0
        while left:
            path, command = left.pop()
            left += [((*path, name), one) for name, one in getattr(command, "commands", {}).items()]
            silent = [one.name for one in command.params if one.name != "help" and not one.help]
            assert not silent, f"{' '.join(path)}: {silent}"
            seen += len(command.params)
        assert seen > 200


class TestIndicators:
    def test_one_line_each_on_a_wide_terminal(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", "100")
        done = gmb("indicators")
        assert done.code == 0
        lines = [line.rstrip() for line in done.out.splitlines()]
        assert all(len(line) <= 100 for line in lines)
        assert [line.split()[0] for line in lines[1 : len(names()) + 1]] == list(names())

    def test_narrow_terminals_cut_summaries_and_nothing_else(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", "80")
        lines = [line.rstrip() for line in gmb("indicators").out.splitlines()]
        assert all(len(line) <= 80 for line in lines)
        longest = max(names(), key=len)
        row = next(line for line in lines if line.startswith(longest))
        assert row.split()[:2] == [longest, get(longest).family]
        assert row.endswith("…")

    def test_a_kind_is_shown_and_a_rule_is_called_one(self):
        lines = gmb("indicators").out.splitlines()
        labels = {line.split()[0]: line.split()[2] for line in lines if len(line.split()) > 2}
        assert (labels["embedding_top8"], labels["test_loss"]) == ("task", "test")
        assert "kind: task-aware" in gmb("indicators", "embedding_top8").out
        out = gmb("indicators", "commutator_rule").out
        assert "kind: label-free, an alarm rule of its own" in out

    def test_a_pipe_gets_whole_lines(self):
        out = gmb("indicators").out
        assert "…" not in out
        assert all(get(name).summary in out for name in names())

    @pytest.mark.parametrize("name", ["test_loss_drop", "csd_variance", "clock"])
    def test_everything_about_one(self, name: str):
        done = gmb("indicators", name)
        entry = get(name)
        text = " ".join(done.out.split())
        assert entry.summary in text
        assert entry.source in text
        assert f"needs: {', '.join(entry.needs)}" in text
        assert ("an oracle, no monitor" in text) is entry.sees_test_labels
        for parameter, value in entry.parameters.items():
            assert f"{parameter}={value}" in text
        assert done.next_command.startswith(f"gmb evaluate --runs RUNS --score {name} ")

    def test_oracles_are_marked(self):
        rows = {line.split()[0]: line for line in gmb("indicators").out.splitlines() if line}
        assert " test " in rows["test_loss"]
        assert " test " not in rows["train_accuracy"]


class TestData:
    def test_export_writes_what_the_library_writes(self, tmp_path: Path):
        options = ("--task=modular_sub", "--prime=7", "--seed=3")
        done = gmb("data", "export", *options, "--out=shards")
        assert done.code == 0, done
        theirs = export_shards("modular_sub", 7, 3, tmp_path / "theirs")
        for path in theirs:
            assert (Path("shards") / path.name).read_bytes() == path.read_bytes()
            assert f"wrote   shards/{path.name}" in done.out
        tokens = sum(read_shard(path).size for path in theirs)
        assert tokens == 7 * 7 * 8

    def test_distinct_operation_tokens_and_another_share(self):
        for token in ("shared", "distinct"):
            options = ("--task=mul_p5", f"--op-token={token}", "--fraction=0.8")
            assert gmb("data", "export", *options, f"--out={token}").code == 0
        shared, distinct = (read_shard(Path(name) / "train.bin") for name in ("shared", "distinct"))
        assert shared.size == distinct.size == 20 * 8
        assert (shared != distinct).sum() == 20, "one token a row is another"


class TestPreregInit:
    def test_writes_a_template_that_loads(self):
        done = gmb("prereg", "init", "--out=prereg.yaml")
        assert done.code == 0
        assert "wrote   prereg.yaml" in done.out
        assert "gmb lock --prereg prereg.yaml" in done.next_command
        text = Path("prereg.yaml").read_text(encoding="utf-8")
        assert text.count("#") > 40, "a comment beside each field"
        assert Design.read("prereg.yaml").safe_gap > Design.read("prereg.yaml").horizon

    def test_keeps_what_is_there(self):
        Path("prereg.yaml").write_text("mine", encoding="utf-8")
        assert "is there already" in refused("prereg", "init", "--out=prereg.yaml")
        assert Path("prereg.yaml").read_text(encoding="utf-8") == "mine"
        assert gmb("prereg", "init", "--force", "--out=prereg.yaml").code == 0
        Design.read("prereg.yaml")

    def test_an_unfilled_template_is_no_design_for_any_log(self, small_csv: Path):
        assert gmb("prereg", "init", "--out=prereg.yaml").code == 0
        message = refused("lock", "--prereg=prereg.yaml", "--runs", small_csv, "--out=lock.yaml")
        assert "are not declared, nor do the logs say it" in message
        message = refused("explore", "--prereg=prereg.yaml", "--runs", small_csv)
        assert "indicator 'csd_autocorrelation'" in message
        assert "column 'train_loss' missing" in message

    def test_the_templates_candidate_is_an_indicator(self):
        assert gmb("prereg", "init", "--out=prereg.yaml").code == 0
        (candidate,) = Design.read("prereg.yaml").candidates
        assert gmb("indicators", candidate.name).code == 0
        assert get(candidate.name).with_defaults(candidate.params)["window"] == 200
