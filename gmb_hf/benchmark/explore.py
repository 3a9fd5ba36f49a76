"""Explore runs, both signs of every candidate: a search, and no claim."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.ensembles import cross_fitted
from gmb_hf.benchmark.nulls import NULLS
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.prepare import Entry, Prepared, Runs, prepare
from gmb_hf.benchmark.ranking import layer_a
from gmb_hf.benchmark.utility import operating_point
from gmb_hf.design.design import Design
from gmb_hf.files import write_text

DRAWS = 200  # of the nulls and the bootstrap: a search needs no third digit


@dataclass(frozen=True)
class Explored:
    """One candidate with one sign on explore runs, at the primary operating point.

    Attributes:
        indicator, family, sign, sees_test_labels: what was tried.
        auc, ap: pooled over windows.
        achieved_fpr: mean over runs of each run's rate, at thresholds cross-fitted over runs.
        coverage: share of events warned of. lead_time_median: in steps.
        nulls: mean coverage by chance at equal false-alarm cost, by the name of the null.
        p_value: the largest of the nulls', not adjusted for the search.
    """

    indicator: str
    family: str
    sign: int
    sees_test_labels: bool | None
    auc: float | None
    ap: float | None
    achieved_fpr: float | None
    coverage: float | None
    lead_time_median: float | None
    nulls: Mapping[str, float]
    p_value: float | None

    @property
    def chance(self) -> float | None:
        """The coverage of the hardest null."""
        return max(self.nulls.values(), default=None)


def explore(
    design: Design, runs: Runs | Prepared, *, on_done: Callable[[str], None] | None = None
) -> list[Explored]:
    """Both signs of every candidate and control on explore runs, best coverage first.

    Thresholds are cross-fitted over the runs, so no run is judged by one that it helped to find.

    Args:
        design: what is asked.
        runs: a run log, files, folders or globs; or what `prepare` made of them.
        on_done: called with each candidate's name when both signs have been tried.
    """
    prepared = prepare(runs, design)
    quick = design.model_copy(update={"null_draws": DRAWS, "bootstrap_draws": DRAWS})
    rows = []
    for entry in prepared.entries:
        fitted = entry.ensemble is not None
        scores = cross_fitted(entry, prepared) if fitted else prepared.scores(entry)
        for sign in (entry.sign, -entry.sign):
            turned = dataclasses.replace(scores, values=scores.values * (sign * entry.sign))
            rows.append(_explored(entry, sign, Judgement(turned, None, quick)))
        if on_done is not None:
            on_done(entry.name)
    return sorted(rows, key=lambda row: (-(row.coverage or 0.0), row.p_value or 1.0))


def _explored(entry: Entry, sign: int, judgement: Judgement) -> Explored:
    primary, ranking = judgement.design.primary_fpr, layer_a(judgement)
    gate = layer_b(judgement, intervals=False)
    point = operating_point(judgement, primary)
    return Explored(
        indicator=entry.name,
        family=entry.indicator.family,
        sign=sign,
        sees_test_labels=entry.indicator.sees_test_labels,
        auc=ranking.auc,
        ap=ranking.ap,
        achieved_fpr=gate.at(primary).achieved,
        coverage=point.coverage,
        lead_time_median=point.lead_time_median,
        nulls={name: null.mean_coverage for name, null in point.nulls.items()},
        p_value=point.x_p_value,
    )


def write_explored(rows: Sequence[Explored], path: str | Path) -> Path:
    """Write the rows as CSV, atomically; a number that does not exist is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [entry.name for entry in dataclasses.fields(Explored)]
    at = names.index("nulls")
    writer.writerow([*names[:at], *(f"{null}_null" for null in NULLS), *names[at + 1 :]])
    for row in rows:
        values = [getattr(row, name) for name in names]
        values[at : at + 1] = [row.nulls.get(null) for null in NULLS]
        writer.writerow(["" if value is None else value for value in values])
    return write_text(path, text.getvalue())
