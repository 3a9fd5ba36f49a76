"""The trial: every signal on every panel, thresholds frozen on explore runs, judged once by runs.

    OUT/PANEL/                explore.csv, lock.yaml, results.yaml, report.*, tables/, figures/
    OUT/transfer/A-on-B/      the held-out runs of panel B by the lock of panel A: results.yaml
    OUT/tables/trial.*        a row for each signal and panel; transfer.*: for each two panels
    OUT/figures/trial.*       signals by panels
    OUT/report.md             the one page

A panel is frozen, so the same call gives the same numbers; what is there already, of this lock and
these runs, is not judged again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import threadpool_limits

from gmb_hf.benchmark.evaluate import evaluate_lock
from gmb_hf.benchmark.locking import explore, make_lock, write_explored
from gmb_hf.benchmark.prepare import prepare
from gmb_hf.benchmark.records import SUPPORTED
from gmb_hf.benchmark.results import Results
from gmb_hf.design.lock import Lock
from gmb_hf.errors import InputError, positive_int
from gmb_hf.files import write_text
from gmb_hf.hub.panels import EXPLORE, HELD_OUT, FrozenPanel, here
from gmb_hf.report.answer import primary_budget
from gmb_hf.report.report import publish
from gmb_hf.report.style import save_figure
from gmb_hf.report.trial import (
    Transfer,
    TrialRow,
    render_trial,
    signals_by_panels,
    transfer_table,
    trial_table,
)

if TYPE_CHECKING:
    from gmb_hf.run import Counting

Found = TypeVar("Found")


@dataclass(frozen=True)
class Trial:
    """What the trial found.

    Attributes:
        panels: the names, in order.
        rows: every signal on every panel.
        transfers: the lock of each panel on each other one.
        paths: of the files, the page first.
    """

    panels: tuple[str, ...]
    rows: tuple[TrialRow, ...]
    transfers: tuple[Transfer, ...]
    paths: tuple[Path, ...]


def trial(
    panels: Sequence[str],
    out: str | Path,
    *,
    figures: bool = True,
    jobs: int | None = None,
    counting: Counting | None = None,
) -> Trial:
    """Judge every candidate of the panels' designs, and each lock on the other panels.

    Args:
        panels: names; "all" for every one that is here and has a held-out part.
        out: the folder; the same call goes on where it stopped.
        figures: whether to draw those of each panel, too.
        jobs: panels judged at a time, in processes of their own; one a core if not given.
        counting: shows progress; nothing is shown without it.

    Raises:
        InputError: no such panel, one without a held-out part, one that was changed, a folder
            that holds the trial of other panels, or a process was killed.
    """
    counting = counting or _no_counting
    jobs = positive_int("--jobs", (os.cpu_count() or 1) if jobs is None else jobs)
    folder, chosen = Path(out), tuple(_split(here()) if list(panels) == ["all"] else panels)
    if not chosen:
        raise InputError("--panels: no panel is here; gmb panel list says which there are")
    found = {name: FrozenPanel.find(name) for name in chosen}
    for name in set(chosen) - set(_split(chosen)):
        raise InputError(f"--panels: panel {name!r} has no held-out part to be judged on")
    of_scores = counting if jobs == 1 else _no_counting  # else the bar counts panels
    results = _in_processes(
        {
            name: partial(judge, panel, folder / name, figures=figures, counting=of_scores)
            for name, panel in found.items()
        },
        jobs,
        counting("judging panels", len(chosen)) if jobs > 1 else _no_counting("", None),
    )
    supported = {
        name: {row.item.name for row in rows_of(name, own) if row.supported}
        for name, own in results.items()
    }
    crossed = {
        f"{lock_of} on {name}": partial(_transferred, lock_of, panel, folder, supported[lock_of])
        for lock_of in chosen
        for name, panel in found.items()
        if lock_of != name
    }
    transfers = [
        *_in_processes(crossed, jobs, counting("locks on other panels", len(crossed))).values()
    ]
    rows = [row for name in chosen for row in rows_of(name, results[name])]
    page = render_trial(
        rows, chosen, transfers, asks={name: panel.record.asks for name, panel in found.items()}
    )
    paths = [write_text(folder / "report.md", page)]
    paths += save_figure(signals_by_panels(rows, chosen), folder / "figures" / "trial")
    for table in (trial_table(rows), transfer_table(transfers)):
        paths += table.write(folder / "tables")
    return Trial(chosen, tuple(rows), tuple(transfers), tuple(paths))


def _no_counting(what: str, count: int | None) -> AbstractContextManager[Callable[[str], None]]:
    return nullcontext(lambda done: None)


def _in_processes(
    calls: Mapping[str, Callable[[], Found]],
    jobs: int,
    counted: AbstractContextManager[Callable[[str], None]],
) -> dict[str, Found]:
    """What calls return, by their names; in this process, or at most `jobs` others.

    Raises:
        InputError: of a call, or a process was killed.
    """
    with counted as done:
        if jobs == 1 or len(calls) < 2:
            found = {}
            for name, call in calls.items():
                found[name] = call()
                done(name)
            return found
        context = get_context("spawn")  # a forked process may inherit held locks
        with ProcessPoolExecutor(min(jobs, len(calls)), context, initializer=_one_thread) as pool:
            waiting = {pool.submit(call): name for name, call in calls.items()}
            try:
                for ended in as_completed(waiting):
                    ended.result()
                    done(waiting[ended])
            except BrokenProcessPool:
                raise InputError(
                    f"--jobs {jobs}: a process was ended, as it is where memory runs out; the same "
                    "command with --jobs 1 goes on with what is there"
                ) from None
            finally:
                pool.shutdown(cancel_futures=True)
            return {name: ended.result() for ended, name in waiting.items()}


def _one_thread() -> None:
    """More would share the cores with those of the other processes."""
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # of what is loaded later
    threadpool_limits(1)


def rows_of(panel: str, results: Results) -> list[TrialRow]:
    """The indicators of one panel's results, at the budget of runs that decides."""
    budget = primary_budget(results)
    return [
        TrialRow(panel, item, item.x_first_alarm, item.x_first_alarm.at(budget))
        for item in results.indicators
        if item.x_first_alarm is not None and budget is not None
    ]


