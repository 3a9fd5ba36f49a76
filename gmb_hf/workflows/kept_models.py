"""A model that a training kept, read back with its log, and held against it."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.fingerprints import ContentHash
from gmb_hf.hub.card_fingerprints import (
    CARD,
    KEY,
    CardFingerprint,
    read_fingerprints,
    read_header,
)
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError

if TYPE_CHECKING:
    from gmb_hf.modeling import GrokkingTransformerForCausalLM
    from gmb_hf.training.config import RunConfig

_LOSS_TOLERANCE = 1e-2  # relative: a forward in other shapes and on other devices rounds otherwise
_LEAST_LOSS = 1e-4


@dataclass(frozen=True)
class HeldOut:
    """What a model makes of its held-out rows: share of right answers, and loss in nats."""

    rows: int
    accuracy: float
    loss: float


@dataclass(frozen=True, eq=False)
class KeptModel:
    """A checkpoint of which everything is known.

    Attributes:
        folder: what `--save-models` left.
        seed: of its run.
        config: what it was trained by.
        log: its run, whose metadata say what made it.
        held_out: as measured now.
        fingerprints: "data", its training and held-out rows; "weights", its tensors.
    """

    folder: Path
    seed: int
    config: RunConfig
    log: RunLog
    held_out: HeldOut
    fingerprints: dict[str, CardFingerprint]


def read_kept(folder: str | Path) -> KeptModel:
    """Read a checkpoint and measure it.

    Raises:
        InputError: there is no model or no log of its training, the weights are not those that
            the log tells of, or not those of the card that lies with them.
    """
    from gmb_hf.training.config import RunConfig
    from gmb_hf.training.kept import LOG
    from gmb_hf.workflows.saved_models import load_model

    place = Path(folder)
    model = load_model(place)
    if not (place / LOG).is_file():
        raise InputError(
            f"{place}: there is no {LOG} of its training, from which the card is written; `gmb "
            "train --save-models SEEDS` keeps models with theirs; any other model, such as one of "
            f"text or of a sequence of tasks, goes there as it is: hf upload ORG/NAME {place} ."
        )
    log = RunLog.read(place / LOG)
    seed, said = log.seeds[0], log.metadata
    if len(log.runs) != 1 or seed is None or not isinstance(said.get("config"), dict):
        raise InputError(f"{place / LOG}: is no log of one run that `gmb train` left")
    preset = {"preset": said.get("preset", "custom")}
    config = RunConfig.from_dict({**preset, **said["config"]}, where=str(place / LOG))
    held_out = measure(model, config, seed)
    _refuse_other(place, log, held_out)
    fingerprints = {
        "data": _data_fingerprint(config, seed),
        "weights": weights_fingerprint(place / "model.safetensors"),
    }
    _refuse_edited(place, fingerprints)
    return KeptModel(place, seed, config, log, held_out, fingerprints)


def measure(model: GrokkingTransformerForCausalLM, config: RunConfig, seed: int) -> HeldOut:
    """The held-out rows of a seed through a model."""
    import torch

    from gmb_hf.training.ensemble import task_data

    data = task_data(config.task, seed)
    (position,) = data.answer_positions
    rows = torch.from_numpy(data.input_ids[data.test_index])
    answers = torch.from_numpy(data.true_answers[data.test_index, 0])
    with torch.no_grad():
        logits = model(input_ids=rows, logits_to_keep=torch.tensor([position])).logits[:, 0]
    return HeldOut(
        rows=len(rows),
        accuracy=float((logits.argmax(-1) == answers).double().mean()),
        loss=float(torch.nn.functional.cross_entropy(logits.double(), answers)),
    )


def weights_fingerprint(path: Path) -> CardFingerprint:
    """The tensors of a safetensors file: each is an item by name, type, shape and bytes.

    Raises:
        InputError: the file is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    items = ContentHash()
    count = 0
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 (no dictionary)
                values = file.get_tensor(name)
                digest = hashlib.sha256(values.tobytes()).hexdigest()
                shape = list(values.shape)
                items.add([name, str(values.dtype), shape, digest], where=f"{path}: {name}")
                count += 1
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: could not be read as safetensors: {reason}") from None
    return CardFingerprint.of(items.hexdigest(), count, version="v1", item="tensor")


def _data_fingerprint(config: RunConfig, seed: int) -> CardFingerprint:
    """The rows of a seed with the names of their splits, as in a config of a dataset."""
    data_seed = config.task.data_seed_of(seed)
    items = ContentHash()
    count = 0
    for split, table in config.task.build().split_tables(config.task.share, data_seed).items():
        for row in table.to_pylist():
            items.add({"split": split, "row": row})
            count += 1
    return CardFingerprint.of(items.hexdigest(), count, seed=data_seed, version="v1")


def _refuse_other(place: Path, log: RunLog, found: HeldOut) -> None:
    """The weights must be those whose training the log tells of."""
    last = {name: float(log.panel(name).values[0, -1]) for name in ("test_acc", "test_loss")}
    near = abs(last["test_acc"] - found.accuracy) * found.rows < 2  # a tie may go either way
    close = math.isclose(
        last["test_loss"], found.loss, rel_tol=_LOSS_TOLERANCE, abs_tol=_LEAST_LOSS
    )
    if not (near and close):
        raise InputError(
            f"{place}: these weights are not those of its log: held-out accuracy and loss are "
            f"{found.accuracy:.4f} and {found.loss:.4f}, the log ends with {last['test_acc']:.4f} "
            f"and {last['test_loss']:.4f}; train it again"
        )


def _refuse_edited(place: Path, found: dict[str, CardFingerprint]) -> None:
    """Where a card of ours lies with the model, it must be its own."""
    header = read_header(place / CARD) if (place / CARD).exists() else {}
    if KEY not in header:
        return
    for name, entry in read_fingerprints(header, where=str(place / CARD)).items():
        if name in found and entry.content_hash != found[name].content_hash:
            raise InputError(
                f"{place / CARD}: {name} has the fingerprint {entry.fingerprint}, this model "
                f"{found[name].fingerprint}; remove the card, or restore the model"
            )


def settings_text(config: RunConfig) -> str:
    """What a model was trained by, as indented JSON."""
    return json.dumps(config.training_identity(), indent=2, sort_keys=True)
