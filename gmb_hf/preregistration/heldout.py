"""What held-out runs must be, for a lock to speak about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gmb_hf.preregistration.record import LockRecord
from gmb_hf.preregistration.sections import Boundary
from gmb_hf.validation import InputError, first_of


def check_held_out(
    boundary: Boundary,
    record: LockRecord,
    runs: Sequence[str],
    seeds: Sequence[int | None],
    *,
    fingerprint: str | None,
    declared: Mapping[str, Sequence[Any]],
) -> tuple[str, ...]:
    """Refuse held-out logs that overlap the explore runs or come from another system.

    Args:
        boundary, record: the lock's two sides.
        runs, seeds: names and seeds of the held-out runs (a seed may be unknown: None).
        fingerprint: content hash of the held-out log.
        declared: what the parts of the log say about themselves, by boundary field.

    Returns:
        Notes for the report, e.g. that a declared held-out seed is missing.

    Raises:
        InputError: one line that names the overlap or the difference.
    """
    if fingerprint is not None and fingerprint == record.explore_fingerprint:
        raise InputError(
            "held-out runs are the explore runs that this lock was made on; give new runs"
        )
    refuse_shared_runs(record.explore_runs, record.explore_seeds, runs, seeds, "held-out runs")
    for field, locked, found in differing(boundary, declared):
        raise InputError(
            f"held-out runs differ from the lock's boundary.{field}: locked {locked!r}, "
            f"found {found!r}; a verdict does not carry over, lock that system anew"
        )
    return _compare_seeds(boundary.seeds_eval, [seed for seed in seeds if seed is not None])


def differing(
    boundary: Boundary, declared: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Each field, what the boundary states and what a log says instead.

    What either side leaves open (None, or no entry) is not compared.
    """
    for field, said in declared.items():
        stated = getattr(boundary, field)
        for found in said:
            if stated is not None and found is not None and stated != found:
                yield field, stated, found


def refuse_shared_runs(
    explore_runs: Sequence[str],
    explore_seeds: Sequence[int | None],
    runs: Sequence[str],
    seeds: Sequence[int | None],
    where: str,
) -> None:
    """Raise `InputError` if a run was used to explore and is judged too.

    A run is told by its seed; without one by its name, since names may repeat across folders.
    """
    explored, known = (
        [seed for seed in side if seed is not None] for side in (explore_seeds, seeds)
    )
    refuse_overlap(explored, known, where)
    nameless = [run for run, seed in zip(runs, seeds, strict=True) if seed is None]
    refuse_overlap(explore_runs, nameless, where)


def refuse_overlap(explore: Sequence[Any], held_out: Sequence[Any], where: str) -> None:
    """Raise `InputError` if a seed or run was used to explore and is held out too."""
    both = sorted(set(explore) & set(held_out))
    if both:
        raise InputError(
            f"{where}: {len(both)} also used to explore ({first_of(both)}); a threshold must not "
            "be judged on runs that it was found on, give other seeds"
        )


def _compare_seeds(declared: Sequence[int], found: Sequence[int]) -> tuple[str, ...]:
    if not declared:
        return ()
    extra = sorted(set(found) - set(declared))
    if extra:
        raise InputError(
            f"held-out seeds {first_of(extra)} are not among the lock's boundary.seeds_eval; runs "
            "may not be added after the lock, give the declared seeds only"
        )
    missing = sorted(set(declared) - set(found))
    if not missing:
        return ()
    return (
        f"{len(missing)} of {len(declared)} held-out seeds that the lock declares are missing: "
        f"{first_of(missing)}",
    )
