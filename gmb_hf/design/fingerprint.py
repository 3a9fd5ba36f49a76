"""The fingerprint of a design: the same whichever version of the package read or wrote it.

Ledgers of panels keep nothing else of a look without a lock, and results name their preregistration
by it. A field that came after the first schema is left out while it is at its default, so the
fingerprint of a design that does not use it stays what it was.
"""

from __future__ import annotations

from typing import Any

from gmb_hf.base.checksums import canonical_hash
from gmb_hf.base.documents import Document, Section
from gmb_hf.design.design import EARLIER, Design

_SCHEMA_1 = """
benchmark version seeds_explore seeds_eval x_undeclared type metric x_direction window_W_event
jump_threshold earliest_rule x_require_new_max fpr_targets fpr_eps fpr_floor_max min_targets_ok
x_run_budgets x_primary_run_budget x_calibration x_warned_min x_also_events candidates
coverage_at_0_05_min window_sweep max_label_flip_rate required_tables report_all_failures
x_protocol x_burn_in x_primary_fpr x_event_count_min x_null_draws x_bootstrap_draws x_alpha
x_seed x_smoothing_sweep x_run_groups x_nan x_strata x_looks
params method features fit_share penalties leaves trees learning_rate folds split_seed
"""
SCHEMA_1 = frozenset(_SCHEMA_1.split())
"""Keys of the first schema that count even at their default: of a design, candidates, ensembles."""

RENAMED = {name: earlier for earlier, name in EARLIER.items()}
"""Today's key -> that of the first schema."""


def design_fingerprint(design: Design, *, meta: bool = False) -> str:
    """SHA-256 (hex) of what a design fixes; with `meta`, of who fixed it and when as well."""
    plain = {RENAMED.get(key, key): value for key, value in design.plain(_later(design)).items()}
    if not meta:
        plain.pop("meta", None)
    return canonical_hash(plain)


def _later(section: Section) -> dict[str | int, Any]:
    """The fields that came later and are at their default, as `exclude` of `model_dump`."""
    places = section.places() if isinstance(section, Document) else {}
    found: dict[str | int, Any] = {}
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        key = places.get(name, name).rpartition(".")[2]
        default = field.get_default(call_default_factory=True)
        if RENAMED.get(key, key) not in SCHEMA_1 and value == default:
            found[name] = True
        elif isinstance(value, Section):
            found[name] = _later(value)
        elif isinstance(value, tuple):
            items = ((n, _later(one)) for n, one in enumerate(value) if isinstance(one, Section))
            found[name] = {number: inner for number, inner in items if inner}
    return {name: inner for name, inner in found.items() if inner}
