"""All layers of one score, or of every candidate of a lock, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gmb_hf.benchmark.calibration import Judgement
from gmb_hf.benchmark.diagnostics import Diagnostics, diagnose
from gmb_hf.benchmark.operationality import LayerB, layer_b
from gmb_hf.benchmark.ranking import LayerA, layer_a
from gmb_hf.benchmark.robustness import LayerD, layer_d
from gmb_hf.benchmark.utility import LayerC, layer_c
from gmb_hf.benchmark.verdict import (
    MeasuredStratum,
    StratumResult,
    Verdict,
    conclude,
    conclude_stratum,
    measure_strata,
)
from gmb_hf.design.design import Facts
from gmb_hf.documents import Record
from gmb_hf.errors import InputError
from gmb_hf.stats import holm

Variants = Mapping[str, Judgement]


@dataclass(frozen=True)
class Measured(Record):
    """Everything measured about one score."""

    layer_a: LayerA
    layer_b: LayerB
    layer_c: LayerC
    layer_d: LayerD
    diagnostics: Diagnostics


@dataclass(frozen=True)
class IndicatorVerdictParts(Measured):
    """Everything measured about one score, and what follows from it."""

    strata: tuple[StratumResult, ...]
    verdict: Verdict


def judge(
    judgement: Judgement, variants: Variants | None = None, *, facts: Facts | None = None
) -> IndicatorVerdictParts:
    """Judge one score on its own.

    Args:
        judgement: the score as declared.
        variants: the same score with other values of its own window (see `layer_d`).
        facts: numbers of each run by name, float64 [R], that the strata of the preregistration
            ask for; the step of the event is known without them.

    Raises:
        InputError: the scores do not fit the preregistration (see `label_windows`), or a stratum
            asks for a number that is not known.
    """
    case = _Case(judgement, variants or {}, facts or {})
    return case.conclude(holm(case.p_values))


def judge_all(
    judgements: Mapping[str, Judgement],
    variants: Mapping[str, Variants] | None = None,
    *,
    controls: Collection[str] = (),
    facts: Facts | None = None,
    on_done: Callable[[str], None] | None = None,
) -> dict[str, IndicatorVerdictParts]:
    """Judge every candidate of a lock, p-values Holm-adjusted over all of them.

    Strata belong to the family: each candidate brings its p-value over all runs and one for each
    stratum.

    Args:
        judgements: each candidate by name.
        variants: its window variants by name, for those that have any.
        controls: names that stand in the tables for comparison and are no candidates; each is
            adjusted as if it alone had been added to the family.
        facts: as in `judge`.
        on_done: called with the name of each score that is measured.
    """
    cases = {}
    for name, judgement in judgements.items():
        cases[name] = _Case(judgement, (variants or {}).get(name) or {}, facts or {})
        if on_done is not None:
            on_done(name)
    family = [p for name, case in cases.items() if name not in controls for p in case.p_values]
    adjusted = iter(holm(family))
    found = {}
    for name, case in cases.items():
        if name in controls:
            found[name] = case.conclude(holm([*family, *case.p_values])[len(family) :])
        else:
            found[name] = case.conclude([next(adjusted) for _ in case.p_values])
    return found


class _Case:
    """One score, measured; concluding waits for the p-values of the whole family."""

    def __init__(self, judgement: Judgement, variants: Variants, facts: Facts) -> None:
        if not judgement.evaluation.n_runs:
            raise InputError(f"score {judgement.evaluation.name!r}: there is no run to judge")
        self.judgement, self.variants = judgement, variants
        self.layer_a, self.layer_b = layer_a(judgement), layer_b(judgement)
        self.layer_c, self.layer_d = layer_c(judgement), layer_d(judgement, variants)
        self.diagnostics = diagnose(judgement, coverage=self.layer_c.primary.coverage)
        self.strata: tuple[MeasuredStratum, ...] = measure_strata(judgement, facts)

    @property
    def p_values(self) -> list[float | None]:
        """Over all runs, then in each stratum."""
        return [self.layer_c.primary.p_value, *(part.p_value for part in self.strata)]

    def conclude(self, adjusted: Sequence[float | None]) -> IndicatorVerdictParts:
        """Label the score by its adjusted p-values, in the order of `p_values`."""
        overall, *others = adjusted
        strata = tuple(
            conclude_stratum(part, self.layer_a, self.variants, p_adjusted=p)
            for part, p in zip(self.strata, others, strict=True)
        )
        verdict = conclude(
            self.judgement,
            self.layer_a,
            self.layer_b,
            self.layer_c,
            self.layer_d,
            p_adjusted=overall,
            strata=strata,
        )
        return IndicatorVerdictParts(
            self.layer_a,
            self.layer_b,
            self.layer_c,
            self.layer_d,
            self.diagnostics,
            strata,
            verdict,
        )
