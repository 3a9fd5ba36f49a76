"""The alarm of a live run: one checkpoint at a time, by a lock and the verdicts that it earned.

    monitor = AlarmMonitor("lock.yaml", "results.yaml")
    reading = monitor.update(step=500, unembedding_gini=0.31, prediction_change=0.02)
    reading.state, reading.reason

Spec: GMB v0.4, section 9: only an indicator that is SUPPORTED_FOR_ALARM may act, and a ruler that
is broken abstains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gmb_hf.benchmark.results import Results
from gmb_hf.monitor.reading import Reading, State, decide
from gmb_hf.monitor.ruler import Ruler, Terms
from gmb_hf.monitor.streaming import IndicatorStream, locked_indicator
from gmb_hf.preregistration.lock import Lock
from gmb_hf.validation import InputError, unknown


class AlarmMonitor:
    """Watches one run.

    Args:
        lock: the lock, or its file.
        results: the held-out verdicts by this lock, or their file.
        act: the indicators that may raise the alarm; by default all that are alarm eligible.
        show: which others to read along; by default all of the lock.
        system: what the run says of itself, by field of the lock's boundary (task, model,
            optimizer, schedule); where it differs, the monitor abstains.

    Raises:
        InputError: there are no results, they are of another lock, or an indicator that is not
            alarm eligible is to act.
    """

    def __init__(
        self,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        act: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        system: Mapping[str, Any] | None = None,
    ) -> None:
        self.lock = lock if isinstance(lock, Lock) else Lock.read(lock)
        self.results = _results_of(self.lock, results)
        acting = _acting(self.results, act)
        others = [name for name in show or () if name not in acting]
        if show is None:
            others = [name for name in self.lock.x_lock.candidates if name not in acting]
        self._rulers = [self._ruler(name, acts=name in acting) for name in (*acting, *others)]
        self._state: State | None = None
        self._since = 0

    @property
    def acting(self) -> tuple[str, ...]:
        """The indicators that may raise the alarm."""
        return tuple(ruler.name for ruler in self._rulers if ruler.terms.acts)

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that every update must bring, or the monitor abstains."""
        acting = [ruler for ruler in self._rulers if ruler.terms.acts]
        return tuple(dict.fromkeys(need for ruler in acting for need in ruler.needs))

    def update(self, *, step: int, **observables: float) -> Reading:
        """The answer at the next checkpoint."""
        columns = {**observables, "step": float(step)}
        rulers = tuple(ruler.update(step, columns, None) for ruler in self._rulers)
        state, reason = decide(rulers, step=step, burn_in=self.lock.prereg.burn_in)
        if state != self._state:
            self._state, self._since = state, step
        return Reading(state, step, reason, self._since, "", rulers)

    def _ruler(self, name: str, *, acts: bool) -> Ruler:
        prereg, frozen = self.lock.prereg, self.lock.candidate(name)
        stream = IndicatorStream(
            locked_indicator(name, frozen),
            cadence=prereg.boundary.checkpoint_every_steps or 1,
            parameters=frozen.params,
            sign=frozen.sign,
        )
        threshold = self.lock.thresholds(name)[prereg.primary_fpr]
        label = self.results.indicator(name).label
        return Ruler(stream, Terms(label, acts, threshold, prereg.primary_fpr, prereg.burn_in))


def _results_of(lock: Lock, results: Results | str | Path | None) -> Results:
    if results is None:
        raise InputError(
            "a lock without results: it says where the thresholds lie, not what may act on them; "
            "judge held-out runs by it (gmb evaluate --lock) and give the results.yaml"
        )
    found = results if isinstance(results, Results) else Results.read(results)
    where = "results" if isinstance(results, Results) else str(results)
    source = found.x_provenance
    if source is None or source.lock_hash != lock.hash:
        other = source.lock_hash[:16] if source and source.lock_hash else "no lock"
        raise InputError(
            f"{where}: these results are of another lock ({other}, not {lock.hash[:16]}); give "
            "those that gmb evaluate --lock wrote with this lock"
        )
    return found


def _acting(results: Results, act: Sequence[str] | None) -> tuple[str, ...]:
    eligible = [item.name for item in results.indicators if item.x_alarm_eligible]
    if act is None:
        return tuple(eligible)
    for name in act:
        if name not in eligible:
            known = [item.name for item in results.indicators]
            if name not in known:
                raise unknown("indicator", name, known, where="results")
            label = results.indicator(name).label
            raise InputError(
                f"indicator {name!r} is {label}, not SUPPORTED_FOR_ALARM: it may be shown, but "
                f"never act; those that may: {', '.join(eligible) or 'none'}"
            )
    return tuple(dict.fromkeys(act))
