"""Chat templates: the form found at build time is the template byte for byte, in Python and in C."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import chat_templates as given
import pytest
from chance import RANDOM
from compiled import STRICT

from edgec.emit.render import environment
from edgec.errors import ModelError
from edgec.frontend.language.chat import Chat, read_chat
from edgec.frontend.language.chat_form import ASSISTANT, END, ROLES, START, SYSTEM, USER, ChatForm, form_of
from edgec.frontend.language.chat_template import ChatTemplate, Message, render

LANGUAGE = Path(__file__).resolve().parents[2] / "codegen_templates" / "language"
WORDS = ["", " ", "hello", "\n", "a\nb", "<|im_end|>", "</think>", "<think>", "\u3000", "\u00a0x", "é\U0001f600",
         "{{ x }}", "'\"\\", "\t", "\x1c", "\u2029", "\x85"]  # fmt: skip


def template(name: str) -> ChatTemplate:
    return ChatTemplate(given.FORMS[name], "<s>", "</s>")


def drawn(form: ChatForm) -> list[Message]:
    """A conversation in an order that the form has."""
    messages: list[Message] = []
    before = START
    for _ in range(9):
        after = sorted(b for a, b in form.between if a == before)
        role = after[int(RANDOM.integers(0, len(after)))]
        if role == END:
            break
        content = "".join(WORDS[int(k)] for k in RANDOM.integers(0, len(WORDS), int(RANDOM.integers(0, 5))))
        messages.append(Message(role, content))
        before = role
    return messages if messages and (messages[-1].role, END) in form.between else drawn(form)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`ec_chat`, and the templates as the session of an artifact has them."""
    folder = tmp_path_factory.mktemp("chat")
    source = '#include "ec_chat.h"\n'
    filters = environment().filters
    for name in given.FORMS:
        form = form_of(template(name))
        assert isinstance(form, ChatForm), form
        rows = []
        for before in (START, *ROLES):
            texts = [form.between.get((before, after)) for after in (*ROLES, END)]
            cells = ("{0, 0}" if t is None else f"{{{filters['c_string'](t)}, {len(t.encode())}}}" for t in texts)
            rows.append("{" + ", ".join(cells) + "}")
        changes = ", ".join(str(form.changes.get(role, 0)) for role in ROLES)
        source += f"const ec_chat_template {name} = {{{{{', '.join(rows)}}}, {{{changes}}}}};\n"
    (folder / "forms.c").write_text(source)
    command = ["gcc", *STRICT, f"-I{LANGUAGE}", "-shared", "-fPIC", "-o", "chat.so", "forms.c"]
    subprocess.run([*command, str(LANGUAGE / "ec_chat.c")], cwd=folder, check=True)
    found = ctypes.CDLL(str(folder / "chat.so"))
    found.ec_chat.restype = ctypes.c_size_t
    return found


class CMessage(ctypes.Structure):
    _fields_ = [("role", ctypes.c_int), ("content", ctypes.c_char_p), ("length", ctypes.c_size_t)]


