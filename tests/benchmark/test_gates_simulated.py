"""What the gates of a locked evaluation let through: small forms of `benchmarks/gates.py`."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks import gates
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.verdict import IndicatorRecord


@pytest.mark.parametrize("kind", gates.NOISE)
def test_noise_is_never_eligible(kind: str) -> None:
    found = gates.verdicts(partial(gates.noise_panel, kind, 40), 3, jobs=1)
    assert not any(eligible for _, eligible, _ in found)


def states(found: IndicatorRecord, unit: str) -> set[str]:
    return {gate.state for gate in found.x_gates if gate.unit == unit}


def test_a_score_that_detects_most_events_at_half_its_budget_is_supported() -> None:
    panel = partial(gates.panel_at, 40, factor=0.5, detected=0.7)
    one = panel(0)
    assert (one.label, one.x_alarm_eligible, one.x_reasons) == (SUPPORTED, True, ())
    assert states(one, "runs") == states(one, "windows") == {"met"}
    found = gates.verdicts(panel, 8, jobs=1)
    assert sum(eligible for _, eligible, _ in found) >= 6


def test_a_score_whose_curve_passes_there_is_supported_by_its_own_thresholds() -> None:
    panel = partial(gates.panel_of_roc, 40, at=0.025, detected=0.7)
    found = gates.verdicts(panel, 8, jobs=1)
    assert sum(eligible for _, eligible, _ in found) >= 5


def test_three_times_the_budget_is_refuted() -> None:
    panel = partial(gates.panel_at, 128, factor=3, detected=0.7)
    found = gates.verdicts(panel, 5, jobs=1)
    assert SUPPORTED not in {label for label, _, _ in found}
    kept = gates.verdicts(partial(gates.panel_at, 128, factor=1, detected=0.7), 4, jobs=1)
    assert [label for label, _, _ in kept].count(SUPPORTED) >= 3


def test_the_truth_of_a_panel_is_the_one_that_was_chosen() -> None:
    """Of many runs, the share with a false alarm and the share of events detected."""
    first = gates.panel_at(600, 0, factor=3, detected=0.7).x_first_alarm
    assert first is not None
    at = first.at(gates.BUDGET)
    assert at.false_alarm_rate == pytest.approx(0.15, abs=0.04)
    # A run that rings falsely detects nothing; noise detects a few more.
    assert at.detection_rate == pytest.approx(0.7 * 0.85, abs=0.08)
