"""Datasets built: what `load_dataset` gives of them, their cards, and what a version freezes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import datasets
import huggingface_hub
import numpy as np
import pyarrow as pa
import pytest
import yaml
from synthetic import synthetic_runlog

from gmb_hf import RunLog
from gmb_hf.base.errors import InputError
from gmb_hf.base.fingerprints import content_hash
from gmb_hf.hub import datasets as building
from gmb_hf.hub.cards import Card
from gmb_hf.hub.datasets import (
    ABOUTS,
    About,
    DatasetConfig,
    build,
    formal_configs,
    heldout_configs,
    modular_configs,
    runs_configs,
)
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.text import file_pieces, read_sources

ABOUT = About("Numbers", "Whole numbers.")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """`load_dataset` with a cache of its own."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)

    def load_dataset(folder: Path, *arguments: str, **options: object) -> object:
        cache = str(tmp_path / "cache")
        return datasets.load_dataset(str(folder), *arguments, cache_dir=cache, **options)

    return load_dataset


def numbers(values: list[int], *, name: str = "all", pieces: int = 1) -> DatasetConfig:
    """A config of whole numbers, written in so many tables."""
    tables = [pa.table({"n": part}) for part in np.array_split(np.array(values), pieces)]
    return DatasetConfig(name, {"full": lambda: tables}, "cc0-1.0", "numbers")


def header(card: Path) -> dict:
    return yaml.safe_load(card.read_text(encoding="utf-8").split("---")[1])


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


class TestTasks:
    def test_each_task_is_a_config_split_and_unsplit(self, tmp_path: Path, load):
        build(modular_configs(["add_p7", "div_p5"]), tmp_path / "out", ABOUTS["modular"])
        task = get_task("add_p7")
        found = load(tmp_path / "out", "add_p7")
        assert list(found) == ["train", "test", "full"]
        assert np.array_equal(found["full"]["input_ids"], task.rows())
        data = task.data(0.5, 42)
        assert np.array_equal(found["train"]["input_ids"], data.input_ids[data.train_index])
        assert np.array_equal(found["test"]["labels"], data.labels[data.test_index])
        assert load(tmp_path / "out", "div_p5", split="full").num_rows == 20

    def test_formal_languages_stream(self, tmp_path: Path, load):
        build(formal_configs(["parity_4", "copy_3"]), tmp_path / "out", ABOUTS["formal"])
        rows = list(load(tmp_path / "out", "copy_3", split="full", streaming=True))
        assert [row["answer"] for row in rows] == [row["bits"] for row in rows]
        assert len(rows) == 8

    def test_of_every_operation_and_language_when_none_is_named(self):
        assert [config.name for config in formal_configs()] == [
            "parity_8",
            "copy_8",
            "reverse_8",
            "majority_9",
        ]
        assert "sq_sum_p97" in [config.name for config in modular_configs()]

    def test_built_twice_the_bytes_are_the_same(self, tmp_path: Path):
        for name in ("one", "other", "other"):
            build(modular_configs(["sub_p5", "add_p5"]), tmp_path / name, ABOUTS["modular"])
        assert files(tmp_path / "one") == files(tmp_path / "other")

    @pytest.mark.parametrize(
        ("configs", "message"),
        [
            (lambda: modular_configs(["parity_8"]), "'parity_8' is built by `gmb data build form"),
            (lambda: formal_configs(["add_p7"]), "'add_p7' is built by `gmb data build modular`"),
            (lambda: formal_configs(["dihedral_5"]), "'dihedral_5' is built by `gmb data build gr"),
            (lambda: modular_configs(["ad_p7"]), "task 'ad_p7' is unknown"),
            (lambda: modular_configs(["add_p7"], op_token="one"), "op_token"),
        ],
    )
    def test_another_task_is_refused(self, configs: Callable[[], object], message: str):
        with pytest.raises(InputError, match=message):
            configs()


