"""Where logs came from, through joining and in anybody's metadata; addresses of the Hub."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from synthetic import synthetic_runlog

from gmb_hf import Design, Lock, RunLog
from gmb_hf.base.errors import InputError
from gmb_hf.base.repositories import Address, check_repo_id, pull
from gmb_hf.benchmark.locking import make_lock
from gmb_hf.design.explain import explain
from gmb_hf.runs.metadata import hub_entry, hub_sources, with_hub_runs


def source(config: str) -> dict[str, str]:
    return {"repo": "acme/x", "revision": "4" * 40, "config": config, "fingerprint": "a|1|2"}


def log(metadata: dict[str, Any], first_seed: int = 0) -> RunLog:
    found = synthetic_runlog(2, 11, first_seed=first_seed)
    found.metadata = metadata
    return found


def test_both_kinds_are_told_apart() -> None:
    held = log(hub_entry("data", [source("add_p7")]))
    held.metadata = with_hub_runs(held.metadata, [source("all")])
    assert hub_sources(held.metadata) == [
        {"what": "data", **source("add_p7")},
        {"what": "runs", **source("all")},
    ]


def test_joined_logs_keep_what_each_came_from() -> None:
    one, other = source("add_p7"), source("sub_p7")
    parts = [log(hub_entry("data", [one])), log(hub_entry("data", [other]), 2), log({}, 4)]
    data = [{"what": "data", **one}, {"what": "data", **other}]
    assert hub_sources(RunLog.concat(parts[:2]).metadata) == data
    assert hub_sources(RunLog.concat(parts).metadata) == data
    alike = [log(hub_entry("data", [one])), log(hub_entry("data", [one]), 2)]
    assert hub_sources(RunLog.concat(alike).metadata) == data[:1]


def test_a_lock_names_what_its_thresholds_were_found_on(design: Design, tmp_path: Path) -> None:
    held = synthetic_runlog(30)
    held.metadata = with_hub_runs(held.metadata, [source("all")])
    lock = Lock.read(make_lock(design, held)[0].write(tmp_path / "lock.yaml"))
    assert [found.plain() for found in lock.x_lock.x_sources] == [{"what": "runs", **source("all")}]
    (said,) = [line for line in explain(lock) if "on the Hub" in line]
    assert said.startswith("The runs are all of acme/")


@pytest.mark.parametrize(
    "hub", [None, 3, "x", [], {"data": 1}, {"data": [1, {"repo": "x"}]}, {"runs": {"a": 1}}]
)
def test_anybodys_metadata_says_nothing(hub: Any) -> None:
    assert hub_sources(log({"hub": hub}).metadata) == []
    assert hub_sources(log({"differs": {"hub": [hub], "hub.data": hub}}).metadata) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("acme/x", Address("acme/x", "main")),
        ("acme/x@v1.0", Address("acme/x", "v1.0")),
        ("acme/x/add_p7", Address("acme/x", "main", "add_p7")),
        ("hf://datasets/acme/x@0123abc/all", Address("acme/x", "0123abc", "all")),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("acme", "--data 'acme': no dataset of the Hub; write ORG/NAME@REV"),
        ("acme/x@", "--data 'acme/x@': no dataset of the Hub"),
        ("acme/x/a/b", "no dataset of the Hub"),
        ("hf://acme/x", "no dataset of the Hub; write hf://datasets/ORG/NAME@REV"),
        ("hf://models/acme/x", "no dataset of the Hub"),
    ],
)
def test_other_text_is_no_address(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Address.parse(text, option="--data")


def test_a_cache_that_is_full_is_no_fault_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("huggingface_hub.snapshot_download", full)
    with pytest.raises(InputError, match="could not be written: the disk is full"):
        pull(Address("acme/x"), ["README.md"])


def test_a_repository_has_an_organisation() -> None:
    with pytest.raises(InputError, match="'tasks': no repository of the Hub; write ORG/NAME"):
        check_repo_id("tasks")
