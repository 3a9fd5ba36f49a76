"""Crucible: does the model still rank its hardest known cases right?

An item is an anchor with one positive and some negatives. `similarities` holds what a model makes
of many items; `margins` and `ranks` measure it, `tiers` keeps the hard ones apart by frozen
cutoffs, `scoreboard` sums up and refuses to compare what was measured on different data, and
`guardrails` says when a training is losing them. Spec: Crucible Metrics Reference.
"""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "AggregateStats": "aggregate",
    "Bundle": "bundle",
    "EmptyTierWarning": "tiers",
    "EvalHeader": "scoreboard",
    "FingerprintMismatchError": "comparison",
    "Pool": "exposure",
    "Scoreboard": "scoreboard",
    "Similarities": "similarities",
    "TierStats": "scoreboard",
    "Tiers": "tiers",
    "assign_tiers": "tiers",
    "compare_scoreboards": "comparison",
    "expected_exposures": "exposure",
    "fit_tiers": "tiers",
    "margin_stats": "margins",
    "pareto_frontier": "pareto",
    "rank_stats": "ranks",
    "read_bundles": "bundles",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
