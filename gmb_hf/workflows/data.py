"""The data of a run as a folder that `datasets.load_dataset` takes: Parquet and a card."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.files import atomic_path, write_text
from gmb_hf.hub.cards import render_card
from gmb_hf.training.config import RunConfig


def write_data(config: RunConfig, folder: Path) -> list[Path]:
    """Write every row of the task, unsplit, and a card with its content fingerprint.

    The split is drawn by each run from its own seed, so it is no part of the data.

    Returns:
        The card and the Parquet file. The same config gives the same bytes.
    """
    task = config.task.build()
    rows = task.rows()
    columns = {
        "input_ids": pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1]),
        **{name: pa.array(values) for name, values in task.operands().items()},
        "answer": pa.array(task.answers()[:, 0]),
    }
    parquet = folder / task.name / "full.parquet"
    with atomic_path(parquet) as temporary:
        pq.write_table(pa.table(columns), temporary)
    share = config.task.share
    split = (
        f"seed {config.task.data_seed}" if config.task.data_seed is not None else "each run's seed"
    )
    header = {
        "license": "apache-2.0",
        "tags": ["grokking", "gmb", "modular-arithmetic"],
        "configs": [
            {
                "config_name": task.name,
                "default": True,
                "data_files": [{"split": "full", "path": f"{task.name}/full.parquet"}],
            }
        ],
        "gmb_fingerprint": {task.name: task.fingerprint()},
    }
    card = render_card(
        "dataset",
        header,
        task=task.name,
        rows=len(rows),
        operation=config.task.operation,
        prime=config.task.prime,
        share=f"{share:g}",
        drawn_from=split,
    )
    return [write_text(folder / "README.md", card), parquet]
