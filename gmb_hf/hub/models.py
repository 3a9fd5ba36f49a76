"""Models made anew; those that a training saved: read back, checked, described and published.

One of a single task has its log beside it, which its card tells of. One of a sequence of tasks or
of text has a note of what made it, and a short card.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gmb_hf.base.errors import InputError, choose
from gmb_hf.base.files import read_json, whole_folder, write_text
from gmb_hf.base.fingerprints import ContentHash, fingerprint
from gmb_hf.base.pretrained import write_hashes
from gmb_hf.base.repositories import Pushed, publish
from gmb_hf.benchmark.records import LABELS
from gmb_hf.benchmark.results import Results
from gmb_hf.hub.cards import CARD, KEY, Card, CardFingerprint, render_card
from gmb_hf.hub.datasets import LICENSE
from gmb_hf.report.answer import RUNS, answer
from gmb_hf.report.curves import grokking_curves
from gmb_hf.report.figures import plot
from gmb_hf.report.report import headline_tables
from gmb_hf.report.style import save_figure
from gmb_hf.runs.metadata import hub_sources
from gmb_hf.runs.runlog import RunLog

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

    from gmb_hf.modeling import GrokkingTransformerForCausalLM
    from gmb_hf.tasks.task import Task
    from gmb_hf.training.config import RunConfig

_LOSS_TOLERANCE = 1e-2  # relative: a forward in other shapes and on other devices rounds otherwise
_LEAST_LOSS = 1e-4
_EXAMPLES = 16  # held-out questions that are asked to find one for the card
_PROMPT, _WRITTEN = "The", 40  # what a model of text is asked to go on from, and tokens it writes
TOKENIZER, WEIGHTS = "tokenizer.json", "model.safetensors"


MODELS = ("grokking", "formal", "gpt2")
"""The models of the evaluation protocol's first step, by its names."""


class Created(NamedTuple):
    """A new model: its folder, parameters (shared ones once), vocabulary and longest input."""

    folder: Path
    parameters: int
    vocabulary: int
    block: int


def create_model(
    preset: str,
    out: str | Path,
    *,
    prime: int | None = None,
    seed: int = 1337,
    variant: str = "dense",
    tokenizer: str | None = None,
) -> Created:
    """Make an untrained model with its tokenizer, the evaluation protocol's first step.

    Args:
        preset: of `MODELS`. grokking and formal are the protocol's two layers of width 128; gpt2
            is the language preset of that name.
        out: a new folder.
        prime: of grokking; 97 by default.
        seed: of the weights; 1337 as in the protocol.
        variant: e.g. dense, banded-256 or sort-4.
        tokenizer: of gpt2: a name on the Hub, or a folder; `gpt2` by default.

    Raises:
        InputError: an unknown preset, an option of another one, a folder that is there, a variant
            that does not fit, or a tokenizer that cannot be loaded.
    """
    choose("preset", preset, MODELS)
    place = Path(out)
    if place.exists():
        raise InputError(f"{place}: is there already; name a new folder for the model")
    if prime is not None and preset != "grokking":
        raise InputError(f"--prime is of the preset grokking; {preset} has none")
    if tokenizer is not None and preset != "gpt2":
        raise InputError(f"--tokenizer is of the preset gpt2; {preset} brings its own")
    from gmb_hf.protocol.language.config import language_preset
    from gmb_hf.protocol.language.data import load_tokenizer
    from gmb_hf.protocol.language.train import model_shape as text_shape
    from gmb_hf.protocol.sequential.config import FORMAL, MODULAR
    from gmb_hf.protocol.sequential.config import preset as sequential_preset
    from gmb_hf.protocol.sequential.train import model_shape
    from gmb_hf.training.checkpoints import save_model
    from gmb_hf.training.launch import silence_transformers
    from gmb_hf.training.stacked import seeded_model
    from gmb_hf.training.variants import parse_variant

    chosen = parse_variant(variant)
    if preset == "gpt2":
        base = language_preset("gpt2")
        words = load_tokenizer(tokenizer or base.text.tokenizer)
        config = base.replace(model=base.model.replace(**chosen.fields))
        model = seeded_model(text_shape(config, words), seed)
        with whole_folder(place) as folder, silence_transformers():
            model.save_pretrained(folder)
            words.save_pretrained(folder)
            write_hashes(folder)
    else:
        design = sequential_preset("replication", FORMAL if preset == "formal" else MODULAR)
        if prime is not None:
            design = design.replace(suite=design.suite.replace(prime=prime))
        model = seeded_model(model_shape(design, chosen), seed)
        tasks = [design.suite.build(task) for task in design.suite.tasks]
        with whole_folder(place) as folder:
            save_model(model, folder, tasks)
    size = sum(parameter.numel() for parameter in model.parameters())
    return Created(place, size, model.config.vocab_size, model.config.max_position_embeddings)


