"""The copy of a training's state on the host: what is written to it counts in whatever comes next on the GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgec.artifact.network import Port
from edgec.artifact.stepping import ALIGNMENT, OnCuda, Piece, aligned
from edgec.errors import UsageError


class Library:
    """Functions of a session, whose state is an array here; ``status`` is what they return."""

    def __init__(self, begun: np.ndarray) -> None:
        self.begun, self.state, self.status, self.calls = begun, begun.copy(), 0, list[str]()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("net_"):
            raise AttributeError(name)
        own = name.removeprefix("net")

        def call(*arguments: Any) -> Any:
            self.calls.append(own[1:])
            return getattr(self, own, lambda *_: 0)(*arguments) or self.status

        return type("Function", (), {"restype": None, "__call__": staticmethod(call)})()

    def _at(self, address: ctypes.c_void_p, count: int) -> np.ndarray:
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (count,))

    def _state_read(self, training: object, to: ctypes.c_void_p) -> None:
        self._at(to, 4)[:] = self.state

    def _state_write(self, training: object, source: ctypes.c_void_p) -> None:
        self.state[:] = self._at(source, 4)

    def _state_init(self, training: object) -> None:
        self.state[:] = self.begun

    def _step(self, training: object, x: ctypes.c_void_p, rate: ctypes.c_float, loss: Any) -> None:
        loss._obj.value = float(self._at(x, 1)[0] - self.state[0])
        self.state[:2] -= rate.value

    def _predict(self, training: object, x: ctypes.c_void_p, y: ctypes.c_void_p) -> None:
        self._at(y, 1)[:] = self._at(x, 1)[0] * self.state[0]

    def _export_delta(self, training: object, to: ctypes.c_void_p) -> None:
        self._at(to, 2)[:] = self.state[:2] - self.begun[:2]

    def _training_last_error(self) -> bytes:
        return b"no memory"


@pytest.fixture
def opened() -> tuple[OnCuda, Library]:
    library = Library(np.arange(1, 5, dtype=np.float32))
    x, y, w, m = (Port(n, n, "f32", shape) for n, shape in (("x", (1,)), ("y", (1,)), ("w", (2,)), ("m", (2,))))
    network: Any = SimpleNamespace(
        name="net", folder=Path("net"), inputs=[x, w], outputs=[y], _lock=Lock(),
        _checked=lambda p, given: given[p.name], _net=SimpleNamespace(_library=library, _session=ctypes.c_void_p()),
    )  # fmt: skip
    return OnCuda(network, 16, {"w": Piece(0, True, w), "m": Piece(8, False, m)}), library


def predicted(found: OnCuda) -> float:
    return float(found.predict({"x": np.float32([2])})["y"][0])


def stepped(found: OnCuda) -> float:
    assert not found.step([np.float32([0])], 0.25)
    return -found.loss.value


def changed(found: OnCuda) -> float:
    delta = np.empty(2, np.float32)
    found.delta(delta)
    return float(delta[0])


@pytest.mark.parametrize(
    "call, before, after", [(predicted, 2.0, 14.0), (stepped, 1.0, 7.0), (changed, 0.0, 6.0)]
)  # fmt: skip
def test_what_is_written_counts_in_the_next_call(
    call: Callable[[OnCuda], float], before: float, after: float, opened: tuple[OnCuda, Library]
) -> None:
    found, library = opened
    assert call(found) == before
    found.reset()
    assert list(found.weights) == ["w"] and found.weights["w"].tolist() == [1, 2]
    found.weights["w"][0] = 7
    assert call(found) == after and library.calls.count("state_write") == 1
    call(found)
    assert library.calls.count("state_write") == 1  # the copy counts no more


def test_what_the_gpu_computes_is_read_once(opened: tuple[OnCuda, Library]) -> None:
    found, library = opened
    assert found.state.view(np.float32).tolist() == [1, 2, 3, 4] == found.state.view(np.float32).tolist()
    assert library.calls.count("state_read") == 1
    stepped(found)
    assert found.weights["w"].tolist() == [0.75, 1.75] and library.calls.count("state_read") == 2
    found.weights["w"][:] = 9
    found.reset()
    assert found.weights["w"].tolist() == [1, 2] and library.calls.count("state_write") == 1


def test_a_failure_is_told(opened: tuple[OnCuda, Library]) -> None:
    found, library = opened
    library.status = 3
    with pytest.raises(UsageError, match="the GPU returned status 3: no memory"):
        found.reset()
    with pytest.raises(UsageError, match="status 3"):
        predicted(found)


def test_memory_that_is_held_is_freed_once(opened: tuple[OnCuda, Library]) -> None:
    found, library = opened
    found.training = ctypes.c_void_p(1)
    found.close()
    found.close()
    assert library.calls.count("training_close") == 1
    assert all(aligned(n).ctypes.data % ALIGNMENT == 0 and aligned(n).size == n for n in (1, 64, 999))
