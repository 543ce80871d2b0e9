"""Compiled networks that read what the fuzzer mutates, built once a process: states, texts, and requests."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.robustness import seeds
from edgec import api
from edgec.artifact.language_model import LanguageModel
from edgec.artifact.network import Network
from edgec.artifact.session import Session
from edgec.artifact.trainer import Trainer
from edgec.errors import UsageError
from edgec.serve.language_model import application

#: Tokens of the text that mutations of a saved one start from.
TOKENS = (1, 2, 3, 5, 8)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for what is built, as long as the process lives."""
    return tempfile.TemporaryDirectory(prefix="edgec-fuzz-built-")


@cache
def trainer() -> Trainer:
    """A training of one product with Adam, which has numbers of its own in the state."""
    seeds.from_tests("", "chance").begin("trainer")
    model = seeds.from_tests("training", "trained_models").linear()
    out = Path(_folder().name) / "training"
    api.build(model, out, loss="mse", optimizer="adam")
    return Trainer(out)


@cache
def session() -> Session:
    """A session of a model whose layers have windows, so that saved texts say how far their rows reach."""
    plain = seeds.from_tests("language", "plain")
    seeds.from_tests("", "chance").begin("session")
    file, out = Path(_folder().name) / "lm.gguf", Path(_folder().name) / "lm"
    file.write_bytes(plain.gguf("gemma2", plain.draw("gemma2")))
    api.build(file, out, context=plain.CONTEXT)
    return Session(Network(out))


def states() -> list[bytes]:
    """The state of the training, as it saves it."""
    trainer().reset()
    path = Path(_folder().name) / "state.npz"
    trainer().save(path)
    return [path.read_bytes()]


def texts() -> list[bytes]:
    """A text that the session saved, and an empty one."""
    path, found = Path(_folder().name) / "text", []
    for tokens in (TOKENS, ()):
        session().rewind()
        if tokens:
            session().prefill(tokens)
        session().save(path)
        found.append(path.read_bytes())
    return found


def read_state(content: bytes, folder: Path) -> object:
    """A step from a restored state; one that is refused leaves everything as it was."""
    (folder / "state.npz").write_bytes(content)
    before = trainer().stepping.held.copy()
    try:
        trainer().restore(folder / "state.npz")
    except UsageError:
        assert np.array_equal(trainer().stepping.held, before), "a refused state is in use"
        raise
    shapes = [port.shape for port in (*trainer().inputs, trainer().target)]
    return trainer().step(*(np.ones(shape, np.float32) for shape in shapes))  # type: ignore[arg-type]


def read_text(content: bytes, folder: Path) -> object:
    """A token behind a restored text; one that is refused leaves everything as it was."""
    (folder / "text").write_bytes(content)
    before = session().tokens
    try:
        session().restore(folder / "text")
    except UsageError:
        assert session().tokens == before, "a refused text is in use"
        raise
    assert session().past <= session().context and all(-1 <= t < session().vocabulary for t in session().tokens)
    return session().next(1)


@cache
def _server() -> Any:
    """The application that serves a model with a chat template."""
    seeds.from_tests("", "chance").begin("server")
    file, out = Path(_folder().name) / "chat.gguf", Path(_folder().name) / "chat"
    file.write_bytes(seeds.gguf_models()[-1])
    api.build(file, out, context=24)
    return application(LanguageModel(out), "chat")


#: Requests that mutations start from, each behind a line with its path.
REQUESTS: Mapping[str, Mapping[str, Any]] = {
    "/v1/completions": {
        "model": "chat", "prompt": "a b", "max_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.0,
        "seed": 7, "stop": ["x", "yz"], "repetition_penalty": 1.1, "logit_bias": {}, "n": 1,
    },
    "/v1/chat/completions": {
        "messages": [
            {"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]},
            {"role": "assistant", "content": "c"}, {"role": "user", "content": "d"},
        ],
        "max_completion_tokens": 2, "stream": True, "stream_options": {"include_usage": True}, "stop": "x",
        "response_format": {"type": "text"}, "tools": [], "user": "u",
    },
}  # fmt: skip


def requests() -> list[bytes]:
    return [f"{path}\n{json.dumps(body)}".encode() for path, body in REQUESTS.items()]


def answer(content: bytes, folder: Path) -> object:
    """The answer to a request, behind a line with its path; a status of 500 or more is a mistake."""
    path, _, body = content.partition(b"\n")
    sent: list[dict[str, Any]] = []
    asyncio.run(_asked(path.decode("latin-1"), body, sent))
    status = sent[0]["status"]
    answer = b"".join(part.get("body", b"") for part in sent[1:])
    assert status < 500, f"status {status}: {answer[:1000]!r}"
    assert len(answer) < 100_000, f"an answer of {len(answer)} bytes"
    if status >= 400:
        raise UsageError(answer.decode())
    return answer


async def _asked(path: str, body: bytes, sent: list[dict[str, Any]]) -> None:
    kind = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode("latin-1"), "headers": kind,
             "query_string": b"", "http_version": "1.1", "scheme": "http", "server": ("127.0.0.1", 80),
             "client": ("127.0.0.1", 9)}  # fmt: skip
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await _server()(scope, receive, send)
