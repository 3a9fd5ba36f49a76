"""`gmb metrics push` against a loopback protocol stub of the Hub.

The client's own code runs and its commits are looked at; who may write, and what the Hub checks, is
not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hub_client import client
from hub_store import Fault, Hub
from hub_stub import loopback_hub

import gmb_hf.metrics

PUSH = "import sys; from gmb_hf.cli import main; sys.exit(main(['metrics', 'push', *sys.argv[1:]]))"

# Publish all, publish again with another requirement, load two from there.
ROUND_TRIP = """
import json, sys
from gmb_hf.cli import main

assert main(["metrics", "push", "--org", "acme"]) == 0
assert main(["metrics", "push", "--org", "acme", "--name", "gmb_verdict", "--private",
             "--requirement", "gmb-hf[apps] @ https://example.org/gmb_hf-1-py3-none-any.whl"]) == 0

import evaluate

metric = evaluate.load("acme/gmb_operationality")
found = metric.compute(predictions=[[0, 1] * 30] * 4, references=[59] * 4, horizon=10, safe_gap=20)
print(json.dumps([metric.name, found["fpr_min"]]))
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with loopback_hub() as running:
        yield running


def test_loopback_protocol_stub_push_and_load(hub: Hub, tmp_path: Path) -> None:
    done = client(hub, tmp_path, ROUND_TRIP)
    assert done.returncode == 0, done.stdout + done.stderr
    *printed, last = done.stdout.splitlines()
    assert json.loads(last) == ["gmb_operationality", 0.5]
    pushed = [line.split()[1] for line in printed if line.startswith("pushed")]
    assert pushed[: len(gmb_hf.metrics.names())] == [
        f"{hub.url}/spaces/acme/{name}" for name in gmb_hf.metrics.names()
    ]
    assert hub.unknown == []

    assert set(hub.repositories) == {f"space:acme/{name}" for name in gmb_hf.metrics.names()}
    for name in gmb_hf.metrics.names():
        repository = hub.repositories[f"space:acme/{name}"]
        assert repository.settings["sdk"] == "gradio"
        folder = gmb_hf.metrics.module(name).folder
        expected = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert repository.commits[1].message == f"Update {name}"
        assert repository.commits[1].files == expected

    # The second push changed the one line of one Space.
    verdict = hub.repositories["space:acme/gmb_verdict"]
    before, after = (commit.files for commit in verdict.commits[1:])
    changed: dict[str, Any] = {name: after[name] for name in after if after[name] != before[name]}
    assert changed == {
        "requirements.txt": b"gmb-hf[apps] @ https://example.org/gmb_hf-1-py3-none-any.whl\n"
    }


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "error: acme/gmb_verdict: the Hub refused: it does not know this token; run `hf"),
        (403, "error: acme/gmb_verdict: the Hub refused: this token may not write to acme; choose"),
        (400, "error: acme/gmb_verdict: the Hub refused (status 400)"),
    ],
)
def test_loopback_protocol_stub_refuses(
    hub: Hub, tmp_path: Path, status: int, message: str
) -> None:
    hub.faults.append(Fault("POST", status))
    done = client(hub, tmp_path, PUSH, "--org", "acme", "--name", "gmb_verdict")
    assert done.returncode == 2
    assert done.stderr.startswith(message), done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_loopback_protocol_stub_is_gone(tmp_path: Path) -> None:
    with loopback_hub() as hub:
        gone = hub
    done = client(gone, tmp_path, PUSH, "--org", "acme", "--name", "gmb_verdict")
    assert done.returncode == 2
    assert "acme/gmb_verdict: the Hub cannot be reached: " in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
