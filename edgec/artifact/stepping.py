"""The place of a training's state, and the call of a step: in this process, or on a GPU."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from edgec.artifact.network import Network, Port
from edgec.errors import UsageError
from edgec.ir.dtypes import DTYPES, POISON

ALIGNMENT = 64


@dataclass(frozen=True)
class Piece:
    """A piece of the state: where it begins, whether it is a trained weight, and what it is."""

    at: int
    is_trained: bool
    port: Port

    @property
    def end(self) -> int:
        return self.at + port_bytes(self.port)

    def of(self, state: np.ndarray) -> np.ndarray:
        """The piece as a view of the bytes of a state."""
        shape: Any = self.port.shape
        return state[self.at : self.end].view(DTYPES[self.port.dtype]).reshape(shape)


def port_bytes(port: Port) -> int:
    return prod(int(n) for n in port.shape) * DTYPES[port.dtype].itemsize


class Stepping(ABC):
    """The steps of a network: arrays in, a status and the loss out.

    The state, ``size`` bytes, is an array on the host; what is written to it before the next step counts.
    """

    def __init__(self, network: Network, size: int, pieces: Mapping[str, Piece]) -> None:
        self.network = network
        self.pieces = pieces
        self.held = aligned(size)
        self.loss = ctypes.c_float()

    @property
    def state(self) -> np.ndarray:
        return self.held

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The trained weights by name, as views of the state."""
        state = self.state
        return {name: piece.of(state) for name, piece in self.pieces.items() if piece.is_trained}

    @abstractmethod
    def reset(self) -> None:
        """Begin again with the weights of the model."""

    @abstractmethod
    def step(self, arrays: Sequence[np.ndarray], rate: float) -> int:
        """One step; ``loss`` has the loss before it. The status is that of `NAME_step`."""

    @abstractmethod
    def predict(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The network on inputs by name, with the weights as they are now."""

    @abstractmethod
    def delta(self, found: np.ndarray) -> None:
        """Write the change of the trained weights."""

    @abstractmethod
    def close(self) -> None:
        """Free what is held beside the network."""

    def function(self, name: str, result: Any = ctypes.c_int) -> Any:
        found = getattr(self.network._net._library, f"{self.network.name}_{name}")
        found.restype = result
        return found


class OnProcessor(Stepping):
    """Steps in this process, on the threads of the network."""

    def __init__(self, network: Network, size: int, pieces: Mapping[str, Piece], arena_bytes: int) -> None:
        super().__init__(network, size, pieces)
        self.arena = aligned(arena_bytes)

    def reset(self) -> None:
        self.function("state_init", None)(_address(self.held))

    def step(self, arrays: Sequence[np.ndarray], rate: float) -> int:
        net = self.network._net
        pool, given = ctypes.c_void_p(net._pool), map(_address, arrays)
        memory = (_address(net._weights), _address(self.held), _address(self.arena))
        call = self.function("step")
        return int(call(*memory, pool, *given, ctypes.c_float(rate), ctypes.byref(self.loss)))

    def predict(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self.network.run({**inputs, **self.weights})

    def delta(self, found: np.ndarray) -> None:
        self.function("export_delta", None)(_address(self.held), _address(found))

    def close(self) -> None:
        """Nothing is held."""


class OnCuda(Stepping):
    """Steps on a GPU, where the state is; it is copied to the host where somebody asks, and back before a step."""

    def __init__(self, network: Network, size: int, pieces: Mapping[str, Piece]) -> None:
        super().__init__(network, size, pieces)
        self.training = ctypes.c_void_p()
        self.shown = False  # may somebody have written to the copy?
        self._told(self.function("training_open")(ctypes.byref(self.training), network._net._session))

    @property
    def state(self) -> np.ndarray:
        if not self.shown:
            self._told(self.function("state_read")(self.training, _address(self.held)))
        self.shown = True
        return self.held

    def reset(self) -> None:
        self.shown = False
        self._told(self.function("state_init")(self.training))

    def step(self, arrays: Sequence[np.ndarray], rate: float) -> int:
        self._write_back()
        call = self.function("step")
        return int(call(self.training, *map(_address, arrays), ctypes.c_float(rate), ctypes.byref(self.loss)))

    def predict(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        self._write_back()
        shapes: list[Any] = [p.shape for p in self.network.outputs]
        results = [np.empty(shape, DTYPES[p.dtype]) for shape, p in zip(shapes, self.network.outputs)]
        given = [self.network._checked(p, inputs) for p in self.network.inputs if p.onnx_name not in self.pieces]
        with self.network._lock:
            self._told(self.function("predict")(self.training, *map(_address, (*given, *results))))
        return {p.onnx_name: result for p, result in zip(self.network.outputs, results)}

    def delta(self, found: np.ndarray) -> None:
        self._write_back()
        self._told(self.function("export_delta")(self.training, _address(found)))

    def milliseconds(self, steps: int) -> float:
        """GPU time of a step, over so many in a row that train on; one step must have been made."""
        found = self.function("step_milliseconds", ctypes.c_float)(self.training, steps)
        return float(found)

    def launches(self, count: int) -> list[float]:
        """GPU milliseconds of every launch of a step by itself, in order."""
        found = np.empty(count, np.float32)
        self._told(self.function("step_launches")(self.training, _address(found)))
        return [float(ms) for ms in found]

    def poison(self) -> None:
        """Fill the arena of steps with what no kernel leaves behind."""
        self._told(self.function("training_poison")(self.training, POISON))

    def close(self) -> None:
        if self.training:
            self.function("training_close", None)(self.training)
            self.training = ctypes.c_void_p()

    def _write_back(self) -> None:
        """Hand the copy back that somebody may have written to; views of it count no more."""
        if self.shown:
            self._told(self.function("state_write")(self.training, _address(self.held)))
            self.shown = False

    def _told(self, status: int) -> None:
        if status:
            why = self.function("training_last_error", ctypes.c_char_p)().decode()
            raise UsageError(f"the GPU returned status {status}: {why}", where=str(self.network.folder))


def aligned(size: int) -> np.ndarray:
    """Bytes at a boundary of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _address(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
