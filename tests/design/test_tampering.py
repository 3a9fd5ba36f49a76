"""A lock file, field by field: a change of what it says is refused, a change of looks is not."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gmb_hf.base.documents import dump_yaml
from gmb_hf.base.errors import InputError
from gmb_hf.design.design import Design
from gmb_hf.design.lock import CHECKSUMS, Lock, LockedCandidate, member_key

Path_ = tuple[str | int, ...]


FORMULA: dict[str, Any] = {
    "members": [
        {"name": "csd", "params": {"window": 200}, "sign": 1, "center": [0.5], "scale": [0.25]}
        | {"coefficient": [2.5]},
        {"name": "norm", "sign": -1, "center": [9.0], "scale": [1.5], "coefficient": [-0.5]},
    ],
    "intercept": -1.5,
    "setting": "0.01",
    "log_losses": {"0.01": 0.25, "0.1": 0.5},
    "fit_runs": ["seed_1"],
    "calibrate_runs": ["seed_2"],
    "n_calibration_runs": 1,
}


def made() -> Lock:
    """A lock in which every optional field is set."""
    design = Design.minimal(
        horizon=200,
        safe_gap=400,
        cadence=25,
        task="modular subtraction",
        model="1 layer",
        optimizer="AdamW",
        schedule="constant",
        seeds_explore=[1, 2],
        seeds_eval=[100, 101],
        event_t_min=100,
        lead_time_median_min=50,
        theta_floor=0.5,
        refractory=50,
        max_eval_seeds=400,
        strata=[{"name": "late", "where": "event_step > 1000"}],
        candidates=[
            {"name": "csd", "params": {"window": 200, "share": 0.1}, "x_sign": -1},
            {"name": "both", "x_ensemble": {"members": ["csd", {"name": "norm", "x_sign": -1}]}},
        ],
    )
    taus = {0.01: math.inf, 0.05: 1.5, 0.1: 1 / 3}
    members = {"central": taus, member_key(window=100, smooth=3): taus}
    return Lock.build(
        design,
        {
            "csd": LockedCandidate.freeze(members, sign=-1, needs=("test_loss",)),
            "both": LockedCandidate.freeze(members, family="ensemble", ensemble=FORMULA),
            "clock": LockedCandidate.freeze({"central": taus}, family="control"),
        },
        explore_fingerprint="ab" * 32,
        explore_runs=["seed_1", "seed_2"],
        explore_seeds=[1, 2],
        n_calibration_runs=32,
        created="2026-01-27T12:00:00+00:00",
    )


LOCK = made()


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every scalar of a document with its path, and every container that is empty."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield path, value


def another(value: Any) -> Any:
    """A value of the same kind that is not this one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 7.5 if math.isinf(value) else math.nextafter(value, math.inf)
    if isinstance(value, str):
        return "0" + value[1:] if value[:1] != "0" else "1" + value[1:]
    return ["x"] if isinstance(value, list) else {"x": 1}


def edited(path: Path_, change: Callable[[Any, Any], None]) -> dict[str, Any]:
    """The lock's content after `change(section, key)` at a path."""
    content = copy.deepcopy(LOCK.plain())
    section: Any = content
    for part in path[:-1]:
        section = section[part]
    change(section, path[-1])
    return content


def written(content: Any, tmp_path: Path) -> Path:
    path = tmp_path / "lock.yaml"
    path.write_text(dump_yaml(content))
    return path


FIELDS = [path for path, _ in leaves(LOCK.plain())]


def test_the_lock_has_every_section() -> None:
    tops = {path[0] for path in FIELDS}
    assert {"meta", "boundary", "event", "labels", "operating_points", "candidates"} <= tops
    assert len(FIELDS) > 70


def refusal(content: Any, tmp_path: Path) -> str:
    """Why a lock of this content is not read; nothing if it is."""
    try:
        Lock.read(written(content, tmp_path))
    except InputError as error:
        return str(error)
    return ""


def test_each_field_changed_alone_is_refused(tmp_path: Path) -> None:
    def change(section: Any, key: Any) -> None:
        section[key] = another(section[key])

    for path in FIELDS:
        said = refusal(edited(path, change), tmp_path)
        assert "lock.yaml: " in said, path
        assert "\n" not in said, path


