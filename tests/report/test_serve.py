"""The live page talks to itself only, and a decision that cannot be built changes nothing."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import struct
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from edgec.cli import config
from edgec.cli.command import settings_of
from edgec.errors import UsageError
from edgec.report import measure
from edgec.serve import server as serve
from edgec.serve.server import Server
from edgec.serve.workbench import Workbench, decided

DIGITS = Path(__file__).parents[2] / "apps" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    patch = pytest.MonkeyPatch()
    patch.setattr(measure, "SECONDS", 0.05)
    shutil.copy(DIGITS, folder / "digits.onnx")
    (folder / "edgec.toml").write_text('model = "digits.onnx"\n')
    bench = Workbench(folder / "edgec.toml", settings_of)
    with Server(bench) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()
    bench.close()
    patch.undo()


def ask(server: Server, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=600)
    given = {"Host": server.hosts[0], **{k.replace("_", "-"): v for k, v in headers.items()}}
    connection.request(method, path, json.dumps(body) if body is not None else None, given)
    answer = connection.getresponse()
    return answer.status, dict(answer.headers), answer.read()


def test_only_this_machine_listens(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_the_page_has_the_token(server: Server) -> None:
    status, headers, body = ask(server, "GET", "/")
    assert status == 200 and server.token in body.decode() and "connect-src 'self'" in body.decode()
    assert headers["X-Frame-Options"] == "DENY" and headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
    ],
)
def test_foreign_pages_get_nothing(server: Server, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/"), ("GET", "/api/document"), ("POST", "/api/decide")):
        status, _, body = ask(server, method, path, **{"X-Edgec": server.token, **headers})
        assert status == 403 and server.token.encode() not in body


def test_decisions_need_the_token(server: Server) -> None:
    decision = {"kind": "materialize", "key": "Conv_3", "value": "materialize"}
    for token in ("", "guess", server.token[:-1]):
        status, _, _ = ask(server, "POST", "/api/decide", decision, X_Edgec=token)
        assert status == 403
    assert config.load(server.workbench.path).values == {"model": "digits.onnx"}


@pytest.mark.parametrize("key", ["kind", "key", "value"])
def test_half_a_character_erases_nothing(server: Server, key: str) -> None:
    """As text of a decision, it wrote an empty file."""
    before = server.workbench.path.read_bytes()
    decision = {"kind": "materialize", "key": "Conv_3", "value": "materialize", key: "\ud800"}
    status, _, body = ask(server, "POST", "/api/decide", decision, X_Edgec=server.token)
    assert status == 400 and json.loads(body)["error"]["message"]
    assert server.workbench.path.read_bytes() == before


@pytest.mark.parametrize("header", ["X-Edgec", "Host", "Origin", "Content-Type"])
def test_headers_beyond_ascii_are_refused(server: Server, header: str) -> None:
    status, _, _ = ask(server, "POST", "/api/decide", {}, **{"X-Edgec": server.token, header: "caf\xe9"})
    assert status == 400


def test_deep_json_is_refused(server: Server) -> None:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
    connection.request("POST", "/api/decide", "[" * 60_000, {"Host": server.hosts[0], "X-Edgec": server.token})
    assert connection.getresponse().status == 400


@pytest.mark.parametrize(
    "lines",
    [
        "Host: {0}\r\nHost: evil.example", "Host: {0}\r\nX-Edgec: {1}\r\nContent-Length: 1_0",
        "Host: {0}\r\nX-Edgec: {1}\r\nContent-Length: +2", "Host: {0}\r\nX-Edgec: {1}\r\nContent-Length: 9\u00b2",
    ],
)  # fmt: skip
def test_headers_are_what_they_have_to_be(server: Server, lines: str) -> None:
    head = f"POST /api/decide HTTP/1.1\r\n{lines.format(server.hosts[0], server.token)}\r\n\r\n"
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        connection.sendall(head.encode("latin-1"))
        assert connection.recv(12) in (b"HTTP/1.0 400", b"HTTP/1.0 403")


@pytest.mark.parametrize(
    "text", ["GET", "POST /api/decide HTTP/1.1\r\nHost: {}\r\nX-Edgec: {}\r\nContent-Length: 9\r\n\r\n"]
)
def test_a_client_that_does_not_go_on_is_left(
    server: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    """Each byte gave it half a minute more, and a thread; whoever left made a traceback."""
    monkeypatch.setattr(serve, "PATIENCE", 0.6)
    with socket.create_connection(server.server_address[:2], timeout=20) as connection:
        connection.sendall(text.format(server.hosts[0], server.token).encode())
        begun = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < begun + 10:
                connection.sendall(b"x" if len(text) > 3 and time.monotonic() < begun + 0.4 else b"")
                connection.settimeout(0.1)
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(1):
                        break
        assert time.monotonic() < begun + 5
    for _ in range(20):  # it asks, and is gone before it is answered
        with socket.create_connection(server.server_address[:2]) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {server.hosts[0]}\r\n\r\n".encode())
    assert ask(server, "GET", "/")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_requests_are_counted(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "MOST", 2)
    with contextlib.ExitStack() as stack:
        # A server of its own: requests of other tests, which may still end, have no places here.
        small = stack.enter_context(Server(server.workbench))
        threading.Thread(target=small.serve_forever, daemon=True).start()
        stack.callback(small.shutdown)
        opened = [stack.enter_context(socket.create_connection(small.server_address[:2], 20)) for _ in range(3)]
        assert opened[2].recv(1) == b""
        for connection in opened[:2]:
            connection.close()
        for _ in range(100):
            with contextlib.suppress(ConnectionError):
                assert ask(small, "GET", "/")[0] == 200
                break
            time.sleep(0.05)
        else:
            raise AssertionError("their places are not free again")


def test_an_edit_during_a_build_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = server.workbench
    before, build = bench.path.read_text(), bench._built

    def edited(found: config.Config) -> Any:
        bench.path.write_text(f"# edited\n{before}")
        return build(found)

    monkeypatch.setattr(bench, "_built", edited)
    try:
        bench.decide("option", "fuse", "none")
        assert bench.path.read_text().startswith("# edited\n") and config.load(bench.path).values["decide"]
    finally:
        bench.path.write_text(before)
        bench.document = build(config.load(bench.path))


@pytest.mark.parametrize("text", ["decide = 3", "[decide]\ntile = 3", '[decide]\nmaterialize = "x"'])
def test_decisions_of_another_type_are_refused(server: Server, text: str) -> None:
    before = server.workbench.path.read_text()
    server.workbench.path.write_text(f"{before}{text}\n")
    try:
        for kind in ("tile", "materialize"):
            with pytest.raises(UsageError):
                server.workbench.decide(kind, "Conv_3", "1x1")
    finally:
        server.workbench.path.write_text(before)


@pytest.mark.parametrize("body", [None, [], {}, {"kind": "materialize"}, {"kind": 1, "key": "", "value": ""}])
def test_what_is_no_decision(server: Server, body: Any) -> None:
    status, _, _ = ask(server, "POST", "/api/decide", body, X_Edgec=server.token)
    assert status == 400


@pytest.mark.parametrize(
    "kind, key, value",
    [
        ("materialize", "nosuch", "materialize"),
        ("tile", "Clip_1", "60x60"),
        ("disable_rule", "nosuch", "disable_rule"),
        ("option", "threads", "2"),
    ],
)
def test_what_cannot_be_built_is_not_kept(server: Server, kind: str, key: str, value: str) -> None:
    before = server.workbench.path.read_text()
    decision = {"kind": kind, "key": key, "value": value}
    status, _, body = ask(server, "POST", "/api/decide", decision, X_Edgec=server.token)
    assert status == 400 and json.loads(body)["error"]["message"]
    assert server.workbench.path.read_text() == before


def test_tiles_laws_and_modes_are_decided(server: Server) -> None:
    asked = server.workbench.document["decidable"]
    k = next(k for k, questions in asked["kernels"].items() if any("Conv_3" in q["title"] for q in questions))
    tile = next(q for q in asked["kernels"][k] if q["kind"] == "tile")
    assert len(tile["values"]) >= 4, "some tiles to choose from"
    kernels = server.workbench.document["build"]["kernels"]

    def decide(kind: str, key: str, value: str) -> dict[str, Any]:
        status, _, body = ask(
            server, "POST", "/api/decide", {"kind": kind, "key": key, "value": value}, X_Edgec=server.token
        )
        assert status == 200, body
        return dict(json.loads(body)["document"])

    shape = next(v["value"] for v in tile["values"] if v["value"] and v["value"] not in tile["values"][0]["text"])
    rows, vectors = shape.split("x")
    assert f"tile {rows} rows x {vectors} vectors" in decide("tile", tile["key"], shape)["kernels"][int(k)]["template"]
    assert decide("option", "fuse", "none")["build"]["kernels"] > kernels
    assert decide("option", "fuse", "")["build"]["kernels"] == kernels
    rule = next(q["key"] for q in asked["kernels"][k] if q["kind"] == "disable_rule")
    without = decide("disable_rule", rule, "disable_rule")
    assert rule not in {rule["rule"] for rule in without["rules"]}
    network = without["decidable"]["network"]
    assert any(q["kind"] == "disable_rule" and q["now"] for q in network), "it can be taken back"
    assert config.load(server.workbench.path).values["decide"] == {"disable_rule": [rule], "tile": {tile["key"]: shape}}


def test_a_decision_is_taken_back() -> None:
    one = decided({}, "materialize", "a", "materialize")
    both = decided(one, "materialize", "b", "materialize")
    assert both == {"materialize": ["a", "b"]}
    assert decided(decided(both, "materialize", "a", ""), "materialize", "b", "") == {}
    assert decided({"tile": {"x": "1x1"}}, "tile", "x", "") == {}
    with pytest.raises(UsageError):
        decided({}, "price", "a", "b")
