"""Tables that a tracker exported: told by the names of their columns, whatever the file's format.

An export is turned into what every other table is: a row per run and step, the tracker's own
book-keeping set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gmb_hf.runs.raw import RawTable, Wanted
from gmb_hf.runs.readers import trackio_export, wandb_export


class Export(NamedTuple):
    """One tracker's way to export.

    Attributes:
        recognises: whether columns of these names are its.
        adapt: its table as a table of runs and steps.
    """

    recognises: Callable[[Sequence[str]], bool]
    adapt: Callable[[RawTable, Wanted], RawTable]


EXPORTS = (
    Export(wandb_export.is_chart, wandb_export.from_chart),
    Export(wandb_export.is_history, wandb_export.from_history),
    Export(trackio_export.is_trackio, trackio_export.from_trackio),
)


def is_export(names: Sequence[str]) -> bool:
    """Whether a tracker exported a table with these columns; all of them are then read."""
    return any(export.recognises(names) for export in EXPORTS)


def adapt(raw: RawTable, wanted: Wanted) -> RawTable:
    """The table of runs and steps behind an export; any other table as it is."""
    for export in EXPORTS:
        if export.recognises(raw.names):
            return export.adapt(raw, wanted)
    return raw
