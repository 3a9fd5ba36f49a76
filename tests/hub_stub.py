"""A loopback stub of the Hub's protocol, and processes whose Hub it is.

It answers what the clients send to make a repository, to commit files small and large, to list them
and to read them back, in whole or in part. It knows one token and where that may write, and what
shall go wrong; of what the Hub itself would check it knows nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hub_store import LARGE, PREFIX, TOKEN, Fault, Hub, Repository, entry, folder_entry, listing


@contextmanager
def loopback_hub() -> Iterator[Hub]:
    """A stub that listens on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.hub = Hub(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
    server.lock = threading.RLock()  # type: ignore[attr-defined]
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
        path = unquote(urlsplit(self.path).path)
        request = f"{self.command} {path}"
        with self.server.lock:  # type: ignore[attr-defined]
            hub.requests.append(request)
            fault = hub.fault(request)
            if fault and fault.status is None:
                self._cut()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if fault:
                self._refuse(fault)
                return
            if self.headers.get("Authorization") not in (None, f"Bearer {TOKEN}"):
                self._error(401, "Invalid credentials in Authorization header")
                return
            for methods, pattern, answer in _ROUTES:
                found = re.fullmatch(pattern, path)
                if found and self.command in methods.split():
                    answer(self, hub, body, *found.groups())
                    return
            hub.unknown.append(request)
            self._error(404, "no such route")

    do_GET = do_HEAD = do_POST = do_PUT = _handle

    def _cut(self) -> None:
        """Hang up after the first bytes of the body."""
        self.rfile.read(min(64, int(self.headers.get("Content-Length") or 0)))
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, fault: Fault) -> None:
        assert fault.status is not None
        self._json({"error": "as asked"}, fault.status, **fault.headers)

    def _may_write(self, hub: Hub, name: str) -> bool:
        """Whether the token may write there; if not, that is the answer."""
        if self.headers.get("Authorization") is None:
            self._error(401, "Unauthorized")
        elif name.split("/")[0] not in hub.orgs:
            self._error(403, "Forbidden: you don't have the required permissions")
        else:
            return True
        return False

    def _repository(self, hub: Hub, kind: str | None, name: str) -> Repository | None:
        """A repository; where there is none, that is the answer."""
        found = hub.repositories.get(f"{kind or 'model'}:{name}")
        if found is None:
            self._error(404, "Repository not found", "RepoNotFound")
        return found

    def _files(self, hub: Hub, kind: str, name: str, revision: str) -> dict[str, bytes] | None:
        repository = self._repository(hub, kind, name)
        commit = repository and repository.at(revision)
        if repository and not commit:
            self._error(404, "Invalid rev id", "RevisionNotFound")
        return commit.files if commit else None

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
        headers = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {})}
        self._json({"error": message}, status, **headers)

    def _address(self, hub: Hub, kind: str, name: str) -> str:
        return f"{hub.url}/{PREFIX[kind]}{name}"

    def validate(self, hub: Hub, body: bytes) -> None:
        self._json({"errors": [], "warnings": []})

    def who(self, hub: Hub, body: bytes) -> None:
        self._json({"name": "somebody", "type": "user", "orgs": [{"name": o} for o in hub.orgs]})

    def create(self, hub: Hub, body: bytes) -> None:
        asked = json.loads(body)
        kind = asked.get("type") or "model"
        name = f"{asked.get('organization') or 'somebody'}/{asked['name']}"
        if not self._may_write(hub, name):
            return
        url = self._address(hub, kind, name)
        if f"{kind}:{name}" in hub.repositories:
            self._json({"error": "exists", "url": url}, 409)
            return
        hub.repositories[f"{kind}:{name}"] = Repository(asked)
        self._json({"url": url, "id": name, "name": name})

    def preupload(self, hub: Hub, body: bytes, kind: str, name: str, revision: str) -> None:
        if not self._may_write(hub, name):
            return
        held = self._files(hub, kind, name, revision)
        if held is None:
            return
        files = []
        for path in [one["path"] for one in json.loads(body)["files"]]:
            there = entry(path, held[path]) if path in held else {"oid": None}
            mode = "lfs" if path.endswith(LARGE) else "regular"
            oid = there.get("lfs", there)["oid"]
            files.append({"path": path, "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        self._json({"files": files})

    def batch(self, hub: Hub, body: bytes, kind: str | None, name: str) -> None:
        if not self._may_write(hub, name):
            return
        objects: list[dict[str, Any]] = []
        for one in json.loads(body)["objects"]:
            upload = {"href": f"{hub.url}/large/{one['oid']}", "header": {}}
            known = one["oid"] in hub.large
            objects.append({**one, **({} if known else {"actions": {"upload": upload}})})
        self._json({"transfer": "basic", "objects": objects})

    def upload(self, hub: Hub, body: bytes, oid: str) -> None:
        if hashlib.sha256(body).hexdigest() != oid:
            self._error(400, "the content has another SHA-256")
            return
        hub.large[oid] = body
        self._json({})

    def commit(self, hub: Hub, body: bytes, kind: str, name: str, revision: str) -> None:
        repository = self._repository(hub, kind, name)
        if repository is None or not self._may_write(hub, name):
            return
        files, header = dict(repository.files), {}
        for line in map(json.loads, body.splitlines()):
            key, value = line["key"], line["value"]
            if key == "header":
                header = value
            elif key == "file":
                content = base64.b64decode(value["content"])
                files[value["path"]] = hub.kept(value["path"], content)
            elif key == "lfsFile" and value["oid"] in hub.large:
                files[value["path"]] = hub.kept(value["path"], hub.large[value["oid"]])
            elif key == "deletedFile" and value["path"] in files:
                del files[value["path"]]
            else:
                self._error(400, f"cannot do {key} of {value.get('path')}")
                return
        if header.get("parentCommit", repository.sha) != repository.sha:
            self._error(412, "A commit has happened since")
            return
        sha = repository.commit(header["summary"], files)
        url = f"{self._address(hub, kind, name)}/commit/{sha}"
        self._json({"success": True, "commitUrl": url, "commitOid": sha, "hookOutput": ""})

    def refs(self, hub: Hub, body: bytes, kind: str, name: str) -> None:
        repository = self._repository(hub, kind, name)
        if repository is not None:
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.sha}
            self._json({"branches": [main], "converts": [], "tags": [], "pullRequests": []})

    def info(self, hub: Hub, body: bytes, kind: str, name: str, revision: str | None) -> None:
        files = self._files(hub, kind, name, revision or "main")
        if files is None:
            return
        commit = hub.repositories[f"{kind}:{name}"].at(revision or "main")
        assert commit is not None
        found = {"_id": "0", "id": name, "sha": commit.sha, "private": False, "gated": False}
        day = "2026-01-01T00:00:00.000Z"
        counts = {"downloads": 0, "likes": 0, "lastModified": day, "createdAt": day}
        siblings = [{"rfilename": path} for path in files]
        self._json({**found, **counts, "disabled": False, "tags": [], "siblings": siblings})

    def paths(self, hub: Hub, body: bytes, kind: str, name: str, revision: str) -> None:
        files = self._files(hub, kind, name, revision)
        if files is None:
            return
        as_json = body.startswith(b"{")
        asked = json.loads(body)["paths"] if as_json else parse_qs(body.decode())["paths"]
        found = []
        for path in [asked] if isinstance(asked, str) else asked:
            if path in files:
                found.append(entry(path, files[path]))
            elif any(one.startswith(f"{path}/") for one in files):
                found.append(folder_entry(path))
        self._json(found)

    def tree(
        self, hub: Hub, body: bytes, kind: str, name: str, revision: str, folder: str | None
    ) -> None:
        files = self._files(hub, kind, name, revision)
        if files is None:
            return
        asked = parse_qs(urlsplit(self.path).query).get("recursive", ["false"])[0]
        found = listing(files, folder or "", recursive=asked.lower() in ("true", "1"))
        if folder and not found:
            self._error(404, "Entry not found", "EntryNotFound")
        else:
            self._json(found)

    def resolve(
        self, hub: Hub, body: bytes, kind: str | None, name: str, revision: str, path: str
    ) -> None:
        files = self._files(hub, kind or "model", name, revision)
        if files is None:
            return
        if path not in files:
            self._error(404, "Entry not found", "EntryNotFound")
            return
        content, about = files[path], entry(path, files[path])
        commit = hub.repositories[f"{kind or 'model'}:{name}"].at(revision)
        assert commit is not None
        headers = {
            "ETag": f'"{about.get("lfs", about)["oid"]}"',
            "X-Repo-Commit": commit.sha,
            "Accept-Ranges": "bytes",
        }
        part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if part is None:
            self._send(200, content, headers)
            return
        first, last = int(part[1]), min(int(part[2] or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(206, content[first : last + 1], headers)


_REPOSITORY = r"/api/(model|dataset|space)s/([^/]+/[^/]+)"
_PLACE = r"/(?:(dataset|space)s/)?([^/]+/[^/]+?)"
_REVISION = r"([^/]+|refs/[^/]+/[^/]+)"
_ROUTES = (
    ("GET", r"/api/whoami-v2", _Handler.who),
    ("POST", r"/api/validate-yaml", _Handler.validate),
    ("POST", r"/api/repos/create", _Handler.create),
    ("PUT", r"/large/([0-9a-f]{64})", _Handler.upload),
    ("POST", _PLACE + r"\.git/info/lfs/objects/batch", _Handler.batch),
    ("POST", _REPOSITORY + r"/preupload/([^/]+)", _Handler.preupload),
    ("POST", _REPOSITORY + r"/commit/([^/]+)", _Handler.commit),
    ("POST", _REPOSITORY + r"/paths-info/(.+)", _Handler.paths),
    ("GET", _REPOSITORY + r"/tree/([^/]+)(?:/(.*))?", _Handler.tree),
    ("GET", _REPOSITORY + r"/refs", _Handler.refs),
    ("GET", _REPOSITORY + r"(?:/revision/(.+))?", _Handler.info),
    ("GET HEAD", _PLACE + rf"/resolve/{_REVISION}/(.+)", _Handler.resolve),
)
