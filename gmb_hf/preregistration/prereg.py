"""The preregistration: everything that is fixed before a held-out run is looked at.

`Prereg` holds the sections of the v0.4 schema and reads and writes its YAML. The layers of the
benchmark read its flat properties (`prereg.horizon`, `prereg.fpr_targets`, ...).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gmb_hf.preregistration.candidate import Candidate
from gmb_hf.preregistration.documents import (
    Many,
    Section,
    load_yaml,
    write_yaml,
)
from gmb_hf.preregistration.flat import FLAT, nested
from gmb_hf.preregistration.sections import (
    Boundary,
    DecisionThresholds,
    Event,
    Labels,
    Meta,
    OperatingPoints,
    Reporting,
    Share,
    Steps,
)
from gmb_hf.preregistration.strata import Stratum
from gmb_hf.preregistration.template import template
from gmb_hf.validation import InputError, repeated

Draws = Annotated[int, Field(ge=1)]


class Prereg(Section):
    """A preregistration of GMB v0.4; fields that begin with `x_` are ours."""

    meta: Meta = Meta()
    boundary: Boundary = Boundary()
    event: Event = Event()
    labels: Labels
    operating_points: OperatingPoints = OperatingPoints()
    candidates: Many[Candidate] = ()
    decision_thresholds: DecisionThresholds = DecisionThresholds()
    reporting: Reporting = Reporting()
    x_protocol: Literal["strict", "v0.4"] = Field(
        "strict", description="strict: locked conformal thresholds and chance nulls; or v0.4"
    )
    x_burn_in: Annotated[int, Field(ge=0)] = Field(
        0, description="windows before this step are ignored"
    )
    x_primary_fpr: Share = Field(0.05, description="the operating point that the verdict is about")
    x_event_count_min: Draws = Field(30, description="fewer events: INCONCLUSIVE (spec 7)")
    x_null_draws: Draws = Field(2000, description="draws of each chance null")
    x_bootstrap_draws: Draws = Field(2000, description="draws of the run-cluster bootstrap")
    x_alpha: Share = Field(0.05, description="level of the tests, Holm-adjusted over candidates")
    x_health_alpha: Share | None = Field(
        None,
        description="share of runs in which a monitor may abstain for nothing; null: x_alpha",
    )
    x_seed: Annotated[int, Field(ge=0)] = Field(0, description="seed of all draws")
    x_smoothing_sweep: Many[Draws] = Field(
        (1, 3, 5), description="layer D: trailing means over so many checkpoints"
    )
    x_run_groups: Annotated[int, Field(ge=2)] = Field(
        5, description="layer D: groups of runs, each left out once"
    )
    x_refractory_steps: Steps | None = Field(
        None, description="alarms closer than this are one episode; null: the horizon"
    )
    x_nan: Literal["error", "ignore"] = Field(
        "error", description="NaN scores in labelled windows: error, or ignore"
    )
    x_strata: Many[Stratum] = Field(
        (),
        description="parts of the runs judged as well, e.g. {name: late, where: event_step > 1000}",
        examples=[()],
    )
    x_looks: Draws = Field(
        1, description="how often held-out runs may be judged, runs added in between; splits alpha"
    )
    x_max_eval_seeds: Draws | None = Field(
        None, description="most held-out runs over all looks", examples=[400]
    )

    @model_validator(mode="after")
    def _consistent(self) -> Prereg:
        twice = repeated(candidate.name for candidate in self.candidates)
        if twice is not None:
            raise ValueError(f"candidates: the name {twice!r} is used twice")
        self._refuse_nested()
        if self.x_primary_fpr not in self.fpr_targets:
            raise ValueError(
                f"x_primary_fpr {self.x_primary_fpr:g} is not among operating_points.fpr_targets "
                f"{list(self.fpr_targets)}; add it there, or choose one of them"
            )
        if not self.x_smoothing_sweep:
            raise ValueError("x_smoothing_sweep must name at least one length; 1 is no smoothing")
        return self

    def _refuse_nested(self) -> None:
        combined = {item.name: item.x_ensemble for item in self.candidates if item.x_ensemble}
        for name, ensemble in combined.items():
            for member in ensemble.members:
                if member.name in combined:
                    raise ValueError(
                        f"candidates: {name!r} has the member {member.name!r}, which is itself an "
                        "ensemble; list its members instead"
                    )

    @model_validator(mode="after")
    def _strata_and_looks(self) -> Prereg:
        twice = repeated(stratum.name for stratum in self.x_strata)
        if twice is not None:
            raise ValueError(f"x_strata: the name {twice!r} is used twice")
        planned, most = len(self.boundary.seeds_eval), self.x_max_eval_seeds
        if most is not None and planned > most:
            raise ValueError(
                f"x_max_eval_seeds is {most}, but boundary.seeds_eval lists {planned} seeds; "
                "raise the one, or shorten the other"
            )
        if self.x_looks > 1 and most is None and not planned:
            raise ValueError(
                f"x_looks is {self.x_looks}, but nothing bounds the runs that may be added; set "
                "x_max_eval_seeds, or list boundary.seeds_eval"
            )
        return self

    @classmethod
    def minimal(cls, *, horizon: int, safe_gap: int, **overrides: Any) -> Self:
        """A preregistration from its two required lengths (steps) and flat overrides.

        Args:
            horizon: `labels.positive_window.horizon_steps`.
            safe_gap: `labels.negative_window.safe_gap_steps`.
            overrides: any other flat property by its name, e.g. `metric="acc"`, `burn_in=200`.

        Raises:
            InputError: an override is unknown (the nearest is named) or out of range.

        >>> Prereg.minimal(horizon=200, safe_gap=400, burn_in=200).burn_in
        200
        """
        flat = {"horizon": horizon, "safe_gap": safe_gap, **overrides}
        return cls.parse(nested({}, flat), where="prereg")

    def replace(self, **overrides: Any) -> Self:
        """A copy with some flat properties changed, checked like a new document."""
        return type(self).parse(nested(self.plain(), overrides), where="prereg")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a preregistration; an `InputError` names the file and the path of what is wrong."""
        data = load_yaml(path)
        if isinstance(data, dict) and "x_lock" in data:
            raise InputError(
                f"{path}: is a lock, whose design is fixed; judge by it with gmb evaluate --lock, "
                "or start from the preregistration that it was made of"
            )
        return cls.parse(data, where=str(path))

    def write(self, path: str | Path) -> Path:
        """Write the YAML atomically."""
        return write_yaml(path, self.plain(), heading="GMB preregistration, schema v0.4")

    @classmethod
    def flat_names(cls) -> dict[str, str]:
        """The name of each flat property by its path in the document."""
        return {".".join(place): name for name, place in FLAT.items()}

    @classmethod
    def template(cls) -> str:
        """The YAML text of a new preregistration, a comment beside each field."""
        return template(cls)

    # Flat names, so that the layers never dig.
    @property
    def horizon(self) -> int:
        """Steps before t* in which a window is positive."""
        return self.labels.positive_window.horizon_steps

    @property
    def safe_gap(self) -> int:
        """Steps before t* from which on a window is no longer negative."""
        return self.labels.negative_window.safe_gap_steps

    @property
    def lead_time_target(self) -> int:
        """Steps of warning that count as lead-time success."""
        return self.labels.positive_window.lead_time_target

    @property
    def metric(self) -> str:
        """The observable that carries the event."""
        return self.event.metric

    @property
    def w_event(self) -> int:
        """Steps over which the metric must jump."""
        return self.event.window_W_event

    @property
    def jump_threshold(self) -> float:
        """Rise of the metric that makes an event."""
        return self.event.jump_threshold

    @property
    def fpr_targets(self) -> tuple[float, ...]:
        """Target false positive rates, in the order given."""
        return self.operating_points.fpr_targets

    @property
    def fpr_eps(self) -> float:
        """Tolerance around a target."""
        return self.operating_points.fpr_eps

    @property
    def fpr_floor_max(self) -> float:
        """The lowest reachable false positive rate must not exceed this."""
        return self.operating_points.fpr_floor_max

    @property
    def min_targets_ok(self) -> int:
        """How many targets must be met."""
        return self.operating_points.min_targets_ok

    @property
    def coverage_min(self) -> float:
        """Least coverage at the primary operating point."""
        return self.decision_thresholds.coverage_at_0_05_min

    @property
    def lead_time_median_min(self) -> float:
        """Least median lead time, in steps."""
        return self.decision_thresholds.lead_time_median_min

    @property
    def window_sweep(self) -> tuple[int, ...]:
        """Layer D: values of the candidate's own window, in steps."""
        return self.decision_thresholds.robustness.window_sweep

    @property
    def max_label_flip_rate(self) -> float:
        """Layer D: share of the family that may get another label."""
        return self.decision_thresholds.robustness.max_label_flip_rate

    @property
    def protocol(self) -> str:
        """`strict` or `v0.4`."""
        return self.x_protocol

    @property
    def burn_in(self) -> int:
        """Windows before this step are ignored."""
        return self.x_burn_in

    @property
    def primary_fpr(self) -> float:
        """The operating point that the verdict is about."""
        return self.x_primary_fpr

    @property
    def event_count_min(self) -> int:
        """Fewer events than this make every verdict INCONCLUSIVE."""
        return self.x_event_count_min

    @property
    def alpha_per_look(self) -> float:
        """Level of the tests at each look: alpha is split evenly (Bonferroni) over the looks."""
        return self.x_alpha / self.x_looks

    @property
    def health_alpha(self) -> float:
        """Share of runs in which a monitor may abstain though nothing is wrong."""
        return self.x_health_alpha or self.x_alpha

    @property
    def refractory(self) -> int:
        """Steps within which alarms belong to one episode; the horizon unless set."""
        return self.x_refractory_steps or self.horizon
