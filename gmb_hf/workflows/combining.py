"""Ensembles: which explore runs they are fitted on, the fit, and the others that calibrate."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmb_hf.benchmark.events import Events
from gmb_hf.benchmark.logistic import LARGEST, Chosen, LabelledRows, choose_penalty
from gmb_hf.benchmark.scores import Scores
from gmb_hf.benchmark.windows import label_windows
from gmb_hf.indicators.ensemble import fitted_ensemble
from gmb_hf.preregistration.candidate import Ensemble
from gmb_hf.preregistration.findings import Finding
from gmb_hf.preregistration.locked_ensemble import LockedEnsemble, LockedMember
from gmb_hf.preregistration.prereg import Prereg
from gmb_hf.runs import RunLog
from gmb_hf.validation import InputError
from gmb_hf.workflows.candidates import Entry
from gmb_hf.workflows.combining_findings import doubts

_CROSS_FIT_FOLDS = 5


def split_runs(runs: Sequence[str], design: Ensemble) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The runs to fit on and the runs to calibrate on, each in the order given.

    It depends on the seed and the runs' names alone. A split that looked at what the runs did, to
    have as many events on both sides, say, would leave the calibrating runs not exchangeable with
    held-out ones.
    """
    dealt = sorted(runs, key=lambda run: _lot(run, design.split_seed))
    fit = set(dealt[: round(design.fit_share * len(dealt))])
    return tuple(run for run in runs if run in fit), tuple(run for run in runs if run not in fit)


