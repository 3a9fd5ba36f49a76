"""The events of a run log, and the runs that can be judged by them."""

from __future__ import annotations

from collections import Counter

from gmb_hf.benchmark.events import Events, find_events
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError


def decided_runs(prereg: Prereg, log: RunLog) -> tuple[RunLog, Events]:
    """The runs of which it can be said whether they had an event, and their events.

    The others, if any, are `Events.excluded`: neither events nor negatives.

    Raises:
        InputError: every run is excluded; or what `find_events` raises.
    """
    events = find_events(log.panel, prereg, names=log.observables)
    if not events.excluded:
        return log, events
    kept = [run for run in log.runs if run not in events.excluded]
    if not kept:
        raise InputError(
            f"{log.origin}: PT-MSS cannot say of any run whether it has an event "
            f"({count_labels(events)}), so there is nothing to judge; gmb audit --runs ... says "
            "why, x_regime_quantile and x_regime_radius are what can be changed"
        )
    return log.select(kept), events.decided()


def count_labels(events: Events) -> str:
    """How many runs are excluded under which label, in words."""
    counts = Counter(events.excluded.values())
    return ", ".join(f"{count} {label}" for label, count in sorted(counts.items()))
