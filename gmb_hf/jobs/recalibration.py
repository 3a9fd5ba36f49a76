"""What a pretrained score detects on a panel that it has not seen, calibrated on a few of its runs.

For each panel a score of each class is fitted on the explore runs of all other panels; thresholds
come from n explore runs of this one, drawn anew for each draw, and its held-out runs are judged
(DECISIONS 14). It is what a user with n runs of a task of their own gets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import number
from gmb_hf.base.stats import generator
from gmb_hf.base.tables import Column, Table
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.prepare import Prepared, prepare
from gmb_hf.benchmark.pretrained import fit_score
from gmb_hf.core.thresholds import in_words
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.pretrained import PretrainedScore
from gmb_hf.hub.panels import EXPLORE, HELD_OUT, FrozenPanel
from gmb_hf.indicators.catalogue import Kind

RUNS_AND_BUDGETS = ((10, 0.1), (20, 0.05), (40, 0.05))
"""How many runs calibrate, and the share of runs that may have a false alarm."""
DRAWS = 40
_STREAM = 14  # of the draws of calibrating runs


@dataclass(frozen=True)
class Recalibrated:
    """A score on the held-out runs of a panel that it was not fitted on.

    Attributes:
        panel, kind, event: which runs, which class, before which event.
        runs, budget: how many runs calibrate, for what share of runs with a false alarm.
        detected: median over draws of the share of events; low, high: its 10 and 90% quantiles.
        false: mean over draws of the share of runs with a false alarm.
        n_events, n_runs: held-out runs with an event; with negative windows.
        members: of the score. hash: its own.
        fault: why there is none.
    """

    panel: str
    kind: str
    event: str
    runs: int
    budget: float
    detected: float | None = None
    low: float | None = None
    high: float | None = None
    false: float | None = None
    n_events: int = 0
    n_runs: int = 0
    members: int = 0
    hash: str = ""
    fault: str = ""


def recalibrated(
    name: str,
    panels: Mapping[str, FrozenPanel],
    kind: Kind,
    folder: Path,
    *,
    fields: Mapping[str, Any] | None = None,
    draws: int = DRAWS,
) -> list[Recalibrated]:
    """One panel by a score that is fitted on the explore runs of all others.

    Args:
        name: the panel that is left out.
        panels: all of them, by name.
        kind: the class of the score.
        folder: keeps the score, which the same call finds again.
        fields: of the panels' designs, by name, that are to be different, such as the event.
        draws: how often the calibrating runs are drawn.
    """
    at = [
        partial(Recalibrated, name, kind, runs=runs, budget=budget)
        for runs, budget in RUNS_AND_BUDGETS
    ]
    own, changed = panels[name], dict(fields or {})
    event = own.design().replace(**changed).event_name
    try:
        score = _fitted(name, panels, kind, folder, changed)
        candidate = {
            "name": score.name,
            "family": ENSEMBLE,
            "x_pretrained": {"source": str(folder / f"{score.name}.yaml"), "hash": score.hash},
        }
        design = own.design().replace(**{"candidates": [candidate], **changed})
        explored, held_out = (prepare(own.read(part), design) for part in (EXPLORE, HELD_OUT))
        found = _judged(explored, held_out, draws)
    except InputError as error:
        return [one(event=event, fault=str(error)) for one in at]
    about: dict[str, Any] = {"members": len(score.formula.members), "hash": score.hash}
    return [one(event=event, **about, **numbers) for one, numbers in zip(at, found, strict=True)]


def _fitted(
    name: str,
    panels: Mapping[str, FrozenPanel],
    kind: Kind,
    folder: Path,
    fields: Mapping[str, Any],
) -> PretrainedScore:
    """The score of the other panels, which an earlier call may have fitted."""
    parts = {other: explored(panel, fields) for other, panel in panels.items() if other != name}
    called = f"{kind}_without_{name}".replace("-", "_")
    path = folder / f"{called}.yaml"
    if path.exists():
        held = PretrainedScore.read(path)
        seen = {one.source: one.fingerprint for one in held.fitted_on}
        if seen == {other: part.log.fingerprint() for other, part in parts.items()}:
            return held
    found = fit_score(called, parts, kind, about=f"Fitted on all panels of a trial but {name}.")
    found.write(path)
    return found


def explored(panel: FrozenPanel, fields: Mapping[str, Any]) -> Prepared:
    """The explore runs of a panel, with the single scores of its design."""
    single = [one.plain() for one in panel.design().candidates if one.family != ENSEMBLE]
    return prepare(panel.read(EXPLORE), panel.design().replace(**{"candidates": single, **fields}))


def _judged(explored: Prepared, held_out: Prepared, draws: int) -> list[dict[str, Any]]:
    """For each number of runs and budget: what thresholds from draws of explore runs detect."""
    own = explored.scores(explored.entries[0])
    judged = held_out.scores(held_out.entries[0])
    known = np.flatnonzero(explored.windows.negative.any(axis=1))
    found: list[dict[str, Any]] = []
    for runs, budget in RUNS_AND_BUDGETS:
        if len(known) < runs:
            fault = f"{len(known)} explore runs have negative windows, fewer than {runs}"
            found.append({"fault": fault})
            continue
        each = [
            Judgement(judged, own.select(_draw(known, runs, draw)), held_out.design).first_alarms(
                budget
            )
            for draw in range(draws)
        ]
        detected = [one.detection_rate or 0.0 for one in each]
        low, middle, high = np.quantile(detected, (0.1, 0.5, 0.9)).tolist()
        numbers = {"detected": middle, "low": low, "high": high}
        numbers["false"] = float(np.mean([one.false_alarm_rate or 0.0 for one in each]))
        found.append({**numbers, "n_events": each[0].n_events, "n_runs": each[0].n_runs})
    return found


def _draw(known: NDArray[np.int64], runs: int, draw: int) -> list[int]:
    """The calibrating runs of one draw, without replacement."""
    return [int(row) for row in generator(draw, _STREAM).choice(known, runs, replace=False)]


_COLUMNS = (
    Column("panel", take="panel"),
    Column("class", take="kind"),
    Column("event", take="event"),
    Column("calibrating_runs", "{:,}".format, take="runs"),
    Column("budget", in_words, take="budget"),
    Column("detection_rate", number, take="detected"),
    Column("detection_low", number, take="low"),
    Column("detection_high", number, take="high"),
    Column("false_alarm_rate", number, take="false"),
    Column("n_events", "{:,}".format, take="n_events"),
    Column("n_runs", "{:,}".format, take="n_runs"),
    Column("members", "{:,}".format, take="members"),
    Column("fault", take="fault"),
)


def recalibrated_table(found: Sequence[Recalibrated]) -> Table:
    """Every panel by the scores of the other ones, with every digit."""
    caption = "Scores of other panels, calibrated on a few explore runs of this one"
    return Table.of(found, _COLUMNS, "recalibrated", caption)


def calls(
    panels: Mapping[str, FrozenPanel], kinds: Sequence[Kind], folder: Path, **options: Any
) -> dict[str, Callable[[], list[Recalibrated]]]:
    """A call for each panel and class, by what it is called; none for a panel alone."""
    if len(panels) < 2:
        return {}
    return {
        f"{name} by {kind} of the others": partial(
            recalibrated, name, panels, kind, folder, **options
        )
        for kind in kinds
        for name in panels
    }
