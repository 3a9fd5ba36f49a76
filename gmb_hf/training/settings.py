"""The sections of a config that say what is trained: task, model, training, seeds.

Every field is documented where it stands and checked when the section is made.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from gmb_hf.tasks.modular import ModularTask
from gmb_hf.tasks.vocabulary import OP_TOKENS, OPERATIONS
from gmb_hf.training.seeds import parse_seeds
from gmb_hf.training.variants import HEBBIAN_RATE, LOOP_SIZES, SIZES, Variant
from gmb_hf.validation import (
    InputError,
    choose,
    fraction,
    not_negative,
    positive,
    positive_int,
)

ACTIVATIONS = ("gelu_new", "relu")
ENGINES = ("stacked", "single")
COMPILE_MODES = ("auto", "always", "never")
DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """The equations that a run learns.

    Attributes:
        operation: of modular arithmetic, e.g. "sub".
        prime: the modulus.
        train_fraction: share of the equations to train on; the others are held out.
        train_rows: their number instead of a share.
        op_token: "shared" gives every operation one token, "distinct" one each.
        corruption_rate: share of the training rows whose label is made wrong.
        keep_pairs_together: put (a, b) and (b, a) on the same side of the split.
        data_seed: draws the split; None ties it to the run's own seed.
    """

    operation: str = "sub"
    prime: int = 29
    train_fraction: float = 0.6
    train_rows: int | None = None
    op_token: str = "shared"
    corruption_rate: float = 0.0
    keep_pairs_together: bool = False
    data_seed: int | None = None

    def __post_init__(self) -> None:
        choose("operation", self.operation, OPERATIONS, where="task.operation")
        choose("op_token", self.op_token, OP_TOKENS, where="task.op_token")
        fraction("task.train_fraction", self.train_fraction)
        fraction("task.corruption_rate", self.corruption_rate, closed=True)
        if self.train_rows is not None:
            positive_int("task.train_rows", self.train_rows)
        try:
            self.build().split(self.share, self.data_seed_of(0))
        except InputError as error:
            raise InputError(f"task: {error}") from None

    @property
    def name(self) -> str:
        """What is learned from what, in words: `sub_p29, 60% train, shared tokens`.

        Everything that makes it another task to learn is named, so that logs of the one are not
        judged by thresholds of the other.
        """
        rows = self.train_rows
        parts = [
            f"{self.operation}_p{self.prime}",
            f"{100 * self.train_fraction:g}% train" if rows is None else f"{rows} rows train",
            f"{self.op_token} tokens",
        ]
        if self.corruption_rate:
            parts.append(f"{100 * self.corruption_rate:g}% wrong labels")
        if self.keep_pairs_together:
            parts.append("pairs together")
        if self.data_seed is not None:
            parts.append(f"data seed {self.data_seed}")
        return ", ".join(parts)

    @property
    def share(self) -> float:
        """The share of the rows to train on or, as an int, their number."""
        return self.train_fraction if self.train_rows is None else self.train_rows

    def data_seed_of(self, seed: int) -> int:
        """The data seed of the run with this seed."""
        return seed if self.data_seed is None else self.data_seed

    def build(self) -> ModularTask:
        """The task itself."""
        return ModularTask(
            self.operation,
            self.prime,
            op_token=self.op_token,
            corruption_rate=self.corruption_rate,
            keep_pairs_together=self.keep_pairs_together,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The shape of the transformer.

    Attributes:
        layers, heads, width: of the decoder.
        mlp_width: hidden units of each MLP.
        activation: "gelu_new" (GPT-2's tanh form) or "relu".
        tied: use the token embedding as the output layer.
        initializer_range: standard deviation of the initial weights.
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

    layers: int = 1
    heads: int = 4
    width: int = 32
    mlp_width: int = 128
    activation: str = "relu"
    tied: bool = False
    initializer_range: float = 0.02
    band_fc1: int | None = None
    band_fc2: int | None = None
    sort_window: int | None = None
    blend_window: int | None = None
    hebbian_window: int | None = None
    hebbian_rate: float = HEBBIAN_RATE
    cycles: int | None = None
    inner_steps: int | None = None
    halting: bool = False

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "width", "mlp_width"):
            positive_int(f"model.{name}", getattr(self, name))
        if self.width % self.heads:
            raise InputError(
                f"model.heads={self.heads} does not divide model.width={self.width}; "
                "choose a width that is a multiple of the heads"
            )
        choose("activation", self.activation, ACTIVATIONS, where="model.activation")
        positive("model.initializer_range", self.initializer_range)
        positive("model.hebbian_rate", self.hebbian_rate)
        for name in (*SIZES, *LOOP_SIZES):
            if getattr(self, name) is not None:
                positive_int(f"model.{name}", getattr(self, name))

    @property
    def variant(self) -> Variant:
        """The variant of the architecture."""
        return Variant.of(asdict(self))

    @property
    def name(self) -> str:
        """A short description, e.g. `transformer-1x4x32` or `transformer-1x4x32, sort-4`."""
        shape = f"transformer-{self.layers}x{self.heads}x{self.width}"
        return f"{shape}, {self.variant.name}" if self.variant.fields else shape


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How the model is trained.

    Attributes:
        steps: full-batch updates.
        checkpoint_every: steps between two rows of the run log.
        lr, weight_decay, beta1, beta2, eps: of AdamW; decay acts on every parameter.
        seeds_at_once: how many seeds are stacked; it changes speed and memory, not results.
        compile: compile the step with torch.compile: "always", "never", or "auto" where the
            work ahead is long enough to win back the time that compiling takes.
    """

    steps: int = 2500
    checkpoint_every: int = 10
    lr: float = 5e-3
    weight_decay: float = 0.5
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-8
    seeds_at_once: int = 36
    compile: str = "auto"

    def __post_init__(self) -> None:
        for name in ("steps", "checkpoint_every", "seeds_at_once"):
            positive_int(f"training.{name}", getattr(self, name))
        check_multiple("training", "steps", self.steps, "checkpoint_every", self.checkpoint_every)
        positive("training.lr", self.lr)
        positive("training.eps", self.eps)
        not_negative("training.weight_decay", self.weight_decay)
        fraction("training.beta1", self.beta1)
        fraction("training.beta2", self.beta2)
        choose("compile", self.compile, COMPILE_MODES, where="training.compile")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSettings:
    """Which seeds are free to look at, and which are held out.

    Attributes:
        explore: seeds for choosing signs and locking thresholds, e.g. "0:32".
        evaluate: seeds that only the locked design may judge, e.g. "1000:1040".
    """

    explore: str = "0:32"
    evaluate: str = "1000:1040"

    def __post_init__(self) -> None:
        shared = sorted(set(parse_seeds(self.explore)) & set(parse_seeds(self.evaluate)))
        if shared:
            raise InputError(
                f"seeds.explore and seeds.evaluate overlap in {shared[:5]}; held-out seeds must "
                "be ones that nobody has looked at"
            )


def check_multiple(section: str, name: str, value: int, of: str, part: int) -> None:
    """Refuse a field that is no multiple of another one of its section."""
    if value % part:
        raise InputError(
            f"{section}.{name}={value} is no multiple of {section}.{of}={part}; change one of them"
        )
