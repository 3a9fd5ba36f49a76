"""An indicator, a task and a reader from outside gmb-hf, registered in pyproject.toml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv
from numpy.typing import NDArray

from gmb_hf.indicators.catalogue import Observables, register
from gmb_hf.indicators.causal import Values, log_floored
from gmb_hf.runs.columns import RawTable, Wanted
from gmb_hf.runs.readers import Reader
from gmb_hf.tasks.task import Task, Vocabulary


@register(
    "loss_ratio",
    family="dynamics",
    summary="log of the weight norm over the training loss",
    needs=("weight_norm", "train_loss"),
    source="examples/gmb_hf_plugin_example",
)
def loss_ratio(seen: Observables) -> Values:
    """Causal: column t of the result depends on columns 0..t of the observables alone."""
    return log_floored(seen["weight_norm"]) - log_floored(seen["train_loss"])


@dataclass(frozen=True)
class MaxTask(Task):
    """The larger of two numbers below 7, in rows `BOS a b EQ max(a, b)`."""

    name = "max_p7"
    vocabulary = Vocabulary(size=10, bos=7, eos=8, eq=9)
    sequence_length = 5
    answer_positions = (3,)

    def operands(self) -> dict[str, NDArray[np.int64]]:
        """Every pair, int64 [49] each."""
        a, b = np.divmod(np.arange(49), 7)
        return {"a": a, "b": b}

    def rows(self) -> NDArray[np.int64]:
        """Every pair with its answer, int64 [49, 5]."""
        a, b = self.operands().values()
        return np.stack([np.full(49, 7), a, b, np.full(49, 9), np.maximum(a, b)], axis=1)


def read_dat(paths: Sequence[Path], wanted: Wanted) -> RawTable:
    """A table whose columns are separated by single spaces."""
    options = pyarrow.csv.ParseOptions(delimiter=" ")
    return RawTable(pyarrow.csv.read_csv(paths[0], parse_options=options), str(paths[0]))


DAT = Reader((".dat",), read_dat)
