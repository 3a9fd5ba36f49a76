"""The observables of somebody's own model in training, by the definitions of the run logs.

`ModelObserver` takes them from the model's weights (`ModelWeights`), and from what it says of
held-out and training rows (`LabelledRows`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from transformers.pytorch_utils import Conv1D

from gmb_hf.base.errors import InputError
from gmb_hf.tasks.modular import is_prime
from gmb_hf.tasks.task import IGNORED
from gmb_hf.training import observables as measures


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Patterns of parameter names (regular expressions, found anywhere in the name).

    The defaults are the names in the model of this package and in the common ones of transformers
    (GPT-2, GPT-NeoX, Llama and similar models).

    Attributes:
        attention: all parameters of the attention blocks.
        mixing: of these the matrices that make queries, keys and values.
        mlp: all parameters of the MLP blocks.
        embedding, unembedding: each of one matrix; by default what the model itself says
            (`get_input_embeddings`, `get_output_embeddings`; a tied head is the embedding).
        residues: the token ids 0 .. residues - 1 stand for the residues of modular arithmetic;
            Fourier observables need it.
        group: in whose order they are taken: "additive" (a + b, a - b), also where nothing is
            said, or "multiplicative" (a * b, a / b), over discrete logarithms of a prime's.
    """

    attention: str = r"\.(attention|attn|self_attn)\."
    mixing: str = r"\.(qkv|c_attn|query_key_value|[qkv]_proj|query|key|value)\.weight$"
    mlp: str = r"\.(mlp|feed_forward|ffn)\."
    embedding: str | None = None
    unembedding: str | None = None
    residues: int | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        for name in ("attention", "mixing", "mlp", "embedding", "unembedding"):
            pattern = getattr(self, name)
            try:
                re.compile(pattern or "")
            except re.error as error:
                raise InputError(f"parts: {name} {pattern!r} is no pattern: {error}") from None
        if self.residues is not None and self.residues < 3:
            raise InputError(f"parts: residues must be 3 or more, got {self.residues}")
        if self.group not in (None, "additive", "multiplicative"):
            raise InputError(
                f'parts: group must be "additive" or "multiplicative", got "{self.group}"'
            )
        if self.group == "multiplicative" and not is_prime(self.residues or 0):
            raise InputError(
                "parts: the residues of a multiplicative group must be of a prime, "
                f"got residues={self.residues}"
            )


class ModelWeights:
    """The weights of one model as stacks of one, [1, ...], in float32 or better.

    Args:
        model: a PreTrainedModel, not wrapped.
        parts: what is meant by the names.
    """

    def __init__(self, model: nn.Module, parts: Parts) -> None:
        self._model = model
        self._parts = parts
        self.named: dict[str, Tensor] = {}
        for name, weight in model.named_parameters():
            sharded = hasattr(weight, "full_tensor") or hasattr(weight, "_sharded_size")
            if sharded or not weight.numel():
                raise InputError(
                    f"weight {name!r} is not whole on this process: models that are sharded (FSDP, "
                    "DeepSpeed ZeRO-3) cannot be watched from inside; follow their log with gmb "
                    "monitor"
                )
            wide = torch.promote_types(weight.dtype, torch.float32)
            self.named[name] = weight.detach().to(wide).unsqueeze(0)

    def all_of(self, part: str) -> dict[str, Tensor]:
        """The weights named like "attention", "mixing" or "mlp"; `InputError` where none is."""
        pattern = getattr(self._parts, part)
        found = {name: weight for name, weight in self.named.items() if re.search(pattern, name)}
        if not found:
            raise InputError(
                f"no weight of this model has a name like {pattern!r}; say which belong to its "
                f"{part} with parts=Parts({part}=...)"
            )
        return found

    @property
    def embedding_name(self) -> str:
        """The name of the input embedding."""
        return self._named("embedding", self._model.get_input_embeddings())  # type: ignore[operator]

    @property
    def embedding(self) -> Tensor:
        """The input embedding, [1, V, d]."""
        return self.named[self.embedding_name]

    @property
    def unembedding(self) -> Tensor:
        """The output layer, [1, V, d]; the embedding where they are one, or there is none."""
        head = self._model.get_output_embeddings()  # type: ignore[operator]
        if head is None and self._parts.unembedding is None:
            return self.embedding
        return self.named[self._named("unembedding", head)]

    @property
    def mixing(self) -> Tensor:
        """Queries, keys and values of all layers below one another, [1, rows, d]."""
        rows = self.all_of("mixing")
        for name, module in self._model.named_modules():
            weight = f"{name}.weight"
            if isinstance(module, Conv1D) and weight in rows:
                rows[weight] = rows[weight].transpose(1, 2)
        return torch.cat(list(rows.values()), dim=1)

    def _named(self, part: str, layer: nn.Module | None) -> str:
        """The name of the matrix that is given for a part, else of the model's own layer."""
        pattern = getattr(self._parts, part)
        own = getattr(layer, "weight", None)
        found = [
            name
            for name, parameter in self._model.named_parameters()
            if (re.search(pattern, name) if pattern else parameter is own)
        ]
        if len(found) != 1:
            which = f"{len(found)} weights have a name like {pattern!r}" if pattern else "none"
            what = f"the {part} of this model is one matrix, but found: {which}"
            raise InputError(f"{what}; name it with parts=Parts({part}=...)")
        return found[0]


