"""Documents in pieces: however a text is cut, its documents, bytes and hash are the same."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.text import Piece, Tally, file_pieces, pieces


def documents(stream: Iterable[Piece]) -> list[str]:
    found, open_text = [], ""
    for piece in stream:
        open_text += piece.text
        if piece.ends_document:
            found.append(open_text)
            open_text = ""
    assert not open_text, "the last document does not end"
    return found


def chunks(text: str, size: int) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def test_documents_lie_between_separators():
    text = "One.\n<|endoftext|>\nTwo\n\nlines.\n<|endoftext|>\n\n<|endoftext|>\nThree\n"
    assert documents(pieces([text])) == ["One.", "Two\n\nlines.", "Three\n"]


def test_a_text_without_separators_is_one_document_as_it_stands():
    assert documents(pieces(["\n a\n", "b \r\n"])) == ["\n a\nb \r\n"]
    assert documents(pieces(["a<|endoftext|>b"], None)) == ["a<|endoftext|>b"]


def test_another_separator():
    assert documents(pieces(["a\n##\nb"], "##")) == ["a", "b"]
    with pytest.raises(InputError, match="the separator of documents is empty"):
        list(pieces(["a"], ""))


@given(
    words=st.lists(st.sampled_from(["ab", " ", "\n", "é", "#", "##", "\r\n"]), max_size=60),
    size=st.integers(1, 7),
    limit=st.integers(8, 30),
)
def test_neither_chunks_nor_limits_change_the_documents(words: list[str], size: int, limit: int):
    text = "".join(words)
    whole = documents(pieces([text], "##", limit=10**6))
    # Line breaks that fill a piece are text; these here are fewer.
    cut = documents(pieces(chunks(text, size), "##", limit=10**6))
    assert cut == whole
    small = list(pieces(chunks(text.replace("\n", "x"), size), "##", limit=limit))
    assert documents(small) == documents(pieces([text.replace("\n", "x")], "##"))
    assert all(len(piece.text) <= 2 * limit + 2 for piece in small)


def test_a_long_document_is_cut_before_white_space():
    text = "word " * 100
    found = list(pieces([text], limit=32))
    assert len(found) > 5
    assert "".join(piece.text for piece in found) == text
    assert all(piece.text[0] == " " for piece in found[1:])
    assert [piece.ends_document for piece in found] == [False] * (len(found) - 1) + [True]


def test_a_document_longer_than_memory_is_streamed(tmp_path: Path):
    path = tmp_path / "long.txt"
    with path.open("wb") as file:
        for _ in range(40):
            file.write(b"x" * (1 << 20))
    tracemalloc.start()
    tally = Tally()
    for _ in tally.through(file_pieces(path)):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tally.n_bytes, tally.documents) == (40 << 20, 1)
    assert peak < 4 << 20


def test_bytes_documents_and_hash_are_counted(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffé<|endoftext|>\nab".encode())
    tally = Tally()
    assert documents(tally.through(file_pieces(path))) == ["é", "ab"]
    assert (tally.n_bytes, tally.documents) == (4, 2)
    expected = np.bincount(np.frombuffer("éab".encode(), dtype=np.uint8), minlength=256)
    assert tally.byte_counts.tolist() == expected.tolist()
    again, other = Tally(), Tally()
    list(again.through([Piece("é", False), Piece("", True), Piece("ab", True)]))
    list(other.through([Piece("éa", True), Piece("b", True)]))
    assert again.content_hash == tally.content_hash != other.content_hash
    assert tally.to_dict()["bytes"] == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; a text file with at least one document is needed"),
        (b"\n<|endoftext|>\n", "is empty"),
        (b"Jos\xe9 au lait", r"is not UTF-8 text \(byte 3\); convert it, e.g. iconv -f LATIN1"),
        (b"x" * 70000 + b"\xff", r"is not UTF-8 text \(byte 70000\)"),
        (b"x" * 65535 + "é".encode()[:1], r"is not UTF-8 text \(byte 65535\)"),
        ("Once".encode("utf-16"), r"is not UTF-8 text \(byte 0\); .* iconv -f UTF-16"),
        ("Once".encode("utf-16-le"), r"is not UTF-8 text \(byte 1\); .* iconv -f UTF-16"),
    ],
)
def test_a_bad_file_is_one_clear_line(tmp_path: Path, content: bytes, message: str):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(file_pieces(path))
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(InputError, match="there is no such file"):
        list(file_pieces(tmp_path / "none.txt"))
    with pytest.raises(InputError, match="this is a folder"):
        list(file_pieces(tmp_path))


def test_a_character_on_the_edge_of_two_reads_is_whole(tmp_path: Path):
    text = "x" * 65535 + "é€" + "y" * 10
    path = tmp_path / "edge.txt"
    path.write_text(text, encoding="utf-8")
    assert documents(file_pieces(path)) == [text]
