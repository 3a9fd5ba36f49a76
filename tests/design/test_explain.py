"""Every field of a design, and of a lock's record, has its sentence, which changes with it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo

from gmb_hf.base.documents import section_in
from gmb_hf.design.design import Design
from gmb_hf.design.explain import explain, explain_design
from gmb_hf.design.lock import Lock, LockRecord

# What a design may hold, so that each field matters in one of them at least.
PLAIN: dict[str, Any] = {
    "meta": {"date_locked": "2026-01-27", "researcher": "A. R.", "commit_hash": "a" * 40},
    "boundary": {
        "task": "t",
        "model": "m",
        "optimizer": "o",
        "schedule": "s",
        "checkpoint_every_steps": 10,
        "seeds_explore": [1, 2, 3],
        "seeds_eval": [11, 12, 13],
        "x_runs_explore": ["a", "b"],
        "x_runs_eval": ["c", "d"],
        "x_undeclared": ["seeds_eval"],
    },
    "event": {
        "type": "E_jump",
        "metric": "test_acc",
        "x_direction": "rising",
        "x_event_t_min": 100,
        "x_theta_floor": 0.5,
        "x_require_new_max": True,
        "x_plateau_checkpoints": 5,
        "x_plateau_threshold": 0.9,
        "x_plateau_regression": 1,
        "x_chance": 0.03,
        "x_chance_multiple": 3.0,
        "x_regime_quantile": 0.99,
        "x_regime_radius": 20,
        "x_regime_tolerance": 15,
    },
    "labels": {
        "positive_window": {"horizon_steps": 200, "lead_time_target": 40},
        "negative_window": {"safe_gap_steps": 400},
    },
    "decision_thresholds": {"lead_time_median_min": 30.0},
    "candidates": [
        {
            "name": "csd",
            "family": "dynamics",
            "params": {"window": 200},
            "x_sign": 1,
            "x_sees_test_labels": False,
        },
        {
            "name": "both",
            "x_sign": 1,
            "x_ensemble": {
                "members": [
                    {
                        "name": "csd",
                        "family": "dynamics",
                        "params": {"window": 200},
                        "x_sign": 1,
                        "x_sees_test_labels": False,
                    },
                    {"name": "entropy"},
                    {"name": "norm"},
                ],
            },
        },
        {"name": "fitted", "x_pretrained": {"source": "label_free", "hash": "ab" * 32}},
    ],
    "x_run_budgets": [0.1, 0.05],
    "x_also_events": [{"type": "E_plateau", "x_plateau_threshold": 0.7}],
    "x_refractory_steps": 50,
    "x_health_alpha": 0.1,
    "x_strata": [{"name": "late", "where": "event_step > 1000"}],
    "x_looks": 2,
    "x_max_eval_seeds": 400,
}
VARIATIONS: tuple[tuple[str, Any], ...] = (
    ("event.type", "E_plateau"),
    ("event.type", "E_onset"),
    ("event.type", "E_regime"),
    ("x_protocol", "v0.4"),
    ("x_looks", 1),
    ("x_nan", "ignore"),
    ("candidates.1.x_ensemble.method", "boosted"),
)
RECORD: dict[str, Any] = {
    "x_schema": 2,
    "created": "2026-01-27T12:00:00+00:00",
    "package_version": "0.1",
    "explore_fingerprint": "ab" * 32,
    "explore_runs": ["a", "b"],
    "explore_seeds": [1, 2],
    "explore_hashes": ["ab" * 32, "cd" * 32],
    "explore_marks": ["0:1.5 100:2.5", ""],
    "near_copies": "Near copies: 2 of 2 runs move like another one.",
    "n_calibration_runs": 100,
    "effective_budget": {"0.05": 0.04},
    "candidates": {
        "csd": {
            "sign": 1,
            "family": "dynamics",
            "needs": ["test_loss"],
            "params": {"window": 200},
            "sees_test_labels": False,
            "members": {"central": {"0.05": 1.5}, "smooth=3": {"0.05": 1.25}},
            "ensemble": {
                "members": [
                    {
                        "name": "gini",
                        "family": "spectral",
                        "params": {"window": 100},
                        "sign": 1,
                        "sees_test_labels": False,
                        "center": [0.5],
                        "scale": [0.25],
                        "coefficient": [2.5],
                    },
                    {"name": "norm", "sign": -1, "center": [9.0], "scale": [1.0]}
                    | {"coefficient": [-0.5]},
                ],
                "intercept": -1.5,
                "setting": "0.01",
                "log_losses": {"0.01": 0.25, "0.1": 0.5},
                "fit_runs": ["a"],
                "calibrate_runs": ["b"],
                "n_calibration_runs": 1,
            },
        }
    },
    "x_health": {
        "alpha": 0.1,
        "first_step": 0,
        "last_step": 400,
        "n_reference_runs": 50,
        "n_calibration_runs": 50,
        "begins": [20, 200],
        "candidates": {
            "csd": {
                "knots": [[0.5, 1.5], [0.5, 1.5]],
                "up": {"scale": 2, "maxima": [3, 4], "delay_steps": 100},
                "down": {"scale": 2, "maxima": [3, 4], "delay_steps": 100},
            }
        },
    },
    "x_system": {"learning_rate": 0.5},
    "x_sources": [
        {
            "what": "runs",
            "repo": "acme/runs",
            "revision": "ef" * 20,
            "config": "logs",
            "fingerprint": "ab" * 8 + "|null|2",
        }
    ],
    "x_checksums": {"meta": "ab" * 8},
    "hash": "cd" * 32,
}


def leaves(field: FieldInfo, path: str) -> Iterator[tuple[str, Any]]:
    """The path and the annotation of every field that is no section of its own."""
    inner = section_in(field.annotation)
    if inner is None:
        yield path, field.annotation
    else:
        listed = "tuple" in str(field.annotation)
        for name, part in inner.model_fields.items():
            yield from leaves(part, f"{path}.{'0.' if listed else ''}{name}")


def others(value: Any) -> Iterator[Any]:
    """Values of the same kind that are not this one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, -value)
    elif isinstance(value, float):
        yield from (value * 1.001, value / 2, 0.1)
    elif isinstance(value, str):
        choices = (
            "E_plateau",
            "E_regime",
            "falling",
            "v0.4",
            "ignore",
            "conditional",
            "boosted",
            "below_maximum",
            "event_step > 1001",
        )
        yield from (f"{value}x", f"x{value}", *choices)
    elif isinstance(value, dict):
        for key, item in value.items():
            for other in others(item):
                yield {**value, key: other}
    elif isinstance(value, (list, tuple)):
        yield list(value)[1:]
        for other in others(value[0]):
            yield [other, *list(value)[1:]]