def seen_system(model: nn.Module, optimizer: Any = None) -> dict[str, Any]:
    """What a training shows of its system, in the fields of `LockedSystem`.

    Rates are those of the group with most weights: biases and norms often have no decay. Without
    an optimizer, or with one that has no such rates, what it would show is left out.
    """
    model = getattr(model, "_orig_mod", model)  # compiled
    found: dict[str, Any] = {
        "architecture": type(model).__name__,
        "parameter_count": sum(weight.numel() for weight in model.parameters()),
    }
    while hasattr(optimizer, "optimizer"):  # wrapped by accelerate, or by a launcher
        optimizer = optimizer.optimizer
    groups = getattr(optimizer, "param_groups", None)
    if groups:
        largest = max(groups, key=lambda group: sum(weight.numel() for weight in group["params"]))
        rates = {"learning_rate": largest.get("lr"), "weight_decay": largest.get("weight_decay")}
        found["optimizer"] = type(optimizer).__name__
        found |= {name: float(rate) for name, rate in rates.items() if rate is not None}
    return found


BATCH_ROWS = 1024


class Answers(NamedTuple):
    """What a model says of a batch of rows: the logits [1, m, V] that predict answers [1, m].

    `hidden` are the states [1, m, d] that the logits are made from; None where not asked for.
    """

    logits: Tensor
    answers: Tensor
    hidden: Tensor | None


