"""From a preregistration to its events: `event.type` names the detector."""

from __future__ import annotations

from collections.abc import Collection

from gmb_hf.benchmark.events.found import Events
from gmb_hf.benchmark.events.jump import jump_events
from gmb_hf.benchmark.events.metric import Observables
from gmb_hf.benchmark.events.plateau import plateau_events
from gmb_hf.benchmark.events.regime import regime_events
from gmb_hf.benchmark.events.signals import regime_signals
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError


def find_events(
    observables: Observables, prereg: Prereg, *, names: Collection[str] | None = None
) -> Events:
    """Find each run's event as the preregistration defines it.

    Args:
        observables: gives a panel by name, e.g. `log.panel`.
        prereg: its `event` section is read.
        names: the columns that there are, e.g. `log.observables`; E_regime chooses among them.

    Raises:
        InputError: an observable is missing or NaN, or a setting does not fit the checkpoints.
    """
    kind = prereg.event.type
    if kind == "E_jump":
        return jump_events(observables(prereg.metric), prereg)
    if kind == "E_plateau":
        return plateau_events(observables(prereg.metric), prereg)
    if names is None:
        raise InputError("E_regime reads several columns: pass their names, names=log.observables")
    ignore = prereg.x_nan == "ignore"
    return regime_events(regime_signals(observables, names, ignore_nan=ignore), prereg)
