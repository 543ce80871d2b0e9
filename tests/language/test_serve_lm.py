"""A language model behind OpenAI's interface: answers, streams, and everything that is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from talking_model import CONTEXT

import edgec
from edgec.artifact.language_model import LanguageModel
from edgec.errors import UsageError
from edgec.serve import language_model as server

uvicorn = pytest.importorskip("uvicorn", reason="the extra 'serve' is not installed")
from edgec.serve import patience  # noqa: E402  (it needs uvicorn)

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LanguageModel]:
    with edgec.load(folder) as opened:
        yield opened


@contextlib.contextmanager
def serving(model: LanguageModel, **more: Any) -> Iterator[int]:
    """The port of a server that runs while the context is open."""
    with running(server.application(model, "lm", **more)) as port:
        yield port


@contextlib.contextmanager
def running(app: Any) -> Iterator[int]:
    """The port of a server of any application."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, http=patience.Patient, lifespan="off", log_level="error", access_log=False, timeout_graceful_shutdown=1
    )
    started = uvicorn.Server(config)
    thread = threading.Thread(target=started.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        started.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def port(model: LanguageModel) -> Iterator[int]:
    with serving(model, hosts=("127.0.0.1", "localhost")) as found:
        yield found


def ask(port: int, path: str, body: Any = None, **headers: str) -> tuple[int, Any, str]:
    """Status, JSON (None for a stream) and text of an answer; ``body`` may be bytes."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    usual = {} if body is None else {"Content-Type": "application/json"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET" if body is None else "POST", path, raw, {**usual, **named})
    answer = connection.getresponse()
    text = answer.read().decode()
    is_json = answer.headers.get_content_type() == "application/json"
    connection.close()
    return answer.status, json.loads(text) if is_json else None, text


def events(text: str) -> list[Any]:
    lines = [line for line in text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines) and lines[-1] == "data: [DONE]"
    return [json.loads(line[6:]) for line in lines[:-1]]


def test_models(port: int) -> None:
    assert ask(port, "/v1/models")[1]["data"][0]["id"] == "lm"
    assert ask(port, "/v1/models/lm")[1]["object"] == "model"
    assert ask(port, "/v1/models/other")[0] == 404 == ask(port, "/v1/nothing")[0]


def test_a_completion(port: int, model: LanguageModel) -> None:
    wanted = {"max_tokens": 12, "temperature": 1.5, "seed": 3}
    text = model.generate("hello", **wanted).text()
    status, found, _ = ask(port, "/v1/completions", {"model": "lm", "prompt": "hello", **wanted})
    assert status == 200 and found["object"] == "text_completion"
    assert found["choices"][0]["text"] == text and found["choices"][0]["finish_reason"] in ("stop", "length")
    used = found["usage"]
    assert used["total_tokens"] == used["prompt_tokens"] + used["completion_tokens"]
    tokens = model.tokenizer.encode("hello", begin=True)
    for prompt in (["hello"], tokens, [tokens]):
        assert ask(port, "/v1/completions", {"prompt": prompt, **wanted})[1]["choices"][0]["text"] == text
    body = {"prompt": "hello", **wanted, "stream": True, "stream_options": {"include_usage": True}}
    found = events(ask(port, "/v1/completions", body)[2])
    assert "".join(e["choices"][0]["text"] for e in found[:-1]) == text
    assert found[-2]["choices"][0]["finish_reason"] in ("stop", "length") and found[-1]["usage"] == used | {
        "prompt_tokens_details": found[-1]["usage"]["prompt_tokens_details"]
    }
    assert (
        ask(port, "/v1/completions", {"prompt": "hello", "temperature": 0, "top_p": 0})[1]["usage"]["completion_tokens"]
        <= 16
    )


def test_a_chat(port: int, model: LanguageModel) -> None:
    wanted = {"max_completion_tokens": 10, "temperature": 1.5, "seed": 4}
    text = model.chat(HELLO, max_tokens=10, temperature=1.5, seed=4).text()
    found = ask(port, "/v1/chat/completions", {"messages": HELLO, **wanted})[1]
    assert found["object"] == "chat.completion" and found["id"].startswith("chatcmpl-")
    assert found["choices"][0]["message"] == {"role": "assistant", "content": text}
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    body = {"messages": parts, **wanted, "stream": True, "n": 1, "tools": [], "user": "me"}
    found = events(ask(port, "/v1/chat/completions", body)[2])
    assert found[0]["choices"][0]["delta"]["role"] == "assistant" and found[0]["object"] == "chat.completion.chunk"
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in found) == text
    for mark in {*text} - {"\ufffd"}:  # which stands for bytes that are no character
        stopped = ask(port, "/v1/chat/completions", {"messages": HELLO, **wanted, "stop": mark})[1]["choices"][0]
        assert stopped["finish_reason"] == "stop" and stopped["message"]["content"] == text[: text.index(mark)]


CHAT = {"messages": HELLO, "max_tokens": 1}
BAD: list[tuple[str, Any, int, str | None, str]] = [
    ("chat/", b"{", 400, None, "not JSON"), ("chat/", b"[" * 100000, 400, None, "not JSON"),
    ("chat/", b"\xff", 400, None, "not JSON"), ("chat/", [], 400, None, "no JSON object"),
    ("chat/", b" " * (server.MOST_BYTES + 1), 413, None, "bytes"), ("chat/", {}, 400, "messages", "list of messages"),
    ("chat/", {"messages": []}, 400, None, "no message"), ("chat/", {"messages": ["x"]}, 400, "messages", "list"),
    ("chat/", {"messages": [{"role": "user"}]}, 400, "messages", "no text"),
    ("chat/", {"messages": [{"role": "tool", "content": "x"}]}, 400, "messages", "roles are"),
    ("chat/", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "messages", "type text"),
    ("chat/", {"messages": [{"role": "user", "content": "x" * 500}]}, 400, None, f"the context {CONTEXT}"),
    ("chat/", {**CHAT, "model": "gpt-4"}, 404, "model", "the one here is 'lm'"),
    ("chat/", {**CHAT, "n": 2}, 400, "n", "default"), ("chat/", {**CHAT, "n": True}, 400, "n", "default"),
    ("chat/", {**CHAT, "tools": [{}]}, 400, "tools", "default"),
    ("chat/", {**CHAT, "response_format": {"type": "json_object"}}, 400, "response_format", "default"),
    ("chat/", {**CHAT, "logprobs": True}, 400, "logprobs", "default"),
    ("chat/", {**CHAT, "temprature": 1}, 400, "temprature", "no such field"),
    ("chat/", {**CHAT, "temperature": "hot"}, 400, "temperature", "no number"),
    ("chat/", {**CHAT, "temperature": -1}, 400, None, "temperature is -1"),
    ("chat/", b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', 400, None, "temperature is nan"),
    ("chat/", {**CHAT, "seed": 1.5}, 400, "seed", "no whole number"),
    ("chat/", {**CHAT, "top_k": 10**12}, 400, None, "top_k is"),
    ("chat/", {"messages": HELLO, "max_tokens": 0}, 400, "max_tokens", "1 or more"),
    ("chat/", {"messages": HELLO, "max_tokens": -1}, 400, None, "max_tokens is -1"),
    ("chat/", {**CHAT, "stop": 3}, 400, "stop", "no text"),
    ("chat/", {**CHAT, "stop": [""]}, 400, None, "stop strings"),
    ("chat/", {**CHAT, "stream": "yes"}, 400, "stream", "true or false"),
    ("", {"prompt": "a", "\ud800": 1}, 400, "\\ud800", "no such field"),
    ("", {"prompt": "a", "x" * 5000: 1}, 400, "x" * 117 + "...", "no such field"),
    ("", {"prompt": 3}, 400, "prompt", "no text"), ("", {"prompt": ["a", "b"]}, 400, "prompt", "one prompt"),
    ("", {"prompt": [10**9]}, 400, None, "outside the vocabulary"), ("", {"prompt": []}, 400, None, "no token"),
    ("", {"messages": HELLO}, 400, "messages", "no such field"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status", "field", "message"), BAD)
def test_refused(port: int, path: str, body: Any, status: int, field: str | None, message: str) -> None:
    found, answer, _ = ask(port, f"/v1/{path}completions", body)
    assert found == status, answer
    assert message in answer["error"]["message"] and answer["error"]["param"] == field


def test_who_is_served(port: int, model: LanguageModel) -> None:
    """No page from elsewhere, and with a key nobody without it."""
    assert ask(port, "/v1/models", Host="evil.example")[0] == 403
    assert ask(port, "/v1/models", Host="localhost:1")[0] == 200
    assert ask(port, "/v1/chat/completions", CHAT, Content_Type="text/plain")[0] == 415
    assert ask(port, "/v1/chat/completions")[0] == 405
    with serving(model, key="long secret") as guarded:
        assert ask(guarded, "/v1/models")[0] == 401 == ask(guarded, "/v1/models", Authorization="Bearer é")[0]
        assert ask(guarded, "/v1/models", Authorization="Bearer long secret")[0] == 200


def opened(port: int, text: str) -> socket.socket:
    """A connection on which so much of a request was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(text.encode())
    return connection


SLOW = {
    "head": "GET /v1/models HTTP/1.1\r\nHost: local",
    "nothing": "",
    "second head": "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1",
    "body": "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Content-Length: 99\r\n\r\n{",
}


@pytest.mark.parametrize("text", SLOW.values(), ids=SLOW)
def test_a_client_that_does_not_go_on_is_left(model: LanguageModel, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """They were kept until there were no more connections for others."""
    monkeypatch.setattr(patience, "SECONDS", 0.4)
    monkeypatch.setattr(server, "BODY_SECONDS", 0.4)
    with serving(model) as port, opened(port, text) as connection:
        found = b""
        with contextlib.suppress(ConnectionError):
            while part := connection.recv(1 << 16):
                found += part
    assert (b"HTTP/1.1 408 " in found) == (text == SLOW["body"])


def test_connections_are_counted(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "CONNECTIONS", 3)
    with serving(model) as port, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(opened(port, "GET "))
        more = stack.enter_context(opened(port, ""))
        with contextlib.suppress(ConnectionError):
            assert more.recv(1) == b""


def test_an_answer_that_nobody_reads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turn was kept from all others for as long as the connection stood."""
    monkeypatch.setattr(patience, "SECONDS", 0.4)
    ended = threading.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

        async def wait() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            ended.set()

        gone = asyncio.create_task(wait())
        while not ended.is_set():
            await send({"type": "http.response.body", "body": b"x" * (1 << 16), "more_body": True})
        await gone

    with running(endless) as port, opened(port, SLOW["head"] + "host\r\n\r\n"):
        assert ended.wait(20)


def test_turns(model: LanguageModel) -> None:
    """One generation at a time; a client that leaves gives its turn back; more than may wait are sent away."""
    gate, entered = threading.Event(), threading.Event()

    class Slow(LanguageModel):
        def __init__(self) -> None:
            self.__dict__ = {**model.__dict__}

        def generate(self, prompt: Any, **more: Any) -> Any:
            def mask(allowed: Any) -> None:
                entered.set()
                gate.wait(30)

            return super().generate(prompt, mask=mask if prompt == "slow" else None, **more)

    body = {"prompt": "hello", "max_tokens": 2}
    with serving(Slow(), limits=server.Limits(1, 0)) as port:
        left = HTTPConnection("127.0.0.1", port)
        slow = {"prompt": "slow", "stream": True, "max_tokens": 50}
        left.request("POST", "/v1/completions", json.dumps(slow), {"Content-Type": "application/json"})
        assert entered.wait(30)
        assert ask(port, "/v1/completions", body)[0] == 503
        left.close()
        gate.set()
        deadline = time.monotonic() + 30
        while (status := ask(port, "/v1/completions", body)[0]) == 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert status == 200
    with serving(model, limits=server.Limits(2, 8)) as port:
        found: list[str] = []
        wanted = {"prompt": "hello", "max_tokens": 15, "temperature": 1.5, "seed": 9}
        threads = [
            threading.Thread(target=lambda: found.append(ask(port, "/v1/completions", wanted)[1]["choices"][0]["text"]))
            for _ in range(6)
        ]
        [t.start() for t in threads], [t.join() for t in threads]
        assert found == [model.generate("hello", max_tokens=15, temperature=1.5, seed=9).text()] * 6


def test_addresses(model: LanguageModel, tmp_path: Path) -> None:
    limits = server.Limits()
    with pytest.raises(UsageError, match="can be reached by others"):
        server.run(model, "0.0.0.0", 0, None, limits)
    with pytest.raises(UsageError, match="is no address"):
        server.run(model, "example.com", 0, None, limits)
    (tmp_path / "key").write_text("short\n")
    with pytest.raises(UsageError, match="8 characters"):
        server.run(model, "127.0.0.1", 0, tmp_path / "key", limits)
    with pytest.raises(UsageError, match="cannot be read"):
        server.run(model, "127.0.0.1", 0, tmp_path / "none", limits)
    with pytest.raises(UsageError, match="no request could be answered"):
        server.run(model, "127.0.0.1", 0, None, server.Limits(0))
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(UsageError, match="cannot listen"):
        server.run(model, "127.0.0.1", taken.getsockname()[1], None, limits)


def test_the_command(folder: Path) -> None:
    """From the command line to an answer, and out by Ctrl-C."""
    command = [sys.executable, "-m", "edgec", "serve-lm", str(folder), "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as run:
        assert run.stderr is not None and run.stdout is not None
        line = run.stderr.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)/v1 serves 'lm'", line)
        assert found is not None, line
        assert ask(int(found[1]), "/v1/completions", {"prompt": "hello", "max_tokens": 2})[0] == 200
        run.send_signal(signal.SIGINT)
        assert run.wait(30) == 0 and "Traceback" not in run.stderr.read()
