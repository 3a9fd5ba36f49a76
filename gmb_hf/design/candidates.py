"""What asks to be an alarm: one score, or several that are combined into one."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, field_validator, model_validator

from gmb_hf.base.documents import Many, Section
from gmb_hf.base.errors import repeated

Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, lt=1), "share"]
Text = str | None
ParamValue = int | float | str | bool

ENSEMBLE = "ensemble"
"""The family of learned combinations of other scores."""
LEARNED_METRIC = "learned_metric"
"""The combination of the event's own metric alone: what anybody has who looks at the metric."""

_PENALTIES = (1e-8, 1e8)  # beyond them float64 does not find the minimum to the digits kept
_FEATURE = re.compile(r"score|(relative_)?change_[1-9]\d{0,3}|below_maximum|place|deviations")
_MOST_TREES, _MOST_LEAVES = 200, 16  # a lock holds them all


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
    """A learned combination of scores: fitted on some explore runs, calibrated on the others."""

    members: Many[Score] = Field(description="the scores that are combined; a name alone will do")
    method: Literal["logistic", "boosted"] = Field(
        "logistic", description="logistic: a regression; boosted: gradient-boosted trees"
    )
    features: Many[str] = Field(
        ("score",),
        description="what of each member: score; change_5, over 5 checkpoints; below_maximum, its "
        "distance from its largest value so far; in units of the run's own past: place, from its "
        "least (0) to its largest value so far (1); deviations, its distance from its mean so far "
        "in standard deviations; relative_change_5, by its range so far",
    )
    fit_share: Share = Field(
        0.3, description="share of the explore runs that the coefficients are fitted on"
    )
    penalties: Many[FiniteFloat] = Field(
        (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0),
        description="logistic: L2 penalties to choose from by cross-validation over the fitting "
        "runs",
    )
    leaves: Many[Positive] = Field(
        (2, 4), description="boosted: most leaves of a tree, to choose from in the same way"
    )
    trees: Many[Positive] = Field(
        (50, 100, 200), description="boosted: numbers of trees to choose from"
    )
    learning_rate: Share = Field(0.1, description="boosted: what a tree's values are shrunk by")
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
        if len(self.members) * max(len(self.features), 1) < 2:
            raise ValueError(
                f"members must be two scores at least, got {len(self.members)}, or one with two "
                "features"
            )
        twice = repeated(member.name for member in self.members)
        if twice is not None:
            raise ValueError(f"members: {twice!r} is listed twice")
        for member in self.members:
            if member.family == ENSEMBLE:
                raise ValueError(
                    f"members: {member.name!r} is itself an ensemble; list its members"
                )
        for feature in self.features:
            if not _FEATURE.fullmatch(feature):
                known = (
                    "score, change_N over N checkpoints, below_maximum, place, deviations and "
                    "relative_change_N"
                )
                raise ValueError(f"features: {feature!r} is none of {known}")
        if repeated(self.features) is not None:
            raise ValueError(f"features: {repeated(self.features)!r} is listed twice")
        bounds = {"penalties": _PENALTIES, "leaves": (2, _MOST_LEAVES), "trees": (1, _MOST_TREES)}
        for name in ("features", *bounds):
            if not getattr(self, name):
                raise ValueError(f"{name} must name at least one")
        for name, (least, most) in bounds.items():
            for value in getattr(self, name):
                if not least <= value <= most:
                    raise ValueError(f"{name} must be from {least:g} to {most:g}, got {value:g}")
        return self


class Pretrained(Section):
    """A combination that was fitted on other runs; thresholds are made on the explore runs."""

    source: Annotated[str, Field(min_length=1)] = Field(
        description="a name that the package ships (gmb score list), or a file"
    )
    hash: str = Field("", description="its hash; another score of that name is refused")


class Candidate(Score):
    """A score that asks to be an alarm."""

    x_ensemble: Ensemble | None = Field(
        None,
        description="family ensemble: {members: [...]}, a learned combination of scores",
        examples=[()],
    )
    x_pretrained: Pretrained | None = Field(
        None,
        description="family ensemble: {source: NAME, hash: ...}, a combination fitted elsewhere",
        examples=[()],
    )

    @model_validator(mode="before")
    @classmethod
    def _family_of_ensemble(cls, data: Any) -> Any:
        combined = isinstance(data, dict) and (data.get("x_ensemble") or data.get("x_pretrained"))
        if combined and data.get("family") is None:
            return {**data, "family": ENSEMBLE}
        return data

    @model_validator(mode="after")
    def _ensemble_or_not(self) -> Candidate:
        if self.x_pretrained is not None:
            if self.x_ensemble is not None:
                raise ValueError("x_ensemble is fitted here, x_pretrained was elsewhere; keep one")
            if self.family != ENSEMBLE:
                raise ValueError(f"x_pretrained makes the family {ENSEMBLE}, it is {self.family!r}")
            if self.params:
                raise ValueError("a pretrained score has no params of its own")
            return self
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