class TestCards:
    def test_the_fingerprint_is_of_the_rows_with_their_split(self, tmp_path: Path, load):
        card = build(modular_configs(["add_p5"], data_seed=7), tmp_path, ABOUTS["modular"])
        found = load(tmp_path, "add_p5")
        items = [{"split": split, "row": row} for split in found for row in found[split]]
        entry = header(card)["gmb_fingerprint"]["add_p5"]
        assert entry["content_hash"] == content_hash(items)
        assert entry["fingerprint"] == f"{content_hash(items)[:16]}|7|50"
        assert (entry["item_count"], entry["seed"], entry["version"]) == (50, 7, "v1")

    def test_the_hub_reads_it(self, tmp_path: Path):
        card = huggingface_hub.DatasetCard.load(
            build([numbers([1, 2]), numbers([3], name="more")], tmp_path, ABOUT)
        )
        card.validate = None  # of the Hub itself; nothing is sent
        data = card.data.to_dict()
        assert data["license"] == "cc0-1.0"
        assert [one["config_name"] for one in data["configs"]] == ["all", "more"]
        assert [one.get("default", False) for one in data["configs"]] == [True, False]
        assert "| `more` | full 1 | cc0-1.0 |" in card.text

    def test_its_keys_survive_a_push_of_another_config(self, tmp_path: Path):
        card = huggingface_hub.DatasetCard.load(build([numbers([1])], tmp_path, ABOUT))
        info = datasets.info.DatasetInfosDict({"other": datasets.DatasetInfo()})
        info.to_dataset_card_data(card.data)
        assert set(card.data.to_dict()["gmb_fingerprint"]) == {"all"}

    def test_names_that_are_no_folder_are_refused(self):
        with pytest.raises(InputError, match=r"config '\.\./x': a name has letters, digits"):
            numbers([1], name="../x")


