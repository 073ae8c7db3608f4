"""A server on this machine that speaks the part of the Hugging Face hub's API that its client asks for.

GET /api/models/NAME[/revision/REVISION]?blobs=true; HEAD and GET /NAME/resolve/REVISION/FILE. Files of weights are kept
elsewhere, as the hub does: `resolve` redirects to /storage/SHA256, which knows ranges.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LARGE = (".safetensors", ".bin", ".model", ".spm")
"""Endings of the names of files that are kept elsewhere."""


def blob_of(content: bytes) -> str:
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


@dataclass
class Repository:
    files: dict[str, bytes]
    licence: Any = "apache-2.0"
    revisions: tuple[str, ...] = ("main",)
    status: int = 200
    """Another one is the answer to everything."""
    error: str = ""
    """X-Error-Code of that answer."""

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()


@dataclass
class Hub:
    repositories: dict[str, Repository] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    """METHOD PATH, with the range, if any."""
    cuts: list[int] = field(default_factory=list)
    """The next answers from the storage end after so many bytes."""
    changed: dict[str, bytes] = field(default_factory=dict)
    """What the storage sends for a file instead of its content."""
    address: str = ""
    storage: str = ""
    """The same server by another name: the client follows redirects within a host by itself."""

    def asked(self, word: str) -> list[str]:
        return [request for request in self.requests if word in request]


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *given: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            hub.requests.append(f"{self.command} {self.path} {wanted}".rstrip())
            path = self.path.partition("?")[0]
            if found := re.fullmatch(r"/api/models/(.+?)(?:/revision/([^/]+))?", path):
                return self.model(found[1], found[2] or "main")
            if found := re.fullmatch(r"/(.+)/resolve/([^/]+)/(.+)", path):
                return self.resolve(found[1], found[2], found[3])
            if found := re.fullmatch(r"/storage/([0-9a-f]{64})", path):
                return self.storage(found[1], wanted)
            self.answer(404)

        def repository(self, name: str, revision: str) -> Repository | None:
            repository = hub.repositories.get(name)
            if repository is None:
                self.answer(404, {"X-Error-Code": "RepoNotFound"})
            elif repository.status != 200:
                self.answer(repository.status, {"X-Error-Code": repository.error} if repository.error else {})
            elif revision not in (*repository.revisions, repository.commit):
                self.answer(404, {"X-Error-Code": "RevisionNotFound"})
            else:
                return repository
            return None

        def model(self, name: str, revision: str) -> None:
            if repository := self.repository(name, revision):
                siblings = [self.sibling(*one) for one in repository.files.items()]
                answer = {"_id": "1", "id": name, "modelId": name, "sha": repository.commit, "siblings": siblings}
                answer |= {"cardData": {"license": repository.licence}, "tags": [], "downloads": 0, "private": False}
                self.answer(200, {"Content-Type": "application/json"}, json.dumps(answer).encode())

        def sibling(self, name: str, content: bytes) -> dict[str, Any]:
            found: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": blob_of(content)}
            if name.endswith(LARGE):
                digest = hashlib.sha256(content).hexdigest()
                found["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 134}
            return found

        def resolve(self, name: str, revision: str, file: str) -> None:
            if not (repository := self.repository(name, revision)):
                return
            headers = {"X-Repo-Commit": repository.commit}
            if file not in repository.files:
                return self.answer(404, headers | {"X-Error-Code": "EntryNotFound"})
            content = repository.files[file]
            if not file.endswith(LARGE):
                return self.answer(200, headers | {"ETag": f'"{blob_of(content)}"'}, hub.changed.get(file, content))
            digest = hashlib.sha256(content).hexdigest()
            linked = {"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{digest}"'}
            self.answer(302, headers | linked | {"Location": f"{hub.storage}/storage/{digest}"})

        def storage(self, digest: str, wanted: str) -> None:
            every = [one for repository in hub.repositories.values() for one in repository.files.items()]
            name, content = next(one for one in every if hashlib.sha256(one[1]).hexdigest() == digest)
            content = hub.changed.get(name, content)
            begin = int(wanted.removeprefix("bytes=").rstrip("-") or 0)
            headers = {"ETag": f'"{digest}"', "Accept-Ranges": "bytes"}
            if begin:
                headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            self.answer(206 if begin else 200, headers, content[begin:], cut=hub.cuts.pop(0) if hub.cuts else None)

        def answer(
            self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", cut: int | None = None
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[:cut])
            if cut is not None:
                self.close_connection = True

    return Handler


@contextmanager
def serving() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hub))
    hub.address, hub.storage = (f"http://{host}:{server.server_port}" for host in ("127.0.0.1", "localhost"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
