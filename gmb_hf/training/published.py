"""Which recorders of published signals a training has: `training.observables` decides."""

from __future__ import annotations

from gmb_hf.training.ensemble import Ensemble
from gmb_hf.training.gradients import (
    Gradients,
    Hessian,
    LearningCoefficient,
    Perturbations,
    TangentKernel,
)
from gmb_hf.training.recorders import Recorder, Seldom
from gmb_hf.training.representations import Representations
from gmb_hf.training.spectra import CostlySpectra, Spectra
from gmb_hf.training.units import Units

CHEAP: tuple[type[Recorder], ...] = (Spectra, Representations, Units, Gradients)
"""Those of "published": each signal costs fewer than ten gradients at a checkpoint."""

DEAR: tuple[type[Recorder], ...] = (
    CostlySpectra,
    Hessian,
    TangentKernel,
    Perturbations,
    LearningCoefficient,
)
"""Those that "all" has too, at every `training.dear_every` checkpoints."""


def recorders(ensemble: Ensemble) -> list[Recorder]:
    """What the config of an ensemble asks for beside the usual observables, at step 0."""
    training = ensemble.config.training
    found: list[Recorder] = []
    if training.observables != "usual":
        found += [kind(ensemble) for kind in CHEAP]
    if training.observables == "all":
        found += [Seldom(kind(ensemble), training.dear_every) for kind in DEAR]
    return found
