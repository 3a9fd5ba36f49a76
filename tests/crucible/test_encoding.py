"""Encoders: through a stand-in always, through sentence-transformers where it is installed."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gmb_hf.crucible.margins import summarize
from gmb_hf.validation import InputError
from gmb_hf.workflows.crucible_scoring import score_bundles
from gmb_hf.workflows.encoding import Encoder

WORDS = ["two", "three", "2", "3", "4", "5"]


class StandIn:
    """A model of two dimensions that keeps what it was asked."""

    asked: list[list[str]] = []  # noqa: RUF012

    def __init__(self, name: str) -> None:
        if name.endswith("unknown"):
            raise OSError(f"{name} is not a model\nsecond line")

    def encode(self, texts, **_):
        StandIn.asked.append(list(texts))
        angles = [0.1 * len(text) + ord(text[0]) for text in texts]
        return np.array([[np.cos(angle), np.sin(angle)] for angle in angles], dtype=np.float32)


@pytest.fixture
def stand_in(monkeypatch):
    StandIn.asked = []
    module = SimpleNamespace(SentenceTransformer=StandIn)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


def bundles(tmp_path, negatives=1):
    lines = [
        {"id": "a", "anchor": "two", "positive": "2", "negatives": ["3", "4"][:negatives]},
        {"id": "b", "anchor": "three", "positive": "3", "negatives": ["2", "5"][:negatives]},
    ]
    path = tmp_path / "bundles.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_each_distinct_text_is_encoded_once(stand_in, tmp_path, monkeypatch):
    monkeypatch.setattr("gmb_hf.workflows.encoding._BATCH", 4)
    seen = []
    scores = score_bundles(bundles(tmp_path, 2), encoder="name", on_done=seen.append)
    assert sorted(text for batch in StandIn.asked for text in batch) == sorted(WORDS)
    assert seen == ["4 of 6 texts", "6 of 6 texts"]
    assert scores.origin.encoder == "name"

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
    with pytest.raises(InputError, match=r"'\./nowhere' cannot be found: there is no such folder"):
        Encoder("./nowhere")


def test_without_sentence_transformers_the_way_to_install_it_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(InputError, match=r"pip install 'gmb-hf\[encoders\]'; or give --embeddings"):
        Encoder("org/model")


def test_pass_rate_is_the_triplet_accuracy_of_sentence_transformers(tmp_path):
    library = pytest.importorskip("sentence_transformers", reason="an extra: gmb-hf[encoders]")
    from sentence_transformers.sentence_transformer.evaluation import TripletEvaluator
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(300)]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = rng.normal(size=(300, 8)).astype(np.float32)
    model = library.SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=vectors)], device="cpu"
    )
    model.save(str(tmp_path / "model"))
    triples = rng.choice(words, size=(100, 3))
    path = tmp_path / "bundles.jsonl"
    path.write_text(
        "".join(
            json.dumps({"anchor": a, "positive": p, "negatives": [n]}) + "\n"
            for a, p, n in triples.tolist()
        )
    )
    scores = score_bundles(path, encoder=str(tmp_path / "model"))
    evaluator = TripletEvaluator(*(column.tolist() for column in triples.T))
    theirs = evaluator(model)["cosine_accuracy"]
    assert 0.2 < theirs < 0.8
    assert summarize(scores.margin).pass_rate == pytest.approx(theirs)
