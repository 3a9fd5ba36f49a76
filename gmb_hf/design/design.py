"""The sections of a preregistration, with the field names of the v0.4 schema.

Fields that begin with `x_` are this package's extensions; all others load from and save to the
reference's files unchanged. Each description is also the comment of `Prereg.template()`.
Spec: GMB v0.4, sections 1 to 6.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, field_validator, model_validator

from gmb_hf.documents import Many, Section, load_yaml, template, write_yaml
from gmb_hf.errors import InputError, repeated, unknown

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


# What asks to be an alarm: one score, or several that are combined into one.


ENSEMBLE = "ensemble"
"""The family of a logistic combination of other scores."""

_PENALTIES = (1e-8, 1e8)  # beyond them float64 does not find the minimum to the digits kept


class Score(Section):
    """A registered indicator or a column of the log, with what is chosen about it."""

    name: Annotated[str, Field(min_length=1)] = Field(
        description="a registered indicator, or a column of the log",
        examples=["csd_autocorrelation"],
    )
    family: Text = Field(
        None,
        description="dynamics, process, ...; external or judge: a column of the log",
        examples=["dynamics"],
    )
    params: dict[str, ParamValue] = Field(
        default_factory=dict,
        description="the indicator's parameters; windows in steps",
        examples=[{"window": 200}],
    )
    x_sign: Literal[1, -1] | None = Field(
        None, description="orientation: 1 as declared, -1 reversed; null: as declared"
    )
    x_sees_test_labels: bool | None = Field(
        None, description="true: an oracle, not a monitor; null: as registered"
    )

    @field_validator("params", mode="before")
    @classmethod
    def _scalars(cls, params: Any) -> Any:
        if not isinstance(params, dict):
            return params
        for key, value in params.items():
            if not isinstance(value, (int, float, str, bool)):
                raise ValueError(f"{key} must be a number, text, true or false, got {value!r}")
        return {key: _as_number(value) for key, value in params.items()}


def _as_number(value: ParamValue) -> ParamValue:
    # YAML 1.1 writers leave 1e-3 unquoted, and YAML 1.1 readers then take it for text.
    if isinstance(value, str) and value[:1] in tuple("+-.0123456789"):
        try:
            return float(value)
        except ValueError:
            return value
    return value


class Ensemble(Section):
    """A logistic combination: fitted on some explore runs, calibrated on the others."""

    members: Many[Score] = Field(description="the scores that are combined; a name alone will do")
    fit_share: Share = Field(
        0.3, description="share of the explore runs that the coefficients are fitted on"
    )
    penalties: Many[FiniteFloat] = Field(
        (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
        description="L2 penalties to choose from by cross-validation over the fitting runs",
    )
    folds: Annotated[int, Field(ge=2)] = Field(5, description="folds of that cross-validation")
    split_seed: Annotated[int, Field(ge=0)] = Field(
        0, description="decides, with a run's name, which side it is on"
    )

    @field_validator("members", mode="before")
    @classmethod
    def _names(cls, members: Any) -> Any:
        if not isinstance(members, (list, tuple)):
            return members
        return [{"name": item} if isinstance(item, str) else item for item in members]

    @model_validator(mode="after")
    def _sound(self) -> Ensemble:
        names = [member.name for member in self.members]
        if len(names) < 2:
            raise ValueError(f"members must be two scores at least, got {len(names)}")
        twice = repeated(names)
        if twice is not None:
            raise ValueError(f"members: {twice!r} is listed twice")
        nested = [member.name for member in self.members if member.family == ENSEMBLE]
        if nested:
            raise ValueError(f"members: {nested[0]!r} is itself an ensemble; list its members")
        if not self.penalties:
            raise ValueError("penalties must name at least one")
        least, most = _PENALTIES
        wrong = [penalty for penalty in self.penalties if not least <= penalty <= most]
        if wrong:
            raise ValueError(f"penalties must be from {least:g} to {most:g}, got {wrong[0]:g}")
        return self


class Candidate(Score):
    """A score that asks to be an alarm."""

    x_ensemble: Ensemble | None = Field(
        None,
        description="family ensemble: {members: [...]}, scores combined by a logistic regression",
        examples=[()],
    )

    @model_validator(mode="before")
    @classmethod
    def _family_of_ensemble(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("x_ensemble") and data.get("family") is None:
            return {**data, "family": ENSEMBLE}
        return data

    @model_validator(mode="after")
    def _ensemble_or_not(self) -> Candidate:
        if self.family == ENSEMBLE and self.x_ensemble is None:
            raise ValueError("an ensemble needs x_ensemble: {members: [...]}")
        if self.x_ensemble is None:
            return self
        if self.family != ENSEMBLE:
            raise ValueError(f"x_ensemble makes the family {ENSEMBLE}, it is {self.family!r}")
        if self.params:
            raise ValueError("an ensemble has no params of its own; give them to its members")
        if self.name in {member.name for member in self.x_ensemble.members}:
            raise ValueError(f"{self.name!r} is a member of itself; give the ensemble another name")
        return self


# Strata: parts of the runs, named before evaluation, in which a score may work though it fails


EVENT_STEP = "event_step"
"""t* of a run; infinite where no event came by the end of its log, which is later than any step."""

Facts = Mapping[str, NDArray[np.float64]]
"""One number per run by name, float64 [R]; NaN: not known."""

_COMPARISON = re.compile(
    r"\s*(?P<name>[A-Za-z_][\w./-]*)\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<number>\S+)\s*"
)
_AND = re.compile(r"\s+and\s+")
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Comparison:
    """`name sign number`, e.g. `event_step > 1000`."""

    name: str
    sign: str
    number: float


def parse(where: str) -> tuple[Comparison, ...]:
    """The comparisons of a predicate, all of which must hold.

    Raises:
        ValueError: it is no predicate; the message shows one.

    >>> parse("weight_decay >= 0.5 and seed < 100")[1]
    Comparison(name='seed', sign='<', number=100.0)
    """
    found = []
    for part in _AND.split(where):
        match = _COMPARISON.fullmatch(part)
        number = _number(match["number"]) if match else None
        if match is None or number is None:
            raise ValueError(
                f"{where!r} is no predicate: write comparisons of a name with a number, joined by "
                f"'and', e.g. {EVENT_STEP} > 1000 and weight_decay >= 0.5"
            )
        found.append(Comparison(match["name"], match["sign"], number))
    return tuple(found)


class Stratum(Section):
    """A part of the runs in which a score is judged as well."""

    name: Annotated[str, Field(min_length=1)] = Field(
        description="what the part is called", examples=["late_events"]
    )
    where: str = Field(
        description="comparisons of a run's numbers, joined by 'and'",
        examples=[f"{EVENT_STEP} > 1000"],
    )

    @field_validator("where")
    @classmethod
    def _is_predicate(cls, where: str) -> str:
        parse(where)
        return where

    @property
    def names(self) -> tuple[str, ...]:
        """The facts that the predicate asks for, each once."""
        return tuple(dict.fromkeys(item.name for item in parse(self.where)))

    def holds(self, facts: Facts) -> NDArray[np.bool_]:
        """Which runs belong to the stratum, bool [R].

        A run whose number is not known belongs to no stratum that asks for it.

        Args:
            facts: by name; the step of the event under `event_step`.

        Raises:
            InputError: a name is not among the facts (the nearest is named).
        """
        chosen: NDArray[np.bool_] | None = None
        for item in parse(self.where):
            if item.name not in facts:
                raise unknown("number of a run", item.name, facts, where=f"stratum {self.name!r}")
            values = facts[item.name]
            met = _COMPARE[item.sign](values, item.number) & ~np.isnan(values)
            chosen = met if chosen is None else chosen & met
        assert chosen is not None
        return chosen


def event_facts(event_step: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The fact `event_step` of steps t* [R] that are NaN where there was no event."""
    return {EVENT_STEP: np.where(np.isnan(event_step), np.inf, event_step)}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if np.isfinite(number) else None


