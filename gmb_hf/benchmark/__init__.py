"""The benchmark: from scores and events to one verdict per score (spec GMB v0.4).

The order of the modules is the order of the argument: `scores` and `events` say what was observed,
`windows` labels it, `calibration` turns negatives into thresholds, the layers A to D measure, and
`verdict` concludes. `judge_all` runs all of it; `gmb_hf.benchmark.judge.judge` for one score.
"""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "Events": "events",
    "IndicatorVerdictParts": "judge",
    "Judgement": "judgement",
    "Scores": "scores",
    "find_events": "events",
    "judge_all": "judge",
    "label_windows": "windows",
    "layer_a": "discrimination",
    "layer_b": "operationality",
    "layer_c": "utility",
    "layer_d": "robustness",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
