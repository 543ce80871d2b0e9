"""Arrays that a compiled network reads and writes: another shape or type is refused, as C goes by the declared one."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.artifact.network import Network, Port
from edgec.errors import ModelError

PORT = Port("x", "x", "f32", (2, 3))
OPEN = Port("x", "x", "f32", (2, "n", 3))
F32 = np.zeros((2, 3), np.float32)


def test_arrays_that_fit() -> None:
    """Others in memory are copied; extents of run-time sizes are any."""
    assert Network._checked(PORT, {"x": F32}) is F32
    turned = Network._checked(PORT, {"x": np.arange(6, dtype=np.float32).reshape(3, 2).T})
    assert turned.flags.c_contiguous and turned.tolist() == [[0, 2, 4], [1, 3, 5]]
    for n in (0, 1, 7):
        assert Network._checked(OPEN, {"x": np.zeros((2, n, 3), np.float32)}).shape == (2, n, 3)
    assert Network._place(PORT, F32) is F32


@pytest.mark.parametrize(
    "port, shape, hint",
    [
        (PORT, (2, 2), None), (PORT, (1, 3), None), (PORT, (3, 2), None), (PORT, (6,), None), (PORT, (), None),
        (PORT, (2, 3, 1), None), (PORT, (1, 2, 3), None), (OPEN, (1, 4, 3), None), (OPEN, (2, 4, 2), None),
        (OPEN, (2, 3), None), (Port("x", "x", "f32", (1, 2, 3)), (2, 3), "array[numpy.newaxis] is one"),
        (Port("x", "x", "f32", (2, 2, 3)), (2, 3), None), (Port("x", "x", "f32", (1, 2, 3)), (2, 4), None),
    ],
)  # fmt: skip
def test_other_shapes(port: Port, shape: tuple[int, ...], hint: str | None) -> None:
    with pytest.raises(ModelError, match=r"input .x. is float32.*, expected f32") as caught:
        Network._checked(port, {"x": np.zeros(shape, np.float32)})
    assert caught.value.hint == hint
    if all(isinstance(n, int) for n in port.shape):
        with pytest.raises(ModelError, match="output 'x' goes into float32"):
            Network._place(port, np.zeros(shape, np.float32))


@pytest.mark.parametrize(
    "dtype, port, hint",
    [
        ("f8", PORT, 'array.astype("float32") is one'), ("i8", PORT, 'array.astype("float32") is one'),
        ("?", PORT, 'array.astype("float32") is one'), ("S4", PORT, None), ("c8", PORT, None),
        ("f4", Port("x", "x", "i32", (2, 3)), None),
        ("f8", Port("x", "x", "f32", (1, 2, 3)), 'array[numpy.newaxis].astype("float32") is one'),
        ("f8", Port("x", "x", "f32", (3, 2)), None),
    ],
)  # fmt: skip
def test_other_types(dtype: str, port: Port, hint: str | None) -> None:
    with pytest.raises(ModelError, match="expected") as caught:
        Network._checked(port, {"x": np.zeros((2, 3), dtype)})
    assert caught.value.hint == hint
    with pytest.raises(ModelError, match="goes into"):
        Network._place(port, np.zeros((2, 3), dtype))


def test_memory_that_cannot_be_written() -> None:
    for array in (np.zeros((3, 2), np.float32).T, np.broadcast_to(np.float32(0), (2, 3))):
        with pytest.raises(ModelError, match="is not contiguous, or cannot be written"):
            Network._place(PORT, array)
    frozen = F32.copy()
    frozen.flags.writeable = False
    with pytest.raises(ModelError, match="cannot be written"):
        Network._place(PORT, frozen)
    with pytest.raises(ModelError, match="input 'x' is missing"):
        Network._checked(PORT, {"y": F32})