def _split(names: Sequence[str]) -> list[str]:
    """Those panels that have an explore and a held-out part."""
    return [name for name in names if {EXPLORE, HELD_OUT} <= {*FrozenPanel.find(name).parts}]


def judge(
    panel: FrozenPanel,
    folder: Path,
    *,
    figures: bool,
    counting: Counting = _no_counting,
    exploring: bool = True,
) -> Results:
    """Explore, lock and evaluate one panel in a folder, or read what an earlier call left there.

    The lock does not need what exploring shows, which is for readers.
    """
    place, path = folder / "lock.yaml", folder / "results.yaml"
    lock = Lock.read(place) if place.exists() else None
    if lock is not None:
        own = panel.design().plain()
        theirs = lock.design.plain()
        same = panel.source["fingerprint"] in [one.fingerprint for one in lock.x_lock.x_sources]
        if not same or own["candidates"] != theirs["candidates"]:
            raise InputError(
                f"{place}: is a lock of another panel, or of another design; choose another --out"
            )
        if path.exists():
            held = Results.read(path)
            if held.x_provenance is not None and held.x_provenance.lock_hash == lock.hash:
                return held
    design = panel.design() if lock is None else lock.design
    if lock is None:
        explored = prepare(panel.read(EXPLORE), design)
        count = len(explored.entries)
        if exploring:
            with counting(f"{panel.name}: exploring", count) as done:
                # A combination takes ten fits more than its lock, which says what it is made of.
                tried = explore(design, explored, combinations=False, on_done=done)
                write_explored(tried, folder / "explore.csv")
        with counting(f"{panel.name}: locking", count) as done:
            made, _ = make_lock(design, explored, on_done=done)
        lock = Lock.read(made.write(place))
    with counting(f"{panel.name}: judging", len(lock.x_lock.candidates)) as done:
        evaluation = evaluate_lock(lock, panel.read(HELD_OUT), lock_path="lock.yaml", on_done=done)
    publish(evaluation, folder, figures=figures)
    return evaluation.results


def _transferred(
    lock_of: str, panel: FrozenPanel, folder: Path, supported: Collection[str]
) -> Transfer:
    """The lock of one panel on another: the best of those signals that its own panel supports."""
    place = folder / "transfer" / f"{lock_of}-on-{panel.name}"
    lock, path = Lock.read(folder / lock_of / "lock.yaml"), place / "results.yaml"
    held = Results.read(path) if path.exists() else None
    if held is None or held.x_provenance is None or held.x_provenance.lock_hash != lock.hash:
        try:
            # A look of its own: the lock file beside it keeps the looks at its own panel.
            judged = evaluate_lock(
                Lock.read(lock.write(place / "lock.yaml")), panel.read(HELD_OUT), transfer=True
            )
        except InputError as error:
            return Transfer(lock_of, panel.name, None, None, str(error))
        publish(judged, place, figures=False)
        held = judged.results
    rows = [
        row
        for row in rows_of(panel.name, held)
        if row.item.name in supported and row.item.x_sees_test_labels is False
    ]
    best = max(rows, key=lambda row: row.at.warned or 0.0, default=None)
    n_supported = sum(row.first.label == SUPPORTED for row in rows)
    return Transfer(lock_of, panel.name, best, n_supported)
