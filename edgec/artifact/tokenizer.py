"""The tokenizer of a compiled language model: the functions in C that the artifact itself has."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.artifact.text_stream import TextStream
from edgec.errors import UsageError
from edgec.options.typed import typed

_PARSE_SPECIAL, _BEGIN = 1, 2
_NONE = 0xFFFFFFFF
#: Words of the head of the table: the tokens that begin and end a text.
_BOS, _EOS = 5, 6


class Tokenizer:
    """Texts as tokens, and back."""

    @typed
    def __init__(self, network: Network) -> None:
        """Raises UsageError where the network has no tokenizer."""
        facts = read_lock(network.folder).get("language_model") or {}
        if not facts.get("has_tokens"):
            raise UsageError("the network has no tokenizer", hint="its file had none", where=str(network.folder))
        self._library = network._net._library
        self._table = ctypes.c_void_p(ctypes.addressof(ctypes.c_ubyte.in_dll(self._library, f"{network.name}_tokens")))
        self._encode = self._library.ec_encode_parts
        self._encode.restype = ctypes.c_size_t
        self._decode = self._library.ec_decode
        self._decode.restype = ctypes.c_void_p
        self._whole = self._library.ec_whole_characters
        self._whole.restype = ctypes.c_size_t

    @property
    def begin(self) -> int | None:
        """The token before a text; None where there is none."""
        return self._word(_BOS)

    @property
    def end(self) -> int | None:
        """The token behind a text; None where there is none."""
        return self._word(_EOS)

    def text_stream(self, stops: Sequence[str] = ()) -> TextStream:
        """A stream of the text of tokens, up to a stop string or a token that ends it."""
        assert self._table.value is not None
        return TextStream(self._library, self._table.value, stops)

    def _word(self, field: int) -> int | None:
        assert self._table.value is not None
        found = ctypes.c_uint32.from_address(self._table.value + 4 * field).value
        return None if found == _NONE else found

    @typed
    def encode(
        self, text: str | bytes, *, special: bool = False, begin: bool = False, plain: Sequence[tuple[int, int]] = ()
    ) -> list[int]:
        """The tokens of a text. ``special``: texts of control tokens become these tokens, but not inside the ranges of
        bytes ``plain``. ``begin``: the token for the beginning comes first, where the model has one; bytes that are no
        UTF-8 stay bytes."""
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        tokens, scratch = np.empty(len(raw) + 8, np.int32), np.empty(8 * (len(raw) + 8), np.uint64)
        flags = special * _PARSE_SPECIAL | begin * _BEGIN
        ranges = (ctypes.c_size_t * (2 * len(plain)))(*(place for part in plain for place in part))
        count = self._encode(
            self._table, ctypes.c_char_p(raw), ctypes.c_size_t(len(raw)), ranges, ctypes.c_size_t(len(plain)), flags,
            ctypes.c_void_p(tokens.ctypes.data), ctypes.c_size_t(len(tokens)), ctypes.c_void_p(scratch.ctypes.data),
        )  # fmt: skip
        return [int(t) for t in tokens[:count]]

    @typed
    def bytes_of(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of a token, which may be a part of a character; raises UsageError outside the vocabulary."""
        length = ctypes.c_size_t()
        found = self._decode(self._table, token, special * _PARSE_SPECIAL, ctypes.byref(length))
        if found is None:
            raise UsageError(f"token {token} is outside the vocabulary")
        return ctypes.string_at(found, length.value)

    def decode(self, tokens: Iterable[int], *, special: bool = False) -> str:
        """The text of tokens; what is no UTF-8 becomes the replacement character."""
        return b"".join(self.bytes_of(t, special=special) for t in tokens).decode("utf-8", "replace")

    def stream(self, tokens: Iterable[int]) -> Iterator[str]:
        """The text of tokens as they come, in whole characters."""
        rest = b""
        for token in tokens:
            rest += self.bytes_of(token)
            whole = self._whole(ctypes.c_char_p(rest), ctypes.c_size_t(len(rest)))
            if whole:
                yield rest[:whole].decode("utf-8", "replace")
            rest = rest[whole:]
        if rest:
            yield rest.decode("utf-8", "replace")
