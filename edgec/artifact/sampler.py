"""The sampler of a compiled language model: the functions in C that the artifact itself has."""

from __future__ import annotations

import ctypes
import math
import secrets
from collections.abc import Callable, Iterable

import numpy as np

from edgec.artifact.sampling import Sampling
from edgec.errors import UsageError

#: A grammar: clears the elements of tokens that may not follow, in an array [vocabulary] of truth.
Mask = Callable[[np.ndarray], None]
_MASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.c_int32)


class _Fields(ctypes.Structure):
    _fields_ = [
        ("vocabulary", ctypes.c_int32),
        ("top_k", ctypes.c_int32),
        ("temperature", ctypes.c_float),
        ("top_p", ctypes.c_float),
        ("min_p", ctypes.c_float),
        ("repetition_penalty", ctypes.c_float),
        ("seed", ctypes.c_uint64),
        ("drawn", ctypes.c_uint64),
        ("recent", ctypes.c_void_p),
        ("window", ctypes.c_int64),
        ("accepted", ctypes.c_int64),
        ("mask", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class Sampler:
    """Tokens drawn from logits. The same logits and seed give the same tokens on every machine."""

    def __init__(self, library: ctypes.CDLL, vocabulary: int, sampling: Sampling, mask: Mask | None = None) -> None:
        """Raises UsageError for options outside their ranges."""
        sampling.check()
        s = sampling
        self.seed = secrets.randbits(53) if s.seed is None else s.seed  # a number that JSON keeps
        self.vocabulary = vocabulary
        self._scratch = np.empty(vocabulary + vocabulary // 64 + 1, np.uint64)
        self._recent = np.empty(max(s.window, 1), np.int32)
        self._failed: BaseException | None = None
        self._callback = _MASK(self._masking(mask)) if mask is not None else _MASK()
        self._fields = _Fields(
            vocabulary, s.top_k, s.temperature, s.top_p, s.min_p, s.repetition_penalty, self.seed, 0,
            self._recent.ctypes.data, s.window, 0, ctypes.cast(self._callback, ctypes.c_void_p), None,
        )  # fmt: skip
        self._sample, self._accept = library.ec_sample, library.ec_accept
        self._sample.restype = ctypes.c_int32

    def _masking(self, mask: Mask) -> Callable[..., None]:
        def call(context: int | None, bits: ctypes._Pointer[ctypes.c_uint32], vocabulary: int) -> None:
            words = np.ctypeslib.as_array(bits, ((vocabulary + 31) // 32,))
            allowed = np.ones(vocabulary, bool)
            try:
                mask(allowed)
            except BaseException as error:  # raised where the caller of `sample` is
                self._failed = error
            packed = np.packbits(allowed, bitorder="little")
            words.view(np.uint8)[: len(packed)] = packed

        return call

    def sample(self, logits: np.ndarray) -> int:
        """The next token. Raises UsageError where the mask allows none, or no logit is a number."""
        if logits.shape != (self.vocabulary,) or logits.dtype != np.float32 or not logits.flags.c_contiguous:
            raise UsageError(f"logits are {logits.dtype}{list(logits.shape)}, expected float32[{self.vocabulary}]")
        token = self._sample(
            ctypes.byref(self._fields), ctypes.c_void_p(logits.ctypes.data), ctypes.c_void_p(self._scratch.ctypes.data)
        )
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error
        if token < 0:
            finite = bool((logits > -math.inf).any())
            raise UsageError("the mask allows no token" if finite else "no token has a logit that is a number")
        return int(token)

    def accept(self, tokens: Iterable[int]) -> None:
        """Make tokens recent, for the repetition penalty: those of the prompt, and each that was taken."""
        for token in tokens:
            self._accept(ctypes.byref(self._fields), ctypes.c_int32(token))
