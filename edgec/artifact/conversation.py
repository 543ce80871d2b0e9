"""Messages as tokens, by the chat template of a compiled language model."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.artifact.tokenizer import Tokenizer
from edgec.errors import ModelError, UsageError
from edgec.frontend.language.chat import read_chat
from edgec.frontend.language.chat_form import ROLES
from edgec.frontend.language.chat_template import Message, render
from edgec.untrusted import reason, regular

#: Bytes of all messages together.
LONGEST = 1 << 24
_REFUSED = ctypes.c_size_t(-1).value


class _Message(ctypes.Structure):
    _fields_ = [("role", ctypes.c_int), ("content", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Conversation:
    """The chat template of a model: in C where it has the form for that, in Jinja otherwise."""

    def __init__(self, network: Network, tokenizer: Tokenizer) -> None:
        """Raises UsageError where the model has no chat template."""
        kind = (read_lock(network.folder).get("language_model") or {}).get("chat")
        if kind is None:
            hint = "build it with --chat-template FILE, or continue a text: edgec chat --raw, generate() in Python"
            raise UsageError("the model has no chat template", hint=hint, where=str(network.folder))
        self.tokenizer = tokenizer
        path = network.folder / f"{network.name}_chat.json"
        try:
            self._chat = read_chat(regular(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot be read: {reason(error)}", hint="build the model again", where=str(path)
            ) from None
        self._library = network._net._library if kind == "c" else None
        if self._library is not None:
            self._template = ctypes.c_void_p(
                ctypes.addressof(ctypes.c_ubyte.in_dll(self._library, f"{network.name}_chat"))
            )
            self._render = self._library.ec_chat
            self._render.restype = ctypes.c_size_t

    def tokens(self, messages: Sequence[Message | Mapping[str, Any]]) -> list[int]:
        """The tokens of messages, each with ``role`` and ``content``, up to where the answer begins.

        Texts of control tokens in contents stay texts. Raises UsageError for messages that are none, or that the
        template does not take.
        """
        text, plain = self.text(messages)
        return self.tokenizer.encode(text, special=True, plain=plain)

    def text(self, messages: Sequence[Message | Mapping[str, Any]]) -> tuple[bytes, list[tuple[int, int]]]:
        """The text of messages, and where their contents are in it."""
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
            hint = 'one of the user is [{"role": "user", "content": "Hello"}]; generate() continues a text'
            raise UsageError("messages are a list", hint=hint)
        checked = [_checked(k, m) for k, m in enumerate(messages)]
        if not checked:
            raise UsageError("there is no message")
        contents = [m.content.encode("utf-8", "replace") for m in checked]
        if sum(map(len, contents)) > LONGEST:
            raise UsageError(f"the messages have more than {LONGEST} bytes")
        return self._in_jinja(checked) if self._library is None else self._in_c(checked, contents)

    def _in_c(self, messages: Sequence[Message], contents: Sequence[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
        count = len(messages)
        given = (_Message * count)(*(_Message(ROLES.index(m.role), c, len(c)) for m, c in zip(messages, contents)))
        plain = (ctypes.c_size_t * (2 * count))()

        def call(out: Any, capacity: int) -> int:
            size = self._render(
                self._template, given, ctypes.c_size_t(count), out, ctypes.c_size_t(capacity), ctypes.byref(plain)
            )
            if size == _REFUSED:
                order = ", ".join(m.role for m in messages[:20])
                raise UsageError(f"the chat template of the model does not take these messages: {order}")
            return int(size)

        out = ctypes.create_string_buffer(size := call(None, 0))
        call(out, size)
        return out.raw[:size], [(plain[2 * k], plain[2 * k + 1]) for k in range(count)]

    def _in_jinja(self, messages: Sequence[Message]) -> tuple[bytes, list[tuple[int, int]]]:
        """The text by the template itself, which may do with contents what it wants: they contain no control token."""
        for m in messages:
            tokens = self.tokenizer.encode(m.content.encode("utf-8", "replace"), special=True)
            if tokens != self.tokenizer.encode(m.content.encode("utf-8", "replace")):
                raise UsageError(
                    "a message contains the text of a control token of the model",
                    hint="write it in another way; the chat template of this model is not one that keeps them apart",
                )
        try:
            (found,) = render(self._chat.template, [messages])
        except ModelError as error:
            raise UsageError(error.message, hint="the messages may be too long for it") from None
        if found.refusal is not None:
            raise UsageError(f"the chat template of the model does not take these messages: {found.refusal}")
        return found.text.encode("utf-8", "replace"), []


def _checked(number: int, message: Message | Mapping[str, Any]) -> Message:
    role, content = (
        (message.role, message.content)
        if isinstance(message, Message)
        else (message.get("role"), message.get("content"))
        if isinstance(message, Mapping)
        else (None, None)
    )
    if role not in ROLES or not isinstance(content, str):
        names = ", ".join(ROLES)
        raise UsageError(f"message {number} has no role of {names} with a content that is a text")
    return Message(role, content)
