"""The reference's AUC and average precision, one window at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def roc_auc(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float | None:
    """Area under the ROC curve; None where a class is empty.

    The reference sorts by falling score with a stable sort and moves its threshold one window at a
    time, as if no scores were tied: among ties, the earlier window comes first. For a score with
    many ties that is far from the usual area (which counts a tie as half), and the two signs of
    such a score do not add up to 1.

    Args:
        positive: bool [N], in order of time.
        values: float64 [N].
    """
    hits = _ranked(positive, values)
    n_pos = int(hits.sum())
    n_neg = len(hits) - n_pos
    if not n_pos or not n_neg:
        return None
    true = np.concatenate([[0.0], np.cumsum(hits) / n_pos, [1.0]])
    false = np.concatenate([[0.0], np.cumsum(~hits) / n_neg, [1.0]])
    return float(np.trapezoid(true, false))


def average_precision(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> float | None:
    """Average precision in the same order of windows; None without a positive one."""
    hits = _ranked(positive, values)
    n_pos = int(hits.sum())
    if not n_pos:
        return None
    found = np.cumsum(hits)
    precision = found / np.arange(1, len(hits) + 1)
    gain = np.diff(found / n_pos, prepend=0.0)
    # Summed from left to right, as the reference does.
    return float(np.cumsum(precision * gain)[-1])


def _ranked(positive: NDArray[np.bool_], values: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray(positive[np.argsort(-values, kind="stable")])
