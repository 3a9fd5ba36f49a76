"""Indicators, tasks and readers of an installed package, the example of docs/plugins.md."""

from __future__ import annotations

import tomllib
from pathlib import Path

from launched import ROOT, run_code

EXAMPLE = ROOT / "examples" / "gmb_hf_plugin_example"

USE_IT = """
import sys
from gmb_hf import RunLog, get_task
from gmb_hf.cli import main

assert main(["indicators", "loss_ratio"]) == 0
print(get_task("max_p7").data().fingerprint()[:8])
print(RunLog.read("a.dat"))
"""


def install(place: Path, entry_points: dict[str, dict[str, str]], name: str) -> None:
    """What pip leaves of a package besides its modules."""
    info = place / f"{name.replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in entry_points.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


def test_the_example_is_found(tmp_path: Path):
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(tmp_path, project["entry-points"], project["name"])
    (tmp_path / "a.dat").write_text("step test_acc\n0 0.5\n10 0.75\n")
    done = run_code(USE_IT, package=ROOT, others=[tmp_path, EXAMPLE], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "log of the weight norm over the training loss" in done.stdout
    assert "RunLog(1 runs, 2 rows, steps 0 to 10, 1 observables: test_acc)" in done.stdout
    assert not done.stderr


def test_a_broken_package_is_named_and_the_others_work(tmp_path: Path):
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\nclock = 3\n")
    (tmp_path / "wrong.py").write_text("clock = 3\n")
    install(
        tmp_path,
        {"gmb_hf.indicators": {"broken": "broken"}, "gmb_hf.readers": {"clock": "wrong:clock"}},
        "acme-probes",
    )
    (tmp_path / "a.txt").write_text("x")
    code = "from gmb_hf.cli import main; main(['indicators', 'clock']); main(['explore'] + {})"
    done = run_code(code.format(["--runs", "."]), package=ROOT, others=[tmp_path], folder=tmp_path)
    assert "the training step itself" in done.stdout
    lines = done.stderr.splitlines()
    assert lines[0] == (
        "acme-probes: its gmb_hf.indicators 'broken' (broken) could not be loaded and is left out: "
        "ModuleNotFoundError: No module named 'nothing_of_this_name'; repair or uninstall "
        "acme-probes"
    )
    assert lines[1].startswith("acme-probes: its gmb_hf.readers 'clock' (wrong:clock) could not")
    assert "no run log" in lines[2]
