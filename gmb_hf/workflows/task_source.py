"""The rows of a task, from a dataset of the Hub."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gmb_hf.hub.addresses import Address
from gmb_hf.validation import InputError
from gmb_hf.workflows.hub_sources import about
from gmb_hf.workflows.pulling import pull_configs

if TYPE_CHECKING:
    from gmb_hf.training.settings import TaskSettings

_SPLIT = "full"


def data_source(text: str, settings: TaskSettings) -> dict[str, Any]:
    """`pull_task` as the metadata of the logs that are trained on it have it."""
    return about("data", [pull_task(text, settings)])


def pull_task(text: str, settings: TaskSettings) -> dict[str, str]:
    """Fetch the rows of a task and hold them against those that are about to be trained on.

    A run draws its own split from the rows of `full`, by their places; they are the task's own, in
    its order, or the dataset is refused.

    Args:
        text: `ORG/NAME@REV`; the config is the one with the task's name, unless `/CONFIG` follows.
        settings: of the task.

    Returns:
        Where they came from: repository, commit, config, fingerprint.

    Raises:
        InputError: as `pull_configs`, or the rows are those of another task; both fingerprints are
            named.
    """
    task = settings.build()
    address = Address.parse(text, option="--data")
    (config,) = pull_configs(replace(address, config=address.config or task.name))
    where = f"--data {address}: config {config.name!r}"
    if _SPLIT not in config.files:
        raise InputError(f"{where} has no split {_SPLIT!r}, from which runs draw their own")
    table = pa.concat_tables(
        pq.read_table(path, columns=["input_ids"]) for path in config.files[_SPLIT]
    )
    try:
        rows = np.array(table["input_ids"].to_pylist(), dtype=np.int64)
    except ValueError:
        raise InputError(f"{where} has rows of several lengths; it is another task") from None
    found, own = task.fingerprint_of(rows), task.fingerprint()
    if found != own:
        raise InputError(
            f"{where} is another task than {settings.name}: its rows have the fingerprint {found}, "
            f"that task's {own}; build it with --op-token {settings.op_token}, or change --set"
        )
    return config.source
