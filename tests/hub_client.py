"""`gmb` and other clients of the Hub in this process, whose Hub is the loopback stub.

The addresses of the Hub are read when its clients are imported, so the stub starts before them.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from hub_store import TOKEN, Hub
from hub_stub import loopback_hub


def environment(hub: Hub, home: Path) -> dict[str, str]:
    """Of a process with empty caches that knows no other Hub."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    return {**kept, "HOME": str(home), "HF_TOKEN": TOKEN, **_addresses(hub, home)}


def client(
    hub: Hub, home: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code with its arguments in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=home,
        env={**environment(hub, home), **variables},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _addresses(hub: Hub, home: Path) -> dict[str, str]:
    return {
        "HF_HOME": str(home / "hf"),
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_XET": "1",
        "HF_UPDATE_DOWNLOAD_COUNTS": "0",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


# Held here as well: a forked process of Python 3.13 forgets what `atexit` holds, and a stub that
# nobody holds waits for its thread, which is in no forked process.
_RUNNING = contextlib.ExitStack()


def the_only_hub() -> Hub:
    """A stub that lasts as long as this process, which knows no other Hub and has empty caches."""
    assert "huggingface_hub" not in sys.modules
    hub = _RUNNING.enter_context(loopback_hub())
    home = Path(tempfile.mkdtemp(prefix="gmb_tests_"))
    os.environ.update(_addresses(hub, home))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    atexit.register(_RUNNING.close)
    return hub


def empty_caches() -> None:
    """Forget what was pulled."""
    shutil.rmtree(os.environ["HF_HOME"], ignore_errors=True)


class Terminal:
    """Where `gmb` is typed, by somebody who is logged in."""

    def gmb(self, *words: object, token: str | None = TOKEN) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a command."""
        from gmb_hf.cli import main

        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, {} if token is None else {"HF_TOKEN": token}),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            if token is None:
                os.environ.pop("HF_TOKEN", None)
            code = main([str(word) for word in words])
        return code, out.getvalue(), err.getvalue()

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
def without_a_network() -> Iterator[None]:
    """Nothing answers at the address of the Hub."""
    from huggingface_hub import constants

    nobody = "http://127.0.0.1:9"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, nobody)
    with mock.patch.multiple(constants, ENDPOINT=nobody, HUGGINGFACE_CO_URL_TEMPLATE=template):
        yield
