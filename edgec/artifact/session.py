"""A text that a compiled language model reads and writes: its cache, and the position in it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.errors import UsageError

_FULL, _BAD_TOKEN = 17, 16
_ALIGNMENT = 64


class _Fields(ctypes.Structure):
    _fields_ = [
        ("weights", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("cache", ctypes.c_void_p),
        ("past", ctypes.c_int64),
    ]


class Session:
    """One text. Sessions of one network share its weights, arena and threads, and wait for one another."""

    def __init__(self, network: Network) -> None:
        """Begin an empty text; raises UsageError where the network is no language model."""
        facts = read_lock(network.folder).get("language_model")
        if not facts:
            raise UsageError("this is no language model", hint="build one from a GGUF file", where=str(network.folder))
        self.network = network
        self.context, self.vocabulary = int(facts["context"]), int(facts["vocabulary"])
        raw = np.empty(int(facts["cache_bytes"]) + _ALIGNMENT, np.uint8)
        self._cache = raw[-raw.ctypes.data % _ALIGNMENT :]
        net, name = network._net, network.name
        self._prefill = getattr(net._library, f"{name}_prefill")
        self._fork = getattr(net._library, f"{name}_fork")
        self._fields = _Fields(net._weights.ctypes.data, net._arena.ctypes.data, net._pool, self._cache.ctypes.data, 0)

    @property
    def past(self) -> int:
        """The number of tokens so far."""
        return int(self._fields.past)

    def prefill(self, tokens: Sequence[int]) -> np.ndarray:
        """Append tokens; the logits [vocabulary] of the token after them.

        Raises UsageError for tokens outside the vocabulary, and where they do not fit the context.
        """
        if not len(tokens):
            raise UsageError("no token is given")
        outside = [t for t in tokens if not 0 <= t < self.vocabulary]
        if outside:
            raise UsageError(f"token {outside[0]} is outside the vocabulary of {self.vocabulary}")
        given = np.asarray(tokens, np.int32)
        logits = np.empty(self.vocabulary, np.float32)
        with self.network._lock:
            status = self._prefill(
                ctypes.byref(self._fields), ctypes.c_void_p(given.ctypes.data), ctypes.c_int64(len(given)),
                ctypes.c_void_p(logits.ctypes.data),
            )  # fmt: skip
        if status == _FULL:
            raise UsageError(
                f"{self.past} tokens and {len(given)} more do not fit the context of {self.context}",
                hint="build with a larger --context",
            )
        if status:
            raise UsageError(f"the model returned status {status}", where=str(self.network.folder))
        return logits

    def next(self, token: int) -> np.ndarray:
        """Append one token; the logits of the one after it."""
        return self.prefill([token])

    def fork(self) -> Session:
        """Another session with the same text."""
        other = Session(self.network)
        with self.network._lock:
            self._fork(ctypes.byref(other._fields), ctypes.byref(self._fields))
        return other

    def rewind(self, past: int = 0) -> None:
        """Go back to the first ``past`` tokens, which stay computed; raises UsageError for more than there are."""
        if not 0 <= past <= self.past:
            raise UsageError(f"there are {self.past} tokens, and {past} of them are to stay")
        self._fields.past = past