def test_each_field_taken_out_is_refused(tmp_path: Path) -> None:
    def remove(section: Any, key: Any) -> None:
        del section[key]

    for path in FIELDS:
        assert "lock.yaml: " in refusal(edited(path, remove), tmp_path), path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("x_lock", "candidates", "csd", "members", "central", "0.05"), 1.4),
        (("x_lock", "candidates", "csd", "members", "central", "0.01"), 2.0),
        (("x_lock", "candidates", "csd", "sign"), 1),
        (("x_lock", "candidates", "clock", "sign"), -1),
        (("x_lock", "candidates", "both", "ensemble", "members", 0, "coefficient"), 2.4),
        (("x_lock", "candidates", "both", "ensemble", "intercept"), -1.4),
        (("x_lock", "candidates", "both", "ensemble", "fit_runs"), ["seed_3"]),
        (("x_lock", "explore_fingerprint"), "cd" * 32),
        (("labels", "positive_window", "horizon_steps"), 300),
        (("operating_points", "fpr_targets"), [0.01, 0.05, 0.2]),
    ],
)
def test_thresholds_signs_fingerprints_and_design_are_sealed(
    path: Path_, value: Any, tmp_path: Path
) -> None:
    def change(section: Any, key: Any) -> None:
        section[key] = value

    with pytest.raises(InputError, match="was edited after it was locked"):
        Lock.read(written(edited(path, change), tmp_path))


def test_an_added_field_is_refused(tmp_path: Path) -> None:
    content = LOCK.plain()
    content["x_lock"]["remark"] = "harmless"
    with pytest.raises(InputError, match="was edited"):
        Lock.read(written(content, tmp_path))


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(item) for key, item in reversed(value.items())}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


def whole_as_int(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: whole_as_int(item) for key, item in value.items()}
    if isinstance(value, list):
        return [whole_as_int(item) for item in value]
    if isinstance(value, float) and value.is_integer() and math.isfinite(value):
        return int(value)
    return value


def test_keys_in_another_order_are_the_same_lock(tmp_path: Path) -> None:
    content = reversed_keys(LOCK.plain())
    assert next(iter(content)) == "x_lock"
    assert Lock.read(written(content, tmp_path)) == LOCK


def test_numbers_in_another_format_are_the_same_lock(tmp_path: Path) -> None:
    content = whole_as_int(LOCK.plain())
    assert content["decision_thresholds"]["lead_time_median_min"] == 50
    text = dump_yaml(content)
    for old, new in (
        ("fpr_eps: 0.01", "fpr_eps: 1.0e-2"),
        ("'0.05': 1.5", "'0.05': 1.50"),
        ("[0.01, 0.05, 0.1]", "[1e-2, .05, 0.10]"),
        ("jump_threshold: 0.15", "jump_threshold: +0.15"),
    ):
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "lock.yaml"
    path.write_text(text)
    assert Lock.read(path) == LOCK


def test_another_writer_of_yaml_is_no_edit(tmp_path: Path) -> None:
    path = tmp_path / "lock.yaml"
    path.write_text(yaml.safe_dump(LOCK.plain(), default_flow_style=True, width=20))
    assert Lock.read(path) == LOCK
    text = json.dumps(LOCK.plain(), indent=2).replace("Infinity", ".inf")
    path.write_text(text)
    assert Lock.read(path) == LOCK


def test_a_lock_of_another_version_says_which_reads_it(tmp_path: Path) -> None:
    content = LOCK.plain()
    content["x_lock"]["x_schema"] = 3
    content["x_lock"]["package_version"] = "9.0"
    with pytest.raises(
        InputError,
        match=r"lock of schema 3, written by gmb-hf 9\.0; gmb-hf .* up to 2: upgrade it, pip inst",
    ) as caught:
        Lock.read(written(content, tmp_path))
    assert caught.value.code == "newer_schema"


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("x_lock", "candidates", "csd", "sign"), 1, r"x_lock\.candidates\.csd"),
        (("x_lock", "explore_fingerprint"), "cd" * 32, r"x_lock\.explore_fingerprint"),
        (("labels", "positive_window", "horizon_steps"), 300, "labels"),
        (("candidates", 0, "params"), {"window": 300}, r"candidates\[0\]"),
        (("x_nan",), "ignore", "x_nan"),
        (("x_lock", "x_checksums", "meta"), "0" * 16, "meta"),
    ],
)
def test_what_was_changed_is_named(path: Path_, value: Any, named: str, tmp_path: Path) -> None:
    def change(section: Any, key: Any) -> None:
        section[key] = value

    with pytest.raises(InputError, match=rf"does not match its content, \w+; changed: {named}; "):
        Lock.read(written(edited(path, change), tmp_path))


def test_nobody_knows_what_was_changed_in_a_lock_of_the_first_schema(tmp_path: Path) -> None:
    content = LOCK.plain()
    del content["x_lock"]["x_schema"], content["x_lock"]["x_checksums"]
    content["x_lock"]["format"] = 1
    content["x_lock"]["hash"] = CHECKSUMS.of(content)
    Lock.read(written(content, tmp_path)).verify()
    content["x_nan"] = "ignore"
    with pytest.raises(InputError, match="which field changed cannot be known"):
        Lock.read(written(content, tmp_path))
