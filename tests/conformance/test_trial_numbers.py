"""The trial's numbers, computed again from the frozen panel `quick-29` by plain code of one's own.

Nothing of the package but its readers and formulas of signals: events, thresholds and first alarms
are written out here as DECISIONS 11 says them, run by run, and must give the table of docs/trial/
to the digit. The two combinations are fitted, and left out.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gmb_hf.design.design import Design
from gmb_hf.hub.panels import FrozenPanel
from gmb_hf.indicators.catalogue import compute
from gmb_hf.runs.panel import Panel

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "trial" / "tables" / "trial.csv"
BUDGET = 0.05


def event_of(steps: list[int], accuracy: list[float], level: float, held: int) -> int | None:
    """The first step from which `held` checkpoints in a row are at the level or above."""
    for place in range(len(steps) - held + 1):
        if all(value >= level for value in accuracy[place : place + held]):
            return steps[place]
    return None


def last_negative(event: int | None, end: int, design: Design) -> int:
    return (event if event is not None else end - design.w_event) - design.safe_gap


def runs_of(scores: Panel, run: int) -> tuple[list[int], list[float]]:
    there = scores.present[run]
    return scores.steps[run][there].tolist(), scores.values[run][there].tolist()


@pytest.fixture(scope="module")
def table() -> dict[str, dict[str, str]]:
    with TABLE.open() as file:
        return {row["signal"]: row for row in csv.DictReader(file) if row["panel"] == "quick-29"}


def test_every_number_of_quick_29_follows_from_its_files(table: dict[str, dict[str, str]]) -> None:
    panel = FrozenPanel.find("quick-29")
    design = panel.design()
    assert (design.primary_run_budget, design.calibration) == (BUDGET, "marginal")
    logs = [panel.read("explore"), panel.read("heldout")]
    found = [log.panel("test_acc") for log in logs]
    events = [
        [event_of(*runs_of(metric, run), 0.5, 5) for run in range(len(metric.runs))]
        for metric in found
    ]
    wrong = []
    singles = [one for one in design.candidates if one.family != "ensemble"]
    assert len(singles) > 120
    for one in singles:
        explore, held_out = (compute(log, one.name, **dict(one.params)) for log in logs)
        row = table[one.name]
        tau = 0.5 if one.name.endswith("_rule") else threshold(explore, events[0], design)
        measured = outcomes(held_out, events[1], tau, design) | {"threshold": tau}
        for name, value in measured.items():
            said = float(row[name]) if row[name] else None
            if said != value:
                wrong.append(f"{one.name}: {name} is {said} in the table, {value} here")
    assert wrong == []


def threshold(scores: Panel, events: list[int | None], design: Design) -> float:
    """The k-th smallest of the greatest negative scores of m runs, k = ceil((1 - a)(m + 1))."""
    greatest = []
    for run, event in enumerate(events):
        steps, values = runs_of(scores, run)
        last = last_negative(event, steps[-1], design)
        own = [v for t, v in zip(steps, values, strict=True) if design.burn_in <= t <= last]
        if own:
            greatest.append(max(own))
    k = math.ceil((1 - BUDGET) * (len(greatest) + 1))
    return math.inf if k > len(greatest) else math.nextafter(sorted(greatest)[k - 1], math.inf)


def outcomes(scores: Panel, events: list[int | None], tau: float, design: Design) -> dict[str, Any]:
    n_runs = n_false = n_events = n_detected = n_timely = 0
    leads = []
    for run, event in enumerate(events):
        steps, values = runs_of(scores, run)
        last = last_negative(event, steps[-1], design)
        n_runs += any(design.burn_in <= t <= last for t in steps)
        end = steps[-1] + 1 if event is None else event
        alarms = (t for t, v in zip(steps, values, strict=True) if v >= tau)
        first = next((t for t in alarms if design.burn_in <= t < end), None)
        n_false += first is not None and first <= last
        if event is not None:
            n_events += 1
            if first is not None and first > last:
                leads.append(event - first)
                n_detected += 1
                n_timely += event - first <= design.horizon
    return {
        "n_runs": n_runs,
        "n_events": n_events,
        "detection_rate": n_detected / n_events,
        "timely_rate": n_timely / n_events,
        "false_alarm_rate": n_false / n_runs,
        "lead_median": float(np.median(leads)) if leads else None,
    }
