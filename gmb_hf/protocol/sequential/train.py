"""Training of many seeds at once through the tasks of a suite, phase by phase."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmb_hf.base.documents import Record
from gmb_hf.base.errors import InputError
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.protocol.sequential.config import SequentialConfig, SuiteSettings
from gmb_hf.protocol.sequential.matrix import RetentionMatrix
from gmb_hf.tasks.task import TaskData, loss_positions
from gmb_hf.training.blocks import Forward, Weights
from gmb_hf.training.checkpoints import Rows
from gmb_hf.training.stacked import StackedModel, exact_forward, pull_matrices, seeded_model
from gmb_hf.training.stacked import model_shape as task_shape
from gmb_hf.training.variants import Variant


def model_shape(config: SequentialConfig, variant: Variant) -> GrokkingTransformerConfig:
    """The config of the model trained on all tasks; `InputError` where the variant does not fit."""
    suite = config.suite
    try:
        return task_shape(suite.build(suite.tasks[0]), config.model.replace(**variant.fields))
    except ValueError as error:
        raise InputError(f"variant {variant.name!r}: {error}") from None


class TaskRows(NamedTuple):
    """The rows of a task, int64 [n, T] and [m, T], and the positions whose next token is asked."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    positions: tuple[int, ...]


def task_rows(suite: SuiteSettings, data: TaskData) -> TaskRows:
    """The training and held-out rows of a task, and the suite's query positions."""
    train, test = data.input_ids[data.train_index], data.input_ids[data.test_index]
    kept = train[:-1] if suite.compat_batch else train
    return TaskRows(kept, test, loss_positions(suite.loss_positions, data))


class TaskQueries(NamedTuple):
    """One task as S stacked models learn it: forwards over its training and held-out rows.

    `pulls` are what a step's Hebbian pull does to the embeddings, [S, V, V]; None without it.
    """

    train: Forward
    test: Forward
    pulls: Tensor | None

    def losses(self, weights: Weights) -> Tensor:
        """Mean loss [S] over the training rows, in nats, with gradients."""
        return self.train.losses(weights)[0]

    def results(self, weights: Weights, *, held_out: bool) -> NDArray[np.float64]:
        """Loss and accuracy of every model, [2, S], on held-out or on training rows.

        An answer is right if its token alone scores highest.
        """
        found = (self.test if held_out else self.train).results(weights)
        values: NDArray[np.float64] = torch.stack(found).double().cpu().numpy()
        return values


