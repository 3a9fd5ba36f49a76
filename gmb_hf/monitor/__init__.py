"""A live run under watch: CLEAR, ALARM or ABSTAIN at every checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gmb_hf._lazy import load

if TYPE_CHECKING:
    from gmb_hf.monitor.callback import GMBCallback as GMBCallback
    from gmb_hf.monitor.callback import watch as watch
    from gmb_hf.monitor.monitor import AlarmMonitor as AlarmMonitor
    from gmb_hf.monitor.parts import Parts as Parts
    from gmb_hf.monitor.reading import Reading as Reading
    from gmb_hf.monitor.reading import RulerReading as RulerReading
    from gmb_hf.monitor.streaming import IndicatorStream as IndicatorStream

_HOME = {
    "AlarmMonitor": "monitor",
    "GMBCallback": "callback",
    "IndicatorStream": "streaming",
    "Parts": "parts",
    "Reading": "reading",
    "RulerReading": "reading",
    "watch": "callback",
}
__all__ = [
    "AlarmMonitor",
    "GMBCallback",
    "IndicatorStream",
    "Parts",
    "Reading",
    "RulerReading",
    "watch",
]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
