"""What a run is made from: task, model, training, design, seeds and draws, read and written.

A config is immutable; `changed` makes another one from `section.field=value` assignments, and an
unknown section or field is an error that names the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, ValidationError, model_validator

from gmb_hf.base.documents import Many, Section
from gmb_hf.base.errors import InputError, choose, fraction
from gmb_hf.design.design import Design
from gmb_hf.tasks.groups import GroupTask
from gmb_hf.tasks.modular import OP_TOKENS, OPERATIONS, ModularTask
from gmb_hf.tasks.registry import get_task
from gmb_hf.tasks.task import Task
from gmb_hf.training.settings import (
    AS_WRITTEN,
    ClosedFraction,
    Config,
    Fraction,
    NotNegative,
    Positive,
    SettingsSection,
    Size,
    config_hash,
    one_of,
)
from gmb_hf.training.variants import FIELDS, HEBBIAN_RATE, Variant

MAX_SEED = 2**32  # the split's random stream takes 32 bits
MOST_SEEDS = 10**6  # more are a slip of the keyboard


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds that `text` stands for, in the order written; `a:b` excludes b.

    Raises:
        InputError: a part that is no number or range, an empty range, or a seed given twice.

    Examples:
        >>> parse_seeds("0:3,10")
        (0, 1, 2, 10)
    """
    seeds: dict[int, None] = {}  # in order
    for part in (part.strip() for part in text.split(",")):
        first, colon, last = part.partition(":")
        try:
            start = int(first)
            stop = int(last) if colon else start + 1
        except ValueError:
            raise InputError(
                f"seeds {text!r}: {part!r} is no seed; write a number, a range such as "
                "0:32, or several with commas"
            ) from None
        if start < 0 or stop > MAX_SEED:
            raise InputError(f"seeds {text!r}: {part!r} is out of range; seeds are 0 to 2^32 - 1")
        if stop <= start:
            raise InputError(f"seeds {text!r}: {part!r} is empty; a:b runs from a to b - 1")
        if stop - start + len(seeds) > MOST_SEEDS:
            raise InputError(f"seeds {text!r}: more than {MOST_SEEDS:,} seeds; give fewer")
        for seed in range(start, stop):
            if seed in seeds:
                raise InputError(f"seeds {text!r}: {seed} is given twice; give each seed once")
            seeds[seed] = None
    return tuple(seeds)


def format_seeds(seeds: Sequence[int]) -> str:
    """The shortest text that `parse_seeds` reads as these seeds, sorted.

    Examples:
        >>> format_seeds([3, 1, 2, 9])
        '1:4,9'
    """
    ordered = np.sort(seeds)
    ranges = np.split(ordered, np.flatnonzero(np.diff(ordered) != 1) + 1)
    ends = [(part[0], part[-1]) for part in ranges if len(part)]
    return ",".join(str(a) if a == b else f"{a}:{b + 1}" for a, b in ends)


ACTIVATIONS = ("gelu_new", "relu")
Operation = Annotated[str, one_of("operation", OPERATIONS)]
Activation = Annotated[str, one_of("activation", ACTIVATIONS)]
ENGINES = ("stacked", "single")
COMPILE_MODES = ("auto", "always", "never")
GROKKED = 0.9  # held-out accuracy
HELD = 5  # checkpoints: so long must held-out accuracy stay, that no spike ends a run
OBSERVABLES = ("usual", "published", "all")
DEVICES = ("auto", "cpu", "cuda")
OF_MODULAR_TASKS = ("operation", "prime", "op_token", "corruption_rate", "keep_pairs_together")
"""The fields of `TaskSettings` that no other task has."""


