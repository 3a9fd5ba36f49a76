"""The sections of a preregistration, with the field names of the v0.4 schema.

Fields that begin with `x_` are this package's extensions; all others load from and save to the
reference's files unchanged. Each description is also the comment of `Prereg.template()`.
Spec: GMB v0.4, sections 1 to 6.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, field_validator, model_validator

from gmb_hf.preregistration.documents import Many, Section

Steps = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, le=1)]
Text = str | None
ParamValue = int | float | str | bool


class Meta(Section):
    """Who fixed what, when."""

    benchmark: Literal["GMB"] = Field("GMB", description="always GMB")
    version: Literal["v0.4"] = Field("v0.4", description="the schema's version")
    date_locked: Text = Field(None, description="YYYY-MM-DD, the day this was fixed")
    researcher: Text = Field(None, description="who answers for it")
    commit_hash: Text = Field(None, description="the code that trained the runs")


class Boundary(Section):
    """The system that the verdict speaks about, and nothing beyond it."""

    task: Text = Field(None, description="what is learned")
    model: Text = Field(None, description="architecture, width and depth")
    optimizer: Text = Field(None, description="optimizer and regularization")
    schedule: Text = Field(None, description="steps, batch and learning-rate schedule")
    checkpoint_every_steps: Steps | None = Field(
        None, description="steps between two checkpoints", examples=[10]
    )
    seeds_explore: Many[int] = Field((), description="free search happens on these seeds only")
    seeds_eval: Many[int] = Field((), description="held out: looked at once, by evaluate")

    @field_validator("seeds_explore", "seeds_eval")
    @classmethod
    def _once(cls, seeds: tuple[int, ...]) -> tuple[int, ...]:
        repeated = sorted({seed for seed in seeds if seeds.count(seed) > 1})
        if repeated:
            raise ValueError(f"seed {repeated[0]} is listed twice")
        return seeds


class Event(Section):
    """What the alarm must warn of."""

    type: Literal["E_jump", "E_plateau", "E_regime"] = Field(
        "E_jump", description="E_jump, E_plateau or E_regime"
    )
    metric: str = Field("test_acc", description="the observable that jumps or settles")
    window_W_event: Steps = Field(
        50, description="steps over which it jumps; a multiple of the cadence"
    )
    jump_threshold: Annotated[float, Field(gt=0)] = Field(
        0.15, description="rise of the metric that makes an event"
    )
    earliest_rule: Literal[True] = Field(True, description="the first time counts (spec 1.2)")
    x_event_t_min: Annotated[int, Field(ge=0)] | None = Field(
        None, description="no event is registered before this step", examples=[0]
    )
    x_theta_floor: float | None = Field(
        None, description="level that the metric must reach after the jump", examples=[0.5]
    )
    x_require_new_max: bool = Field(False, description="true: a recovery from a dip is no event")
    x_plateau_checkpoints: Steps | None = Field(
        None, description="E_plateau: consecutive checkpoints needed", examples=[5]
    )
    x_plateau_threshold: FiniteFloat | None = Field(
        None, description="E_plateau: level that they must hold", examples=[0.95]
    )
    x_plateau_regression: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="E_plateau: so many in a row may lie below; null: 0",
        examples=[0],
    )
    x_regime_quantile: Share | None = Field(
        None, description="E_regime: a signal moves at this quantile; null: 0.99", examples=[0.99]
    )
    x_regime_radius: Steps | None = Field(
        None,
        description="E_regime: steps from t to the signals, >= the cadence",
        examples=[20],
    )
    x_regime_tolerance: Annotated[int, Field(ge=0)] | None = Field(
        None, description="E_regime: steps between both estimates; null: 15", examples=[15]
    )

    @model_validator(mode="before")
    @classmethod
    def _published_regime(cls, data: Any) -> Any:
        # What is frozen must stand in the file, not in the code that reads it.
        if not isinstance(data, dict) or data.get("type") != "E_regime":
            return data
        given = {key: value for key, value in data.items() if value is not None}
        return {"x_regime_quantile": 0.99, "x_regime_tolerance": 15, **given}

    @model_validator(mode="after")
    def _whole(self) -> Event:
        length = self.x_plateau_checkpoints
        if self.type == "E_plateau" and None in (length, self.x_plateau_threshold):
            raise ValueError("E_plateau needs x_plateau_checkpoints and x_plateau_threshold")
        if length is not None and (self.x_plateau_regression or 0) >= length:
            raise ValueError(
                f"x_plateau_regression {self.x_plateau_regression} must be less than "
                f"x_plateau_checkpoints {length}"
            )
        if self.type == "E_regime" and self.x_regime_radius is None:
            raise ValueError("E_regime needs x_regime_radius, in steps")
        return self


class PositiveWindow(Section):
    """Where an alarm is early warning (spec 2.1)."""

    horizon_steps: Steps = Field(
        description="required: 0 < t* - t <= this is positive", examples=[2000]
    )
    lead_time_target: Annotated[int, Field(ge=0)] = Field(
        200, description="steps of warning that count as success"
    )


class NegativeWindow(Section):
    """Where an alarm is false (spec 2.2)."""

    safe_gap_steps: Steps = Field(
        description="required: t <= t* - this is negative; larger than the horizon",
        examples=[4000],
    )


class Labels(Section):
    """Positive and negative windows; everything else is ignored."""

    positive_window: PositiveWindow
    negative_window: NegativeWindow


class OperatingPoints(Section):
    """The false positive rates that an alarm may cost (spec 4.2)."""

    fpr_targets: Many[Share] = Field((0.01, 0.05, 0.10), description="target rates")
    fpr_eps: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.01, description="tolerance around a target"
    )
    fpr_floor_max: Rate = Field(0.20, description="the lowest reachable rate must not exceed this")
    min_targets_ok: Steps = Field(2, description="how many targets must be met")

    @model_validator(mode="after")
    def _reachable(self) -> OperatingPoints:
        if len(set(self.fpr_targets)) != len(self.fpr_targets) or not self.fpr_targets:
            raise ValueError("fpr_targets must name at least one rate, each once")
        if self.min_targets_ok > len(self.fpr_targets):
            raise ValueError(
                f"min_targets_ok is {self.min_targets_ok}, but there are only "
                f"{len(self.fpr_targets)} fpr_targets"
            )
        return self


class Robustness(Section):
    """The admissible family of layer D (spec 4.4)."""

    window_sweep: Many[Steps] = Field(
        (100, 150, 200, 250), description="values of the candidate's own window, in steps"
    )
    max_label_flip_rate: Rate = Field(
        0.20, description="share of the family that may get another label"
    )


class DecisionThresholds(Section):
    """What counts as materially useful (spec 4.3 and 5)."""

    coverage_at_0_05_min: Rate = Field(
        0.30, description="least coverage at the primary operating point"
    )
    lead_time_median_min: Annotated[float, Field(ge=0)] = Field(
        50.0, description="least median lead time, in steps"
    )
    robustness: Robustness = Robustness()


class Reporting(Section):
    """What is shown, whatever comes out."""

    required_tables: Many[str] = Field(
        ("gate_summary", "utility_at_fpr", "robustness"), description="spec section 8"
    )
    report_all_failures: Literal[True] = Field(True, description="always true (spec 6.3)")
