"""Scores that look ahead, or claim less than they read, by whatever their authors thought of.

Each was written by somebody who had read the checks. `python -m benchmarks attacks` tries all of
them, and so do the tests.
"""

from __future__ import annotations

import functools
import gc
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gmb_hf.base.errors import InputError
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.design.design import Design
from gmb_hf.indicators import catalogue
from gmb_hf.indicators.catalogue import Indicator, Observables, register, register_column
from gmb_hf.indicators.causal import Values
from gmb_hf.runs.runlog import RunLog

NAME = "tried"
_ABOUT: Mapping[str, Any] = {"family": "dynamics", "summary": "a cheat", "source": "benchmarks"}


class Cheat(NamedTuple):
    """A score and how it is registered.

    Attributes:
        function: of the observables.
        needs: what it says it reads.
        declared: what else it says.
        told: it is computed, and called label-using.
        harmless: it is computed, and what it hides is not judged.
    """

    function: Callable[..., Any]
    needs: Any = ("weight_norm",)
    declared: Mapping[str, Any] = {}
    told: bool = False
    harmless: bool = False


CHEATS: dict[str, Cheat] = {}


def _cheat(name: str, **known: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        CHEATS[name] = Cheat(function, **known)
        return function

    return enter


def ahead(x: Values) -> Values:
    """The next value of each run."""
    return np.concatenate([x[:, 1:], x[:, -1:]], axis=1)


@_cheat("only among many runs")
def _many(seen: Observables) -> Values:
    x = seen["weight_norm"]
    return ahead(x) if len(x) > 4 else x


@_cheat("only on long runs")
def _long(seen: Observables) -> Values:
    x = seen["weight_norm"]
    return ahead(x) if x.shape[1] > 60 else x


@_cheat("only near the end of a run")
def _near_the_end(seen: Observables) -> Values:
    x = seen["weight_norm"].copy()
    x[:, -2:] = ahead(x)[:, -2:] + x[:, -3:-2]
    return x


@_cheat("only where the column rises")
def _rises(seen: Observables) -> Values:
    x = seen["weight_norm"]
    return np.maximum(x, ahead(x))


@_cheat("only at the steepest step")
def _steepest(seen: Observables) -> Values:
    x = seen["weight_norm"].copy()
    x[np.arange(len(x)), np.argmin(ahead(x) - x, axis=1)] += 1.0
    return x


@_cheat("by sorting the run")
def _sorts(seen: Observables) -> Values:
    return seen["weight_norm"] - np.sort(seen["weight_norm"], axis=1)


@_cheat("by the length of the run")
def _length(seen: Observables) -> Values:
    return seen["weight_norm"] * 0 + seen["weight_norm"].shape[1]


@_cheat("by the order of the runs")
def _order(seen: Observables) -> Values:
    return seen["weight_norm"] + np.arange(len(seen["weight_norm"]))[:, None]


@_cheat("by the other runs")
def _others(seen: Observables) -> Values:
    return seen["weight_norm"] - seen["weight_norm"].mean(axis=0)


_whole: dict[float, Values] = {}


@_cheat("by remembering whole runs")
def _remembers(seen: Observables) -> Values:
    x = seen["weight_norm"]
    for row in x:
        _whole[row[0]] = max(_whole.get(row[0], row), row.copy(), key=len)
    return np.array([np.append(_whole[row[0]], 0.0)[1 : len(row) + 1] for row in x])


@functools.cache
def _first_seen(begin: float) -> list[Values]:
    return []


@_cheat("by a cache of calls")
def _cached(seen: Observables) -> Values:
    x = seen["weight_norm"]
    for row in x:
        _first_seen(row[0]).append(row.copy())
    longest = (max(_first_seen(row[0]), key=len) for row in x)
    return np.array([np.append(one, 0.0)[1 : x.shape[1] + 1] for one in longest])


@_cheat("after some calls")
def _counts(seen: Observables, calls: list[int] = []) -> Values:  # noqa: B006
    calls.append(1)
    return (
        ahead(seen["weight_norm"])
        if len(calls) % 7 == 0 or len(seen["weight_norm"]) > 1
        else (seen["weight_norm"])
    )


@_cheat("by the time of day")
def _late(seen: Observables) -> Values:
    x = seen["weight_norm"]
    return ahead(x) if time.perf_counter() % 1e-3 > 5e-4 else x


@_cheat("in a thread")
def _thread(seen: Observables) -> Values:
    found = seen["weight_norm"].copy()
    one = threading.Thread(target=lambda: np.copyto(found, ahead(found.copy())))
    one.start()
    one.join()
    return found


@_cheat("by the frames of its callers")
def _frames(seen: Observables) -> Values:
    x, frame = seen["weight_norm"], inspect.currentframe()
    while frame is not None:
        for held in list(frame.f_locals.values()):
            for one in held if isinstance(held, list) else [held]:
                for row in one if isinstance(one, list) else [one]:
                    longer = isinstance(row, np.ndarray) and row.ndim == 1 and len(row) > x.shape[1]
                    if longer and np.array_equal(row[: x.shape[1]], x[0]):
                        return row[None, 1 : x.shape[1] + 1]
        frame = frame.f_back
    return ahead(x)


@_cheat("by all arrays in memory")
def _memory(seen: Observables) -> Values:
    x = seen["weight_norm"]
    for held in gc.get_objects() if len(x) == 1 and x.shape[1] < 4 else ():
        for row in held if isinstance(held, list) else ():
            longer = isinstance(row, np.ndarray) and row.ndim == 1 and len(row) > x.shape[1]
            if longer and np.array_equal(row[: x.shape[1]], x[0]):
                return row[None, 1 : x.shape[1] + 1]
    return ahead(x)


@_cheat("by the array behind the array")
def _base(seen: Observables) -> Values:
    x = base = seen["weight_norm"]
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base.reshape(len(x), -1)[:, 1 : x.shape[1] + 1] if base.size > x.size else ahead(x)


@_cheat("by the private columns")
def _private(seen: Observables) -> Values:
    for cell in seen._columns.__closure__ or ():  # type: ignore[attr-defined]
        if isinstance(cell.cell_contents, Observables):
            return cell.cell_contents["test_acc"]
    return seen["weight_norm"]


@_cheat("by columns written into", harmless=True, needs=("test_acc",), told=True)
def _writes(seen: Observables) -> Values:
    seen["test_acc"][:] = 0.0  # would take all events away
    return seen["test_acc"]


@_cheat("by changing what it was given")
def _in_place(seen: Observables) -> Values:
    x = seen["weight_norm"]
    x[:] = ahead(x)
    return x


@_cheat("by another way to ask for columns")
def _patches(seen: Observables) -> Values:
    class Open(Observables):
        pass

    opened = Open(seen._columns, 10)
    return opened["test_acc"]


@_cheat("by a type that turns into numbers later")
def _lazy(seen: Observables) -> Any:
    class Later:
        def __array__(self, *_: Any, **__: Any) -> Values:
            return ahead(seen["weight_norm"])

    return Later()


@_cheat("by another type of numbers")
def _single(seen: Observables) -> Any:
    return ahead(seen["weight_norm"].astype(np.float32))


@_cheat("by an imaginary part")
def _imaginary(seen: Observables) -> Any:
    return seen["weight_norm"] + 1j * ahead(seen["weight_norm"])


@_cheat("by what is missing")
def _missing(seen: Observables) -> Values:
    x = seen["weight_norm"].copy()
    x[ahead(x) < x - 0.05] = np.nan
    return x


@_cheat("in digits that rounding may change", harmless=True)
def _digits(seen: Observables) -> Values:
    return 1 + 1e-13 * ahead(seen["weight_norm"])


@_cheat("beside numbers that are huge", harmless=True)
def _huge(seen: Observables) -> Values:
    found = ahead(seen["weight_norm"])
    found[:, np.arange(found.shape[1]) % 3 > 0] = -1e15
    return found


@_cheat("by a generator")
def _yields(seen: Observables) -> Any:
    return (row for row in ahead(seen["weight_norm"]))


@_cheat("by an error of its own")
def _raises(seen: Observables) -> Any:
    class Ended(BaseException):
        pass

    raise Ended("no more")


@_cheat("by a column that it does not name")
def _undeclared(seen: Observables) -> Values:
    return seen["test_acc"]


@_cheat("by the seed", needs=("seed",))
def _seed(seen: Observables) -> Values:
    return seen["seed"]


@_cheat("without a column", needs=())
def _nothing(seen: Observables) -> Values:
    return np.zeros((12, 121))


@_cheat("with another name for labels", needs=("test_acc",), told=True)
def _labels(seen: Observables) -> Values:
    return seen["test_acc"]


@_cheat("as if this package had made it", declared={"package": "gmb_hf"})
def _ours(seen: Observables) -> Values:
    return ahead(seen["weight_norm"])


@_cheat("as a formula of a column", declared={"as_column": True})
def _formula(x: Values) -> Values:
    return ahead(x)


@_cheat("in place of an indicator of this package", declared={"replaces": "weight_norm"})
def _replaces(seen: Observables) -> Values:
    return ahead(seen["weight_norm"])


def outcome(cheat: Cheat, log: RunLog) -> str:
    """What becomes of a cheat: "refused", "told", "harmless"; or "passed"."""
    kept = dict(catalogue._REGISTRY)
    declared = dict(cheat.declared)
    replaces, as_column = declared.pop("replaces", None), declared.pop("as_column", False)
    try:
        if as_column:
            register_column(
                NAME, "a cheat", "", column=cheat.needs, formula=cheat.function, family="dynamics"
            )
        elif replaces:
            own = catalogue.get(replaces)
            fields = {name: getattr(own, name) for name in ("family", "summary", "needs", "source")}
            catalogue._REGISTRY[replaces] = Indicator(
                name=replaces, function=cheat.function, **fields
            )
        else:
            register(NAME, needs=cheat.needs, **{**_ABOUT, **declared})(cheat.function)
        candidate = {"name": replaces or NAME, "family": "dynamics"}
        design = Design.minimal(
            metric="test_acc", horizon=100, safe_gap=200, candidates=[candidate]
        )
        prepared = prepare(log, design)
        entry = prepared.entries[0]
        panel = prepared.panel(entry)
    except InputError:
        return "refused"
    finally:
        catalogue._REGISTRY.clear()
        catalogue._REGISTRY.update(kept)
    if entry.declared.sees_test_labels and cheat.told and prepared.events.n_events:
        return "told"
    few = len(np.unique(panel.values[panel.present])) <= 2
    return "harmless" if cheat.harmless and few else "passed"
