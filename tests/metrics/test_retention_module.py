"""The metric `retention`: the package's numbers, `evaluate`'s ways, each bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gmb_hf.base.errors import InputError
from gmb_hf.hub.apps.items import draw_phases, read_phases
from gmb_hf.hub.apps.page import MetricPage, title_of
from gmb_hf.jobs.metrics import module
from gmb_hf.protocol.sequential.matrix import retention
from gmb_hf.report.style import save_figure

Load = Callable[[str], Any]
ROWS = [[0.25, 0.5, 0.5], [1.0, 0.75, 0.5], [0.5, 1.0, 0.75], [0.25, 0.5, 1.0]]


def test_by_hand() -> None:
    found = retention(ROWS, [None, 0, 1, 2], return_per_task=True)
    assert found == {
        "average_accuracy": pytest.approx(1.75 / 3),
        "learning_accuracy": 1.0,
        "backward_transfer_accuracy": -0.625,
        "forward_transfer_accuracy": 0.25,
        "forgetting_accuracy": 0.625,
        "n_phases": 3,
        "final_accuracy_per_task": [0.25, 0.5, 1.0],
        "learning_accuracy_per_task": [1.0, 1.0, 1.0],
        "backward_transfer_accuracy_per_task": [-0.75, -0.5],
        "forward_transfer_accuracy_per_task": [0.25, 0.25],
        "forgetting_accuracy_per_task": [0.75, 0.5],
    }
    json.dumps(found)


def test_another_order_of_training_is_another_order_of_columns() -> None:
    order = [2, 0, 1]
    columns = [[row[order.index(task)] for task in range(3)] for row in ROWS]
    assert retention(columns, [None, *order], return_per_task=True) == retention(
        ROWS, [None, 0, 1, 2], return_per_task=True
    )


def test_what_does_not_exist_is_none() -> None:
    without = retention(ROWS[1:], [0, 1, 2], return_per_task=True)
    assert without["forward_transfer_accuracy"] is None
    assert without["forward_transfer_accuracy_per_task"] is None
    assert without["forgetting_accuracy"] == 0.625
    one = retention(ROWS[:2], [None, 0])
    assert one["forgetting_accuracy"] is one["backward_transfer_accuracy"] is None
    assert one["learning_accuracy"] == one["average_accuracy"] == 1.0


def test_losses_have_names_of_their_own(load: Load) -> None:
    found = load("retention").compute(
        predictions=[[0.5, 5.0], [9.5, 0.25]], references=[0, 1], measure="loss"
    )
    assert found["forgetting_loss"] == found["backward_transfer_loss"] == 9.0
    assert not [name for name in found if name.endswith("accuracy")]


def test_batches_equal_one_compute(load: Load) -> None:
    metric = load("retention")
    whole = metric.compute(predictions=ROWS, references=[None, 0, 1, 2])
    metric.add_batch(predictions=ROWS[:1], references=[None])
    metric.add_batch(predictions=ROWS[1:], references=[0, 1, 2])
    assert metric.compute() == whole == retention(ROWS, [None, 0, 1, 2])
    metric.add_batch(predictions=ROWS, references=[None, 0, 1, 2])
    with pytest.raises(InputError, match=r"'measurex' is unknown.*'measure'"):
        metric.compute(measurex="loss")
    assert metric.compute() == whole  # a wrong setting does not cost what was added


def test_the_module_describes_itself(load: Load) -> None:
    metric = load("retention")
    assert (metric.name, metric.module_type) == ("retention", "metric")
    for text in ("predictions", "untrained", "Returns:", "Examples:"):
        assert text in metric.inputs_description
    assert "Gradient Episodic Memory" in metric.citation
    assert module("retention").summary.startswith("What a model keeps")


@pytest.mark.parametrize(
    ("rows", "trained", "settings", "message"),
    [
        (None, [0], {}, "predictions is missing"),
        ([[1.0]], None, {}, "references is missing"),
        ([[1.0]], [0, 1], {}, "1 rows of predictions but 2 references"),
        ([[1.0]], [None], {}, "names no trained task"),
        ([[1.0, 0.0]] * 2, [0, None], {}, r"references\[1\] is None; only the first"),
        ([[1.0, 0.0], [1.0]], [0, 1], {}, r"predictions\[1\] has 1 tasks where .* has 2"),
        ([[1.0, 0.0]], [2], {}, r"references\[0\] is 2, which is no place among 2 tasks"),
        ([[1.0, 0.0]] * 2, [1, 1], {}, r"references\[1\] is 1 as references\[0\]"),
        ([[1.0, 0.0]], [0.5], {}, r"references\[0\] must be a whole number or None, got 0.5"),
        ([[1.0, 0.0]], ["add"], {}, "must be a whole number or None, got 'add'"),
        ([[1.5, 0.0]], [0], {}, r"predictions\[0\], task 0 is 1.5; an accuracy must be in"),
        ([[1.0, None]], [0], {}, r"predictions\[0\], task 1 is None; an accuracy"),
        ([[1.0, float("nan")]], [0], {"measure": "loss"}, "task 1 is nan; a loss must be finite"),
        ([1.0], [0], {}, r"predictions\[0\] must be a list"),
        ([[1.0]], [0], {"measure": "los"}, r"measure 'los' is unknown.*'loss'"),
    ],
)
def test_each_bad_input_is_one_line_with_the_right_call(
    rows: Any, trained: Any, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        retention(rows, trained, **settings)
    text = str(caught.value)
    assert text.startswith("retention: ")
    assert "Right call: retention.compute(predictions=" in text
    assert "\n" not in text


def test_the_page_reads_its_own_example_and_draws_it(tmp_path: Any) -> None:
    data, tasks = read_phases(MetricPage.named("phases").example)
    assert tasks == ["add", "sub", "mul", "sq_sum"]
    assert data["references"] == [None, 0, 1, 2, 3]
    assert retention(**data)["forgetting_accuracy"] == pytest.approx((0.91 + 0.83 + 0.77) / 3)
    (path,) = save_figure(draw_phases(data, tasks, "accuracy"), tmp_path / "x", formats=("png",))
    assert path.stat().st_size > 10_000
    assert title_of(module("retention").script) == "Retention"
    assert title_of(module("gmb_utility").script) == "GMB utility"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task,a\nx,1", "column 'trained_on' is missing"),
        ("trained_on,a", "there are no phases"),
        ("trained_on,a\nb,1", r"line 2: task 'b' is unknown"),
        ("trained_on,a\na,high", "line 2, a: 'high' is not a number"),
        ("trained_on,a,b\na,1", "line 2, b: None is not a number"),
    ],
)
def test_the_page_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_phases(text)
