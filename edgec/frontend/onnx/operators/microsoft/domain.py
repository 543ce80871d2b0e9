"""The domain's name, and how its operators are registered."""

from __future__ import annotations

from collections.abc import Callable

from edgec.frontend.onnx.call import AnyLowering, onnx

MICROSOFT = "com.microsoft"


def microsoft(*operators: str) -> Callable[[AnyLowering], AnyLowering]:
    """Register the lowering of operators of com.microsoft."""
    return onnx(*operators, domain=MICROSOFT)
