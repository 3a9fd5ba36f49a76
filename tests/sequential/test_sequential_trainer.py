"""trainers/train_sequential.py, run as its users run it."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from launched import run
from sequential_builders import trained

from gmb_hf.protocol.sequential.config import SequentialConfig
from gmb_hf.protocol.sequential.matrix import read_matrix
from gmb_hf.training.folder import read_design

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "trainers" / "train_sequential.py"
SMALL = (
    *("--suite=modular", "--prime=5", "--steps=10", "--seeds=0:3", "--variants=sort-2"),
    *("--set=model.width=8", "--set=model.mlp_width=8", "--set=training.checkpoint_every=5"),
    *("--cpu", "--save-models=none"),
)


def test_two_processes_share_the_seeds_and_leave_the_same_matrix(tmp_path):
    done = run(SCRIPT, *SMALL, "--out", tmp_path / "two", processes=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("next: gmb sequential") == 1  # one process speaks
    shards = sorted(path.name for path in (tmp_path / "two" / "matrix").iterdir())
    assert [name.rpartition("-n")[0] for name in shards] == [
        "sort-2-seeds-0-2",
        "sort-2-seeds-1-1",
    ]
    config = read_design(SequentialConfig, tmp_path / "two" / "sequential.yaml")
    one = trained(config, tmp_path / "one", [0, 1, 2], "sort-2", save_models="none")
    first, second = (
        read_matrix(folder / "matrix.csv")["sort-2"] for folder in (one.path, tmp_path / "two")
    )
    assert second.seeds == first.seeds == (0, 1, 2)
    np.testing.assert_allclose(second.loss, first.loss, rtol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--preset=quik"], {}, "preset 'quik' is unknown"),
        ([], {"WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "0"}, "2 processes were launched but each"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path, monkeypatch, capsys, arguments, environment, message
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    small = [part for part in SMALL if part != "--cpu"]
    main = runpy.run_path(str(SCRIPT))["main"]
    assert main([*small, *arguments, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert message in said
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
