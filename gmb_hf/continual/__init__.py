"""What a model keeps of the tasks it learned before, from tables of losses and accuracies.

`matrix` is the table: every task after every phase, for each variant and seed. `retention` gives
the field's standard numbers, `over_seeds` their intervals and paired tests, `summary` all of it as
one record, and `generalisation` compares training logs at equal training loss.
"""

from __future__ import annotations

from typing import Any

from gmb_hf._lazy import load

_HOME = {
    "Course": "generalisation",
    "RetentionMatrix": "matrix",
    "RetentionSummary": "summary",
    "matched": "generalisation",
    "quantities": "retention",
    "read_matrix": "matrix",
    "summarize": "summary",
    "write_matrix": "matrix",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return __all__
