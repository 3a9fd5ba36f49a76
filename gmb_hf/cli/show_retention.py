"""What `gmb sequential report` and `gmb generalization` print: a row per variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gmb_hf.cli.show import console, say
from gmb_hf.cli.table import Column, Group, lay_out
from gmb_hf.reporting.escape import number, one_line, p_value
from gmb_hf.reporting.retention_tables import mean, show_mean

if TYPE_CHECKING:
    from gmb_hf.continual.over_seeds import OverSeeds
    from gmb_hf.continual.summary import RetentionSummary
    from gmb_hf.workflows.generalising import Generalised

_QUANTITIES = {
    "learned": "learning_accuracy",
    "at the end": "average_accuracy",
    "forgotten": "forgetting_accuracy",
    "loss learned": "learning_loss",
    "loss at the end": "average_loss",
}


def sums(summary: RetentionSummary) -> None:
    """Learning, average and forgetting of each variant, means with their intervals."""
    rows = [
        [
            name,
            str(len(variant.seeds)),
            *(_mean(variant.quantities[q]) for q in _QUANTITIES.values()),
        ]
        for name, variant in summary.variants.items()
    ]
    _print(("variant", "seeds", *_QUANTITIES), rows)
    say(
        "Accuracy: after the task's own phase, after the last phase, and what was lost of the best "
        "before it; means over tasks, ± half the 95% Student interval over seeds.",
        style="dim",
    )


def generalised(found: Generalised) -> None:
    """Best and final losses of each variant, then the comparison at equal training loss."""
    rows = [
        [
            name,
            str(len(course.runs)),
            _mean(course.best_validation_loss),
            _mean(course.final_validation_loss),
            _mean(course.final_train_loss),
            _mean(course.final_gap),
        ]
        for name, course in found.variants.items()
    ]
    _print(("variant", "runs", "best val", "final val", "final train", "final gap"), rows)
    pairs = []
    for one in found.matched:
        gap = one.difference
        pairs.append(
            [
                one.variant,
                f"{one.overlap:.0%}" + ("" if one.reliable else " UNRELIABLE"),
                _mean(one.variant_mean),
                _mean(one.baseline_mean),
                _mean(gap.difference if gap else None),
                p_value(gap.p_adjusted if gap else None),
            ]
        )
    if pairs:
        _print(("at equal train loss", "overlap", "val", found.baseline, "difference", "p"), pairs)


def _mean(over: OverSeeds | None) -> str:
    return number(None) if over is None else show_mean(mean(over))


def _print(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    columns = [Column(one_line(heads[0]), shrinks_to=12)]
    columns += [Column(one_line(head), right=True) for head in heads[1:]]
    screen = console()
    screen.print()
    body = [[Text(one_line(cell)) for cell in row] for row in rows]
    for part in lay_out(columns, [Group(body)], screen.width):
        screen.print(part)
    screen.print()
