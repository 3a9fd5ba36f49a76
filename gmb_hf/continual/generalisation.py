"""Which variant generalises better at equal training loss: logs of training and validation loss.

A variant may have a lower validation loss only because it was trained further. So validation losses
are compared where the training losses are equal. The training loss of a run is not monotone; a
checkpoint counts only where it is lower than at every checkpoint before (the running minimum
moves), and between two such checkpoints the validation loss is interpolated linearly in the
training loss. The comparison runs over the range of training losses that every run of both variants
has gone through, on points that are equally far apart in the logarithm of the loss.

Two variants whose ranges do not overlap, or hardly, are not comparable this way, and are flagged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gmb_hf.benchmark.record import Record
from gmb_hf.continual.over_seeds import Difference, OverSeeds, adjusted, difference, over_seeds
from gmb_hf.validation import InputError, choose, positive_int, repeated

PROTOCOL_SEEDS = (1337, 42, 7)
"""The seeds of the generalisation protocol."""

POINTS = 32
LEAST_OVERLAP = 0.1
"""A shared range below this part of all that the two went through (in log loss) is unreliable."""


@dataclass(frozen=True, eq=False)
class Course:
    """The losses of one run over training.

    Attributes:
        run: its name.
        seed: None where the log does not say.
        steps: int64 [T], ascending.
        train, validation: float64 [T], nats, finite and at least 0.

    Raises:
        InputError: no checkpoint, steps that do not ascend, or a loss that is none.
    """

    run: str
    seed: int | None
    steps: NDArray[np.int64]
    train: NDArray[np.float64]
    validation: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not len(self.steps):
            raise InputError(f"run {self.run!r} has no checkpoint with both losses")
        if (np.diff(self.steps) <= 0).any():
            raise InputError(f"run {self.run!r}: its steps do not ascend")
        for name, values in (("training", self.train), ("validation", self.validation)):
            bad = ~np.isfinite(values) | (values < 0)
            if bad.any():
                at = int(np.argmax(bad))
                raise InputError(
                    f"run {self.run!r}, step {self.steps[at]}: the {name} loss is {values[at]}; it "
                    "must be a finite number of at least 0 (leave a diverged run out)"
                )

    @property
    def records(self) -> NDArray[np.bool_]:
        """The checkpoints at which the training loss is lower than ever before, [T]."""
        before = np.concatenate([[np.inf], np.minimum.accumulate(self.train)[:-1]])
        return self.train < before

    def validation_at(self, train_loss: NDArray[np.float64]) -> NDArray[np.float64]:
        """The validation loss when the training loss first came down to these values.

        Args:
            train_loss: [G], within the range of the run.

        >>> one = Course("a", 0, np.arange(3), np.array([2.0, 3.0, 1.0]), np.array([4.0, 9, 6]))
        >>> one.validation_at(np.array([1.5])).tolist()  # halfway; step 1 is no record
        [5.0]
        """
        records = self.records
        return np.interp(train_loss, self.train[records][::-1], self.validation[records][::-1])


@dataclass(frozen=True)
class VariantCourse(Record):
    """One variant over seeds.

    Attributes:
        runs: names, in the order of all values.
        seeds: of the runs, None where a log does not say.
        best_validation_loss: the lowest of the run.
        best_step: the first step at which it stood.
        final_train_loss, final_validation_loss, final_gap: at the run's last checkpoint; the gap
            is validation less training.
        train_range: training losses that every run went through, (lowest, highest); None where
            there is no such loss.
        steps: checkpoints that every run has.
        gap_mean, gap_std: validation less training at these steps, over runs; std is None for one.
    """

    runs: tuple[str, ...]
    seeds: tuple[int | None, ...]
    best_validation_loss: OverSeeds
    best_step: OverSeeds
    final_train_loss: OverSeeds
    final_validation_loss: OverSeeds
    final_gap: OverSeeds
    train_range: tuple[float, float] | None
    steps: tuple[int, ...]
    gap_mean: tuple[float, ...]
    gap_std: tuple[float, ...] | None


@dataclass(frozen=True)
class Matched(Record):
    """Two variants at equal training loss.

    Attributes:
        variant, baseline: who is held against whom.
        train_range: the training losses that all runs of both went through; None without one.
        overlap: its part of all that they went through, in log loss, in [0, 1].
        reliable: whether the overlap is at least `LEAST_OVERLAP`.
        train_loss: the points, descending.
        variant_validation, baseline_validation: mean over runs at these points.
        variant_mean, baseline_mean: validation loss averaged over the points, over runs.
        difference: of these averages, on shared seeds; None where the ranges do not overlap or a
            log does not name its seed.
    """

    variant: str
    baseline: str
    train_range: tuple[float, float] | None
    overlap: float
    reliable: bool
    train_loss: tuple[float, ...] = ()
    variant_validation: tuple[float, ...] = ()
    baseline_validation: tuple[float, ...] = ()
    variant_mean: OverSeeds | None = None
    baseline_mean: OverSeeds | None = None
    difference: Difference | None = None


def course_summary(courses: Sequence[Course]) -> VariantCourse:
    """Best and final losses, and the gap over training, of the runs of one variant."""
    _check(courses)
    steps = courses[0].steps
    for course in courses[1:]:
        steps = np.intersect1d(steps, course.steps, assume_unique=True)
    gaps = np.array(
        [
            (course.validation - course.train)[np.isin(course.steps, steps, assume_unique=True)]
            for course in courses
        ]
    )
    best = [int(np.argmin(course.validation)) for course in courses]
    return VariantCourse(
        runs=tuple(course.run for course in courses),
        seeds=tuple(course.seed for course in courses),
        best_validation_loss=over_seeds(
            [float(course.validation[at]) for course, at in zip(courses, best, strict=True)]
        ),
        best_step=over_seeds(
            [float(course.steps[at]) for course, at in zip(courses, best, strict=True)]
        ),
        final_train_loss=over_seeds([float(course.train[-1]) for course in courses]),
        final_validation_loss=over_seeds([float(course.validation[-1]) for course in courses]),
        final_gap=over_seeds(
            [float(course.validation[-1] - course.train[-1]) for course in courses]
        ),
        train_range=shared_range(courses),
        steps=tuple(steps.tolist()),
        gap_mean=tuple(gaps.mean(axis=0).tolist()),
        gap_std=tuple(gaps.std(axis=0, ddof=1).tolist()) if len(courses) > 1 else None,
    )


def matched(
    variants: Mapping[str, Sequence[Course]], baseline: str, *, points: int = POINTS
) -> list[Matched]:
    """Hold every variant against the baseline at equal training loss.

    Args:
        variants: name -> its runs; the baseline is one of them.
        baseline: its name.
        points: how many training losses of the shared range are looked at.

    Raises:
        InputError: an unknown baseline, a variant without runs, a seed twice, or bad points.
    """
    choose("variant", baseline, tuple(variants))
    positive_int("points", points)
    for courses in variants.values():
        _check(courses)
    found = [
        _matched(name, courses, baseline, variants[baseline], points)
        for name, courses in variants.items()
        if name != baseline
    ]
    pairs = iter(adjusted([one.difference for one in found if one.difference]))
    return [
        one if one.difference is None else replace(one, difference=next(pairs)) for one in found
    ]


def shared_range(courses: Sequence[Course]) -> tuple[float, float] | None:
    """The training losses that every run went through, (lowest, highest), or None.

    A loss of exactly 0 has no logarithm: the range then ends at the smallest loss above it.
    """
    lowest = max(float(course.train.min()) for course in courses)
    highest = min(float(course.train[0]) for course in courses)
    low = max(lowest, _smallest(courses))
    return (low, highest) if low < highest else None


def _matched(
    name: str, mine: Sequence[Course], baseline: str, theirs: Sequence[Course], points: int
) -> Matched:
    everybody = [*mine, *theirs]
    shared = shared_range(everybody)
    if shared is None:
        return Matched(name, baseline, None, 0.0, False)
    low, high = shared
    widest = np.log(max(float(course.train[0]) for course in everybody)) - np.log(
        max(min(float(course.train.min()) for course in everybody), _smallest(everybody))
    )
    overlap = float(np.log(high / low) / widest)
    grid = np.clip(np.geomspace(high, low, points), low, high)
    at = {
        who: np.array([course.validation_at(grid) for course in courses])
        for who, courses in ((name, mine), (baseline, theirs))
    }
    means = {who: values.mean(axis=1) for who, values in at.items()}
    by_seed = {
        who: {
            course.seed: value
            for course, value in zip(courses, means[who].tolist(), strict=True)
            if course.seed is not None
        }
        for who, courses in ((name, mine), (baseline, theirs))
    }
    pair = difference(
        "matched_validation_loss", (name, by_seed[name]), (baseline, by_seed[baseline])
    )
    return Matched(
        variant=name,
        baseline=baseline,
        train_range=shared,
        overlap=overlap,
        reliable=overlap >= LEAST_OVERLAP,
        train_loss=tuple(grid.tolist()),
        variant_validation=tuple(at[name].mean(axis=0).tolist()),
        baseline_validation=tuple(at[baseline].mean(axis=0).tolist()),
        variant_mean=over_seeds(means[name]),
        baseline_mean=over_seeds(means[baseline]),
        difference=pair if pair.seeds else None,
    )


def _smallest(courses: Sequence[Course]) -> float:
    """The smallest training loss above 0."""
    above = [course.train[course.train > 0] for course in courses]
    found = [float(values.min()) for values in above if len(values)]
    return min(found, default=np.inf)


def _check(courses: Sequence[Course]) -> None:
    if not courses:
        raise InputError("a variant has no runs; name its logs")
    seed = repeated([course.seed for course in courses if course.seed is not None])
    if seed is not None:
        runs = ", ".join(repr(course.run) for course in courses if course.seed == seed)
        raise InputError(f"the runs {runs} have the same seed, {seed}; one run is one seed")
