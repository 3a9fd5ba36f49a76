"""Runs of one's own: a design from a few options, fitted to their checkpoints, and a split of them.

Evaluate, explore, lock, plan and `gmb prereg init` ask the same of runs that say nothing of their
design, and `gmb_hf.judge` does; so a command continues with what the one before it was told.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.prepare import CONTROLS, with_boundary, with_explored
from gmb_hf.core.thresholds import runs_to_promise
from gmb_hf.design.candidates import ENSEMBLE
from gmb_hf.design.design import SEEDS, Design, Part
from gmb_hf.design.lint import nearest_multiple, open_parts
from gmb_hf.design.pretrained import PretrainedScore
from gmb_hf.indicators.catalogue import Indicator, get, names
from gmb_hf.runs.metadata import COLUMN_FAMILIES, EXTERNAL, column_family
from gmb_hf.runs.runlog import RunLog, at_shared_steps

PRETRAINED = "pretrained:"


def own_score(
    name: str, log: RunLog, *, sign: int = 1, sees_test_labels: bool | None = None
) -> dict[str, Any]:
    """A score of somebody's own log as a candidate: its column, else the indicator of that name.

    `sees_test_labels` is of a column; what an indicator sees is known, and so is what the column
    of that name sees which is all that it reads. "pretrained:NAME" is a score that was fitted on
    other runs: one that the package ships, or a file.
    """
    candidate: dict[str, Any] = {"name": name, "x_sign": sign}
    if name.startswith(PRETRAINED):
        source = name.removeprefix(PRETRAINED)
        found = PretrainedScore.find(source)
        frozen = {"source": source, "hash": found.hash}
        return {**candidate, "name": found.name, "family": ENSEMBLE, "x_pretrained": frozen}
    if name in log.observables and name not in CONTROLS:
        family = column_family(log.metadata, name)
        known = get(name) if name in names() and family == EXTERNAL else None
        if known is not None and sees_test_labels is None and known.needs == (name,):
            sees_test_labels = known.sees_test_labels
        return {**candidate, "family": family, "x_sees_test_labels": sees_test_labels}
    if name in names():
        indicator = get(name)
        return {**candidate, "family": indicator.family, **_fitted_windows(indicator, log)}
    return candidate  # `resolve` says what there is instead


def _fitted_windows(indicator: Indicator, log: RunLog) -> dict[str, Any]:
    """The parameters of an indicator whose windows do not fit the checkpoints of a log."""
    cadence = _cadence(log, indicator.needs) if indicator.windows else None
    fitted = {} if cadence is None else indicator.defaults_for(cadence)
    return {"params": fitted} if fitted and fitted != dict(indicator.parameters) else {}


def _cadence(log: RunLog, columns: Iterable[str]) -> int | None:
    """The spacing of the rows in which all these columns have a value; None where it varies."""
    known = [name for name in columns if name in log.observables]
    with suppress(InputError):  # whoever judges the runs says what is wrong with their steps
        return (at_shared_steps(log, known) if known else log).panel("step").cadence()
    return None


def own_design(
    log: RunLog,
    scores: Iterable[str] = (),
    *,
    sign: int = 1,
    sees_test_labels: bool | None = None,
    **fields: Any,
) -> Design:
    """The design of runs of one's own from the fields that were given, by their names.

    Lengths that are not given fit the checkpoints of the logs, see `fitted_lengths`; of fewer
    target rates than usual, no more must be met than there are.

    Raises:
        InputError: a field is unknown or out of range, horizon or safe gap are missing, or the
            checkpoints are not evenly spaced.
    """
    known: Any = {"sign": sign, "sees_test_labels": sees_test_labels}
    own = [own_score(name, log, **known) for name in scores]
    asked = {**fields, "candidates": own} if own else fields
    if "fpr_targets" in asked:
        asked = {"min_targets_ok": min(2, len(asked["fpr_targets"])), **asked}
    return Design.of({**fitted_lengths(log, asked, own), **asked})


def fitted_lengths(
    log: RunLog, fields: Mapping[str, Any], scores: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Lengths of a design in steps, where its defaults are no multiples of the cadence.

    The window of E_jump is the multiple of the cadence nearest to its default of 50 steps, and the
    windows of the robustness family are two to five times that, or more where a score's own window
    takes more checkpoints. Empty where the defaults fit, or the logs have no one cadence.
    """
    defaults = {name: Design.model_fields[name].default for name in ("w_event", "window_sweep")}
    listed = [item for item in scores if item.get("family") not in COLUMN_FAMILIES]
    registered = [get(item["name"]) for item in listed if item["name"] in names()]
    windowed = any(one.windows for one in registered)
    read = {fields.get("metric", Design.model_fields["metric"].default)}
    read |= {name for one in registered for name in one.needs}
    read |= {item["name"] for item in scores}
    cadence = _cadence(log, sorted(read))
    if cadence is None:
        return {}
    window = nearest_multiple(defaults["w_event"], cadence)
    least = max((n for one in registered for n in one.minimum_checkpoints.values()), default=1)
    unit = max(window, math.ceil(least / 2) * cadence)
    found: dict[str, Any] = {}
    if defaults["w_event"] % cadence and fields.get("event_type", "E_jump") == "E_jump":
        found["w_event"] = window
    sweep = defaults["window_sweep"]
    if windowed and any(window % cadence or window < least * cadence for window in sweep):
        found["window_sweep"] = tuple(unit * times for times in (2, 3, 4, 5))
    return found