@dataclass(frozen=True)
class HeldOut:
    """What a model makes of its held-out rows: share of rows answered right, and loss in nats."""

    rows: int
    accuracy: float
    loss: float


class Example(NamedTuple):
    """A question, the text that the model makes of it, and the words that a question may hold."""

    question: str
    answered: str
    words: str


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A checkpoint that `--save-models` left, of which everything is known.

    The log is that of its run, `held_out` is measured now; `fingerprints` are those of its "data",
    training and held-out rows, and of its "weights". `example` is a held-out question with what the
    model makes of it; None where no tokenizer lies with the model, as an earlier version left it.
    """

    folder: Path
    seed: int
    config: RunConfig
    log: RunLog
    held_out: HeldOut
    fingerprints: dict[str, CardFingerprint]
    example: Example | None = None

    @property
    def pulled(self) -> dict[str, str] | None:
        """The dataset of the Hub that holds its rows; None where they were made on the spot."""
        sources = hub_sources(self.log.metadata)
        return next((one for one in sources if one["what"] == "data"), None)


def read_saved_model(folder: str | Path) -> SavedModel:
    """Read a checkpoint and measure it.

    Raises:
        InputError: there is no model or no log of its training, the weights are not those that
            the log tells of, or not those of the card that lies with them.
    """
    from gmb_hf.training.checkpoints import LOG, load_model
    from gmb_hf.training.config import RunConfig

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
    config = RunConfig.from_dict({**preset, **said["config"]}, where=str(place / LOG)).of_seed(seed)
    held_out = measure(model, config, seed)
    accuracy, loss = (float(log.panel(name).values[0, -1]) for name in ("test_acc", "test_loss"))
    near = abs(accuracy - held_out.accuracy) * held_out.rows < 2  # a tie may go either way
    close = math.isclose(loss, held_out.loss, rel_tol=_LOSS_TOLERANCE, abs_tol=_LEAST_LOSS)
    if not (near and close):
        raise InputError(
            f"{place}: these weights are not those of its log: held-out accuracy and loss are "
            f"{held_out.accuracy:.4f} and {held_out.loss:.4f}, the log ends with {accuracy:.4f} "
            f"and {loss:.4f}; train it again"
        )
    data_seed = config.task.data_seed_of(seed)
    fingerprints = {
        "data": rows_fingerprint(config.task.build(), config.task.share, data_seed),
        "weights": weights_fingerprint(place / WEIGHTS),
    }
    _check_card(place, fingerprints)
    example = example_of(place, model, config.task.build(), config.task.share, data_seed)
    return SavedModel(place, seed, config, log, held_out, fingerprints, example)


def _check_card(place: Path, fingerprints: Mapping[str, CardFingerprint]) -> None:
    """Refuse a model that is not the one that the card beside it tells of."""
    card = Card.read(place) if (place / CARD).exists() else None
    for name, entry in card.entries.items() if card is not None and KEY in card.header else ():
        own = fingerprints.get(name, entry)
        if entry.content_hash != own.content_hash:
            raise InputError(
                f"{place / CARD}: {name} has the fingerprint {entry.fingerprint}, this model "
                f"{own.fingerprint}; remove the card, or restore the model"
            )


def rows_fingerprint(task: Task, share: float, data_seed: int) -> CardFingerprint:
    """The rows of a task, `share` of them to train on by `data_seed`, as in a dataset's config."""
    rows = ContentHash()
    for split, table in task.split_tables(share, data_seed).items():
        rows.extend({"split": split, "row": row} for row in table.to_pylist())
    return CardFingerprint.of(rows, seed=data_seed, version="v1")


