"""The config of a sequential run: its suite of tasks, the model, the training and the phases.

| suite   | tasks, in the protocol's order              | protocol |
|---------|---------------------------------------------|----------|
| modular | add, sub, mul, sq_sum modulo a prime        | phase 2a |
| formal  | parity_8, copy_8, reverse_8, majority_9     | phase 2b |
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import model_validator

from gmb_hf.base.documents import Many, load_yaml, plain_data
from gmb_hf.base.errors import InputError, choose, repeated
from gmb_hf.tasks.modular import OP_TOKENS, ModularTask
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import LOSS_POSITIONS, Task, TaskData
from gmb_hf.training.config import ModelSettings, TrainingSettings
from gmb_hf.training.settings import (
    Config,
    Fraction,
    Positive,
    SettingsSection,
    Size,
    config_hash,
    one_of,
    preset_sections,
)

MODULAR, FORMAL = "modular", "formal"
SUITES: dict[str, tuple[str, ...]] = {
    MODULAR: ("add", "sub", "mul", "sq_sum"),
    FORMAL: ("parity_8", "copy_8", "reverse_8", "majority_9"),
}
"""Suite -> its tasks in the protocol's training order."""

PROTOCOL_PRIME = 97


class SuiteSettings(SettingsSection):
    """What is learned, one task after the other.

    Attributes:
        name: "modular" or "formal".
        order: the tasks in the order of training; None takes the protocol's.
        prime: the modulus; of the modular suite only, None takes 97.
        op_token: of the modular suite only: "distinct" gives every operation its own token, as
            the protocol's table says; "shared" gives all the same one, as the published runs do,
            where equal inputs carry contradicting answers and forgetting is forced. None takes
            "distinct".
        loss_positions: "answer" trains and measures at the task's own answer positions; "all" at
            every position that has a next token in the row, 7 of the 8 of an equation.
        train_fraction: share of each task's rows to train on; the others are held out.
        data_seed: draws the split, the same for all seeds of models.
        compat_batch: leave out the last training row, as the reference's loader does.
    """

    kind: ClassVar[str] = "suite"
    name: Annotated[str, one_of("suite", SUITES)] = MODULAR
    order: Many[str] | None = None
    prime: int | None = None
    op_token: Annotated[str, one_of("op_token", OP_TOKENS)] | None = None
    loss_positions: Annotated[str, one_of("loss_positions", LOSS_POSITIONS)] = "answer"
    train_fraction: Fraction = 0.5
    data_seed: int = 42
    compat_batch: bool = False

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, data: Any) -> Any:
        """What is None takes the suite's own."""
        name = data.get("name", MODULAR) if isinstance(data, dict) else None
        if name not in SUITES:
            return data
        own: dict[str, Any] = {"order": SUITES[name]}
        if name == MODULAR:
            own |= {"prime": PROTOCOL_PRIME, "op_token": "distinct"}
        return {**data, **{key: value for key, value in own.items() if data.get(key) is None}}

    def check(self) -> None:
        for option in ("prime", "op_token"):
            if self.name == FORMAL and getattr(self, option) is not None:
                raise InputError(f"{option} is for the suite modular; leave it out")
        known = SUITES[self.name]
        if not self.tasks:
            raise InputError(f"order: no task is named; known: {', '.join(known)}")
        for task in self.tasks:
            choose("task", task, known, where="order")
        twice = repeated(self.tasks)
        if twice is not None:
            raise InputError(f"order: {twice} is given twice; each task has one phase")
        for task in self.tasks:
            self.build(task).split(self.train_fraction, self.data_seed)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks in the order of training, which is that of the matrix's columns."""
        assert self.order is not None  # `_filled` sees to it
        return self.order

    def build(self, task: str) -> Task:
        """The task of that name."""
        if self.name == FORMAL:
            return get_task(task)
        assert self.prime is not None
        assert self.op_token is not None
        return ModularTask(task, self.prime, op_token=self.op_token)

    def data(self, task: str) -> TaskData:
        """The rows of a task, split; every seed of a model sees the same."""
        return self.build(task).data(self.train_fraction, self.data_seed)

    def fingerprints(self) -> dict[str, str]:
        """Task -> SHA-256 of its training and held-out rows."""
        return {task: self.data(task).fingerprint() for task in self.tasks}

    @property
    def vocab_size(self) -> int:
        """How many tokens a model of this suite knows: of the modular one p + 7, shared p + 4."""
        return self.build(self.tasks[0]).vocab_size


