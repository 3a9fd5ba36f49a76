"""Bundle files and embeddings: what is understood, and what is said of the rest."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from gmb_hf.base.errors import InputError
from gmb_hf.base.fingerprints import content_hash, source_hash
from gmb_hf.crucible.bundles import (
    read_arrays,
    read_bundles,
    read_vectors,
    similarities_of,
    unit_rows,
)
from gmb_hf.crucible.margins import margins

PLAIN = {"id": "a", "anchor": "two", "positive": "2", "negatives": ["3", "4"]}


def written(tmp_path, *lines) -> str:
    path = tmp_path / "bundles.jsonl"
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "negatives",
    [
        ["3", "4"],
        [{"text": "3"}, {"text": "4", "kind": "near"}],
        ["3", {"text": "4"}],
        {"near": "3", "far": "4"},
        {"near": ["3", "4"]},
        {"near": {"text": "3"}, "far": ["4"]},
    ],
)
@pytest.mark.parametrize("anchor", ["two", {"text": "two"}])
def test_forms_of_texts(tmp_path, anchor, negatives):
    line = {**PLAIN, "anchor": anchor, "negatives": negatives}
    (found,) = read_bundles(written(tmp_path, line)).bundles
    assert (found.anchor, found.positive, found.negatives) == ("two", "2", ("3", "4"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"similarities": {"positive": 0.9, "negatives": [0.5, 0.75]}}, ((0.9, 0.5, 0.75), 0)),
        ({"similarities": {"positive": 1, "negatives": {"x": 0, "y": [1]}}}, ((1.0, 0.0, 1.0), 0)),
        ({"similarities": [0.9, 0.5, 0.75]}, ((0.9, 0.5, 0.75), 0)),
        ({"similarities": [0.5, 0.9, 0.75], "positive_index": 1}, ((0.5, 0.9, 0.75), 1)),
    ],
)
@pytest.mark.parametrize("texts", [PLAIN, {"id": "a"}])
def test_forms_of_similarities(tmp_path, texts, fields, expected):
    file = read_bundles(written(tmp_path, {**texts, **fields}))
    found = file.bundles[0]
    assert (found.similarities, found.positive_index) == expected
    assert margins(file.similarities())[0] == pytest.approx(
        expected[0][expected[1]]
        - max(value for place, value in enumerate(expected[0]) if place != expected[1])
    )


def test_the_positive_may_be_an_index(tmp_path):
    file = read_bundles(written(tmp_path, {"similarities": [0.1, 0.2, 0.9], "positive": 2}))
    assert margins(file.similarities()).tolist() == [pytest.approx(0.7)]


def test_ids_are_lines_where_there_are_none(tmp_path):
    bare = {key: value for key, value in PLAIN.items() if key != "id"}
    file = read_bundles(written(tmp_path, bare, "", {**bare, "id": 7}))
    assert file.ids == ("1", "7")
    assert [bundle.line for bundle in file.bundles] == [1, 3]


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    path = tmp_path / "marked.jsonl"
    path.write_text(json.dumps(PLAIN), encoding="utf-8-sig")
    assert read_bundles(path).ids == ("a",)


def test_hashes_of_a_file(tmp_path):
    other = {**PLAIN, "id": "b", "source": {"page": 3}}
    path = written(tmp_path, PLAIN, other)
    file = read_bundles(path)
    assert file.source_hash == source_hash(path)
    assert file.content_hash == content_hash([PLAIN, other])
    path = written(tmp_path, json.dumps(other, indent=None, sort_keys=True), "  ", PLAIN)
    again = read_bundles(path)
    assert again.content_hash == file.content_hash
    assert again.source_hash != file.source_hash


def test_similarities_are_no_part_of_the_data(tmp_path):
    one = read_bundles(written(tmp_path, {**PLAIN, "similarities": [0.1, 0.2, 0.3]}))
    other = read_bundles(written(tmp_path, {**PLAIN, "similarities": [0.3, 0.2, 0.1]}))
    assert one.content_hash == other.content_hash == content_hash([PLAIN])


def test_similarities_are_all_there_is_without_text_and_id(tmp_path):
    one = read_bundles(written(tmp_path, {"similarities": [0.1, 0.2]}))
    other = read_bundles(written(tmp_path, {"similarities": [0.2, 0.1]}))
    assert one.content_hash != other.content_hash


def test_tiers_are_all_or_none(tmp_path):
    tiered = {**PLAIN, "tier": "tier1_easy"}
    assert read_bundles(written(tmp_path, PLAIN)).tiers is None
    assert read_bundles(written(tmp_path, tiered)).tiers == ("tier1_easy",)
    file = read_bundles(written(tmp_path, tiered, {**PLAIN, "id": "b"}))
    with pytest.raises(InputError, match=r"bundles.jsonl:2: item 'b' has no tier, others have"):
        _ = file.tiers


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "is not JSON: "),
        ("anchor", "is not JSON: Expecting value"),
        ("[1]", r"a bundle is a JSON object, got \[1\]"),
        ('{"id": 1, "id": 2}', "key 'id' is given twice"),
        ('{"similarities": [NaN, 1]}', "NaN is no number"),
        ("[" * 100_000, "nested too deeply|is not JSON"),
        ({**PLAIN, "id": "a"}, "id 'a' is that of line 1 already"),
        ({**PLAIN, "id": ["x"]}, r"id must be text or a whole number, got \['x'\]"),
        ({**PLAIN, "id": "b", "tier": "tier1"}, "tier 'tier1' is unknown.*'tier1_easy'"),
        ({**PLAIN, "id": "b", "tier": 1}, "tier '1' is unknown"),
        ({**PLAIN, "anchor": 3}, "anchor must be text or an object with 'text', got 3"),
        ({**PLAIN, "anchor": {"txt": "x"}}, "anchor must be text or an object with 'text'"),
        ({**PLAIN, "positive": None}, "positive must be text or an object with 'text', got None"),
        ({**PLAIN, "negatives": "3"}, "negatives must be a list of texts or a mapping"),
        ({**PLAIN, "negatives": {"text": "3"}}, "negatives must be a list of texts or a mapping"),
        ({**PLAIN, "negatives": ["3", 4]}, r"negatives\[1\] must be text or an object"),
        ({**PLAIN, "negatives": {"near": 4}}, r"negatives\['near'\] must be text or an object"),
        ({"anchor": "x", "positive": "y", "negative": ["z"]}, "no 'negatives'.*Is 'negative' mean"),
        ({"text": "x"}, "no 'anchor', and no 'similarities'.*found: 'text'"),
        ({}, "no 'anchor', and no 'similarities'.*found: nothing"),
        ({"similarities": 3}, "similarities must be a list of numbers or an object"),
        ({"similarities": {"positive": 1}}, "need 'positive' and 'negatives'"),
        ({"similarities": {"positive": 1, "negatives": 2}}, "negatives' similarities must be a li"),
        ({"similarities": [1, "x"]}, "a similarity must be a number, got 'x'"),
        ({"similarities": [1, 10**400]}, "the integer 10+... has 401 digits"),
        ({"similarities": [1, None]}, "a similarity must be a number, got None"),
        ({"similarities": [1, 2], "positive_index": 2}, "said to be at 2, but there are 2 simil"),
        ({"similarities": [1, 2], "positive_index": 0.5}, "positive_index must be a whole number"),
        ({**PLAIN, "id": "b", "similarities": [1, 2]}, "2 similarities for 3 candidates"),
        (
            {
                **PLAIN,
                "id": "b",
                "negatives": {"near": "3", "far": "9"},
                "similarities": {"positive": 1, "negatives": {"near": 0.5, "fra": 0.1}},
            },
            "name others: 'far', 'fra' in one of the two only",
        ),
        ({**PLAIN, "id": "b", "note": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_a_line_that_is_not_understood(tmp_path, line, message):
    with pytest.raises(InputError, match=rf"bundles\.jsonl:2: .*({message})") as caught:
        read_bundles(written(tmp_path, PLAIN, line))
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: there is no such file"):
        read_bundles(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="this is a folder"):
        read_bundles(tmp_path)
    with pytest.raises(InputError, match="holds no bundles"):
        read_bundles(written(tmp_path, ""))
    path = tmp_path / "latin.jsonl"
    path.write_bytes(b'{"anchor": "\xe9"}\n')
    with pytest.raises(InputError, match=r"latin\.jsonl:1: is not UTF-8 text \(byte 12"):
        read_bundles(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (PLAIN, "item 'a' has no similarities; add them, or give embeddings or an encoder"),
        ({"id": "a", "similarities": [1]}, "item 'a': no negatives"),
        ({"id": "a", "similarities": [1, 1e400]}, "item 'a': a similarity is missing or not fini"),
    ],
)
def test_similarities_that_are_none(tmp_path, line, message):
    text = json.dumps(line).replace("Infinity", "1e400")
    with pytest.raises(InputError, match=message):
        read_bundles(written(tmp_path, text)).similarities()


THREE = [
    PLAIN,
    {"id": "b", "anchor": "x", "positive": "y", "negatives": ["z"]},
    {"id": "c", "anchor": "x", "positive": "y", "negatives": []},
]


def rows_of(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(9, 5)).astype(np.float32)


def test_embeddings_give_cosines_item_by_item(tmp_path):
    file = read_bundles(written(tmp_path, *THREE))
    rows = rows_of()
    np.save(tmp_path / "rows.npy", rows)
    save_file({"embeddings": rows}, tmp_path / "rows.safetensors")
    parts = {"anchor": rows[[0, 4, 7]], "positive": rows[[1, 5, 8]], "negatives": rows[[2, 3, 6]]}
    save_file(parts, tmp_path / "parts.safetensors")
    expected = [
        float(one @ other / np.sqrt((one @ one) * (other @ other)))
        for anchor, others in ((0, (1, 2, 3)), (4, (5, 6)))
        for one, other in (
            (rows[anchor].astype(float), rows[place].astype(float)) for place in others
        )
    ]
    for name in ("rows.npy", "rows.safetensors", "parts.safetensors"):
        vectors = read_vectors(tmp_path / name, file)
        found = similarities_of(file, vectors, empty="skip")
        assert found.n_skipped == 1
        assert found.ids == ("a", "b")
        assert found.values == pytest.approx(expected, abs=1e-14)


def test_long_and_short_vectors_have_a_direction():
    long, short = unit_rows([[3e200, 4e200], [3e-200, 4e-200]], ["a", "b"])
    assert long == pytest.approx([0.6, 0.8])
    assert short == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("wrong", [0.0, np.nan, np.inf])
def test_a_vector_without_direction_names_its_item(tmp_path, wrong):
    file = read_bundles(written(tmp_path, *THREE[:2]))
    rows = rows_of()[:7]
    rows[6] = wrong
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(InputError, match=r"^item 'b': an embedding is zero or not finite"):
        similarities_of(file, read_vectors(tmp_path / "rows.npy", file))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"embeddings": rows_of()[:5]}, r"needs 9 rows .* got an array of shape \(5, 5\)"),
        ({"vectors": rows_of()}, "holds vectors; expected anchor, positive and negatives"),
        ({"embeddings": rows_of() > 0}, "embeddings holds bool, not numbers"),
    ],
)
def test_arrays_that_are_no_embeddings(tmp_path, arrays, message):
    file = read_bundles(written(tmp_path, *THREE))
    save_file(arrays, tmp_path / "rows.safetensors")
    with pytest.raises(InputError, match=message):
        read_vectors(tmp_path / "rows.safetensors", file)


def test_roles_with_too_few_rows(tmp_path):
    file = read_bundles(written(tmp_path, *THREE))
    rows = rows_of()
    parts = {"anchor": rows[:3], "positive": rows[:2], "negatives": rows[:3]}
    save_file(parts, tmp_path / "parts.safetensors")
    with pytest.raises(InputError, match=r"needs 3 positive embeddings, got .* \(2, 5\)"):
        similarities_of(file, read_vectors(tmp_path / "parts.safetensors", file))


def test_roles_of_different_widths_and_types(tmp_path):
    file = read_bundles(written(tmp_path, *THREE))
    rows = rows_of()
    parts = {"anchor": rows[:3], "positive": rows[:3], "negatives": rows[:3, :4].copy()}
    save_file(parts, tmp_path / "parts.safetensors")
    with pytest.raises(InputError, match="differ in width: anchors 5, candidates 4"):
        read_vectors(tmp_path / "parts.safetensors", file)
    parts["negatives"] = rows[:3].astype(np.float16)
    save_file(parts, tmp_path / "parts.safetensors")
    found = read_vectors(tmp_path / "parts.safetensors", file)
    assert np.array_equal(found.positives, rows[:3])


def test_files_that_hold_no_arrays(tmp_path):
    for name in ("x.npy", "x.safetensors"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match=r"could not be read as \.") as caught:
            read_arrays(tmp_path / name)
        assert "\n" not in str(caught.value)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"could not be read as \.npy"):
        read_arrays(tmp_path / "objects.npy")
    (tmp_path / "x.pt").touch()
    with pytest.raises(InputError, match=r"embeddings come as \.npy or \.safetensors"):
        read_arrays(tmp_path / "x.pt")
    with pytest.raises(InputError, match="there is no such file"):
        read_arrays(tmp_path / "none.npy")
