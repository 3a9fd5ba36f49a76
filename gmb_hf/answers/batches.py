"""Batches of equally long rows, which need no padding: a row is computed as it would be alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def equally_long(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """The places of rows, in groups of one length and of at most `most`, the shortest first.

    >>> list(equally_long([3, 1, 3, 3], 2))
    [[1], [0, 2], [3]]
    """
    by_length: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        by_length.setdefault(length, []).append(place)
    for length in sorted(by_length):
        places = by_length[length]
        for start in range(0, len(places), most):
            yield places[start : start + most]
