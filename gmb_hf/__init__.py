"""GMB-HF: may an early-warning score of a training run be trusted as an alarm?

>>> import gmb_hf
>>> log = gmb_hf.RunLog.read("runs/quick/logs")  # doctest: +SKIP
>>> results = gmb_hf.Results.read("runs/quick/results.yaml")  # doctest: +SKIP

Names are loaded when they are first used, so importing the package costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gmb_hf._version import __version__ as __version__

_HOME = {
    "GrokkingTransformerConfig": "modeling",
    "GrokkingTransformerForCausalLM": "modeling",
    "InputError": "errors",
    "Judgement": "benchmark.calibration",
    "Lock": "design.lock",
    "Panel": "runs.panel",
    "Prereg": "design.design",
    "Results": "benchmark.results",
    "RunLog": "runs.runlog",
    "Scores": "benchmark.scores",
    "evaluate_lock": "benchmark.evaluate",
    "evaluate_runs": "benchmark.evaluate",
    "get_task": "tasks.registry",
    "make_lock": "benchmark.locking",
    "preset": "training.presets",
}

_MODULES = ("metrics",)

__all__ = ["__version__", *_MODULES, *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