def split(log: RunLog, share: float) -> dict[str, Any]:
    """The fields of a design that hold out all runs of a log but a share of them.

    The runs are ordered by the SHA-256 of their names, so that nobody chooses among them, and the
    first ones are explored. They are declared by their seeds where every run has another one, else
    by their names.

    Raises:
        InputError: one part would be empty.
    """
    count = round(share * len(log.runs))
    if not 0 < count < len(log.runs):
        raise InputError(
            f"a share of {share:g} of {len(log.runs)} runs leaves none to "
            f"{'judge' if count else 'explore'}; give more runs, or another share"
        )
    seeds = log.seeds
    named = None in seeds or len(set(seeds)) < len(seeds)
    marks: Sequence[Any] = log.runs if named else seeds
    order = _order(log)
    what = "runs" if named else "seeds"
    parts = {f"{what}_explore": order[:count], f"{what}_eval": order[count:]}
    return {name: tuple(sorted(marks[row] for row in rows)) for name, rows in parts.items()}


SHARES = (0.5, 0.4, 0.3)  # of runs to explore, in the order in which they are proposed


def share_to_explore(design: Design, log: RunLog, events: Events) -> float | None:
    """The first of `SHARES` that can end in a verdict by a lock; None where none of them can.

    The explored part must be able to give the primary budget a threshold, and the other part must
    hold as many events as a verdict takes. Where each event lies is known, not the scores of runs.
    """
    least = runs_to_promise(design.primary_run_budget, design.calibration)
    with_event = {run for run, step in zip(events.runs, events.step, strict=True) if step >= 0}
    order = [log.runs[row] for row in _order(log)]
    for share in SHARES:
        count = round(share * len(order))
        held_out = with_event.intersection(order[count:])
        if count >= least and len(held_out) >= design.event_count_min:
            return share
    return None


def _order(log: RunLog) -> list[int]:
    """The rows of the runs, by the SHA-256 of their names."""
    hashes = [hashlib.sha256(run.encode()).hexdigest() for run in log.runs]
    return sorted(range(len(hashes)), key=hashes.__getitem__)


def undeclared_parts(design: Design, log: RunLog, *, split: bool) -> list[Part]:
    """What of the boundary neither a design nor the logs say, so that a lock asks for it.

    `split`: whether the runs will be split, so that explore and held-out runs are known.
    """
    still = open_parts(with_explored(with_boundary(design, log), log))
    return [part for part in still if not (split and part in SEEDS)]
