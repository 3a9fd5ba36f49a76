"""Binary shards in the format of llm.c: a header of 256 int32, then uint16 tokens.

Both are little-endian. The header holds the magic number 20240520, the version 1 and the number
of tokens; the rest is 0. This is what the generators of the evaluation protocol write, and the
files here are equal to theirs byte for byte.
"""

from __future__ import annotations

import filecmp
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import atomic_path, clear_os_errors, read_bytes
from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import random_stream, train_rows

MAGIC = 20240520
VERSION = 1
HEADER_INTS = 256
HEADER_BYTES = 4 * HEADER_INTS


def write_shard(path: str | Path, tokens: ArrayLike) -> Path:
    """Write token ids in [0, 65536), of any shape, in C order, atomically, and return the path.

    Raises:
        InputError: an id does not fit into 16 bits, there is none, or the file cannot be written.
    """
    ids = np.asarray(tokens).reshape(-1)
    if ids.size and not np.issubdtype(ids.dtype, np.integer):
        raise InputError(f"{path}: tokens must be whole numbers, got {ids.dtype}")
    stream_shard(path, [ids])
    return Path(path)


def stream_shard(path: str | Path, parts: Iterable[NDArray[np.integer[Any]]]) -> int:
    """Write token ids in [0, 65536) that come in parts, atomically and in constant memory.

    Returns the number of tokens, which the header states.

    Raises:
        InputError: an id does not fit into 16 bits, there is none, the file cannot be written, or
            it is there and holds other tokens.
    """
    count = 0
    with clear_os_errors(path), atomic_path(path) as temporary:
        with temporary.open("wb") as file:
            file.write(_header(0))
            for ids in parts:
                low, high = (ids.min(), ids.max()) if ids.size else (0, 0)
                if low < 0 or high > 0xFFFF:
                    must = f"a shard holds ids from 0 to 65535, got {low} to {high}"
                    raise InputError(f"{path}: {must}")
                file.write(ids.astype("<u2").tobytes())
                count += ids.size
            if not count:
                raise InputError(f"{path}: there is no token to write")
            file.seek(0)
            file.write(_header(count))
        if Path(path).is_file() and not filecmp.cmp(path, temporary, shallow=False):
            raise _holds_others(path)
    return count


def _holds_others(path: str | Path) -> InputError:
    what = "is there already and holds something else, which is not replaced"
    return InputError.at(path, "exists", f"{what}; choose another folder with --out, or remove it")


def _header(tokens: int) -> bytes:
    header = np.zeros(HEADER_INTS, dtype="<i4")
    header[:3] = MAGIC, VERSION, tokens
    return header.tobytes()


def read_shard(path: str | Path) -> NDArray[np.uint16]:
    """The token ids of a shard, uint16 [n].

    Raises:
        InputError: the file is missing, is no such shard, or is not whole; the reason is named.
    """
    path = Path(path)
    try:
        content = read_bytes(path)
    except InputError as error:
        if error.code != "no_such_file":
            raise
        raise InputError(f"{path}: no such file; write one with `gmb data export`") from error
    magic = int.from_bytes(content[:4], "little")
    if len(content) >= 4 and magic != MAGIC:
        raise InputError(f"{path}: not a token shard: it starts with {magic}, a shard with {MAGIC}")
    body = len(content) - HEADER_BYTES
    if body < 0:
        fault = f"truncated: {len(content)} bytes, the header alone takes {HEADER_BYTES}"
        raise InputError(f"{path}: {fault}; export it again")
    version, count = (int(v) for v in np.frombuffer(content, dtype="<i4", count=3)[1:])
    if version != VERSION:
        raise InputError(f"{path}: shard version {version} is unknown; this reads {VERSION}")
    fault = ""
    if body % 2:
        fault = f"{body} bytes of tokens, an odd number, where each takes two"
    elif count != body // 2:
        fault = "truncated" if count > body // 2 else "longer than its header says"
        fault += f": the header names {count} tokens, the file holds {body // 2}"
    if fault:
        raise InputError(f"{path}: {fault}; export it again")
    return np.frombuffer(content, dtype="<u2", offset=HEADER_BYTES).astype(np.uint16)


def export_shards(
    task_name: str,
    prime: int | None = None,
    seed: int = 42,
    out: str | Path = ".",
    *,
    fraction: float = 0.5,
    op_token: str = "shared",
) -> tuple[Path, Path]:
    """Write a task's `train.bin` and `val.bin` and return their paths.

    The recipe is the protocol's: one random stream of `seed` permutes the rows, the first part is
    for training, and the same stream then shuffles each part in place, training first.

    Args:
        task_name, prime: as `get_task` takes them, e.g. `modular_add`, `add_p97`, `parity_8`.
        seed: the data seed, in [0, 2**32).
        out: the folder to write to.
        fraction: the share of rows to train on, or as an int their number.
        op_token: `shared`, the protocol's, or `distinct`; formal languages have no such token.

    Raises:
        InputError: an unknown task, a bad argument, or the files cannot be written; the folder
            holds the shards of another task, seed or split.
    """
    task = get_task(task_name, prime=prime)
    if isinstance(task, ModularTask):
        task = replace(task, op_token=op_token)
    rows = task.rows()
    count = train_rows(len(rows), fraction)
    stream = random_stream(seed)
    order = stream.permutation(len(rows))
    train, val = rows[order[:count]], rows[order[count:]]
    stream.shuffle(train)
    stream.shuffle(val)
    shards = {Path(out) / "train.bin": train, Path(out) / "val.bin": val}
    for path, tokens in shards.items():  # before the first of them is written
        content = _header(tokens.size) + tokens.astype("<u2").tobytes()
        if path.is_dir() or (path.is_file() and path.read_bytes() != content):
            raise _holds_others(path)
    first, second = (write_shard(path, tokens) for path, tokens in shards.items())
    return first, second
