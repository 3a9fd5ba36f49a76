"""Protocol `compat`: the reference implementation's computation, its quirks included.

It exists to reproduce published numbers and to compare with them. Its quirks live in this folder
alone: no honest protocol imports it, and nothing that it finds can support an alarm.

`settings` holds the published settings, `events` finds t*, `windows` labels, `thresholds` chooses,
`ranking` and `diagnostics` measure; `measure` runs all of it on one score, `verdict` says what
follows, and `record` writes it down.
"""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "CompatSettings": "settings",
    "Measured": "measure",
    "compat_results": "record",
    "event_steps": "events",
    "measure": "measure",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