def at(document: Any, path: str) -> tuple[Any, Any]:
    """The section that holds a field, and the key of it there."""
    *parents, last = path.split(".")
    for parent in parents:
        document = document[int(parent) if parent.isdigit() else parent]
    return document, last


def changed(document: Any, path: str, value: Any) -> Any:
    copied = copy.deepcopy(document)
    section, last = at(copied, path)
    section[last] = value
    return copied


def parsed(document: Any) -> Design | None:
    try:
        return Design.parse(document, where="test")
    except ValueError:
        return None  # not admissible: not a change that anybody could make


def is_constant(annotation: Any) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


FIELDS = [
    # The second candidate is the one that is an ensemble, the third one is pretrained.
    path.replace("candidates.0.x_ensemble", "candidates.1.x_ensemble").replace(
        "candidates.0.x_pretrained", "candidates.2.x_pretrained"
    )
    for name, field in Design.model_fields.items()
    for path, annotation in leaves(field, Design.places()[name])
    if not is_constant(annotation)
]


def bases() -> Iterator[Any]:
    full = Design.parse(PLAIN, where="test").plain()
    yield full
    for path, value in VARIATIONS:
        varied = parsed(changed(full, path, value))
        assert varied is not None, path
        yield varied.plain()


BASES = list(bases())


def telling_changes(path: str) -> Iterator[tuple[Design, Design]]:
    """Pairs of designs that differ in the field, and that are told in other sentences."""
    for base in BASES:
        now = Design.parse(base, where="test")
        section, last = at(base, path)
        if last not in section:
            continue
        for value in others(section[last]):
            design = parsed(changed(base, path, value))
            if design is not None and explain_design(design) != explain_design(now):
                yield design, now


def is_told(path: str) -> bool:
    """Whether some change of the field changes the sentences of some design."""
    return next(telling_changes(path), None) is not None


def test_every_field_of_a_design_has_its_sentence() -> None:
    silent = [path for path in FIELDS if not is_told(path)]
    assert not silent, f"{silent} have no sentence: their help texts are missing"


def test_a_field_without_a_sentence_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        f"{__name__}.explain_design", lambda design: (f"{design.horizon}", f"{design.safe_gap}")
    )
    assert is_told("labels.positive_window.horizon_steps")
    assert not is_told("x_burn_in")


def test_a_lock_tells_the_design_as_well() -> None:
    record = LockRecord.parse(RECORD, where="test")
    for path in FIELDS:
        if not path.startswith("candidates"):
            change = next(telling_changes(path), None)
            assert change is None or explain(Lock(change[0], record)) != explain(
                Lock(change[1], record)
            ), path


@pytest.mark.parametrize(
    "path",
    [
        # The checksums of the parts are under the hash, which is told.
        *(name for name in LockRecord.model_fields if name not in ("candidates", "x_checksums")),
        *(f"candidates.csd.{name}" for name in RECORD["candidates"]["csd"]),
    ],
)
def test_every_field_of_a_record_has_its_sentence(path: str) -> None:
    design = Design.parse(PLAIN, where="test")
    before = explain(Lock(design, LockRecord.parse(RECORD, where="test")))
    section, last = at(RECORD, path)
    told = False
    for value in others(section[last]):
        try:
            record = LockRecord.parse(changed(RECORD, path, value), where="test")
        except ValueError:
            continue
        told |= explain(Lock(design, record)) != before
    assert told, f"x_lock.{path} has no sentence"


def test_the_fields_tested_are_those_of_the_models() -> None:
    assert set(RECORD) == set(LockRecord.model_fields)
    assert "event.x_theta_floor" in FIELDS
    assert "candidates.0.x_sees_test_labels" in FIELDS
    assert "meta.benchmark" not in FIELDS  # it can only be GMB


def test_numbers_are_told_exactly() -> None:
    design = Design.parse(changed(PLAIN, "decision_thresholds", {}), where="test")
    sentences = " ".join(explain_design(design.replace(coverage_min=0.305)))
    assert "at least 30.5% of events" in sentences


def test_seeds_are_told_in_short_and_in_full() -> None:
    design = Design.minimal(horizon=1, safe_gap=2, seeds_explore=[7, 0, 2, 1], seeds_eval=[9])
    sentences = explain_design(design)
    assert "Free search is confined to 4 seeds: 0-2, 7." in sentences
    assert "Held out, for evaluate alone, are 1 seed: 9." in sentences


def test_what_is_not_given_is_said_not_to_be() -> None:
    sentences = explain_design(Design.minimal(horizon=1, safe_gap=2))
    assert sentences[0] == (
        "The design is not locked: what it finds is exploratory; no commit of the code is on "
        "record."
    )
    assert all(sentence.endswith(".") and "None" not in sentence for sentence in sentences)
