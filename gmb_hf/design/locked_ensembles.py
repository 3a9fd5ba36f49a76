"""Learned combinations of scores as a lock freezes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, field_validator, model_validator

from gmb_hf.base.documents import Count, Many, Section
from gmb_hf.design.candidates import Ensemble, ParamValue, Pretrained


class LockedMember(Section):
    """One member: which score it is, and what it adds to logistic log-odds.

    For each feature x of the ensemble it adds coefficient * asinh((x - center) / scale).
    """

    name: str
    family: str | None = None
    params: dict[str, ParamValue] = Field(default_factory=dict)
    sign: Literal[1, -1] = Field(description="times the declared orientation")
    sees_test_labels: bool | None = None
    center: Many[FiniteFloat] = Field((), description="median over the fitting windows")
    scale: Many[Annotated[FiniteFloat, Field(gt=0)]] = Field(
        (), description="their spread, as that of one normal sd"
    )
    coefficient: Many[FiniteFloat] = ()

    @field_validator("center", "scale", "coefficient", mode="before")
    @classmethod
    def _of_one_feature(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int | float) else value  # locks before features


class LockedTree(Section):
    """One tree: at split k a row goes left where its feature <= threshold, else right.

    A child is a later split, or -1 - j for leaf j. Features count member by member.
    """

    feature: Many[Count]
    threshold: Many[FiniteFloat]
    left: Many[int]
    right: Many[int]
    value: Many[FiniteFloat] = Field(description="of each leaf, added to the log-odds")

    @model_validator(mode="after")
    def _is_a_tree(self) -> LockedTree:
        splits, leaves = len(self.feature), len(self.value)
        if not len(self.threshold) == len(self.left) == len(self.right) == splits:
            raise ValueError("feature, threshold, left and right are not of one length")
        # Every split and leaf is reached once, from an earlier split: there is no way round.
        children = sorted([0 if splits else -1, *self.left, *self.right])
        pairs = enumerate(zip(self.left, self.right, strict=True))
        early = any(0 <= child <= split for split, pair in pairs for child in pair)
        if early or children != [*range(-leaves, 0), *range(splits)]:
            raise ValueError("left and right do not reach each later split and each leaf once")
        return self


class LockedEnsemble(Section):
    """A learned combination, frozen: log-odds, logistic or a sum of trees."""

    method: Literal["logistic", "boosted"] = "logistic"
    squash: Literal["asinh"] = Field("asinh", description="keeps far tails from deciding alone")
    features: Many[str] = ("score",)
    members: Many[LockedMember]
    intercept: FiniteFloat
    trees: Many[LockedTree] = ()
    setting: str = Field(description="L2 penalty, or trees, with the least cross-validated loss")
    log_losses: dict[str, FiniteFloat] = Field(
        description="setting -> cross-validated log loss; ln 2 = 0.693 is a coin's"
    )
    fit_runs: Many[str] = Field(description="explore runs that the formula was fitted on")
    calibrate_runs: Many[str] = Field(description="the others, which the thresholds are from")
    n_calibration_runs: int = Field(ge=0, description="those of them with negative windows")
    pretrained: str = Field("", description="hash of the pretrained score that it is")
    fitted_elsewhere: str = Field("", description="what that one was fitted on")

    @model_validator(mode="before")
    @classmethod
    def _of_a_penalty(cls, data: Any) -> Any:
        if isinstance(data, dict) and "penalty" in data:  # locks before trees
            data = {**data, "setting": repr(data["penalty"])}
            del data["penalty"]
        return data

    @model_validator(mode="after")
    def _consistent(self) -> LockedEnsemble:
        if self.setting not in self.log_losses:
            raise ValueError(f"setting {self.setting} is not among log_losses")
        both = set(self.fit_runs) & set(self.calibrate_runs)
        if both:
            raise ValueError(f"{min(both)!r} is among fit_runs and calibrate_runs")
        wanted = len(self.features) if self.method == "logistic" else 0
        for member in self.members:
            counts = {len(member.center), len(member.scale), len(member.coefficient)}
            if counts != {wanted}:
                what = "center, scale and coefficient"
                raise ValueError(f"{member.name!r} has not {wanted} of each of {what}")
        count = len(self.members) * len(self.features)
        if max((feature for tree in self.trees for feature in tree.feature), default=0) >= count:
            raise ValueError(f"a tree splits on a feature beyond the {count} that there are")
        return self

    @property
    def log_loss(self) -> float:
        """Cross-validated, at the chosen setting."""
        return self.log_losses[self.setting]

    @property
    def at_edge(self) -> bool:
        """Whether a penalty beyond those that were tried could be better."""
        tried = [float(one) for one in self.log_losses] if self.method == "logistic" else []
        return len(tried) > 1 and float(self.setting) in (min(tried), max(tried))

    def by_member(self) -> list[tuple[str, float]]:
        """The share of the log-odds that each member carries, the largest first; they sum to 1.

        By the sizes of its coefficients, whose features are in standard units, or by its splits.
        """
        return _shares((one.name, weight) for one, weight in self._weights())

    def by_family(self) -> list[tuple[str, float]]:
        """The same by the members' families."""
        return _shares((one.family or "external", weight) for one, weight in self._weights())

    def _weights(self) -> Iterator[tuple[LockedMember, float]]:
        """How much each member weighs, feature by feature."""
        splits = Counter(feature for tree in self.trees for feature in tree.feature)
        for number, member in enumerate(self.members):
            for place in range(len(self.features)):
                if self.method == "logistic":
                    yield member, abs(member.coefficient[place])
                else:
                    yield member, float(splits[number * len(self.features) + place])

    def leans_on(self, most: int) -> list[tuple[str, float]]:
        """The features with the largest coefficients, or that most splits are on, with these."""
        names = [feature_name(one.name, of) for one in self.members for of in self.features]
        if self.method == "logistic":
            weights = [x for member in self.members for x in member.coefficient]
        else:
            splits = Counter(feature for tree in self.trees for feature in tree.feature)
            weights = [float(splits[number]) for number in range(len(names))]
        return sorted(zip(names, weights, strict=True), key=lambda item: -abs(item[1]))[:most]


