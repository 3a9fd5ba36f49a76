"""What every layer takes: scores to judge, how to calibrate them, and the preregistration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.calibration import Calibration, calibrate
from gmb_hf.benchmark.negatives import NegativeScores
from gmb_hf.benchmark.risk_sets import RiskSets
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.windows import Windows, label_windows
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.validation import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Judgement:
    """One score before its judges.

    Attributes:
        evaluation: the held-out runs.
        calibration: the explore runs; None where there are none.
        prereg: everything fixed beforehand.
        thresholds: target -> locked threshold; `calibration` is then not consulted.
        smoothed_thresholds: the same for the trailing mean over that many checkpoints, by length.
        calibration_runs: how many runs with negatives the locked thresholds come from, if known.
        cross_fit: under `v0.4`, judge each run by the threshold of the others where nothing else
            sets it; `strict` always does.
    """

    evaluation: Scores
    calibration: Scores | None
    prereg: Prereg
    thresholds: Mapping[float, float] | None = None
    smoothed_thresholds: Mapping[int, Mapping[float, float]] = dataclasses.field(
        default_factory=dict
    )
    calibration_runs: int | None = None
    cross_fit: bool = False

    @property
    def strict(self) -> bool:
        """Whether the `strict` protocol is in force."""
        return self.prereg.protocol == "strict"

    @property
    def n_events(self) -> int:
        """How many held-out runs have an event."""
        return int(self.evaluation.has_event.sum())

    @cached_property
    def windows(self) -> Windows:
        """The labels of the held-out windows."""
        return label_windows(self.evaluation, self.prereg)

    @cached_property
    def negatives(self) -> NegativeScores:
        """The scores of the held-out negative windows, sorted."""
        return NegativeScores.of(self.evaluation, self.windows)

    @cached_property
    def risk_sets(self) -> RiskSets:
        """For each event, the held-out runs that were still at risk."""
        return RiskSets.of(self.evaluation, self.prereg)

    @cached_property
    def calibrated(self) -> Calibration:
        """The thresholds by which the held-out runs are judged."""
        explore = None
        if self.calibration is not None and self.thresholds is None:
            labels = label_windows(self.calibration, self.prereg)
            explore = NegativeScores.of(self.calibration, labels)
        return calibrate(
            self.prereg.protocol,
            self.prereg.fpr_targets,
            self.negatives,
            calibration=explore,
            locked=self.thresholds,
            locked_runs=self.calibration_runs,
            cross_fit=self.cross_fit,
        )

    @cached_property
    def _alarms(self) -> dict[float, NDArray[np.bool_]]:
        return {}

    def alarms(self, target: float) -> NDArray[np.bool_]:
        """Whether each checkpoint alarms (s >= tau) at this target's thresholds, bool [R, T].

        A score that is NaN or infinite raises no alarm: there is nothing to compare.
        """
        if target not in self._alarms:
            values = self.evaluation.values
            thresholds = self.calibrated.thresholds[target][:, None]
            self._alarms[target] = (values >= thresholds) & np.isfinite(values)
        return self._alarms[target]

    def smoothed(self, checkpoints: int) -> Judgement:
        """The same judgement of the trailing mean over `checkpoints` checkpoints.

        Raises:
            InputError: thresholds are locked, but none for this length.
        """
        if checkpoints == 1:
            return self
        locked = self.thresholds
        if locked is not None:
            if checkpoints not in self.smoothed_thresholds:
                raise InputError(
                    f"score {self.evaluation.name!r}: no locked thresholds for smoothing over "
                    f"{checkpoints} checkpoints, which x_smoothing_sweep asks for; lock again"
                )
            locked = self.smoothed_thresholds[checkpoints]
        explore = self.calibration
        return dataclasses.replace(
            self,
            evaluation=self.evaluation.smooth(checkpoints),
            calibration=None if explore is None else explore.smooth(checkpoints),
            thresholds=locked,
        )

    def with_horizon(self, prereg: Prereg) -> Judgement:
        """The same judgement by a preregistration that differs in what is positive, and only there.

        Negative windows end at the safe gap, so that they, the thresholds found on them and the
        alarms that these raise stay what they are.
        """
        changed = dataclasses.replace(self, prereg=prereg)
        changed.__dict__.update(
            negatives=self.negatives, calibrated=self.calibrated, _alarms=self._alarms
        )
        return changed

    def select(self, rows: NDArray[Any]) -> Judgement:
        """The same judgement of some of the held-out runs.

        Each keeps its threshold, under `cross_run` that of its fold: fewer runs to calibrate on
        could starve a target, which would say nothing of the score. `in_sample` calibrates on what
        it measures, here the chosen runs.
        """
        chosen = dataclasses.replace(self, evaluation=self.evaluation.select(rows))
        # A run's labels do not depend on its company: carry them over, since layer D selects often.
        known: dict[str, Any] = {
            "windows": self.windows.select(rows),
            "negatives": self.negatives.select(rows),
            "risk_sets": self.risk_sets.select(rows),
        }
        if self.calibrated.method != "in_sample":
            thresholds = {f: tau[rows] for f, tau in self.calibrated.thresholds.items()}
            carried = dataclasses.replace(self.calibrated, thresholds=thresholds)
            known["calibrated"] = carried
        chosen.__dict__.update(known)
        return chosen
