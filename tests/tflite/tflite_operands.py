"""Operands of cases: constants, and equal scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from small_tflite import File


def same_scale(kind: str) -> dict[str, Any]:
    """A result in the scale of the first operand."""
    _, scale, zero = KINDS.get(kind, (kind, None, 0))
    return {} if scale is None else {"scale": scale, "zero": zero}


def const(values: Any, dtype: str = "i32") -> Callable[[File], list[int]]:
    return lambda f: [f.main.const(values, dtype)]


#: Element type, scale and zero point of activations.
FLOAT = ("f32", None, 0)


INT8 = ("i8", 0.05, -7)


UINT8 = ("u8", 0.04, 121)


KINDS = {"f32": FLOAT, "i8": INT8, "u8": UINT8}
