"""In-context probes (phase 2c): what a model learns from the examples in its prompt.

Every variant is trained on rows of functions drawn anew at every step (`tasks.incontext`), its loss
at the y positions, and asked after k = 0, 1, 2, ... examples of functions that it was not trained
on. The exact Bayes predictor answers the same questions.

    OUT/incontext.yaml                             the design; another one is refused
    OUT/logs/VARIANT/seeds-0-4-n5.parquet          learning curves, by k
    OUT/results/VARIANT-seeds-0-4-n5.json          every k at the end, of finished seeds
    OUT/models/VARIANT/seed_3/                     a checkpoint of transformers
    OUT/state/VARIANT/seeds-0-4-n5.safetensors     training state of unfinished seeds

Variants and seeds are no part of the design: the same command with others adds them.

Shapes: S seeds, E rows, P questions in a row, one for each k.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator
from torch import Tensor

from gmb_hf.base.documents import load_yaml, plain_data
from gmb_hf.base.errors import InputError, choose, positive_int
from gmb_hf.base.files import read_json, whole_folder, write_json
from gmb_hf.base.pretrained import write_hashes
from gmb_hf.modeling import GrokkingTransformerConfig, GrokkingTransformerForCausalLM
from gmb_hf.protocol.sequential.config import SHAPE, refuse_variant
from gmb_hf.protocol.sequential.folder import VariantFolder
from gmb_hf.runs.runlog import RunLog
from gmb_hf.tasks import incontext
from gmb_hf.tasks.task import Flags, Ints
from gmb_hf.training import launch
from gmb_hf.training.checkpoints import Rows, group_name, load_model, save_model
from gmb_hf.training.config import ModelSettings, TrainingSettings
from gmb_hf.training.folder import check_config, read_design
from gmb_hf.training.rows import EMBEDDING, RowForward, VectorForward, unshared_tree
from gmb_hf.training.seeds import versions
from gmb_hf.training.settings import (
    ClosedFraction,
    Config,
    Fraction,
    NotNegative,
    SettingsSection,
    Size,
    Whole,
    config_hash,
    one_of,
    preset_sections,
)
from gmb_hf.training.stacked import StackedModel, pull_matrices, seeded_model, shape_fields
from gmb_hf.training.tracking import Tracking
from gmb_hf.training.variants import Variant

Floats = NDArray[np.float64]

DESIGN, RESULTS, FORMAT = "incontext.yaml", "results", "gmb-hf in-context results 1"
SAVE_EVERY_SECONDS = 15.0
ROWS_AT_ONCE, LOOK_EVERY = 256, 5
HELD_OUT, TRAINED, PRIOR = "held out", "trained", "all"
"""Functions that were never trained on, those that were, and any of the prior."""
ANY, NEW = "any", "new"
"""Questions: every x, and x that the prompt does not hold."""
_BATCHES, _QUESTIONS = 1, 2  # random streams


class PromptSettings(SettingsSection):
    """What is asked in a prompt.

    Attributes:
        rule: linear, affine_table, copy_rule or linear_real.
        prime: the modulus of a rule over residues; None takes 11.
        dimension: of the vectors of linear_real; None takes 5.
        noise: standard deviation of its noise.
        examples: K, the most in a prompt; None takes 8, of linear_real twice the dimension.
        block: positions of the model; None takes as many as K examples and a question need.
        held_out: share of the functions of `linear` that are never trained on. Of the other rules
            a function is drawn once in a lifetime, so that all that are asked about are held out.
        data_seed: draws what is held out and what is asked, the same for all seeds and variants.
        asked, asked_at_end: rows of questions at a checkpoint, and at the end.
    """

    kind: ClassVar[str] = "prompt"
    rule: Annotated[str, one_of("rule", (*incontext.RULES, incontext.REAL))] = "linear"
    prime: int | None = None
    dimension: int | None = None
    noise: NotNegative = 0.0
    examples: int | None = None
    block: Size | None = None
    held_out: Fraction = 0.1
    data_seed: Whole = 0
    asked: Size = 512
    asked_at_end: Size = 4096

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, data: Any) -> Any:
        """What is None takes the rule's own."""
        if not isinstance(data, dict):
            return data
        given = {name: value for name, value in data.items() if value is not None}
        real = given.get("rule") == incontext.REAL
        filled: dict[str, Any] = (
            {"dimension": incontext.DIMENSION} if real else {"prime": incontext.PRIME}
        )
        filled = {"examples": incontext.EXAMPLES, **filled, **given}
        if real and "examples" not in given and isinstance(filled["dimension"], int):
            filled["examples"] = 2 * filled["dimension"]
        if "block" not in given and isinstance(filled["examples"], int):
            filled["block"] = 3 + 2 * filled["examples"]
        return filled

    def check(self) -> None:
        real = self.rule == incontext.REAL
        for name, fits in (("prime", not real), ("dimension", real), ("noise", real)):
            if getattr(self, name) and not fits:
                raise InputError(f"{name} is not for {self.rule}; leave it out")
        self.functions()
        check_block(self.examples or 0, self.block or 0, "prompt.block")

    def build(self) -> incontext.InContextTask | incontext.LinearReal:
        """What draws the rows."""
        assert self.examples is not None  # `_filled` sees to it
        if self.rule == incontext.REAL:
            return incontext.LinearReal(self.dimension or 0, self.examples, self.noise)
        return incontext.InContextTask(self.rule, self.prime or 0, self.examples)

    def functions(self) -> tuple[Ints | None, Ints | None]:
        """Those that are trained on and those held out; None where a function comes but once."""
        task = self.build()
        if isinstance(task, incontext.LinearReal):
            return None, None
        return task.held_out(self.held_out, self.data_seed)

    @property
    def positions(self) -> tuple[int, ...]:
        """Those in a row whose next token is an answer."""
        return tuple(range(1, self.tokens - 1, 2))

    @property
    def tokens(self) -> int:
        """Of a row of K examples and a question, with BOS and the last answer."""
        return 3 + 2 * (self.examples or 0)

    @property
    def words(self) -> int:
        """V: tokens of the vocabulary; of linear_real the numbers that a position is read from."""
        task = self.build()
        return task.dimension + 2 if isinstance(task, incontext.LinearReal) else task.vocab_size

    def identity(self) -> dict[str, Any]:
        """The fields that this rule has, as plain data."""
        other = ("prime", "held_out") if self.rule == incontext.REAL else ("dimension", "noise")
        fields = dict(self)
        return {name: value for name, value in fields.items() if name not in other}


