"""The same bundles asked of every seed at every checkpoint, and the tiers that come of it.

Tiers are frozen at a seed's first checkpoint after memorisation. There the model knows its rows and
not yet the rule, so that tier3 is what memorising leaves hardest, and what it does later shows
whether the rule reached it. Fitted at the last checkpoint a tier would hold what failed there, and
say nothing. A seed that never memorises is fitted at its last checkpoint.

Shapes: S seeds, N bundles of K negatives.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.crucible.equations import (
    EquationBundles,
    bundle_lines,
    draw_bundles,
    equation_texts,
    margins_of,
    track,
)
from gmb_hf.crucible.seeds import generator
from gmb_hf.crucible.tiers import HARDEST, EmptyTierWarning, Tiers, assign_tiers, fit_tiers
from gmb_hf.fingerprints import content_hash
from gmb_hf.tasks import TaskData
from gmb_hf.training.ensemble import Ensemble, task_data
from gmb_hf.training.hidden_states import answer_hidden, cosines
from gmb_hf.training.progress import MEMORISED
from gmb_hf.training.settings import TaskSettings
from gmb_hf.validation import InputError, positive_int

TIER3_RATE = "crucible_tier3_pass_rate"
TRAIN_Q10 = "crucible_train_margin_q10"
_HELD_OUT, _TRAINING = 0, 1  # streams of a data seed


@dataclass(frozen=True, slots=True)
class Drawing:
    """How bundles are drawn.

    Attributes:
        bundles: N, for each seed.
        negatives: K, in each bundle.
        seed: of the drawing; equal rows get equal bundles, whatever the model.
    """

    bundles: int = 512
    negatives: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        positive_int("--bundles", self.bundles)
        positive_int("--negatives", self.negatives)
        generator(self.seed, 0)

    def held_out(self, data: TaskData, data_seed: int) -> EquationBundles:
        """Bundles of held-out equations, by their true answers."""
        return self._draw(data.true_answers[data.test_index, 0], data_seed, _HELD_OUT)

    def training(self, data: TaskData, data_seed: int) -> EquationBundles:
        """Bundles of training equations, by the answers that are trained on, right or wrong."""
        return self._draw(data.answers[data.train_index, 0], data_seed, _TRAINING)

    def _draw(self, answers: NDArray[np.int64], data_seed: int, stream: int) -> EquationBundles:
        rng = generator(self.seed, 2 * data_seed + stream)
        rows = "training" if stream == _TRAINING else "held-out"
        try:
            return draw_bundles(answers, self.bundles, self.negatives, rng)
        except InputError as error:
            raise InputError(f"{rows} equations of data seed {data_seed}: {error}") from None


def held_out_texts(settings: TaskSettings, data: TaskData) -> list[str]:
    """The held-out equations as people write them."""
    every = equation_texts(settings.build())
    return [every[row] for row in data.test_index.tolist()]


class Tracker:
    """Asks the seeds of an ensemble, and remembers their tiers and their last answers.

    Attributes:
        tiers: of each seed, None before it has any.
        labels: tier of each item, [S, N]; empty text where the seed has no tiers.
        similarities: of the held-out bundles at the last checkpoint, [S, N, 1 + K].
        unmemorised: seeds that have never memorised, known when all is finished.
        empty: seeds one of whose tiers holds no item.
    """

    def __init__(self, ensemble: Ensemble, drawing: Drawing) -> None:
        self.ensemble = ensemble
        task = ensemble.config.task
        drawn = [(seed, task.data_seed_of(seed), task_data(task, seed)) for seed in ensemble.seeds]
        self.held_out = [drawing.held_out(data, number) for _, number, data in drawn]
        training = [drawing.training(data, number) for _, number, data in drawn]
        self._places = _places(self.held_out, ensemble.device)
        self._training_places = _places(training, ensemble.device)
        self._texts = [held_out_texts(task, data) for _, _, data in drawn]
        count = len(ensemble)
        self.tiers: list[Tiers | None] = [None] * count
        self.labels = np.full((count, drawing.bundles), "", dtype="<U32")
        self.similarities = np.empty(0)
        self.unmemorised: list[int] = []
        self.empty: list[int] = []

    def measure(self, train_acc: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """What the checkpoint adds to the run log, each [S].

        Args:
            train_acc: accuracies on training rows, [S].
        """
        ensemble = self.ensemble
        self.similarities = _cosines(answer_hidden(ensemble, ensemble.test), self._places)
        training = _cosines(answer_hidden(ensemble, ensemble.train), self._training_places)
        margin = margins_of(self.similarities)
        for place in np.flatnonzero(train_acc >= MEMORISED).tolist():
            if self.tiers[place] is None:
                self._freeze(place, margin[place], f"memorised at step {ensemble.step}")
        return {
            **track(self.similarities),
            TRAIN_Q10: track(training)["crucible_margin_q10"],
            TIER3_RATE: self._tier3(margin),
        }

    def finish(self) -> None:
        """Give tiers to the seeds that have never memorised."""
        for place, tiers in enumerate(self.tiers):
            if tiers is None:
                margin = margins_of(self.similarities[place])
                self._freeze(place, margin, f"not memorised, step {self.ensemble.step}")
                self.unmemorised.append(self.ensemble.seeds[place])

    def lines(self, place: int) -> list[dict[str, object]]:
        """The held-out bundles of a seed with their last similarities, as lines of JSONL."""
        name = f"seed_{self.ensemble.seeds[place]}"
        texts = self._texts[place]
        return list(
            bundle_lines(self.held_out[place], texts, self.similarities[place], prefix=name)
        )

    def _freeze(self, place: int, margin: NDArray[np.float64], when: str) -> None:
        items = [
            {key: value for key, value in line.items() if key != "similarities"}
            for line in self.lines(place)
        ]
        seed = self.ensemble.seeds[place]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EmptyTierWarning)
            tiers = fit_tiers(
                -margin, encoder=f"seed_{seed}, {when}", corpus_hash=content_hash(items)
            )
        if caught:
            self.empty.append(seed)
        self.tiers[place] = tiers
        self.labels[place] = assign_tiers(tiers, -margin)

    def _tier3(self, margin: NDArray[np.float64]) -> NDArray[np.float64]:
        hard = self.labels == HARDEST
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
