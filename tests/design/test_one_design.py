"""One more field of a design is one declaration: every surface has it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from launched import run_code

import gmb_hf

FIELD = """    probe_steps: Steps | None = at(
        "x_probe_steps", None, "steps of the probe", example=7, only="E_jump"
    )

    @model_validator(mode="before")
"""
SURFACES = """
import sys
from gmb_hf.cli import main
from gmb_hf.benchmark.series import INPUTS, read_settings
from gmb_hf.design.design import Design
from gmb_hf.design.explain import explain_design
from gmb_hf.base.errors import InputError
from gmb_hf.training.presets import preset

def refused(call):
    try:
        call()
    except InputError as error:
        return str(error)
    raise AssertionError("not refused")

LENGTHS = {"horizon": 1, "safe_gap": 2}
document = Design.minimal(**LENGTHS, probe_steps=5).plain()
assert document["x_probe_steps"] == 5
assert Design.parse(document, where="x").replace(burn_in=1).probe_steps == 5
assert "x_probe_steps: null" in Design.template() and "# steps of the probe" in Design.template()
assert "Steps of the probe: 5." in explain_design(Design.parse(document, where="x"))
assert read_settings({**LENGTHS, "probe_steps": 5}).design.probe_steps == 5
assert "probe_steps: steps of the probe; default None." in INPUTS

config = preset("paper").changed(["benchmark.probe_steps=5"])
assert config.benchmark.design().probe_steps == 5
assert config.to_dict()["benchmark"]["probe_steps"] == 5
assert "probe_steps" not in preset("paper").to_dict()["benchmark"]
assert type(config).from_dict(config.to_dict()) == config

assert "did you mean x_probe_steps?" in refused(
    lambda: Design.parse({**document, "x_probe_stepz": 5}, where="x"))
assert "'probe_steps'?" in refused(lambda: Design.minimal(**LENGTHS, probe_stepz=5))
assert "'probe_steps'?" in refused(lambda: read_settings({**LENGTHS, "probe_stepz": 5}))
assert "'probe_steps'?" in refused(lambda: preset("paper").changed(["benchmark.probe_stepz=5"]))
assert refused(lambda: preset("paper").changed(["benchmark.probe_steps=0"])).startswith(
    "--set: benchmark.probe_steps must be greater")

for command in ("evaluate", "lock", "plan", "run", "explore"):
    assert main([command, "--probe-stepz", "5"]) == 2
print("the options end here", file=sys.stderr)
assert main(["plan", "--probe-steps", "0", "--pilot", "x", "--score", "y", "--horizon", "1",
             "--safe-gap", "2"]) == 2
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a copy of the package with one field more says on stderr."""
    folder = tmp_path_factory.mktemp("one_more")
    package = Path(gmb_hf.__file__).parent
    half_written = shutil.ignore_patterns("*.pyc.*")  # what is compiled is copied as well
    shutil.copytree(package, folder / "gmb_hf", ignore=half_written)
    source = folder / "gmb_hf" / "design" / "design.py"
    before = '    @model_validator(mode="before")\n    @classmethod\n    def _published_regime'
    text = source.read_text(encoding="utf-8")
    assert before in text
    first_line = '    @model_validator(mode="before")\n'
    source.write_text(text.replace(before, before.replace(first_line, FIELD)), encoding="utf-8")
    done = run_code(SURFACES, package=folder, folder=folder, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_every_surface_has_a_new_field(said: str) -> None:
    options, _, refusal = said.partition("the options end here")
    assert options.count("--probe-steps") == 5  # the nearest name, of each command
    assert "--probe-steps must be greater than or equal to 1, got 0" in refusal
