"""One thread for torch: small sums then have one order on every machine."""

from __future__ import annotations

from collections.abc import Iterator


def one_thread() -> Iterator[None]:
    """The body of a fixture; it leaves the number of threads as it was."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
