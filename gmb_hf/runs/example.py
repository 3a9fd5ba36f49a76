"""Finished trainings that ship with the package, as somebody's own logs, to try commands on."""

from __future__ import annotations

import io
from pathlib import Path

from gmb_hf.base.errors import InputError
from gmb_hf.base.files import write_text
from gmb_hf.runs.runlog import RunLog

COLUMNS = ("step", "train_acc", "test_acc", "unembedding_gini")


def example() -> RunLog:
    """96 runs of a small transformer that learns subtraction modulo 29; see `COLUMNS`.

    They are no runs of any panel: `gmb train --preset quick --seeds 800000:800096` made them.
    """
    return RunLog.read(Path(__file__).with_name("example.parquet"))


def write_example(folder: str | Path) -> list[Path]:
    """Write the runs of `example` as CSV files, one a run; returns the files.

    Raises:
        InputError: the folder holds CSV files, which would be mixed with these.
    """
    place = Path(folder)
    if any(place.glob("*.csv")):
        raise InputError(f"{place}: holds CSV files already; choose another --out")
    log, paths = example(), []
    for number, run in enumerate(log.runs, start=1):
        text = io.StringIO()
        table = log.select([run]).table.select(list(COLUMNS))
        table.to_pandas().to_csv(text, index=False, lineterminator="\n")
        paths.append(write_text(place / f"run_{number:02}.csv", text.getvalue()))
    return paths
