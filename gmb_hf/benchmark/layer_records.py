"""What a results file says of one indicator's four layers, as models; see `result_records`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, ConfigDict, Field, FiniteFloat, model_validator

from gmb_hf.preregistration.documents import Many, Section
from gmb_hf.validation import nearest

Number = FiniteFloat | None
Count = Annotated[int, Field(ge=0)]
Label = Literal[
    "SUPPORTED_FOR_ALARM", "RANK_ONLY", "ESTIMATOR_UNSTABLE", "INCONCLUSIVE", "SCOPE_LIMITED"
]


def _open_to_extensions(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False
    schema["patternProperties"] = {"^x_": {}}


class ResultSection(Section):
    """A mapping of the results file: known keys are typed, others must begin with `x_`."""

    model_config = ConfigDict(extra="allow", json_schema_extra=_open_to_extensions)

    @model_validator(mode="before")
    @classmethod
    def _only_extensions(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        for key in data:
            if key not in cls.model_fields and not str(key).startswith("x_"):
                guess = nearest(str(key), cls.model_fields)
                hint = (
                    f"did you mean {guess}?"
                    if guess
                    else "known: "
                    + ", ".join(name for name in cls.model_fields if not name.startswith("x_"))
                )
                raise ValueError(f"{key} is unknown; {hint} (extensions begin with x_)")
        return data


class IntervalRecord(ResultSection):
    """An interval around a measured number."""

    low: Number
    high: Number
    level: Number = 0.95
    method: str = ""


class NullRecord(ResultSection):
    """What chance reaches at an equal false-alarm cost."""

    mean_coverage: Number
    p_value: Number
    fpr: Number = None
    draws: Count | None = None


class LayerARecord(ResultSection):
    """Ranking only; it never implies that a score may raise an alarm."""

    auc: Number
    ap: Number
    x_auc_run_mean: Number = None
    x_auc_run_sd: Number = None
    x_ap_run_mean: Number = None
    x_ap_run_sd: Number = None
    x_n_runs: Count | None = None


class AchievedRecord(ResultSection):
    """One target false positive rate and what was measured at its threshold."""

    target: FiniteFloat
    achieved: Number
    x_threshold: Annotated[float, AllowInfNan(True)] | None = None
    x_answer: Literal["THRESHOLD", "ABSTAIN"] | None = None
    x_achieved_pooled: Number = None
    x_interval: IntervalRecord | None = None
    x_alarming_runs: Count | None = None
    x_budget_used: Number = None
    x_effective_budget: Number = None
    x_met: bool | None = None
    x_state: Literal["met", "missed", "straddles"] | None = None
    x_few_runs: bool | None = None


class FloorRecord(ResultSection):
    """Why a target cannot be reached: the smallest rate that any alarm costs."""

    f_min_pos: Number
    gaps: dict[str, Number] = Field(default_factory=dict)
    tied_value: Number = None
    tied_windows: Count | None = None


class LayerBRecord(ResultSection):
    """The operationality gate."""

    targets: Many[FiniteFloat]
    achieved: Many[AchievedRecord]
    ok_targets: Count | None
    fpr_min: Number
    controllability_pass: bool | None
    fpr_floor_detected: bool | None
    x_passed: bool | None = None
    x_floor_certificate: FloorRecord | None = None
    x_calibration: str | None = None
    x_n_runs: Count | None = None
    x_n_windows: Count | None = None
    x_dropped_windows: Count | None = None


class OperatingPointRecord(ResultSection):
    """What an alarm at one target rate is worth; times in steps."""

    fpr: FiniteFloat
    coverage: Number
    lead_time_median: Number
    lead_time_iqr: Number
    lead_time_success: Number
    x_threshold: Annotated[float, AllowInfNan(True)] | None = None
    x_coverage_interval: IntervalRecord | None = None
    x_n_events: Count | None = None
    x_n_covered: Count | None = None
    x_n_too_early: Count | None = None
    x_lead_time_q05: Number = None
    x_lead_time_q95: Number = None
    x_lead_time_interval: IntervalRecord | None = None
    x_lead_time_intervals: dict[str, IntervalRecord] = Field(default_factory=dict)
    x_lead_time_success_interval: IntervalRecord | None = None
    x_lead_times: Many[FiniteFloat] = ()
    x_n_censored: Count | None = None
    x_false_alarms_per_run: Number = None
    x_false_alarms_per_10k_steps: Number = None
    x_time_in_warning: Number = None
    x_episodes: Count | None = None
    x_episode_precision: Number = None
    x_episodes_between: Count | None = None
    x_shift_null: NullRecord | None = None
    x_risk_set_null: NullRecord | None = None
    x_p_value: Number = None

    @property
    def by_chance(self) -> float | None:
        """The coverage that the harder of the two nulls gives; None where there is none."""
        nulls = (self.x_shift_null, self.x_risk_set_null)
        known = [null.mean_coverage for null in nulls if null is not None]
        return max((value for value in known if value is not None), default=None)


class LayerCRecord(ResultSection):
    """Utility at the operating points."""

    at_fpr: Many[OperatingPointRecord]


class MemberRecord(ResultSection):
    """One member of the robustness family and the label that it gets."""

    name: str
    label: Label
    layer_b_pass: bool | None = None


class LayerDRecord(ResultSection):
    """Robustness over the preregistered family."""

    family_size: Count | None
    pass_rate: Number
    label_flip_rate: Number
    sensitivity_notes: str = ""
    x_central_label: Label | None = None
    x_members: Many[MemberRecord] = ()


class DiagnosticsRecord(ResultSection):
    """How much resolution and information the score has where it matters."""

    effective_support_size: Number = None
    tie_dominance: Number = None
    comments: str = ""
    x_tail_support_size: Number = None
    x_n_eff: Number = None
    x_design_effect: Number = None
    x_abstain_rate: Number = None
    x_achievable: Many[Many[FiniteFloat]] = ()
