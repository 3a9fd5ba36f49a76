"""Between explore runs and a lock: thresholds for every member of the robustness family.

What `lock` freezes by `member_thresholds`, `evaluate` takes up again by `locked_judgement`.
"""

from __future__ import annotations

from collections.abc import Mapping

from gmb_hf.benchmark.calibration import RULES
from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.negatives import NegativeScores
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.windows import label_windows
from gmb_hf.preregistration.lint import DesignFacts
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.preregistration.record import CENTRAL, member_key
from gmb_hf.validation import unknown

Thresholds = dict[float, float]


def member_thresholds(
    central: Scores, windows: Mapping[int, Scores], prereg: Prereg
) -> dict[str, Thresholds]:
    """Thresholds from explore runs, by the member's key in a lock.

    Args:
        central: the candidate as declared, on explore runs.
        windows: the same with other values of its own window (steps); empty if it has none.
        prereg: its protocol, targets, labels and smoothing sweep are read.
    """
    members = {CENTRAL: _thresholds(central, prereg)}
    for smooth in _lengths(prereg):
        members[member_key(smooth=smooth)] = _thresholds(central.smooth(smooth), prereg)
        for window, scores in windows.items():
            key = member_key(window=window, smooth=smooth)
            members[key] = _thresholds(scores.smooth(smooth), prereg)
    return members


def locked_judgement(
    evaluation: Scores,
    prereg: Prereg,
    members: Mapping[str, Mapping[float, float]],
    *,
    window: int | None = None,
    calibration_runs: int | None = None,
) -> Judgement:
    """The judgement of held-out scores by locked thresholds.

    Args:
        evaluation: held-out scores of the central candidate, or of a window variant.
        prereg: that of the lock.
        members: member key -> target -> threshold, as `member_thresholds` gave them.
        window: the variant's window; None for the central candidate.
        calibration_runs: explore runs with negative windows, as the lock states.

    Raises:
        InputError: a member of the family has no thresholds.
    """
    keys = {smooth: member_key(window=window, smooth=smooth) for smooth in _lengths(prereg)}
    central = CENTRAL if window is None else keys[1]
    for key in (central, *keys.values()):
        if key not in members:
            raise unknown("member", key, members, where=f"lock: score {evaluation.name!r}")
    return Judgement(
        evaluation,
        None,
        prereg,
        thresholds=members[central],
        smoothed_thresholds={smooth: members[key] for smooth, key in keys.items()},
        calibration_runs=calibration_runs,
    )


def runs_with_negatives(scores: Scores, prereg: Prereg) -> int:
    """How many runs have at least one negative window: the runs that can calibrate."""
    return int(label_windows(scores, prereg).negative.any(axis=1).sum())


def design_facts(
    events: Events,
    explore: Scores,
    prereg: Prereg,
    *,
    cadence: int | None = None,
    n_eval: int | None = None,
    duplicates_dropped: Mapping[str, int] | None = None,
    non_causal: tuple[str, ...] = (),
    windowed: tuple[str, ...] | None = None,
) -> DesignFacts:
    """What explore runs say about a design, for the linter.

    Args:
        events: of the explore runs.
        explore: any one score of them, e.g. a constant; only its windows are counted.
        prereg: the design.
        cadence, n_eval, duplicates_dropped, non_causal, windowed: see `DesignFacts`.
    """
    return DesignFacts(
        cadence=cadence,
        n_explore=explore.n_runs,
        n_explore_with_negatives=runs_with_negatives(explore, prereg),
        n_eval=n_eval,
        event_steps=tuple(float(step) for step in events.step),
        first_steps=tuple(int(step) for step in events.first_step),
        duplicates_dropped=dict(duplicates_dropped or {}),
        dip_recoveries=events.n_dip_recoveries,
        non_causal=non_causal,
        windowed=windowed,
    )


def _lengths(prereg: Prereg) -> tuple[int, ...]:
    # Unsmoothed thresholds are needed even where the sweep leaves them out.
    return tuple(sorted({1, *prereg.x_smoothing_sweep}))


def _thresholds(explore: Scores, prereg: Prereg) -> Thresholds:
    negatives = NegativeScores.of(explore, label_windows(explore, prereg))
    rule = RULES[prereg.protocol]
    return {target: rule(negatives, target) for target in prereg.fpr_targets}
