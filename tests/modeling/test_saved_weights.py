"""The hash beside saved weights: every changed bit is found by whatever loads them."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.base.pretrained import find_model
from gmb_hf.hub.models import create_model
from gmb_hf.training.checkpoints import load_model

WEIGHTS, NOTE = "model.safetensors", "model.safetensors.sha256"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_model("grokking", tmp_path_factory.mktemp("saved") / "model", prime=5).folder


@pytest.fixture
def copied(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def test_the_note_is_what_sha256sum_writes(saved: Path):
    digest = hashlib.sha256((saved / WEIGHTS).read_bytes()).hexdigest()
    assert (saved / NOTE).read_text() == f"{digest}  {WEIGHTS}\n"
    load_model(saved)


def test_every_flipped_bit_is_found(copied: Path):
    path = copied / WEIGHTS
    whole = path.read_bytes()
    for bit in np.random.default_rng(0).integers(8 * len(whole), size=60).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"{WEIGHTS} was damaged or changed after it was"):
            load_model(copied)
    path.write_bytes(whole)
    load_model(copied)


def test_weights_of_an_earlier_version_are_loaded(copied: Path):
    noted = load_model(copied).state_dict()
    (copied / NOTE).unlink()
    for name, weight in load_model(copied).state_dict().items():
        assert weight.equal(noted[name]), name


@pytest.mark.parametrize("text", ["", "nothing\n"])
def test_a_damaged_note_is_no_hash(copied: Path, text: str):
    (copied / NOTE).write_text(text)
    with pytest.raises(InputError, match=f"its SHA-256 is not the one in {NOTE}"):
        load_model(copied)


@pytest.mark.parametrize("size", [4, 100, 5000])
def test_a_broken_header_is_a_clear_line(copied: Path, size: int):
    (copied / NOTE).unlink()
    path = copied / WEIGHTS
    path.write_bytes(b"{" * 8 + path.read_bytes()[8:] if size == 100 else path.read_bytes()[:size])
    with pytest.raises(InputError, match=r"could not be loaded as a grokking model: .*") as caught:
        load_model(copied)
    assert "\n" not in str(caught.value)


def test_each_part_of_the_weights_has_its_hash(copied: Path):
    parts = "model-00001-of-00001.safetensors"
    (copied / WEIGHTS).rename(copied / parts)
    (copied / NOTE).rename(copied / f"{parts}.sha256")
    (copied / "model.safetensors.index.json").write_text(f'{{"weight_map": {{"a": "{parts}"}}}}')
    find_model(str(copied))
    with (copied / parts).open("ab") as file:
        file.write(b"0")
    with pytest.raises(InputError, match=f"{parts} was damaged or changed"):
        find_model(str(copied))
