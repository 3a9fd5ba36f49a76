"""Layer D: whether the answer survives small admissible changes (spec 4.4).

The family is (the candidate's own window) x (smoothing) x (one group of runs left out). A score
without a window of its own is judged, by windows, at .8, 1 and 1.25 times the horizon instead;
since no lead time exceeds the horizon, a shorter one asks for a proportionally shorter median lead
time. By runs the horizon is no setting: it decides what is timely, and no label. Members are judged
by their points: leaving runs out must not count as a flip for want of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.benchmark.baselines import p_values
from gmb_hf.benchmark.gates import SLACK
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import passes
from gmb_hf.benchmark.scores import score_windows

_HORIZON_FACTORS = (0.8, 1.0, 1.25)


class MemberRecord(OpenSection):
    """One member of the robustness family: whether it passes gates B and C by its points."""

    name: str
    passes: bool
    layer_b_pass: bool | None = None


class LayerDRecord(OpenSection):
    """Robustness over the preregistered family."""

    family_size: Count | None
    pass_rate: Number  # share of members that pass layer B
    label_flip_rate: Number  # share that pass where all runs do not, or the other way round
    sensitivity_notes: str = ""  # where the flips come from
    x_central_passes: bool | None = None  # all runs, by their points
    x_members: Many[MemberRecord] = ()

    @classmethod
    def of(cls, central: MemberRecord, members: Sequence[MemberRecord]) -> LayerDRecord:
        """Count the members, of which there may be none, whose result is not the central one."""
        flipped = [member for member in members if member.passes != central.passes]
        passed = sum(bool(member.layer_b_pass) for member in members)
        return cls(
            family_size=len(members),
            pass_rate=passed / len(members) if members else None,
            label_flip_rate=len(flipped) / len(members) if members else None,
            sensitivity_notes=flip_notes(members, flipped) if members else "",
            x_central_passes=central.passes,
            x_members=tuple(members),
        )


def layer_d(judgement: Judgement, variants: Mapping[str, Judgement] | None = None) -> LayerDRecord:
    """Judge every member of the admissible family, by windows.

    `variants` are the same score with other values of its own window, by name such as "window=150";
    none for a score that has no window.
    """
    central = member("central", judgement)
    members = [member(name, one) for name, one in family(judgement, variants or {})]
    return LayerDRecord.of(central, members)


def member(name: str, judgement: Judgement) -> MemberRecord:
    """Whether layers B and C pass by windows."""
    design, n_events = judgement.design, judgement.n_events
    operable, useful = passes(judgement), False
    alarms = judgement.alarms(design.primary_fpr)
    if operable and n_events and alarms.n_detected:
        lead = median(alarms.lead[alarms.detected].tolist())
        covered = alarms.n_detected / n_events
        useful = covered >= design.coverage_min - SLACK and lead >= design.lead_least
        # The baselines are drawn only where nothing else stands against it.
        if useful and judgement.strict:
            useful = all(p <= design.alpha_per_look for p in p_values(judgement, alarms))
    return MemberRecord(name=name, passes=useful, layer_b_pass=operable)


def family(
    judgement: Judgement, variants: Mapping[str, Judgement]
) -> Iterator[tuple[str, Judgement]]:
    """Every member with its name, e.g. "window=150,smooth=3,without=2"."""
    for setting, one in _with_all_runs(judgement, variants):
        for name, kept in leave_groups_out(setting, judgement.n_runs, judgement.design.run_groups):
            yield name, one if kept is None else one.select(kept)


def leave_groups_out(
    setting: str, n_runs: int, n_groups: int
) -> Iterator[tuple[str, NDArray[np.int64] | None]]:
    """A setting with each group of runs left out; None: all runs, where a group is all of them."""
    groups = run_groups(n_runs, n_groups)
    for left_out in range(int(groups.max(initial=-1)) + 1):
        kept = np.flatnonzero(groups != left_out)
        yield (f"{setting},without={left_out}", kept) if len(kept) else (setting, None)


def _with_all_runs(
    judgement: Judgement, variants: Mapping[str, Judgement]
) -> Iterator[tuple[str, Judgement]]:
    """Each window, or else each horizon, with each smoothing, on all runs."""
    design = judgement.design
    for setting, variant in variants.items():
        for smooth in design.smoothing_sweep:
            yield f"{setting},smooth={smooth}", variant.smoothed(smooth)
    if variants:
        return
    for horizon in sorted(
        {min(round(design.horizon * x), design.safe_gap - 1) for x in _HORIZON_FACTORS}
    ):
        lead = design.lead_least * min(horizon / design.horizon, 1)
        # Admissible where the design is: the horizon stays below the gap.
        changed = design.model_copy(update={"horizon": horizon, "lead_time_median_min": lead})
        windows = score_windows(judgement.evaluation, changed)
        for smooth in design.smoothing_sweep:
            one = judgement.smoothed(smooth).with_horizon(changed, windows)
            yield f"horizon={horizon},smooth={smooth}", one


def run_groups(n_runs: int, n_groups: int) -> NDArray[np.int64]:
    """The group of each run, int64 [R], dealt out in turn."""
    return np.arange(n_runs) % n_groups


def flip_notes(members: Sequence[MemberRecord], flipped: Sequence[MemberRecord]) -> str:
    """For each setting in which more members flip than elsewhere, how many do."""
    total = Counter(setting for member in members for setting in member.name.split(","))
    flips = Counter(setting for member in flipped for setting in member.name.split(","))
    rate = len(flipped) / len(members)
    return " ".join(
        f"{count} of {total[setting]} members with {setting} get another result"
        for setting, count in flips.most_common()
        if count / total[setting] > rate
    )
