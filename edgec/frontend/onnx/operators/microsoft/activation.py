"""Activation functions, alone and fused behind a product."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

from edgec.frontend.onnx.call import Call
from edgec.frontend.onnx.operators.activation import gelu_of
from edgec.frontend.onnx.operators.microsoft.domain import microsoft
from edgec.frontend.values import Value, clip, emit, maximum, select


@microsoft("Gelu", "BiasGelu")
def gelu(call: Call) -> Value:
    bias = call.optional(1)
    return gelu_of(call[0] if bias is None else call[0] + bias)


@microsoft("FastGelu")
def fast_gelu(call: Call) -> Value:
    """By tanh; the operand may have a bias."""
    bias = call.optional(1)
    x = call[0] if bias is None else call[0] + bias
    return x * 0.5 * (emit("tanh", (x + x * x * x * 0.044715) * sqrt(2 / pi)) + 1)


@microsoft("QuickGelu")
def quick_gelu(call: Call) -> Value:
    x = call[0]
    return x * emit("sigmoid", x * call.attribute("alpha", 1.702))


def _clip(x: Value, low: float, high: float) -> Value:
    return clip(x, low, high)


#: Function and defaults of its parameters, by the name a fused operator knows it by.
_FUSED: dict[str, tuple[Callable[..., Value], tuple[float, ...]]] = {
    "": (lambda x: x, ()),
    "Relu": (lambda x: maximum(x, 0), ()),
    "Tanh": (lambda x: emit("tanh", x), ()),
    "Sigmoid": (lambda x: emit("sigmoid", x), ()),
    "LeakyRelu": (lambda x, alpha: select(x < 0, x * alpha, x), (0.01,)),
    "Clip": (_clip, (-3.4028235e38, 3.4028235e38)),
    "HardSigmoid": (lambda x, alpha, beta: clip(x * alpha + beta, 0, 1), (0.2, 0.5)),
    "HardSwish": (lambda x: x * clip(x * (1 / 6) + 0.5, 0, 1), ()),
}


def activated(call: Call, x: Value, *given: float) -> Value:
    """x through the function that the attribute ``activation`` names, with the parameters it is given."""
    name = call.attribute("activation", "")
    if name not in _FUSED:
        raise call.error(f"activation '{name}' is not known", f"one of {', '.join(filter(None, _FUSED))} is")
    function, defaults = _FUSED[name]
    parameters = (*given, *defaults[len(given) :])[: len(defaults)]
    return function(x, *parameters)
