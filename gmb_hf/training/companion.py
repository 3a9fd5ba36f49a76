"""Who measures something of a group beside its observables, and is interrupted along with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.training.ensemble import Ensemble


class Companion(Protocol):
    """Goes along with the S seeds of an ensemble."""

    def measure(self, train_acc: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """What a checkpoint adds to the run log, each [S]; accuracies on training rows, [S]."""

    def state(self) -> dict[str, Tensor]:
        """All that it needs to go on; asked after `measure` only."""

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""

    def finish(self) -> None:
        """Write what it leaves. The log appears after it, so this may be done a second time."""


class Alone:
    """Measures, keeps and writes nothing."""

    def __init__(self, ensemble: Ensemble) -> None:
        """Of any seeds."""

    def measure(self, train_acc: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """Nothing."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Ignore."""

    def finish(self) -> None:
        """Ignore."""


@dataclass(frozen=True)
class Beside:
    """Companions of all groups of a training.

    Attributes:
        begin: makes one for an ensemble at step 0.
        about: what they do, as plain data: part of the folder's config and of the logs' metadata.
    """

    begin: Callable[[Ensemble], Companion] = Alone
    about: Mapping[str, Any] = field(default_factory=dict)
