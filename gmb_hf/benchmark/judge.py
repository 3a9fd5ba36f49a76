"""All layers of one score, or of every candidate of a lock, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from gmb_hf.benchmark.diagnostics import Diagnostics, diagnose
from gmb_hf.benchmark.discrimination import LayerA, layer_a
from gmb_hf.benchmark.judgement import Judgement
from gmb_hf.benchmark.operationality import LayerB, layer_b
from gmb_hf.benchmark.record import Record
from gmb_hf.benchmark.robustness import LayerD, layer_d
from gmb_hf.benchmark.utility import LayerC, layer_c
from gmb_hf.benchmark.verdict import Verdict, conclude, holm

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

    verdict: Verdict


def judge(judgement: Judgement, variants: Variants | None = None) -> IndicatorVerdictParts:
    """Judge one score on its own.

    Args:
        judgement: the score as declared.
        variants: the same score with other values of its own window (see `layer_d`).

    Raises:
        InputError: the scores do not fit the preregistration (see `label_windows`).
    """
    measured = _measure(judgement, variants)
    return _conclude(judgement, measured, measured.layer_c.primary.p_value)


def judge_all(
    judgements: Mapping[str, Judgement],
    variants: Mapping[str, Variants] | None = None,
    *,
    controls: Collection[str] = (),
    on_done: Callable[[str], None] | None = None,
) -> dict[str, IndicatorVerdictParts]:
    """Judge every candidate of a lock, p-values Holm-adjusted over all of them.

    Args:
        judgements: each candidate by name.
        variants: its window variants by name, for those that have any.
        controls: names that stand in the tables for comparison and are no candidates; each is
            adjusted as if it alone had been added to the family.
        on_done: called with the name of each score that is measured.
    """
    measured = {}
    for name, judgement in judgements.items():
        measured[name] = _measure(judgement, (variants or {}).get(name))
        if on_done is not None:
            on_done(name)
    raw = {name: parts.layer_c.primary.p_value for name, parts in measured.items()}
    candidates = [name for name in raw if name not in controls]
    adjusted = dict(zip(candidates, holm([raw[name] for name in candidates]), strict=True))
    for name in raw:
        if name in controls:
            adjusted[name] = holm([*(raw[other] for other in candidates), raw[name]])[-1]
    return {
        name: _conclude(judgements[name], parts, adjusted[name]) for name, parts in measured.items()
    }


def _measure(judgement: Judgement, variants: Variants | None) -> Measured:
    utility = layer_c(judgement)
    return Measured(
        layer_a=layer_a(judgement),
        layer_b=layer_b(judgement),
        layer_c=utility,
        layer_d=layer_d(judgement, variants),
        diagnostics=diagnose(judgement, coverage=utility.primary.coverage),
    )


def _conclude(
    judgement: Judgement, parts: Measured, p_adjusted: float | None
) -> IndicatorVerdictParts:
    verdict = conclude(
        judgement,
        parts.layer_a,
        parts.layer_b,
        parts.layer_c,
        parts.layer_d,
        p_adjusted=p_adjusted,
    )
    return IndicatorVerdictParts(**vars(parts), verdict=verdict)
