"""Names out of other people's files are shown as they are and break nothing."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import FEW_DRAWS, gmb, refused
from synthetic import synthetic_runlog

from gmb_hf import Results

NAMES = (
    "[bold]x[/bold]",
    "a|b",
    "R&D 50%",
    "<script>alert(1)</script>",
    "line\nbreak",
    "\x1b[31mred",
    "$a_{b$",
    "=cmd()",
    "имя-名前",
)
JUDGE = ("--horizon=60", "--safe-gap=100", "--burn-in=20", *FEW_DRAWS)


def write_log(path: Path, *, scores: Sequence[str], run: str) -> None:
    """Six short runs with scores and run names of this kind."""
    log = synthetic_runlog(6, 41)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["run", "step", "test_acc", *scores])
    rows = log.table.select(["run", "step", "test_acc", "embedding_gini"]).to_pylist()
    for row in rows:
        name = f"{run} {row['run']}"
        values = [row["embedding_gini"]] * len(scores)
        writer.writerow([name, row["step"], row["test_acc"], *values])
    path.write_text(text.getvalue(), encoding="utf-8", newline="")


def visible(name: str) -> str:
    """The name in one line without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in name).split())


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_columns_and_runs_through_every_output(name: str):
    write_log(Path("log.csv"), scores=[name], run=name)
    done = gmb("evaluate", "--runs=log.csv", f"--score={name}", *JUDGE)
    assert done.code == 0, done
    assert "\x1b" not in done.out
    assert visible(name) in done.out
    results = Results.read("results/results.yaml")
    assert results.indicators[0].name == name
    assert len(results.event.t_event_by_seed) == 6
    report = Path("results/report.md").read_text(encoding="utf-8")
    assert "<script>" not in report.partition("```")[0]  # of the next command, in a block of code
    assert "\x1b" not in report
    page = Path("results/report.html").read_text(encoding="utf-8")
    assert page.count("<script") == 3  # its own, the data, and the curves
    assert "\x1b" not in page
    assert "alert(1)</script>" not in page
    rows = [line for line in report.splitlines() if "INCONCLUSIVE" in line and line[:1] == "|"]
    assert rows
    for table in Path("results/tables").glob("*.csv"):
        with table.open(encoding="utf-8", newline="") as file:
            widths = {len(row) for row in csv.reader(file)}
        assert len(widths) == 1, f"{table}: rows of {widths} cells"
    for table in Path("results/tables").glob("*.tex"):
        text = table.read_text(encoding="utf-8")
        assert "\x1b" not in text
        assert "R&D" not in text
    for table in Path("results/tables").glob("*.md"):
        bars = {
            line.replace(r"\|", "").count("|") for line in table.read_text().splitlines() if line
        }
        assert len(bars - {0}) == 1, f"{table}: {bars}"


@pytest.mark.filterwarnings("error")
def test_figures_of_all_of_them():
    write_log(Path("log.csv"), scores=NAMES, run="<run>\n$x")
    named = [f"--score={name}" for name in NAMES]
    done = gmb("evaluate", "--runs=log.csv", *named, *JUDGE, figures=True)
    assert done.code == 0, done
    drawing = Path("results/figures/label_summary.svg").read_text(encoding="utf-8")
    assert "<script>" not in drawing
    assert len(list(Path("results/figures").glob("*.png"))) == 5


def test_a_table_of_reversed_hostile_scores_keeps_its_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "[red]" + "very long " * 12
    write_log(Path("log.csv"), scores=[name], run="r")
    done = gmb("evaluate", "--runs=log.csv", f"--score={name.strip()}", "--sign=-1", *JUDGE)
    assert done.code == 0, done
    row = next(line for line in done.out.splitlines() if line.startswith("-[red]very long"))
    assert "…" in row
    assert "INCONCLUSIVE" in row
    assert len(row.rstrip()) <= 80


@pytest.mark.parametrize(
    "folder", ["[bold]out", "a b", "R&D|x", "<script>", "line\nbreak", "$HOME"]
)
def test_folders(folder: str, chain: Path):
    out = Path(folder) / "lock.yaml"
    done = gmb(
        "lock", "--prereg", chain / "prereg.yaml", "--runs", chain / "explore.csv", "--out", out
    )
    assert done.code == 0, done
    assert out.exists()
    assert f"wrote   {visible(folder)}/lock.yaml" in done.out
    if folder.isprintable():
        assert f"--lock {shlex.quote(str(out))} " in done.next_command
    again = refused(
        "lock", "--prereg", chain / "prereg.yaml", "--runs", chain / "explore.csv", "--out", out
    )
    assert f"{visible(folder)}/lock.yaml: a lock is there already" in again


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_errors_show_them_on_one_line(name: str):
    message = refused("indicators", name)
    assert message.startswith("error: indicator ")
    message = refused("evaluate", f"--runs={name.replace('/', '')}.csv", "--score=x", *JUDGE)
    assert "no such file or folder" in message or "matches this pattern" in message
