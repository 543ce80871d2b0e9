"""A built language model behind OpenAI's interface: /v1/models, /v1/completions, /v1/chat/completions.

By default this machine alone is served. Requests have bounded sizes, and name this server as their host, so that no
page from elsewhere reaches it; bodies are of type application/json, which a page may not send to another origin.
"""

from __future__ import annotations

import json
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgec.artifact.language_model import Generation, LanguageModel
from edgec.errors import EdgecError, UsageError
from edgec.serve.requests import BadRequestError, Request, missing, request_of
from edgec.text import printable
from edgec.untrusted import reason, regular

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response

#: Bytes of a request's body.
MOST_BYTES = 1 << 20
#: Seconds that it may take to arrive.
BODY_SECONDS = 30.0
#: Seconds that generations have to end when the server stops.
_LAST_SECONDS = 1
_EXTRA = "pip install 'edgec[serve]'"


@dataclass(frozen=True)
class Limits:
    """Generations at the same time, each with a cache of its own, and requests that wait for one."""

    parallel: int = 1
    waiting: int = 16


class _Turns:
    """Turns of generations: some at a time, others wait, and more than that are sent away."""

    def __init__(self, limits: Limits) -> None:
        import anyio

        self._running = anyio.Semaphore(limits.parallel)
        self._free = limits.parallel + limits.waiting

    def check(self) -> None:
        """Raises BadRequestError where as many wait as may."""
        if self._free <= 0:
            raise BadRequestError("too many requests wait already", status=503)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        self.check()
        self._free -= 1
        try:
            async with self._running:
                yield
        finally:
            self._free += 1


