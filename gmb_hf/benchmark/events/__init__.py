"""Events: the step t* at which a run does what the alarm should have warned of (spec 1.2).

`find_events` finds those of the preregistered type: a jump, a plateau or a PT-MSS regime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmb_hf._lazy import load

if TYPE_CHECKING:
    from gmb_hf.benchmark.events.detectors import find_events as find_events
    from gmb_hf.benchmark.events.found import Events as Events
    from gmb_hf.benchmark.events.jump import jump_events as jump_events
    from gmb_hf.benchmark.events.plateau import plateau_events as plateau_events
    from gmb_hf.benchmark.events.regime import regime_events as regime_events

_HOME = {
    "Events": "found",
    "find_events": "detectors",
    "jump_events": "jump",
    "plateau_events": "plateau",
    "regime_events": "regime",
}
__all__ = ["Events", "find_events", "jump_events", "plateau_events", "regime_events"]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
