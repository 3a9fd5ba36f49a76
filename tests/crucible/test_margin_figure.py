"""The figure of margins over training: what is drawn, and where."""

from __future__ import annotations

import numpy as np

from gmb_hf.crucible.grokking import margin_curves
from gmb_hf.report.style import save_figure
from gmb_hf.runs.runlog import RunLog

STEPS = np.arange(0, 60, 10)


def tracked(runs=3, *, tiers=True):
    """A log of runs whose margins rise; with tiers from step 20 on."""
    q10 = np.linspace(-0.5, 0.3, 6) + 0.1 * np.arange(runs)[:, None]
    rate = np.linspace(0, 0.9, 6) * np.ones((runs, 1))
    observables = {
        "crucible_margin_q10": q10,
        "crucible_margin_median": q10 + 0.2,
        "crucible_margin_q90": q10 + 0.4,
        "crucible_pass_rate": rate,
        "crucible_tier3_pass_rate": np.where((STEPS >= 20) & tiers, rate, np.nan),
        "test_acc": rate,
        "train_acc": rate,
    }
    return RunLog.from_arrays([f"seed_{run}" for run in range(runs)], STEPS, observables)


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_lines_are_medians_and_points_are_events():
    log = tracked()
    top, bottom = margin_curves(log, np.array([20.0, 30.0, np.nan])).axes
    q10 = log.panel("crucible_margin_q10").values
    above, below = lines(top), lines(bottom)
    np.testing.assert_allclose(above["q10, the hardest tenth"][:, 1], q10[1])
    assert above["a run's event t*"].tolist() == [[20, q10[0, 2]], [30, q10[1, 3]]]
    assert above["median t*, 25 steps"][0][0] == 25
    # Tier3 begins where runs have tiers.
    assert below["pass rate, tier3"][:, 0].tolist() == [20, 30, 40, 50]
    assert top.get_title(loc="left") == "Margins of held-out bundles, 3 runs, 2 with an event"


def test_one_run_without_event_or_tiers_is_drawn(tmp_path):
    log, events = tracked(1, tiers=False), np.array([np.nan])
    figure = margin_curves(log, events)
    labels = [label for axes in figure.axes for label in lines(axes)]
    assert not any("t*" in label or "tier3" in label for label in labels)
    assert figure.axes[0].get_title(loc="left").endswith("1 run, 0 with an event")
    first = [path.read_bytes() for path in save_figure(figure, tmp_path / "one")]
    second = [
        path.read_bytes() for path in save_figure(margin_curves(log, events), tmp_path / "two")
    ]
    assert first == second
