"""The seeds of one variant, trained from phase to phase, and everything needed to go on.

Shapes: S seeds, K tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.continual.matrix import RetentionMatrix
from gmb_hf.protocols.questions import Questions, questions
from gmb_hf.protocols.sequential_settings import SequentialConfig
from gmb_hf.protocols.shapes import model_shape
from gmb_hf.training.stacked_model import StackedModel, seeded_model
from gmb_hf.training.state import Rows
from gmb_hf.training.variants import Variant

NEVER = -1  # a seed that has not stopped


class Phases:
    """S seeds of one variant on their way through the tasks of a suite.

    Attributes:
        config, variant, seeds: what is trained.
        model: the stacked models.
        phase: how many phases are finished.
        begun: the step of `model` at which the phase under way began.
        matrix: loss and accuracy of every task after each finished phase, [2, S, K] each; the
            first is of the untrained models.
        rows: the learning curves of the phase under way.
        stopped: the step within the phase at which each seed stopped early, [S], or -1.
    """

    def __init__(
        self,
        config: SequentialConfig,
        variant: Variant,
        seeds: Sequence[int],
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.variant, self.seeds = config, variant, tuple(seeds)
        shape = model_shape(config, variant)
        models = [seeded_model(shape, seed) for seed in self.seeds]
        self.model = StackedModel(models, config.training, device=device)
        self.questions = {
            task: questions(config.suite, task, shape, len(self.seeds), device=device)
            for task in config.suite.tasks
        }
        self.phase = 0
        self.begun = 0
        self.matrix: list[NDArray[np.float64]] = []
        self.rows = Rows()
        self.stopped = np.full(len(self.seeds), NEVER)
        self._shape, self._device = shape, device
        self._still: tuple[StackedModel, Questions, list[int]] | None = None

    @property
    def task(self) -> str:
        """What is trained in the phase under way."""
        return self.config.suite.tasks[self.phase]

    @property
    def step(self) -> int:
        """Updates made in the phase under way."""
        return self.model.step - self.begun

    @property
    def finished(self) -> bool:
        """Whether the phase under way has come to its end."""
        return self.step == self.config.steps[self.phase] or bool((self.stopped != NEVER).all())

    def evaluate(self) -> NDArray[np.float64]:
        """Loss and accuracy of every task on its held-out rows, [2, S, K]."""
        found = [asked.results(self.model.weights, held_out=True) for asked in self._asked()]
        return np.stack(found, axis=-1)

    def measure(self) -> dict[str, NDArray[np.float64]]:
        """Add the row of this checkpoint to the curves, and stop the seeds that have learned."""
        self._gather()
        asked = self.questions[self.task]
        names = ("train_loss", "train_acc", "test_loss", "test_acc")
        train, test = (asked.results(self.model.weights, held_out=side) for side in (False, True))
        found = dict(zip(names, (*train, *test), strict=True))
        self.rows.add(self.step, found)
        enough = self.config.stop_loss(self.phase + 1)
        if enough is not None:
            learned = (self.stopped == NEVER) & (found["test_loss"] <= enough)
            self.stopped[learned] = self.step
            if learned.any():
                self._still = None
        return found

    @property
    def measured(self) -> bool:
        """Whether the curves have a row of this step."""
        return bool(self.rows.steps) and self.rows.steps[-1] == self.step

    def advance(self) -> None:
        """One update of every seed that has not stopped."""
        if self._still is None:
            self._still = self._trained_still()
        model, asked, _ = self._still
        if asked.pulls is not None:
            model.pull(asked.pulls)
        model.backward(asked.losses(model.weights))
        model.update()
        self.model.step = model.step

    def _trained_still(self) -> tuple[StackedModel, Questions, list[int]]:
        """The models that have not stopped, what they are asked, and their places."""
        places = np.flatnonzero(self.stopped == NEVER).tolist()
        if len(places) == len(self.seeds):
            return self.model, self.questions[self.task], places
        asked = questions(
            self.config.suite, self.task, self._shape, len(places), device=self._device
        )
        return self.model.some(places), asked, places

    def _gather(self) -> None:
        """Bring the models that are trained apart from those that stopped back to the others."""
        if self._still is not None and self._still[0] is not self.model:
            model, _, places = self._still
            self.model.take_back(model, places)

    def end_phase(self) -> None:
        """Evaluate every task and begin the next phase."""
        self._gather()
        self._still = None
        self.matrix.append(self.evaluate())
        self.phase += 1
        self.begun = self.model.step
        self.rows = Rows()
        self.stopped = np.full(len(self.seeds), NEVER)
        if not self.config.phases.carry_optimizer:
            self.model.reset_optimizer()

    def retention(self) -> tuple[RetentionMatrix | None, tuple[int, ...]]:
        """Every task after every finished phase, and the seeds that have diverged.

        A seed one of whose losses is no number has no place in the matrix; where all have
        diverged there is none. Seeds are in ascending order.
        """
        tasks = self.config.suite.tasks
        loss, accuracy = np.stack(self.matrix, axis=2)  # [S, P + 1, K] each
        sound = np.isfinite(loss).all(axis=(1, 2))
        order = [place for place in np.argsort(self.seeds).tolist() if sound[place]]
        diverged = sorted(set(self.seeds) - {self.seeds[place] for place in order})
        if not order:
            return None, tuple(diverged)
        seeds = tuple(self.seeds[place] for place in order)
        found = RetentionMatrix(
            self.variant.name, seeds, tasks, tasks[: self.phase], loss[order], accuracy[order]
        )
        return found, tuple(diverged)

    def state(self) -> dict[str, Tensor]:
        """Everything needed to go on, the curves (`rows`) apart."""
        self._gather()
        return {
            **self.model.state(),
            "sequential.phase": torch.tensor(self.phase),
            "sequential.begun": torch.tensor(self.begun),
            "sequential.stopped": torch.from_numpy(self.stopped),
            "sequential.matrix": torch.from_numpy(np.stack(self.matrix)),
        }

    def load_state(self, tensors: Mapping[str, Tensor], rows: Rows) -> None:
        """Go on from what `state` returned, and the curves at that moment."""
        self._still = None
        self.model.load_state(tensors)
        self.phase = int(tensors["sequential.phase"])
        self.begun = int(tensors["sequential.begun"])
        self.stopped = tensors["sequential.stopped"].numpy().copy()
        self.matrix = list(tensors["sequential.matrix"].numpy())
        self.rows = rows

    def _asked(self) -> list[Questions]:
        return [self.questions[task] for task in self.config.suite.tasks]
