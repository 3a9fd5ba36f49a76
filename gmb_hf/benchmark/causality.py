"""Whether scores of other packages are causal, tried where they are judged (DECISIONS 16).

A score that looks ahead passes any test that it can recognise: one on few runs, on whole runs, or
on runs that it has seen before. So a fresh process computes it anew, one run at a time and in
random order, first on beginnings of random length, the shorter before the longer, and then on the
whole run. It is handed only the columns that the indicator says it needs, and no row of a run
before it has answered for all shorter beginnings: the rest is not in its memory. It does so before
the scores are computed that are judged, and these must be the same numbers.

Rounding makes that "almost the same", and what is almost the same could still rank the runs. So
values closer together than many times the tolerance are judged as equal ones.

What gmb-hf computes itself is trusted: its tests hold it. What reads the run logs from disk, or
changes gmb-hf while it runs, is not found (docs/trust.md).
"""

from __future__ import annotations

import math
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from gmb_hf.base.errors import InputError
from gmb_hf.base.escape import one_line
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import Indicator, Observables, score_key, scored
from gmb_hf.runs.panel import Panel
from gmb_hf.runs.runlog import RunLog

_BEGINNINGS, _TRIES = 3, 1024  # of each run at least, and of all runs
_ROUNDING = 1e-11  # of a value, or of the usual one: what the order of additions may change
_EQUAL = 100 * _ROUNDING  # values this close are judged as one


