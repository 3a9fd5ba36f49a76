"""Figures of retention and generalisation: drawn for every shape that a user may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from gmb_hf.protocol.sequential.generalisation import (
    LossCurve,
    generalisation_figure,
    summarize_curves,
)
from gmb_hf.protocol.sequential.matrix import RetentionMatrix
from gmb_hf.protocol.sequential.report import (
    PhaseCurves,
    forgetting_bars,
    forgetting_by_phase,
    phase_curves,
    retention_matrix,
)
from gmb_hf.protocol.sequential.summary import Chance, RetentionSummary, summarize
from gmb_hf.report.style import save_figure


def summary(
    variants: int = 2, *, seeds: int = 3, phases: int = 3, chance: bool = True
) -> RetentionSummary:
    tasks = tuple(f"task_{k}" for k in range(phases))
    rng = np.random.default_rng(variants)
    matrices = {}
    for number in range(variants):
        loss = rng.uniform(0, 9, (seeds, phases + 1, phases))
        name = f"variant-{number}"
        matrices[name] = RetentionMatrix(
            name, tuple(range(seeds)), tasks, tasks, loss, np.exp(-loss)
        )
    level = Chance(float(np.log(7)), 1 / 7)
    return summarize(matrices, chance=dict.fromkeys(tasks, level) if chance else None)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts]


@pytest.mark.parametrize(
    ("variants", "seeds", "phases", "chance"),
    [(1, 1, 1, True), (2, 3, 3, False), (3, 2, 4, True)],
)
def test_heat_maps_show_every_mean(
    tmp_path: Path, variants: int, seeds: int, phases: int, chance: bool
) -> None:
    made = summary(variants, seeds=seeds, phases=phases, chance=chance)
    for measure in ("loss", "accuracy"):
        figure = retention_matrix(made, measure)
        assert len(figure.axes) == variants + 1
        assert len(texts(figure)) == variants * (phases + 1) * phases
        numbers = [text for axes in figure.axes for text in axes.texts]
        slanted = [text for text in numbers if text.get_style() == "italic"]
        assert len(slanted) == variants * phases * (phases + 1) // 2  # of tasks still to come
        labels = [tick.get_text() for tick in figure.axes[-1].get_yticklabels()]
        assert any("chance" in label for label in labels) == chance
        (path,) = save_figure(figure, tmp_path / measure, formats=("png",))
        assert path.stat().st_size > 5_000


def test_a_cell_at_chance_is_white_and_perfect_ones_are_blue() -> None:
    tasks = ("a",)
    level = Chance(2.0, 0.25)
    loss = np.array([[[2.0], [0.0]]])
    one = RetentionMatrix("dense", (0,), tasks, tasks, loss, np.array([[[0.25], [1.0]]]))
    for measure in ("loss", "accuracy"):
        figure = retention_matrix(summarize({"dense": one}, chance={"a": level}), measure)
        image = figure.axes[0].images[0]
        assert np.asarray(image.get_array()).tolist() == [[0.0], [-1.0]]
        assert image.to_rgba(np.array([[0.0]]))[0, 0].min() > 0.99


def test_bars_are_the_means_of_every_task_but_the_last() -> None:
    made = summary()
    figure = forgetting_bars(made)
    assert figure is not None
    heights = [patch.get_height() for patch in figure.axes[1].patches]
    expected = [
        task.forgetting.mean
        for variant in made.variants.values()
        for task in variant.tasks
        if task.measure == "loss" and task.forgetting is not None
    ]
    assert heights == pytest.approx(expected)
    assert len(heights) == 2 * 2
    assert forgetting_bars(summary(phases=1)) is None


def test_increases_stand_in_the_panel_of_their_task(tmp_path: Path) -> None:
    made = summary(phases=4)
    figure = forgetting_by_phase(made)
    assert figure is not None
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["task_0", "task_1", "task_2"]
    for axes in figure.axes:
        task, shown = axes.get_title(loc="left"), [bars.lines[0] for bars in axes.containers]
        for variant, marks in zip(made.variants.values(), shown, strict=True):
            ours = [one for one in variant.increases if one.task == task]
            assert np.round(marks.get_xdata()).tolist() == [one.phase for one in ours]
            assert marks.get_ydata() == pytest.approx([one.loss.mean for one in ours])
    assert save_figure(figure, tmp_path / "by_phase")[0].stat().st_size > 5_000
    assert forgetting_by_phase(summary(phases=2)) is None


def test_phases_follow_each_other(tmp_path: Path) -> None:
    made = summary()
    steps = np.tile(np.arange(0, 101, 20), (3, 1))
    losses = np.random.default_rng(0).uniform(0.1, 4, steps.shape)
    losses[0, 3:] = np.nan  # a seed that stopped early
    curves = {"variant-0": [PhaseCurves(k, steps, losses, losses) for k in (1, 2, 3)]}
    figure = phase_curves(made, curves)
    assert len(figure.axes) == 2
    assert figure.axes[1].get_xlim() == (0, 300)
    assert [text for text in texts(figure) if text] == ["1 task_0", "2 task_1", "3 task_2"]
    assert save_figure(figure, tmp_path / "phases")[0].stat().st_size > 10_000


def test_generalisation_names_what_is_unreliable(tmp_path: Path) -> None:
    steps = np.arange(0, 100, 10)
    runs = {
        name: [
            LossCurve(f"{name}-{s}", s, steps, 4 - steps / 30, 4.5 - steps / 40) for s in range(3)
        ]
        for name in ("dense", "sort-4")
    }
    summaries = {name: summarize_curves(curves) for name, curves in runs.items()}
    figure = generalisation_figure(runs, summaries, ("sort-4",))
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert named == ["dense", "sort-4 (range does not match)"]
    first, second = (
        save_figure(figure, tmp_path / name, formats=("svg",))[0].read_bytes() for name in "ab"
    )
    assert first == second