class PhaseSettings(SettingsSection):
    """How the phases differ, and how one ends.

    Attributes:
        steps: one number for each phase; None trains every phase for `training.steps`.
        stop_loss: the loss on held-out rows of the task that is trained, at a checkpoint, at which
            a seed's phase ends: its weights stay as they are until the next phase. None: never.
        stop_early: phases, counted from 1, in which that holds; None means all of them.
        carry_optimizer: keep AdamW's moments from phase to phase; else each begins with new ones,
            as published.
    """

    kind: ClassVar[str] = "phases"
    steps: Many[Size] | None = None
    stop_loss: Positive | None = None
    stop_early: Many[Size] | None = None
    carry_optimizer: bool = False

    def check(self) -> None:
        if self.stop_early is not None:
            twice = repeated(self.stop_early)
            if twice is not None:
                raise InputError(f"stop_early: phase {twice} is given twice")
            if self.stop_loss is None:
                raise InputError(
                    "stop_early says in which phases a seed stops; say at which held-out "
                    "loss, as in --stop-loss 0.05"
                )
        if self.stop_loss is not None and self.carry_optimizer:
            raise InputError(
                "carry_optimizer: the moments of seeds that stop early are of another age "
                "than the others'; leave it out, or say --set phases.stop_loss=none"
            )


def refuse_variant(model: ModelSettings) -> None:
    """`InputError` where the model of a config is a variant: a run names those by itself."""
    if model.variant.fields:
        raise InputError(
            f"model: {model.variant.name} is a variant; name it in --variants, so that it stands "
            "beside the others"
        )


class SequentialConfig(Config):
    """Everything that decides a sequential run, except its variants and seeds."""

    suite: SuiteSettings = SuiteSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    phases: PhaseSettings = PhaseSettings()

    def check(self) -> None:
        refuse_variant(self.model)
        if self.training.observables != "usual":
            raise InputError(
                "training.observables: a sequential run measures retention alone; leave it out"
            )
        tasks = self.suite.tasks
        if self.phases.steps is not None and len(self.phases.steps) != len(tasks):
            raise InputError(
                f"phases.steps names {len(self.phases.steps)} phases, the suite has {len(tasks)} "
                f"({', '.join(tasks)}); give one number for all, or one for each"
            )
        every = self.training.checkpoint_every
        for steps in self.phases.steps or ():
            if steps % every:
                raise InputError(
                    f"phases.steps={steps} is no multiple of training.checkpoint_every={every}; "
                    "change one of them"
                )
        for phase in self.phases.stop_early or ():
            if phase > len(tasks):
                raise InputError(f"phases.stop_early: phase {phase} of only {len(tasks)}")

    @property
    def steps(self) -> tuple[int, ...]:
        """Updates in each phase, at most."""
        return self.phases.steps or (self.training.steps,) * len(self.suite.tasks)

    def stop_loss(self, phase: int) -> float | None:
        """The held-out loss that ends a phase, counted from 1; None where nothing does."""
        chosen = self.phases.stop_early
        return self.phases.stop_loss if chosen is None or phase in chosen else None

    def changed(self, assignments: Iterable[str]) -> SequentialConfig:
        """As of every config.

        Steps for every phase, or another order of tasks, reset a preset's steps of single phases.
        """
        given = list(assignments)
        named = {assignment.partition("=")[0].strip() for assignment in given}
        base = self
        if named & {"training.steps", "suite.order"} and "phases.steps" not in named:
            base = self.replace(phases=self.phases.replace(steps=None))
        return Config.changed(base, given)

    def design(self) -> dict[str, Any]:
        """What decides the numbers, except seeds and variants, as plain data for YAML."""
        training = self.training.identity()
        del training["steps"]  # they are given phase by phase
        shared = SHAPE if self.model.layer_norm else (*SHAPE, "layer_norm")
        design = {
            "suite": dict(self.suite),
            "model": {name: getattr(self.model, name) for name in shared},
            "training": training,
            "phases": {**dict(self.phases), "steps": self.steps},
        }
        return dict(plain_data(design))

    def hash(self) -> str:
        """SHA-256 of `design`, 64 hex digits."""
        return config_hash(self.design())


SHAPE = ("layers", "heads", "width", "mlp_width", "activation", "tied", "initializer_range")
"""The fields of the model that all variants share; a model with norms does not name them."""


PRESETS: dict[str, dict[str, Any]] = load_yaml(Path(__file__).with_name("presets.yaml"))


def preset(name: str, suite: str) -> SequentialConfig:
    """The config of that name for a suite; of unknown names `InputError` names the nearest."""
    choose("suite", suite, tuple(SUITES))
    sections = preset_sections(PRESETS, name, suite)
    sections["suite"] = {"name": suite, **sections.get("suite", {})}
    return SequentialConfig.from_dict(sections)


def smaller_than_protocol(config: SequentialConfig) -> str:
    """Where a config's task and model are smaller than the protocol's, in words; else empty.

    It is shown with the numbers, so that nobody takes them for a replication.
    """
    published = preset("replication", config.suite.name)
    parts = []
    if config.suite.prime != published.suite.prime:
        parts.append(f"p = {config.suite.prime} (protocol: {published.suite.prime})")
    if config.model.name != published.model.name:
        parts.append(f"{config.model.name} (protocol: {published.model.name})")
    return ", ".join(parts)