def _shares(weights: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    total: dict[str, float] = {}
    for name, weight in weights:
        total[name] = total.get(name, 0.0) + weight
    whole = sum(total.values()) or 1.0
    return sorted(((name, weight / whole) for name, weight in total.items()), key=lambda x: -x[1])


def feature_name(member: str, feature: str) -> str:
    """What a feature of a member is called.

    >>> feature_name("effective_rank", "score"), feature_name("effective_rank", "change_5")
    ('effective_rank', 'change_5(effective_rank)')
    """
    return member if feature == "score" else f"{feature}({member})"


def pretrained_fault(
    declared: Pretrained, locked: LockedEnsemble | None, explore_runs: Sequence[str]
) -> str | None:
    """What of a frozen pretrained score is not as the design asks for; None if nothing."""
    if locked is None or not locked.pretrained:
        return " is a pretrained score without its formula"
    if declared.hash and declared.hash != locked.pretrained:
        return f": its formula is {locked.pretrained[:16]}, the prereg's {declared.hash[:16]}"
    if locked.fit_runs or sorted(locked.calibrate_runs) != sorted(explore_runs):
        return ": no run of this lock was fitted on, all of the explore runs calibrate it"
    return None


def ensemble_fault(
    design: Ensemble, locked: LockedEnsemble | None, explore_runs: Sequence[str]
) -> str | None:
    """What of a frozen ensemble is not as the design asks for; None if nothing."""
    if locked is None:
        return " is an ensemble without a formula"
    asked, found = ([member.name for member in each.members] for each in (design, locked))
    if asked != found:
        return f": its formula is of {', '.join(found)}, the prereg's of {', '.join(asked)}"
    asked, found = ([each.method, *each.features] for each in (design, locked))
    if asked != found:
        return f": its formula is {', '.join(found)}, the prereg's {', '.join(asked)}"
    used = sorted([*locked.fit_runs, *locked.calibrate_runs])
    if used == sorted(explore_runs):
        return None
    odd = sorted(set(used).symmetric_difference(explore_runs))
    return ": fit_runs and calibrate_runs are not the explore runs, each once" + (
        f"; {odd[0]!r} is not among both" if odd else ""
    )
