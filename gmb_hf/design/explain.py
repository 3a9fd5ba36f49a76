"""A design and a lock in plain sentences, one for each choice that is frozen.

The sentences are in explain.j2; here is what they are told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gmb_hf.base.errors import first_of
from gmb_hf.base.fingerprints import SHOWN
from gmb_hf.core.thresholds import effective_budget, in_words, promise, runs_needed, runs_to_promise
from gmb_hf.design.design import Design
from gmb_hf.design.event_types import EVENT_TYPES
from gmb_hf.design.lock import CENTRAL, Lock, LockedHealth, LockRecord
from gmb_hf.design.locked_ensembles import LockedEnsemble, LockedMember, feature_name

if TYPE_CHECKING:
    from jinja2 import Template

_END = "\x1e"  # of a sentence: no YAML holds it
_MOST_TERMS = 12  # of an ensemble


def explain(lock: Lock) -> tuple[str, ...]:
    """One sentence for each frozen choice, in the order of the file."""
    return _told(lock.design, lock.x_lock, locked=True)


def explain_design(design: Design, *, locked: bool = False) -> tuple[str, ...]:
    """One sentence for each choice of a preregistration, which may be locked or not."""
    return _told(design, None, locked=locked)


def _told(design: Design, record: LockRecord | None, *, locked: bool) -> tuple[str, ...]:
    single = [item for item in record.candidates.values() if not item.ensemble] if record else []
    text = _template().render(
        design=design,
        record=record,
        locked=locked,
        fields=type(design).model_fields,
        other_event_runs=dict(pair for item in single for pair in item.other_event_runs.items()),
        delays=_delays(record.x_health) if record else [],
    )
    sentences = (" ".join(part.split()) for part in text.split(_END))
    return tuple(filter(None, sentences))


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined)
    environment.filters |= {
        "count_of": "{:,}".format,
        "short": "{:g}".format,
        "percent": _percent,
        "listed": _listed,
        "seeds": _seeds,
        "words": in_words,
    }
    environment.globals |= {
        "central": CENTRAL,
        "shown": SHOWN,
        "tell": _tell,
        "above": _above,
        "terms": _terms,
        **{one.__name__: one for one in (effective_budget, first_of, in_words, promise)},
        **{one.__name__: one for one in (runs_needed, runs_to_promise)},
    }
    text = Path(__file__).with_name("explain.j2").read_text(encoding="utf-8")
    return environment.from_string(text.replace("\n\n", _END))


def _tell(design: Design) -> str:
    return EVENT_TYPES[design.event_type].tell(design)


def _delays(health: LockedHealth | None) -> list[int]:
    """Steps after which a shift of each score is noticed either way, ascending, where it is."""
    drifts = health.candidates.values() if health else ()
    sides = [(item.up.delay_steps, item.down.delay_steps) for item in drifts]
    return sorted(max(up, down) for up, down in sides if up is not None and down is not None)


def _above(thresholds: Mapping[str, float], strict: bool = True) -> list[tuple[str, float]]:
    """The finite thresholds in words, each with its budget.

    `strict` locks the float just above an observed score. With six digits the two look the same,
    and "at least" would be wrong of a score that many windows share: 0 or 1 with a threshold just
    above 1 never alarms.
    """
    return [
        (
            f"above {math.nextafter(tau, -math.inf):.6g}" if strict else f"of at least {tau:.6g}",
            float(key),
        )
        for key, tau in thresholds.items()
        if math.isfinite(tau)
    ]


def _terms(ensemble: LockedEnsemble) -> str:
    """What is added to the intercept; of many terms those that weigh most."""
    if ensemble.method == "boosted":
        most = [f"{name} ({count:.0f})" for name, count in ensemble.leans_on(_MOST_TERMS) if count]
        splits = sum(len(tree.feature) for tree in ensemble.trees)
        on = f", most of their {splits:,} splits on {', '.join(most)}" if most else ""
        return f" + {len(ensemble.trees):,} trees{on}"
    terms = [
        (k, f" {_signed(k)} {ensemble.squash}(({_feature(one, of)} {_signed(-c)}) / {s:.3g})")
        for one in ensemble.members
        for of, c, s, k in zip(
            ensemble.features, one.center, one.scale, one.coefficient, strict=True
        )
    ]
    shown = sorted(terms, key=lambda term: -abs(term[0]))[:_MOST_TERMS]
    left = len(terms) - len(shown)
    more = f" and {left:,} smaller terms" if left else ""
    return "".join(text for weight, text in (shown if left else terms)) + more


def _feature(item: LockedMember, feature: str) -> str:
    return feature_name(_member(item), feature)


def _member(item: LockedMember) -> str:
    params = ", ".join(f"{key} {value}" for key, value in item.params.items())
    return f"{'' if item.sign == 1 else '-'}{item.name}{f' [{params}]' if params else ''}"


def _seeds(seeds: Sequence[int]) -> str:
    """Every seed, stretches of successive ones in short: `4 seeds: 0-2, 7`."""
    stretches: list[list[int]] = []
    for seed in sorted(seeds):
        if stretches and seed == stretches[-1][-1] + 1:
            stretches[-1].append(seed)
        else:
            stretches.append([seed])
    shown = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in stretches]
    return f"{len(seeds):,} seed{'' if len(seeds) == 1 else 's'}: {', '.join(shown)}"


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.3g}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"
