"""The server: this machine only, and only for the page that it gave out itself.

A page from elsewhere could send requests here too, so every request has to name this server as its host, come from
no other origin, and (where it changes something) carry the token that is in the page.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from edgec.errors import EdgecError, UsageError
from edgec.report.page import page
from edgec.report.record import finite
from edgec.serve.workbench import Workbench

#: A decision is a few names; whatever is longer is none.
LONGEST = 1 << 16


class Server(ThreadingHTTPServer):
    """Serves one workbench on the loopback interface; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, workbench: Workbench, port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise UsageError(f"cannot listen: {error.strerror or error}", hint="choose another --port") from None
        self.workbench = workbench
        self.token = secrets.token_urlsafe(24)
        self.lock = threading.Lock()  # one build at a time

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        port = self.server_address[1]
        return f"127.0.0.1:{port}", f"localhost:{port}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "edgec"
    sys_version = ""
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the page says what happens."""

    def do_GET(self) -> None:
        if not self._is_ours():
            return
        if self.path == "/":
            text = page(self.server.workbench.document, self.server.token)
            self._send(HTTPStatus.OK, text.encode(), "text/html; charset=utf-8")
        elif self.path == "/api/document" and self._has_token():
            self._json(HTTPStatus.OK, self.server.workbench.document)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def do_POST(self) -> None:
        if not self._is_ours() or not self._has_token():
            return
        if self.path != "/api/decide":
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        elif (decision := self._decision()) is not None:
            self._json(*self._decided(decision))

    def _decided(self, decision: Mapping[str, str]) -> tuple[HTTPStatus, Mapping[str, Any]]:
        if not self.server.lock.acquire(blocking=False):
            return HTTPStatus.CONFLICT, _error("another decision is being built")
        try:
            return HTTPStatus.OK, self.server.workbench.decide(**decision)
        except EdgecError as problem:
            return HTTPStatus.BAD_REQUEST, _error(problem.message, problem.hint, problem.where)
        finally:
            self.server.lock.release()

    def _is_ours(self) -> bool:
        """Is this server meant, and does no foreign page ask? Names that resolve to this machine are no excuse."""
        if not all(value.isascii() for value in self.headers.values()):
            self._refuse(HTTPStatus.BAD_REQUEST, "a header is no ASCII text")
            return False
        origin = self.headers.get("Origin")
        own = [f"http://{host}" for host in self.server.hosts]
        if self.headers.get("Host") not in self.server.hosts or (origin is not None and origin not in own):
            self._refuse(HTTPStatus.FORBIDDEN, "this server talks to its own page only")
            return False
        return True

    def _has_token(self) -> bool:
        if secrets.compare_digest(self.headers.get("X-Edgec") or "", self.server.token):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "the page is older than the server: load it again")
        return False

    def _decision(self) -> dict[str, str] | None:
        try:
            length = int(self.headers.get("Content-Length") or "")
            given = json.loads(self.rfile.read(length)) if 0 < length <= LONGEST else None
        except (ValueError, RecursionError):
            given = None
        keys = {"kind", "key", "value"}
        if not isinstance(given, dict) or set(given) != keys or not all(isinstance(v, str) for v in given.values()):
            self._refuse(HTTPStatus.BAD_REQUEST, "this is no decision")
            return None
        return given

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        self._json(status, _error(message))

    def _json(self, status: HTTPStatus, value: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(finite(value), ensure_ascii=False).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
        }  # fmt: skip
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _error(message: str, hint: str | None = None, where: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "hint": hint, "where": where}}
