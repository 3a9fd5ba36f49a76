"""How commands speak: `--json`, `-q`, `-v`, narrow terminals, no colours, pipes, completion."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import FEW_DRAWS, gmb

from gmb_hf import cli
from gmb_hf.cli import main, output
from gmb_hf.training.launch import Bar

JUDGING = ("--score=embedding_gini", "--horizon=100", "--safe-gap=200", "--jump=0.2", *FEW_DRAWS)


def as_json(*arguments: object, code: int = 0) -> dict[str, Any]:
    """The one object on standard output."""
    done = gmb(*arguments, "--json")
    assert done.code == code, done
    (line,) = done.out.splitlines()
    found: dict[str, Any] = json.loads(line)
    assert found["command"].startswith("gmb ")
    assert found["code"] == code
    return found


class TestJson:
    def test_a_verdict(self, small_csv: Path):
        found = as_json("evaluate", "--runs", small_csv, *JUDGING)
        assert found["sentence"].startswith("Exploratory, without a lock: ")
        assert found["may_alarm"] is False
        scores = {one["indicator"]: one for one in found["scores"]}
        controls = {"clock", "constant", "steps_since_memorisation"}
        assert set(scores) == {"embedding_gini", *controls}
        assert scores["clock"]["group"] == "control"
        assert scores["embedding_gini"]["label"] == "INCONCLUSIVE"
        assert scores["embedding_gini"]["detection_rate"] is None  # JSON has no NaN
        assert {one["passed"] for one in found["done"]} == {True, False}
        assert "results/results.yaml" in found["wrote"]
        assert found["next"].startswith("gmb plan --pilot ")
        assert found["notes"]

    def test_a_look_at_logs(self, small_csv: Path):
        found = as_json("runs", "verify", "--runs", small_csv)
        assert found["verification"]["rows"] == 6 * 41
        assert [event["runs"] for event in found["events"]] == [6]

    @pytest.mark.parametrize(
        ("arguments", "key"),
        [
            ("panel list", "panels"),
            ("indicators", "tables"),
            ("indicators csd_variance", "indicator"),
            ("metrics list", "modules"),
            ("plan", "plan"),
            ("crucible exposure --steps 100 --batch-size 8 --probability .5 --pool a=9:1", "pools"),
        ],
    )
    def test_other_answers(self, arguments: str, key: str):
        assert as_json(*arguments.split())[key]

    def test_bad_input_and_an_answer_that_is_no(self):
        assert as_json("panel", "show", "sub29", code=2)["error"].startswith("panel 'sub29' is unk")
        Path("short.csv").write_text("run,step,x\na,0,1\na,10,2\nb,0,1\n")
        found = as_json("runs", "verify", "--runs", "short.csv", code=1)
        assert found["failed"] == "1 fault in these logs, named above"
        assert found["verification"]["faults"] == ["run 'b' has one checkpoint, at step 0"]

    def test_every_command_has_it(self):
        left = [((), cli.command([]))]
        while left:
            path, command = left.pop()
            inside = getattr(command, "commands", None)
            if inside is None:
                names = {name for one in command.params for name in one.opts}
                assert {"--json", "--quiet", "-q", "--verbose", "-v"} <= names, path
            left += [((*path, name), one) for name, one in (inside or {}).items()]


class TestQuietAndVerbose:
    def test_quiet_leaves_the_answer(self, small_csv: Path):
        loud = gmb("runs", "read", "--runs", small_csv, "--out=a.parquet")
        done = gmb("-q", "runs", "read", "--runs", small_csv, "--out=a.parquet")
        assert done.out == gmb("runs", "read", "--runs", small_csv, "--out=a.parquet", "-q").out
        assert done.out == loud.out.splitlines(keepends=True)[0]
        assert (done.code, done.err) == (0, "")
        assert gmb("-q", "panel", "show", "sub29").err.startswith("error: panel 'sub29' is unknown")

    def test_quiet_draws_no_progress(self):
        output.begin("gmb train")
        assert not Bar(1)._progress.disable
        output.speak(quiet=True)
        assert Bar(1)._progress.disable
        output.begin("gmb")
        assert logging.getLogger("gmb_hf").level == logging.NOTSET

    def test_verbose_shows_the_log(self, small_csv: Path):
        read = ("runs", "read", "--runs", small_csv, "--out=a.parquet")
        line = f"INFO gmb_hf.hub.sources: read 6 runs, 246 rows from {small_csv}\n"
        assert gmb(*read).err == ""
        assert gmb("-v", *read).err == line
        assert gmb(*read, "-vv").err == f"{line}DEBUG gmb_hf.base.files: wrote a.parquet\n"


class TestTerminals:
    @pytest.mark.parametrize("width", [40, 80])
    def test_help_cuts_no_name(self, width: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", str(width))
        for words in (["evaluate"], ["run"], ["crucible", "from-runs"]):
            text = gmb(*words, "--help-all").out
            assert "…" not in text
            assert all(len(line) <= width for line in text.splitlines() if "--" not in line)
            parser = cli.command(words)
            for word in words:
                parser = parser.commands[word]
            for one in parser.params:
                for name in (*one.opts, *one.secondary_opts):
                    shown = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
                    assert shown or one.hidden or not name.startswith("-"), (words, name)

    def test_a_table_that_is_too_wide_has_a_line_for_each_cell(
        self, small_csv: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("COLUMNS", "40")
        lines = gmb("runs", "verify", "--runs", small_csv).out.splitlines()
        assert not [line for line in lines if "…" in line]
        place = next(i for i, line in enumerate(lines) if line.split() == ["column", "test_acc"])
        assert [line.split() for line in lines[place + 1 : place + 3]] == [
            ["values", "246"],
            ["empty", "0"],
        ]

    def test_sentences_are_folded_on_a_terminal_and_whole_in_a_pipe(
        self, small_csv: Path, monkeypatch: pytest.MonkeyPatch
    ):
        judging = ("evaluate", "--runs", small_csv, *JUDGING, "--no-figures")
        sentence = "false: share of runs with a false alarm."
        lines = gmb(*judging).out.splitlines()
        assert [len(line) > 160 for line in lines if sentence in line] == [True]
        monkeypatch.setenv("COLUMNS", "60")
        out = gmb(*judging, "--out=again").out
        assert sentence not in out
        assert sentence in " ".join(out.split())

    def test_no_color(self, small_csv: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        verify = ("crucible", "exposure", "--steps=9", "--batch-size=1", "--probability=.1")
        coloured = gmb(*verify, "--pool=a=99:1").out
        assert "\x1b[1;31m" in coloured
        monkeypatch.setenv("NO_COLOR", "1")
        plain = gmb(*verify, "--pool=a=99:1").out
        assert not re.search(r"\x1b\[[\d;]*3\d", plain)
        bare = re.compile(r"\x1b\[[\d;]*m")
        assert bare.sub("", plain) == bare.sub("", coloured)


def test_a_process_with_a_nonsense_backend_and_a_pipe_that_nobody_reads(tmp_path: Path):
    """No window is ever opened, so MPLBACKEND does not matter; `| head` ends a command quietly."""
    table = "name,frozen_tier3,organic_holdout\na,.1,.2\nb,.2,.1\n"
    (tmp_path / "results.csv").write_text(table)
    reading, writing = os.pipe()
    os.close(reading)
    words = ["crucible", "pareto", "results.csv", "--out=front"]
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "gmb_hf", *words],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "MPLBACKEND": "nonsense", "PYTHONIOENCODING": "ascii"},
            timeout=120,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, "")
    assert {path.name for path in tmp_path.glob("front.*")} == {
        *("front.html", "front.json", "front.png", "front.svg")
    }


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("gmb panel show qu", "quick-29"),
        ("gmb demo --panel qu", "quick-29"),
        ("gmb run --preset sta", "standard"),
        ("gmb evaluate --score csd_v", "csd_variance"),
        ("gmb indicators csd_v", "csd_variance"),
        ("gmb evaluate --require-s", "--require-supported"),
    ],
)
def test_completion(typed: str, offered: str, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("_GMB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    with contextlib.suppress(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == [offered]
