"""Combinations over other splits of the explore runs: how much a verdict owes to one of them.

A lock fits a combination on some explore runs and calibrates it on the others. Here the setting it
chose is fitted and calibrated by other split seeds, and each split judges the held-out runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmb_hf.base.escape import number
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.ensembles import MemberScores, fit_log_odds, fit_trees, setting_of, split_runs
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.prepare import Entry, Prepared
from gmb_hf.benchmark.scores import Scores
from gmb_hf.core.first_alarm import FirstAlarms
from gmb_hf.design.locked_ensembles import LockedEnsemble

SPLITS = tuple(range(8))
"""The split seeds; a lock uses the first one unless its design says otherwise."""


@dataclass(frozen=True)
class OverSplits:
    """A combination at the primary budget of runs, over splits of the explore runs.

    Attributes:
        panel, name: which combination of which panel.
        detected, false: detection rate and false-alarm rate of each split, in the order of seeds;
            0 where no threshold keeps the budget.
    """

    panel: str
    name: str
    detected: tuple[float, ...]
    false: tuple[float, ...]

    @property
    def median(self) -> float:
        """The detection rate of the median split; of an even number the mean of the middle two."""
        return float(np.median(self.detected))

    @property
    def least(self) -> float:
        """The lowest detection rate."""
        return min(self.detected)

    @property
    def most(self) -> float:
        """The highest detection rate."""
        return max(self.detected)

    @property
    def mean_false(self) -> float:
        """The mean false-alarm rate."""
        return float(np.mean(self.false))


def over_splits(
    panel: str,
    explored: Prepared,
    held_out: Prepared,
    formulas: Mapping[str, LockedEnsemble],
    *,
    seeds: Sequence[int] = SPLITS,
) -> list[OverSplits]:
    """Every combination of a lock over other splits, with the setting that the lock chose.

    Args:
        panel: what it is called.
        explored: explore runs by the lock's design.
        held_out: held-out runs by the same design, not by the lock.
        formulas: the combinations as they are locked, by name.
        seeds: of the splits.
    """
    found = []
    for entry in explored.entries:
        if entry.ensemble is None or entry.name not in formulas:
            continue
        setting = setting_of(formulas[entry.name])
        fitted, judged = (MemberScores.of(_same(entry, of), of) for of in (explored, held_out))
        each = [_one(fitted, judged, entry, explored, held_out, setting, seed) for seed in seeds]
        found.append(
            OverSplits(
                panel,
                entry.name,
                tuple(one.detection_rate or 0.0 for one in each),
                tuple(one.false_alarm_rate or 0.0 for one in each),
            )
        )
    return found


def _same(entry: Entry, prepared: Prepared) -> Entry:
    return next(one for one in prepared.entries if one.name == entry.name)


def _one(
    fitted: MemberScores,
    judged: MemberScores,
    entry: Entry,
    explored: Prepared,
    held_out: Prepared,
    setting: Any,
    seed: int,
) -> FirstAlarms:
    """The first alarms on held-out runs of one split."""
    design = fitted.design.model_copy(update={"split_seed": seed})
    fit, calibrate = split_runs(explored.log.runs, design)
    rows = fitted.rows(fit).sorted()
    if design.method == "logistic":
        odds: Any = fit_log_odds(rows, [setting])[setting]
    else:
        odds = fit_trees(rows, [setting], design.learning_rate)[setting]
    own, other = (_scored(one, odds, entry) for one in (fitted, judged))
    keep = set(calibrate)
    own = own.select([row for row, run in enumerate(own.runs) if run in keep])
    prereg = held_out.design
    return Judgement(other, own, prereg).first_alarms(prereg.primary_run_budget)


def _scored(members: MemberScores, odds: Any, entry: Entry) -> Scores:
    features = np.stack([scores.values for scores in members.scores], axis=-1)
    return replace(members.scores[0], name=entry.name, values=entry.sign * odds(features))


_COLUMNS = (
    Column("combination", take="name"),
    Column("panel", take="panel"),
    Column("splits", "{:,}".format, take=lambda one: len(one.detected)),
    Column("detection_rate_median", number, take="median"),
    Column("detection_rate_least", number, take="least"),
    Column("detection_rate_most", number, take="most"),
    Column("false_alarm_rate_mean", number, take="mean_false"),
)


def splits_table(found: Sequence[OverSplits]) -> Table:
    """Every combination on every panel over the splits."""
    return Table.of(found, _COLUMNS, "splits", "Combinations over splits of the explore runs")
