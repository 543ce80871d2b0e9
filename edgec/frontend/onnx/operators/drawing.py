"""Random numbers: functions of the seed, the place of the element and the number of the run."""

from __future__ import annotations

import math

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.onnx.model import element_type
from edgec.frontend.onnx.operators.math import converted
from edgec.frontend.onnx.operators.reduction import arg_extreme
from edgec.frontend.values import Value, emit


@onnx("RandomUniform", "RandomUniformLike")
def random_uniform(call: Call) -> Value:
    """Numbers from ``low`` to ``high``."""
    dtype, shape = _wanted(call)
    low, high = float(call.attribute("low", 0.0)), float(call.attribute("high", 1.0))
    return (_widened(call.drawn(shape), dtype) * (high - low) + low).cast(dtype)


@onnx("RandomNormal", "RandomNormalLike")
def random_normal(call: Call) -> Value:
    """Numbers of a normal distribution, each of two uniform ones (Box and Muller 1958)."""
    dtype, shape = _wanted(call)
    pairs = call.drawn((2, *shape))
    radius = emit("sqrt", emit("log", 1.0 - pairs.part(0, 0, 1)) * -2.0)
    angle = pairs.part(0, 1, 2) * (2 * math.pi)
    drawn = _widened((radius * emit("cos", angle)).reshape(*shape), dtype)
    return (drawn * float(call.attribute("scale", 1.0)) + float(call.attribute("mean", 0.0))).cast(dtype)


@onnx("Bernoulli")
def bernoulli(call: Call) -> Value:
    """1 with the probability that the operand gives, else 0."""
    p = call[0]
    code = call.attribute("dtype")
    drawn = call.drawn(p.shape)
    hit = drawn < p.cast("f32") if p.dtype != "f64" else drawn.cast("f64") < p
    return converted(hit, element_type(code) if code else p.dtype)


@onnx("Multinomial")
def multinomial(call: Call) -> Value:
    """Classes by the logarithms of their probabilities: the greatest of these with Gumbel noise (Gumbel 1954)."""
    scores = call[0]
    if scores.rank != 2:
        raise call.error(f"probabilities of rank {scores.rank}", "they are [batch, classes]")
    batch, classes = scores.shape
    drawn = call.drawn((batch, int(call.attribute("sample_size", 1)), classes))
    noise = -emit("log", -emit("log", drawn))
    chosen = arg_extreme(scores.unsqueeze(1).cast("f32") + noise, 2, "max", False).squeeze(2)
    return chosen.cast(element_type(call.attribute("dtype", 6)))


def _wanted(call: Call) -> tuple[str, tuple[int, ...]]:
    """Element type and shape: of the attributes, or of the operand."""
    code = call.attribute("dtype")
    if call.operator.endswith("Like"):
        return element_type(code) if code else call[0].dtype, tuple(call[0].shape)
    shape = tuple(call.required("shape"))
    if any(n < 0 for n in shape):
        raise call.error(f"shape {list(shape)} is negative")
    return element_type(code or 1), shape


def _widened(drawn: Value, dtype: str) -> Value:
    """The numbers in the type of the arithmetic: 64 bits where the result has them."""
    return drawn.cast("f64") if dtype == "f64" else drawn
