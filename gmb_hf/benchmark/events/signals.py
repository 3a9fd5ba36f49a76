"""Force, info and constraint of a run log, and the alternate estimates of the same three.

Force is the change of the gradient norm, info that of the spectral entropy of the unembedding,
constraint that of the correction rate: accuracy against the true label on training rows whose label
was made wrong. Where no label was, the median held-out margin takes its place. The alternates are
the changes of trailing means over five checkpoints and, for info, of the effective rank. A log that
brings the changes themselves (d_force, ...) is taken at its word.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gmb_hf.benchmark.events.metric import Observables, require_numbers
from gmb_hf.benchmark.events.ptmss import Family
from gmb_hf.indicators.causal import difference, trailing_mean
from gmb_hf.runs.panel import Panel
from gmb_hf.validation import InputError, nearest

PUBLISHED = ("d_force", "d_info", "d_constraint")
PUBLISHED_ALTERNATES = ("d_force_alt", "d_info_alt", "d_constraint_alt")
DERIVED_FROM = ("gradient_norm", "unembedding_entropy", "unembedding_rank")
CONSTRAINTS = ("correction_rate", "test_margin_q50")
"""The first that the log has."""
SMOOTHING = 5  # checkpoints in the alternates' trailing means


@dataclass(frozen=True)
class Signals:
    """Both families of a log, and the columns that they come from."""

    primary: Family
    alternate: Family
    columns: tuple[str, ...]


def regime_signals(
    observables: Observables, names: Collection[str], *, ignore_nan: bool = False, where: str = ""
) -> Signals:
    """The signals of every run.

    Args:
        observables: gives a panel by name, e.g. `log.panel`.
        names: the columns that there are, e.g. `log.observables`.
        ignore_nan: let a checkpoint without a value have no change.
        where: file or source, put before the message.

    Raises:
        InputError: columns are missing (all that is needed is named), or hold NaN.
    """
    wanted = signal_columns(names, where=where)
    panels = [observables(name) for name in wanted]
    for panel in panels:
        require_numbers(panel, ignore=ignore_nan)
    if wanted[0] in PUBLISHED:
        force, info, constraint, *others = panels
        return Signals((force, info, constraint), (others[0], others[1], others[2]), wanted)
    gradient, entropy, rank, correction = panels
    return Signals(
        primary=(_change(gradient), _change(entropy), _change(correction)),
        alternate=(_change(_smooth(gradient)), _change(rank), _change(_smooth(correction))),
        columns=wanted,
    )


def signal_columns(names: Collection[str], *, where: str = "") -> tuple[str, ...]:
    """The columns that the signals of a log with these columns come from.

    Raises:
        InputError: some are missing.
    """
    published = (*PUBLISHED, *PUBLISHED_ALTERNATES)
    constraint = next((name for name in CONSTRAINTS if name in names), CONSTRAINTS[0])
    derived = (*DERIVED_FROM, constraint)
    wanted = published if any(name in names for name in published) else derived
    missing = [name for name in wanted if name not in names]
    if not missing:
        return wanted
    guess = nearest(missing[0], names)
    hint = f"; nearest to {missing[0]}: {guess!r}" if guess else ""
    raise InputError(
        f"{where}{': ' * bool(where)}PT-MSS needs the columns {', '.join(DERIVED_FROM)} and "
        f"{' or '.join(CONSTRAINTS)}, or else {', '.join(published)}; "
        f"missing: {', '.join(missing)}{hint}"
    )


def _change(observable: Panel) -> Panel:
    """The absolute change since the checkpoint before; 0 at the first."""
    return observable.with_values(np.abs(difference(observable.values)))


def _smooth(observable: Panel) -> Panel:
    return observable.with_values(trailing_mean(observable.values, SMOOTHING))
