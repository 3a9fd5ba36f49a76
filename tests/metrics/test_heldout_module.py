"""The module `heldout_perplexity`: the package's numbers, by `evaluate`'s ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.hub.apps.items import draw_documents, read_documents
from gmb_hf.hub.apps.page import MetricPage
from gmb_hf.report.style import save_figure
from gmb_hf.tasks.text import heldout_perplexity

Load = Callable[[str], Any]


def case(n: int = 30) -> tuple[list[list[float]], list[int]]:
    rng = np.random.default_rng(4)
    rows = [(-rng.gamma(2.0, size=int(k))).tolist() for k in rng.integers(1, 40, size=n)]
    return rows, [int(4 * len(row)) for row in rows]


def test_it_is_the_packages_number_by_every_way(load: Load):
    metric, (predictions, references) = load("heldout_perplexity"), case()
    whole = heldout_perplexity(predictions, references)
    assert metric.compute(predictions=predictions, references=references) == whole
    for part in (slice(0, 9), slice(9, 10), slice(10, None)):
        metric.add_batch(predictions=predictions[part], references=references[part])
    assert metric.compute() == whole
    usual = evaluate.Metric.compute(metric, predictions=predictions, references=references)
    assert usual == whole


def test_a_wrong_setting_does_not_cost_what_was_added(load: Load):
    metric, (predictions, references) = load("heldout_perplexity"), case()
    metric.add_batch(predictions=predictions, references=references)
    with pytest.raises(InputError, match="argument 'per_document' is unknown"):
        metric.compute(per_document=True)
    assert metric.compute() == heldout_perplexity(predictions, references)


def test_it_describes_itself(load: Load):
    metric = load("heldout_perplexity")
    assert (metric.name, metric.module_type) == ("heldout_perplexity", "metric")
    assert metric.features["predictions"].feature.dtype == "float64"
    for text in ("predictions", "bits_per_byte", "Returns:", "Examples:"):
        assert text in metric.inputs_description
    assert "Evaluation Protocol" in metric.citation


def test_its_page_reads_documents_and_draws(load: Load, tmp_path: Path):
    data = read_documents(MetricPage.named("documents").example)
    assert len(data["predictions"]) == 20
    results = load("heldout_perplexity").compute(**data, return_per_document=True)
    (path,) = save_figure(draw_documents(data, results), tmp_path / "page", formats=("png",))
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no documents; paste JSON lines"),
        ("x", "line 1: is not JSON.*; a line is one document"),
        ('{"logprobs": [-1]}', "line 1: column 'bytes' is missing; found: logprobs"),
        ('{"logprobs": -1, "bytes": 1}', "line 1: logprobs must be a list of numbers"),
    ],
)
def test_documents_that_cannot_be_read_are_named(text: str, message: str):
    with pytest.raises(InputError, match=message):
        read_documents(text)
