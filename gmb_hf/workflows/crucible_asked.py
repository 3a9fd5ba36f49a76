"""Models that were asked bundles of equations: what is written of their answers.

OUT/bundles.jsonl      the held-out bundles, with their similarities
OUT/scores.parquet     margin, rank and tier of each of them
OUT/scoreboard.json    their sum, by tier
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmb_hf.crucible.bundles import read_bundles
from gmb_hf.crucible.items import ItemScores
from gmb_hf.crucible.scoreboard import Scoreboard
from gmb_hf.files import write_text
from gmb_hf.validation import InputError
from gmb_hf.workflows.crucible_parts import jsonl
from gmb_hf.workflows.crucible_scoring import scoreboard_of

if TYPE_CHECKING:
    from gmb_hf.training.config import RunConfig
    from gmb_hf.workflows.crucible_drawing import Drawing


@dataclass(frozen=True)
class Asked:
    """What was written.

    Attributes:
        scores: of the bundles.
        board: their sum.
        paths: scoreboard, scores and bundles.
    """

    scores: ItemScores
    board: Scoreboard
    paths: tuple[Path, ...]


def write_asked(
    folder: Path,
    lines: Sequence[dict[str, Any]],
    seed: int,
    encoder: str,
    *,
    labels: Sequence[str] | None = None,
) -> Asked:
    """Bundles, scores and scoreboard; the tiers stay out of the bundles, whose hash is the data's.

    Two models asked about the same equations have one content hash, and can be compared.

    Args:
        folder: where to.
        lines: bundles with similarities.
        seed: of their drawing.
        encoder: who answered.
        labels: tier of each bundle.
    """
    path = write_text(folder / "bundles.jsonl", jsonl(lines))
    file = read_bundles(path)
    scores = ItemScores.of(file, file.similarities(), encoder)
    if labels is not None:
        scores = dataclasses.replace(scores, tiers=tuple(labels))
    table, target = scores.write(folder / "scores.parquet"), folder / "scoreboard.json"
    board = scoreboard_of(table, target, version="1", seed=seed)
    return Asked(scores, board, (target, table, path))


def ask_model(
    model: str | Path, config: RunConfig, seed: int, out: str | Path, *, drawing: Drawing
) -> Asked:
    """Bundles of a saved model, without a history.

    Args:
        model: folder of a `GrokkingTransformerForCausalLM`.
        config: its `task` says what the model was trained on.
        seed: of the run, which says what was held out.
        out: a folder.
        drawing: how many bundles, of how many negatives, drawn by which seed.

    Raises:
        InputError: no such model, or one of another vocabulary.
    """
    import torch

    from gmb_hf.crucible.equations import bundle_lines
    from gmb_hf.training.ensemble import task_data
    from gmb_hf.training.hidden_states import cosines, model_hidden
    from gmb_hf.workflows.crucible_drawing import held_out_texts
    from gmb_hf.workflows.saved_models import load_model

    task, data = config.task, task_data(config.task, seed)
    loaded = load_model(model)
    held, needed = loaded.config.vocab_size, data.vocab_size
    if held != needed:
        raise InputError(
            f"{model}: has {held} tokens, but {task.name} needs {needed}; say what it was trained "
            "on, e.g. --set task.prime=97 --set task.operation=add"
        )
    bundles = drawing.held_out(data, task.data_seed_of(seed))
    rows = torch.from_numpy(data.input_ids[data.test_index])
    hidden = model_hidden(loaded, rows, data.answer_positions[0])
    anchors, candidates = (torch.from_numpy(one) for one in (bundles.anchors, bundles.candidates))
    found = cosines(hidden[None], anchors[None], candidates[None])[0].double().numpy()
    lines = list(bundle_lines(bundles, held_out_texts(task, data), found, prefix=f"seed_{seed}"))
    return write_asked(Path(out), lines, drawing.seed, str(model))
