"""The server: this machine only, and only for the page that it gave out itself.

A page from elsewhere could send requests here too, so every request has to name this server as its host, come from
no other origin, and (where it changes something) carry the token that is in the page.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from edgec.errors import EdgecError, UsageError
from edgec.report.page import page
from edgec.report.record import finite
from edgec.serve.workbench import Workbench

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

#: A decision is a few names; whatever is longer is none.
LONGEST = 1 << 16
#: Seconds that a request may take to arrive, and an answer to be taken; requests at the same time.
PATIENCE, MOST = 30, 64


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
        self._room = threading.Semaphore(MOST)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Each request has a thread; one too many is not answered."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever asked has gone, or is too slow; anything else is a mistake, and shown as such."""
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        port = self.server_address[1]
        return f"127.0.0.1:{port}", f"localhost:{port}"


class _Arriving(io.RawIOBase):
    """The bytes of a request, for `PATIENCE` seconds in all, however slowly they come."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._end = connection, time.monotonic() + PATIENCE

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request takes too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version = "edgec"
    sys_version = ""

    def setup(self) -> None:
        super().setup()
        with suppress(OSError):
            self.rfile.close()
        self.rfile = io.BufferedReader(_Arriving(self.connection))

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
        origin, named = self.headers.get("Origin"), self.headers.get_all("Host", [])
        own = [f"http://{host}" for host in self.server.hosts]
        if len(named) != 1 or named[0] not in self.server.hosts or (origin is not None and origin not in own):
            self._refuse(HTTPStatus.FORBIDDEN, "this server talks to its own page only")
            return False
        return True

    def _has_token(self) -> bool:
        if secrets.compare_digest(self.headers.get("X-Edgec") or "", self.server.token):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "the page is older than the server: load it again")
        return False

    def _decision(self) -> dict[str, str] | None:
        said = self.headers.get("Content-Length", "")
        length = int(said) if re.fullmatch("[0-9]{1,9}", said) else 0
        try:
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
        self.connection.settimeout(PATIENCE)
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
