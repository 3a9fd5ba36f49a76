"""What the sequential protocol is asked: suite, model, training, and what is special of a phase."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gmb_hf.errors import InputError, choose, positive_int, repeated
from gmb_hf.sequential.suites import FORMAL, MODULAR, SUITES, SuiteSettings
from gmb_hf.training.config import ModelSettings, TrainingSettings, assigned, from_sections
from gmb_hf.training.presets import paper


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSettings:
    """How the phases differ, and how one ends.

    Attributes:
        steps: one number for each phase; None trains every phase for `training.steps`.
        stop_loss: the loss on held-out rows of the task that is trained, at a checkpoint, at which
            a seed's phase ends: its weights stay as they are until the next phase. None: never.
        stop_early: phases, counted from 1, in which that holds; None means all of them.
        carry_optimizer: keep AdamW's moments from phase to phase; else each begins with new ones,
            as published.
    """

    steps: tuple[int, ...] | None = None
    stop_loss: float | None = None
    stop_early: tuple[int, ...] | None = None
    carry_optimizer: bool = False

    def __post_init__(self) -> None:
        if self.steps is not None:
            object.__setattr__(self, "steps", tuple(self.steps))  # YAML reads a list
            for steps in self.steps or ():
                positive_int("phases.steps", steps)
        if self.stop_early is not None:
            object.__setattr__(self, "stop_early", tuple(self.stop_early))
            for phase in self.stop_early or ():
                positive_int("phases.stop_early", phase)
            twice = repeated(self.stop_early or ())
            if twice is not None:
                raise InputError(f"phases.stop_early: phase {twice} is given twice")
            if self.stop_loss is None:
                raise InputError(
                    "phases.stop_early says in which phases a seed stops; say at which held-out "
                    "loss, as in --stop-loss 0.05"
                )
        if self.stop_loss is not None and not 0 < self.stop_loss < math.inf:
            raise InputError(f"phases.stop_loss must be a number above 0, got {self.stop_loss!r}")
        if self.stop_loss is not None and self.carry_optimizer:
            raise InputError(
                "phases.carry_optimizer: the moments of seeds that stop early are of another age "
                "than the others'; leave it out, or say --set phases.stop_loss=none"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialConfig:
    """Everything that a sequential run is made from, its variants and seeds apart."""

    preset: str
    suite: SuiteSettings = field(default_factory=SuiteSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    phases: PhaseSettings = field(default_factory=PhaseSettings)

    def __post_init__(self) -> None:
        if self.model.variant.fields:
            raise InputError(
                f"model: {self.model.variant.name} is a variant; name it in --variants, so that "
                "it stands beside the others"
            )
        tasks = self.suite.tasks
        if self.phases.steps is not None and len(self.phases.steps) != len(tasks):
            raise InputError(
                f"phases.steps names {len(self.phases.steps)} phases, the suite has {len(tasks)} "
                f"({', '.join(tasks)}); give one number for all, or one for each"
            )
        for steps in self.phases.steps or ():
            if steps % self.training.checkpoint_every:
                raise InputError(
                    f"phases.steps={steps} is no multiple of training.checkpoint_every="
                    f"{self.training.checkpoint_every}; change one of them"
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
        """A config with some fields changed by `section.field=value`.

        Steps for every phase, or another order of tasks, end what a preset says of single phases.

        Raises:
            InputError: an assignment without `=`, an unknown section or field, or a bad value.
        """
        given = list(assignments)
        named = {assignment.partition("=")[0].strip() for assignment in given}
        base = self
        if named & {"training.steps", "suite.order"} and "phases.steps" not in named:
            base = dataclasses.replace(self, phases=dataclasses.replace(self.phases, steps=None))
        return assigned(base, given)

    @classmethod
    def from_design(cls, design: Mapping[str, Any], *, where: str) -> SequentialConfig:
        """Read what `design` returned, e.g. from a folder's `sequential.yaml`.

        Raises:
            InputError: an unknown section or field, or a bad value.
        """
        return from_sections(cls, design, where=where)

    def design(self) -> dict[str, Any]:
        """What decides the numbers, seeds and variants apart, as plain data for YAML."""
        training = dataclasses.asdict(self.training)
        # The first two change speed and rounding alone; the last is told phase by phase.
        for name in ("seeds_at_once", "compile", "steps"):
            del training[name]
        model = dataclasses.asdict(self.model)
        shape = {name: value for name, value in model.items() if name in _SHAPE}
        phases = {**dataclasses.asdict(self.phases), "steps": self.steps}
        plain: dict[str, Any] = json.loads(
            json.dumps(
                {
                    "suite": dataclasses.asdict(self.suite),
                    "model": shape,
                    "training": training,
                    "phases": phases,
                }
            )
        )
        return plain

    def hash(self) -> str:
        """SHA-256 of `design`, 64 hex digits."""
        return hashlib.sha256(json.dumps(self.design(), sort_keys=True).encode()).hexdigest()


_SHAPE = ("layers", "heads", "width", "mlp_width", "activation", "tied", "initializer_range")
"""What of the model all variants share."""


# The presets of the sequential protocol, each for either suite.


def replication(suite: str) -> SequentialConfig:
    """Model, numbers and steps of the evaluation protocol, and the published shared token.

    The protocol's table gives every operation a token of its own: `op_token="distinct"`.
    """
    settings = SuiteSettings(name=suite, op_token="shared" if suite == MODULAR else None)
    base = paper()
    return SequentialConfig(
        preset="replication", suite=settings, model=base.model, training=base.training
    )


def quick(suite: str) -> SequentialConfig:
    """Half of each task's rows are trained on, as in the protocol; all else is smaller.

    A seed's phase ends when it has learned its task, so that what is forgotten is compared at equal
    learning. Phases would otherwise be as long as the slowest seed needs. A small learning rate
    with much decay groks soon, and without the loss spikes of larger ones.
    """
    if suite == FORMAL:
        return SequentialConfig(
            preset="quick",
            suite=SuiteSettings(name=suite),
            model=ModelSettings(layers=2, heads=4, width=32, mlp_width=128),
            training=TrainingSettings(
                checkpoint_every=25, lr=3e-3, weight_decay=0.5, seeds_at_once=4
            ),
            # Parity is memorised, not learned, within any such number.
            phases=PhaseSettings(steps=(300, 1000, 600, 300), stop_loss=0.05),
        )
    return SequentialConfig(
        preset="quick",
        suite=SuiteSettings(name=suite, prime=31),
        model=ModelSettings(layers=1, heads=4, width=64, mlp_width=128),
        training=TrainingSettings(
            steps=6000, checkpoint_every=50, lr=2e-3, weight_decay=1.5, seeds_at_once=4
        ),
        phases=PhaseSettings(stop_loss=0.1),
    )


PRESETS: dict[str, Callable[[str], SequentialConfig]] = {
    function.__name__: function for function in (replication, quick)
}


def preset(name: str, suite: str) -> SequentialConfig:
    """The config of that name for a suite.

    Raises:
        InputError: the name or the suite is unknown; the nearest is named.
    """
    choose("suite", suite, tuple(SUITES))
    return PRESETS[choose("preset", name, tuple(PRESETS))](suite)


def smaller_than_protocol(config: SequentialConfig) -> str:
    """What of a config's task and model is not of the protocol's size, in words; empty if nothing.

    It stands beside the numbers, so that nobody takes them for a replication.
    """
    published = replication(config.suite.name)
    parts = []
    if config.suite.prime != published.suite.prime:
        parts.append(f"p = {config.suite.prime} (protocol: {published.suite.prime})")
    if config.model.name != published.model.name:
        parts.append(f"{config.model.name} (protocol: {published.model.name})")
    return ", ".join(parts)
