"""Outputs of a run that is not over: those that are final are told, while others are computed."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from edgec.artifact.folder import read_lock
from edgec.artifact.network import Network
from edgec.errors import UsageError

_TOLD = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)


class Finals:
    """Calls of a function during the runs of a network, with how many outputs are final: the first ones, in order.

    Nothing is called for a network that was built without. The function must not raise, and nobody but it may run
    meanwhile what the network holds. Raises UsageError for a library that is not that of its lock.
    """

    def __init__(self, network: Network, told: Callable[[int], None]) -> None:
        if not read_lock(network.folder).get("finals"):
            return
        self._called = _TOLD(lambda _, count: told(count))  # it lives as long as the library may call it
        set_told = getattr(network.library, f"{network.name}_tell", None)
        if set_told is None:
            raise UsageError("the library is of another build", hint="build it again", where=str(network.folder))
        set_told.restype, set_told.argtypes = None, [_TOLD, ctypes.c_void_p]
        set_told(self._called, None)
        network.before_closing(self, set_told, _TOLD(), None)
