"""Requests of OpenAI's interface as generations: what is not supported is refused by name, never ignored silently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgec.artifact.language_model import Drawing, Generation, LanguageModel
from edgec.artifact.sampling import Sampling
from edgec.errors import UsageError
from edgec.text import listed

#: Fields that change nothing of an answer.
_SILENT = frozenset({"model", "user", "metadata", "store", "stream", "stream_options", "service_tier"})
#: Fields of which one value alone is supported: the one that changes nothing.
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,), "best_of": (1,), "logprobs": (False, 0), "top_logprobs": (0,), "echo": (False,), "suffix": ("",),
    "logit_bias": ({},), "presence_penalty": (0,), "frequency_penalty": (0,), "tools": ([],), "functions": ([],),
    "tool_choice": ("none", "auto"), "function_call": ("none", "auto"), "parallel_tool_calls": (False, True),
    "response_format": ({"type": "text"},), "modalities": (["text"],),
}  # fmt: skip
_NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty")
_WHOLE = ("top_k", "seed", "max_tokens", "max_completion_tokens")
#: Tokens of a completion where nothing is said, as in OpenAI's interface.
_FEW = 16


class BadRequestError(Exception):
    """A request that cannot be met: the field concerned, and the reason."""

    def __init__(self, message: str, field: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.field, self.status = message, field, status


@dataclass(frozen=True)
class Request:
    """A generation that is asked for, of the model or of an adapter by its name (``model``).

    It is a stream or a whole; ``with_usage``: the stream ends with the usage.
    """

    generation: Generation
    model: str
    is_stream: bool
    with_usage: bool
    is_chat: bool


def request_of(body: Any, model: LanguageModel, name: str, is_chat: bool) -> Request:
    """The generation that a body in JSON asks for; raises BadRequestError."""
    if not isinstance(body, dict):
        raise BadRequestError("the body is no JSON object")
    wanted = body.get("model", name)
    if wanted not in (name, *model.adapters):
        raise BadRequestError(missing(name, model), "model", 404)
    adapter = wanted if wanted != name else ""
    own = {"messages"} if is_chat else {"prompt"}
    for field, value in body.items():
        if field in _NEUTRAL and value is not None and not any(_same(value, v) for v in _NEUTRAL[field]):
            raise BadRequestError("no other value than the default is supported", field)
        if field not in _SILENT | own | {"stop", *_NUMBERS, *_WHOLE, *_NEUTRAL}:
            raise BadRequestError("there is no such field", field)
    numbers = {field: _number(body, field) for field in _NUMBERS}
    whole = {field: _whole(body, field) for field in _WHOLE}
    drawing: Drawing = {}
    drawing |= {field: value for field, value in numbers.items() if value is not None}  # type: ignore[typeddict-item]
    if whole["top_k"] is not None:
        drawing["top_k"] = whole["top_k"]
    if whole["seed"] is not None:
        drawing["seed"] = whole["seed"] % (1 << 64)
    if drawing.get("top_p") == 0:  # the most probable token alone
        drawing["top_p"], drawing["top_k"] = 1.0, 1
    most = whole["max_completion_tokens"] or whole["max_tokens"] or (None if is_chat else _FEW)
    if 0 in (whole["max_tokens"], whole["max_completion_tokens"]):
        raise BadRequestError("1 or more are allowed", "max_tokens")
    stop = body.get("stop")
    stop = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stop, list) or not all(isinstance(s, str) for s in stop):
        raise BadRequestError("this is no text, and no list of texts", "stop")
    options = body.get("stream_options") or {}
    is_stream = body.get("stream") or False
    if not isinstance(is_stream, bool):
        raise BadRequestError("true or false are allowed", "stream")
    if not isinstance(options, dict):
        raise BadRequestError("this is no JSON object", "stream_options")
    try:
        Sampling(**drawing).check()
        generation = (
            model.chat(_messages(body), max_tokens=most, stop=stop, adapter=adapter, **drawing)
            if is_chat
            else model.generate(_prompt(body), max_tokens=most, stop=stop, adapter=adapter, **drawing)
        )
    except UsageError as problem:
        raise BadRequestError(problem.message) from None
    return Request(generation, wanted, is_stream, bool(options.get("include_usage")), is_chat)


def missing(name: str, model: LanguageModel) -> str:
    """The message for a model that is not there."""
    if not model.adapters:
        return f"there is no such model; the one here is '{name}'"
    return f"there is no such model; those here are {listed([name, *model.adapters])}"


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _number(body: Mapping[str, Any], field: str) -> float | None:
    value = body.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise BadRequestError("this is no number", field)
    try:
        return None if value is None else float(value)
    except OverflowError:
        raise BadRequestError("this is no number", field) from None


def _whole(body: Mapping[str, Any], field: str) -> int | None:
    value = body.get(field)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise BadRequestError("this is no whole number", field)
    return value


def _prompt(body: Mapping[str, Any]) -> str | list[int]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not all(isinstance(t, int) and not isinstance(t, bool) for t in prompt):
        raise BadRequestError("this is no text, and no list of tokens; one prompt a request", "prompt")
    return prompt


def _messages(body: Mapping[str, Any]) -> list[dict[str, str]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise BadRequestError("this is no list of messages", "messages")
    return [{"role": _role(m), "content": _content(m)} for m in messages]


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    if message.get("tool_calls") or role not in ("system", "developer", "user", "assistant"):
        raise BadRequestError("roles are system, user and assistant, without calls of tools", "messages")
    return "system" if role == "developer" else str(role)


def _content(message: Mapping[str, Any]) -> str:
    """A text, or the parts of one."""
    content = message.get("content")
    if isinstance(content, list):
        if not all(isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str) for p in content):
            raise BadRequestError("parts of a content are of type text", "messages")
        content = "".join(p["text"] for p in content)
    if not isinstance(content, str):
        raise BadRequestError("a message has no text", "messages")
    return content
