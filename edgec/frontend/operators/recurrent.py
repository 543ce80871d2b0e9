"""Recurrent networks, unrolled over their sequence.

What does not depend on the state is one matrix product over the whole sequence; a step is what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgec.frontend.call import Call, onnx
from edgec.frontend.values import Value, clip, concat, emit, full, select

#: A longer sequence would make a program nobody wants to compile.
_MAX_STEPS = 4096

Activation = Callable[[Value], Value]
#: One step: what the input contributes, the states; gives the new states (the first is the output).
Step = Callable[[Value, Sequence[Value]], tuple[Value, ...]]

_PLAIN: dict[str, Callable[[Value, float, float], Value]] = {
    "sigmoid": lambda x, a, b: emit("sigmoid", x),
    "tanh": lambda x, a, b: emit("tanh", x),
    "relu": lambda x, a, b: emit("max", x, 0.0),
    "affine": lambda x, a, b: x * a + b,
    "leakyrelu": lambda x, a, b: select(x < 0.0, x * a, x),
    "thresholdedrelu": lambda x, a, b: select(x > a, x, 0.0),
    "scaledtanh": lambda x, a, b: emit("tanh", x * b) * a,
    "hardsigmoid": lambda x, a, b: clip(x * a + b, 0.0, 1.0),
    "elu": lambda x, a, b: select(x < 0.0, emit("expm1", x) * a, x),
    "softsign": lambda x, a, b: x / (emit("abs", x) + 1.0),
    "softplus": lambda x, a, b: emit("log1p", emit("exp", x)),
}
_ALPHA = {
    "leakyrelu": 0.01,
    "thresholdedrelu": 1.0,
    "hardsigmoid": 0.2,
    "elu": 1.0,
    "affine": 1.0,
    "scaledtanh": 1.0,
}
_BETA = {"hardsigmoid": 0.5, "scaledtanh": 1.0}


def _activations(call: Call, defaults: Sequence[str], direction: int) -> list[Activation]:
    count = len(defaults)
    names = [n.lower() for n in call.attribute("activations") or list(defaults) * 2]
    names = names[direction * count : direction * count + count]
    if len(names) < count or any(n not in _PLAIN for n in names):
        raise call.error(f"activations {names} are not known")
    alphas, betas = (
        list(call.attribute("activation_alpha") or ()),
        list(call.attribute("activation_beta") or ()),
    )
    bound = call.attribute("clip")

    def bind(k: int, name: str) -> Activation:
        a = alphas[direction * count + k] if direction * count + k < len(alphas) else _ALPHA.get(name, 1.0)
        b = betas[direction * count + k] if direction * count + k < len(betas) else _BETA.get(name, 0.0)
        # Gates are clipped before their activation; the cell on its way out is not (onnxruntime reads it so).
        bounded = bound is not None and k < 2
        return lambda x: _PLAIN[name](clip(x, -bound, bound) if bounded else x, a, b)

    return [bind(k, name) for k, name in enumerate(names)]


@dataclass(frozen=True)
class _Weights:
    """The parameters of one direction: W [G*H, I], R [G*H, H], biases [G*H]."""

    w: Value
    r: Value
    wb: Value | None
    rb: Value | None


def _weights(call: Call, direction: int) -> _Weights:
    w, r = (call[k].part(0, direction, direction + 1).squeeze(0) for k in (1, 2))
    bias = call.optional(3)
    if bias is None:
        return _Weights(w, r, None, None)
    both = bias.part(0, direction, direction + 1).squeeze(0)
    return _Weights(w, r, both.part(0, 0, w.shape[0]), both.part(0, w.shape[0], 2 * w.shape[0]))


def _plus(x: Value, bias: Value | None) -> Value:
    return x if bias is None else x + bias


def _gates(x: Value, count: int) -> list[Value]:
    """[B, G*H] as G tensors [B, H]."""
    size = x.shape[-1] // count
    return [x.part(x.rank - 1, k * size, (k + 1) * size) for k in range(count)]


def _unrolled(call: Call, states: int, make: Callable[[Call, int], tuple[_Weights, Step]]) -> list[Value]:
    """Y [T, D, B, H] and the last states [D, B, H] of every direction."""
    x = call[0].transpose(1, 0, 2) if call.attribute("layout") else call[0]
    steps, batch, _ = x.shape
    if steps > _MAX_STEPS:
        raise call.error(f"a sequence of {steps} steps is not unrolled", "feed it in pieces, with the state as input")
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[call.attribute("direction")]
    lengths = call.optional(4)
    outputs, finals = [], []
    for d, backwards in enumerate(directions):
        weights, step = make(call, d)
        hidden = weights.r.shape[1]
        current: tuple[Value, ...] = tuple(_initial(call, 5 + k, d, batch, hidden, x.dtype) for k in range(states))
        fed = _plus(x.reshape(steps * batch, x.shape[2]) @ weights.w.swap(0, 1), weights.wb)
        fed = fed.reshape(steps, batch, fed.shape[1])
        series: dict[int, Value] = {}
        for t in reversed(range(steps)) if backwards else range(steps):
            new = step(fed.part(0, t, t + 1).squeeze(0), current)
            seen = new[0]
            if lengths is not None and not _reaches(lengths, t):
                alive = (lengths.cast("i64") > t).unsqueeze(1)
                seen = select(alive, seen, 0.0)
                new = tuple(select(alive, a, b) for a, b in zip(new, current))
            current = new
            series[t] = seen
        outputs.append(concat([series[t].unsqueeze(0).unsqueeze(1) for t in range(steps)], 0))
        finals.append(current)
    y = concat(outputs, 1)
    last = [concat([f[k].unsqueeze(0) for f in finals], 0) for k in range(states)]
    if call.attribute("layout"):
        return [y.transpose(2, 0, 1, 3), *(v.transpose(1, 0, 2) for v in last)]
    return [y, *last]


def _reaches(lengths: Value, t: int) -> bool:
    """Whether every sequence is known to be longer than t."""
    return lengths.is_const and bool((lengths.node.value > t).all())


def _initial(call: Call, k: int, direction: int, batch: int, hidden: int, dtype: str) -> Value:
    given = call.optional(k)
    if given is None:
        return full((batch, hidden), 0.0, dtype)
    given = given.transpose(1, 0, 2) if call.attribute("layout") else given
    return given.part(0, direction, direction + 1).squeeze(0)


@onnx("RNN")
def rnn(call: Call) -> list[Value]:
    def make(call: Call, d: int) -> tuple[_Weights, Step]:
        (f,) = _activations(call, ["Tanh"], d)
        weights = _weights(call, d)
        r = weights.r.swap(0, 1)
        return weights, lambda x, states: (f(x + _plus(states[0] @ r, weights.rb)),)

    return _unrolled(call, 1, make)


@onnx("GRU")
def gru(call: Call) -> list[Value]:
    def make(call: Call, d: int) -> tuple[_Weights, Step]:
        f, g = _activations(call, ["Sigmoid", "Tanh"], d)
        weights = _weights(call, d)
        hidden = weights.r.shape[1]
        r, rb = weights.r.swap(0, 1), weights.rb
        rh = r.part(1, 2 * hidden, 3 * hidden)
        rhb = None if rb is None else rb.part(0, 2 * hidden, 3 * hidden)

        def step(x: Value, states: Sequence[Value]) -> tuple[Value, ...]:
            h = states[0]
            zx, rx, hx = _gates(x, 3)
            if call.attribute("linear_before_reset"):
                zr, rr, hr = _gates(_plus(h @ r, rb), 3)
                update, reset = f(zx + zr), f(rx + rr)
                candidate = g(hx + reset * hr)
            else:
                first = None if rb is None else rb.part(0, 0, 2 * hidden)
                zr, rr = _gates(_plus(h @ r.part(1, 0, 2 * hidden), first), 2)
                update, reset = f(zx + zr), f(rx + rr)
                candidate = g(hx + _plus((reset * h) @ rh, rhb))
            return ((1.0 - update) * candidate + update * h,)

        return weights, step

    return _unrolled(call, 1, make)


@onnx("LSTM")
def lstm(call: Call) -> list[Value]:
    def make(call: Call, d: int) -> tuple[_Weights, Step]:
        f, g, h = _activations(call, ["Sigmoid", "Tanh", "Tanh"], d)
        weights = _weights(call, d)
        r = weights.r.swap(0, 1)
        peephole = call.optional(7)
        p = None if peephole is None else _gates(peephole.part(0, d, d + 1), 3)

        def step(x: Value, states: Sequence[Value]) -> tuple[Value, ...]:
            hidden, cell = states
            i, o, forget, c = _gates(x + _plus(hidden @ r, weights.rb), 4)
            i = f(i if p is None else i + p[0] * cell)
            forget = 1.0 - i if call.attribute("input_forget") else f(forget if p is None else forget + p[2] * cell)
            new = forget * cell + i * g(c)
            o = f(o if p is None else o + p[1] * new)
            return o * h(new), new

        return weights, step

    return _unrolled(call, 2, make)
