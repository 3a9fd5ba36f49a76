"""The real texts: what is written in docs/heldout.md of their bytes, and the order it reports."""

from __future__ import annotations

import json
import lzma
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmb_hf.tasks.text import Tally, TextFile, unigram_score

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
FILES = {
    "tinystories": "tinystories_validation",
    "shakespeare": "tinyshakespeare",
    "wikitext2": "wikitext2_test",
}
BASELINE = "byte frequencies of tinystories"


def reported() -> dict[tuple[str, str], dict[str, float]]:
    """The rows of the table in the documentation, by text and model."""
    page = (ROOT / "docs" / "heldout.md").read_text(encoding="utf-8")
    lines = [line for line in page.splitlines() if re.match(r"\| (text|\w+) +\| ", line)]
    head, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    assert head[:5] == ["text", "model", "loss", "perplexity", "bits_per_byte"]
    return {
        (text, model): dict(
            zip(head[2:], (float(cell.replace(",", "")) for cell in cells), strict=True)
        )
        for text, model, *cells in rows
        if text in FILES
    }


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[str, Any]]:
    """Bytes, documents, content hash and byte counts of the four corpora."""
    found: dict[str, dict[str, Any]] = json.loads((DATA / "text_counts.json").read_text())
    return found


def test_the_model_beats_its_baseline_and_orders_the_texts_as_published():
    rows = reported()
    own = [rows[text, "byte"] for text in FILES]
    assert [row["loss"] for row in own] == sorted(row["loss"] for row in own)
    for text, row in zip(FILES, own, strict=True):
        assert row["bits_per_byte"] < rows[text, BASELINE]["bits_per_byte"]


@pytest.mark.parametrize("text", FILES)
def test_the_baseline_is_that_of_the_real_bytes(text: str, counts: dict[str, dict[str, Any]]):
    held_out = counts[FILES[text]]
    trained_on = np.array(counts["tinystories_train"]["byte_counts"])
    score = unigram_score(trained_on, np.array(held_out["byte_counts"]), held_out["documents"])
    row = reported()[text, BASELINE]
    assert row["loss"] == pytest.approx(score.loss, abs=5e-4)
    assert row["bits_per_byte"] == pytest.approx(score.bits_per_byte, abs=5e-4)
    assert (row["bytes"], row["documents"]) == (score.n_bytes, score.documents)
    # The model predicts the end of every document as well.
    assert reported()[text, "byte"]["tokens"] == score.n_bytes + score.documents


def test_the_bytes_of_a_real_text_are_counted(tmp_path: Path, counts: dict[str, dict[str, Any]]):
    path = tmp_path / "tinyshakespeare.txt"
    path.write_bytes(lzma.decompress((DATA / "tinyshakespeare.txt.xz").read_bytes()))
    tally = Tally()
    for _ in tally.through(TextFile("shakespeare", path).pieces()):
        pass
    found = {**tally.to_dict(), "byte_counts": tally.byte_counts.tolist()}
    assert found == counts["tinyshakespeare"]
