"""The bars of held-out text: which model is which."""

from __future__ import annotations

from matplotlib.container import BarContainer

from gmb_hf.protocol.language.heldout import ScoredText, heldout_bars
from gmb_hf.tasks.text import TextScore


def test_no_two_bars_look_alike() -> None:
    score = TextScore(10.0, 10, 10, 1)
    models = [ScoredText(f"model {number}", "a", score) for number in range(10)]
    baselines = [ScoredText(f"bytes {number}", "a", score, is_baseline=True) for number in range(3)]
    (axes,) = heldout_bars([*baselines, *models]).axes
    bars = [bar for bar in axes.containers if isinstance(bar, BarContainer)]
    assert [bar.get_label() for bar in bars] == [row.model for row in (*models, *baselines)]
    looks = {(bar[0].get_facecolor(), bar[0].get_hatch()) for bar in bars}
    assert len(looks) == 13
