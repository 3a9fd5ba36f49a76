"""PT-MSS of the reference project's 20 real runs, as published."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gmb_hf.benchmark.events import Audit, audit_runs

QUANTILES = ("0.98", "0.99", "0.995")
RADIUS = 20  # in steps; the runs have a checkpoint every 500


@pytest.fixture(scope="module")
def expected(reference_runs: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((reference_runs / "expected.json").read_text())
    return found


def audited(reference_runs: Path, quantile: str, radius: int = RADIUS) -> Audit:
    return audit_runs(str(reference_runs / "*.csv"), quantile=float(quantile), radius=radius)


@pytest.mark.parametrize("quantile", QUANTILES)
def test_label_and_time_of_every_run(
    reference_runs: Path, expected: dict[str, Any], quantile: str
) -> None:
    found = audited(reference_runs, quantile)
    published = {run: one["ptmss"][quantile] for run, one in expected.items()}
    assert len(published) == 20
    assert {item.run: {"label": item.label, "t": item.step} for item in found.runs} == published
    assert Counter(run.label for run in found.runs) == Counter(
        one["label"] for one in published.values()
    )


def test_the_order_where_all_move_at_one_checkpoint_is_that_of_the_names(
    reference_runs: Path,
) -> None:
    runs = {item.run: item for item in audited(reference_runs, "0.99").runs}
    assert runs["seed_159"].order == ("force", "info", "constraint")
    assert runs["seed_142"].order == ("force", "info", "constraint")
    assert runs["seed_141"].order == ()
    assert runs["seed_142"].reason == "the alternates never move together"


def test_published_radii_below_the_cadence_cannot_differ(reference_runs: Path) -> None:
    found = {radius: audited(reference_runs, "0.99", radius) for radius in (10, 20, 40, 80)}
    assert len({item.runs for item in found.values()}) == 1
    assert "below the 500 steps between checkpoints" in found[80].notes[0]
    wider = audited(reference_runs, "0.99", 500)
    assert wider.runs != found[80].runs
    assert wider.notes == ()


def test_a_repeated_step_counts_twice_as_published(
    reference_runs: Path, expected: dict[str, Any]
) -> None:
    run = next(item for item in audited(reference_runs, "0.98").runs if item.run == "seed_140")
    # 14 and 15 of 664 rows; a step that counted once would leave 601.
    assert "force in 2.11% of checkpoints, info in 2.26% of checkpoints" in run.reason
    assert (run.label, run.step) == ("INCONCLUSIVE", expected["seed_140"]["ptmss"]["0.98"]["t"])
