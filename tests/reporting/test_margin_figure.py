"""The figure of margins over training: what is drawn, and where."""

from __future__ import annotations

import numpy as np

from gmb_hf.crucible.figures import MarginCurves, margin_curves
from gmb_hf.report.style import save_figure


def curves(runs=3, *, events=(20.0, 30.0, np.nan), tier3=None):
    steps = np.tile(np.arange(0, 60, 10), (runs, 1))
    q10 = np.linspace(-0.5, 0.3, 6) + 0.1 * np.arange(runs)[:, None]
    rate = np.linspace(0, 0.9, 6) * np.ones((runs, 1))
    hard = np.where(steps >= 20, rate, np.nan) if tier3 is None else tier3
    return MarginCurves(
        steps=steps,
        q10=q10,
        median=q10 + 0.2,
        q90=q10 + 0.4,
        pass_rate=rate,
        tier3_pass_rate=hard,
        held_out=rate,
        event_step=np.array(events[:runs]),
    )


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_lines_are_medians_and_points_are_events():
    given = curves()
    top, bottom = margin_curves(given).axes
    above, below = lines(top), lines(bottom)
    np.testing.assert_allclose(above["q10, the hardest tenth"][:, 1], given.q10[1])
    assert above["a run's event t*"].tolist() == [[20, given.q10[0, 2]], [30, given.q10[1, 3]]]
    assert above["median t*, 25 steps"][0][0] == 25
    # Tier3 begins where runs have tiers.
    assert below["pass rate, tier3"][:, 0].tolist() == [20, 30, 40, 50]
    assert top.get_title(loc="left") == "Margins of held-out bundles, 3 runs, 2 with an event"


def test_one_run_without_event_or_tiers_is_drawn(tmp_path):
    given = curves(1, events=(np.nan,), tier3=np.full((1, 6), np.nan))
    figure = margin_curves(given)
    labels = [label for axes in figure.axes for label in lines(axes)]
    assert not any("t*" in label or "tier3" in label for label in labels)
    assert figure.axes[0].get_title(loc="left").endswith("1 run, 0 with an event")
    first = [path.read_bytes() for path in save_figure(figure, tmp_path / "one")]
    second = [path.read_bytes() for path in save_figure(margin_curves(given), tmp_path / "two")]
    assert first == second