def measure(model: GrokkingTransformerForCausalLM, config: RunConfig, seed: int) -> HeldOut:
    """The held-out rows of a seed through a model."""
    import torch

    from gmb_hf.training.stacked import task_data

    data = task_data(config.task, seed)
    positions = torch.tensor(data.answer_positions)
    rows = torch.from_numpy(data.input_ids[data.test_index])
    answers = torch.from_numpy(data.true_answers[data.test_index])
    with torch.no_grad():
        logits = model(input_ids=rows, logits_to_keep=positions).logits  # [m, A, V]
    right = (logits.argmax(-1) == answers)[:, list(config.task.build().scored_answers)]
    accuracy = right.all(-1).double().mean()
    loss = torch.nn.functional.cross_entropy(logits.double().flatten(0, 1), answers.flatten())
    return HeldOut(len(rows), float(accuracy), float(loss))


def example_of(
    place: Path, model: GrokkingTransformerForCausalLM, task: Task, share: float, data_seed: int
) -> Example | None:
    """What a saved model makes of a held-out question: the first of a few that it answers right.

    Args:
        place: its folder, with its tokenizer; without one there is no example.
        model: as it was loaded from there.
        task: which it learned; `share` of the rows are trained on, by `data_seed`.

    Raises:
        InputError: the tokenizer is damaged, or another task's.
    """
    from transformers import pipeline

    from gmb_hf.modeling import GrokkingTokenizer, described_words
    from gmb_hf.training.launch import silence_transformers

    if not (place / TOKENIZER).is_file():
        return None
    again = f"delete {TOKENIZER}, or train the model again"
    try:
        tokenizer = GrokkingTokenizer.from_pretrained(place)
    except Exception as error:  # of tokenizers: no kind of its own
        reason = " ".join(str(error).split())
        raise InputError(f"{place / TOKENIZER}: could not be read: {reason}; {again}") from None
    rows, held_out = task.rows(), task.split(share, data_seed)[1][:_EXAMPLES].tolist()
    every = task.prompts()
    questions = [every[row] for row in held_out]
    asked = rows[held_out, : task.question_length]
    try:
        same = np.array_equal(tokenizer(questions).input_ids, asked)
    except ValueError:  # an unknown word, or rows of other lengths
        same = False
    if not same:
        raise InputError(f"{place / TOKENIZER}: is not the tokenizer of {task.name}; {again}")
    with silence_transformers():
        ask = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
        found = [str(one[0]["generated_text"]) for one in ask(questions)]
    answers = task.answers()[held_out, -task.answer_length :]
    wanted = [
        question + tokenizer.decode(answer)
        for question, answer in zip(questions, answers, strict=True)
    ]
    chosen = next((at for at, text in enumerate(found) if text == wanted[at]), 0)
    return Example(questions[chosen], found[chosen], described_words(tokenizer.get_vocab()))


