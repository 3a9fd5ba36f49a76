"""GMB-HF: may an early-warning score of a training run be trusted as an alarm?

>>> import gmb_hf
>>> log = gmb_hf.RunLog.read("runs/quick/logs")  # doctest: +SKIP
>>> results = gmb_hf.Results.read("runs/quick/results.yaml")  # doctest: +SKIP

Names are loaded when they are first used, so importing the package costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gmb_hf._lazy import load
from gmb_hf._version import __version__ as __version__

_HOME = {
    "GrokkingTransformerConfig": "modeling",
    "GrokkingTransformerForCausalLM": "modeling",
    "InputError": "validation",
    "Judgement": "benchmark",
    "Lock": "preregistration",
    "Panel": "runs",
    "Prereg": "preregistration",
    "Results": "benchmark.results",
    "RunLog": "runs",
    "Scores": "benchmark",
    "evaluate_lock": "workflows.evaluating",
    "evaluate_runs": "workflows.evaluating",
    "get_task": "tasks",
    "make_lock": "workflows.locking",
    "preset": "training.presets",
}

_MODULES = ("metrics",)

__all__ = ["__version__", *_MODULES, *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
