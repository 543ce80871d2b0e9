"""The text of tokens as they come: the functions in C that the artifact itself has."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from edgec.errors import UsageError

GOING, STOPPED, ENDED, _NO_TOKEN = range(4)
_LONGEST_TOKEN = 4096
#: Stop strings of a request, and bytes of each.
MOST_STOPS, LONGEST_STOP = 64, 1024


class _Fields(ctypes.Structure):
    _fields_ = [
        ("table", ctypes.c_void_p),
        ("stops", ctypes.c_void_p),
        ("stop_count", ctypes.c_size_t),
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("held", ctypes.c_size_t),
        ("status", ctypes.c_int),
    ]


class TextStream:
    """Whole characters of a text that grows by tokens, up to a stop string or a token that ends it."""

    def __init__(self, library: ctypes.CDLL, table: int, stops: Sequence[str] = ()) -> None:
        """Raises UsageError for stop strings that are empty or too long, and for too many of them."""
        raw = [stop.encode("utf-8", "surrogatepass") for stop in stops]
        if len(raw) > MOST_STOPS or any(not 0 < len(stop) <= LONGEST_STOP or 0 in stop for stop in raw):
            most = f"at most {MOST_STOPS}, each of 1 to {LONGEST_STOP} bytes without a zero"
            raise UsageError("these stop strings are not possible", hint=f"there are {most}")
        self._stops = (ctypes.c_char_p * max(len(raw), 1))(*raw)
        self._memory = np.empty(4 * (max(map(len, raw), default=0) + _LONGEST_TOKEN + 4), np.uint8)
        self._fields = _Fields(
            table, ctypes.addressof(self._stops), len(raw), self._memory.ctypes.data, self._memory.size, 0, GOING
        )
        self._put, self._finish = library.ec_stream_put, library.ec_stream_finish

    @property
    def status(self) -> int:
        """GOING; STOPPED by a stop string; ENDED by a token, or by `finish`."""
        return int(self._fields.status)

    def put(self, token: int) -> str:
        """Take a token: the text that can be shown now. Raises UsageError for one outside the vocabulary."""
        shown = self._call(self._put, ctypes.c_int32(token))
        if self.status == _NO_TOKEN:
            raise UsageError(f"token {token} is outside the vocabulary")
        return shown

    def finish(self) -> str:
        """No more tokens come: the text that still waited."""
        return self._call(self._finish)

    def _call(self, function: ctypes._NamedFuncPointer, *arguments: ctypes.c_int32) -> str:
        text, length = ctypes.c_void_p(), ctypes.c_size_t()
        function(ctypes.byref(self._fields), *arguments, ctypes.byref(text), ctypes.byref(length))
        return ctypes.string_at(text.value or 0, length.value).decode("utf-8") if length.value else ""
