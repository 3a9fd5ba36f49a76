"""Indicators that papers have published, as published: number, formula, orientation, parameters.

Each names its paper; its docstring or the comment above it has the formula, what was made causal
and what had to be guessed. A value that a paper takes from the finished run, such as a global peak,
is taken from the run so far. Alarm rules of the papers' own are indicators of 0 and 1
(`rule=True`). The columns that these read are recorded where `training.observables` is `published`
or `all`; a table of all signals, with what each costs, is in docs/signals.md.

The upper half reads weights, updates and the log alone; the lower half activations, outputs and
gradients.
"""

from __future__ import annotations

from functools import partial

from gmb_hf.indicators.catalogue import register_column

# Weights and updates.

_weights = partial(register_column, family="spectral")

# |w(t) - w(0)|: with sparse parities the distance grows long before the error falls.
_BARAK = "Barak et al. (2022), Hidden progress in deep learning, arXiv 2207.08799"
_weights("initial_distance", "Euclidean distance of all weights from the initial ones", _BARAK)
_weights("initial_distance_max", "largest distance of a weight from its initial value", _BARAK)
