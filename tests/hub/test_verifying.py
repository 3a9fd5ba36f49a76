"""Datasets held against their card: each fault is one line, and memory does not grow."""

from __future__ import annotations

import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic import synthetic_runlog

from gmb_hf.base.errors import InputError
from gmb_hf.base.fingerprints import fingerprint
from gmb_hf.hub import datasets as building
from gmb_hf.hub.cards import Card, read_content, refuse_shrunk, verify
from gmb_hf.hub.datasets import (
    ABOUTS,
    About,
    DatasetConfig,
    build,
    modular_configs,
    runs_configs,
)
from gmb_hf.runs.runlog import RunItems


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two configs, the splits of which are cut into two shards."""
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "SHARD_BYTES", 1)
        halves = [pa.table({"n": [1, 2, 3]}), pa.table({"n": [4, 5]})]
        configs = [
            DatasetConfig(
                name, {"train": lambda: halves, "full": lambda: halves}, "mit", "numbers", 7
            )
            for name in ("one", "two")
        ]
        build(configs, folder, About("Numbers", "Whole numbers."))
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return shutil.copytree(built, tmp_path / "data")


def edit(card: Path, old: str, new: str) -> None:
    text = card.read_text()
    assert old in text
    card.write_text(text.replace(old, new, 1))


def only_fault(folder: Path) -> str:
    """The one line, which names the place."""
    faults = verify(folder).faults
    assert len(faults) == 1, faults
    assert faults[0].isprintable()
    assert faults[0].startswith(str(folder))
    return faults[0].removeprefix(str(folder)).removeprefix("/")


def test_what_was_built_is_what_its_card_says(built: Path):
    seen: list[str] = []
    report = verify(built, on_done=seen.append)
    assert report.faults == []
    assert seen == [config.name for config in report.configs] == ["one", "two"]
    assert report.configs[0].entry.item_count == 10
    assert verify(built, "two").configs == report.configs[1:]


class TestEditedCards:
    def test_a_count(self, folder: Path):
        edit(folder / "README.md", "item_count: 10", "item_count: 12")
        faults = verify(folder).faults
        assert len(faults) == 2
        assert "gmb_fingerprint.one.fingerprint is " in faults[0]
        assert "README.md: one has 10 rows, the card says 12; the card was edited" in faults[1]

    def test_a_count_with_its_fingerprint(self, folder: Path):
        edit(folder / "README.md", "item_count: 10", "item_count: 12")
        edit(folder / "README.md", "|7|10", "|7|12")
        found = only_fault(folder)
        assert found == "README.md: one has 10 rows, the card says 12; the card was edited by " + (
            "hand; build the data again"
        )

    def test_a_hash(self, folder: Path):
        known = Card.read(folder).entries["one"]
        other = "ab" * 32
        edit(folder / "README.md", known.content_hash, other)
        edit(folder / "README.md", known.fingerprint, fingerprint(other, 7, 10))
        found = only_fault(folder)
        assert f"content hash of one is {known.content_hash}, the card says {other}" in found
        assert "the files are as they were built; the card was edited by hand" in found

    def test_a_seed(self, folder: Path):
        edit(folder / "README.md", "seed: 7", "seed: 8")
        assert "which is not what content_hash, seed and item_count" in only_fault(folder)

    def test_a_number_of_rows(self, folder: Path):
        edit(folder / "README.md", "num_examples: 5", "num_examples: 6")
        found = only_fault(folder)
        assert "split 'train' of one has 5 rows, dataset_info says 6; the card was" in found

    @pytest.mark.parametrize("path", ["../*/one/train-*", "/etc/*", "linked/train-*", "."])
    def test_a_path_outside_of_the_dataset(self, folder: Path, tmp_path: Path, path: str):
        shutil.copytree(folder / "one", tmp_path / "elsewhere")
        (folder / "linked").symlink_to(tmp_path / "elsewhere")
        edit(folder / "README.md", "path: one/train-*", f"path: '{path}'")
        found = verify(folder).faults[0]
        assert "config 'one' names " in found
        assert "which is no file inside the dataset; nothing is read there" in found

    def test_configs_that_are_no_list(self, folder: Path):
        edit(folder / "README.md", "config_name: one", "name: one")
        assert "`configs:` is not a list of config_name and data_files" in verify(folder).faults[0]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("gmb_fingerprint:", "fingerprint:", "README.md: has no gmb_fingerprint; only what"),
            ("item_count: 10", "item_count: ten", r"gmb_fingerprint\.one: item_count"),
            ("version: v1", "version: new", r"gmb_fingerprint\.one: version"),
            ("item_count: 10", "items: 10", r"gmb_fingerprint\.one: .*items"),
            ("---\n", "", "has no YAML header between two lines of ---"),
            ("license: mit", "license: [mit", "README.md: line "),
        ],
    )
    def test_one_that_cannot_be_read(self, folder: Path, old: str, new: str, message: str):
        edit(folder / "README.md", old, new)
        with pytest.raises(InputError, match=message):
            verify(folder)

    def test_no_card_and_no_folder(self, folder: Path):
        (folder / "README.md").unlink()
        with pytest.raises(InputError, match="there is no card; is this folder a dataset"):
            verify(folder)
        with pytest.raises(InputError, match="there is no such folder"):
            verify(folder / "other")

    def test_an_unknown_config(self, folder: Path):
        with pytest.raises(InputError, match="config 'on' is unknown; known: one, two"):
            verify(folder, "on")


class TestDamagedFiles:
    def test_every_byte_counts(self, folder: Path):
        path = folder / "one" / "full-00001-of-00002.parquet"
        whole = path.read_bytes()
        for place in range(0, len(whole), 17):
            changed = bytearray(whole)
            changed[place] ^= 0x10
            path.write_bytes(changed)
            assert "one" in only_fault(folder), place
        path.write_bytes(whole)
        assert verify(folder).faults == []

    def test_a_changed_page_is_named_by_its_file(self, folder: Path):
        path = folder / "one" / "full-00001-of-00002.parquet"
        changed = bytearray(path.read_bytes())
        changed[60] ^= 1
        path.write_bytes(changed)
        found = only_fault(folder)
        assert found.startswith("one/full-00001-of-00002.parquet: damaged, or not a Parquet file")
        assert found.endswith("; fetch or build it again")

    @pytest.mark.parametrize("length", [0, 100])
    def test_a_truncated_file(self, folder: Path, length: int):
        path = folder / "two" / "train-00000-of-00002.parquet"
        path.write_bytes(path.read_bytes()[:length])
        assert only_fault(folder).startswith("two/train-00000-of-00002.parquet: damaged")

    @pytest.mark.parametrize("number", [0, 1])
    def test_a_missing_shard(self, folder: Path, number: int):
        name = f"full-0000{number}-of-00002.parquet"
        (folder / "one" / name).unlink()
        assert only_fault(folder) == f"one/{name}: missing; fetch or build it again"

    def test_a_missing_split(self, folder: Path):
        for path in (folder / "one").glob("full-*"):
            path.unlink()
        assert only_fault(folder) == "one: no file of split 'full' is here; fetch or build it again"

    def test_a_shard_too_many(self, folder: Path):
        shards = folder / "one"
        shutil.copy(shards / "full-00001-of-00002.parquet", shards / "full-00002-of-00003.parquet")
        assert "full-00000-of-00003.parquet: missing" in verify(folder).faults[0]

    def test_a_row_too_few(self, folder: Path):
        pq.write_table(pa.table({"n": [4]}), folder / "one" / "full-00001-of-00002.parquet")
        faults = verify(folder).faults
        assert faults[
            0
        ] == f"{folder / 'one'}: holds 9 rows, the card says 10; fetch or build it " + ("again")

    def test_another_value(self, folder: Path):
        pq.write_table(pa.table({"n": [4, 6]}), folder / "one" / "full-00001-of-00002.parquet")
        assert only_fault(folder).startswith("one: other data than the card says, content hash ")

    def test_other_columns(self, folder: Path):
        pq.write_table(pa.table({"m": [4, 5]}), folder / "one" / "full-00001-of-00002.parquet")
        assert "has other columns than the files before it" in only_fault(folder)

    def test_the_same_rows_written_anew(self, folder: Path):
        path = folder / "one" / "full-00001-of-00002.parquet"
        pq.write_table(pq.read_table(path), path, compression="none")
        assert "one: the bytes of its files are not those that were built, though" in only_fault(
            folder
        )

    def test_files_that_datasets_wrote(self, folder: Path):
        for path in (folder / "one").glob("*.parquet"):
            datasets.Dataset(pq.read_table(path)).to_parquet(path)
        report = verify(folder)
        assert report.faults == []
        assert report.configs[0].facts == (
            "one: its files were written anew by `datasets`; the items are the same",
        )

    def test_one_split_that_datasets_wrote(self, tmp_path: Path):
        two = DatasetConfig(
            "two", {split: lambda: [pa.table({"n": [1]})] for split in ("a", "b")}, "mit", ""
        )
        build([two], tmp_path, About("Two splits", "Numbers."))
        (path,) = (tmp_path / "two").glob("b-*")
        datasets.Dataset(pq.read_table(path)).to_parquet(path)
        report = verify(tmp_path)
        assert report.faults == []
        assert report.configs[0].facts == (
            "two: b was written anew by `datasets`; the items are the same",
        )


class TestRunLogs:
    def test_a_run_that_is_torn_apart(self, tmp_path: Path):
        log = synthetic_runlog(3)
        build(
            runs_configs([f"a={log.write(tmp_path / 'l.parquet')}"], ["mit"]),
            tmp_path,
            ABOUTS["runs"],
        )
        path = next((tmp_path / "a").iterdir())
        order = np.roll(np.arange(log.table.num_rows), 5)
        pq.write_table(pq.read_table(path).take(pa.array(order)), path)
        assert "the rows of run 'seed_2' do not stand together" in only_fault(tmp_path)

    def test_a_value(self, tmp_path: Path):
        log = synthetic_runlog(3)
        build(
            runs_configs([f"a={log.write(tmp_path / 'l.parquet')}"], ["mit"]),
            tmp_path,
            ABOUTS["runs"],
        )
        path = next((tmp_path / "a").iterdir())
        table = pq.read_table(path)
        column = table["test_acc"].to_numpy().copy()
        column[7] += 1e-16 + np.spacing(column[7])
        place = table.column_names.index("test_acc")
        pq.write_table(table.set_column(place, "test_acc", pa.array(column)), path)
        assert only_fault(tmp_path).startswith("a: other data than the card says, content hash ")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda table: table.drop_columns(["run"]), "column 'run' missing; found: step, "),
            (lambda table: table.append_column("step", table["step"]), "'step' stands twice"),
            (
                lambda table: table.append_column("host", table["run"]),
                "column 'host' holds string, not numbers",
            ),
        ],
    )
    def test_other_columns(self, tmp_path: Path, change, message: str):
        log = synthetic_runlog(3)
        build(
            runs_configs([f"a={log.write(tmp_path / 'l.parquet')}"], ["mit"]),
            tmp_path,
            ABOUTS["runs"],
        )
        path = next((tmp_path / "a").iterdir())
        pq.write_table(change(pq.read_table(path)), path)
        assert message in only_fault(tmp_path)


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    held: list[int] = []
    add = RunItems.add

    def watched(self: RunItems, batch: pa.RecordBatch, **options: str) -> None:
        held.append(pa.total_allocated_bytes())
        add(self, batch, **options)

    monkeypatch.setattr(RunItems, "add", watched)
    count = 100_000
    values = np.random.default_rng(0).standard_normal(count)
    path = tmp_path / "runs.parquet"
    schema = pa.schema([("run", pa.string()), ("x", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for number in range(24):
            writer.write_table(pa.table([[f"run_{number}"] * count, values], schema=schema))
    before = pa.total_allocated_bytes()
    content = read_content({"full": [path]}, "run")
    assert content.items.count == 24
    assert path.stat().st_size > 18e6
    assert max(held) - before < 4e6


def test_an_earlier_version_is_held_in_a_later_one(tmp_path: Path):
    build(modular_configs(["add_p5"]), tmp_path / "old", ABOUTS["modular"])
    build(modular_configs(["add_p5", "sub_p5"]), tmp_path / "new", ABOUTS["modular"])
    refuse_shrunk(tmp_path / "new", tmp_path / "old")
    with pytest.raises(InputError, match=r"old|new: holds config 'sub_p5' \(v1\), which is left"):
        refuse_shrunk(tmp_path / "old", tmp_path / "new")