@dataclass(frozen=True)
class LabelledRows:
    """Rows of equal length, int64 [n, T] each; labels are aligned with the tokens."""

    input_ids: Tensor
    labels: Tensor
    attention_mask: Tensor | None

    @classmethod
    def of(cls, rows: Any, *, where: str) -> LabelledRows:
        """Rows from a `datasets.Dataset`, a sequence of mappings, or a mapping of arrays.

        `InputError` where a column is missing, rows differ in length, or nothing is labelled.
        """
        columns: dict[str, Tensor] = {}
        for name in ("input_ids", "labels", "attention_mask"):
            cells = _column(rows, name, where)
            if cells is not None:
                columns[name] = _tensor(cells, name, where)
            elif name != "attention_mask":
                raise InputError(f"{where}: column {name!r} missing; give input_ids and labels")
        input_ids, labels = columns["input_ids"], columns["labels"]
        if input_ids.shape != labels.shape or input_ids.dim() != 2:
            shapes = f"input_ids are {list(input_ids.shape)} and labels {list(labels.shape)}"
            raise InputError(f"{where}: {shapes}; give one label for each token of each row")
        if not bool((labels[:, 1:] != IGNORED).any()):
            hint = f"labels are {IGNORED} where nothing is predicted"
            raise InputError(f"{where}: no token has a label; {hint}")
        return cls(input_ids, labels, columns.get("attention_mask"))

    def batches(
        self,
        model: nn.Module,
        *,
        hidden: bool = False,
        changed: Mapping[str, Tensor] | None = None,
        tied: bool = True,
    ) -> Iterator[Answers]:
        """What the model says, batch by batch.

        Args:
            model: a PreTrainedModel; it is left as it is.
            hidden: whether to give the hidden states too.
            changed: other values for some of its weights.
            tied: whether a weight that the model uses in two places changes in both.
        """
        own = dict(model.named_parameters())
        weights = {name: value.to(own[name].dtype) for name, value in (changed or {}).items()}
        device = next(model.parameters()).device
        for start in range(0, len(self.input_ids), BATCH_ROWS):
            some = slice(start, start + BATCH_ROWS)
            inputs: dict[str, Any] = {"input_ids": self.input_ids[some].to(device)}
            if self.attention_mask is not None:
                inputs["attention_mask"] = self.attention_mask[some].to(device)
            inputs |= {"output_hidden_states": hidden, "use_cache": False}
            outputs = functional_call(model, weights, (), inputs, tie_weights=tied)
            answers = self.labels[some, 1:].to(device)
            labelled = answers != IGNORED
            yield Answers(
                outputs.logits[:, :-1][labelled].unsqueeze(0).float(),
                answers[labelled].unsqueeze(0),
                outputs.hidden_states[-1][:, :-1][labelled].unsqueeze(0) if hidden else None,
            )


def _column(rows: Any, name: str, where: str) -> Any:
    if isinstance(rows, Mapping):
        return rows.get(name)
    try:
        if hasattr(rows, "column_names"):
            return rows[name][:] if name in rows.column_names else None
        found = [row[name] for row in rows if name in row]
        return found if len(found) == len(rows) and found else None
    except (TypeError, KeyError):
        raise InputError(
            f"{where}: give rows with input_ids and labels: a datasets.Dataset, a list of "
            f"mappings, or a mapping of arrays; got {type(rows).__name__}"
        ) from None


def _tensor(cells: Any, name: str, where: str) -> Tensor:
    if isinstance(cells, Tensor):
        return cells.detach().to("cpu", torch.int64)
    try:
        return torch.stack([torch.as_tensor(row, dtype=torch.int64) for row in cells])
    except (RuntimeError, TypeError, ValueError):
        what = f"column {name!r} holds no rows of equally many whole numbers"
        raise InputError(f"{where}: {what}; pad them, with an attention_mask") from None


def answer_scores(model: Any, rows: LabelledRows, *, hidden: bool = False) -> dict[str, Tensor]:
    """Losses, margins and predictions of all answers, [1, m] each; the states, if asked for.

    Logits are not kept: they are as many numbers as the vocabulary for each answer.
    """
    parts = []
    for batch in rows.batches(model, hidden=hidden):
        part = {
            "losses": measures.answer_losses(batch.logits, batch.answers),
            "margins": measures.margins(batch.logits, batch.answers),
            "predictions": batch.logits.argmax(-1),
        }
        parts.append(part if batch.hidden is None else {**part, "hidden": batch.hidden})
    return {name: torch.cat([part[name] for part in parts], dim=1) for name in parts[0]}


