"""Which bundles a run is asked: drawn from its equations, by their answers and a seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.crucible.equations import EquationBundles, draw_bundles, equation_texts
from gmb_hf.crucible.seeds import generator
from gmb_hf.tasks import TaskData
from gmb_hf.training.settings import TaskSettings
from gmb_hf.validation import InputError, positive_int

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
