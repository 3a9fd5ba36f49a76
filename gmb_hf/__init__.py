"""GMB-HF: may an early-warning score of a training run be trusted as an alarm?

>>> import gmb_hf
>>> log = gmb_hf.RunLog.read("runs/quick/logs")  # doctest: +SKIP
>>> results = gmb_hf.Results.read("runs/quick/results.yaml")  # doctest: +SKIP

Names are loaded when they are first used, so importing the package costs almost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gmb_hf._lazy import lazy_names
from gmb_hf._version import __version__ as __version__

if TYPE_CHECKING:  # what type checkers and editors see; a test holds it equal to _HOME
    from gmb_hf.base.errors import InputError as InputError
    from gmb_hf.benchmark.evaluate import evaluate_lock as evaluate_lock
    from gmb_hf.benchmark.evaluate import evaluate_runs as evaluate_runs
    from gmb_hf.benchmark.evaluate import judge as judge
    from gmb_hf.benchmark.judgement import Judgement as Judgement
    from gmb_hf.benchmark.locking import make_lock as make_lock
    from gmb_hf.benchmark.results import Results as Results
    from gmb_hf.benchmark.scores import Scores as Scores
    from gmb_hf.design.design import Design as Design
    from gmb_hf.design.lock import Lock as Lock
    from gmb_hf.jobs import metrics as metrics
    from gmb_hf.modeling import GrokkingTransformerConfig as GrokkingTransformerConfig
    from gmb_hf.modeling import GrokkingTransformerForCausalLM as GrokkingTransformerForCausalLM
    from gmb_hf.report.figures import plot as plot
    from gmb_hf.runs.panel import Panel as Panel
    from gmb_hf.runs.runlog import RunLog as RunLog
    from gmb_hf.tasks.registry import get_task as get_task
    from gmb_hf.training.presets import preset as preset

    Prereg = Design

_HOME = {
    "Design": "design.design",
    "GrokkingTransformerConfig": "modeling",
    "GrokkingTransformerForCausalLM": "modeling",
    "InputError": "base.errors",
    "Judgement": "benchmark.judgement",
    "Lock": "design.lock",
    "Panel": "runs.panel",
    "Prereg": "design.design:Design",  # its name in earlier versions
    "Results": "benchmark.results",
    "RunLog": "runs.runlog",
    "Scores": "benchmark.scores",
    "evaluate_lock": "benchmark.evaluate",
    "evaluate_runs": "benchmark.evaluate",
    "get_task": "tasks.registry",
    "judge": "benchmark.evaluate",
    "make_lock": "benchmark.locking",
    "metrics": "jobs.metrics",
    "plot": "report.figures",
    "preset": "training.presets",
}

__all__ = ["__version__", *sorted(_HOME)]
if not TYPE_CHECKING:  # else any name would be one, of type Any
    __getattr__, _ = lazy_names(__name__, _HOME)


def __dir__() -> list[str]:
    return __all__
