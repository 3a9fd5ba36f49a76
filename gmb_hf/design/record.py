"""What a lock records about explore runs and candidates: the `x_lock` section as models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, Field, FiniteFloat, model_validator

from gmb_hf.design.design import Design, Ensemble, ParamValue
from gmb_hf.documents import Many, Section
from gmb_hf.errors import InputError, first_of, unknown


class LockedMember(Section):
    """One member: which score it is, and what it adds to the log-odds.

    It adds coefficient * asinh((score - center) / scale).
    """

    name: str
    family: str | None = None
    params: dict[str, ParamValue] = Field(default_factory=dict)
    sign: Literal[1, -1] = Field(description="times the declared orientation")
    sees_test_labels: bool | None = None
    center: FiniteFloat = Field(description="median over the fitting windows")
    scale: FiniteFloat = Field(gt=0, description="their spread, as that of one normal sd")
    coefficient: FiniteFloat


class LockedEnsemble(Section):
    """A logistic combination, frozen."""

    squash: Literal["asinh"] = Field("asinh", description="keeps far tails from deciding alone")
    members: Many[LockedMember]
    intercept: FiniteFloat
    penalty: FiniteFloat = Field(gt=0, description="L2, with the least cross-validated log loss")
    log_losses: dict[str, FiniteFloat] = Field(
        description="penalty -> cross-validated log loss; ln 2 = 0.693 is a coin's"
    )
    fit_runs: Many[str] = Field(description="explore runs that the formula was fitted on")
    calibrate_runs: Many[str] = Field(description="the others, which the thresholds are from")
    n_calibration_runs: int = Field(ge=0, description="those of them with negative windows")

    @model_validator(mode="after")
    def _consistent(self) -> LockedEnsemble:
        if repr(self.penalty) not in self.log_losses:
            raise ValueError(f"penalty {self.penalty:g} is not among log_losses")
        both = set(self.fit_runs) & set(self.calibrate_runs)
        if both:
            raise ValueError(f"{min(both)!r} is among fit_runs and calibrate_runs")
        return self

    @property
    def log_loss(self) -> float:
        """Cross-validated, at the chosen penalty."""
        return self.log_losses[repr(self.penalty)]

    @property
    def at_edge(self) -> bool:
        """Whether a penalty beyond those that were tried could be better."""
        tried = [float(penalty) for penalty in self.log_losses]
        return len(tried) > 1 and self.penalty in (min(tried), max(tried))


FORMAT = 1
CENTRAL = "central"
"""The member of the robustness family that is the candidate as declared."""

Threshold = Annotated[float, AllowInfNan(True)]


def member_key(*, window: int | None = None, smooth: int = 1) -> str:
    """The name of a member of the robustness family that has thresholds of its own.

    >>> member_key(window=200, smooth=3), member_key(smooth=1)
    ('window=200,smooth=3', 'smooth=1')
    """
    return f"smooth={smooth}" if window is None else f"window={window},smooth={smooth}"


def target_key(target: float) -> str:
    """A target false positive rate as a YAML key, exact: 0.05 is "0.05"."""
    return repr(float(target))


class LockedCandidate(Section):
    """One candidate, frozen: its orientation and its thresholds."""

    sign: Literal[1, -1] = Field(description="times the declared orientation")
    family: str | None = None
    needs: Many[str] = ()
    params: dict[str, ParamValue] = Field(default_factory=dict)
    sees_test_labels: bool | None = None
    members: dict[str, dict[str, Threshold]] = Field(
        description="member -> target -> threshold; .inf: the answer is ABSTAIN"
    )
    ensemble: LockedEnsemble | None = None

    @classmethod
    def freeze(
        cls, members: Mapping[str, Mapping[float, float]], *, sign: int = 1, **facts: Any
    ) -> LockedCandidate:
        """Build one from `{member: {target: threshold}}`; infinity stands for ABSTAIN."""
        keyed = {
            member: {target_key(target): float(tau) for target, tau in thresholds.items()}
            for member, thresholds in members.items()
        }
        return cls.parse({"sign": sign, "members": keyed, **facts}, where="candidate")


class LockedSide(Section):
    """How far the scores of whole runs drift one way: up, or down."""

    scale: int = Field(ge=1, description="median over the reference runs, the unit of drift")
    maxima: Many[int] = Field(description="largest CUSUM of ranks of each calibration run")
    delay_steps: int | None = Field(
        None, description="median steps to notice a shift of 1 sd; null: not within a run"
    )


class LockedDrift(Section):
    """What the drift of one live score is measured by; see `gmb_hf.benchmark.health`."""

    knots: Many[Many[float]] = Field(
        description="for each part of the training, quantiles of the reference runs' scores"
    )
    up: LockedSide
    down: LockedSide


class LockedHealth(Section):
    """How explore runs move as a whole, by which a monitor tells a broken ruler."""

    alpha: float = Field(description="share of runs in which a monitor may abstain for nothing")
    first_step: int = Field(description="by this step every explore run had begun")
    last_step: int = Field(description="where the longest explore run ends")
    n_reference_runs: int = Field(description="explore runs that ranks are taken among")
    n_calibration_runs: int = Field(description="the other explore runs, whose maxima are bounds")
    begins: Many[int] = Field(description="the first step of each part of the training")
    candidates: dict[str, LockedDrift]


class LockedSource(Section):
    """A dataset of the Hub at one commit: the explore runs, or the data that they learned."""

    what: Literal["runs", "data"]
    repo: str
    revision: str
    config: str
    fingerprint: str


class LockRecord(Section):
    """What explore runs fixed, and the seal."""

    format: int = FORMAT
    created: str
    package_version: str
    explore_fingerprint: str
    explore_runs: Many[str]
    explore_seeds: Many[int]
    n_calibration_runs: int = Field(description="explore runs that have negative windows")
    effective_budget: dict[str, float]
    candidates: dict[str, LockedCandidate]
    x_health: LockedHealth | None = None
    x_sources: Many[LockedSource] = Field((), description="what was pulled from the Hub")
    hash: str


# That the frozen candidates are those of the design, all of them and no others.


def check_candidates(
    design: Design, candidates: Mapping[str, LockedCandidate], explore_runs: Sequence[str]
) -> None:
    """Raise `InputError` unless a lock of these candidates holds what the design asks for.

    Every candidate of the design, and beside them controls only, with the design's sign, a number
    for each target, and of an ensemble the formula of its members, made on explore runs alone.
    """
    declared = {candidate.name: candidate for candidate in design.candidates}
    for name, candidate in declared.items():
        if name not in candidates:
            raise InputError(f"lock: candidate {name!r} of the prereg has no thresholds")
        if candidate.x_sign not in (None, candidates[name].sign):
            raise InputError(
                f"lock: candidate {name!r} has sign {candidates[name].sign:+d}, the prereg says "
                f"{candidate.x_sign:+d}"
            )
    wanted = {target_key(target) for target in design.fpr_targets}
    for name, item in candidates.items():
        if declared and name not in declared and item.family != "control":
            raise unknown("candidate", name, declared, where="lock: not in the prereg")
        wanted_one = declared[name].x_ensemble if name in declared else None
        if (wanted_one is None) != (item.ensemble is None):
            raise InputError(
                f"lock: candidate {name!r} "
                + ("is no ensemble" if wanted_one is None else "is an ensemble without a formula")
            )
        if wanted_one is not None and item.ensemble is not None:
            _check_ensemble(f"lock: candidate {name!r}", wanted_one, item.ensemble, explore_runs)
        if CENTRAL not in item.members:
            raise InputError(f"lock: candidate {name!r} has no member {CENTRAL!r}")
        for member, thresholds in item.members.items():
            lacking = sorted(wanted.symmetric_difference(thresholds))
            bad = sorted(key for key, tau in thresholds.items() if tau != tau)
            if lacking or bad:
                what = f"targets {', '.join(lacking)} do not match the prereg's"
                raise InputError(
                    f"lock: candidate {name!r}, member {member!r}: "
                    + (what if lacking else f"the threshold for {bad[0]} is NaN")
                )


def _check_ensemble(
    where: str, design: Ensemble, locked: LockedEnsemble, explore_runs: Sequence[str]
) -> None:
    asked, found = ([member.name for member in each.members] for each in (design, locked))
    if asked != found:
        raise InputError(
            f"{where}: its formula is of {', '.join(found)}, the prereg's of {', '.join(asked)}"
        )
    used = sorted([*locked.fit_runs, *locked.calibrate_runs])
    if used != sorted(explore_runs):
        odd = sorted(set(used).symmetric_difference(explore_runs))
        raise InputError(
            f"{where}: fit_runs and calibrate_runs are not the explore runs, each once"
            + (f"; {odd[0]!r} is not among both" if odd else "")
        )


# What held-out runs must be, for a lock to speak about them.


def check_held_out(
    design: Design,
    record: LockRecord,
    runs: Sequence[str],
    seeds: Sequence[int | None],
    *,
    fingerprint: str | None,
    declared: Mapping[str, Sequence[Any]],
) -> tuple[str, ...]:
    """Refuse held-out logs that overlap the explore runs or come from another system.

    Args:
        design, record: the lock's two sides.
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
    for field, locked, found in differing(design, declared):
        raise InputError(
            f"held-out runs differ from the lock's boundary.{field}: locked {locked!r}, "
            f"found {found!r}; a verdict does not carry over, lock that system anew"
        )
    return _compare_seeds(design.seeds_eval, [seed for seed in seeds if seed is not None])


def differing(
    design: Design, declared: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Each field of the boundary, what the design states and what a log says instead.

    What either side leaves open (None, or no entry) is not compared.
    """
    boundary = design.section("boundary")
    for field, said in declared.items():
        stated = boundary[field]
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
