"""The Hebbian pull: before a training forward, tokens that stand together grow more alike.

This file travels with saved models: it imports torch alone.

Shapes in comments: B sequences, T tokens, V vocabulary, C width.
"""

from __future__ import annotations

import torch
from torch import Tensor


def neighbour_sums(
    embedding: Tensor, input_ids: Tensor, window: int, present: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Of every token of the vocabulary: how far its neighbours pull it, and how often it occurs.

    The pull of an occurrence is the sum over its neighbours at distance d <= window, on both
    sides, of (E[neighbour] - E[token]) / d. With the identity as embedding, the sums are the
    matrix M of `sums = M @ E`; its rows add up to zero.

    Args:
        embedding: E, [V, C].
        input_ids: int64 [B, T], whole rows.
        window: the longest distance.
        present: bool [B, T], false for padding, which neither pulls nor is pulled; all when absent.

    Returns:
        The sums over all occurrences, [V, C], and the occurrences, [V] of the embedding's dtype.
    """
    if present is None:
        present = torch.ones_like(input_ids, dtype=torch.bool)
    counts = embedding.new_zeros(len(embedding))
    counts.index_add_(0, input_ids.flatten(), present.flatten().to(embedding.dtype))
    sums = torch.zeros_like(embedding)
    for distance in range(1, min(window, input_ids.shape[1] - 1) + 1):
        left, right = input_ids[:, :-distance].flatten(), input_ids[:, distance:].flatten()
        together = (present[:, :-distance] & present[:, distance:]).flatten()  # [B (T - distance)]
        share = together.to(embedding.dtype)[:, None] / distance
        gap = (embedding[right] - embedding[left]) * share  # [B (T - distance), C]
        sums.index_add_(0, left, gap)
        sums.index_add_(0, right, gap, alpha=-1)
    return sums, counts


@torch.no_grad()
def hebbian_pull(
    embedding: Tensor,
    input_ids: Tensor,
    window: int,
    rate: float,
    present: Tensor | None = None,
) -> None:
    """Move each token's embedding, in place, by `rate` times the mean pull over its occurrences.

    All tokens move at once, from where they stood before. Processes that train one model together
    add up their sums and occurrences first, so that all move alike.

    Args:
        embedding: E, [V, C], changed in place.
        input_ids, window, present: as in `neighbour_sums`.
        rate: the learning rate of the pull, eps.
    """
    sums, counts = neighbour_sums(embedding, input_ids, window, present)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(sums)
        torch.distributed.all_reduce(counts)
    embedding.add_(sums / counts.clamp(min=1)[:, None], alpha=rate)


__all__ = ["hebbian_pull", "neighbour_sums"]
