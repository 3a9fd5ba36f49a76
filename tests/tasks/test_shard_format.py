"""Binary shards: round trip, recipe, and files that are refused with a reason."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.shards import export_shards, read_shard, write_shard


def test_the_bytes_of_a_shard_by_hand(tmp_path):
    path = write_shard(tmp_path / "new" / "x.bin", [1, 258, 65535])
    content = path.read_bytes()
    assert content[:12] == bytes.fromhex("88d83401 01000000 03000000")
    assert content[12:1024] == bytes(1012)
    assert content[1024:] == bytes.fromhex("0100 0201 ffff")


@given(tokens=st.lists(st.integers(0, 65535), min_size=1))
def test_what_is_written_is_read_back(tokens, tmp_path_factory):
    path = tmp_path_factory.mktemp("shard") / "x.bin"
    back = read_shard(write_shard(path, tokens))
    assert back.dtype == np.uint16
    assert back.tolist() == tokens


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "there is no token to write"),
        ([0, 65536], "ids from 0 to 65535, got 0 to 65536"),
        ([-1, 3], "ids from 0 to 65535, got -1 to 3"),
        ([0.5], "tokens must be whole numbers, got float64"),
    ],
)
def test_tokens_that_cannot_be_written(tmp_path, tokens, message):
    with pytest.raises(InputError, match=message):
        write_shard(tmp_path / "x.bin", tokens)
    assert list(tmp_path.iterdir()) == []


def damaged(tmp_path, change):
    path = write_shard(tmp_path / "x.bin", range(100))
    content = bytearray(path.read_bytes())
    path.write_bytes(bytes(change(content)))
    return path


def with_header(position, value):
    def change(content):
        content[4 * position : 4 * position + 4] = value.to_bytes(4, "little")
        return content

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: b"", "truncated: 0 bytes, the header alone takes 1024"),
        (lambda content: content[:500], "truncated: 500 bytes, the header alone takes 1024"),
        (lambda content: content[:1100], "truncated: the header names 100 tokens, .* holds 38"),
        (lambda content: content[:1024], "truncated: the header names 100 tokens, .* holds 0"),
        (lambda content: content[:1101], "77 bytes of tokens, an odd number"),
        (lambda content: content + b"ab", "longer than its header says.* 100 .* holds 101"),
        (with_header(0, 20240801), "not a token shard: it starts with 20240801"),
        (lambda content: b"PAR1" + content, "not a token shard"),
        (with_header(1, 7), "shard version 7 is unknown; this reads 1"),
        (with_header(2, 2**31 + 5), "longer than its header says: the header names -"),
    ],
)
def test_damaged_and_foreign_files(tmp_path, change, message):
    path = damaged(tmp_path, change)
    with pytest.raises(InputError, match=message) as caught:
        read_shard(path)
    assert str(path) in str(caught.value)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match=r"none.bin: no such file; write one with"):
        read_shard(tmp_path / "none.bin")
    with pytest.raises(InputError, match="this is a folder"):
        read_shard(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = write_shard(tmp_path / "x.bin", [1, 2, 3])
    with pytest.raises(InputError, match="ids from 0 to 65535"):
        write_shard(path, [70000])
    assert read_shard(path).tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="could not be written"):
        write_shard(path / "below" / "y.bin", [1])


@pytest.mark.parametrize("name", ["modular_mul", "div_p7", "reverse_4", "majority_5"])
def test_an_export_holds_the_rows_of_the_split(tmp_path, name):
    prime = 7 if name == "modular_mul" else None
    train, val = export_shards(name, prime=prime, seed=11, out=tmp_path)
    assert (train.name, val.name) == ("train.bin", "val.bin")
    options = {} if prime is None and "div" not in name else {"op_token": "shared"}
    task = get_task(name, prime=prime, **options)
    rows = task.rows()
    for path, index in zip((train, val), task.split(0.5, 11), strict=True):
        written = read_shard(path).reshape(-1, rows.shape[1])
        assert not np.array_equal(written, rows[index])  # the shuffle within the part
        assert sorted(map(tuple, written.tolist())) == sorted(map(tuple, rows[index].tolist()))


def test_another_export_does_not_replace_the_shards_in_a_folder(tmp_path):
    train, val = export_shards("add_p7", out=tmp_path)
    held = train.read_bytes(), val.read_bytes()
    assert export_shards("add_p7", out=tmp_path) == (train, val)  # the same bytes
    for other in ({"task_name": "sub_p7"}, {"task_name": "add_p7", "seed": 1}):
        with pytest.raises(
            InputError, match=r"train.bin: is there already and holds something else.*--out"
        ):
            export_shards(**other, out=tmp_path)
    train.unlink()
    with pytest.raises(InputError, match=r"val.bin: is there already and holds something else"):
        export_shards("sub_p7", out=tmp_path)
    assert not train.exists()
    assert val.read_bytes() == held[1]
    with pytest.raises(InputError, match=r"val.bin: is there already and holds something else"):
        write_shard(val, [1, 2])


def test_an_export_with_distinct_tokens(tmp_path):
    train, _ = export_shards("sub_p7", out=tmp_path, fraction=20, op_token="distinct")
    written = read_shard(train).reshape(20, 8)
    assert (written[:, 2] == 11).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task_name": "modular_adds"}, "Did you mean 'modular_add'"),
        ({"task_name": "modular_add", "prime": 8}, "must be a prime number, got 8; 7 is one"),
        ({"task_name": "parity_8", "prime": 7}, "takes no prime"),
        ({"task_name": "parity_8", "seed": -1}, "data_seed must be a whole number"),
        ({"task_name": "parity_8", "fraction": 1.0}, r"fraction must be a number in \(0, 1\)"),
        ({"task_name": "add_p7", "op_token": "x"}, "op_token 'x' is unknown"),
    ],
)
def test_bad_exports_write_nothing(tmp_path, arguments, message):
    with pytest.raises(InputError, match=message):
        export_shards(**arguments, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