def weights_fingerprint(path: Path) -> CardFingerprint:
    """The tensors of a safetensors file: each is an item by name, type, shape and bytes.

    Raises:
        InputError: the file is missing or damaged.
    """
    from safetensors import SafetensorError, safe_open

    items = ContentHash()
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 (no dictionary)
                values = file.get_tensor(name)
                digest = hashlib.sha256(values.tobytes()).hexdigest()
                shape = list(values.shape)
                items.add([name, str(values.dtype), shape, digest], where=f"{path}: {name}")
    except (OSError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: could not be read as safetensors: {reason}") from None
    return CardFingerprint.of(items, version="v1", item="tensor")


_OWN_RUNS = "gmb-runs"  # judged on runs that are in no dataset of the Hub


def write_model_card(
    saved: SavedModel,
    folder: str | Path,
    *,
    results: Results | None = None,
    place: str,
    every_verdict: str | None = None,
    figures: bool = True,
) -> list[Path]:
    """Write README.md and its figures to a folder; returns their paths, the card first.

    Args:
        saved, folder: the model, and where to write.
        results: of the evaluation that the run, or runs like it, took part in.
        place: how the card's example finds the model, ORG/NAME or a path.
        every_verdict: where the card's reader finds all of them, seen from the card.
        figures: whether to draw the figures.

    Raises:
        InputError: the results are of another task or model.
    """
    from gmb_hf.training.checkpoints import LOG

    for key in ("task", "model"):
        own = saved.log.metadata.get(key)
        judged = own if results is None else getattr(results.boundary, key)
        if judged != own:
            raise InputError(
                f"--results: were judged on runs whose {key} is {judged!r}, this model's is "
                f"{own!r}; give the results of its own runs"
            )
    target, said = Path(folder), saved.log.metadata
    written: list[Path] = []
    if figures:
        curves = grokking_curves(saved.log, "test_acc", np.full(1, np.nan))
        written = save_figure(curves, target / "training", formats=("png",))
        summary = None
        with suppress(InputError):  # of the reference's computation there is nothing to draw
            summary = None if results is None else plot(results)
        if summary is not None:
            written += save_figure(summary, target / "verdicts", formats=("png",))
    found = None if results is None else answer(results)
    fields: dict[str, Any] = {
        "datasets": [saved.pulled["repo"]] if saved.pulled else None,
        "eval_results": evaluations(saved, results),
    }
    header = _header(place, saved.fingerprints, **fields)
    text = render_card(
        "model",
        header,
        title=Path(place).name,
        task=said.get("task", saved.config.task.title),
        saved=saved,
        place=place,
        pictures={path.stem: path.name for path in written},
        verdicts=None if found is None else headline_tables(found, found.ranked),
        panel=None if results is None else _runs_of(results),
        every_verdict=every_verdict,
        by_runs=found is not None and found.budget is not None,
        answer=found and found.sentence,
        judged=None if results is None else f"{results.summary.n_seeds:,} {RUNS[results.locked]}",
        made={key: said.get(key) for key in ("preset", "model", "optimizer", "schedule")},
        settings=json.dumps(saved.config.training_identity(), indent=2, sort_keys=True),
        log=LOG,
    )
    return [write_text(target / CARD, text), *written]


def _header(place: str, fingerprints: Mapping[str, CardFingerprint], **more: Any) -> dict[str, Any]:
    """The YAML at the head of a model's card."""
    from huggingface_hub import ModelCardData

    fields: dict[str, Any] = {
        "model_name": Path(place).name,
        "license": LICENSE,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["gmb", "grokking"],
        **more,
        KEY: {what: entry.entry() for what, entry in fingerprints.items()},
    }
    return dict(ModelCardData(**fields).to_dict())  # type: ignore[no-untyped-call]


def evaluations(saved: SavedModel, results: Results | None) -> list[EvalResult]:
    """Held-out accuracy and loss, and how many scores got each label, for the model-index."""
    from huggingface_hub import EvalResult

    task = saved.config.task
    learned_task = task.build()
    name = learned_task.name
    learned: dict[str, Any] = {
        "task_type": "text-generation",
        "task_name": name if task.name is not None else "modular arithmetic",
        "dataset_name": task.title,
        **_dataset_of(saved.pulled, name, name),
        "dataset_args": {"data_seed": task.data_seed_of(saved.seed), "train": task.share},
    }
    measured = (
        ("accuracy", "held-out accuracy", saved.held_out.accuracy),
        ("loss", "held-out loss, nats", saved.held_out.loss),
    )
    found = [
        EvalResult(metric_type=kind, metric_name=title, metric_value=value, **learned)
        for kind, title, value in measured
    ]
    if results is None:
        return found
    counts = Counter[str](item.label for item in results.indicators)
    runs = _runs_of(results)
    source = results.x_provenance
    judged: dict[str, Any] = {
        "task_type": "other",
        "task_name": "early warning of generalisation",
        "dataset_name": results.meta.run_id,
        **_dataset_of(runs, _OWN_RUNS, None),
        "dataset_args": {"fingerprint": source.evaluation_fingerprint} if source else None,
    }
    judged["metric_type"] = "gmb_verdict"
    titles = {label: f"scores labelled {label}" for label in LABELS}
    return found + [
        EvalResult(metric_name=title, metric_value=counts[label], **judged)
        for label, title in titles.items()
    ]


def _runs_of(results: Results) -> dict[str, Any] | None:
    """The dataset of the Hub that holds the runs which were judged, if any."""
    return next((one.model_dump() for one in results.x_sources if one.what == "runs"), None)


def _dataset_of(pulled: Mapping[str, Any] | None, kind: str, config: str | None) -> dict[str, Any]:
    """Which dataset numbers are of, for the model-index: one of the Hub, or one made here."""
    found = pulled or {"repo": kind, "config": config, "revision": None}
    return {
        "dataset_type": found["repo"],
        "dataset_config": found["config"],
        "dataset_revision": found["revision"],
        "dataset_split": "held out",
    }


_OF_A_MODEL = {".json", ".safetensors", ".sha256", ".py", ".parquet"}  # no stray file is published


def push_model(
    folder: str | Path, repo_id: str, *, results: str | Path | None = None, private: bool = False
) -> Pushed:
    """Publish a checkpoint with a card; one of `--save-models` if its weights are its log's.

    The card has the verdicts of `results`, and all of them lie beside it; `folder` holds the model,
    `repo_id` and `private` are as in `push_dataset`.

    Raises:
        InputError: as `read_saved_model`, `write_model_card`, `write_short_card` and `publish`; or
            there are results of a model that no scores were judged on.
    """
    from gmb_hf.training.checkpoints import LOG

    place = Path(folder)
    short = None if (place / LOG).is_file() else read_described_model(place)
    if short is not None and results is not None:
        raise InputError(f"--results: scores were not judged on runs like {place}; leave it out")
    with tempfile.TemporaryDirectory() as workshop:
        files: dict[str, Path | bytes] = {}
        if short is not None:
            card = [write_short_card(short, workshop, place=repo_id)]
            message = f"Model of {short.learned}"
        else:
            saved = read_saved_model(place)
            judged = None if results is None else Results.read(results)
            all_of_them = None if results is None else "results.yaml"
            if results is not None and all_of_them is not None:
                files[all_of_them] = Path(results).read_bytes()
            card = write_model_card(
                saved, workshop, results=judged, place=repo_id, every_verdict=all_of_them
            )
            message = f"Model of seed {saved.seed}, {saved.config.task.title}"
        files |= {
            path.name: path
            for path in sorted(place.iterdir())
            if path.is_file() and path.suffix in _OF_A_MODEL and not path.name.startswith(".")
        }
        files |= {path.name: path for path in card}
        return publish(files, repo_id, "model", message=message, private=private)


@dataclass(frozen=True)
class DescribedModel:
    """A model of a sequence of tasks, or of text, by the note that its training left beside it.

    `learned` says what in a few words; `question` is what its card asks it, with `options` of the
    call, `answered` what it says; `results` are the rows of a table under `columns`. `fingerprints`
    are those of its "weights" and of its data, by task, or of its "training text".
    """

    folder: Path
    learned: str
    question: str
    options: str
    answered: str
    words: str | None
    columns: tuple[str, ...]
    results: Sequence[tuple[str, ...]]
    made: dict[str, str]
    fingerprints: dict[str, CardFingerprint]


def read_described_model(folder: str | Path) -> DescribedModel | None:
    """A model of a sequence of tasks or of text; None for a folder without such a note.

    Raises:
        InputError: there is no whole model, or its note cannot be read.
    """
    from gmb_hf.protocol.language.data import TRAINING_TEXT
    from gmb_hf.protocol.sequential.folder import SEQUENCE

    place = Path(folder)
    for name, read in ((SEQUENCE, _of_a_sequence), (TRAINING_TEXT, _of_text)):
        if (place / name).is_file():
            try:
                found = read(place, read_json(place / name))
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(
                    f"{place / name}: does not describe a model ({type(error).__name__}: {error}); "
                    "train it again"
                ) from None
            _check_card(place, found.fingerprints)
            return found
    return None


def _of_a_sequence(place: Path, note: Mapping[str, Any]) -> DescribedModel:
    from gmb_hf.protocol.sequential.config import SequentialConfig
    from gmb_hf.training.checkpoints import load_model

    preset = {"preset": note["preset"]}
    config = SequentialConfig.from_dict({**preset, **note["design"]}, where=str(place))
    suite, learned = config.suite, [str(task) for task in note["learned"]]
    task = suite.build(learned[-1] if learned else suite.tasks[0])
    model = load_model(place)
    example = example_of(place, model, task, suite.train_fraction, suite.data_seed)
    if example is None:
        raise InputError(f"{place}: holds no {TOKENIZER}; train it again")
    written = int(model.generation_config.max_new_tokens or 1)
    results = [
        (
            name,
            "yes" if name in learned else "no",
            f"{found['accuracy']:.1%}",
            "none" if found["loss"] is None else f"{found['loss']:.4g}",
        )
        for name, found in note["held_out"].items()
    ]
    one_by_one = f"{len(learned)} of the {len(suite.tasks)} tasks of {suite.name}, one by one"
    return DescribedModel(
        place,
        one_by_one,
        example.question,
        "",
        example.answered,
        example.words,
        ("task", "learned", "held-out accuracy", "loss"),
        results,
        {
            "order of the tasks": ", ".join(suite.tasks),
            "variant": str(note["variant"]),
            "seed": str(note["seed"]),
            "preset": config.preset,
            "written by default": f"{written} word" + "s" * (written > 1),
        },
        {
            **{
                name: rows_fingerprint(suite.build(name), suite.train_fraction, suite.data_seed)
                for name in suite.tasks
            },
            "weights": weights_fingerprint(place / WEIGHTS),
        },
    )


def _of_text(place: Path, note: Mapping[str, Any]) -> DescribedModel:
    from transformers import pipeline

    from gmb_hf.base.pretrained import find_model
    from gmb_hf.protocol.language.data import load_tokenizer
    from gmb_hf.training.checkpoints import load_model
    from gmb_hf.training.launch import silence_transformers

    model = load_model(place)
    tokenizer = load_tokenizer(find_model(str(place), trust_remote_code=None))
    texts = " + ".join(str(text["name"]) for text in note["texts"])
    # The prompt, and as much again as fits.
    length = min(_WRITTEN, model.config.max_position_embeddings // 2)
    with silence_transformers():
        write = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
        found = write(_PROMPT, max_new_tokens=length, do_sample=False)[0]["generated_text"]
    held, count = str(note["content_hash"]), int(note["documents"])
    data = CardFingerprint(
        content_hash=held,
        item_count=count,
        seed=None,
        fingerprint=fingerprint(held, None, count),
        version="v1",
    )
    losses = [("training text", note.get("train_loss")), ("held-out text", note.get("test_loss"))]
    return DescribedModel(
        place,
        f"text ({texts})",
        _PROMPT,
        f", max_new_tokens={length}, do_sample=False",
        str(found),
        None,
        ("text", "nats per token"),
        [(what, f"{nats:.4f}") for what, nats in losses if nats is not None],
        {
            "texts": texts,
            "training text": f"{note['bytes']:,} bytes",
            "seed": str(note.get("seed", "")),
            "steps": str(note.get("step", "")),
            "tokenizer": str(note["tokenizer"]),
        },
        {"training text": data, "weights": weights_fingerprint(place / WEIGHTS)},
    )


def write_short_card(model: DescribedModel, folder: str | Path, *, place: str) -> Path:
    """Write README.md of a model of a sequence of tasks or of text to a folder.

    `place` is how the card's example finds the model, ORG/NAME or a path.
    """
    header = _header(place, model.fingerprints)
    title = Path(place).name
    text = render_card("described_model", header, title=title, model=model, place=place)
    return write_text(Path(folder) / CARD, text)


def write_cards(folder: str | Path) -> tuple[list[Path], list[str]]:
    """Write a card beside each model that a training saved in its folder and that has none.

    Returns their paths, and a line for each model that cannot be described, with the reason.
    """
    from gmb_hf.training.checkpoints import LOG

    cards: list[Path] = []
    notes: list[str] = []
    for weights in sorted(Path(folder).rglob(WEIGHTS)):
        place = weights.parent
        if (place / CARD).exists() or any(
            one.name.startswith(".") for one in (place, place.parent)
        ):
            continue
        try:
            if (place / LOG).is_file():
                saved = read_saved_model(place)
                cards += write_model_card(saved, place, place=str(place), figures=False)
            elif (short := read_described_model(place)) is not None:
                cards.append(write_short_card(short, place, place=str(place)))
        except InputError as error:
            notes.append(f"{place} has no card: {error}")
    return cards, notes
