"""The alarm of a live run: one checkpoint at a time, by a lock and the verdicts that it earned.

    monitor = AlarmMonitor("lock.yaml", "results.yaml")
    reading = monitor.update(step=500, unembedding_gini=0.31, prediction_change=0.02)
    reading.state, reading.reason

Spec: GMB v0.4, section 9: only an indicator that is SUPPORTED_FOR_ALARM may act, and a ruler that
is broken abstains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from gmb_hf.benchmark.results import Results
from gmb_hf.monitor.boundary import LockedBoundary
from gmb_hf.monitor.bounds import LockedBounds
from gmb_hf.monitor.eligible import acting_of, results_of, target_of
from gmb_hf.monitor.reading import Reading, State, decide
from gmb_hf.monitor.ruler import Ruler, Terms
from gmb_hf.monitor.state import MonitorState, RulerState, RunState, read_state
from gmb_hf.monitor.state_file import StateFile
from gmb_hf.monitor.streaming import (
    IndicatorStream,
    locked_indicator,
    refuse_unstreamed_candidate,
)
from gmb_hf.preregistration.lock import Lock
from gmb_hf.validation import InputError, nearest


class AlarmMonitor:
    """Watches one run.

    Several indicators that act are an alarm as soon as one of them is over, so that their budgets
    add up; name one to keep to its budget.

    Args:
        lock: the lock, or its file.
        results: the held-out verdicts by this lock, or their file.
        act: the indicators that may raise the alarm; by default all that are alarm eligible.
        show: which others to read along; by default all of the lock.
        target: the false positive rate whose locked thresholds count; by default the primary one,
            which the verdicts, and so what may act, are about.
        system: what the run says of itself, by field of the lock's boundary (task, model,
            optimizer, schedule); where it differs, the monitor abstains.

    Attributes:
        target: as above.
        notes: what is not promised, or not compared, a sentence each.

    Raises:
        InputError: there are no results, they are of another lock, an indicator that is not
            alarm eligible is to act, or the lock has no threshold for the target.
    """

    def __init__(
        self,
        lock: Lock | str | Path,
        results: Results | str | Path | None,
        *,
        act: Sequence[str] | None = None,
        show: Sequence[str] | None = None,
        target: float | None = None,
        system: Mapping[str, Any] | None = None,
    ) -> None:
        self.lock = lock if isinstance(lock, Lock) else Lock.read(lock)
        self.results = results_of(self.lock, results)
        self._boundary = LockedBoundary(self.lock, system)
        acting = acting_of(self.results, act)
        self.target = target_of(self.lock, acting, target)
        wanted = self.lock.x_lock.candidates if show is None else show
        shown = [name for name in dict.fromkeys(wanted) if name not in acting]
        bounds = LockedBounds(self.lock.x_lock.x_health, acting)
        self._rulers = [
            self._ruler(name, bounds, acts=name in acting) for name in (*acting, *shown)
        ]
        self._health = bounds.sentence
        self._state: State | None = None
        self._since = 0
        self._file: StateFile | None = None
        unstated = ", ".join(self._boundary.unstated)
        self.notes = (
            *([] if bounds.promised else [bounds.sentence]),
            *([f"The run does not say its {unstated}: not compared."] if unstated else []),
        )

    @property
    def acting(self) -> tuple[str, ...]:
        """The indicators that may raise the alarm."""
        return tuple(ruler.name for ruler in self._rulers if ruler.terms.acts)

    @property
    def cadence(self) -> int:
        """Steps between the checkpoints that it must be given."""
        return self._boundary.cadence

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that every update must bring, or the monitor abstains."""
        return self._needs(acts=True)

    @property
    def shown_needs(self) -> tuple[str, ...]:
        """Further columns, without which a diagnostic is not shown."""
        return tuple(name for name in self._needs(acts=False) if name not in self.needs)

    def _needs(self, *, acts: bool) -> tuple[str, ...]:
        needs = [need for ruler in self._rulers if ruler.terms.acts == acts for need in ruler.needs]
        return tuple(need for need in dict.fromkeys(needs) if need != "step")

    def update(self, *, step: int, **observables: Any) -> Reading:
        """The answer at the next checkpoint.

        Args:
            step: of the checkpoint, a whole number that grows.
            **observables: a number for each column in `needs`; others are passed over. One that is
                missing or not finite breaks the rulers that need it.

        Raises:
            InputError: the step is no whole number, or does not come after the one before.
        """
        if isinstance(step, bool) or not isinstance(step, Integral) or step < 0:
            raise InputError(f"step must be a whole number from 0 on, got {step!r}")
        now = int(step)
        fault = self._boundary.fault(now)
        columns, faults = self._usable({**observables, "step": now})
        rulers = tuple(ruler.update(now, columns, faults, fault) for ruler in self._rulers)
        state, reason, since = decide(rulers, step=now, burn_in=self.lock.prereg.burn_in)
        if state != self._state:
            self._state, self._since = state, now
        since = self._since if since is None else since
        return Reading(state, now, reason, since, self._health, rulers)

    def _usable(self, given: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        """The columns that are finite numbers, and why the others of those needed are not."""
        columns, faults = {}, {}
        for name in ("step", *self.needs, *self.shown_needs):
            if name not in given:
                guess = nearest(name, given)
                hint = f" (did you mean {guess!r}?)" if guess else ""
                faults[name] = f"column {name!r} is missing{hint}"
                continue
            try:
                columns[name] = float(given[name])
            except (TypeError, ValueError):
                faults[name] = f"column {name!r} is {given[name]!r}, no number"
                continue
            if not math.isfinite(columns[name]):
                faults[name] = f"column {name!r} is {columns[name]}"
        return columns, faults

    def state_dict(self) -> dict[str, Any]:
        """All that the monitor remembers of the run, as plain data that JSON can hold."""
        return MonitorState(
            lock_hash=self.lock.hash,
            target=self.target,
            acting=self.acting,
            state=self._state,
            since=self._since,
            run=RunState.of(self._boundary),
            rulers={ruler.name: RulerState.of(ruler) for ruler in self._rulers},
        ).plain()

    def load_state_dict(self, state: Mapping[str, Any], *, where: str = "state") -> None:
        """Go on from a state that a monitor with the same lock, target and indicators was in.

        Raises:
            InputError: it is of another lock or target, or of other indicators, or no state.
        """
        held = MonitorState.parse(state, where=where)
        held.check(self.lock.hash, self.acting, {ruler.name for ruler in self._rulers}, where)
        held.check_target(self.target, self.lock.prereg.primary_fpr, where)
        held.run.restore(self._boundary)
        for ruler in self._rulers:
            held.rulers[ruler.name].restore(ruler)
        self._state, self._since = held.state, held.since

    def save(self, path: str | Path) -> Path:
        """Write the state to a file, which is this monitor's until it is closed.

        Raises:
            InputError: another monitor saves there, or the place cannot be written to.
        """
        if self._file is None or self._file.path != Path(path):
            claimed = StateFile(path)
            self.close()
            self._file = claimed
        return self._file.write(self.state_dict())

    def load(self, path: str | Path) -> None:
        """Go on from a saved state; `InputError` as `load_state_dict`, or if there is none."""
        self.load_state_dict(read_state(path), where=str(path))

    def close(self) -> None:
        """Leave the state file to others; `contextlib.closing` does so at the end of a block."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _ruler(self, name: str, bounds: LockedBounds, *, acts: bool) -> Ruler:
        prereg, frozen = self.lock.prereg, self.lock.candidate(name)
        indicator, cadence = locked_indicator(name, frozen), self._boundary.cadence
        refuse_unstreamed_candidate(name, frozen, cadence=cadence)
        stream = IndicatorStream(
            indicator, cadence=cadence, parameters=frozen.params, sign=frozen.sign
        )
        terms = Terms(
            label=self.results.indicator(name).label,
            acts=acts,
            threshold=self.lock.thresholds(name)[self.target],
            target=self.target,
            burn_in=prereg.burn_in,
            drift_bound=bounds.of(name),
        )
        return Ruler(stream, terms, bounds.drift(name))