def check_block(examples: int, block: int, where: str) -> None:
    """`InputError` where so many examples and a question do not fit into the model's block."""
    needed = 3 + 2 * examples
    if needed > block:
        most = (block - 3) // 2
        fewer = f"ask for at most k = {most}, or " if most > 0 else ""
        raise InputError(
            f"k = {examples} examples and a question take {needed} tokens, the model's block "
            f"({where}) has {block}; {fewer}train a model with a longer block"
        )


class StreamTraining(TrainingSettings):
    """Training on rows that are drawn anew at every step.

    Attributes:
        batch: rows in an update.
        warmup: steps until the learning rate is reached; it is constant afterwards, until
        cooldown: the share of the steps, at the end, in which it falls to a hundredth.
        different: share of the rows whose x do not repeat, as far as there are values; in the
            others they are uniform, as in all that is asked.
        first_values: begin with x below this number, and add the next value of each seed when its
            few-shot accuracy on the rows of its batches is `widen_at`; None begins with all. Where
            all values are new at once, nothing tells of a slope before all of the rule is known.
        widen_at: of the moving average over the last batches that were looked at.
    """

    steps: Size = 3000
    checkpoint_every: Size = 100
    lr: NotNegative = 2e-3
    weight_decay: NotNegative = 0.1
    seeds_at_once: Size = 3
    batch: Size = 128
    warmup: Whole = 100
    cooldown: ClosedFraction = 0.25
    different: ClosedFraction = 0.0
    first_values: Size | None = None
    widen_at: Fraction = 0.85

    def rate(self, step: int) -> float:
        """The learning rate of the update after `step` others."""
        left = (self.steps - step) / max(self.cooldown * self.steps, 1)
        return self.lr * min(1.0, (step + 1) / max(self.warmup, 1), max(left, 0.01))


