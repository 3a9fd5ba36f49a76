"""Processes whose Hub is the loopback stub; addresses are read when the clients are imported."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hub_store import TOKEN, Hub

# Commands one after the other in one process: a list of words in, code and output out.
_LOOP = """
import contextlib, io, json, os, sys, time
from gmb_hf.cli import main

time.sleep = lambda seconds: None  # between the client's own attempts
for line in sys.stdin:
    words, token = json.loads(line)
    os.environ.pop("HF_TOKEN", None)
    if token is not None:
        os.environ["HF_TOKEN"] = token
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


def environment(hub: Hub, home: Path) -> dict[str, str]:
    """Of a process with empty caches that knows no other Hub."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return {
        **kept,
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": hub.url,
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


def client(
    hub: Hub, home: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code with its arguments, and environment variables of its own."""
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=home,
        env={**environment(hub, home), **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


class Terminal:
    """A process in which one command of `gmb` runs after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def gmb(self, *words: object, token: str | None = TOKEN) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a command."""
        asked = json.dumps([[str(word) for word in words], token])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(asked + "\n")
        self._process.stdin.flush()
        answer: list[Any] = json.loads(self._process.stdout.readline())
        return answer[0], answer[1], answer[2]

    def done(self, *words: object) -> str:
        """What a command that must succeed prints."""
        code, out, err = self.gmb(*words)
        assert code == 0, out + err
        return out

    def refused(self, *words: object, token: str | None = TOKEN) -> str:
        """The one line of a command that must fail."""
        code, out, err = self.gmb(*words, token=token)
        assert code == 2, out + err
        said = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(said) == 1, err
        assert err.rstrip().endswith(said[0]), err
        return said[0].removeprefix("error: ")


@contextlib.contextmanager
def terminal(hub: Hub, home: Path) -> Iterator[Terminal]:
    """Commands of a process whose home is this folder; imports are paid for once."""
    with subprocess.Popen(
        [sys.executable, "-c", _LOOP],
        cwd=home,
        env=environment(hub, home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Terminal(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=60)
