"""A kept model to a repository of the Hub: weights, log, card and pictures in one commit."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gmb_hf.benchmark.results import Results
from gmb_hf.hub.publish import Pushed, publish
from gmb_hf.workflows.kept_models import read_kept
from gmb_hf.workflows.model_card import write_model_card

_OF_A_MODEL = {".json", ".safetensors", ".py", ".parquet"}  # no stray file is published


def push_model(
    folder: str | Path, repo_id: str, *, results: str | Path | None = None, private: bool = False
) -> Pushed:
    """Publish a checkpoint that `--save-models` left, if its weights are those of its log.

    Args:
        folder: the checkpoint.
        repo_id: ORG/NAME.
        results: a results file for the table of verdicts.
        private: make a new repository private.

    Raises:
        InputError: as `read_kept`, `write_model_card` and `publish`.
    """
    kept = read_kept(folder)
    judged = None if results is None else Results.read(results)
    with tempfile.TemporaryDirectory() as workshop:
        card = write_model_card(kept, workshop, results=judged, place=repo_id)
        files: dict[str, Path | bytes] = {
            path.name: path
            for path in sorted(kept.folder.iterdir())
            if path.is_file() and path.suffix in _OF_A_MODEL and not path.name.startswith(".")
        }
        files |= {path.name: path for path in card}
        message = f"Model of seed {kept.seed}, {kept.config.task.name}"
        return publish(files, repo_id, "model", message=message, private=private)
