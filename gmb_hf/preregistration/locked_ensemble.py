"""What a lock records of an ensemble: its formula, and which runs it was fitted on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FiniteFloat, model_validator

from gmb_hf.preregistration.documents import Many, Section
from gmb_hf.preregistration.sections import ParamValue


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
