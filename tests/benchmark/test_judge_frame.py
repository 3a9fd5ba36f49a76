"""`gmb_hf.judge`: a DataFrame in, results out, and the reader's lines for what is wrong with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gmb_hf
from gmb_hf import InputError

LENGTHS = {"horizon": 200, "safe_gap": 400}


def frame(n_runs: int = 40, *, seed: int = 0) -> pd.DataFrame:
    """Runs whose accuracy jumps, and a score that rises 150 steps before most jumps."""
    rng = np.random.default_rng(seed)
    parts = []
    for run in range(n_runs):
        steps = np.arange(0, 2500, 50)
        jump = int(rng.integers(20, 44)) * 50
        known = rng.random() < 0.8
        score = rng.normal(size=len(steps)) + 9.0 * known * ((jump - steps <= 150) & (steps < jump))
        accuracy = np.where(steps > jump, 0.95, 0.05)
        parts.append(
            pd.DataFrame({"run": f"r{run}", "step": steps, "acc": accuracy, "my_score": score})
        )
    return pd.concat(parts, ignore_index=True)


def judged(table: pd.DataFrame, **changes: object) -> gmb_hf.Results:
    given: dict[str, object] = {"score": "my_score", "metric": "acc", **LENGTHS, **changes}
    return gmb_hf.judge(table, **given)


def test_a_table_in_a_verdict_out() -> None:
    results = judged(frame())
    (row,) = [
        row for row in results.to_pandas().to_dict("records") if row["indicator"] == "my_score"
    ]
    assert row["detection_rate"] > 0.6
    assert results.indicator("my_score").x_alarm_eligible is False
    assert "not_locked" in results.indicator("my_score").x_reasons
    assert results.summary.n_events == 40


def test_thresholds_from_explore_runs_and_other_names_of_columns() -> None:
    explore = frame(seed=1).assign(run=lambda t: "e" + t["run"]).rename(columns={"run": "name"})
    held_out = frame().rename(columns={"run": "name", "step": "iteration"})
    explore = explore.rename(columns={"step": "iteration"})
    results = judged(held_out, explore=explore, run="name", step="iteration")
    assert results.x_calibration is not None
    assert results.x_calibration.method == "explore"


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (frame().drop(columns="acc"), {}, "acc"),
        (frame(), {"score": "my_scor"}, "'my_scor' is neither a column nor an indicator"),
        (frame().drop(columns="step"), {}, "step"),
        (frame().iloc[::-1], {}, "step"),
        (frame().assign(my_score=np.nan), {}, "my_score"),
        (frame(), {"horizn": 3}, "horizn"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_line(
    table: pd.DataFrame, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        judged(table, **changes)
    assert "\n" not in str(caught.value)