class InContextConfig(Config):
    """Everything that decides a run of in-context probes, except its variants and seeds."""

    prompt: PromptSettings = PromptSettings()
    model: ModelSettings = ModelSettings()
    training: StreamTraining = StreamTraining()

    def check(self) -> None:
        refuse_variant(self.model)
        for name, usual in (("observables", "usual"), ("stop_after", None)):
            if getattr(self.training, name) != usual:
                raise InputError(f"training.{name}: in-context probes do without; leave it out")
        rule = self.prompt.rule
        if rule == incontext.REAL or incontext.RULES[rule].in_order:
            for name in ("different", "first_values"):
                if getattr(self.training, name):
                    raise InputError(f"training.{name} is not for {rule}; leave it out")

    def design(self) -> dict[str, Any]:
        """What decides the numbers, except seeds and variants, as plain data for YAML."""
        model = {name: getattr(self.model, name) for name in _SHAPE}
        training = plain_data(self.training.identity())
        return {"prompt": self.prompt.identity(), "model": model, "training": training}

    def hash(self) -> str:
        """SHA-256 of `design`, 64 hex digits."""
        return config_hash(self.design())


_SHAPE = (*SHAPE, "layer_norm")
"""The fields of the model that all variants share."""


PRESETS: dict[str, dict[str, Any]] = load_yaml(Path(__file__).with_name("presets.yaml"))


def preset(name: str, rule: str) -> InContextConfig:
    """The config of that name for a rule; of unknown names `InputError` names the nearest."""
    choose("rule", rule, (*incontext.RULES, incontext.REAL), where="--rule")
    sections = preset_sections(PRESETS, name, rule)
    sections["prompt"] = {"rule": rule, **sections.get("prompt", {})}
    return InContextConfig.from_dict(sections)


def model_shape(config: InContextConfig, variant: Variant) -> GrokkingTransformerConfig:
    """The config of the model that is trained; `InputError` where the variant does not fit."""
    prompt, real = config.prompt, config.prompt.rule == incontext.REAL
    if real and "hebbian_window" in variant.fields:
        raise InputError(
            f"variant {variant.name!r} pulls the embeddings of tokens together, and "
            f"{incontext.REAL} has no tokens; leave it out"
        )
    if real and config.model.tied:
        raise InputError(
            f"model.tied: what reads the vectors of {incontext.REAL} is no output; set it false"
        )
    special = {} if real else {"bos_token_id": prompt.prime, "eos_token_id": prompt.words - 1}
    try:
        return GrokkingTransformerConfig(
            vocab_size=prompt.words,
            max_position_embeddings=prompt.block,
            pad_token_id=special.get("eos_token_id"),
            **special,
            **shape_fields(config.model.replace(**variant.fields)),
        )
    except ValueError as error:
        raise InputError(f"variant {variant.name!r}: {error}") from None