def task_queries(
    suite: SuiteSettings,
    task: str,
    shape: GrokkingTransformerConfig,
    n_models: int,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> TaskQueries:
    """A task of the suite, for so many models of this shape."""
    rows, built = task_rows(suite, suite.data(task)), suite.build(task)
    options: dict[str, Any] = {"models": n_models, "device": device, "dtype": dtype}
    train, test = (
        exact_forward(built, shape, table, rows.positions, **options)
        for table in (rows.train, rows.test)
    )
    pulls = pull_matrices(torch.from_numpy(rows.train).unsqueeze(0), shape)
    if pulls is not None:
        pulls = pulls.to(device, dtype).expand(n_models, -1, -1)
    return TaskQueries(train, test, pulls)


class Phases:
    """S seeds of one variant, trained from phase to phase; `state` is all that is needed to go on.

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
        self._shape, self._device = model_shape(config, variant), device
        models = [seeded_model(self._shape, seed) for seed in self.seeds]
        self.model = StackedModel(models, config.training, device=device)
        self.queries = {task: self._queries(task, len(models)) for task in config.suite.tasks}
        self.matrix: list[NDArray[np.float64]] = []
        self._begin(0)

    def _begin(self, phase: int) -> None:
        self.phase, self.begun, self.rows = phase, self.model.step, Rows()
        self.stopped = np.full(len(self.seeds), -1)
        # The models that have not stopped, their task, and their places.
        self._active: tuple[StackedModel, TaskQueries, list[int]] | None = None

    def _queries(self, task: str, models: int) -> TaskQueries:
        return task_queries(self.config.suite, task, self._shape, models, device=self._device)

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
        return self.step == self.config.steps[self.phase] or bool((self.stopped >= 0).all())

    def evaluate(self) -> NDArray[np.float64]:
        """Loss and accuracy of every task on its held-out rows, [2, S, K]."""
        weights, tasks = self.model.weights, self.queries.values()
        return np.stack([task.results(weights, held_out=True) for task in tasks], axis=-1)

    def measure(self) -> dict[str, NDArray[np.float64]]:
        """Add this checkpoint to the learning curves, and stop the seeds that have learned."""
        self._gather()
        queries = self.queries[self.task]
        names = ("train_loss", "train_acc", "test_loss", "test_acc")
        train, test = (queries.results(self.model.weights, held_out=side) for side in (False, True))
        found = dict(zip(names, (*train, *test), strict=True))
        self.rows.add(self.step, found)
        enough = self.config.stop_loss(self.phase + 1)
        if enough is not None:
            learned = (self.stopped < 0) & (found["test_loss"] <= enough)
            self.stopped[learned] = self.step
            if learned.any():
                self._active = None
        return found

    @property
    def measured(self) -> bool:
        """Whether the curves have a row of this step."""
        return self.rows.last == self.step

    def advance(self) -> None:
        """One update of every seed that has not stopped."""
        if self._active is None:
            places = np.flatnonzero(self.stopped < 0).tolist()
            if len(places) == len(self.seeds):
                self._active = self.model, self.queries[self.task], places
            else:
                queries = self._queries(self.task, len(places))
                self._active = self.model.some(places), queries, places
        model, queries, _ = self._active
        if queries.pulls is not None:
            model.pull(queries.pulls)
        model.backward(queries.losses(model.weights))
        model.update()
        self.model.step = model.step

    def _gather(self) -> None:
        """Bring the models that are trained apart from those that stopped back to the others."""
        if self._active is not None and self._active[0] is not self.model:
            model, _, places = self._active
            self.model.take_back(model, places)

    def end_phase(self) -> None:
        """Evaluate every task and begin the next phase."""
        self._gather()
        self.matrix.append(self.evaluate())
        self._begin(self.phase + 1)
        if not self.config.phases.carry_optimizer:
            self.model.reset_optimizer()

    def retention(self) -> tuple[RetentionMatrix | None, tuple[int, ...]]:
        """Every task after every finished phase, and the seeds that have diverged.

        A seed with a loss that is not finite is left out of the matrix; where all have diverged
        there is no matrix. Seeds are in ascending order.
        """
        tasks = self.config.suite.tasks
        loss, accuracy = np.stack(self.matrix, axis=2)  # [S, P + 1, K] each
        sound = np.isfinite(loss).all(axis=(1, 2))
        order = [place for place in np.argsort(self.seeds).tolist() if sound[place]]
        diverged = sorted(set(self.seeds) - {self.seeds[place] for place in order})
        if not order:
            return None, tuple(diverged)
        who = self.variant.name, tuple(self.seeds[place] for place in order)
        found = RetentionMatrix(*who, tasks, tasks[: self.phase], loss[order], accuracy[order])
        return found, tuple(diverged)

    def about(self, place: int) -> dict[str, Any]:
        """What made the model of the seed at a place, and its results after the last phase.

        A result that is not finite is None.
        """
        tasks = self.config.suite.tasks
        loss, accuracy = self.matrix[-1][:, place].tolist()  # [2, S, K] -> two of [K]
        return {
            "preset": self.config.preset,
            "design": self.config.design(),
            "variant": self.variant.name,
            "seed": self.seeds[place],
            "learned": list(tasks[: self.phase]),
            "held_out": {
                task: {"loss": nats if math.isfinite(nats) else None, "accuracy": share}
                for task, nats, share in zip(tasks, loss, accuracy, strict=True)
            },
        }

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on, except the curves (`rows`)."""
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
        self.model.load_state(tensors)
        self._begin(int(tensors["sequential.phase"]))
        self.begun, self.rows = int(tensors["sequential.begun"]), rows
        self.stopped = tensors["sequential.stopped"].numpy().copy()
        self.matrix = list(tensors["sequential.matrix"].numpy())


ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class TaskResult(Record):
    """Loss (nats a token) and accuracy on the held-out rows of a task."""

    task: str
    loss: float
    accuracy: float


def check_fits(model: GrokkingTransformerForCausalLM, suite: SuiteSettings, where: str) -> None:
    """Refuse a model from `where` that knows other tokens than a suite, or too few positions."""
    config = model.config
    rule = f", p = {suite.prime}, {suite.op_token} tokens" if suite.prime else ""
    if config.vocab_size != suite.vocab_size:
        raise InputError(
            f"{where}: the model knows {config.vocab_size} tokens, the suite {suite.name}{rule} "
            f"has {suite.vocab_size}; name the suite that it was trained on, with --prime and "
            "--op-token"
        )
    for task in suite.tasks:
        length = suite.build(task).sequence_length
        if length > config.max_position_embeddings:
            raise InputError(
                f"{where}: rows of {task} have {length} tokens, the model's block "
                f"(max_position_embeddings) is {config.max_position_embeddings}; name the suite "
                "that it was trained on"
            )


@torch.no_grad()
def evaluate_model(model: GrokkingTransformerForCausalLM, suite: SuiteSettings) -> list[TaskResult]:
    """The held-out loss and accuracy on every task of a suite, through the model's own forward.

    It gives the numbers of the matrix to rounding. The model is in evaluation mode, on any device,
    and `check_fits` has passed it.
    """
    found = []
    for task in suite.tasks:
        rows = task_rows(suite, suite.data(task))
        positions = torch.tensor(rows.positions)
        parts = []
        for part in torch.from_numpy(rows.test).to(model.device).split(ROWS_AT_ONCE):
            logits = model(part).logits[:, positions]  # [n, P, V]
            score = logits.gather(-1, part[:, positions + 1].unsqueeze(-1))
            losses = logits.logsumexp(-1) - score.squeeze(-1)
            alone = (logits >= score).sum(-1) == 1
            parts.append(torch.stack([losses.double(), alone.double()]).flatten(1))
        loss, right = torch.cat(parts, dim=1).cpu().numpy().mean(axis=1)
        found.append(TaskResult(task, float(loss), float(right)))
    return found
