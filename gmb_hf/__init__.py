"""GMB-HF: may an early-warning score of a training run be trusted as an alarm?

>>> import gmb_hf
>>> log = gmb_hf.RunLog.read("runs/quick/logs")  # doctest: +SKIP
>>> results = gmb_hf.Results.read("runs/quick/results.yaml")  # doctest: +SKIP

Names are loaded when they are first used, so importing the package costs almost nothing.
"""

from __future__ import annotations

from gmb_hf._lazy import lazy_names
from gmb_hf._version import __version__ as __version__

_HOME = {
    "Design": "design.design",
    "GrokkingTransformerConfig": "modeling",
    "GrokkingTransformerForCausalLM": "modeling",
    "InputError": "errors",
    "Judgement": "benchmark.calibration",
    "Lock": "design.lock",
    "Panel": "runs.panel",
    "Prereg": "design.design:Design",  # its name in earlier versions
    "Results": "benchmark.results",
    "RunLog": "runs.runlog",
    "Scores": "benchmark.scores",
    "evaluate_lock": "benchmark.evaluate",
    "evaluate_runs": "benchmark.evaluate",
    "get_task": "tasks.registry",
    "make_lock": "benchmark.locking",
    "metrics": "metrics",
    "preset": "training.presets",
}

__all__ = ["__version__", *sorted(_HOME)]
__getattr__, _ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return __all__