class TaskSettings(SettingsSection):
    """The rows that a run learns.

    Attributes:
        name: a task that is no modular arithmetic, e.g. "dihedral_15"; None takes the operation.
            The name of a modular one, "sub_p29", sets operation and prime.
        operation: of modular arithmetic, e.g. "sub".
        prime: the modulus.
        train_fraction: share of the rows to train on; the others are held out.
        train_rows: their number instead of a share.
        op_token: "shared" gives every operation one token, "distinct" one each.
        corruption_rate: share of the training rows whose label is made wrong.
        keep_pairs_together: put (a, b) and (b, a) on the same side of the split.
        data_seed: draws the split; None ties it to the run's own seed.
    """

    kind: ClassVar[str] = "task"
    name: str | None = None
    operation: Operation = "sub"
    prime: int = 29
    train_fraction: Fraction = 0.6
    train_rows: Size | None = None
    op_token: Annotated[str, one_of("op_token", OP_TOKENS)] = "shared"
    corruption_rate: ClosedFraction = 0.0
    keep_pairs_together: bool = False
    data_seed: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        """The name of a modular task says operation and prime."""
        name = data.get("name") if isinstance(data, dict) else None
        if not isinstance(name, str):
            return data
        prime = data.get("prime", cls.model_fields["prime"].default)
        try:
            task = get_task(name, prime=prime if name.startswith("modular_") else None)
        except InputError as error:
            raise InputError(f"name: {error}") from None
        if not isinstance(task, ModularTask):
            return data
        return {**data, "name": None, "operation": task.operation, "prime": task.prime}

    def check(self) -> None:
        if self.name is not None and self.corruption_rate:
            raise InputError(
                f"corruption_rate is for modular arithmetic, which {self.name} is not; set it to "
                "0.0"
            )
        if self.keep_pairs_together and not self._has_pairs:
            raise InputError(
                f"keep_pairs_together is for modular arithmetic and groups, which {self.name} is "
                "not; set it to false"
            )
        self.build().split(self.share, self.data_seed_of(0))

    @staticmethod
    def of_operation(operation: str, **fields: Any) -> dict[str, Any]:
        """Fields that make another operation the task: one that does not commute has no pairs."""
        pairs = {} if OPERATIONS[operation].commutes else {"keep_pairs_together": False}
        return {"operation": operation, **pairs, **fields}

    @property
    def title(self) -> str:
        """What is learned from what, in words: `sub_p29, 60% train, shared tokens`.

        Everything that makes it another task to learn is named, so that logs of the one are not
        judged by thresholds of the other.
        """
        rows = self.train_rows
        words = [
            self.name or f"{self.operation}_p{self.prime}",
            f"{100 * self.train_fraction:g}% train" if rows is None else f"{rows} rows train",
        ]
        if self.name is None:
            words.append(f"{self.op_token} tokens")
        if self.corruption_rate:
            words.append(f"{100 * self.corruption_rate:g}% wrong labels")
        if self.keep_pairs_together:
            words.append("pairs together")
        if self.data_seed is not None:
            words.append(f"data seed {self.data_seed}")
        return ", ".join(words)

    def identity(self) -> dict[str, Any]:
        """What decides the rows, as plain data: the fields that the task has."""
        fields = dict(self)
        for name in ("name",) if self.name is None else OF_MODULAR_TASKS:
            del fields[name]
        if self.name is not None and self.keep_pairs_together:
            fields["keep_pairs_together"] = True
        return fields

    @property
    def _has_pairs(self) -> bool:
        """Whether the task has rows that are others with their operands swapped."""
        return self.name is None or isinstance(get_task(self.name), GroupTask)

    @property
    def share(self) -> float:
        """The share of the rows to train on or, as an int, their number."""
        return self.train_fraction if self.train_rows is None else self.train_rows

    def data_seed_of(self, seed: int) -> int:
        """The data seed of the run with this seed."""
        return seed if self.data_seed is None else self.data_seed

    def build(self) -> Task:
        """The task itself."""
        if self.name is not None:
            pairs = {"keep_pairs_together": True} if self.keep_pairs_together else {}
            return get_task(self.name, **pairs)
        return ModularTask(
            self.operation,
            self.prime,
            op_token=self.op_token,
            corruption_rate=self.corruption_rate,
            keep_pairs_together=self.keep_pairs_together,
        )


