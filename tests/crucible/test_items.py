"""Item scores in their file, and paired tests on them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.base.stats import holm, mcnemar, paired_permutation
from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.compare import paired_tests
from gmb_hf.crucible.scores import ItemScores


@pytest.fixture
def scores(tmp_path) -> ItemScores:
    lines = [
        {"id": name, "tier": tier, "similarities": values}
        for name, tier, values in (
            ("a", "tier1_easy", [0.9, 0.1, 0.2]),
            ("b", "tier2_robust", [0.5]),
            ("c", "tier3_adversarial", [0.25, 0.75]),
        )
    ]
    path = tmp_path / "bundles.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = read_bundles(path)
    return ItemScores.of(file, file.similarities(empty="skip"), "model")


def test_what_is_written_is_read(scores, tmp_path):
    found = ItemScores.read(scores.write(tmp_path / "scores.parquet"))
    assert found.origin == scores.origin
    assert found.origin.n_skipped == 1
    assert (found.ids, found.tiers) == (("a", "c"), ("tier1_easy", "tier3_adversarial"))
    assert found.item_hashes == scores.item_hashes
    assert found.margin.tolist() == scores.margin.tolist() == [0.9 - 0.2, -0.5]
    assert found.danger.tolist() == [0.2 - 0.9, 0.5]
    assert found.ranks.strict.tolist() == [1, 2]
    assert found.ranks.n_negatives.tolist() == [2, 1]


def spoiled(scores, path, change):
    table = pq.read_table(scores.write(path))
    pq.write_table(change(table), path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop_columns("margin"), "column 'margin' is missing"),
        (lambda t: t.replace_schema_metadata(None), "holds no item scores; gmb crucible score"),
        (
            lambda t: t.set_column(1, "margin", pa.array([None, 1.0])),
            "column 'margin' must hold double, without gaps",
        ),
        (lambda t: t.set_column(2, "rank", pa.array([1.0, 2.0])), "column 'rank' must hold int64"),
        (lambda t: t.set_column(0, "id", pa.array(["a", "a"])), "id 'a' occurs more than once"),
        (
            lambda t: t.set_column(t.column_names.index("tier"), "tier", pa.array(["x", "y"])),
            "tier 'x' is unknown",
        ),
        (
            lambda t: t.set_column(0, "id", pa.array([b"a", b"\xb8"]).view(pa.string())),
            "is no Parquet file, or a damaged one; gmb crucible score writes one",
        ),
        (lambda t: t.replace_schema_metadata({"gmb_crucible": "{}"}), "encoder is required"),
        (lambda t: t.replace_schema_metadata({"gmb_crucible": "{"}), "is not JSON"),
    ],
)
def test_a_spoiled_file_is_refused(scores, tmp_path, change, message):
    path = spoiled(scores, tmp_path / "scores.parquet", change)
    with pytest.raises(InputError, match=rf"scores\.parquet: {message}"):
        ItemScores.read(path)


def test_a_flipped_bit_is_found(scores, tmp_path):
    path = scores.write(tmp_path / "scores.parquet")
    content = bytearray(path.read_bytes())
    content[content.index(np.float64(-0.5).tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="or a damaged one; gmb crucible score writes one"):
        ItemScores.read(path)


def test_files_are_aligned_by_id(scores, tmp_path):
    turned = spoiled(scores, tmp_path / "t.parquet", lambda t: t.take([1, 0]))
    other = ItemScores.read(turned)
    assert scores.margin[scores.rows_of(other)].tolist() == other.margin.tolist()
    renamed = spoiled(
        scores, tmp_path / "r.parquet", lambda t: t.set_column(0, "id", pa.array(["a", "z"]))
    )
    with pytest.raises(InputError, match="items 'z', 'c': scored in one of the two files only"):
        scores.rows_of(ItemScores.read(renamed))


def test_paired_tests_overall_and_by_tier():
    rng = np.random.default_rng(0)
    first = rng.normal(size=60)
    second = first + rng.normal(0.2, 0.5, size=60)
    tiers = ["tier1_easy"] * 40 + ["tier3_adversarial"] * 20
    found = paired_tests(first, second, tiers, permutations=199)
    assert [(test.group, test.n) for test in found] == [
        ("overall", 60),
        ("tier1_easy", 40),
        ("tier3_adversarial", 20),
    ]
    rows = [slice(None), slice(0, 40), slice(40, None)]
    for test, row in zip(found, rows, strict=True):
        assert test.mcnemar == mcnemar(first[row] > 0, second[row] > 0)
        assert test.permutation == paired_permutation(first[row], second[row], permutations=199)
    assert [test.mcnemar_adjusted for test in found] == holm(
        [test.mcnemar.p_value for test in found]
    )
    assert [test.permutation_adjusted for test in found] == holm(
        [test.permutation.p_value for test in found]
    )


def test_paired_tests_without_tiers():
    (found,) = paired_tests([0.1, -0.2], [0.2, 0.3], permutations=9)
    assert (found.group, found.n, found.mcnemar.only_second) == ("overall", 2, 1)


def test_paired_tests_refuse_what_does_not_fit():
    with pytest.raises(InputError, match="tier 'x' is unknown"):
        paired_tests([0.1], [0.2], ["x"])
    with pytest.raises(InputError, match="one number per item for both models"):
        paired_tests([0.1], [0.2, 0.3])
    with pytest.raises(InputError, match="1 items but 2 tiers"):
        paired_tests([0.1], [0.2], ["tier1_easy"] * 2)
