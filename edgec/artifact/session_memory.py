"""The memory of a session: a cache beside the network's arena, or a session of a GPU's own host."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np

from edgec.artifact.network import Network
from edgec.errors import UsageError

_ALIGNMENT = 64


class Memory(Protocol):
    """A text's place: ``pointer`` is the session that functions in C take."""

    @property
    def pointer(self) -> Any: ...

    @property
    def past(self) -> int:
        """The number of tokens so far."""

    def rewind(self, past: int) -> int:
        """Keep the first ``past`` tokens; a status of the session's functions."""


def memory_of(network: Network, cache_bytes: int) -> Memory:
    """Memory for another text of a network; raises UsageError where there is none."""
    return DeviceMemory(network) if hasattr(network._net, "_session") else HostMemory(network, cache_bytes)


class _Fields(ctypes.Structure):
    _fields_ = [
        ("weights", ctypes.c_void_p),
        ("arena", ctypes.c_void_p),
        ("pool", ctypes.c_void_p),
        ("cache", ctypes.c_void_p),
        ("past", ctypes.c_int64),
        ("adapter", ctypes.c_void_p),  # where the model has room for one; others read the fields before it alone
    ]


class HostMemory:
    """A cache of its own, and the weights, arena and threads of the network."""

    def __init__(self, network: Network, cache_bytes: int) -> None:
        raw, net = np.empty(cache_bytes + _ALIGNMENT, np.uint8), network._net
        self._cache = raw[-raw.ctypes.data % _ALIGNMENT :]
        self._fields = _Fields(net._weights.ctypes.data, net._arena.ctypes.data, net._pool, self._cache.ctypes.data, 0)

    @property
    def pointer(self) -> Any:
        return ctypes.byref(self._fields)

    @property
    def past(self) -> int:
        """The number of tokens so far."""
        return int(self._fields.past)

    def rewind(self, past: int) -> int:
        """Set back; whether windows still have these rows, the next run finds out."""
        self._fields.past = past
        return 0


class DeviceMemory:
    """A session of the GPU's host beside that of the network, with which it shares weights and scratch memory."""

    def __init__(self, network: Network) -> None:
        """Raises UsageError where the memory of the device does not suffice."""
        library, name = network._net._library, network.name
        self._past, self._rewind = (getattr(library, f"{name}_{what}") for what in ("past", "rewind"))
        self._past.restype = ctypes.c_int64
        self.pointer = ctypes.c_void_p()
        if getattr(library, f"{name}_open_beside")(ctypes.byref(self.pointer), network._net._session):
            raise UsageError(f"there is no memory for another text: {network._net._why().decode(errors='replace')}")
        network.before_closing(self, _close, network, getattr(library, f"{name}_close"), self.pointer)

    @property
    def past(self) -> int:
        """The number of tokens so far."""
        return int(self._past(self.pointer))

    def rewind(self, past: int) -> int:
        """Set back, where windows still have these rows."""
        return int(self._rewind(self.pointer, ctypes.c_int64(past)))


def _close(network: Network, close: Any, pointer: ctypes.c_void_p) -> None:
    """Free the memory of a text, before that of the network goes."""
    with network._lock:
        if network._net._session:
            close(pointer)
        pointer.value = None
