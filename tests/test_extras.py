"""What an extra brings, and the line that names it where its library is not installed."""

from __future__ import annotations

import configparser
import importlib
import re
import sys
from pathlib import Path

import pytest

import gmb_hf
from gmb_hf.base import extras
from gmb_hf.cli import main
from gmb_hf.modeling import GrokkingTransformerConfig

ROOT = Path(__file__).resolve().parents[1]
TRAINS = (
    "gmb_hf.training.seeds",
    "gmb_hf.jobs.run",
    "gmb_hf.crucible.grokking",
)


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python as it is after `pip install gmb-hf`."""
    for name in TRAINS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in extras.EXTRAS:
        monkeypatch.setitem(sys.modules, name, None)


def requirements() -> dict[str, set[str]]:
    """The libraries of setup.cfg, as they are imported: of the base ("") and of each extra."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    sections = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {
        extra: {
            re.split(r"[^\w-]", line)[0].lower().replace("-", "_")
            for line in text.splitlines()
            if line and not line.startswith("#")
        }
        for extra, text in sections.items()
    }


def test_every_library_of_an_extra_is_known():
    stated = requirements()
    for library, extra in extras.EXTRAS.items():
        assert library in stated[extra], f"setup.cfg: {extra} lacks {library}"
        assert library not in stated[""], f"setup.cfg: everybody installs {library}"
    chosen = set(extras.EXTRAS.values())
    assert set().union(*(stated[name] for name in chosen)) - {"gmb_hf"} == set(extras.EXTRAS)


def test_make_installs_extras_that_there_are():
    made = set(re.findall(r"\.installed-([a-z]+)", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert {"train", "test", "docs"} <= made <= set(requirements())


def test_what_builds_the_docs_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("-", "_")
    for library in requirements()["docs"]:
        assert f"\n{library}==" in lines


@pytest.mark.parametrize(
    ("arguments", "who"),
    [
        ("train --preset smoke --seeds 0:2 --out t", "gmb train"),
        ("run --out r", "gmb run"),
        ("demo --out d", "gmb demo"),
        ("crucible from-runs --out c", "gmb crucible from-runs"),
    ],
)
def test_a_command_says_which_extra_it_lacks(
    arguments: str,
    who: str,
    without_torch: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments.split()) == 2
    said = capsys.readouterr()
    line = f"error: {who} needs torch, which is not installed: pip install 'gmb-hf[train]'"
    if who == "gmb demo":
        line += "; or gmb demo --no-train judges the panel alone"
    assert (said.out, said.err) == ("", f"{line}\n")
    assert not list(tmp_path.iterdir())


def test_so_does_a_name_of_the_package(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as bare:
        bare.setitem(sys.modules, "transformers", None)
        for name in [name for name in sys.modules if name.startswith("gmb_hf.modeling")]:
            bare.delitem(sys.modules, name)
        with pytest.raises(gmb_hf.InputError) as caught:
            _ = gmb_hf.GrokkingTransformerConfig
    assert str(caught.value) == (
        "gmb_hf.modeling needs transformers, which is not installed: pip install 'gmb-hf[train]'"
    )
    assert isinstance(caught.value, ImportError)
    assert caught.value.code == "missing_extra"
    assert gmb_hf.GrokkingTransformerConfig is GrokkingTransformerConfig


@pytest.mark.parametrize("module", ["nothing_of_this_name", "torch.nothing_of_this_name"])
def test_a_failure_of_another_kind_stays_what_it_is(module: str):
    match = f"No module named '{module}'"  # torch is there, and would be another version
    with pytest.raises(ModuleNotFoundError, match=match), extras.needing("gmb train"):
        importlib.import_module(module)
