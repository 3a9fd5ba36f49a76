"""The leaderboard in a browser, from this machine: the files of a site, on the loopback alone."""

from __future__ import annotations

import errno
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gmb_hf.base.errors import InputError

LOOPBACK = "127.0.0.1"
_LAST_PORT = 65535


class _Files(SimpleHTTPRequestHandler):
    """Files of a folder; no lists of them, and no lines for each request."""

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")  # a site that is made anew is seen at once
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def server(site: str | Path, port: int) -> ThreadingHTTPServer:
    """A server of a site on 127.0.0.1, which `serve_forever()` starts.

    Args:
        site: the folder that `gmb leaderboard build` made.
        port: 0 takes a free one, `server_address` says which.

    Raises:
        InputError: the folder holds no site, there is no such port, or it is taken.
    """
    folder = Path(site)
    if not (folder / "index.html").is_file():
        raise InputError(f"{folder}: holds no index.html; gmb leaderboard build --out {folder}")
    if not 0 <= port <= _LAST_PORT:
        raise InputError(f"--port {port}: a port is a number from 0 (a free one) to {_LAST_PORT}")
    try:
        return ThreadingHTTPServer((LOOPBACK, port), partial(_Files, directory=str(folder)))
    except OSError as error:
        why = {
            errno.EADDRINUSE: "is taken",
            errno.EACCES: "is not open to this user",
        }.get(error.errno or 0, error.strerror or str(error))
        raise InputError(f"--port {port}: {why}; choose another, or 0 for a free one") from None


def address(running: ThreadingHTTPServer) -> str:
    """Where a browser finds it."""
    return f"http://{LOOPBACK}:{running.server_address[1]}/"
