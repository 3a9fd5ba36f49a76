"""What a wheel holds: every folder of the package and every file that it reads."""

from __future__ import annotations

import configparser
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import shipped

ROOT = Path(__file__).resolve().parents[1]


def packages_of_setup_cfg() -> set[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return {
        line
        for line in config["options"]["packages"].splitlines()
        if line and not line.startswith("#")
    }


def test_every_folder_with_code_is_a_package_of_setup_cfg() -> None:
    folders = {
        ".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "gmb_hf").rglob("*.py")
    }
    from_the_top = {"gmb_hf.metric_modules", "gmb_hf.card_templates"}
    assert packages_of_setup_cfg() - from_the_top == folders


def test_every_data_file_matches_a_pattern_of_setup_cfg() -> None:
    # `py.typed` is named there
    shipped = (".py", ".pyi", ".j2", ".css", ".js", ".json", ".yaml", ".mplstyle")
    others = [
        path.relative_to(ROOT)
        for path in (ROOT / "gmb_hf").rglob("*")
        if path.is_file() and path.suffix not in (*shipped, ".pyc") and path.name != "py.typed"
    ]
    frozen = (ROOT / "gmb_hf/hub/shipped").glob("*/*")  # hub/shipped/*/*.md, and *.parquet
    panels = [path.relative_to(ROOT) for path in frozen if path.suffix in (".md", ".parquet")]
    assert sorted(others) == sorted([*panels, Path("gmb_hf/runs/example.parquet")])
    assert len(panels) == 3


def test_every_file_of_a_metric_matches_a_pattern_of_setup_cfg() -> None:
    files = [path for path in (ROOT / "metrics").glob("*/*") if path.name != "__pycache__"]
    assert files
    assert {path.suffix for path in files} <= {".py", ".md", ".txt"}


def test_every_card_template_matches_a_pattern_of_setup_cfg() -> None:
    assert {path.suffix for path in (ROOT / "cards").iterdir()} == {".j2"}


def test_a_folder_that_an_installation_lacks_is_named() -> None:
    assert shipped("card_templates", "cards", holding="dataset.md.j2") == ROOT / "cards"
    with pytest.raises(InputError, match="cards/ is missing from this installation; install it"):
        shipped("card_templates", "cards", holding="nothing")


@pytest.fixture
def setup() -> dict[str, object]:
    return runpy.run_path(str(ROOT / "setup.py"), run_name="setup")


def test_the_page_on_pypi_has_whole_addresses(setup, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert setup["about_the_repository"]() == {}
    monkeypatch.setenv("GITHUB_REPOSITORY", "me/mine")
    monkeypatch.setenv("GITHUB_SHA", "1f")
    about = setup["about_the_repository"]()
    page = about["long_description"]
    assert "](docs/" not in page
    image = "](https://raw.githubusercontent.com/me/mine/1f/docs/images/first_alarm.png)"
    assert page.count(image) == 1
    assert about["project_urls"]["Source"] == "https://github.com/me/mine"


def test_links_within_a_page_and_to_others_stay(setup):
    text = "[a](#two) ![b](https://example.org/b.png) [c\nd](docs/c.md#d)"
    assert setup["with_absolute_links"](text, "me/mine", "1f") == (
        "[a](#two) ![b](https://example.org/b.png) "
        "[c\nd](https://github.com/me/mine/blob/1f/docs/c.md#d)"
    )


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize(("source", "does"), [("", "build x-9"), ("d", "fetch x-9 --from d")])
def test_make_panels_leaves_what_is_there(source: str, does: str):
    words = ["make", "-n", "-C", ROOT, "panels", f"FROM={source}", "VENV=nowhere"]
    options = {"capture_output": True, "text": True, "check": True}
    told = subprocess.run(words, **options).stdout
    assert "gmb panel" not in told  # the repository holds every panel
    assert "import ship; ship()" in told
    told = subprocess.run([*words, "PANELS=quick-29 x-9"], **options).stdout
    assert told.count("gmb panel") == 1
    assert f"GMB_PANELS=panels nowhere/bin/gmb panel {does}" in told


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize(("goal", "extra"), [("demo", "train"), ("test", "test"), ("lint", "test")])
@pytest.mark.parametrize("uv", ["", "/opt/bin/uv"])
def test_make_installs_what_its_goal_needs(goal: str, extra: str, uv: str):
    words = ["make", "-n", "-C", ROOT, goal, "VENV=nowhere", f"UV={uv}"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    by = "uv pip install --quiet --python nowhere/bin/python" if uv else "python -m pip install "
    (line,) = [line for line in told.splitlines() if " install " in line]
    assert by in line
    assert line.endswith(f"-c constraints.txt -e '.[{extra}]'")
    assert f"touch nowhere/.installed-{extra}" in told


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
def test_make_takes_another_python(tmp_path: Path):
    """An environment of the Python that is asked for stays, one of another is made anew."""
    held = tmp_path / "bin" / "python"
    held.parent.mkdir()
    stamp = tmp_path / ".installed-test"

    def told(python: object) -> subprocess.CompletedProcess[str]:
        stamp.touch()
        words = ["make", "-n", "-C", ROOT, "test", f"VENV={tmp_path}", f"SYSTEM_PYTHON={python}"]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    held.symlink_to(sys.executable)
    same = told(sys.executable)
    assert same.returncode == 0
    assert "rm -rf" not in same.stdout
    assert " install " not in same.stdout
    held.unlink()
    held.write_text("#!/bin/sh\necho 3 9\n")
    held.chmod(0o755)
    made = told(sys.executable).stdout.splitlines()
    assert f"rm -rf {tmp_path}" in made
    assert any(line.endswith("-e '.[test]'") for line in made)
    gone = told("python3.99")
    assert gone.returncode == 2
    assert "python3.99 does not run; give the path of a Python: make SYSTEM_PYTHON=/" in gone.stderr
