"""Where the events of run logs fall, before anything is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmb_hf.benchmark.prepare import Prepared, prepare
from gmb_hf.design.design import EVENT_TYPES, Design
from gmb_hf.runs.runlog import RunLog


@dataclass(frozen=True)
class EventPreview:
    """The events of a log by one definition.

    Attributes:
        event: the type of event, and which step it is.
        window: W of E_jump, in steps.
        runs: how many runs there are.
        events: how many of them have an event.
        steps: the earliest, the median and the latest t*; empty without events.
        at_first: how many fall on the first row at which there could be one.
        warnings: what is wrong with them, a sentence each.
        notes: what else a reader must know of the runs.
        others: the same of each event of `also_events`.
    """

    event: str
    window: int
    runs: int
    events: int
    steps: tuple[int, ...]
    at_first: int
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    others: tuple[EventPreview, ...] = ()


def preview_events(log: RunLog, **fields: Any) -> EventPreview:
    """The events of every run, by the fields of a design that define them (metric, jump_threshold).

    Where no window is given and the usual one is no multiple of the checkpoints' distance, it is
    that distance.

    Raises:
        InputError: a field is unknown or does not fit the checkpoints, or the metric is missing or
            no finite number somewhere.
    """
    spacing = log.complete([fields["metric"]] if "metric" in fields else []).panel("step").cadence()
    # Horizon and gap play no part in where events are.
    design = Design.minimal(**{"horizon": spacing, "safe_gap": 2 * spacing, **fields})
    if "w_event" not in fields and design.w_event % spacing:
        design = design.replace(w_event=spacing)
    prepared = prepare(log, design, entries=())
    others = tuple(map(_preview, prepared.other_events.values()))
    return replace(_preview(prepared), notes=tuple(prepared.notes), others=others)


def _preview(prepared: Prepared) -> EventPreview:
    found, design = prepared.events, prepared.design
    happened = np.isfinite(found.step)
    own = found.step[happened]
    at_first, warnings = int((own <= found.first_step[happened]).sum()), []
    if at_first:
        floor = " or x_theta_floor" if design.event_type == "E_jump" else ""
        what = f"{at_first} of {len(own)} events fall on the first row, so nothing can warn of them"
        warnings.append(f"{what}; set x_event_t_min{floor}")
    if found.n_dip_recoveries:
        what = f"{found.n_dip_recoveries} of {len(own)} events only regain a level reached before"
        warnings.append(f"{what}; x_require_new_max: true leaves them out")
    ends = [own.min(), np.median(own), own.max()] if len(own) else []
    return EventPreview(
        event=f"{design.event_type}: {EVENT_TYPES[design.event_type].tell(design)}",
        window=design.w_event,
        runs=len(prepared.log.runs),
        events=int(happened.sum()),
        steps=tuple(int(step) for step in ends),
        at_first=at_first,
        warnings=tuple(warnings),
        notes=(),
    )