def application(
    model: LanguageModel, name: str, limits: Limits = Limits(), hosts: tuple[str, ...] = (), key: str | None = None
) -> Starlette:
    """The application that serves ``model`` as ``name``, to requests for one of the ``hosts`` (none: for any)."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    turns = _Turns(limits)
    begun = int(time.time())

    async def models(http: HttpRequest) -> Response:
        return JSONResponse({"object": "list", "data": [_described(n, begun, name) for n in (name, *model.adapters)]})

    async def one_model(http: HttpRequest) -> Response:
        wanted = http.path_params["name"]
        if wanted not in (name, *model.adapters):
            raise BadRequestError(missing(name, model), "model", 404)
        return JSONResponse(_described(wanted, begun, name))

    def generating(is_chat: bool) -> Callable[[HttpRequest], Awaitable[Response]]:
        async def answer(http: HttpRequest) -> Response:
            from starlette.concurrency import run_in_threadpool

            body = await _body(http)
            request = await run_in_threadpool(request_of, body, model, name, is_chat)
            return await _answered(http, request, turns)

        return answer

    def guarded(endpoint: Callable[[HttpRequest], Awaitable[Response]]) -> Callable[[HttpRequest], Awaitable[Response]]:
        async def answer(http: HttpRequest) -> Response:
            try:
                if hosts and _host(http.headers.get("host", "")) not in hosts:
                    raise BadRequestError("this server is not the host that the request names", status=403)
                given = http.headers.get("authorization", "").removeprefix("Bearer ")
                if key is not None and not secrets.compare_digest(given.encode(), key.encode()):
                    raise BadRequestError("the request brings no key, or another one", status=401)
                return await endpoint(http)
            except BadRequestError as problem:
                return JSONResponse(_error(problem), problem.status)

        return answer

    return Starlette(
        routes=[
            Route("/v1/models", guarded(models)),
            Route("/v1/models/{name:path}", guarded(one_model)),
            Route("/v1/completions", guarded(generating(False)), methods=["POST"]),
            Route("/v1/chat/completions", guarded(generating(True)), methods=["POST"]),
        ]
    )


def run(model: LanguageModel, host: str, port: int, key_file: Path | None, limits: Limits) -> str:
    """Serve until the user stops it; gives the address. Raises UsageError for an address that cannot be served."""
    try:
        import uvicorn

        from edgec.serve.patience import Patient
    except ImportError:
        raise UsageError("the server needs packages that are not installed", hint=_EXTRA) from None
    if limits.parallel < 1 or limits.waiting < 0:
        raise UsageError("no request could be answered", hint="--parallel is 1 or more, --waiting 0 or more")
    is_own = _is_loopback(host)
    key = _key(key_file) if key_file is not None else None
    if not is_own and key is None:
        raise UsageError(f"'{host}' can be reached by others", hint="give a --key-file", where="--host")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen: {error}", hint="choose another --port", where=f"{host}:{port}") from None
    name = model.network.name
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/v1"
    hosts = ("127.0.0.1", "localhost", "[::1]") if is_own else ()
    app = application(model, name, limits, hosts, key)
    sys.stderr.write(f"{url} serves '{name}' (stop with Ctrl-C)\n")
    sys.stderr.flush()
    config = uvicorn.Config(
        app, http=Patient, ws="none", log_level="warning", access_log=False, server_header=False,
        timeout_graceful_shutdown=_LAST_SECONDS,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")
    return url


def _host(header: str) -> str:
    """The host without its port."""
    host, colon, port = header.rpartition(":")
    return host if colon and port.isdigit() else header


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        raise UsageError(f"'{host}' is no address", hint="127.0.0.1 is this machine alone", where="--host") from None


def _key(path: Path) -> str:
    try:
        key = regular(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {reason(error)}", where=str(path)) from None
    if len(key) < 8:
        raise UsageError("a key has 8 characters at least", where=str(path))
    return key


async def _body(http: HttpRequest) -> Any:
    """The body in JSON, of bounded size."""
    if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise BadRequestError("the type of the content is not application/json", status=415)
    import anyio

    raw = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in http.stream():
                raw += part
                if len(raw) > MOST_BYTES:
                    raise BadRequestError(f"the body has more than {MOST_BYTES} bytes", status=413)
    except TimeoutError:
        raise BadRequestError("the body takes too long", status=408) from None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise BadRequestError("the body is not JSON") from None


async def _answered(http: HttpRequest, request: Request, turns: _Turns) -> Response:
    from starlette.concurrency import iterate_in_threadpool
    from starlette.responses import JSONResponse, StreamingResponse

    about = _about(request)
    generation = request.generation
    if request.is_stream:
        turns.check()
        return StreamingResponse(_events(request, about, turns), media_type="text/event-stream")
    async with turns.turn():
        text = ""
        try:
            async for piece in iterate_in_threadpool(generation):
                text += piece
                if await http.is_disconnected():
                    break
        except EdgecError as problem:
            raise BadRequestError(problem.message, status=500) from None
        finally:
            generation.close()
        message = {"role": "assistant", "content": text}
        choice = {"message": message} if request.is_chat else {"text": text}
        choices = [{"index": 0, **choice, "logprobs": None, "finish_reason": generation.finish}]
        return JSONResponse({**about, "choices": choices, "usage": _usage(generation)})


async def _events(request: Request, about: Mapping[str, Any], turns: _Turns) -> AsyncIterator[str]:
    """The stream of an answer: a line of JSON for each piece."""
    from starlette.concurrency import iterate_in_threadpool

    def event(delta: dict[str, str], text: str, finish: str | None = None) -> str:
        choice = {"delta": delta} if request.is_chat else {"text": text}
        choices = [{"index": 0, **choice, "logprobs": None, "finish_reason": finish}]
        return f"data: {json.dumps({**about, 'choices': choices})}\n\n"

    async with turns.turn():
        try:
            if request.is_chat:
                yield event({"role": "assistant", "content": ""}, "")
            async for piece in iterate_in_threadpool(request.generation):
                yield event({"content": piece}, piece)
            yield event({}, "", request.generation.finish)
            if request.with_usage:
                yield f"data: {json.dumps({**about, 'choices': [], 'usage': _usage(request.generation)})}\n\n"
        except EdgecError as problem:
            yield f"data: {json.dumps(_error(BadRequestError(problem.message, status=500)))}\n\n"
        finally:
            request.generation.close()
        yield "data: [DONE]\n\n"


def _about(request: Request) -> dict[str, Any]:
    kind = "chat.completion" if request.is_chat else "text_completion"
    chunk = ".chunk" if request.is_chat and request.is_stream else ""
    mark = "chatcmpl" if request.is_chat else "cmpl"
    return {
        "id": f"{mark}-{secrets.token_hex(12)}", "object": kind + chunk, "created": int(time.time()),
        "model": request.model,
    }  # fmt: skip


def _described(name: str, begun: int, base: str) -> dict[str, Any]:
    """A model, or an adapter of the one that is its ``parent``."""
    about = {"id": name, "object": "model", "created": begun, "owned_by": "edgec"}
    return about if name == base else {**about, "parent": base}


def _usage(generation: Generation) -> dict[str, Any]:
    found = generation.usage
    return {
        "prompt_tokens": found.prompt_tokens, "completion_tokens": found.completion_tokens,
        "total_tokens": found.prompt_tokens + found.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": found.reused_tokens},
    }  # fmt: skip


def _error(problem: BadRequestError) -> dict[str, Any]:
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    message = printable(problem.message, 2000)
    field = None if problem.field is None else printable(problem.field)  # of the request, and so any text
    return {"error": {"message": message, "type": kind, "param": field, "code": None}}