def _lot(run: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{run}".encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class MemberScores:
    """The scores of an ensemble's members on the runs that the event decides."""

    entry: Entry
    scores: tuple[Scores, ...]
    prereg: Prereg

    @classmethod
    def of(cls, entry: Entry, log: RunLog, events: Events, prereg: Prereg) -> MemberScores:
        """Compute them."""
        scores = tuple(member.scores(log, events) for member in entry.members)
        return cls(entry, scores, prereg)

    @property
    def runs(self) -> tuple[str, ...]:
        """Names of the runs."""
        return self.scores[0].runs

    def fit(self, runs: Sequence[str]) -> Chosen:
        """The combination that these runs make.

        Raises:
            InputError: fewer of them have windows of both classes than there are folds, or a
                member has no score in a labelled window, or one too large to be fitted.
        """
        design = self.design
        rows = self._rows(runs)
        both = len(rows.runs_of_both_classes)
        if both < design.folds:
            raise InputError(
                f"candidate {self.entry.name!r}: {both} of its {len(runs)} fitting runs have "
                f"positive and negative windows, fewer than its {design.folds} folds; train "
                "more explore runs, take the ensemble out or, to lock it, raise fit_share"
            )
        return choose_penalty(rows, design.penalties, design.folds)

    def locked(self, runs: Sequence[str], calibrate: Sequence[str]) -> LockedEnsemble:
        """What a lock records of the combination that these runs make.

        `n_calibration_runs` counts the runs of `calibrate` with negative windows.
        """
        chosen = self.fit(runs)
        log_odds = chosen.log_odds
        members = [
            LockedMember(
                name=member.name,
                family=member.indicator.family,
                params=dict(member.indicator.with_defaults(member.parameters)),
                sign=1 if member.sign == 1 else -1,
                sees_test_labels=member.indicator.sees_test_labels,
                center=float(center),
                scale=float(scale),
                coefficient=float(coefficient),
            )
            for member, center, scale, coefficient in zip(
                self.entry.members,
                log_odds.center,
                log_odds.scale,
                log_odds.coefficients,
                strict=True,
            )
        ]
        others = self._rows(calibrate)
        return LockedEnsemble(
            members=tuple(members),
            intercept=log_odds.intercept,
            penalty=chosen.penalty,
            log_losses={repr(penalty): loss for penalty, loss in chosen.losses.items()},
            fit_runs=tuple(runs),
            calibrate_runs=tuple(calibrate),
            n_calibration_runs=len(np.unique(others.run[~others.positive])),
        )

    @property
    def design(self) -> Ensemble:
        """How the members are to be combined."""
        assert self.entry.ensemble is not None
        return self.entry.ensemble

    def _rows(self, runs: Sequence[str]) -> LabelledRows:
        """The labelled windows of these runs; of undecided ones there are none."""
        place = {run: row for row, run in enumerate(self.runs)}
        chosen = [place[run] for run in sorted(runs) if run in place]
        parts = [scores.select(chosen) for scores in self.scores]
        windows = [label_windows(part, self.prereg) for part in parts]
        # Where windows without a score are left out, one member that has none is enough.
        positive = np.logical_and.reduce([one.positive for one in windows])
        negative = np.logical_and.reduce([one.negative for one in windows])
        run, column = np.nonzero(positive | negative)
        features = np.stack([part.values[run, column] for part in parts], axis=1)
        for row, member in np.argwhere(np.abs(features) > LARGEST)[:1]:
            scores, cell = parts[member], (run[row], column[row])
            raise InputError(
                f"candidate {self.entry.name!r}: its member {scores.name!r} is "
                f"{features[row, member]:g} in run {scores.runs[run[row]]!r}, step "
                f"{scores.steps[cell]}, too large to be combined; mend the score, or leave it out"
            )
        return LabelledRows(features, positive[run, column], run)


def lock_ensembles(
    entries: Sequence[Entry],
    log: RunLog,
    decided: RunLog,
    events: Events,
    prereg: Prereg,
    with_negatives: int,
) -> tuple[list[Entry], dict[str, LockedEnsemble], list[Finding]]:
    """Fit the ensembles among some entries.

    Args:
        entries: of the design.
        log: explore runs, all of them.
        decided, events: those that the event decides, and their events.
        prereg: the design.
        with_negatives: how many runs with negative windows calibrate the other scores.

    Returns:
        The entries, each ensemble with its formula; the ensembles' records; and warnings.

    Raises:
        InputError: an ensemble cannot be fitted.
    """
    whole: list[Entry] = []
    locked: dict[str, LockedEnsemble] = {}
    found: list[Finding] = []
    for entry in entries:
        if entry.ensemble is not None:
            fit, calibrate = split_runs(log.runs, entry.ensemble)
            record = MemberScores.of(entry, decided, events, prereg).locked(fit, calibrate)
            locked[entry.name] = record
            found += doubts(entry.name, record, prereg, with_negatives)
            entry = with_formula(entry, record)
        whole.append(entry)
    return whole, locked, found


def with_formula(entry: Entry, record: LockedEnsemble) -> Entry:
    """The entry of an ensemble with the score that a lock gives it."""
    return dataclasses.replace(entry, indicator=fitted_ensemble(entry.name, record))


def cross_fitted(entry: Entry, log: RunLog, events: Events, prereg: Prereg) -> Scores:
    """The score of an ensemble in which no run is scored by a formula that it helped to find.

    Runs are dealt into five parts, each scored by what is fitted on the others.
    """
    members = MemberScores.of(entry, log, events, prereg)
    seed = members.design.split_seed
    dealt = sorted(members.runs, key=lambda run: _lot(run, seed))
    parts = [set(dealt[part::_CROSS_FIT_FOLDS]) for part in range(_CROSS_FIT_FOLDS)]
    first = members.scores[0]
    features = np.stack([scores.values for scores in members.scores], axis=-1)
    values = np.full(first.values.shape, np.nan)
    for part in filter(None, parts):
        chosen = members.fit([run for run in members.runs if run not in part])
        rows = [row for row, run in enumerate(members.runs) if run in part]
        values[rows] = entry.sign * chosen.log_odds(features[rows])
    return dataclasses.replace(first, name=entry.name, values=values)
