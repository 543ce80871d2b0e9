"""Composites by their mathematics. How an exporter spells them is the rules' business.

A definition takes operands and returns one node. It is written for operands of shape ``SAMPLE`` that is normalized,
reduced or rotated along its last dimension; ``EXTENT`` stands for the extent of that dimension wherever it occurs, and
``ANY`` for a constant that a model is free to choose (an epsilon, a slope).
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt

import numpy as np

from edgec.ir.graph import Node, constant
from edgec.ops import node

#: Extents that occur in no definition by themselves.
SAMPLE = (5, 22)
EXTENT = float(SAMPLE[-1])
#: Constants of the model's choice, of any shape that broadcasts; two, because equal ones cancel.
ANY, OTHER = 0.0123, 0.0456

#: A definition, and what its first operand may carry as a factor that rules moved elsewhere.
Definition = Callable[..., Node]
DEFINITIONS: dict[str, list[Definition]] = {}


def define(name: str) -> Callable[[Definition], Definition]:
    def decorate(definition: Definition) -> Definition:
        DEFINITIONS.setdefault(name, []).append(definition)
        return definition

    return decorate


def number(value: float) -> Node:
    return constant(np.array(value, np.float32))


def _reduce(x: Node, combine: str) -> Node:
    return node("reduce", x, combine=combine, axes=(x.type.rank - 1,))


def _mean(x: Node) -> Node:
    return node("div", _reduce(x, "add"), number(EXTENT))


def _normal(x: Node, variance: Node) -> Node:
    return node("div", x, node("sqrt", node("add", variance, number(ANY))))


# ---- rows


@define("softmax")
def softmax(x: Node) -> Node:
    """exp(x - max x) / sum exp(x - max x)."""
    raised = node("exp", node("sub", x, _reduce(x, "max")))
    return node("div", raised, _reduce(raised, "add"))


@define("softmax")
def softmax_unshifted(x: Node) -> Node:
    """exp(x) / sum exp(x), where no greatest element is taken off."""
    raised = node("exp", x)
    return node("div", raised, _reduce(raised, "add"))


@define("softmax")
def softmax_of_parts(x: Node) -> Node:
    """The same in parts of something else, for instance of 1/256: that is how it is quantized."""
    raised = node("exp", node("sub", x, _reduce(x, "max")))
    return node("div", raised, node("mul", _reduce(raised, "add"), number(ANY)))


@define("log softmax")
def log_softmax(x: Node) -> Node:
    """x - max x - log sum exp(x - max x)."""
    lowered = node("sub", x, _reduce(x, "max"))
    return node("sub", lowered, node("log", _reduce(node("exp", lowered), "add")))


@define("layer normalization")
def layer_norm(x: Node) -> Node:
    """(x - mean) / sqrt(variance + epsilon)."""
    centered = node("sub", x, _mean(x))
    return _normal(centered, _mean(node("mul", centered, centered)))


@define("layer normalization")
def layer_norm_by_moments(x: Node) -> Node:
    """The same with the variance as mean(x^2) - mean(x)^2."""
    mean = _mean(x)
    variance = node("sub", _mean(node("mul", x, x)), node("mul", mean, mean))
    return _normal(node("sub", x, mean), variance)


@define("arg max")
def arg_max(x: Node) -> Node:
    """The least position of those where x is greatest."""
    return _reduce(node("select", node("eq", x, _reduce(x, "max")), number(ANY), number(OTHER)), "min")


@define("arg max")
def arg_max_of_known(x: Node, greatest: Node) -> Node:
    """The same where the greatest element is needed by itself too: it is computed beside."""
    return _reduce(node("select", node("eq", x, greatest), number(ANY), number(OTHER)), "min")


@define("arg min")
def arg_min(x: Node) -> Node:
    return _reduce(node("select", node("eq", x, _reduce(x, "min")), number(ANY), number(OTHER)), "min")


@define("rms normalization")
def rms_norm(x: Node) -> Node:
    """x / sqrt(mean(x^2) + epsilon)."""
    return _normal(x, _mean(node("mul", x, x)))


@define("l2 normalization")
def l2_norm(x: Node) -> Node:
    """x / max(|x|, epsilon)."""
    return node("div", x, node("max", node("sqrt", _reduce(node("mul", x, x), "add")), number(ANY)))


# ---- activations


def _gate(x: Node, gate: Node) -> Node:
    return node("mul", x, gate)


@define("gelu")
def gelu(x: Node) -> Node:
    """x/2 (1 + erf(x / sqrt 2)), Hendrycks and Gimpel 2016."""
    inner = node("erf", node("div", x, number(sqrt(2))))
    return node("mul", _gate(x, node("add", inner, number(1))), number(0.5))


@define("gelu")
def gelu_of_scaled(x: Node) -> Node:
    """The same of x = y sqrt 2, where the root went into the weights before."""
    return _gate(x, node("add", node("erf", x), number(1)))


@define("gelu (tanh)")
def gelu_tanh(x: Node) -> Node:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    cubic = node("add", x, node("mul", node("pow", x, number(3)), number(0.044715)))
    inner = node("tanh", node("mul", cubic, number(sqrt(2 / pi))))
    return node("mul", _gate(x, node("add", inner, number(1))), number(0.5))


@define("quick gelu")
def quick_gelu(x: Node) -> Node:
    """x sigmoid(1.702 x)."""
    return _gate(x, node("sigmoid", node("mul", x, number(1.702))))


@define("silu")
def silu(x: Node) -> Node:
    """x sigmoid(x), also called swish."""
    return _gate(x, node("sigmoid", x))


def _clipped(x: Node, low: float, high: float) -> Node:
    return node("min", node("max", x, number(low)), number(high))


@define("hard sigmoid")
def hard_sigmoid(x: Node) -> Node:
    """min(max(a x + b, 0), 1)."""
    return _clipped(node("add", node("mul", x, number(ANY)), number(ANY)), 0, 1)


@define("hard swish")
def hard_swish(x: Node) -> Node:
    """x min(max(x/6 + 1/2, 0), 1)."""
    return _gate(x, _clipped(node("add", node("div", x, number(6)), number(0.5)), 0, 1))


@define("hard swish")
def hard_swish_of_six(x: Node) -> Node:
    """x min(max(x + 3, 0), 6), the sixth having gone into the weights behind."""
    return _gate(x, _clipped(node("add", x, number(3)), 0, 6))


@define("hard swish")
def hard_swish_of_scaled(x: Node) -> Node:
    """The same of x = 6 y, where the six went into the weights before."""
    return _gate(x, _clipped(node("add", x, number(0.5)), 0, 1))


@define("softplus")
def softplus(x: Node) -> Node:
    """log(1 + exp(x)), written so that nothing overflows."""
    grown = node("log1p", node("exp", node("neg", node("abs", x))))
    return node("add", node("max", x, number(0)), grown)


@define("mish")
def mish(x: Node) -> Node:
    """x tanh(softplus(x))."""
    return _gate(x, node("tanh", softplus(x)))


@define("leaky relu")
def leaky_relu(x: Node) -> Node:
    """x above 0, a x below."""
    return node("select", node("lt", x, number(0)), node("mul", x, number(ANY)), x)


@define("leaky relu")
def leaky_relu_by_maximum(x: Node) -> Node:
    return node("max", x, node("mul", x, number(ANY)))


@define("clip")
def clip(x: Node) -> Node:
    """min(max(x, low), high)."""
    return _clipped(x, ANY, OTHER)
