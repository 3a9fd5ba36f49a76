"""Texts by name: files, known sets of the Hub, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.text import DOMAINS, HubText, TextFile, described, read_sources


@pytest.fixture
def story(tmp_path: Path) -> Path:
    path = tmp_path / "story.txt"
    path.write_text("Once.<|endoftext|>Twice.", encoding="utf-8")
    return path


def test_a_file_under_a_name(story: Path):
    (text,) = read_sources([f"tales={story}"])
    assert isinstance(text, TextFile)
    assert [piece.text for piece in text.pieces()] == ["Once.", "Twice."]
    assert [piece.text for piece in text.pieces()] == ["Once.", "Twice."], "read only once"
    assert described([text]) == [{"name": "tales", "source": str(story)}]


def test_known_sets_have_splits_to_train_on_and_to_hold_out():
    learned = [name for name in DOMAINS if name != "lambada"]
    train = read_sources(learned, held_out=False)
    held = read_sources(list(DOMAINS))
    assert [text.source for text in train if isinstance(text, HubText)] == [
        "roneneldan/TinyStories:train",
        "karpathy/tiny_shakespeare:train",
        "Salesforce/wikitext:wikitext-2-raw-v1:train",
        "Salesforce/wikitext:wikitext-103-raw-v1:train",
        "ptb-text-only/ptb_text_only:penn_treebank:train",
    ]
    assert [text.source for text in held] == [
        "roneneldan/TinyStories:validation",
        "karpathy/tiny_shakespeare:train:validation:test",
        "Salesforce/wikitext:wikitext-2-raw-v1:test",
        "Salesforce/wikitext:wikitext-103-raw-v1:test",
        "ptb-text-only/ptb_text_only:penn_treebank:test",
        "EleutherAI/lambada_openai:default:test",
    ]
    with pytest.raises(InputError, match="lambada: is for evaluation only"):
        read_sources(["lambada"], held_out=False)


def test_rows_of_the_hub_are_documents_or_lines_of_one(monkeypatch: pytest.MonkeyPatch):
    asked: list[Any] = []

    def load_dataset(repository: str, config: str | None, **options: Any) -> Iterator[Any]:
        asked.append((repository, config, options))
        return iter([{"text": "a\n"}, {"text": "<|endoftext|>\n"}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    stories, articles = read_sources(["tinystories", "wikitext2"])
    # A separator in a row is text: rows are documents already.
    assert [piece.text for piece in stories.pieces()] == ["a\n", "<|endoftext|>\n"]
    assert [piece.text for piece in articles.pieces()] == ["a\n<|endoftext|>\n"]
    assert asked[0] == (
        "roneneldan/TinyStories",
        None,
        {"split": "validation", "streaming": True},
    )


def test_sentences_without_line_breaks_are_lines_of_one_document(monkeypatch: pytest.MonkeyPatch):
    rows = [{"sentence": "no it was n't"}, {"sentence": "<unk> said N"}]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: iter(rows))
    (text,) = read_sources(["ptb"])
    (piece,) = text.pieces()
    assert (piece.text, piece.ends_document) == ("no it was n't\n<unk> said N\n", True)


def test_a_dataset_that_is_a_script_is_read_as_the_hub_keeps_it(monkeypatch: pytest.MonkeyPatch):
    def load_dataset(*_: Any, revision: str | None = None, **__: Any) -> Iterator[Any]:
        if revision is None:
            raise RuntimeError("Dataset scripts are no longer supported, but found x.py")
        return iter([{"text": revision}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (text,) = read_sources(["shakespeare"], held_out=False)
    assert [piece.text for piece in text.pieces()] == ["refs/convert/parquet"]


def test_without_a_network_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch):
    def unreachable(*_: Any, **__: Any) -> None:
        raise ConnectionError("Couldn't reach the Hub\nand a long trace")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    (text,) = read_sources(["tinystories"])
    with pytest.raises(InputError) as caught:
        list(text.pieces())
    assert str(caught.value) == (
        "roneneldan/TinyStories:validation: could not be read from the Hub (Couldn't reach the "
        "Hub); give a local file: tinystories=FILE"
    )


def test_what_is_refused(story: Path, tmp_path: Path):
    empty = tmp_path / "empty.txt"
    empty.touch()
    for given, message in [
        ([], "--text: no text is given; write NAME=FILE, or tinystories, shakespeare, wikitext2"),
        (["tinystory"], "text 'tinystory' is unknown.*Did you mean 'tinystories'.*tinystory=FILE"),
        ([str(story)], f"give the file a name, e.g. story={story}"),
        (["=x"], "write it as NAME=FILE"),
        (["x="], "write it as NAME=FILE"),
        ([f"a={story}", f"a={story}"], "the name 'a' is given twice"),
        ([f"a={tmp_path}/none.txt"], "none.txt: there is no such file"),
        ([f"a={tmp_path}"], "this is a folder"),
        ([f"a={empty}"], "empty.txt: is empty"),
    ]:
        with pytest.raises(InputError, match=message):
            read_sources(given)