def in_c(library: ctypes.CDLL, name: str, messages: Sequence[Message]) -> tuple[str, list[str]] | None:
    """The text, and the contents in it."""
    contents = [m.content.encode() for m in messages]
    rows = (CMessage * len(messages))(*(CMessage(ROLES.index(m.role), c, len(c)) for m, c in zip(messages, contents)))
    plain = (ctypes.c_size_t * (2 * len(messages)))()
    place = ctypes.c_void_p(ctypes.addressof(ctypes.c_ubyte.in_dll(library, name)))
    count = ctypes.c_size_t(len(messages))
    size = library.ec_chat(place, rows, count, None, ctypes.c_size_t(0), plain)
    if size == ctypes.c_size_t(-1).value:
        return None
    out = ctypes.create_string_buffer(b"\x7f" * (size + 8))
    assert library.ec_chat(place, rows, count, out, ctypes.c_size_t(size), plain) == size
    assert out.raw[size : size + 8] == b"\x7f" * 8
    half = ctypes.create_string_buffer(b"\x7f" * (size + 8))
    assert library.ec_chat(place, rows, count, half, ctypes.c_size_t(size // 2), plain) == size
    assert half.raw[: size // 2] == out.raw[: size // 2] and half.raw[size // 2 : size + 8] == b"\x7f" * (
        size + 8 - size // 2
    )
    raw = out.raw[:size]
    return raw.decode(), [raw[plain[2 * k] : plain[2 * k + 1]].decode() for k in range(len(messages))]


@pytest.mark.parametrize("name", [*given.FORMS])
def test_equals_the_template(name: str, library: ctypes.CDLL) -> None:
    form = form_of(template(name))
    assert isinstance(form, ChatForm)
    conversations = [drawn(form) for _ in range(60)]
    for messages, rendered in zip(conversations, render(template(name), conversations)):
        found = in_c(library, name, messages)
        assert found is not None and rendered.refusal is None
        assert found[0] == rendered.text == form.text(messages), messages
        for message, content in zip(messages, found[1]):
            assert content in message.content


def test_orders_and_changes(library: ctypes.CDLL) -> None:
    """A few known ones: Gemma has no system message, Qwen 3 leaves thoughts out, Llama 3 strips."""
    user = Message(USER, " hi ")
    assert in_c(library, "gemma", [Message(SYSTEM, "x"), user]) is None
    assert in_c(library, "gemma", [user, user]) is None
    assert in_c(library, "gemma3", [Message(SYSTEM, "x"), user]) == (
        "<s><start_of_turn>user\nx\n\nhi<end_of_turn>\n<start_of_turn>model\n", ["x", "hi"]
    )  # fmt: skip
    thought = Message(ASSISTANT, "<think>a</think>\n\nb")
    assert in_c(library, "qwen3", [user, thought, user]) == (
        "<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\n hi <|im_end|>\n<|im_start|>assistant\n", [" hi ", "b", " hi "]
    )  # fmt: skip
    found = in_c(library, "llama3", [user])
    assert found is not None and found[1] == ["hi"] and found[0].startswith("<s><|start_header_id|>system")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (given.MISTRAL, "not constant in the order system, user"),
        (given.LLAMA2, "not constant in the order system, user"),
        ("{{ messages[0]['content'] | upper }}", "not constant in the order user"),
        (
            "{% for m in messages %}{{ m['content'] | length }}{{ m['content'] }}{% endfor %}",
            "changes what system says",
        ),
        ("{% for m in messages %}[{{ m['content'] | replace('a', 'b') }}]{% endfor %}", "changes what system says"),
        ("{% for m in messages %}{{ loop.length }}{{ m['content'] }}{% endfor %}", "not constant"),
        ("{{ raise_exception('no') }}", "it refuses user: TemplateError: no"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
        ("{% include '/etc/passwd' %}", "TypeError"),
        ("{% for m in messages %}{{ 'a' * 9000 }}{{ m['content'] }}{% endfor %}", "more than 32768 characters"),
        ("{% for m in messages %}\x00{{ m['content'] }}{% endfor %}", "characters that no text has"),
    ],
)
def test_without_a_form(source: str, reason: str) -> None:
    found = form_of(ChatTemplate(source))
    assert isinstance(found, str) and reason in found, found


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes more than 1 seconds"),
        ("{{ 99 ** (9 ** (9 ** 9)) }}", "takes more than 1 seconds"),
        ("{{ 'a' * 10 ** 10 }}", "of memory"),
        ("{{ '%1000000000d' % 1 }}", "of memory"),
        ("{% for a in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "writes more than"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself"),
        (" " * 70000, "has 70000 characters"),
    ],
)
def test_hostile_templates_end(source: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        render(ChatTemplate(source), [[Message(USER, "hi")]], seconds=1)


def test_written_and_read() -> None:
    form = form_of(template("llama3"))
    assert isinstance(form, ChatForm)
    chat = Chat(template("llama3"), form)
    assert read_chat(chat.written()) == chat
