"""A live run watched by a locked score: CLEAR, ALARM or ABSTAIN."""

from typing import TYPE_CHECKING

from gmb_hf._lazy import lazy_names

if TYPE_CHECKING:
    from gmb_hf.monitor.callback import GMBCallback as GMBCallback
    from gmb_hf.monitor.callback import watch as watch
    from gmb_hf.monitor.monitor import AlarmMonitor as AlarmMonitor
    from gmb_hf.monitor.observe import Parts as Parts
    from gmb_hf.monitor.reading import Reading as Reading

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "AlarmMonitor": "monitor",
            "GMBCallback": "callback",
            "Parts": "observe",
            "Reading": "reading",
            "watch": "callback",
        },
    )
