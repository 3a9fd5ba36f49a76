"""One generator per purpose, so that one seed can serve them all."""

from __future__ import annotations

import numpy as np

from gmb_hf.validation import InputError


def generator(seed: int, stream: int) -> np.random.Generator:
    """The generator of a seed and a purpose or place; an `InputError` for a seed below 0."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, got {seed!r}")
    return np.random.default_rng([seed, stream])