class ModelSettings(SettingsSection):
    """The shape of the transformer.

    Attributes:
        layers, heads, width: of the decoder.
        mlp_width: hidden units of each MLP.
        activation: "gelu_new" (GPT-2's tanh form) or "relu".
        tied: use the token embedding as the output layer.
        initializer_range: standard deviation of the initial weights.
        layer_norm: normalise states before each attention, each MLP and the output. Without norms
            a small learning rate trains without loss spikes, and runs stay memorised for long.
        band_fc1, band_fc2: width of the band of the MLP's up- and down-projection.
        sort_window: after each block, mix states with alike ones in this window.
        blend_window: mix embeddings with those of the tokens before, in this window.
        hebbian_window: in training, pull embeddings together at up to this distance.
        hebbian_rate: by this share of their difference.
        cycles, inner_steps: apply the last layer so often, and in each of these cycles the layers
            before it so often.
        halting: read the answer from a mean over the cycles that is learned.

    Without its variants (None) a model is the dense one; `variants` has their short names.
    """

    kind: ClassVar[str] = "model"
    layers: Size = 1
    heads: Size = 4
    width: Size = 32
    mlp_width: Size = 128
    activation: Activation = "relu"
    tied: bool = False
    initializer_range: Positive = 0.02
    layer_norm: bool = True
    band_fc1: Size | None = None
    band_fc2: Size | None = None
    sort_window: Size | None = None
    blend_window: Size | None = None
    hebbian_window: Size | None = None
    hebbian_rate: Positive = HEBBIAN_RATE
    cycles: Size | None = None
    inner_steps: Size | None = None
    halting: bool = False

    def check(self) -> None:
        if self.width % self.heads:
            raise InputError(
                f"heads={self.heads} does not divide width={self.width}; "
                "choose a width that is a multiple of the heads"
            )

    @property
    def variant(self) -> Variant:
        """The variant of the architecture."""
        return Variant.of(dict(self))

    @property
    def name(self) -> str:
        """A short description, e.g. `transformer-1x4x32` or `transformer-1x4x32, sort-4`."""
        shape = f"transformer-{self.layers}x{self.heads}x{self.width}"
        if not self.layer_norm:
            shape += ", no layer norm"
        return f"{shape}, {self.variant.name}" if self.variant.fields else shape


class TrainingSettings(SettingsSection):
    """How the model is trained.

    Attributes:
        steps: full-batch updates.
        checkpoint_every: steps between two rows of the run log.
        lr, weight_decay, beta1, beta2, eps: of AdamW; decay acts on every parameter.
        seeds_at_once: how many seeds are stacked; it changes speed and memory, not results.
        compile: compile the step with torch.compile: "always", "never", or "auto" where the
            work ahead is long enough to win back the time that compiling takes.
        observables: what a checkpoint records: "usual"; "published", also those that published
            signals need and that are cheap; "all", also the costly ones.
        dear_every: checkpoints between two measurements of a costly one, which "all" has.
        stop_after: steps that a seed trains on once its held-out accuracy has been `stop_at` for
            five checkpoints; its log ends at the next checkpoint. None trains all steps.
        stop_at: that accuracy.
    """

    kind: ClassVar[str] = "training"
    steps: Size = 2500
    checkpoint_every: Size = 10
    lr: Positive = 5e-3
    weight_decay: NotNegative = 0.5
    beta1: Fraction = 0.9
    beta2: Fraction = 0.98
    eps: Positive = 1e-8
    seeds_at_once: Size = 36
    compile: Annotated[str, one_of("compile", COMPILE_MODES)] = "auto"
    observables: Annotated[str, one_of("observables", OBSERVABLES)] = "usual"
    dear_every: Size = 10
    stop_after: Size | None = None
    stop_at: Fraction = GROKKED

    def check(self) -> None:
        self.check_multiple("steps", "checkpoint_every")

    def identity(self) -> dict[str, Any]:
        """What decides a run's log, as plain data; what records nothing more is not named."""
        fields = dict(self)
        for name in ("seeds_at_once", "compile"):  # they change speed, not results
            del fields[name]
        if self.observables != "all":
            del fields["dear_every"]
        if self.stop_after is None:
            del fields["stop_after"]
        if self.stop_after is None or self.stop_at == GROKKED:
            del fields["stop_at"]
        if self.observables == "usual":
            del fields["observables"]
        return fields


class SeedSettings(SettingsSection):
    """Which seeds are free to look at, and which are held out.

    Attributes:
        explore: seeds for choosing signs and locking thresholds, e.g. "0:32".
        evaluate: seeds that only the locked design may judge, e.g. "1000:1040".
    """

    kind: ClassVar[str] = "seeds"
    explore: str = "0:32"
    evaluate: str = "1000:1040"

    def check(self) -> None:
        shared = sorted(set(parse_seeds(self.explore)) & set(parse_seeds(self.evaluate)))
        if shared:
            raise InputError(
                f"explore and evaluate overlap in {shared[:5]}; held-out seeds must "
                "be ones that nobody has looked at"
            )


def _low_to_high(ends: tuple[float, ...]) -> tuple[float, ...]:
    if ends and not (len(ends) == 2 and 0 < ends[0] <= ends[1]):
        raise InputError("give the lowest and the highest, both above 0, e.g. 0.1,1")
    return ends


_Number = Annotated[float, Field(allow_inf_nan=False), AS_WRITTEN]
Range = Annotated[Many[_Number], AfterValidator(_low_to_high)]


