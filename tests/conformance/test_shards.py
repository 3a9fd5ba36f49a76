"""All eight tasks of the evaluation protocol as shards, against the published hashes.

Four hashes are published with the recipe; the other four tasks follow it. Those are compared with
the recipe written out here token by token, which also reproduces the published four.
"""

import hashlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from gmb_hf.tasks.shards import export_shards, read_shard

PUBLISHED = Path(__file__).resolve().parents[1] / "data" / "shards.json"
PUBLISHED_TASKS = ("modular_add", "modular_mul", "parity_8", "copy_8")
OTHER_TASKS = ("modular_sub", "modular_sq_sum", "reverse_8", "majority_9")
P = 97


def recipe_rows(task):
    kind, _, which = task.partition("_")
    if kind == "modular":
        rule = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "sq_sum": lambda a, b: a**2 + b**2,
        }[which]
        return [
            [P + 2, a, P, b, P + 1, rule(a, b) % P, P + 3, P + 3]
            for a in range(P)
            for b in range(P)
        ]
    answer = {
        "parity": lambda bits: [98, sum(bits) % 2],
        "majority": lambda bits: [98, int(sum(bits) > len(bits) / 2)],
        "copy": lambda bits: [97, *bits],
        "reverse": lambda bits: [97, *reversed(bits)],
    }[kind]
    rows = [[99, *bits, *answer(bits)] for bits in itertools.product((0, 1), repeat=int(which))]
    return [row + [100] * (20 - len(row)) for row in rows]


def recipe_bytes(task):
    rows = np.array(recipe_rows(task))
    stream = np.random.RandomState(42)
    order = stream.permutation(len(rows))
    cut = int(len(rows) * 0.5)
    parts = rows[order[:cut]], rows[order[cut:]]
    for part in parts:
        stream.shuffle(part)
        header = np.zeros(256, dtype=np.int32)
        header[:3] = 20240520, 1, part.size
        yield header.tobytes() + part.astype(np.uint16).tobytes()


@pytest.mark.parametrize("task", PUBLISHED_TASKS)
def test_published_hashes(task, tmp_path):
    published = json.loads(PUBLISHED.read_text())[task]
    prime = P if task.startswith("modular") else None
    paths = export_shards(task, prime=prime, seed=42, out=tmp_path)
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    assert found == published


@pytest.mark.parametrize("task", PUBLISHED_TASKS + OTHER_TASKS)
def test_every_task_follows_the_recipe(task, tmp_path):
    paths = export_shards(task, seed=42, out=tmp_path)
    for path, expected in zip(paths, recipe_bytes(task), strict=True):
        assert path.read_bytes() == expected


@pytest.mark.parametrize(
    ("task", "n_train", "n_val"),
    [("modular_sub", 4704, 4705), ("reverse_8", 128, 128), ("majority_9", 256, 256)],
)
def test_sizes_of_the_protocols_table(task, n_train, n_val, tmp_path):
    length = 8 if task.startswith("modular") else 20
    train, val = export_shards(task, seed=42, out=tmp_path)
    assert len(read_shard(train)) == n_train * length
    assert len(read_shard(val)) == n_val * length
