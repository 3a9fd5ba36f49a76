"""What a lock records about explore runs and candidates: the `x_lock` section as models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, Field

from gmb_hf.preregistration.documents import Many, Section
from gmb_hf.preregistration.locked_ensemble import LockedEnsemble
from gmb_hf.preregistration.sections import ParamValue

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
    """What the drift of one live score is measured by; see `gmb_hf.monitor.health`."""

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
