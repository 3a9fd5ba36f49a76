"""`gmb metrics push` against a loopback protocol stub of the Hub.

The client's own code runs and its commits are looked at; who may write, and what the Hub checks, is
not.
"""

from __future__ import annotations

from typing import Any

import evaluate
import pytest
from hub_client import Terminal, without_a_network
from hub_store import Fault, Hub

import gmb_hf.jobs.metrics


def test_loopback_protocol_stub_push_and_load(
    hub: Hub, commands: Terminal, own_caches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publish all, publish again with another requirement, load one from there."""
    monkeypatch.setattr(evaluate.config, "HF_EVALUATE_OFFLINE", False)
    printed = commands.done("metrics", "push", "--org=acme")
    another = "gmb-hf[apps] @ https://example.org/gmb_hf-1-py3-none-any.whl"
    again = ("--name=gmb_verdict", "--private", "--requirement", another)
    commands.done("metrics", "push", "--org=acme", *again)
    metric = evaluate.load("acme/gmb_operationality")
    found = metric.compute(
        predictions=[[0, 1] * 30] * 4, references=[59] * 4, horizon=10, safe_gap=20
    )
    assert (metric.name, found["fpr_min"]) == ("gmb_operationality", pytest.approx(0.5))
    pushed = [line.split()[1] for line in printed.splitlines() if line.startswith("pushed")]
    assert pushed == [f"{hub.url}/spaces/acme/{name}" for name in gmb_hf.jobs.metrics.names()]
    assert hub.unknown == []

    assert set(hub.repositories) == {f"space:acme/{name}" for name in gmb_hf.jobs.metrics.names()}
    for name in gmb_hf.jobs.metrics.names():
        repository = hub.repositories[f"space:acme/{name}"]
        assert repository.settings["sdk"] == "gradio"
        folder = gmb_hf.jobs.metrics.module(name).folder
        expected = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        assert repository.commits[1].message == f"Update {name}"
        assert repository.commits[1].files == expected

    # The second push changed the one line of one Space.
    verdict = hub.repositories["space:acme/gmb_verdict"]
    before, after = (commit.files for commit in verdict.commits[1:])
    changed: dict[str, Any] = {name: after[name] for name in after if after[name] != before[name]}
    assert changed == {"requirements.txt": f"{another}\n".encode()}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "error: acme/gmb_verdict: the Hub refused: it does not know this token; run `hf"),
        (403, "error: acme/gmb_verdict: the Hub refused: this token may not write to acme; choose"),
        (400, "error: acme/gmb_verdict: the Hub refused (status 400)"),
    ],
)
def test_loopback_protocol_stub_refuses(
    hub: Hub, commands: Terminal, status: int, message: str
) -> None:
    hub.faults.append(Fault("POST", status))
    said = commands.refused("metrics", "push", "--org=acme", "--name=gmb_verdict")
    assert f"error: {said}".startswith(message)


def test_loopback_protocol_stub_is_gone(commands: Terminal) -> None:
    with without_a_network():
        said = commands.refused("metrics", "push", "--org=acme", "--name=gmb_verdict")
    assert "acme/gmb_verdict: the Hub cannot be reached: " in said
