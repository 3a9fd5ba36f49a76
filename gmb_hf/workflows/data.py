"""The data of a run as a folder that `datasets.load_dataset` takes: Parquet and a card."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from gmb_hf._version import __version__
from gmb_hf.files import atomic_path, write_text
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
    card = (
        f"---\n{yaml.safe_dump(header, sort_keys=False)}---\n\n# {task.name}\n\n"
        f"All {len(rows)} equations `BOS a OP b EQ c EOS EOS` of {config.task.operation} modulo "
        f"{config.task.prime}.\nRuns train on {share:g} of them, drawn from {split}.\n\n"
        "```python\nfrom datasets import load_dataset\n\n"
        f'rows = load_dataset("data", "{task.name}", split="full")  # this folder\n```\n\n'
        f"Made by gmb-hf {__version__}; the fingerprint is the SHA-256 of the rows' content.\n"
    )
    return [write_text(folder / "README.md", card), parquet]
