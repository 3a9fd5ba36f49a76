"""Run logs: one table with a row per run and checkpoint."""

from typing import TYPE_CHECKING

from gmb_hf._lazy import lazy_names

if TYPE_CHECKING:
    from gmb_hf.runs.panel import Panel as Panel
    from gmb_hf.runs.runlog import RunLog as RunLog

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {"Panel": "panel", "RunLog": "runlog"})
