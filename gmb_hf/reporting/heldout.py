"""Predictions of held-out text as a table: a row for each model and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.files import write_text
from gmb_hf.reporting import escape
from gmb_hf.reporting.tables import Column, Table
from gmb_hf.tasks.text_scores import TextScore


@dataclass(frozen=True)
class Scored:
    """One model on one text.

    Attributes:
        model, text: their names.
        score: of the prediction.
        is_baseline: whether the model is byte frequencies.
    """

    model: str
    text: str
    score: TextScore
    is_baseline: bool = False


def heldout_table(rows: Sequence[Scored]) -> Table:
    """The table; CSV holds every digit."""
    columns = (
        Column("text", align="l"),
        Column("model", align="l"),
        Column("loss", escape.number),
        Column("perplexity", _perplexity),
        Column("bits_per_byte", escape.number),
        Column("tokens", escape.steps),
        Column("bytes", escape.steps),
        Column("documents", escape.steps),
    )
    cells = tuple(
        (
            row.text,
            row.model,
            row.score.loss,
            row.score.perplexity,
            row.score.bits_per_byte,
            row.score.tokens,
            row.score.n_bytes,
            row.score.documents,
        )
        for row in rows
    )
    caption = "Held-out text: loss in nats per token, perplexity, bits per byte"
    return Table("heldout", caption, columns, cells)


def write_heldout_table(rows: Sequence[Scored], folder: Path) -> list[Path]:
    """Write `heldout.csv`, `.md` and `.tex` into the folder."""
    table = heldout_table(rows)
    texts = {"csv": table.to_csv(), "md": table.to_markdown(), "tex": table.to_latex()}
    return [write_text(folder / f"heldout.{suffix}", text) for suffix, text in texts.items()]


def _perplexity(value: float) -> str:
    return escape.number(value, 3 if value < 100 else 0)
