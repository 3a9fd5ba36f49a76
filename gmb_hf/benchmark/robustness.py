"""Layer D: whether the answer survives small admissible changes (spec 4.4).

The family is (the candidate's own window) x (smoothing) x (one group of runs left out). A score
without a window of its own is judged at .8, 1 and 1.25 times the horizon instead; since no lead
exceeds the horizon, a shorter one asks for a proportionally shorter median lead. Members are
labelled by their point verdict: leaving runs out must not count as a flip for want of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.operationality import layer_b
from gmb_hf.benchmark.utility import chance, shortfalls, warnings_at
from gmb_hf.design.design import Design
from gmb_hf.documents import Record

_HORIZON_FACTORS = (0.8, 1.0, 1.25)
SUPPORTED, RANK_ONLY = "SUPPORTED_FOR_ALARM", "RANK_ONLY"


@dataclass(frozen=True)
class Member(Record):
    """One member of the family: what was changed, its point verdict, whether B passes."""

    name: str
    label: str
    layer_b_pass: bool


@dataclass(frozen=True)
class LayerD(Record):
    """Robustness over the family.

    Attributes:
        family_size: how many members.
        pass_rate: share that passes layer B.
        label_flip_rate: share whose label differs from the point verdict on all runs.
        central_label: that point verdict.
        members: all of them.
        notes: where the flips come from, one sentence each.
    """

    family_size: int
    pass_rate: float
    label_flip_rate: float
    central_label: str
    members: tuple[Member, ...]
    notes: tuple[str, ...]


def layer_d(judgement: Judgement, variants: Mapping[str, Judgement] | None = None) -> LayerD:
    """Judge every member of the admissible family.

    Args:
        judgement: the central one.
        variants: the same score with other values of its own window, by name such as
            "window=150"; none for a score that has no window.
    """
    central = point_verdict("central", judgement)
    members = tuple(point_verdict(name, one) for name, one in family(judgement, variants or {}))
    flipped = [member for member in members if member.label != central.label]
    return LayerD(
        family_size=len(members),
        pass_rate=sum(member.layer_b_pass for member in members) / len(members),
        label_flip_rate=len(flipped) / len(members),
        central_label=central.label,
        members=members,
        notes=_notes(members, flipped),
    )


def point_verdict(name: str, judgement: Judgement) -> Member:
    """The label that the point estimates alone give: supported if B and C pass, else not."""
    operable = layer_b(judgement, intervals=False).passed
    return Member(name, SUPPORTED if operable and _useful(judgement) else RANK_ONLY, operable)


def family(
    judgement: Judgement, variants: Mapping[str, Judgement]
) -> Iterator[tuple[str, Judgement]]:
    """Every member with its name, e.g. "window=150,smooth=3,without=2"."""
    sweep, n_runs = judgement.prereg.smoothing_sweep, judgement.evaluation.n_runs
    groups = run_groups(n_runs, judgement.prereg.run_groups)
    for setting, checkpoints, whole in _whole(judgement, variants, sweep):
        for left_out in range(int(groups.max()) + 1):
            kept = np.flatnonzero(groups != left_out)
            if len(kept):
                name = f"{setting},smooth={checkpoints},without={left_out}"
                yield name, whole.select(kept)
            else:
                yield f"{setting},smooth={checkpoints}", whole


def _whole(
    judgement: Judgement, variants: Mapping[str, Judgement], sweep: Sequence[int]
) -> Iterator[tuple[str, int, Judgement]]:
    """Setting, smoothing and judgement of each member before runs are left out."""
    if variants:
        for setting, variant in variants.items():
            for checkpoints in sweep:
                yield setting, checkpoints, variant.smoothed(checkpoints)
        return
    smoothed = {checkpoints: judgement.smoothed(checkpoints) for checkpoints in sweep}
    for setting, prereg in _horizons(judgement.prereg).items():
        for checkpoints, one in smoothed.items():
            yield setting, checkpoints, one.with_horizon(prereg)


def run_groups(n_runs: int, n_groups: int) -> NDArray[np.int64]:
    """The group of each run, int64 [R], dealt out in turn."""
    return np.arange(n_runs) % n_groups


def _useful(judgement: Judgement) -> bool:
    primary = judgement.prereg.primary_fpr
    warned = warnings_at(judgement, primary)
    if not judgement.n_events or not warned.covered.any():
        return False
    n_covered = int(warned.covered.sum())
    coverage = n_covered / judgement.n_events
    lead_median = float(np.median(warned.lead[warned.covered]))
    p_value = chance(judgement, primary, n_covered)[2] if judgement.strict else None
    return not shortfalls(judgement, coverage, lead_median, p_value)


def _horizons(prereg: Design) -> dict[str, Design]:
    """The preregistration at each horizon of the family, by the name of the setting."""
    found = {}
    for factor in _HORIZON_FACTORS:
        horizon = min(round(prereg.horizon * factor), prereg.safe_gap - 1)
        lead = prereg.lead_time_median_min * min(horizon / prereg.horizon, 1)
        found[f"horizon={horizon}"] = prereg.replace(horizon=horizon, lead_time_median_min=lead)
    return found


def _notes(members: tuple[Member, ...], flipped: list[Member]) -> tuple[str, ...]:
    """For each setting in which more members flip than elsewhere, how many do."""
    total = Counter(setting for member in members for setting in member.name.split(","))
    flips = Counter(setting for member in flipped for setting in member.name.split(","))
    rate = len(flipped) / len(members)
    return tuple(
        f"{count} of {total[setting]} members with {setting} get another label"
        for setting, count in flips.most_common()
        if count / total[setting] > rate
    )
