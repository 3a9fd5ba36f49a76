"""`gmb results validate` and `gmb results compare`, as a user types them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import gmb, refused
from results_layout import EMPTY, EXAMPLE

from gmb_hf._version import __version__
from gmb_hf.base.documents import dump_yaml


def written(name: str, **changes: Any) -> Path:
    plain = copy.deepcopy(yaml.safe_load(EXAMPLE))
    for dotted, value in changes.items():
        *parents, last = dotted.split("__")
        section = plain
        for parent in parents:
            section = section[int(parent) if parent.isdigit() else parent]
        section[last] = value
    path = Path(name)
    path.write_text(dump_yaml(plain))
    return path


def ours(name: str, fingerprint: str, **changes: Any) -> Path:
    """A file as this package writes it, with fingerprints."""
    source = {
        "package_version": "0.1.0",
        "python": "3.11",
        "prereg_hash": "12" * 32,
        "evaluation_fingerprint": fingerprint * 32,
    }
    return written(name, x_provenance=source, **changes)


class TestValidate:
    @pytest.mark.parametrize("text", [EXAMPLE, EMPTY])
    def test_a_file_of_the_published_layout(self, text: str):
        Path("theirs.yaml").write_text(text)
        done = gmb("results", "validate", "theirs.yaml")
        assert done.code == 0, done
        assert "theirs.yaml matches the results schema v0.4" in done.out
        assert done.next_command == "gmb results compare theirs.yaml OTHER.yaml"

    def test_json(self):
        Path("theirs.json").write_text(json.dumps(yaml.safe_load(EXAMPLE)))
        assert "2 indicators, 3 runs, 2 events" in gmb("results", "validate", "theirs.json").out

    def test_every_violation_is_a_line_and_the_exit_code_is_2(self):
        path = written(
            "bad.yaml", indicators__0__label="GOOD", boundary__tsk=1, summary__n_seeds=-1
        )
        done = gmb("results", "validate", path)
        assert done.code == 2
        lines = [line for line in done.out.splitlines() if line.startswith("- ")]
        assert len(lines) == 3
        assert done.err.startswith("error: bad.yaml: violates the results schema v0.4: ")
        assert done.err.endswith("(2 more, listed above)\n")
        assert len(done.err.splitlines()) == 1

    def test_what_cannot_be_read_is_exit_code_2(self):
        assert "gone.yaml: there is no such file" in refused("results", "validate", "gone.yaml")
        Path("broken.yaml").write_text("a: [")
        assert refused("results", "validate", "broken.yaml").startswith("error: broken.yaml: line")

    def test_a_file_of_another_version_says_so(self):
        """What an earlier version wrote is read, or its writer and the way out are named."""
        kept = ours("kept.yaml", "ab", x_provenance__package_version="0.0.9")
        assert gmb("results", "compare", kept, kept).code == 0
        strange = ours("strange.yaml", "ab", x_provenance__package_version="0.0.9", x_calibration=1)
        message = refused("report", strange)
        cannot = f"was written by gmb-hf 0.0.9 and cannot be read by {__version__} ("
        assert message.startswith(f"error: strange.yaml: {cannot}")
        assert message.endswith("); evaluate the runs again with gmb evaluate")
        schema = refused("report", written("v03.yaml", schema_version="v0.3"))
        assert schema.endswith("v03.yaml: schema_version is 'v0.3', this version reads 'v0.4' only")

    def test_the_help_tells_the_exit_codes(self):
        text = " ".join(gmb("results", "validate", "--help").out.split())
        assert "0: it is; 1: a table that its preregistration requires is missing; 2: it" in text

    def test_set_aside_extensions_are_noted(self):
        done = gmb("results", "validate", written("a.yaml", indicators__0__x_reasons="many"))
        assert done.code == 0
        assert "note: indicators[0].x_reasons is an extension of its writer" in done.out

    def test_a_preregistration_is_no_results_file(self):
        Path("prereg.yaml").write_text("event: {type: E_jump}\nlabels: {}\n")
        done = gmb("results", "validate", "prereg.yaml")
        assert done.code == 2
        assert "- labels is unknown" in done.out

    def test_what_a_hostile_file_says_stays_on_its_line(self):
        path = written("bad.yaml", indicators__0__label="[red]\n\x1b[31mGOOD")
        done = gmb("results", "validate", path)
        assert done.code == 2
        assert "\x1b" not in done.out
        assert len([line for line in done.out.splitlines() if line.startswith("- ")]) == 1


class TestShow:
    def test_the_verdicts_and_the_gates_of_one_score(self):
        gates = [
            {"unit": "runs", "gate": "budget", "state": "met"},
            {"unit": "windows", "gate": "lead", "state": "missed", "code": "windows_lead_short",
             "detail": "the median lead time is 5 steps, 20 is the minimum"},
        ]  # fmt: skip
        file = ours("a.yaml", "ab", indicators__0__x_gates=gates)
        done = gmb("results", "show", file)
        assert done.code == 0, done
        assert done.next_command == "gmb results show a.yaml second"
        one = gmb("results", "show", file, "first")
        assert one.code == 0, one
        rows = [line.split() for line in one.out.splitlines()]
        assert ["runs", "budget", "met"] in rows
        told = "windows lead missed the median lead time is 5 steps, 20 is the minimum"
        assert told.split() in rows
        assert "first: RANK_ONLY" in one.out
        assert "holds no gates (x_gates)" in gmb("results", "show", file, "second").out

    def test_a_score_that_is_not_there(self):
        message = refused("results", "show", ours("a.yaml", "ab"), "third")
        assert message == "error: results: there is no indicator 'third'; known: first, second"


class TestCompare:
    def test_side_by_side_with_changes_marked(self):
        a = ours("a.yaml", "ab")
        b = ours("b.yaml", "ab", indicators__0__layer_A={"auc": 0.61, "ap": 0.1})
        done = gmb("results", "compare", a, b)
        assert done.code == 0, done
        rows = [" ".join(line.split()) for line in done.out.splitlines()]
        for start in (
            "first A RANK_ONLY 0.430 1.000 – – 0.570",
            "B RANK_ONLY 0.430 1.000 – – 0.610*",
            "second A, B SUPPORTED_FOR_ALARM 0.050 0.500 – – 0.500",
        ):
            assert any(row.startswith(start) for row in rows), rows
        assert "1 of 2 indicators differ, 0 in their label." in done.out
        assert "Comparable: the same judged data" in done.out
        assert done.next_command == "gmb results validate b.yaml"

    def test_other_runs_are_refused_unless_allowed(self):
        a, b = ours("a.yaml", "ab"), ours("b.yaml", "cd")
        message = refused("results", "compare", a, b, "--out=c.md")
        assert message.startswith("error: a.yaml and b.yaml differ in their judged data (")
        assert "--allow-fingerprint-mismatch" in message
        assert not Path("c.md").exists()
        done = gmb("results", "compare", a, b, "--allow-fingerprint-mismatch", "--out=c.md")
        assert done.code == 0
        assert "Not comparable: they differ in their judged data" in done.out
        assert "Not comparable" in Path("c.md").read_text()
        assert "wrote   c.md" in done.out

    def test_files_without_fingerprints(self):
        done = gmb("results", "compare", written("a.yaml"), written("b.yaml"))
        assert done.code == 0
        assert "Nobody can tell whether they are comparable" in done.out
        other = written("b.yaml", boundary__task="copy")
        assert "differ in their boundary.task" in refused("results", "compare", "a.yaml", other)

    @pytest.mark.parametrize("ending", ["md", "csv", "json"])
    def test_written_as(self, ending: str):
        a = ours("a.yaml", "ab")
        assert gmb("results", "compare", a, a, f"--out=c.{ending}").code == 0
        assert Path(f"c.{ending}").stat().st_size > 0

    def test_bad_input(self):
        a = ours("a.yaml", "ab")
        assert "c.txt: a comparison is written as" in refused(
            "results", "compare", a, a, "--out=c.txt"
        )
        assert "gone.yaml: there is no such file" in refused("results", "compare", a, "gone.yaml")
        bad = written("bad.yaml", indicators__0__label="GOOD")
        assert "bad.yaml: indicators[0].label must be" in refused("results", "compare", a, bad)
        assert "Missing argument 'B'" in refused("results", "compare", a)

    @pytest.mark.parametrize("width", [80, 120])
    def test_it_fits_the_terminal(self, width: int, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("COLUMNS", str(width))
        name = "a_score_with_a_very_long_name_that_goes_on_and_on"
        a = ours("a.yaml", "ab", indicators__0__name=name)
        b = ours("b.yaml", "ab", indicators__0__name=name, indicators__0__label="INCONCLUSIVE")
        done = gmb("results", "compare", a, b)
        assert all(len(line.rstrip()) <= width for line in done.out.splitlines())
        assert "INCONCLUSIVE*" in done.out


def test_our_own_evaluation_validates_and_compares(small_csv: Path):
    judge = ("--score=embedding_gini", "--horizon=60", "--safe-gap=100")
    assert gmb("evaluate", "--runs", small_csv, *judge).code == 0
    done = gmb("results", "validate", "results/results.yaml")
    assert done.code == 0, done
    assert "4 indicators, 6 runs" in done.out
    done = gmb("results", "compare", "results/results.yaml", "results/results.yaml")
    assert "0 of 4 indicators differ" in done.out
    assert "Comparable: the same judged data" in done.out
    table = Path("results/tables/robustness.csv")
    for spoil in (lambda: table.write_text("", encoding="utf-8"), table.unlink):
        spoil()
        done = gmb("results", "validate", "results/results.yaml")
        assert done.code == 1
        assert "lacks the required tables tables/robustness.csv; put them beside it" in done.err


class TestReport:
    def test_a_page_again_without_the_logs(self):
        Path("theirs.yaml").write_text(EXAMPLE)
        done = gmb("report", "theirs.yaml")
        assert done.code == 0, done
        assert "wrote   report.html" in done.out
        assert done.next_command == "gmb results validate theirs.yaml"
        assert "EXAMPLE_v0.4" in Path("report.html").read_text(encoding="utf-8")
        done = gmb("report", "theirs.yaml", "--out", "deep/page.html")
        assert done.code == 0, done
        assert Path("deep/page.html").read_bytes() == Path("report.html").read_bytes()

    def test_the_folder_of_results_is_enough(self):
        Path("found").mkdir()
        Path("found/results.yaml").write_text(EXAMPLE)
        assert gmb("report", "found").next_command == "gmb results validate found/results.yaml"
        assert Path("found/report.html").is_file()

    @pytest.mark.parametrize(
        ("source", "out", "message"),
        [
            ("gone.yaml", "x.html", "error: gone.yaml: there is no such file"),
            ("folder", "x.html", "error: folder: holds no results.yaml; name a results file"),
            ("lock.yaml", "x.html", "lock.yaml: is no results file: it has no schema_version"),
            ("newer.yaml", "x.html", "schema_version is 'v0.5', this version reads 'v0.4' only"),
            ("image.yaml", "x.html", "image.yaml: is not UTF-8 text (byte 0)"),
            ("theirs.yaml", "x.pdf", "--out x.pdf: the report is a page; end its name in .html"),
            ("theirs.yaml", "lock.yaml/x.html", "could not be written: a file with this name"),
        ],
    )
    def test_bad_input_is_one_line(self, source: str, out: str, message: str):
        Path("folder").mkdir()
        Path("lock.yaml").write_text("seed: 1\n")
        Path("newer.yaml").write_text(EXAMPLE.replace("v0.4", "v0.5"))
        Path("image.yaml").write_bytes(b"\x89PNG\r\n")
        Path("theirs.yaml").write_text(EXAMPLE)
        assert message in refused("report", source, "--out", out)
        assert not Path("x.html").exists()