class Questions:
    """Rows of questions with what the Bayes predictor answers; nothing of them depends on a model.

    Attributes:
        repeated: whether a question's x is in its prompt, bool [E, P].
        first: where that x stood first, int64 [E, P].
        certain: whether the examples answer the question: the few-shot questions, bool [E, P].
        bayes_loss: of the Bayes predictor: nats, or its expected squared error over the dimension.
        bayes_accuracy: the probability of its best answer, [E, P]; None of real numbers.
    """

    def __init__(
        self, prompt: PromptSettings, functions: Ints | None, count: int, stream: int
    ) -> None:
        rng = np.random.default_rng([_QUESTIONS, prompt.data_seed, stream])
        self._prompt, task = prompt, prompt.build()
        self.bayes_accuracy: Floats | None = None
        if isinstance(task, incontext.LinearReal):
            self._x, self._y = task.draw(rng, count)
            _, spread = task.bayes(self._x, self._y)
            self.bayes_loss = spread / task.dimension
            self.repeated: Flags = np.zeros(spread.shape, dtype=bool)
            self.first: Ints = np.tile(np.arange(task.pairs), (count, 1))
            self.certain: Flags = self.first >= task.dimension
            return
        self.rows = task.draw(rng, count, functions)
        found = task.bayes(self.rows)
        x, y = task.pairs_of(self.rows)
        right = np.take_along_axis(found, y[:, :, None], axis=2)[:, :, 0]
        with np.errstate(divide="ignore"):
            self.bayes_loss = -np.log(right) + 0.0
        self.bayes_accuracy = found.max(axis=2)
        self.first = incontext.first_places(x)
        self.repeated = self.first < np.arange(task.pairs)
        self.certain = self.bayes_accuracy == 1

    def __len__(self) -> int:
        return len(self.repeated)

    def outcomes(
        self, weights: Mapping[str, Tensor], shape: GrokkingTransformerConfig
    ) -> tuple[Floats, Floats | None]:
        """Losses and, of tokens, whether the answer is right: [S, E, P] each.

        An answer is right if its token alone scores highest.
        """
        like, positions = weights[EMBEDDING], self._prompt.positions
        models, words = like.shape[:2]

        def answered(part: slice) -> tuple[Tensor, Tensor]:
            if self._prompt.rule == incontext.REAL:
                x, y = vectors(self._x[part], self._y[part]).to(like), self._y[part]
                values, answers = x.expand(models, -1, -1, -1), torch.from_numpy(y).to(like)
                given = (values, positions, answers.expand(models, -1, -1), words - 2)
                losses = VectorForward(shape, *given).errors(weights) / (words - 2)
                right = torch.zeros_like(losses)
            else:
                rows = torch.from_numpy(self.rows[part]).to(like.device)[None]
                tree = unshared_tree(rows, positions, vocab_size=words, dtype=like.dtype)
                logits, _ = RowForward(shape, tree, models).logits(weights)
                losses, right = scored(logits, tree.answers.expand(models, -1))
            return losses.view(models, -1, len(positions)), right.view(models, -1, len(positions))

        return self._in_parts(answered)

    def model_outcomes(self, model: GrokkingTransformerForCausalLM) -> tuple[Floats, Floats | None]:
        """As `outcomes` of one model, [1, E, P], through its own forward."""
        places, table = torch.tensor(self._prompt.positions), model.get_input_embeddings().weight

        def answered(part: slice) -> tuple[Tensor, Tensor]:
            if self._prompt.rule == incontext.REAL:
                values = vectors(self._x[part], self._y[part])[0].to(table)
                found = model(inputs_embeds=values @ table).logits[:, places, -2]
                errors = (found - torch.from_numpy(self._y[part]).to(found)).square()
                return errors[None] / (len(table) - 2), torch.zeros_like(errors)[None]
            rows = torch.from_numpy(self.rows[part]).to(model.device)
            losses, right = scored(model(rows[:, :-1]).logits[:, places], rows[:, places + 1])
            return losses[None], right[None]

        return self._in_parts(answered)

    def _in_parts(
        self, answered: Callable[[slice], tuple[Tensor, Tensor]]
    ) -> tuple[Floats, Floats | None]:
        """What a call finds of some rows at a time, of all of them."""
        with torch.no_grad():
            starts = range(0, len(self), ROWS_AT_ONCE)
            parts = [answered(slice(start, start + ROWS_AT_ONCE)) for start in starts]
        losses, right = (
            torch.cat(side, dim=1).double().cpu().numpy() for side in zip(*parts, strict=True)
        )
        return losses, right if self.bayes_accuracy is not None else None

    def curves(self, losses: Floats, right: Floats | None) -> list[dict[str, Any]]:
        """A record for each kind of question and each k, with a number per seed.

        `questions` are how many rows it is a mean over; kinds that are never asked are left out.
        """
        found = []
        for kind, asked in ((ANY, np.ones_like(self.repeated)), (NEW, ~self.repeated)):
            if kind == NEW and asked.all():
                continue
            for k in np.flatnonzero(asked.any(axis=0)).tolist():
                rows = asked[:, k]
                record = {
                    "x": kind,
                    "k": k,
                    "questions": int(rows.sum()),
                    "bayes_loss": float(self.bayes_loss[rows, k].mean()),
                    "loss": losses[:, rows, k].mean(axis=1).tolist(),
                }
                if right is not None and self.bayes_accuracy is not None:
                    record["bayes_accuracy"] = float(self.bayes_accuracy[rows, k].mean())
                    record["accuracy"] = right[:, rows, k].mean(axis=1).tolist()
                found.append(record)
        return found

    def scores(self, losses: Floats, right: Floats | None) -> dict[str, Floats]:
        """Numbers over all questions, [S] each.

        `few_shot_accuracy` and `few_shot_loss` are of the questions that the examples answer,
        `excess_loss` is the loss less that of the Bayes predictor, and `induction_score` the loss
        at an x that was seen less that at its first place: below 0 where prompts are used.
        """
        found = {}
        if self.certain.any():
            if right is not None:
                found["few_shot_accuracy"] = right[:, self.certain].mean(axis=1)
            found["few_shot_loss"] = losses[:, self.certain].mean(axis=1)
        found["excess_loss"] = losses.mean(axis=(1, 2)) - self.bayes_loss.mean()
        if self.repeated.any():
            before = np.take_along_axis(losses, self.first[None], axis=2)
            found["induction_score"] = (losses - before)[:, self.repeated].mean(axis=1)
        return found


