"""The figure of the frontier: what is drawn, and where."""

from __future__ import annotations

import numpy as np
import pytest

from gmb_hf.crucible.pareto import Configuration, pareto_plot, undominated
from gmb_hf.report.style import save_figure


def drawn(points, names=None):
    frozen, organic = np.array(points, dtype=float).T
    names = names or [f"run {number}" for number in range(len(points))]
    cells = zip(names, frozen, organic, undominated(frozen, organic), strict=True)
    return pareto_plot([Configuration(*row) for row in cells])


def test_filled_points_are_the_frontier_and_the_line_is_its_staircase():
    axes = drawn([(0.5, 0.7), (0.6, 0.6), (0.4, 0.5)]).axes[0]
    dominated, frontier = axes.collections
    assert frontier.get_offsets().tolist() == [[0.5, 0.7], [0.6, 0.6]]
    assert dominated.get_offsets().tolist() == [[0.4, 0.5]]
    line = axes.lines[0].get_xydata()
    assert line[1:3].tolist() == [[0.5, 0.7], [0.6, 0.6]]
    assert line[0][1] == 0.7
    assert line[-1][0] == 0.6


def test_configurations_of_one_point_share_a_name():
    axes = drawn([(0.5, 0.7), (0.5, 0.7), (0.4, 0.5)], ["a", "b", "c"]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["a and 1 more", "c"]


def test_of_many_configurations_only_the_frontier_is_named():
    rng = np.random.default_rng(0)
    axes = drawn(rng.random((200, 2))).axes[0]
    assert len(axes.texts) == len(axes.collections[1].get_offsets())


@pytest.mark.parametrize("points", [[(0.5, 0.5)], [(0.0, 1.0), (1.0, 0.0)]])
def test_few_points_are_drawn_to_files(tmp_path, points):
    written = save_figure(drawn(points, ["cost_$x$", "b"][: len(points)]), tmp_path / "pareto")
    assert [path.name for path in written] == ["pareto.png", "pareto.svg"]
