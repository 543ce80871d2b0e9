"""Every field of a request of the server with every kind of value: what is taken as it is, and what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from edgec.serve.requests import BadRequestError, Request, request_of

HUGE = 10**400
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 0.5, 2.5, HUGE, "", "text", "none", "auto", [], {}, ["text"], ["a", "b"], [5, 6],
    [[5]], [True], {"type": "text"}, [{"role": "user", "content": "a"}],
)  # fmt: skip
#: Values of each field that are taken, beside null; of the others below, any.
TAKEN: dict[str, list[Any]] = {
    "n": [1], "best_of": [1], "logprobs": [False, 0], "top_logprobs": [0], "echo": [False], "suffix": [""],
    "logit_bias": [{}], "presence_penalty": [0], "frequency_penalty": [0], "tools": [[]], "functions": [[]],
    "tool_choice": ["none", "auto"], "function_call": ["none", "auto"], "parallel_tool_calls": [True, False],
    "response_format": [{"type": "text"}], "modalities": [["text"]], "temperature": [0, 1, 7, 0.5, 2.5],
    "top_p": [0, 1, 0.5], "min_p": [0, 1, 0.5], "repetition_penalty": [1, 7, 0.5, 2.5], "top_k": [0, 1, 7],
    "seed": [0, 1, -1, 7, HUGE], "max_tokens": [1, -1, 7, HUGE], "max_completion_tokens": [1, -1, 7, HUGE],
    "stop": [False, 0, "", "text", "none", "auto", [], {}, ["text"], ["a", "b"]],
    "stream": [True, False, 0, "", [], {}], "stream_options": [False, 0, "", [], {}, {"type": "text"}], "other": [],
}  # fmt: skip
ANY = ("user", "metadata", "store", "service_tier")
NUMBERS = ("temperature", "top_p", "min_p", "repetition_penalty")
BODIES = {True: {"messages": [{"role": "user", "content": "a"}]}, False: {"prompt": "a"}}


def asked(body: object, is_chat: bool) -> Request:
    """The request, whose generation is what the model was called with."""
    model: Any = SimpleNamespace(
        adapters=("fine",), chat=lambda *a, **k: ("chat", *a, k), generate=lambda *a, **k: ("generate", *a, k)
    )
    return request_of(body, model, "one", is_chat)


def options(body: object, is_chat: bool = True) -> dict[str, Any]:
    generation: Any = asked(body, is_chat).generation
    return generation[2]


def is_taken(field: str, value: object, is_chat: bool) -> bool:
    try:
        asked({**BODIES[is_chat], field: value}, is_chat)
    except BadRequestError as refused:
        assert refused.field in (field, None) or {field, refused.field} == {"max_tokens", "max_completion_tokens"}
        assert refused.status == 400 and refused.message
        return False
    return True


@pytest.mark.parametrize("is_chat", [True, False])
@pytest.mark.parametrize("field", [*TAKEN, *ANY])
def test_values_of_fields(field: str, is_chat: bool) -> None:
    taken = [repr(v) for v in VALUES if is_taken(field, v, is_chat)]
    wanted = VALUES if field in ANY else [None, *TAKEN[field]] if field != "other" else []
    assert sorted(taken) == sorted(map(repr, wanted))


@pytest.mark.parametrize("field", NUMBERS)
def test_numbers_reach_the_sampler(field: str) -> None:
    for value in TAKEN[field]:
        given = options({**BODIES[True], field: value})
        if (field, value) == ("top_p", 0):  # the most probable token
            assert (given["top_p"], given["top_k"]) == (1.0, 1)
        else:
            assert given[field] == value and type(given[field]) is float and "top_k" not in given
    assert field not in options(BODIES[True])


def test_whole_numbers() -> None:
    both = {**BODIES[True], "seed": -1, "top_k": 7}
    assert (options(both)["seed"], options(both)["top_k"]) == (2**64 - 1, 7)
    assert options({**both, "seed": 2**64 + 5})["seed"] == 5
    most = [{}, {"max_tokens": 3}, {"max_completion_tokens": 4}, {"max_tokens": 3, "max_completion_tokens": 4}]
    assert [options({**BODIES[True], **m})["max_tokens"] for m in most] == [None, 3, 4, 4]
    assert [options({**BODIES[False], **m}, False)["max_tokens"] for m in most] == [16, 3, 4, 4]
    for field in ("max_tokens", "max_completion_tokens"):
        assert not is_taken(field, 0, True)


def test_what_else_is_said() -> None:
    assert [options({**BODIES[True], "stop": s})["stop"] for s in (None, "a", ["a", "b"])] == [[], ["a"], ["a", "b"]]
    for said, known in (({}, False), ({"include_usage": True}, True), ({"include_usage": 0}, False)):
        request = asked({**BODIES[True], "stream": True, "stream_options": said}, True)
        assert (request.is_stream, request.with_usage, request.is_chat, request.model) == (True, known, True, "one")
    assert not asked(BODIES[False], False).is_stream and not asked(BODIES[False], False).is_chat
    for model, adapter in (("one", ""), ("fine", "fine")):
        assert options({**BODIES[True], "model": model})["adapter"] == adapter
    with pytest.raises(BadRequestError, match="those here are 'one', 'fine'") as refused:
        asked({**BODIES[True], "model": "two"}, True)
    assert (refused.value.status, refused.value.field) == (404, "model")
    with pytest.raises(BadRequestError, match="no JSON object"):
        asked([], True)


def test_prompts() -> None:
    """One text or one list of tokens, or a list of one of them."""
    told = {repr(v): asked({"prompt": v}, False).generation for v in VALUES if is_taken("prompt", v, False)}
    texts = {"''": "", "'text'": "text", "'none'": "none", "'auto'": "auto", "['text']": "text"}
    tokens = {"[]": [], "[5, 6]": [5, 6], "[[5]]": [5]}
    assert {k: g[1] for k, g in told.items()} == {**texts, **tokens}  # type: ignore[index]


def test_messages() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for role in ("system", "developer", "user", "assistant"):
        generation: Any = asked({"messages": [{"role": role, "content": parts}]}, True).generation
        assert generation[1] == [{"role": role.replace("developer", "system"), "content": "ab"}]
    user = {"role": "user", "content": "a"}
    wrong: list[Any] = [
        None, "a", {}, [user, "a"], [{**user, "role": "tool"}], [{"content": "a"}], [{**user, "tool_calls": [1]}],
        [{**user, "content": None}], [{**user, "content": 5}], [{**user, "content": ["a"]}],
        [{**user, "content": [{"type": "image_url", "text": "a"}]}], [{**user, "content": [{"type": "text"}]}],
    ]  # fmt: skip
    assert not any(is_taken("messages", messages, True) for messages in wrong)
    assert is_taken("messages", [], True) and is_taken("messages", [{**user, "tool_calls": []}], True)
