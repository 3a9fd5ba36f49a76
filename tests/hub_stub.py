"""A loopback stub of the Hub's protocol: repositories in memory, commits, files by revision.

It answers what the clients send to make a repository, to commit small files and to read them back.
It knows nothing of access rights beyond `refuse`, and nothing of what the Hub itself would check.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

PREFIX = {"model": "", "dataset": "datasets/", "space": "spaces/"}


@dataclass
class Repository:
    """Its settings as it was made, and the files after each commit with the commit's message."""

    settings: dict[str, Any]
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=lambda: [("made", {})])

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1][1]

    def sha(self, number: int = -1) -> str:
        message, files = self.commits[number]
        text = json.dumps([number % len(self.commits), message, sorted(files)])
        return hashlib.sha1(text.encode()).hexdigest()


@dataclass
class Hub:
    """What the stub holds: repositories by "space:ORG/NAME", and every request that came.

    `refuse` is a status with which every request is turned down, as for a wrong token.
    """

    url: str
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refuse: int | None = None


@contextmanager
def loopback_hub() -> Iterator[Hub]:
    """A stub that listens on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.hub  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Stay silent."""

    def _handle(self) -> None:
        hub: Hub = self.server.hub  # type: ignore[attr-defined]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        hub.requests.append(f"{self.command} {path}")
        if hub.refuse is not None:
            self._error(hub.refuse, "refused")
            return
        for method, pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, path)
            if found and self.command in method:
                answer(self, hub, body, *found.groups())
                return
        hub.unknown.append(f"{self.command} {path}")
        self._error(404, "no such route")

    do_GET = do_HEAD = do_POST = _handle

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _json(self, data: Any, status: int = 200, **headers: str) -> None:
        content = json.dumps(data).encode()
        self._send(status, content, {"Content-Type": "application/json", **headers})

    def _error(self, status: int, message: str, code: str = "") -> None:
        self._json({"error": message}, status, **{"X-Error-Message": message, "X-Error-Code": code})

    def validate(self, hub: Hub, body: bytes) -> None:
        self._json({"errors": [], "warnings": []})

    def create(self, hub: Hub, body: bytes) -> None:
        asked = json.loads(body)
        kind = asked.get("type") or "model"
        name = f"{asked.get('organization') or 'somebody'}/{asked['name']}"
        url = f"{hub.url}/{PREFIX[kind]}{name}"
        if f"{kind}:{name}" in hub.repositories:
            self._json({"error": "exists", "url": url}, 409)
            return
        hub.repositories[f"{kind}:{name}"] = Repository(asked)
        self._json({"url": url, "id": name, "name": name})

    def preupload(self, hub: Hub, body: bytes, kind: str, name: str, revision: str) -> None:
        files = [
            {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
            for one in json.loads(body)["files"]
        ]
        self._json({"files": files})

    def info(self, hub: Hub, body: bytes, kind: str, name: str, revision: str) -> None:
        repository = hub.repositories.get(f"{kind}:{name}")
        if repository is None:
            self._error(404, "Repository not found", "RepoNotFound")
            return
        siblings = [{"rfilename": path} for path in repository.files]
        self._json({"_id": "0", "id": name, "sha": repository.sha(), "siblings": siblings})

    def commit(self, hub: Hub, body: bytes, kind: str, name: str, revision: str) -> None:
        repository = hub.repositories[f"{kind}:{name}"]
        lines = [json.loads(line) for line in body.splitlines()]
        files, message = dict(repository.files), ""
        for line in lines:
            if line["key"] == "header":
                message = line["value"]["summary"]
            else:
                assert line["key"] == "file", line
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        repository.commits.append((message, files))
        sha = repository.sha()
        url = f"{hub.url}/{PREFIX[kind]}{name}/commit/{sha}"
        self._json({"success": True, "commitUrl": url, "commitOid": sha, "hookOutput": ""})

    def resolve(
        self, hub: Hub, body: bytes, kind: str, name: str, revision: str, path: str
    ) -> None:
        repository = hub.repositories.get(f"{kind or 'model'}:{name}")
        if repository is None or revision != "main" or path not in repository.files:
            self._error(404, "Entry not found", "EntryNotFound")
            return
        content = repository.files[path]
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        self._send(200, content, {"ETag": etag, "X-Repo-Commit": repository.sha()})


_REPOSITORY = r"/api/(model|dataset|space)s/([^/]+/[^/]+)"
_ROUTES = (
    ("POST", r"/api/validate-yaml", _Handler.validate),
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", _REPOSITORY + r"/preupload/([^/]+)", _Handler.preupload),
    ("POST", _REPOSITORY + r"/commit/([^/]+)", _Handler.commit),
    ("GET", _REPOSITORY + r"(?:/revision/([^/]+))?", _Handler.info),
    (
        "GET HEAD",
        r"/(?:(dataset|space)s/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)",
        _Handler.resolve,
    ),
)
