"""The data of a run as a folder that `datasets.load_dataset` takes: Parquet and a card."""

from __future__ import annotations

from pathlib import Path

from gmb_hf.training.config import RunConfig
from gmb_hf.workflows.building import About, build
from gmb_hf.workflows.building_tasks import unsplit_config


def write_data(config: RunConfig, folder: Path) -> list[Path]:
    """Write every row of the task, unsplit, and a card with its fingerprint.

    The split is drawn by each run from its own seed, so it is no part of the data.

    Returns:
        The card and the Parquet file. The same config gives the same bytes.
    """
    task = config.task.build()
    share = config.task.share
    drawn_from = (
        f"seed {config.task.data_seed}" if config.task.data_seed is not None else "each run's seed"
    )
    about = About(
        task.name,
        f"All {len(task.rows())} equations `BOS a OP b EQ c EOS EOS` of {config.task.operation} "
        f"modulo {config.task.prime}.\nRuns train on {share:g} of them, drawn from {drawn_from}.",
        ("gmb", "grokking", "modular-arithmetic"),
    )
    card = build([unsplit_config(task)], folder, about)
    return [card, *sorted((folder / task.name).glob("*.parquet"))]