class TestShards:
    def test_a_large_split_is_cut(self, tmp_path: Path, load, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(building, "SHARD_BYTES", 30)
        build([numbers(list(range(9)), pieces=3)], tmp_path, ABOUT)
        names = [path.name for path in sorted((tmp_path / "all").iterdir())]
        assert names == [f"full-0000{number}-of-00003.parquet" for number in range(3)]
        assert load(tmp_path, split="full")["n"][:] == list(range(9))

    def test_shards_of_an_earlier_version_go(self, tmp_path: Path, monkeypatch):
        with monkeypatch.context() as small:
            small.setattr(building, "SHARD_BYTES", 30)
            build([numbers(list(range(9)), pieces=3)], tmp_path, ABOUT)
        build([numbers(list(range(10)))], tmp_path, ABOUT, version="v2")
        assert set(files(tmp_path)) == {"README.md", "all/full-00000-of-00001.parquet"}

    def test_the_fingerprint_does_not_depend_on_them(self, tmp_path: Path, monkeypatch):
        build([numbers(list(range(9)))], tmp_path / "one", ABOUT)
        monkeypatch.setattr(building, "SHARD_BYTES", 30)
        build([numbers(list(range(9)), pieces=3)], tmp_path / "three", ABOUT)
        one, three = (
            header(tmp_path / name / "README.md")["gmb_fingerprint"]["all"]
            for name in ("one", "three")
        )
        assert one["content_hash"] == three["content_hash"]
        assert one["source_hash"] != three["source_hash"]


class TestVersions:
    def test_a_later_version_may_only_grow(self, tmp_path: Path):
        build([numbers([1, 2, 2])], tmp_path, ABOUT)
        before = files(tmp_path)
        for values, version, message in (
            ([1, 2, 2, 3], "v1", r"config 'all' is frozen as v1 with other items .* --version v2"),
            ([1, 2, 3], "v2", "1 of the 3 rows of v1 are gone or changed in v2; a frozen set may"),
        ):
            with pytest.raises(InputError, match=message):
                build([numbers(values)], tmp_path, ABOUT, version=version)
            assert files(tmp_path) == before
        card = build([numbers([2, 3, 1, 2])], tmp_path, ABOUT, version="v2")
        assert header(card)["gmb_fingerprint"]["all"]["version"] == "v2"
        with pytest.raises(InputError, match="is frozen as v2; give --version v2 and keep every"):
            build([numbers([2, 3, 1, 2])], tmp_path, ABOUT)

    def test_a_config_is_not_left_out(self, tmp_path: Path):
        build([numbers([1]), numbers([2], name="more")], tmp_path, ABOUT)
        with pytest.raises(InputError, match=r"holds config 'more' \(v1\), which is left out now"):
            build([numbers([1])], tmp_path, ABOUT)

    def test_a_version_has_a_number(self, tmp_path: Path):
        with pytest.raises(InputError, match=r"--version 'new': write v1, v2"):
            build([numbers([1])], tmp_path, ABOUT, version="new")

    def test_a_card_of_somebody_else_is_not_written_over(self, tmp_path: Path):
        (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
        with pytest.raises(InputError, match="has no gmb_fingerprint"):
            build([numbers([1])], tmp_path, ABOUT)
        assert set(files(tmp_path)) == {"README.md"}

    def test_two_at_once(self, tmp_path: Path):
        def tables() -> Iterator[pa.Table]:
            with pytest.raises(InputError, match=r"another process builds a dataset here; wait"):
                build([numbers([2], name="two")], tmp_path, ABOUT)
            yield pa.table({"n": [1]})

        first = DatasetConfig("one", {"full": tables}, "mit", "numbers")
        (tmp_path / ".building-killed").mkdir()
        build([first], tmp_path, ABOUT)
        assert set(Card.read(tmp_path).entries) == {"one"}
        assert not list(tmp_path.glob(".*"))  # neither the claim nor what was left of a kill

    def test_names_in_a_card_are_no_markup(self, tmp_path: Path):
        said = "mit | <b>x</b> [y](https://evil.example)\n---\n"
        card = build([dataclasses.replace(numbers([1]), license=said)], tmp_path, ABOUT)
        shown = r"mit \| \<b\>x\</b\> \[y\](https\://evil.example) ---"
        assert f"| {shown} |" in card.read_text()
        assert Card.read(tmp_path).header["gmb_license"] == {"all": said}

    @pytest.mark.parametrize(
        ("configs", "message"),
        [
            ([], "no configs to build"),
            ([numbers([1]), numbers([2])], "config 'all' is named twice"),
            ([numbers([], pieces=1)], "config 'all': split 'full' has no rows"),
        ],
    )
    def test_nothing_to_build(self, tmp_path: Path, configs: list[DatasetConfig], message: str):
        with pytest.raises(InputError, match=message):
            build(configs, tmp_path, ABOUT)
        assert files(tmp_path) == {}


class TestRunLogs:
    def test_they_read_back_as_they_were(self, tmp_path: Path, load, monkeypatch):
        log = synthetic_runlog(6)
        log.metadata, log.dropped_duplicates = {"task": "add_p7"}, {log.runs[1]: 3}
        log.write(tmp_path / "first" / "logs" / "a.parquet")
        monkeypatch.setattr("gmb_hf.hub.datasets._GROUP", 1)
        monkeypatch.setattr(building, "SHARD_BYTES", log.table.nbytes // 3)
        source = str(tmp_path / "first" / "logs")
        card = build(runs_configs([source], ["cc-by-4.0"]), tmp_path / "out", ABOUTS["runs"])
        assert len(list((tmp_path / "out" / "first").iterdir())) > 2
        again = RunLog.read(tmp_path / "out" / "first")
        assert again.table.equals(log.table)
        assert (again.metadata, again.dropped_duplicates) == (log.metadata, {log.runs[1]: 3})
        entry = header(card)["gmb_fingerprint"]["first"]
        assert entry["content_hash"] == log.fingerprint()
        assert (entry["item"], entry["item_count"]) == ("run", 6)
        rows = load(tmp_path / "out", "first", split="full", streaming=True)
        assert next(iter(rows))["run"] == log.runs[0]

    def test_more_runs_are_a_later_version(self, tmp_path: Path):
        log = synthetic_runlog(6)
        for count, version in ((4, "v1"), (6, "v2")):
            path = log.select(log.runs[:count]).write(tmp_path / "logs.parquet")
            build(
                runs_configs([f"a={path}"], ["mit"]),
                tmp_path / "o",
                ABOUTS["runs"],
                version=version,
            )
        held = header(tmp_path / "o" / "README.md")["gmb_fingerprint"]["a"]
        assert (held["item_count"], held["version"]) == (6, "v2")

    def test_each_source_has_its_own_licence(self, tmp_path: Path):
        mine, theirs = tmp_path / "mine.parquet", tmp_path / "theirs.parquet"
        synthetic_runlog(2).write(theirs)
        parts = [synthetic_runlog(4).select([f"seed_{seed}"]) for seed in (0, 1)]
        for version, part in enumerate(parts):
            part.metadata = {"versions": {"gmb_hf": f"0.{version}", "torch": "2"}}
        RunLog.concat(parts).write(mine)

        def licenses(*said: str) -> list[str]:
            return [config.license for config in runs_configs([str(mine), str(theirs)], said)]

        assert licenses("theirs=cc-by-4.0") == ["apache-2.0", "cc-by-4.0"]
        assert licenses("cc-by-4.0") == ["cc-by-4.0", "cc-by-4.0"]
        assert licenses("mit", "theirs=cc-by-4.0") == ["mit", "cc-by-4.0"]
        with pytest.raises(InputError, match="config 'theirs': under which licence"):
            licenses()
        with pytest.raises(InputError, match="write LICENCE, or NAME=LICENCE"):
            licenses("mit", "cc-by-4.0")
        parts[0].metadata = {}
        RunLog.concat(parts).write(mine)
        with pytest.raises(InputError, match="config 'mine': under which licence"):
            licenses("theirs=mit")

    def test_no_logs(self):
        with pytest.raises(InputError, match="no run logs are given"):
            runs_configs([])


class TestHeldOutText:
    def test_pieces_put_together_are_the_text(self, tmp_path: Path, load):
        long = "word " * 40_000
        source = tmp_path / "stories.txt"
        source.write_text(f"One.\n<|endoftext|>\n{long}<|endoftext|>\nThree.")
        texts = read_sources([f"tinystories={source}"])
        card = build(heldout_configs(texts), tmp_path / "out", ABOUTS["heldout"])
        rows = load(tmp_path / "out", "tinystories", split="test")
        assert len(rows) > 3
        documents = [""] * 3
        for row in rows:
            documents[row["document"]] += row["text"]
        assert documents == ["One.", long, "Three."]
        assert [row["text"] for row in rows] == [piece.text for piece in file_pieces(source)]
        assert sum(rows["ends_document"]) == 3
        assert header(card)["license"] == "cdla-sharing-1.0"

    def test_each_text_has_its_own_licence(self, tmp_path: Path):
        source = tmp_path / "a.txt"
        source.write_text("A text.")
        given = [f"{name}={source}" for name in ("tinystories", "wikitext2", "shakespeare", "mine")]
        configs = heldout_configs(read_sources(given), ["mine=mit"])
        found = header(build(configs, tmp_path / "out", ABOUTS["heldout"]))
        assert found["gmb_license"] == {
            "tinystories": "cdla-sharing-1.0",
            "wikitext2": "cc-by-sa-3.0",
            "shakespeare": "public-domain",
            "mine": "mit",
        }
        assert found["license"] == ["cdla-sharing-1.0", "cc-by-sa-3.0", "other", "mit"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("grün".encode("latin-1"), r"a.txt: is not UTF-8 text \(byte 2\); convert it"),
            ("text".encode("utf-16"), r"a.txt: is not UTF-8 text \(byte 0\)"),
            (b"<|endoftext|>\n", "a.txt: is empty; a text file with at least one document"),
            (b"", "a.txt: is empty; a text file with at least one document"),
        ],
    )
    def test_another_encoding_or_nothing(self, tmp_path: Path, content: bytes, message: str):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(InputError, match=message):
            build(
                heldout_configs(read_sources([f"a={tmp_path / 'a.txt'}"]), ["a=mit"]),
                tmp_path / "out",
                ABOUTS["heldout"],
            )
        assert not (tmp_path / "out").exists() or files(tmp_path / "out") == {}

    def test_a_licence_is_asked_for(self, tmp_path: Path):
        (tmp_path / "a.txt").write_text("A text.")
        texts = read_sources([f"mine={tmp_path / 'a.txt'}"])
        with pytest.raises(InputError, match="config 'mine': under which licence"):
            heldout_configs(texts)
        with pytest.raises(InputError, match="--license: config 'mien' is unknown; known: mine"):
            heldout_configs(texts, ["mien=mit"])


def test_a_card_is_plain_yaml(tmp_path: Path):
    card = build([numbers([1])], tmp_path, ABOUT)
    assert json.loads(json.dumps(header(card))) == header(card)
