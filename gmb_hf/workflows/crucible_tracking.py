"""The same bundles asked of every seed at every checkpoint, and the tiers that come of it.

Tiers are frozen at a seed's first checkpoint after memorisation. There the model knows its rows and
not yet the rule, so that tier3 is what memorising leaves hardest, and what it does later shows
whether the rule reached it. Fitted at the last checkpoint a tier would hold what failed there, and
say nothing. A seed that never memorises is fitted at its last checkpoint.

Shapes: S seeds, N bundles of K negatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.crucible.equations import (
    EquationBundles,
    bundle_lines,
    margins_of,
    track,
)
from gmb_hf.crucible.tiers import HARDEST, EmptyTierWarning, Tiers, assign_tiers, fit_tiers
from gmb_hf.fingerprints import content_hash
from gmb_hf.training.ensemble import Ensemble, task_data
from gmb_hf.training.hidden_states import answer_hidden, cosines
from gmb_hf.training.progress import MEMORISED
from gmb_hf.workflows.crucible_drawing import Drawing, held_out_texts
from gmb_hf.workflows.crucible_parts import write_part

TIER3_RATE = "crucible_tier3_pass_rate"
TRAIN_Q10 = "crucible_train_margin_q10"


class Tracker:
    """Asks the seeds of an ensemble; a `Companion` of their training.

    Args:
        ensemble: S seeds.
        drawing: what they are asked.
        folder: where the parts of the seeds go, `crucible_parts`.
    """

    def __init__(self, ensemble: Ensemble, drawing: Drawing, folder: Path) -> None:
        self._ensemble, self._folder = ensemble, folder
        task = ensemble.config.task
        drawn = [(task.data_seed_of(seed), task_data(task, seed)) for seed in ensemble.seeds]
        self._held_out = [drawing.held_out(data, number) for number, data in drawn]
        training = [drawing.training(data, number) for number, data in drawn]
        self._places = _places(self._held_out, ensemble.device)
        self._training_places = _places(training, ensemble.device)
        self._texts = [held_out_texts(task, data) for _, data in drawn]
        shape = len(ensemble), drawing.bundles
        self._similarities = np.empty((*shape, 1 + drawing.negatives))
        self._tiers: list[Tiers | None] = [None] * len(ensemble)
        self._labels = np.full(shape, "", dtype="<U32")
        # What the tiers come of: the step at which they were frozen, -1 before, and the margins.
        self._frozen_step = np.full(len(ensemble), -1)
        self._frozen_margin = np.zeros(shape)

    def measure(self, train_acc: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """What the checkpoint adds to the run log, each [S].

        Args:
            train_acc: accuracies on training rows, [S].
        """
        ensemble = self._ensemble
        self._similarities = _cosines(answer_hidden(ensemble, ensemble.test), self._places)
        training = _cosines(answer_hidden(ensemble, ensemble.train), self._training_places)
        margin = margins_of(self._similarities)
        for place in np.flatnonzero((train_acc >= MEMORISED) & (self._frozen_step < 0)).tolist():
            self._freeze(place, margin[place], ensemble.step)
        return {
            **track(self._similarities),
            TRAIN_Q10: track(training)["crucible_margin_q10"],
            TIER3_RATE: self._tier3(margin),
        }

    def state(self) -> dict[str, Tensor]:
        """The last answers, and what the tiers come of."""
        return {
            "similarities": torch.from_numpy(self._similarities),
            "frozen_step": torch.from_numpy(self._frozen_step),
            "frozen_margin": torch.from_numpy(self._frozen_margin),
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""
        self._similarities = tensors["similarities"].numpy()
        margin = tensors["frozen_margin"].numpy()
        for place, step in enumerate(tensors["frozen_step"].tolist()):
            if step >= 0:
                self._freeze(place, margin[place], step)

    def finish(self) -> None:
        """Give tiers to the seeds that never memorised, and write the part of each seed."""
        for place, seed in enumerate(self._ensemble.seeds):
            tiers = self._tiers[place]
            if tiers is None:
                margin = margins_of(self._similarities[place])
                when = f"not memorised, step {self._ensemble.step}"
                tiers = self._fit(place, margin, when)
            write_part(self._folder, seed, self._lines(place), self._labels[place], tiers)

    def _lines(self, place: int) -> list[dict[str, Any]]:
        """The held-out bundles of a seed with their last similarities, as lines of JSONL."""
        name = f"seed_{self._ensemble.seeds[place]}"
        texts = self._texts[place]
        found = self._similarities[place]
        return list(bundle_lines(self._held_out[place], texts, found, prefix=name))

    def _freeze(self, place: int, margin: NDArray[np.float64], step: int) -> None:
        self._frozen_step[place], self._frozen_margin[place] = step, margin
        self._fit(place, margin, f"memorised at step {step}")

    def _fit(self, place: int, margin: NDArray[np.float64], when: str) -> Tiers:
        items = [
            {key: value for key, value in line.items() if key != "similarities"}
            for line in self._lines(place)
        ]
        seed = self._ensemble.seeds[place]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptyTierWarning)  # which the counts tell too
            tiers = fit_tiers(
                -margin, encoder=f"seed_{seed}, {when}", corpus_hash=content_hash(items)
            )
        self._tiers[place] = tiers
        self._labels[place] = assign_tiers(tiers, -margin)
        return tiers

    def _tier3(self, margin: NDArray[np.float64]) -> NDArray[np.float64]:
        hard = self._labels == HARDEST
        count = hard.sum(axis=1)
        passes = ((margin > 0) & hard).sum(axis=1)
        return np.where(count > 0, passes / np.maximum(count, 1), np.nan)


def _places(bundles: list[EquationBundles], device: torch.device) -> tuple[Tensor, Tensor]:
    anchors = np.stack([one.anchors for one in bundles])
    candidates = np.stack([one.candidates for one in bundles])
    return torch.from_numpy(anchors).to(device), torch.from_numpy(candidates).to(device)


def _cosines(hidden: Tensor, places: tuple[Tensor, Tensor]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = cosines(hidden, *places).double().cpu().numpy()
    return found
