"""What weights, their updates and windows of their snapshots show, for all seeds at once."""

from __future__ import annotations

import torch
from torch import Tensor

from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.observables import norm
from gmb_hf.training.recorders import Checkpoint, Recorder


class Spectra(Recorder):
    """Records what weights and updates show; it reads no row."""

    def __init__(self, ensemble: Ensemble) -> None:
        # Drawn from the seeds, so that a training that goes on has them again.
        self._initial = {name: w.detach().clone() for name, w in ensemble.weights.items()}

    def measure(self, now: Checkpoint) -> dict[str, Tensor]:
        moved = {name: w - self._initial[name] for name, w in now.weights.items()}
        largest = [change.flatten(1).abs().amax(1) for change in moved.values()]
        return {
            "initial_distance": norm(moved.values()),
            "initial_distance_max": torch.stack(largest).amax(0),
        }
