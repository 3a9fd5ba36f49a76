"""Layer D: whether the answer survives small admissible changes (spec 4.4).

The family is (the candidate's own window) x (smoothing) x (one group of runs left out). A score
without a window of its own is judged at .8, 1 and 1.25 times the horizon instead; since no lead
exceeds the horizon, a shorter one asks for a proportionally shorter median lead. Members are
labelled by their point verdict: leaving runs out must not count as a flip for want of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.documents import Count, Many, Number, OpenSection
from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.nulls import p_values
from gmb_hf.benchmark.operationality import passes
from gmb_hf.benchmark.records import RANK_ONLY, SUPPORTED, Label
from gmb_hf.benchmark.scores import label_windows
from gmb_hf.benchmark.utility import shortfalls, warnings_at

_HORIZON_FACTORS = (0.8, 1.0, 1.25)


class MemberRecord(OpenSection):
    """One member of the robustness family and the label that it gets."""

    name: str
    label: Label
    layer_b_pass: bool | None = None


class LayerDRecord(OpenSection):
    """Robustness over the preregistered family."""

    family_size: Count | None
    pass_rate: Number  # share of members that pass layer B
    label_flip_rate: Number  # share whose label differs from the point verdict on all runs
    sensitivity_notes: str = ""  # where the flips come from
    x_central_label: Label | None = None  # that point verdict
    x_members: Many[MemberRecord] = ()

    @classmethod
    def of(cls, central: MemberRecord, members: Sequence[MemberRecord]) -> LayerDRecord:
        """Count the members, of which there may be none, whose label is not the central one."""
        flipped = [member for member in members if member.label != central.label]
        passed = sum(bool(member.layer_b_pass) for member in members)
        return cls(
            family_size=len(members),
            pass_rate=passed / len(members) if members else None,
            label_flip_rate=len(flipped) / len(members) if members else None,
            sensitivity_notes=flip_notes(members, flipped) if members else "",
            x_central_label=central.label,
            x_members=tuple(members),
        )


def layer_d(judgement: Judgement, variants: Mapping[str, Judgement] | None = None) -> LayerDRecord:
    """Judge every member of the admissible family.

    `variants` are the same score with other values of its own window, by name such as "window=150";
    none for a score that has no window.
    """
    central = point_verdict("central", judgement)
    members = [point_verdict(name, one) for name, one in family(judgement, variants or {})]
    return LayerDRecord.of(central, members)


def point_verdict(name: str, judgement: Judgement) -> MemberRecord:
    """The label that the point estimates alone give: supported if B and C pass, else not."""
    primary, n_events = judgement.design.primary_fpr, judgement.n_events
    operable, useful = passes(judgement), False
    warned = warnings_at(judgement, primary) if operable and n_events else None
    if warned is not None and warned.covered.any():
        n_covered = int(warned.covered.sum())
        lead = median(warned.lead[warned.covered].tolist())
        # The nulls are drawn only where nothing else stands against it.
        useful = not shortfalls(judgement, n_covered / n_events, lead, 0.0)
        if useful and judgement.strict:
            alpha = judgement.design.alpha_per_look
            useful = all(p <= alpha for p in p_values(judgement, primary, n_covered))
    label = SUPPORTED if useful else RANK_ONLY
    return MemberRecord(name=name, label=label, layer_b_pass=operable)


def family(
    judgement: Judgement, variants: Mapping[str, Judgement]
) -> Iterator[tuple[str, Judgement]]:
    """Every member with its name, e.g. "window=150,smooth=3,without=2"."""
    groups = run_groups(judgement.evaluation.n_runs, judgement.design.run_groups)
    for setting, one in _with_all_runs(judgement, variants):
        for left_out in range(int(groups.max()) + 1):
            kept = np.flatnonzero(groups != left_out)
            if len(kept):
                yield f"{setting},without={left_out}", one.select(kept)
            else:
                yield setting, one


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
        windows = label_windows(judgement.evaluation, changed)
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
        f"{count} of {total[setting]} members with {setting} get another label"
        for setting, count in flips.most_common()
        if count / total[setting] > rate
    )