# The flat names of a preregistration, which `Prereg.minimal` and `replace` take.


# Flat name -> place in the document; `minimal` and `replace` take these names.
FLAT: Mapping[str, tuple[str, ...]] = {
    "task": ("boundary", "task"),
    "model": ("boundary", "model"),
    "optimizer": ("boundary", "optimizer"),
    "schedule": ("boundary", "schedule"),
    "cadence": ("boundary", "checkpoint_every_steps"),
    "seeds_explore": ("boundary", "seeds_explore"),
    "seeds_eval": ("boundary", "seeds_eval"),
    "event_type": ("event", "type"),
    "metric": ("event", "metric"),
    "w_event": ("event", "window_W_event"),
    "jump_threshold": ("event", "jump_threshold"),
    "event_t_min": ("event", "x_event_t_min"),
    "theta_floor": ("event", "x_theta_floor"),
    "require_new_max": ("event", "x_require_new_max"),
    "plateau_checkpoints": ("event", "x_plateau_checkpoints"),
    "plateau_threshold": ("event", "x_plateau_threshold"),
    "plateau_regression": ("event", "x_plateau_regression"),
    "regime_quantile": ("event", "x_regime_quantile"),
    "regime_radius": ("event", "x_regime_radius"),
    "regime_tolerance": ("event", "x_regime_tolerance"),
    "horizon": ("labels", "positive_window", "horizon_steps"),
    "lead_time_target": ("labels", "positive_window", "lead_time_target"),
    "safe_gap": ("labels", "negative_window", "safe_gap_steps"),
    "fpr_targets": ("operating_points", "fpr_targets"),
    "fpr_eps": ("operating_points", "fpr_eps"),
    "fpr_floor_max": ("operating_points", "fpr_floor_max"),
    "min_targets_ok": ("operating_points", "min_targets_ok"),
    "candidates": ("candidates",),
    "coverage_min": ("decision_thresholds", "coverage_at_0_05_min"),
    "lead_time_median_min": ("decision_thresholds", "lead_time_median_min"),
    "window_sweep": ("decision_thresholds", "robustness", "window_sweep"),
    "max_label_flip_rate": ("decision_thresholds", "robustness", "max_label_flip_rate"),
    "protocol": ("x_protocol",),
    "burn_in": ("x_burn_in",),
    "primary_fpr": ("x_primary_fpr",),
    "event_count_min": ("x_event_count_min",),
    "null_draws": ("x_null_draws",),
    "bootstrap_draws": ("x_bootstrap_draws",),
    "alpha": ("x_alpha",),
    "health_alpha": ("x_health_alpha",),
    "seed": ("x_seed",),
    "smoothing_sweep": ("x_smoothing_sweep",),
    "run_groups": ("x_run_groups",),
    "refractory": ("x_refractory_steps",),
    "nan": ("x_nan",),
    "strata": ("x_strata",),
    "looks": ("x_looks",),
    "max_eval_seeds": ("x_max_eval_seeds",),
}


def nested(document: Mapping[str, Any], flat: Mapping[str, Any]) -> dict[str, Any]:
    """`document` with each flat name set at its place."""
    result = {key: _copy(value) for key, value in document.items()}
    for name, value in flat.items():
        if name not in FLAT:
            raise unknown("prereg field", name, FLAT)
        *parents, last = FLAT[name]
        section = result
        for parent in parents:
            section = section.setdefault(parent, {})
        section[last] = value
    return result


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


# The preregistration: everything that is fixed before a held-out run is looked at.


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