class DrawSettings(SettingsSection):
    """What each seed draws for itself, in place of what the other sections say.

    A draw depends on the seed alone. Nothing is drawn where a field is empty.

    Attributes:
        operation, train_fraction, activation: one of these, each equally likely. Of operations
            that do not commute `task.keep_pairs_together` asks nothing.
        lr, weight_decay, initializer_range: the lowest and the highest; the logarithm is uniform
            between them.
        no_decay: the share of seeds that train without weight decay, whatever else they draw.
    """

    kind: ClassVar[str] = "draws"
    operation: Many[Operation] = ()
    train_fraction: Many[Fraction] = ()
    activation: Many[Activation] = ()
    lr: Range = ()
    weight_decay: Range = ()
    initializer_range: Range = ()
    no_decay: ClosedFraction = 0.0

    @property
    def any(self) -> bool:
        """Whether seeds draw anything."""
        return self != DrawSettings()

    @property
    def given(self) -> dict[str, tuple[Any, ...]]:
        """What each field that is drawn is drawn from."""
        names = [name for name in _DRAWN if name != "no_decay"]
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def identity(self) -> dict[str, Any]:
        """What is drawn, as plain data."""
        drawn: dict[str, Any] = {name: [*values] for name, values in self.given.items()}
        return drawn | ({"no_decay": self.no_decay} if self.no_decay else {})

    def of_seed(self, seed: int) -> dict[str, dict[str, Any]]:
        """Section -> field -> value, of what a seed draws."""
        # Every number is drawn, whether it is used or not: one draw more leaves the others.
        stream = np.random.default_rng((*b"draws", seed))
        shares = dict(zip(_DRAWN, stream.random(len(_DRAWN)), strict=True))
        found: dict[str, dict[str, Any]] = {"task": {}, "model": {}, "training": {}}
        for name, given in self.given.items():
            if name in _RANGES:
                low, high = given
                value = float(f"{low * (high / low) ** shares[name]:.4g}")
            else:
                value = given[int(shares[name] * len(given))]
            found[_DRAWN[name]][name] = value
        if shares["no_decay"] < self.no_decay:
            found["training"]["weight_decay"] = 0.0
        return found

    def columns(self, seeds: Sequence[int]) -> dict[str, NDArray[np.float64]]:
        """What seeds draw as numbers, for their logs: by `drawn_` and the field, each [S].

        Of operations and activations it is the place among those that can be drawn; of `no_decay`
        1 where a seed trains without decay, else 0.
        """
        found = {}
        each = [self.of_seed(seed) for seed in seeds]
        for name, given in self.given.items():
            values = [drawn[_DRAWN[name]][name] for drawn in each]
            numbers = [given.index(value) if isinstance(value, str) else value for value in values]
            found[f"drawn_{name}"] = np.array(numbers, float)
        if self.no_decay:
            without = [drawn["training"].get("weight_decay") == 0.0 for drawn in each]
            found["drawn_no_decay"] = np.array(without, float)
        return found

    def words(self, section: str) -> str:
        """What is drawn of a section, to stand behind what it fixes; empty if nothing is."""
        parts = []
        for name, given in self.given.items():
            if _DRAWN[name] == section:
                between = " to " if name in _RANGES else ", "
                parts.append(f"{name} ({between.join(str(value) for value in given)})")
        if section == "training" and self.no_decay:
            parts.append(f"no decay in {100 * self.no_decay:g}% of seeds")
        return f"; each seed draws {', '.join(parts)}" if parts else ""


_DRAWN = {
    "operation": "task",
    "train_fraction": "task",
    "activation": "model",
    "lr": "training",
    "weight_decay": "training",
    "initializer_range": "model",
    "no_decay": "training",  # in place of weight_decay
}
_RANGES = ("lr", "weight_decay", "initializer_range")


# What the presets share, where it is not the default of `Design`.
_STANDARD: dict[str, Any] = {
    "w_event": 100,
    "jump_threshold": 0.2,
    "horizon": 200,
    "safe_gap": 400,
    "burn_in": 200,
    "window_sweep": (80, 100, 120),
}
# The fields that config.yaml always has, in its order; others follow where they are changed.
_ALWAYS_WRITTEN = (
    *("event_type", "w_event", "jump_threshold", "theta_floor", "require_new_max"),
    *("plateau_checkpoints", "plateau_threshold", "plateau_regression"),
    *("regime_radius", "regime_quantile", "regime_tolerance", "horizon", "safe_gap", "burn_in"),
    *("lead_time_target", "lead_time_median_min", "primary_fpr", "coverage_min", "window_sweep"),
)
# Key in the `benchmark` section -> field of the design, and back.
_DESIGN_NAMES = {
    Design.views(name).get("preset", name): name
    for name, place in Design.places().items()
    if place.partition(".")[0] not in ("boundary", "candidates")  # said elsewhere, or by the logs
}
_DESIGN_KEYS = {name: key for key, name in _DESIGN_NAMES.items()}


