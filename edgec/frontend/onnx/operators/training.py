"""Steps of optimizers: arithmetic on parameters, gradients and state, several parameters at once."""

from __future__ import annotations

from collections.abc import Callable

from edgec.frontend.onnx.call import Call, onnx
from edgec.frontend.values import Value, emit, select

TRAINING = "ai.onnx.preview.training"

#: From rate, step number, parameter, gradient and state: the new parameter and state.
Step = Callable[[Value, Value, Value, Value, list[Value]], list[Value]]


def _each(call: Call, states: int, step: Step) -> list[Value]:
    """Apply a step to every parameter; operands of one kind stand side by side, and so do the results."""
    rate, count, operands = call[0], call[1], call.operands[2:]
    n = len(operands) // (2 + states)
    kinds = [operands[k * n : (k + 1) * n] for k in range(2 + states)]
    norm = call.attribute("norm_coefficient", 0.0)
    results = []
    for x, g, *state in zip(*kinds):
        results.append(step(rate, count, x, x * norm + g, state))
    return [new[k] for k in range(1 + states) for new in results]


@onnx("Adagrad", domain=TRAINING)
def adagrad(call: Call) -> list[Value]:
    def step(rate: Value, count: Value, x: Value, g: Value, state: list[Value]) -> list[Value]:
        decayed = rate / (count.cast(rate.dtype) * call.attribute("decay_factor", 0.0) + 1)
        squares = state[0] + g * g
        return [x - decayed * g / (emit("sqrt", squares) + call.attribute("epsilon", 1e-6)), squares]

    return _each(call, 1, step)


@onnx("Adam", domain=TRAINING)
def adam(call: Call) -> list[Value]:
    alpha, beta = call.attribute("alpha", 0.9), call.attribute("beta", 0.999)

    def step(rate: Value, count: Value, x: Value, g: Value, state: list[Value]) -> list[Value]:
        mean = state[0] * alpha + g * (1 - alpha)
        square = state[1] * beta + g * g * (1 - beta)
        steps = count.cast(rate.dtype)
        unbiased = rate * emit("sqrt", 1 - emit("pow", beta, steps)) / (1 - emit("pow", alpha, steps))
        moved = x - select(count > 0, unbiased, rate) * mean / (emit("sqrt", square) + call.attribute("epsilon", 1e-6))
        return [moved * (1 - call.attribute("norm_coefficient_post", 0.0)), mean, square]

    return _each(call, 2, step)


@onnx("Momentum", domain=TRAINING)
def momentum(call: Call) -> list[Value]:
    alpha = call.required("alpha")

    def step(rate: Value, count: Value, x: Value, g: Value, state: list[Value]) -> list[Value]:
        velocity = state[0] * alpha + select(count > 0, g * call.required("beta"), g)
        taken = g + velocity * alpha if call.required("mode") == "nesterov" else velocity
        return [x - rate * taken, velocity]

    return _each(call, 1, step)
