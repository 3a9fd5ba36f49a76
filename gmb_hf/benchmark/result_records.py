"""The results file as models: schema v0.4, with this package's extensions under `x_` keys.

Fields without the prefix are the specification's and mean what it says. A number that does not
exist is null; `x_null_reasons` of the indicator says why, by the path of the field. Other people's
files may carry any further `x_` key; a key that is neither is refused with the nearest named.
Spec: GMB v0.4, sections 4, 5 and 8.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat

from gmb_hf.benchmark.layer_records import (
    AchievedRecord,
    Count,
    DiagnosticsRecord,
    IntervalRecord,
    Label,
    LayerARecord,
    LayerBRecord,
    LayerCRecord,
    LayerDRecord,
    Number,
    OperatingPointRecord,
    ResultSection,
)
from gmb_hf.preregistration.documents import Many


class ScopeRecord(ResultSection):
    """The stratum that a `SCOPE_LIMITED` label is bound to."""

    name: str
    where: str


class StratumRecord(ResultSection):
    """What came out in one stratum, at the primary operating point."""

    name: str
    where: str
    n_runs: Count
    n_events: Count
    passed: bool
    reasons: Many[str] = ()
    sentence: str = ""
    ok_targets: Count | None = None
    achieved: Number = None
    interval: IntervalRecord | None = None
    coverage: Number = None
    coverage_interval: IntervalRecord | None = None
    chance: Number = None
    lead_time_median: Number = None
    p_value: Number = None
    p_adjusted: Number = None
    label_flip_rate: Number = None


class IndicatorRecord(ResultSection):
    """One score, its four layers and its one label."""

    name: str
    family: str | None
    layer_A: LayerARecord
    layer_B: LayerBRecord
    layer_C: LayerCRecord
    layer_D: LayerDRecord
    label: Label
    diagnostics: DiagnosticsRecord = DiagnosticsRecord()
    x_sign: Literal[1, -1] | None = None
    x_sees_test_labels: bool | None = None
    x_alarm_eligible: bool | None = None
    x_reasons: Many[str] = ()
    x_sentence: str = ""
    x_p_adjusted: Number = None
    x_runs_to_settle: Count | None = None
    x_scope: ScopeRecord | None = None
    x_strata: Many[StratumRecord] = ()
    x_null_reasons: dict[str, str] = Field(default_factory=dict)

    def point(self, fpr: float) -> OperatingPointRecord | None:
        """The operating point at one target rate, or None."""
        return next((point for point in self.layer_C.at_fpr if point.fpr == fpr), None)

    def achieved(self, target: float) -> AchievedRecord | None:
        """What was measured at one target rate, or None."""
        return next((item for item in self.layer_B.achieved if item.target == target), None)


class MetaRecord(ResultSection):
    """Which evaluation this is."""

    benchmark: Literal["GMB"] = "GMB"
    run_id: str
    date: str
    commit_hash: str | None = None
    prereg_path: str | None = None


class BoundaryRecord(ResultSection):
    """The system that the verdict speaks about."""

    task: str | None
    model: str | None
    seeds_eval: Many[int | str] = ()


class EventRecord(ResultSection):
    """The event, and t* of each run in steps (null: none was registered)."""

    type: Literal["E_jump", "E_plateau", "E_regime"]
    t_event_by_seed: dict[str, int | FiniteFloat | None] = Field(default_factory=dict)
    x_without_event: dict[str, str] = Field(default_factory=dict)
    x_excluded: dict[str, str] = Field(default_factory=dict)


class SummaryRecord(ResultSection):
    """How much there was to judge by."""

    n_seeds: Count
    n_events: Count | None
    notes: str = ""
    x_notes: Many[str] = ()
    x_event_count_min: Count | None = None
    x_n_too_early: Count | None = None
    x_n_excluded: Count | None = None
    x_look: Count | None = None
    x_looks: Count | None = None


class TablesRecord(ResultSection):
    """Where the tables of section 8 lie, relative to the results file."""

    gate_summary_path: str | None = None
    utility_at_fpr_path: str | None = None
    robustness_path: str | None = None


class CalibrationRecord(ResultSection):
    """Where the thresholds come from and what their budgets are worth."""

    method: Literal["locked", "explore", "cross_run", "in_sample", "given"]
    n_runs: Count | None = None
    effective_budget: dict[str, Number] = Field(default_factory=dict)


class SourceRecord(ResultSection):
    """A dataset of the Hub at one commit: the runs that were judged, or what they learned."""

    what: Literal["runs", "data"]
    repo: str
    revision: str
    config: str
    fingerprint: str


class ProvenanceRecord(ResultSection):
    """What would have to be the same for the same numbers to come out."""

    package_version: str
    python: str
    packages: dict[str, str] = Field(default_factory=dict)
    prereg_hash: str | None = None
    lock_hash: str | None = None
    explore_fingerprint: str | None = None
    evaluation_fingerprint: str | None = None
    seed_of_draws: int | None = None