def _spelled(name: str, value: str | None = None) -> str:
    return str(_DESIGN_KEYS.get(name, name)) + (f"={value}" if value else "")


def _in_section(error: ValidationError) -> ValidationError:
    """What is wrong with a design, at its keys in the `benchmark` section."""
    faults: list[Any] = error.errors(include_url=False)
    for fault in faults:
        if fault["loc"]:
            name, *rest = fault["loc"]
            fault["loc"] = (_spelled(name), *rest)
        else:  # of several fields
            message = Design.reworded(str(fault["ctx"]["error"]), _spelled)
            fault["ctx"] = {"error": InputError(message)}
    return ValidationError.from_exception_data("benchmark", faults)


class DesignSettings(SettingsSection):
    """The design of the evaluation, in training steps; it becomes the preregistration.

    It is made from fields of `Design`, by its names or by their keys in the `benchmark` section;
    an `InputError` names one that is unknown or out of range.

    Attributes:
        changes: fields of `Design`, by its names, that differ from the standard of the presets.
        combination: judge two scores more, learned combinations of all that see no test label.
    """

    kind: ClassVar[str] = "benchmark"
    changes: Mapping[str, Any] = {}
    combination: bool = False

    @model_validator(mode="before")
    @classmethod
    def _designed(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = {key: value for key, value in data.items() if key not in cls.model_fields}
        for key in fields:
            choose("field", key, tuple(_DESIGN_KEYS | _DESIGN_NAMES))
        named = {_DESIGN_NAMES.get(key, key): value for key, value in fields.items()}
        given = {**data.get("changes", {}), **named}
        of_event = _of_this_event(given)
        try:
            checked = Design.model_validate({**_STANDARD, **of_event})
        except ValidationError as error:
            raise _in_section(error) from None
        parsed = {name: getattr(checked, name) for name in of_event if of_event[name] is not None}
        changes = {**of_event, **given, **parsed}
        changes = {name: value for name, value in changes.items() if value != _standard(name)}
        # What holds of designs for our own runs, whose metric is an accuracy.
        if checked.horizon >= checked.safe_gap:
            raise InputError(
                f"horizon={checked.horizon} must be less than safe_gap={checked.safe_gap}; else a "
                "window is positive and negative"
            )
        fraction("jump_threshold", checked.jump_threshold)
        if changes.get("theta_floor") is not None:
            fraction("event_floor", changes["theta_floor"], closed=True)
        return {"changes": changes, "combination": data.get("combination", False)}

    @classmethod
    def assignable(cls) -> dict[str, Any]:
        """Key in the `benchmark` section -> type."""
        fields = Design.model_fields
        kinds: dict[str, Any] = {key: fields[name].annotation for name, key in _DESIGN_KEYS.items()}
        return {**kinds, "combination": bool}

    def design(self, **more: Any) -> Design:
        """The design, with more of its fields."""
        return Design.of({**_STANDARD, **_of_this_event({**self.changes, **more})})

    def to_dict(self) -> dict[str, Any]:
        """The `benchmark` section as plain data."""
        names = [*_ALWAYS_WRITTEN, *(name for name in self.changes if name not in _ALWAYS_WRITTEN)]
        values = {name: self.changes.get(name, _standard(name)) for name in names}
        plain = {_DESIGN_KEYS[name]: _plain_value(value) for name, value in values.items()}
        return {**plain, "combination": self.combination}


def _standard(name: str) -> Any:
    return _STANDARD.get(name, Design.model_fields[name].get_default())


def _of_this_event(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those of the presets' jump where the event is of another type."""
    event = fields.get("event_type", "E_jump")
    return {
        name: value
        for name, value in fields.items()
        if event == "E_jump"
        or Design.model_fields.get(name) is None
        or Design.views(name).get("only") != "E_jump"
        or _standard(name) not in (None, False)
    }


def _plain_value(value: Any) -> Any:
    """The value as config.yaml has it: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple):
        return tuple(item.plain() if isinstance(item, Section) else item for item in value)
    return value


class RunConfig(Config):
    """Everything that `gmb run` needs, by section."""

    task: TaskSettings = TaskSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    benchmark: DesignSettings = DesignSettings()
    seeds: SeedSettings = SeedSettings()
    draws: DrawSettings = DrawSettings()

    def check(self) -> None:
        for name, given in self.draws.given.items():
            for value in given:
                if name == "operation" and self.task.name is not None:
                    raise InputError(
                        f"draws.operation: task.name={self.task.name} already says which task it "
                        "is; leave one out"
                    )
                pairs = {"keep_pairs_together": False} if name == "operation" else {}
                try:
                    getattr(self, _DRAWN[name]).replace(**{name: value}, **pairs)
                except InputError as error:
                    raise InputError(f"draws.{name}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dictionaries."""
        sections = {name: dict(getattr(self, name)) for name in ("task", "model", "training")}
        if self.draws.any:
            sections["draws"] = self.draws.identity()
        design = {"benchmark": self.benchmark.to_dict(), "seeds": dict(self.seeds)}
        return {"preset": self.preset, **sections, **design}

    def of_seed(self, seed: int) -> RunConfig:
        """The config of one seed, which draws nothing; itself where seeds draw nothing."""
        if not self.draws.any:
            return self
        fields = self.draws.of_seed(seed)
        if "operation" in fields["task"]:
            fields["task"] = self.task.of_operation(**fields["task"])
        drawn = {name: getattr(self, name).replace(**given) for name, given in fields.items()}
        return self.replace(**drawn, draws=DrawSettings())

    def judged_by(self, **fields: Any) -> RunConfig:
        """With fields of the design changed, by its names; `InputError` as `DesignSettings`."""
        return self.replace(benchmark=self.benchmark.replace(**fields))

    def design_on(
        self,
        *,
        boundary: Mapping[str, Any],
        candidates: Sequence[Mapping[str, Any]],
        fields: Mapping[str, Any] = MappingProxyType({}),
    ) -> Design:
        """The design that the config fixes, about this system and these candidates.

        `boundary` is the system, by the keys of the document, as are the candidates; `fields` of
        the design, by its names, are to be different.
        """
        names = {place: name for name, place in Design.places().items()}
        system = {names[f"boundary.{key}"]: value for key, value in boundary.items()}
        seeds = {
            "seeds_explore": list(parse_seeds(self.seeds.explore)),
            "seeds_eval": list(parse_seeds(self.seeds.evaluate)),
        }
        return self.benchmark.design(candidates=list(candidates), **{**system, **seeds, **fields})

    def changed(self, assignments: Iterable[str]) -> RunConfig:
        """As of every config; and a field that `task.name` decides is not set beside it."""
        given = tuple(assignments)
        names = {assignment.partition("=")[0].strip() for assignment in given}
        config = Config.changed(self, given)
        said = ("operation", "prime", "op_token") if config.task.name else ("operation", "prime")
        for name in said if config.task.name or "task.name" in names else ():
            if f"task.{name}" in names:
                raise InputError(
                    f"--set task.{name}: task.name already says which task it is; leave one out"
                )
        return config

    def training_identity(self) -> dict[str, Any]:
        """The part of the config that decides a run's log, seed apart, as plain dictionaries."""
        model = dict(self.model)
        if self.model.layer_norm:  # as before there was a choice, so that logs agree
            del model["layer_norm"]
        for name in FIELDS:  # what a model does not have, its identity does not name
            del model[name]
        return {
            "task": self.task.identity(),
            "model": {**model, **self.model.variant.fields},
            "training": self.training.identity(),
            **({"draws": self.draws.identity()} if self.draws.any else {}),
        }

    def design(self) -> dict[str, Any]:
        """The part that says how runs are to be judged, as plain dictionaries."""
        benchmark = self.benchmark.to_dict()
        if not self.benchmark.combination:  # as before there was one, so that logs agree
            del benchmark["combination"]
        return {"benchmark": benchmark, "seeds": dict(self.seeds)}

    @property
    def tasks(self) -> list[TaskSettings]:
        """The task, or one for each operation that seeds draw."""
        task = self.task
        return [task.replace(**task.of_operation(name)) for name in self.draws.operation] or [task]

    @property
    def chance(self) -> float | None:
        """The accuracy of a guess; None where it is not known, or not one for all seeds."""
        found = {task.build().chance for task in self.tasks}
        return found.pop() if len(found) == 1 else None

    def training_hash(self) -> str:
        """SHA-256 of `training_identity`, 64 hex digits."""
        return config_hash(self.training_identity())
