"""E_regime: the transition that PT-MSS registers (spec 1.2)."""

from __future__ import annotations

import math

import numpy as np

from gmb_hf.benchmark.events.found import Events
from gmb_hf.benchmark.events.ptmss import DENSITY, label_regimes
from gmb_hf.benchmark.events.signals import Signals
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError

UNDECIDED = ("INCONCLUSIVE", "ESTIMATOR_UNSTABLE")
"""Labels under which nobody can say whether there was a transition."""


def regime_events(signals: Signals, prereg: Prereg) -> Events:
    """E_regime: the t of the runs with a REGISTERED_TRANSITION.

    A run with NO_TRANSITION has no event; one that is INCONCLUSIVE or ESTIMATOR_UNSTABLE is
    excluded. The quantile, radius and tolerance are `x_regime_quantile`, `x_regime_radius` and
    `x_regime_tolerance`; `x_event_t_min` passes over transitions before that step.

    Raises:
        InputError: every run is so short that a single member of a signal is too many.
    """
    event = prereg.event
    steps, present = signals.primary[0].steps, signals.primary[0].present
    longest, least = int(signals.primary[0].lengths.max()), math.ceil(1 / DENSITY[1])
    if longest < least:
        raise InputError(
            f"E_regime: the longest run has {longest} checkpoint(s), and PT-MSS is INCONCLUSIVE "
            f"where a signal moves in more than {DENSITY[1]:.0%} of them; log at least {least} "
            "a run"
        )
    not_before = event.x_event_t_min or 0
    # The preregistration has filled in or refused what the type needs.
    regimes = label_regimes(
        signals.primary,
        signals.alternate,
        quantile=event.x_regime_quantile or 0.0,
        radius=event.x_regime_radius or 0,
        tolerance=event.x_regime_tolerance or 0,
        not_before=not_before,
    )
    registered = np.array([label == "REGISTERED_TRANSITION" for label in regimes.labels])
    late_enough = present & (steps >= not_before)
    return Events(
        "E_regime",
        regimes.runs,
        np.where(registered, regimes.primary.step, np.nan),
        steps[np.arange(len(steps)), late_enough.argmax(axis=1)],
        np.zeros(len(steps), dtype=bool),
        excluded={
            run: label
            for run, label in zip(regimes.runs, regimes.labels, strict=True)
            if label in UNDECIDED
        },
    )