def scored(logits: Tensor, answers: Tensor) -> tuple[Tensor, Tensor]:
    """Losses in nats and whether the answers alone score highest, of logits [..., V]."""
    score = logits.gather(-1, answers.unsqueeze(-1))
    return logits.logsumexp(-1) - score.squeeze(-1), (logits >= score).sum(-1) == 1


def vectors(x: Floats, y: Floats) -> Tensor:
    """Rows of linear_real as positions read them: BOS, x1, y1, ..., x, each a vector, [1, n, T, V].

    V is d + 2: the numbers of x, then y, then a one at BOS.
    """
    count, pairs, d = x.shape
    values = np.zeros((count, 2 * pairs, d + 2))
    values[:, 0, d + 1] = 1
    values[:, 1::2, :d] = x
    values[:, 2::2, d] = y[:, :-1]
    return torch.from_numpy(values)[None]


def question_sets(prompt: PromptSettings, count: int) -> dict[str, Questions]:
    """The questions at the end, by the functions that they are about.

    Those held out come first; of rules whose functions come once there are no others.
    """
    trained, held = prompt.functions()
    made = {HELD_OUT: Questions(prompt, held, count, 0)}
    if trained is not None:
        made[TRAINED] = Questions(prompt, trained, count, 1)
        made[PRIOR] = Questions(prompt, None, count, 2)
    return made


