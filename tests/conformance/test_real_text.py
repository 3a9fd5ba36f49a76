"""The real texts: what is written in docs/heldout.md of their bytes, and the order it reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gmb_hf.tasks.text import Tally, TextFile, unigram_score

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT.parent / "shared" / "data" / "text"
FILES = {
    "tinystories": "tinystories_validation.txt",
    "shakespeare": "tinyshakespeare.txt",
    "wikitext2": "wikitext2_test.txt",
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


def counted(name: str) -> Tally:
    tally = Tally()
    for _ in tally.through(TextFile(name, TEXTS / name).pieces()):
        pass
    return tally


def test_the_model_beats_its_baseline_and_orders_the_texts_as_published():
    rows = reported()
    own = [rows[text, "byte"] for text in FILES]
    assert [row["loss"] for row in own] == sorted(row["loss"] for row in own)
    for text, row in zip(FILES, own, strict=True):
        assert row["bits_per_byte"] < rows[text, BASELINE]["bits_per_byte"]


@pytest.mark.parametrize("text", FILES)
def test_the_baseline_is_that_of_the_real_bytes(text: str):
    if not TEXTS.is_dir():
        pytest.skip(f"the real texts are not at {TEXTS}")
    tally = counted(FILES[text])
    trained_on = counted("tinystories_train.txt").byte_counts
    score = unigram_score(trained_on, tally.byte_counts, tally.documents)
    row = reported()[text, BASELINE]
    assert row["loss"] == pytest.approx(score.loss, abs=5e-4)
    assert row["bits_per_byte"] == pytest.approx(score.bits_per_byte, abs=5e-4)
    assert (row["bytes"], row["documents"]) == (score.n_bytes, score.documents)
    # The model predicts the end of every document as well.
    assert reported()[text, "byte"]["tokens"] == score.n_bytes + score.documents