def quality(split: str, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Loss, accuracy and margins over all answers, [1] each."""
    loss = {f"{split}_loss": outputs["losses"].mean(1)}
    return {**loss, **measures.answer_quality(split, outputs["margins"])}


def gradients_on(model: nn.Module, rows: LabelledRows) -> dict[str, Tensor]:
    """Of the mean loss over all answers, [1, ...] each; `.grad` is left as it is."""
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    # In float32 at least, also of a model in half precision.
    total = {
        name: torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        for name, weight in weights.items()
    }
    count = 0
    for outputs in rows.batches(model):
        loss = measures.answer_losses(outputs.logits, outputs.answers).sum()
        made = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        for name, gradient in zip(weights, made, strict=True):
            if gradient is not None:
                total[name] += gradient
        count += outputs.answers.shape[1]
    return {name: (gradient / count).unsqueeze(0) for name, gradient in total.items()}


def loss_on(model: nn.Module, rows: LabelledRows, changed: Mapping[str, Tensor]) -> Tensor:
    """The mean loss over all answers with these weights, [1, ...] each, changed; [1]."""
    answers = rows.batches(model, changed={name: weight[0] for name, weight in changed.items()})
    losses = [measures.answer_losses(outputs.logits, outputs.answers) for outputs in answers]
    return torch.cat(losses, dim=1).mean(1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """In evaluation mode, and each module afterwards in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


_QUALITY = ("loss", "acc", "margin_q10", "margin_q50", "margin_q90")
_PROCESS = ("disagreement", "prediction_change")
UPDATE = "update_norm"
HELD_OUT = (*(f"test_{name}" for name in _QUALITY), "participation_ratio", *_PROCESS)
TRAINING = (*(f"train_{name}" for name in _QUALITY), "gradient_norm", "curvature")
COLLECTED = (*measures.OF_WEIGHTS, UPDATE, *HELD_OUT, *TRAINING)
"""Every observable that can be taken from a model."""

Extra = Callable[[Any, int], Mapping[str, float]]
"""`extra(model, step)` gives columns that only the training's owner knows."""


class ModelObserver:
    """Measures what is needed, and no more.

    Args:
        needs: observables.
        heldout, train: rows with labels, as `LabelledRows.of` takes them.
        parts: which weights are meant.
        extra: gives the columns that are not among `COLLECTED`.

    Attributes:
        predictions: of the held-out answers at the last checkpoint, [1, m]; None before.

    Raises:
        InputError: something is needed that cannot be measured from what was given.
    """

    def __init__(
        self,
        needs: Sequence[str],
        *,
        heldout: Any = None,
        train: Any = None,
        parts: Parts | None = None,
        extra: Extra | None = None,
    ) -> None:
        self._needs = frozenset(needs)
        self._parts = parts or Parts()
        self._extra = extra
        self._heldout = self._rows(HELD_OUT, heldout, "held-out rows", "heldout")
        self._train = self._rows(TRAINING, train, "training rows", "train")
        self._require(measures.FOURIER, self._parts.residues, "the residues' embeddings", "parts")
        self._require(self._needs - {*COLLECTED}, extra, "nothing that a model shows", "extra")
        self.predictions: Tensor | None = None
        self._before: dict[str, Tensor] = {}

    @property
    def remembers(self) -> bool:
        """Whether `remember` is of use."""
        return UPDATE in self._needs

    def remember(self, model: nn.Module) -> None:
        """Keep the weights before the update that leads to the next checkpoint."""
        weights = ModelWeights(model, self._parts).named if self.remembers else {}
        self._before = {name: weight.clone() for name, weight in weights.items()}

    def measure(self, model: nn.Module, step: int) -> dict[str, float]:
        """The observables that are needed, of a PreTrainedModel, whole and not wrapped.

        `InputError` where the model has no such weights, or `extra` lacks a column.
        """
        found: dict[str, Tensor | float] = {}
        with evaluating(model):
            weights = ModelWeights(model, self._parts)
            with torch.no_grad():
                found |= self._of_weights(weights)
                if self._heldout is not None:
                    found |= self._of_held_out(model, weights, self._heldout)
            if self._train is not None:
                found |= self._of_training(model, weights, self._train)
        if self._extra is not None:
            found |= dict(self._extra(model, step))
        if lacking := sorted(self._needs - found.keys()):
            raise InputError(f"extra gave no column {lacking[0]!r}; gave: {', '.join(found)}")
        return {name: float(found[name]) for name in sorted(self._needs)}

    def _require(self, columns: Any, given: Any, what: str, name: str) -> bool:
        """Whether some of these columns are needed; an error where there is nothing to do so by."""
        needed = sorted(self._needs.intersection(columns))
        if needed and given is None:
            numbers = ", ".join(f'"{column}": ...' for column in needed)
            extra = f"a function of (model, step), extra=lambda model, step: {{{numbers}}}"
            example = {"parts": "Parts(residues=P)", "extra": extra}
            raise InputError(
                f"the lock's indicators read {', '.join(needed)}, measured on {what}: give "
                f"{name}={example.get(name, 'a dataset with input_ids and labels')}, or let "
                "indicators act that do without (act=[...])"
            )
        return bool(needed)

    def _rows(self, columns: Any, rows: Any, what: str, name: str) -> LabelledRows | None:
        needed = self._require(columns, rows, what, name)
        return LabelledRows.of(rows, where=name) if needed else None

    def _of_weights(self, weights: ModelWeights) -> dict[str, Tensor]:
        updates = (
            weight - self._before.get(name, weight) for name, weight in weights.named.items()
        )
        parts: dict[str, Callable[[], Iterable[Tensor]]] = {
            "weight": weights.named.values,
            "embedding": lambda: [weights.embedding],
            "unembedding": lambda: [weights.unembedding],
            "attention": lambda: weights.all_of("attention").values(),
            "mlp": lambda: weights.all_of("mlp").values(),
            "update": lambda: updates,
            "mixing": lambda: [weights.mixing],
        }
        residues, waves = self._parts.residues, None
        if residues is not None and not self._needs.isdisjoint(measures.FOURIER):
            waves = measures.ResidueWaves(residues, self._parts.group, like=weights.embedding)
        return measures.of_weights(parts, self._needs, waves)

    def _of_held_out(
        self, model: nn.Module, weights: ModelWeights, rows: LabelledRows
    ) -> dict[str, Tensor]:
        states = "participation_ratio" in self._needs
        outputs = answer_scores(model, rows, hidden=states)
        found, predictions = quality("test", outputs), outputs["predictions"]
        if states:
            found["participation_ratio"] = measures.participation_ratio(outputs["hidden"])
        if "disagreement" in self._needs:

            def predict(embedding: Tensor) -> Tensor:
                changed = {weights.embedding_name: embedding[0]}
                answers = rows.batches(model, changed=changed, tied=False)
                return torch.cat([one.logits.argmax(-1) for one in answers], dim=1)

            found["disagreement"] = measures.disagreement(predictions, weights.embedding, predict)
        before = predictions if self.predictions is None else self.predictions
        if before.shape != predictions.shape:
            raise InputError("the held-out rows are others than those of the saved state")
        found["prediction_change"] = measures.changed_share(predictions, before.to(predictions))
        self.predictions = predictions
        return found

    def _of_training(
        self, model: nn.Module, weights: ModelWeights, rows: LabelledRows
    ) -> dict[str, Tensor]:
        bends = "curvature" in self._needs
        with torch.no_grad():
            found = quality("train", answer_scores(model, rows))
        if not bends and "gradient_norm" not in self._needs:
            return found
        gradients = gradients_on(model, rows)
        found["gradient_norm"] = measures.norm(gradients.values())
        if bends:
            with torch.no_grad():
                found["curvature"] = measures.curvature(
                    found["train_loss"],
                    weights.named,
                    gradients,
                    partial(loss_on, model, rows),
                    weight_norm=measures.norm(weights.named.values()),
                    gradient_norm=found["gradient_norm"],
                )
        return found
