"""A score computed outside gmb-hf: how far the output layer has become sparse again.

    python examples/my_score/my_score.py panel:quick-29 --out my_score.parquet

`unembedding_gini` is the Gini coefficient of the output layer's Fourier power: it falls while the
training rows are memorised, and rises when a few frequencies begin to encode the answer. The score
is this rise above the least mean of three checkpoints so far. It reads no held-out label.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa

from gmb_hf import RunLog
from gmb_hf.hub.sources import read_runs

COLUMN, NEWEST = "unembedding_gini", 3  # checkpoints


def my_score(gini: np.ndarray) -> np.ndarray:
    """The score at every checkpoint of one run, float64 [T].

    It is causal: entry t is computed from gini[: t + 1] alone.
    """
    means = [gini[max(0, t - NEWEST + 1) : t + 1].mean() for t in range(len(gini))]
    return gini - np.minimum.accumulate(means)


def score_runs(log: RunLog) -> RunLog:
    """The score of every run and checkpoint of a log, as a log with the column `my_score`."""
    panel = log.panel(COLUMN)
    scores = [my_score(panel.values[row, here]) for row, here in enumerate(panel.present)]
    table = log.table.select(["run", "step"])
    return RunLog.from_table(table.append_column("my_score", pa.array(np.concatenate(scores))))


def main() -> None:
    """Score the given runs, explore and held-out runs alike."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", help="panel:NAME, or files of run logs")
    parser.add_argument("--out", type=Path, default=Path("my_score.parquet"))
    given = parser.parse_args()
    scored = score_runs(read_runs(given.runs))
    scored.write(given.out)
    print(f"wrote {given.out}: {scored}")


if __name__ == "__main__":
    main()
