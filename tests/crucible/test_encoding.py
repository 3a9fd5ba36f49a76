"""Encoders: through a stand-in always, through sentence-transformers where it is installed."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.base.pretrained import ModelSource, find_encoder
from gmb_hf.cli import main
from gmb_hf.crucible.margins import margin_stats
from gmb_hf.crucible.mining import MiningSettings, mine_files
from gmb_hf.crucible.scores import Encoder, ItemScores, score_bundles

WORDS = ["two", "three", "2", "3", "4", "5"]


class StandIn:
    """A model of two dimensions that keeps what it was asked."""

    asked: list[list[str]] = []  # noqa: RUF012

    def __init__(self, name: str, **_: object) -> None:
        if name.endswith("unknown"):
            raise OSError(f"{name} is not a model\nsecond line")

    def encode(self, texts, **_):
        StandIn.asked.append(list(texts))
        angles = [0.1 * len(text) + ord(text[0]) for text in texts]
        return np.array([[np.cos(angle), np.sin(angle)] for angle in angles], dtype=np.float32)


@pytest.fixture
def stand_in(monkeypatch):
    StandIn.asked = []
    module = SimpleNamespace(SentenceTransformer=StandIn, __spec__="a spec")
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr("gmb_hf.crucible.scores._hub_obstacle", lambda: None)

    def found(place: str, **_: object) -> ModelSource:
        return ModelSource(place, Path(place), f"{place}@c0ffee")

    monkeypatch.setattr("gmb_hf.crucible.scores.find_encoder", found)


def bundles(tmp_path, negatives=1):
    lines = [
        {"id": "a", "anchor": "two", "positive": "2", "negatives": ["3", "4"][:negatives]},
        {"id": "b", "anchor": "three", "positive": "3", "negatives": ["2", "5"][:negatives]},
    ]
    path = tmp_path / "bundles.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_each_distinct_text_is_encoded_once(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr("gmb_hf.crucible.scores._BATCH", 4)
    seen = []
    scores = score_bundles(bundles(tmp_path, 2), encoder="name", on_done=seen.append)
    assert sorted(text for batch in StandIn.asked for text in batch) == sorted(WORDS)
    assert seen == ["4 of 6 texts", "6 of 6 texts"]
    assert scores.origin.encoder == "name"
    assert scores.origin.identity == "sentence-transformers/name@c0ffee"

    def angle(text: str) -> float:
        return 0.1 * len(text) + ord(text[0])

    def near(one: str, other: str) -> float:
        return float(np.cos(angle(one) - angle(other)))

    expected = [
        near("two", "2") - max(near("two", "3"), near("two", "4")),
        near("three", "3") - max(near("three", "2"), near("three", "5")),
    ]
    assert scores.margin == pytest.approx(expected, abs=1e-6)


def test_an_unknown_model_is_one_clear_line(stand_in):
    with pytest.raises(InputError, match=r"^encoder 'org/unknown' cannot be found") as caught:
        Encoder("org/unknown")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "~/nowhere at all", "a/b/c", "", " "])
def test_what_can_only_be_a_folder_is_not_asked_of_the_hub(stand_in, monkeypatch, name):
    monkeypatch.setattr("gmb_hf.crucible.scores._hub_obstacle", lambda: pytest.fail("asked"))
    with pytest.raises(InputError, match="cannot be found: there is no such folder") as caught:
        Encoder(name)
    assert repr(name) in str(caught.value)


def test_a_file_is_no_model(stand_in, tmp_path):
    (tmp_path / "model").write_text("")
    with pytest.raises(InputError, match="this is a file; give the folder of a saved model"):
        Encoder(str(tmp_path / "model"))


def test_the_hub_is_tried_once(tmp_path, monkeypatch):
    from huggingface_hub import constants

    # No one listens on the port of the discard service.
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    begun = time.monotonic()
    for name in ("org/model", "all-MiniLM-L6-v2", "no name"):
        with pytest.raises(
            InputError, match="it was never downloaded, and the Hub cannot be reached"
        ):
            Encoder(name)
    assert time.monotonic() - begun < 10  # the client alone would try for a minute, each time


def test_a_model_that_was_downloaded_needs_no_hub(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    cached = tmp_path / "models--org--model"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    make_model(cached / "snapshots" / ("0" * 40))
    model = Encoder("org/model")
    assert model.encode(["w1", "w2"]).shape == (2, 8)
    assert model.identity == "org/model@" + "0" * 40
    assert Encoder(f"org/model@{'0' * 40}").identity == model.identity


def test_without_sentence_transformers_the_way_to_install_it_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"pip install 'gmb-hf\[encoders\]'; or give --embeddings"):
        Encoder("org/model")


WORDS_KNOWN = [f"w{number}" for number in range(300)]


def make_model(folder):
    """Save a model of 300 words with a random vector each, and return it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    places = {word: place for place, word in enumerate(WORDS_KNOWN)}
    tokenizer = Tokenizer(models.WordLevel(places, WORDS_KNOWN[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    module = StaticEmbedding(tokenizer, embedding_weights=vectors)
    model = SentenceTransformer(modules=[module], device="cpu")
    model.save(str(folder))
    return model


def test_pass_rate_is_the_triplet_accuracy_of_sentence_transformers(tmp_path):
    from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator

    model = make_model(tmp_path / "model")
    triples = np.random.default_rng(1).choice(WORDS_KNOWN, size=(100, 3))
    path = tmp_path / "bundles.jsonl"
    path.write_text(
        "".join(
            json.dumps({"anchor": a, "positive": p, "negatives": [n]}) + "\n"
            for a, p, n in triples.tolist()
        )
    )
    evaluator = TripletEvaluator(*(column.tolist() for column in triples.T))
    theirs = evaluator(model)["cosine_accuracy"]
    assert 0.2 < theirs < 0.8
    # As it is typed.
    out = tmp_path / "scores.parquet"
    typed = ["crucible", "score", path, "--encoder", tmp_path / "model", "--out", out]
    assert main([str(word) for word in typed]) == 0
    scores = ItemScores.read(out)
    assert scores.origin.encoder == str(tmp_path / "model")
    assert scores.origin.identity == find_encoder(str(tmp_path / "model")).identity
    assert margin_stats(scores.margin).pass_rate == pytest.approx(theirs)


def test_a_threshold_is_of_the_same_encoder(stand_in, tmp_path):
    scores = score_bundles(bundles(tmp_path), encoder="org/other").write(tmp_path / "o.parquet")
    (tmp_path / "pool.jsonl").write_text('"x"\n"yy"\n')
    arguments = (tmp_path / "bundles.jsonl", tmp_path / "pool.jsonl", tmp_path / "mined")
    with pytest.raises(InputError, match=r"made by org/other@c0ffee, candidates are encoded by o"):
        mine_files(*arguments, settings=MiningSettings(), encoder="org/name", organic=scores)