@dataclass(frozen=True)
class Tried:
    """One score to be tried.

    Attributes:
        indicator: of another package.
        parameters, sign: as it is judged.
    """

    indicator: Indicator
    parameters: Mapping[str, Any]
    sign: int

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal of trials that give the same numbers."""
        return score_key(self.indicator, self.parameters, self.sign)


Floats = NDArray[np.float64]
Series = list[list[Floats]]
"""Of each run its scores: on each beginning, then on the whole run."""


def alone(trials: Sequence[Tried], log: RunLog) -> dict[tuple[Any, ...], Series]:
    """The scores of each run by itself, from a fresh process, by the keys of the trials.

    Raises:
        InputError: an indicator cannot be computed there, or fails; it is named.
    """
    if not trials:
        return {}
    grid = log.panel("step")
    rounds = _rounds(grid.lengths)
    found = {}
    with _FreshProcess() as process:
        for one in trials:
            values = [log.panel(name).values for name in one.indicator.needs]
            process.tell(_Told.of(one, grid.cadence()))
            series: Series = [[] for _ in grid.runs]
            for lengths in rounds:
                rows = [[column[run, :n] for column in values] for run, n in enumerate(lengths)]
                for own, answer in zip(series, process.ask(rows), strict=True):
                    own.append(answer)
            found[one.key] = series
    return found


def _rounds(lengths: NDArray[np.int64]) -> list[list[int]]:
    """How many rows of each run are shown, round by round: more each time, in the end all."""
    # A seed that everybody knows could be planned for; the answer of a causal score needs none.
    rng = np.random.default_rng()
    count = min(max(_BEGINNINGS, math.ceil(_TRIES / len(lengths))), int(lengths.max()))
    # Spread evenly, each anywhere in its part of the run: whoever looks further than one part
    # ahead is found anywhere.
    parts = np.arange(count) + rng.random((len(lengths), count))
    shown = 1 + (parts / count * lengths[:, None]).astype(np.int64)
    rounds = np.minimum(shown, lengths[:, None]).T
    return [*rounds.tolist(), lengths.tolist()]


def refuse_peeking(trial: Tried, judged: Panel, found: Series, *, salt: str = "") -> Panel:
    """The scores as they are judged, if they are those of each run by itself.

    Args:
        trial: the score.
        judged: its values among all runs.
        found: by itself; see `alone`.
        salt: known to nobody who wrote the score: where values begin to be different ones.

    Raises:
        InputError: one differs; indicator, run and step are named.
    """
    finite = judged.values[judged.present & np.isfinite(judged.values)]
    sizes = np.abs(finite[finite != 0])
    usual = float(np.median(sizes)) if len(sizes) else 1.0  # the largest may be anything
    for run, (name, versions) in enumerate(zip(judged.runs, found, strict=True)):
        for values in versions:
            theirs = judged.values[run, : len(values)]
            ours, own = np.arcsinh(values / usual), np.arcsinh(theirs / usual)
            same = np.isclose(ours, own, rtol=0, atol=_ROUNDING, equal_nan=True)
            if same.all():
                continue
            at = int(np.argmin(same))
            step = int(judged.steps[run, at])
            whole = len(values) == judged.lengths[run]
            given = "the whole run by itself" if whole else f"its first {len(values)} rows"
            digits = 6 if abs(ours[at] - own[at]) > 1e-5 else 15
            hint = "" if digits == 6 else "; if that is rounding, compute in float64, run by run"
            raise InputError(
                f"indicator {trial.indicator.name!r} is not causal: run {name!r}, step {step}: "
                f"{theirs[at]:.{digits}g} among all runs, {values[at]:.{digits}g} from {given} in "
                "a fresh process; a score may depend on the rows of its own run up to that step "
                f"alone{hint}",
                code="not_causal",
                run=name,
                step=step,
            )
    return judged.with_values(_as_judged(judged.values, usual, salt))


def _as_judged(values: Floats, usual: float, salt: str) -> Floats:
    """Values that are closer than `_EQUAL` become the least of them, so that ties are exact."""
    begin = random.Random(salt).random()
    cells = np.floor(np.arcsinh(values / usual) / _EQUAL + begin)
    order = np.argsort(values, axis=None, kind="stable")
    ordered = values.ravel()[order]
    begins = np.diff(cells.ravel()[order], prepend=np.nan) != 0  # NaN and infinity stay alone
    found = np.empty(values.size)
    found[order] = ordered[np.maximum.accumulate(np.where(begins, np.arange(values.size), 0))]
    return found.reshape(values.shape)


@dataclass(frozen=True)
class _Told:
    """What the fresh process is told of one score."""

    name: str
    needs: tuple[str, ...]
    parameters: dict[str, Any]
    sign: int
    cadence: int
    pickled: bytes | str  # the indicator, should no package register it there; or why not

    @classmethod
    def of(cls, trial: Tried, cadence: int) -> Self:
        indicator, settings = trial.indicator, dict(trial.parameters)
        sent = _by_value(indicator)
        return cls(indicator.name, indicator.needs, settings, trial.sign, cadence, sent)


def _by_value(indicator: Indicator) -> bytes | str:
    """An indicator as bytes, for one that a notebook or a script has registered; or why not."""
    import cloudpickle

    plain = replace(indicator, parameters=dict(indicator.parameters))
    plain = replace(plain, minimum_checkpoints=dict(indicator.minimum_checkpoints))
    try:
        content: bytes = cloudpickle.dumps(plain)
    except Exception as error:  # of any object: any kind
        return one_line(f"{type(error).__name__}: {error}")
    return content


class _FreshProcess:
    """The other process: it is told of a score, and then asked for it, round by round."""

    def __enter__(self) -> Self:
        self._said = tempfile.TemporaryFile("w+", errors="replace")
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        self._name = ""
        return self

    def __exit__(self, *_: object) -> None:
        with self._said, self._process:
            self._process.kill()

    def tell(self, told: _Told) -> None:
        """Which score it is asked for from now on."""
        self._name = told.name
        self._exchange(told)

    def ask(self, rows: list[list[Floats]]) -> list[Floats]:
        """The scores of some runs, whose columns are in the order of the indicator's needs.

        Raises:
            InputError: it fails there.
        """
        return list(self._exchange(rows))

    def _exchange(self, what: object) -> Any:
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        try:
            pickle.dump(what, asked, pickle.HIGHEST_PROTOCOL)
            asked.flush()
            answer = pickle.load(answers)  # of our own process
        except Exception as error:  # of what was unpickled: any kind
            if not isinstance(error, OSError | EOFError):
                self._process.kill()  # it may live, and never end by itself
                what = "wrote into the answers of the process in which its causality is tried"
                raise InputError(f"indicator {self._name!r}: {what}") from None
            code = self._process.wait()
            self._said.seek(0)
            said = one_line(self._said.read().strip().rpartition("\n")[2])
            raise InputError(
                f"indicator {self._name!r}: ended the process in which its causality is tried "
                f"(exit code {code}){': ' + said if said else ''}"
            ) from None
        if isinstance(answer, str):
            raise InputError(answer)
        return answer


def main() -> None:
    """The fresh process: answer until nothing more is asked."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an indicator prints is no answer
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    indicator: Indicator | None = None
    while True:
        try:
            what = pickle.load(asked)
        except EOFError:
            return
        answer: Any = None
        try:
            if isinstance(what, _Told):
                told, indicator = what, _found(what)
            else:
                assert indicator is not None
                with catalogue.standing_in([indicator], own=False):
                    answer = _scores(indicator, told, what)
        except InputError as error:
            answer = str(error)
        pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _scores(indicator: Indicator, told: _Told, rows: list[list[Floats]]) -> list[Floats]:
    """The scores of each run by itself, in random order."""
    found: list[Floats] = [np.empty(0)] * len(rows)
    for run in np.random.default_rng().permutation(len(rows)).tolist():
        columns = {name: own[None] for name, own in zip(told.needs, rows[run], strict=True)}
        seen = Observables(columns.__getitem__, told.cadence)
        found[run] = scored(indicator, seen, told.parameters, sign=told.sign)[0]
    return found


def _found(told: _Told) -> Indicator:
    """The indicator as this process knows it, else as it was sent."""
    if told.name in catalogue.names():
        return catalogue.get(told.name)
    hint = "register it in a module that can be imported"
    if isinstance(told.pickled, str):
        what = f"cannot be tried in a fresh process ({told.pickled})"
        raise InputError(f"indicator {told.name!r}: {what}; {hint}")
    try:
        indicator: Indicator = pickle.loads(told.pickled)
    except Exception as error:  # of whatever its module does: any kind
        reason = one_line(f"{type(error).__name__}: {error}")
        what = f"cannot be found in a fresh process ({reason})"
        raise InputError(f"indicator {told.name!r}: {what}; {hint}") from error
    return indicator
