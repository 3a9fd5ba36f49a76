"""The card of a model: its held-out numbers where the Hub reads them, verdicts, a picture."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmb_hf.benchmark.results import Results
from gmb_hf.files import write_text
from gmb_hf.hub.card_fingerprints import CARD, KEY
from gmb_hf.hub.cards import render_card
from gmb_hf.reporting import escape
from gmb_hf.reporting.answer import answer
from gmb_hf.reporting.evaluation import draw
from gmb_hf.reporting.figures.curves import grokking_curves
from gmb_hf.reporting.figures.style import save_figure
from gmb_hf.reporting.report import verdict_table
from gmb_hf.reporting.words import LABELS
from gmb_hf.validation import InputError
from gmb_hf.workflows.building_tasks import LICENSE
from gmb_hf.workflows.hub_sources import sources_of
from gmb_hf.workflows.kept_models import KeptModel, settings_text
from gmb_hf.workflows.publishing import grokking_curves_of

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

_TAGS = ["gmb", "grokking"]
_OWN_RUNS = "gmb-runs"  # judged on runs that are in no dataset of the Hub


def write_model_card(
    kept: KeptModel, folder: str | Path, *, results: Results | None = None, place: str
) -> list[Path]:
    """Write README.md and its pictures to a folder.

    Args:
        kept: the model.
        folder: where to.
        results: of the evaluation that the run, or runs like it, took part in.
        place: how the card's example finds the model, ORG/NAME or a path.

    Returns:
        The card and the pictures.

    Raises:
        InputError: the results are of another task or model.
    """
    from gmb_hf.training.kept import LOG

    if results is not None:
        refuse_results_of_others(kept, results)
    target, said = Path(folder), kept.log.metadata
    curves = grokking_curves_of(kept.log, "test_acc", np.full(1, np.nan))
    written = save_figure(grokking_curves(curves), target / "training", formats=("png",))
    summary = None if results is None else draw(results).get("summary")
    if summary is not None:
        written += save_figure(summary, target / "verdicts", formats=("png",))
    text = render_card(
        "model",
        header(kept, results, name=Path(place).name),
        title=escape.markdown(Path(place).name),
        task=escape.markdown(str(said.get("task", kept.config.task.name))),
        data=_data_in_words(kept),
        held_out=kept.held_out,
        place=place,
        pictures={path.stem: path.name for path in written},
        verdicts=None if results is None else verdict_table(results),
        answer=None if results is None else escape.markdown(answer(results).sentence),
        judged=None if results is None else f"{results.summary.n_seeds:,} held-out runs",
        made=[
            escape.markdown(f"{key}: {said[key]}")
            for key in ("preset", "model", "optimizer", "schedule")
            if said.get(key)
        ]
        + [f"seed: {kept.seed}"],
        settings=settings_text(kept.config),
        fingerprints=[
            {
                "name": name,
                "count": entry.item_count,
                "item": entry.item,
                "hash": entry.content_hash,
            }
            for name, entry in kept.fingerprints.items()
        ],
        log=LOG,
    )
    return [write_text(target / CARD, text), *written]


def header(kept: KeptModel, results: Results | None, *, name: str) -> dict[str, Any]:
    """What the Hub reads: model-index, fingerprints, where the data are."""
    from huggingface_hub import ModelCardData

    fields: dict[str, Any] = {
        "model_name": name,
        "license": LICENSE,
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": _TAGS,
        "datasets": [source["repo"] for source in _sources(kept, "data")] or None,
        "eval_results": evaluations(kept, results),
        KEY: {what: entry.entry() for what, entry in kept.fingerprints.items()},
    }
    found: dict[str, Any] = ModelCardData(**fields).to_dict()  # type: ignore[no-untyped-call]
    return found


def evaluations(kept: KeptModel, results: Results | None) -> list[EvalResult]:
    """Held-out accuracy and loss, and how many scores got each label, for the model-index."""
    from huggingface_hub import EvalResult

    task = kept.config.task
    pulled = next(iter(_sources(kept, "data")), None)
    name = task.build().name
    learned: dict[str, Any] = {
        "task_type": "text-generation",
        "task_name": "modular arithmetic",
        "dataset_name": task.name,
        "dataset_type": pulled["repo"] if pulled else name,
        "dataset_config": pulled["config"] if pulled else name,
        "dataset_revision": pulled["revision"] if pulled else None,
        "dataset_split": "held out",
        "dataset_args": {"data_seed": task.data_seed_of(kept.seed), "train": task.share},
    }
    found = [
        EvalResult(
            metric_type="accuracy",
            metric_name="held-out accuracy",
            metric_value=kept.held_out.accuracy,
            **learned,
        ),
        EvalResult(
            metric_type="loss",
            metric_name="held-out loss, nats",
            metric_value=kept.held_out.loss,
            **learned,
        ),
    ]
    return found if results is None else [*found, *_verdict_counts(results)]


def refuse_results_of_others(kept: KeptModel, results: Results) -> None:
    """Refuse results that were judged on runs of another task or model.

    Raises:
        InputError: they differ.
    """
    for key in ("task", "model"):
        judged, own = getattr(results.boundary, key), kept.log.metadata.get(key)
        if judged != own:
            raise InputError(
                f"--results: were judged on runs whose {key} is {judged!r}, this model's is "
                f"{own!r}; give the results of its own runs"
            )


def _verdict_counts(results: Results) -> list[EvalResult]:
    from huggingface_hub import EvalResult

    counts = Counter[str](item.label for item in results.indicators)
    pulled = next((one for one in results.x_sources if one.what == "runs"), None)
    source = results.x_provenance
    judged: dict[str, Any] = {
        "task_type": "other",
        "task_name": "early warning of generalisation",
        "dataset_name": results.meta.run_id,
        "dataset_type": pulled.repo if pulled else _OWN_RUNS,
        "dataset_config": pulled.config if pulled else None,
        "dataset_revision": pulled.revision if pulled else None,
        "dataset_split": "held out",
        "dataset_args": {"fingerprint": source.evaluation_fingerprint} if source else None,
    }
    return [
        EvalResult(
            metric_type="gmb_verdict",
            metric_name=f"scores labelled {label}",
            metric_value=counts[label],
            **judged,
        )
        for label in LABELS
    ]


def _sources(kept: KeptModel, what: str) -> list[dict[str, str]]:
    return [source for source in sources_of(kept.log) if source["what"] == what]


def _data_in_words(kept: KeptModel) -> str:
    pulled = next(iter(_sources(kept, "data")), None)
    if pulled is None:
        return "equations made on the spot"
    repo, revision = escape.markdown(pulled["repo"]), pulled["revision"]
    return f"[{repo}](https://huggingface.co/datasets/{repo}/tree/{revision}) at `{revision[:12]}`"
