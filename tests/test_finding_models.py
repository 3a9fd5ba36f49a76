"""Models by folder or repository: which files count, and what is never loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.base.pretrained import find_encoder, find_model, find_tokenizer

INDEX = "model.safetensors.index.json"


def saved(folder: Path, *shards: str, config: object = None) -> Path:
    """A folder like a sharded model's; nothing here reads the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **(config or {})}))
    for number, name in enumerate(shards):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"weights %d" % number)
    names = {f"layer.{number}": name for number, name in enumerate(shards)}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


@pytest.mark.parametrize("part", ["one.safetensors", "parts/two.safetensors", "config.json", INDEX])
def test_each_file_that_is_loaded_counts(tmp_path: Path, part: str):
    folder = saved(tmp_path, "one.safetensors", "parts/two.safetensors")
    before = find_model(str(folder)).identity
    assert find_model(str(folder)).identity == before
    (folder / part).write_bytes((folder / part).read_bytes() + b" ")
    assert find_model(str(folder)).identity != before


def test_one_file_goes_before_an_index(tmp_path: Path):
    folder = saved(tmp_path, "../elsewhere.safetensors")
    (folder / "model.safetensors").write_bytes(b"weights")
    assert find_model(str(folder)).identity.startswith("sha256:")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../out.safetensors", "index.json names ../out.safetensors, which lies outside the fold"),
        ("/etc/out.safetensors", "which lies outside the folder; nothing is read there"),
        ("linked.safetensors", "names linked.safetensors, which lies outside the folder"),
        ("pytorch_model.bin", "index.json names pytorch_model.bin, which is no safetensors file"),
        ("gone.safetensors", "gone.safetensors, which .*index.json names, is missing; save it"),
    ],
)
def test_an_index_that_names_what_is_not_loaded(tmp_path: Path, name: str, message: str):
    folder = saved(tmp_path / "model", "one.safetensors")
    (tmp_path / "out.safetensors").write_bytes(b"weights of another")
    (folder / "linked.safetensors").symlink_to(tmp_path / "out.safetensors")
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": name}}))
    with pytest.raises(InputError, match=message):
        find_model(str(folder))


@pytest.mark.parametrize("held", ['{"weight_map": []}', "{}", '{"weight_map": {}}'])
def test_an_index_of_nothing(tmp_path: Path, held: str):
    (saved(tmp_path) / INDEX).write_text(held)
    with pytest.raises(InputError, match=r"index\.json has no weight_map with the files"):
        find_model(str(tmp_path))


def test_other_weights_than_those_of_the_model(tmp_path: Path):
    named = saved(tmp_path / "named", "a.safetensors", config={"transformers_weights": "b.pt"})
    with pytest.raises(InputError, match=r"config.json names other weights \(transformers_weigh"):
        find_model(str(named))
    adapted = saved(tmp_path / "adapted", "a.safetensors")
    (adapted / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"holds an adapter .* merge both and save the whole"):
        find_model(str(adapted))


def test_links_of_the_cache_of_the_hub_are_inside(tmp_path: Path):
    folder = saved(tmp_path / "snapshots" / "c0ffee", "a.safetensors")
    (tmp_path / "blobs").mkdir()
    (folder / "a.safetensors").rename(tmp_path / "blobs" / "1")
    (folder / "a.safetensors").symlink_to("../../blobs/1")
    assert find_model(str(folder)).identity.startswith("sha256:")


def test_code_of_a_third_place_is_never_run(tmp_path: Path):
    code = {"auto_map": {"AutoModel": "other/place--code.Model"}, "model_type": "theirs"}
    folder = saved(tmp_path, "a.safetensors", config=code)
    with pytest.raises(InputError, match=r"of another repository .* at no fixed commit; copy that"):
        find_model(str(folder), trust_remote_code=True)
    with pytest.raises(InputError, match=r"brings code of its own .* is not run; choose another"):
        find_model(str(folder), trust_remote_code=None)


def test_a_revision_is_named_once(tmp_path: Path):
    with pytest.raises(InputError, match="--revision v1: a/b@v2 names a revision already"):
        find_model("a/b@v2", revision="v1")


def test_a_tokenizer_is_known_by_its_files(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{}")
    before = find_tokenizer(str(tmp_path)).identity
    (tmp_path / "notes.txt").write_text("no part of it")
    assert find_tokenizer(str(tmp_path)).identity == before
    (tmp_path / "tokenizer.json").write_text("{ }")
    assert find_tokenizer(str(tmp_path)).identity != before


class TestEncoders:
    def saved(self, folder: Path, *more: dict[str, str]) -> Path:
        whole = saved(folder, "model.safetensors")
        kinds = [{"path": "", "type": "sentence_transformers.models.Transformer"}, *more]
        (whole / "modules.json").write_text(json.dumps(kinds))
        return whole

    def test_each_part_counts(self, tmp_path: Path):
        dense = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
        folder = self.saved(tmp_path, dense)
        (folder / "2_Dense").mkdir()
        weights = folder / "2_Dense" / "model.safetensors"
        weights.write_bytes(b"1")
        before = find_encoder(str(folder)).identity
        weights.write_bytes(b"2")
        assert find_encoder(str(folder)).identity != before
        weights.rename(weights.with_name("pytorch_model.bin"))
        with pytest.raises(InputError, match="holds no weights as safetensors, and pickles are no"):
            find_encoder(str(folder))

    @pytest.mark.parametrize(
        ("module", "message"),
        [
            ({"path": "../x", "type": "sentence_transformers.models.Dense"}, "names ../x, which"),
            ({"path": "x", "type": "os.Thing"}, "brings code of its own .* has os.Thing"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, module: dict[str, str], message: str):
        with pytest.raises(InputError, match=message):
            find_encoder(str(self.saved(tmp_path, module)))
