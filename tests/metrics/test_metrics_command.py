"""`gmb metrics` as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import gmb_hf.jobs.metrics
from gmb_hf.cli import main


def test_list_shows_every_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "list"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(gmb_hf.jobs.metrics.names())
    assert last == "next    gmb metrics install"


def test_install_lists_what_can_be_loaded_now(
    own_caches: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["metrics", "install"]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines] == list(gmb_hf.jobs.metrics.names())
    folder = Path(first.removeprefix("wrote   "))
    assert all(list(folder.rglob(f"{line.strip()}.py")) for line in lines)
    assert last.startswith("next    python -c 'import evaluate;")


def test_push_refuses_names_that_no_hub_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "push", "--org", "ac me"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: 'ac me/crucible_compare': no repository of the Hub; write ORG/")
    assert main(["metrics", "push", "--org", "acme", "--name", "gmb_verdit"]) == 2
    assert "Did you mean 'gmb_verdict'?" in capsys.readouterr().err
    assert main(["metrics", "push"]) == 2
    assert "--org" in capsys.readouterr().err