class Stream:
    """S seeds of one variant that learn rows without end; `state` is all that is needed to go on.

    Attributes:
        config, variant, seeds, shape: what is trained.
        model: the stacked models.
        rows: the learning curves.
    """

    def __init__(
        self,
        config: InContextConfig,
        variant: Variant,
        seeds: Sequence[int],
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        self.config, self.variant, self.seeds = config, variant, tuple(seeds)
        self.shape, self._device = model_shape(config, variant), device
        models = [seeded_model(self.shape, seed) for seed in self.seeds]
        self.model = StackedModel(models, config.training, device=device)
        self.rows = Rows()
        # Of each seed: the values that x may have, and its few-shot accuracy of late.
        most = config.prompt.prime or 0
        first = min(config.training.first_values or most, most)
        self.values, self._lately = np.full(len(seeds), first), np.zeros(len(seeds))
        self._task, self._functions = config.prompt.build(), config.prompt.functions()[0]
        self._forward: RowForward | None = None

    @cached_property
    def _questions(self) -> Questions:
        prompt = self.config.prompt
        return next(iter(question_sets(prompt, prompt.asked).values()))

    def _draws(self) -> list[np.random.Generator]:
        """A generator for each seed at this step: a run that is resumed draws the same rows."""
        start = (_BATCHES, self.config.prompt.data_seed)
        return [np.random.default_rng([*start, seed, self.model.step]) for seed in self.seeds]

    def losses(self, *, keep_logits: bool = False) -> tuple[Tensor, Tensor]:
        """Losses [S] on this step's rows, with gradients; on request the logits [S, n P, V]."""
        batch, like = self.config.training.batch, self.model.weights[EMBEDDING]
        if isinstance(self._task, incontext.LinearReal):
            drawn = [self._task.draw(rng, batch) for rng in self._draws()]
            values = torch.cat([vectors(x, y) for x, y in drawn]).to(like)
            answers = torch.stack([torch.from_numpy(y) for _, y in drawn]).to(like)
            given = (values, self.config.prompt.positions, answers, like.shape[1] - 2)
            errors = VectorForward(self.shape, *given).errors(self.model.weights)
            return errors.mean(1) / self._task.dimension, like.new_empty(0)
        self.drawn = np.stack(
            [
                self._task.draw(
                    rng,
                    batch,
                    self._functions,
                    values=int(values),
                    different=self.config.training.different,
                )
                for rng, values in zip(self._draws(), self.values, strict=True)
            ]
        )
        tokens = torch.from_numpy(self.drawn).to(like.device)
        pulls = pull_matrices(tokens.cpu(), self.shape)
        if pulls is not None:
            self.model.pull(pulls.to(like))
        tree = unshared_tree(
            tokens, self.config.prompt.positions, vocab_size=like.shape[1], dtype=like.dtype
        )
        if self._forward is None:
            self._forward = RowForward(self.shape, tree, len(self.seeds))
        self._forward.read(tree)
        return self._forward.losses(self.model.weights, keep_logits=keep_logits)

    def measure(self, losses: Tensor, logits: Tensor) -> dict[str, Floats]:
        """Add a row to the learning curves: `losses` and `logits` are of this step's rows."""
        questions = self._questions
        found = {"train_loss": losses.detach().double().cpu().numpy()}
        if self._forward is not None:
            found["train_acc"] = self.batch_accuracy(logits)
            found["x_values"] = self.values.astype(np.float64)
        held, right = questions.outcomes(self.model.weights, self.shape)
        found["test_loss"] = held.mean(axis=(1, 2))
        scores = questions.scores(held, right)
        if "few_shot_accuracy" in scores:
            found["test_acc"] = scores.pop("few_shot_accuracy")
        found |= scores
        for record in questions.curves(held, right):
            kind = "" if record["x"] == ANY else "_new"
            for name in ("loss", "accuracy"):
                if name in record:
                    found[f"{name}{kind}_k{record['k']}"] = np.array(record[name])
        self.rows.add(self.model.step, found)
        return found

    def batch_accuracy(self, logits: Tensor) -> Floats:
        """Few-shot accuracy on the rows that are about to be trained on, [S]; NaN without any."""
        assert self._forward is not None
        assert isinstance(self._task, incontext.InContextTask)
        right = scored(logits, self._forward.answers)[1].cpu().numpy().astype(np.float64)
        found = []
        for place, rows in enumerate(self.drawn):
            certain = self._task.bayes(rows).max(axis=2) == 1
            known = right[place].reshape(certain.shape)[certain]
            found.append(known.mean() if len(known) else np.nan)
        return np.array(found)

    def widen(self, logits: Tensor) -> None:
        """Give the seeds that answer what they are asked another value of x."""
        training = self.config.training
        self._lately += np.nan_to_num(self.batch_accuracy(logits) - self._lately) / 4
        ready = (self._lately >= training.widen_at) & (self.values < self.config.prompt.prime)
        self.values[ready] += 1
        self._lately[ready] = 0.0

    @property
    def looks(self) -> bool:
        """Whether `widen` looks at this step's rows."""
        if self.config.training.first_values is None or self.model.step % LOOK_EVERY:
            return False
        return bool((self.values < self.config.prompt.prime).any())

    def state(self) -> dict[str, Tensor]:
        """All that is needed to go on, except the curves (`rows`)."""
        values, lately = map(torch.from_numpy, (self.values, self._lately))
        return {**self.model.state(), "icl.values": values, "icl.lately": lately}

    def load_state(self, tensors: Mapping[str, Tensor], rows: Rows) -> None:
        """Go on from what `state` returned, and the curves at that moment."""
        self.model.load_state(tensors)
        self.rows = rows
        self.values, self._lately = (
            tensors[f"icl.{name}"].numpy().copy() for name in ("values", "lately")
        )

    def update(self, losses: Tensor) -> None:
        """One step of AdamW at this step's learning rate."""
        rate = self.config.training.rate(self.model.step) / self.config.training.lr
        for group, usual in zip(self.model.optimizer.param_groups, self._usual, strict=True):
            group["lr"] = usual * rate
        self.model.backward(losses)
        self.model.update()

    @cached_property
    def _usual(self) -> list[float]:
        return [float(group["lr"]) for group in self.model.optimizer.param_groups]

    def results(self) -> dict[str, Any]:
        """Every k at the end, and the scores, by the functions asked about; as `RESULTS` has it.

        Seeds whose loss is not finite are named under `diverged` and have no numbers.
        """
        prompt, by_set = self.config.prompt, {}
        for name, questions in question_sets(prompt, prompt.asked_at_end).items():
            by_set[name] = (questions, *questions.outcomes(self.model.weights, self.shape))
        sound = np.all([np.isfinite(one[1]).all(axis=(1, 2)) for one in by_set.values()], axis=0)
        order = [place for place in np.argsort(self.seeds).tolist() if sound[place]]
        functions = {}
        for name, (questions, losses, right) in by_set.items():
            kept = losses[order], None if right is None else right[order]
            scores = questions.scores(*kept)
            functions[name] = {
                "curves": questions.curves(*kept),
                "scores": {key: value.tolist() for key, value in scores.items()},
            }
        return {
            "format": FORMAT,
            "variant": self.variant.name,
            "seeds": [self.seeds[place] for place in order],
            "diverged": sorted({*self.seeds} - {self.seeds[place] for place in order}),
            "functions": functions if order else {},
            "design_hash": self.config.hash(),
            "versions": versions(),
        }


class InContextFolder(VariantFolder):
    """The folder `path` of a run, and its finished results."""

    def claim(self, config: InContextConfig) -> None:
        """Write the design into the folder, or check that it is the same, as `check_config`."""
        noted = {"preset": config.preset, "hash": config.hash(), "versions": versions()}
        check_config(self.path, {"design": config.design()}, name=DESIGN, noted=noted)

    def config(self) -> InContextConfig:
        """The config in the folder; `InputError` where that is missing, or none."""
        return read_design(InContextConfig, self.path / DESIGN)

    def model(self, variant: str, seed: int) -> Path:
        """Where the model of a seed is saved."""
        return self.path / "models" / variant / f"seed_{seed}"

    def results(self) -> dict[str, list[dict[str, Any]]]:
        """Variant -> the results of each group of its seeds; `InputError` for another file."""
        found: dict[str, list[dict[str, Any]]] = {}
        for path in sorted((self.path / RESULTS).glob("*.json")):
            held = read_json(path)
            if not isinstance(held, dict) or held.get("format") != FORMAT:
                raise InputError(f"{path}: no results of gmb icl run; move it out of this folder")
            found.setdefault(str(held["variant"]), []).append(held)
        return found

    def finished_seeds(self, variant: str) -> set[int]:
        """The seeds of a variant that are trained, those that diverged included."""
        groups = self.results().get(variant, [])
        return {seed for one in groups for key in ("seeds", "diverged") for seed in one[key]}

    def logs(self, variant: str) -> RunLog | None:
        """The learning curves of a variant; None where there are none."""
        paths = sorted((self.path / "logs" / variant).glob("*.parquet"))
        return RunLog.concat([RunLog.read(path) for path in paths]) if paths else None

    def write(self, stream: Stream) -> None:
        """Write curves, models' results of a group of seeds that has finished, results last."""
        config, variant, name = stream.config, stream.variant, group_name(stream.seeds)
        training = config.training
        about = {
            "variant": variant.name,
            "preset": config.preset,
            "task": config.prompt.build().name,
            "model": config.model.replace(**variant.fields).name,
            "optimizer": f"AdamW(lr={training.lr:g}, weight_decay={training.weight_decay:g}, "
            f"betas=({training.beta1:g}, {training.beta2:g}), eps={training.eps:g})",
            "schedule": f"{training.warmup} steps of warm-up, {training.batch} new rows a step, "
            f"{training.steps} steps",
            "checkpoint_every_steps": training.checkpoint_every,
            "design": config.design(),
            "design_hash": config.hash(),
            "versions": versions(),
        }
        log = stream.rows.log(stream.seeds, about)
        log.write(self.path / "logs" / variant.name / f"{name}.parquet")
        write_json(self.path / RESULTS / f"{variant.name}-{name}.json", stream.results())


def train_group(
    config: InContextConfig,
    variant: Variant,
    seeds: Sequence[int],
    folder: InContextFolder,
    *,
    device: str = "cpu",
    save_models: bool = True,
    trackers: Sequence[str] = (),
    tell: launch.Tell,
) -> None:
    """Train one of the pending groups of a folder, from where it stopped, and write its results."""
    stream, states = Stream(config, variant, seeds, device=device), folder.states(config, variant)
    saved, every = states.load(seeds), config.training.checkpoint_every
    if saved is not None:
        stream.load_state(saved[0], saved[2])
    tell("advanced", stream.model.step * len(seeds))
    design = {"variant": variant.name, **config.design()}
    runs = [(variant.name, f"{variant.name}-seed_{seed}") for seed in seeds]
    saved_at = time.monotonic()
    with Tracking(trackers, folder.path, project="gmb-icl", config=design) as tracking:
        while True:
            step = stream.model.step
            losses, logits = stream.losses(keep_logits=step % every == 0 or stream.looks)
            if step % every == 0 and stream.rows.last < step:
                found = stream.measure(losses, logits)
                score = np.mean(found.get("test_acc", found["test_loss"]))
                tell("show", f"{variant.name} few-shot {score:.2f}"[:32])
                tracking.log_each(runs, step, found)
                if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                    states.save(seeds, stream.state(), stream.rows)
                    saved_at = time.monotonic()
            if step == config.training.steps:
                break
            if stream.looks:
                stream.widen(logits)
            stream.update(losses)
            tell("advanced", len(seeds))
    task = config.prompt.build()
    for place, seed in enumerate(seeds) if save_models else ():
        with whole_folder(folder.model(variant.name, seed)) as unfinished:
            model = stream.model.member(place)
            if isinstance(task, incontext.InContextTask):
                save_model(model, unfinished, [task])
            else:
                with launch.silence_transformers():
                    model.save_pretrained(unfinished)
                write_hashes(unfinished)
    folder.write(stream)
    states.drop(seeds)


def evaluate_checkpoint(
    checkpoint: str | Path, *, examples: int | None = None, device: str = "auto"
) -> tuple[InContextConfig, list[dict[str, Any]]]:
    """The design that a saved model was trained by, and its records at every k, by functions.

    They are found through the model's own forward, on the questions of the end of its run.

    Args:
        checkpoint: a folder under `models` of `gmb icl run`.
        examples: the most examples in a prompt; None for as many as in training.
        device: "auto", "cpu" or "cuda".

    `InputError` where it lies in no run, is no whole model, or its block is too short.
    """
    parents = Path(checkpoint).resolve().parents
    run = next((parent for parent in parents if (parent / DESIGN).is_file()), None)
    if run is None:
        raise InputError(
            f"{checkpoint}: lies in no run of gmb icl; name a model under OUT/models, such as "
            "runs/icl/models/dense/seed_0"
        )
    config = InContextFolder(run).config()
    model = load_model(checkpoint)
    if examples is not None:
        positive_int("--k", examples)
        check_block(examples, model.config.max_position_embeddings, str(checkpoint))
        block = model.config.max_position_embeddings
        prompt = config.prompt.replace(examples=examples, block=block)
        config = config.replace(prompt=prompt)
    model.to(launch.chosen_device(device))
    found = []
    for name, questions in question_sets(config.prompt, config.prompt.asked_at_end).items():
        for record in questions.curves(*questions.model_outcomes(model)):
            found.append({"functions": name, **record})
    return config, found
